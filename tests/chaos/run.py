"""One run: numbered messages through one pair, faults while they move, and what of them arrived.

A fault strikes when as many messages were read as the plan says *and* the bridge has some on the way, as it tells on
``/status``; so no fault hits an idle bridge. The source is filled only some windows ahead of the next fault. Should the
bridge be through with that before anyone looked, its connections are slowed while it gets a few more.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final, Self

from tests.chaos.accounting import Account, key_of
from tests.chaos.brokers import Brokers
from tests.chaos.daemon import Daemon
from tests.chaos.places import Pair, Place, Readable
from tests.chaos.plan import RELAYED, Fault, Kind, plan
from tests.support.bridge.relay import Relay

__all__ = ["Amount", "GaveUp", "Outcome", "run"]

LOOK: Final = 0.003
"""Seconds between looks at how far it is."""

AHEAD: Final = 2
"""So many windows behind the next fault the source is filled."""
LEFT: Final = 3
"""And so many windows of messages are left when the last fault strikes."""
SLOWLY: Final = 20e3
SLOW_SECONDS: Final = 3.0
"""Bytes a second, and for how long, when the bridge was through before the next fault."""

QUIET: Final = 2.0
"""Seconds without anything to do after which all is done."""

STUCK: Final = 90.0
"""Seconds without progress after which a run is given up; a broker's restart and a group's waiting take some."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of everything."""

    messages: int = 200_000
    keys: int = 1_000
    kills: int = 20
    restarts: int = 5
    """Of brokers, that are told to stop."""
    broker_kills: int = 5
    cuts: int = 50
    window: int = 1_000
    """The bridge's, in messages: as many may come again for each fault, and twice as many for a killed broker."""

    @property
    def struck(self) -> int:
        """Faults come among so many of the messages: the last of them, too, must find some on the way."""
        return max(1, self.messages - LEFT * self.window)

    @property
    def ended(self) -> Mapping[Kind, int]:
        """Faults that end a process, of each kind."""
        return {Kind.KILL: self.kills, Kind.RESTART: self.restarts, Kind.BROKER_KILL: self.broker_kills}

    @property
    def faults(self) -> int:
        """Of all kinds."""
        return self.kills + self.restarts + self.broker_kills + self.cuts


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    pair: str
    amount: Amount
    began: datetime
    folder: Path
    """Where its logs are."""
    exactly_once: bool = False
    """Whether the bridge promises that nothing arrives twice."""
    faults: Counter[Kind] = field(default_factory=Counter)
    account: Account | None = None
    """None: it did not come so far."""
    seconds: float = 0.0
    in_flight: list[int] = field(default_factory=list)
    """At each fault: how many messages were read and not settled."""
    finished: bool = False
    """Whether all messages were through and settled in the end: else what is missing is not lost."""
    problems: list[str] = field(default_factory=list)
    """Broken promises, and why the run is no proof."""

    @property
    def bound(self) -> int:
        """So many duplicates are allowed; more for a killed broker, as it forgets what was acknowledged last, too."""
        if self.exactly_once:
            return 0
        return self.amount.window * (self.faults.total() + self.faults[Kind.BROKER_KILL])


class GaveUp(Exception):
    """The run cannot be brought to its end; the message says why."""


def run(
    pair: Pair, amount: Amount, seed: int, brokers: Brokers, folder: Path, progress: Callable[[str], None]
) -> Outcome:
    """Run, and account for it; ``progress`` is told what happens, as a short line."""
    folder.mkdir(parents=True, exist_ok=True)  # of no other run
    outcome = Outcome(pair.name, amount, datetime.now(UTC), folder, pair.exactly_once)
    with ExitStack() as stack:
        source, target = pair.source(brokers, "source", folder), pair.target(brokers, "target", folder)
        for place in (source, target):
            stack.callback(place.close)
        daemon = Daemon(folder, source.table(), target.table(), amount.window)
        stack.callback(daemon.kill)
        places = [place for place in (source, target) if place.broker is not None]
        faults = plan(amount.struck, amount.ended, amount.cuts, len(places), Random(f"{seed} {pair.name}"))
        run = stack.enter_context(_Run(outcome, source, places, daemon, progress))
        began = time.monotonic()
        try:
            run.run(faults)
            outcome.finished = True
        except GaveUp as reason:
            outcome.problems.append(str(reason))
        outcome.seconds = time.monotonic() - began
        daemon.kill()
        progress("accounting")
        outcome.account = Account(amount.messages, amount.keys)
        outcome.account.take(target.arrivals())
        outcome.problems += outcome.account.complaints(outcome.bound, finished=outcome.finished)
    return outcome


