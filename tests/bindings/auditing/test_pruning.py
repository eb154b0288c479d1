"""Parts are left out only if no record in them is wanted; records exactly at a bound are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bindings.archive.formats.parquet import Parquet
from bindings.archive.reading import Split
from bindings.auditing.spark.source import Wanted, prune

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """Write three row groups with times 10 to 19, 20 to 29 and 30 to 39, each of another exchange."""
    path = tmp_path / "a.parquet"
    times = [EPOCH + timedelta(microseconds=n) for n in range(10, 40)]
    table = pa.table({
        "exchange": [name for name in "abc" for _ in range(10)],
        "time": pa.array(times, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=10)
    return str(path)


def kept(archive: str, wanted: Wanted) -> list[int]:
    splits = [Split(archive, n, n + 1) for n in range(3)]
    return [split.start for split in prune(Parquet(), archive, splits, wanted)]


@pytest.mark.parametrize(
    ("first", "last", "groups"),
    [
        (None, None, [0, 1, 2]),
        (19, None, [0, 1, 2]), (20, None, [1, 2]), (39, None, [2]), (40, None, []),
        (None, 30, [0, 1, 2]), (None, 29, [0, 1]), (None, 10, [0]), (None, 9, []),
        (19, 20, [0, 1]), (29, 30, [1, 2]), (25, 25, [1]), (29, 29, [1]), (20, 20, [1]),
    ],
)  # fmt: skip
def test_a_row_group_that_begins_or_ends_at_a_bound_is_read(
    archive: str, first: int | None, last: int | None, groups: list[int]
) -> None:
    assert kept(archive, Wanted(None, first, last)) == groups


def test_the_narrowest_of_several_bounds_counts() -> None:
    wanted = Wanted().since(5).since(9).since(7).until(50).until(30).until(40)
    assert wanted == Wanted(None, 9, 30)
    assert wanted.with_exchanges(["a", "b"]).with_exchanges(["b", "c"]).exchanges == frozenset({"b"})


def test_only_row_groups_that_may_have_the_exchange_are_read(archive: str) -> None:
    assert kept(archive, Wanted().with_exchanges(["b"])) == [1]
    assert kept(archive, Wanted().with_exchanges(["a", "c"])) == [0, 2]
    assert kept(archive, Wanted().with_exchanges(["z"])) == []
    assert kept(archive, Wanted().with_exchanges(["a"]).since(20)) == []


@pytest.mark.parametrize("exchanges", [[b"a", b"c"], [5, 10]])
def test_exchanges_that_are_no_texts_prune_nothing(exchanges: list[bytes] | list[int], tmp_path: Path) -> None:
    """Columns of other programs are in the order of their own type: 10 is after 5, but "10" before "5"."""
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"exchange": exchanges, "routing_key": ["k", "k"]}), path)
    wanted = Wanted(frozenset(["b" if exchanges[0] == b"a" else "10"]))
    assert prune(Parquet(), str(path), [Split(str(path), 0, 1)], wanted) == [Split(str(path), 0, 1)]
