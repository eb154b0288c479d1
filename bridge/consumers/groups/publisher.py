"""Publish to a partitioned queue: the key of a message decides its slot, and the slot's binding the partition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from random import randrange
from types import TracebackType
from typing import Any, Final, Self

from bridge.consumers.groups.connection import build_properties, close, connect, import_aiormq, translate_losses
from bridge.consumers.groups.state import read_state
from exchange.dispatch.sending import finish
from exchange.errors import HashstarError
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning, parse_key_source
from exchange.partition.partitions import Partitions
from exchange.values.message import Message

STRATEGY: Final = "kafka.murmur2"
"""Default strategy by which a key is hashed to a slot."""


class Unroutable(HashstarError):
    """The broker has no queue for a message: its slot is not bound. The message was not stored."""


class Publisher:
    """Publishes messages to a partitioned queue, each with a confirm of the broker.

    ::

        async with Publisher("amqp://guest:guest@127.0.0.1", "orders", key='header "customer"') as publisher:
            await publisher.publish(Message(routing_key="order.created", headers={"customer": "17"}, body=b"..."))

    ``key`` selects the part of a message that is hashed, as in `Partitioning`, and ``strategy`` hashes it to one of
    the slots; all publishers need the same. A message without key gets a random slot. The message's exchange is
    ignored. A publisher does not know the number of partitions, which may change while it publishes.

    Messages are persistent unless they have a ``delivery_mode``.
    """

    def __init__(
        self, url: str, queue: str, *, key: str | KeySource = "routing_key", strategy: str = STRATEGY, name: str = ""
    ) -> None:
        self._url: Final = url
        self._queue: Final = queue
        self._key: Final = parse_key_source(key) if isinstance(key, str) else key
        self._strategy: Final = strategy
        self._name: Final = name or f"publisher to {queue}"
        self._connection: Any = None
        self._channel: Any = None
        self._partitioning: Partitioning | None = None

    async def __aenter__(self) -> Self:
        """Connect, and read the number of slots. Raises InputError, GroupConnectionLost."""
        self._connection = await connect(self._url, self._name, 30)
        try:
            state = await read_state(self._connection, self._queue)
            self._partitioning = Partitioning(self._strategy, Partitions.from_count(state.queue.slots), self._key)
            self._channel = await self._connection.channel(on_return_raises=True)
        except BaseException:
            await close(self._connection)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close(self._connection)

    def slot_of(self, message: Message) -> int:
        """Return the slot of a message."""
        if self._partitioning is None:
            raise HashstarError('a publisher connects first: write "async with Publisher(...) as publisher"')
        slot = self._partitioning.partition_of(message)
        return randrange(self._partitioning.partitions.count) if slot is None else slot

    async def publish(self, message: Message) -> None:
        """Publish a message, and wait until the broker has it in a queue.

        Messages keep the order in which the calls of `publish` began, within each partition.
        Raises GroupConnectionLost (the broker may have the message or not) and Unroutable.
        """
        key = f"{self.slot_of(message)}.{message.routing_key}"
        properties = build_properties(message, delivery_mode=2)
        with translate_losses(f"a message for {self._queue!r} is not confirmed"):
            try:
                await finish(
                    self._channel.basic_publish(
                        message.body, exchange=self._queue, routing_key=key, properties=properties, mandatory=True
                    )
                )
            except import_aiormq().exceptions.PublishError:
                raise Unroutable(f"key {key!r} of {self._queue!r} leads to no queue: its slot is not bound") from None

    async def publish_all(self, messages: Iterable[Message], *, window: int = 500) -> int:
        """Publish messages in order, up to ``window`` at once, and return their number. Raises as `publish`.

        After an error the broker may have any of the last ``window`` messages, but for each key only its first ones.
        """
        left = iter(messages)
        published = 0
        while part := list(islice(left, window)):
            await asyncio.gather(*map(self.publish, part))
            published += len(part)
        return published
