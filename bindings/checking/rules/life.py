"""The witness of a finding about the life of messages: a message, and what happens to it, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from exchange.text.display import count_noun, list_some, write_milliseconds
from exchange.values.documents import document

What = Literal["rejected", "expired", "maxlen", "delivery_limit", "requeued", "nacked", "filled", "unused", "abandoned"]
"""The reasons of ``x-death``; ``requeued`` and ``nacked``: given back by basic.reject or basic.nack with requeue;
``filled``: other messages fill the queue; ``unused`` and ``abandoned``: the queue is deleted by its ``x-expires``, or
with its last consumer."""
WORDS: Final[Mapping[What, str]] = {
    "rejected": "rejected in {}", "expired": "expired in {}", "maxlen": "over the limit in {}",
    "delivery_limit": "given back too often in {}", "requeued": "given back to {} by basic.reject",
    "nacked": "given back to {} by basic.nack", "filled": "{} filled by other messages",
    "unused": "{} deleted, as it is unused", "abandoned": "{} deleted with its last consumer",
}  # fmt: skip
MAX_LISTED_EVENTS: Final = 10
"""Maximum number of events that a line has; the others are counted."""


def _count_times(event: LifeEvent) -> int | None:
    """How often it happens, one after the other; absent for once."""
    return None if event.times == 1 else event.times


@document("EventJson", "queue, event = what, target, after_ms = after if any, times if any", times=_count_times)
class LifeEvent(NamedTuple):
    """What happens to a message in a queue."""

    queue: str
    what: What
    target: str | None = None
    """The queue that gets the dead letter and that the next event is about; None if the message stays, or is lost."""
    after: int | None = None
    """Milliseconds after which a message expires, an unused queue is deleted, or what was given back is ready again."""
    times: int = 1
    """How often it happens, one after the other."""

    def __str__(self) -> str:
        text = WORDS[self.what].format(f"'{self.queue}'")
        if self.after is not None and self.what in ("requeued", "nacked"):
            return f"{text} {count_noun(self.times, 'time')}, each time after {write_milliseconds(self.after)} at least"
        if self.after is not None:
            text = f"{text} after {write_milliseconds(self.after)}"
        return text if self.times == 1 else f"{text} {count_noun(self.times, 'time')}"


@document("LifeJson")
class Life(NamedTuple):
    """A message without headers and properties, and what may happen to it."""

    exchange: str
    routing_key: str
    events: tuple[LifeEvent, ...]
    round: tuple[LifeEvent, ...] = ()
    """What may happen after the events, over and over: the last of it leads back to where the first is."""

    def __str__(self) -> str:
        exchange = f"'{self.exchange}'" if self.exchange else "the default exchange"
        text = f"for example: published to {exchange} with the key '{self.routing_key}'"
        if self.events:
            text = f"{text}, {_list(self.events)}"
        if self.round:
            text = f"{text}, then over and over: {_list(self.round)}"
        last = (*self.events, *self.round)[-1]
        return f"{text}, back in '{last.target}'" if last.target is not None else text


def _list(events: Iterable[LifeEvent]) -> str:
    return list_some([str(event) for event in events], MAX_LISTED_EVENTS)
