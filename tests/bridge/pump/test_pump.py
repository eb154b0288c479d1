"""The promises of the pump, with endpoints in memory that refuse, break and come back."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.values.field_json import decode_message_line
from tests.support.bridge.events import Events
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import find_limit

QUICK = Policy(window=16, tries=3, backoff=Backoff(0.001, 0.002), reconnect=Backoff(0.001, 0.002), drain=5.0)

TOPOLOGY = (
    Topology()
    .declare_exchange(Exchange("in", "topic"))
    .declare_queue(Queue("all"))
    .declare_queue(Queue("some"))
    .bind(Binding.to_queue("in", "all", "k.#"))
    .bind(Binding.to_queue("in", "some", "k.1"))
)


def make_messages(count: int, keys: int = 4) -> list[Message]:
    return [Message("in", f"k.{n % keys}", {"n": n}) for n in range(count)]


def run_pump(
    messages: Sequence[Message],
    targets: dict[str, MemoryTarget],
    policy: Policy = QUICK,
    dead: MemoryTarget | None = None,
    act: Callable[[MemorySource, Pump], Any] | None = None,
    ignored: frozenset[str] = frozenset(),
) -> tuple[MemorySource, Events]:
    """Run all messages through a pump."""
    events = Events()

    async def run() -> MemorySource:
        source = MemorySource(messages)
        source.end()
        pump = Pump(
            [Inlet(source)], Router(TOPOLOGY), targets, events, policy, dead, ignored, random.Random(1).random,
            lambda: 1_700_000_000.5,
        )  # fmt: skip
        acting = asyncio.ensure_future(act(source, pump)) if act is not None else None
        await asyncio.wait_for(pump.run(), find_limit())
        if acting is not None:
            acting.cancel()
        return source

    return run_virtually(run()), events


def numbers(target: MemoryTarget) -> list[int]:
    return [outgoing.message.headers["n"] for outgoing in target.messages]


def firsts(target: MemoryTarget) -> dict[str, list[int]]:
    """Return key -> numbers of its messages in the order of their first arrival."""
    seen: set[int] = set()
    found: dict[str, list[int]] = defaultdict(list)
    for outgoing in target.messages:
        n = outgoing.message.headers["n"]
        if n not in seen:
            seen.add(n)
            found[outgoing.message.routing_key].append(n)
    return found


@examples(60)
@given(st.integers(0, 2**32), st.booleans())
def test_nothing_is_lost_and_each_key_arrives_in_order_whatever_breaks(seed: int, one_at_a_time: bool) -> None:
    chance = random.Random(seed)

    def fault(outgoing: Outgoing) -> Failure | Disconnected | None:
        lot = chance.random()
        if lot < 0.03:
            return Disconnected("cut")
        # A refusal in the middle of what is under way can change the order of a key unless only one is under way.
        return Failure("nack") if one_at_a_time and lot < 0.15 else None

    async def cut(source: MemorySource, pump: Pump) -> None:
        while True:
            await pass_time(chance.random() * 0.02)
            source.break_connection()

    everything, some, dead = MemoryTarget("all", fault), MemoryTarget("some", fault), MemoryTarget("dead")
    policy = Policy(16, tries=1_000, backoff=QUICK.backoff, reconnect=QUICK.reconnect, one_at_a_time=one_at_a_time)
    source, _ = run_pump(make_messages(300), {"all": everything, "some": some}, policy, dead, cut)
    assert not source.unsettled
    assert not dead.messages
    assert firsts(everything) == {f"k.{key}": list(range(key, 300, 4)) for key in range(4)}
    assert firsts(some) == {"k.1": list(range(1, 300, 4))}


def test_a_key_that_is_refused_is_held_while_the_others_flow_on() -> None:
    refusals = iter([True, True])

    def fault(outgoing: Outgoing) -> Failure | None:
        return Failure("nack") if outgoing.message.headers["n"] == 0 and next(refusals, False) else None

    everything = MemoryTarget(fault=fault)
    policy = Policy(4, tries=5, backoff=Backoff(0.05, 0.05))
    source, events = run_pump(make_messages(8, keys=2), {"all": everything, "some": everything}, policy)
    sent = [n for o, n in zip(everything.messages, numbers(everything), strict=True) if o.queue == "all"]
    assert [n for n in sent if n % 2 == 0] == [2, 0, 4, 6]  # 2 was under way when 0 was refused; 4 waited
    assert sent.index(1) < sent.index(0)
    assert sent.index(3) < sent.index(0)
    assert len(events.calls_of("refused")) == 2
    assert not source.unsettled


def test_after_its_tries_a_message_becomes_a_dead_letter_with_the_reason_and_its_key_continues() -> None:
    everything = MemoryTarget("kafka", lambda o: Failure("nack") if o.message.headers["n"] == 4 else None)
    dead = MemoryTarget("dead")
    source, events = run_pump(make_messages(40), {"all": everything, "some": everything}, dead=dead)
    [letter] = dead.messages
    assert letter.message.headers["n"] == 4
    told_headers = {name: value for name, value in letter.message.headers.items() if name.startswith("hashstar-")}
    time = told_headers.pop("hashstar-time")
    assert (time.type, time.value) == ("timestamp", 1_700_000_000)
    assert told_headers == {
        "hashstar-reason": "nack", "hashstar-origin": "memory", "hashstar-exchange": "in",
        "hashstar-routing-key": "k.0", "hashstar-queue": "all", "hashstar-target": "kafka", "hashstar-attempts": 3,
    }  # fmt: skip
    assert sorted(o.message.headers["n"] for o in everything.messages if o.queue == "all") == [
        n for n in range(40) if n != 4
    ]
    assert events.calls_of("gave_up")[0][3] == "dead-letter"
    assert not source.unsettled
    assert events.calls_of("ended") == [("memory",)]


def test_without_a_target_for_dead_letters_a_refused_message_is_held_and_not_settled() -> None:
    everything = MemoryTarget(fault=lambda o: Failure("nack", final=True) if o.message.headers["n"] == 4 else None)
    policy = Policy(16, tries=1, backoff=QUICK.backoff, drain=0.1)

    async def stop(source: MemorySource, pump: Pump) -> None:
        await pass_time(0.2)
        pump.stop()

    source, _ = run_pump(make_messages(12), {"all": everything, "some": everything}, policy, act=stop)
    assert source.unsettled == 8  # 4 and all behind it, though these were written
    assert sorted({*numbers(everything)}) == [n for n in range(12) if n != 4]


def test_an_unroutable_message_becomes_a_dead_letter_by_default() -> None:
    dead = MemoryTarget("dead")
    source, events = run_pump(
        [Message("in", "other", {"n": 1}), *make_messages(4)],
        {"all": MemoryTarget(), "some": MemoryTarget()},
        dead=dead,
    )
    assert numbers(dead) == [1]
    assert dead.messages[0].message.headers["hashstar-reason"] == "unroutable: no queue of the topology gets it"
    assert len(events.calls_of("unroutable")) == 1
    assert not source.unsettled


def test_an_unroutable_message_is_dropped_only_by_choice_and_reported() -> None:
    policy = Policy(16, unroutable=Unroutable.DROP)
    source, events = run_pump([Message("in", "other")], {"all": MemoryTarget(), "some": MemoryTarget()}, policy)
    assert not source.unsettled
    [(_, delivery, fate, _)] = events.calls_of("unroutable")
    assert fate == "drop"
    assert isinstance(delivery, Delivery)


def test_a_message_that_a_broker_would_refuse_is_a_dead_letter() -> None:
    dead = MemoryTarget("dead")
    run_pump(
        [Message("in", "k.1", {"CC": "no array", "n": 0})], {"all": MemoryTarget(), "some": MemoryTarget()}, dead=dead
    )
    assert "unacceptable_type_in_header" in dead.messages[0].message.headers["hashstar-reason"]


def test_queues_that_are_ignored_need_no_target() -> None:
    everything = MemoryTarget()
    source, _ = run_pump(make_messages(8), {"all": everything}, ignored=frozenset({"some"}))
    assert len(everything.messages) == 8
    assert not source.unsettled


def test_a_source_that_fails_to_take_no_more_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: MemorySource) -> bool:
        raise RuntimeError("a mistake")

    async def stop(source: MemorySource, pump: Pump) -> None:
        await pass_time(0.01)
        pump.stop()

    monkeypatch.setattr(MemorySource, "stop_taking", fail)
    slow = MemoryTarget(fault=lambda o: Failure("busy") if o.attempts < 2 else None)
    policy = Policy(4, tries=100, backoff=Backoff(0.02, 0.02), drain=5)
    _, events = run_pump(make_messages(1_000), {"all": slow, "some": slow}, policy, act=stop)
    assert "a mistake" in str(events.calls_of("disconnected"))


@pytest.mark.parametrize(("seconds", "closed"), [(1.0, True), (4.5, True), (5.5, False)])
def test_after_a_stop_targets_may_take_what_is_left_of_the_drain_to_close(seconds: float, closed: bool) -> None:
    class Slow(MemoryTarget):
        is_closed = False

        async def close(self) -> None:
            await pass_time(seconds)
            self.is_closed = True

    target = Slow()

    async def stop(source: MemorySource, pump: Pump) -> None:
        pump.stop()

    run_pump(make_messages(4), {"all": target, "some": target}, act=stop)
    assert target.is_closed == closed


class Sending(MemorySource):
    """A source whose system had sent all of its messages when it is told to send no more."""

    async def stop_taking(self) -> bool:
        self.end()
        return True


class Late(MemoryTarget):
    """A target that answers after a second."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        if not self._sent:
            asyncio.get_running_loop().call_later(1.0, self._answer)
        self._sent += messages


