"""Files of a followed archive that are moved, replaced or truncated while it is read, and between two runs."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.archive.config import ArchiveSource
from bridge.endpoints.archive.files import ArchiveFile
from bridge.endpoints.archive.replay import Chunk, Done, Replay, ReplayWindow, Settled
from tests.support.bridge.behaviour import on_a_loop
from tests.support.tiers import examples
from tests.support.waiting import until

ROTATED = 4


def line(number: int) -> str:
    return json.dumps({"exchange": "in", "routing_key": "k", "body": str(number)}) + "\n"


def append(file: Path, numbers: range) -> None:
    with file.open("a") as log:
        log.write("".join(map(line, numbers)))


class Reader:
    """Reads a log's folder as a bridge does that settles all that it reads, and may be ended at any time."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self.numbers: list[int] = []
        """Bodies in the order in which they were read."""
        self.start()

    def start(self) -> None:
        self._settled = Settled.read(self.state)
        self._replay = Replay(str(self.folder), ReplayWindow(), self._settled.files, grows=True)

    def read(self) -> None:
        for item in self._replay.read_items():
            if isinstance(item, Chunk):
                self.numbers += [int(record.message.body) for _, record in item.records]
                for number, _ in item.records:
                    self._settled.files[item.file] = number + 1, None
            elif isinstance(item, Done):
                self._settled.files[item.file] = item.records, item.size
        self._settled.write(self._settled.files)


@contextmanager
def new_log() -> Iterator[tuple[Path, Reader]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "logs"
        folder.mkdir()
        yield folder / "log.jsonl", Reader(folder, Path(name) / "state")


def rotate(log: Path) -> None:
    """Move the log and those before it, as ``logrotate`` does, and drop the last."""
    names = [log, *[log.with_name(f"log-{n}.jsonl") for n in range(1, ROTATED)]]
    for older, newer in reversed([*zip(names[1:], names, strict=False)]):
        if newer.exists():
            newer.replace(older)


STEPS = st.lists(st.sampled_from(["append", "append", "rotate", "truncate", "replace", "restart", "read"]), max_size=25)


@examples(200)
@given(STEPS, st.booleans())
def test_whatever_becomes_of_a_log_each_of_its_records_is_read_once_and_in_order(steps: list[str], gaps: bool) -> None:
    with new_log() as (log, reader):
        written = 0
        for step in [*steps, "append", "read"]:
            if step == "append":
                append(log, range(written, written + 3))
                written += 3
            elif step == "restart":
                reader.start()
            elif step == "read":
                reader.read()
            else:
                # What a truncation or a removal deletes unread is gone, and so is what leaves the last place.
                reader.read()
                if step == "rotate":
                    if gaps:
                        append(log, range(written, written + 2))
                        written += 2
                    rotate(log)
                elif log.exists() and step == "truncate":
                    log.write_text("")
                elif log.exists():
                    log.unlink()
        assert reader.numbers == [*range(written)]


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("restart", [False, True])
def test_a_file_in_the_place_of_another_is_read_from_its_beginning(count: int, restart: bool) -> None:
    with new_log() as (log, reader):
        append(log, range(3))
        reader.read()
        other = log.with_name(".other")
        append(other, range(100, 100 + count))
        other.replace(log)
        if restart:
            reader.start()
        reader.read()
        assert reader.numbers == [0, 1, 2, *range(100, 100 + count)]


def test_a_file_of_the_same_beginning_is_read_on_unless_it_has_become_shorter() -> None:
    with new_log() as (log, reader):
        append(log, range(200))
        reader.read()
        copy = log.with_name(".copy")
        shutil.copy(log, copy)
        copy.replace(log)  # restored from a backup: another file on the disk, and the same records
        append(log, range(200, 202))
        reader.start()
        reader.read()
        assert reader.numbers == [*range(202)]
        log.write_text("".join(map(line, range(190))))
        reader.read()
        assert reader.numbers == [*range(202), *range(190)]


def test_a_state_of_an_earlier_release_is_continued(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "log.jsonl", range(5))
    (tmp_path / "state").write_text('{"version":1,"files":{"log.jsonl":[3,null]}}')
    reader = Reader(tmp_path / "logs", tmp_path / "state")
    reader.read()
    assert reader.numbers == [3, 4]


def test_what_was_read_of_a_file_that_is_gone_is_not_kept_for_the_next_one_of_its_name(tmp_path: Path) -> None:
    old, new = ArchiveFile("log", is_gone=True), ArchiveFile("log")
    Settled(tmp_path / "state").write({new: (1, None), old: (7, None)})
    assert [(each.name, done) for each, done in Settled.read(tmp_path / "state").files.items()] == [("log", (1, None))]


@on_a_loop
async def test_nothing_is_read_while_what_is_settled_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "log.jsonl", range(5))
    state = tmp_path / "states" / "state"
    state.parent.mkdir()
    source = ArchiveSource("r", str(tmp_path / "logs"), state, follow=True)
    await source.open()
    found: list[Delivery] = [*await source.read(3)]
    state.parent.rename(tmp_path / "away")
    source.settle(found[-1])
    lost = await until(lambda: source.lost)
    assert "cannot be kept" in str(lost)
    with pytest.raises(Disconnected, match="cannot be kept"):
        await source.read(3)
    await source.close()
    with pytest.raises(Disconnected, match="state: how far the replay is settled cannot be kept"):
        await source.open()
    state.parent.mkdir()
    await source.open()
    assert source.lost is None
    assert [each.message.body for each in await source.read(3)] == [b"3", b"4"]
    await source.close()


@on_a_loop
async def test_what_is_settled_while_the_last_settling_is_written_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else may be settled for hours, and a process that is killed would read it again."""
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "log.jsonl", range(5))
    source = ArchiveSource("r", str(tmp_path / "logs"), tmp_path / "state", follow=True)
    await source.open()
    found = await source.read(5)
    write, loop = Settled.write, asyncio.get_running_loop()

    def settle_meanwhile(self: Settled, files: Any) -> None:
        monkeypatch.setattr(Settled, "write", write)
        asyncio.run_coroutine_threadsafe(settle_last(), loop).result()
        write(self, files)

    async def settle_last() -> None:
        source.settle(found[-1])

    monkeypatch.setattr(Settled, "write", settle_meanwhile)
    source.settle(found[0])
    assert source._keeping is not None
    await source._keeping
    assert [count for count, _ in Settled.read(tmp_path / "state").files.values()] == [5]
    await source.close()
