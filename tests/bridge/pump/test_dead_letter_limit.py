"""A source whose messages become dead letters in masses is stopped: ten are the price of a wrong limit."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Disconnected, Failure, Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.dead_letters import FEWEST, DeadLetterLimit
from bridge.pump.inlet import SOON
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.text.display import count_noun
from tests.support.bridge.events import Events
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually
from tests.test_growth import count_lines

TOPOLOGY = (
    Topology([Exchange("in", "topic")], [Queue("all"), Queue("some")])
    .bind(Binding.to_queue("in", "all", "k.#"))
    .bind(Binding.to_queue("in", "some", "k.1"))
)


class Slow:
    """The same limit from the list of all that happened, which is added up for each question."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.events: dict[str, list[str]] = {}
        self.waiting: dict[tuple[int, str], None] = {}
        """In the order in which they came to wait."""
        self.ahead: dict[str, int] = {}
        """Messages that were accepted, and are not written yet."""

    def note_written(self, queue: str, count: int) -> None:
        for _ in range(count):
            if self.ahead.get(queue, 0):
                self.ahead[queue] -= 1
            else:
                self.note(queue, "written", 1)

    def note_accepted(self, queue: str, count: int) -> None:
        while self.ahead.get(queue, 0) < count:
            self.note(queue, "written", 1)
            self.ahead[queue] = self.ahead.get(queue, 0) + 1

    def note(self, queue: str, what: str, count: int) -> None:
        events = self.events.setdefault(queue, [])
        events += [what] * count
        if not self.waiting:
            self.events[queue] = events[-round(FEWEST / self.share) :]

    def room(self, queue: str) -> int:
        events, more = self.events.get(queue, []), 0
        dead = events.count("dead")
        while more < 2_000 and (
            dead + more + 1 <= FEWEST or dead + more + 1 <= self.share * (len(events) + more + 1) + 1e-9
        ):
            more += 1
        return more

    def permitted(self, ready: int) -> list[int]:
        room = {queue: self.room(queue) for _, queue in self.waiting}
        tried = []
        for number, queue in self.waiting:
            if number % ready == 0 and room[queue]:
                room[queue] -= 1
                tried.append(number)
        return tried

    def describe(self) -> str | None:
        stopped = [queue for _, queue in self.waiting if not self.room(queue)]
        if not stopped:
            return None
        events, where = self.events[stopped[0]], f" for queue {stopped[0]}" if stopped[0] else ""
        dead = events.count("dead")
        assert (dead + 1) / (len(events) + 1) > self.share  # one more would be beyond it
        return (
            f"of the latest {count_noun(len(events), 'message')}{where}, {dead} ({dead / len(events):.0%}) became dead "
            f"letters; {len(stopped)} more would, beyond max_dead_letters = {self.share}, and wait: large"
        )

    def permit(self, message: int, queue: str) -> bool:
        if not self.room(queue):
            self.waiting.setdefault((message, queue))
            return False
        self.waiting.pop((message, queue), None)
        self.note(queue, "dead", 1)
        return True


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "accept", "give up", "give up", "try again", "written", "lift", "drop", "soon"]),
        st.sampled_from(["", "q"]), st.sampled_from([1, 3, 12, 40]),
    ),
    max_size=60,
)  # fmt: skip


