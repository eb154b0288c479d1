"""New keys of large batches are routed as columns: a few microseconds less for each message with a new key.

This pays where most keys of a batch are new, as with ids in keys, and where the batch is large, as those that Kafka's
client has fetched ahead; RocketMQ's brokers give 32 messages at a time, so its batches are large where several queues
were read, or where the pump was busy. A sample of each batch shows whether most keys are new. What is learned is in the
router's cache when the pump routes the messages, each by itself, as always.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from bridge.endpoint import Delivery
from bridge.pump.inlet import Inlet
from exchange.errors import InputError
from exchange.routing.router import Router

LOG: Final = logging.getLogger(__name__)

LEAST: Final = 256
"""Minimum number of messages of a batch that is examined: for fewer, a column costs as much as it saves."""

STEP: Final = 16
"""The sample of a batch is every sixteenth message."""

WORTH: Final = 10_000
"""Minimum number of messages in batches of mostly new keys before keys are learned: it pays for imports and tables."""

MAX_BINDINGS: Final = 20_000
"""Number of bindings up to which keys are learned: the tables of more take too long to build between two batches."""


class Learning:
    """Has a router learn the new keys of batches. Without numpy and pyarrow it does nothing."""

    def __init__(self, router: Router) -> None:
        self._router: Final = router
        self._new = 0
        self._worth = len(router.topology.bindings) <= MAX_BINDINGS

    def look(self, inlet: Inlet, deliveries: Sequence[Delivery]) -> None:
        """Have the router learn the keys of these deliveries, if it is likely not to know most of them."""
        if not self._worth or len(deliveries) < LEAST or inlet.routing_key is not None:
            return
        knows, fixed = self._router.knows, inlet.exchange
        sample = [delivery.message for delivery in deliveries[::STEP]]
        known = [knows(each.exchange if fixed is None else fixed, each.routing_key) for each in sample]
        if 2 * sum(known) > len(known):
            return
        self._new += len(deliveries)
        if self._new < WORTH:
            return
        keys: dict[str, list[str]] = {}
        for delivery in deliveries:
            message = delivery.message
            keys.setdefault(message.exchange if fixed is None else fixed, []).append(message.routing_key)
        for exchange, some in keys.items():
            if len(some) >= LEAST:
                self._learn(exchange, list(dict.fromkeys(some)))

    def _learn(self, exchange: str, keys: Sequence[str]) -> None:
        try:
            self._router.learn(exchange, keys)
        except InputError:  # numpy or pyarrow is not installed
            self._worth = False
        except Exception:  # the pump routes each message anyway
            LOG.exception("keys are not routed as columns")
            self._worth = False
