"""The truth of a run: what is stored where, what was refused, and which promises were broken on the way."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Any, Final

from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.gate import CALM
from exchange import Binding, Exchange, Message, Queue, Topology
from tests.simulation.plan import Plan
from tests.simulation.promises import PROMISES, Broken

TOPOLOGY: Final = (
    Topology()
    .declare_exchange(Exchange("in", "topic"))
    .declare_queue(Queue("all"))
    .declare_queue(Queue("odd"))
    .bind(Binding.to_queue("in", "all", "k.#"))
    .bind(Binding.to_queue("in", "odd", "k.1"))
)


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
        self.open_targets: set[str] = set()
        self.under_way: dict[str, dict[int, Outgoing]] = {"all": {}, "odd": {}, "dead": {}}
        """Target -> number of a copy -> the copy, which it has and has not answered."""
        self.repeats: Counter[str] = Counter()
        """Source or target -> number of times that what was under way came again, or might."""
        self.synced: dict[str, Counter[int]] = defaultdict(Counter)
        """Archive -> messages that it has synced."""
        self.flipped: dict[str, Counter[int]] = defaultdict(Counter)
        """Archive -> those of which a byte has flipped since."""
        self.again = 0
        """Number of messages that came again because a broker had not written their offsets."""
        self.closed: list[str] = []
        """Sources and targets in the order in which they were closed."""
        self.verdicts: dict[str, Callable[[int], bool]] = {}
        """Queue -> what its broker says about a message: whether it is at fault."""
        self._refused: dict[tuple[str, Hashable], dict[int, Outgoing]] = defaultdict(dict)
        """Queue, source and key -> messages that were refused and have not been sent again."""
        self._tries: Counter[tuple[str, int]] = Counter()
        """Queue, and id of a delivery -> number of refusals of its copy."""
        self._final: set[tuple[str, int]] = set()
        self._pushed_back: dict[str, float] = {}
        """Queue -> time of its latest push-back."""
        self._busy_since: dict[str, float] = {}
        self._confirmed: set[tuple[str, int]] = set()
        """Targets and numbers of copies that they have confirmed."""
        self._ids: dict[int, str] = {}
        """Number of a message -> the id that it had when it was read first."""
        self._sent_at: dict[int, float] = {}
        self._kept: list[Delivery] = []
        """Deliveries whose ids are used, so that no other gets these."""
        self._judged: set[tuple[str, int]] = set()
        """Queue, and id of a delivery -> its dead letter was judged."""
        self._has_refused: set[str] = set()
        self._dead: Counter[tuple[str, str]] = Counter()
        self._written: Counter[tuple[str, str]] = Counter()

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

    def begin(self) -> None:
        """Begin with a new bridge, which knows nothing of the one before."""
        self.open_targets.clear()
        for sent in self.under_way.values():
            sent.clear()
        self.closed.clear()
        self._refused.clear()
        self._pushed_back.clear()
        self._busy_since.clear()
        self._confirmed.clear()
        self.count_anew()

    # Messages.

    def key_of(self, number: int) -> str:
        """Return the routing key of a message."""
        lost = self.odd.get(number) == "unroutable" and (self.plan.dead_letters or self.plan.drop)
        return f"{'x' if lost else 'k'}.{number // len(self.plan.sources) % self.plan.keys}"

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
        return () if key.startswith("x") else ("all", "odd") if key == "k.1" else ("all",)

    def is_safe(self, number: int) -> bool:
        """Return whether every copy of a message is stored, or buried."""
        queues = self.queues_of(number)
        if not queues:
            return self.plan.drop or ("", number) in self.buried
        return all(
            self.stored[queue][number] > self.unsafe[queue, number] or {(queue, number), ("", number)} & self.buried
            for queue in queues
        )

    def note_read(self, delivery: Delivery) -> None:
        """Judge the id of a message that is read."""
        number, identity = number_of(delivery), delivery.identity
        if identity is not None and self._ids.setdefault(number, identity) != identity:
            source = self.source_of(number)
            if not any(each.where == source and each.what in ("remade", "cut off") for each in self.plan.faults):
                self.breaks("identity", f"{number} is {identity}, and was {self._ids[number]}")

    # What targets have.

    def note_sent(self, target: str, outgoing: Outgoing) -> None:
        """Judge a message that is sent to a target."""
        number, delivery = number_of(outgoing), outgoing.delivery
        if (target, outgoing.number) in self._confirmed:
            self.breaks("duplicates", f"{target} is sent {number} again, which it has confirmed")
        if target == "dead":
            self._judge_dead_letter(outgoing, number, delivery)
            return
        line, now, queue = (outgoing.queue, self._line(number)), self.now, outgoing.queue
        refused = self._refused[line]
        if refused.pop(number, None) is None and (before := [m for m in refused if m < number]):
            self.breaks("order", f"{queue} is sent {number} while {min(before)}, which it refused, waits")
        one = self.plan.one_at_a_time
        pushed = self._pushed_back.get(queue, -CALM)
        for each in self.under_way[target].values():
            other = number_of(each)
            if other == number or each.queue != queue or self._line(other) != line[1]:
                continue
            if one or (now - pushed < CALM and self._sent_at[each.number] > pushed):
                self.breaks("one at a time", f"{queue} is sent {number} while it has {other}")
        self._sent_at[outgoing.number] = now

    def _line(self, number: int) -> Hashable:
        return self.source_of(number), self.key_of(number)

    def _judge_dead_letter(self, dead: Outgoing, number: int, delivery: Delivery) -> None:
        queue = dead.message.headers["hashstar-queue"]
        if (queue, id(delivery)) in self._judged:  # what was right then need not be now, and it is sent again
            return
        self._judged.add((queue, id(delivery)))
        self._kept.append(delivery)
        if queue and any(each.delivery is delivery for each in self.under_way[queue].values()):
            self.breaks("one fate", f"{queue} may still confirm {number}, which is a dead letter")
        patience = self.plan.give_up_after
        is_due = (
            (queue, id(delivery)) in self._final
            or self._tries[queue, id(delivery)] >= self.plan.tries
            or (patience is not None and self.now - self._busy_since.get(queue, self.now) >= patience)
            or (not queue and not self.queues_of(number))
        )
        verdict = self.verdicts.get(queue)
        if is_due and patience is None and verdict is not None and not verdict(number):
            self.breaks("dead letters", f"{number} becomes one for queue {queue!r}, and is not at fault")
        if not is_due:
            self.breaks("dead letters", f"{number} becomes one for queue {queue!r} without a reason")

    def note_refused(self, outgoing: Outgoing, failure: Failure) -> None:
        """Take note that a target is about to report a refusal."""
        number, queue, delivery = number_of(outgoing), outgoing.queue, outgoing.delivery
        self._kept.append(delivery)
        self.note_judged(queue, number)
        if failure.busy and not outgoing.context.dropped:
            self._pushed_back[queue] = self.now
        if failure.busy or failure.waits:
            self._busy_since.setdefault(queue, self.now)
        else:
            self._tries[queue, id(delivery)] += 1
            has_room = self.plan.dead_letters and self.plan.max_dead_letters >= 1 and not outgoing.context.dropped
            if has_room and (
                self._tries[queue, id(delivery)] > self.plan.tries or (queue, id(delivery)) in self._final
            ):
                self.breaks("tries", f"{queue} refuses {number} once more")
        if failure.final:
            self._final.add((queue, id(delivery)))
        if not outgoing.context.dropped:
            self._refused[queue, self._line(number)][number] = outgoing

    def note_judged(self, queue: str, number: int) -> None:
        """Take note that a target refuses a message, of which it will report: others may overtake that.

        What is refused for good is overtaken by all, which is no news.
        """
        if self.odd.get(number) != "refused":
            self._has_refused.add(queue)

    def note_confirmed(self, target: str, outgoing: Outgoing) -> None:
        """Take note that a target is about to report that it has a message."""
        self._confirmed.add((target, outgoing.number))

    def note_raised(self, outgoing: Outgoing) -> None:
        """Take note that sending one message raises: the pump refuses it for good, soon."""
        self._kept.append(outgoing.delivery)
        self._has_refused.add(outgoing.queue)
        self._final.add((outgoing.queue, id(outgoing.delivery)))

    def note_dropped(self, source: str) -> None:
        """Take note that a source's connection is gone: nothing of it waits any more."""
        for (_, line), refused in self._refused.items():
            if line[0] == source:  # type: ignore[index]
                refused.clear()

    def note_given_up(self, outgoing: Outgoing, *, is_limited: bool) -> None:
        """Take note that a message leaves its target for the dead letters."""
        number, queue = number_of(outgoing), outgoing.queue
        self._refused[queue, self._line(number)].pop(number, None)
        if is_limited:
            self.count_dead(self.source_of(number), queue)

    def store(self, queue: str, number: int, dead_queue: str, *, is_safe: bool = True) -> None:
        """Store a copy, or a dead letter of one for ``dead_queue``; one that is not safe may be gone any time."""
        if not is_safe:
            self.unsafe[queue, number] += 1
        if not queue:
            if is_safe:
                self.buried.add((dead_queue, number))
        elif not self.stored[queue][number] and queue not in self._has_refused:
            step = len(self.plan.sources)
            for other in range(number % step, number, step):
                if (
                    self.key_of(other) == self.key_of(number)
                    and self.odd.get(other) != "refused"
                    and not (self.stored[queue][other] or {(queue, other), ("", other)} & self.buried)
                ):
                    self.breaks("order", f"{queue} has {number} before {other}")
        self.stored[queue][number] += 1

    # Limits.

    def count_dead(self, source: str, queue: str) -> None:
        """Count a dead letter, and judge how many there are."""
        dead, share = self._dead, self.plan.max_dead_letters
        dead[source, queue] += 1
        if share < 1 and dead[source, queue] > 10 + self._written[source, queue] * share / (1 - share) + 1e-6:
            self.breaks(
                "max_dead_letters",
                f"{dead[source, queue]} of {source} for {queue!r}, with {self._written[source, queue]} written",
            )

    def count_written(self, source: str, queue: str, count: int = 1) -> None:
        """Count messages that were written, or routed."""
        self._written[source, queue] += count

    def count_anew(self) -> None:
        """Count dead letters anew, as a resumed or new bridge does."""
        self._dead.clear()
        self._written.clear()

    def judge_end(self) -> None:
        """Judge what came of all, at the end."""
        for number in range(self.plan.messages):
            if not self.is_safe(number):
                self.breaks("at least once", f"{number} is lost")
        for queue, copies in self.stored.items():
            extra = sum(copies.values()) - len(copies)
            if "rabbitmq" in self.plan.sources:  # a stream without a file of offsets is read from its beginning
                continue
            allowed = self.plan.window * len(self.plan.sources) * sum(self.repeats.values()) + self.again
            if queue and extra > allowed:
                self.breaks("duplicates", f"{extra} in {queue} after {dict(self.repeats)}")


