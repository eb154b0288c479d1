"""A delivery is settled with the last of its copies and dead letters, whichever queues it reaches and in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing, Receiver, Target
from bridge.endpoints.memory import MemorySource
from bridge.interop.requests import KAFKA, RABBITMQ
from bridge.interop.return_address import Sealer
from bridge.pump.inlet import Inlet
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.pump import Pump
from bridge.pump.replies import Callers, Replies, Servers
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.partition import PartitionRequest
from exchange.partition.partitioning import Partitioning
from exchange.partition.python_function import PythonFunction
from tests.support.bridge.events import Events
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

NOW = 1_795_000_000.0


class Waiting(Target):
    """A target that confirms nothing by itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.receiver: Receiver | None = None
        self.sent: list[Outgoing] = []

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.sent += messages

    async def close(self) -> None:
        self.receiver = None


class Incomplete(MemorySource):
    """Gives messages that its system holds only in part."""

    async def read(self, limit: int) -> Sequence[Delivery]:
        return [replace(delivery, refusal="a part of it is missing") for delivery in await super().read(limit)]


def choose(request: PartitionRequest) -> int:
    return 0


def refuse(request: PartitionRequest) -> int:
    raise ValueError("no partition for it")


QUEUES = st.lists(
    st.tuples(
        st.sampled_from(["plain", "served", "ignored"]), st.sampled_from([None, choose, refuse])
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@examples(400)
@given(
    QUEUES, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([Unroutable.DROP, Unroutable.DEAD_LETTER]),
    st.randoms(use_true_random=False),
)  # fmt: skip
@example([("served", None), ("served", refuse)], True, False, False, Unroutable.DROP, Random(1))
@example([("plain", choose), ("plain", refuse)], False, False, False, Unroutable.DROP, Random(1))
@example([("served", None), ("plain", None)], True, True, False, Unroutable.DEAD_LETTER, Random(1))
@example([("plain", None), ("ignored", None)], False, False, True, Unroutable.DROP, Random(1))
def test_a_delivery_is_settled_when_all_of_its_copies_and_dead_letters_are_confirmed_and_not_before(
    queues: list[tuple[str, object]], asks: bool, expired: bool, refused: bool, fate: Unroutable, chance: Random
) -> None:
    names = [f"q{n}" for n in range(len(queues))]
    topology = Topology(
        [Exchange("in", "fanout")],
        [
            Queue(name, partitioning=None if own is None else Partitioning.parse(f"python:own:{name} over 3"))
            for name, (_, own) in zip(names, queues, strict=True)
        ],
        [Binding.to_queue("in", name) for name in names],
    )
    wanted, wanted_dead = 0, 0
    for kind, own in queues:
        if kind == "ignored":
            continue
        if own is refuse:
            wanted_dead += 1
        elif kind == "served" and asks and expired:
            wanted_dead += fate is Unroutable.DEAD_LETTER
        else:
            wanted += 1
    if refused:  # whichever queues it would reach
        wanted, wanted_dead = 0, 1

    async def play() -> None:
        plain, served, dead, home = [Waiting(name) for name in ("plain", "served", "dead", "home")]
        sealer = Sealer("asking", "here")
        between = Replies(
            {served: Servers(KAFKA, "place", {"asking": sealer}, 5.0, fate)}, {"asking": Callers(RABBITMQ, home)}
        )
        properties = {"reply_to": "amq.gen-1", "correlation_id": "7"} if asks else {}
        if expired:
            properties["expiration"] = "0"
        kind_of_source = Incomplete if refused else MemorySource
        source = kind_of_source([Message("in", "k", {}, properties, b"ask")], "asking")
        source.end()
        kinds = {name: kind for name, (kind, _) in zip(names, queues, strict=True)}
        pump = Pump(
            [Inlet(source)], Router(topology),
            {name: served if kind == "served" else plain for name, kind in kinds.items() if kind != "ignored"},
            Events(), Policy(), dead, frozenset(name for name, kind in kinds.items() if kind == "ignored"),
            clock=lambda: NOW, replies=between,
            partitioners={
                name: PythonFunction(f"own:{name}", function=own)  # type: ignore[arg-type]
                for name, (_, own) in zip(names, queues, strict=True) if own is not None
            },
        )  # fmt: skip
        running = asyncio.create_task(pump.run())
        await pass_time(10)
        assert len(plain.sent) + len(served.sent) == wanted
        assert len(dead.sent) == wanted_dead
        answers = [(target, outgoing) for target in (plain, served, dead) for outgoing in target.sent]
        chance.shuffle(answers)
        for target, outgoing in answers:
            assert source.unsettled == 1
            assert target.receiver is not None
            target.receiver.confirmed([outgoing])
        assert source.unsettled == 0
        await running

    run_virtually(play())
