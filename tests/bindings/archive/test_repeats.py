"""A file that is there under several paths is read once, and the commands report it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import invoke

LINE = '{"exchange": "e", "routing_key": "a"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a topology, and an archive of two files with five messages."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.bindings").write_text("exchange e: fanout\nqueue q\ne -> q\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text(LINE * 2)
    (tmp_path / "in/b.jsonl").write_text(LINE * 3)
    return tmp_path


def count_audited(*archives: str) -> dict[str, Any]:
    result = invoke("audit", "--no-spark", "-t", "t.bindings", "--format", "json", *archives)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("archives", "repeated"),
    [
        (("in", "in"), [0, 2]),
        (("in/a.jsonl", "in"), [0, 1]),
        (("in", "./in/../in/b.jsonl"), [0, 1]),
        (("in", "link"), [0, 2]),
        (("link/a.jsonl", "in", "in"), [0, 1, 2]),
    ],
)
def test_an_audit_counts_a_file_once_however_often_it_is_named(
    folder: Path, archives: tuple[str, ...], repeated: list[int]
) -> None:
    (folder / "link").symlink_to("in")
    report = count_audited(*archives)
    assert report["audited"]["records"]["read"] == 5
    assert all(archive["files"] for archive in report["audited"]["archives"])
    result = invoke("audit", "--no-spark", "-t", "t.bindings", *archives)
    notes = zip(archives, repeated, strict=True)
    assert result.stderr.splitlines() == [
        f"{path}: files that are there under a second path or by a link, and are read once: {count}"
        for path, count in notes
        if count
    ]


def test_links_within_an_archive_are_read_once_by_all_commands(folder: Path) -> None:
    (folder / "in/a-link.jsonl").symlink_to("b.jsonl")
    (folder / "in/c.jsonl").hardlink_to(folder / "in/a.jsonl")
    report = count_audited("in")
    assert report["audited"]["records"]["read"] == 5
    found = json.loads(invoke("archive", "inspect", "--json", "in").stdout)
    assert (found["records"], len(found["files"])) == (5, 2)
    assert any(note.endswith("read once: 2") for note in found["notes"])
    result = invoke("archive", "convert", "in", "out.jsonl")
    assert "in: files that are there under a second path or by a link, and are read once: 2" in result.stderr
    assert len((folder / "out.jsonl").read_text().splitlines()) == 5
