"""The parts of a comparison as sentences, which the text and the Markdown have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from bindings.diffing.comparison.meaning import (
    Access,
    ChoiceChange,
    Effect,
    Meaning,
    UndecidedQuestion,
    UnroutableChange,
)
from bindings.diffing.comparison.partitions import PartitionChange
from bindings.diffing.comparison.terms import Term
from bindings.diffing.planning.fields import find_changes
from bindings.diffing.planning.step import Step, describe_part
from bindings.diffing.settings.changes import SettingsChange
from exchange.entities.part import Part
from exchange.entities.precedence import Possible, write_setting
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.kinds.condition import Condition
from exchange.patterns.pattern import Pattern
from exchange.text.display import count_noun, describe_exchange, list_some
from exchange.values.message import Message
from exchange.values.notation import write_json, write_table

MAX_NAMED_PARTS: Final = 5
"""Number of queues or exchanges with the same change that are listed; the others are counted, and in the JSON."""

HOW: Final = {"chance": "by chance", "hash": "by a hash", "selector": "by selectors"}


def describe_release(name: str, profile: str) -> str:
    """Return a release as it was given, with the profile whose rules it follows if that has another name.

    >>> describe_release("4.2", "rabbitmq-4.0"), describe_release("4.3", "rabbitmq-4.3")
    ('4.2 (by the rules of rabbitmq-4.0)', 'rabbitmq-4.3')
    """
    number = name.removeprefix("rabbitmq-").removeprefix("v")
    return profile if f"rabbitmq-{number}" == profile else f"{number} (by the rules of {profile})"


def describe_rules(named: Sequence[tuple[str, Profile]], rules: Profile) -> str:
    """Return by which rules sources are compared that name them, by name and profile; "" for the newest, or none."""
    if len({profile.written for _, profile in named}) > 1:
        each = ", and ".join(f"{name} names {profile.written}" for name, profile in named)
        return f"by the rules of {rules.name}: {each}"
    if not named or rules == LATEST_PROFILE:
        return ""
    return f"by the rules of {rules.name}, for the release that the topologies name"


CHANGED: Final = {"declared": "it is declared", "deleted": "it is deleted", "internal": "it is internal"}
"""Why publishers may use an exchange on one side only -> that in words, for a change that somebody makes."""


def describe_access(access: Access, reasons: Mapping[str, str] = CHANGED) -> str:
    """Return which exchange publishers can use now, or can no longer use, and why."""
    verb = "can be published to now" if access.opened else "can no longer be published to"
    return f"{describe_exchange(access.exchange)} {verb}: {reasons[access.reason]}"


def describe_default(meaning: Meaning, most: int | None = None) -> Iterator[tuple[str, bool]]:
    """Yield which queues the default exchange reaches now, and which it no longer does; True for those of now.

    ``most`` is the maximum number of queues that are listed; the others are counted.
    """
    for gained, verb in ((True, "now reaches"), (False, "no longer reaches")):
        queues = [repr(effect.queue) for effect in meaning.effects if not effect.exchange and effect.gained == gained]
        if queues:
            yield f"the default exchange {verb} {list_some(queues, len(queues) if most is None else most)}", gained


def describe_term(term: Term, *, gained: bool) -> str:
    """Describe a term in one line, see `split_term`."""
    text, unless = split_term(term, gained=gained)
    return f"{text}, {unless}" if unless else text


def split_term(term: Term, *, gained: bool) -> tuple[str, str]:
    """Return what a term is, and its exceptions, which begin with ``unless``; "" if there are none.

    Of gained messages, the path is on the new side and the exceptions are on the old side.
    """
    here, there = ("has no match now", "had none") if gained else ("had no match", "has none now")
    text = _join_conditions(term.path.matching) or "all messages"
    text += "".join([f" where {describe_exchange(name)} {here}" for name in term.path.unmatched])
    others = []
    for path in term.unless:
        unmatched = [f"where {describe_exchange(name)} {there}" for name in path.unmatched]
        others.append(" ".join(filter(None, [_join_conditions(path.matching), *unmatched])).removeprefix("where "))
    if text in others:  # the same words under the rules of two releases
        now, then = ("new", "old") if gained else ("old", "new")
        others = [other for other in others if other != text]
        text += f", by the rules of the {now} release but not of the {then} one"
    return text, f"unless {' or '.join(others)}" if others else ""


def happens_at_times(effect: Effect) -> bool:
    """Return whether the queue gets the witness by chance, before or after the change."""
    return not {effect.before, effect.after} <= {Fraction(0), Fraction(1)}


def describe_effect(effect: Effect) -> str:
    """Return which queue gets or loses messages, and from where."""
    often = f"{', at times' if happens_at_times(effect) else ''}{describe_timing(effect)}"
    verb = "gains" if effect.gained else "loses"
    return f"queue '{effect.queue}' {verb} from {describe_exchange(effect.exchange)}{often}"


def describe_timing(effect: Effect) -> str:
    """Return when the queue gets delayed messages, for an effect that is about these only; else nothing."""
    return "" if effect.timing is None else f", {effect.timing}, if delayed by x-delay"


def describe_unroutable(lost: UnroutableChange) -> str:
    """Return which message goes nowhere now, or no longer does."""
    verb = "goes nowhere now" if lost.now else "no longer goes nowhere"
    return f"published to {describe_exchange(lost.exchange)}, {quote_message(lost.witness)} {verb}"


def describe_choice(choice: ChoiceChange) -> tuple[str, str]:
    """Return which exchange chooses otherwise, and a message with the queues that it chooses among."""
    how = HOW.get(choice.by, "in a way unknown here")
    verb = "chooses otherwise" if choice.certain else "may choose otherwise"
    before, after = _list_shares(choice.before), _list_shares(choice.after)
    if choice.certain or before != after:
        shown = f": {before}, then {after}"
    else:  # no message was found that shows a difference
        is_known = choice.before is not None and not any(name.startswith("?") for name, _ in choice.before)
        shown = f", which gets to {before} now" if is_known else ", whose queues are not known here"
    return (
        f"{describe_exchange(choice.at)} {verb}, {how}, for messages to {describe_exchange(choice.exchange)}",
        f"such as {quote_message(choice.witness)}{shown}",
    )


def describe_partitions(change: PartitionChange) -> tuple[str, str]:
    """Return the partitionings of a queue, and a message that goes to another partition, "" if none was found."""
    sentence = f"queue '{change.queue}': {change.before or 'no partitions'}, then {change.after or 'no partitions'}"
    if change.witness is None:
        return sentence, ""
    old, new = (f"partition {name}" if name is not None else "any partition" for name in change.moved)
    return sentence, f"such as {quote_message(change.witness)}: {old}, then {new}"


def describe_left(part: Part) -> str:
    """Return the sentence for a part that differs and is not touched."""
    return f"left alone, as it is the broker's own or an exclusive queue's: {describe_part(part)}"


def sign_of(step: Step) -> str:
    """Return ``+`` for what a step adds, ``-`` for what it removes, ``~`` for a policy that it changes."""
    return "-" if not step.added else "~" if step.verb == "set" and step.old is not None else "+"


def describe_changes(step: Step) -> Iterator[str]:
    """Yield what differs between the part of a step and what it takes the place of: ``max-length 5 -> none``."""
    if step.old is not None:
        yield from describe_fields(step.old, step.part)


def describe_fields(before: Part, after: Part) -> Iterator[str]:
    """Yield what differs between two parts of one kind, as `describe_changes`; nothing of bindings."""
    for change in find_changes(before, after):
        name = change.name.removeprefix("definition.").removeprefix("arguments.").replace("_", "-")
        yield f"{name} {_write(change.before)} -> {_write(change.after)}"


def _write(value: object) -> str:
    return "none" if value is None else write_json(value, typed=True)


def name_parts(change: SettingsChange) -> str:
    """Return the queues or exchanges whose settings differ in this way."""
    names = [repr(name) for name in change.names]
    if len(names) == 1:
        return f"{change.kind} {names[0]}"
    return f"{count_noun(len(names), change.kind)}, {list_some(names, MAX_NAMED_PARTS)}"


def describe_settings(change: SettingsChange) -> Iterator[str]:
    """Yield each setting, before and after, with what it means; and where dead letters go, a message that shows it."""
    last = None
    for each in change.changes:
        text = None if each.consequence is None or each.consequence == last else each.consequence.text
        last = each.consequence
        yield f"{each.name} {write_values(each.before)} -> {write_values(each.after)}{f': {text}' if text else ''}"
    if change.example:
        yield change.example


def write_values(values: Possible) -> str:
    """Return the values that a setting may have."""
    return " or ".join(["none" if value is None else write_setting(value) for value in values])


def describe_undecided(question: UndecidedQuestion) -> str:
    """Return which question is undecided, and why."""
    source = "" if question.exchange is None else f" from {describe_exchange(question.exchange)}"
    where = f" to {question.destination}" if question.destination is not None else ""
    return f"undecided{source}{where}: {question.reason}"


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
    names = [
        (f"what {describe_exchange(name[1:])} chooses" if name.startswith("?") else name, share)
        for name, share in shares
    ]
    return ", ".join([name if share == 1 else f"{name} ({share})" for name, share in names]) or "no queue"
