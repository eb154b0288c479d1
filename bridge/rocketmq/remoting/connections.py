"""The connections of a client to name servers and brokers: one to each address, made when it is needed.

A request to the name servers goes to the one that answered last; if that fails or hangs, to the next. Requests from
brokers go to the handlers registered for their codes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from bridge.aside import call_aside
from bridge.head_start import NoneSucceededError, take_first
from bridge.rocketmq.remoting.channel import Channel, ChannelSettings, split_address
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, ConnectError, RemotingError
from exchange.errors import HashstarError, InputError

Handler: TypeAlias = Callable[[Command], Command | None]
"""Function that answers a broker's request; None: it is for another handler of that code, or needs no answer."""

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Configuration of a client, `ClientConfig` in Java; times are in seconds."""

    namesrv_addr: str
    """Name servers as ``host:port``, separated by semicolons or commas."""
    instance_name: str = ""
    """``instanceName``; by default one that no other client has."""
    unit_name: str = ""
    client_ip: str = ""
    """``clientIP``; by default that of the interface by which the name servers are reached."""
    poll_name_server_interval: float = 30.0
    """Seconds until a route is looked up again."""
    heartbeat_broker_interval: float = 30.0
    mq_client_api_timeout: float = 3.0
    """Seconds until requests for routes, heartbeats and the like must be answered."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)
    channel_now: Callable[[], ChannelSettings] | None = None
    """Function that returns ``channel`` with the secrets and certificates that are valid now. A client calls it, beside
    the event loop, after a connection could not be made: they may have been replaced."""

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers. Raises InputError for an address that is malformed, and for none."""
        addresses = tuple([each.strip() for each in self.namesrv_addr.replace(",", ";").split(";") if each.strip()])
        if not addresses:
            raise InputError("no name server: give namesrv_addr, as in 127.0.0.1:9876;127.0.0.1:9877")
        for address in addresses:
            try:
                split_address(address)
            except ConnectError as error:
                raise InputError(f"namesrv_addr: {error}") from None
        return addresses

    def current(self) -> ClientSettings:
        """Return the settings with ``channel`` as ``channel_now`` returns it; that may read files, and raise."""
        return self if self.channel_now is None else replace(self, channel=self.channel_now())


class Connections:
    """The connections, on the running event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        """Check the settings, which are used as they are at first: see `ClientSettings.current`. Raises InputError."""
        self.settings = settings
        self._channel_now: Final = settings.channel_now
        self._has_failed = False
        """Whether a connection with these settings could not be made, or ended before the server sent anything."""
        self._name_servers: Final = settings.name_servers
        self._in_use = self._name_servers[0]
        self._is_closed = False
        self._channels: Final[dict[str, asyncio.Future[Channel]]] = {}
        self._handlers: Final[dict[int, list[Handler]]] = {}
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self.on_broken: Final[list[Callable[[BaseException], None]]] = []
        """Listeners for exceptions of unexpected types that ended a background task."""

    async def close(self) -> None:
        """End all connections and background tasks, for ever."""
        self._is_closed = True
        tasks = [*self._tasks, *[each for each in self._channels.values() if not each.done()]]
        channels = [channel for address in self._channels if (channel := self.open_channel(address)) is not None]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, *[channel.close() for channel in channels], return_exceptions=True)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close without waiting, and without writing the rest of the data; background tasks end soon."""
        self._is_closed = True
        for task in tuple(self._tasks):
            task.cancel()
        for address, opening in tuple(self._channels.items()):
            channel = self.open_channel(address)
            if channel is not None:
                channel.abort()
            opening.cancel()
        self._channels.clear()

    async def invoke(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's own
    ) -> Command:
        """Send a request to the server at an address, and return its answer, whatever its code.

        When a broker answers GO_AWAY, the request is sent to it once more over a new connection, as by the Java client
        (``enableReconnectForGoAway``). Raises ConnectError, SendRequestError, RemotingTimeout, CommandError.
        """
        limit = self.settings.mq_client_api_timeout if timeout is None else timeout
        began = time.monotonic()
        channel = await self.channel(address)
        answer = await channel.invoke(code, fields or {}, body, limit - (time.monotonic() - began))
        if answer.code == ResponseCode.GO_AWAY:
            self.leave(channel)
            channel = await self.channel(address)
            answer = await channel.invoke(code, fields or {}, body, limit - (time.monotonic() - began))
        return answer

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Command:
        """Do as `invoke`, but raise BrokerError for an answer other than SUCCESS."""
        answer = await self.invoke(address, code, fields, body, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, address)
        return answer

    async def ask_name_server(self, code: int, fields: Mapping[str, str] | None = None) -> Command:
        """Send a request to the name server in use, and when that fails or hangs to each of the others in turn.

        Raises BrokerError for an answer other than SUCCESS, ConnectError when none answers.
        """

        async def ask(address: str) -> tuple[str, Command]:
            return address, await self.invoke(address, code, fields)

        self._in_use, answer = await self._ask_in_turn(ask)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, self._in_use)
        return answer

    async def name_server(self) -> Channel:
        """Return the connection to a name server that can be reached. Raises ConnectError when none can."""
        return await self._ask_in_turn(self.channel)

    async def channel(self, address: str) -> Channel:
        """Return the connection to an address, or make one. Raises ConnectError, ClientError if this is closed."""
        opening = self._channels.get(address)
        if opening is None:
            if self._is_closed:
                raise ClientError("the client is closed")
            opening = self._channels[address] = asyncio.ensure_future(self._open(address))
            opening.add_done_callback(lambda done: self._forget_failed(address, done))
        return await self._result_of(opening)

    def open_channel(self, address: str) -> Channel | None:
        """Return the connection to an address, if there is one."""
        opening = self._channels.get(address)
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def leave(self, channel: Channel) -> None:
        """Send no new requests over this connection, and end it after the time limit of those under way."""
        if channel.is_usable:
            channel.is_usable = False
            self._forget(channel)
            self._start(self._abort_later(channel))

    def handle(self, code: int, handler: Handler) -> Callable[[], None]:
        """Register a handler for requests of brokers with this code; return the function that unregisters it."""
        handlers = self._handlers.setdefault(code, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    # For subclasses.

    def _on_connected(self, address: str) -> None:
        """Take note of a new connection."""

    def _on_disconnected(self, address: str) -> None:
        """Take note of a connection that has ended."""

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a background task, which ends with `close` at the latest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._report)
        return task

    async def _result_of(self, work: asyncio.Future[T]) -> T:
        """Wait for a future that others may wait for as well. Raises ClientError if `close` has cancelled it."""
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # A cancelled future must not look as if the task that waits here had been cancelled itself.
            task = asyncio.current_task()
            if work.cancelled() and (task is None or not task.cancelling()):
                raise ClientError("the client is closed") from None
            raise

    def _report(self, task: asyncio.Task[Any]) -> None:
        """Report the exception of a background task that has ended, if it is unexpected."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None or isinstance(error, RemotingError):
            return
        LOG.error("a background task of a RocketMQ client failed", exc_info=error)
        for listener in tuple(self.on_broken):
            listener(error)

    # Implementation.

    async def _ask_in_turn(self, ask: Callable[[str], Coroutine[Any, Any, T]]) -> T:
        """Return what the first name server answers, beginning with the one in use. Raises ConnectError."""
        first = self._name_servers.index(self._in_use)
        in_turn = self._name_servers[first:] + self._name_servers[:first]
        try:
            return await take_first([partial(ask, address) for address in in_turn], RemotingError)
        except NoneSucceededError as errors:
            if self._is_closed:
                raise ClientError("the client is closed") from None
            raise ConnectError(f"no name server answers: {'; '.join(map(str, errors.args))}") from None

    async def _open(self, address: str) -> Channel:
        if self._has_failed and self._channel_now is not None:
            try:
                self.settings = replace(self.settings, channel=await call_aside(self._channel_now))
            except HashstarError as error:
                raise ConnectError(f"{address}: {error}") from None
            self._has_failed = False
        try:
            channel = await Channel.open(address, self.settings.channel)
        except ConnectError:
            self._has_failed = True
            raise
        channel.on_request = self._answer
        channel.on_closed = self._forget_closed
        try:
            self._on_connected(address)
        except BaseException:
            channel.abort()
            raise
        return channel

    def _forget_failed(self, address: str, opening: asyncio.Future[Channel]) -> None:
        """Forget a connection that could not be made, or has already ended."""
        failed = opening.cancelled() or opening.exception() is not None
        if (failed or opening.result().closed) and self._channels.get(address) is opening:
            del self._channels[address]

    def _forget_closed(self, channel: Channel) -> None:
        # With TLS 1.3, a server may refuse the client's certificate after the handshake.
        self._has_failed = self._has_failed or not channel.has_heard
        self._on_disconnected(channel.address)
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        if self.open_channel(channel.address) is channel:
            del self._channels[channel.address]

    def _answer(self, request: Command) -> Command | None:
        for handler in tuple(self._handlers.get(request.code, ())):
            answer = handler(request)
            if answer is not None:
                return answer
        return None

    async def _abort_later(self, channel: Channel) -> None:
        try:
            await asyncio.sleep(self.settings.mq_client_api_timeout)
        finally:  # at once where the client closes first
            channel.abort()
