"""A client of a cluster: the routes of its topics, the brokers in them, and its heartbeats.

Producers and consumers share one client (`org.apache.rocketmq.client.impl.factory.MQClientInstance`). The name of a
broker is resolved by the routes that were looked up. A broker forgets a client when its connection ends, so each new
connection begins with a heartbeat.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, Final, Self, TypeAlias

from bridge.rocketmq.remoting.channel import Channel
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import load_json
from bridge.rocketmq.remoting.connections import ClientSettings, Connections
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MASTER, TopicRoute

__all__ = ["AUTO_CREATE_TOPIC_KEY_TOPIC", "Client", "ClientSettings"]

LOG: Final = logging.getLogger(__name__)

AUTO_CREATE_TOPIC_KEY_TOPIC: Final = "TBW102"
"""The topic whose route a new topic gets where brokers create topics on first use."""

CLIENT_NUMBERS: Final = count(1)
"""Numbers of the clients of this process."""

ConsumerData: TypeAlias = Callable[[], Mapping[str, Any]]
"""Function that returns a consumer's part of a heartbeat, as JSON
(`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData`)."""


class Client(Connections):
    """A client of a cluster, on the running event loop; ``async with`` opens and closes it."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._routes: Final[dict[str, TopicRoute]] = {}
        self._lookups: Final[dict[str, asyncio.Future[TopicRoute]]] = {}
        """Topic -> the look-up of its route that is under way."""
        self._brokers: Final[dict[str, dict[int, str]]] = {}
        """The broker's name -> brokerId -> address."""
        self._producers: Final[set[str]] = set()
        self._consumers: Final[dict[str, ConsumerData]] = {}
        self._introduced: Final[set[str]] = set()
        """Addresses of brokers that were sent a heartbeat over the present connection."""
        self._leaving: Final[set[asyncio.Task[None]]] = set()
        self._turns: Final[defaultdict[str, asyncio.Lock]] = defaultdict(asyncio.Lock)
        """Address -> the lock by which it gets one request about members at a time: a broker works on several requests
        at once, and would keep a member if it executed a heartbeat after the member's leave."""
        self.on_routes: Final[list[Callable[[str, TopicRoute], None]]] = []
        """Listeners for routes that have changed."""
        self.client_id = ""
        """``clientIP@instanceName``, the name by which brokers and other members know it (`buildMQClientId`)."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Opening and closing.

    async def open(self) -> None:
        """Connect to a name server, and begin to refresh routes and to send heartbeats.

        Raises ConnectError, and ClientError for a client that was closed: as in Java, it cannot be opened again.
        """
        channel = await self.name_server()
        name = self.settings.instance_name or f"{os.getpid()}#{time.monotonic_ns()}{next(CLIENT_NUMBERS)}"
        unit = f"@{self.settings.unit_name}" if self.settings.unit_name else ""
        self.client_id = f"{self.settings.client_ip or channel.local_host}@{name}{unit}"
        self._start(self._repeat(self.settings.poll_name_server_interval, self.refresh))
        self._start(self._repeat(self.settings.heartbeat_broker_interval, self.heartbeat))

    async def close(self) -> None:
        """Unregister from the brokers, and end all connections."""
        try:
            leaving = [*map(self.unregister_producer, self._producers), *map(self.unregister_consumer, self._consumers)]
            await asyncio.gather(*leaving, *self._leaving, return_exceptions=True)
        finally:
            await super().close()

    # Routes and brokers.

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic, which is at most ``poll_name_server_interval`` old.

        Raises ClientError when the name servers have none, ConnectError when none answers.
        """
        known = self._routes.get(topic)
        return known if known is not None else await self.update_route(topic)

    async def update_route(self, topic: str) -> TopicRoute:
        """Look a route up now; calls at the same time share a request. Raises as `route`, and keeps the old route."""
        lookup = self._lookups.get(topic)
        if lookup is None:
            lookup = self._lookups[topic] = self._start(self._look_up(topic))
            lookup.add_done_callback(lambda done: self._end_lookup(topic, done))
        return await self._result_of(lookup)

    def forget_route(self, topic: str) -> None:
        """Stop refreshing the route of a topic."""
        self._routes.pop(topic, None)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """Return the brokers of the routes known: name -> brokerId -> address."""
        return self._brokers

    def routes(self) -> Mapping[str, TopicRoute]:
        """Return the routes known, by topic."""
        return self._routes

    def address(self, name: str, *, master: bool = True) -> str:
        """Return the address of a broker's master, or unless ``master``, of any of its servers. Raises ClientError."""
        addresses = self._brokers.get(name, {})
        if MASTER in addresses:
            return addresses[MASTER]
        if addresses and not master:
            return addresses[min(addresses)]
        raise ClientError(f"The broker[{name}] not exist", ResponseCode.BROKER_NOT_EXIST)

    async def broker(self, name: str, *, master: bool = True) -> Channel:
        """Return the connection to a broker by its name. Raises ClientError when no route has it, ConnectError."""
        return await self.channel(self.address(name, master=master))

    async def refresh(self) -> None:
        """Look up all routes again, and forget the brokers that are in no route any more (`cleanOfflineBroker`)."""
        for topic in tuple(self._routes):
            with suppress(RemotingError):
                await self.update_route(topic)
        used = {data.broker for route in self._routes.values() for data in route.brokers}
        for name in set(self._brokers) - used:
            del self._brokers[name]

    # Heartbeats.

    async def register_producer(self, group: str) -> None:
        """Register this client at the brokers as a producer of a group."""
        self._producers.add(group)
        await self.heartbeat()

    async def register_consumer(self, group: str, data: ConsumerData) -> None:
        """Register this client at the brokers as a consumer of a group; each heartbeat calls ``data``.

        Raises ClientError if it already is: two consumers of a group need a client each.
        """
        if group in self._consumers:
            raise ClientError(f"The consumer group[{group}] has been created before, specify another name please.")
        self._consumers[group] = data
        try:
            await self.heartbeat()
        except BaseException:  # a caller that is cancelled here will read nothing, and must not stay a member
            del self._consumers[group]
            leaving = self._start(self._unregister({"consumerGroup": group}))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            raise

    async def unregister_producer(self, group: str) -> None:
        """Unregister this client at the brokers as a producer of a group."""
        self._producers.discard(group)
        await self._unregister({"producerGroup": group})

    async def unregister_consumer(self, group: str) -> None:
        """Unregister this client at the brokers as a consumer of a group; they notify the other members at once."""
        self._consumers.pop(group, None)
        await self._unregister({"consumerGroup": group})

    async def heartbeat(self) -> None:
        """Send a heartbeat to all brokers known now (`sendHeartbeatToAllBroker`); a failed one is not repeated.

        A client without consumers sends heartbeats to masters only.
        """
        if not self._producers and not self._consumers:
            return
        addresses = [
            address
            for servers in self._brokers.values()
            for number, address in servers.items()
            if number == MASTER or self._consumers
        ]
        # A heartbeat that was sent continues when its caller is cancelled: the next request about members to the same
        # broker must wait for its answer.
        await asyncio.gather(*[self._result_of(self._start(self._send_heartbeat(address))) for address in addresses])

    # Implementation.

    def _heartbeat_body(self) -> bytes:
        data = {
            "clientID": self.client_id,
            "producerDataSet": [{"groupName": group} for group in sorted(self._producers)],
            "consumerDataSet": [dict(consumer()) for consumer in self._consumers.values()],
            "heartbeatFingerprint": 0,
            "withoutSub": False,
        }
        return json.dumps(data).encode()

    async def _send_heartbeat(self, address: str) -> None:
        self._introduced.add(address)
        async with self._turns[address]:
            if self._producers or self._consumers:
                try:
                    await self.ask(address, RequestCode.HEART_BEAT, {}, self._heartbeat_body())
                except RemotingError:
                    self._introduced.discard(address)

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
        self._take_route(topic, route)
        return route

    def _take_route(self, topic: str, route: TopicRoute) -> None:
        is_new = False
        for data in route.brokers:
            addresses = dict(data.addresses)
            is_new |= self._brokers.get(data.broker) != addresses
            self._brokers[data.broker] = addresses
        changed = topic not in self._routes or _sort(self._routes[topic]) != _sort(route)
        self._routes[topic] = route
        if is_new and (self._producers or self._consumers):
            self._start(self.heartbeat())
        if changed:
            for listener in tuple(self.on_routes):
                try:
                    listener(topic, route)
                except Exception as error:  # the other listeners must be called, too
                    LOG.exception("%s: a listener for the route of %s", self.client_id, topic)
                    for report in tuple(self.on_broken):
                        report(error)

    def _end_lookup(self, topic: str, lookup: asyncio.Future[TopicRoute]) -> None:
        del self._lookups[topic]
        if not lookup.cancelled():
            lookup.exception()  # else asyncio logs it as never retrieved, if all callers were cancelled

    def _on_connected(self, address: str) -> None:
        is_broker = any(address in servers.values() for servers in self._brokers.values())
        if is_broker and address not in self._introduced and (self._producers or self._consumers):
            self._start(self._send_heartbeat(address))

    def _on_disconnected(self, address: str) -> None:
        self._introduced.discard(address)

    async def _repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception:  # one failed turn must not end the refreshes or heartbeats
                LOG.exception("%s", self.client_id)


def _sort(route: TopicRoute) -> TopicRoute:
    """Return the route in a form to compare: name servers list brokers in any order."""
    return replace(route, queues=tuple(sorted(route.queues)), brokers=tuple(sorted(route.brokers)))
