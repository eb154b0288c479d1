"""How the conditions of headers bindings relate: which of them others cover.

A binding stands for conjunctions of conditions, of which a message must satisfy one: a single conjunction of all its
conditions or, with x-match any, one conjunction for each condition. A message that has exactly the headers of a
conjunction satisfies only conjunctions that require no more. So if others together cover a conjunction, one of them
covers it alone, and finding that one is a look-up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

from exchange.entities.entities import Binding
from exchange.entities.profile import Profile
from exchange.kinds.headers import list_conditions, match_mode
from exchange.patterns.conjunctions import PRESENT, Conjunctions
from exchange.values.field_values import resolve_type

Conjunction: TypeAlias = tuple[tuple[str, Hashable], ...]


def list_conjunctions(binding: Binding, profile: Profile) -> list[Conjunction]:
    """Return the conjunctions of a binding that a message can satisfy; it matches when it satisfies one of them."""
    conditions = list_conditions(binding, profile)
    if match_mode(binding).startswith("any"):
        return [(condition,) for condition in conditions if _possible(binding, condition)]
    return [conditions] if all(_possible(binding, condition) for condition in conditions) else []


def _possible(binding: Binding, condition: tuple[str, Hashable]) -> bool:
    name, value = condition
    if name == "CC" and value is not PRESENT:
        kind, decoded = resolve_type(binding.arguments[name])
        return kind == "array" or (kind == "table" and not decoded)  # an empty table equals an empty array
    return name != "BCC"


def find_redundant_conditions(
    bindings: Sequence[Binding], profile: Profile
) -> Iterator[tuple[Binding, tuple[Binding, ...], bool]]:
    """Yield bindings of one headers exchange to one destination that can all be removed, each with those that cover it.

    The last value is whether the first covering binding matches the same messages. Bindings that never match are left
    out.
    """
    asked = {binding: list_conjunctions(binding, profile) for binding in bindings}
    kept: Conjunctions[Binding] = Conjunctions()
    for binding, conjunctions in asked.items():
        for conjunction in conjunctions:
            kept.add(conjunction, binding)
    # Those that require most are removed first, and of equal ones the last.
    narrowness = {binding: max(map(len, asked[binding]), default=0) for binding in bindings}
    order = sorted(enumerate(bindings), key=lambda item: (narrowness[item[1]], item[0]), reverse=True)
    for _, binding in order:
        by: dict[Binding, None] = {}
        for conjunction in asked[binding]:
            # A message with exactly these headers; ``object()`` equals no value that another binding could ask for.
            headers = {name: object() if value is PRESENT else value for name, value in conjunction}
            cover = [other for other in kept.search(frozenset(headers), headers.items()) if other != binding]
            if not cover:
                break
            if by.keys().isdisjoint(cover):
                by[cover[0]] = None
        else:
            if asked[binding]:
                for conjunction in asked[binding]:
                    kept.remove(conjunction, binding)
                others = tuple(by)
                yield binding, others, set(asked[binding]) == set(asked[others[0]])
