"""What a scenario is, and how one is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.chaos.brokers import Brokers
from tests.chaos.places import Writable
from tests.chaos.run import GaveUp
from tests.chaos.trial import Trial, TrialResult
from tests.support.servers import Unavailable

__all__ = ["Scenario", "play"]


class Scenario(NamedTuple):
    """A row of the table of scenarios."""

    name: str
    """Rows that belong together have the same."""
    variant: str
    kinds: Sequence[str]
    """Brokers that it needs, as `tests.chaos.brokers.KINDS` names them."""
    act: Callable[[Trial], Sequence[Writable]]
    """What is done; it returns the targets whose messages are to be accounted for."""
    short: bool = False
    """Whether it is among those of CI."""
    spoils: Sequence[str] = ()
    """Brokers that are removed after it, as it has left them with settings of its own."""

    @property
    def title(self) -> str:
        """How it stands in the table."""
        return f"{self.name}: {self.variant}" if self.variant else self.name

    @property
    def key(self) -> str:
        """What distinguishes it among all: for folders and tests."""
        return "-".join(f"{self.name} {self.variant}".replace(",", "").split()).lower()


def play(scenario: Scenario, brokers: Brokers, folder: Path, *, short: bool = False) -> TrialResult:
    """Play it, and account for it. Raises Unavailable; whatever else goes wrong is a problem of the result."""
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
    except Exception as error:  # noqa: BLE001  a trial that fails must not end those that come after it
        result.problems.append(f"the trial itself failed: {type(error).__name__}: {error}")
    finally:
        for kind in scenario.spoils:
            brokers.drop(kind)
    result.seconds = time.monotonic() - began
    return result
