"""One simulated life of a bridge, from its plan: what broke, and how long it lasted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from bridge.pump.pump import Pump
from tests.simulation.kafka_exactly_once import transactions_simulated
from tests.simulation.kafka_share import share_simulated
from tests.simulation.kafka_source import kafka_simulated
from tests.simulation.loop import simulate
from tests.simulation.plan import TO_MISTAKE, TRANSACTIONAL, Fault, File, Plan
from tests.simulation.process import Process, pipelines_simulated
from tests.simulation.promises import Broken
from tests.simulation.rabbitmq import rabbitmq_simulated
from tests.simulation.rocketmq import rocketmq_simulated
from tests.simulation.sources import ModelSource
from tests.simulation.systems import Systems, make_disk
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

PATIENCE: Final = 400.0
"""Maximum number of seconds until all is settled after the faults."""

AGAIN: Final = 20.0
"""Seconds between resumes at the end, each of which lets ten more dead letters pass."""


SIMULATED: Final[dict[Callable[[], AbstractContextManager[None]], frozenset[str]]] = {
    rabbitmq_simulated: frozenset({"rabbitmq"}),
    kafka_simulated: frozenset({"kafka", "share", *TRANSACTIONAL}),
    share_simulated: frozenset({"share"}),
    rocketmq_simulated: frozenset({"rocketmq", "orderly"}),
    transactions_simulated: frozenset(TRANSACTIONAL),
}
"""What has real endpoints run over models -> kinds of sources and targets that need it."""


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
    with _without_logs(), pipelines_simulated(world), make_disk(plan) as disk, ExitStack() as stack:
        for simulated, kinds in SIMULATED.items():
            if not kinds.isdisjoint([*plan.sources, plan.targets]):
                stack.enter_context(simulated())
        try:
            _, seconds = simulate(Life(world, disk).live(), random)
        except Exception as error:  # noqa: BLE001  whatever it is
            world.broken.append(Broken("no error", 0.0, repr(error)))
            seconds = 0.0
    return Outcome(tuple(world.broken), seconds)


class Life:
    """The processes of a life, over systems that outlive them, and a file that its owner edits."""

    def __init__(self, world: World, disk: Path) -> None:
        self.world = world
        self.systems = Systems(world, disk)
        self.file = File(world.plan, world.plan)
        self.workers: list[Process | None] = [None] * world.plan.workers
        """Process of each worker that runs, or ran last."""

    @property
    def processes(self) -> list[Process]:
        """Processes that run, or ran last."""
        return [each for each in self.workers if each is not None]

    async def live(self) -> None:
        """Live through the plan, and judge it."""
        world, plan, loop = self.world, self.world.plan, asyncio.get_running_loop()
        loop.set_exception_handler(self._note_error)
        numbers = iter(range(plan.messages))
        for _ in range(plan.messages):
            loop.call_at(world.delay(plan.span), lambda: self.systems.put(next(numbers)))
        for fault in plan.faults:
            loop.call_at(fault.at, self._strike, fault)
        loop.call_at(plan.ends, self._be_well)
        looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout_at(plan.ends + PATIENCE):
                await asyncio.gather(*[self._work(at) for at in range(plan.workers)])
        except TimeoutError:
            world.breaks("nothing stands still", self._describe())
        looking.cancel()
        if not world.broken:
            world.judge_end()
            self.systems.judge()

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "handle" in context:  # a callback raised; what a task raised is raised where it is awaited
            self.world.breaks("no error", repr(context.get("exception")))

    async def _work(self, worker: int) -> None:
        """Run one process of a worker after the other, until all is done."""
        while True:
            process = Process(self.world, self.systems, lambda: self.file, self.workers[worker])
            self.workers[worker] = process
            if await process.run() and self.world.well and self.systems.are_empty:
                return
            await pass_time(self.world.delay(0.5))

    def _strike(self, fault: Fault) -> None:
        if fault.where != "bridge":
            self.systems.strike(fault)
        elif self.processes:
            getattr(self, f"_{fault.what}")(fault)

    def _kill(self, fault: Fault) -> None:
        self.processes[fault.number % len(self.processes)].kill()

    def _stop(self, fault: Fault) -> None:
        self.processes[fault.number % len(self.processes)].stop()

    def _pause(self, fault: Fault) -> None:
        self._control_for(Pump.pause, fault)

    def _drain(self, fault: Fault) -> None:
        self._control_for(Pump.drain, fault)

    def _control_for(self, order: Callable[[Pump], None], fault: Fault) -> None:
        for each in self.processes:
            each.control(order)
        asyncio.get_running_loop().call_later(fault.seconds, partial(self._resume, fault))

    def _resume(self, _: Fault | None = None) -> None:
        for each in self.processes:
            each.control(Pump.resume)

    def _reload(self, fault: Fault) -> None:
        """Edit the file, and reload it; a mistake is mended after a time, and at once if a process begins."""
        if fault.number == TO_MISTAKE:
            self.file = replace(self.file, mistake="wrong" if fault.at * 1_000 % 2 < 1 else "workers")
            asyncio.get_running_loop().call_later(fault.seconds, self._mend)
        else:
            self.file = self.file.edit(fault.number)
        for each in self.processes:
            each.reload()

    def _mend(self) -> None:
        self.file = replace(self.file, mistake="")

    def _be_well(self) -> None:
        """End all faults; then all must come to an end."""
        self.world.well = True
        for each in self.systems.clients:
            each.news.set()
        self._resume_again()
        self._end_when_all_is_done()

    def _end_when_all_is_done(self) -> None:
        if not any(each.pipelines.in_flight for each in self.processes) and self.systems.are_empty:
            for each in self.processes:
                each.stop()
        asyncio.get_running_loop().call_later(1.0, self._end_when_all_is_done)

    def _resume_again(self) -> None:
        """Resume, and have a RabbitMQ be restarted: what ended a connection is sent again over a new one only."""
        self._resume()
        if self.world.plan.targets == "rabbitmq":
            for target in self.systems.targets:
                target.lose()
        asyncio.get_running_loop().call_later(AGAIN, self._resume_again)

    async def _look(self) -> None:
        while not self.world.well:
            # A pump that is stopped reads nothing more, and closes its sources together.
            stopped = [pump for each in self.processes for pump in each.pumps if pump._stopping.is_set()]
            closing = {inlet.source.name for pump in stopped for inlet in pump._inlets}
            for source in self.systems.sources:
                if isinstance(source, ModelSource) and source.name not in closing:
                    source.look()
            await pass_time(0.7)

    def _describe(self) -> str:
        pumps = [pump for each in self.processes for pump in each.pumps]
        sources = [(i.source.name, p.waiting_for(i), i.window.messages) for p in pumps for i in p._inlets]
        outlets = [(o.target.name, o.connected, o.in_flight, o.held) for p in pumps for o in p.outlets]
        return f"sources {sources}, targets {outlets}"


@contextmanager
def _without_logs() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
