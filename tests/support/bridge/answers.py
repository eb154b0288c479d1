"""The reports of a target whose connection is never lost."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.endpoint import Disconnected, Failure, Outgoing


class Answers:
    """Keeps what is reported: numbers of messages, and the failures of those that failed."""

    def __init__(self) -> None:
        self.good: list[int] = []
        self.bad: list[tuple[int, Failure]] = []

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        self.good += [outgoing.number for outgoing in messages]

    def failed(self, message: Outgoing, failure: Failure) -> None:
        self.bad.append((message.number, failure))

    def lost(self, error: Disconnected) -> None:
        raise AssertionError(error)
