"""Check the queues and exchanges that a bridge needs, by passive declares and the management API; nothing is changed.

Nothing is consumed: each delivery counts towards a quorum queue's delivery limit, at which messages are dropped. If the
management API is missing or does not answer, the checks that need it are left out, and a finding ``not checked``
reports that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pika

from bindings.sources.address import name_cluster
from bridge.endpoint import BridgeLayout, Disconnected, Finding, Level, Place
from bridge.endpoints.outages import judge_removals
from bridge.endpoints.rabbitmq.addresses import read_cluster_name
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.queue_facts import (
    QueueFacts,
    find_limits,
    find_removals,
    find_setting,
    refuses_when_full,
)
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from bridge.endpoints.rabbitmq.refusals import NO_ACCESS, NOT_FOUND
from bridge.endpoints.rabbitmq.routes import Expected, PublishRoute
from exchange.errors import BrokerError
from exchange.text.display import count_noun

CONSUMER_TIMEOUT: Final = 1_800_000
"""RabbitMQ's default consumer_timeout, in milliseconds. A queue with a shorter one gets a warning: the broker would
take messages back while a target is away."""

MAX_HOPS: Final = 8
"""Maximum number of exchanges that are followed in a chain of bindings."""

DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the default exchange for the patterns of permissions."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of a source that matter to its queue."""

    queue: str
    exclusive: bool = False
    keeps_offsets: bool = False
    """Whether there is a file of offsets, for a stream."""
    has_management: bool = False
    """Whether the address of the management API is configured: then it is asked while messages are read, too."""
    prefetch: int = 2_000
    """Maximum number of unacknowledged deliveries."""


@dataclass(slots=True)
class Look:
    """One check of a broker: its connection, and the findings so far."""

    connection: Connection
    management: ManagementClient
    sources: frozenset[str]
    """Queues of this broker that the bridge reads."""
    findings: list[Finding] = field(default_factory=list)
    knows_more: bool = False
    """Whether the management API answers."""
    rights: Mapping[str, Any] | None = None
    """Patterns of the names that the user may configure, write and read; None if they are not known."""

    def add(self, level: Level, text: str, key: str = "") -> None:
        """Add a finding, unless it is there already."""
        finding = Finding(level, text, key)
        if finding not in self.findings:
            self.findings.append(finding)

    async def begin(self) -> None:
        """Ask the management API whether it answers, and for the user's permissions."""
        try:
            await self.management.check_cluster(self.connection.server.get("cluster_name"))
            self.knows_more = True
        except Unknown as error:
            self.add(
                "not checked",
                f"types, policies, rights and other consumers: {error}; with the plugin rabbitmq_management, a user "
                'with the tag monitoring and management = "http://HOST:PORT" they are',
            )
            return
        try:
            self.rights = await self.management.rights()
        except Unknown:
            shown = "only administrators are shown them" if self.connection.user else "they are in its scopes"
            self.add("not checked", f"the rights of {self.connection.account}: {shown}")

    async def declare(self, kind: str, name: str, key: str, reason: str = "", *, absent: bool = False) -> Any:
        """Return the answer to a passive declare; if the broker refuses it, add a finding and return None.

        With ``absent`` a missing queue is right, and one that is there is an error.
        """
        try:
            answer = await self.connection.look("exchange" if kind == "exchange" else "queue", name)
        except BrokerError as error:
            if error.code == NOT_FOUND:
                if not absent:
                    why = f" ({reason})" if reason else ""
                    self.add("error", f"{kind} {name!r}: there is none; declare it{why}", key)
            elif error.code == NO_ACCESS:
                if not absent:
                    why = f"{self.connection.account} has no right that would allow it"
                    self.add("not checked", f"{kind} {name!r}: {why}", key)
            else:
                self.add("error", f"{kind} {name!r}: {error.text}", key)
            return None
        if absent:
            self.add("error", f"{kind} {name!r} is one partition more than there should be: {reason}", key)
            return None
        return answer

    def check_right(self, right: str, name: str, what: str, key: str) -> None:
        """Add an error if the user is known to lack a permission."""
        if self.rights is None:
            return
        user, pattern = self.connection.user, str(self.rights.get(right, ""))
        try:
            has = re.search(pattern, name) is not None
        except re.error:
            self.add("not checked", f"{what}: the pattern {pattern!r} of user {user!r} is not understood here", key)
            return
        if not has:
            self.add("error", f"{what}: user {user!r} may not {right} it; grant it: its pattern is {pattern!r}", key)

    async def queue(self, name: str) -> Mapping[str, Any] | None:
        """Return what the management API knows about a queue; None if it does not answer."""
        if not self.knows_more:
            return None
        try:
            return await self.management.queue(name)
        except Unknown as error:
            self.add("not checked", f"queue {name!r}: {error}")
            return None

    async def queues_behind(self, exchange: str, routing_key: str | None, steps: int = MAX_HOPS) -> set[str]:
        """Return the queues that an exchange may lead to; the default exchange leads to the queue named by the key."""
        if not exchange:
            return {routing_key} if routing_key is not None else set()
        queues: set[str] = set()
        try:
            bindings = await self.management.bindings(exchange)
        except Unknown as error:
            self.add("not checked", f"exchange {exchange!r}: where it leads to: {error}")
            return queues
        for each in bindings:
            if each.get("destination_type") == "queue":
                queues.add(str(each.get("destination")))
            elif steps > 1 and each.get("destination") != exchange:
                queues |= await self.queues_behind(str(each.get("destination")), routing_key, steps - 1)
            elif steps == 1:
                self.add("not checked", f"exchange {exchange!r}: where it leads to behind {MAX_HOPS} exchanges")
        return queues


