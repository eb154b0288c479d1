"""Make the corpus of each target of the project's recordings, examples and generators.

``python -m tests.fuzz.seeds [TARGET]...``; without one, all targets.

Files whose names begin with ``seed-`` are made here; all others are findings, kept as they were found. A seed is small:
fuzzing begins with many small inputs, and the repository keeps them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from tests.fuzz import seeds_files, seeds_texts, seeds_wire

CORPUS: Final = Path(__file__).parent / "corpus"
MOST_BYTES: Final = 16_000
"""Maximum size of a seed."""
MAKERS: Final = (
    seeds_texts.languages, seeds_texts.values, seeds_wire.wire, seeds_wire.crossings, seeds_files.archives,
    seeds_files.stores, seeds_files.data_folders, seeds_files.documents,
)  # fmt: skip


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the name of a target and an input for it."""
    for make in MAKERS:
        for name, found in make().items():
            for data in found:
                assert len(data) <= MOST_BYTES, (name, len(data))
                yield name, data


def main(targets: Collection[str]) -> None:
    """Replace the seeds of these targets, or of all."""
    for old in CORPUS.glob("*/seed-*"):
        if not targets or old.parent.name in targets:
            old.unlink()
    counts: dict[str, int] = {}
    for name, data in seeds():
        if targets and name not in targets:
            continue
        counts[name] = counts.get(name, 0) + 1
        path = CORPUS / name / f"seed-{counts[name]:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{sum(counts.values())} seeds for {len(counts)} targets")


if __name__ == "__main__":
    main(sys.argv[1:])
