"""Request and reply over AMQP: publish a request, and wait for the message that answers it.

A request has a unique correlation id and the address of the requester's reply
queue. That is RabbitMQ's direct reply-to, which needs no queue, or an exclusive queue. A server publishes its reply to
this address with the same correlation id; a reply to no waiting request is counted and dropped.

Both kinds of reply queue live as long as their connection. When it is lost, the replies to waiting calls cannot
arrive any more: these calls fail with `ConnectionLost`, and are not sent again, as their servers may have done the work
already. Only the caller knows whether it may be done twice. Later calls wait for the next connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self
from uuid import uuid4

from exchange.dispatch.sending import finish
from exchange.entities.entities import DIRECT_REPLY_TO
from exchange.errors import HashstarError, PreconditionFailed
from exchange.text.site import build_install_command
from exchange.values.message import Message

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

LOG: Final = logging.getLogger(__name__)


RECONNECT_FIRST: Final = 0.1
"""Seconds until the second try to connect; doubled for each further one."""
RECONNECT_MOST: Final = 5.0
"""Maximum number of seconds between two tries to connect."""

LONGEST: Final = 2**32 // 1000 - 1
"""Maximum time to live of a message in seconds: brokers take milliseconds of 32 bits."""

Connect = Callable[[], Awaitable["AbstractConnection"]]


class RequestError(HashstarError):
    """A request that got no reply."""


class ReplyTimeout(RequestError):
    """No reply came in time. The request may still be handled; its reply is dropped then."""


class Unroutable(RequestError):
    """No queue gets the request, so no server can answer it: the broker has returned it at once."""


class Refused(RequestError):
    """The broker refuses the request: a queue is full (nack), or there is no such exchange."""


class ConnectionLost(RequestError):
    """The connection or its channel was lost while the call waited: it is not known whether the request is handled."""


class RequesterClosed(RequestError):
    """The requester is closed, or is being closed."""


class RequestCounts(NamedTuple):
    """Numbers of calls and replies since the requester was made."""

    sent: int
    """Requests published, with or without success."""
    answered: int
    timed_out: int
    failed: int
    """Calls that ended with another error than `ReplyTimeout`."""
    late: int
    """Number of replies that were dropped: their request had ended, or never existed."""
    in_flight: int
    """Calls that wait now."""


@dataclass(slots=True, eq=False)
class RequestLink:
    """A connection, its channel, and the address for replies that is valid on it."""

    connection: AbstractConnection
    channel: AbstractChannel
    reply_to: str
    lost: asyncio.Future[str]
    """The reason, once the connection or the channel is gone."""
    exchanges: set[str] = field(default_factory=lambda: {""})
    """Exchanges that are known to exist."""
    probes: dict[str, asyncio.Task[str | None]] = field(default_factory=dict)
    """Exchange -> the question to the broker whether it exists, which is under way."""


class Requester:
    """Sends requests and returns their replies, many at a time; ``async with`` opens and closes it.

    ``connect`` is the URL of a broker, or a function that returns a connection of aio-pika, such as ``lambda:
    aio_pika.connect(...)``: not a robust one, as the requester connects again by itself. ``replies`` is ``"direct"``
    for direct reply-to or ``"queue"`` for an exclusive queue. ``timeout`` is in seconds, for calls without one of their
    own. At most ``most_in_flight`` calls wait for replies; more wait for their turn.

    Needs the extra ``aio-pika``. Use it from one event loop.
    """

    def __init__(
        self,
        connect: str | Connect,
        *,
        replies: Literal["direct", "queue"] = "direct",
        timeout: float = 5.0,
        most_in_flight: int = 1_000,
    ) -> None:
        if replies not in ("direct", "queue"):
            raise ValueError(f'replies is "direct" or "queue", not {replies!r}')
        _check_timeout(timeout)
        if most_in_flight < 1:
            raise ValueError(f"most_in_flight is at least 1, not {most_in_flight}")
        try:
            from bridge.consumers.requests import messages  # imports aio-pika, which is an extra
        except ImportError as error:
            raise ImportError(f"Requester needs {error.name}: {build_install_command('aio-pika')}") from None
        self._messages: Final = messages
        self._connect: Final = _connect_to(connect) if isinstance(connect, str) else connect
        self._uses_queue: Final = replies == "queue"
        self._timeout: Final = timeout
        self._room: Final = asyncio.Semaphore(most_in_flight)
        self._link: RequestLink | None = None
        self._linked: Final = asyncio.Event()
        self._idle: Final = asyncio.Event()
        self._idle.set()
        self._waiting: Final[dict[str, tuple[RequestLink, asyncio.Future[Message]]]] = {}
        """Correlation id -> the connection that the request was sent over, and the future of its reply."""
        self._ids: Final[set[str]] = set()
        """Message ids that callers have set in waiting requests."""
        self._calls = 0
        self._counts: Final = Counter[str]()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(wait=kind is None)

    @property
    def counts(self) -> RequestCounts:
        """Numbers of calls and replies so far."""
        counts = self._counts
        return RequestCounts(
            counts["sent"], counts["answered"], counts["timed out"], counts["failed"], counts["late"], self._calls
        )

    @property
    def connected(self) -> bool:
        """Whether requests can be sent now; else they wait, up to their timeout."""
        return self._link is not None

    async def open(self) -> None:
        """Connect. Raises what aio-pika raises if that fails; after later losses it reconnects in the background."""
        if self._keeper is not None or self._closing:
            raise RequesterClosed("a requester is opened once")
        link = await self._open_link()
        self._use(link)
        self._keeper = asyncio.create_task(self._keep(link))

    async def close(self, *, wait: bool = True) -> None:
        """Refuse new calls, wait until all calls are answered or timed out, and disconnect.

        Without ``wait`` all calls fail with `RequesterClosed` at once.
        """
        self._closing = True
        if wait:
            await self._idle.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        link, self._link = self._link, None
        self._linked.set()  # calls that wait for a connection find that it is closed
        self._fail_calls(None, RequesterClosed("the requester was closed before the reply came"))
        if link is not None:
            await link.connection.close()

    async def request(self, message: Message, *, timeout: float | None = None) -> Message:  # noqa: ASYNC109  for the whole call
        """Publish a request to the exchange and with the routing key of ``message``, and return the reply.

        ``timeout`` is in seconds, for the whole call: waiting for a turn, for the connection, for the reply. Unless the
        message has an ``expiration``, it expires in its queue at the timeout, so that no server handles it later. It
        is transient unless it has a ``delivery_mode``. Raises `ReplyTimeout`, `Unroutable`, `Refused`,
        `ConnectionLost`, `RequesterClosed`; ValueError for a message that AMQP cannot hold, RuntimeError in another
        event loop.

        ::

            reply = await requester.request(Message("", "prices", body=b"apples"), timeout=2)
            print(reply.body, reply.headers)
        """
        seconds = self._timeout if timeout is None else timeout
        _check_timeout(seconds)
        if not isinstance(message, Message):
            raise TypeError(f"a request is a Message, not {type(message).__name__}")
        if self._closing or self._keeper is None:
            raise RequesterClosed("the requester is closed" if self._closing else "the requester is not open")
        loop = asyncio.get_running_loop()
        if loop is not self._keeper.get_loop():
            raise RuntimeError("a requester is used from the event loop that opened it: this is another one")
        until = loop.time() + seconds
        try:
            async with self._call(message), asyncio.timeout_at(until), self._room:
                reply = await self._ask(await self._wait_for_link(), message, until)
        except TimeoutError:
            self._counts["timed out"] += 1
            where = f"{message.exchange!r} {message.routing_key!r}"
            raise ReplyTimeout(f"no reply from {where} within {seconds:g} s") from None
        except RequestError:
            self._counts["failed"] += 1
            raise
        self._counts["answered"] += 1
        return reply

    @asynccontextmanager
    async def _call(self, message: Message) -> AsyncIterator[None]:
        """Count a call, and reserve its message id, by which aio-pika recognises a returned message."""
        own_id = message.properties.get("message_id")
        if own_id is not None:
            if own_id in self._ids:
                raise ValueError(f"a request with the message_id {own_id!r} is in progress")
            self._ids.add(own_id)
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            self._ids.discard(own_id)
            if not self._calls:
                self._idle.set()

    async def _wait_for_link(self) -> RequestLink:
        while (link := self._link) is None or link.lost.done():
            if self._closing and link is None:
                raise RequesterClosed("the requester was closed before the request was sent")
            self._linked.clear()
            await self._linked.wait()
        return link

    async def _ask(self, link: RequestLink, message: Message, until: float) -> Message:
        """Publish a request over a connection, and wait for its reply."""
        from aio_pika.exceptions import AMQPError, DeliveryError, PublishError

        try:
            message.further_keys()
        except PreconditionFailed as error:  # publishing it would end the channel of all calls
            raise Refused(str(error)) from None
        loop = asyncio.get_running_loop()
        correlation = uuid4().hex
        replied: asyncio.Future[Message] = loop.create_future()
        try:
            exchange = await self._exchange(link, message.exchange)
            own = "expiration" in message.properties
            left = None if own else min(max(0.001, until - loop.time()), LONGEST)
            published = self._messages.to_aio_pika(message, correlation, link.reply_to, left)
            self._waiting[correlation] = link, replied
            self._counts["sent"] += 1
            await finish(exchange.publish(published, message.routing_key, mandatory=True))
            return await replied
        except PublishError:
            text = f"no queue gets a message of exchange {message.exchange!r} with the key {message.routing_key!r}"
            raise Unroutable(text) from None
        except DeliveryError:
            raise Refused("the broker has refused the request (nack): a queue is full or unavailable") from None
        except (AMQPError, ConnectionError, RuntimeError) as error:
            if replied.done() and not replied.cancelled() and (known := replied.exception()) is not None:
                raise known from None
            raise _lost(str(error) or repr(error)) from None
        finally:
            self._waiting.pop(correlation, None)
            if not replied.cancel() and not replied.cancelled():
                replied.exception()  # so that asyncio does not log it as never retrieved

    async def _exchange(self, link: RequestLink, name: str) -> Any:
        """Return an exchange. Raises Refused if there is none: publishing to it would end the channel of all calls."""
        if name not in link.exchanges:
            probe = link.probes.get(name)
            if probe is None:  # of many calls at once, the first asks
                probe = link.probes[name] = asyncio.create_task(_probe(link, name))
                probe.add_done_callback(lambda _: link.probes.pop(name))
            refusal = await finish(probe)
            if refusal is not None:
                raise Refused(refusal)
            link.exchanges.add(name)
        return await link.channel.get_exchange(name, ensure=False) if name else link.channel.default_exchange

    async def _take(self, incoming: AbstractIncomingMessage) -> None:
        """Give a reply to the call that waits for it."""
        _, replied = self._waiting.get(incoming.correlation_id or "", (None, None))
        if replied is None or replied.done():
            self._counts["late"] += 1
            return
        try:
            replied.set_result(self._messages.convert_message(incoming))
        except Exception as error:  # noqa: BLE001  a server's reply may contain anything
            replied.set_exception(RequestError(f"the reply cannot be read: {error}"))

    # The connection.

    async def _open_link(self) -> RequestLink:
        connection = await self._connect()
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def note(_: object, error: BaseException | None) -> None:
            if not lost.done():
                lost.set_result(str(error or "closed"))

        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            channel.close_callbacks.add(note)
            connection.close_callbacks.add(note)
            if self._uses_queue:
                queue = await channel.declare_queue(exclusive=True, auto_delete=True)
            else:
                queue = await channel.get_queue(DIRECT_REPLY_TO, ensure=False)
            await queue.consume(self._take, no_ack=True)
        except BaseException:
            await connection.close()
            raise
        return RequestLink(connection, channel, queue.name, lost)

    def _use(self, link: RequestLink) -> None:
        self._link = link
        self._linked.set()

    async def _keep(self, link: RequestLink) -> None:
        """Connect again whenever the connection or the channel is lost, until cancelled."""
        while True:
            reason = await link.lost
            self._link = None
            LOG.warning("the connection for replies is lost: %s", reason)
            self._fail_calls(link, _lost(reason))
            with suppress(Exception):
                await link.connection.close()
            wait = RECONNECT_FIRST
            while True:
                try:
                    link = await self._open_link()
                    break
                except Exception as error:  # noqa: BLE001  the next try may succeed
                    LOG.warning("cannot connect, trying again in %g s: %s", wait, error or repr(error))
                await asyncio.sleep(wait)
                wait = min(2 * wait, RECONNECT_MOST)
            self._use(link)

    def _fail_calls(self, link: RequestLink | None, error: RequestError) -> None:
        """End all calls that were sent over a connection, or all calls if ``link`` is None."""
        for sent_over, replied in list(self._waiting.values()):
            if (link is None or sent_over is link) and not replied.done():
                replied.set_exception(error)


def _lost(reason: str) -> ConnectionLost:
    return ConnectionLost(f"the connection was lost before the reply came, and the request is not sent again: {reason}")


def _connect_to(url: str) -> Connect:
    import aio_pika

    return partial(aio_pika.connect, url)


async def _probe(link: RequestLink, exchange: str) -> str | None:
    """Return why there is no such exchange; None if there is. The question may end its channel, so it has its own."""
    from aio_pika.exceptions import ChannelClosed

    channel = await link.connection.channel()
    try:
        await channel.get_exchange(exchange)
    except ChannelClosed as error:
        return str(error)
    finally:
        with suppress(Exception):
            await channel.close()
    return None


def _check_timeout(seconds: float) -> None:
    if not (isinstance(seconds, (int, float)) and seconds > 0):
        raise ValueError(f"timeout is a number of seconds above 0, not {seconds!r}")