class _Run:
    """A bridge at work, and the faults that it suffers."""

    def __init__(
        self,
        outcome: Outcome,
        source: Readable,
        places: Sequence[Place],
        daemon: Daemon,
        progress: Callable[[str], None],
    ) -> None:
        self._outcome = outcome
        self._source = source
        self._places = places
        self._daemon = daemon
        self._progress = progress
        self._timers: list[threading.Timer] = []
        self._log = (outcome.folder / "faults.log").open("w")
        self._sent = self._most = 0
        self._grew = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        for relay in self._relays():
            relay.go_on()
        self._log.close()

    def _relays(self) -> list[Relay]:
        return [place.broker.relays[place.side] for place in self._places if place.broker is not None]

    def run(self, faults: Sequence[Fault]) -> None:
        """Until all messages are through. Raises GaveUp."""
        self._daemon.start()
        for fault in faults:
            read, in_flight = self._wait_for(fault)
            self._tell(f"{read:,} read, {in_flight:,} on the way: {fault.kind.value} ({fault})")
            self._inflict(fault)
            self._grew = time.monotonic()
            self._outcome.faults[fault.kind] += 1
            self._outcome.in_flight.append(in_flight)
        self._feed(self._outcome.amount.messages)
        for timer in self._timers:
            timer.join()
        # A source that is cut off has nothing unsettled either, and what a broker holds for a connection that it has
        # not missed yet does not count as left: it must stay so.
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET:
            if self._read() < self._sent or self._daemon.unsettled() != 0 or not self._daemon.is_ready:
                quiet_since = time.monotonic()
            time.sleep(LOOK)
        code = self._daemon.stop()
        if code != 0:
            raise GaveUp(f"the bridge did not drain in the end: exit code {code}")

    def _tell(self, line: str) -> None:
        print(datetime.now(UTC).isoformat(timespec="milliseconds"), line, file=self._log, flush=True)
        self._progress(line)

    def _feed(self, up_to: int) -> None:
        """Have so many messages in the source, counted from the first."""
        up_to, keys = min(up_to, self._outcome.amount.messages), self._outcome.amount.keys
        if up_to > self._sent:
            self._source.put((key_of(n, keys), b"%d" % n) for n in range(self._sent, up_to))
            self._sent = up_to

    def _read(self) -> int:
        """How many messages were read; 0 while nobody can tell. Raises GaveUp."""
        if self._daemon.code is not None:
            raise GaveUp(f"the bridge ended by itself: exit code {self._daemon.code}")
        left, now = self._source.left(), time.monotonic()
        read = 0 if left is None else self._sent - left
        if read > self._most:
            self._most, self._grew = read, now
        if now - self._grew > STUCK:
            raise GaveUp(
                f"no progress in {STUCK:.0f} s, after {self._most:,} of {self._sent:,} messages; the source says "
                f"{left} are left (None: it does not answer), the bridge that {self._daemon.unsettled()} are on the way"
            )
        return read

    def _wait_for(self, fault: Fault) -> tuple[int, int]:
        """Wait until this fault may strike; how many messages were read by then, and how many it strikes."""
        messages, window = self._outcome.amount.messages, self._outcome.amount.window
        self._feed(min(fault.at + AHEAD * window, messages - window))
        while True:
            read = self._read()
            in_flight = self._daemon.unsettled() if read >= min(fault.at, self._sent) else None
            if in_flight and read >= fault.at and self._can_strike(fault):
                return read, in_flight
            if read == self._sent and in_flight == 0:
                if self._sent == messages:
                    raise GaveUp(f"all messages were through after {self._outcome.faults.total()} faults")
                source = self._relays()[0]
                source.slow(SLOWLY)
                self._end_later(source, SLOW_SECONDS)
                self._feed(self._sent + max(1, window // 4))
            time.sleep(LOOK)

    def _can_strike(self, fault: Fault) -> bool:
        """Whether there is something to strike."""
        return fault.kind not in RELAYED or self._relay(fault).connected

    def _relay(self, fault: Fault) -> Relay:
        return self._relays()[fault.side]

    def _inflict(self, fault: Fault) -> None:
        relay = self._relay(fault)
        if fault.kind is Kind.KILL:
            self._daemon.kill()
            time.sleep(fault.seconds)
            self._daemon.start()
        elif fault.kind in (Kind.RESTART, Kind.BROKER_KILL):
            broker = self._places[fault.side].broker
            assert broker is not None
            broker.restart(kill=fault.kind is Kind.BROKER_KILL)
        elif fault.kind is Kind.CUT:
            relay.cut()
        elif fault.kind is Kind.STALL:
            (relay.abandon if fault.is_long else relay.stall)()
            self._end_later(relay, fault.seconds)
        else:
            relay.slow(fault.rate)
            self._end_later(relay, fault.seconds)

    def _end_later(self, relay: Relay, seconds: float) -> None:
        timer = threading.Timer(seconds, relay.go_on)
        timer.start()
        self._timers.append(timer)
