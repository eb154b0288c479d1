"""Findings, which a check reports, and the texts by which their messages name bindings, exchanges and lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bindings.checking.rules.life import Life
from bindings.checking.rules.table import RULES, Rule
from exchange.entities.entities import Binding, Destination, Policy
from exchange.entities.part import Part
from exchange.text.display import list_some
from exchange.values.documents import document
from exchange.values.notation import write_arguments

MAX_LISTED_NAMES: Final = 5
"""Maximum number of names in a message; the others are counted."""


@document(
    "RelatedFindingJson",
    "code, rule.name, rule.severity, message, says = rule.meaning, rule.way_out, witness, life, line, part, related",
)
@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a topology.

    >>> [finding] = check(Topology(queues=[Queue("billing")]))
    >>> finding.code, finding.rule.severity, finding.message
    ('HS204', 'note', "no binding leads to queue 'billing'")
    """

    code: str
    """The rule, such as `HS101`, which ``hashstar check --explain`` explains."""
    part: Part | None
    """The exchange, queue, binding or policy that the finding is about; None for the topology or an expectation."""
    message: str
    """What is wrong, in one sentence that names the parts."""
    witness: str | None = None
    """A routing key that shows what is wrong."""
    related: tuple[Part, ...] = ()
    """Other parts that play a role, such as the binding that covers this one."""
    line: int | None = None
    """Line in the file that the topology was read from, from 1, where that is known."""
    detail: str = ""
    """What distinguishes this finding from others with the same code about the same part, without any line number."""
    life: Life | None = None
    """A message, and what may happen to it in queues, which shows what is wrong."""

    @property
    def rule(self) -> Rule:
        """The rule that was broken."""
        return RULES[self.code]


def quote_binding(binding: Binding) -> str:
    """Return ``'orders' -> queue 'billing' with 'order.*.paid'``, and the arguments if there are some."""
    text = f"{quote_exchange(binding.source)} -> {binding.destination} with '{binding.routing_key}'"
    return f"{text} {write_arguments(binding.arguments)}" if binding.arguments else text


def quote_exchange(name: str) -> str:
    """Return the name in quotes, or words for the default exchange, whose name is empty."""
    return f"'{name}'" if name else "the default exchange"


def list_names(items: Iterable[object]) -> str:
    """Return ``'a', 'b' and 'c'``: names, keys of bindings, destinations with their kind."""
    return list_some([_name_of(item) for item in items], MAX_LISTED_NAMES, "and")


def _name_of(item: object) -> str:
    if isinstance(item, Destination):
        return str(item)
    if isinstance(item, Policy):
        return f"'{item.name}'"
    return f"'{item.routing_key}'" if isinstance(item, Binding) else f"'{item}'"
