"""Several pipelines in one process: one's trouble is its own, and a reload touches what it changes and nothing else."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon import run as run_module
from bridge.daemon.config import Config
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import ANEW, Pipelines, UnknownPipeline
from bridge.daemon.pumps import control
from bridge.endpoint import Disconnected, Outgoing, Receiver
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import InputError, Message
from tests.bridge.daemon.test_reload import QUEUES, TOPOLOGIES, Store, call_at_once
from tests.support.tiers import examples
from tests.support.virtual_loop import on_a_virtual_loop, pass_time, run_virtually

NAMES: Final = ("a", "b", "c")
STOPPED: Final = 60.0
"""Seconds of the virtual clock within which pipelines have ended."""
FAST: Final = Policy(drain=1.0, reconnect=Backoff(0.01, 0.1), stalled_after=2.0)


def join(*parts: Config) -> Config:
    """Return the configuration of a file with these pipelines."""
    return replace(parts[0], name="", inlets=(), targets={}, written=None, pipelines=parts)


def make_part(
    name: str, source: MemorySource, target: MemoryTarget | Store, version: int = 0, policy: Policy = FAST, **other: Any
) -> Config:
    """Return a pipeline of which the file says the same as of another one with the same version."""
    return Config(
        "bridge.toml", TOPOLOGIES[0], (Inlet(source),), dict.fromkeys(QUEUES, target), policy, name=name,
        written=version, **other,
    )  # fmt: skip


def make_messages(count: int) -> list[Message]:
    return [Message("in", f"k.{n}", body=b"%d" % n) for n in range(count)]


class Broken(MemoryTarget):
    """A target whose broker is away."""

    async def open(self, receiver: Receiver) -> None:
        raise Disconnected("nothing listens there")


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.daemon.pipelines.call_aside", call_at_once)


class Bridge:
    """Pipelines that run, and their log."""

    def __init__(self, *parts: Config) -> None:
        self.log = io.StringIO()
        self.next: Config | Exception = join(*parts)
        self.pipelines = Pipelines(join(*parts), Journal("json", out=self.log), self.reread)
        self.running = asyncio.create_task(self.pipelines.run())

    def reread(self) -> Config:
        if isinstance(self.next, Exception):
            raise self.next
        return self.next

    async def reload(self, *parts: Config, only: str | None = None) -> str:
        self.next = join(*parts)
        return await self.pipelines.reload(only)

    async def stop(self) -> None:
        self.pipelines.stop()
        async with asyncio.timeout(STOPPED):
            await self.running

    def events(self, name: str) -> list[dict[str, Any]]:
        return [each for each in map(json.loads, self.log.getvalue().splitlines()) if each["event"] == name]

    def conditions(self) -> dict[str, list[str]]:
        return {name: [each.kind for each in own.health.current()] for name, own in self.pipelines.pumps.items()}


def read_numbers(target: MemoryTarget) -> list[int]:
    return [int(each.message.body) for each in target.messages]


@on_a_virtual_loop
async def test_trouble_of_one_pipeline_stops_no_other() -> None:
    """Its broker is away; a message of it is on hold."""
    good, away = MemoryTarget("out"), Broken("out")
    held = MemorySource([Message("nowhere", "k", body=b"1")], name="from")
    bridge = Bridge(
        make_part("good", MemorySource(make_messages(50), name="from"), good),
        make_part("away", MemorySource(make_messages(50), name="from"), away),
        make_part("held", held, MemoryTarget("out")),
    )
    await pass_time(20.0)
    assert sorted(read_numbers(good)) == list(range(50))
    assert bridge.conditions() == {"good": [], "away": ["disconnected", "waiting"], "held": ["held"]}
    assert {each["pipeline"] for each in bridge.events("condition began")} == {"away", "held"}
    await bridge.stop()


@on_a_virtual_loop
async def test_a_bridge_has_ended_when_all_its_pipelines_have_and_one_that_has_is_ready() -> None:
    sources = [MemorySource(make_messages(3), name="from") for _ in range(2)]
    targets = [MemoryTarget("out") for _ in range(2)]
    bridge = Bridge(
        *[make_part(name, *ends) for name, ends in zip(NAMES, zip(sources, targets, strict=True), strict=False)]
    )
    sources[0].end()
    await pass_time(5.0)
    pumps = bridge.pipelines.pumps
    assert (pumps["a"].ended, pumps["b"].ended, bridge.running.done()) == (True, False, False)
    control(pumps, Pump.pause)  # as a user does with all
    assert bridge.conditions() == {"a": [], "b": ["paused"]}
    control(pumps, Pump.resume)
    sources[1].end()
    await bridge.running
    assert bridge.pipelines.count_messages() == {"read": 6, "written": 6}


@on_a_virtual_loop
async def test_all_are_stopped_within_the_longest_drain() -> None:
    """Each within its own, whatever the others wait for."""
    bridge = Bridge(
        *[
            make_part(name, MemorySource(make_messages(3), name="from"), Mute("out"), policy=replace(FAST, drain=drain))
            for name, drain in (("a", 2.0), ("b", 7.0))
        ]
    )
    await pass_time(1.0)
    assert (bridge.pipelines.drain, bridge.pipelines.in_flight) == (7.0, 6)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await bridge.stop()
    assert 7.0 <= loop.time() - began <= 12.0
    assert bridge.pipelines.in_flight == 6  # which are read again by the next run


class Mute(MemoryTarget):
    """A target that answers nothing."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        pass


