"""`hashstar check` about the life of messages (HS321 to HS324) in topologies with 10,000 queues.

The floor is the settings in force of all queues, which each rule about dead letters needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.measure import Contestant, run_rounds, show, time_call
from bindings.checking.lives import ends, rounds
from bindings.checking.rules.view import TopologyView
from exchange import Binding, Exchange, Policy, Queue, Topology


def check_lives(quick: bool) -> None:
    """Check a chain, a ring, retries, a fanout that all queues share, and policies with keys that are kept."""
    number = 1_000 if quick else 10_000
    topologies = {
        "chain": Topology(queues=[_queue(at, min(at + 1, number)) for at in range(number)] + [Queue(f"q{number}")]),
        "ring": Topology(queues=[_queue(at, (at + 1) % number) for at in range(number)]),
        "retries": Topology(queues=[_queue(at, at ^ 1, ttl=5 if at % 2 else None) for at in range(number)]),
        "fanout": _fanout(number),
        "policies": _policies(number),
    }
    rows = [Contestant("settings in force", _seconds(_settings, topologies["policies"]), "floor")]
    rows += [Contestant(name, _seconds(_findings, topology)) for name, topology in topologies.items()]
    done = run_rounds(rows, 1 if quick else 3)
    show("check-lives", f"{number:,} queues: all four rules, microseconds a queue", done)


def _seconds(work: Callable[[TopologyView], Iterator[Any]], topology: Topology) -> Callable[[], float]:
    return lambda: time_call(lambda: [*work(TopologyView(topology))])[0] / len(topology.queues) * 1e6


def _settings(view: TopologyView) -> Iterator[Any]:
    yield from map(view.limits_of, view.topology.queues)


def _findings(view: TopologyView) -> Iterator[Any]:
    for find in (rounds.find, ends.find_vanishing, ends.find_many_tries):
        yield from find(view)


def _queue(number: int, target: int, ttl: int | None = None) -> Queue:
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{target}"}
    return Queue(f"q{number}", arguments=arguments if ttl is None else {**arguments, "x-message-ttl": ttl})


def _fanout(number: int) -> Topology:
    """Return queues whose dead letters all go to all of them."""
    names = [f"q{at}" for at in range(number)]
    queues = [Queue(name, arguments={"x-dead-letter-exchange": "f"}) for name in names]
    return Topology([Exchange("f", "fanout")], queues, [Binding.to_queue("f", name, "") for name in names])


def _policies(number: int) -> Topology:
    """Return queues with keys of their own, whose dead letters keep them and come to every second queue."""
    queues = [Queue(f"q{at}") for at in range(number)]
    ways = [Binding.to_queue("t", f"q{at}", f"k{at}.*") for at in range(number)]
    back = [Binding.to_queue("dead", f"q{at}", f"k{at - 1}.*") for at in range(1, number, 2)]
    definition = {"dead-letter-exchange": "dead", "message-ttl": 50}
    policies = [Policy(f"p{digit}", f"^q{digit}", definition, "queues", digit) for digit in range(10)]
    return Topology([Exchange("t", "topic"), Exchange("dead", "topic")], queues, [*ways, *back], policies)
