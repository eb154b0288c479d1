"""A file that ends within one of its units, wherever that is, has a bad record: no rest is too short to be reported."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bindings.archive.reading import SPLIT_BYTES
from tests.support.archives.damage import Original, kept_originals, read_archive, write
from tests.support.tiers import scale

NEAR = 12
"""Number of bytes before and after the beginning of a unit at which files are cut: offsets and lengths are there."""

PARTS = 5
"""Number of tests that share the files."""


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
    chance = Random(original.name)
    near = [unit.start + shift for unit in original.units for shift in range(-NEAR, NEAR)]
    places = {*chance.sample(near, min(len(near), scale(20 * NEAR)))}
    places |= {chance.randrange(len(original.data)) for _ in range(scale(40))}
    for place in sorted(places):
        if 0 < place < len(original.data) and is_within(original, place):
            folder = top / str(place)
            write(folder, original.path, original.data[:place])
            assert read_archive(folder, SPLIT_BYTES).bad, (original.name, place)
