"""Find the fewest headers for which all of some conditions hold and none of others.

The search takes the names of headers one after another. A header is left out, or gets a value that a condition
mentions, or one value that no condition mentions: no other choice makes a difference. A state is the set of conditions
that the choices so far have settled, so there are at most as many states as combinations of conditions, however many
headers are named.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from bindings.analysis.crawl import Budget, OutOfBudget
from bindings.diff.comparison.conditions import Headers
from exchange.entities.profile import Profile
from exchange.field_values import Typed, type_and_value
from exchange.kinds.headers import comparable
from exchange.patterns.conjunctions import PRESENT

__all__ = ["fewest_headers"]

ABSENT: Final = object()
SENDER_SELECTED: Final = "CC"
"""Header whose strings RabbitMQ takes as further routing keys; it refuses a message in which this is not an array."""
TAKEN_OUT: Final = "BCC"
"""Header that RabbitMQ removes before it routes the message."""


def fewest_headers(
    all_of: Sequence[Headers], none_of: Sequence[Headers], profile: Profile, budget: Budget
) -> dict[str, Any] | None:
    """Return the fewest headers for which all of ``all_of`` and none of ``none_of`` hold; None when there are none.

    None of them adds a routing key (see `SENDER_SELECTED`). Raises OutOfBudget, also if only a header that adds one
    would meet the conditions.
    """
    # One unmet header settles a condition of mode "all": it fails. One met header settles one of mode "any": it holds.
    conditions = (*all_of, *none_of)
    wanted_true = len(all_of)
    names = sorted({name for condition in conditions for name, _ in condition.wanted})
    states: dict[frozenset[int], tuple[tuple[str, Any], ...]] = {frozenset(): ()}
    left_out = False
    for name in names:
        asked = [(number, value) for number, c in enumerate(conditions) for n, value in c.wanted if n == name]
        arguments = [c.arguments[name] for c in conditions if name in c.arguments]
        options = list(_options(name, [value for _, value in asked], arguments, profile))
        left_out |= name == SENDER_SELECTED and any(_brings_keys(argument) for argument in arguments)
        after: dict[frozenset[int], tuple[tuple[str, Any], ...]] = {}
        for settled, headers in states.items():
            for value, compared in options:
                budget.spend(1)
                new = set(settled)
                for number, wanted in asked:
                    met = value is not ABSENT and (wanted is PRESENT or compared == wanted)
                    if met is (conditions[number].mode == "any"):
                        new.add(number)
                now = headers if value is ABSENT else (*headers, (name, value))
                if any((conditions[n].mode == "all") is (n < wanted_true) for n in new):
                    continue  # a condition that must hold has failed, or one that must not hold holds
                known = after.get(frozenset(new))
                if known is None or len(now) < len(known):
                    after[frozenset(new)] = now
        states = after
    needed = frozenset(n for n, c in enumerate(conditions) if (c.mode == "any") is (n < wanted_true))
    fitting = [headers for settled, headers in states.items() if settled == needed]
    if not fitting and left_out:
        raise OutOfBudget
    return dict(fitting[0]) if fitting else None


def _options(
    name: str, wanted: Iterable[Hashable], arguments: Iterable[Any], profile: Profile
) -> Iterator[tuple[Any, Hashable]]:
    """Yield what a header can be: its value in a message, or `ABSENT`, and the form in which that is compared."""
    yield ABSENT, None
    if name == TAKEN_OUT:
        return
    seen: set[Hashable] = {value for value in wanted if value is not PRESENT}
    for number in count():  # ends: conditions mention finitely many values
        other: Any = [0] * number if name == SENDER_SELECTED else f"x{number or ''}"
        compared = comparable(other, profile, from_message=True)
        if compared not in seen:
            yield other, compared
            break
    for value in dict.fromkeys(w for w in wanted if w is not PRESENT):
        for candidate in _values(arguments):
            if name == SENDER_SELECTED and (type_and_value(candidate)[0] != "array" or _brings_keys(candidate)):
                continue
            if comparable(candidate, profile, from_message=True) == value:
                yield candidate, value
                break


def _values(arguments: Iterable[Any]) -> Iterator[Any]:
    """Yield values for a header of a message: for each argument, one that compares equal to it, if there is one."""
    arguments = tuple(arguments)
    yield from arguments
    for argument in arguments:
        kind, value = type_and_value(argument)
        if kind == "timestamp":  # compared as its number, by some profiles a thousandth of it
            if value < 2**63:
                yield value
            yield Typed("timestamp", value)
            if value % 1000 == 0:
                yield Typed("timestamp", value // 1000)
            yield float(value)


def _brings_keys(value: Any) -> bool:
    kind, items = type_and_value(value)
    return kind == "array" and any(kind == "longstr" for kind, _ in items)
