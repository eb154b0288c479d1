"""Topics as a target: connections, routes and the end of both; `writing` has the order and the meaning of answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bridge.aside import call_aside
from bridge.endpoint import BridgeLayout, Disconnected, Finding, Outgoing, Place, Receiver, Target, to_disconnected
from bridge.endpoints.rocketmq.checking import check_target, find_places, find_servers
from bridge.endpoints.rocketmq.lite import refuse_lite_topics
from bridge.endpoints.rocketmq.placing import MessageWriter, WritableQueues, list_sizes, routes_of
from bridge.endpoints.rocketmq.writing import Writing
from bridge.endpoints.topics import TopicDestination, find_body_keys
from bridge.pump.placing import KeylessTurns
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.pulse import Pulse
from exchange.partition.clients.rocketmq.queues import TopicRoute
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.clients.rocketmq.send import SendSettings
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message

LOG: Final = logging.getLogger(__name__)

GROUP: Final = "hashstar-bridge"
"""The producer group. Brokers ask a group for the state of its transactions; this one has none."""

REPLIES_INSTANCE: Final = "hashstar-replies"
"""``instanceName`` of a target whose servers reply: a restarted bridge has it again. Bridges may share it, as all that
they do with a reply that a broker pushes is to take it."""

SENDING: Final = SendSettings(send_msg_timeout=10_000)
"""A timeout of 10 s: an overloaded broker answers late, and a repeated request would add to its load."""

CLOSING: Final = 1.5
"""Seconds until producer and client must be closed; then connections are ended at once."""
ENDING: Final = 0.5
"""Seconds until background tasks must have ended after that."""


class RocketmqTarget(Target):
    """Topics of RocketMQ. ``destinations`` maps queues of the topology to them; ``""`` is for messages of no queue.

    With ``confirm_not_store_ok`` a message is confirmed even if the broker could not make it as safe as it is
    configured to; see `writing`.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        destinations: Mapping[str, TopicDestination],
        *,
        confirm_not_store_ok: bool = False,
    ) -> None:
        self.name = name
        self._settings = settings
        self._destinations = destinations
        self.body_keys = find_body_keys(destinations)
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._confirm_not_store_ok = confirm_not_store_ok
        self._partitioned: dict[str, Partitioning] = {}
        self._turns = KeylessTurns(RoundRobin())
        self._client: Client | None = None
        self._writing: Writing | None = None
        self._pulse: Pulse | None = None

    @property
    def trouble(self) -> str | None:
        writing, pulse = self._writing, self._pulse
        if writing is None or pulse is None:
            return None
        return pulse.trouble or writing.trouble

    @property
    def places(self) -> frozenset[Place]:
        return find_places(self._settings, self._topics)

    async def check(self) -> Sequence[Finding]:
        return await check_target(self._settings, self._destinations, self._partitioned)

    def make_writer(self, client_id: str) -> MessageWriter:
        """Return what makes messages, and chooses their queues."""
        return MessageWriter(self._destinations, client_id, self._turns)

    def expect_replies(self) -> None:
        """Write requests, whose servers reply to the name of this target's client; see `replying`."""
        self._settings = replace(self._settings, instance_name=REPLIES_INSTANCE)

    def meet(self, layout: BridgeLayout) -> None:
        for queue in self._destinations:
            partitioning = layout.topology.queues[queue].partitioning
            if partitioning is not None:
                self._partitioned[queue] = partitioning

    def key_of(self, outgoing: Outgoing) -> Hashable:
        destination = self._destinations.get(outgoing.queue)
        if outgoing.placement is not None or destination is None or destination.key is None:
            return super().key_of(outgoing)
        try:
            key = destination.key.read(outgoing.message)
        except Exception:  # noqa: BLE001  the message cannot be written either, and fails then
            return super().key_of(outgoing)
        return outgoing.queue, key if isinstance(key, Hashable) else repr(key)

    def view_for(self, message: Message, placement: Placement) -> tuple[str, Any, Partitions]:
        topic = self._destinations[placement.queue].topic
        known = None if self._writing is None else self._writing.writer.spreads[topic].partitions
        return topic, placement.key, known or placement.partitioning.partitions

    def name_destination(self, outgoing: Outgoing) -> tuple[str, ...]:
        return (self._destinations[outgoing.queue].topic,)

    async def open(self, receiver: Receiver) -> None:
        try:
            client = self._client = Client(await call_aside(self._settings.current))
            await client.open()
            # The replies to requests are read from the topic where brokers store them; see `replying`.
            client.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, Command.response)
            writer = self.make_writer(client.client_id)
            routes = await routes_of(client, self._topics, list_sizes(self._destinations, self._partitioned))
            for topic, route in routes.items():
                writer.spreads[topic] = WritableQueues.from_route(topic, route)
                await refuse_lite_topics(client, topic, find_servers(route))
            for queue, partitioning in self._partitioned.items():
                writer.spreads[self._destinations[queue].topic].agree(queue, partitioning)
            producer = Producer(client, ProducerSettings(GROUP, SENDING))
            writing = Writing(client, producer, receiver, writer, confirm_not_store_ok=self._confirm_not_store_ok)
            await producer.open()
        except Exception as error:
            raise to_disconnected(error) from error
        # Nothing is awaited from here on, so a cancellation leaves the target either open or not, never half open.
        client.on_broken.append(writing.fail)
        client.on_routes.append(partial(self._take_route, writing))
        for topic, route in client.routes().items():  # one may have changed since it was looked up
            self._take_route(writing, topic, route)
        self._pulse = Pulse(client, self._topics, replicas=False, failed=writing.fail)
        self._pulse.open()
        self._writing = writing

    def _take_route(self, writing: Writing, topic: str, route: TopicRoute) -> None:
        """Use a new route: brokers came or went, or the topic has other queues."""
        if topic in writing.writer.spreads:
            try:
                writing.writer.spreads[topic] = WritableQueues.from_route(topic, route)
            except Disconnected as error:
                writing.lose(error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._writing is not None:
            self._writing.send(messages)

    async def close(self) -> None:
        writing, self._writing = self._writing, None
        client, self._client = self._client, None
        pulse, self._pulse = self._pulse, None
        has_left = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._leave(client, writing, pulse)
                    has_left = True
        finally:  # also when this is cancelled
            if client is not None:
                client.abort()
        if not has_left:
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING):
                    await self._leave(client, writing, pulse)

    async def _leave(self, client: Client | None, writing: Writing | None, pulse: Pulse | None) -> None:
        """Close producer and client. A failure is logged only, as the caller can do nothing about it."""
        try:
            if pulse is not None:
                await pulse.close()
            if writing is not None:
                await writing.end()
                await writing.producer.close()
            if client is not None:
                await client.close()
        except Exception:
            LOG.exception("%s: closing failed", self.name)
