"""Lines that Arrow reads otherwise than `add_line` are not Arrow's to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.formats.json_lines import JsonLines, _read_by_arrow
from bindings.archive.reading import LineBlock
from tests.support.archives.reads import read

PLAIN = {"exchange": "x", "routing_key": "a.b", "vhost": "/", "timestamp": 1.5}


@pytest.mark.parametrize(
    "odd",
    [
        {"exchange": "x\0"},
        {"routing_key": "a\0b"},
        {"vhost": "v\0"},
        {"exchange": "amq.rabbitmq.trace"},
        {"timestamp": 1767225600123},
        {"timestamp": -9_000_000_000.5},
        {"timestamp": 9e9},
    ],
    ids=repr,
)
def test_a_block_with_an_odd_value_is_read_line_by_line(tmp_path: Path, odd: dict[str, Any]) -> None:
    lines = [PLAIN, {**PLAIN, **odd}, PLAIN]
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert _read_by_arrow(LineBlock(raw, 0), "f", None) is None
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    found = read(JsonLines(), path)
    if odd.get("exchange") == "amq.rabbitmq.trace":
        assert len(found.records) == 2
        return
    assert len(found.records) == 3
    record = found.records[1]
    assert record.message.exchange == odd.get("exchange", "x")
    assert record.message.routing_key == odd.get("routing_key", "a.b")
    assert record.vhost == odd.get("vhost", "/")


def test_one_with_plain_values_is_read_by_arrow() -> None:
    raw = (json.dumps(PLAIN).encode() + b"\n") * 3
    assert _read_by_arrow(LineBlock(raw, 0), "f", None) is not None
