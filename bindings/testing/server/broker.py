"""The broker behind the test server: a router and queues; publishing, dead letters, expiry. No sockets.

All calls come from one thread, that of the server's event loop.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from random import randrange
from typing import Any, Final
from uuid import uuid4

from bindings.testing.server.queues import Stored, StoredQueue
from exchange.amqp import ContentHeader, message_of
from exchange.entities.entities import Queue
from exchange.entities.in_force import Policies, Settings
from exchange.errors import BrokerError, NotFound
from exchange.field_values import Typed, type_and_value
from exchange.kinds import Choose
from exchange.message import Message
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["REPLY_TO", "Broker", "ResourceLocked"]

GENERATED: Final = "gen-"
"""Beginning of the names of queues that are declared without one. RabbitMQ's own prefix, ``amq.gen-``, is reserved."""
SLACK: Final = 0.001
"""Seconds by which a timer may fire too early."""
REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo queue of direct replies."""


class ResourceLocked(BrokerError):
    """405: the queue is exclusive to another connection."""

    code, name = 405, "RESOURCE_LOCKED"


class Broker:
    """The state of one virtual host."""

    def __init__(self, topology: Topology, *, choose: Choose = randrange) -> None:
        self.router: Final = Router(topology, choose=choose)
        self.vhost: Final = topology.vhost
        self._policies: Final = topology.policies_in_force()  # which no method of AMQP changes
        self.queues: Final = {name: self._store(queue) for name, queue in topology.queues.items()}
        self.reply_channels: Final[dict[str, Any]] = {}
        """Address of direct replies -> the channel that gets them."""

    @property
    def topology(self) -> Topology:
        """The present topology."""
        return self.router.topology

    def queue(self, name: str, connection: object = None) -> StoredQueue:
        """Return a queue. Raises NotFound, and ResourceLocked if it is exclusive to another connection."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.vhost}'")
        if queue.owner is not None and connection is not queue.owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.vhost}'. It could be "
                "originally declared on another connection or the exclusive property value does not match that of the "
                "original declaration."
            )
        return queue

    def declare_queue(self, queue: Queue, owner: object = None, connection: object = None) -> StoredQueue:
        """Declare a queue, exclusive to ``owner`` if that is not None; it gets a name if it has none."""
        if not queue.name:
            queue = replace(queue, name=f"{GENERATED}{uuid4().hex}")
        elif queue.name in self.queues:
            self.queue(queue.name, connection)
        self.router.declare_queue(queue)
        return self.queues.setdefault(queue.name, self._store(queue, owner))

    def _store(self, queue: Queue, owner: object = None) -> StoredQueue:
        # Where it is not known which of several policies is in force, one of them is.
        return StoredQueue(queue, self._policies.possible_settings(queue)[0], owner)

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its messages, and notify its consumers."""
        self.router.delete_queue(name)
        queue = self.queues.pop(name, None)
        for consumer in [] if queue is None else [*queue.consumers]:
            consumer.owner.lose_consumer(consumer.tag)

    def publish(self, exchange: str, routing_key: str, content: ContentHeader, body: bytes) -> bool:
        """Put a message into the queues that it is routed to; return whether there is one. Raises as the broker."""
        message = message_of(exchange, routing_key, content, body)
        if exchange == "" and routing_key.startswith(f"{REPLY_TO}."):
            channel = self.reply_channels.get(routing_key)
            if channel is not None:
                channel.deliver_reply(Stored("", routing_key, content, body))
            return channel is not None
        route = self.router.route(message)
        if "BCC" in message.headers:
            content = content.without_header("BCC")
        for name in route.queues:
            self._put(self.queues[name], Stored(exchange, routing_key, content, body))
        return bool(route.queues)

    def drop(self, queue: StoredQueue, messages: list[Stored], reason: str) -> None:
        """Drop messages of a queue; those of a queue with a dead letter exchange go there."""
        exchange, fixed_key, _ = Policies.dead_letters_by(queue.settings, queue.declared.type)
        if exchange is None:
            return
        for message in messages:
            content = _record_death(message, queue.declared.name, reason)
            key = message.routing_key
            if fixed_key is not None:
                key, content = fixed_key, content.without_header("CC")
            try:
                route = self.router.route_dead_letter(message_of(exchange, key, content, message.body))
            except BrokerError:
                continue  # RabbitMQ drops what it cannot route, too
            for name in route.queues:
                self._put(self.queues[name], Stored(exchange, key, content, message.body))

    def messages(self, name: str) -> list[Message]:
        """Return the messages of a queue that are ready, oldest first. Raises NotFound."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.vhost}'")
        return [message_of(each.exchange, each.routing_key, each.content, each.body) for each in queue.ready]

    def _put(self, queue: StoredQueue, message: Stored) -> None:
        milliseconds = _time_to_live(queue.settings, message)
        if milliseconds is not None:
            message.expires = time.monotonic() + milliseconds / 1_000
        queue.put(message)
        if message.expires is not None and message in queue.ready:
            asyncio.get_running_loop().call_later((milliseconds or 0) / 1_000, self._expire, queue, message)

    def _expire(self, queue: StoredQueue, message: Stored) -> None:
        # As a classic queue: a message that is delivered, or behind one that does not expire, is not touched.
        while queue.ready and queue.ready[0].expires is not None and queue.ready[0].expires <= time.monotonic() + SLACK:
            self.drop(queue, [queue.ready.popleft()], "expired")


def _time_to_live(settings: Settings, message: Stored) -> int | None:
    """Return the milliseconds that a message may wait in a queue: the least of the message's and the queue's."""
    of_queue = settings.integer("message-ttl")
    given = [] if of_queue is None else [of_queue]
    expiration = message.content.property("expiration")
    if expiration is not None and expiration.isdecimal():
        given.append(int(expiration))
    return min(given, default=None)


def _record_death(message: Stored, queue: str, reason: str) -> ContentHeader:
    """Return the content header of a dead letter: with an entry in x-death, and without expiration."""
    before = message.content.header("x-death", [])
    deaths = [dict(each) for each in before if isinstance(each, dict)] if isinstance(before, list) else []
    known = next((each for each in deaths if (each.get("queue"), each.get("reason")) == (queue, reason)), None)
    if known is not None:
        deaths.remove(known)
        known["count"] = int(type_and_value(known.get("count", 1))[1]) + 1
    else:
        known = {
            "count": 1,
            "reason": reason,
            "queue": queue,
            "time": Typed("timestamp", int(time.time())),
            "exchange": message.exchange,
            "routing-keys": [message.routing_key],
        }
        expiration = message.content.property("expiration")
        if expiration is not None:
            known["original-expiration"] = expiration
    content = message.content.with_property("expiration", None).with_header("x-death", [known, *deaths])
    if not deaths and message.content.find("x-first-death-queue") is None:
        content = content.with_header("x-first-death-queue", queue).with_header("x-first-death-reason", reason)
        content = content.with_header("x-first-death-exchange", message.exchange)
    return content
