"""How often files are opened: what a report says of them is asked once, whatever the report says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.inspection import inspect_splits
from bridge.dead.reading import Bounds, read_archive
from bridge.endpoints.archive.checking import check_source
from bridge.endpoints.archive.replay import ReplaySelection
from tests.support.program import invoke

_opened: list[str] = []
_is_counting = False


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_counting and event == "open" and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_count)  # which cannot be removed


@contextmanager
def _counting() -> Iterator[None]:
    global _is_counting  # noqa: PLW0603
    _opened.clear()
    _is_counting = True
    try:
        yield
    finally:
        _is_counting = False


def _count_openings(folder: Path, use: Callable[[], object]) -> int:
    with _counting():
        use()
    return len([path for path in _opened if path.startswith(str(folder))])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of another program: what is in one is known by opening it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.csv").write_text("exch,rkey,ts\nx,k,1700000000\n")
    return folder


def test_each_report_on_an_archive_opens_its_files_once_for_what_it_says_of_them(folder: Path, tmp_path: Path) -> None:
    archive = detect(str(folder))
    detecting = _count_openings(folder, lambda: detect(str(folder)))
    describing = _count_openings(folder, archive.list_contents)
    reading = _count_openings(folder, lambda: inspect_splits(archive.plan()))
    assert min(detecting, describing, reading) >= len(archive.files)
    whole = detecting + describing + reading
    assert _count_openings(folder, lambda: invoke("archive", "inspect", folder)) <= whole
    assert _count_openings(folder, lambda: invoke("archive", "inspect", "--json", folder)) <= whole
    assert _count_openings(folder, lambda: invoke("archive", "convert", folder, tmp_path / "out")) <= whole
    letters = partial(read_archive, str(folder), bounds=Bounds(None, 1), take=lambda _: None, step=lambda _, __: None)
    mapping = ReplaySelection().mapping
    assert _count_openings(folder, lambda: letters(mapping=mapping)) <= whole
    checked = _count_openings(folder, lambda: check_source(str(folder), ReplaySelection(), None, follow=False))
    assert checked < detecting + describing
