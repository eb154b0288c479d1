"""The publishes of one connection to RabbitMQ.

Each message is published as mandatory, and confirmed by the broker. One that an exchange returns is at fault, or waits
(`bridge.endpoints.rabbitmq.unrouted`); a nacked one is a failure that may be tried again. For some, as for one with
a header that it cannot read, a broker closes the channel or the connection, and does not report which it was: see
`bridge.endpoints.rabbitmq.suspects`.

Replies go to callers, whose queues come and go: one that is returned or nacked is refused for good, and holds up no
others. RabbitMQ 4.0 returns every mandatory message for direct reply-to, and 4.3 none, so these are not mandatory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from bridge.endpoint import Failure, Outgoing, Receiver
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.frames import Acked, Event, Returned, encode_publish
from bridge.endpoints.rabbitmq.permissions import Permissions, Trials
from bridge.endpoints.rabbitmq.refusals import Refused
from bridge.endpoints.rabbitmq.routes import PublishRoute
from bridge.endpoints.rabbitmq.suspects import Suspects
from bridge.endpoints.rabbitmq.unrouted import SentMessage, Unrouted, match_returns
from exchange.amqp import ContentHeader
from exchange.errors import InputError
from exchange.text.display import count_noun

NO_ROUTE: Final = 312

UNROUTABLE: Final = f"returned: {NO_ROUTE} "

SILENT: Final = 10.0
"""Seconds without a confirm, while publishes are under way, after which the silence is reported as trouble."""

DIRECT: Final = b"amq.rabbitmq.reply-to."
"""Beginning of the routing keys of direct reply-to."""

CONTENT_BYTES: Final = 20
"""Number of bytes of a content header's frame besides flags and properties."""