@examples(40)
@given(st.integers(4, 16), st.integers(0, 30), st.sets(st.integers(0, 29), max_size=4), st.floats(0, 3), st.booleans())
def test_a_stop_settles_what_it_can_and_does_not_wait_for_what_is_on_hold(
    window: int, count: int, held: set[int], after: float, is_refused: bool
) -> None:
    """Held as no queue gets them, or since a target refuses them for good, and there are no dead letters."""
    held = {n for n in held if n < count}
    target = Late(fault=lambda o: Failure("no", final=True) if o.message.headers["n"] in held else None)
    messages = [Message("in", f"k.{n}" if is_refused or n not in held else "no", {"n": n}) for n in range(count)]
    policy = Policy(window, drain=30.0, unroutable=Unroutable.HOLD)

    async def run() -> tuple[int, float]:
        loop, source = asyncio.get_running_loop(), Sending(messages)
        pump = Pump([Inlet(source)], Router(TOPOLOGY), {"all": target, "some": target}, Events(), policy)
        loop.call_later(after, pump.stop)
        await pump.run()
        assert target.messages or held or not count
        assert not pump.outlets[0].in_flight
        return source.unsettled, loop.time() - after

    unsettled, seconds = run_virtually(run())
    assert unsettled == (count - min(held) if held else 0)
    assert seconds < 12.0


