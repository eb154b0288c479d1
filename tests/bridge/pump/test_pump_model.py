"""Every event in every state of the pump: all messages get through once all faults are over.

Sources and targets are models that do nothing by themselves: a run is a list of events, each some time after the one
before, by a clock that jumps. Invariants hold at every moment: a delivery is settled only when all its copies are
safe; a source is opened only while its targets are open and owe it no answer, and left as soon as it cannot settle; no
dead letter is made of a message that its target has, and may still confirm. After the last event everything is well,
and then all must be settled within a bounded time: so there is no state in which nothing, or the wrong thing, is waited
for. At the end sources are closed after all targets, which may commit what the sources have given.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing, Receiver, Source, Target
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.errors import InputError
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

TOPOLOGY = (
    Topology()
    .declare_exchange(Exchange("in", "topic"))
    .declare_queue(Queue("all"))
    .declare_queue(Queue("odd"))
    .bind(Binding.to_queue("in", "all", "#"))
    .bind(Binding.to_queue("in", "odd", "k.1"))
)
MESSAGES = 24
KEYS = 3
WINDOW = 4
PATIENCE = 900.0
"""Maximum number of seconds until all is settled after the faults."""


class World:
    """The messages that are stored safely, and the switches that events turn."""

    def __init__(self, dead_letters: bool) -> None:
        self.safe: set[tuple[str, int]] = set()
        """Queue, "" for dead letters, and number of each safe message."""
        self.well = False
        self.dead_letters = dead_letters
        self.open_targets: set[str] = set()
        self.under_way: dict[str, list[Outgoing]] = {}
        """Name of a target -> messages that it has, and has not answered."""
        self.closed: list[str] = []
        """Names of sources and targets, in the order in which they were closed."""
        self.violations: list[str] = []
        """Broken promises; an exception instead would be handled by the pump."""

    def is_done(self, message: Message) -> bool:
        """Return whether every copy of a message is safe."""
        n = message.headers["n"]
        queues = ["all", "odd"] if message.routing_key == "k.1" else ["all"]
        return all({(queue, n), ("", n)} & self.safe for queue in queues)


class ModelSource(Source):
    """A source with one lane per connection."""

    def __init__(self, name: str, world: World, numbers: Sequence[int]) -> None:
        self.name = name
        self.world = world
        self.waiting = deque(Message("in", f"k.{n % KEYS}", {"n": n}) for n in numbers)
        self.unsettled: deque[Message] = deque()
        self.epoch = 0
        self.is_open = False
        self.refuses: Exception | None = None
        self.hangs = False
        self.breaks_settling = False
        self.is_quiet = False
        self.broken_at: float | None = None
        """Time at which settling raised, until it is closed."""
        self.news = asyncio.Event()
        self.gone: Disconnected | None = None

    @property
    def has_messages(self) -> bool:
        return bool(self.waiting) and (self.world.well or not self.is_quiet)

    @property
    def lost(self) -> Disconnected | None:
        return self.gone

    async def open(self) -> None:
        needed = {"all", "odd"} | ({"dead"} if self.world.dead_letters else set())
        if not self.world.open_targets >= needed:
            self.world.violations.append(f"{self.name} was opened with {self.world.open_targets} only")
        mine = {message.headers["n"] for message in self.waiting}
        if any(each.delivery.message.headers["n"] in mine for sent in self.world.under_way.values() for each in sent):
            self.world.violations.append(f"{self.name} was opened while targets have messages of it")
        while self.hangs and not self.world.well:
            self.news.clear()
            await self.news.wait()
        if self.refuses is not None and not self.world.well:
            raise self.refuses
        self.epoch += 1
        self.gone = None
        self.is_open = True

    async def read(self, limit: int) -> Sequence[Delivery]:
        while not self.has_messages or self.gone is not None:
            if self.gone is not None:
                raise self.gone
            if not self.waiting and not self.unsettled:
                raise EndOfStream
            self.news.clear()
            await self.news.wait()
        first = self.epoch * 1_000 + len(self.unsettled)
        taken = [self.waiting.popleft() for _ in range(min(limit, len(self.waiting)))]
        self.unsettled += taken
        return [
            Delivery(message, self.epoch, first + n, size=1 + message.headers["n"] % 3)
            for n, message in enumerate(taken)
        ]

    def settle(self, delivery: Delivery) -> None:
        if self.breaks_settling and not self.world.well:
            self.broken_at = asyncio.get_running_loop().time()
            raise ValueError("a mistake")
        if delivery.lane == self.epoch and self.gone is None:
            while self.unsettled:
                message = self.unsettled.popleft()
                if not self.world.is_done(message):
                    self.world.violations.append(f"{message} was settled and is not safe")
                if message is delivery.message:
                    break
            self.news.set()

    def lose(self) -> None:
        if self.is_open:
            self.gone = Disconnected("cut")
        self.news.set()

    def look(self) -> None:
        """Note a violation if it is still open a second after it could not settle."""
        if self.broken_at is not None and asyncio.get_running_loop().time() - self.broken_at > 1:
            self.world.violations.append(f"{self.name} cannot settle, and is not left")

    async def close(self) -> None:
        self.world.closed.append(self.name)
        self.is_open = False
        self.broken_at = None
        self.waiting.extendleft(reversed(self.unsettled))
        self.unsettled.clear()
        self.epoch += 1


class ModelTarget(Target):
    """A target that answers when an event asks for it, and at once after the faults."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.receiver: Receiver | None = None
        self.arrived: list[Outgoing] = []
        self.refuses: Exception | None = None
        self.hangs = False
        self.raises = False
        self.news = asyncio.Event()
        self.sent = []

    @property
    def sent(self) -> list[Outgoing]:
        """Messages that were sent over this connection and have no answer."""
        return self.world.under_way[self.name]

    @sent.setter
    def sent(self, messages: list[Outgoing]) -> None:
        self.world.under_way[self.name] = messages

    async def open(self, receiver: Receiver) -> None:
        while self.hangs and not self.world.well:
            self.news.clear()
            await self.news.wait()
        if self.refuses is not None and not self.world.well:
            raise self.refuses
        self.sent = []
        self.receiver = receiver
        self.world.open_targets.add(self.name)

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self.raises and not self.world.well:
            raise ZeroDivisionError("a mistake")
        for dead in messages if self.name == "dead" else ():
            queue = dead.message.headers["hashstar-queue"]
            if queue and any(each.delivery is dead.delivery for each in self.world.under_way[queue]):
                self.world.violations.append(f"{queue} may still confirm {dead.message.headers['n']}")
        self.sent += messages
        self.arrived += messages
        if self.world.well:
            asyncio.get_running_loop().call_soon(self.confirm, len(messages))

    def confirm(self, count: int) -> None:
        if self.receiver is not None:
            done, self.sent = self.sent[:count], self.sent[count:]
            self.world.safe |= {(outgoing.queue, outgoing.delivery.message.headers["n"]) for outgoing in done}
            self.receiver.confirmed(done)

    def fail(self, which: int, failure: Failure) -> None:
        if self.receiver is not None and self.sent:
            outgoing = self.sent.pop(which % len(self.sent))
            self.arrived.remove(outgoing)
            self.receiver.failed(outgoing, failure)

    def lose(self) -> None:
        self.world.open_targets.discard(self.name)
        receiver, self.receiver = self.receiver, None
        self.sent = []
        if receiver is not None:
            receiver.lost(Disconnected("cut"))

    async def close(self) -> None:
        self.world.closed.append(self.name)
        self.receiver = None
        self.world.open_targets.discard(self.name)


