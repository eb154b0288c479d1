"""Files of other programs as a source: the bridge's file names their columns, as ``--column`` does at the audit."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.daemon.config import read_config
from bridge.endpoint import Disconnected
from bridge.endpoints.archive.config import ArchiveSource
from bridge.endpoints.archive.replay import Settled
from exchange import InputError
from tests.bridge.endpoints.archive.test_archive import replay_all
from tests.support.bridge.behaviour import on_a_loop

TOPOLOGY: Final = 'exchange orders: topic\nqueue all\norders -> all: "#"\n'
ROWS: Final = [
    {"at": 1_793_491_200, "rk": "order.eu", "meta": '{"urgent": true}', "doc": "first"},
    {"at": 1_793_491_260, "rk": "order.us", "meta": '{"n": 2}', "doc": "second"},
]
COLUMNS: Final = '{ headers = "meta", body = "doc", timestamp = "at" }'


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def write_lines(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_csv(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ROWS[0]])
        writer.writeheader()
        writer.writerows(ROWS)


WRITERS: Final[dict[str, Callable[[Path], None]]] = {
    "month.parquet": write_parquet, "month.jsonl": write_lines, "month.csv": write_csv,
}  # fmt: skip


def build(folder: Path, archive: str, keys: str) -> ArchiveSource:
    """Return the source of a bridge's file whose only source has further ``keys``."""
    (folder / "t.bindings").write_text(TOPOLOGY)
    file = folder / "bridge.toml"
    file.write_text(
        f'topology = "t.bindings"\n[sources.month]\nurl = "archive:{archive}"\n{keys}\n'
        '[targets.out]\nurl = "archive:out"\nqueues = ["all"]\n'
    )
    [inlet] = read_config(file, {}).inlets
    assert isinstance(inlet.source, ArchiveSource)
    return inlet.source


@pytest.mark.parametrize("name", WRITERS)
@on_a_loop
async def test_a_bridges_file_names_the_columns_of_other_programs(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    found = await replay_all(build(tmp_path, name, f'exchange = "orders"\ncolumns = {COLUMNS}'))
    messages = [delivery.message for delivery in found]
    assert [(m.exchange, m.routing_key, m.body) for m in messages] == [
        ("orders", "order.eu", b"first"), ("orders", "order.us", b"second"),
    ]  # fmt: skip
    assert [{**m.headers, "x-hashstar-id": None} for m in messages] == [
        {"urgent": True, "x-hashstar-id": None}, {"n": 2, "x-hashstar-id": None},
    ]  # fmt: skip
    assert [delivery.time for delivery in found] == [row["at"] * 1_000_000 for row in ROWS]  # type: ignore[operator]


@on_a_loop
async def test_the_exchange_may_be_a_column_and_the_routing_key_a_text(tmp_path: Path) -> None:
    write_lines(tmp_path / "month.jsonl")
    keys = 'without_bodies = true\ncolumns = { exchange = "doc", routing_key = "=k" }'
    source = build(tmp_path, "month.jsonl", keys)
    messages = [delivery.message for delivery in await replay_all(source)]
    assert [(m.exchange, m.routing_key) for m in messages] == [("first", "k"), ("second", "k")]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ('{ header = "meta" }', "'header' is no field of a message; did you mean 'headers'?"),
        ('{ headers = "" }', "columns.headers: must be a column or a path in one"),
        ("{ headers = 3 }", "columns.headers: must be a column or a path in one"),
        ('["headers"]', "columns: must be a table, and is a list"),
        ('"headers"', "columns: must be a table, and is 'headers'"),
    ],
)
def test_columns_that_cannot_be_are_refused(tmp_path: Path, columns: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        build(tmp_path, "month.jsonl", f"columns = {columns}")
    assert error in str(raised.value)


@on_a_loop
async def test_a_check_says_which_columns_are_taken_and_which_are_missing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "month.parquet")
    [archive, _] = await build(tmp_path, "month.parquet", f'exchange = "orders"\ncolumns = {COLUMNS}').check()
    assert archive.level == "ok"
    assert "exchange = 'orders', routing_key = rk, headers = meta, timestamp = at, body = doc" in archive.text
    [archive, _] = await build(tmp_path, "month.parquet", 'exchange = "orders"').check()
    assert archive.level == "error"
    assert "its columns are at, rk, meta, doc" in archive.text
    assert "in a bridge: columns" in archive.text


