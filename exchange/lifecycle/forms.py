"""The explanation of a route with the possible lives of its message: text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from exchange.entities.profile import Profile
from exchange.lifecycle.limits import RETURNS, describe_retry
from exchange.lifecycle.outcomes import Cause
from exchange.lifecycle.possible import REASONS, Deletion, PossibleLives, Return, Way, goes_alone
from exchange.routing import explain_json  # noqa: F401  the document of explanations
from exchange.routing.explain import Explanation
from exchange.text.display import count_rest, list_some, write_milliseconds
from exchange.topology.unread import UnreadPart, format_unread
from exchange.values.documents import document, encode_as
from exchange.values.forms import Form, Forms

FORMS: Final[Forms] = {
    "text": Form("exchange.lifecycle.forms:format_explanation", (".txt",)),
    "json": Form("exchange.lifecycle.forms:encode_explanation", (".json",)),
}
"""The forms of an explanation."""
MAX_LISTED_LINES: Final = 5
"""Maximum number of queues that a line lists, and of rounds and of losses that are shown."""
CAUSES: Final[Mapping[Cause, str]] = {
    "no dead letter exchange": "there is no dead letter exchange",
    "missing exchange": "the dead letter exchange does not exist",
    "unroutable": "no queue gets the dead letter",
    "cycle": "the broker drops what comes back without having been rejected",
    "full queue": "all queues that get the dead letter are full",
}


@document("ExplanationJson", "*explanation, profile, caveat if any, lives if any, unread if any")
class ProfiledExplanation(NamedTuple):
    """The route of a message and its reasons: `hashstar explain --json`."""

    explanation: Explanation
    profile: str
    """The release of RabbitMQ whose rules were applied."""
    lives: PossibleLives | None
    """With --life, what its queues may do with the message."""
    caveat: str | None
    """Why the rules are not those of the release that was named: it is newer than all that are known here."""
    unread: tuple[UnreadPart, ...] | None
    """Parts of the topology that were not read, so that nothing is proved; absent if there are none."""


def encode_explanation(
    explanation: Explanation, profile: Profile, lives: PossibleLives | None, unread: tuple[UnreadPart, ...]
) -> Any:
    """Return an explanation as JSON values, with the lives of its message if they were asked for."""
    value = ProfiledExplanation(explanation, profile.name, lives, profile.caveat or None, unread or None)
    return encode_as(ProfiledExplanation, value)


def format_explanation(
    explanation: Explanation, profile: Profile, lives: PossibleLives | None, unread: tuple[UnreadPart, ...]
) -> Iterator[str]:
    """Yield the lines of an explanation, those of the lives of its message, and what was not read."""
    if profile.caveat:
        yield profile.caveat
    yield from str(explanation).split("\n")
    yield from () if lives is None else format_life(lives)
    yield from format_unread(unread)


def format_life(lives: PossibleLives) -> Iterator[str]:
    """Yield possible lives as lines of text, which are not escaped."""
    yield "possible lives:"
    for refused in lives.refused or ():
        if refused.is_to_readers:
            yield f"  nobody can consume or get from queue '{refused.queue}': {refused.answer}"
        else:
            made = "is there only if an older release has made it"
            yield f"  queue '{refused.queue}' {made}; the broker: {refused.answer}"
    others: dict[str, list[str]] = {}
    for each in lives.returns:
        others.setdefault(each.queue, []).append(_describe_return(each))
    for deletion in lives.deletions:
        others.setdefault(deletion.queue, []).append(_describe_deletion(deletion))
    for queue, ways in groupby(lives.ways, key=lambda way: way.queue):
        yield f"  queue '{queue}'"
        for (reason, after), deaths in groupby(ways, key=lambda way: (way.reason, way.after)):
            time = "" if after is None else f" after {write_milliseconds(after)}"
            yield f"    {REASONS[reason]}{time}: {'; or '.join(_outcomes([*deaths]))}"
        yield from others.pop(queue, ())
    for queue, left in others.items():
        yield f"  queue '{queue}'"
        yield from left
    for lead, round_ in [*zip(lives.leads, lives.rounds, strict=True)][:MAX_LISTED_LINES]:
        how = "for ever, without a consumer" if goes_alone(round_) else "as long as consumers reject it"
        before = f"{_witness(lead)}, then over and over: " if lead else ""
        yield f"  goes round {how}: {before}{_witness(round_)}, back in '{round_[-1].target}'"
    yield from count_rest(len(lives.rounds), MAX_LISTED_LINES)
    for loss in lives.losses[:MAX_LISTED_LINES]:
        cause = loss[-1].cause
        yield f"  is lost: {_witness(loss)}" + (f"; {CAUSES[cause]}" if cause is not None else "")
    yield from count_rest(len(lives.losses), MAX_LISTED_LINES)
    if not lives.is_whole:
        yield "  what else goes round or is lost is not known: there are too many ways to follow all of them"


def _outcomes(ways: Sequence[Way]) -> Iterator[str]:
    """Yield what may come of one kind of death in a queue, under each condition."""
    for condition in dict.fromkeys(way.condition for way in ways):
        suffix = "" if condition is None else f", {condition}"
        listed = [way for way in ways if way.condition == condition]
        targets = list(dict.fromkeys(f"'{way.target}'" for way in listed if way.target is not None))
        if targets:
            yield f"to {list_some(targets, MAX_LISTED_LINES)}{suffix}"
        ends = dict.fromkeys((way.cause, way.is_kept) for way in listed if way.cause is not None)
        for cause, is_kept in ends:
            why = f"{targets[0]} is full" if cause == "full queue" and len(targets) == 1 else CAUSES[cause]
            yield f"{'kept, and sent again later' if is_kept else 'lost'}, as {why}{suffix}"


def _describe_return(each: Return) -> str:
    after, suffix = write_milliseconds(each.after), "" if each.condition is None else f", {each.condition}"
    if each.type is None:
        return f"    not settled for {after}: taken back from its consumer{suffix}"
    return f"    {RETURNS[each.type]}: {describe_retry(each.after, each.most)}{suffix}"


def _describe_deletion(deletion: Deletion) -> str:
    after, suffix = deletion.after, "" if deletion.condition is None else f", {deletion.condition}"
    event = "its last consumer is gone" if after is None else f"unused for {write_milliseconds(after)}"
    return f"    {event}: lost, as the queue is deleted with its messages{suffix}"


def _witness(ways: Iterable[Way]) -> str:
    return ", ".join(map(str, ways))
