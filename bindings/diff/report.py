"""A plan and its meaning as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from bindings.diff.comparison.conditions import Condition
from bindings.diff.comparison.meaning import Choice, Effect, Meaning, Undecided
from bindings.diff.comparison.partitions import PartitionChange
from bindings.diff.comparison.terms import Term
from bindings.diff.planning.plan import Plan
from bindings.diff.planning.step import describe_part
from exchange.field_json import message_to_json
from exchange.message import Message
from exchange.notation import write_table
from exchange.patterns.pattern import Pattern

__all__ = ["meaning_lines", "meaning_to_json", "plan_lines", "plan_to_json"]


def plan_lines(todo: Plan) -> Iterator[str]:
    """Yield the steps in their order, each with its danger."""
    for step in todo.steps:
        yield f"  {'+' if step.added else '-'} {step}"
        if step.danger:
            yield f"      ! {step.danger}"
    for step, error in todo.refused:
        yield f"  ? {step}"
        yield f"      ! the broker would refuse: {error}"
    for part in todo.left_alone:
        yield f"  left alone, as it is the broker's own or an exclusive queue's: {describe_part(part)}"


def plan_to_json(todo: Plan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "steps": [{"verb": step.verb, "part": describe_part(step.part), "danger": step.danger} for step in todo.steps],
        "refused": [{"step": str(step), "error": str(error)} for step, error in todo.refused],
        "left_alone": [describe_part(part) for part in todo.left_alone],
    }


def meaning_lines(difference: Meaning) -> Iterator[str]:
    """Yield which messages go elsewhere, queue by queue; or that none does, where that is proved."""
    for access in difference.access:
        verb = "can be published to now" if access.opened else "can no longer be published to"
        yield f"  {_exchange(access.exchange)} {verb}: it is {access.reason}"
    for gained, verb in ((True, "now reaches"), (False, "no longer reaches")):
        queues = [effect.queue for effect in difference.effects if not effect.exchange and effect.gained == gained]
        if queues:
            yield f"  {'+' if gained else '-'} the default exchange {verb} {', '.join(map(repr, queues))}"
    for effect in sorted(difference.effects, key=lambda effect: (effect.queue, effect.exchange, effect.gained)):
        if effect.exchange:
            yield from _effect_lines(effect)
    for lost in difference.unroutable:
        if not lost.exchange:  # the lines about queues have it
            continue
        verb = "goes nowhere now" if lost.now else "no longer goes nowhere"
        yield f"  {'!' if lost.now else ' '} published to {_exchange(lost.exchange)}, {_quote(lost.witness)} {verb}"
    for choice in difference.choices:
        yield from _choice_lines(choice)
    for change in difference.partitions:
        yield from _partition_lines(change)
    yield from _undecided_lines(difference.undecided)
    if difference.verdict == "same":
        yield "  no observable change: proved for all keys and headers"
    elif difference.verdict == "undecided":
        yield "  no change was found, and that there is none could not be proved"


def meaning_to_json(difference: Meaning) -> dict[str, Any]:
    """Return the meaning as JSON values; messages as `hashstar route` takes them."""
    return {
        "verdict": difference.verdict,
        "access": [access._asdict() for access in difference.access],
        "effects": [
            {
                "exchange": effect.exchange,
                "queue": effect.queue,
                "change": "gained" if effect.gained else "lost",
                "messages": [_term(term, effect.gained) for term in effect.terms],
                "exact": effect.exact,
                "certain": effect.certain,
                "witness": message_to_json(effect.witness),
            }
            for effect in difference.effects
        ],
        "unroutable": [
            {"exchange": lost.exchange, "now": lost.now, "witness": message_to_json(lost.witness)}
            for lost in difference.unroutable
        ],
        "choices": [
            {
                "exchange": choice.exchange,
                "at": choice.at,
                "by": choice.by,
                "certain": choice.certain,
                "witness": message_to_json(choice.witness),
            }
            for choice in difference.choices
        ],
        "partitions": [
            {
                "queue": change.queue,
                "before": None if change.before is None else str(change.before),
                "after": None if change.after is None else str(change.after),
                "witness": None if change.witness is None else message_to_json(change.witness),
                "moved": list(change.moved),
            }
            for change in difference.partitions
        ],
        "undecided": [
            {
                "exchange": undecided.exchange,
                "destination": None if undecided.destination is None else undecided.destination._asdict(),
                "reason": undecided.reason,
            }
            for undecided in difference.undecided
        ],
    }


UNDECIDED: Final = 20
"""Number of undecided questions that the text lists; the others are in the JSON."""
TERMS: Final = 4
"""Number of terms of one effect that the text lists; the others are in the JSON."""


def _effect_lines(effect: Effect) -> Iterator[str]:
    sign, verb = ("+", "gains") if effect.gained else ("-", "loses")
    often = "" if {effect.before, effect.after} <= {Fraction(0), Fraction(1)} else ", at times"
    yield f"  {sign} queue '{effect.queue}' {verb} from {_exchange(effect.exchange)}{often}:"
    if effect.terms and not effect.exact:
        yield "      messages among those that match"
    for term in effect.terms[:TERMS]:
        yield f"      {_term(term, effect.gained)}"
    if len(effect.terms) > TERMS:
        yield f"      and {len(effect.terms) - TERMS} more"
    yield f"      such as {_quote(effect.witness)}"


def _term(term: Term, gained: bool) -> str:
    """Describe a term. Of gained messages, its path is on the new side and its exceptions are on the old side."""
    here, there = ("has no match now", "had none") if gained else ("had no match", "has none now")
    text = _all(term.path.matching) or "all messages"
    text += "".join([f" where {_exchange(name)} {here}" for name in term.path.unmatched])
    others = []
    for path in term.unless:
        unmatched = [f"where {_exchange(name)} {there}" for name in path.unmatched]
        others.append(" ".join(filter(None, [_all(path.matching), *unmatched])))
    return f"{text}, but not {' or '.join(others)}" if others else text


def _all(conditions: Sequence[Condition]) -> str:
    return " and ".join(map(_condition, conditions))


def _condition(condition: Condition) -> str:
    if isinstance(condition, Pattern):
        return f"'{condition}'"
    return f"({condition})" if len(condition.wanted) > 1 else str(condition)


HOW: Final = {"chance": "by chance", "hash": "by a hash", "selector": "by selectors"}


def _choice_lines(choice: Choice) -> Iterator[str]:
    how = HOW.get(choice.by, "in a way unknown here")
    verb = "chooses otherwise" if choice.certain else "may choose otherwise"
    yield f"  ~ {_exchange(choice.at)} {verb}, {how}, for messages to {_exchange(choice.exchange)}"
    yield f"      such as {_quote(choice.witness)}: {_shares(choice.before)}, then {_shares(choice.after)}"


def _shares(shares: tuple[tuple[str, Fraction], ...] | None) -> str:
    if shares is None:
        return "unknown"
    return ", ".join([name if share == 1 else f"{name} ({share})" for name, share in shares]) or "no queue"


def _partition_lines(change: PartitionChange) -> Iterator[str]:
    yield f"  ~ queue '{change.queue}': {change.before or 'no partitions'}, then {change.after or 'no partitions'}"
    if change.witness is not None:
        old, new = (f"partition {name}" if name is not None else "any partition" for name in change.moved)
        yield f"      such as {_quote(change.witness)}: {old}, then {new}"


def _undecided_lines(undecided: Sequence[Undecided]) -> Iterator[str]:
    for one in undecided[:UNDECIDED]:
        source = "" if one.exchange is None else f" from {_exchange(one.exchange)}"
        where = f" to {one.destination}" if one.destination is not None else ""
        yield f"  ? undecided{source}{where}: {one.reason}"
    if len(undecided) > UNDECIDED:
        yield f"  ? and {len(undecided) - UNDECIDED:,} more undecided; --json lists all, --budget allows more time"


def _exchange(name: str) -> str:
    return f"exchange '{name}'" if name else "the default exchange"


def _quote(message: Message) -> str:
    headers = f" with {write_table(message.headers)}" if message.headers else ""
    return f"'{message.routing_key}'{headers}"
