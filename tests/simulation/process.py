"""One process of the bridge: the daemon's own pipelines, read from a file that its owner edits, and reloaded.

What it does without is what needs a process: signals, a server of HTTP, a log. Its pumps are built, reloaded, paused,
drained and stopped by `bridge.daemon.pipelines`, as by ``POST /reload`` and signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any, Final
from unittest.mock import patch

from bridge.daemon.config import Config
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import GOING_BACK, Pipelines
from bridge.daemon.pumps import RunningPump, control
from bridge.endpoint import BridgeLayout
from bridge.pump.pump import Inlet, Pump
from exchange.errors import InputError
from tests.simulation.judge import Judge
from tests.simulation.plan import FILTER, TARGETS, File, Plan
from tests.simulation.sources import Client
from tests.simulation.systems import Systems
from tests.simulation.watch import WatchedSource, WatchedTarget
from tests.simulation.world import World

STOPPING: Final = 5.0
"""Number of seconds beyond the drain in which a stop ends."""

CALM_DRAIN: Final = 10.0
"""Minimum number of seconds of a drain in which all is settled if nothing happens."""

SETTLING: Final = 20.0
"""Seconds after a fault in which what it has delayed may still be under way."""

LOOK_EVERY: Final = 10.0
"""Seconds between looks at the conditions of a pump."""


class Process:
    """A process, from its start to its end.

    ``read_file`` returns what the file says now; ``before`` is the process that has ended and of which it takes the
    place.
    """

    def __init__(
        self, world: World, systems: Systems, read_file: Callable[[], File], before: Process | None = None
    ) -> None:
        self.world = world
        self.systems = systems
        self.stopped_at = inf
        self.is_killed = False
        self.running: asyncio.Task[None] | None = None
        self._read_file = read_file
        self._is_calm = False
        """Whether it was stopped while all was well, and nothing happened in the time that its drain has."""
        file = replace(read_file(), mistake="")  # else it would not begin
        self._read = _Reading(file, {}, 0.0, is_calm=False)
        self._clients: list[Client] = [] if before is None else before._clients
        """Clients of its pumps that run, or ran last."""
        self._judges: list[Judge] = []
        self._pumps: Mapping[str, RunningPump] = {}
        """The pumps of which the clients were made."""
        self.pipelines = Pipelines(self._build(file), _Journal(world), self._reread)
        self.pipelines.on_change = self._replace
        self._replace(self.pipelines.pumps)

    @property
    def pumps(self) -> list[Pump]:
        """The pumps that run."""
        return [each.pump for each in self.pipelines.pumps.values()]

    async def run(self) -> bool:
        """Run it to its end; return whether it has ended by itself or by a stop."""
        running = self.running = asyncio.create_task(self.pipelines.run())
        try:
            await running
        except asyncio.CancelledError:
            if not self.is_killed:
                raise
            return False
        finally:
            if not running.done():
                running.cancel()
        world = self.world
        if world.now - self.stopped_at > world.plan.drain + STOPPING:
            world.breaks("stop", f"it took {world.now - self.stopped_at:.1f} s")
        if self._is_calm:
            _judge_drain(world, self.pumps)
        for each in self.pipelines.pumps.values():
            _judge_end(each)
        return True

    def kill(self) -> None:
        """Kill it: nothing that it does reaches a system."""
        if self.running is not None and not self.running.done():
            for judge in self._judges:
                judge.is_dead = True
            for each in self._clients:
                each.kill()
            self.is_killed = True
            self.running.cancel()

    def stop(self) -> None:
        """Stop it, as SIGTERM does."""
        if self.stopped_at == inf:
            self.stopped_at, self._is_calm = self.world.now, self._finds_calm()
            self.pipelines.stop()

    def control(self, order: Callable[[Pump], None]) -> None:
        """Have all pumps pause, drain or resume, as signals and ``POST`` do."""
        for each in self.pipelines.pumps.values():
            if not each.ended:
                _judge_of(each).note_order(order)
        control(self.pipelines.pumps, order)

    def reload(self) -> None:
        """Reload it, as SIGHUP does."""
        if self.running is not None and not (self.is_killed or self.running.done()):
            self.pipelines.request().add_done_callback(self._judge_reload)

    # Reading the file.

    def _build(self, file: File) -> Config:
        parts = {name: self._build_pipeline(name, *said) for name, said in file.pipelines.items()}
        if not file.is_split:
            return replace(parts[""], workers=2) if file.mistake == "workers" else parts[""]
        whole = Config("bridge.toml", parts["p0"].topology, (), {}, pipelines=(*parts.values(),))
        return replace(whole, workers=2) if file.mistake == "workers" else whole

    def _build_pipeline(self, name: str, rules: Plan, sources: tuple[int, ...]) -> Config:
        judge = Judge(self.world, rules)
        self._judges.append(judge)
        clients = [self.systems.make_source(f"{rules.sources[at]}-{at}") for at in sources]
        inlets = [Inlet(WatchedSource(each, judge), "in", filter=FILTER) for each in clients]
        names = dict.fromkeys(map(rules.target_of, TARGETS))
        targets = {each: WatchedTarget(self.systems.make_target(each), judge) for each in names}
        of_queues = {each: targets[rules.target_of(each)] for each in ("all", "odd")}
        if rules.is_transactional:
            inner = {each: target.inner for each, target in of_queues.items()}
            layout = BridgeLayout([each.endpoint for each in clients], inner, rules.topology, 1)
            for endpoint in (*layout.sources, *inner.values()):
                endpoint.meet(layout)
        for each, target in of_queues.items():
            if (verdict := getattr(target.client, "is_at_fault", None)) is not None:
                judge.verdicts[each] = verdict
        return Config(
            "bridge.toml", rules.topology, (*inlets,), of_queues, rules.policy,
            targets["dead"] if rules.dead_letters else None, name=name, written=(rules, sources),
        )  # fmt: skip

    def _reread(self) -> Config:
        """Read the file again. Raises InputError."""
        file = self._read_file()
        self._read = _Reading(file, self.pipelines.pumps, self.world.now, is_calm=self._finds_calm())
        if file.mistake == "wrong":
            raise InputError("bridge.toml: it is wrong")
        return self._build(file)

    def _replace(self, pumps: Mapping[str, RunningPump]) -> None:
        """Have the clients of pumps that begin take the places of those of pumps that have ended."""
        clients = [client for each in pumps.values() for client in _clients_of(each)]
        old, new = {id(each) for each in self._clients}, {id(each) for each in clients}
        gone = [each for each in self._clients if id(each) not in new]
        self.systems.replace(gone, [each for each in clients if id(each) not in old])
        self._clients = clients
        before, after = [[_judge_of(each) for each in those.values()] for those in (self._pumps, pumps)]
        for judge in [each for each in after if each not in before]:
            judge.is_paused = bool(before) and all(each.is_paused for each in before)
            judge.is_drained = bool(before) and all(each.is_drained for each in before)
        self._pumps = pumps

    # Judging.

    def _judge_reload(self, task: asyncio.Task[str]) -> None:
        """Judge what came of a reload: it is refused and has changed nothing, or what the file says runs."""
        if task.cancelled() or self.is_killed or (self.running is not None and self.running.done()):
            return
        world, read, refusal = self.world, self._read, task.result()
        pumps = self.pipelines.pumps
        if refusal:
            may_be = read.file.mistake or self.stopped_at < inf or any(
                inlet.source.settled_in is None for each in pumps.values() for inlet in each.config.inlets
            )  # fmt: skip
            if not may_be:
                world.breaks("reload", f"it is refused: {refusal}")
            if pumps is not read.pumps:
                world.breaks("reload", "it is refused, and has changed what runs")
            return
        if read.file.mistake:
            world.breaks("reload", f"a file with a mistake is taken: {read.file.mistake}")
        if world.now - read.at > world.plan.drain + STOPPING + GOING_BACK:
            world.breaks("stop", f"a reload took {world.now - read.at:.1f} s")
        if pumps.keys() != read.file.pipelines.keys():
            world.breaks("reload", f"{[*pumps]} run, and the file has {[*read.file.pipelines]}")
        for name, (rules, sources) in read.file.pipelines.items():
            running, before = pumps[name], read.pumps.get(name)
            if running.config.written != (rules, sources):
                world.breaks("reload", f"pipeline {name!r} is not what the file says")
            if before is not None and name and (before is running) is not (before.config.written == (rules, sources)):
                world.breaks("reload", f"pipeline {name!r} {'runs on' if before is running else 'begins anew'}")
        gone = [each for name, each in read.pumps.items() if pumps.get(name) is not each]
        for each in gone:
            _judge_end(each)
        if read.is_calm:
            _judge_drain(world, [each.pump for each in gone])

    def _finds_calm(self) -> bool:
        """Return whether all is well, and nothing will happen in the time that a drain has."""
        plan, now = self.world.plan, self.world.now
        return (
            plan.drain >= CALM_DRAIN and not plan.odd
            and all(each.connected and not each.held for pump in self.pumps for each in pump.outlets)
            and not any(until >= now - SETTLING for each in self._clients for until in each.until.values())
            and not any(now < each.at < now + plan.drain + STOPPING for each in plan.faults)
        )  # fmt: skip


class _Reading:
    """What a reload has read, and what ran then."""

    def __init__(self, file: File, pumps: Mapping[str, RunningPump], at: float, *, is_calm: bool) -> None:
        self.file = file
        self.pumps = pumps
        self.at = at
        self.is_calm = is_calm


class _Journal(Journal):
    """A log that nobody reads, but for what it must not say."""

    def __init__(self, world: World) -> None:
        super().__init__("text", "error")
        self._world = world

    def write(self, level: str, event: str, /, **fields: Any) -> None:
        if event in ("pipeline failed", "health failed"):
            self._world.breaks("no error", f"{event}: {fields['error']}")


def _judge_of(running: RunningPump) -> Judge:
    source: Any = running.config.inlets[0].source
    judge: Judge = source.judge
    return judge


def _clients_of(running: RunningPump) -> list[Client]:
    endpoints: Any = running.config.endpoints
    return [each.client for each in endpoints]


def _judge_end(running: RunningPump) -> None:
    """Judge in which order a pump has closed what it had."""
    judge, sources = _judge_of(running), [inlet.source.name for inlet in running.config.inlets]
    if {*judge.closed[-len(sources) :]} != {*sources}:
        judge.breaks("close", f"{judge.closed}")


def _judge_drain(world: World, pumps: list[Pump]) -> None:
    """Judge what pumps have left that ended in calm weather."""
    left = sum([pump.in_flight - sum([len(each.window.on_hold()) for each in pump._inlets]) for pump in pumps])
    if left > 0:
        world.breaks("drain", f"{left} messages are not settled")


@contextmanager
def pipelines_simulated(world: World) -> Iterator[None]:
    """Have pumps decide by the seed, by the virtual clock, and before their judges."""

    def make(inlets: Any, router: Any, targets: Any, events: Any, *others: Any, **named: Any) -> Pump:
        judge: Judge = inlets[0].source.judge
        chosen: dict[str, Any] = {"random": world.random.random, "clock": lambda: world.now, **named}
        judge.pump = pump = Pump(inlets, router, targets, judge.hear(events), *others, **chosen)
        return pump

    # Whoever looks at conditions once a second takes a tenth of the time of a life, in which nobody reads them.
    with patch("bridge.daemon.pumps.Pump", make), patch("bridge.daemon.health.LOOK_EVERY", LOOK_EVERY):
        yield
