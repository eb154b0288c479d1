"""Publishes that a user may not make: what is known of them, and how to try them without harm to others.

RabbitMQ closes the channel of a publish that is not permitted, with all that is under way on it. So one missing
permission, for an exchange or for a routing key (topic permissions), would hold up everything that goes to a target.
The refusal names the exchange: from then on, what goes there is tried one message at a time over a channel of its own,
which a refusal ends alone. A message that is taken proves the exchange; or, where a routing key was refused, its key,
and the exchange once none was refused for a minute.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bridge.endpoint import Disconnected, Failure, Outgoing
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.frames import Acked, Event, Returned
from bridge.endpoints.rabbitmq.refusals import ABOUT_A_MESSAGE, NO_ACCESS, Refused, ask_for_grant, to_disconnected
from exchange.errors import BrokerError

REFUSED_ACCESS: Final = re.compile(
    r"(?:access to (?:(topic) '.*' in )?|cannot publish to internal )exchange '(.*)' in vhost '"
)
"""RabbitMQ's text about the exchange, or the routing key, that a user, or nobody, may publish to."""
DEFAULT: Final = b"amq.default"
"""Name by which RabbitMQ's permissions know the default exchange."""
CALM: Final = 60.0
"""Seconds without a refusal after which the routing keys of an exchange are not doubted any more."""
PROVEN: Final = 10_000
"""Maximum number of routing keys of an exchange that are known to be permitted."""


@dataclass(slots=True)
class _Doubt:
    """An exchange at which a publish was refused."""

    by_key: bool
    """Whether a routing key was refused, and not the exchange."""
    refused_at: float
    proven: dict[bytes, None] = field(default_factory=dict)


class Permissions:
    """The exchanges at which publishes were refused; times are in seconds, of one clock."""

    def __init__(self) -> None:
        self._doubts: dict[bytes, _Doubt] = {}

    def __bool__(self) -> bool:
        return bool(self._doubts)

    def doubts(self, exchange: bytes, key: bytes, now: float) -> bool:
        """Return whether a publish may be refused, as an earlier one was."""
        doubt = self._doubts.get(exchange)
        if doubt is not None and doubt.by_key and now - doubt.refused_at >= CALM:
            del self._doubts[exchange]
            return False
        return doubt is not None and key not in doubt.proven

    def are_by_key(self, exchange: bytes) -> bool:
        """Return whether it was a routing key that was refused, and not the exchange."""
        doubt = self._doubts.get(exchange)
        return doubt is not None and doubt.by_key

    def note_refusal(self, error: Disconnected, now: float) -> bool:
        """Take note of a refusal, and return whether it names an exchange."""
        if (
            not isinstance(error, Refused)
            or error.code != NO_ACCESS
            or (named := REFUSED_ACCESS.search(str(error))) is None
        ):
            return False
        exchange = named[2].encode("utf-8", "surrogateescape")
        self._doubts[b"" if exchange == DEFAULT else exchange] = _Doubt(named[1] is not None, now)
        return True

    def note_taken(self, exchange: bytes, key: bytes) -> None:
        """Take note of a publish that was permitted."""
        doubt = self._doubts.get(exchange)
        if doubt is not None and not doubt.by_key:
            del self._doubts[exchange]
        elif doubt is not None:
            if len(doubt.proven) >= PROVEN:
                del doubt.proven[next(iter(doubt.proven))]
            doubt.proven[key] = None


