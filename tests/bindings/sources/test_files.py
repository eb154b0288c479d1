"""Files from outside are bounded, and files of ours come whole, with their final mode, never through a planted link."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from bindings.sources import files
from bindings.sources.files import gunzip, make_folders, open_file, read_content, read_whole, save_lines
from bindings.sources.open import open_source
from exchange.errors import InputError
from exchange.files.replacing import PRIVATE, create_exclusively, replace_file
from tests.support.program import run_program


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENT_BYTES", 3 << 20)
    fits = gzip.compress(b" " * (3 << 20))
    assert len(gunzip(fits, "x")) == 3 << 20
    with pytest.raises(InputError, match=r"x: unpacked: too large"):
        gunzip(gzip.compress(b" " * ((3 << 20) + 1)), "x")


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENT_BYTES", 3 << 20)
    with Path("/dev/zero").open("rb") as zeros, pytest.raises(InputError, match=r"x: too large"):
        read_whole(zeros, "x")


def test_a_pipe_or_a_device_with_a_name_is_no_file(tmp_path: Path) -> None:
    """Opening the pipe would wait for a writer, perhaps for ever."""
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(InputError, match="cannot be read: it is a pipe or a device; save what it gives to a file"):
            read_content(name)
        with pytest.raises(OSError, match="pipe or a device"):
            open_file(name)


def test_a_process_substitution_of_the_shell_is_read_to_its_end() -> None:
    """``<(...)`` is a pipe that is open already, also when its writer has ended."""
    reader, writer = os.pipe()
    try:
        os.write(writer, b"queue q\n")
        os.close(writer)
        assert read_content(f"/dev/fd/{reader}") == b"queue q\n"
    finally:
        os.close(reader)
    assert read_content("/dev/null") == b""


def test_a_name_that_no_file_can_have_is_an_error_that_names_it() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_content("a\0b")
    with pytest.raises(InputError, match="cannot be read"):
        open_source("x" * 5000)


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for planted in (".out.json.part", "out.json.part", f".out.json.{os.getpid()}.part"):
        (tmp_path / planted).symlink_to(victim)
    save_lines(str(tmp_path / "out.json"), ["{}"])
    assert victim.read_text() == "kept"
    assert (tmp_path / "out.json").read_text() == "{}"
    assert not (tmp_path / "out.json").is_symlink()
    with open(create_exclusively(tmp_path / "out.json.part"), "wb") as file:  # noqa: PTH123
        file.write(b"x")
    assert victim.read_text() == "kept"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666])
def test_a_file_has_its_final_mode_before_its_first_byte(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    target.chmod(mode)
    with replace_file(target) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
        assert target.read_text() == "old"
        file.write(b"new")
    assert (target.read_text(), mode_of(target)) == ("new", mode)


def test_a_new_file_is_not_readable_by_everybody(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        save_lines(str(tmp_path / "out.json.gz"), ["{}"])
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "out.json.gz") == PRIVATE


def test_after_an_exception_nothing_has_changed(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def break_off() -> None:
        with replace_file(target) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_text() == "old"


def test_a_link_to_a_file_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    save_lines(str(link), ["new"])
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    save_lines("/dev/null", ["gone"])
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left"):
        save_lines("/dev/full", ["x"])


def test_new_folders_are_for_owner_and_group_only(tmp_path: Path) -> None:
    """Those above, too; what is there keeps its mode."""
    tmp_path.chmod(0o755)
    make_folders(tmp_path / "a" / "b" / "c")
    make_folders(tmp_path / "a" / "b" / "c")
    assert [mode_of(tmp_path / name) for name in ("", "a", "a/b", "a/b/c")] == [0o755, 0o750, 0o750, 0o750]
    (tmp_path / "file").write_text("")
    for path in ("file", "file/d"):
        with pytest.raises(NotADirectoryError):
            make_folders(tmp_path / path)


def test_files_with_messages_are_not_readable_by_everybody(tmp_path: Path) -> None:
    """Every file and folder that is new, under the usual umask."""
    archive, topology = tmp_path / "m.jsonl", tmp_path / "t.bindings"
    archive.write_text("".join([
        json.dumps({"exchange": "e", "routing_key": f"k{n}", "timestamp": 1_700_000_000 + n * 86_400}) + "\n"
        for n in range(3)
    ]))  # fmt: skip
    topology.write_text("exchange e: topic\nqueue q\ne -> q: '#'\n".replace("'", '"'))
    out = tmp_path / "new"
    old = os.umask(0o022)
    try:
        for arguments in (
            ["archive", "convert", str(archive), str(out / "parts")],
            ["archive", "convert", str(archive), str(out / "lines.jsonl")],
            ["archive", "convert", str(archive), str(out / "one.parquet")],
            ["convert", str(topology), str(out / "definitions.json")],
            ["audit", "run", "--no-spark", "-t", str(topology), str(archive), "--tables", str(out / "tables"),
             "--json", str(out / "a.json"), "--html", str(out / "a.html"), "--save-tally", str(out / "a.tally")],
        ):  # fmt: skip
            ended = run_program(*arguments)
            assert ended.returncode == 0, ended
    finally:
        os.umask(old)
    made = [out, *out.rglob("*")]
    assert len([path for path in made if path.name.startswith("part-")]) >= 3
    wrong = [(str(path), oct(mode_of(path))) for path in made if mode_of(path) != (0o750 if path.is_dir() else PRIVATE)]
    assert wrong == []


def test_data_behind_gzipped_data_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings.gz"
    path.write_bytes(gzip.compress(b"exchange x: topic\n") + b"trailing")
    for arguments in (("check", str(path)), ("explain", "-t", str(path), "x")):
        result = run_program(*arguments)
        assert result.returncode == 2
        assert result.stderr == (
            f"hashstar: {path}: something follows the gzipped data that is not gzipped; pack it anew\n"
        )
    path.write_bytes(gzip.compress(b"exchange x: topic\n") + gzip.compress(b"queue q\n") + bytes(10))
    assert read_content(str(path)) == b"exchange x: topic\nqueue q\n"
