"""A connection to RabbitMQ on the running event loop, and its channels.

It runs on `bridge.endpoints.rabbitmq.wire`; the frames of deliveries and publishes are read and written by
`bridge.endpoints.rabbitmq.frames`, many at a time. When the connection or one of its channels ends, both are over for
their users, and ``on_lost`` is called once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

import pika
import pika.exceptions

from bridge.aside import call_aside
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.frames import Contents, Event, encode_cancel
from bridge.endpoints.rabbitmq.refusals import describe_error, to_answer_error, to_disconnected
from bridge.endpoints.rabbitmq.tokens import find_tokens, forget_refused_token, keep_token_fresh
from bridge.endpoints.rabbitmq.wire import CLOSE_SECONDS, SECONDS, Wire, close_wire, fulfil, open_wire
from bridge.head_start import NoneSucceededError, take_first

SILENT_SECONDS: Final = 1.5
"""Seconds beyond a heartbeat interval after which a broker counts as silent. RabbitMQ checks twice per interval whether
it has sent anything since the last check, and sends a heartbeat if not: so a healthy broker is never silent for a whole
interval."""

LOOK_SECONDS: Final = 1.0
"""Seconds between checks whether the broker is still connected, while nothing is read."""

T = TypeVar("T")


class Connection:
    """An open connection; `open` makes one."""

    def __init__(self, wire: Wire, on_lost: Callable[[Disconnected], None]) -> None:
        self._wire = wire
        self._on_lost = on_lost
        self._channels: list[Channel] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        self._over = False
        self._watch: asyncio.TimerHandle | None = None
        self._resumed = 0.0  # loop's time since which the socket is read again
        self._looking: Channel | None = None
        self.blocked = False
        """Whether the broker has asked us not to write (connection.blocked)."""
        self.blocked_reason = ""
        """The broker's reason for that: ``low on memory``."""
        self.on_unblocked: Callable[[], None] = lambda: None
        self._renewing: asyncio.Task[None] | None = None
        if find_tokens(wire.params) is not None:
            self._renewing = asyncio.create_task(keep_token_fresh(wire, self._update_secret))
        wire.after_data = self._after_data
        wire.add_on_close_callback(lambda _, error: self.lose(error))
        wire.add_on_connection_blocked_callback(lambda _, frame: self._block(reason=str(frame.method.reason)))
        wire.add_on_connection_unblocked_callback(lambda *_: self._unblock())

    @classmethod
    async def open(cls, addresses: Sequence[pika.URLParameters], on_lost: Callable[[Disconnected], None]) -> Connection:
        """Connect to the first of these hosts that accepts us, and takes no longer than a later one does.

        Raises Disconnected if none does.
        """
        # Only a list reads no files when it is iterated over.
        hosts = addresses if isinstance(addresses, list) else await call_aside(lambda: list(addresses))
        try:
            wire = await take_first([partial(open_wire, host) for host in hosts], Disconnected, close_wire)
        except NoneSucceededError as errors:
            raise Disconnected("; ".join(map(str, errors.args))) from None
        return cls(wire, on_lost)

    async def _update_secret(self, token: str) -> None:
        """Send the broker a newer access token, and wait for its answer. Raises the errors of `answer`."""
        updated: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        updated.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits once it has ended
        self._wire.update_secret(token, "the token was renewed", partial(fulfil, updated))
        await self.answer(updated, "connection.update-secret")

    @property
    def frame_max(self) -> int:
        """Maximum size of a frame, in bytes."""
        return int(self._wire.params.frame_max)

    @property
    def server(self) -> Mapping[str, Any]:
        """Server properties that the broker has sent."""
        return self._wire.server_properties or {}

    @property
    def trouble(self) -> str | None:
        """Text about a broker that is silent although a heartbeat is due; else None.

        pika ends a connection only after two heartbeat intervals of silence; this reports the silence earlier.
        """
        heartbeat = self._wire.params.heartbeat
        if self._watch is not None or not isinstance(heartbeat, int | float) or not heartbeat:
            return None
        seconds = time.monotonic() - self._wire.heard
        return f"the broker is silent for {seconds:.0f} s" if seconds > heartbeat + SILENT_SECONDS else None

    @property
    def user(self) -> str:
        """Name of the user that is logged in; "" if it is the one that an access token names."""
        return str(getattr(self._wire.params.credentials, "username", ""))

    @property
    def account(self) -> str:
        """The user that is logged in, as texts have it."""
        return f"user {self.user!r}" if self.user else "the user of this access token"

    @property
    def parameters(self) -> pika.URLParameters:
        """Parameters of the host that accepted the connection."""
        return self._wire.params

    async def look(self, kind: Literal["queue", "exchange"], name: str) -> Any:
        """Declare a queue or an exchange passively, which changes nothing, and return the broker's answer.

        Raises BrokerError if the broker refuses it; the connection and its other channels stay open.
        """
        if self._looking is None or not self._looking.is_open:  # a refusal closes it, also when nobody waits any more
            self._looking = await self.channel(apart=True)
        return await self._looking.ask(f"{kind}_declare", name, passive=True)

    async def channel(self, *, apart: bool = False, on_end: Callable[[BaseException], None] | None = None) -> Channel:
        """Open a channel. Raises Disconnected.

        The end of a channel ends the connection, unless the channel is ``apart``, or ``on_end`` is called with the
        reason instead, or the channel was asked something just then: the end is the refusal of that.
        """
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._wire.channel(on_open_callback=lambda channel: fulfil(opened, channel))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(describe_error(error)) from None
        channel = Channel(self, await self.answer(opened, "channel.open"), apart=apart, on_end=on_end)
        self._channels.append(channel)
        return channel

    async def answer(self, future: asyncio.Future[T], what: str) -> T:
        """Wait for the broker's answer to a method; time in which nothing is read does not count.

        Raises the errors of `Channel.ask`.
        """
        if self._over:
            raise Disconnected("the connection is closed")
        loop = asyncio.get_running_loop()
        asked = loop.time()
        self._waiting.add(future)
        try:
            while not future.done():
                left = SECONDS if self.is_paused else max(asked, self._resumed) + SECONDS - loop.time()
                if left <= 0:
                    raise Disconnected(f"no answer to {what} in {SECONDS:.0f} s")
                await asyncio.wait([future], timeout=left)
            return future.result()
        finally:
            self._waiting.discard(future)

    def forget(self, channel: Channel) -> None:
        """Forget a channel that has ended."""
        if channel in self._channels:
            self._channels.remove(channel)

    def write(self, data: bytes) -> None:
        """Write whole frames."""
        if not self._over:
            self._wire.emit(data)

    def lose(self, error: BaseException) -> None:
        """End the connection after an error, its own or that of a channel, and report the error once."""
        self._after_data()  # report what was read before the end first
        if self._over:
            return
        self._end()
        forget_refused_token(self._wire.params, str(error))
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(to_answer_error(error))
        if not self._wire.is_closed and not self._wire.is_closing:
            self._wire.close()
        self._on_lost(to_disconnected(error))

    async def close(self) -> None:
        """Write what waits to be written, and close the connection, without a report."""
        self._end()
        if self._wire.is_closed:
            return
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire.add_on_close_callback(lambda *_: fulfil(closed, None))
        if not self._wire.is_closing:
            self._wire.close()
        try:
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)
        finally:  # also if this is cancelled: nothing else would close the socket
            if not closed.done():
                self._wire._adapter_disconnect_stream()
        if not closed.done():
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)

    def _end(self) -> None:
        self._over = True
        self.resume()
        if self._renewing is not None:
            self._renewing.cancel()

    def pause(self) -> None:
        """Stop reading from the socket until `resume`, and watch meanwhile whether the broker hangs up."""
        if self._watch is None and not self._over:
            self._wire.stop_reading()
            self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def resume(self) -> None:
        """Read from the socket again."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._resumed = asyncio.get_running_loop().time()
            self._wire.heard = time.monotonic()
            self._wire.start_reading()

    def _look(self) -> None:
        """Ask the socket whether the broker has hung up: while nothing is read, no heartbeat comes, either."""
        if self._wire.hangs_up():
            self.resume()  # reads what is left, and then finds the end
            return
        self._wire.bytes_received += 1  # to pika, this is a sign of life
        self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read from the socket."""
        return self._watch is not None

    def unlisten(self, number: int) -> None:
        """Leave the frames of a channel to pika again."""
        self._wire.contents.pop(number, None)

    def listen(self, number: int, contents: Contents) -> None:
        """Pass the frames of a channel to ``contents`` instead of to pika."""
        self._wire.contents[number] = contents

    def _after_data(self) -> None:
        if self._over:
            return
        for channel in [*self._channels]:  # whom events are passed on to may end a channel
            channel.dispatch()

    def _block(self, reason: str) -> None:
        self.blocked, self.blocked_reason = True, reason

    def _unblock(self) -> None:
        self.blocked, self.blocked_reason = False, ""
        self.on_unblocked()


