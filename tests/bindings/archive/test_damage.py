"""Copies of real archives, damaged at random: reading them raises nothing, hangs nowhere and hides nothing.

A file that ends within one of its units, wherever that is, has a bad record: no rest is too short to be reported.

``HASHSTAR_DAMAGED_COPIES`` is their number; ``make damage`` sets it to 2,000.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from bindings.archive.reading import SPLIT_BYTES
from tests.support.archives.damage import Original, check, kept_originals, make_damaged_copy, read_archive, write
from tests.support.tiers import scale
from tests.support.waiting import stretch

COPIES: Final = int(os.environ.get("HASHSTAR_DAMAGED_COPIES", scale(1000)))
PARTS: Final = 10
"""Number of tests that share the copies, and of those that share the files."""
NEAR: Final = 12
"""Number of bytes before and after the beginning of a unit at which files are cut: offsets and lengths are there."""
SECONDS: Final = 60
"""More than a hundred times what reading a copy takes, on a machine that is busy."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_copy_gives_its_intact_records_and_reports_the_rest(part: int, tmp_path: Path) -> None:
    files = kept_originals()
    for number in range(part, COPIES, PARTS):
        original = files[number // PARTS % len(files)]
        _check_one(original, number, tmp_path / str(number))


def _check_one(original: Original, number: int, folder: Path) -> None:
    chance = random.Random(number)
    copy = make_damaged_copy(original, chance)
    write(folder, original.path, copy.data)
    with _at_most(stretch(SECONDS)):
        outcome = read_archive(folder, chance.choice((SPLIT_BYTES, SPLIT_BYTES, 700)))
    try:
        check(original, copy, outcome)
    except AssertionError as error:
        error.add_note(f"copy {number} of {original.name}, {copy.kind}; bad: {outcome.bad}")
        raise


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"not read within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_within(original: Original, place: int) -> bool:
    """Return whether a cut leaves a part of a unit; the end of a line is none."""
    return any(
        unit.start < place < unit.end and original.data[place : unit.end].strip(b"\n") for unit in original.units
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_a_file_that_ends_within_a_unit_has_a_bad_record(part: int, tmp_path: Path) -> None:
    files = [original for original in kept_originals() if len(original.units) > 1]
    for number, original in enumerate(files[part::PARTS]):
        if original.name != "tracing, text":  # whose bodies have no lengths and no escapes
            _cut(original, tmp_path / str(number))


def _cut(original: Original, top: Path) -> None:
    chance = random.Random(original.name)
    near = [unit.start + shift for unit in original.units for shift in range(-NEAR, NEAR)]
    places = {*chance.sample(near, min(len(near), scale(20 * NEAR)))}
    places |= {chance.randrange(len(original.data)) for _ in range(scale(40))}
    for place in sorted(places):
        if 0 < place < len(original.data) and is_within(original, place):
            folder = top / str(place)
            write(folder, original.path, original.data[:place])
            assert read_archive(folder, SPLIT_BYTES).bad, (original.name, place)
