"""What a process is to a cluster: its name servers, the routes of its topics, its connections and heartbeats.

Producers and consumers share one (`org.apache.rocketmq.client.impl.factory.MQClientInstance`). Name servers are asked
by turns, when one fails the next; brokers are found by name in the routes that were looked up. What a broker asks goes
to the handlers of its code.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, Self, TypeAlias

from bridge.rocketmq.channel import Channel, ChannelSettings, split_address
from bridge.rocketmq.codes import RequestCode, ResponseCode
from bridge.rocketmq.errors import BrokerError, ClientError, ConnectError, RemotingError
from bridge.rocketmq.remoting import Command, body_json
from exchange.errors import InputError
from exchange.partition.rocketmq.queues import MASTER, TopicRoute

__all__ = ["AUTO_CREATE_TOPIC_KEY_TOPIC", "Client", "ClientSettings", "Handler"]

LOG: Final = logging.getLogger(__name__)

AUTO_CREATE_TOPIC_KEY_TOPIC: Final = "TBW102"
"""The topic whose route is that of topics which brokers create when they are first sent to."""

MEMBER: Final = count(1)
"""Tells the clients of one process apart."""

Handler: TypeAlias = Callable[[Command], Command | None]
"""Answers a request of a broker's; None when it is for another handler of that code, or needs no answer."""

ConsumerData: TypeAlias = Callable[[], Mapping[str, Any]]
"""What heartbeats say of a consumer, as JSON (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData`)."""


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


