"""What an upgrade crosses: a topology under the rules of the old release and of the new one.

A broker refuses a policy without settings, so one that has nothing but what the new release refuses is to be removed as
a whole: then a policy of lower priority takes its place. One that sets more stays, and is in force in more queues if it
was the removed setting that a type of queues does not support.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.in_force import DeadLetters, Policies, SettingsInForce
from exchange.entities.part import Part
from exchange.entities.policy_definitions import find_wrong_settings
from exchange.entities.profile import Profile
from exchange.errors import HashstarError
from exchange.kinds import Decider, find_kind
from exchange.routing.router import Router
from exchange.text.display import clip_line, count_noun, list_some
from exchange.topology.graph import TopologyGraph, find_cycles, reach
from exchange.topology.topology import Topology
from exchange.values.message import Message

Seen: TypeAlias = tuple[Part | None, str]
"""A part of the topology, None for the whole broker, and what distinguishes it, "" for nothing."""
QUEUE: Final = "queue "
EXCHANGE: Final = "exchange "
MAX_LISTED_PARTS: Final = 10
"""Maximum number of queues, exchanges or policies that are listed."""
NAME: Final = 100
"""Maximum number of characters of a name or pattern; it is clipped in the middle."""

Key = tuple[bool, str]
"""Whether it is an operator policy, and the name."""
Parts = dict[str | None, list[Queue | Exchange]]
"""Name of another policy, None for none -> where it takes the place of a policy, or gives way to it."""


class PolicyShifts:
    """What becomes of the policies of a topology when those that only the new release refuses lose what it refuses."""

    def __init__(self, before: Topology, new: Profile) -> None:
        self._new: Final = new
        self._all: Final = {_key(each): each for each in before.all_policies}
        self._mended: Final = {
            key: _without_refused(policy, new)
            for key, policy in self._all.items()
            if _is_refused(policy, new) and (before.profile == new or not _is_refused(policy, before.profile))
        }
        """The refused policies, without the settings that are refused."""
        self._below: Final[dict[Key, Parts]] = {}
        """Refused policy -> the others that come into force where it is in force now."""
        self._gained: Final[dict[Key, Parts]] = {}
        """Refused policy -> the others that are in force now where it comes into force."""
        for policies in (before.policies, before.operator_policies):
            if any(_key(policy) in self._mended for policy in policies.values()):
                self._compare(before, policies)

    def explain(self, policy: Policy) -> str:
        """Return what the removal of the refused settings of a policy means to others: a sentence without its end.

        "" if it is not its settings that are refused.
        """
        key = _key(policy)
        if key not in self._mended:
            return ""
        below, gained = self._below.get(key, {}), self._gained.get(key, {})
        if self._mended[key].definition:
            if not gained:
                return "what else it sets stays in force where it is"
            shifts = [f"{_list(parts)}{self._in_place_of(name, policy)}" for name, parts in _by_name(gained)]
            return (
                f"without the setting it also comes into force in {list_some(shifts, MAX_LISTED_PARTS)}: change its "
                "pattern or apply-to if it should not"
            )
        if not below:
            return "it sets nothing else, and no other policy comes into force when it is removed"
        shifts = [
            f"{self._describe(name, policy)} comes into force in {_list(parts)}" for name, parts in _by_name(below)
        ]
        keep = (
            "change the patterns of those that should not"
            if policy.operator
            else "to prevent that, keep it with queue-leader-locator = client-local alone, which moves no message"
        )
        return f"it sets nothing else: when it is removed, {list_some(shifts, MAX_LISTED_PARTS, 'and')}; {keep}"

    def _compare(self, before: Topology, policies: Mapping[str, Policy]) -> None:
        """Compare the policies in force in each part by the rules of the old release, and by those of the new one."""
        operator = next(iter(policies.values())).operator
        refused = {name for is_operator, name in self._mended if is_operator == operator}
        mended = {name: self._mended.get((operator, name), policy) for name, policy in policies.items()}
        mended = {name: policy for name, policy in mended.items() if policy.definition or name not in refused}
        parts: list[Queue | Exchange] = [*before.queues.values(), *before.exchanges.values()]
        old, new = Policies(policies, profile=before.profile), Policies(mended, profile=self._new)
        for part in parts:
            was, now = old.find_names(part, operator=False), new.find_names(part, operator=False)
            for name in refused & (was - now):
                for other in now - was - {None}:
                    self._below.setdefault((operator, name), {}).setdefault(other, []).append(part)
            for name in refused & (now - was):
                for other in was - now:
                    self._gained.setdefault((operator, name), {}).setdefault(other, []).append(part)

    def _in_place_of(self, name: str | None, policy: Policy) -> str:
        return ", where none was" if name is None else f", in place of {self._describe(name, policy)}"

    def _describe(self, name: str | None, like: Policy) -> str:
        """Return a policy with what decides where it is in force: ``policy 'low' (priority 1, pattern '^jobs')``."""
        assert name is not None  # none never takes the place of another  # noqa: S101
        policy = self._all[like.operator, name]
        kind = "operator policy" if policy.operator else "policy"
        pattern = clip_line(repr(policy.pattern), NAME)
        return f"{kind} {clip_line(repr(name), NAME)} (priority {policy.priority}, pattern {pattern})"


def _key(policy: Policy) -> Key:
    return policy.operator, policy.name


def _is_refused(policy: Policy, profile: Profile) -> bool:
    return bool(find_wrong_settings(policy.definition, profile, operator=policy.operator))


def _without_refused(policy: Policy, profile: Profile) -> Policy:
    """Return a policy without the settings that a release refuses."""
    definition = {
        name: value
        for name, value in policy.definition.items()
        if not find_wrong_settings({name: value}, profile, operator=policy.operator)
    }
    return replace(policy, definition=definition)


def _by_name(parts: Parts) -> Iterator[tuple[str | None, list[Queue | Exchange]]]:
    """Yield the policies by name, none first."""
    yield from sorted(parts.items(), key=lambda pair: (pair[0] is not None, pair[0] or ""))


def _list(parts: Sequence[Queue | Exchange]) -> str:
    """Return the names of parts, queues first: ``queue 'jobs'`` or ``2 queues ('jobs', 'tasks') and exchange 'x'``."""
    lists = []
    for noun, kind in (("queue", Queue), ("exchange", Exchange)):
        names = [clip_line(repr(part.name), NAME) for part in parts if isinstance(part, kind)]
        if len(names) == 1:
            lists.append(f"{noun} {names[0]}")
        elif names:
            lists.append(f"{count_noun(len(names), noun)} ({list_some(names, MAX_LISTED_PARTS)})")
    return " and ".join(lists)


class DeadLetterWays:
    """The ways of dead letters through a topology.

    They are exact for a queue that gives its dead letters a key, if nothing but keys decides where they go; else they
    are those that a message may take. What keeps its key on the default exchange is left out: the key of a message
    decides.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self._graph: Final = TopologyGraph(topology)

    @cached_property
    def circles(self) -> set[str]:
        """The queues that a message may come back to as a dead letter."""
        return self.circles_among(self._topology.queues.keys())

    def circles_among(self, queues: Collection[str]) -> set[str]:
        """Return which of these queues a message may come back to as a dead letter without getting to others."""
        left_out = {QUEUE + name for name in self._topology.queues.keys() - set(queues)}
        edges = {node: targets - left_out for node, targets in self._edges.items() if node not in left_out}
        nodes = {node for circle in find_cycles(edges) for node in circle}
        nodes |= {node for node, targets in edges.items() if node in targets}
        return {node.removeprefix(QUEUE) for node in nodes if node.startswith(QUEUE)}

    def leading_to(self, queues: Collection[str]) -> list[str]:
        """Return the queues whose dead letters may get to one of these at once."""
        wanted = {QUEUE + name for name in queues}
        between = {node: targets for node, targets in self._edges.items() if node.startswith(EXCHANGE)}
        lead = {node for node in between if not wanted.isdisjoint(reach(between, [node]))} | wanted
        return [
            node.removeprefix(QUEUE)
            for node, targets in self._edges.items()
            if node.startswith(QUEUE) and not lead.isdisjoint(targets)
        ]

    @cached_property
    def _edges(self) -> dict[str, set[str]]:
        """Queue or exchange -> the queues and exchanges that dead letters get to from there."""
        if not self._graph.dead_letters:
            return {}  # no router is built
        router = Router(self._topology)
        edges = {
            QUEUE + name: {target for letters in possible for target in self._targets(letters, router)}
            for name, possible in self._graph.dead_letters.items()
        }
        first = {target for targets in edges.values() for target in targets if target.startswith(EXCHANGE)}
        for exchange in self._graph.graph.downstream(target.removeprefix(EXCHANGE) for target in first):
            bound = {QUEUE + b.destination.name for b in self._topology.bindings_from(exchange)
                     if b.destination.kind == "queue"}  # fmt: skip
            edges[EXCHANGE + exchange] = bound | {EXCHANGE + name for name in self._graph.graph.next.get(exchange, ())}
        return edges

    def _targets(self, letters: DeadLetters, router: Router) -> set[str]:
        exchange = letters.exchange
        if exchange is None or exchange not in self._topology.exchanges:
            return set()
        if letters.routing_key is None or not self._by_key(exchange):
            return {EXCHANGE + exchange} if exchange else set()
        try:
            route = router.route_dead_letter(Message(exchange, letters.routing_key))
        except HashstarError:
            return set()
        return {QUEUE + name for name in route.queues}

    def _by_key(self, exchange: str) -> bool:
        """Return whether keys alone decide where a message goes from an exchange."""
        behind = self._graph.graph.downstream([exchange])
        deciders = {find_kind(self._topology.exchanges[name]).decider for name in behind}
        return deciders <= {Decider.NOTHING, Decider.KEY}


