"""The state of followed files: where a file was cut, and which notices were given."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.reading import Split
from bindings.auditing.local.planning import PlannedFile, group_into_tasks
from bindings.auditing.spark.growth import Growth
from tests.support.archives.kafka_files import KafkaRecord, batch

LINE = b'{"exchange": "orders", "routing_key": "order.new"}\n'


class Followed:
    """An archive that a process follows."""

    def __init__(self, folder: Path) -> None:
        (folder / "archive").mkdir()
        self.folder = folder / "archive"
        self._growth = Growth(str(self.folder), folder / "state")
        self._seen = 0

    def look(self) -> tuple[list[tuple[int, int | None]], list[str]]:
        """Return the new splits and the notices."""
        last = self._growth.look()
        steps = self._growth.steps(self._seen, last)
        self._seen = last
        splits = [(split.start, split.end) for step in steps for _, split in step.splits]
        return splits, [notice for step in steps for notice in step.notices]


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def batches() -> Iterator[bytes]:
    """Return batches of a partition, all of one size, larger than the beginning by which files are recognised."""
    for offset in count():
        yield batch(offset, [KafkaRecord(0, key=b"k", value=bytes(100_000))])


def test_records_written_behind_a_cut_are_read_from_there(followed: Followed) -> None:
    """A log of Kafka lost its last batches and grew by others, which begin where it was cut."""
    path = followed.folder / "orders-0" / f"{0:020}.log"
    path.parent.mkdir()
    some = batches()
    size = len(next(some))
    made = [next(some) for _ in range(8)]
    path.write_bytes(b"".join(made[:4]))
    assert followed.look() == ([(0, 4 * size)], [])
    path.write_bytes(b"".join(made[:2]))
    splits, notices = followed.look()
    assert splits == []
    assert [f"{2 * size} bytes shorter" in notice for notice in notices] == [True]
    path.write_bytes(b"".join([*made[:2], *made[4:5]]))
    assert followed.look() == ([(2 * size, 3 * size)], [])
    path.write_bytes(b"".join([*made[:2], *made[4:]]))
    assert followed.look() == ([(3 * size, 6 * size)], [])


def test_a_notice_about_a_file_comes_once(followed: Followed) -> None:
    path = followed.folder / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINE))
    assert followed.look()[1] == []
    said = []
    for number in range(2, 6):
        path.write_bytes(path.read_bytes() + gzip.compress(LINE * number))
        said += followed.look()[1]
    assert len(said) == 1
    assert "what was added is not counted" in said[0]


@pytest.mark.parametrize("exact", [True, False])
def test_neighbouring_splits_are_joined_only_if_both_are_exact_or_neither(exact: bool) -> None:
    """A record begins at the start of an exact split; that of another split may begin before it."""
    form = JsonLines()
    first, second = Split("f", 0, 10, exact=True), Split("f", 10, 20, exact=exact)
    [task] = group_into_tasks([(PlannedFile("f", form, 20), [first, second])], 1_000)
    assert [split for _, split in task.splits] == ([Split("f", 0, 20, exact=True)] if exact else [first, second])