@examples(300)
@given(STEPS, st.sampled_from([0.01, 0.2, 0.5]), st.sampled_from([1, 2]))
@example([("give up", "q", 12), ("write", "q", 40), ("try again", "q", 1), ("try again", "q", 1)], 0.5, 1)
@example([("give up", "q", 12), ("write", "q", 40), ("soon", "q", 1)], 0.5, 1)
@example([("give up", "q", 12), ("accept", "q", 40), ("soon", "q", 1)], 0.5, 1)
@example([("give up", "q", 12), ("write", "q", 40), ("try again", "q", 1), ("give up", "q", 40)], 0.5, 1)
def test_the_limit_is_that_of_a_slow_count_of_everything(
    steps: list[tuple[str, str, int]], share: float, ready: int
) -> None:
    """One of ``ready`` messages can be tried at once; the others wait behind older ones of their keys."""
    due: list[Callable[[], None]] = []
    limit, slow, message = DeadLetterLimit(share, due.append), Slow(share), 0
    lifted: list[object] = []

    def judge(message: int, queue: str) -> None:
        def again() -> bool:
            if message % ready == 0:
                lifted.append(message)
            return message % ready == 0

        permitted = limit.permit(message, queue, "large", again, 0.0)
        assert permitted == slow.permit(message, queue)

    written_since = False
    for what, queue, count in steps:
        first = min(slow.waiting, default=None)
        if what == "write":
            limit.note_written(queue, count)
            slow.note_written(queue, count)
        elif what == "accept":
            limit.note_accepted(queue, count)
            slow.note_accepted(queue, count)
        elif what == "give up":
            for _ in range(count):
                message += 1
                judge(message, queue)
        elif what == "try again" and first is not None:
            judge(*first)
        elif what == "written" and first is not None:
            limit.release(*first)
            slow.waiting.pop(first)
        elif what == "soon" and (due or (written_since and any(slow.room(each) for _, each in slow.waiting))):
            lifted.clear()
            due.pop()()
            assert not due  # however much was written since
            assert lifted == slow.permitted(ready)
            written_since = False
        elif what in ("lift", "drop"):
            lifted.clear()
            limit.lift() if what == "lift" else limit.forget_waiting()
            waited = {number for number, _ in slow.waiting if number % ready == 0}
            assert {*lifted} == (waited if what == "lift" else set())
            slow.waiting.clear()
            slow.ahead.clear()
            if what == "lift":
                slow.events.clear()
        assert limit.is_reached == bool(slow.waiting) == (limit.since is not None)
        written_since |= what in ("write", "accept")
        assert limit.describe() == slow.describe()


def test_trying_again_takes_the_work_of_what_has_room_however_many_wait() -> None:
    def count(waiting: int) -> int:
        due: list[Callable[[], None]] = []
        limit = DeadLetterLimit(0.5, due.append)
        for message in range(FEWEST + waiting):
            limit.permit(message, "q", "large", lambda: True, 0.0)
        limit.note_written("q", FEWEST + 1)
        return count_lines(due.pop())

    assert count(10) == count(1_000)


class Scene:
    """A pump with one source, a target that refuses what ``refuses`` says, and one for dead letters."""

    def __init__(self, refuses: Callable[[Outgoing], bool], policy: Policy = Policy()) -> None:  # noqa: B008
        self.refuses = refuses
        self.source = MemorySource()
        self.target = MemoryTarget("all", self._fault)
        self.dead = MemoryTarget("dead")
        self.inlet = Inlet(self.source)
        self.pump = Pump(
            [self.inlet], Router(TOPOLOGY), {"all": self.target, "some": MemoryTarget("some")}, Events(), policy,
            self.dead, random=random.Random(1).random,
        )  # fmt: skip

    def _fault(self, outgoing: Outgoing) -> Failure | Disconnected | None:
        return Failure("too large", final=True) if self.refuses(outgoing) else None

    def waits(self) -> bool:
        """Return whether messages wait because of the limit."""
        limit = self.inlet.window.limit
        return limit is not None and limit.is_reached

    def bodies(self, target: MemoryTarget) -> list[int]:
        return [int(outgoing.message.body) for outgoing in target.messages]

    def add(self, numbers: Sequence[int], key: str = "k.{}") -> None:
        for n in numbers:
            self.source.put(Message("in", key.format(n % 5), body=b"%d" % n))


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


async def end(scene: Scene, running: asyncio.Task[None]) -> None:
    scene.source.end()
    await asyncio.wait_for(running, 600)
    assert not scene.source.unsettled


@pytest.mark.parametrize("seconds", [0.0, 10.0], ids=["in masses", "one in ten seconds"])
def test_a_wrong_limit_costs_ten_messages_and_what_waits_is_written_when_it_is_right(seconds: float) -> None:
    async def act() -> None:
        scene = Scene(lambda _: True)
        running = asyncio.ensure_future(scene.pump.run())
        everything = range(30 if seconds else 3_000)
        for n in everything:
            scene.add([n])
            if seconds:
                await pass_time(seconds)
        await pass_time(3_600)  # no hour, however long, brings more
        assert len(scene.dead.messages) == 10
        assert scene.waits()
        unread = scene.source.lag
        await pass_time(3_600)
        assert len(scene.dead.messages) == 10
        assert scene.source.lag == unread
        scene.refuses = lambda _: False
        await end(scene, running)
        assert not scene.waits()
        assert sorted(scene.bodies(scene.target) + scene.bodies(scene.dead)) == [*everything]
        for key in range(5):
            written = [n for n in scene.bodies(scene.target) if n % 5 == key]
            assert written == sorted(written)

    play(act)


