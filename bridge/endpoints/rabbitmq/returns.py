"""Find the message under way that a basic.return is about.

A return does not carry the number of its publish, but only the content that was published, and the broker changes even
that: it removes the header BCC, and from 4.0 on it sorts the headers. So each return is matched with a message under
way whose *look*, the part that the broker does not change, is the same. If several such messages are equal to the bit,
any of them will do, since all have the same fate. If they differ in what the broker changes, the return may be about
any of them: then all are reported, to be sent again one by one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from bridge.endpoints.rabbitmq.frames import Returned
from exchange.amqp import ContentHeader, MalformedHeader

__all__ = ["SentMessage", "match_returns"]


class SentMessage(NamedTuple):
    """A publish that is not confirmed."""

    exchange: bytes
    routing_key: bytes
    body: bytes
    content: Callable[[], ContentHeader]
    """Makes its content header, which is compared only if the other fields do not suffice."""


def match_returns(
    sent: Mapping[int, SentMessage], events: Sequence[Returned], known: Collection[int] = ()
) -> Iterator[tuple[Returned, list[int]]]:
    """Yield each return with the number of its publish; with several if it is unclear which, with none if it is known.

    ``sent`` is in the order of numbers, ``known`` has the numbers of earlier returns.
    """
    by_envelope: dict[Envelope, list[int]] = defaultdict(list)
    for number, message in sent.items():
        by_envelope[message.exchange, message.routing_key, message.body].append(number)
    groups: dict[Envelope, _Group] = {}
    for event in events:
        envelope = event.exchange, event.routing_key, event.body
        if envelope not in groups:
            groups[envelope] = _Group(sent, by_envelope.get(envelope, []), known)
        yield event, groups[envelope].take(event)


Envelope: TypeAlias = tuple[bytes, bytes, bytes]
"""Exchange, routing key and body, which a return has unchanged."""


class _Group:
    """The messages of one envelope, by their looks: the part of the content header that a return has unchanged."""

    def __init__(self, sent: Mapping[int, SentMessage], numbers: Sequence[int], known: Collection[int]) -> None:
        self._looks: dict[Any, deque[int]] = {}
        """Look -> numbers of the messages with it, without those known to be returned."""
        self._mixed: set[Any] = set()
        """Looks of messages whose content headers are not equal to the bit."""
        self._is_single = len(numbers) == 1  # then content headers need not be compared, and the only look is None
        raws: dict[Any, bytes] = {}
        for number in numbers:
            content = None if self._is_single else sent[number].content()
            look = None if content is None else _look_of(content)
            if content is not None and raws.setdefault(look, content.raw) != content.raw:
                self._mixed.add(look)
            waiting = self._looks.setdefault(look, deque())
            if number not in known:
                waiting.append(number)

    def take(self, event: Returned) -> list[int]:
        """Remove and return the numbers of the messages that a return may be about."""
        look = None if self._is_single else _look_of(ContentHeader(event.properties))
        same = self._looks.get(look)
        if same is None:  # the broker has encoded a value in another way
            numbers = sorted([number for waiting in self._looks.values() for number in waiting])
            for waiting in self._looks.values():
                waiting.clear()
            return numbers
        if look in self._mixed:
            numbers = list(same)
            same.clear()
            return numbers
        return [same.popleft()] if same else []


def _look_of(content: ContentHeader) -> Any:
    """Return the part of a content header that a return has unchanged, in a fixed order."""
    try:
        return tuple(sorted([field for field in content.fields() if field[0] != b"BCC"])), tuple(content.parts())
    except MalformedHeader:
        return content.raw
