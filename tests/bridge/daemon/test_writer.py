"""A log that nobody reads delays nothing: lines wait, then are dropped and counted."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.daemon import journal as writer_module
from bridge.daemon.journal import Journal, LineWriter
from tests.support.waiting import find_limit, wait_until


@contextmanager
def standard_error(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make standard error a pipe, and yield the end to read it from."""
    reader, into = os.pipe()
    with os.fdopen(into, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setattr(sys, "__stderr__", stream)
        yield reader
    os.close(reader)


def read_lines(reader: int, last: str) -> list[str]:
    """Read lines until one of them contains a text."""
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(reader, 1)
        lines.append(line.decode().rstrip("\n"))
    return lines


def test_all_lines_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with standard_error(monkeypatch) as reader:
        writer = LineWriter(str)
        for number in range(500):
            writer.write(f"line {number} of a queue \udcff")
        assert writer.flush(find_limit())
        assert read_lines(reader, "line 499") == [rf"line {number} of a queue \udcff" for number in range(500)]
        assert writer.dropped == 0


def test_lines_that_nobody_takes_are_dropped_and_their_number_is_written_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "LINES", 100)
    with standard_error(monkeypatch) as reader:
        journal = Journal(clock=lambda: 0.0)
        written = 0
        while journal.dropped <= 900:
            journal.write("warning", "refused", reason="x" * 1_000)
            written += 1
        journal.flush(0.0)  # it waits for nothing
        reported, taken = 0, 0
        while reported < journal.dropped:
            *refused, last = read_lines(reader, "warning dropped lines=")
            taken += len(refused)
            reported += int(last.rpartition("=")[2])
        assert reported == journal.dropped
        assert taken + reported == written


def test_the_event_loop_goes_on_while_the_log_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def log_and_work() -> int:
        steps = 0
        for _ in range(2_000):
            journal.write("warning", "refused", reason="x" * 1_000)
            await asyncio.sleep(0)
            steps += 1
        return steps

    with standard_error(monkeypatch) as reader:
        journal = Journal()
        assert asyncio.run(log_and_work()) == 2_000
        journal.write("info", "the end")
        read_lines(reader, "the end")


def test_a_thread_runs_only_while_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "IDLE", 0.01)
    with standard_error(monkeypatch) as reader:
        writer = LineWriter(str)
        for number in range(3):
            writer.write(f"line {number}")
            wait_until(lambda: not writer._runs)
        assert len(read_lines(reader, "line 2")) == 3


def test_a_stream_in_place_of_standard_error_gets_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar puts one there, to write lines above the bar."""
    bar = io.StringIO()
    monkeypatch.setattr(sys, "stderr", bar)
    writer = LineWriter(str)
    writer.write("a line")
    assert writer.flush(find_limit())
    assert bar.getvalue() == "a line\n"


def test_a_reader_that_is_gone_stops_the_log_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, into = os.pipe()
    with os.fdopen(into, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        os.close(reader)
        writer = LineWriter(str)
        writer.write("a line")
        assert writer.flush(find_limit())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_lines_that_a_full_disk_does_not_take_are_counted_and_named_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = LineWriter("{} lines dropped".format)
    with standard_error(monkeypatch) as reader:
        pipe = os.dup(sys.stderr.fileno())
        with Path("/dev/full").open("w") as disk:
            os.dup2(disk.fileno(), sys.stderr.fileno())
        for number in range(3):
            writer.write(f"line {number}")
        assert writer.flush(find_limit())
        assert writer.dropped == 3
        os.dup2(pipe, sys.stderr.fileno())
        os.close(pipe)
        writer.write("line 3")
        assert read_lines(reader, "dropped") == ["line 3", "3 lines dropped"]
        assert writer.flush(find_limit())
        assert writer.dropped == 3