class Watch:
    """Events of the pump, of which only the reads since a pause are looked at."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_paused = False
        self.reads: Counter[str] = Counter()

    def pause(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            self.reads.clear()

    def read(self, source: str, _: Sequence[Delivery]) -> None:
        self.reads[source] += 1
        if self.is_paused and self.reads[source] > 1:  # one read may have been under way
            self.world.violations.append(f"{source} goes on in a pause")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


ENDPOINTS = st.sampled_from(["a", "b", "all", "odd", "dead"])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([
            "confirm", "confirm", "confirm", "refuse", "refuse finally", "push back", "push back", "lose", "lose",
            "raise", "open refused", "open wrong", "open hangs", "open well", "pause", "resume", "break settling",
            "fall quiet",
        ]),
        ENDPOINTS,
        st.integers(0, 5),
        st.sampled_from([0.0, 0.0, 0.05, 0.3, 2.0, 40.0]),
    ),
    max_size=40,
)  # fmt: skip


def act(event: str, endpoint: Any, number: int, pump: Pump) -> None:
    """Let an event happen."""
    is_target = isinstance(endpoint, Target)
    if event == "pause":
        pump.pause()
    elif event == "resume":
        pump.resume()
    elif event == "lose":
        endpoint.lose()
    elif event.startswith("open"):
        endpoint.refuses = {
            "open refused": Disconnected("not now"), "open wrong": InputError("there is no such queue"),
        }.get(event)  # fmt: skip
        endpoint.hangs = event == "open hangs"
        endpoint.news.set()
    elif not is_target:
        endpoint.breaks_settling = event == "break settling"
        endpoint.is_quiet = event == "fall quiet" or (endpoint.is_quiet and event == "break settling")
        endpoint.news.set()
    elif event == "confirm":
        endpoint.confirm(number)
    elif event == "raise":
        endpoint.raises = not endpoint.raises
    elif event in ("refuse", "refuse finally", "push back"):
        endpoint.fail(number, Failure(event, final=event == "refuse finally", busy=event == "push back"))


async def live(
    events: Sequence[tuple[str, str, int, float]], policy: Policy, with_dead_letters: bool
) -> dict[str, ModelTarget]:
    """Run the events, end all faults, and wait for the end."""
    world = World(with_dead_letters)
    sources = [ModelSource("a", world, range(0, MESSAGES, 2)), ModelSource("b", world, range(1, MESSAGES, 2))]
    targets = {name: ModelTarget(name, world) for name in ("all", "odd", "dead")}
    watch: Any = Watch(world)
    pump = Pump(
        [Inlet(source, "in") for source in sources], Router(TOPOLOGY), {name: targets[name] for name in ("all", "odd")},
        watch, policy, targets["dead"] if with_dead_letters else None, random=random.Random(1).random,
    )  # fmt: skip
    named: dict[str, Any] = {**targets, **{source.name: source for source in sources}}
    running = asyncio.create_task(pump.run())
    for event, endpoint, number, seconds in events:
        await pass_time(seconds)
        for source in sources:
            source.look()
        act(event, named[endpoint], number, pump)
        watch.pause(pump.paused)
        for window in [inlet.window for inlet in pump._inlets]:
            assert window.messages <= WINDOW
            assert window.bytes <= policy.window_bytes or window.messages == 1
    world.well = True
    watch.pause(False)
    pump.resume()
    for each in named.values():
        each.news.set()
    for target in targets.values():
        target.confirm(MESSAGES)
    try:
        async with asyncio.timeout(PATIENCE):
            await running
    except TimeoutError:
        states = {inlet.source.name: (pump.waiting_for(inlet), inlet.window.messages) for inlet in pump._inlets}
        outlets = {outlet.target.name: (outlet.connected, outlet.in_flight, outlet.held) for outlet in pump.outlets}
        pytest.fail(f"it stands still: {states}, {outlets}")
    assert not world.violations
    assert {*world.closed[-len(sources) :]} == {source.name for source in sources}
    assert all(not source.waiting and not source.unsettled for source in sources)
    return targets


POLICY = Policy(WINDOW, tries=2, backoff=Backoff(0.1, 5.0), reconnect=Backoff(0.2, 10.0))
SLOW = examples(300)


@SLOW
@given(EVENTS, st.booleans(), st.booleans(), st.sampled_from([None, 5.0]), st.sampled_from([2, 4, 1 << 20]))
@example([("refuse", "all", 0, 0.3), ("refuse", "all", 0, 0.0), ("lose", "a", 0, 0.05)], False, False, None, 2)
@example([("pause", "a", 0, 0.3), *[("confirm", "all", 3, 0.3)] * 3], False, False, None, 2)
@example([("push back", "all", 0, 0.3), ("push back", "all", 0, 40.0)], False, True, 5.0, 2)
@example(
    [
        ("fall quiet", "a", 0, 0.3), ("break settling", "a", 0, 0.0), ("confirm", "all", 3, 0.3),
        ("confirm", "odd", 3, 0.0), ("pause", "b", 0, 40.0),
    ],
    False, False, None, 1 << 20,
)  # fmt: skip
@example(
    [
        ("confirm", "a", 0, 0.0), ("push back", "all", 5, 0.0), ("confirm", "a", 0, 40.0), ("confirm", "all", 1, 40.0),
        ("confirm", "all", 2, 0.0),
    ],
    False, False, None, 1 << 20,
)  # fmt: skip
def test_all_messages_get_through_once_all_faults_are_over(
    events: list[tuple[str, str, int, float]],
    one_at_a_time: bool,
    dead_letters: bool,
    give_up_after: float | None,
    window_bytes: int,
) -> None:
    policy = Policy(
        WINDOW, window_bytes, tries=2, backoff=POLICY.backoff, reconnect=POLICY.reconnect, one_at_a_time=one_at_a_time,
        give_up_after=give_up_after,
    )  # fmt: skip
    run_virtually(live(events, policy, dead_letters))


@SLOW
@given(EVENTS)
def test_keys_arrive_in_order_whatever_connection_is_lost(events: list[tuple[str, str, int, float]]) -> None:
    """Refusals aside, which may let a message pass that was under way; and each source has keys of its own order."""
    kept = [event for event in events if event[0] not in ("refuse", "refuse finally", "push back")]
    targets = run_virtually(live(kept, POLICY, True))
    for target in targets.values():
        seen: dict[tuple[str, int], int] = {}
        for outgoing in dict.fromkeys((o.queue, o.delivery.message.headers["n"]) for o in target.arrived):
            queue, n = outgoing
            key = (queue, n % KEYS * 2 + n % 2)
            assert seen.get(key, -1) < n, f"{target.name}: {n} arrived first behind {seen[key]}"
            seen[key] = n


@SLOW
@given(EVENTS)
def test_one_at_a_time_keeps_the_order_whatever_is_refused(events: list[tuple[str, str, int, float]]) -> None:
    policy = Policy(WINDOW, 1 << 20, 10**6, POLICY.backoff, POLICY.reconnect, one_at_a_time=True)
    kept = [event for event in events if event[0] != "refuse finally"]
    targets = run_virtually(live(kept, policy, True))
    for name in ("all", "odd"):
        first = list(dict.fromkeys(o.delivery.message.headers["n"] for o in targets[name].arrived))
        for key in range(2 * KEYS):
            line = [n for n in first if n % KEYS * 2 + n % 2 == key]
            assert line == sorted(line)
