"""A topic of dead letters as a source: what is chosen is read once more for each run, and nothing leaves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

from bridge.dead.letters import LetterSource
from bridge.dead.logs.log import Letter, Log
from bridge.dead.logs.origins import Goal
from bridge.endpoint import Delivery, EndOfStream
from exchange.errors import HashstarError, InputError
from exchange.values.message import Message

FIXED_BYTES: Final = 1_024
"""Memory that a delivery takes beside its body, in bytes, about."""


class Picked(NamedTuple):
    """What is to be published for a letter."""

    digest: str
    message: Message | None
    """What the pump passes on; its exchange is the topic where there is a ``goal``. None: it was published earlier."""
    goal: Goal | None = None
    """What is to be written to a topic; None if ``message`` is to be published to RabbitMQ."""
    is_earlier: bool = False
    """Whether an earlier run has published it."""


class Picker(ABC):
    """Decides what becomes of the letters of a topic."""

    def begin(self) -> None:  # noqa: B027  not each has something to note
        """Take note that all letters come once more."""

    @abstractmethod
    def pick(self, letter: Letter) -> Picked | None:
        """Return what is to be published for a letter; None: nothing.

        Raises HashstarError or ValueError for one that was to be published, and cannot.
        """


class LogSource(LetterSource):
    """The letters of a topic. Of those that were not published by an earlier run, ``limit`` are looked at."""

    def __init__(self, log: Log, limit: int, picker: Picker) -> None:
        super().__init__(log.name)
        self.goals: Final[dict[str, Goal]] = {}
        """Digest -> what is to be written for a letter that is under way."""
        self._log: Final = log
        self._limit: Final = limit
        self._picker: Final = picker
        self._looked_at = self._number = 0

    async def open(self) -> None:
        self.epoch += 1
        self.is_settled = False
        self.left.clear()
        self._looked_at = self._number = 0
        self._picker.begin()
        try:
            await self._log.open()
        except InputError as error:
            self.fault = str(error)

    async def read(self, limit: int) -> Sequence[Delivery]:
        deliveries: list[Delivery] = []
        try:
            while len(deliveries) < limit and self._looked_at < self._limit and self.fault is None:
                if deliveries and not self._log.is_ready:
                    break
                letter = await self._log.read()
                if letter is None:
                    break
                if (delivery := self._pick(letter)) is not None:
                    deliveries.append(delivery)
        except InputError as error:
            self.fault = str(error)
        if not deliveries:
            raise EndOfStream
        return deliveries

    def _pick(self, letter: Letter) -> Delivery | None:
        self._number += 1
        number = self._number
        try:
            picked = self._picker.pick(letter)
        except (HashstarError, ValueError) as error:
            self._looked_at += 1
            self.left[number] = str(error)
            return None
        self._looked_at += picked is None or not picked.is_earlier
        if picked is None or picked.message is None:
            return None
        if picked.goal is not None:
            self.goals[picked.digest] = picked.goal
        size = len(picked.message.body) + FIXED_BYTES
        origin = f"{letter.lane} at {letter.offset}"
        return Delivery(
            picked.message, (self.epoch, number), number, picked.digest, time=letter.time, size=size, origin=origin
        )

    @property
    def unread(self) -> int:
        """Number of offsets that were not read, as far as is known."""
        return self._log.left

    def settle(self, delivery: Delivery) -> None:
        """Forget what was written; the letter stays, and the ledger knows that it was published."""
        self.goals.pop(delivery.identity or "", None)

    async def close(self) -> None:
        self.is_settled = self.fault is None
        await self._log.close()
