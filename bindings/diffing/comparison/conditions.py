"""Test a condition of a binding (see `exchange.kinds.condition`) on a message, or all conditions of an exchange."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Binding, Destination
from exchange.entities.profile import Profile
from exchange.kinds import Kind
from exchange.kinds.condition import NEVER, Condition, HeaderRules, HeadersCondition
from exchange.kinds.headers import normalise_headers
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import ExactKey, Pattern
from exchange.values.message import Message

__all__ = ["ExchangeBranches", "Condition", "ConditionalEdge", "Probe", "holds"]


@dataclass(frozen=True, slots=True)
class Probe:
    """The part of a message that conditions look at: one routing key and the headers."""

    key: str
    headers: Mapping[str, Any]
    _compared: dict[HeaderRules, Mapping[str, Hashable]] = field(default_factory=dict, compare=False, repr=False)

    def compared(self, rules: HeaderRules) -> Mapping[str, Hashable]:
        """Return the headers in the form in which these rules compare them."""
        compared = self._compared.get(rules)
        if compared is None:
            compared = normalise_headers(Message("", self.key, self.headers), rules) if self.headers else {}
            self._compared[rules] = compared
        return compared

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """Sort key of probes, the shortest first: words, headers, bytes."""
        words = self.key.count(".") + 1 if self.key else 0
        return words, len(self.headers), len(self.key.encode("utf-8", "surrogatepass")), self.key

    def message(self, exchange: str) -> Message:
        """Return the message, published to an exchange."""
        return Message(exchange, self.key, dict(self.headers))


def holds(condition: Condition, probe: Probe) -> bool:
    """Return whether the condition holds for the message."""
    if isinstance(condition, HeadersCondition):
        return condition.holds(probe.compared(condition.rules))
    return condition.matches(probe.key)


class ConditionalEdge(NamedTuple):
    """An edge out of an exchange: messages for which the condition holds go to the target."""

    condition: Condition
    target: Destination


MATCHED = 32
"""Maximum number of patterns that are tried one by one; if there are more, all go into a matcher."""


class ExchangeBranches:
    """Bindings of one exchange, as edges that a message may take.

    Bindings with a literal key, of which there can be a hundred thousand, are kept as texts and become edges only when
    they are taken.
    """

    def __init__(self, bindings: Iterable[Binding], kind: type[Kind], profile: Profile) -> None:
        self._others: Final[dict[ConditionalEdge, None]] = {}
        self._literal: Final[dict[str, tuple[Destination, ...]]] = {}
        for binding in bindings:
            key = binding.routing_key
            if kind.literal_key(binding) is not None:
                self._add_literal(key, binding.destination)
                continue
            condition = kind.condition(binding, profile)
            if condition is not None and condition != NEVER:
                self._others[ConditionalEdge(condition, binding.destination)] = None
        self._matcher: Final[Matcher[ConditionalEdge]] = Matcher(cache=0)
        patterns = [edge for edge in self._others if isinstance(edge.condition, Pattern)]
        if len(patterns) > MATCHED:
            for edge in patterns:
                self._matcher.bind(edge.condition, edge)  # type: ignore[arg-type]
                del self._others[edge]
        self._matched: Final = patterns if len(patterns) > MATCHED else []

    def _add_literal(self, key: str, target: Destination) -> None:
        targets = self._literal.get(key, ())
        if target not in targets:
            self._literal[key] = (*targets, target)

    def __len__(self) -> int:
        return len(self._literal) + len(self._others) + len(self._matched)

    def taken(self, probe: Probe) -> Iterator[ConditionalEdge]:
        """Yield the edges whose condition holds."""
        for edge in self._others:
            if holds(edge.condition, probe):
                yield edge
        if self._matched:
            yield from self._matcher.match(probe.key)
        targets = self._literal.get(probe.key)
        if targets:
            condition = ExactKey(probe.key)
            for target in targets:
                yield ConditionalEdge(condition, target)

    def near(self, conditions: Collection[Condition]) -> Iterator[ConditionalEdge]:
        """Yield all edges that a message which meets these conditions may take, and perhaps some that it cannot."""
        patterns = [condition for condition in conditions if isinstance(condition, Pattern)]
        exact = next((pattern.text for pattern in patterns if isinstance(pattern, ExactKey)), None)
        if exact is not None:
            keys: Iterable[str] = [exact] if exact in self._literal else []
        else:
            keys = self._literal
        for key in keys:
            if all(pattern.matches(key) for pattern in patterns):
                for target in self._literal[key]:
                    yield ConditionalEdge(ExactKey(key), target)
        for edge in (*self._others, *self._matched):
            if exact is None or isinstance(edge.condition, HeadersCondition) or edge.condition.matches(exact):
                yield edge
