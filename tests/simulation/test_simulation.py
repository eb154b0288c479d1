"""Simulated lives of a bridge: no seed breaks a promise, and one that does is found again, made small, and printed."""

from __future__ import annotations

import asyncio
import socket
from random import Random
from threading import Thread
from typing import Final

import pytest

from bridge.aside import call_aside
from bridge.pump.window import Window
from tests.simulation.loop import Spinning, simulate
from tests.simulation.plan import Fault, Plan, make_plan
from tests.simulation.run import play
from tests.simulation.shrink import shrink
from tests.support.tiers import scale
from tests.support.virtual_loop import pass_time

FOUND: Final = {
    "a queue that is made anew as a stream is read from its end": Plan(
        seed=0, sources=("rabbitmq",), messages=4, faults=(Fault(at=0.553, where="rabbitmq-0", what="remade"),)
    ),
    "a message that has waited becomes a dead letter when it is refused once": Plan(
        seed=3, sources=("log",), messages=3, span=0.5,
        faults=(
            Fault(at=0.081, where="all", what="wait", seconds=15.0, number=1),
            Fault(at=0.272, where="all", what="refuse", seconds=90.0, number=1),
        ),
    ),
    "what is read next overtakes a batch that cannot be sent": Plan(
        seed=0, sources=("kafka",), messages=33, odd=((14, "raises"),), span=0.5, window=20,
        faults=(Fault(at=2.683, where="dead", what="down", seconds=2.0),),
    ),
    "an offset that was committed passes over what another leader has there": Plan(
        seed=0, sources=("kafka",), messages=6, keys=8, span=10.0,
        faults=(
            Fault(at=4.074, where="kafka-0", what="lose", seconds=0.3, number=3),
            Fault(at=4.242, where="kafka-0", what="cut off", seconds=0.02, number=2),
        ),
    ),
    "what was read and not settled is forgotten when its log loses its end": Plan(
        seed=1, sources=("kafka",), messages=20, odd=((4, "raises"),), window=1,
        faults=(Fault(at=0.516, where="kafka-0", what="cut off", seconds=15.0, number=2),),
    ),
    "the answer to a commit of the log before counts as that of the same offset in the log that took its place": Plan(
        seed=3, sources=("queue", "kafka"), messages=4, window_bytes=2,
        faults=(
            Fault(at=0.082, where="odd", what="wait", seconds=15.0, number=1),
            Fault(at=1.686, where="kafka-1", what="cut off", seconds=90.0, number=5),
        ),
    ),
    "a client whose topic is made anew between its first metadata and the first look at ids stands still": Plan(
        seed=0, sources=("kafka",), messages=1, faults=(Fault(at=0.165, where="kafka-0", what="remade", number=4),)
    ),
    "an offset of a topic of RocketMQ that was deleted passes over messages of the one made anew": Plan(
        seed=1, sources=("rocketmq",), messages=16, keys=1,
        faults=(Fault(at=1.0, where="rocketmq-0", what="remade", seconds=0.02, number=1),),
    ),
    "a queue that begins anew is read from its old offset on if that of its beginning cannot be committed": Plan(
        seed=0, sources=("rocketmq",), messages=16, keys=1,
        faults=(
            Fault(at=1.0, where="rocketmq-0", what="remade", seconds=2.0),
            Fault(at=1.0, where="rocketmq-0", what="commit", seconds=17.0),
        ),
    ),
    "a pull that has waited commits, to a topic that was made anew since": Plan(
        seed=30000273, sources=("orderly",), messages=6, span=10.0,
        faults=(
            Fault(at=3.27, where="orderly-0", what="rebalance", seconds=90.0),
            Fault(at=3.274, where="orderly-0", what="remade", seconds=0.3, number=2),
        ),
    ),
    "a transaction waits for a message that waits for another one inside, of the same key": Plan(
        seed=0, sources=("kafka",), targets="transactional", messages=9,
        odd=((1, "unroutable"), (2, "refused"), (4, "refused")), one_at_a_time=True,
    ),
    "a reload reads from a source that is being opened": Plan(
        seed=1, sources=("share",), messages=40, keys=8, span=10.0,
        faults=(
            Fault(at=3.802, where="all", what="lose", seconds=0.02, number=5),
            Fault(at=4.328, where="share-0", what="lose", seconds=15.0, number=2),
            Fault(at=4.548, where="bridge", what="reload", seconds=15.0, number=4),
        ),
    ),
    "a transaction waits for a message that waits behind as many as it takes": Plan(
        seed=963, sources=("kafka",), targets="partly", messages=40, keys=8, odd=((18, "raises"), (28, "unroutable")),
        span=0.5, window=20, tries=1, one_at_a_time=True,
        faults=(Fault(at=0.753, where="dead", what="lose", seconds=90.0),),
    ),
    "a member whose heartbeat waited in a broker that hangs is one for ever": Plan(
        seed=2, sources=("rocketmq",), messages=1,
        faults=(
            Fault(at=0.05, where="rocketmq-0", what="hang", seconds=15.0, number=3),
            Fault(at=1.894, where="bridge", what="kill", seconds=0.3),
        ),
    ),
}  # fmt: skip
"""What was wrong, with the bridge or, as the last two, with a model -> the plan that showed it, as printed by
`python -m tests.simulation`."""


