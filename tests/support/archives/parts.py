"""The parts of an archive while a bridge or Spark writes it."""

from __future__ import annotations

import os
from pathlib import Path


def find_parts(folder: Path) -> list[Path]:
    """Return the files of Parquet that others see. `Path.rglob` fails for a folder that goes while it is listed."""
    parts: list[Path] = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "."]
        parts += [Path(path, name) for name in names if name[0] != "." and name.endswith(".parquet")]
    return sorted(parts)