class Events:
    """The events of a pump, for the world."""

    def __init__(self, world: World, pump: Any) -> None:
        self._world = world
        self._pump = pump
        self._reads: Counter[str] = Counter()

    def forget_reads(self) -> None:
        """Count reads since now: a pause begins or ends."""
        self._reads.clear()

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        world, plan = self._world, self._world.plan
        self._reads[source] += 1
        if self._pump().paused and self._reads[source] > 1:  # one may have been under way
            world.breaks("pause", f"{source} goes on")
        world.count_written(source, "", len(deliveries))
        for inlet in self._pump()._inlets:
            window = inlet.window
            if inlet.source.name == source and window.messages + len(deliveries) > plan.window:
                world.breaks("window", f"{source}: {window.messages} and {len(deliveries)} messages")
            size = window.bytes + sum(each.size for each in deliveries)
            if inlet.source.name == source and size > plan.window_bytes and window.messages + len(deliveries) > 1:
                world.breaks("window", f"{source}: {size} bytes")

    def confirmed(self, target: str, messages: Sequence[Outgoing], _: float) -> None:
        for each in messages:
            self._world.count_written(self._world.source_of(number_of(each)), each.queue)

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        if fate == "dead-letter" and target != "dead":
            self._world.note_given_up(message, is_limited=not failure.busy and not failure.waits)

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        if fate == "dead-letter":
            self._world.count_dead(source, "")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None
