"""However long a broker was away, messages move again within seconds after it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Outgoing, Receiver
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.behaviour import Silent
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

ROUTER = Router(Topology([Exchange("in", "fanout")], [Queue("q")], [Binding.to_queue("in", "q", "")]))

NOTICED = 5.0
"""Maximum number of seconds until a message moves once the broker is back, unless a try to connect takes longer."""


class Outage:
    """The time in which a broker is away, and what that does to whom."""

    def __init__(self, kind: str, begin: float, seconds: float, hangs: float) -> None:
        self.kind, self.begin, self.end, self.hangs = kind, begin, begin + seconds, hangs

    def strikes(self, kind: str) -> bool:
        return self.kind in (kind, "both") and self.begin <= asyncio.get_running_loop().time() < self.end

    async def refuse(self, kind: str) -> None:
        """Raise Disconnected in the outage, after a while."""
        if self.strikes(kind):
            await pass_time(self.hangs)
            raise Disconnected("away")


class Reading(MemorySource):
    """A source whose broker is away at times."""

    outage: Outage

    async def open(self) -> None:
        await self.outage.refuse("source")
        await super().open()

    async def read(self, limit: int) -> Sequence[Delivery]:
        if self.outage.strikes("source"):
            raise Disconnected("away")
        return await super().read(limit)


class Written(MemoryTarget):
    """A target whose broker is away at times."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(fault=self._answer_for)
        self.outage = outage
        self.times: list[float] = []

    def _answer_for(self, _: Outgoing) -> Disconnected | None:
        if self.outage.strikes("target"):
            return Disconnected("away")
        self.times.append(asyncio.get_running_loop().time())
        return None

    async def open(self, receiver: Receiver) -> None:
        await self.outage.refuse("target")
        await super().open(receiver)


@pytest.mark.parametrize("kind", ["source", "target", "both"])
@examples(100)
@given(
    begin=st.floats(0, 100), seconds=st.floats(0, 500), hangs=st.sampled_from([0.0, 3.0, 12.0]),
    seed=st.integers(0, 1 << 20),
)  # fmt: skip
@example(begin=1.0, seconds=20_000.0, hangs=0.0, seed=0)
def test_messages_move_within_seconds_after_a_broker_is_back(
    kind: str, begin: float, seconds: float, hangs: float, seed: int
) -> None:
    async def live() -> None:
        outage = Outage(kind, begin, seconds, hangs)
        source, target = Reading(), Written(outage)
        source.outage = outage
        running = asyncio.create_task(
            Pump([Inlet(source)], ROUTER, {"q": target}, Silent(), Policy(), random=Random(seed).random).run()
        )
        await pass_time(begin + seconds / 2)
        source.put(Message("in", "k"))
        await pass_time(seconds / 2 + max(NOTICED, hangs) + 1e-6)
        assert len(target.times) == 1
        running.cancel()

    run_virtually(live())
