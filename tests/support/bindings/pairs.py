"""Random pairs of topologies that have much in common, and the slow, obvious way to see where messages go.

Names, words and kinds are few, so that a change at one exchange meets changes at others; everything comes from one
``random.Random``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

from bindings.diffing.planning.plan import make_plan
from bindings.diffing.planning.step import StepState
from exchange import Binding, Destination, Exchange, Message, Policy, Queue, Router, Topology
from exchange.errors import BrokerError

WORDS = ("a", "b")
KEYS = (
    "", "#", "a.#", "*.b", *(".".join(words) for count in (1, 2, 3) for words in product((*WORDS, "c"), repeat=count)),
)  # fmt: skip
"""All keys of up to three words, one of which no pattern names, and some that a direct exchange takes literally."""
PATTERNS = ("a", "b", "a.b", "#", "a.#", "*", "*.b", "#.b", "a.*", "b.#.a")
TYPES = ("direct", "fanout", "topic", "topic", "headers")

Astray = tuple[str, str, bool, str | None]
"""Exchange, routing key, whether there is a header, and the queue that should not have it; None: it went nowhere."""


def pair(
    rng: Random, types: Sequence[str] = TYPES, prefix: str = "", *, auto_delete: bool = True
) -> tuple[Topology, Topology]:
    """Draw a topology, and the topology that random edits make of it."""
    before = Topology()
    names = [f"{prefix}x{number}" for number in range(rng.randint(1, 5))]
    for name in names:
        before = _edited(before, "declare_exchange", _exchange(rng, name, types, prefix, auto_delete))
    for number in range(rng.randint(1, 4)):
        before = before.declare_queue(Queue(f"{prefix}q{number}"))
    for _ in range(rng.randint(1, 12)):
        before = _edited(before, "bind", _binding(rng, before, prefix))
    if rng.random() < 0.3:
        before = before.set_policy(_policy(rng, prefix))
    after = before
    for _ in range(rng.choice((1, 2, 2, 3, 4, 6, 10))):
        after = _mutated(rng, after, types, prefix, auto_delete)
    return before, after


def _mutated(rng: Random, old: Topology, types: Sequence[str], prefix: str, auto_delete: bool) -> Topology:
    ours = [name for name in old.exchanges if name.startswith(f"{prefix}x")]
    chance = rng.random()
    if chance < 0.35 or not ours:
        return _edited(old, "bind", _binding(rng, old, prefix))
    if chance < 0.7 and old.bindings:
        return old.unbind(rng.choice(list(old.bindings)))
    if chance < 0.75:
        return _edited(
            old, "declare_exchange", _exchange(rng, f"{prefix}x{rng.randint(0, 6)}", types, prefix, auto_delete)
        )
    if chance < 0.8:
        return _edited(old, "declare_queue", Queue(f"{prefix}q{rng.randint(0, 6)}"))
    if chance < 0.84:
        return old.delete_exchange(rng.choice(ours))
    if chance < 0.88 and old.queues:
        return old.delete_queue(rng.choice(list(old.queues)))
    if chance < 0.93:
        name = rng.choice(ours)
        new = _exchange(rng, name, types, prefix, auto_delete)
        exchanges = {**old.exchanges, name: new}.values()
        return Topology(exchanges, old.queues.values(), old.bindings, old.policies.values())
    if chance < 0.95 and old.queues:
        name = rng.choice(list(old.queues))
        queues = {**old.queues, name: replace(old.queues[name], arguments={"x-max-length": rng.randint(1, 9)})}.values()
        return Topology(old.exchanges.values(), queues, old.bindings, old.policies.values())
    if old.policies and rng.random() < 0.5:
        return old.clear_policy(rng.choice(list(old.policies)))
    return old.set_policy(_policy(rng, prefix))


def _edited(old: Topology, method: str, part: Any) -> Topology:
    try:
        new: Topology = getattr(old, method)(part)
    except BrokerError:
        return old
    return new


def _exchange(rng: Random, name: str, types: Sequence[str], prefix: str, auto_delete: bool) -> Exchange:
    arguments = {"alternate-exchange": f"{prefix}x{rng.randint(0, 5)}"} if rng.random() < 0.3 else {}
    flags = {"internal": rng.random() < 0.1, "auto_delete": auto_delete and rng.random() < 0.15}
    return Exchange(name, rng.choice(types), **flags, arguments=arguments)


def _policy(rng: Random, prefix: str) -> Policy:
    definition: dict[str, Any] = {"alternate-exchange": f"{prefix}x{rng.randint(0, 5)}"}
    apply_to = "exchanges"
    if rng.random() < 0.2:
        definition, apply_to = {"expires": 3_600_000}, "queues"
    pattern = rng.choice((f"^{prefix}x", f"^{prefix}x[0-2]$", f"{prefix}x1"))
    return Policy(f"{prefix}p{rng.randint(0, 2)}", pattern, definition, apply_to, priority=rng.randint(0, 1))


def _binding(rng: Random, topology: Topology, prefix: str) -> Binding:
    ours = [name for name in topology.exchanges if name.startswith(f"{prefix}x")]
    source = rng.choice(ours or ["amq.topic"])
    if topology.queues and rng.random() < 0.6:
        destination = Destination("queue", rng.choice(list(topology.queues)))
    else:
        destination = Destination("exchange", rng.choice(ours or ["amq.fanout"]))
    kind = topology.exchanges[source].type
    arguments = {"h": rng.choice((1, "1"))} if kind == "headers" else {}
    if kind.startswith("x-"):
        return Binding.to_queue(source, "", rng.choice("123"))._replace(destination=destination)
    return Binding.to_queue(source, "", rng.choice(PATTERNS), arguments)._replace(destination=destination)


def entries(before: Topology, after: Topology) -> list[str]:
    """Return the exchanges that can be published to before and after."""
    both = [name for name in before.exchanges if name in after.exchanges and not name.startswith("amq.")]
    return [n for n in both if not before.exchanges[n].internal and not after.exchanges[n].internal and n]


def routes(topology: Topology, names: Sequence[str]) -> Iterator[tuple[Message, frozenset[str]]]:
    """Each key to each exchange, with a header and without, and its queues; a missing exchange routes nowhere."""
    router = Router(topology)
    for name in names:
        for key in KEYS:
            for headers in ({}, {"h": 1}):
                message = Message(name, key, headers)
                try:
                    yield message, frozenset(router.route(message).queues)
                except BrokerError:
                    yield message, frozenset()


def astray_between(before: Topology, after: Topology) -> Callable[[Topology], set[Astray]]:
    """Return what goes astray in a topology on the way from one to the other.

    That is, the messages that go nowhere there though both ends of the way route them, or to a queue to which neither
    end does. The ends are looked at once.
    """
    names = entries(before, after)
    ends = [(*first, last) for first, (_, last) in zip(routes(before, names), routes(after, names), strict=True)]

    def astray(now: Topology) -> set[Astray]:
        found: set[Astray] = set()
        for (message, first, last), (_, here) in zip(ends, routes(now, names), strict=True):
            told = (message.exchange, message.routing_key, bool(message.headers))
            if first and last and not here:
                found.add((*told, None))
            found |= {(*told, queue) for queue in here - first - last}
        return found

    return astray


def carry_out(before: Topology, after: Topology) -> Topology:
    """Carry out the plan, and return where it ends; no step sends messages astray unless it is called dangerous."""
    state, astray_in = StepState(before), astray_between(before, after)
    known: set[Astray] = set()
    for step in make_plan(before, after).steps:
        assert state.apply(step), f"{step} changes nothing"
        astray = astray_in(state.topology)
        assert astray <= known or step.danger, f"{step} is not called dangerous: {astray - known}"
        known = astray
    return state.topology
