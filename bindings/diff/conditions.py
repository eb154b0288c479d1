"""What a binding asks of a message, as a value: a pattern of its key, or something about its headers.

Invariant: a condition means the same whichever exchange type or dialect it came from, so that a direct exchange's key
and a topic exchange's literal pattern are equal, and so are ``fanout`` and ``#``. Bindings of kinds that do not decide
by a condition (chance, a hash, a plugin's unknown code) have none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bindings.algebra import Key
from exchange.conjunctions import PRESENT
from exchange.kinds.headers import comparable_headers, conditions_of, match_mode
from exchange.matcher import Matcher
from exchange.message import Message
from exchange.notation import write_name, write_value
from exchange.parts import Binding, Destination
from exchange.pattern import MANY, Pattern, ordered
from exchange.profile import Profile

__all__ = ["ALWAYS", "NEVER", "Branches", "Condition", "Edge", "Headers", "Probe", "condition_of", "holds"]


@dataclass(frozen=True, slots=True)
class Headers:
    """What a binding to a headers exchange asks: all or any of some headers, each with a value or merely there."""

    mode: Literal["all", "any"]
    wanted: frozenset[tuple[str, Hashable]]
    """Names with values as `exchange.kinds.headers.comparable` makes them, or ``PRESENT``."""
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The values as the binding has them."""

    def holds(self, headers: Mapping[str, Hashable]) -> bool:
        """Whether the headers, as `comparable_headers` makes them, are what is asked."""
        found = (name in headers and (wanted is PRESENT or headers[name] == wanted) for name, wanted in self.wanted)
        return all(found) if self.mode == "all" else any(found)

    def _written(self, name: str) -> str:
        return write_value(self.arguments[name])

    def __str__(self) -> str:
        if not self.wanted:
            return "all messages" if self.mode == "all" else "no message"
        asked = [
            f"{write_name(name)} is there" if wanted is PRESENT else f"{write_name(name)} = {self._written(name)}"
            for name, wanted in sorted(self.wanted, key=lambda pair: pair[0])
        ]
        return f"headers {(' and ' if self.mode == 'all' else ' or ').join(asked)}"


Condition: TypeAlias = Pattern | Headers

ALWAYS: Final = Headers("all", frozenset())
"""Every message: all of no headers."""

NEVER: Final = Headers("any", frozenset())
"""No message: any of no headers."""


class Probe(NamedTuple):
    """A message with one routing key, as far as routing by conditions looks at it."""

    key: str
    headers: Mapping[str, Any]
    compared: Mapping[str, Hashable]

    @classmethod
    def of(cls, key: str, headers: Mapping[str, Any], profile: Profile) -> Probe:
        """The probe of a key and headers."""
        return cls(key, headers, comparable_headers(Message("", key, headers), profile) if headers else {})

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """What a shorter one has less of: words, headers, bytes."""
        words = self.key.count(".") + 1 if self.key else 0
        return words, len(self.headers), len(self.key.encode("utf-8", "surrogatepass")), self.key


def holds(condition: Condition, probe: Probe) -> bool:
    """Whether the message is what the condition asks."""
    if isinstance(condition, Headers):
        return condition.holds(probe.compared)
    return condition.matches(probe.key)


def condition_of(binding: Binding, kind: str, profile: Profile) -> Condition:
    """What a binding from an exchange of this kind asks; ``kind`` is topic, direct, fanout or headers."""
    if kind == "fanout":
        return ALWAYS
    if kind == "headers":
        wanted = conditions_of(binding, profile)
        # One header asked for is all and any at once.
        mode: Literal["all", "any"] = "any" if match_mode(binding).startswith("any") and len(wanted) != 1 else "all"
        return Headers(mode, frozenset(wanted), binding.arguments)
    if kind == "direct" or ("*" not in binding.routing_key and "#" not in binding.routing_key):
        return Key(binding.routing_key)
    pattern = Pattern.of_binding_key(binding.routing_key)
    if pattern.literal:
        return Key(binding.routing_key)
    return ALWAYS if ordered(pattern.words) == (MANY,) else pattern


class Edge(NamedTuple):
    """One way on from an exchange: messages of which the condition holds go to the destination."""

    condition: Condition
    target: Destination


MATCHED = 32
"""So many patterns are tried one by one; more go into a matcher."""


class Branches:
    """Bindings of one exchange, to be asked which of them a message takes.

    Those with a literal key, of which there can be a hundred thousand, are kept as texts, and become conditions only
    where they are taken.
    """

    def __init__(self, bindings: Iterable[Binding], kind: str, profile: Profile) -> None:
        self._others: Final[dict[Edge, None]] = {}
        self._literal: Final[dict[str, tuple[Destination, ...]]] = {}
        for binding in bindings:
            key = binding.routing_key
            if kind == "direct" or (kind == "topic" and "*" not in key and "#" not in key):
                self._add_literal(key, binding.destination)
            else:
                edge = Edge(condition_of(binding, kind, profile), binding.destination)
                if isinstance(edge.condition, Key):
                    self._add_literal(key, binding.destination)
                elif edge.condition != NEVER:
                    self._others[edge] = None
        self._matcher: Final[Matcher[Edge]] = Matcher(cache=0)
        patterns = [edge for edge in self._others if isinstance(edge.condition, Pattern)]
        if len(patterns) > MATCHED:
            for edge in patterns:
                self._matcher.bind(edge.condition, edge)  # type: ignore[arg-type]
                del self._others[edge]
        self._found: Final = patterns if len(patterns) > MATCHED else []

    def _add_literal(self, key: str, target: Destination) -> None:
        targets = self._literal.get(key, ())
        if target not in targets:
            self._literal[key] = (*targets, target)

    def __len__(self) -> int:
        return len(self._literal) + len(self._others) + len(self._found)

    def taken(self, probe: Probe) -> Iterator[Edge]:
        """The edges whose condition holds."""
        for edge in self._others:
            if holds(edge.condition, probe):
                yield edge
        if self._found:
            yield from self._matcher.match(probe.key)
        targets = self._literal.get(probe.key)
        if targets:
            condition = Key(probe.key)
            for target in targets:
                yield Edge(condition, target)

    def near(self, conditions: Collection[Condition]) -> Iterator[Edge]:
        """The edges that may hold of a message of which all these conditions hold; at least all that can."""
        patterns = [condition for condition in conditions if isinstance(condition, Pattern)]
        exact = next((pattern.text for pattern in patterns if isinstance(pattern, Key)), None)
        if exact is not None:
            keys: Iterable[str] = [exact] if exact in self._literal else []
        else:
            keys = self._literal
        for key in keys:
            if all(pattern.matches(key) for pattern in patterns):
                for target in self._literal[key]:
                    yield Edge(Key(key), target)
        for edge in (*self._others, *self._found):
            if exact is None or isinstance(edge.condition, Headers) or edge.condition.matches(exact):
                yield edge
