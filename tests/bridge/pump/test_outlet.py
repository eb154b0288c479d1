"""Outlets, with a target that does exactly what the test decides, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Receiver, Target
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.interop.marks import HOPS
from bridge.pump.dead_letters import DeadLetterLimit, is_packed
from bridge.pump.gate import CALM
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from bridge.pump.window import Pending, Window
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.events import Events
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

NO = Failure("refused")
NEVER = Failure("too large", final=True)
FULL = Failure("nack", busy=True)
MOOT = Failure("taken away", moot=True)
CUT = Disconnected("cut")


class Script(Target):
    """Keeps the numbers of each send; the test answers. A send that contains ``broken`` raises it."""

    def __init__(self, name: str = "script") -> None:
        self.name = name
        self.sent: list[list[int]] = []
        self.by_number: dict[int, Outgoing] = {}
        self.receiver: Receiver | None = None
        self.broken: dict[int, Exception] = {}

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.sent.append([])

    def send(self, messages: Sequence[Outgoing]) -> None:
        for outgoing in messages:
            if outgoing.number in self.broken:
                raise self.broken[outgoing.number]
        self.sent.append([outgoing.number for outgoing in messages])
        self.by_number |= {outgoing.number: outgoing for outgoing in messages}

    async def close(self) -> None:
        self.receiver = None

    def confirm(self, *numbers: int) -> None:
        assert self.receiver is not None
        self.receiver.confirmed([self.by_number[number] for number in numbers])

    def refuse(self, number: int, failure: Failure = NO) -> None:
        assert self.receiver is not None
        self.receiver.failed(self.by_number[number], failure)

    def lose(self) -> None:
        assert self.receiver is not None
        self.receiver.lost(CUT)

    def take(self) -> list[list[int]]:
        """Return what was sent since the last call; an empty list stands for an opening of the target."""
        sent, self.sent = self.sent, []
        return sent


class Scene:
    """An open outlet with a script as its target, and a window whose deliveries go to it."""

    def __init__(
        self,
        policy: Policy = Policy(),  # noqa: B008  frozen
        *,
        has_dead_letters: bool = True,
        target: Script | None = None,
    ) -> None:
        self.target = target or Script()
        self.events = Events()
        self.dead: list[tuple[int, str]] = []
        self.settled: list[int] = []
        self.window = Window(1_000, 1 << 30, lambda delivery: self.settled.append(delivery.position))
        bury = self._bury if has_dead_letters else None
        self.outlet = Outlet(self.target, policy, self.events, lambda: 0.0, bury)
        self._running = asyncio.create_task(self.outlet.run())

    def _bury(self, outgoing: Outgoing, failure: Failure, _: str) -> None:
        self.dead.append((outgoing.number, failure.reason))
        pending: Pending = outgoing.context
        pending.window.finish_copy(pending)
        pending.window.settle()

    def send(self, *keys: str, first: int = 1, copies: int = 1) -> None:
        """Send a message of each key, numbered from ``first`` on."""
        deliveries = [Delivery(Message("", key), "lane", number) for number, key in enumerate(keys, first)]
        pendings = self.window.admit(deliveries, 0.0)
        for pending in pendings:
            pending.copies = copies
        self.outlet.send([
            Outgoing(each.delivery.message, each.delivery, "q", None, each.delivery.position, 0, each)
            for each in pendings
        ])  # fmt: skip


def play_scene(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


def test_a_second_confirm_of_a_message_does_not_confirm_another_copy() -> None:
    """A message that goes to two targets stays unsettled however often one of them confirms it."""

    async def play() -> None:
        scene = Scene()
        await pass_time(1)
        scene.send("a", "b", copies=2)
        scene.target.confirm(1, 1)
        scene.target.confirm(1)
        scene.target.confirm(2, 1)
        assert scene.settled == []
        assert scene.outlet.in_flight == 0
        assert [len(messages) for _, messages, _ in scene.events.calls_of("confirmed")] == [1, 0, 1]
        for pending in [pending for lane in scene.window._lanes.values() for pending in lane]:
            assert pending.copies == 1

    play_scene(play)


def test_what_another_reader_of_its_source_writes_is_settled_and_counts_as_nothing() -> None:
    """Neither as written, nor as refused; what waits behind it is sent."""

    async def play() -> None:
        scene = Scene(Policy(tries=9, backoff=Backoff(5, 5)))
        await pass_time(1)
        scene.send("a", "a", "b")
        scene.target.refuse(1)
        scene.target.refuse(3)
        limit = scene.window.limit = DeadLetterLimit(0.5, lambda *_: None)
        waiting = scene.target.by_number[3]
        while limit.permit(waiting.context, "q", "large", lambda: True, 0.0):
            """Ten are permitted in any case."""
        assert limit.is_reached
        await pass_time(6)
        before = len(scene.events.calls_of("refused"))
        for number in (1, 2, 3):
            scene.target.refuse(number, MOOT)
        assert (scene.settled, scene.outlet.in_flight, scene.outlet.held, scene.window.messages) == ([1, 2, 3], 0, 0, 0)
        assert not scene.window.limit.is_reached
        assert scene.dead == scene.events.calls_of("confirmed") == scene.events.calls_of("gave_up") == []
        assert len(scene.events.calls_of("refused")) == before
        assert [outgoing.number for _, outgoing in scene.events.calls_of("abandoned")] == [1, 2, 3]

    play_scene(play)


def test_messages_of_one_key_that_are_confirmed_together_are_not_sent_again() -> None:
    """They were under way when another one met back-pressure, and are confirmed when its gate is gone again."""

    async def play() -> None:
        scene = Scene(Policy(backoff=Backoff(5, 5), reconnect=Backoff(1, 1)))
        await pass_time(1)
        scene.send("a", "a", "a", "a", "b")
        scene.target.refuse(5, FULL)
        assert scene.target.take() == [[], [1, 2, 3, 4, 5]]
        await pass_time(2 * CALM)
        scene.target.confirm(1)
        scene.target.confirm(2)
        assert scene.target.take() == [[5]]
        scene.target.confirm(3, 4)
        assert scene.target.take() == []
        scene.target.confirm(5)
        assert scene.settled == [1, 2, 4, 5]
        assert scene.window.messages == 0

    play_scene(play)


def test_messages_sent_again_after_a_loss_keep_the_order_of_reading() -> None:
    """Not in that in which it was sent last."""

    async def play() -> None:
        scene = Scene(Policy(backoff=Backoff(1, 1), reconnect=Backoff(1, 1)))
        await pass_time(1)
        scene.send("a", "b", "c")
        for number in (3, 1, 2):
            scene.target.refuse(number)
            await pass_time(0.1)
        await pass_time(2)
        assert scene.target.take() == [[], [1, 2, 3], [3], [1], [2]]
        scene.send("d", "e", first=4)
        scene.target.lose()
        await pass_time(2)
        assert scene.target.take() == [[4, 5], [], [4, 5], [1, 2, 3]]

    play_scene(play)


def test_a_message_on_hold_is_counted_once_and_tried_for_ever() -> None:
    async def play() -> None:
        scene = Scene(Policy(tries=1, backoff=Backoff(1, 1)), has_dead_letters=False)
        await pass_time(1)
        scene.send("a")
        for _ in range(10):
            scene.target.refuse(1, NEVER)
            await pass_time(1.5)
        assert len(scene.events.calls_of("gave_up")) == 1
        assert len(scene.events.calls_of("refused")) == 10
        assert [pending.held_reason for pending in scene.window.on_hold()] == ["too large"]
        scene.target.confirm(1)
        assert scene.settled == [1]
        assert scene.outlet.held == 0

    play_scene(play)


class Hasty(Script):
    """Is lost while it is opened the first time; or that fails."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.opened: list[Receiver] = []

    async def open(self, receiver: Receiver) -> None:
        await super().open(receiver)
        self.opened.append(receiver)
        if len(self.opened) == 1:
            if self.fails:
                raise CUT
            receiver.lost(CUT)


