"""A consumer of a channel of the test server: its arguments, its limits, and what its client knows of its timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from exchange.lifecycle.consumers import Consumer
from exchange.values.field_values import resolve_type


class SharedLimit(Protocol):
    """A channel, which may limit how many messages all of its consumers hold together."""

    @property
    def room(self) -> float:
        """Number of messages that its consumers may still get."""


class ChannelConsumer(Consumer):
    """A consumer whose channel may limit how many messages all of its consumers hold together."""

    __slots__ = ("_known", "_own", "channel", "is_exclusive")

    def __init__(self, channel: SharedLimit, queue: str, prefetch: int, given: Mapping[str, Any]) -> None:
        arguments = given["arguments"]
        timeout = resolve_type(arguments.get("x-consumer-timeout"))[1]
        super().__init__(
            queue, prefetch, resolve_type(arguments.get("x-priority", 0))[1], given["no_ack"],
            timeout if isinstance(timeout, int) else None,
        )  # fmt: skip
        self.channel: Final = channel
        self.is_exclusive: Final[bool] = given["exclusive"]
        self._known = 0
        """How often its client was sent basic.cancel, as it was too slow."""

    @property
    def most(self) -> float:  # an attribute there
        """Maximum number of messages that it may hold now."""
        return min(self._own, self.held + self.channel.room)

    @most.setter
    def most(self, value: float) -> None:
        self._own: float = value

    @property
    def knows_timeouts(self) -> bool:
        """Whether its client was notified of each of its timeouts; none is sent to one that had cancelled it before."""
        return self._known == self.timeouts

    def note_timeouts(self) -> None:
        """Note that its client knows of them: it is sent basic.cancel, or has just agreed to one."""
        self._known = self.timeouts


def knows_timeouts(consumer: Consumer | None) -> bool:
    """Return whether the client of a delivery's consumer knows of its timeouts; basic.get has no consumer."""
    return isinstance(consumer, ChannelConsumer) and consumer.knows_timeouts