@on_a_loop
async def test_a_check_warns_of_columns_where_there_is_nothing_to_name(tmp_path: Path) -> None:
    traced = {
        "timestamp": "2026-11-21T06:28:00.431+00:00", "type": "published", "node": "r@h", "connection": "c",
        "vhost": "/", "user": "g", "channel": 1, "exchange": "orders", "queue": "none", "routed_queues": ["q"],
        "routing_keys": ["k"], "properties": {}, "payload": "",
    }  # fmt: skip
    (tmp_path / "trace.log").write_text(json.dumps(traced) + "\n")
    findings = await build(tmp_path, "trace.log", f"columns = {COLUMNS}").check()
    assert [(each.level, each.key) for each in findings] == [("ok", "url"), ("warning", "columns"), ("ok", "state")]
    assert "columns are named, and it is read by its own names" in findings[1].text


@on_a_loop
async def test_a_replay_is_not_continued_with_other_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "month.parquet")
    keys = f'exchange = "orders"\ncolumns = {COLUMNS}'
    assert len(await replay_all(build(tmp_path, "month.parquet", keys))) == 2
    assert await replay_all(build(tmp_path, "month.parquet", keys)) == []
    same_rows = keys.replace('"orders"', '"amq.topic"')
    assert await replay_all(build(tmp_path, "month.parquet", same_rows)) == []
    other = build(tmp_path, "month.parquet", keys.replace('"doc"', '"rk"'))
    assert [finding.level for finding in await other.check()] == ["ok", "error"]
    with pytest.raises(Disconnected, match="is of a replay with other columns: body = 'doc', headers = 'meta'"):
        await other.open()
    (tmp_path / ".month.parquet.month.replay.json").unlink()
    assert [delivery.message.body for delivery in await replay_all(other)] == [b"order.eu", b"order.us"]


TIMES: Final = 'exchange = "orders"\ncolumns = { headers = "meta", body = "doc", timestamp = "at" }'
ALL_TIMES: Final = f"{TIMES}\nsince = 2026-01-01\nuntil = 2027-01-01"


@pytest.mark.parametrize(
    ("keys", "before"),
    [
        (ALL_TIMES.replace("2026", "2025"), "since = 2026-01-01T00:00:00Z"),
        (ALL_TIMES.replace("2027", "2028"), "until = 2027-01-01T00:00:00Z"),
        (TIMES, "since = 2026-01-01T00:00:00Z, until = 2027-01-01T00:00:00Z"),
        (f"{ALL_TIMES}\nwithout_bodies = true", "without_bodies = false"),
    ],
)
@on_a_loop
async def test_a_replay_is_not_continued_with_another_selection_of_records(
    tmp_path: Path, keys: str, before: str
) -> None:
    write_parquet(tmp_path / "month.parquet")
    assert len(await replay_all(build(tmp_path, "month.parquet", ALL_TIMES))) == 2
    same = ALL_TIMES.replace("2026-01-01", "2026-01-01T01:00:00+01:00")
    assert await replay_all(build(tmp_path, "month.parquet", same)) == []
    other = build(tmp_path, "month.parquet", keys)
    [_, finding] = await other.check()
    assert finding.level == "error"
    assert finding.text.endswith(f"is of a replay of other records: {before}; remove it to begin anew")
    with pytest.raises(Disconnected, match="is of a replay of other records"):
        await other.open()
    (tmp_path / ".month.parquet.month.replay.json").unlink()
    assert len(await replay_all(other)) == 2


@on_a_loop
async def test_a_state_of_before_the_selection_was_kept_is_continued_with_any(tmp_path: Path) -> None:
    write_parquet(tmp_path / "month.parquet")
    assert len(await replay_all(build(tmp_path, "month.parquet", TIMES))) == 2
    state = tmp_path / ".month.parquet.month.replay.json"
    kept = json.loads(state.read_bytes())
    state.write_text(json.dumps({name: kept[name] for name in ("version", "files", "fingerprints", "columns")}))
    assert await replay_all(build(tmp_path, "month.parquet", ALL_TIMES)) == []


@pytest.mark.parametrize("until", ["2025-01-01", "2026-01-01", "2026-01-01T00:00:00Z"])
def test_a_window_in_which_no_time_is_is_a_mistake_of_the_file(tmp_path: Path, until: str) -> None:
    with pytest.raises(InputError) as raised:
        build(tmp_path, "month.parquet", f"since = 2026-01-01\nuntil = {until}")
    assert ":5: [sources.month] until: must be after since: nothing is between them" in str(raised.value)


def test_a_state_of_before_columns_were_kept_is_of_columns_found_by_their_names(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"version": 1, "files": {"f": [5, null]}}')
    assert [*Settled.read(state).files.values()] == [(5, None)]