@on_a_virtual_loop
async def test_no_pump_begins_after_a_stop_while_another_pipeline_still_ends() -> None:
    def make(name: str, drain: float, version: int) -> Config:
        source = MemorySource(make_messages(1), name="from")
        return make_part(name, source, Mute("out"), version, replace(FAST, drain=drain))

    slow = make("slow", 9.0, 1)
    bridge = Bridge(make("a", 1.0, 1), slow)
    await pass_time(1.0)
    before = bridge.pipelines.pumps["a"]
    asked = asyncio.create_task(bridge.reload(make("a", 1.0, 2), slow))
    await pass_time(0.5)  # the first drains
    await bridge.stop()
    assert bridge.pipelines.pumps["a"] is before
    assert asked.cancelled()
    assert bridge.pipelines.reloads.counts["reloaded"] == 0


@on_a_virtual_loop
async def test_a_reload_touches_the_pipelines_that_it_changes_and_no_other() -> None:
    def make(name: str, version: int) -> Config:
        return make_part(name, sources[name], MemoryTarget("out"), version)

    sources = {name: MemorySource(name="from") for name in (*NAMES, "d")}
    bridge = Bridge(make("a", 1), make("b", 1), make("c", 1))
    await pass_time(1.0)
    before = dict(bridge.pipelines.pumps)
    assert await bridge.reload(make("a", 1), make("b", 2), make("d", 1)) == ""
    after = bridge.pipelines.pumps
    assert [*after] == ["a", "b", "d"]
    assert after["a"] is before["a"]
    assert after["b"] is not before["b"]
    assert (before["b"].pump.is_over, before["c"].pump.is_over, after["a"].pump.is_over) == (True, True, False)
    [event] = bridge.events("reloaded")
    assert (event["began"], event["ended"]) == (["b", "d"], ["c"])
    assert await bridge.reload(make("a", 1), make("b", 2), make("d", 1)) == ""  # nothing is changed
    assert dict(bridge.pipelines.pumps) == dict(after)
    assert await bridge.reload(make("a", 2), make("b", 2), make("d", 1), only="b") == ""
    assert bridge.pipelines.pumps["a"] is after["a"]  # although the file has changed it
    assert bridge.pipelines.pumps["b"] is not after["b"]  # although the file has not
    for wrong in ("none", ""):
        with pytest.raises(UnknownPipeline, match="there is no pipeline"):
            await bridge.reload(make("a", 2), only=wrong)
    assert bridge.pipelines.reloads.counts["refused"] == 0  # nothing is wrong with the file
    assert await bridge.reload(make("a", 2), make("b", 2), make("d", 1)) == ""
    assert bridge.pipelines.pumps["a"] is not after["a"]
    for name in ("a", "b", "d"):
        sources[name].put(Message("in", "k", body=b"1"))
    await pass_time(1.0)
    assert all(sources[name].unsettled == 0 for name in ("a", "b", "d"))
    await bridge.stop()


