"""What a binding asks of a message, as a value: a pattern of its routing key, or something about its headers.

A condition means the same whichever exchange type it came from: a direct exchange's key equals a topic exchange's
pattern without wildcards, and a fanout binding equals the pattern ``#``. Exchange types in which the bindings compete
(chance, a hash) or that are unknown have no conditions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from exchange.patterns.conjunctions import PRESENT
from exchange.patterns.pattern import Pattern

__all__ = ["ALWAYS", "EVERYTHING", "NEVER", "Condition", "Headers"]


@dataclass(frozen=True, slots=True)
class Headers:
    """What a binding to a headers exchange asks: all or any of some headers, each with a value or merely present."""

    mode: Literal["all", "any"]
    wanted: frozenset[tuple[str, Hashable]]
    """Names with values as `exchange.kinds.headers.comparable` makes them, or ``PRESENT``."""
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The values as the binding has them."""

    def holds(self, headers: Mapping[str, Hashable]) -> bool:
        """Return whether the headers, as `exchange.kinds.headers.comparable_headers` makes them, meet the condition."""
        found = (name in headers and (wanted is PRESENT or headers[name] == wanted) for name, wanted in self.wanted)
        return all(found) if self.mode == "all" else any(found)

    def __str__(self) -> str:
        if not self.wanted:
            return "all messages" if self.mode == "all" else "no message"
        from exchange.notation import write_name, write_value  # only needed to show it

        asked = [
            f"{write_name(name)} is there"
            if wanted is PRESENT
            else f"{write_name(name)} = {write_value(self.arguments[name])}"
            for name, wanted in sorted(self.wanted, key=lambda pair: pair[0])
        ]
        return f"headers {(' and ' if self.mode == 'all' else ' or ').join(asked)}"


Condition: TypeAlias = Pattern | Headers

ALWAYS: Final = Headers("all", frozenset())
"""The condition that every message meets: all of no headers."""

NEVER: Final = Headers("any", frozenset())
"""The condition that no message meets: any of no headers."""

EVERYTHING: Final = Pattern.of_binding_key("#")
"""The pattern of every routing key."""
