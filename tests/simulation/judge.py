"""What one pump does, judged by the promises that it keeps alone: order, tries, dead letters, its window, a pause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.events import PumpEvents
from bridge.pump.gate import CALM
from bridge.pump.pump import Pump
from tests.simulation.plan import Plan
from tests.simulation.world import World, number_of


class Judge:
    """The judge of one pump, from when it is built to its end."""

    def __init__(self, world: World, rules: Plan) -> None:
        self.world: Final = world
        self.rules: Final = rules
        """What the file said about its pipeline when it was read."""
        self.pump: Pump | None = None
        self.is_dead = False
        """Whether its process was killed: nothing passes any more."""
        self.is_paused = self.is_drained = False
        """Whether its owner wants it to read nothing, and to close its sources."""
        self.open_targets: set[str] = set()
        self.under_way: dict[str, dict[int, Outgoing]] = {"all": {}, "odd": {}, "dead": {}}
        """Target -> number of a copy -> the copy, which it has and has not answered."""
        self.closed: list[str] = []
        """Sources and targets in the order in which they were closed."""
        self.verdicts: dict[str, Callable[[int], bool]] = {}
        """Queue -> what its broker says about a message: whether it is at fault."""
        self._refused: dict[tuple[str, Hashable], dict[int, Outgoing]] = defaultdict(dict)
        """Queue, source and key -> messages that were refused and have not been sent again."""
        self._tries: Counter[tuple[str, int]] = Counter()
        """Queue, and id of a delivery -> number of refusals of its copy."""
        self._final: set[tuple[str, int]] = set()
        self._moot: set[int] = set()
        """Ids of deliveries that another owner of their partition writes."""
        self._pushed_back: dict[str, float] = {}
        """Queue -> time of its latest push-back."""
        self._busy_since: dict[str, float] = {}
        self._confirmed: set[tuple[str, int]] = set()
        """Targets and numbers of copies that they have confirmed."""
        self._sent_at: dict[int, float] = {}
        self._kept: list[Delivery] = []
        """Deliveries whose ids are used, so that no other gets these."""
        self._judged: set[tuple[str, int]] = set()
        """Queue, and id of a delivery -> its dead letter was judged."""
        self._dead: Counter[tuple[str, str]] = Counter()
        self._written: Counter[tuple[str, str]] = Counter()
        self._reads: Counter[str] = Counter()
        """Source -> number of reads since a pause began or ended."""

    @property
    def needed(self) -> set[str]:
        """Targets that a source waits for."""
        queues = ["all", *(["dead"] if self.rules.dead_letters else []), *([] if self.rules.is_narrow else ["odd"])]
        return {*map(self.rules.target_of, queues)}

    def breaks(self, promise: str, text: str) -> None:
        """Take note that a promise is broken, unless its process is dead."""
        if not self.is_dead:
            self.world.breaks(promise, text)

    # What the pump does with its sources.

    def note_open(self, source: str) -> None:
        """Judge whether a source may be opened."""
        if not self.open_targets >= self.needed:
            self.breaks("no early delivery", f"{source} is opened with {sorted(self.open_targets)}")
        for target, sent in self.under_way.items():
            if any(self.world.source_of(number_of(each)) == source for each in sent.values()):
                self.breaks("no early delivery", f"{source} is opened while {target} owes it an answer")
        if self.is_paused or self.is_drained:
            self.breaks("pause", f"{source} is opened")

    def note_moot(self, outgoing: Outgoing) -> None:
        """Take note that the next owner of its partition writes a message: settling it means nothing here."""
        lane: Any = outgoing.delivery.lane
        if lane.current:
            self.breaks("at least once", f"{number_of(outgoing)} is left to the next owner of a partition that is ours")
        self._kept.append(outgoing.delivery)
        self._moot.add(id(outgoing.delivery))

    def note_settled(self, source: str, delivery: Delivery) -> None:
        """Judge whether a message may be settled."""
        number = number_of(delivery)
        if id(delivery) in self._moot:
            return
        if not self.world.is_safe(number, is_narrow=self.rules.is_narrow):
            self.breaks("at least once", f"{source} settles {number}, which is not safe")

    def note_dropped(self, source: str) -> None:
        """Take note that a source's connection is gone: nothing of it waits any more."""
        for (_, line), refused in self._refused.items():
            if line[0] == source:  # type: ignore[index]
                refused.clear()

    # What the pump does with its targets.

    def note_sent(self, target: str, outgoing: Outgoing) -> None:
        """Judge a message that is sent to a target."""
        number, delivery = number_of(outgoing), outgoing.delivery
        if (target, outgoing.number) in self._confirmed:
            self.breaks("duplicates", f"{target} is sent {number} again, which it has confirmed")
        if target == "dead":
            self._judge_dead_letter(outgoing, number, delivery)
            return
        line, now, queue = (outgoing.queue, self._line(number)), self.world.now, outgoing.queue
        refused = self._refused[line]
        is_new = refused.pop(number, None) is None
        # In the order of reading: a queue that several workers share gives back what one had behind what waits.
        if is_new and (before := [m for m, waits in refused.items() if waits.number < outgoing.number]):
            self.breaks("order", f"{queue} is sent {number} while {min(before)}, which it refused, waits")
        one = self.rules.one_at_a_time
        pushed = self._pushed_back.get(queue, -CALM)
        for each in self.under_way[target].values():
            other = number_of(each)
            if other == number or each.queue != queue or self._line(other) != line[1]:
                continue
            if one or (now - pushed < CALM and self._sent_at[each.number] > pushed):
                self.breaks("one at a time", f"{queue} is sent {number} while it has {other}")
        self._sent_at[outgoing.number] = now

    def _judge_dead_letter(self, dead: Outgoing, number: int, delivery: Delivery) -> None:
        queue = dead.message.headers["hashstar-queue"]
        if (queue, id(delivery)) in self._judged:  # what was right then need not be now, and it is sent again
            return
        self._judged.add((queue, id(delivery)))
        self._kept.append(delivery)
        sent = self.under_way[self.rules.target_of(queue)].values() if queue else ()
        if any(each.delivery is delivery and each.queue == queue for each in sent):
            self.breaks("one fate", f"{queue} may still confirm {number}, which is a dead letter")
        patience = self.rules.give_up_after
        is_due = (
            (queue, id(delivery)) in self._final
            or self._tries[queue, id(delivery)] >= self.rules.tries
            or (patience is not None and self.world.now - self._busy_since.get(queue, self.world.now) >= patience)
            or (not queue and not self.world.queues_of(number))
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
        self.world.note_judged(queue, number)
        if failure.busy and not outgoing.context.dropped:
            self._pushed_back[queue] = self.world.now
        if failure.busy or failure.waits:
            self._busy_since.setdefault(queue, self.world.now)
        else:
            self._tries[queue, id(delivery)] += 1
            has_room = self.rules.dead_letters and self.rules.max_dead_letters >= 1 and not outgoing.context.dropped
            if has_room and (
                self._tries[queue, id(delivery)] > self.rules.tries or (queue, id(delivery)) in self._final
            ):
                self.breaks("tries", f"{queue} refuses {number} once more")
        if failure.final:
            self._final.add((queue, id(delivery)))
        if not outgoing.context.dropped:
            self._refused[queue, self._line(number)][number] = outgoing

    def note_confirmed(self, target: str, outgoing: Outgoing) -> None:
        """Take note that a target is about to report that it has a message."""
        self._confirmed.add((target, outgoing.number))

    def note_raised(self, outgoing: Outgoing) -> None:
        """Take note that sending one message raises: the pump refuses it for good, soon."""
        self._kept.append(outgoing.delivery)
        self.world.note_raised(outgoing.queue)
        self._final.add((outgoing.queue, id(outgoing.delivery)))

    def note_given_up(self, outgoing: Outgoing, *, is_limited: bool) -> None:
        """Take note that a message leaves its target for the dead letters."""
        number, queue = number_of(outgoing), outgoing.queue
        self._refused[queue, self._line(number)].pop(number, None)
        if is_limited:
            self.count_dead(self.world.source_of(number), queue)

    def _line(self, number: int) -> Hashable:
        return self.world.source_of(number), self.world.key_of(number)

    # Limits.

    def count_dead(self, source: str, queue: str) -> None:
        """Count a dead letter, and judge how many there are."""
        dead, share = self._dead, self.rules.max_dead_letters
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
        """Count dead letters anew, as a resumed bridge does."""
        self._dead.clear()
        self._written.clear()

    # Events.

    def hear(self, events: PumpEvents) -> Any:
        """Return events that are judged on their way to others."""
        return _Events(self, events)

    def note_order(self, order: Callable[[Pump], None]) -> None:
        """Take note that its owner pauses, drains or resumes it, and count reads since now.

        A pump that was stopped already reads what was sent before, whatever pauses it.
        """
        self._reads.clear()
        is_stopped = self.pump is not None and self.pump._stopping.is_set()
        self.is_paused |= order is Pump.pause and not is_stopped
        self.is_drained |= order is Pump.drain
        if order is Pump.resume:
            self.is_paused = self.is_drained = False
            self.count_anew()

    def note_reads(self, source: str, deliveries: Sequence[Delivery]) -> None:
        """Judge what was read, and is about to enter the window."""
        rules, pump = self.rules, self.pump
        if pump is None:
            return
        self._reads[source] += 1
        if self.is_paused and not self.is_drained and self._reads[source] > 1:  # one may have been under way
            self.breaks("pause", f"{source} goes on")
        self.count_written(source, "", len(deliveries))
        for inlet in pump._inlets:
            window = inlet.window
            if inlet.source.name == source and window.messages + len(deliveries) > rules.window:
                self.breaks("window", f"{source}: {window.messages} and {len(deliveries)} messages")
            size = window.bytes + sum(each.size for each in deliveries)
            if inlet.source.name == source and size > rules.window_bytes and window.messages + len(deliveries) > 1:
                self.breaks("window", f"{source}: {size} bytes")


class _Events:
    """The events of a pump, of which some are judged."""

    def __init__(self, judge: Judge, events: PumpEvents) -> None:
        self._judge = judge
        self._events = events

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        self._judge.note_reads(source, deliveries)
        self._events.read(source, deliveries)

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        for each in messages:
            self._judge.count_written(self._judge.world.source_of(number_of(each)), each.queue)
        self._events.confirmed(target, messages, now)

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        if fate == "dead-letter" and target != "dead":
            self._judge.note_given_up(message, is_limited=not failure.busy and not failure.waits)
        self._events.gave_up(target, message, failure, fate)

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        if fate == "dead-letter":
            self._judge.count_dead(source, "")
        self._events.unroutable(source, delivery, fate, reason)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._events, name)
