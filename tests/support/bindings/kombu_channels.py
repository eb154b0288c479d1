"""Messages of kombu's channels, taken in tests of the adapters."""

from __future__ import annotations

from typing import Any


def take(message: Any, got: list[Any]) -> None:
    """Keep what is in a message, and acknowledge it."""
    got.append(message.payload)
    message.ack()


def bodies(channel: Any, queue: str) -> list[Any]:
    """Take all messages of a queue."""
    found = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(message.payload)
    return found
