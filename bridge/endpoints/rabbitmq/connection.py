"""One connection to a RabbitMQ on the running event loop, and channels of it whose contents are read here.

`bridge.endpoints.rabbitmq.wire` is what it runs on; frames of deliveries and publishes are read and written as in
`bridge.endpoints.rabbitmq.frames`, many at a time. Whatever ends the connection or a channel ends both for their users,
and is reported once, by ``on_lost``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import pika
import pika.exceptions

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.frames import Contents, Event
from bridge.endpoints.rabbitmq.refusals import answer_of, trouble_of, words_of
from bridge.endpoints.rabbitmq.wire import CLOSE_SECONDS, SECONDS, Wire, fulfil, open_wire
from exchange.errors import BrokerError

__all__ = ["Channel", "Connection"]

SILENT_SECONDS: Final = 1.5
"""Seconds beyond a heartbeat after which a broker is called silent. RabbitMQ looks twice in a heartbeat whether it has
sent anything, and sends one when it has not between two looks: so it is silent for less than a whole one."""

LOOK_SECONDS: Final = 1.0
"""Seconds between looks whether the broker is there, while nothing is read."""

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
        self._looking: Channel | None = None
        self.blocked = False
        """Whether the broker has asked not to be written to (connection.blocked)."""
        self.blocked_reason = ""
        """Why, in the broker's words: ``low on memory``."""
        self.on_unblocked: Callable[[], None] = lambda: None
        wire.after_data = self._after_data
        wire.add_on_close_callback(lambda _, error: self.lose(error))
        wire.add_on_connection_blocked_callback(lambda _, frame: self._block(reason=str(frame.method.reason)))
        wire.add_on_connection_unblocked_callback(lambda *_: self._unblock())

    @classmethod
    async def open(cls, addresses: Sequence[pika.URLParameters], on_lost: Callable[[Disconnected], None]) -> Connection:
        """Connect to the first of these hosts that answers and lets us in. Raises Disconnected when none does."""
        troubles = []
        for parameters in addresses:
            try:
                return cls(await open_wire(parameters), on_lost)
            except Disconnected as error:
                troubles.append(str(error))
        raise Disconnected("; ".join(troubles))

    @property
    def frame_max(self) -> int:
        """The size of the largest frame, in bytes."""
        return int(self._wire.params.frame_max)

    @property
    def server(self) -> Mapping[str, Any]:
        """What the broker says of itself."""
        return self._wire.server_properties or {}

    @property
    def silence(self) -> str | None:
        """That the broker is silent, although it should have sent a heartbeat; None: it is not.

        A connection is lost after two heartbeats without a sign of life; this says so earlier.
        """
        heartbeat = self._wire.params.heartbeat
        if self._watch is not None or not isinstance(heartbeat, int | float) or not heartbeat:
            return None
        seconds = time.monotonic() - self._wire.heard
        return f"the broker is silent for {seconds:.0f} s" if seconds > heartbeat + SILENT_SECONDS else None

    @property
    def user(self) -> str:
        """The user that is logged in."""
        return str(getattr(self._wire.params.credentials, "username", ""))

    @property
    def parameters(self) -> pika.URLParameters:
        """The host that answered, and how it was asked."""
        return self._wire.params

    async def look(self, kind: Literal["queue", "exchange"], name: str) -> Any:
        """Declare a queue or an exchange passively, and return the broker's answer: nothing is made or changed.

        Raises BrokerError as the broker refuses it; the connection and its other channels stay as they are.
        """
        if self._looking is None:
            self._looking = await self.channel(apart=True)
        try:
            return await self._looking.ask(f"{kind}_declare", name, passive=True)
        except BrokerError:
            self._looking = None  # the broker has closed it
            raise

    async def channel(self, *, apart: bool = False) -> Channel:
        """A new channel. If it is apart, its end is not the connection's. Raises Disconnected."""
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._wire.channel(on_open_callback=lambda channel: fulfil(opened, channel))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(words_of(error)) from None
        channel = Channel(self, await self.answer(opened, "channel.open"), apart=apart)
        self._channels.append(channel)
        return channel

    async def answer(self, future: asyncio.Future[T], what: str) -> T:
        """Wait for the broker's answer to a method. Raises as `Channel.ask`."""
        if self._over:
            raise Disconnected("the connection is closed")
        self._waiting.add(future)
        try:
            async with asyncio.timeout(SECONDS):
                return await future
        except TimeoutError:
            raise Disconnected(f"no answer to {what} in {SECONDS:.0f} s") from None
        finally:
            self._waiting.discard(future)

    def write(self, data: bytes) -> None:
        """Write whole frames."""
        if not self._over:
            self._wire.emit(data)

    def lose(self, error: BaseException) -> None:
        """It, or a channel of it, has ended: tell, once."""
        self._after_data()  # what was read before it is told before it
        if self._over:
            return
        self._over = True
        self.resume()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(answer_of(error))
        if not self._wire.is_closed and not self._wire.is_closing:
            self._wire.close()
        self._on_lost(trouble_of(error))

    async def close(self) -> None:
        """Write what waits to be written, and end it; the owner is not told."""
        self._over = True
        self.resume()
        if self._wire.is_closed:
            return
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire.add_on_close_callback(lambda *_: fulfil(closed, None))
        if not self._wire.is_closing:
            self._wire.close()
        try:
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)
        finally:  # also when this is cancelled: nobody else would close the socket
            if not closed.done():
                self._wire._adapter_disconnect_stream()
        if not closed.done():
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)

    def pause(self) -> None:
        """Read nothing from the socket until `resume`. It is looked whether the broker hangs up meanwhile."""
        if self._watch is None and not self._over:
            self._wire.stop_reading()
            self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def resume(self) -> None:
        """Read from the socket again."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._wire.heard = time.monotonic()
            self._wire.start_reading()

    def _look(self) -> None:
        """While nothing is read, no heartbeat is heard either: ask the socket whether its other end is there."""
        if self._wire.hangs_up():
            self.resume()  # which finds the end behind what is still to be read
            return
        self._wire.bytes_received += 1  # which pika takes for a sign of life
        self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def listen(self, number: int, contents: Contents) -> None:
        """Read the contents of a channel."""
        self._wire.contents[number] = contents

    def _after_data(self) -> None:
        if self._over:
            return
        for channel in self._channels:
            channel.dispatch()

    def _block(self, reason: str) -> None:
        self.blocked, self.blocked_reason = True, reason

    def _unblock(self) -> None:
        self.blocked, self.blocked_reason = False, ""
        self.on_unblocked()


class Channel:
    """A channel; operations that are rare are pika's, and wait for the broker's answer."""

    def __init__(self, connection: Connection, channel: Any, *, apart: bool = False) -> None:
        self.number: Final[int] = channel.channel_number
        self.on_events: Callable[[list[Event]], None] = lambda _: None
        """Told of deliveries, returns and confirms, as many as came together."""
        self._connection = connection
        self._channel = channel
        self._contents = Contents()
        self._asked: set[asyncio.Future[Any]] = set()
        if apart:  # what it is asked is all that its end concerns
            channel.add_on_close_callback(lambda _, error: self._refuse(error))
            return
        channel.add_on_close_callback(lambda _, error: connection.lose(error))
        channel.add_on_cancel_callback(
            lambda _: connection.lose(Disconnected("the broker cancelled the consumer: is the queue still there?"))
        )
        connection.listen(self.number, self._contents)

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of pika's channel that takes a callback, and wait for the answer.

        Raises BrokerError with the broker's words if it closes the channel instead, Disconnected if all ends.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            getattr(self._channel, method)(*arguments, **named, callback=lambda frame: fulfil(answer, frame))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(words_of(error)) from None
        self._asked.add(answer)
        try:
            return await self._connection.answer(answer, method)
        finally:
            self._asked.discard(answer)

    def _refuse(self, error: BaseException) -> None:
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(answer_of(error))

    async def confirms(self) -> None:
        """Switch publisher confirms on; they come as events. Raises as `ask`."""
        await self.ask("confirm_delivery", lambda _: None)

    async def consume(self, queue: str, *, exclusive: bool, arguments: Mapping[str, Any], prefetch: int) -> None:
        """Have deliveries of a queue come as events, so many unacknowledged at most."""
        await self.ask("basic_qos", prefetch_count=prefetch)
        await self.ask(
            "basic_consume", queue, on_message_callback=lambda *_: None, exclusive=exclusive, arguments=dict(arguments)
        )

    def dispatch(self) -> None:
        """Tell what was read."""
        if self._contents.events:
            events, self._contents.events = self._contents.events, []
            self.on_events(events)
