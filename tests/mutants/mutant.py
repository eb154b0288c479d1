"""A mutant: one precise change of a module's text that should make a test fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class Stale(Exception):
    """A row does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A row: what is wrong with the mutant, where it is, and the tests that must notice."""

    what: str
    module: str
    old: str
    new: str
    tests: Sequence[str]
    """Paths below ``tests``, the likeliest to notice first."""
    equivalent: str | None = None
    """Why no test can notice; None: one must."""

    def applied(self, root: Path) -> str:
        """Return the module's text with the change. Raises Stale unless the old text is there exactly once."""
        text = (root / self.module).read_text()
        found = text.count(self.old)
        if found != 1:
            raise Stale(f"{self.module}: {self.what}: the old text is there {found} times: {self.old!r}")
        for test in self.tests:
            if not (root / "tests" / test).exists():
                raise Stale(f"{self.module}: {self.what}: there is no tests/{test}")
        return text.replace(self.old, self.new)


def mutants_of(module: str, tests: str, *rows: tuple[str, str, str] | tuple[str, str, str, str]) -> list[Mutant]:
    """Return the mutants of a module: what, old text, new text and, where it is equivalent, why.

    ``tests`` are paths below the folder of tests, separated by white space.
    """
    return [Mutant(row[0], module, row[1], row[2], tests.split(), row[3] if len(row) == 4 else None) for row in rows]