class Client:
    """A member of the cluster, on the running event loop; ``async with`` opens and closes it."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings: Final = settings
        self._name_servers: Final = settings.name_servers
        self._chosen = 0
        self._channels: Final[dict[str, asyncio.Future[Channel]]] = {}
        self._routes: Final[dict[str, TopicRoute]] = {}
        self._asking: Final[dict[str, asyncio.Future[TopicRoute]]] = {}
        self._brokers: Final[dict[str, dict[int, str]]] = {}
        self._handlers: Final[dict[int, list[Handler]]] = {}
        self._producers: Final[set[str]] = set()
        self._consumers: Final[dict[str, ConsumerData]] = {}
        self._beaten: Final[set[str]] = set()
        """Where a heartbeat was sent over the connection that is there now."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.on_routes: Final[list[Callable[[str, TopicRoute], None]]] = []
        """Told of each route that has changed."""
        self.client_id = ""
        """``clientIP@instanceName``, by which brokers and other members know it (`buildMQClientId`)."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Its life.

    async def open(self) -> None:
        """Reach a name server, and begin to refresh routes and to send heartbeats. Raises ConnectError."""
        channel = await self._any_name_server()
        name = self.settings.instance_name or f"{os.getpid()}#{time.monotonic_ns()}{next(MEMBER)}"
        unit = f"@{self.settings.unit_name}" if self.settings.unit_name else ""
        self.client_id = f"{self.settings.client_ip or _local_ip(channel.address)}@{name}{unit}"
        self._start(self._repeat(self.settings.poll_name_server_interval, self.refresh))
        self._start(self._repeat(self.settings.heartbeat_broker_interval, self.heartbeat))

    async def close(self) -> None:
        """Take leave of the brokers, and end all connections."""
        for group in tuple(self._producers):
            await self.unregister_producer(group)
        for group in tuple(self._consumers):
            await self.unregister_consumer(group)
        tasks: list[asyncio.Future[Any]] = [*self._tasks, *self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for opening in tuple(self._channels.values()):
            with suppress(RemotingError, asyncio.CancelledError):
                await (await opening).close()
        self._channels.clear()

    # Asking.

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
        for _ in self._name_servers:
            address = self._name_servers[self._chosen]
            try:
                return await self.ask(address, code, fields, body)
            except BrokerError:
                raise
            except RemotingError as error:
                troubles.append(str(error))
                self._chosen = (self._chosen + 1) % len(self._name_servers)
        raise ConnectError(f"no name server answers: {'; '.join(troubles)}")

    async def channel(self, address: str) -> Channel:
        """The connection to an address; it is made when there is none. Raises ConnectError."""
        opening = self._channels.get(address)
        if opening is None:
            opening = self._channels[address] = asyncio.ensure_future(self._open(address))
            opening.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(opening)

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

    # Routes and brokers.

    async def route(self, topic: str) -> TopicRoute:
        """What the name servers know of a topic, at most ``poll_name_server_interval`` old.

        Raises ClientError when they do not know it, ConnectError when none answers.
        """
        known = self._routes.get(topic)
        return known if known is not None else await self.update_route(topic)

    async def update_route(self, topic: str) -> TopicRoute:
        """Look a route up now, once for all who ask at the same time. Raises as `route`; then the old one stays."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._look_up(topic))
            asking.add_done_callback(lambda done: self._asked(topic, done))
        return await asyncio.shield(asking)

    def forget_route(self, topic: str) -> None:
        """Keep the route of a topic up to date no more."""
        self._routes.pop(topic, None)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """The brokers of the routes known: name -> brokerId -> address."""
        return self._brokers

    def address(self, name: str, *, master: bool = True) -> str:
        """Where the broker of a name is: its master, or if need not be, any of it. Raises ClientError."""
        addresses = self._brokers.get(name, {})
        if MASTER in addresses:
            return addresses[MASTER]
        if addresses and not master:
            return addresses[min(addresses)]
        raise ClientError(f"The broker[{name}] not exist", ResponseCode.BROKER_NOT_EXIST)

    async def broker(self, name: str, *, master: bool = True) -> Channel:
        """The connection to a broker by its name. Raises ClientError when no route has it, ConnectError."""
        return await self.channel(self.address(name, master=master))

    async def refresh(self) -> None:
        """Look up all routes anew, and forget the brokers that are in none any more (`cleanOfflineBroker`)."""
        for topic in tuple(self._routes):
            with suppress(RemotingError):
                await self.update_route(topic)
        used = {data.broker for route in self._routes.values() for data in route.brokers}
        for name in set(self._brokers) - used:
            del self._brokers[name]

    # Heartbeats.

    async def register_producer(self, group: str) -> None:
        """Have brokers know that this client produces for a group."""
        self._producers.add(group)
        await self.heartbeat()

    async def register_consumer(self, group: str, data: ConsumerData) -> None:
        """Have brokers know that this client is a consumer of a group, with what ``data`` says at each heartbeat.

        Raises ClientError if it is one already: of two consumers of a group, each needs a client of its own.
        """
        if group in self._consumers:
            raise ClientError(f"The consumer group[{group}] has been created before, specify another name please.")
        self._consumers[group] = data
        await self.heartbeat()

    async def unregister_producer(self, group: str) -> None:
        """Tell brokers that it produces for it no more."""
        self._producers.discard(group)
        await self._unregister({"producerGroup": group})

    async def unregister_consumer(self, group: str) -> None:
        """Tell brokers that it is a consumer of it no more; the others of the group are told at once."""
        self._consumers.pop(group, None)
        await self._unregister({"consumerGroup": group})

    async def heartbeat(self) -> None:
        """Send a heartbeat to the brokers known now (`sendHeartbeatToAllBroker`); those that fail get the next one.

        Producers are told to masters only.
        """
        if not self._producers and not self._consumers:
            return
        body = self._heartbeat_body()
        addresses = [
            address
            for servers in self._brokers.values()
            for number, address in servers.items()
            if number == MASTER or self._consumers
        ]
        await asyncio.gather(*[self._beat(address, body) for address in addresses])

    # How it is done.

    def _heartbeat_body(self) -> bytes:
        data = {
            "clientID": self.client_id,
            "producerDataSet": [{"groupName": group} for group in sorted(self._producers)],
            "consumerDataSet": [dict(consumer()) for consumer in self._consumers.values()],
            "heartbeatFingerprint": 0,
            "withoutSub": False,
        }
        return json.dumps(data).encode()

    async def _beat(self, address: str, body: bytes) -> None:
        self._beaten.add(address)
        try:
            await self.ask(address, RequestCode.HEART_BEAT, {}, body)
        except RemotingError:
            self._beaten.discard(address)

    async def _unregister(self, group: Mapping[str, str]) -> None:
        for servers in tuple(self._brokers.values()):
            for address in tuple(servers.values()):
                if self.open_channel(address) is not None:
                    with suppress(RemotingError):
                        await self.ask(address, RequestCode.UNREGISTER_CLIENT, {"clientID": self.client_id, **group})

    async def _look_up(self, topic: str) -> TopicRoute:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        try:
            answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise ClientError(f"No route info of this topic: {topic}", error.code) from None
            raise
        try:
            route = TopicRoute.from_json(body_json(answer.body))
        except InputError as error:
            raise ClientError(f"topic {topic}: {error}") from None
        self._learn(topic, route)
        return route

    def _learn(self, topic: str, route: TopicRoute) -> None:
        is_new = False
        for data in route.brokers:
            addresses = dict(data.addresses)
            is_new |= self._brokers.get(data.broker) != addresses
            self._brokers[data.broker] = addresses
        changed = topic not in self._routes or _in_order(self._routes[topic]) != _in_order(route)
        self._routes[topic] = route
        if is_new and (self._producers or self._consumers):
            self._start(self.heartbeat())
        if changed:
            for listener in tuple(self.on_routes):
                listener(topic, route)

    def _asked(self, topic: str, asking: asyncio.Future[TopicRoute]) -> None:
        del self._asking[topic]
        if not asking.cancelled():
            asking.exception()  # seen, if all who asked have gone

    async def _any_name_server(self) -> Channel:
        troubles = []
        for _ in self._name_servers:
            try:
                return await self.channel(self._name_servers[self._chosen])
            except ConnectError as error:
                troubles.append(str(error))
                self._chosen = (self._chosen + 1) % len(self._name_servers)
        raise ConnectError(f"no name server answers: {'; '.join(troubles)}")

    async def _open(self, address: str) -> Channel:
        channel = await Channel.open(address, self.settings.channel)
        channel.on_request = self._answer
        channel.on_closed = self._closed
        # A broker forgets the groups of a connection that has ended.
        is_broker = any(address in servers.values() for servers in self._brokers.values())
        if is_broker and address not in self._beaten and (self._producers or self._consumers):
            self._start(self._beat(address, self._heartbeat_body()))
        return channel

    def _opened(self, address: str, opening: asyncio.Future[Channel]) -> None:
        failed = opening.cancelled() or opening.exception() is not None
        if (failed or opening.result().closed) and self._channels.get(address) is opening:
            del self._channels[address]

    def _closed(self, channel: Channel) -> None:
        self._beaten.discard(channel.address)
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

    async def _repeat(self, seconds: float, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await what()
            except Exception:  # a listener's, which must not end this for the others
                LOG.exception("%s", self.client_id)

    def _start(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _in_order(route: TopicRoute) -> TopicRoute:
    """What two routes are compared by: name servers tell brokers in any order."""
    return replace(route, queues=tuple(sorted(route.queues)), brokers=tuple(sorted(route.brokers)))


def _local_ip(address: str) -> str:
    """The address of the interface by which a host is reached, which is where datagrams to it would come from."""
    host, port = split_address(address)
    family, *_, sockaddr = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(sockaddr)
        return str(probe.getsockname()[0])