@pytest.mark.parametrize("size", [1, 2_000])
def test_a_steady_percent_never_stops_a_source(size: int) -> None:
    async def act() -> None:
        scene = Scene(lambda outgoing: int(outgoing.message.body) % 100 == 7)
        running = asyncio.ensure_future(scene.pump.run())
        for first in range(0, 6_000, size):
            scene.add(range(first, first + size))
            await pass_time(1.0)
        assert not scene.waits()
        await end(scene, running)
        assert sorted(scene.bodies(scene.dead)) == list(range(7, 6_000, 100))

    play(act)


def test_what_waits_goes_on_as_soon_as_the_share_has_fallen_and_is_tried_no_more_often_for_that() -> None:
    async def act() -> None:
        tried: Counter[int] = Counter()

        def refuse(outgoing: Outgoing) -> bool:
            number = int(outgoing.message.body)
            tried[number] += number < 100
            return number < 100

        scene = Scene(refuse)
        running = asyncio.ensure_future(scene.pump.run())
        scene.add(range(100))
        await pass_time(3_600)  # tries are as far apart as they get
        assert len(scene.dead.messages) == FEWEST
        number = 100
        for letters in range(FEWEST + 1, 101):
            while number - 100 < letters:  # with one dead letter more, half of all
                scene.add([number], key="k.other.{}")
                number += 1
            await pass_time(2 * SOON)
            assert len(scene.dead.messages) == letters
        assert not scene.waits()
        most = tried.total()
        await pass_time(3_600)
        assert tried.total() == most
        await end(scene, running)

    play(act)


def test_early_tries_leave_no_second_clock_behind() -> None:
    async def act() -> None:
        tried = 0

        def refuse(outgoing: Outgoing) -> bool:
            nonlocal tried
            tried += int(outgoing.message.body) == FEWEST
            return int(outgoing.message.body) <= FEWEST

        scene = Scene(refuse)
        running = asyncio.ensure_future(scene.pump.run())
        scene.add(range(FEWEST))
        await pass_time(600)
        limit = scene.inlet.window.limit
        assert limit is not None
        scene.add([FEWEST])
        for _ in range(50):  # tried early, and refused a permission again
            for _, again in [*limit._waiting.values()]:
                again()
            await pass_time(1)
        tried = 0
        await pass_time(3_600)
        assert scene.waits()
        assert 3_600 / 30 <= tried <= 3_600 / 15
        scene.refuses = lambda _: False
        await end(scene, running)

    play(act)


@pytest.mark.parametrize("percent", [5, 30])
def test_the_order_of_reports_does_not_make_a_share_higher(percent: int) -> None:
    """A target may report all refusals of a window before the first confirmation."""

    async def act() -> None:
        scene = Scene(lambda outgoing: int(outgoing.message.body) % 100 < percent)
        held: list[Sequence[Outgoing]] = []
        target = scene.target
        send = target.send

        def send_bad_first(messages: Sequence[Outgoing]) -> None:
            send([each for each in messages if scene.refuses(each)])
            held.append([each for each in messages if not scene.refuses(each)])
            asyncio.get_running_loop().call_later(0.05, lambda: send(held.pop(0)))

        target.send = send_bad_first  # type: ignore[method-assign]
        running = asyncio.ensure_future(scene.pump.run())
        scene.add(range(10_000))
        await pass_time(120)
        assert not scene.waits()
        await end(scene, running)
        assert len(scene.dead.messages) == percent * 100

    play(act)


def test_unroutable_messages_count_and_a_resumption_lets_ten_more_pass() -> None:
    async def act() -> None:
        scene = Scene(lambda _: False)
        running = asyncio.ensure_future(scene.pump.run())
        scene.add(range(100), key="nowhere.{}")
        for letters in (10, 20, 30):
            await pass_time(600)
            assert len(scene.dead.messages) == letters
            assert scene.waits()
            scene.pump.resume()
        scene.pump.stop()
        await asyncio.wait_for(running, 600)
        assert len({*scene.bodies(scene.dead)}) == len(scene.dead.messages)

    play(act)


def test_a_share_of_one_is_no_limit() -> None:
    async def act() -> None:
        scene = Scene(lambda _: True, Policy(max_dead_letters=1.0))
        running = asyncio.ensure_future(scene.pump.run())
        scene.add(range(3_000))
        await end(scene, running)
        assert len(scene.dead.messages) == 3_000

    play(act)
