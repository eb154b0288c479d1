"""What the asyncio consumer asks of a client library: one queue of a broker, on a channel that the application opened.

`exchange.dispatch.clients` has the links of pika and aio-pika; a link of your own makes any other client fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from exchange.dispatch.answers import AnswerFrame
from exchange.dispatch.delivery import Carrier, Delivery
from exchange.entities.entities import DIRECT_REPLY_TO, Binding, Exchange, Queue
from exchange.errors import HashstarError
from exchange.values.message import Message


class LinkLost(HashstarError):
    """The channel or its connection is lost; the broker redelivers unacknowledged messages."""


class Unroutable(HashstarError):
    """The broker has no queue for a published message, and returned it."""


def is_mandatory(message: Message) -> bool:
    """Return whether to publish a message as mandatory: all but replies to direct reply-to.

    RabbitMQ before 4.3 returns each of these as unroutable, also where the caller gets it.
    """
    return message.exchange != "" or not message.routing_key.startswith(f"{DIRECT_REPLY_TO}.")


@runtime_checkable
class Link(Protocol):
    """A queue to consume from. All methods are called in the thread of the running event loop."""

    queue: str
    """Name of the queue."""

    async def open(
        self,
        carrier: Carrier,
        receive: Callable[[Delivery], None],
        ended: Callable[[BaseException | None], None],
        prefetch: int | None,
        options: Mapping[str, Any],
    ) -> None:
        """Begin to consume: call ``receive`` with each delivery, whose ticket has this carrier.

        ``prefetch`` is the maximum number of unacknowledged deliveries, None leaves the channel's setting. ``ended`` is
        called once when no further delivery will come: with the error, or None if the application closed the channel.
        """

    async def cancel(self) -> None:
        """Ask the broker for no further deliveries, and wait for its confirmation. Raises LinkLost."""

    def is_open(self, channel: Any) -> bool:
        """Return whether deliveries of this channel can still be answered."""

    async def answer(self, channel: Any, frames: Sequence[AnswerFrame]) -> None:
        """Send answers on the channel that the deliveries came on, in this order. Raises LinkLost."""

    async def publish(self, message: Message) -> None:
        """Publish a message, and wait until the broker has confirmed it. Raises LinkLost, Unroutable.

        What `is_mandatory` is Unroutable where no queue gets it.
        """

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        """Declare exchanges, queues and bindings. Raises what the client raises, where the broker refuses."""

    async def close(self) -> None:
        """Close what this link has opened itself; the application's channel and connection stay open."""
