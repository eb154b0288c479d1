"""The broker behind the test server: queues that live by the clock of this machine, and what belongs to connections.

Queues and routing are those of `exchange.lifecycle`. All calls come from one thread, that of the server's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import randrange
from typing import Any, Final, Protocol

from exchange.amqp import ContentHeader, build_lazy_message
from exchange.entities.entities import Queue
from exchange.entities.queue_arguments import DeclareFlags, take_name_prefix
from exchange.errors import BrokerError, ResourceLocked
from exchange.kinds import Choose
from exchange.lifecycle.broker import Broker as Life
from exchange.lifecycle.outcomes import Publication
from exchange.lifecycle.queues import LiveQueue
from exchange.topology.requests import name_queue
from exchange.topology.rules import VirtualHost
from exchange.topology.topology import Topology
from exchange.values.message import Message


class MessageReceiver(Protocol):
    """A channel, as the broker knows it."""

    def send_deliveries(self) -> None:
        """Send deliveries to the consumers of the channel, and cancel those whose queue is gone."""

    def send_reply(self, message: Message) -> None:
        """Send a direct reply."""

    def close(self) -> None:
        """Cancel the consumers, and requeue unacknowledged messages."""


class FrameSender(Protocol):
    """What a channel needs of its connection."""

    @property
    def broker(self) -> ServedBroker:
        """The broker that the client is connected to."""

    @property
    def user(self) -> str:
        """Name of the user that has logged in."""

    @property
    def supports_cancels(self) -> bool:
        """Whether the client knows that the server may cancel its consumers."""

    def send(self, channel: int, name: str, content: tuple[ContentHeader, bytes] | None = None, **given: Any) -> None:
        """Send a method, with the content of a message."""

    def close_channel(
        self, number: int, channel: MessageReceiver, error: BrokerError, ids: tuple[int, int] = (0, 0)
    ) -> None:
        """Close a channel with an error, which the method of these ids caused."""


class ServedBroker:
    """The state of one virtual host."""

    def __init__(self, topology: Topology, *, choose: Choose = randrange) -> None:
        self.vhost: Final = topology.vhost
        self.life: Final = Life(topology, now=time.time(), choose=choose)
        self.channels: Final[set[MessageReceiver]] = set()
        self.reply_channels: Final[dict[str, MessageReceiver]] = {}
        """Address of direct replies -> the channel that gets them."""
        self._owners: Final[dict[str, object]] = {}
        """Exclusive queue -> its connection."""
        self._ahead: Final = time.time() - time.monotonic()
        """Seconds by which the clock of queues is ahead of the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def act(self) -> Iterator[None]:
        """Advance the life of queues to now; afterwards, send deliveries, and set the timer for the next event."""
        self.life.advance(max(self._now - self.life.time, 0.0))
        try:
            yield
        finally:
            for channel in [*self.channels]:
                channel.send_deliveries()
            self._set_timer()

    @property
    def _now(self) -> float:
        return time.monotonic() + self._ahead

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        event = self.life.next_event
        if event is not None:
            self._timer = asyncio.get_running_loop().call_later(max(event - self._now, 0.0), self._wake)

    def _wake(self) -> None:
        with self.act():
            pass

    def queue(self, name: str, connection: object = None) -> LiveQueue:
        """Return a queue. Raises NotFound, and ResourceLocked if it is exclusive to another connection."""
        queue = self.life.queue(name)
        owner = self._owners.get(name)
        if owner is not None and connection is not owner:
            raise ResourceLocked(VirtualHost(self.vhost, self.life.topology.profile).describe_lock(name))
        return queue

    def declare_queue(self, queue: Queue, connection: object, *, exclusive: bool) -> LiveQueue:
        """Declare a queue; it gets a name if it has none."""
        queue, prefix = take_name_prefix(queue, self.life.topology.profile)
        flags = DeclareFlags(exclusive, is_named_by_server=not queue.name)
        if not queue.name:
            queue = replace(queue, name=name_queue(prefix))
        elif queue.name in self.life.queues:
            self.queue(queue.name, connection)
        is_new = queue.name not in self.life.queues
        self.life.declare_queue(queue, flags)
        if is_new:
            self._owners.pop(queue.name, None)  # of one that expired
            if exclusive:
                self._owners[queue.name] = connection
        return self.life.queue(queue.name)

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its messages."""
        self.life.delete_queue(name)
        self._owners.pop(name, None)

    def end_connection(self, connection: object) -> None:
        """Delete the exclusive queues of a connection."""
        for name in [name for name, owner in self._owners.items() if owner is connection]:
            self.delete_queue(name)

    def publish(self, exchange: str, routing_key: str, content: ContentHeader, body: bytes) -> Publication | None:
        """Publish a message; None for a direct reply that a channel got. Raises as the broker."""
        message = build_lazy_message(exchange, routing_key, content, body)
        channel = self.reply_channels.get(routing_key) if exchange == "" else None
        if channel is not None:
            channel.send_reply(message)
            return None
        return self.life.publish(message)
