"""Scenarios, and the function that plays one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.chaos.kinds import Brokers
from tests.chaos.places import Writable
from tests.chaos.run import GaveUp
from tests.chaos.trial import Trial, TrialResult
from tests.support.starting import Unavailable


class Scenario(NamedTuple):
    """A row of the table of scenarios."""

    name: str
    """Name of a group of scenarios."""
    variant: str
    kinds: Sequence[str]
    """Kinds of brokers that it needs, from `tests.chaos.kinds.KINDS`."""
    act: Callable[[Trial], Sequence[Writable]]
    """Plays it, and returns the targets whose messages are accounted for."""
    short: bool = False
    """Whether it is played in CI."""
    spoils: Sequence[str] = ()
    """Kinds of brokers that are removed after it, because it has changed their settings."""

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.name}: {self.variant}" if self.variant else self.name

    @property
    def key(self) -> str:
        """A unique name, for folders and tests."""
        return "-".join(f"{self.name} {self.variant}".replace(",", "").split()).lower()


def play(scenario: Scenario, brokers: Brokers, folder: Path, *, short: bool = False) -> TrialResult:
    """Play a scenario, and return its result. Raises Unavailable; any other error is a problem of the result."""
    for kind in scenario.kinds:
        brokers[kind]
    result = TrialResult(scenario.title, brokers.versions_of(scenario.kinds), folder=folder)
    began = time.monotonic()
    try:
        with Trial(brokers, folder, result, short=short) as trial:
            try:
                trial.finish(scenario.act(trial))
            except GaveUp as reason:
                result.problems.append(str(reason))
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001  a trial that fails must not end the next ones
        result.problems.append(f"the trial itself failed: {type(error).__name__}: {error}")
    finally:
        for kind in scenario.spoils:
            brokers.drop(kind)
    result.seconds = time.monotonic() - began
    return result
