"""What a test broker has shown: as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

from bindings.sources.recording.model import ACCEPTED, Answer
from bindings.upgrade.live.comparing import Difference, Shown
from exchange.text.display import count_noun
from exchange.text.markdown import quote_block

__all__ = ["ShownJson", "shown_to_json", "shown_to_markdown", "shown_to_text"]

LISTED: Final = 20
"""Number of calls that are listed of each kind; the JSON has all."""


class LiveAnswerJson(TypedDict):
    """An answer, foretold or seen."""

    code: int | None
    """Reply code of a refusal; null if it is accepted."""
    text: str


class DifferenceJson(TypedDict):
    """A call that the test broker was asked."""

    vhost: str
    """The virtual host of the topology; "" for what is asked before one is opened."""
    what: str
    foretold: LiveAnswerJson
    seen: LiveAnswerJson


class ShownJson(TypedDict):
    """What a test broker of the new release has shown."""

    version: str
    permitted: list[str]
    """The deprecated features that it permits."""
    accepted: int
    """Number of calls that were accepted as foretold."""
    foretold_and_seen: list[DifferenceJson]
    """Refusals with the code and the text that were foretold."""
    foretold_not_seen: list[DifferenceJson]
    """Refusals that were foretold, and accepted."""
    seen_not_foretold: list[DifferenceJson]
    """Answers that were not foretold: the exit code is 1 if there are any."""
    messages: int
    """Number of messages that went to the queues that were foretold."""
    not_asked: int
    """Number of calls and messages for which there was no time or room, or that cannot be asked."""


def shown_to_json(shown: Shown) -> ShownJson:
    """Return what a broker has shown as JSON values."""
    return {
        "version": shown.version,
        "permitted": sorted(shown.permitted),
        "accepted": shown.accepted,
        "foretold_and_seen": [*map(_difference_json, shown.seen)],
        "foretold_not_seen": [*map(_difference_json, shown.not_seen)],
        "seen_not_foretold": [*map(_difference_json, shown.not_foretold)],
        "messages": shown.messages,
        "not_asked": shown.not_asked,
    }


def _difference_json(difference: Difference) -> DifferenceJson:
    return {
        "vhost": difference.vhost,
        "what": difference.what,
        "foretold": {"code": difference.foretold.code, "text": difference.foretold.text},
        "seen": {"code": difference.seen.code, "text": difference.seen.text},
    }


def shown_to_text(shown: Shown) -> Iterator[str]:
    """Yield what a broker has shown."""
    yield f"a test broker of {shown.version}, asked:"
    yield f"  accepted, as foretold: {count_noun(shown.accepted, 'call')}"
    yield f"  refused, as foretold: {count_noun(len(shown.seen), 'call')}"
    yield f"  routed as foretold: {count_noun(shown.messages, 'message')}"
    yield f"  foretold, not seen: {count_noun(len(shown.not_seen), 'call')}"
    yield from _calls(shown.not_seen)
    yield f"  seen, not foretold: {count_noun(len(shown.not_foretold), 'call')}"
    yield from _calls(shown.not_foretold)
    if shown.permitted:
        yield f"  deprecated features that it permits: {', '.join(sorted(shown.permitted))}"
    if shown.not_asked:
        yield f"  not asked, for want of time or room, or as it cannot be: {count_noun(shown.not_asked, 'call')}"


def shown_to_markdown(shown: Shown) -> Iterator[str]:
    """Yield the lines of the same in Markdown."""
    title, *lines = shown_to_text(shown)
    yield from (f"**{title.removesuffix(':').capitalize()}**", "", *quote_block(lines), "")


def _calls(differences: Sequence[Difference]) -> Iterator[str]:
    for difference in differences[:LISTED]:
        place = "" if difference.vhost in ("", "/") else f" in virtual host {difference.vhost!r}"
        yield f"    {difference.what}{place}"
        yield f"      foretold: {_or_accepted(difference.foretold)}"
        yield f"      the broker: {_or_accepted(difference.seen)}"
    if len(differences) > LISTED:
        yield f"    and {count_noun(len(differences) - LISTED, 'more call')}"


def _or_accepted(answer: Answer) -> str:
    return "accepted" if answer == ACCEPTED else str(answer)
