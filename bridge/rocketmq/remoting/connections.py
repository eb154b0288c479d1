"""The connections of a process to name servers and brokers: one to each address, made when it is needed.

Name servers are asked by turns: the one that answered last, and when it fails the next. What a broker asks goes to the
handlers of its code.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from bridge.rocketmq.remoting.channel import Channel, ChannelSettings, split_address
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, ConnectError, RemotingError
from exchange.errors import InputError

__all__ = ["ClientSettings", "Connections", "Handler"]

Handler: TypeAlias = Callable[[Command], Command | None]
"""Answers a request of a broker's; None when it is for another handler of that code, or needs no answer."""

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a Java client calls `ClientConfig`; times are seconds."""

    namesrv_addr: str
    """Name servers as ``host:port``, separated by semicolons or commas."""
    instance_name: str = ""
    """``instanceName``; left out, one that no other client has."""
    unit_name: str = ""
    client_ip: str = ""
    """``clientIP``; left out, that of the interface by which the name servers are reached."""
    poll_name_server_interval: float = 30.0
    """After so long a route is looked up again."""
    heartbeat_broker_interval: float = 30.0
    mq_client_api_timeout: float = 3.0
    """Of route lookups, heartbeats and the like."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)
    channel_now: Callable[[], ChannelSettings] | None = None
    """Gives what a new client uses in place of ``channel``: secrets and certificates as they are by then."""

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses. Raises InputError where there is none, or one that is none."""
        addresses = tuple([each.strip() for each in self.namesrv_addr.replace(",", ";").split(";") if each.strip()])
        if not addresses:
            raise InputError("no name server: give namesrv_addr, as in 127.0.0.1:9876;127.0.0.1:9877")
        for address in addresses:
            try:
                split_address(address)
            except ConnectError as error:
                raise InputError(f"namesrv_addr: {error}") from None
        return addresses


class Connections:
    """The connections, on the running event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises InputError, and what ``channel_now`` raises."""
        if settings.channel_now is not None:
            settings = replace(settings, channel=settings.channel_now(), channel_now=None)
        self.settings: Final = settings
        self._name_servers: Final = settings.name_servers
        self._in_use = self._name_servers[0]
        self._is_closed = False
        self._channels: Final[dict[str, asyncio.Future[Channel]]] = {}
        self._handlers: Final[dict[int, list[Handler]]] = {}
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self.on_broken: Final[list[Callable[[BaseException], None]]] = []
        """Told of an exception, of a kind that is not expected, that ended something in the background."""

    async def close(self) -> None:
        """End all connections, and what was begun for them; none is made any more."""
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
        """`close` without waiting, and without what was written last: tasks that were begun end soon."""
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
        """Ask the server at an address, whatever it answers.

        Raises ConnectError, SendRequestError, RemotingTimeout, CommandError. A broker that says that it goes away is
        asked once more over a new connection, as the Java client does (``enableReconnectForGoAway``).
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
        """`invoke`, but an answer other than SUCCESS is raised as BrokerError."""
        answer = await self.invoke(address, code, fields, body, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, address)
        return answer

    async def ask_name_server(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask the name server in use; when it fails, the next, each of them once.

        Raises BrokerError for an answer other than SUCCESS, ConnectError when none answers.
        """
        troubles = []
        for address in self._by_turns():
            try:
                answer = await self.ask(address, code, fields, body)
            except BrokerError:
                self._in_use = address
                raise
            except RemotingError as error:
                if self._is_closed:
                    raise
                troubles.append(str(error))
            else:
                self._in_use = address
                return answer
        raise ConnectError(f"no name server answers: {'; '.join(troubles)}")

    async def name_server(self) -> Channel:
        """The connection to a name server that can be reached. Raises ConnectError when none can."""
        troubles = []
        for address in self._by_turns():
            try:
                return await self.channel(address)
            except ConnectError as error:
                troubles.append(str(error))
        raise ConnectError(f"no name server answers: {'; '.join(troubles)}")

    async def channel(self, address: str) -> Channel:
        """The connection to an address; it is made when there is none. Raises ConnectError, ClientError when closed."""
        opening = self._channels.get(address)
        if opening is None:
            if self._is_closed:
                raise ClientError("the client is closed")
            opening = self._channels[address] = asyncio.ensure_future(self._open(address))
            opening.add_done_callback(lambda done: self._opened(address, done))
        return await self._outcome(opening)

    def open_channel(self, address: str) -> Channel | None:
        """The connection to an address, if it is there."""
        opening = self._channels.get(address)
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def leave(self, channel: Channel) -> None:
        """Make no new request over this connection, and end it once those under way are over."""
        if channel.is_usable:
            channel.is_usable = False
            self._forget(channel)
            self._start(self._end_later(channel))

    def handle(self, code: int, handler: Handler) -> Callable[[], None]:
        """Have requests of brokers with this code answered; what it gives ends that."""
        handlers = self._handlers.setdefault(code, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    # For whoever builds on it.

    def _connected(self, address: str) -> None:
        """There is a new connection."""

    def _disconnected(self, address: str) -> None:
        """A connection has ended."""

    def _start(self, what: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have something done, at the longest until `close`."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _outcome(self, work: asyncio.Future[T]) -> T:
        """Wait for what others may wait for as well. Raises ClientError if it was ended by `close`."""
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # Of who waits here only its own cancellation is one: else it would end as if it had been told to.
            task = asyncio.current_task()
            if work.cancelled() and (task is None or not task.cancelling()):
                raise ClientError("the client is closed") from None
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None or isinstance(error, RemotingError):
            return
        LOG.error("in the background of a client of RocketMQ", exc_info=error)
        for listener in tuple(self.on_broken):
            listener(error)

    # How it is done.

    def _by_turns(self) -> tuple[str, ...]:
        """The name servers from the one in use on. What several ask at a time, each asks of all."""
        at = self._name_servers.index(self._in_use)
        return self._name_servers[at:] + self._name_servers[:at]

    async def _open(self, address: str) -> Channel:
        channel = await Channel.open(address, self.settings.channel)
        channel.on_request = self._answer
        channel.on_closed = self._closed
        try:
            self._connected(address)
        except BaseException:
            channel.abort()
            raise
        return channel

    def _opened(self, address: str, opening: asyncio.Future[Channel]) -> None:
        failed = opening.cancelled() or opening.exception() is not None
        if (failed or opening.result().closed) and self._channels.get(address) is opening:
            del self._channels[address]

    def _closed(self, channel: Channel) -> None:
        self._disconnected(channel.address)
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

    async def _end_later(self, channel: Channel) -> None:
        try:
            await asyncio.sleep(self.settings.mq_client_api_timeout)
        finally:  # at once where the client closes first
            channel.abort()
