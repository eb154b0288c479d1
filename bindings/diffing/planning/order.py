"""Order the steps of a plan: add first, remove last, and in between, with care, change tangled exchanges.

Declarations come first. New bindings follow, those downstream before those upstream, so that a path is complete when it
opens; then policies that change alternate exchanges; then parts that must be replaced; then bindings are removed, those
upstream first, so that a path is closed before its end is removed; queues and exchanges go last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from bindings.analysis.crawl import Deadline
from bindings.diffing.planning.rehearsal import Rehearsal, TooMuch, mark
from bindings.diffing.planning.step import Step, StepState, Unit
from bindings.diffing.planning.tangles import Alteration, find_tangled
from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue, Ranked
from exchange.entities.in_force import find_alternate, find_possible_alternates
from exchange.kinds import Decider, UnknownExchange, find_kind
from exchange.text.display import list_some
from exchange.topology.graph import Graph
from exchange.topology.topology import Topology

KEYS_MOVE: Final = "keys move between the destinations of exchange {!r} with each of its bindings"


@dataclass(frozen=True, slots=True)
class PartsToChange:
    """What is to be done, in no order. Parts to replace are in ``replaced`` only, their new bindings in ``bound``."""

    new: Collection[Exchange | Queue]
    gone: Collection[Exchange | Queue]
    replaced: Collection[tuple[Exchange | Queue, Exchange | Queue]]
    """Each part as it is and as it is to be."""
    bound: Collection[Binding]
    unbound: Collection[Binding]
    set: Collection[Policy]
    cleared: Collection[Policy]


def order_safely(before: Topology, after: Topology, difference: PartsToChange, deadline: Deadline) -> list[Unit]:
    """Return the steps in the order to carry them out; those that do harm in every order tried are marked.

    After the deadline no more orders are tried: steps that may do harm are then marked as not looked at.
    """
    order = _Order(before, after, difference, deadline)
    careful = find_tangled(order.graph, order.changes())
    first, middle, last = order.phases()
    if careful:
        first, middle, last, core = order.separate(careful, first, middle, last)
        closing = [unit for unit in middle if _closes(unit)]
        opening = [unit for unit in middle if not _closes(unit)]
        state = StepState(before)
        for unit in (*first, *opening):
            state.carry_out(unit, after, [])
        middle = [*opening, *order.order_careful(careful, state, core), *closing]
    return [order.mark_hashes(unit) for unit in (*first, *middle, *last)]


def _closes(unit: Unit) -> bool:
    """Return whether a unit begins with the removal of a binding."""
    return isinstance(unit[0].part, Binding) and not unit[0].added


class _Order:
    """The difference to put in order, and the graph of all exchanges: before, after and on the way."""

    def __init__(self, before: Topology, after: Topology, difference: PartsToChange, deadline: Deadline) -> None:
        self._deadline: Final = deadline
        self._before: Final = before
        self._after: Final = after
        self._todo: Final = difference
        self._replaced: Final = {to_destination(old) for old, _ in difference.replaced}
        self._alternates: Final = [_alternates(before), *_between(before, after, difference), _alternates(after)]
        self.graph: Final = Graph()
        for binding in (*before.bindings, *difference.bound):
            if binding.destination.kind == "exchange":
                self.graph.add(binding.source, binding.destination.name)
        for alternates in self._alternates:
            for name, alternate in alternates.items():
                self.graph.add(name, alternate)
        self._numbers: Final = self.graph.number_upstream_last([*before.exchanges, *after.exchanges])
        changed = Counter(binding.source for binding in (*difference.bound, *difference.unbound))
        self._rehashed: Final = {
            name
            for name, count in changed.items()
            if count > 1 and name in before.exchanges and find_kind(before.exchanges[name]).decider is Decider.HASH
        }

    def phases(self) -> tuple[list[Unit], list[Unit], list[Unit]]:
        """Return what comes first, what in between and what last: see the module."""
        todo = self._todo
        first: list[Unit] = []
        turning: list[Unit] = []
        for added, policies in ((True, todo.set), (False, todo.cleared)):
            for policy in policies:
                turns = _may_turn_alternates(policy.name, self._before, self._after)
                old = self._before.policies.get(policy.name) if added else None
                (turning if turns else first).append((Step(added, policy, old=old),))
        first += [(Step(True, part),) for part in todo.new]
        swaps, swapped = self._swaps()
        bound, unbound = ([b for b in bindings if b not in swapped] for bindings in (todo.bound, todo.unbound))
        opening = [(Step(True, binding),) for binding in self._by_number(bound, downstream_first=True)]
        replacing = [self._replacement(old, new) for old, new in todo.replaced]
        closing = [(Step(False, binding),) for binding in self._by_number(unbound, downstream_first=False)]
        return first, [*opening, *turning, *replacing, *closing, *swaps], [(_deletion(part),) for part in todo.gone]

    def _swaps(self) -> tuple[list[Unit], set[Binding]]:
        """Return the units that empty a slot of bindings and fill it again, and the bindings in them.

        A broker keeps only one binding of a slot in effect, and removing any binding of it empties the slot (see
        `exchange.kinds.kind.Kind.slot`). So in the usual order, new bindings first, the slot would end up empty and its
        bindings without effect.
        """
        units: list[Unit] = []
        swapped: set[Binding] = set()
        for name in dict.fromkeys(binding.source for binding in self._todo.unbound):
            exchange = self._before.exchanges.get(name)
            if exchange is None or self._replaced & {Destination("exchange", name)}:
                continue
            kind = find_kind(exchange)
            slots = {kind.slot(binding) for binding in self._todo.unbound if binding.source == name} - {None}
            for slot in sorted(slots, key=repr):
                old, new = (
                    [binding for binding in topology.bindings_from(name) if kind.slot(binding) == slot]
                    for topology in (self._before, self._after)
                )
                if not new or self._replaced & {new[0].destination}:
                    continue
                swapped.update(old, new)
                units.append(self._swap(exchange, old, new))
        return units, swapped

    def _swap(self, exchange: Exchange, old: list[Binding], new: list[Binding]) -> Unit:
        """Return the steps that empty a slot and fill it.

        Of an auto-delete exchange without other bindings, the steps that bind come first: it would be deleted with its
        last binding.
        """
        name = exchange.name
        if exchange.auto_delete and len(old) == len(self._before.bindings_from(name)):
            why = f"exchange {name!r} must keep a binding; the new one has no effect until it is made again"
            first, last = new, [binding for binding in old if binding not in new]
            return (*(Step(True, binding, why) for binding in first), *(Step(False, binding, why) for binding in last))
        why = f"messages miss {new[0].destination} between these steps: exchange {name!r} keeps one such binding"
        if find_kind(exchange).decider is Decider.HASH:
            why = KEYS_MOVE.format(name)
        return (*(Step(False, binding, why) for binding in old), *(Step(True, binding, why) for binding in new))

    def changes(self) -> dict[str, Alteration]:
        """Return exchange -> how it changes."""
        changes: dict[str, Alteration] = {}

        def add(name: str, kind: Alteration) -> None:
            changes[name] = changes.get(name, Alteration.NOTHING) | kind

        for kind, bindings in ((Alteration.GAINS, self._todo.bound), (Alteration.LOSES, self._todo.unbound)):
            for binding in bindings:
                add(binding.source, kind)
        for end in self._replaced:
            if end.kind == "exchange":
                add(end.name, Alteration.GAINS | Alteration.LOSES | Alteration.SWITCHES)
        handing = {
            binding.source
            for binding in (*self._todo.bound, *self._todo.unbound)
            if binding.destination.kind == "exchange"
        }
        # An exchange switches if its alternate changes on the way, or if bindings change and it has an alternate.
        for name in {name for alternates in self._alternates for name in alternates}:
            values = [alternates.get(name) for alternates in self._alternates]
            if name in self._before.exchanges and name in self._after.exchanges:
                if name in changes or len(set(values)) > 1:
                    add(name, Alteration.SWITCHES)
                    if name in handing or not {*values} <= {values[0], values[-1]}:
                        add(name, Alteration.FORKS)
            elif name in self._left_open() or name in self.graph.downstream(self.graph.next.get(name, ())):
                add(name, Alteration.SWITCHES | Alteration.FORKS)  # messages come to it before it is complete
        return changes

    def separate(
        self, careful: set[str], first: list[Unit], middle: list[Unit], last: list[Unit]
    ) -> tuple[list[Unit], list[Unit], list[Unit], list[Unit]]:
        """Return the three phases without the units that concern careful exchanges, then these, in the usual order."""
        open_ends = self._left_open() & careful
        core: list[Unit] = []
        rest: list[list[Unit]] = []
        for units, concerns in ((first, open_ends), (middle, careful), (last, open_ends)):
            rest.append([])
            for unit in units:
                (core if any(self._concerns(step, concerns) for step in unit) else rest[-1]).append(unit)
        return rest[0], rest[1], rest[2], core

    def order_careful(self, careful: set[str], state: StepState, core: list[Unit]) -> list[Unit]:
        """Return the units that concern careful exchanges: in a safe order, else with the harmful ones marked."""
        entries = self.graph.upstream(careful)
        try:
            rehearsal = Rehearsal(self._before, self._after, self.graph.downstream(entries), entries, self._deadline)
        except TooMuch as error:
            names = list_some(list(map(repr, sorted(careful))), 3)
            why = f"{self._risk(careful)} meanwhile: {names} change and hand messages on, and {error}"
            return [mark(unit, why) for unit in core]
        try:
            ordered = rehearsal.safe_order(state, core)
        except TooMuch:
            ordered = None
        return list(rehearsal.least_bad_order(state, core)) if ordered is None else ordered

    def _risk(self, careful: set[str]) -> str:
        """Describe what may happen to messages in the usual order of steps."""
        switch = any(Alteration.SWITCHES in kind for name, kind in self.changes().items() if name in careful)
        passed = self.graph.downstream(self.graph.upstream(careful))
        exchanges = [*self._before.exchanges.values(), *self._after.exchanges.values()]
        additive = all(find_kind(exchange).decider.has_conditions for exchange in exchanges if exchange.name in passed)
        if additive and not switch:
            return "messages may reach other queues, though none is lost,"
        return "messages may be lost or reach other queues"

    def mark_hashes(self, unit: Unit) -> Unit:
        """Return the unit, marked if it moves keys to other queues, or may do so at an exchange of unknown type."""
        for step in unit:
            if isinstance(step.part, Binding):
                name = step.part.source
                if name in self._rehashed:
                    return mark(unit, KEYS_MOVE.format(name))
                exchange = self._before.exchanges.get(name)
                if exchange is not None and find_kind(exchange) is UnknownExchange:
                    return mark(unit, f"exchange {name!r} is of a type unknown here, and so is what messages do")
        return unit

    def _left_open(self) -> set[str]:
        """Return the names of alternate exchanges that do not exist before, or after."""
        sides = [(topology, Ranked(topology.policies.values())) for topology in (self._before, self._after)]
        return {
            name
            for topology, policies in sides
            for exchange in topology.exchanges.values()
            for name in find_possible_alternates(exchange, policies)
            if name is not None and name not in topology.exchanges
        }

    def _concerns(self, step: Step, names: set[str]) -> bool:
        part = step.part
        if isinstance(part, Policy):
            policies = (self._before.policies.get(part.name), self._after.policies.get(part.name))
            return any(policy.applies_to_exchange(name) is not False for policy in policies if policy for name in names)
        if isinstance(part, Binding):
            return part.source in names
        return isinstance(part, Exchange) and part.name in names

    def _by_number(self, bindings: Iterable[Binding], *, downstream_first: bool) -> list[Binding]:
        """Return the bindings in the order of their sources, without those of replaced parts, which a unit has."""
        plain = [binding for binding in bindings if not self._replaced & {_source(binding), binding.destination}]
        return sorted(plain, key=lambda binding: self._numbers.get(binding.source, 0), reverse=not downstream_first)

    def _replacement(self, old: Exchange | Queue, new: Exchange | Queue) -> Unit:
        """Return the steps that delete a part, declare it, and bind it: first bindings from it, then bindings to it."""
        end = to_destination(old)
        bindings = dict.fromkeys(self._after.bindings_to(end))
        if isinstance(old, Exchange):
            bindings = dict.fromkeys([*self._after.bindings_from(old.name), *bindings])
            lost = "publishers are refused meanwhile, and bindings of exclusive queues are lost"
        else:
            lost = "its messages and consumers are lost, and what comes for it meanwhile"
        kind = type(old).__name__.lower()
        why = f"{kind} {old.name!r} cannot be changed, only deleted and declared again: {lost}"
        steps = [
            Step(False, old, why, in_use=True),
            Step(True, new, why, old=old),
            *(Step(True, b, why) for b in bindings),
        ]
        return tuple(steps)


def _deletion(part: Exchange | Queue) -> Step:
    return Step(False, part, "the messages in it are lost with it" if isinstance(part, Queue) else None)


def to_destination(part: Exchange | Queue) -> Destination:
    """Return an exchange or queue as bindings name it."""
    return Destination("queue" if isinstance(part, Queue) else "exchange", part.name)


def _source(binding: Binding) -> Destination:
    return Destination("exchange", binding.source)


def _alternates(topology: Topology) -> dict[str, str]:
    """Return exchange -> its alternate, where both exist."""
    alternates = {}
    policies = Ranked(topology.policies.values())
    for exchange in topology.exchanges.values():
        alternate = find_alternate(exchange, policies)
        if alternate is not None and alternate in topology.exchanges:
            alternates[exchange.name] = alternate
    return alternates


def _between(before: Topology, after: Topology, difference: PartsToChange) -> Iterator[dict[str, str]]:
    """Yield maps, exchange -> alternate, that together give each exchange every alternate that it may have on the way.

    Any order of setting and clearing policies counts, since tangled exchanges have an order of their own.
    """
    exchanges = {**before.exchanges, **after.exchanges}
    versions: dict[str, list[Policy | None]] = {name: [policy] for name, policy in before.policies.items()}
    for policy in difference.set:
        versions.setdefault(policy.name, [None]).append(policy)
    for policy in difference.cleared:
        versions[policy.name].append(None)
    ranked = Ranked(policy for known in versions.values() for policy in known if policy is not None)
    possible = {}
    for name, exchange in exchanges.items():
        near = dict.fromkeys(policy.name for policy in ranked.near(name))
        possible[name] = _possible_alternates(exchange, [versions[each] for each in near])
    for turn in range(max(map(len, possible.values()), default=0)):
        alternates = {name: values[min(turn, len(values) - 1)] for name, values in possible.items()}
        yield {
            name: alternate
            for name, alternate in alternates.items()
            if alternate is not None and alternate in exchanges
        }


def _possible_alternates(exchange: Exchange, versions: Iterable[Collection[Policy | None]]) -> list[str | None]:
    """Return the alternates of an exchange under every choice of a version of each policy that may apply to it."""
    applying = [
        [policy if policy is not None and policy.applies_to_exchange(exchange.name) else None for policy in known]
        for known in versions
    ]
    # A version of a policy can be in force if it applies and no other policy has a higher priority in all its versions.
    # ``least`` is the lowest priority of a policy's versions, or -inf if one of them does not apply.
    least = [min([-inf if policy is None else policy.priority for policy in known]) for known in applying]
    possible = [find_alternate(exchange, {})] if set(least) <= {-inf} else []
    for number, known in enumerate(applying):
        if not any(known):
            continue
        most = max([priority for at, priority in enumerate(least) if at != number], default=-inf)
        possible += [
            find_alternate(exchange, {policy.name: policy})
            for policy in known
            if policy is not None and most <= policy.priority
        ]
    return list(dict.fromkeys(possible))


def _may_turn_alternates(name: str, before: Topology, after: Topology) -> bool:
    """Return whether the policy of this name may change the alternate exchange of an exchange, before or after.

    A policy without an alternate exchange may do so, too: it can take precedence over one that has one.
    """
    both = (before.policies, after.policies)
    ours = [policies[name] for policies in both if name in policies]
    others = [policy for policies in both for policy in policies.values() if "alternate-exchange" in policy.definition]
    if any(policy in others for policy in ours):
        return True
    return any(
        policy.applies_to_exchange(exchange) is not False
        and any(other.applies_to_exchange(exchange) is not False for other in others)
        for policy in ours
        for topology in (before, after)
        for exchange in topology.exchanges
    )
