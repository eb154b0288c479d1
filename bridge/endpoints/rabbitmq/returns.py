"""Which of the messages under way a basic.return is about.

A return does not say the number of its publish, only what was published; and even that not quite, as the broker takes
the header BCC out, and from 4.0 on sorts the headers. So it is about a message that looks the same. Where several are
the same to the bit, the same becomes of all, and any of them stands for another. Where they are not, and differ in no
more than what the broker changes, it can be any of them: then all are told, to be sent again one by one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from bridge.endpoints.rabbitmq.frames import Returned
from exchange.amqp import ContentHeader, MalformedHeader

__all__ = ["Sent", "returned_ones"]


class Sent(NamedTuple):
    """A publish that is not confirmed."""

    exchange: bytes
    routing_key: bytes
    body: bytes
    content: Callable[[], ContentHeader]
    """Its header, which is looked at if the rest does not tell."""


def returned_ones(
    sent: Mapping[int, Sent], events: Sequence[Returned], known: Collection[int] = ()
) -> Iterator[tuple[Returned, list[int]]]:
    """For each return the number of its publish, or the numbers that it may have; none if it was told before.

    ``sent`` is in the order of numbers, ``known`` are those that were found to be returned already.
    """
    places: dict[Place, list[int]] = defaultdict(list)
    for number, message in sent.items():
        places[message.exchange, message.routing_key, message.body].append(number)
    groups: dict[Place, _Group] = {}
    for event in events:
        place = event.exchange, event.routing_key, event.body
        if place not in groups:
            groups[place] = _Group(sent, places.get(place, []), known)
        yield event, groups[place].take(event)


Place: TypeAlias = tuple[bytes, bytes, bytes]
"""Exchange, routing key and body, which a return shows as they were."""


class _Group:
    """Messages of one place."""

    def __init__(self, sent: Mapping[int, Sent], numbers: Sequence[int], known: Collection[int]) -> None:
        self._looks: dict[Any, deque[int]] = {}  # what a return shows of the header -> who looks so, and is not known
        self._mixed: set[Any] = set()  # looks of which the headers are not the same to the bit
        self._one = len(numbers) == 1  # which needs no look
        raws: dict[Any, bytes] = {}
        for number in numbers:
            content = None if self._one else sent[number].content()
            look = None if content is None else _shown(content)
            if content is not None and raws.setdefault(look, content.raw) != content.raw:
                self._mixed.add(look)
            waiting = self._looks.setdefault(look, deque())
            if number not in known:
                waiting.append(number)

    def take(self, event: Returned) -> list[int]:
        look = None if self._one else _shown(ContentHeader(event.properties))
        found = self._looks.get(look)
        if found is None:  # the broker wrote a value anew
            numbers = sorted([number for waiting in self._looks.values() for number in waiting])
            for waiting in self._looks.values():
                waiting.clear()
            return numbers
        if look in self._mixed:
            numbers = list(found)
            found.clear()
            return numbers
        return [found.popleft()] if found else []


def _shown(content: ContentHeader) -> Any:
    """What a return shows of a content header, in an order of its own."""
    try:
        return tuple(sorted([field for field in content.fields() if field[0] != b"BCC"])), tuple(content.parts())
    except MalformedHeader:
        return content.raw