async def check_source(
    brokers: Sequence[pika.URLParameters], settings: SourceSettings, management: str | None = None
) -> Sequence[Finding]:
    """Check the queue of a source, and return the findings; see `bridge.endpoint.Endpoint.check`."""
    look = await _begin_look(brokers, management, frozenset([settings.queue]))
    if isinstance(look, Finding):
        return [look]
    name = settings.queue
    try:
        answer = await look.declare("queue", name, "queue")
        if answer is not None:
            count, consumers = answer.method.message_count, answer.method.consumer_count
            look.add("ok", f"queue {name!r}: there, with {count_noun(count, 'message')} ready", "queue")
            look.check_right("read", name, f"queue {name!r}", "queue")
            known = await look.queue(name)
            if known is not None:
                await _check_read(look, settings, known)
            elif consumers and not settings.exclusive:
                _warn_of_consumers(look, name, consumers)
    except (Disconnected, BrokerError) as error:
        look.findings.append(Finding.from_error(error, "url"))
    finally:
        await look.connection.close()
    return look.findings


async def check_target(
    brokers: Sequence[pika.URLParameters],
    routes: Mapping[str, PublishRoute],
    management: str | None = None,
    layout: BridgeLayout | None = None,
) -> Sequence[Finding]:
    """Check the queues and exchanges of a target, and return the findings; see `bridge.endpoint.Endpoint.check`."""
    look = await _begin_look(brokers, management, _source_queues(brokers[0], layout))
    if isinstance(look, Finding):
        return [look]
    try:
        seen: set[tuple[str, str]] = set()
        for queue, route in routes.items():
            for expected in route.expected:
                if (expected.kind, expected.name) not in seen:
                    seen.add((expected.kind, expected.name))
                    await _check_expected(look, expected, queue, layout)
            if not route.exchange:
                key = f"queues.{queue}" if queue else "queue"
                look.check_right("write", DEFAULT_EXCHANGE, "the default exchange", key)
    except (Disconnected, BrokerError) as error:
        look.findings.append(Finding.from_error(error, "url"))
    finally:
        await look.connection.close()
    return look.findings


def find_places(brokers: Sequence[pika.URLParameters], queue: str) -> frozenset[Place]:
    """Return the place of a queue that is read; see `bridge.endpoint.Endpoint.places`."""
    return frozenset([Place("rabbitmq", name_cluster(read_cluster_name(brokers[0])), f"queue {queue}")])


