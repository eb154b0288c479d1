"""Messages that an exchange returns wait, or are at fault: by what it routed and by time, never by their number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Outgoing, Receiver, Target
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.rabbitmq.unrouted import LONE, MAX_IDENTITIES, PROOF, Unrouted
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.events import Events
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

PATIENCE = 30.0


class Slow:
    """The same decision from the list of all that happened: when, what, to which identity."""

    def __init__(self, *, by_headers: bool) -> None:
        self.by_headers = by_headers
        self.log: list[tuple[float, str, str]] = []

    def lone(self, log: Sequence[tuple[float, str, str]]) -> int:
        latest = takewhile(lambda entry: entry[1] != "routed", reversed(log))
        return sum(what == "lone" for _, what, _ in latest)

    def waits(self, identity: str, log: Sequence[tuple[float, str, str]]) -> list[float]:
        """Return the times of its returns, if it was never routed, the latest first."""
        own = [entry for entry in reversed(log) if entry[2] == identity]
        return [time for time, _, _ in takewhile(lambda entry: entry[1] != "routed", own)]

    def proved_at(self) -> float:
        proved = -inf
        for at, (time, what, identity) in enumerate(self.log):
            before = self.log[:at]
            if what in ("connection", "known"):
                proved = -inf
            elif what == "fault" or (what == "routed" and self.lone(before) and not self.waits(identity, before)):
                proved = time
        return proved

    def judge(self, identity: str, now: float) -> str:
        since = min([now, *self.waits(identity, self.log)])
        if any(what == "routed" and each == identity for _, what, each in self.log):
            return "known"
        if now - since < PATIENCE and now - self.proved_at() >= PROOF:
            return "waits"
        if any(what == "routed" and time >= since for time, what, _ in self.log):
            return "fault"
        return "lone" if self.by_headers and self.lone(self.log) < LONE else "waits"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["routed", "returned", "returned", "returned", "connection"]),
        st.sampled_from("abcd"), st.sampled_from([0.0, 0.5, 31.0, 601.0]),
    ),
    max_size=40,
)  # fmt: skip


@examples(400)
@given(st.booleans(), STEPS)
@example(False, [("routed", "a", 0.0), ("returned", "b", 0.0), ("routed", "a", 31.0), ("returned", "b", 31.0),
                 ("returned", "a", 0.5), ("returned", "d", 0.0), ("routed", "c", 0.5),
                 ("returned", "d", 0.0)])  # fmt: skip
@example(False, [("routed", "a", 0.0), ("returned", "b", 0.0), ("routed", "a", 31.0), ("returned", "b", 0.0),
                 ("returned", "c", 0.5), ("routed", "a", 0.5), ("returned", "c", 0.0)])  # fmt: skip
@example(True, [("returned", "b", 0.0), ("returned", "b", 31.0), *[("returned", "b", 0.0)] * LONE])
def test_the_decision_is_that_of_a_slow_look_at_all_that_happened(
    by_headers: bool, steps: list[tuple[str, str, float]]
) -> None:
    unrouted, slow, now = Unrouted(PATIENCE), Slow(by_headers=by_headers), 0.0
    unrouted.by_headers[b"x"] = by_headers
    for what, letter, seconds in steps:
        now += seconds
        name = "" if what == "connection" else letter
        message = Message("", "k", {"name": name, "x-hashstar-id": str(now)} if by_headers else {"n": now})
        key = b"k" if by_headers else name.encode()
        entry = what
        if what == "connection":
            unrouted.note_connection()
            unrouted.by_headers[b"x"] = by_headers
        elif what == "routed":
            unrouted.note_routed(b"x", key, message, now)
        else:
            failure = unrouted.judge(b"x", key, message, "returned", now)
            entry = slow.judge(name, now)
            assert failure.final == (entry in ("fault", "lone"))
            assert failure.waits != failure.final
            assert not failure.busy
        slow.log.append((now, entry, name))


def test_memory_is_bounded() -> None:
    unrouted = Unrouted(PATIENCE)
    for n in range(MAX_IDENTITIES + 5):
        unrouted.note_routed(b"x", b"good.%d" % n, Message("", ""), 1.0)
        unrouted.judge(b"x", b"bad.%d" % n, Message("", ""), "returned", 1.0)
    [known] = unrouted._exchanges.values()
    assert len(known.routed) == len(known.waiting) == MAX_IDENTITIES


class ModelTarget(Target):
    """An exchange that routes what ``routes`` says, and returns all else, a moment after it was published."""

    name = "exchange"

    def __init__(self, routes: Callable[[Message], bool], by_headers: bool | None) -> None:
        self.routes = routes
        self.by_headers = by_headers
        self.unrouted = Unrouted(PATIENCE)
        self.arrived: list[int] = []

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.unrouted.note_connection()
        if self.by_headers is not None:
            self.unrouted.by_headers[b"x"] = self.by_headers

    def send(self, messages: Sequence[Outgoing]) -> None:
        asyncio.get_running_loop().call_later(0.002, self._answer, [*messages])

    def _answer(self, messages: Sequence[Outgoing]) -> None:
        now = asyncio.get_running_loop().time()
        for outgoing in messages:
            message = outgoing.message
            key = message.routing_key.encode()
            if self.routes(message):
                self.unrouted.note_routed(b"x", key, message, now)
                self.arrived.append(int(message.body))
                self.receiver.confirmed([outgoing])
            else:
                self.receiver.failed(outgoing, self.unrouted.judge(b"x", key, message, "returned: 312", now))

    async def close(self) -> None:
        """Do nothing."""


class Scene:
    """A pump that writes to such an exchange."""

    def __init__(
        self, routes: Callable[[Message], bool], by_headers: bool | None = False, policy: Policy | None = None
    ) -> None:
        self.source, self.dead = MemorySource(), MemoryTarget("dead")
        self.target = ModelTarget(routes, by_headers)
        topology = Topology([Exchange("in", "fanout")], [Queue("q")]).bind(Binding.to_queue("in", "q"))
        self.pump = Pump(
            [Inlet(self.source, exchange="in")], Router(topology), {"q": self.target}, Events(), policy or Policy(),
            self.dead,
        )  # fmt: skip
        self.sent = 0

    def put(self, key: str, kind: str = "") -> None:
        self.source.put(Message("", key, {"kind": kind} if kind else {}, body=b"%d" % self.sent))
        self.sent += 1

    @property
    def dead_bodies(self) -> list[int]:
        return sorted(int(outgoing.message.body) for outgoing in self.dead.messages)


def play(scene: Scene, act: Callable[[], Awaitable[None]], *, ends: bool = True) -> None:
    async def run() -> None:
        running = asyncio.ensure_future(scene.pump.run())
        await act()
        if ends:
            scene.source.end()
            await asyncio.wait_for(running, 3_600)
            assert not scene.source.unsettled
            assert sorted(scene.target.arrived + scene.dead_bodies) == [*range(scene.sent)]

    run_virtually(run())


@pytest.mark.parametrize("seconds", [0.001, 2.5, 60.0])
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "beside others"])
def test_a_key_whose_queue_is_remade_waits_however_long_and_however_many(seconds: float, shared: bool) -> None:
    gone: set[str] = set()
    scene = Scene(lambda message: message.routing_key not in gone)

    async def act() -> None:
        scene.put("a")
        scene.put("b")
        await pass_time(1)
        gone.update({"a"} if shared else {"a", "b"})
        for _ in range(100):
            scene.put("a")
            scene.put("b")
            await pass_time(seconds)
        await pass_time(3_600)
        gone.clear()
        await pass_time(60)
        assert not scene.dead_bodies

    play(scene, act)


def test_a_topology_that_comes_late_costs_nothing() -> None:
    there = False
    scene = Scene(lambda _: there)

    async def act() -> None:
        nonlocal there
        for n in range(20):
            scene.put(f"k.{n}")
        await pass_time(1_200)
        there = True
        await pass_time(60)
        assert not scene.dead_bodies

    play(scene, act)


def test_a_wrong_key_is_at_fault_after_the_patience_if_others_are_routed() -> None:
    scene = Scene(lambda message: message.routing_key != "wrong")

    async def act() -> None:
        scene.put("good")
        scene.put("wrong")
        await pass_time(5)
        scene.put("good")
        await pass_time(PATIENCE - 6)
        assert not scene.dead_bodies
        await pass_time(8)
        assert scene.dead_bodies == [1]

    play(scene, act)


def test_steady_wrong_keys_stop_a_source_once_and_not_again() -> None:
    """What waits keeps what was read behind it from being settled, so a patience for each would halt the source."""
    scene = Scene(lambda message: message.routing_key.startswith("good"), policy=Policy(window=200))

    async def act() -> None:
        for n in range(20_000):
            scene.put(f"wrong.{n}" if n % 50 == 7 else f"good.{n % 40}")
        await pass_time(PATIENCE + 90)
        assert scene.source.lag == 0
        assert len(scene.dead_bodies) == 400

    play(scene, act)


@pytest.mark.parametrize("by_headers", [True, None], ids=["known", "unknown, and no key"])
def test_an_exchange_that_routes_by_headers_is_judged_by_them(by_headers: bool | None) -> None:
    """All have one key, so that all others wait behind a wrong one."""
    scene = Scene(lambda message: message.headers.get("kind") == "good", by_headers)

    async def act() -> None:
        for n in range(400):
            scene.put("", "bad" if n in (0, 100, 101, 102, 300) else "good")
        await pass_time(2 * PATIENCE)
        assert scene.dead_bodies == [0, 100, 101, 102, 300]

    play(scene, act)


def test_headers_that_were_routed_wait_while_their_queue_is_remade() -> None:
    there = True
    scene = Scene(lambda _: there, by_headers=True)

    async def act() -> None:
        nonlocal there
        for n in range(10):
            scene.put("", f"kind.{n % 5}")
        await pass_time(1)
        there = False
        for n in range(100):
            scene.put("", f"kind.{n % 5}")
        await pass_time(3_600)
        there = True
        await pass_time(60)
        assert not scene.dead_bodies

    play(scene, act)


def test_give_up_after_bounds_the_wait_of_a_key() -> None:
    gone = False
    scene = Scene(lambda message: not gone or message.routing_key == "b", policy=Policy(give_up_after=120.0))

    async def act() -> None:
        nonlocal gone
        scene.put("a")
        await pass_time(1)
        gone = True
        scene.put("a")
        scene.put("b")
        await pass_time(110)
        assert not scene.dead_bodies
        await pass_time(20)
        assert scene.dead_bodies == [1]

    play(scene, act)
