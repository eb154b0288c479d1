"""Ask a test broker what was foretold: declarations, recorded requests, and the messages of the comparison of routes.

Two virtual hosts of its own serve each virtual host of the topology: one in which all is declared and asked as it is,
and one for the messages, whose queues are plain, so that no limit and no time to live hides where a message went. Both
are deleted at the end. Nothing else of the broker is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bindings.applying.address import Addresses
from bindings.applying.amqp import OperationRefused
from bindings.applying.live import Live
from bindings.diffing.planning.step import describe_part
from bindings.recording.summary import describe_request
from bindings.sources.management import RefusedRequest
from bindings.sources.recording.model import (
    ACCEPTED,
    NO_CODE,
    RecordedAnswer,
    RecordedPublishing,
    RecordedRequest,
    Recording,
)
from bindings.upgrading.live.asking import LiveHost
from bindings.upgrading.live.fresh_host import find_permitted_features, make_fresh_host
from bindings.upgrading.releases import Release
from bindings.upgrading.requests.answering import normalise
from bindings.upgrading.requests.replay import Ask, list_tunings, replay
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Policy, Queue
from exchange.entities.indexes import Change
from exchange.entities.part import encode_declaration
from exchange.errors import BrokerError
from exchange.kinds import find_kind
from exchange.limits import LIVE_CALLS
from exchange.routing.router import Router
from exchange.topology import rules
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message

LIVE_SECONDS: Final = 120.0
"""Default maximum duration in seconds of asking a test broker."""
SMALLEST_TUNED: Final = 4_096
"""The smallest frame_max that AMQP allows, and that can be asked for."""
ALTERNATE: Final = "alternate-exchange"
WORDLESS: Final = "INTERNAL_ERROR"
"""The whole text of a broker that has failed: its log has the reason."""


@document("DifferenceJson")
class UnexpectedAnswer(NamedTuple):
    """A call that the test broker was asked, its answer and the foretold one."""

    vhost: str
    """The virtual host of the topology; "" for what is asked before one is opened."""
    what: str
    """The call, for people."""
    foretold: RecordedAnswer
    seen: RecordedAnswer


@document(
    "ShownJson",
    "version, permitted, accepted, foretold_and_seen = seen, foretold_not_seen = not_seen, "
    "seen_not_foretold = not_foretold, messages, not_asked",
)
@dataclass
class Shown:
    """What a test broker of the new release has shown."""

    version: str
    permitted: frozenset[str]
    """The deprecated features that it permits."""
    accepted: int = 0
    """Number of calls that were foretold to be accepted, and were."""
    seen: list[UnexpectedAnswer] = field(default_factory=list)
    """Refusals that were foretold and seen, with the same code and text."""
    not_seen: list[UnexpectedAnswer] = field(default_factory=list)
    """Refusals that were foretold, and accepted."""
    not_foretold: list[UnexpectedAnswer] = field(default_factory=list)
    """Answers that were not foretold: a refusal, another code or another text. The exit code is 1 if there are any."""
    messages: int = 0
    """Number of messages that were routed as predicted."""
    not_asked: int = 0
    """Number of calls and messages for which there was no time or room, or that cannot be asked."""


class ProbeMessage(NamedTuple):
    """A message of the comparison of routes."""

    message: Message
    before: frozenset[str]
    """The queues to which the old release may route it."""


class _Budget:
    """How much may still be asked."""

    def __init__(self, seconds: float) -> None:
        self._end: Final = time.monotonic() + seconds
        self._calls = LIVE_CALLS

    def takes(self) -> bool:
        """Take one call; return False if there is no time or room left."""
        self._calls -= 1
        return self._calls >= 0 and time.monotonic() < self._end


def ask_broker(
    addresses: Addresses,
    topologies: Sequence[Topology],
    recordings: Sequence[Recording],
    witnesses: Sequence[Sequence[ProbeMessage]],
    release: Release,
    *,
    seconds: float,
) -> Shown:
    """Declare topologies on a broker in virtual hosts of their own, ask what was recorded, publish ``witnesses``.

    ``topologies`` are as the new release is to have them, ``witnesses`` the messages for each. Asking ends after
    ``seconds``. Raises InputError if the management API does not answer, Lost or Refused if AMQP cannot be used.
    """
    management = addresses.management
    shown = Shown(management.version(), find_permitted_features(management))
    budget = _Budget(seconds)
    for number, (topology, messages) in enumerate(zip(topologies, witnesses, strict=True)):
        with make_fresh_host(management) as name, LiveHost(addresses, name) as host:
            if not number:
                _compare(shown, "", list_tunings(recordings, release), host, budget)
            there = Live(management, name).as_declared(Topology.from_tables(topology.tables(), name, topology.profile))
            asks = replay(there, recordings, release, shown.permitted, topology.vhost)
            _compare(shown, topology.vhost, asks, host, budget)
            _compare_policies(shown, topology, Live(management, name), release, budget)
        if messages:  # a virtual host without the limits and times of the queues
            with make_fresh_host(management) as name, LiveHost(addresses, name) as host:
                _compare_messages(shown, topology, messages, host, Live(management, name), budget)
    return shown


def _compare(shown: Shown, vhost: str, asks: Iterable[Ask], host: LiveHost, budget: _Budget) -> None:
    for ask in asks:
        foretold = ask.foretold.answer
        if not _can_be_asked(ask) or not budget.takes():
            shown.not_asked += 1
            continue
        if ask.method == "connection.tune-ok":
            seen = host.tune(ask.arguments["frame_max"])
        else:
            seen = host.answer(ask.method, ask.arguments, foretold)
        _add(
            shown,
            UnexpectedAnswer(vhost, _describe(ask), *(_translate(each, host, vhost) for each in (foretold, seen))),
        )


def _translate(answer: RecordedAnswer, host: LiveHost, vhost: str) -> RecordedAnswer:
    """Return an answer with the name of the topology's virtual host in place of the fresh one."""
    return answer._replace(text=answer.text.replace(f"vhost '{host.vhost}'", f"vhost '{vhost}'"))