async def _begin_look(
    brokers: Sequence[pika.URLParameters], management: str | None, sources: frozenset[str]
) -> Look | Finding:
    """Connect to the broker, and return a `Look` for the checks; if that fails, return a finding with the reason."""
    try:
        connection = await Connection.open(brokers, lambda _: None)
    except Disconnected as error:
        return Finding.from_error(error, "url")
    parameters = connection.parameters
    look = Look(connection, ManagementClient(parameters, management), sources)
    try:
        await look.begin()
    except BaseException:
        await connection.close()
        raise
    return look


def _source_queues(broker: pika.URLParameters, layout: BridgeLayout | None) -> frozenset[str]:
    """Return the queues of a target's broker that the bridge reads."""
    if layout is None:
        return frozenset()
    places = [place for source in layout.sources for place in source.places]
    here = name_cluster(read_cluster_name(broker))
    return frozenset(
        [
            place.name.removeprefix("queue ")
            for place in places
            if (place.system, place.cluster) == ("rabbitmq", here) and place.name.startswith("queue ")
        ]
    )


async def _check_read(look: Look, settings: SourceSettings, known: Mapping[str, Any]) -> None:
    """Check a queue or stream that is read; ``known`` is what the management API knows about it."""
    name, kind = settings.queue, str(known.get("type", "classic"))
    title = f"{kind} queue {name!r}" if kind != "stream" else f"stream {name!r}"
    if kind == "stream" and not settings.keeps_offsets:
        way_out = 'write offsets = "FILE" to go on instead'
        look.add("warning", f"{title}: each start reads it all again; {way_out}", "offsets")
    _judge_removals(look, known, title, "queue")
    if kind == "stream":
        return
    if kind == "quorum":
        if settings.exclusive:
            text = "quorum queues let several consumers be exclusive; declare it with x-single-active-consumer"
            look.add("warning", f"{title}: {text}", "exclusive")
        _check_limit(look, settings, known, title)
    exchange = find_setting(known, "dead-letter-exchange")
    if exchange is not None:
        await _check_dead_letters(look, known, name, title, {name}, "queue")
    timeout = find_setting(known, "consumer-timeout")
    if isinstance(timeout, int) and timeout < CONSUMER_TIMEOUT:
        look.add(
            "warning",
            f"{title}: its consumer timeout is {timeout / 1_000:g} s; when targets are away for longer the broker "
            "takes its messages back, and counts that as a delivery before 4.3; raise it",
            "queue",
        )
    others = await _other_consumers(look, known)
    if others and not settings.exclusive and find_setting(known, "single-active-consumer") is not True:
        _warn_of_consumers(look, name, others)


def _judge_removals(look: Look, known: Mapping[str, Any], title: str, key: str, *, is_written: bool = False) -> None:
    """Report the outage that the messages of a queue survive."""
    for level, text, about in judge_removals(find_removals(known, title), key, is_written=is_written):
        look.add(level, text, about)


def _check_limit(look: Look, settings: SourceSettings, known: Mapping[str, Any], title: str) -> None:
    """Report how many crashes a quorum queue survives, and warn if it drops messages after that."""
    facts = QueueFacts.from_answer(known, str(look.connection.server.get("version", "")))
    limit, alone_from = facts.delivery_limit, facts.alone_from
    if limit is None:
        return
    drops = find_setting(known, "dead-letter-exchange") is None
    text = f"{title}: it survives {limit} crashes of its readers; this queue {'drops' if drops else 'dead-letters'} a "
    text += f"message when it was delivered {limit + 1} times and not settled"
    if alone_from is None or not settings.has_management:
        text += f", and with it up to {settings.prefetch:,} that were prefetched"
    elif alone_from:
        text += f"; one that came back {alone_from} times is taken alone, so that no others go with it"
    else:
        text += "; each is taken alone, so that no others go with it"
    if drops:
        text += "; give it a dead-letter exchange, or a policy with delivery-limit = -1"
    if alone_from is not None and not settings.has_management:
        text += '; with management = "http://HOST:PORT", messages that come back often are taken alone'
    look.add("warning" if drops else "ok", text, "queue")