@on_a_virtual_loop
async def test_a_pipeline_that_a_reload_adds_is_paused_with_all_others() -> None:
    def make(name: str) -> Config:
        return make_part(name, MemorySource(name="from"), MemoryTarget("out"))

    bridge = Bridge(make("a"), make("b"))
    await pass_time(1.0)
    control(bridge.pipelines.pumps, Pump.pause, "a")
    assert await bridge.reload(make("a"), make("b"), make("c")) == ""
    assert [each.pump.paused for each in bridge.pipelines.pumps.values()] == [True, False, False]
    control(bridge.pipelines.pumps, Pump.pause)
    assert await bridge.reload(make("a"), make("b"), make("c"), make("d")) == ""
    assert all(each.pump.paused for each in bridge.pipelines.pumps.values())
    await bridge.stop()


@on_a_virtual_loop
async def test_a_source_that_moves_to_another_pipeline_is_read_there_after_it_was_settled_here() -> None:
    source, slow = MemorySource(make_messages(20), name="from"), defaultdict[str, list[int]](list)
    target = MemoryTarget("out")
    other = MemorySource(name="other")
    bridge = Bridge(make_part("a", source, Store("out", Random(1), slow, 0.9, None)), make_part("b", other, target))
    await pass_time(0.2)
    old = bridge.pipelines.pumps["a"].pump
    assert await bridge.reload(make_part("b", source, target, 2)) == ""
    assert old.is_over
    source.put(Message("in", "k", body=b"99"))
    await pass_time(3.0)
    assert sorted({*slow["first"], *read_numbers(target)}) == [*range(20), 99]
    await bridge.stop()


@on_a_virtual_loop
async def test_a_pipeline_that_ends_by_a_mistake_of_ours_begins_anew_and_no_other_notices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Counter({"a": 2})
    run = Pump.run

    async def fail(self: Pump) -> None:
        if left["a"] and self is bridge.pipelines.pumps["a"].pump:
            left["a"] -= 1
            raise RuntimeError("a mistake")
        await run(self)

    monkeypatch.setattr(Pump, "run", fail)
    targets = {name: MemoryTarget("out") for name in ("a", "b")}
    sources = {name: MemorySource(make_messages(5), name="from") for name in targets}
    bridge = Bridge(*[make_part(name, sources[name], targets[name]) for name in targets])
    await pass_time(ANEW.first / 2)
    assert bridge.conditions()["a"] == ["disconnected", "waiting"]
    assert "a mistake" in bridge.pipelines.pumps["a"].health.current()[0].reason
    assert (len(targets["a"].messages), len(targets["b"].messages)) == (0, 5)
    await pass_time(ANEW.first * 4)
    assert len(targets["a"].messages) == 5
    failures = bridge.events("pipeline failed")
    assert [(each["pipeline"], each["again_in"]) for each in failures] == [("a", 1.0), ("a", 2.0)]
    assert bridge.conditions() == {"a": [], "b": []}
    left["a"] = 1  # it is stopped while it waits
    assert await bridge.reload(*[make_part(name, sources[name], targets[name]) for name in targets], only="a") == ""
    await pass_time(0.1)
    began = asyncio.get_running_loop().time()
    await bridge.stop()
    assert asyncio.get_running_loop().time() - began < ANEW.first / 2