def _can_be_asked(ask: Ask) -> bool:
    """Return whether a call can be made: not a message of many MiB, and no frames smaller than AMQP allows."""
    if isinstance(ask.cause, RecordedPublishing):
        return ask.foretold.fact != "HSU102"
    return ask.method != "connection.tune-ok" or ask.arguments["frame_max"] >= SMALLEST_TUNED


def _add(shown: Shown, difference: UnexpectedAnswer) -> None:
    foretold, seen = difference.foretold, difference.seen
    has_words = seen.code != NO_CODE and seen.text != WORDLESS
    if foretold == seen or (foretold.code == seen.code and not has_words):
        if seen == ACCEPTED:
            shown.accepted += 1
        else:
            shown.seen.append(difference)
    elif seen == ACCEPTED:
        shown.not_seen.append(difference)
    else:
        shown.not_foretold.append(difference)


def _describe(ask: Ask) -> str:
    if isinstance(ask.cause, RecordedRequest | RecordedPublishing):
        return describe_request(ask.cause)
    if ask.cause is None:
        return ask.method
    return describe_part(ask.cause)


def _compare_policies(shown: Shown, topology: Topology, live: Live, release: Release, budget: _Budget) -> None:
    """Set the policies; of a refusal only the code is compared, as the management API words it in its own way."""
    host = rules.VirtualHost(topology.vhost, release.profile)
    for policy in topology.policies.values():
        if not budget.takes():
            shown.not_asked += 1
            continue
        try:
            rules.set_policy(topology.tables(), host, policy)
            foretold = ACCEPTED
        except BrokerError as error:
            foretold = RecordedAnswer(error.code, error.text)
        try:
            live.set_policy(policy)
            seen = ACCEPTED
        except RefusedRequest as error:
            if error.status != 400:
                raise
            seen = (
                foretold
                if foretold != ACCEPTED
                else RecordedAnswer(400, f"BAD_REQUEST - {' '.join(error.reason.split())}")
            )
        _add(shown, UnexpectedAnswer(topology.vhost, describe_part(policy), foretold, seen))


