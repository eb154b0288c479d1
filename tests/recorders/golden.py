"""The files of recorded answers: ``tests/golden/NAME.json``, one a client and version."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["names", "read", "unpack", "write"]

GOLDEN: Final = Path(__file__).parent.parent / "golden"


def write(name: str, client: str, version: str, answers: dict[str, Any]) -> None:
    """Keep what a client answered; lists of numbers stand on one line each, so that a difference can be read."""
    head = {"client": client, "version": version, "recorded": datetime.now(UTC).date().isoformat()}
    fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in (head | answers).items()]
    (GOLDEN / f"{name}.json").write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """Return the recording of this name."""
    answers: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return answers


def names(prefix: str) -> list[str]:
    """Return the names of recordings that begin with a prefix."""
    return sorted(path.stem for path in GOLDEN.glob(f"{prefix}*.json"))


def unpack(name: str, folder: Path) -> None:
    """Unpack the files of a recording, ``tests/golden/NAME.tar.gz``, into a folder."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as kept:
        # Not an argument: Python 3.11.2, which Debian 12 has, knows no filters.
        kept.extraction_filter = getattr(tarfile, "data_filter", None)
        kept.extractall(folder)  # noqa: S202  written by our own recorders
