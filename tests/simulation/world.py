"""The truth of a run: what is stored where, and which promises were broken on the way."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Final

from bridge.endpoint import Delivery, Outgoing
from exchange import Message
from tests.simulation.plan import SCATTERED, UNORDERED, Plan
from tests.simulation.promises import PROMISES, Broken


def number_of(carrier: Delivery | Outgoing) -> int:
    """Return the number of a message, by which all know it."""
    delivery = carrier if isinstance(carrier, Delivery) else carrier.delivery
    return int(delivery.message.body)


class World:
    """What all endpoints of a run share."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self.plan: Final = plan
        self.random: Final = random
        self.broken: list[Broken] = []
        """Broken promises; an exception instead would be handled by the pump."""
        self.odd: Final = dict(plan.odd)
        self.well = False
        """Whether all faults are over, and every message is taken."""
        self.stored: dict[str, Counter[int]] = {"all": Counter(), "odd": Counter(), "": Counter()}
        """Queue, "" for dead letters -> number of a message -> how often it is stored there."""
        self.unsafe: Counter[tuple[str, int]] = Counter()
        """Queue and number of a message -> how many of its copies there a crash would take."""
        self.buried: set[tuple[str, int]] = set()
        """Queues and numbers of messages that are stored as dead letters."""
        self.repeats: Counter[str] = Counter()
        """Source or target -> number of times that what was under way came again, or might."""
        self.synced: dict[str, Counter[int]] = defaultdict(Counter)
        """Archive -> messages that it has synced."""
        self.flipped: dict[str, Counter[int]] = defaultdict(Counter)
        """Archive -> those of which a byte has flipped since."""
        self.again = 0
        """Number of messages that came again because a broker had not written their offsets."""
        self.overlong: set[str] = set()
        """Sources whose topic was made anew, as long at once as they had read the old one: they notice that later."""
        self.dropped: set[int] = set()
        """Messages that a share group has dropped, as it has delivered them too often."""
        self._ids: dict[int, str] = {}
        """Number of a message -> the id that it had when it was read first."""
        self._has_refused: set[str] = set()
        """Queues of which a target has refused a message, so that others may have overtaken it."""

    @property
    def now(self) -> float:
        """Virtual time, in seconds."""
        return asyncio.get_running_loop().time()

    def breaks(self, promise: str, text: str) -> None:
        """Take note that a promise is broken."""
        assert promise in PROMISES
        self.broken.append(Broken(promise, self.now, text))

    def delay(self, most: float) -> float:
        """Return a number of seconds."""
        return self.random.random() * most

    # Messages.

    def key_of(self, number: int) -> str:
        """Return the routing key of a message."""
        what = self.odd.get(number)
        lost = what == "unroutable" and (self.plan.dead_letters or self.plan.drop)
        word = "x" if lost else "f" if what == "filtered" else "k"
        return f"{word}.{number // len(self.plan.sources) % self.plan.keys}"

    def source_of(self, number: int) -> str:
        """Return the source that a message is published to."""
        at = number % len(self.plan.sources)
        return f"{self.plan.sources[at]}-{at}"

    def make_message(self, number: int) -> Message:
        """Return a message."""
        return Message("in", self.key_of(number), body=b"%d" % number)

    def queues_of(self, number: int) -> Sequence[str]:
        """Return the queues that a message reaches."""
        key = self.key_of(number)
        return () if key.startswith(("x", "f")) else ("all", "odd") if key == "k.1" else ("all",)

    def is_safe(self, number: int, *, is_narrow: bool) -> bool:
        """Return whether every copy of a message is stored, or buried, for a topology (`Plan.is_narrow`)."""
        queues = self.queues_of(number)
        if self.odd.get(number) == "filtered":
            return True
        if not queues:
            return self.plan.drop or ("", number) in self.buried
        return all(
            self.stored[queue][number] > self.unsafe[queue, number] or {(queue, number), ("", number)} & self.buried
            for queue in queues
            if not (is_narrow and queue == "odd")
        )

    def note_read(self, delivery: Delivery) -> None:
        """Judge the id of a message that is read."""
        number, identity = number_of(delivery), delivery.identity
        if identity is not None and self._ids.setdefault(number, identity) != identity:
            source = self.source_of(number)
            if not any(each.where == source and each.what in ("remade", "cut off") for each in self.plan.faults):
                self.breaks("identity", f"{number} is {identity}, and was {self._ids[number]}")

    # What targets have.

    def note_judged(self, queue: str, number: int) -> None:
        """Take note that a target refuses a message, of which it will report: others may overtake that.

        What is refused for good is overtaken by all, which is no news.
        """
        if self.odd.get(number) != "refused":
            self._has_refused.add(queue)

    def note_raised(self, queue: str) -> None:
        """Take note that sending a message for a queue raises: others may overtake it."""
        self._has_refused.add(queue)

    def store(self, queue: str, number: int, dead_queue: str, *, is_safe: bool = True) -> None:
        """Store a copy, or a dead letter of one for ``dead_queue``; one that is not safe may be gone any time."""
        if self.odd.get(number) == "filtered":
            self.breaks("filter", f"{queue or dead_queue} gets {number}")
        if not is_safe:
            self.unsafe[queue, number] += 1
        if not queue:
            if is_safe:
                self.buried.add((dead_queue, number))
        elif not self.stored[queue][number] and queue not in self._has_refused and self._has_order(queue, number):
            step = len(self.plan.sources)
            for other in range(number % step, number, step):
                if (
                    self.key_of(other) == self.key_of(number)
                    and self.odd.get(other) != "refused"
                    and not (self.stored[queue][other] or {(queue, other), ("", other)} & self.buried)
                ):
                    self.breaks("order", f"{queue} has {number} before {other}")
        self.stored[queue][number] += 1

    def _has_order(self, queue: str, number: int) -> bool:
        """Return whether first arrivals are in order.

        Not where a topology has a queue again that it had not, nor where several workers share a queue, nor those of
        a share group, nor where a topic of Kafka that is made anew is as long at once as the old one was read.
        """
        source = self.source_of(number)
        is_shared = source.startswith(SCATTERED) or (self.plan.workers > 1 and source.startswith(UNORDERED))
        return not is_shared and source not in self.overlong and (queue != "odd" or not self.plan.may_be_narrow)

    def judge_end(self) -> None:
        """Judge what came of all, at the end."""
        plan = self.plan
        for number in range(plan.messages):
            if number not in self.dropped and not self.is_safe(number, is_narrow=plan.may_be_narrow):
                self.breaks("at least once", f"{number} is lost")
        for queue, copies in self.stored.items():
            extra = sum(copies.values()) - len(copies)
            if "rabbitmq" in plan.sources:  # a stream without a file of offsets is read from its beginning
                continue
            allowed = plan.widest_window * len(plan.sources) * sum(self.repeats.values()) + self.again
            if queue and extra > allowed:
                self.breaks("duplicates", f"{extra} in {queue} after {dict(self.repeats)}")
