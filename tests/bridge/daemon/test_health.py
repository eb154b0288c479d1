"""Whatever keeps messages from moving is a condition within seconds, with its reason, start time and way out."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon import health as health_module
from bridge.daemon.conditions import KINDS
from bridge.daemon.health import BACKPRESSURE_AFTER, LOOK_EVERY, Health
from bridge.daemon.journal import Journal
from bridge.daemon.telemetry.gauges import read_gauges
from bridge.daemon.telemetry.metrics import Metrics
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Receiver, Removal
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.outages import LOOK_EVERY as ASK_EVERY
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from bridge.pump.window import Admission, Pending, Window
from bridge.tokens import Tokens
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.behaviour import Silent, on_a_loop
from tests.support.tiers import examples
from tests.support.virtual_loop import on_a_virtual_loop, pass_time, run_virtually

EPOCH = 1_700_000_000.0


class Troubled(MemorySource):
    """A source that may have trouble."""

    problem: str | Exception | None = None
    removed = 0
    waiting_there: int | None = -1

    @property
    def lag(self) -> int | None:  # type: ignore[override]  # of one that may not know
        return super().lag if self.waiting_there == -1 else self.waiting_there

    @property
    def vanished(self) -> int:
        return self.removed

    @property
    def trouble(self) -> str | None:
        if isinstance(self.problem, Exception):
            raise self.problem
        return self.problem


class TroubledTarget(MemoryTarget):
    """A target that may have trouble."""

    problem: str | None = None

    @property
    def trouble(self) -> str | None:
        return self.problem


@dataclass
class In:
    """What health reads of an inlet."""

    source: Troubled
    window: Window
    exchange: str | None = None
    policy: Policy | None = None
    admission: Admission | None = None


@dataclass
class Out:
    """What health reads of an outlet."""

    target: TroubledTarget
    connected: bool = True
    in_flight: int = 0
    held: int = 0
    error: Disconnected | None = None
    waiting: Mapping[str, Failure] = field(default_factory=dict)
    first: Outgoing | None = None

    def oldest(self) -> Outgoing | None:
        return self.first


@dataclass
class State:
    """What health reads of a pump, with a source ``rabbit`` and a target ``kafka``; and its health."""

    policy: Policy = field(default_factory=lambda: Policy(window=10))
    has_dead_letters: bool = False
    paused: bool = False
    draining: bool = False
    drained: bool = False
    waits: str | None = None
    now: float = 100.0

    def __post_init__(self) -> None:
        self.source, self.target = Troubled(name="rabbit"), TroubledTarget("kafka")
        self.inlet = In(self.source, Window(self.policy.window, self.policy.window_bytes, lambda _: None))
        self.outlet = Out(self.target)
        self.metrics, self.log = Metrics(), io.StringIO()
        self.metrics.connected("rabbit")
        self.metrics.connected("kafka")
        self.health = Health(
            cast("Pump", self), [cast("Inlet", self.inlet)], self.metrics,
            Journal("json", "info", self.log, lambda: self.wall), self.policy, config="bridge.toml",
            has_dead_letters=self.has_dead_letters, loop_clock=lambda: self.now, clock=lambda: self.wall,
        )  # fmt: skip

    @property
    def takes(self) -> bool:
        return not (self.paused or self.drained)

    @property
    def wall(self) -> float:
        return EPOCH + self.now

    @property
    def outlets(self) -> Sequence[Out]:
        return [self.outlet]

    def waiting_for(self, inlet: object, /) -> str | None:
        return self.waits

    def read(self, count: int = 1, exchange: str = "orders", size: int = 1) -> list[Pending]:
        messages = [Message(exchange, f"key.{n}") for n in range(count)]
        return self.inlet.window.admit(
            [Delivery(message, 0, n, size=size, origin="queue orders") for n, message in enumerate(messages)], self.now
        )

    def after(self, seconds: float = 0.0) -> dict[tuple[str, str], str]:
        """Look now and each second for a time, and return the conditions: endpoint and kind -> reason."""
        until = self.now + seconds
        self.health.look()
        while self.now < until:
            self.now = min(until, self.now + 1.0)
            self.health.look()
        return {(each.endpoint, each.kind): each.reason for each in self.health.conditions}

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def test_a_bridge_that_moves_messages_has_no_condition() -> None:
    state = State()
    for _ in range(100):
        [pending] = state.read()
        assert not state.after(5.0)
        state.inlet.window.finish_copy(pending)
        state.inlet.window.settle()
    assert not state.events()


def test_an_endpoint_that_is_not_connected_is_a_condition_with_its_last_error() -> None:
    state = State()
    state.metrics.disconnected("kafka", Disconnected("no answer"), 1.0)
    assert state.after() == {("kafka", "disconnected"): "no answer"}
    state.metrics.disconnected("kafka", Disconnected("no route"), 1.0)
    assert state.after(15.0) == {("kafka", "disconnected"): "no route"}
    [condition] = state.health.conditions
    assert condition.since == EPOCH + 100.0
    assert "bridge check bridge.toml" in condition.way_out
    assert not state.health.targets["kafka"].up
    state.metrics.connected("kafka")
    assert not state.after(1.0)
    assert state.health.targets["kafka"].up


def test_a_source_that_has_ended_is_no_condition() -> None:
    state = State()
    state.metrics.disconnected("rabbit", Disconnected("gone"), 1.0)
    state.metrics.ended("rabbit")
    assert not state.after(60.0)


def test_an_endpoint_in_trouble_is_a_condition_and_not_up() -> None:
    state = State()
    state.target.problem = "broker-1 has not answered for 9 s"
    state.source.problem = "the broker blocks publishers: low on memory"
    assert state.after() == {
        ("kafka", "trouble"): "broker-1 has not answered for 9 s",
        ("rabbit", "trouble"): "the broker blocks publishers: low on memory",
    }
    assert not state.health.targets["kafka"].up
    assert not state.health.sources["rabbit"].up


def test_a_token_that_cannot_be_renewed_is_a_condition_of_an_endpoint_that_is_up() -> None:
    """Kafka and RabbitMQ alike: it moves messages, so it is neither blocked nor are its messages at risk."""
    state, outcome = State(), ["first"]

    def fetch() -> tuple[str, float | None]:
        if not outcome:
            raise Disconnected("oauth.token_url: gives no token (503)")
        return outcome.pop(), 100.0

    tokens = state.source.tokens = state.target.tokens = Tokens(fetch, clock=lambda: state.now, chance=lambda: 0.0)
    tokens.current()
    assert not state.after()
    state.now += 90.0
    tokens.current()
    before = time.time()
    found = state.after()
    assert set(found) == {("kafka", "token"), ("rabbit", "token")}
    reason, _, last = found["kafka", "token"].partition("; tried last at ")
    assert reason == "oauth.token_url: gives no token (503)"
    tried, _, expires = last.partition(", and the token expires at ")
    assert abs(datetime.fromisoformat(tried).timestamp() - before) < 5
    assert abs(datetime.fromisoformat(expires).timestamp() - before - 10) < 5
    assert state.health.targets["kafka"].up
    assert state.health.sources["rabbit"].up
    outcome.append("second")
    state.now += 5.0
    tokens.current()
    assert not state.after()


def test_an_endpoint_whose_state_cannot_be_read_does_not_stop_health() -> None:
    state = State()
    state.source.problem = RuntimeError("a bug")
    assert state.after() == {("rabbit", "trouble"): "its state cannot be read: RuntimeError('a bug')"}


def test_a_source_that_waits_for_a_target_is_no_lost_connection() -> None:
    state = State(waits="waits for target kafka")
    state.metrics.disconnected("kafka", Disconnected("no answer"), 1.0)
    state.metrics.disconnected("rabbit", Disconnected("closed"), 1.0)
    assert state.after() == {
        ("kafka", "disconnected"): "no answer", ("rabbit", "waiting"): "waits for target kafka",
    }  # fmt: skip


def test_a_queue_that_takes_nothing_for_a_while_is_a_condition() -> None:
    state = State()
    state.outlet.waiting = {"billing": Failure("nack", busy=True)}
    assert not state.after(1.0)
    state.outlet.waiting = {}
    assert not state.after(1.0)
    state.outlet.waiting = {queue: Failure("nack", busy=True) for queue in "edcba"}
    assert not state.after(2.0)
    assert state.after(1.0) == {
        ("kafka", "backpressure"): "queue a takes nothing: nack, queue b takes nothing: nack, queue c takes nothing: "
        "nack and 2 more"
    }
    assert state.health.conditions[0].since == EPOCH + 102.0
    state.outlet.waiting = {}
    assert not state.after(1.0)
    state.outlet.waiting = {"": Failure("no such queue", busy=True)}  # as of the target of dead letters
    state.after()
    assert state.after(3.0) == {("kafka", "backpressure"): "it takes nothing: no such queue"}


@pytest.mark.parametrize("changes_after", [0.0, 0.1, 0.9])
def test_a_process_that_was_stopped_takes_no_broker_for_silent(changes_after: float) -> None:
    """Also if another connection is lost, or made, as soon as it goes on."""

    async def play() -> None:
        state, loop = State(), asyncio.get_running_loop()
        began, stopped = loop.time(), 0.0
        state.health._loop_clock = lambda: 100.0 + loop.time() - began + stopped
        running = asyncio.create_task(state.health.run())
        await pass_time(LOOK_EVERY / 2)
        stopped = 60.0
        state.source.problem = "the broker is silent for 60 s"
        await pass_time(changes_after)
        state.metrics.connected("kafka")
        await pass_time(LOOK_EVERY - changes_after)
        state.source.problem = None  # as what it sent meanwhile is read now
        await pass_time(2 * LOOK_EVERY)
        assert state.log.getvalue().count("process was stopped") == 1
        assert "silent" not in state.log.getvalue()
        state.source.problem = "the broker is silent for 70 s"
        await pass_time(2 * LOOK_EVERY)
        assert "silent" in state.log.getvalue()
        running.cancel()

    run_virtually(play())


def test_an_oldest_message_older_than_stalled_after_is_a_condition() -> None:
    state = State()
    [pending] = state.read()
    state.outlet.first = Outgoing(pending.delivery.message, pending.delivery, "q", context=pending)
    assert not state.after(9.0)
    assert state.health.sources["rabbit"].oldest_age == 9.0
    assert state.after(1.0) == {
        ("rabbit", "stalled"): "the oldest message, queue orders, is not settled: it waits for target kafka"
    }
    assert state.health.conditions[0].since == EPOCH + 100.0
    assert state.health.targets["kafka"].oldest_age == 10.0
    state.inlet.window.finish_copy(pending)
    state.inlet.window.settle()
    state.outlet.first = None
    assert not state.after(1.0)
    assert state.health.sources["rabbit"].oldest_age == 0.0


def test_a_source_may_have_its_own_stalled_after() -> None:
    state = State()
    state.inlet.policy = Policy(stalled_after=60.0)
    state.read()
    assert not state.after(59.0)
    assert state.after(1.0)


def test_a_window_that_stays_full_is_a_condition_by_messages_and_by_bytes() -> None:
    for count, size, messages in (
        (10, 1, "10 messages of 10 bytes are"),
        (1, 1 << 30, f"1 message of {1 << 30:,} bytes is"),
    ):
        state = State()
        pendings = state.read(count, size=size)
        found = state.after(10.0)
        reason = f"nothing is read: {messages} not settled"
        assert found["rabbit", "window-full"] == reason
        assert state.health.sources["rabbit"].fill >= 1.0
        for pending in pendings:
            state.inlet.window.finish_copy(pending)
        state.inlet.window.settle()
        assert not state.after(1.0)


def test_messages_that_were_removed_unread_are_a_condition_for_a_minute_after_the_last() -> None:
    state = State()
    assert not state.after(1.0)
    state.source.removed = 1_200
    assert state.after(1.0) == {("rabbit", "vanished"): "1,200 messages were removed unread"}
    assert state.after(50.0)
    state.source.removed = 1_201
    assert state.after(1.0) == {("rabbit", "vanished"): "1,201 messages were removed unread"}
    assert state.after(58.0)
    assert not state.after(1.0)
    assert not state.after(100.0)


def test_what_an_outage_may_lose_is_a_condition_at_half_of_its_limit() -> None:
    expires = Removal("it is deleted after 6 s (expires)", 6.0, without_reader=True)
    old = Removal("it drops messages after 60 s (message-ttl)", 60.0)
    long = Removal("it drops its oldest messages beyond 100 (max-length)", messages=100)
    for removals, is_open, lag, after in (
        ([expires], False, None, 3), ([expires], True, None, None), ([old], True, None, 30), ([old], False, None, 30),
        ([expires._replace(seconds=0.0)], False, None, 0), ([long], True, 50, 0), ([long], True, 49, None),
        ([long], False, None, 60), ([long._replace(messages=None)], True, 10_000, 60), ([], False, None, None),
        ([long, old], True, 3, 30),
    ):  # fmt: skip
        state = State()
        state.health.removals["rabbit"].all, state.source.waiting_there = removals, lag
        assert not state.after(500.0), "it is read"
        assert state.health.sources["rabbit"].survives == min(
            [e.seconds for e in removals if e.seconds is not None], default=None
        )
        for _ in range(2):  # an outage counts from its own beginning
            if is_open:
                state.paused = True
            else:
                state.metrics.disconnected("rabbit", Disconnected("gone"), 1.0)
            found = [second for second in range(120) if ("rabbit", "at-risk") in state.after(1.0)]
            assert found == ([] if after is None else [*range(max(0, after - 1), 120)]), (removals, is_open)
            if after is not None:
                [condition] = [each for each in state.health.conditions if each.kind == "at-risk"]
                assert condition.reason.startswith("messages may be lost while nothing is read: it ")
            state.paused = False
            state.metrics.connected("rabbit")
            assert not state.after(1.0)


class NeverOpen(MemoryTarget):
    """A target whose system is away."""

    async def open(self, receiver: Receiver) -> None:
        raise Disconnected("away")


class Settable(MemorySource):
    """A source at whose system an operator sets what removes messages."""

    kept: Sequence[Removal] = ()

    async def find_removals(self) -> Sequence[Removal]:
        return self.kept


@on_a_virtual_loop
async def test_a_source_that_waits_from_its_start_on_is_at_risk_by_what_is_set_meanwhile() -> None:
    metrics, source = Metrics(), Settable(name="in")
    inlet = Inlet(source)
    pump = Pump([inlet], Router(TOPOLOGY), {"q": NeverOpen("out")}, Counting(metrics))
    health = Health(pump, [inlet], metrics, Journal(level="error", out=io.StringIO()))
    tasks = [asyncio.ensure_future(each) for each in (pump.run(), health.run())]
    await pass_time(100)
    kinds = [each.kind for each in health.conditions if each.endpoint == "in"]
    assert (kinds, health.sources["in"].survives) == (["waiting"], None)
    source.kept = [Removal("it drops messages after 60 s (message-ttl)", 60.0)]
    await pass_time(ASK_EVERY + 2)
    [condition] = [each for each in health.conditions if each.kind == "at-risk"]
    assert "message-ttl" in condition.reason
    assert health.sources["in"].survives == 60.0
    source.kept = ()
    await pass_time(ASK_EVERY + 2)
    assert "at-risk" not in [each.kind for each in health.conditions]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(asyncio.all_tasks()) == 1, "nobody is asked any more"


def test_an_outage_counts_from_its_beginning_though_the_bridge_is_reloaded() -> None:
    first, second = State(), State()
    for state in (first, second):
        state.metrics.disconnected("rabbit", Disconnected("gone"), 1.0)
    assert ("rabbit", "at-risk") not in first.after(40.0)
    second.now = first.now
    second.health = Health(
        cast("Pump", second), [cast("Inlet", second.inlet)], second.metrics,
        Journal(out=second.log), second.policy, before=first.health,
        loop_clock=lambda: second.now, clock=lambda: second.wall,
    )  # fmt: skip
    second.health.removals["rabbit"].all = [Removal("it drops messages after 80 s (message-ttl)", 80.0)]
    assert ("rabbit", "at-risk") in second.after(1.0)


def test_a_held_message_is_a_condition_that_names_the_way_out() -> None:
    state = State()
    first, second, *_ = state.read(9, exchange="")
    first.held_reason = second.held_reason = "no queue of the topology gets it"
    assert state.after(1.0) == {
        ("rabbit", "held"): "queue orders is on hold: no queue of the topology gets it; so is 1 more; 7 messages read "
        "after it must wait to be settled"
    }
    [condition] = state.health.conditions
    assert 'write exchange = "..." in [sources.rabbit]' in condition.way_out
    assert "[dead_letters]" in condition.way_out
    assert state.health.sources["rabbit"].on_hold == 2
    assert state.health.sources["rabbit"].held[0] == ("queue orders", "no queue of the topology gets it")
    assert not any(kind == "stalled" for _, kind in state.after(2 * state.policy.stalled_after))
    state.read(1)
    assert state.after(1.0)["rabbit", "held"].endswith(", and nothing more is read")


def test_a_way_out_is_named_only_where_it_helps() -> None:
    state = State(has_dead_letters=True)
    state.inlet.exchange = "orders"
    [pending] = state.read(1, exchange="")
    pending.held_reason = "no queue of the topology gets it"
    state.after(1.0)
    assert "exchange" not in state.health.conditions[0].way_out
    assert "write [dead_letters]" not in state.health.conditions[0].way_out


def test_a_pause_or_a_stop_is_a_condition_at_once() -> None:
    state = State()
    state.paused = True
    assert [(each.kind, each.since) for each in state.health.current()] == [("paused", state.wall)]
    state.after(30.0)
    state.paused, state.draining = False, True
    assert [each.kind for each in state.health.current()] == ["draining"]
    state.draining, state.drained = False, True
    assert [(each.kind, each.way_out) for each in state.health.current()] == [
        ("drained", "run: hashstar bridge resume bridge.toml")
    ]
    state.metrics.left("rabbit")
    state.after(10.0)
    assert [each.kind for each in state.health.conditions] == ["drained"]  # its source is not disconnected
    assert not state.health.sources["rabbit"].up


def test_causes_are_listed_before_their_effects() -> None:
    state = State()
    state.paused = True
    state.read(10)
    state.metrics.disconnected("kafka", Disconnected("gone"), 1.0)
    state.after(20.0)
    kinds = [each.kind for each in state.health.conditions]
    assert kinds == sorted(kinds, key=KINDS.index)
    assert kinds == ["disconnected", "stalled", "window-full", "paused"]


def test_a_condition_is_logged_when_it_begins_at_growing_intervals_and_when_it_ends() -> None:
    state = State()
    state.target.problem = "no broker answers"
    state.after(3_600.0)
    state.target.problem = None
    state.after(1.0)
    began, *reminders, ended = state.events()
    assert {key: began[key] for key in ("level", "event", "endpoint", "kind", "reason")} == {
        "level": "error", "event": "condition began", "endpoint": "kafka", "kind": "trouble",
        "reason": "no broker answers",
    }  # fmt: skip
    assert began["way_out"]
    assert {each["event"] for each in reminders} == {"condition lasts"}
    assert [each["seconds"] for each in reminders] == [60, 180, 420, 900, 1500, 2100, 2700, 3300]
    assert (ended["level"], ended["event"], ended["seconds"]) == ("info", "condition ended", 3600.0)


def test_a_connection_that_comes_back_at_once_is_no_error_in_the_log() -> None:
    state = State()
    state.metrics.disconnected("kafka", Disconnected("reset"), 0.1)
    state.after(4.0)
    state.metrics.connected("kafka")
    state.after(10.0)
    assert not state.events()
    state.metrics.disconnected("kafka", Disconnected("reset"), 0.1)
    state.after(5.0)
    assert [each["event"] for each in state.events()] == ["condition began"]


def test_a_condition_that_comes_and_goes_for_an_hour_does_not_fill_the_log() -> None:
    state = State()
    for _ in range(1_200):
        state.target.problem = "no broker answers"
        state.after(1.0)
        state.target.problem = None
        state.after(2.0)
    assert len(state.events()) < 200


def test_the_history_has_the_rates_of_the_last_minutes_and_no_more() -> None:
    state = State()
    message = Message("e", "k")
    for _ in range(400):
        state.metrics.read("rabbit", [Delivery(message)] * 10)
        state.metrics.written["kafka", "q"] += 20
        state.after(1.0)
    history = state.health.history.as_json()
    assert history["step"] == 5.0
    assert set(history["sources"]["rabbit"]) == {10.0}
    assert set(history["targets"]["kafka"]) == {20.0}
    assert len(history["sources"]["rabbit"]) == 60


def test_a_scan_that_takes_long_is_made_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    clock, scans = iter(range(10_000)), list[float]()
    monkeypatch.setattr(health_module, "perf_counter", lambda: next(clock) / 20)  # 50 ms a scan
    [pending] = state.read()

    def oldest() -> Outgoing:
        scans.append(state.now)
        return Outgoing(pending.delivery.message, pending.delivery, "q", context=pending)

    monkeypatch.setattr(state.outlet, "oldest", oldest)
    state.after(60.0)
    assert [round(b - a) for a, b in pairwise(scans)] == [4] * (len(scans) - 1)
    assert len(scans) > 10
    state.inlet.window.finish_copy(pending)
    state.inlet.window.settle()
    scans.clear()
    state.after(60.0)
    assert not scans


# With a pump.

TOPOLOGY = (
    Topology()
    .declare_exchange(Exchange("e", "topic"))
    .declare_queue(Queue("q"))
    .bind(Binding.to_queue("e", "q", "a.#"))
)


class Counting(Silent):
    """Passes events on to metrics, as the daemon does."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics

    def connected(self, name: str) -> None:
        self.metrics.connected(name)

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self.metrics.unroutable(source, delivery, fate, reason)

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self.metrics.gave_up(target, message, failure, fate)


