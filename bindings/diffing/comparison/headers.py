"""Find the fewest headers for which all of some conditions hold and none of others.

The search takes the names of headers one after another. A header is left out, or gets a value that a condition
mentions, or one value that no condition mentions: no other choice makes a difference. Conditions may be those of two
releases, which compare headers by different rules: then a value is chosen for each set of conditions that it can meet.
A state is the set of conditions that the choices so far have settled, so there are at most as many states as
combinations of conditions, however many headers are named.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count, islice, product
from math import copysign, isfinite
from typing import Any, Final, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget
from exchange.kinds.condition import HeaderRules, HeadersCondition
from exchange.kinds.headers import normalise_value
from exchange.patterns.conjunctions import PRESENT
from exchange.values.field_values import INTEGER_TYPES, Typed, resolve_type

ABSENT: Final = object()
SENDER_SELECTED: Final = "CC"
"""Header whose strings RabbitMQ takes as further routing keys; it refuses a message in which this is not an array."""
TAKEN_OUT: Final = "BCC"
"""Header that RabbitMQ removes before it routes the message."""
NUMBERS: Final = INTEGER_TYPES | {"float", "double"}
MAX_ZEROS: Final = 16
"""Maximum number of zeros in an array whose signs are varied: enough for 65,536 arguments."""


def find_fewest_headers(
    all_of: Sequence[HeadersCondition], none_of: Sequence[HeadersCondition], budget: Budget
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
        asked = [(number, c.rules, value) for number, c in enumerate(conditions) for n, value in c.wanted if n == name]
        arguments = [c.arguments[name] for c in conditions if name in c.arguments]
        options = list(_options(name, asked, arguments))
        left_out |= name == SENDER_SELECTED and any(_brings_keys(argument) for argument in arguments)
        after: dict[frozenset[int], tuple[tuple[str, Any], ...]] = {}
        for settled, headers in states.items():
            for value, met in options:
                budget.spend(1)
                new = set(settled)
                new.update(number for number, _, _ in asked if (number in met) is (conditions[number].mode == "any"))
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


Asked: TypeAlias = tuple[int, HeaderRules, Hashable]
"""The number of a condition that names a header, its rules, and the value that it wants, or `PRESENT`."""


def _options(name: str, asked: Sequence[Asked], arguments: Sequence[Any]) -> Iterator[tuple[Any, frozenset[int]]]:
    """Yield what a header can be, its value in a message or `ABSENT`, with the numbers of the conditions that it meets.

    No two values meet the same conditions.
    """
    yield ABSENT, frozenset()
    if name == TAKEN_OUT:
        return
    by_presence = frozenset(number for number, _, wanted in asked if wanted is PRESENT)
    by_value: dict[HeaderRules, dict[Hashable, list[int]]] = {}
    for number, rules, wanted in asked:
        if wanted is not PRESENT:
            by_value.setdefault(rules, {}).setdefault(wanted, []).append(number)

    def met(value: Any) -> frozenset[int]:
        numbers = (
            wanted.get(normalise_value(value, rules, from_message=True), ()) for rules, wanted in by_value.items()
        )
        return by_presence.union(*numbers)

    for number in count():  # ends: conditions mention finitely many values
        other: Any = [0] * number if name == SENDER_SELECTED else f"x{number or ''}"
        if met(other) == by_presence:
            yield other, by_presence
            break
    seen = {by_presence}
    for value in _values(arguments, len(by_value) > 1):
        if name == SENDER_SELECTED and (resolve_type(value)[0] != "array" or _brings_keys(value)):
            continue
        meets = met(value)
        if meets not in seen:
            seen.add(meets)
            yield value, meets


def _values(arguments: Sequence[Any], two_rules: bool) -> Iterator[Any]:
    """Yield values for a header of a message: for each argument, those that may equal it by the rules of some release.

    If the conditions have the same rules, one value that equals an argument is enough.
    """
    yield from arguments
    for argument in arguments:
        kind, value = resolve_type(argument)
        if kind == "timestamp" or (two_rules and kind in NUMBERS):
            yield from _numbers(value)
        elif two_rules and kind in ("array", "table"):
            yield from islice(_with_other_signs(argument), len(arguments) + 1)


def _numbers(value: float) -> Iterator[Any]:
    """Yield the values of all types that some release compares as this number, whose type is that of an argument."""
    if value == 0:
        yield from (0.0, -0.0)
    if isfinite(value) and value == (whole := int(value)):
        if -(2**63) <= whole < 2**63:
            yield whole
        if abs(whole) < 2**1023:
            yield float(whole)
        if 0 <= whole < 2**64:
            yield Typed("timestamp", whole)
            if whole % 1000 == 0:  # compared as its number, by some releases a thousandth of it
                yield Typed("timestamp", whole // 1000)
    else:
        yield value


def _with_other_signs(value: Any) -> Iterator[Any]:
    """Yield an array or table with each combination of signs for the zeros in it."""
    zeros = _zeros(value)
    for signs in product((1.0, -1.0), repeat=min(zeros, MAX_ZEROS)):
        yield _sign_zeros(value, iter((*signs, *[1.0] * (zeros - len(signs)))))


def _zeros(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_zeros, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_zeros, value))
    if isinstance(value, Typed):
        return _zeros(_without_type(value))
    return int(isinstance(value, float) and value == 0)


def _sign_zeros(value: Any, signs: Iterator[float]) -> Any:
    if isinstance(value, Mapping):
        return {name: _sign_zeros(item, signs) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sign_zeros(item, signs) for item in value]
    if isinstance(value, Typed):
        return Typed(value.type, _sign_zeros(_without_type(value), signs))
    return copysign(0.0, next(signs)) if isinstance(value, float) and value == 0 else value


def _without_type(value: Typed) -> Any:
    return float(value.value) if value.type in ("float", "double") else value.value


def _brings_keys(value: Any) -> bool:
    kind, items = resolve_type(value)
    return kind == "array" and any(kind == "longstr" for kind, _ in items)
