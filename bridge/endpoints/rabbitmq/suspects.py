"""Messages for which a broker ended, or would end, a connection: kept from one connection to the next.

A broker closes the channel for a message that it cannot take, and does not report which one it was. So all messages
that were under way are suspects, and are sent one by one over the next connection; the one that ends it is guilty.
Where the broker names a limit of size, the guilty ones are those that are larger, and nobody is suspected.

A guilty message that has no dead letters to go to is held and tried again. It would end a connection at each try, so it
is not sent any more, until a connection ends for another reason: then the broker may have another limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from bridge.endpoint import Failure, Outgoing
from bridge.endpoints.rabbitmq.refusals import Refused

BODY_TOO_LARGE: Final = re.compile(r"message size [0-9]+ is larger than (?:configured )?max size ([0-9]+)")
"""RabbitMQ's text for a body that is larger than its ``max_message_size``; with "configured" if that is not the largest
one possible."""

REMEMBERED: Final = 10_000
"""Maximum number of guilty messages that are remembered."""


class Suspects:
    """What is known about messages that end connections; ``count`` is the number of messages that may be guilty."""

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._most_bytes: int | None = None
        """Maximum size of a body that the broker takes; None if it has not refused any for its size."""
        self._guilty: dict[int, Failure] = {}
        """Number of a message -> why the broker ended a connection for it."""

    def find_guilty(self, error: Refused, under_way: Collection[Outgoing]) -> list[tuple[Outgoing, Failure]]:
        """Return the messages that ended a connection, with the reasons; if none is known, suspect all."""
        named = BODY_TOO_LARGE.search(str(error))
        if named is not None:
            self._most_bytes = int(named[1])
            guilty = [(each, failure) for each in under_way if (failure := self.explain_refusal(each)) is not None]
            if guilty:
                self.count = max(0, self.count - len(guilty))
                return guilty
        if self.count and len(under_way) == 1:
            [outgoing] = under_way
            self.count -= 1
            if len(self._guilty) >= REMEMBERED:
                self._guilty.clear()
            failure = self._guilty[outgoing.number] = Failure(str(error), final=True)
            return [(outgoing, failure)]
        self.count = len(under_way)
        return []

    @property
    def has_guilty(self) -> bool:
        """Whether there are messages that must not be sent."""
        return self._most_bytes is not None or bool(self._guilty)

    def explain_refusal(self, outgoing: Outgoing) -> Failure | None:
        """Return why a message must not be sent, as the broker would end the connection for it; None if it may be."""
        most = self._most_bytes
        if most is not None and len(outgoing.message.body) > most:
            return Failure(
                f"too large: the broker takes bodies of {most:,} bytes at most; raise its max_message_size", final=True
            )
        return self._guilty.get(outgoing.number)

    def forget(self) -> None:
        """Forget all: the broker that comes back may be another one, or have other limits."""
        self.count = 0
        self._most_bytes = None
        self._guilty.clear()