@on_a_loop
async def test_a_message_on_hold_is_counted_once_however_often_it_is_tried() -> None:
    tries = 0

    def fault(outgoing: Outgoing) -> Failure | None:
        nonlocal tries
        tries += 1
        return Failure("too large", final=True)

    source, target, metrics = MemorySource(name="in"), MemoryTarget("out", fault), Metrics()
    inlet = Inlet(source)
    policy = Policy(backoff=Backoff(0.001, 0.002), unroutable=Unroutable.HOLD)
    routed = 0
    enough = asyncio.Event()

    class CountingRouter(Router):
        """Counts the calls of its methods."""

        def route(self, message: Message) -> Any:
            nonlocal routed
            routed += 1
            if routed >= 20 and tries >= 20:
                enough.set()
            return super().route(message)

    pump = Pump([inlet], CountingRouter(TOPOLOGY), {"q": target}, Counting(metrics), policy)
    loop = asyncio.get_running_loop()
    health = Health(
        pump, [inlet], metrics, Journal(level="error", out=io.StringIO()), policy, loop_clock=lambda: loop.time() + 1.0
    )
    running = asyncio.create_task(pump.run())
    source.put(Message("e", "b"))
    source.put(Message("e", "a.b"))
    await enough.wait()
    assert metrics.fates["in", "hold"] == 1
    assert metrics.fates["out", "hold"] == 1
    health.look()
    assert [each.kind for each in health.conditions] == ["held"]
    assert health.sources["in"].on_hold == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_a_loop
