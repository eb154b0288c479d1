"""Reloads of a running bridge: random ones among messages and faults, what is refused, and what a process does."""

from __future__ import annotations

import asyncio
import io
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon.config import Config, Http, read_config
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import GOING_BACK, Pipelines, find_fixed
from bridge.daemon.pumps import build_pump, start_pump
from bridge.daemon.telemetry.metrics import Metrics
from bridge.endpoint import Disconnected, Outgoing, Receiver, Target
from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet
from exchange import Binding, Exchange, InputError, Message, Queue, Router, Topology
from exchange.files.operating_system import find_signals
from tests.bridge.daemon.test_daemon import BRIDGE, HOLDING, OUT, TOPOLOGY, running, write_config
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import wait_until

T = TypeVar("T")
QUEUES = ("first", "second")
BASE = Topology().declare_exchange(Exchange("in", "topic")).declare_queue(Queue("first")).declare_queue(Queue("second"))
TOPOLOGIES = [
    BASE.bind(Binding.to_queue("in", "first", "#")),
    BASE.bind(Binding.to_queue("in", "second", "#")),
    BASE.bind(Binding.to_queue("in", "first", "#")).bind(Binding.to_queue("in", "second", "k.1")),
]


async def call_at_once(function: Callable[[], T]) -> T:
    """Stand in for a thread, for which a virtual clock does not wait."""
    await pass_time(0.01)
    return function()


class Store(Target):
    """Stores each message some time after it is sent, and confirms it later still; it may lose its connection."""

    def __init__(
        self, name: str, random: Random, stored: dict[str, list[int]], slow: float, faults: Counter[str] | None
    ) -> None:
        self.name = name
        self._random = random
        self._stored = stored
        self._slow = slow
        self._faults = faults
        self._receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        await pass_time(self._random.random() * 0.05)
        self._receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        asyncio.get_running_loop().create_task(self._work([*messages], self._receiver))

    async def _work(self, messages: list[Outgoing], receiver: Receiver | None) -> None:
        for each in messages:
            if receiver is None or self._receiver is not receiver:
                return
            self._stored[each.queue].append(int(each.message.body))
        await pass_time(self._random.random() * self._slow)
        if receiver is None or self._receiver is not receiver:
            return
        if self._faults is not None and self._random.random() < 0.05:
            self._faults[self.name] += 1
            self._receiver = None
            receiver.lost(Disconnected("cut"))
        else:
            receiver.confirmed(messages)

    async def close(self) -> None:
        self._receiver = None


