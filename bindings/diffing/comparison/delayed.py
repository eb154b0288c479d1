"""Messages that x-delayed-message exchanges keep, in a comparison: both routings as one, through exchanges that do not.

`compare` looks at messages twice if a topology delays any: at those without delay, which pass such an exchange as its
inner type, and at those with one. For these a topology is made in which each exchange that may come after a delay, and
each queue behind it, has a copy, for what happens later. What was an exchange that delays hands every message on: to
its copy, which has the inner type, and to the alternate exchange.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from bindings.diffing.comparison.meaning import ChoiceChange, Effect, Meaning, UndecidedQuestion
from bindings.diffing.comparison.paths import PathConditions
from bindings.diffing.comparison.sides import DEFAULT
from bindings.diffing.comparison.terms import Term
from exchange.entities.entities import Binding, Destination, Exchange, Queue
from exchange.kinds import KINDS, UnknownExchange, can_delay, find_kind
from exchange.kinds.delayed import DELAY
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.message import Message

LATER: Final = "\x00later"
"""End of the names of copies. No name that a client or a person gives has a null character."""
UNKNOWN: Final = "x-unknown\x00"
"""A type of exchange that nobody knows: nothing is proved of it, unless both sides have the same."""
EXAMPLE: Final = 1000
"""Delay of the messages that show a difference, in milliseconds."""


def has_delays(topology: Topology) -> bool:
    """Return whether an exchange delays messages."""
    return any(map(can_delay, topology.exchanges.values()))


def without_readers(topology: Topology) -> Topology:
    """Return the topology with each exchange that reads x-delay as one of which nothing is known."""
    return _rebuild(topology, [_hide(topology, each) for each in topology.exchanges.values() if each.name])


def _hide(topology: Topology, exchange: Exchange) -> Exchange:
    bindings = topology.bindings_from(exchange.name)
    reads_it = DELAY in find_kind(exchange).reads(exchange, bindings, topology.profile).headers
    return replace(exchange, type=UNKNOWN) if reads_it else exchange


def make_view(topology: Topology) -> Topology:
    """Return what a message with a delay passes, at once and later, as a topology without exchanges that delay."""
    graph = TopologyGraph(topology)
    delaying = [name for name, exchange in topology.exchanges.items() if can_delay(exchange)]
    exchanges: list[Exchange] = []
    bindings: list[Binding] = []
    for name, exchange in topology.exchanges.items():
        if not name:
            continue
        if name not in delaying:
            exchanges.append(_hide(topology, exchange))
            bindings += topology.bindings_from(name)
            continue
        alternate = graph.alternates.get(name)
        exchanges.append(replace(exchange, type=UNKNOWN if name in graph.unsure else "fanout", arguments={}))
        bindings.append(Binding.to_exchange(name, name + LATER))
        bindings += [] if alternate is None else [Binding.to_exchange(name, alternate)]
    queues: dict[str, None] = {}
    for name in sorted(graph.graph.downstream(delaying)):
        exchanges.append(_copy(topology, graph, name))
        for binding in topology.bindings_from(name):
            kind, target = binding.destination
            bindings.append(binding._replace(source=name + LATER, destination=Destination(kind, target + LATER)))
            if kind == "queue" and target in topology.queues:
                queues[target] = None
    copies = [Queue(name + LATER) for name in queues]
    return _rebuild(topology, exchanges, [*topology.queues.values(), *copies], bindings)


def _copy(topology: Topology, graph: TopologyGraph, name: str) -> Exchange:
    """Return the copy of an exchange for what it routes later."""
    exchange = _hide(topology, topology.exchanges[name])
    kind = find_kind(exchange)
    is_known = kind is not UnknownExchange and name not in graph.unsure
    type_ = next((known for known, each in KINDS.items() if each is kind), UNKNOWN) if is_known else UNKNOWN
    arguments: dict[str, Any] = dict(exchange.arguments)
    # Always an argument: a policy that matches the name of the copy must not set another one.
    arguments["alternate-exchange"] = graph.alternates.get(name, "") + LATER
    return replace(exchange, name=name + LATER, type=type_, internal=True, arguments=arguments)


def _rebuild(
    topology: Topology,
    exchanges: Iterable[Exchange],
    queues: Iterable[Queue] | None = None,
    bindings: Iterable[Binding] | None = None,
) -> Topology:
    return Topology(
        exchanges,
        topology.queues.values() if queues is None else queues,
        topology.bindings if bindings is None else bindings,
        topology.policies.values(),
        vhost=topology.vhost,
        profile=topology.profile,
    )


def add_delayed(meaning: Meaning, delayed: Meaning) -> Meaning:
    """Return what a comparison found, with what the one of the views found beyond that about messages with a delay."""
    known = {_claim(each) for each in meaning.effects}
    lost = {(each.exchange, each.now) for each in meaning.unroutable}
    chosen = {(each.exchange, each.at) for each in meaning.choices}
    # The default exchange delays nothing; that it reaches the copies of queues, too, is no truth about a broker.
    effects = [_effect(each) for each in delayed.effects if each.exchange]
    choices = [_choice(each) for each in delayed.choices if each.exchange]
    unroutable = [each for each in delayed.unroutable if each.exchange and (each.exchange, each.now) not in lost]
    undecided = [_undecided(each) for each in delayed.undecided if each.exchange != DEFAULT]
    return replace(
        meaning,
        effects=(*meaning.effects, *[each for each in effects if _claim(each) not in known]),
        unroutable=(*meaning.unroutable, *[each._replace(witness=_with_delay(each.witness)) for each in unroutable]),
        choices=(*meaning.choices, *[each for each in choices if (each.exchange, each.at) not in chosen]),
        undecided=tuple(dict.fromkeys([*meaning.undecided, *undecided])),
    )


def _claim(effect: Effect) -> tuple[object, ...]:
    """Return what an effect says, whenever its messages get there."""
    return effect.exchange, effect.queue, effect.gained, effect.terms


def _effect(effect: Effect) -> Effect:
    timing = "later" if effect.queue.endswith(LATER) else "at once"
    return effect._replace(
        queue=effect.queue.removesuffix(LATER),
        witness=_with_delay(effect.witness),
        terms=tuple([_term(each) for each in effect.terms]),
        timing=timing,  # type: ignore[arg-type]
    )


def _term(term: Term) -> Term:
    def rename(path: PathConditions) -> PathConditions:
        return path._replace(unmatched=tuple([name.removesuffix(LATER) for name in path.unmatched]))

    return term._replace(path=rename(term.path), unless=tuple(map(rename, term.unless)))


def _choice(choice: ChoiceChange) -> ChoiceChange:
    before, after = (
        None if shares is None else tuple([(name.removesuffix(LATER), share) for name, share in shares])
        for shares in (choice.before, choice.after)
    )
    at = choice.at.removesuffix(LATER)
    return choice._replace(at=at, witness=_with_delay(choice.witness), before=before, after=after)


def _undecided(undecided: UndecidedQuestion) -> UndecidedQuestion:
    exchange, end, _ = undecided
    return undecided._replace(
        exchange=None if exchange is None else exchange.removesuffix(LATER),
        destination=None if end is None else Destination(end.kind, end.name.removesuffix(LATER)),
    )


def _with_delay(message: Message) -> Message:
    return replace(message, headers={**message.headers, DELAY: EXAMPLE})