def test_a_mistake_of_ours_ends_a_bridge_of_one_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its supervisor sees it, and starts it again."""

    async def fail(self: Pump) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Pump, "run", fail)
    part = make_part("", MemorySource(name="from"), MemoryTarget("out"))
    with pytest.raises(RuntimeError, match="a mistake"):
        asyncio.run(run_module.run(part, Journal(out=io.StringIO())))


def test_a_program_runs_several_and_is_told_whether_all_are_settled() -> None:
    sources = [MemorySource(make_messages(3), name="from") for _ in range(2)]
    for each in sources:
        each.end()
    parts = [make_part(name, source, MemoryTarget("out")) for name, source in zip("ab", sources, strict=True)]
    assert asyncio.run(run_module.run(join(*parts), Journal(out=io.StringIO())))


@examples(40)
@given(st.integers(0, 2**32))
def test_random_reloads_of_several_pipelines_lose_nothing_and_repeat_nothing(seed: int) -> None:
    """Pipelines come, go, change and stay; what one has read is settled before it goes, in the order of its keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bridge.daemon.pipelines.call_aside", call_at_once)
        run_virtually(try_life(seed))


async def try_life(seed: int) -> None:
    random = Random(seed)
    sources = {name: MemorySource(name="from") for name in NAMES}
    stored: Mapping[str, dict[str, list[int]]] = {name: defaultdict(list) for name in NAMES}
    versions = dict.fromkeys(NAMES, 0)

    def make(names: Sequence[str]) -> Config:
        return join(
            *[
                make_part(name, sources[name], Store("out", random, stored[name], 0.3, None), versions[name])
                for name in names
            ]
        )

    def reread() -> Config:
        if random.random() < 0.2:
            raise InputError("bridge.toml: wrong")
        for name in NAMES:
            versions[name] += random.random() < 0.4
        return make([name for name in NAMES if name == "a" or random.random() < 0.7])

    pipelines = Pipelines(make(NAMES), Journal(out=io.StringIO()), reread)
    running = asyncio.create_task(pipelines.run())

    async def ask() -> None:
        for _ in range(6):
            await pass_time(random.random() * 0.5)
            before = dict(pipelines.pumps)
            old = dict(versions)
            is_reloaded = not await pipelines.reload()
            if not is_reloaded:
                assert dict(pipelines.pumps) == before
            for name, each in pipelines.pumps.items():
                if is_reloaded and name in before and old[name] == versions[name]:
                    assert each is before[name]

    asking = asyncio.create_task(ask())
    for number in range(120):
        sources[random.choice(NAMES)].put(Message("in", f"k.{number % 3}", body=b"%d" % number))
        if random.random() < 0.3:
            await pass_time(random.random() * 0.1)
    await asking
    pipelines._reread = lambda: make(NAMES)
    assert await pipelines.reload() == ""
    for each in sources.values():
        each.end()
    await running
    assert pipelines.in_flight == 0
    numbers = [number for own in stored.values() for number in own["first"]]
    assert sorted(numbers) == list(range(120))
    for own in stored.values():
        for key in range(3):
            of_key = [number for number in own["first"] if number % 3 == key]
            assert of_key == sorted(of_key)


def test_events_of_each_pipeline_are_thinned_out_by_themselves() -> None:
    out, now = io.StringIO(), [1_700_000_000.0]
    journal = Journal("json", out=out, clock=lambda: now[0])
    parts = [journal.for_pipeline(name) for name in ("a", "b")]
    assert journal.for_pipeline("") is journal
    for _ in range(5):
        for each in (journal, *parts):
            each.connected("kafka")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line.get("pipeline") for line in lines] == [None, "a", "b"]
    now[0] += 2.0
    parts[0].catch_up()  # also what the libraries of all have logged
    lines = [json.loads(line) for line in out.getvalue().splitlines()][3:]
    assert [(line.get("pipeline"), line["also"]) for line in lines] == [(None, 3), ("a", 3)]
    journal.write_as("text", "error")
    parts[0].write("info", "paused")
    parts[1].write("error", "reload refused")
    assert out.getvalue().splitlines()[-1].endswith("error   reload refused pipeline=b")