class Prefetched(MemorySource):
    """A source whose system had sent up to seven more messages when it is told to send no more."""

    _last: int | None = None

    async def open(self) -> None:
        self._last = None
        await super().open()

    async def stop_taking(self) -> bool:
        if self._last is None:
            self._last = self._waiting[0][0] + 7 if self._waiting else -1
            self._news.set()
        return True

    async def read(self, limit: int) -> Sequence[Delivery]:
        if self._last is not None and not self._broken:
            limit = min(limit, self._last - self._waiting[0][0]) if self._waiting else 0
            if limit <= 0:
                raise EndOfStream
        return await super().read(limit)


@examples(40)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([MemorySource, Prefetched]))
def test_a_drain_at_any_moment_settles_what_was_read_and_the_pump_goes_on_after_it(
    seed: int, has_faults: bool, kind: type[MemorySource]
) -> None:
    chance, drains = random.Random(seed), 0

    def fault(outgoing: Outgoing) -> Failure | Disconnected | None:
        return Disconnected("cut") if has_faults and chance.random() < 0.03 else None

    everything, some = Late("all", fault), MemoryTarget("some", fault)

    async def run() -> None:
        nonlocal drains
        events, source = Events(), kind(make_messages(300))
        policy = Policy(16, reconnect=QUICK.reconnect, rate=100 if chance.random() < 0.2 else None)
        pump = Pump([Inlet(source)], Router(TOPOLOGY), {"all": everything, "some": some}, events, policy)
        running = asyncio.create_task(pump.run())
        while drains < 5:
            await pass_time(chance.random() * 2)
            if chance.random() < 0.2:
                pump.pause()
            pump.drain()
            if has_faults and chance.random() < 0.3:
                source.break_connection()
            if chance.random() < 0.2:  # it is called off
                pump.resume()
                continue
            async with asyncio.timeout(find_limit()):
                while not pump.drained:
                    await pass_time(0.2)
            drains += 1
            assert not pump.draining
            assert not pump.in_flight
            assert not any(each.in_flight or each.held for each in pump.outlets)
            assert all(each.connected for each in pump.outlets) or has_faults
            waiting = source.lag
            await pass_time(3.0)
            assert source.lag == waiting
            assert source.unsettled == waiting or has_faults  # with a lost connection, the rest comes again
            pump.resume()
        source.end()
        await running
        assert source.unsettled == 0

    run_virtually(run())
    assert firsts(everything) == {f"k.{key}": list(range(key, 300, 4)) for key in range(4)}
    assert firsts(some) == {"k.1": list(range(1, 300, 4))}
    assert has_faults or len(everything.messages) == 300


