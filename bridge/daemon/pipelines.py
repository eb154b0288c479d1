"""The pipelines of a running bridge: each has one pump at a time, built whole from a reading of its configuration.

A reload is refused as a whole, and changes nothing, if anything in the file or a topology is wrong, or if it changes
what only a restart can change: `find_fixed`. Otherwise the pumps of those pipelines that are changed or gone read
nothing more and settle what they have read, in `Policy.drain` at most, as at a stop; when all of them have ended, the
next pumps begin, as at a start. So nothing is lost, the messages of a key stay in order, and at most what was not
settled in time, a window, comes again, also where a source moves from one pipeline to another. A named pipeline of
which the file says the same as before runs on. So do the others when one ends by a mistake of ours: that one begins
anew, later and later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bridge.aside import call_aside
from bridge.client_errors import describe_unexpected
from bridge.daemon.config import Config, explain_no_pipeline
from bridge.daemon.journal import Journal
from bridge.daemon.pumps import BuiltPump, RunningPump, build_pump, start_pump
from bridge.daemon.telemetry.metrics import Metrics, Reloads
from bridge.pump.policy import Backoff
from exchange.errors import HashstarError, InputError
from exchange.partition.python_function import find_changed_files, undo_imports
from exchange.routing.router import Router

READING: Final = 60.0
"""Maximum number of seconds for reading the file and the topologies again."""
GOING_BACK: Final = 0.5
"""Seconds for which a broker is left alone that was sent back messages, so that these are in their places again."""
RESTART: Final = "restart the bridge for it"
ANEW: Final = Backoff(1.0, 60.0)
"""Time before a pipeline begins anew that ended by a mistake of ours; it grows with each time in a row."""


class _Change(NamedTuple):
    """What a reload does."""

    config: Config
    """The configuration that will be in effect."""
    going: Sequence[str]
    """Pipelines whose pumps end."""
    coming: Sequence[BuiltPump]
    """Pumps that begin then."""
    warnings: Sequence[object]


class UnknownPipeline(InputError):
    """A reload names a pipeline that is neither in the file nor runs."""


class Pipelines:
    """The pipelines of one bridge, each of which has one pump at a time; "" is the name of the only one of a file.

    ``reread`` reads the configuration again, on a thread of its own. ``prepare`` is called before pumps run, and
    ``on_change`` afterwards, but for the first ones.
    """

    def __init__(
        self, config: Config, journal: Journal, reread: Callable[[], Config], prepare: Callable[[], None] | None = None
    ) -> None:
        self._journal = journal
        self._reread = reread
        self._prepare = prepare or (lambda: None)
        self.on_change: Callable[[Mapping[str, RunningPump]], None] = lambda _: None
        self.reloads = Reloads()
        self._turn = asyncio.Lock()
        """Held by the reload that is under way."""
        self._asked: dict[str | None, asyncio.Task[str]] = {}
        """Pipeline, None for all -> the reload that is asked for, and has read nothing yet."""
        self._reloading = set[asyncio.Task[str]]()
        self._metrics: dict[str, Metrics] = {}
        self._journals: dict[str, Journal] = {}
        self._mistakes = Counter[str]()
        """Pipeline -> times that it ended by a mistake of ours."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """Pipeline -> the run of its pump."""
        self._waiting: dict[str, asyncio.Event] = {}
        """Pipeline -> what ends its wait to begin anew."""
        self._is_launched = self._is_changing = self._is_stopping = False
        self._going: Sequence[str] = ()
        """Pipelines whose pumps a reload ends now."""
        self._failure: BaseException | None = None
        self._over = asyncio.Event()
        self.config = config
        """The configuration that is in effect."""
        self.pumps: Mapping[str, RunningPump] = {}
        """Pipeline -> its pump. Replaced as a whole, so that other threads read it without a lock."""
        self._begin([self._build(each, Router(each.topology)) for each in config.parts])

    @property
    def in_flight(self) -> int:
        """Number of messages of all pipelines that were read and are not settled."""
        return sum([each.pump.in_flight for each in self.pumps.values()])

    @property
    def drain(self) -> float:
        """Number of seconds that a graceful stop of all pipelines may take."""
        return max([each.config.policy.drain for each in self.pumps.values()], default=0.0)

    def count_messages(self) -> dict[str, int]:
        """Return how many messages were read since the start, and how many copies written."""
        metrics = self._metrics.values()
        return {
            "read": sum([sum(each.read_messages.values()) for each in metrics]),
            "written": sum([sum(each.written.values()) for each in metrics]),
        }

    async def run(self) -> None:
        """Run all pipelines, until all sources have ended or they are stopped."""
        self._is_launched = True
        for name in self.pumps:
            self._launch(name)
        try:
            await self._over.wait()
            if self._failure is not None:
                raise self._failure
        finally:
            for task in self._reloading:
                task.cancel()
            while running := [*self._running.values()]:
                for each in running:
                    each.cancel()
                with suppress(asyncio.CancelledError):  # it is raised again, and what is cancelled again ends at once
                    await asyncio.wait(running)

    def stop(self) -> None:
        """Stop all pumps that run; none follows them."""
        self._is_stopping = True
        self._stop_pumps(self.pumps)
        self._end_if_over()

    async def reload(self, pipeline: str | None = None) -> str:
        """Read the configuration again; return why that is refused, or "" once it is in effect.

        Of a file with several pipelines, those begin anew that it has changed; ``pipeline`` alone if that is named,
        changed or not. Raises UnknownPipeline for a name that is neither in the file nor runs.
        """
        return await asyncio.shield(self.request(pipeline))

    def request(self, pipeline: str | None = None) -> asyncio.Task[str]:
        """Return the task of a reload that has not begun to read yet; what is asked for until then is one reload."""
        if pipeline not in self._asked:
            task = self._asked[pipeline] = asyncio.create_task(self._reload(pipeline))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)
        return self._asked[pipeline]

    def _build(self, config: Config, router: Router) -> BuiltPump:
        name = config.name
        metrics = self._metrics.setdefault(name, Metrics())
        journal = self._journals.setdefault(name, self._journal.for_pipeline(name))
        return build_pump(config, router, journal, metrics)

    def _begin(self, coming: Iterable[BuiltPump], gone: Collection[str] = ()) -> None:
        """Let pumps take the places of those before them, or of ``gone`` ones."""
        before = self.pumps
        pumps = {name: each for name, each in before.items() if name not in gone}
        for built in coming:
            name = built.config.name
            # A pipeline that is new is paused if all others are: then the user has paused the bridge.
            others = [before[name]] if name in before else [*before.values()]
            if others and all(each.pump.paused for each in others):
                built.pump.pause()
            if others and all(each.pump.leaves for each in others):
                built.pump.drain()
            health = before[name].health if name in before else None
            pumps[name] = start_pump(built, self._journals[name], self._metrics[name], health)
        self._prepare()
        self.pumps = {each.name: pumps[each.name] for each in self.config.parts}

    def _launch(self, name: str, wait: float = 0.0) -> None:
        task = self._running[name] = asyncio.create_task(self._run_pump(self.pumps[name], wait))
        task.add_done_callback(partial(self._note_end, name))

    async def _run_pump(self, running: RunningPump, wait: float) -> None:
        looking = asyncio.create_task(running.health.run())
        try:
            if wait and not running.pump.draining:
                name = running.config.name
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._waiting.setdefault(name, asyncio.Event()).wait()
                self._waiting.pop(name, None)
            await running.pump.run()
        finally:
            looking.cancel()

    def _note_end(self, name: str, task: asyncio.Task[None]) -> None:
        del self._running[name]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and name:
            wait = None if self._is_stopping or name in self._going else self._begin_anew(name, error)
            self._journals[name].write("error", "pipeline failed", error=describe_unexpected(error), again_in=wait)
        elif error is not None:
            self._failure = error
            self._over.set()
        self._end_if_over()

    def _begin_anew(self, name: str, error: Exception) -> float:
        """Have a pipeline begin anew that has ended by a mistake of ours; return after how many seconds."""
        self._mistakes[name] += 1
        wait, old = ANEW.delay(self._mistakes[name], 0.0), self.pumps[name].config
        config = replace(old, inlets=tuple([replace(each) for each in old.inlets]))
        self._begin([self._build(config, Router(config.topology))])
        for endpoint in config.endpoints:
            self._metrics[name].disconnected(endpoint.name, error, wait)
        self.on_change(self.pumps)
        self._launch(name, wait)
        return wait

    def _end_if_over(self) -> None:
        if self._is_launched and not self._running and (self._is_stopping or not self._is_changing):
            self._over.set()

    async def _reload(self, pipeline: str | None) -> str:
        async with self._turn:
            self._asked.pop(pipeline)
            path, before = self.config.path, (self.config.log_format, self.config.log_level)
            try:
                async with asyncio.timeout(READING):
                    change = await self._read(pipeline)
                refusal = "it is stopping" if self._is_stopping else ""
            except UnknownPipeline:  # nothing is wrong with the file
                raise
            except TimeoutError:
                refusal = f"{path}, or its topology, could not be read within {READING:.0f} s"
            except Exception as error:  # noqa: BLE001  whatever it is, the pumps that run go on
                refusal = str(error) if isinstance(error, HashstarError) else describe_unexpected(error)
            if refusal:
                self.reloads.note(refusal)
                self._journal.write("error", "reload refused", reason=refusal, text="nothing has changed")
                return refusal
            self._is_changing, self._going = True, change.going
            try:
                left = await self._carry_out(change)
            finally:
                self._is_changing, self._going = False, ()
                self._end_if_over()
            self.reloads.note("")
            log = change.config.log_format, change.config.log_level
            if log != before:
                self._journal.write_as(*log)
            for warning in change.warnings:
                self._journal.write("warning", "configuration", text=str(warning))
            began = [each.config.name for each in change.coming if each.config.name]
            ended = [each for each in change.going if each and each not in began]
            named = {"began": began, "ended": ended} if began or ended or self.config.pipelines else {}
            self._journal.write("info", "reloaded", config=path, not_settled=left, **named)
            return ""

    async def _carry_out(self, change: _Change) -> int:
        """End the pumps that go, then begin those that come; return how many messages those before left unsettled."""
        old = [self.pumps[name] for name in change.going]
        self._stop_pumps(change.going)
        if ending := [self._running[name] for name in change.going if name in self._running]:
            await asyncio.wait(ending)
        goes_back = any(
            inlet.source.takes_back and (inlet.window.messages or not inlet.is_read_out)
            for each in old
            for inlet in each.config.inlets
        )
        if goes_back and not self._is_stopping:
            await asyncio.sleep(GOING_BACK)
        if self._is_stopping:
            raise asyncio.CancelledError
        self.config = change.config
        self._begin(change.coming, change.going)
        self.on_change(self.pumps)
        for each in change.coming:
            self._mistakes.pop(each.config.name, None)
            self._launch(each.config.name)
        return sum([each.pump.in_flight for each in old])

    def _stop_pumps(self, names: Iterable[str]) -> None:
        for name in names:
            if not (pump := self.pumps[name].pump).is_over:
                pump.stop()
            if name in self._waiting:
                self._waiting[name].set()

    async def _read(self, pipeline: str | None) -> _Change:
        """Read the configuration, and build the pumps that are to begin. Raises HashstarError."""
        old = {each.name: each for each in self.config.parts}

        def read() -> tuple[Config, list[str], list[Config], list[Router], list[str]]:
            config = self._reread()
            new = {each.name: each for each in config.parts}
            if pipeline is None:
                going = [name for name in old if not (name in new and is_same(old[name], new[name]))]
            else:
                if not config.pipelines or not (pipeline in new or pipeline in old):
                    raise UnknownPipeline(f"{config.path}: {explain_no_pipeline(pipeline, new)}")
                going = [name for name in old if name == pipeline]
            stays = {name: each for name, each in old.items() if name not in going}
            coming = [each for name, each in new.items() if name not in stays and pipeline in (None, name)]
            mistakes = find_fixed(self.config, config, [old[name] for name in going], coming)
            mistakes += [
                f"{path} has changed, and the code of partitioners is imported once: {RESTART}"
                for each in config.parts
                for path in find_changed_files(each.partitioners.values(), str(Path(config.path).parent.absolute()))
            ]
            if config.pipelines:  # in the order of the file; of those that stay, what is in effect
                names = dict.fromkeys([*new, *stays])
                effective = {**{each.name: each for each in coming}, **stays}
                config = replace(config, pipelines=tuple([effective[name] for name in names if name in effective]))
            return config, going, coming, [Router(each.topology) for each in coming], mistakes

        with undo_imports():
            config, going, coming, routers, mistakes = await call_aside(read)
            if mistakes:
                raise HashstarError("\n".join(mistakes))
            built = [self._build(each, router) for each, router in zip(coming, routers, strict=True)]
            return _Change(config, going, built, config.warnings)


def is_same(old: Config, new: Config) -> bool:
    """Return whether a pipeline need not begin anew: it is named, and the file and its topology say the same of it."""
    return bool(old.name) and old.written == new.written and old.topology == new.topology


def find_fixed(old: Config, new: Config, going: Sequence[Config], coming: Sequence[Config]) -> list[str]:
    """Return what a configuration changes and only a restart can change, one line for each.

    ``going`` are the pipelines that end, and ``coming`` those that begin then.
    """
    fixed = {
        "http": ((old.http and (old.http.host, old.http.port)), (new.http and (new.http.host, new.http.port))),
        "http_hosts": (old.http and old.http.names, new.http and new.http.names),
        "workers": (old.workers, new.workers),
    }
    lines = [
        f"{new.path}: {key}: has changed, and cannot be reloaded: {RESTART}" for key, (a, b) in fixed.items() if a != b
    ]
    for source in [inlet.source for each in going for inlet in each.inlets]:
        others = [(each, inlet.source) for each in coming for inlet in each.inlets]
        for pipeline, other in [(each, other) for each, other in others if other.places & source.places]:
            where = f"{new.path}: [{f'pipelines.{pipeline.name}.' if pipeline.name else ''}sources.{other.name}]"
            if source.settled_in is None:
                lines.append(f"{where} how far it was read is kept in memory only, and would be lost: {RESTART}")
            elif source.settled_in != other.settled_in:
                lines.append(f"{where} would begin anew: how far it is read is kept elsewhere; {RESTART}")
    return lines
