"""A source queue that is deleted and declared anew as a queue of another type, with messages in it at once.

What a connection, or a process, has learned of the queue before must not outlive it: an offset of a stream that is
gone would skip what is in the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

LIMITED: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("quorum", {"x-delivery-limit": 5}),
    ("classic", {"x-max-length": 100_000, "x-overflow": "reject-publish", "x-message-ttl": 3_600_000}),
    ("quorum", {"x-delivery-limit": 3, "x-max-length": 50_000}),
    ("classic", {"x-max-length": 20_000, "x-overflow": "drop-head"}),
    ("quorum", {}),
)
"""Types and limits in their turn."""
TYPES: Final = ("stream", "quorum", "stream", "classic")
"""Types in their turn, after a classic queue; from a stream nothing is removed, so it must not be the last."""


def _is_settled(trial: Trial, count: int) -> bool:
    return trial.count_written() == count and all(daemon.count_unsettled() == 0 for daemon in trial.running)


def _remade(trial: Trial, *, while_down: bool) -> Sequence[Writable]:
    """Remake the queue while the bridge reads it, or while there is no bridge; then it has a file of offsets, too."""
    count = 300 if trial.short else 2_000
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    offsets = trial.folder / "offset"
    source.more = f'offsets = "{offsets}"\n' if while_down else ""
    daemon = trial.bridge(source, target)
    trial.put(source, count)
    expected = count
    for kind in TYPES:
        trial.wait_until(lambda: _is_settled(trial, expected), f"all is written before a {kind} comes")  # noqa: B023
        if while_down:
            trial.stop()
            expected = 0
        source.delete_queue()
        source.make(kind)
        trial.put(source, count)
        expected += count
        if while_down:
            trial.start(daemon)
            if kind == "stream" and offsets.exists():  # it is another stream, which only the operator knows
                trial.wait_for_reason(str(offsets))
                offsets.unlink()
    trial.wait_for_written(expected)
    trial.drain(source)
    trial.bound = 0
    return [target]


def _limited(side: str, trial: Trial) -> Sequence[Writable]:
    """Remake the queue on this side with other limits, too, while the bridge reads or writes it."""
    queue = trial.use(Queue("classic", trial.brokers, side, trial.folder))
    topic = trial.use(Topic(False, trial.brokers, "target" if side == "source" else "source", trial.folder))
    queue.more = f'management = "{trial.brokers.rabbitmq().management}"\n'
    source, target = (queue, topic) if side == "source" else (topic, queue)
    trial.bridge(source, target)
    trial.put(source, 500)
    for kind, limits in LIMITED:
        expected = trial.sent
        trial.wait_until(lambda: _is_settled(trial, expected), f"all is written before a {kind} comes")  # noqa: B023
        if side == "target":
            trial.collect(target)
        queue.delete_queue()
        queue.make(kind, limits)
        trial.put(source, 500)
    trial.wait_for_written(trial.sent)
    trial.drain(source)
    trial.bound = 0
    return [target]


SCENARIOS: Final = [
    Scenario(
        "remake-queue", "as a stream, a quorum queue, a stream, a classic queue", ["rabbitmq"],
        lambda trial: _remade(trial, while_down=False), short=True,
    ),
    Scenario(
        "remake-queue", "the same while there is no bridge", ["rabbitmq"],
        lambda trial: _remade(trial, while_down=True),
    ),
    *[
        Scenario("remake-queue", f"with other limits, {side}", ["rabbitmq", "kafka"], partial(_limited, side))
        for side in ("source", "target")
    ],
]  # fmt: skip