class ChannelPublishing:
    """The publishes of one connection. As long as there are suspects, only one message at a time is under way."""

    def __init__(
        self,
        connection: Connection,
        channel: Channel,
        receiver: Receiver,
        routes: Mapping[str, PublishRoute],
        suspects: Suspects,
        unrouted: Unrouted,
        permissions: Permissions,
        *,
        to_callers: bool = False,
    ) -> None:
        self._to_callers = to_callers
        self._connection = connection
        self._channel = channel
        self._receiver = receiver
        self._routes = routes
        self._user = connection.user
        self._frame_max = connection.frame_max
        self._suspects = suspects
        self._number = 0  # of the last publish; the broker counts in the same way
        self._under_way: dict[int, Outgoing] = {}
        self._returned: dict[int, Failure] = {}
        self._waiting: deque[Outgoing] = deque()  # messages to send once publishers are not blocked, or after a suspect
        self._unrouted = unrouted
        self._permissions = permissions
        self._trials = Trials(
            connection, permissions, place=lambda outgoing: self._address(outgoing)[:2], encode=self._encode,
            answered=self._take_trial, again=lambda messages: self._write(messages, tried=True), failed=self._refuse,
        )  # fmt: skip
        self._silent_since = 0.0  # loop's time of the last answer, or of the first publish after it
        channel.on_events = self._take_events
        connection.on_unblocked = self._write_waiting

    @property
    def trouble(self) -> str | None:
        """Reason why nothing moves now; None if none is known."""
        if self._connection.blocked:
            reason = self._connection.blocked_reason
            return f"blocked by the broker: {reason}" if reason else "blocked by the broker"
        silent = asyncio.get_running_loop().time() - self._silent_since
        if not self._under_way or silent < SILENT:
            return self._connection.trouble
        publishes = count_noun(len(self._under_way), "publish", "publishes")
        return f"the broker has confirmed nothing for {silent:.0f} s, of {publishes}"

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._connection.blocked or self._waiting or self._suspects.count:
            self._waiting += messages
            self._write_waiting()
        else:
            self._write(messages)

    def accuse(self, error: Refused) -> None:
        """Report the messages for which the broker ended the connection, as far as they are known, as refused."""
        for outgoing, failure in self._suspects.find_guilty(error, self._under_way.values()):
            self._receiver.failed(outgoing, failure)

    def close(self) -> None:
        """Forget what was not published."""
        self._trials.close()

    def _write_waiting(self) -> None:
        if self._connection.blocked:
            return
        self._trials.go_on()
        if not self._suspects.count:
            messages = list(self._waiting)
            self._waiting.clear()
            self._write(messages)
        # A message that cannot be encoded is not under way afterwards, so the next one follows at once.
        while self._suspects.count and self._waiting and not self._under_way and not self._trials:
            self._write([self._waiting.popleft()])

    def _write(self, messages: Sequence[Outgoing], *, tried: bool = False) -> None:
        """Publish messages in one write; what cannot be encoded, or must not be sent, is refused without a number.

        What may be refused for a missing permission is tried apart, unless it was ``tried``.
        """
        number, under_way, encode = self._number, self._under_way, self._encode
        frames, refused, has_guilty = [], [], self._suspects.has_guilty
        now = asyncio.get_running_loop().time()
        if not under_way:
            self._silent_since = now
        for outgoing in messages:
            if self._permissions and not tried and self._is_doubted(outgoing, now):
                self._trials.add(outgoing)
                continue
            if has_guilty and (failure := self._suspects.explain_refusal(outgoing)) is not None:
                refused.append((outgoing, failure))
                continue
            try:
                frame = encode(outgoing)
            except Exception as error:  # noqa: BLE001  the message's data causes it, so only this message is refused
                refused.append((outgoing, Failure(str(error) or repr(error), final=True)))
                continue
            number += 1
            under_way[number] = outgoing
            frames.append(frame)
        self._number = number
        if frames:
            self._connection.write(b"".join(frames))
        self._trials.go_on()
        for outgoing, failure in refused:
            # Not at once: the pump does not expect a report while it calls `send`.
            asyncio.get_running_loop().call_soon(self._refuse, outgoing, failure)

    def _is_doubted(self, outgoing: Outgoing, now: float) -> bool:
        """Return whether the broker may refuse the message as it refused others, or it must not overtake such ones."""
        try:
            exchange, key, _ = self._address(outgoing)
        except Exception:  # noqa: BLE001  whatever it is, it comes again when the message is encoded
            return False
        return self._permissions.doubts(exchange, key, now) or self._trials.holds(exchange)

    def _encode(self, outgoing: Outgoing, channel: int | None = None) -> bytes:
        """Encode the frames of a publish. Raises any exception for a message that cannot be written."""
        message, route, frame_max = outgoing.message, self._routes[outgoing.queue], self._frame_max
        exchange, routing_key, marks = route.address(outgoing)
        raw = route.header(outgoing, marks, self._user)
        if len(raw) + CONTENT_BYTES > frame_max > 0:
            raise InputError(f"the properties have {len(raw):,} bytes, a frame {frame_max:,}")
        mandatory = not (self._to_callers and routing_key.startswith(DIRECT))
        number = self._channel.number if channel is None else channel
        return encode_publish(number, exchange, routing_key, raw, message.body, frame_max, mandatory=mandatory)

    def _address(self, outgoing: Outgoing) -> tuple[bytes, bytes, bytes]:
        return self._routes[outgoing.queue].address(outgoing)

    def _refuse(self, outgoing: Outgoing, failure: Failure) -> None:
        self._receiver.failed(outgoing, failure)
        self._suspects.count -= self._suspects.count > 0
        self._write_waiting()

    def _take_trial(self, outgoing: Outgoing) -> None:
        self._suspects.count -= self._suspects.count > 0
        self._receiver.confirmed([outgoing])
        self._note_routed(outgoing)
        self._write_waiting()

    def _take_events(self, events: list[Event]) -> None:
        self._silent_since = asyncio.get_running_loop().time()
        # Returns first: the broker confirms a returned message right after its return, so both may be in these events.
        returns = [event for event in events if type(event) is Returned]
        if returns:
            self._match_returns(returns)
        confirmed: list[Outgoing] = []
        failed: list[tuple[Outgoing, Failure]] = []
        for event in events:
            if type(event) is Acked:
                self._take_answer(event, confirmed, failed)
        if self._suspects.count:
            self._suspects.count = max(0, self._suspects.count - len(confirmed) - len(failed))
        if confirmed:
            self._receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self._receiver.failed(outgoing, failure)
        if self._waiting:
            self._write_waiting()

    def _match_returns(self, events: list[Returned]) -> None:
        """Note the failure of each returned message; it is reported when the broker confirms the message."""
        sent = {number: self._make_sent(outgoing) for number, outgoing in self._under_way.items()}
        for event, numbers in match_returns(sent, events, self._returned):
            reason = f"returned: {event.code} {event.text.decode('utf-8', 'replace')}"
            if len(numbers) == 1:
                is_missing = event.code == NO_ROUTE and not event.exchange
                if is_missing:
                    reason += f": there is no {_name_place(event.exchange, event.routing_key)}"
                self._returned[numbers[0]] = Failure(reason, busy=is_missing)
            else:
                unclear = Failure(f"{reason}, this message or one like it")
                self._returned.update(dict.fromkeys(numbers, unclear))

    def _judge_return(self, outgoing: Outgoing, failure: Failure) -> Failure:
        """Return the failure of a message that an exchange did not route: it is at fault, or it waits."""
        exchange, key, _ = self._address(outgoing)
        return self._unrouted.judge(exchange, key, outgoing.message, failure.reason, self._silent_since)

    def _make_sent(self, outgoing: Outgoing) -> SentMessage:
        route = self._routes[outgoing.queue]
        exchange, key, marks = route.address(outgoing)
        header = partial(route.header, outgoing, marks, self._user)
        return SentMessage(exchange, key, outgoing.message.body, lambda: ContentHeader(header()))

    def _take_answer(self, event: Acked, confirmed: list[Outgoing], failed: list[tuple[Outgoing, Failure]]) -> None:
        """Add the messages that an ack or nack answers to ``confirmed`` and ``failed``.

        With ``multiple`` these are all messages up to its number: ``_under_way`` is in the order of numbers.
        """
        under_way, returned = self._under_way, self._returned
        if event.multiple:
            numbers = []
            for number in under_way:
                if number > event.number:
                    break
                numbers.append(number)
        else:
            numbers = [event.number]
        for number in numbers:
            outgoing = under_way.pop(number, None)
            if outgoing is None:
                continue
            failure = returned.pop(number, None) if returned else None
            if self._to_callers:
                failure = _refusal_of_caller(failure, event)
            elif failure is not None and failure.reason.startswith(UNROUTABLE) and not failure.busy:
                failure = self._judge_return(outgoing, failure)
            elif failure is None and event.nack:
                place = _name_place(*self._address(outgoing)[:2])
                failure = Failure(f"nack: {place} is full, or cannot be written to now", busy=True)
            if failure is None:
                confirmed.append(outgoing)
                self._note_routed(outgoing)
            else:
                failed.append((outgoing, failure))

    def _note_routed(self, outgoing: Outgoing) -> None:
        if self._routes[outgoing.queue].exchange and not self._to_callers:
            exchange, key, _ = self._address(outgoing)
            self._unrouted.note_routed(exchange, key, outgoing.message, self._silent_since)


def _name_place(exchange: bytes, routing_key: bytes) -> str:
    """Return what an operator looks at: the queue, or the exchange that leads to it."""
    name = (exchange or routing_key).decode("utf-8", "backslashreplace")
    if not exchange:
        return f"queue {name!r}"
    return f"a queue behind exchange {name!r} (routing key {routing_key.decode('utf-8', 'backslashreplace')!r})"


def _refusal_of_caller(failure: Failure | None, event: Acked) -> Failure | None:
    """Return why a reply is refused for good; None if it was taken."""
    if failure is not None:
        return Failure(failure.reason, final=True)
    return Failure("nack", final=True) if event.nack else None
