"""The kept corpus, without atheris: seeds are read, and what fuzzing found once stays mended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from bindings.archive.formats.recognition import FORMATS
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.archives import TARGETED
from tests.fuzz.target import offline
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import LONGEST

OPEN: Final[dict[str, str]] = {}
"""Findings that are not mended yet -> why. One that is mended must leave this table."""
LARGEST: Final = 300_000
"""Maximum size in bytes of the whole corpus: it is in every clone."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", TARGETS)
def test_every_input_of_the_corpus_is_read_or_refused_in_the_declared_ways(name: str) -> None:
    target = TARGETS[name]
    wrong: dict[str, Exception] = {}
    with offline():
        for path in _inputs(name):
            try:
                target.check(path.read_bytes())
            except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
                wrong[f"{name}/{path.name}"] = error
    expected = {each for each in OPEN if each.startswith(f"{name}/")}
    for each, problem in wrong.items():
        if each not in expected:
            raise AssertionError(f"{each}: {type(problem).__name__}") from problem
    assert expected == wrong.keys()


def test_the_corpus_is_small_and_has_seeds_for_every_target_and_no_others() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert all(any(path.name.startswith("seed-") for path in _inputs(name)) for name in TARGETS)
    sizes = [path.stat().st_size for name in TARGETS for path in _inputs(name)]
    assert max(sizes) <= LONGEST
    assert sum(sizes) <= LARGEST


def _inputs(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir())


def test_every_format_of_archives_has_a_target() -> None:
    assert {type(form) for form in FORMATS} - TARGETED == set(), "formats without a target in tests/fuzz/archives.py"
