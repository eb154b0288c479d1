"""A scenario at work: brokers, bridges, numbered messages, one kind of fault, and what came of it.

A scenario builds its places and its bridges here, puts messages, has the bridge `suffer`, and waits until all is
through. Then the trial stops the bridges and accounts for the messages: what is lost, out of order, there twice or a
dead letter. Dead letters go to an archive beside the logs, which no fault of a broker touches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import pyarrow.parquet as pq

from bridge.endpoints.archive.spool import find_spools, read_frames
from tests.chaos.accounting import Account, key_of
from tests.chaos.daemon import TOPOLOGY, Daemon
from tests.chaos.kinds import Brokers
from tests.chaos.places import Place, Readable, Writable
from tests.chaos.run import GaveUp
from tests.chaos.watching import QUIET, Quiet, Visibility, Watch, read_metrics
from tests.support.archives.parts import find_parts
from tests.support.waiting import find_limit

P = TypeVar("P", bound=Place)

LIMIT: Final = 15.0
"""Maximum number of seconds until a bridge that cannot move messages shows it."""
PATIENCE: Final = 5.0
"""Seconds to wait beyond that, so that the table has a number."""
KEYS: Final = 40
WINDOW: Final = 200
FLOWING: Final = 300
"""Number of written messages from which on they flow."""
LEFT: Final = 1_000
"""Minimum number of messages that a fault finds unwritten."""
SECONDS: Final = 120.0
"""Maximum number of seconds for what a bridge does and that has no limit of its own; more on a busy machine."""
LOOK: Final = 0.25
PROBLEMS: Final = 5
"""Maximum number of problems of each kind that are listed."""


@dataclass(slots=True)
class TrialResult:
    """The result of a scenario. None: it was not measured, or the trial ended before."""

    scenario: str
    versions: str
    messages: int | None = None
    lost: int | None = None
    out_of_order: int | None = None
    duplicates: int | None = None
    dead_letters: int | None = None
    recovered: float | None = None
    """Seconds from the end of the slowest fault until messages moved again."""
    visibility: Visibility | None = None
    """Visibility of the fault that was visible last."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """Further measurements."""
    problems: list[str] = field(default_factory=list)
    folder: Path = Path()


class Trial:
    """A scenario that is played; at the end of its context it ends its bridges and removes its places."""

    def __init__(self, brokers: Brokers, folder: Path, result: TrialResult, *, short: bool = False) -> None:
        self.brokers = brokers
        self.folder = folder
        self.result = result
        self.short = short
        """Whether it runs in CI, where a fault lasts only until it was visible."""
        self.sent = 0
        self.keys = KEYS
        self.faults = 0
        """Number of faults that may each cause a window of duplicates."""
        self.window = WINDOW
        self.bound: int | None = None
        """Maximum number of duplicates, if it is not a window for each fault."""
        self.expected_dead: Callable[[list[bytes]], bool] | None = None
        """Returns whether the bodies of dead letters are those expected; None: there should be none."""
        self.lost_by_broker: Callable[[list[int]], bool] | None = None
        """Returns whether a broker may have lost these messages after it had confirmed them; None: it may lose none."""
        self.confirmed = 0
        """Number of writings that were confirmed, if a broker may have lost some of them."""
        self.body_of: Callable[[bytes], bytes] = bytes
        """Returns the part of a body that is its number."""
        self.key_of: Callable[[str], str] = str
        """Returns the key that a message was sent with, for the key that it arrived with."""
        self.arrived: list[tuple[str, bytes]] = []
        self.running: list[Daemon] = []
        """Bridges that should run now."""
        self._fed: Readable | None = None
        """The place that messages were last put into."""
        self._drained: Readable | None = None
        self._stack = ExitStack()
        self._watches: dict[int, Watch] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Building.

    def use(self, place: P) -> P:
        """Use a place, which is removed at the end."""
        self._stack.callback(place.close)
        return place

    def at_end(self, act: Callable[..., Any], *arguments: Any) -> None:
        """Call a function at the end, whatever happens."""
        self._stack.callback(act, *arguments)

    def bridge(
        self,
        source: Place,
        target: Place,
        *,
        policy: str = "",
        rest: str = "",
        topology: str = TOPOLOGY,
        dead_letters: bool = True,
        name: str = "bridge",
        start: bool = True,
    ) -> Daemon:
        """Make a bridge from one place to another, and start it unless ``start`` is false."""
        tables = self.tables(rest, dead_letters=dead_letters)
        self.bound = 0 if source.is_transactional and target.is_transactional else self.bound  # exactly once
        daemon = Daemon(
            self.folder / name, source.table(), target.table(), self.window,
            policy=policy + self.stalled_after, rest=tables, topology=topology,
        )  # fmt: skip
        self._stack.callback(daemon.kill)
        if start:
            self.start(daemon)
        return daemon

    @property
    def stalled_after(self) -> str:
        """A line of the policy: in CI, a bridge counts as stalled sooner than by default."""
        return '\nstalled_after = "3 s"\n' if self.short else "\n"

    def tables(self, rest: str = "", *, dead_letters: bool = True) -> str:
        """Return further tables of a configuration, with that of dead letters."""
        dead = f'[dead_letters]\nurl = "archive:{self.folder / "dead"}"\nrotate = "1 s"\n' if dead_letters else ""
        return f"{rest}\n{dead}"

    def start(self, daemon: Daemon) -> None:
        """Start a bridge, and watch it from now on."""
        daemon.start()
        self.running.append(daemon)
        if id(daemon) not in self._watches:
            self._watches[id(daemon)] = self._stack.enter_context(Watch(daemon))

    def kill(self, daemon: Daemon) -> None:
        """End a bridge with SIGKILL."""
        self.running.remove(daemon)
        daemon.kill()

    # Playing.

    def numbers(self, count: int) -> list[tuple[str, bytes]]:
        """Return keys and bodies of the next messages, which count as sent."""
        first, self.sent = self.sent, self.sent + count
        return [(key_of(n, self.keys), b"%d" % n) for n in range(first, self.sent)]

    def put(self, source: Readable, count: int) -> None:
        """Add the next messages to a source."""
        source.put(self.numbers(count))
        self._fed = source

    def wait_until(self, done: Callable[[], bool], what: str, within: float | None = None) -> None:
        """Wait until ``done()`` is true. Raises GaveUp if it takes too long, or a bridge has ended."""
        deadline = time.monotonic() + (seconds := find_limit(SECONDS) if within is None else within)
        while not done():
            self.check_running()
            if time.monotonic() > deadline:
                raise GaveUp(f"not within {seconds:.0f} s: {what}; {self._state()}")
            time.sleep(LOOK)

    def _state(self) -> str:
        """Describe the state of the trial."""
        ready, fates = [daemon.get("/ready") for daemon in self.running], self.metric("hashstar_fates_total")
        return (
            f"{self.count_written():,} of {self.sent:,} are written, {sum(fates):,.0f} given up, /ready answers {ready}"
        )

    def check_running(self) -> None:
        """Raise GaveUp if a bridge has ended by itself."""
        for daemon in self.running:
            if daemon.code is not None:
                raise GaveUp(f"the bridge ended by itself: exit code {daemon.code}")

    def count_written(self) -> int:
        """Return the number of messages that targets have confirmed to the present processes, without dead letters.

        It is 0 until one of them has answered.
        """
        return int(sum(self.metric("hashstar_written_messages_total", without='"dead_letters"')))

    def metric(self, name: str, labels: str = "", without: str = "\n") -> list[float]:
        """Return the values of a metric of all bridges whose labels contain one text and not another."""
        series = [read_metrics(daemon.metrics()) for daemon in self.running]
        return [
            value
            for each in series
            for (own_name, own_labels), value in each.items()
            if own_name == name and labels in own_labels and without not in own_labels
        ]

    def count_lost_connections(self, endpoint: str = "") -> int:
        """Return how many connections of an endpoint, or of all, the present processes have lost."""
        return int(sum(self.metric("hashstar_disconnections_total", endpoint and f'"{endpoint}"')))

    def disconnect(self, act: Callable[[], Any], endpoint: str = "", seconds: float | None = None) -> None:
        """End connections by ``act``, and wait until the bridge knows: else nothing has happened to it."""
        before = self.count_lost_connections(endpoint)
        self.faults += 1
        act()
        self.wait_until(
            lambda: self.count_lost_connections(endpoint) > before, f"{endpoint or 'an endpoint'} is known to be gone",
            seconds,
        )  # fmt: skip

    def let_pass(self, seconds: float) -> None:
        """Let this time pass, as a fault, a publisher or an operator takes it."""
        time.sleep(max(0.0, seconds))
        self.check_running()

    def wait_for_written(self, count: int) -> None:
        """Wait until ``count`` messages were written, so that a fault comes while they flow."""
        self.wait_until(lambda: self.count_written() >= count, f"{count:,} messages were written")

    def wait_until_flowing(self, source: Readable) -> None:
        """Wait until messages flow from the source, and put more there if few are left for the fault that comes.

        A slow bridge writes all that there was before a busy machine lets us see the first.
        """
        self.wait_for_written(FLOWING)
        while self.sent - self.count_written() < LEFT:
            self.put(source, LEFT)

    def wait_until_idle(self) -> None:
        """Wait until nothing was under way or written for a while: where the source cannot be asked what is left."""
        written, quiet = -1, Quiet()

        def is_idle() -> bool:
            nonlocal written
            before, written = written, self.count_written()
            return quiet.look(idle=written == before and all(each.count_unsettled() == 0 for each in self.running))

        self.wait_until(is_idle, "nothing is under way any more")

    def wait_until_ready(self) -> None:
        """Wait until all bridges are ready, and no metric shows a fault."""
        for daemon in self.running:
            self.wait_until(lambda daemon=daemon: self._watches[id(daemon)].is_clear, "the bridge is ready")  # type: ignore[misc]

    def wait_for_reason(self, text: str, seconds: float | None = None) -> None:
        """Wait until a bridge is not ready, and gives a reason with this text."""

        def is_given() -> bool:
            answers = [daemon.get("/ready") for daemon in self.running]
            return any(each is not None and each[0] == 503 and text in each[1] for each in answers)

        self.wait_until(is_given, f"/ready names {text!r}", seconds)

    def drain(self, source: Readable, seconds: float = SECONDS) -> None:
        """Wait until nothing is left in the source or under way."""
        self._drained = source
        quiet, deadline = Quiet(), time.monotonic() + find_limit(seconds)
        while True:
            self.check_running()
            left, under_way = source.count_left(), [daemon.count_unsettled() for daemon in self.running]
            if quiet.look(idle=left is not None and left <= 0 and all(each == 0 for each in under_way)):
                return
            if time.monotonic() > deadline:
                raise GaveUp(
                    f"not all was through after {seconds:.0f} s: {left} are left in the source (None: it does not "
                    f"answer), {under_way} under way; {self._state()}"
                )
            time.sleep(LOOK)

    def suffer(
        self,
        begin: Callable[[], Any],
        end: Callable[[], Any],
        *,
        seconds: float = 0.0,
        shows: bool = True,
        within: float | None = None,
        ready: bool = True,
        meanwhile: Callable[[], Any] = lambda: None,
    ) -> None:
        """Let a fault begin, and end once it is visible and has lasted for ``seconds``; then wait until messages move
        again, within these seconds if they are given.

        ``shows``: whether the bridge must show the fault within `LIMIT` seconds, as it cannot move messages; ``ready``:
        whether it must be ready again when messages move; ``meanwhile`` is called before the end.
        """
        self.wait_until_ready()
        watches = [self._watches[id(daemon)] for daemon in self.running]
        self.faults += 1
        began = time.monotonic()
        try:
            begin()
            last = began + (LIMIT + PATIENCE if shows else 0.0)
            while True:  # once at least: a fault may take its time to begin
                self.check_running()
                seen = max([watch.visibility(began) for watch in watches], key=lambda each: each.all_within)
                if time.monotonic() >= max(began + seconds, began if seen.all_within < LIMIT else last):
                    break
                time.sleep(LOOK)
            meanwhile()
        finally:
            # A bridge that is frozen does not answer: only what it writes after that shows that messages move.
            before = inf if any(daemon.is_frozen for daemon in self.running) else self.count_written()
            end()
        written = self.count_written()
        if self._fed is not None and written >= self.sent:
            self.put(self._fed, LEFT)  # on a busy machine all may be through before the fault takes effect
        if shows:
            self._note_visibility(seen, [reason for watch in watches for reason in watch.reasons(began)])
        # They may have moved already while the fault was being ended; a new process counts from 0.
        ended, before = time.monotonic(), min(before, written)
        self.wait_until(
            lambda: self.count_written() > before and (not ready or all(daemon.is_ready for daemon in self.running)),
            f"messages move again after the fault{', and the bridge is ready' if ready else ''}",
            within,
        )
        self.result.recovered = max(self.result.recovered or 0.0, time.monotonic() - ended)

    def note_shown(self, began: float) -> None:
        """Wait until a fault that began at a time (`time.monotonic`) is visible, and note how long that took."""
        watches = [self._watches[id(daemon)] for daemon in self.running]
        while True:
            self.check_running()
            seen = max([watch.visibility(began) for watch in watches], key=lambda each: each.all_within)
            if seen.all_within < LIMIT or time.monotonic() > began + LIMIT + PATIENCE:
                break
            time.sleep(LOOK)
        self._note_visibility(seen, [reason for watch in watches for reason in watch.reasons(began)])

    def _note_visibility(self, seen: Visibility, reasons: Sequence[str]) -> None:
        worst = self.result.visibility
        if worst is None or seen.all_within > worst.all_within:
            self.result.visibility = seen
        for name, after in zip(Visibility._fields, seen, strict=True):
            if after is None or after > LIMIT:
                took = "never" if after is None else f"only after {after:.1f} s"
                self.result.problems.append(
                    f"not visible within {LIMIT:.0f} s in the {name}: {took}; /ready gave {reasons}"
                )

    def require(self, holds: bool, problem: str) -> None:
        """Note a problem unless a condition holds."""
        if not holds:
            self.result.problems.append(problem)

    # Results.

    def collect(self, target: Writable) -> None:
        """Take the messages that have arrived at a target so far."""
        self.arrived += [(self.key_of(key), self.body_of(body)) for key, body in target.arrivals()]

    def stop(self, expected: int = 0) -> None:
        """Stop all bridges, and let them drain; they end with 1 if something is left unsettled."""
        for daemon in [*self.running]:
            code = daemon.stop()
            self.require(code == expected, f"the bridge ended with exit code {code}, not with {expected}")
            self.running.remove(daemon)

    def dead_letters(self) -> list[bytes]:
        """Return the bodies of all dead letters, once the bridges have stopped.

        A bridge that has no time to write parts leaves what is confirmed in a spool, for the next one.
        """
        dead = self.folder / "dead"
        parts = [pq.read_table(part, columns=["body"]) for part in find_parts(dead)]
        frames = [frame for spool in find_spools(dead) for frame in read_frames(spool)] if dead.exists() else []
        spooled = [frame.batch for frame in frames if frame.batch is not None]
        return [body for rows in (*parts, *spooled) for body in rows.column("body").to_pylist()]

    def finish(self, targets: Iterable[Writable]) -> None:
        """Stop the bridges, and account for all messages."""
        self.stop()
        # Messages that a broker had sent and the bridge had not read were in neither count of `drain`; now they count.
        left = self._drained.count_left() if self._drained is not None else 0
        self.require(not left or left < 0, f"{left} messages were left in the source, and nothing moved for {QUIET} s")
        for target in targets:
            self.collect(target)
        result, account = self.result, Account(self.sent, self.keys)
        account.take(self.arrived)
        (self.folder / "arrivals.txt").write_text("".join([f"{key} {body!r}\n" for key, body in self.arrived]))
        bound = self.window * self.faults if self.bound is None else self.bound
        excused = self.lost_by_broker is not None and self.lost_by_broker(account.lost)
        if excused:
            again = len(account.excuse(self.confirmed))
            result.notes.append(f"{len(account.lost):,} confirmed messages were lost by their broker")
            result.notes += [f"it lost {again:,} more, which were read and written again"] if again else []
        result.problems += account.problems(bound, finished=not excused, most=PROBLEMS)
        lost = 0 if excused else len(account.lost)
        result.messages, result.lost, result.out_of_order = self.sent, lost, len(account.out_of_order)
        result.duplicates = account.duplicates
        dead = self.dead_letters()
        result.dead_letters = len(dead)
        if self.expected_dead is None:
            self.require(not dead, f"{len(dead):,} dead letters that are not the messages' fault: {dead[:PROBLEMS]}")
        else:
            shown = [body[:20] for body in dead[:PROBLEMS]]
            self.require(self.expected_dead(dead), f"other dead letters than expected: {len(dead):,}, {shown}")
