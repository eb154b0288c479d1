"""A wire of RabbitMQ that is never connected, for what is read from bytes that a test has."""

from __future__ import annotations

import asyncio

import pika

from bridge.endpoints.rabbitmq.frames import Contents
from bridge.endpoints.rabbitmq.wire import Wire


class UnconnectedWire(Wire):
    """A wire whose channel 1 has contents, and whose other channels are not open."""

    def __init__(self, frame_max: int = 131_072) -> None:
        # pika does nothing with the loop before it connects.
        super().__init__(
            pika.ConnectionParameters(),
            custom_ioloop=asyncio.AbstractEventLoop(),  # type: ignore[abstract]
            internal_connection_workflow=False,
        )
        self.params._frame_max = frame_max  # also 0, no limit, which pika takes from brokers only
        self.contents = {1: Contents()}