async def test_health_looks_at_once_when_a_connection_is_made_or_lost() -> None:
    metrics, inlet, target = Metrics(), Inlet(MemorySource(name="in")), MemoryTarget("out")
    pump = Pump([inlet], Router(TOPOLOGY), {"q": target}, Counting(metrics))
    health = Health(pump, [inlet], metrics, Journal(level="error", out=io.StringIO()))
    looking = asyncio.create_task(health.run())
    await asyncio.sleep(0)
    assert [each.kind for each in health.conditions] == ["disconnected", "waiting"]
    metrics.connected("in")
    metrics.connected("out")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not health.conditions
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


def test_the_lag_of_a_source_is_a_series_where_it_is_known() -> None:
    state = State()
    state.source._waiting.extend([(0, Message()), (1, Message())])
    state.after(1.0)
    config: Any = SimpleNamespace(inlets=[state.inlet])
    gauges = read_gauges(config, state, state.health, alive=True)  # type: ignore[arg-type]
    assert gauges["hashstar_lag_messages"][2] == {(("source", "rabbit"),): 2}


MOMENTS = st.lists(
    st.tuples(
        st.sampled_from([1.0, 5.0, 20.0, 60.0]),
        st.dictionaries(st.sampled_from(["q", "r"]), st.sampled_from(["nack", "full"])),
        st.sampled_from([None, None, "slow", "slower"]),
        st.booleans(),
    ),
    max_size=20,
)


