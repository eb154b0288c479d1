"""The parts of a comparison as sentences, which the text and the Markdown have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from bindings.diff.comparison.conditions import Condition
from bindings.diff.comparison.meaning import Access, Choice, Effect, Meaning, Undecided, Unroutable
from bindings.diff.comparison.partitions import PartitionChange
from bindings.diff.comparison.terms import Term
from exchange.display import list_some
from exchange.message import Message
from exchange.notation import write_table
from exchange.patterns.pattern import Pattern

__all__ = [
    "describe_access", "describe_choice", "describe_default", "describe_partitions", "describe_term",
    "describe_undecided", "describe_unroutable", "happens_at_times", "name_exchange", "quote_message",
]  # fmt: skip

HOW: Final = {"chance": "by chance", "hash": "by a hash", "selector": "by selectors"}


def describe_access(access: Access) -> str:
    """Return which exchange publishers can use now, or can no longer use, and why."""
    verb = "can be published to now" if access.opened else "can no longer be published to"
    return f"{name_exchange(access.exchange)} {verb}: it is {access.reason}"


def describe_default(meaning: Meaning, most: int | None = None) -> Iterator[tuple[str, bool]]:
    """Yield which queues the default exchange reaches now, and which it no longer does; True for those of now.

    ``most`` is the maximum number of queues that are listed; the others are counted.
    """
    for gained, verb in ((True, "now reaches"), (False, "no longer reaches")):
        queues = [repr(effect.queue) for effect in meaning.effects if not effect.exchange and effect.gained == gained]
        if queues:
            yield f"the default exchange {verb} {list_some(queues, len(queues) if most is None else most)}", gained


def describe_term(term: Term, *, gained: bool) -> str:
    """Describe a term. Of gained messages, its path is on the new side and its exceptions are on the old side."""
    here, there = ("has no match now", "had none") if gained else ("had no match", "has none now")
    text = _join_conditions(term.path.matching) or "all messages"
    text += "".join([f" where {name_exchange(name)} {here}" for name in term.path.unmatched])
    others = []
    for path in term.unless:
        unmatched = [f"where {name_exchange(name)} {there}" for name in path.unmatched]
        others.append(" ".join(filter(None, [_join_conditions(path.matching), *unmatched])))
    return f"{text}, but not {' or '.join(others)}" if others else text


def happens_at_times(effect: Effect) -> bool:
    """Return whether the queue gets the witness by chance, before or after the change."""
    return not {effect.before, effect.after} <= {Fraction(0), Fraction(1)}


def describe_unroutable(lost: Unroutable) -> str:
    """Return which message goes nowhere now, or no longer does."""
    verb = "goes nowhere now" if lost.now else "no longer goes nowhere"
    return f"published to {name_exchange(lost.exchange)}, {quote_message(lost.witness)} {verb}"


def describe_choice(choice: Choice) -> tuple[str, str]:
    """Return which exchange chooses otherwise, and a message with the queues that it chooses among."""
    how = HOW.get(choice.by, "in a way unknown here")
    verb = "chooses otherwise" if choice.certain else "may choose otherwise"
    return (
        f"{name_exchange(choice.at)} {verb}, {how}, for messages to {name_exchange(choice.exchange)}",
        f"such as {quote_message(choice.witness)}: {_list_shares(choice.before)}, then {_list_shares(choice.after)}",
    )


def describe_partitions(change: PartitionChange) -> tuple[str, str]:
    """Return the partitionings of a queue, and a message that goes to another partition, "" if none was found."""
    sentence = f"queue '{change.queue}': {change.before or 'no partitions'}, then {change.after or 'no partitions'}"
    if change.witness is None:
        return sentence, ""
    old, new = (f"partition {name}" if name is not None else "any partition" for name in change.moved)
    return sentence, f"such as {quote_message(change.witness)}: {old}, then {new}"


def describe_undecided(question: Undecided) -> str:
    """Return which question is undecided, and why."""
    source = "" if question.exchange is None else f" from {name_exchange(question.exchange)}"
    where = f" to {question.destination}" if question.destination is not None else ""
    return f"undecided{source}{where}: {question.reason}"


def name_exchange(name: str) -> str:
    """Return the name of an exchange in a sentence."""
    return f"exchange '{name}'" if name else "the default exchange"


def quote_message(message: Message) -> str:
    """Return the routing key and the headers of a message."""
    headers = f" with {write_table(message.headers)}" if message.headers else ""
    return f"'{message.routing_key}'{headers}"


def _join_conditions(conditions: Sequence[Condition]) -> str:
    return " and ".join(map(_describe_condition, conditions))


def _describe_condition(condition: Condition) -> str:
    if isinstance(condition, Pattern):
        return f"'{condition}'"
    return f"({condition})" if len(condition.wanted) > 1 else str(condition)


def _list_shares(shares: tuple[tuple[str, Fraction], ...] | None) -> str:
    if shares is None:
        return "unknown"
    return ", ".join([name if share == 1 else f"{name} ({share})" for name, share in shares]) or "no queue"
