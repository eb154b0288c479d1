"""One simulated life of a bridge, from its plan: what broke, and how long it lasted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from bridge.pump.pump import Inlet, Pump
from exchange import Router
from tests.simulation.archive import ModelArchive, archive_simulated
from tests.simulation.kafka import KafkaServer
from tests.simulation.kafka_source import KafkaTopic, kafka_simulated
from tests.simulation.kafka_topic import ModelTopic
from tests.simulation.loop import simulate
from tests.simulation.plan import TARGETS, Fault, Plan
from tests.simulation.promises import Broken
from tests.simulation.rabbitmq import RabbitmqQueue, RabbitmqServer, rabbitmq_simulated
from tests.simulation.rocketmq import RocketmqServer, RocketmqTopic, rocketmq_simulated
from tests.simulation.rocketmq_broker import ModelBroker
from tests.simulation.sources import Broker, Client, LogSource, ModelSource, QueueSource
from tests.simulation.targets import ModelTarget
from tests.simulation.watch import WatchedSource, WatchedTarget
from tests.simulation.world import TOPOLOGY, Events, World
from tests.support.virtual_loop import pass_time

PATIENCE: Final = 400.0
"""Maximum number of seconds until all is settled after the faults."""

STOPPING: Final = 5.0
"""Number of seconds beyond the drain in which a stop ends."""

CALM_DRAIN: Final = 10.0
"""Minimum number of seconds of a drain in which all is settled if nothing happens."""

SETTLING: Final = 20.0
"""Seconds after a fault in which what it has delayed may still be under way."""

AGAIN: Final = 20.0
"""Seconds between resumes at the end, each of which lets ten more dead letters pass."""


class Outcome(NamedTuple):
    """What came of a plan."""

    broken: tuple[Broken, ...]
    """Broken promises, in the order of their times."""
    seconds: float
    """Virtual seconds."""


def play(plan: Plan) -> Outcome:
    """Live through a plan."""
    random = Random(plan.seed)
    world = World(plan, random)
    with _without_logs(), rabbitmq_simulated(), kafka_simulated(), rocketmq_simulated(), _disk(plan) as disk:
        try:
            _, seconds = simulate(Life(world, disk).live(), random)
        except Exception as error:  # noqa: BLE001  whatever it is
            world.broken.append(Broken("no error", 0.0, repr(error)))
            seconds = 0.0
    return Outcome(tuple(world.broken), seconds)


class Life:
    """The bridges of a life, one after the other, over brokers that outlive them."""

    def __init__(self, world: World, disk: Path) -> None:
        self.world = world
        self.disk = disk
        plan = world.plan
        self.brokers = {f"{kind}-{at}": _make_broker(kind) for at, kind in enumerate(plan.sources)}
        self.written = {name: ModelBroker(f"{name}-topic", 2) for name in TARGETS}
        """Target -> the broker that has its topic, if it is of RocketMQ."""
        self.sources: dict[str, Client] = {}
        self.targets: dict[str, Client] = {}
        self.watched: list[WatchedSource | WatchedTarget] = []
        self.pump: Pump | None = None
        self.events: Events | None = None
        self.running: asyncio.Task[None] | None = None
        self.stopped_at = inf
        self.is_calm = False
        """Whether it was stopped while all was well, and nothing happened in the time that its drain has."""
        self.is_killed = False

    async def live(self) -> None:
        """Live through the plan, and judge it."""
        world, plan, loop = self.world, self.world.plan, asyncio.get_running_loop()
        loop.set_exception_handler(self._note_error)
        for _ in range(plan.messages):
            loop.call_at(world.delay(plan.span), self._publish)
        self._numbers = iter(range(plan.messages))
        for fault in plan.faults:
            loop.call_at(fault.at, self._strike, fault)
        loop.call_at(plan.ends, self._be_well)
        looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout_at(plan.ends + PATIENCE):
                while not await self._run_bridge():
                    await pass_time(world.delay(0.5))
        except TimeoutError:
            world.breaks("nothing stands still", self._describe())
        looking.cancel()
        if not world.broken:
            world.judge_end()
            for target in self.targets.values():
                if isinstance(target, ModelArchive):
                    target.judge()

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "handle" in context:  # a callback raised; what a task raised is raised where it is awaited
            self.world.breaks("no error", repr(context.get("exception")))

    def _publish(self) -> None:
        number = next(self._numbers)
        name = self.world.source_of(number)
        if name in self.sources:
            self.sources[name].put(number)
        else:
            self._make_source(name, self.brokers[name]).put(number)

    def _make_source(self, name: str, broker: Any) -> Client:
        kinds: dict[str, Callable[[str, World, Any], Client]] = {
            "queue": QueueSource, "log": LogSource, "rabbitmq": RabbitmqQueue, "kafka": KafkaTopic,
            "rocketmq": RocketmqTopic, "orderly": RocketmqTopic,
        }  # fmt: skip
        return kinds[name.partition("-")[0]](name, self.world, broker)

    def _make_target(self, name: str) -> Client:
        if self.world.plan.targets == "model":
            return ModelTarget(name, self.world)
        if self.world.plan.targets == "archive":
            return ModelArchive(name, self.world, self.disk)
        target: RabbitmqServer | KafkaServer | RocketmqServer
        if self.world.plan.targets == "rocketmq":
            target = RocketmqServer(name, self.world, self.written[name])
        else:
            target = (RabbitmqServer if self.world.plan.targets == "rabbitmq" else KafkaServer)(name, self.world)
        self.world.verdicts[name] = target.is_at_fault
        return target

    async def _run_bridge(self) -> bool:
        """Run one bridge to its end; return whether that is the end of all."""
        world, plan = self.world, self.world.plan
        lasting: dict[str, Client] = {**self.sources, **self.targets}
        self.sources = {name: self._make_source(name, broker) for name, broker in self.brokers.items()}
        self.targets = {name: self._make_target(name) for name in TARGETS}
        for name, each in {**self.sources, **self.targets}.items():  # the faults of systems outlive their clients
            if name in lasting:
                each.until, each.numbers = lasting[name].until, lasting[name].numbers
                if each.has("mute"):
                    each.until["mute"] = 0.0
        world.begin()
        self.watched = [
            *[WatchedSource(each.endpoint, world) for each in self.sources.values()],
            *[WatchedTarget(each.endpoint, world) for each in self.targets.values()],
        ]
        watched: dict[str, Any] = {each.name: each for each in self.watched}
        self.stopped_at, self.is_calm, self.is_killed = inf, False, False
        events: Any = Events(world, lambda: self.pump)
        self.events = events
        self.pump = pump = Pump(
            [Inlet(watched[name], "in") for name in self.sources], Router(TOPOLOGY),
            {name: watched[name] for name in ("all", "odd")}, events, plan.policy,
            watched["dead"] if plan.dead_letters else None, random=world.random.random, clock=lambda: world.now,
        )  # fmt: skip
        running = self.running = asyncio.create_task(pump.run())
        try:
            await running
        except asyncio.CancelledError:
            if not self.is_killed:
                raise
            return False
        finally:
            if not running.done():
                running.cancel()
        if world.now - self.stopped_at > plan.drain + STOPPING:
            world.breaks("stop", f"it took {world.now - self.stopped_at:.1f} s")
        if self.is_calm and pump.in_flight > sum([len(inlet.window.on_hold()) for inlet in pump._inlets]):
            world.breaks("drain", f"{pump.in_flight} messages are not settled")
        if {*world.closed[-len(self.sources) :]} != {*self.sources}:
            world.breaks("close", f"{world.closed}")
        return world.well and all(source.is_empty for source in self.sources.values())

    def _strike(self, fault: Fault) -> None:
        if fault.where == "bridge":
            getattr(self, f"_{fault.what}")(fault)
        elif (place := {**self.sources, **self.targets}.get(fault.where)) is not None:
            place.strike(fault)

    def _kill(self, _: Fault | None = None) -> None:
        if self.running is not None and not self.running.done():
            for watched in self.watched:
                watched.is_dead = True
            for each in (*self.sources.values(), *self.targets.values()):
                each.kill()
            self.is_killed = True
            self.running.cancel()

    def _stop(self, _: Fault) -> None:
        if self.pump is not None and self.stopped_at == inf:
            now, plan = self.world.now, self.world.plan
            clients = [*self.sources.values(), *self.targets.values()]
            self.stopped_at = now
            self.is_calm = (
                plan.drain >= CALM_DRAIN and not plan.odd
                and all(each.connected and not each.held for each in self.pump.outlets)
                and not any(until >= now - SETTLING for each in clients for until in each.until.values())
                and not any(now < each.at < now + plan.drain + STOPPING for each in plan.faults)
            )  # fmt: skip
            self.pump.stop()

    def _pause(self, fault: Fault) -> None:
        if self.pump is not None and self.events is not None:
            self.events.forget_reads()
            self.pump.pause()
            asyncio.get_running_loop().call_later(fault.seconds, partial(self._resume, fault))

    def _resume(self, _: Fault | None = None) -> None:
        if self.pump is not None and self.events is not None:
            self.events.forget_reads()
            self.world.count_anew()
            self.pump.resume()

    def _be_well(self) -> None:
        """End all faults; then all must come to an end."""
        self.world.well = True
        for each in (*self.sources.values(), *self.targets.values()):
            each.news.set()
        self._resume_again()
        self._end_when_all_is_done()

    def _end_when_all_is_done(self) -> None:
        if self.pump is not None and not self.pump.in_flight and all(each.is_empty for each in self.sources.values()):
            self.pump.stop()
        asyncio.get_running_loop().call_later(1.0, self._end_when_all_is_done)

    def _resume_again(self) -> None:
        """Resume, and have a RabbitMQ be restarted: what ended a connection is sent again over a new one only."""
        self._resume()
        if self.world.plan.targets == "rabbitmq":
            for target in self.targets.values():
                target.lose()
        asyncio.get_running_loop().call_later(AGAIN, self._resume_again)

    async def _look(self) -> None:
        while not self.world.well:
            for source in self.sources.values():
                if isinstance(source, ModelSource):
                    source.look()
            await pass_time(0.7)

    def _describe(self) -> str:
        if self.pump is None:
            return "there is no bridge"
        sources = {i.source.name: (self.pump.waiting_for(i), i.window.messages) for i in self.pump._inlets}
        outlets = {o.target.name: (o.connected, o.in_flight, o.held) for o in self.pump.outlets}
        return f"sources {sources}, targets {outlets}"


def _make_broker(kind: str) -> Any:
    """Make what outlives the clients of a kind of source."""
    if kind == "kafka":
        return ModelTopic()
    return ModelBroker("in", 2) if kind in ("rocketmq", "orderly") else Broker()


@contextmanager
def _disk(plan: Plan) -> Iterator[Path]:
    """Make a folder for archives, if there are any; in memory where that can be had."""
    if plan.targets != "archive":
        yield Path()
        return
    memory = Path("/dev/shm")  # noqa: S108  a folder of its own is made there
    with archive_simulated(), TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@contextmanager
def _without_logs() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
