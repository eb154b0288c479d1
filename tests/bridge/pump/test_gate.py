"""Back-pressure: how a queue that takes nothing is tried, and when it needs no gate any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.memory import MemoryTarget
from bridge.pump.gate import CALM, Gate
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Attempts, Backoff, Policy
from bridge.pump.window import Pending, Window
from exchange import Message
from tests.support.bridge.behaviour import Silent
from tests.support.virtual_loop import pass_time, run_virtually

FULL = Failure("nack", busy=True)


def outgoing(number: int) -> Outgoing:
    return Outgoing(Message("", f"k.{number}"), Delivery(Message("", "")), "q", number=number)


def numbers(gate: Gate) -> list[int]:
    return [each.number for each in gate.take(lambda _: True)]


def test_after_a_refusal_one_message_is_tried_then_twice_as_many_with_each_success() -> None:
    gate = Gate()
    assert gate.refuse(FULL, 0.0)
    for number in range(20):
        gate.offer(outgoing(number))
    assert numbers(gate) == []
    gate.reopen()
    assert numbers(gate) == [0]
    assert numbers(gate) == []
    gate.under_way.discard(0)
    gate.accept()
    assert numbers(gate) == [1, 2]
    for number in (1, 2):
        gate.under_way.discard(number)
        gate.accept()
    assert len(numbers(gate)) == 8


def test_only_one_of_many_refusals_starts_the_timer() -> None:
    gate = Gate()
    assert [gate.refuse(FULL, 1.0) for _ in range(3)] == [True, False, False]
    assert (gate.attempts, gate.since) == (1, 1.0)
    gate.reopen()
    assert gate.refuse(FULL, 5.0)
    assert (gate.attempts, gate.since) == (2, 1.0)


def test_a_success_resets_the_count_of_tries() -> None:
    gate = Gate()
    gate.refuse(FULL, 1.0)
    gate.reopen()
    gate.accept()
    gate.refuse(FULL, 9.0)
    assert (gate.attempts, gate.since) == (1, 9.0)


def test_a_queue_without_refusals_for_long_needs_no_gate() -> None:
    gate = Gate()
    gate.refuse(FULL, 0.0)
    assert not gate.is_calm(CALM)
    gate.reopen()
    gate.accept()
    assert not gate.is_calm(CALM / 2)
    assert gate.is_calm(CALM)


def test_a_short_connection_does_not_reset_the_backoff() -> None:
    attempts = Attempts(Backoff(1.0, 8.0), lambda: 0.0)
    assert [attempts.next_wait() for _ in range(3)] == [1.0, 2.0, 4.0]
    attempts.note_connection(0.5, progressed=False)
    assert attempts.next_wait() == 8.0
    attempts.note_connection(60.0, progressed=False)
    assert attempts.next_wait() == 1.0


def test_a_short_connection_over_which_messages_moved_resets_the_backoff() -> None:
    attempts = Attempts(Backoff(1.0, 8.0), lambda: 0.0)
    assert [attempts.next_wait() for _ in range(3)] == [1.0, 2.0, 4.0]
    attempts.note_connection(0.5, progressed=True)
    assert attempts.next_wait() == 1.0


class Full(MemoryTarget):
    """Takes a number of messages, and refuses further ones until they are read."""

    def __init__(self, room: int) -> None:
        super().__init__("full", self._look)
        self.room = room
        self.tried = 0

    def _look(self, _: Outgoing) -> Failure | Disconnected | None:
        self.tried += 1
        if not self.room:
            return FULL
        self.room -= 1
        return None


async def run_outlet(target: Full, messages: int, policy: Policy, seconds: float) -> tuple[Outlet, list[str]]:
    """Send messages to a target for ``seconds``; return the outlet, and the reasons of dead letters."""
    dead: list[str] = []
    outlet = Outlet(target, policy, Silent(), lambda: 0.0, lambda _, failure, __: dead.append(failure.reason))
    window = Window(messages, 1 << 30, lambda _: None)
    deliveries = [Delivery(Message("", f"k.{n % 3}", {"n": n}), 0, n) for n in range(messages)]
    running = asyncio.create_task(outlet.run())
    await pass_time(0.1)
    pendings: Sequence[Pending] = window.admit(deliveries, 0.0)
    outlet.send(
        [
            Outgoing(pending.delivery.message, pending.delivery, "q", None, n, 0, pending)
            for n, pending in enumerate(pendings, 1)
        ]
    )
    await pass_time(seconds)
    running.cancel()
    return outlet, dead


def test_a_full_queue_makes_no_dead_letters_and_is_tried_less_and_less_often() -> None:
    async def run() -> None:
        target = Full(2)
        outlet, dead = await run_outlet(target, 500, Policy(1_000, tries=3), 3_600.0)
        assert not dead
        assert len(target.messages) == 2
        assert target.tried <= 500 + 3_600 / 15 + 20
        assert outlet.waiting == {"q": FULL}

    run_virtually(run())


def test_after_give_up_after_all_that_waits_becomes_dead_letters() -> None:
    async def run() -> None:
        target = Full(2)
        outlet, dead = await run_outlet(target, 500, Policy(1_000, tries=3, give_up_after=600.0), 700.0)
        assert len(dead) == 498
        assert not outlet.held

    run_virtually(run())


def test_a_queue_that_is_read_slowly_gets_all_in_order() -> None:
    async def run() -> None:
        target = Full(1)

        async def read() -> None:
            while True:
                await pass_time(1.0)
                target.room = 2

        reading = asyncio.create_task(read())
        _, dead = await run_outlet(target, 60, Policy(1_000, tries=2), 600.0)
        reading.cancel()
        assert not dead
        arrived = [o.message.headers["n"] for o in target.messages]
        assert [sorted(n for n in arrived if n % 3 == key) for key in range(3)] == [
            [n for n in arrived if n % 3 == key] for key in range(3)
        ]
        assert sorted(arrived) == list(range(60))

    run_virtually(run())