def test_a_target_that_is_lost_while_it_is_opened_is_never_connected_over_that_connection() -> None:
    async def play() -> None:
        target = Hasty(fails=False)
        scene = Scene(target=target)
        await asyncio.sleep(0)
        while len(target.opened) < 2:
            assert not scene.outlet.connected
            await pass_time(0.01)
        assert scene.events.calls_of("connected") == [("script",)]
        scene.send("a")
        assert target.take() == [[], [], [1]]

    play_scene(play)


def test_a_connection_that_could_not_be_made_ends_no_later_one() -> None:
    async def play() -> None:
        target = Hasty(fails=True)
        scene = Scene(target=target)
        await pass_time(1)
        assert scene.outlet.connected
        target.opened[0].lost(CUT)  # what it had begun ends late
        await pass_time(1)
        assert scene.outlet.connected
        assert len(target.opened) == 2

    play_scene(play)


def test_a_queue_that_takes_nothing_for_too_long_makes_dead_letters_in_order() -> None:
    async def play() -> None:
        scene = Scene(Policy(backoff=Backoff(1, 1), give_up_after=10.0))
        await pass_time(1)
        scene.send(*"abcdea")
        for number in (4, 2, 6, 1, 5, 3):
            scene.target.refuse(number, FULL)
        for _ in range(20):
            await pass_time(1.5)
            for number in [number for numbers in scene.target.take()[-1:] for number in numbers]:
                if number in scene.outlet._in_flight:
                    scene.target.refuse(number, FULL)
        assert [number for number, _ in scene.dead] == [1, 2, 3, 4, 5, 6]
        assert scene.outlet.held == 0
        assert scene.settled == [1, 2, 3, 4, 5, 6]

    play_scene(play)


