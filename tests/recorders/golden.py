"""The files of recorded answers: ``tests/golden/NAME.json``, one a client and version.

``python -m tests.recorders.golden`` writes the table of them in ``docs/measured.md``.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

GOLDEN: Final = Path(__file__).parent.parent / "golden"
PAGE: Final = GOLDEN.parents[1] / "docs" / "measured.md"
TABLE: Final = re.compile(r"(\| recorded \| .*\n\|[-|]+\n)(?:\|.*\n)*")
FRESH: Final = timedelta(days=365)
"""How long a recording counts as one of the client of today."""


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


def _heads() -> Iterator[tuple[str, str, str, date]]:
    """Yield what was recorded, of which client, in which version, and when."""
    for name in names(""):
        if (head := _read_head(name)) is not None:
            client, version, day = head
            kind = name.removesuffix(f"-{version}")
            kind = re.sub(r"-[0-9]+\.[0-9]+$|-[0-9]{2}$", "", kind)
            yield kind, client, version, day


@cache
def _read_head(name: str) -> tuple[str, str, date] | None:
    """Return the client, its version and the day of a recording; None if it has no day."""
    answers = read(name)
    if "recorded" not in answers:
        return None
    return str(answers["client"]), str(answers["version"]), date.fromisoformat(answers["recorded"])


def find_old(today: date) -> list[str]:
    """Return the recordings that are older than a year, each with its client and date."""
    heads = sorted(_heads(), key=lambda head: head[3])
    return [f"{kind}: {client} {version}, {day}" for kind, client, version, day in heads if today - day > FRESH]


def with_recordings(page: str) -> str:
    """Return the page with the table of recordings. Raises ValueError if it has none, or several."""
    rows: dict[tuple[str, str], list[tuple[str, date]]] = {}
    for kind, client, version, day in _heads():
        rows.setdefault((kind, client), []).append((version, day))
    lines = [
        f"| {kind} | {client} | {', '.join(version for version, _ in found)} | {min(day for _, day in found)} |\n"
        for (kind, client), found in rows.items()
    ]
    page, count = TABLE.subn(lambda match: match[1] + "".join(lines), page)
    if count != 1:
        raise ValueError(f"the page has {count} tables of recordings")
    return page


if __name__ == "__main__":
    PAGE.write_text(with_recordings(PAGE.read_text("utf-8")), "utf-8")
