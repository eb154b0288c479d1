"""What a test broker has shown: as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.sources.recording.model import ACCEPTED, RecordedAnswer
from bindings.upgrading.live.comparing import Shown, UnexpectedAnswer
from exchange.text.display import count_noun
from exchange.values.documents import document

MAX_LISTED_CALLS: Final = 20
"""Number of calls that are listed of each kind; the JSON has all."""


document("LiveAnswerJson")(RecordedAnswer)


def format_live(shown: Shown) -> Iterator[str]:
    """Yield what a broker has shown."""
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


def _calls(differences: Sequence[UnexpectedAnswer]) -> Iterator[str]:
    for difference in differences[:MAX_LISTED_CALLS]:
        place = "" if difference.vhost in ("", "/") else f" in virtual host {difference.vhost!r}"
        yield f"    {difference.what}{place}"
        yield f"      foretold: {_or_accepted(difference.foretold)}"
        yield f"      the broker: {_or_accepted(difference.seen)}"
    if len(differences) > MAX_LISTED_CALLS:
        yield f"    and {count_noun(len(differences) - MAX_LISTED_CALLS, 'more call')}"


def _or_accepted(answer: RecordedAnswer) -> str:
    return "accepted" if answer == ACCEPTED else str(answer)