def test_what_a_queue_may_still_confirm_is_not_given_up_with_what_waits_for_it() -> None:
    async def play() -> None:
        scene = Scene(Policy(backoff=Backoff(1, 1), give_up_after=10.0))
        await pass_time(1)
        scene.send(*"abc")
        scene.target.refuse(1, FULL)
        await pass_time(12)
        scene.target.refuse(2, FULL)
        assert [number for number, _ in scene.dead] == [1, 2]
        scene.target.confirm(3)
        assert scene.settled == [1, 2, 3]
        assert (scene.outlet.held, scene.outlet.in_flight) == (0, 0)

    play_scene(play)


ANSWERS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["confirm", "confirm", "push back", "refuse", "lose"]), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 5.0])),
    ),
    max_size=40,
)


@examples(400)
@given(ANSWERS)
@example([("send", 0), ("send", 1), ("send", 2), ("push back", 0), ("send", 1), ("confirm", 1), ("wait", 1.0),
          ("confirm", 1)])  # fmt: skip
@example([("send", 0), ("refuse", 0), ("send", 0), ("send", 1)])
@example([("send", 0), ("send", 1), ("push back", 0), ("push back", 0), ("wait", 1.0), ("refuse", 0)])
def test_behind_a_queue_that_takes_nothing_no_message_is_sent_before_an_older_one_of_its_key_was_taken(  # noqa: PLR0915
    answers: list[tuple[str, Any]],
) -> None:
    """What was under way when the first was refused may pass it; what comes then passes nothing, however it goes on."""

    async def play() -> None:  # noqa: PLR0915
        scene = Scene(Policy(backoff=Backoff(0.5, 2.0), reconnect=Backoff(0.1, 0.1)))
        await pass_time(0.1)
        keys: list[int] = []  # of each message, by its number from 1
        confirmed: set[int] = set()
        under_way: list[int] = []
        sent: set[int] = set()
        refused_at: float | None = None
        refused: set[int] = set()  # and neither confirmed nor a dead letter since

        def look() -> None:
            for numbers in scene.target.take():
                if not numbers:
                    under_way.clear()
                for number in numbers:
                    older = {n for n, key in enumerate(keys[: number - 1], 1) if key == keys[number - 1]}
                    older -= {dead for dead, _ in scene.dead}
                    assert number in sent or not older & refused - confirmed
                    if refused_at is not None and asyncio.get_running_loop().time() - refused_at < CALM:
                        assert number in sent or older <= confirmed
                    under_way.append(number)
                    sent.add(number)
            if scene.outlet.connected:  # what leaves a gate leaves room for the next one at once
                assert all(gate.waits or gate.under_way or not gate._ready for gate in scene.outlet._gates.values())

        for what, argument in answers:
            await pass_time(0.0)
            look()
            if what == "send":
                keys.append(argument)
                scene.send(str(argument), first=len(keys))
            elif what == "wait":
                await pass_time(argument)
            elif scene.target.receiver is None:
                continue
            elif what == "lose":
                scene.target.lose()
                under_way.clear()
            elif under_way:
                number = under_way.pop(argument % len(under_way))
                if what == "confirm":
                    confirmed.add(number)
                    scene.target.confirm(number)
                elif what == "refuse":
                    refused.add(number)
                    scene.target.refuse(number)
                else:
                    refused_at = asyncio.get_running_loop().time()
                    scene.target.refuse(number, FULL)
            look()
        for _ in range(200):
            await pass_time(3)
            look()
            for number in [*under_way] if scene.target.receiver is not None else ():
                under_way.remove(number)
                confirmed.add(number)
                scene.target.confirm(number)
                look()
        assert confirmed | {number for number, _ in scene.dead} == set(range(1, len(keys) + 1))
        assert scene.settled[-1:] == [len(keys)][: len(keys)]

    run_virtually(play())


def test_a_message_that_is_refused_for_its_queue_is_tried_again_and_again() -> None:
    async def play() -> None:
        scene = Scene(Policy(backoff=Backoff(1, 4)))
        await pass_time(1)
        scene.send("a")
        times: list[float] = []
        for _ in range(8):
            scene.target.take()
            scene.target.refuse(1, FULL)
            begun = asyncio.get_running_loop().time()
            while not scene.target.sent:
                await pass_time(0.1)
            times.append(round(asyncio.get_running_loop().time() - begun))
        assert times == [1, 2, 4, 4, 4, 4, 4, 4]
        assert scene.dead == []

    play_scene(play)


