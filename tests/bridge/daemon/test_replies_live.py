"""Calls through a bridge between real brokers, while the bridge is killed: each is answered or times out.

A reply names the request that it is for, so a reply to another call would be seen. ``HASHSTAR_CALLS=10000`` makes that
many calls, over all pairs of systems, and kills the bridge twice in each; without it, two pairs and one kill suffice.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

from bridge.interop.requests import CONVENTIONS
from tests.chaos.daemon import Daemon
from tests.support.bridge.callers import KafkaSide, RabbitmqSide, RocketmqSide, Side, TimedOut, answer_to
from tests.support.servers import Server
from tests.support.waiting import find_limit

PAIRS = [(one, other) for one in CONVENTIONS for other in CONVENTIONS if one != other]
IN_CI = [("rabbitmq", "kafka"), ("rocketmq", "rabbitmq")]

WANTED = int(os.environ.get("HASHSTAR_CALLS", "0"))
CALLS = -(-WANTED // len(PAIRS)) if WANTED else 300
KILLS = 2 if WANTED else 1
SECONDS = 30.0
"""Time limit of a call: a group of Kafka takes ten seconds to notice that its member was killed."""
AT_ONCE = 50


@pytest.mark.parametrize(("callers", "servers"), PAIRS if WANTED else IN_CI)
def test_each_call_is_answered_once_or_times_out_while_the_bridge_is_killed(
    tmp_path: Path, callers: str, servers: str, rabbitmq: Server, kafka: Server, rocketmq: Server
) -> None:
    sides: dict[str, Side] = {
        "rabbitmq": RabbitmqSide(rabbitmq.url, queue=servers == "kafka"),
        "kafka": KafkaSide(kafka.url),
        "rocketmq": RocketmqSide(rocketmq.url),
    }
    outcomes, took = asyncio.run(call_through(tmp_path, sides[callers], sides[servers]))
    print(f"{callers} -> {servers}: {dict(outcomes)} in {took:.1f} s")
    assert set(outcomes) <= {"answered", "timed out"}
    assert outcomes.total() == CALLS
    assert outcomes["answered"] >= CALLS // 2


async def call_through(folder: Path, asking: Side, serving: Side) -> tuple[Counter[str], float]:
    """Make calls through a bridge that is killed meanwhile; return how they ended, and the seconds that it took."""
    await asking.prepare()
    await serving.prepare()
    rest = f"[replies.to]\n{serving.replies()}\n"
    bridge = Daemon(folder, asking.source(), serving.target(), 200, rest=rest)
    bridge.start()
    try:
        async with serving.serve(), asking.caller(SECONDS) as call:
            until = monotonic() + find_limit()
            while not await asyncio.to_thread(lambda: bridge.is_ready):
                assert bridge.code is None
                assert monotonic() < until, list(bridge.events())
                await asyncio.sleep(0.2)
            outcomes, room = Counter[str](), asyncio.Semaphore(AT_ONCE)
            milestones = {CALLS * kill // (KILLS + 1): asyncio.Event() for kill in range(1, KILLS + 1)}

            async def call_once(body: bytes) -> None:
                async with room:
                    try:
                        outcome = "answered" if await call(body) == answer_to(body) else "answered wrongly"
                    except TimedOut:
                        outcome = "timed out"
                    outcomes[outcome] += 1
                    if (milestone := milestones.get(outcomes.total())) is not None:
                        milestone.set()

            began = monotonic()
            calls = [asyncio.create_task(call_once(b"%d" % n)) for n in range(CALLS)]
            for milestone in milestones.values():
                await milestone.wait()
                bridge.kill()
                bridge.start()
            await asyncio.gather(*calls)
            return outcomes, monotonic() - began
    finally:
        bridge.kill()
