"""Whole columns of keys: `Router.route_columns` beside Arrow's group_by, the router key by key, and NATS' matcher.

1,000 dense patterns on one exchange, each bound to one of ten queues, or to a queue of its own: then nearly as many
outcomes as keys are possible. Tables are in microseconds a key on one core, so 0.1 is ten million keys a second. Keys
that come once are new to the router in every round: it is made to forget all that it learned, and what it must build
for the patterns is in the time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.measure import Contestant, run_rounds, show, time_call
from benchmarks.nats import time_gsl
from benchmarks.workloads import EXCHANGE, SEED, dense_1k
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.routing.columns.route_columns import RouteColumns

WORDS = 40
RECURRING = 50_000
"""Number of distinct keys among those that come again."""

SINGLE = 20_000
"""Number of keys that are routed or matched one by one."""


def columns(quick: bool) -> None:
    """Keys that come once, and keys that come again."""
    number = 1_000_000 if quick else 5_000_000
    rounds = 3 if quick else 5
    patterns = dense_1k(1).patterns
    once = draw_keys(number)
    again = once.slice(0, RECURRING).take(pa.array(np.random.default_rng(SEED).integers(0, RECURRING, number)))
    single = once.slice(0, SINGLE).to_pylist()
    peer = time_gsl(patterns, single, rounds)
    routers = {queues: router_of(patterns, queues) for queues in (10, len(patterns))}
    alone = router_of(patterns, 10)
    for title, keys in (("keys that come once", once), ("keys that come again", again)):
        table = pa.table({"key": keys})

        def group(table: pa.Table = table) -> object:
            return table.group_by("key", use_threads=False).aggregate([([], "count_all")])

        rows = [Contestant("group_by", _per(keys, group), "peer", "pyarrow, key, count")]
        for queues, router in routers.items():
            first = _per(keys, lambda r=router, k=keys: _route_first(r, k))  # type: ignore[misc]
            known = _per(keys, lambda r=router, k=keys: r.route_columns(EXCHANGE, k))  # type: ignore[misc]
            outcomes = len(_route_first(router, keys.slice(0, 100_000)).routes)
            note = f"{outcomes:,} outcomes of the first 100,000 keys"
            rows.append(Contestant(f"columns, {queues:,} queues", first, note=note))
            rows.append(Contestant(f"columns, {queues:,} queues, warm", known, note="all seen by an earlier call"))
        messages = [Message(EXCHANGE, key) for key in single]
        rows.append(Contestant("Router.route, one by one", lambda m=messages: _route_each(alone, m)))  # type: ignore[misc]
        rows.append(peer)
        done = run_rounds(rows, rounds)
        show(f"columns, {title}", f"{len(keys):,} keys, 1,000 dense patterns, one thread", done)
        print("  million keys/s: " + ", ".join(f"{row.name} {1 / row.cost:.2f}" for row in rows if row.cost))


def draw_keys(number: int) -> pa.Array:
    """Return distinct keys of two to six words, of the vocabulary of the patterns."""
    generator = np.random.default_rng(SEED)
    words = np.array([f"w{word}" for word in range(WORDS)], object)
    parts = []
    for length in range(2, 7):
        share = min(number // 5, WORDS**length)
        numbers = np.unique(generator.integers(0, WORDS**length, share))
        drawn = words[(numbers[:, None] // WORDS ** np.arange(length)) % WORDS]
        parts.append(pa.array([".".join(row) for row in drawn.tolist()]))
    keys = pa.concat_arrays(parts)
    return keys.take(pa.array(generator.permutation(len(keys))))


def router_of(patterns: list[str], queues: int) -> Router:
    """Return a router of one exchange whose patterns are spread over this many queues."""
    bindings = [Binding.to_queue(EXCHANGE, f"q{at % queues}", pattern) for at, pattern in enumerate(patterns)]
    return Router(Topology([Exchange(EXCHANGE, "topic")], [Queue(f"q{at}") for at in range(queues)], bindings))


def _route_first(router: Router, keys: pa.Array) -> RouteColumns:
    _forget(router)
    return router.route_columns(EXCHANGE, keys)


def _route_each(router: Router, messages: list[Message]) -> float:
    _forget(router)
    return time_call(lambda: [router.route(message) for message in messages])[0] / len(messages) * 1e6


def _forget(router: Router) -> None:
    binding = Binding.to_queue(EXCHANGE, "q0", "no.*.such.key")
    router.bind(binding)
    router.unbind(binding)


def _per(keys: pa.Array, work: Callable[[], object]) -> Callable[[], float]:
    return lambda: time_call(work)[0] / len(keys) * 1e6
