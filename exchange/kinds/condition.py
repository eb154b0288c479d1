"""The condition of a binding on messages, as a value: a pattern of routing keys, or a requirement on headers.

A condition means the same for every exchange type: the key of a direct exchange equals the pattern of a topic exchange
without wildcards, and a fanout binding has the condition of the pattern ``#``. Exchange types whose bindings compete
(chance, a hash), or that are unknown, have no conditions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from exchange.patterns.conjunctions import PRESENT
from exchange.patterns.pattern import Pattern


class HeaderRules(NamedTuple):
    """How a release compares headers with arguments; the fields are those of `exchange.entities.profile.Profile`."""

    integers_equal_floats: bool = False
    timestamps_in_milliseconds: bool = False
    signed_zeros_differ: bool = False


NO_RULES: Final = HeaderRules()


@dataclass(frozen=True, slots=True)
class HeadersCondition:
    """The condition of a binding to a headers exchange: all or any of its headers, with a value or just present."""

    mode: Literal["all", "any"]
    wanted: frozenset[tuple[str, Hashable]]
    """Names with values as `exchange.kinds.headers.normalise_value` makes them, or ``PRESENT``."""
    rules: HeaderRules = NO_RULES
    """The rules that decide about these values; False where a rule does not matter. So conditions under the rules of
    two releases are equal only if the same messages meet them."""
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The arguments of the binding, which have the values as they were written."""

    def holds(self, headers: Mapping[str, Hashable]) -> bool:
        """Return whether the headers, as `exchange.kinds.headers.normalise_headers` makes them, meet the condition."""
        met = (name in headers and (wanted is PRESENT or headers[name] == wanted) for name, wanted in self.wanted)
        return all(met) if self.mode == "all" else any(met)

    def __str__(self) -> str:
        if not self.wanted:
            return "all messages" if self.mode == "all" else "no message"
        from exchange.values.notation import write_name, write_value  # only needed for texts

        requirements = [
            f"{write_name(name)} is there"
            if wanted is PRESENT
            else f"{write_name(name)} = {write_value(self.arguments[name])}"
            for name, wanted in sorted(self.wanted, key=lambda pair: pair[0])
        ]
        return f"headers {(' and ' if self.mode == 'all' else ' or ').join(requirements)}"


Condition: TypeAlias = Pattern | HeadersCondition

ALWAYS: Final = HeadersCondition("all", frozenset())
"""The condition that every message meets: all of no headers."""

NEVER: Final = HeadersCondition("any", frozenset())
"""The condition that no message meets: any of no headers."""

EVERYTHING: Final = Pattern.of_binding_key("#")
"""The pattern of every routing key."""
