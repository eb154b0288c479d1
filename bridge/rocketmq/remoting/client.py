"""What a process is to a cluster: the routes of its topics, the brokers that are in them, and its heartbeats.

Producers and consumers share one (`org.apache.rocketmq.client.impl.factory.MQClientInstance`). Brokers are found by
name in the routes that were looked up. A broker forgets its clients with their connections, so that a new one begins
with a heartbeat.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, Final, Self, TypeAlias

from bridge.rocketmq.remoting.channel import Channel, split_address
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import load_json
from bridge.rocketmq.remoting.connections import ClientSettings, Connections
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MASTER, TopicRoute

__all__ = ["AUTO_CREATE_TOPIC_KEY_TOPIC", "Client", "ClientSettings"]

LOG: Final = logging.getLogger(__name__)

AUTO_CREATE_TOPIC_KEY_TOPIC: Final = "TBW102"
"""The topic whose route is that of topics which brokers create when they are first sent to."""

MEMBER: Final = count(1)
"""Tells the clients of one process apart."""

ConsumerData: TypeAlias = Callable[[], Mapping[str, Any]]
"""What heartbeats say of a consumer, as JSON (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData`)."""


class Client(Connections):
    """A member of the cluster, on the running event loop; ``async with`` opens and closes it."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._routes: Final[dict[str, TopicRoute]] = {}
        self._asking: Final[dict[str, asyncio.Future[TopicRoute]]] = {}
        self._brokers: Final[dict[str, dict[int, str]]] = {}
        self._producers: Final[set[str]] = set()
        self._consumers: Final[dict[str, ConsumerData]] = {}
        self._beaten: Final[set[str]] = set()
        """Where a heartbeat was sent over the connection that is there now."""
        self._leaving: Final[set[asyncio.Task[None]]] = set()
        self._turns: Final[defaultdict[str, asyncio.Lock]] = defaultdict(asyncio.Lock)
        """A broker works on several requests at a time, and would keep a member whose leave it heard of too early."""
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
        """Reach a name server, and begin to refresh routes and to send heartbeats.

        Raises ConnectError, and ClientError for one that was closed: as in Java, that is for ever.
        """
        channel = await self.name_server()
        name = self.settings.instance_name or f"{os.getpid()}#{time.monotonic_ns()}{next(MEMBER)}"
        unit = f"@{self.settings.unit_name}" if self.settings.unit_name else ""
        self.client_id = f"{self.settings.client_ip or _local_ip(channel.address)}@{name}{unit}"
        self._start(self._repeat(self.settings.poll_name_server_interval, self.refresh))
        self._start(self._repeat(self.settings.heartbeat_broker_interval, self.heartbeat))

    async def close(self) -> None:
        """Take leave of the brokers, and end all connections."""
        try:
            leaving = [*map(self.unregister_producer, self._producers), *map(self.unregister_consumer, self._consumers)]
            await asyncio.gather(*leaving, *self._leaving, return_exceptions=True)
        finally:
            await super().close()

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
            asking = self._asking[topic] = self._start(self._look_up(topic))
            asking.add_done_callback(lambda done: self._asked(topic, done))
        return await self._outcome(asking)

    def forget_route(self, topic: str) -> None:
        """Keep the route of a topic up to date no more."""
        self._routes.pop(topic, None)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """The brokers of the routes known: name -> brokerId -> address."""
        return self._brokers

    def routes(self) -> Mapping[str, TopicRoute]:
        """Return the routes known, by topic."""
        return self._routes

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
        try:
            await self.heartbeat()
        except BaseException:  # who was cancelled here will not read
            del self._consumers[group]
            leaving = self._start(self._unregister({"consumerGroup": group}))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            raise

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
        addresses = [
            address
            for servers in self._brokers.values()
            for number, address in servers.items()
            if number == MASTER or self._consumers
        ]
        # One that has begun goes on when who waits for it is cancelled: what is told after it waits for its answer.
        await asyncio.gather(*[self._outcome(self._start(self._beat(address))) for address in addresses])

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

    async def _beat(self, address: str) -> None:
        self._beaten.add(address)
        async with self._turns[address]:
            if self._producers or self._consumers:
                try:
                    await self.ask(address, RequestCode.HEART_BEAT, {}, self._heartbeat_body())
                except RemotingError:
                    self._beaten.discard(address)

    async def _unregister(self, group: Mapping[str, str]) -> None:
        fields = {"clientID": self.client_id, **group}
        addresses = [address for servers in self._brokers.values() for address in servers.values()]
        await asyncio.gather(*[self._unregister_at(address, fields) for address in addresses])

    async def _unregister_at(self, address: str, fields: Mapping[str, str]) -> None:
        async with self._turns[address]:
            if self.open_channel(address) is not None:
                with suppress(RemotingError):
                    await self.ask(address, RequestCode.UNREGISTER_CLIENT, fields)

    async def _look_up(self, topic: str) -> TopicRoute:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        try:
            answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise ClientError(f"No route info of this topic: {topic}", error.code) from None
            raise
        try:
            route = TopicRoute.from_json(load_json(answer.body))
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
                try:
                    listener(topic, route)
                except Exception as error:  # the others are to hear of it, too
                    LOG.exception("%s: a listener for the route of %s", self.client_id, topic)
                    for hear in tuple(self.on_broken):
                        hear(error)

    def _asked(self, topic: str, asking: asyncio.Future[TopicRoute]) -> None:
        del self._asking[topic]
        if not asking.cancelled():
            asking.exception()  # seen, if all who asked have gone

    def _connected(self, address: str) -> None:
        is_broker = any(address in servers.values() for servers in self._brokers.values())
        if is_broker and address not in self._beaten and (self._producers or self._consumers):
            self._start(self._beat(address))

    def _disconnected(self, address: str) -> None:
        self._beaten.discard(address)

    async def _repeat(self, seconds: float, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await what()
            except Exception:  # a listener's, which must not end this for the others
                LOG.exception("%s", self.client_id)


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