@pytest.mark.parametrize("helps", [True, False])
def test_a_connection_that_confirmed_messages_does_not_count_as_a_failed_try(helps: bool) -> None:
    async def play() -> None:
        scene = Scene(Policy(reconnect=Backoff(1, 100)))
        for number in range(1, 6):
            while scene.target.receiver is None or not scene.outlet.connected:
                await pass_time(0.1)
            scene.send("a", first=number)
            if helps:
                scene.target.confirm(*scene.outlet._in_flight)
            scene.target.lose()
            await pass_time(0.1)
        waits = [wait for _, _, wait in scene.events.calls_of("disconnected")]
        assert waits == ([1, 1, 1, 1, 1] if helps else [1, 2, 4, 8, 16])

    play_scene(play)


def test_an_exception_caused_by_one_message_refuses_only_that_one() -> None:
    """Messages are sent one by one over the next connection to find the one."""

    async def play() -> None:
        scene = Scene(Policy(reconnect=Backoff(1, 1)))
        await pass_time(1)
        scene.target.broken[2] = ValueError("a mistake")
        scene.send("a", "b", "c")
        await pass_time(3)
        assert scene.target.take() == [[], [], [1], [3]]
        [(number, reason)] = scene.dead
        assert number == 2
        assert "a mistake" in reason
        scene.target.confirm(1, 3)
        assert scene.settled[-1] == 3

    play_scene(play)


def test_what_is_read_next_waits_for_a_batch_that_could_not_be_sent() -> None:
    async def play() -> None:
        scene = Scene(Policy(reconnect=Backoff(1, 1)))
        await pass_time(1)
        scene.target.broken[1] = ValueError("a mistake")
        scene.send("a", "b")
        del scene.target.broken[1]
        scene.send("a", "b", first=3)
        await pass_time(3)
        assert scene.target.take() == [[], [], [1], [2], [3], [4]]

    play_scene(play)


# The pump around it.

IN = Topology().declare_exchange(Exchange("in", "direct")).declare_queue(Queue("q"))
BOUND = Binding.to_queue("in", "q", "k")


class Breaking(MemorySource):
    """Shows that it is broken even while it is not read."""

    @property
    def lost(self) -> Disconnected | None:
        return Disconnected("broken") if self._broken else None


def test_a_message_on_hold_that_nothing_routes_is_counted_once_and_goes_when_it_can() -> None:
    """After its source has given it again, it goes once."""

    async def play() -> None:
        events, target, router = Events(), MemoryTarget(), Router(IN)
        source = Breaking([Message("in", "k")])
        policy = Policy(unroutable=Unroutable.HOLD, backoff=Backoff(1, 10), reconnect=Backoff(1, 1))
        pump = Pump([Inlet(source)], router, {"q": target}, events, policy)
        running = asyncio.create_task(pump.run())
        await pass_time(95)
        assert len(events.calls_of("unroutable")) == 1
        source.break_connection()
        await pass_time(5)
        assert len(events.calls_of("unroutable")) == 2  # it was read again
        router.bind(BOUND)
        await pass_time(30)
        assert len(target.messages) == 1
        assert not source.unsettled
        pump.stop()
        await running

    play_scene(play)


@pytest.mark.parametrize("hops", [7, 8, 9])
def test_a_message_that_has_passed_more_than_max_hops_bridges_becomes_a_dead_letter(hops: int) -> None:
    async def play() -> None:
        target, dead = MemoryTarget("t"), MemoryTarget("dead")
        source = MemorySource([Message("in", "k", {HOPS: hops})])
        source.end()
        pump = Pump([Inlet(source)], Router(IN.bind(BOUND)), {"q": target}, Events(), Policy(max_hops=8), dead)
        await pump.run()
        assert (len(target.messages), len(dead.messages)) == ((1, 0) if hops <= 8 else (0, 1))

    play_scene(play)


def test_dead_letters_wait_however_long_their_target_takes_nothing() -> None:
    """They have no other target, so they are neither given up nor packed because of back-pressure."""

    async def play() -> None:
        room: list[bool] = []
        # A packed one is taken: it would be packed once more at each try, and grow beyond all memory.
        dead = MemoryTarget("dead", lambda letter: None if room or is_packed(letter.message) else FULL)
        source = MemorySource([Message("in", "nowhere", {"n": 1})])
        source.end()
        policy = Policy(backoff=Backoff(1, 10), give_up_after=60.0)
        pump = Pump([Inlet(source)], Router(IN), {"q": MemoryTarget("t")}, Events(), policy, dead)
        running = asyncio.create_task(pump.run())
        await pass_time(3_600)
        room.append(True)
        await asyncio.wait_for(running, 600)
        [letter] = dead.messages
        assert letter.message.headers["n"] == 1
        assert not source.unsettled

    play_scene(play)
