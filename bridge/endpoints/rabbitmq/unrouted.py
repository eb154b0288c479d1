"""Find the message that a basic.return is about, and decide whether it is at fault, or its queue just missing now.

A return does not carry the number of its publish, but only the content that was published, and the broker changes even
that: it removes the header BCC, and from 4.0 on it sorts the headers. So each return is matched with a message under
way whose *look*, the part that the broker does not change, is the same. If several such messages are equal to the bit,
any of them will do, since all have the same fate. If they differ in what the broker changes, the return may be about
any of them: then all are reported, to be sent again one by one.

RabbitMQ returns both alike (312 NO_ROUTE). What distinguishes them is what the exchange does with others, in time. A
message is judged by what the exchange routes it by: its routing key, or its headers (the *identity*).

==================================================  ================================================================
the identity                                        a returned message
==================================================  ================================================================
was routed before                                   waits without limit: its queue or binding is being remade
never was, and nothing else is routed meanwhile     waits without limit: the topology is missing
never was, and others are routed meanwhile          waits for the patience, then it is at fault
==================================================  ================================================================

A message that waits keeps its source from settling what was read behind it, so a source with a wrong key now and then
would stand still again and again. So the patience is spent once: when a message was found at fault, others are at fault
as soon as the exchange has routed another one, for `PROOF` seconds, or until an identity that was routed before is
returned, or the connection is lost.

Of an exchange that routes by headers all messages may have one key, so that all others wait behind the returned one,
and none shows that the exchange works. There, `LONE` messages may be found at fault without that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from bridge.endpoint import Failure
from bridge.endpoints.rabbitmq.frames import Returned
from exchange.amqp import ContentHeader, MalformedHeader, get_content
from exchange.values.message import Message


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


MAX_IDENTITIES: Final = 10_000
"""Maximum number of identities of an exchange that are remembered: those that were routed last, and those that wait."""

PROOF: Final = 600.0
"""Seconds for which the patience is not needed again after a message was found at fault."""

LONE: Final = 10
"""Maximum number of messages that are found at fault by their headers without another one that is routed."""


class _Exchange:
    """What is known about one exchange."""

    __slots__ = ("last_routed", "lone", "proved_at", "routed", "waiting")

    def __init__(self) -> None:
        self.routed: dict[Hashable, None] = {}
        """Identities that were routed, the latest last."""
        self.waiting: dict[Hashable, float] = {}
        """Identity that was never routed -> time since which it is returned, whether it waits or is at fault."""
        self.last_routed = -inf
        self.proved_at = -inf
        """Time of the last message that was found at fault, while that is a proof; else -inf."""
        self.lone = 0
        """Number of messages found at fault since the last one was routed, without proof that the exchange works."""


class Unrouted:
    """Judges the messages that exchanges return. ``patience`` and all times are in seconds, of one clock.

    Exchanges and routing keys are bytes, as they are published.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._exchanges: dict[bytes, _Exchange] = {}
        self.by_headers: dict[bytes, bool] = {}
        """Exchange -> whether it routes by headers, as far as its type is known."""

    def note_connection(self) -> None:
        """Take note of a new connection: the topology may be another. What was routed stays known."""
        for known in self._exchanges.values():
            known.proved_at = -inf

    def note_routed(self, exchange: bytes, key: bytes, message: Message, now: float) -> None:
        """Take note of a message that the exchange has routed."""
        identity = _digest_headers(message) if self._has_headers(exchange, key) else key
        known = self._exchanges.get(exchange)
        if known is None:
            known = self._exchanges[exchange] = _Exchange()
        known.last_routed = now
        if known.lone or known.waiting:
            was_waiting = known.waiting.pop(identity, None) is not None
            if known.lone and not was_waiting:  # what came behind passed at once, so those before it were at fault
                known.proved_at = now
            known.lone = 0
        routed = known.routed
        if identity in routed:
            del routed[identity]
        elif len(routed) >= MAX_IDENTITIES:
            del routed[next(iter(routed))]
        routed[identity] = None

    def judge(self, exchange: bytes, key: bytes, message: Message, reason: str, now: float) -> Failure:
        """Return the failure of a returned message: it is final if the message is at fault itself; else it waits."""
        by_headers = self._has_headers(exchange, key)
        known = self._exchanges.setdefault(exchange, _Exchange())
        identity = _digest_headers(message) if by_headers else key
        was_routed = identity in known.routed
        if was_routed:
            known.proved_at = -inf
        elif self._is_at_fault(known, identity, now, by_headers=by_headers):
            return Failure(reason, final=True)
        what = "such headers" if by_headers else f"routing key {_show(key)}"
        why = "it did before: a queue or a binding is missing" if was_routed else "it never did: is a binding missing?"
        return Failure(f"{reason}: exchange {_show(exchange)} does not route {what} now, which {why}", waits=True)

    def _has_headers(self, exchange: bytes, key: bytes) -> bool:
        """Return whether an exchange routes by headers; one whose type is not known is taken to, without a key."""
        return self.by_headers.get(exchange, not key)

    def _is_at_fault(self, known: _Exchange, identity: Hashable, now: float, *, by_headers: bool) -> bool:
        waiting = known.waiting
        since = waiting.get(identity)
        if since is None:
            if len(waiting) >= MAX_IDENTITIES:
                del waiting[next(iter(waiting))]
            since = waiting[identity] = now
        if now - since < self._patience and now - known.proved_at >= PROOF:
            return False
        if known.last_routed >= since:
            known.proved_at = now
        elif by_headers and known.lone < LONE:
            known.lone += 1
        else:
            return False
        return True


def _show(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace"))


def _digest_headers(message: Message) -> int:
    """Return a digest of the headers that applications have set."""
    try:
        headers = message.headers
        own = sorted([(name, repr(value)) for name, value in headers.items() if not name.startswith("x-hashstar-")])
        return hash(tuple(own))
    except MalformedHeader:
        return hash(get_content(message).raw)