@examples(60)
@given(st.integers(0, 2**32), st.booleans())
def test_random_reloads_lose_nothing_keep_the_order_and_repeat_a_window_at_most(seed: int, has_faults: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bridge.daemon.pipelines.call_aside", call_at_once)
        try_life(seed, has_faults=has_faults)


def try_life(seed: int, *, has_faults: bool) -> None:
    """Run a bridge that is reloaded at random moments, and check what was stored."""
    random, stored, faults = Random(seed), defaultdict[str, list[int]](list), Counter[str]()
    source, window, count = MemorySource(name="from"), 20, 200
    outcomes = Counter[bool]()

    def make_config() -> Config:
        if random.random() < 0.2:
            raise InputError("bridge.toml: wrong")
        slow = 1.5 if has_faults else 0.3
        target = Store("to", random, stored, slow, faults if has_faults else None)
        policy = Policy(window=random.randint(1, window), drain=1.0, reconnect=Backoff(0.01, 0.1))
        topology = random.choice(TOPOLOGIES)
        return Config("bridge.toml", topology, (Inlet(source),), dict.fromkeys(QUEUES, target), policy)

    async def live() -> tuple[Counter[str], int]:
        first: Config | None = None
        while first is None:
            try:
                first = make_config()
            except InputError:
                continue
        pipelines = Pipelines(first, Journal(out=io.StringIO()), make_config)
        running = asyncio.create_task(pipelines.run())

        async def ask(times: int) -> None:
            for _ in range(times):
                await pass_time(random.random() * 0.5)
                outcomes[not await pipelines.reload()] += 1

        asking = [asyncio.create_task(ask(5)) for _ in range(2)]
        for number in range(count):
            source.put(Message("in", f"k.{number % 3}", body=b"%d" % number))
            if random.random() < 0.3:
                await pass_time(random.random() * 0.1)
            if has_faults and random.random() < 0.01:
                faults["from"] += 1
                source.break_connection()
        await asyncio.gather(*asking)
        source.end()
        await running
        return pipelines.reloads.counts, pipelines.in_flight

    reloads, left = run_virtually(live())
    assert (left, source.unsettled) == (0, 0)
    assert sum(outcomes.values()) == 10
    assert bool(outcomes[False]) == bool(reloads["refused"])
    assert reloads["reloaded"] <= outcomes[True]
    for number in range(count):  # what one of the topologies does with it has been done as a whole
        reached = {queue for queue in QUEUES if number in stored[queue]}
        ways = [{"first"}, {"second"}, {"first", "second"} if number % 3 == 1 else {"first"}]
        assert any(way <= reached for way in ways), number
    for queue, numbers in stored.items():
        for key in range(3):
            firsts = [number for number in dict.fromkeys(numbers) if number % 3 == key]
            assert firsts == sorted(firsts), queue
    twice = sum(len(numbers) - len(set(numbers)) for numbers in stored.values())
    assert twice <= len(QUEUES) * window * (reloads["reloaded"] + sum(faults.values()))
    if not has_faults:  # all was settled within `drain`
        assert twice == 0


def make_plain(*, http: Http | None = Http("127.0.0.1", 9410), workers: int = 1, source: Any = None) -> Config:  # noqa: B008
    return Config("bridge.toml", BASE, (Inlet(source or MemorySource()),), {}, http=http, workers=workers)


def test_what_only_a_restart_can_change_is_named() -> None:
    def find(old: Config, new: Config) -> list[str]:
        return [line.removeprefix("bridge.toml: ") for line in find_fixed(old, new, old.parts, new.parts)]

    restart = "has changed, and cannot be reloaded: restart the bridge for it"
    assert find(make_plain(), make_plain()) == []
    assert find(make_plain(), make_plain(http=None)) == [f"http: {restart}", f"http_hosts: {restart}"]
    assert find(make_plain(), make_plain(http=Http("127.0.0.1", 9411), workers=2)) == [
        f"http: {restart}", f"workers: {restart}",
    ]  # fmt: skip
    assert find(make_plain(), make_plain(http=Http("127.0.0.1", 9410, ("bridge",)))) == [f"http_hosts: {restart}"]


def test_a_source_that_would_begin_anew_is_not_reloaded(tmp_path: Path) -> None:
    def make(text: str) -> Config:
        (tmp_path / "t.bindings").write_text(TOPOLOGY)
        path = tmp_path / "bridge.toml"
        path.write_text(
            f'topology = "t.bindings"\nignore = ["all", "some"]\n[sources.s]\nexchange = "events"\n{text}\n'
        )
        return read_config(path)

    def fixed(old: Config, new: Config) -> list[str]:
        return find_fixed(old, new, old.parts, new.parts)

    archive = 'url = "archive:in"\n'
    kafka = 'url = "kafka://localhost:9092"\ntopics = ["t"]\n'
    rocketmq = 'url = "rocketmq://localhost:9876"\ntopics = ["t"]\n'
    stream = 'url = "amqp://localhost/"\nqueue = "s"\n'
    for same in (archive, f'{kafka}group = "g"', f'{rocketmq}group = "g"', stream, f'{stream}offsets = "at"'):
        assert fixed(make(same), make(same)) == []
    elsewhere = ["[sources.s] would begin anew: how far it is read is kept elsewhere; restart the bridge for it"]
    memory = ["[sources.s] how far it was read is kept in memory only, and would be lost: restart the bridge for it"]
    off = f'{archive}state = "off"'
    read = make(stream)
    source = read.inlets[0].source
    assert isinstance(source, RabbitmqSource)
    source._is_stream = source._was_stream = True  # as it finds when it is opened
    for old, new, lines in (
        (make(archive), f'{archive}state = "at"', elsewhere),
        (make(f'{kafka}group = "g"'), f'{kafka}group = "h"', elsewhere),
        (make(f'{rocketmq}group = "g"'), f'{rocketmq}group = "h"', elsewhere),
        (make(f'{stream}offsets = "at"'), f'{stream}offsets = "there"', elsewhere),
        (make(off), off, memory),
        (make(off), archive, memory),
        (read, stream, memory),
        (make(off), 'url = "archive:other"', []),
    ):
        assert [line.partition(": ")[2] for line in fixed(old, make(new))] == lines


def test_a_bridge_that_is_stopped_between_two_pumps_begins_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.daemon.pipelines.call_aside", call_at_once)

    async def live() -> None:
        source = MemorySource()

        def make_config() -> Config:
            store = Store("to", Random(1), defaultdict(list), 0.0, None)
            return Config("bridge.toml", TOPOLOGIES[0], (Inlet(source),), dict.fromkeys(QUEUES, store))

        pipelines = Pipelines(make_config(), Journal(out=io.StringIO()), make_config)
        running = asyncio.create_task(pipelines.run())
        await pass_time(1)
        asked = asyncio.create_task(pipelines.reload())
        await pass_time(GOING_BACK / 2)
        assert asked.done()  # at once, as nothing goes back to this source
        source.takes_back, first = True, pipelines.pumps
        asked = asyncio.create_task(pipelines.reload())
        await pass_time(GOING_BACK / 2)
        pipelines.stop()
        await pass_time(GOING_BACK)
        assert (running.done(), asked.cancelled(), pipelines.pumps is first) == (True, True, True)
        assert pipelines.reloads.counts["reloaded"] == 1  # the second never was in effect

    run_virtually(live())


def test_counters_of_a_source_go_on_over_a_reload() -> None:
    class Archive(MemorySource):
        def __init__(self) -> None:
            super().__init__(name="s")
            self.unreadable = Counter[str]()

    async def live() -> None:
        metrics, journal = Metrics(), Journal(out=io.StringIO())
        for count in (1, 2):
            archive = Archive()
            config = make_plain(source=archive)
            start_pump(build_pump(config, Router(config.topology), journal, metrics), journal, metrics)
            archive.unreadable["torn"] += 1
            line = f'hashstar_unreadable_records_total{{source="s",reason="torn"}} {count}'
            assert line in [*metrics.lines({})]

    run_virtually(live())


def test_a_bridge_that_is_stopped_while_it_reloads_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.daemon.pipelines.call_aside", call_at_once)

    async def live() -> list[str | BaseException]:
        source = MemorySource([Message("in", "k.1", body=b"1")])

        def make_config() -> Config:
            store = Store("to", Random(1), defaultdict(list), 1000.0, None)
            policy = Policy(drain=5.0)
            return Config("bridge.toml", TOPOLOGIES[0], (Inlet(source),), dict.fromkeys(QUEUES, store), policy)

        pipelines = Pipelines(make_config(), Journal(out=io.StringIO()), make_config)
        running = asyncio.create_task(pipelines.run())
        await pass_time(1)
        asked = [asyncio.create_task(pipelines.reload()) for _ in range(2)]
        await pass_time(0.5)  # the first drains, in 5 s; the second is one with it
        later = asyncio.create_task(pipelines.reload())
        await pass_time(0.5)
        pipelines.stop()
        await running
        assert pipelines.in_flight == 1
        return await asyncio.gather(*asked, later, return_exceptions=True)

    assert [type(each) for each in run_virtually(live())] == [asyncio.CancelledError] * 3


@pytest.mark.process
@pytest.mark.skipif(not find_signals("SIGHUP"), reason="the system has no SIGHUP")
def test_a_process_reads_its_file_again_and_refuses_what_is_wrong_as_a_whole(tmp_path: Path) -> None:
    text = BRIDGE.replace('"20 s"', '"1 s"') + "follow = true\n" + OUT
    path = write_config(tmp_path, text)
    (tmp_path / "t.bindings").write_text(HOLDING)
    header = {"X-Hashstar": "1"}
    with running(path) as bridge:
        wait_until(lambda: bridge.status()["sources"][0]["on_hold"] > 0)
        path.write_text(text.replace("[targets.out]", "[targets.out]\ncolour = 1"))
        code, body = bridge.request("POST", "/reload", header)
        assert (code, "colour" in body) == (409, True)
        assert bridge.event("reload refused")["reason"] == body.strip()
        assert bridge.status()["reload_refused"] == body.strip()
        assert "hashstar_reload_refused 1" in bridge.request("GET", "/metrics")[1]
        path.write_text(text.replace("127.0.0.1:0", "127.0.0.1:1"))
        assert "http: has changed" in bridge.request("POST", "/reload", header)[1]
        assert bridge.request("POST", "/reload")[0] == 403
        path.write_text(text.replace('"1 s"', '"20 s"'))
        (tmp_path / "t.bindings").write_text(TOPOLOGY)
        bridge.process.send_signal(signal.SIGHUP)  # what waits is routed now
        wait_until(lambda: bridge.status()["reloads"] >= 1)
        assert bridge.request("POST", "/reload", header) == (200, "reloaded\n")
        wait_until(lambda: bridge.status()["unsettled"] == 0 and bridge.status()["sources"][0]["messages"] >= 300)
        assert (bridge.status()["reload_refused"], bridge.status()["sources"][0]["on_hold"]) == ("", 0)
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
