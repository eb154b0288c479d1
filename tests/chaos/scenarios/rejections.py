"""A full target queue that rejects publishes (``x-overflow: reject-publish``), and its slow reader.

A full queue is back-pressure: no message is at fault, so none becomes a dead letter, however long the queue is full
and however many keys there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pika

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

FULL: Final = 200
"""Maximum number of messages in the queue."""
SLOWLY: Final = 0.02
"""Seconds between messages of the slow reader."""
WITHOUT_READER: Final = 20.0
"""Seconds without a reader; in CI until that is visible."""


class _Reader:
    """Reads the target queue, from `start` on."""

    def __init__(self, trial: Trial, queue: Queue) -> None:
        assert queue.broker is not None
        self._url, self._queue, self._trial = queue.broker.url, queue.name, trial
        self._slow = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        trial.at_end(self.end)

    def start(self) -> None:
        """Read slowly from now on."""
        self._slow.set()
        self._thread.start()

    def hurry(self) -> None:
        """Read at full speed from now on."""
        self._slow.clear()

    def end(self) -> None:
        """Stop reading."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _read(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(f"{self._url}?heartbeat=0"))
        channel: Any = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for method, _, body in channel.consume(self._queue, auto_ack=False, inactivity_timeout=0.2):
            if method is not None:
                self._trial.arrived.append((method.routing_key, bytes(body)))
                channel.basic_ack(method.delivery_tag)
                if self._slow.is_set():
                    time.sleep(SLOWLY)
            elif self._end.is_set():
                break
        connection.close()


def _full(trial: Trial, messages: int, *, dead_letters: bool) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    arguments = {"x-max-length": FULL, "x-overflow": "reject-publish"}
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder, arguments))
    reader = _Reader(trial, target)
    daemon = trial.bridge(source, target, dead_letters=dead_letters)
    trial.wait_until_ready()

    def begin() -> None:
        trial.put(source, messages)

    # While the reader is slow, messages move slowly.
    trial.suffer(begin, reader.start, seconds=0.0 if trial.short else WITHOUT_READER, ready=False)
    trial.let_pass(2.0 if trial.short else 10.0)
    reader.hurry()
    trial.drain(source, 300)
    trial.bound = 0  # no connection was lost
    trial.require(daemon.code is None, "the bridge has ended")
    trial.wait_until(lambda: target.count()[0] == 0, "the reader has read all")
    reader.end()
    return []


def _of_few_keys(*, dead_letters: bool) -> Callable[[Trial], Sequence[Writable]]:
    return lambda trial: _full(trial, 2_000 if trial.short else 6_000, dead_letters=dead_letters)


def _of_many_keys(trial: Trial) -> Sequence[Writable]:
    """Give each message its own key, so that none waits for another of its key."""
    trial.window = 2_000
    trial.keys = 40_000
    return _full(trial, 40_000, dead_letters=True)


SCENARIOS: Final = [
    Scenario("reject-publish", "without dead letters", ["rabbitmq"], _of_few_keys(dead_letters=False)),
    Scenario("reject-publish", "with dead letters", ["rabbitmq"], _of_few_keys(dead_letters=True), short=True),
    Scenario("reject-publish", "40,000 keys, with dead letters", ["rabbitmq"], _of_many_keys),
]
