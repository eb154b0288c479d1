"""The table of complete runs in ``docs/measured.md``: when, of which commit, and what was measured.

`tests.night` writes a row when all has passed, CI when all parts ran whole. CI compares files with those of the last
one (`tests.support.parts`).
"""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path("docs/measured.md")
ROW: Final = re.compile(r"^\| (\d{4}-\d\d-\d\d) \| `([0-9a-f]{8,40})` \| ([^|\n]*) \| ([^|\n]*) \|$", re.MULTILINE)


class CompleteRun(NamedTuple):
    """A run of everything, or of all parts, in which all has passed."""

    date: str
    commit: str
    machine: str
    figures: str

    @classmethod
    def of_today(cls, commit: str, figures: str) -> CompleteRun:
        """Return a run of today on this machine."""
        machine = f"{os.cpu_count()} processors, Python {platform.python_version()}"
        return cls(datetime.now(UTC).date().isoformat(), commit[:12], machine, figures)


def read_complete_runs(top: Path) -> list[CompleteRun]:
    """Return the rows of the table, the oldest first; none without the page."""
    if not (top / PAGE).exists():
        return []
    text = (top / PAGE).read_text("utf-8")
    return [CompleteRun(*match.groups()) for match in ROW.finditer(text, 0, _find_end(text))]


def add_complete_run(top: Path, run: CompleteRun) -> None:
    """Append a row to the table."""
    row = f"| {run.date} | `{run.commit}` | {run.machine} | {run.figures} |"
    assert ROW.fullmatch(row), row
    text = (top / PAGE).read_text("utf-8")
    rows = ROW.finditer(text, 0, _find_end(text))
    end = max((match.end() for match in rows), default=text.index("\n", text.index("|---|")))
    (top / PAGE).write_text(f"{text[:end]}\n{row}{text[end:]}", "utf-8")


def _find_end(text: str) -> int:
    """Return where the table ends: a page has others, of dates and commits, too."""
    first = text.index("|---|")
    end = text.find("\n\n", first)
    return len(text) if end < 0 else end
