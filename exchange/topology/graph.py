"""A topology as a graph: which exchange may hand messages to which, over bindings or as to its alternate exchange.

Beside these edges are those of dead letters, from queues to exchanges: a message takes one only after it was queued.

Which edges a message takes depends on its key and headers. So a path of the graph is one that some message may take,
and where there is no path, no message passes. The default exchange has no edges: brokers refuse to bind it, and a
message that is published to it never takes its alternate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final, TypeVar

from exchange.entities.entities import Binding, Destination, Ranked
from exchange.entities.in_force import (
    NO_DEAD_LETTERS,
    DeadLetters,
    Policies,
    SettingsInForce,
    find_alternates_in_effect,
    find_possible_alternates,
)
from exchange.entities.unread import has_shards_made
from exchange.topology.topology import Topology

Node = TypeVar("Node", bound="str | tuple[str, ...]")
"""What graphs are of: names, or tuples of names."""


class Graph:
    """A directed graph of names; each node keeps its neighbours in the order in which edges were added."""

    def __init__(self) -> None:
        self.next: Final[dict[str, dict[str, None]]] = {}
        self.previous: Final[dict[str, dict[str, None]]] = {}

    def add(self, source: str, target: str) -> None:
        """Add an edge; adding one again changes nothing."""
        self.next.setdefault(source, {})[target] = None
        self.previous.setdefault(target, {})[source] = None

    def downstream(self, names: Iterable[str]) -> set[str]:
        """Return these nodes and all that a path leads to from them."""
        return reach(self.next, names)

    def upstream(self, names: Iterable[str]) -> set[str]:
        """Return these nodes and all from which a path leads to them."""
        return reach(self.previous, names)

    def number_upstream_last(self, names: Iterable[str]) -> dict[str, int]:
        """Return node -> number; a node has a greater number than each node that it has an edge to, except on a cycle.

        Depth first, in a loop: a chain of exchanges can be longer than Python's stack is deep.
        """
        numbers: dict[str, int] = {}
        seen: set[str] = set()
        for name in names:
            path: list[tuple[str, Iterator[str]]] = []
            if name not in seen:
                seen.add(name)
                path.append((name, iter(self.next.get(name, ()))))
            while path:
                here, targets = path[-1]
                following = next((target for target in targets if target not in seen), None)
                if following is None:
                    numbers[here] = len(numbers)
                    path.pop()
                else:
                    seen.add(following)
                    path.append((following, iter(self.next.get(following, ()))))
        return numbers


class TopologyGraph:
    """The exchanges of a topology, the bindings between them, and their alternate exchanges."""

    def __init__(self, topology: Topology) -> None:
        self.topology: Final = topology
        self._settings: Final[dict[str, tuple[SettingsInForce, ...]]] = {}
        self.possible_alternates: Final[dict[str, tuple[str | None, ...]]] = {}
        """Exchange -> the alternates that it may have, as arguments and policies name them; None stands for none.

        More than one where it is not known which policy is in force. Exchanges that surely have none are left out.
        """
        self.alternates_in_effect: Final[dict[str, tuple[str | None, ...]]] = {}
        """The same, with the default exchange replaced by its own alternates: it hands such messages on to them."""
        ranked = Ranked(topology.policies.values())
        for name, exchange in topology.exchanges.items():
            possible = find_possible_alternates(exchange, ranked) if name else (None,)
            if possible != (None,):
                self.possible_alternates[name] = possible
                in_effect = find_alternates_in_effect(exchange, ranked) if "" in possible else possible
                self.alternates_in_effect[name] = in_effect

    @cached_property
    def policies(self) -> Policies:
        """What computes the settings in force."""
        return self.topology.policies_in_force()

    @cached_property
    def dead_letters(self) -> dict[str, tuple[DeadLetters, ...]]:
        """Queue -> where its dead letters may go; more than one element where it is not known which policy is in force.

        Queues that surely drop them are left out.
        """
        if not self.topology.policies:  # most topologies: only queues with the argument have any
            queues = [queue for queue in self.topology.queues.values() if "x-dead-letter-exchange" in queue.arguments]
        else:
            queues = list(self.topology.queues.values())
        found: dict[str, tuple[DeadLetters, ...]] = {}
        for queue in queues:
            possible = [settings.dead_letters for settings in self.possible_settings(queue.name)]
            letters = tuple(dict.fromkeys(possible))
            if letters != (NO_DEAD_LETTERS,):
                found[queue.name] = letters
        return found

    def possible_settings(self, queue: str) -> tuple[SettingsInForce, ...]:
        """Return the settings that may be in force for a queue, as `Policies.possible_settings`."""
        if queue not in self._settings:
            self._settings[queue] = self.policies.possible_settings(self.topology.queues[queue])
        return self._settings[queue]

    @cached_property
    def only_dead_letters(self) -> frozenset[str]:
        """Exchanges that dead letters get to, and no other message, unless one is published there.

        Dead letters get to the dead letter exchanges of queues, and to all that these hand messages on to. Left out is
        what another exchange leads to, and what gets dead letters only from queues behind itself, as the first exchange
        of a circle of retries: messages must be published to that one. Where it is not known which policy is in force,
        a queue counts as one without dead letters.
        """
        targets = {
            queue: possible[0].exchange
            for queue, possible in self.dead_letters.items()
            if len(possible) == 1 and possible[0].exchange in self.topology.exchanges and possible[0].exchange
        }
        if not targets:
            return frozenset()
        behind = self.graph.downstream(targets.values())
        published = self.topology.exchanges.keys() - behind
        by_bindings = self.graph.downstream(published)
        # What dead letters get to that come from queues which other messages get to: over bindings from there, or by
        # the default exchange where a queue has no binding.
        reached = set(by_bindings)
        pending = {queue for queue in targets if self._gets_messages(queue, reached)}
        while pending:
            reached = self.graph.downstream({*reached, *(targets[queue] for queue in pending)})
            pending = {
                queue for queue in targets if targets[queue] not in reached and self._gets_messages(queue, reached)
            }
        return frozenset((behind & reached) - by_bindings)

    def _gets_messages(self, queue: str, reached: AbstractSet[str]) -> bool:
        """Return whether a queue has a binding from one of these exchanges, or none at all."""
        ways = self.topology.bindings_to(Destination("queue", queue))
        return not ways or any(binding.source in reached for binding in ways)

    @cached_property
    def unsure(self) -> frozenset[str]:
        """Exchanges whose alternate is not known, because it is not known which policy is in force.

        Those for which a plugin makes queues are among them: which these are, only the broker knows.
        """
        unknown = {name for name, possible in self.alternates_in_effect.items() if len(possible) > 1}
        exchanges, policies = self.topology.exchanges.values(), self.topology.policies
        sharded = {each.name for each in exchanges if has_shards_made(each, policies)}
        return frozenset(unknown | sharded)

    @cached_property
    def alternates(self) -> dict[str, str]:
        """Exchange -> the alternate that its messages get to, where that is known and exists."""
        return {
            name: possible[0]
            for name, possible in self.alternates_in_effect.items()
            if len(possible) == 1 and possible[0] and possible[0] in self.topology.exchanges
        }

    @cached_property
    def bindings(self) -> dict[str, list[Binding]]:
        """Source exchange, which need not exist -> its bindings to existing exchanges other than the default one.

        Sources without such bindings are left out. The bindings are looked up by destination: most of an exchange's
        bindings lead to queues, and there can be a million.
        """
        bindings: dict[str, list[Binding]] = {}
        for name in self.topology.exchanges:
            for binding in self.topology.bindings_to(Destination("exchange", name)) if name else ():
                bindings.setdefault(binding.source, []).append(binding)
        return bindings

    @cached_property
    def graph(self) -> Graph:
        """All edges that messages may take: every binding between exchanges, every alternate that may be in effect."""
        graph = Graph()
        for source, bindings in self.bindings.items():
            for binding in bindings if source else ():
                graph.add(source, binding.destination.name)
        for source, possible in self.alternates_in_effect.items():
            for alternate in possible:
                if alternate and alternate in self.topology.exchanges:
                    graph.add(source, alternate)
        return graph


def reach(edges: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """Return these nodes and all that a path leads to from them."""
    reached = set(starts)
    pending = list(reached)
    while pending:
        for target in edges.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def find_cycles(edges: Mapping[Node, Iterable[Node]]) -> list[list[Node]]:
    """Return the sets of two or more nodes that can all reach each other, each sorted."""
    return sorted([sorted(component) for component in find_components(edges) if len(component) > 1])


def reach_as_bits(edges: Mapping[Node, Iterable[Node]]) -> dict[Node, tuple[int, int]]:
    """Return node -> its own bit, and the bits of all that a path leads to from it: its own only on a cycle."""
    reached: dict[Node, tuple[int, int]] = {}
    for component in find_components(edges):  # after all that it leads to
        bits = 0
        own = {node: 1 << at for at, node in enumerate(component, len(reached))}
        for node in component:
            for target in edges.get(node, ()):
                bit, further = (own[target], 0) if target in own else reached[target]
                bits |= bit | further
        reached |= {node: (bit, bits) for node, bit in own.items()}
    return reached


def find_components(edges: Mapping[Node, Iterable[Node]]) -> Iterator[list[Node]]:
    """Yield the sets of nodes that can all reach each other, of one node or more, each after those that it leads to.

    Tarjan's algorithm for strongly connected components, in a loop: a node's set is complete when the lowest number
    that the node can reach is its own; the set is then the part of the stack from that node on.
    """
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: dict[Node, None] = {}
    for root in edges:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack[root] = None
        path = [(root, iter(edges[root]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack[target] = None
                    path.append((target, iter(edges.get(target, ()))))
                    break
                if target in stack:
                    lowest[node] = min(lowest[node], number[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component: list[Node] = []
                    while not component or component[-1] != node:
                        component.append(stack.popitem()[0])
                    yield component
