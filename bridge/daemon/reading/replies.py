"""The tables ``[replies.TARGET]``: where the servers behind a target reply, and how replies reach the callers.

A table adds to the bridge a source, which reads the replies with the target's address and login, and for each source
whose messages can reach the target, a target that writes replies to the callers there, with the source's.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from bridge.daemon import keys
from bridge.endpoint import Source, Target
from bridge.endpoints import build_caller_target, build_reply_source, find_system, has_groups
from bridge.endpoints.kafka.keys import REPLY_TOPICS
from bridge.interop.requests import KAFKA, RABBITMQ, ROCKETMQ
from bridge.interop.return_address import Sealer
from bridge.keys import Key
from bridge.mistakes import Mistakes
from bridge.pump.inlet import Inlet
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.replies import Callers, Replies, Servers
from bridge.table import Table
from exchange.topology.reach import find_reachable_queues
from exchange.topology.topology import Topology


class ReplyPlace(NamedTuple):
    """Where the servers of a system reply."""

    key: Key[str | None]
    """The key that names it."""
    default: str | None = None
    """Where they do if the key is missing; None if it must be there."""


PLACES: Final = {
    RABBITMQ: ReplyPlace(keys.REPLY_QUEUE),
    KAFKA: ReplyPlace(keys.REPLY_TOPIC),
    ROCKETMQ: ReplyPlace(keys.REPLY_TOPIC, "DefaultCluster_REPLY_TOPIC"),
}
"""System -> the place of its servers' replies."""


class Ends:
    """The endpoints of a file, with unread copies of their tables."""

    def __init__(
        self,
        source_tables: Mapping[str, Table],
        inlets: Mapping[str, Inlet],
        target_tables: Mapping[str, Table],
        targets: Mapping[str, Target],
        queues: Mapping[str, Target],
    ) -> None:
        self.source_tables = source_tables
        self.inlets = inlets
        self.target_tables = target_tables
        self.targets = targets
        self.queues = queues
        """Queue of the topology -> the target of its messages."""

    def can_reach(self, inlet: Inlet, target: Target, topology: Topology) -> bool:
        """Return whether messages of an inlet can get to a target."""
        return any(self.queues.get(queue) is target for queue in find_reachable_queues(topology, inlet.exchange))


def read_replies(
    file: Table,
    tables: Mapping[str, Table],
    mistakes: Mistakes,
    ends: Ends,
    topology: Topology,
    policy: Policy,
    *,
    has_dead_letters: bool,
) -> tuple[Replies, list[Inlet]]:
    """Read all tables of replies of a file, and return what passes, and the inlets that read replies.

    All mistakes are raised at its end, with those that were kept before.
    """
    servers: dict[Target, Servers] = {}
    callers: dict[str, Callers] = {}
    inlets: list[Inlet] = []
    for name, table in tables.items():
        with mistakes.collect():
            target = ends.targets.get(name)
            if target is None:
                known = ", ".join(ends.targets)
                raise file.error(f"replies.{name}", f"there is no target {name!r}; name one of {known}")
            asking = {each: inlet for each, inlet in ends.inlets.items() if ends.can_reach(inlet, target, topology)}
            for each in asking:
                with mistakes.collect():
                    _add_callers(each, ends, callers)
            sealers = {each: _sealer(name, each, ends) for each in asking if each in callers}
            if find_system(ends.target_tables[name]) not in PLACES:
                raise file.error(f"replies.{name}", f"[targets.{name}] is no broker, so no server replies there")
            if target.transactional:
                problem = f"[targets.{name}] is transactional, and replies are not; give requests another target"
                raise file.error(f"replies.{name}", problem)
            servers[target] = read = _read_servers(name, table, ends, sealers)
            if read.expired is Unroutable.DEAD_LETTER and not has_dead_letters:
                raise table.error(keys.EXPIRED.name, "there is no [dead_letters]")
            target.expect_replies()
            source = _build_source(name, table, ends, read, policy)
            _check_place(table, source, read, ends)
            inlets.append(Inlet(source, replies_of=read))
    mistakes.raise_any()
    return Replies(servers, callers), inlets


def warn_of_reply_topics(written: Mapping[str, Table], tables: Mapping[str, Table], replies: Replies) -> None:
    """Warn of sources, by their unread tables, that name topics for replies, and whose messages get none."""
    for name, each in written.items():
        if each.has(REPLY_TOPICS.name) and name not in replies.callers:
            text = "does nothing, as no target that its messages reach has replies; write [replies.TARGET]"
            tables[name].warn(REPLY_TOPICS.name, text)


def _add_callers(name: str, ends: Ends, callers: dict[str, Callers]) -> None:
    """Add the callers whose requests a source reads, unless they are there or there can be none."""
    table = ends.source_tables[name]
    system = find_system(table)
    if name in callers or system not in PLACES:
        return
    built = build_caller_target(f"callers.{name}", table.copy())
    if built is not None:
        callers[name] = Callers(system, *built)


def _sealer(target: str, source: str, ends: Ends) -> Sealer:
    """Return the sealer of the tokens of requests from a source to a target; each bridge has its own."""
    places = sorted(ends.inlets[source].source.places)
    return Sealer(source, "\0".join([target, *dict.fromkeys([f"{place.system} {place.cluster}" for place in places])]))


def _read_servers(name: str, table: Table, ends: Ends, sealers: Mapping[str, Sealer]) -> Servers:
    system = find_system(ends.target_tables[name])
    key, default = PLACES[system]
    place = key.read(table) or default
    if place is None:
        raise table.missing(key.name, f"is missing; name the {key.name} where the servers of [targets.{name}] reply")
    expired = Unroutable(keys.EXPIRED.read(table))
    return Servers(system, place, sealers, keys.REPLY_TIMEOUT.read(table), expired)


def _build_source(name: str, table: Table, ends: Ends, servers: Servers, policy: Policy) -> Source:
    key = PLACES[servers.system].key
    place: dict[str, Any] = {key.name: servers.place}
    group = keys.REPLY_GROUP.read(table)
    if has_groups(servers.system):
        # Of its own: a bridge that shared its group with another would lose replies to that one.
        ids = "".join(sorted([sealer.id for sealer in servers.sealers.values()]))
        place["group"] = group or f"hashstar-replies-{name}-{blake2b(ids.encode(), digest_size=4).hexdigest()}"
    elif group is not None:
        raise table.error("group", f"is not for a {key.name}, which has no groups of readers; leave it out")
    table.refuse_unread(keys.REPLIES_OF.names)
    return build_reply_source(f"replies.{name}", ends.target_tables[name].copy(), place, policy)


def _check_place(table: Table, source: Source, servers: Servers, ends: Ends) -> None:
    """Raise InputError if messages other than replies come from where replies are read, or others read them, too."""
    key = PLACES[servers.system].key.name
    users = {place: f"[targets.{name}] writes" for name, each in ends.targets.items() for place in each.places}
    users |= {place: f"[sources.{name}] reads" for name, inlet in ends.inlets.items() for place in inlet.source.places}
    for place in source.places:
        if place in users:
            raise table.error(key, f"{place.name} is what {users[place]}; replies need a place of their own")
