"""The keys of a bridge's batches: new ones learned as columns, beside the same pump that routes each by itself.

Batches of 1,000 messages, as from Kafka and RocketMQ, go from memory through a pump to targets that keep nothing, with
1,000 dense patterns over ten queues, and with ids in keys. The peer is the same pump without numpy and pyarrow. Keys
that come again show what looking at batches costs. Tables are in microseconds a message, for the whole pump.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from time import process_time

from benchmarks.bridge_pumps import Counting, Forgetting
from benchmarks.columns import draw_keys, router_of
from benchmarks.measure import Contestant, run_rounds, show
from benchmarks.workloads import EXCHANGE, dense_1k, device_keys, device_patterns
from bridge.daemon.run import calm_collector
from bridge.endpoints.memory import MemorySource
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from exchange import Message, Router

RECURRING = 5_000


def bridge_keys(quick: bool) -> None:
    """Batches of new keys, and of keys that come again."""
    calm_collector()
    number, rounds = (50_000, 3) if quick else (200_000, 7)
    dense = draw_keys(2 * number)[:number].to_pylist()
    again = (dense[:RECURRING] * (len(dense) // RECURRING + 1))[: len(dense)]
    ids = list(islice(device_keys(), number))
    for title, patterns, keys in (
        ("dense patterns, new keys", dense_1k(1).patterns, dense),
        ("ids in keys", device_patterns(), ids),
        ("dense patterns, keys that come again", dense_1k(1).patterns, again),
    ):
        rows = [
            Contestant("learned as columns", lambda p=patterns, k=keys: _pump(router_of(p, 10), k)),  # type: ignore[misc]
            Contestant("one by one", lambda p=patterns, k=keys: _pump(_OneByOne(router_of(p, 10).topology), k), "peer"),  # type: ignore[misc]
        ]
        show(f"bridge, {title}", f"{len(keys):,} messages through a pump", run_rounds(rows, rounds))


class _OneByOne(Router):
    """A router that learns nothing."""

    def learn(self, exchange: str, routing_keys: Sequence[str]) -> None:
        pass


def _pump(router: Router, keys: Sequence[str]) -> float:
    """Move messages with these keys; return the microseconds of the processor for each."""

    async def run() -> float:
        source = MemorySource([Message(EXCHANGE, key) for key in keys])
        source.end()
        target = Forgetting()
        targets = dict.fromkeys(router.topology.queues, target)
        policy = Policy(window=10_000, unroutable=Unroutable.DROP)
        pump = Pump([Inlet(source)], router, targets, Counting(None, 1 << 60), policy)
        start = process_time()
        await pump.run()
        return (process_time() - start) / len(keys) * 1e6

    return asyncio.run(run())
