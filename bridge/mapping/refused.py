"""Messages that a source read and AMQP cannot hold: they are dead letters, which say why."""

from __future__ import annotations

from typing import Final

from bridge.amqp import Headers
from bridge.mapping.record import Unmappable

__all__ = ["Refused"]


class Refused(Headers):
    """Headers of a message that must not be routed: asked for what the router asks first, they say why."""

    __slots__ = ("_problem",)

    def __init__(self, headers: Headers, problem: Unmappable) -> None:
        super().__init__(headers.content)
        self._problem: Final = problem

    def __contains__(self, key: object) -> bool:
        raise self._problem