async def _check_dead_letters(
    look: Look, known: Mapping[str, Any], name: str, title: str, sources: set[str], key: str
) -> None:
    """Warn of dead letters of a queue that may come back to a queue that the bridge reads."""
    exchange, routing_key = find_setting(known, "dead-letter-exchange"), find_setting(known, "dead-letter-routing-key")
    leads_to = await look.queues_behind(str(exchange), str(routing_key) if routing_key is not None else None)
    for queue in sorted(leads_to & sources):
        look.add(
            "warning",
            f"{title}: its dead letters may go to queue {queue!r} (by exchange {exchange!r}), which the bridge reads: "
            "a loop; have them go elsewhere",
            key,
        )


async def _other_consumers(look: Look, known: Mapping[str, Any]) -> int:
    """Return the number of consumers of a queue that belong to other programs than bridges."""
    others = 0
    for each in known.get("consumer_details") or ():
        channel = each.get("channel_details") if isinstance(each, dict) else None
        try:
            product = await look.management.product(str((channel or {}).get("connection_name")))
        except Unknown:
            product = None
        others += product != "hashstar"
    return others


def _warn_of_consumers(look: Look, name: str, count: int) -> None:
    look.add(
        "warning",
        f"queue {name!r}: {count_noun(count, 'consumer')} beside this bridge, unless its own; each gets a share, "
        "and order holds only with a single active consumer (x-single-active-consumer)",
        "queue",
    )


async def _check_expected(look: Look, expected: Expected, queue: str, layout: BridgeLayout | None) -> None:
    """Check a queue or an exchange that is written to, or a queue that must not be there."""
    kind, name, key = expected.kind, expected.name, expected.key
    if await look.declare(kind, name, key, expected.reason, absent=expected.absent) is None:
        return
    look.add("ok", f"{kind} {name!r}: there", key)
    if kind == "exchange":
        look.check_right("write", name, f"exchange {name!r}", key)
        if look.knows_more:
            await _check_exchange(look, expected, queue, layout)
        return
    if name in look.sources:
        look.add("warning", f"queue {name!r}: the bridge reads it, too: a loop", key)
    known = await look.queue(name)
    if known is None:
        return
    title = f"queue {name!r}"
    if find_setting(known, "dead-letter-exchange") is not None and look.sources:
        await _check_dead_letters(look, known, name, title, set(look.sources), key)
    _judge_removals(look, known, title, key, is_written=True)
    if find_limits(known) and refuses_when_full(known):
        look.add(
            "warning",
            f"{title}: when it is full it refuses messages ({find_setting(known, 'overflow')}), and what is under way "
            "behind one overtakes it; write one_at_a_time = true in [policy] if the order of a key must hold even then",
            key,
        )


async def _check_exchange(look: Look, expected: Expected, queue: str, layout: BridgeLayout | None) -> None:
    """Check an exchange that is written to: its type, its partitions, the queues behind it."""
    name, key = expected.name, expected.key
    try:
        known = await look.management.exchange(name)
        bindings = await look.management.bindings(name)
    except Unknown as error:
        look.add("not checked", f"exchange {name!r}: {error}")
        return
    kind = known.get("type")
    if known.get("internal"):
        look.add("error", f"exchange {name!r}: it is internal: only exchanges can publish to it; declare it anew", key)
    if expected.is_type and kind != expected.is_type:
        look.add("error", f"exchange {name!r}: it is of type {kind}, and would have to be {expected.is_type}", key)
    partitioning = None if layout is None or not expected.is_type else layout.topology.queues[queue].partitioning
    if partitioning is not None and len(bindings) != partitioning.partitions.count:
        look.add(
            "error",
            f"exchange {name!r}: {count_noun(len(bindings), 'binding')}, and the topology spreads {queue!r} over "
            f"{partitioning.partitions.count}: change one of them",
            key,
        )
    for each in sorted(await look.queues_behind(name, None) & look.sources):
        look.add("warning", f"exchange {name!r}: it may lead to queue {each!r}, which the bridge reads: a loop", key)
