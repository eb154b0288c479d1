"""The connection of an outlet: what the target reports over it, and messages given to the target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.client_errors import describe_unexpected
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target, to_disconnected

LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class LiveReceiver:
    """Passes a target's reports on to the outlet while the connection lasts, and ignores later ones."""

    outlet: Receiver | None
    """None if the connection is lost or was closed, or was never made."""

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        if self.outlet is not None:
            self.outlet.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        if self.outlet is not None:
            self.outlet.failed(message, failure)

    def lost(self, error: Disconnected) -> None:
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            outlet.lost(error)


class Sender:
    """Gives messages to a target.

    If `Target.send` raises an exception, the connection is made again, and from then on messages are sent one by one:
    then the message that causes the exception counts as refused, and the others are written. ``sending`` is called with
    the messages before.
    """

    def __init__(self, target: Target, sending: Callable[[str, Sequence[Outgoing]], None]) -> None:
        self._target: Final = target
        self._sending: Final = sending
        self._one_by_one = False
        self._left: LiveReceiver | None = None
        """Connection over which nothing more is sent, as the report of its loss is under way."""

    def write(self, connection: LiveReceiver, messages: Sequence[Outgoing]) -> None:
        """Give messages to the target, which is open."""
        if connection is self._left:  # else these would overtake those that were not sent
            return
        self._sending(self._target.name, messages)
        loop = asyncio.get_running_loop()
        try:
            if not self._one_by_one:
                self._target.send(messages)
                return
        except Exception as error:
            self._one_by_one, self._left = True, connection
            LOG.exception("%s: sending", self._target.name)
            loop.call_soon(connection.lost, to_disconnected(error))
            return
        for outgoing in messages:
            try:
                self._target.send([outgoing])
            except Exception as error:  # noqa: BLE001  this message causes it
                failure = Failure(describe_unexpected(error), final=True)
                loop.call_soon(connection.failed, outgoing, failure)