@examples(300)
@given(MOMENTS)
def test_a_condition_lasts_from_the_first_look_that_finds_its_cause_to_the_first_that_does_not(
    moments: list[tuple[float, dict[str, str], str | None, bool]],
) -> None:
    """However often its reason changes meanwhile; and a queue that took messages in between begins anew."""
    state = State()
    refusing: dict[str, float] = {}
    begun: dict[str, float] = {}
    for seconds, waiting, trouble, connected in moments:
        state.now += seconds
        state.outlet.waiting = {queue: Failure(reason, busy=True) for queue, reason in waiting.items()}
        state.source.problem = trouble
        if connected:
            state.metrics.connected("rabbit")
        else:
            state.metrics.disconnected("rabbit", Disconnected("cut"), 1.0)
        state.health.look()
        refusing = {queue: refusing.get(queue, state.now) for queue in waiting}
        lasting = [since for since in refusing.values() if state.now - since >= BACKPRESSURE_AFTER]
        causes = {
            "backpressure": min(lasting) if lasting else None,
            "disconnected": None if connected else state.now,
            "trouble": state.now if connected and trouble else None,
        }
        begun = {kind: begun.get(kind, since) for kind, since in causes.items() if since is not None}
        assert {each.kind: each.since for each in state.health.conditions} == {
            kind: EPOCH + since for kind, since in begun.items()
        }
        for each in state.health.conditions:
            if each.kind == "backpressure":
                assert all(
                    (f"queue {queue} takes nothing: {reason}" in each.reason)
                    == (state.now - refusing[queue] >= BACKPRESSURE_AFTER)
                    for queue, reason in waiting.items()
                )
            elif each.kind == "trouble":
                assert each.reason == trouble
