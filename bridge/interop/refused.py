"""Messages that a source read and AMQP cannot hold: they are dead letters, which say why."""

from __future__ import annotations

from typing import Final

from bridge.interop.record import Unmappable
from exchange.amqp import Headers
from exchange.message import Message

__all__ = ["NAME_BYTES", "Refused", "crosses", "refused"]

NAME_BYTES: Final = 200
"""Names up to here have a place in AMQP, whatever is put in front of them."""


class Refused(Headers):
    """Headers of a message that must not be routed: asked for what the router asks first, they say why."""

    __slots__ = ("_problem",)

    def __init__(self, headers: Headers, problem: Unmappable) -> None:
        super().__init__(headers.content)
        self._problem: Final = problem

    def __bool__(self) -> bool:
        return True  # the router asks nothing of headers that are empty

    def __contains__(self, key: object) -> bool:
        raise self._problem


def crosses(name: str) -> bool:
    """Whether what has this name can be shown in a message that is refused."""
    return len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES and not name.startswith("amqp.")


def refused(message: Message, problem: Unmappable) -> Message:
    """The message, as far as AMQP can hold it, as one that must not be routed."""
    headers = Refused(message.headers, problem)  # type: ignore[arg-type]  # what the mapping gives
    return Message(message.exchange, "", headers, message.properties, message.body)
