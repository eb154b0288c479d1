"""Compare the settings in force of the queues and exchanges that two topologies have in common.

A policy that changes changes them, and so does one that only now comes first; what a policy has that is not in force
changes nothing. Parts with the same changes are reported together. Where dead letters go another way, a message shows
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.diffing.settings.consequences import Consequence, QueueSide, find_consequence
from exchange.entities.effects import POLICIES_OF_EXCHANGES
from exchange.entities.entities import Destination, Exchange, Policy, Queue
from exchange.entities.in_force import DeadLetters, Policies, Setting, SettingsInForce
from exchange.entities.precedence import Possible, find_possible_values
from exchange.kinds import find_kind
from exchange.patterns.pattern import AMQP
from exchange.routing.dead_letters import find_hop
from exchange.routing.route import DeadLetterHop
from exchange.routing.router import Router
from exchange.text.display import list_some
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message

UNKNOWN: Final = Consequence("which policy is in force is not known here", loses=True)

Kind: TypeAlias = Literal["exchange", "queue"]
DEAD_LETTERS: Final = frozenset({"dead-letter-exchange", "dead-letter-routing-key"})
"""Settings that decide where dead letters go."""
QUEUES: Final = 20
"""Maximum number of queues of one change whose messages are tried."""
KEYS: Final = 20
"""Maximum number of keys tried for one queue."""
MAX_STEPS: Final = 10_000
"""Maximum cost of the search for one key."""
MAX_LISTED_QUEUES: Final = 3
"""Maximum number of queues that an example lists."""
LOST: Final = frozenset({"dropped", "missing", "unroutable"})


@document("SettingChangeJson", "name, before, after, means, loses")
class SettingChange(NamedTuple):
    """A setting whose value in force differs."""

    name: str
    """As policies name it, without ``x-``."""
    before: Possible
    """The value before, None for none. More than one where it is not known which of several policies was in force."""
    after: Possible
    consequence: Consequence | None
    """What that means to messages; None where it loses none, or where the comparison of routes has it."""

    @property
    def means(self) -> str | None:
        """What that means to messages; None where it loses none, or where the comparison of routes has it."""
        return None if self.consequence is None else self.consequence.text

    @property
    def loses(self) -> bool:
        """Whether a message may be lost that was not, or leave the queue that kept it."""
        return self.consequence is not None and self.consequence.loses


@document("SettingsChangeJson", "kind, names, changes, example or null")
class SettingsChange(NamedTuple):
    """Queues or exchanges whose settings in force differ in the same way."""

    kind: Kind
    names: tuple[str, ...]
    """Sorted."""
    changes: tuple[SettingChange, ...]
    """Sorted by name."""
    example: str = ""
    """A message of one of the queues, with where it went and goes when it is dead-lettered; "" where there is none."""

    @property
    def loses(self) -> bool:
        """Whether messages may be lost that were not, or leave the queues that kept them."""
        return any(change.loses for change in self.changes)


def compare_settings(before: Topology, after: Topology) -> tuple[SettingsChange, ...]:
    """Return which settings in force differ, of the queues and exchanges that both topologies have; sorted.

    Settings are in force by the rules of each topology's profile. A queue that has to be declared again is the same
    queue.
    """
    policies = before.policies_in_force(), after.policies_in_force()
    letters = Letters(before, after)
    all_may = before.profile.settings != after.profile.settings
    changed = [*_differing(before.policies, after.policies)]
    changed += _differing(before.operator_policies, after.operator_policies)
    groups: dict[tuple[Kind, tuple[SettingChange, ...]], list[str]] = {}
    for kind, name, old, new in _parts_in_both(before, after):
        # What no changed policy is about keeps its settings: a cheap question, where there are many policies.
        touched = all_may or old.arguments != new.arguments
        if touched or any(policy.is_found_in(name) is not False for policy in changed):
            changes = tuple(_changes((old, new), (before, after), policies, letters))
            if changes:
                groups.setdefault((kind, changes), []).append(name)
    found = []
    for (kind, changes), names in groups.items():
        about_letters = kind == "queue" and any(change.name in DEAD_LETTERS for change in changes)
        names.sort()
        found.append(SettingsChange(kind, tuple(names), changes, letters.find_example(names) if about_letters else ""))
    return tuple(sorted(found, key=lambda change: (change.kind, change.names)))


def _differing(before: Mapping[str, Policy], after: Mapping[str, Policy]) -> Iterator[Policy]:
    """Yield the policies that only one side has, both versions of those that differ."""
    for these, others in ((before, after), (after, before)):
        yield from (policy for name, policy in these.items() if others.get(name) != policy)


def _parts_in_both(before: Topology, after: Topology) -> Iterator[tuple[Kind, str, Exchange | Queue, Exchange | Queue]]:
    kinds: tuple[tuple[Kind, Mapping[str, Exchange | Queue], Mapping[str, Exchange | Queue]], ...] = (
        ("exchange", before.exchanges, after.exchanges),
        ("queue", before.queues, after.queues),
    )
    for kind, olds, news in kinds:
        for name, old in olds.items():
            new = news.get(name)
            if new is not None and (name or kind == "queue"):
                yield kind, name, old, new


def _changes(
    parts: tuple[Exchange | Queue, Exchange | Queue],
    topologies: tuple[Topology, Topology],
    policies: tuple[Policies, Policies],
    letters: Letters,
) -> Iterator[SettingChange]:
    old, new = (each.possible_settings(part) for part, each in zip(parts, policies, strict=True))
    defaults = _differing_defaults(parts, topologies)
    for name in sorted({*defaults, *(name for settings in (*old, *new) for name in settings.values)}):
        before, after = (
            tuple(default if value is None else value for value in find_possible_values(settings, name))
            for settings, default in zip((old, new), defaults.get(name, (None, None)), strict=True)
        )
        if _comparable(before) != _comparable(after) and _concerns(parts[0], name, (*before, *after)):
            yield SettingChange(name, before, after, _consequence(name, parts, old, new, topologies, letters))


def _differing_defaults(
    parts: tuple[Exchange | Queue, Exchange | Queue], topologies: tuple[Topology, Topology]
) -> dict[str, tuple[Setting | None, Setting | None]]:
    """Return setting -> its default before and after, of those that two releases have by different defaults."""
    if any(part.type != "quorum" for part in parts if isinstance(part, Queue)) or isinstance(parts[0], Exchange):
        return {}
    limits = [topology.profile.lives.delivery_limit for topology in topologies]
    before, after = (None if limit is None else Setting(limit, "default") for limit in limits)
    return {} if before == after else {"delivery-limit": (before, after)}


def _consequence(
    name: str,
    parts: tuple[Exchange | Queue, Exchange | Queue],
    old: tuple[SettingsInForce, ...],
    new: tuple[SettingsInForce, ...],
    topologies: tuple[Topology, Topology],
    letters: Letters,
) -> Consequence | None:
    if len(old) > 1 or len(new) > 1:
        return UNKNOWN
    if isinstance(parts[0], Exchange):
        return None
    before, after = (
        QueueSide(settings[0], part.type, topology.exchanges, topology.profile, partial(letters.may_arrive, side))
        for side, (settings, part, topology) in enumerate(zip((old, new), parts, topologies, strict=True))
    )
    return find_consequence(name, before, after)


def _comparable(values: Iterable[Setting | None]) -> frozenset[object]:
    """Return the values without their sources, so that 1, 1.0 and true differ."""
    return frozenset(None if value is None else (type(value.value), value.value) for value in values)


def _concerns(part: Exchange | Queue, name: str, values: Iterable[Setting | None]) -> bool:
    """Return whether a setting means something to a part, and is not written in two ways."""
    if isinstance(part, Exchange):
        return name in POLICIES_OF_EXCHANGES  # other arguments decide about routes, which are compared by themselves
    if name == "queue-type":
        return {"classic" if value is None else value.value for value in values} != {"classic"}
    return True


class Letters:
    """The dead letters of two topologies; nothing is computed before it is asked for."""

    def __init__(self, before: Topology, after: Topology) -> None:
        self._topologies: Final = before, after
        self._arriving: Final[tuple[dict[str, bool], dict[str, bool]]] = {}, {}

    @cached_property
    def _routers(self) -> tuple[Router, Router]:
        before, after = self._topologies
        return Router(before), Router(after)

    @cached_property
    def _graphs(self) -> tuple[TopologyGraph, TopologyGraph]:
        before, after = self._topologies
        return TopologyGraph(before), TopologyGraph(after)

    def may_arrive(self, side: int, letters: DeadLetters) -> bool:
        """Return whether some dead letter may get to a queue, 0 before the change, 1 after it.

        An exchange that leads to no binding of a queue drops them all, and so does one that does not exist.
        """
        topology, name = self._topologies[side], letters.exchange
        if name is None or name not in topology.exchanges:
            return False
        if not name:
            return letters.routing_key is None or letters.routing_key in topology.queues
        known = self._arriving[side].get(name)
        if known is None:
            behind = self._graphs[side].graph.downstream([name])
            known = self._arriving[side][name] = any(
                binding.destination.kind == "queue" for source in behind for binding in topology.bindings_from(source)
            )
        return known

    def find_example(self, queues: Sequence[str]) -> str:
        """Return a message that is dead-lettered otherwise after the change, one that is lost if possible.

        "" if no message was found: a few of each of the first queues are tried. One that is lost before and after the
        change shows nothing.
        """
        found = ""
        for name in queues[:QUEUES]:
            for key in islice(self._keys(name), KEYS):
                old, new = self._hop(0, name, key), self._hop(1, name, key)
                if old is None or new is None or (old.outcome, old.queues) == (new.outcome, new.queues):
                    continue
                if old.outcome in LOST and new.outcome in LOST:
                    continue
                text = f"such as '{key}' in queue '{name}': {_describe(old)}, then {_describe(new)}"
                if new.outcome in LOST:
                    return text
                found = found or text
        return found

    def _keys(self, queue: str) -> Iterator[str]:
        """Yield keys that messages of a queue may have after the change."""
        after = self._topologies[1]
        ways = after.bindings_to(Destination("queue", queue))
        for binding in ways:
            source = after.exchanges.get(binding.source)
            kind = None if source is None or source.internal else find_kind(source)
            pattern = None if kind is None else kind.pattern(binding)
            if pattern is not None:
                try:
                    key = find_shortest_key(AMQP, (pattern,), (), Budget(MAX_STEPS))
                except OutOfBudget:
                    continue
                if key is not None:
                    yield key
            elif kind is not None and kind.decider.has_conditions:
                yield binding.routing_key or "x"
        if not ways:
            yield queue  # messages come by the default exchange

    def _hop(self, side: int, name: str, key: str) -> DeadLetterHop | None:
        """Return what becomes of a dead letter on one side; None where headers or chance decide."""
        topology = self._topologies[side]
        hop = find_hop(topology.queues[name], Message("", key), topology.policies_in_force(), self._routers[side])
        exchange = topology.exchanges.get(hop.letters.exchange or "")
        if exchange is not None and not find_kind(exchange).decider.is_key_only:
            return None
        return None if hop.outcome in ("unknown", "undecided") else hop


def _describe(hop: DeadLetterHop) -> str:
    if hop.outcome == "dropped":
        return "dropped"
    if hop.outcome == "missing":
        return f"lost, as exchange '{hop.letters.exchange}' does not exist"
    if hop.outcome == "unroutable":
        return "lost, as no queue gets its dead letter"
    return f"dead-lettered to {list_some([repr(queue) for queue in hop.queues], MAX_LISTED_QUEUES)}"
