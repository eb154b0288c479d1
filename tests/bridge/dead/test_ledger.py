"""By a ledger the next run knows what an earlier one has published, wherever that one was killed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead.ledger import Ledger, Sent
from exchange.errors import InputError

FIRST = Sent("a" * 32, "jobs", b"\x00\x01")
SECOND = Sent("b" * 32, "", b"", b"body")


def written(path: Path) -> bytes:
    ledger = Ledger(path, "queue q of h")
    ledger.note_sent([FIRST, SECOND])
    ledger.note("done", [FIRST.digest, SECOND.digest])
    ledger.note("gone", [FIRST.digest])
    ledger.note("undone", [FIRST.digest], "jobs")
    ledger.note_settled()
    ledger.note_sent([FIRST])
    ledger.close()
    return path.read_bytes()


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path / "l")
    ledger = Ledger(tmp_path / "l", "queue q of h")
    assert ledger.sent == {FIRST.digest: FIRST, SECOND.digest: SECOND}
    assert +ledger.done == {(SECOND.digest, ""): 1}
    assert +ledger.held == {SECOND.digest: 1}
    assert +ledger.kept == {(FIRST.digest, "jobs"): 1}
    assert ledger.unsure == {FIRST.digest}
    ledger.close()


@given(st.data())
def test_a_ledger_that_is_cut_anywhere_is_that_of_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "l"
    whole = written(path)
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    ledger = Ledger(path, "queue q of h")
    ledger.close()
    lines = whole[: whole[:size].rfind(b"\n") + 1]
    assert path.read_bytes() == (lines or json.dumps({"ledger": "queue q of h"}).encode() + b"\n")
    done = [json.loads(line)["done"] for line in lines.splitlines() if b'"done"' in line]
    undone = {json.loads(line)["undone"] for line in lines.splitlines() if b'"undone"' in line}
    assert {digest for digest, _ in +ledger.done} == {*done} - undone


def test_nothing_is_written_behind_a_line_that_a_full_disk_has_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, write, room = Ledger(tmp_path / "l", "queue q of h"), os.write, [100]
    ledger.note_sent([FIRST])
    before = (tmp_path / "l").read_bytes()

    def write_while_there_is_room(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= (count := write(file, data[: room[0]]))
        return count

    monkeypatch.setattr("bridge.dead.ledger.os.write", write_while_there_is_room)
    for _ in range(2):
        with pytest.raises(InputError, match="l: the ledger cannot be written: No space left on device"):
            ledger.note("done", [FIRST.digest] * 5)
        room[0] = 100  # there is room again
    ledger.close()
    assert before < (tmp_path / "l").read_bytes()
    Ledger(tmp_path / "l", "queue q of h").close()  # the torn line is cut off


def test_a_ledger_that_is_no_file_is_refused(tmp_path: Path) -> None:
    paths = [Path(os.devnull), tmp_path]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        paths.append(tmp_path / "pipe")
    for path in paths:
        with pytest.raises(InputError, match="a ledger must be"):
            Ledger(path, "queue q of h")


def test_a_ledger_of_another_queue_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "l"
    written(path)
    with pytest.raises(InputError, match="the ledger of queue q of h, and not of queue r of h"):
        Ledger(path, "queue r of h")
    for text in (
        "no JSON", "[]", "5", '{"done": "x"}', '{"ledger": "queue q of h"}\n{"done": "x"}',
        '{"ledger": "queue q of h"}\n{}', '{"ledger": "queue q of h"}\n{"taken": "x"}',
        '{"ledger": "queue q of h"}\n{"gone": []}', '{"ledger": "queue q of h"}\n[]',
        '{"ledger": "queue q of h"}\n{"sent": "x", "queue": "q", "header": "?"}',
        '{"ledger": "queue q of h"}\n{"sent": "x", "queue": "q", "header": 5}',
    ):  # fmt: skip
        path.write_text(text + "\n")
        with pytest.raises(InputError, match="not a line of a ledger"):
            Ledger(path, "queue q of h")
    with pytest.raises(InputError, match="No such file"):
        Ledger(tmp_path / "gone" / "l", "q")


def test_one_replay_at_a_time_uses_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l", "q")
    with pytest.raises(InputError, match="another replay is using it"):
        Ledger(tmp_path / "l", "q")
    ledger.close()
    Ledger(tmp_path / "l", "q").close()
