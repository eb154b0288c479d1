"""Streams of a real RabbitMQ, with names of this process."""

from __future__ import annotations

import os
from typing import Any, Final

import pika

from bindings.spark.streams.log import OffsetRange, read_range
from bindings.spark.streams.source import StreamSettings

STREAM: Final = {"x-queue-type": "stream"}


class Streams:
    """Streams with a prefix of this process, declared and written by pika."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = f"spark-{os.getpid()}"
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.declared: list[str] = []

    def declare(self, name: str, **arguments: Any) -> str:
        full = f"{self.prefix}-{name}"
        self.channel.queue_declare(full, durable=True, arguments={**STREAM, **arguments})
        self.declared.append(full)
        return full

    def publish(self, stream: str, numbers: range, size: int = 1) -> None:
        """Publish numbers, repeated ``size`` times, with headers and the property timestamp."""
        for number in numbers:
            properties = pika.BasicProperties(headers={"n": number, "big": 1 << 40}, timestamp=1_700_000_000 + number)
            self.channel.basic_publish("", stream, b"%d" % number * size, properties)

    def read(self, stream: str, start: int, end: int) -> list[tuple[int, bytes]]:
        settings = self.settings(stream=stream)
        read = read_range(settings.login.connect, OffsetRange(stream, start, end), never, never)
        return [(each.offset, each.body) for each in read]

    def settings(self, **options: str) -> StreamSettings:
        return StreamSettings.read({"url": self.url, **options})

    def close(self) -> None:
        for name in self.declared:
            self.channel.queue_delete(name)
        self.connection.close()


def never(*arguments: Any) -> None:
    """Be called by nothing."""
    raise AssertionError(arguments)