@pytest.mark.parametrize("plan", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_mended(plan: Plan) -> None:
    assert not play(plan).broken


@pytest.mark.parametrize("block", range(5))
def test_no_seed_breaks_a_promise(block: int) -> None:
    for seed in range(block * 1_000_000, block * 1_000_000 + scale(500, share=25)):
        broken = play(make_plan(seed)).broken
        assert not broken, f"seed {seed}: {broken[0]}; see: python -m tests.simulation {seed}"


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_is_the_same_life_each_time(seed: int) -> None:
    assert play(make_plan(seed)) == play(make_plan(seed))


def settle_past_unfinished(window: Window) -> None:
    """Settle each lane up to its last delivery that is done, though others before it are not."""
    for name in window.touched & window._lanes.keys():
        lane = window._lanes[name]
        while any(not pending.copies for pending in lane):
            last = lane.popleft().delivery
            window.messages -= 1
            window.bytes -= last.size
            window._settle(last)
        if not lane:
            del window._lanes[name]
    window.touched.clear()


def test_a_mistake_is_found_made_small_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Window, "settle", settle_past_unfinished)
    lost = "at least once"
    plans = [plan for plan in map(make_plan, range(400, 600)) if plan.sources == ("queue",) and plan.targets == "model"]
    plan = next(plan for plan in plans if any(each.promise == lost for each in play(plan).broken[:1]))
    small = shrink(plan, lost)
    assert play(small).broken[0].promise == lost
    assert small.messages <= 8
    assert len(small.faults) <= 2
    assert eval(str(small), {"Plan": Plan, "Fault": Fault}) == small  # noqa: S307  what a test is made of
    monkeypatch.undo()
    assert not play(small).broken


def test_callbacks_of_one_moment_run_in_the_order_of_the_seed() -> None:
    async def work() -> list[int]:
        order: list[int] = []
        for number in range(5):
            asyncio.get_running_loop().call_soon(order.append, number)
        await pass_time(3_600)
        return order

    orders = {seed: simulate(work(), Random(seed)) for seed in range(20)}
    assert {seconds for _, seconds in orders.values()} == {3_600}
    assert len({tuple(order) for order, _ in orders.values()}) > 5
    assert orders == {seed: simulate(work(), Random(seed)) for seed in range(20)}


def test_calls_aside_take_virtual_time_and_threads_and_sockets_are_refused() -> None:
    async def work() -> tuple[int, int]:
        return await call_aside(lambda: 3), await asyncio.to_thread(lambda: 4)

    results, seconds = simulate(work(), Random(1))
    assert results == (3, 4)
    assert 0 < seconds < 1

    async def start() -> None:
        Thread(target=print, name="other").start()

    async def connect() -> None:
        one, other = socket.socketpair()
        one.setblocking(False)
        with one, other:
            await asyncio.get_running_loop().sock_recv(one, 1)

    for refused in (start, connect):
        with pytest.raises(AssertionError, match="the simulation has no"):
            simulate(refused(), Random(1))


def test_what_spins_without_waiting_is_found() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  this is what is tested
            await asyncio.sleep(0)

    with pytest.raises(Spinning):
        simulate(spin(), Random(1))