def _compare_messages(
    shown: Shown, topology: Topology, witnesses: Sequence[ProbeMessage], host: LiveHost, live: Live, budget: _Budget
) -> None:
    """Publish messages, and compare the queues that get them with the route."""
    there = _declare_plainly(topology, host, live, budget)
    routers = Router(there, choose=lambda n: 0), Router(there, choose=lambda n: n - 1)
    by_store = _exchanges_by_store(there)
    for message, before in witnesses:
        foretold = None if message.exchange in by_store else _foretell(routers, message)
        if foretold is None or not budget.takes():
            shown.not_asked += 1
            continue
        what = f"a message to exchange {message.exchange!r} with key {message.routing_key!r}"
        try:
            host.publish(message)
        except OperationRefused as refused:
            seen = RecordedAnswer(refused.code, normalise(str(refused).removeprefix(f"{refused.code} ")))
            _add(shown, UnexpectedAnswer(topology.vhost, what, ACCEPTED, seen))
            continue
        arrived = _take_from(host, (foretold | before) & there.queues.keys())
        if arrived == foretold:
            shown.messages += 1
        else:
            shown.not_foretold.append(UnexpectedAnswer(topology.vhost, what, _in_queues(foretold), _in_queues(arrived)))
    for name in _take_from(host, there.queues):
        what = f"messages in queue {name!r}"
        shown.not_foretold.append(UnexpectedAnswer(topology.vhost, what, _in_queues(()), _in_queues([name])))


def _exchanges_by_store(topology: Topology) -> AbstractSet[str]:
    """Return the exchanges from which messages may get to one whose choice depends on the broker's metadata store."""
    ends = [
        name
        for name, exchange in topology.exchanges.items()
        if find_kind(exchange).depends_on_store(topology.bindings_from(name), topology.profile)
    ]
    return TopologyGraph(topology).graph.upstream(ends)


def _foretell(routers: Iterable[Router], message: Message) -> frozenset[str] | None:
    """Return the queues that get a message; None if chance or something unknown decides, or the broker refuses it."""
    try:
        routes = [router.route(message) for router in routers]
    except BrokerError:
        return None
    queues = {frozenset(route.queues) for route in routes if not route.undecided}
    return queues.pop() if len(queues) == 1 and not any(route.undecided for route in routes) else None


def _take_from(host: LiveHost, queues: Iterable[str]) -> frozenset[str]:
    """Return those of the queues that have messages, and empty them."""
    arrived = frozenset(name for name in queues if host.count(name))
    for name in arrived:
        host.purge(name)
    return arrived


def _in_queues(queues: Iterable[str]) -> RecordedAnswer:
    return RecordedAnswer(None, f"in {', '.join(sorted(queues)) or 'no queue'}")


def _declare_plainly(topology: Topology, host: LiveHost, live: Live, budget: _Budget) -> Topology:
    """Declare what decides about routes, with plain queues, and return what the broker has taken of it."""
    taken = Topology(vhost=topology.vhost, profile=topology.profile).tables()
    parts: list[Exchange | Queue | Binding] = [
        *(exchange for name, exchange in topology.exchanges.items() if name not in PREDECLARED_NAMES),
        *map(Queue, topology.queues),
        *topology.bindings,
    ]
    for part in parts:
        if budget.takes() and host.answer(*encode_declaration(part), ACCEPTED) == ACCEPTED:
            taken.apply(Change(True, part))
    for policy in topology.policies.values():
        if ALTERNATE in policy.definition:
            only = Policy(
                policy.name, policy.pattern, {ALTERNATE: policy.definition[ALTERNATE]}, "exchanges", policy.priority
            )
            try:
                live.set_policy(only)
            except RefusedRequest:
                continue  # which the comparison of policies shows
            taken.apply(Change(True, only))
    return Topology.from_tables(taken, topology.vhost, topology.profile)