def test_a_drain_leaves_what_is_on_hold_and_reads_it_again_afterwards() -> None:
    target = MemoryTarget()

    async def run() -> None:
        source = MemorySource([Message("in", "no"), *make_messages(3)])
        pump = Pump(
            [Inlet(source)], Router(TOPOLOGY), {"all": target, "some": target}, Events(),
            Policy(unroutable=Unroutable.HOLD),
        )  # fmt: skip
        running = asyncio.create_task(pump.run())
        await pass_time(1.0)
        pump.drain()
        await pass_time(1.0)
        assert pump.drained
        assert source.unsettled == 4
        pump.resume()
        await pass_time(1.0)
        assert pump.in_flight == 4
        pump.stop()
        await running

    run_virtually(run())
    assert Counter(numbers(target)) == dict.fromkeys(range(3), 2) | {1: 4}


def test_a_stop_ends_a_drain_that_lasts() -> None:
    target = MemoryTarget(fault=lambda _: Failure("busy", busy=True))

    async def run() -> float:
        source = Prefetched(make_messages(30))
        pump = Pump([Inlet(source)], Router(TOPOLOGY), {"all": target, "some": target}, Events(), QUICK)
        running = asyncio.create_task(pump.run())
        await pass_time(1.0)
        pump.drain()
        await pass_time(2 * QUICK.drain)
        assert pump.draining
        assert not pump.drained
        pump.stop()
        began = asyncio.get_running_loop().time()
        await running
        assert source.unsettled == 30
        return asyncio.get_running_loop().time() - began

    assert run_virtually(run()) < QUICK.drain + 1.0


def test_a_stop_waits_for_dead_letters_that_what_was_written_since_permits() -> None:
    """The eleventh waits until others are written, and for a moment more, in which nothing is under way."""
    target = Late(fault=lambda o: Failure("no", final=True) if o.message.headers["n"] < 11 else None)

    async def run() -> int:
        source, dead = Sending(make_messages(40)), MemoryTarget("dead")
        pump = Pump([Inlet(source)], Router(TOPOLOGY), {"all": target, "some": target}, Events(), Policy(64), dead)
        asyncio.get_running_loop().call_later(0.5, pump.stop)
        await pump.run()
        return source.unsettled

    assert run_virtually(run()) == 0


def test_a_pump_that_has_run_is_forgotten_with_what_it_could_not_settle() -> None:
    """Else each reload would leave the one before in memory, which would route what is on hold again and again."""

    async def run() -> None:
        inlet, policy = Inlet(Sending([Message("in", "no"), *make_messages(3)])), Policy(unroutable=Unroutable.HOLD)
        pump = Pump([inlet], Router(TOPOLOGY), dict.fromkeys(["all", "some"], MemoryTarget()), Events(), policy)
        asyncio.get_running_loop().call_later(1.0, pump.stop)
        await pump.run()
        assert pump.in_flight == 4
        known = ref(pump)
        del pump, inlet
        await pass_time(2 * policy.backoff.most)
        gc.collect()
        assert known() is None

    run_virtually(run())


class Taken(Sending):
    """A source whose messages another reader has taken when it is opened again."""

    gone: Disconnected | None = None
    opened = 0

    @property
    def lost(self) -> Disconnected | None:
        return self.gone

    async def open(self) -> None:
        await super().open()
        self.gone = None
        self.opened += 1
        if self.opened > 1:
            self._waiting.clear()


