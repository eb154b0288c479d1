"""A small model of what is written to: it writes in order, and answers late, in any order, twice, or never."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from tests.simulation.plan import Fault
from tests.simulation.sources import Client
from tests.simulation.world import World, number_of

WRITE_SECONDS = 0.01
"""Maximum number of seconds until what was sent is written."""


REFUSES_TWICE: Final = 3
"""Number of a fault from which on each refusal is reported twice."""


class ModelTarget(Client, Target):
    """A target, one client of it. What it has written outlives it, in the world."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.endpoint = self
        self.receiver: Receiver | None = None
        self.arrived: deque[Outgoing] = deque()
        """Messages that are not written yet."""
        self.session = 0
        self._free_at = 0.0

    async def open(self, receiver: Receiver) -> None:
        await self.reach()
        if self.is_dead:
            raise Disconnected("dead")
        self.session += 1
        self.receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        world = self.world
        if self.is_dead or self.receiver is None:
            return
        for each in messages:
            if world.odd.get(number_of(each)) == "raises" and not world.well and self.name != "dead":
                raise ZeroDivisionError("a mistake")
        self.arrived += messages
        self._free_at = max(self._free_at, world.now) + world.delay(WRITE_SECONDS)
        asyncio.get_running_loop().call_at(self._free_at, self._write, len(messages), self.session)

    def _write(self, count: int, session: int) -> None:
        """Write what has arrived, and report that later."""
        if session != self.session:
            return
        answers = []
        for _ in range(count):
            outgoing = self.arrived.popleft()
            failure = self._judge(outgoing)
            if failure is None:
                self._store(outgoing)
            else:
                self.world.note_judged(outgoing.queue, number_of(outgoing))
            answers.append((outgoing, failure))
        if not self.has("mute"):
            slow = self.until.get("slow", 0.0) - self.world.now if self.has("slow") else 0.0
            parts = [[each] for each in answers] if self.world.random.random() < 0.3 else [answers]
            for part in parts:
                delay = self.world.delay(max(slow, 0.01))
                asyncio.get_running_loop().call_later(delay, self._report, part, session)

    def _store(self, outgoing: Outgoing) -> None:
        queue = "" if self.name == "dead" else outgoing.queue
        self.world.store(queue, number_of(outgoing), outgoing.message.headers.get("hashstar-queue", ""))

    def _judge(self, outgoing: Outgoing) -> Failure | None:
        number = number_of(outgoing)
        world = self.world
        if self.has("push back"):
            return Failure("full", busy=True)
        if world.odd.get(number) == "refused" and not world.well and self.name != "dead":
            return Failure("wrong", final=True)
        if self.has("refuse") and number % 3 == self.numbers["refuse"] % 3:
            return Failure("nack")
        if self.has("wait") and world.key_of(number).endswith(f".{self.numbers['wait'] % world.plan.keys}"):
            return Failure("no binding", waits=True)
        return None

    def _report(self, answers: Sequence[tuple[Outgoing, Failure | None]], session: int) -> None:
        receiver = self.receiver
        if session != self.session or receiver is None:
            return
        confirmed = [outgoing for outgoing, failure in answers if failure is None]
        if confirmed:
            receiver.confirmed(confirmed)
            if self.has("twice"):
                receiver.confirmed(confirmed)
        for outgoing, failure in answers:
            if failure is not None and session == self.session:
                receiver.failed(outgoing, failure)
                if self.has("twice") or (self.has("refuse") and self.numbers["refuse"] >= REFUSES_TWICE):
                    receiver.failed(outgoing, failure)

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "mute":
            asyncio.get_running_loop().call_later(fault.seconds, self.lose)

    def lose(self) -> None:
        receiver = self.receiver
        if receiver is not None:
            self._end()
            receiver.lost(Disconnected("cut"))
        self.news.set()

    def _end(self) -> None:
        """End the session, if there is one; some of what was sent is still written."""
        if self.receiver is None:
            return
        for _ in range(self.world.random.randrange(len(self.arrived) + 1)):
            outgoing = self.arrived.popleft()
            if self._judge(outgoing) is None:
                self._store(outgoing)
        self.session += 1
        self.receiver = None
        self.arrived.clear()

    def kill(self) -> None:
        """End its process."""
        self._end()
        self.is_dead = True

    async def close(self) -> None:
        self._end()
