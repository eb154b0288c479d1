"""The rates of the last minutes, for the status page: what was read and written a second, in steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from bridge.daemon.metrics import Metrics

__all__ = ["History"]

STEP: Final = 5.0
"""Seconds."""
STEPS: Final = 60
"""Number of steps that are kept."""


class Sample(NamedTuple):
    """Counts at one time."""

    time: float
    """By the loop's clock."""
    read: Counter[str]
    """Source -> messages."""
    written: Counter[str]
    """Target -> copies."""


class History:
    """Counts at the ends of the last steps. Added to on the event loop, read by other threads."""

    def __init__(self) -> None:
        self._samples: tuple[Sample, ...] = ()
        """Replaced as a whole, so that other threads read it without a lock."""

    def add(self, now: float, metrics: Metrics) -> None:
        """Take a sample if the last one is a step old; ``now`` is the loop's time."""
        if self._samples and now - self._samples[-1].time < STEP - 0.1:  # the looks of a second are not exact
            return
        written = Counter[str]()
        for (target, _), count in metrics.written.items():
            written[target] += count
        sample = Sample(now, Counter(metrics.read_messages), written)
        self._samples = (*self._samples, sample)[-(STEPS + 1) :]

    def as_json(self) -> dict[str, Any]:
        """Return the messages a second of each source and target by step, oldest first."""
        samples = self._samples
        spans = [later.time - sooner.time for sooner, later in pairwise(samples)]

        def rates(counts: Sequence[Counter[str]]) -> dict[str, list[float]]:
            return {
                name: [
                    round((b[name] - a[name]) / span, 1) for (a, b), span in zip(pairwise(counts), spans, strict=True)
                ]
                for name in dict.fromkeys([name for each in counts for name in each])
            }

        return {
            "step": STEP,
            "sources": rates([sample.read for sample in samples]),
            "targets": rates([sample.written for sample in samples]),
        }