def test_what_a_lost_connection_had_read_is_not_moved_at_a_stop() -> None:
    class Pausing(Events):
        """Pauses the pump with the first message, so that there is no room for the second."""

        def read(self, *arguments: Any) -> None:
            self.calls.append(("read", *arguments))
            pump.pause()

    events, source = Pausing(), Taken([Message("in", "k.1", body=b"1" * 10), Message("in", "k.1", body=b"2" * 10)])
    pump: Pump

    async def run() -> None:
        nonlocal pump
        policy = Policy(window_bytes=10, reconnect=Backoff(0.001, 0.002), drain=5.0)
        targets = {"all": MemoryTarget("all"), "some": MemoryTarget("some")}
        pump = Pump([Inlet(source)], Router(TOPOLOGY), targets, events, policy)
        running = asyncio.ensure_future(pump.run())
        await pass_time(1)
        source.gone = Disconnected("gone")
        await pass_time(1)
        assert source.opened == 1  # not while it is paused: what it was sent would go back once more at its end
        pump.resume()
        await pass_time(1)
        assert source.opened == 2
        pump.stop()
        await running

    run_virtually(run())
    assert [[each.message.body[:1] for each in deliveries] for _, deliveries in events.calls_of("read")] == [[b"1"]]


def test_a_paused_bridge_reads_nothing() -> None:
    seen: list[int] = []
    target = MemoryTarget()

    async def act(source: MemorySource, pump: Pump) -> None:
        pump.pause()
        await pass_time(0.05)
        seen.append(len(target.messages))
        assert pump.paused
        pump.resume()

    async def run() -> None:
        source = MemorySource(make_messages(4))
        source.end()
        pump = Pump([Inlet(source)], Router(TOPOLOGY), {"all": target, "some": target}, Events(), QUICK)
        pump.pause()
        await asyncio.gather(pump.run(), act(source, pump))

    run_virtually(run())
    assert seen == [0]
    assert len(target.messages) == 5


def test_an_inlet_may_publish_to_another_exchange_with_another_key() -> None:
    target = MemoryTarget()

    async def run() -> None:
        source = MemorySource([Message("elsewhere", "x", {"n": 0})])
        source.end()
        inlet = Inlet(source, "in", "k.7")
        await Pump([inlet], Router(TOPOLOGY), {"all": target, "some": target}, Events(), QUICK).run()

    run_virtually(run())
    assert [(o.message.exchange, o.message.routing_key) for o in target.messages] == [("in", "k.7")]


def test_a_dead_letter_that_is_refused_for_its_headers_is_written_with_these_in_its_body() -> None:
    def fault(outgoing: Outgoing) -> Failure | None:
        return Failure("too many headers", final=True) if len(outgoing.message.headers) > 15 else None

    dead = MemoryTarget("dead", fault)
    message = Message("in", "other", {f"h{n}": n for n in range(20)} | {"n": 1}, {"message_id": "m"}, b"body")
    source, _ = run_pump([message, *make_messages(4)], {"all": MemoryTarget(), "some": MemoryTarget()}, dead=dead)
    [letter] = dead.messages
    assert letter.message.headers["hashstar-packed"] is True
    assert letter.message.headers["hashstar-reason"] == "unroutable: no queue of the topology gets it"
    whole = decode_message_line(letter.message.body)
    assert {name: whole.headers[name] for name in message.headers} == message.headers
    assert (whole.properties, whole.body) == (message.properties, b"body")
    assert not source.unsettled


def test_a_dead_letter_that_is_refused_however_small_is_held() -> None:
    dead = MemoryTarget("dead", lambda _: Failure("no", final=True))

    async def stop(source: MemorySource, pump: Pump) -> None:
        await pass_time(0.2)
        pump.stop()

    policy = Policy(16, backoff=QUICK.backoff, drain=0.1)
    source, events = run_pump(
        [Message("in", "other", {"n": 1})], {"all": MemoryTarget(), "some": MemoryTarget()}, policy, dead, stop
    )
    assert source.unsettled == 1
    assert [fate for _, _, _, fate in events.calls_of("gave_up")] == ["dead-letter", "hold"]