@dataclass(frozen=True)
class Crossing:
    """A topology under the profile of the old release, and the profile of the new one."""

    before: Topology
    new: Profile

    @cached_property
    def after(self) -> Topology:
        """The topology under the profile of the new release."""
        return self.before.with_profile(self.new)

    @cached_property
    def in_force(self) -> list[tuple[Queue, tuple[SettingsInForce, ...], tuple[SettingsInForce, ...]]]:
        """Each queue with the settings that may be in force in it, in the old release and in the new one."""
        old, new = self.before.policies_in_force(), self.after.policies_in_force()
        return [(q, old.possible_settings(q), new.possible_settings(q)) for q in self.before.queues.values()]

    @cached_property
    def old_in_force(self) -> Mapping[str, tuple[SettingsInForce, ...]]:
        """Name of a queue -> the settings that may be in force in it in the old release."""
        return {queue.name: old for queue, old, _ in self.in_force}

    @cached_property
    def new_in_force(self) -> Mapping[str, tuple[SettingsInForce, ...]]:
        """Name of a queue -> the settings that may be in force in it in the new release."""
        return {queue.name: new for queue, _, new in self.in_force}

    @cached_property
    def dead_letters(self) -> DeadLetterWays:
        """Where the dead letters of queues may go."""
        return DeadLetterWays(self.after)

    @cached_property
    def policy_shifts(self) -> PolicyShifts:
        """Which policies come into force when what the new release refuses is removed from others."""
        return PolicyShifts(self.before, self.new)


def find_broker(crossing: Crossing) -> Iterator[Seen]:
    """Yield the broker: no topology shows whether the fact matters."""
    yield None, ""


def build_queue_finder(
    is_seen: Callable[[Queue, tuple[SettingsInForce, ...], tuple[SettingsInForce, ...]], bool], *types: str
) -> Callable[[Crossing], Iterator[Seen]]:
    """Return a function that yields the queues of some types, or of all, in which a fact is seen.

    ``is_seen`` is called with a queue and the settings that may be in force in it, in the old release and in the new.
    """

    def find(crossing: Crossing) -> Iterator[Seen]:
        for queue, old, new in crossing.in_force:
            if (not types or queue.type in types) and is_seen(queue, old, new):
                yield queue, ""

    return find


def may_dead_letter(queue: Queue, possible: tuple[SettingsInForce, ...]) -> bool:
    """Return whether a queue with one of these settings has a dead letter exchange."""
    return any(settings.dead_letters.exchange is not None for settings in possible)
