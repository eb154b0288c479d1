"""Dispatch the messages of one queue to handlers by pattern."""

from exchange.dispatch.clients.pika import PikaQueue, message_from_pika, open_channel
from exchange.dispatch.delivery import Delivery
from exchange.dispatch.dispatcher import Dispatcher
from exchange.dispatch.link import LinkLost
from exchange.dispatch.policy import NoHandler, OnError, Retry

__all__ = [
    "Delivery", "Dispatcher", "LinkLost", "NoHandler", "OnError", "PikaQueue", "Retry", "message_from_pika",
    "open_channel",
]  # fmt: skip
