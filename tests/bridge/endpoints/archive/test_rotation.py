"""The order in which a spool becomes parts: files are synced before anything depends on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.archive import spool as spool_module
from bridge.endpoints.archive.columns import prepare_batch
from bridge.endpoints.archive.rotation import rotate
from bridge.endpoints.archive.spool import Spool, SpoolGone, find_spools, read_frames
from exchange import Message
from tests.support.archives.parts import find_parts


def make_batch(*bodies: bytes, queues: tuple[str, ...] = ("a", "b")) -> Any:
    messages = [Message("x", "k", {}, {}, body) for body in bodies]
    outgoing = [
        Outgoing(message, Delivery(message, position=n), queues[n % len(queues)]) for n, message in enumerate(messages)
    ]
    return prepare_batch(outgoing, {"a": "a", "b": "b"}, 1_700_000_000_000_000)[0]


def make_spool(folder: Path) -> Spool:
    spool = Spool(folder)
    spool.append(make_batch(b"1", b"2", b"3"))
    spool.append(make_batch(b"4"))
    return spool


def count_rows(folder: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in find_parts(folder))


@pytest.fixture
def disk_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Return the list of calls on the disk, each with the name of its file below the folder, as they are made."""
    calls: list[tuple[str, str]] = []

    def name_of(file: Any) -> str:
        path = Path(f"/proc/self/fd/{file}").readlink() if isinstance(file, int) else Path(file)
        return str(path.relative_to(tmp_path))

    def record(owner: Any, name: str, place: int) -> None:
        operation = getattr(owner, name)

        def recording(*arguments: Any, **named: Any) -> Any:
            calls.append((name, name_of(arguments[place])))
            return operation(*arguments, **named)

        monkeypatch.setattr(owner, name, recording)

    record(os, "fsync", 0)
    record(os, "fdatasync", 0)
    record(os, "ftruncate", 0)
    record(Path, "rename", 1)
    record(Path, "unlink", 0)
    return calls


def test_parts_are_synced_then_named_then_the_names_are_synced_and_the_spool_is_removed_last(
    tmp_path: Path, disk_calls: list[tuple[str, str]]
) -> None:
    spool = make_spool(tmp_path)
    spool.close()
    disk_calls.clear()
    rotate(spool.path)
    named = [path for name, path in disk_calls if name == "rename"]
    assert len(named) == 2
    synced = [at for at, (name, path) in enumerate(disk_calls) if name == "fsync" and path.endswith(".parquet")]
    first_named = disk_calls.index(("rename", named[0]))
    last_named = disk_calls.index(("rename", named[-1]))
    assert len(synced) == 2
    assert max(synced) < first_named
    gone = disk_calls.index(("unlink", spool.path.name))
    emptied = disk_calls.index(("ftruncate", spool.path.name))
    folders = {str(parent) for path in named for parent in Path(path).parents}
    assert "." in folders
    between = {path for name, path in disk_calls[last_named + 1 : emptied] if name == "fsync"}
    assert between >= folders  # the names of the parts, and of the folders that are new
    assert last_named < emptied < gone
    assert ("fsync", ".") in disk_calls[gone + 1 :]
    assert count_rows(tmp_path) == 4


def test_a_spool_that_became_parts_differs_from_one_that_was_removed(tmp_path: Path) -> None:
    parts, taken = make_spool(tmp_path), make_spool(tmp_path)
    parts.release()
    assert rotate(parts.path) is not None
    taken.path.unlink()
    assert not parts.is_lost()
    assert taken.is_lost()
    parts.close()
    taken.close()


def test_damage_in_the_middle_is_not_counted_as_torn_at_the_end(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    spool.append(make_batch(b"5"))
    spool.close()
    sizes = [frame.size for frame in read_frames(spool.path)]
    data = bytearray(spool.path.read_bytes())
    start = len(data) - sum(sizes)
    data[start + sizes[0] + 20] ^= 0xFF
    spool.path.write_bytes(bytes(data) + b"torn")
    rotated = rotate(spool.path)
    assert rotated == (4, 4, sizes[1])
    assert [path.name[:9] for path in tmp_path.iterdir() if path.name.startswith(".")] == [".damaged-"]


def test_a_batch_that_could_not_be_synced_is_not_in_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    size = spool.path.stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            spool.append(make_batch(b"lost"))
    assert spool.path.stat().st_size == spool.size == size
    assert spool.rows == 4
    spool.close()
    assert [frame.batch is not None for frame in read_frames(spool.path)] == [True, True]


def test_a_batch_in_a_spool_that_was_moved_is_not_safe(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    spool.path.rename(tmp_path / "elsewhere")
    with pytest.raises(SpoolGone):
        spool.append(make_batch(b"lost"))
    assert spool.rows == 4
    spool.close()


def test_spools_are_in_the_order_in_which_they_were_made_even_if_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([5, 1, 9, 3, 3])
    monkeypatch.setattr(spool_module, "_last_moment", 0)
    monkeypatch.setattr(spool_module, "time_ns", lambda: next(times) * 1_000_000_000)
    spools = [Spool(tmp_path) for _ in range(5)]
    assert find_spools(tmp_path) == [spool.path for spool in spools]
    for spool in spools:
        spool.discard()
