"""Only the complete part of a growing file is read, and damage is skipped as soon as something follows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from bindings.archive.formats.connect import Connect
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.formats.parquet import Parquet
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingText
from bindings.archive.reading import Bad, Format
from bindings.archive.rocketmq.log import RocketmqLog
from exchange import InputError
from tests.support.archives import growing, kafka_files, rocketmq_files

LINE = b'{"exchange": "e", "routing_key": "k"}\n'


def taken(form: Format, path: Path, contents: list[bytes], split_bytes: int = 100) -> tuple[list[int], list[Bad]]:
    """Return the number of records read after each state of a file, and all that was bad."""
    counts, bad, end = [], [], 0
    for content in contents:
        path.write_bytes(content)
        settled = form.plan_complete(str(path), end, split_bytes)
        items = [item for split in settled.splits for item in form.read(split)]
        counts.append(sum(len(item) for item in items if isinstance(item, pa.RecordBatch)))
        bad += [item for item in items if isinstance(item, Bad)]
        end = settled.end
    return counts, bad


def test_lines_are_complete_with_their_end_or_as_a_whole_object(tmp_path: Path) -> None:
    states = [LINE[:9], LINE, LINE + LINE[:-2], LINE * 2 + LINE[:-1], LINE * 4]
    assert taken(JsonLines(), tmp_path / "m.jsonl", states) == ([0, 1, 0, 2, 1], [])
    assert taken(JsonLines(), tmp_path / "n.jsonl", [b"{torn\n" + LINE[:5], b"{torn\n" + LINE])[0] == [0, 1]


def test_a_line_longer_than_a_read_is_found(tmp_path: Path) -> None:
    long = json.dumps({"exchange": "e", "routing_key": "k", "more": "x" * 300_000}).encode() + b"\n"
    assert taken(JsonLines(), tmp_path / "m.jsonl", [LINE + long[:250_000], LINE + long + LINE])[0] == [1, 2]


def batches(count: int) -> list[bytes]:
    return [kafka_files.batch(n, [kafka_files.KafkaRecord(0, 0, b"k")]) for n in range(count)]


def test_a_damaged_last_batch_is_bad_once_another_follows(tmp_path: Path) -> None:
    first, second, third = batches(3)
    damaged = second[:-1] + bytes([second[-1] ^ 1])
    folder = tmp_path / "t-0"
    folder.mkdir()
    counts, bad = taken(
        KafkaSegment(), folder / "0.log", [first + second[:30], first + damaged, first + damaged + third]
    )
    assert counts == [1, 0, 1]
    assert [each.offset for each in bad] == [len(first)]


def test_a_commit_log_is_complete_up_to_its_last_whole_record(tmp_path: Path) -> None:
    records: list[bytes] = []
    for _ in range(3):
        records.append(rocketmq_files.message(len(b"".join(records)), "t", {"KEYS": "k"}, b"body"))
    whole = b"".join(records)

    def file(content: bytes) -> bytes:
        return content + bytes(2000 - len(content))

    path = tmp_path / "00000000000000000000"
    two = len(records[0] + records[1])
    states = [b"", whole[: two - 2], whole[:two], whole, whole + rocketmq_files.blank(2000 - len(whole))]
    assert taken(RocketmqLog(), path, [file(state) for state in states]) == ([0, 1, 1, 1, 0], [])
    assert RocketmqLog().plan_complete(str(path), len(whole)).end == 2000
    torn = file(records[0] + b"\1" * len(records[1]))
    healed = file(records[0] + b"\1" * len(records[1]) + records[2])
    counts, bad = taken(RocketmqLog(), path, [torn, healed])
    assert counts == [1, 1]
    assert [each.offset for each in bad] == [len(records[0])]


def test_a_text_entry_ends_where_the_next_begins(tmp_path: Path) -> None:
    made = growing._text_trace(Random(3), tmp_path, 5)
    counts, bad = taken(TracingText(), tmp_path / "t.txt", [made.content[:n] for n in range(0, len(made.content), 50)])
    rest, _ = taken(TracingText(), tmp_path / "t.txt", [made.content])
    assert (sum(counts), bad) == (rest[0], [])


@pytest.mark.parametrize("torn", [0, 20, -1])
def test_files_that_are_read_as_a_whole_wait_for_their_end(torn: int, tmp_path: Path) -> None:
    rabtap = b'{"DeliveryTag": 1, "Exchange": "e", "RoutingKey": "k"}'
    parquet = growing._parquet(Random(1), tmp_path, 9).content
    for form, name, content in (
        (JsonLines(), "m.jsonl.gz", gzip.compress(LINE * 9)), (Parquet(), "p.parquet", parquet),
        (Rabtap(), "r.json", rabtap), (Connect(), "t+0+0.json", b'{"a": 1}\n{"b": 222222222}\n{}'),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content[:torn])
        assert form.plan_complete(str(path)).splits == []
        path.write_bytes(content)
        settled = form.plan_complete(str(path))
        assert settled.splits
        assert not settled.is_open
        if not isinstance(form, Parquet) or settled.end:
            with pytest.raises(InputError, match="what was added is not counted"):
                form.plan_complete(str(path), settled.end)


def test_parquet_continues_with_the_remaining_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    path.write_bytes(growing._parquet(Random(1), tmp_path, 9).content)
    splits = Parquet().plan_complete(str(path), 0, 1).splits
    assert len(splits) > 1
    assert Parquet().plan_complete(str(path), splits[1].start, 1).splits == splits[1:]