class Channel:
    """A channel. Rare operations go through pika, and wait for the broker's answer."""

    def __init__(
        self,
        connection: Connection,
        channel: Any,
        *,
        apart: bool = False,
        on_end: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._on_end = on_end or connection.lose
        self.number: Final[int] = channel.channel_number
        self.on_events: Callable[[list[Event]], None] = lambda _: None
        """Called with the deliveries, returns and confirms that came together."""
        self._connection = connection
        self._channel = channel
        self._contents = Contents()
        self._asked: set[asyncio.Future[Any]] = set()
        self._is_apart = apart
        self._consumers = 0
        """Number of consumers so far; the tag of the last one."""
        self.prefetch = 0
        """Maximum number of unacknowledged deliveries of the last consumer."""
        channel.add_on_close_callback(lambda _, error: self._end(error))
        if apart:
            return
        channel.add_on_cancel_callback(
            lambda _: connection.lose(Disconnected("the broker cancelled the consumer: is the queue still there?"))
        )
        connection.listen(self.number, self._contents)

    @property
    def is_open(self) -> bool:
        """Whether it may be asked."""
        return bool(self._channel.is_open)

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of pika's channel that takes a callback, and wait for the answer.

        Raises BrokerError with the broker's text if it closes the channel instead, Disconnected if the connection ends.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            getattr(self._channel, method)(*arguments, **named, callback=lambda frame: fulfil(answer, frame))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(describe_error(error)) from None
        self._asked.add(answer)
        try:
            return await self._connection.answer(answer, method)
        finally:
            self._asked.discard(answer)

    def _end(self, error: BaseException) -> None:
        """Report the end of the channel: as a refusal to those who wait for its answers; if nobody waits, to
        ``on_end``, which ends the connection by default. A channel that is ``apart`` ends alone.
        """
        self.dispatch()  # what came before it
        self._connection.unlisten(self.number)
        self._connection.forget(self)
        waiting = [answer for answer in self._asked if not answer.done()]  # a caller may not have read its answer yet
        for answer in waiting:
            answer.set_exception(to_answer_error(error))
        if not waiting and not self._is_apart:
            self._on_end(error)

    async def enable_confirms(self) -> None:
        """Enable publisher confirms, which come as events. Raises the errors of `ask`."""
        await self.ask("confirm_delivery", lambda _: None)

    async def consume(self, queue: str, *, exclusive: bool, arguments: Mapping[str, Any], prefetch: int) -> None:
        """Consume from a queue; deliveries come as events, at most ``prefetch`` of them unacknowledged."""
        self.prefetch = prefetch
        await self.ask("basic_qos", prefetch_count=prefetch)
        self._consumers += 1
        await self.ask(
            "basic_consume", queue, on_message_callback=lambda *_: None, exclusive=exclusive, arguments=dict(arguments),
            consumer_tag=str(self._consumers),
        )  # fmt: skip

    def cancel(self) -> None:
        """Cancel the last consumer, before anything that is written later; it is not answered.

        What it was delivered stays unacknowledged. pika would put it off behind the answer that something else waits
        for, `mark` for instance.
        """
        self._connection.write(encode_cancel(self.number, b"%d" % self._consumers))

    def mark(self, arrived: Callable[[], object]) -> None:
        """Ask something that changes nothing for the present consumer, and call ``arrived`` with the answer.

        It comes behind all that was sent before; while the connection is paused, it is not read.
        """
        with suppress(pika.exceptions.AMQPError):  # the connection is over, which is reported
            self._channel.basic_qos(prefetch_count=self.prefetch, callback=lambda _: arrived())

    def close(self) -> None:
        """Close the channel alone; nothing waits for the answer."""
        self._is_apart = True
        self._connection.unlisten(self.number)
        with suppress(pika.exceptions.AMQPError):  # it is over already
            self._channel.close()

    def dispatch(self) -> None:
        """Pass on the events that were read."""
        if self._contents.events:
            events, self._contents.events = self._contents.events, []
            self.on_events(events)