class Trials:
    """Publishes that may be refused, over a channel of their own, one at a time and in order.

    ``place`` returns exchange and routing key of a message, ``encode`` its frames for a channel, or raises any
    exception. ``answered`` is called with a message that was confirmed; ``again`` with those that are permitted now, or
    were not stored for another reason, to be published as others are; ``failed`` with one that is refused, and why.
    """

    def __init__(
        self,
        connection: Connection,
        permissions: Permissions,
        *,
        place: Callable[[Outgoing], tuple[bytes, bytes]],
        encode: Callable[[Outgoing, int], bytes],
        answered: Callable[[Outgoing], None],
        again: Callable[[list[Outgoing]], None],
        failed: Callable[[Outgoing, Failure], None],
    ) -> None:
        self._connection = connection
        self._permissions = permissions
        self._place = place
        self._encode = encode
        self._answered = answered
        self._again = again
        self._failed = failed
        self._waiting: deque[Outgoing] = deque()
        self._held: Counter[bytes] = Counter()
        """Exchange -> number of its messages that wait."""
        self._under_way: Outgoing | None = None
        self._returned = False
        self._channel: Channel | None = None
        self._opening: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (self._under_way is not None)

    def holds(self, exchange: bytes) -> bool:
        """Return whether a message for an exchange is being tried, which others must not overtake."""
        return exchange in self._held or (self._under_way is not None and self._place(self._under_way)[0] == exchange)

    def add(self, outgoing: Outgoing) -> None:
        """Try a message after those before it."""
        self._waiting.append(outgoing)
        self._held[self._place(outgoing)[0]] += 1

    def go_on(self) -> None:
        """Publish the next message, unless one is under way, or the broker has blocked publishers."""
        if self._under_way is not None or self._connection.blocked:
            return
        self._pass_on()
        if self._under_way is not None or not self._waiting:  # passing on may have come here, too
            return
        if self._channel is None:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open())
            return
        outgoing = self._take_first()
        try:
            frames = self._encode(outgoing, self._channel.number)
        except Exception as error:  # noqa: BLE001  the message's data causes it, so only this message is refused
            # Not at once: the pump does not expect a report while it sends.
            asyncio.get_running_loop().call_soon(self._fail, [outgoing], Failure(str(error) or repr(error), final=True))
            return
        self._under_way, self._returned = outgoing, False
        self._connection.write(frames)

    def close(self) -> None:
        """Forget all messages."""
        self._waiting.clear()
        self._held.clear()
        self._under_way = self._channel = None
        if self._opening is not None:
            self._opening.cancel()

    async def _open(self) -> None:
        try:
            channel = await self._connection.channel(on_end=self._end)
            await channel.enable_confirms()
        except (Disconnected, BrokerError) as error:
            self._connection.lose(error)
            return
        channel.on_events = self._take_events
        self._channel = channel
        self.go_on()

    def _take_events(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is Returned:
                self._returned = True
            elif type(event) is Acked and (outgoing := self._under_way) is not None:
                self._under_way = None
                self._permissions.note_taken(*self._place(outgoing))
                if event.nack or self._returned:
                    self._again([outgoing])
                else:
                    self._answered(outgoing)
        self.go_on()

    def _pass_on(self) -> None:
        """Publish as others the first messages, as far as they are not doubted any more, before newer ones come."""
        permitted = []
        now = asyncio.get_running_loop().time()
        while self._waiting and not self._permissions.doubts(*self._place(self._waiting[0]), now):
            permitted.append(self._take_first())
        if permitted:
            self._again(permitted)

    def _take_first(self) -> Outgoing:
        outgoing = self._waiting.popleft()
        self._let_go(self._place(outgoing)[0], 1)
        return outgoing

    def _let_go(self, exchange: bytes, count: int) -> None:
        self._held[exchange] -= count
        if not self._held[exchange]:
            del self._held[exchange]

    def _end(self, error: BaseException) -> None:
        """Take the end of the channel: the refusal of the message under way, and of those like it behind it."""
        refusal, outgoing = to_disconnected(error), self._under_way
        self._channel = self._under_way = None
        if outgoing is not None and self._permissions.note_refusal(refusal, asyncio.get_running_loop().time()):
            exchange, key = self._place(outgoing)
            by_key = self._permissions.are_by_key(exchange)

            def is_alike(other: Outgoing) -> bool:
                there = self._place(other)
                return there[0] == exchange and (not by_key or there[1] == key)

            alike = [each for each in self._waiting if is_alike(each)]
            self._waiting = deque([each for each in self._waiting if not is_alike(each)])
            self._let_go(exchange, len(alike))
            self._fail([outgoing, *alike], Failure(ask_for_grant(refusal), busy=not by_key, waits=by_key))
        elif outgoing is not None and isinstance(refusal, Refused) and refusal.code in ABOUT_A_MESSAGE:
            self._fail([outgoing], Failure(str(refusal), final=True))
        else:
            self._connection.lose(error)

    def _fail(self, messages: list[Outgoing], failure: Failure) -> None:
        for each in messages:
            self._failed(each, failure)
        self.go_on()
