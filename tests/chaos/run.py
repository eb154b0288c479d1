"""One run: numbered messages through one pair, faults while they move, and the account of what arrived.

A fault comes when as many messages were read as the plan says *and* ``/status`` shows that the bridge has some on the
way, so no fault hits an idle bridge. The source is filled only some windows ahead of the next fault. If the bridge has
moved all of them before that was noticed, its connections are slowed down while it gets a few more.
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
from tests.chaos.daemon import Daemon
from tests.chaos.kinds import Brokers
from tests.chaos.pairs import Pair
from tests.chaos.places import Place, Readable
from tests.chaos.plan import RELAYED, Fault, Kind, plan
from tests.chaos.watching import Quiet
from tests.support.bridge.relay import Relay

LOOK: Final = 0.003
"""Seconds between looks at the progress."""

AHEAD: Final = 2
"""Number of windows after the next fault up to which the source is filled."""
LEFT: Final = 3
"""Number of windows that are left when the last fault comes."""
SLOWLY: Final = 20e3
"""Rate of the connections after the bridge was finished before the next fault, in bytes per second."""
SLOW_SECONDS: Final = 3.0
"""Duration of that."""

STUCK: Final = 90.0
"""Seconds without progress after which a run is given up; longer than the restart of a broker and a rebalance."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The size of a run: its messages and faults."""

    messages: int = 200_000
    keys: int = 1_000
    kills: int = 20
    restarts: int = 5
    """Restarts of brokers, with SIGTERM."""
    broker_kills: int = 5
    cuts: int = 50
    window: int = 1_000
    """Window of the bridge, in messages: each fault may cause as many duplicates, a killed broker twice as many."""

    @property
    def last_fault(self) -> int:
        """Maximum number of messages before the last fault, so that some are left for it."""
        return max(1, self.messages - LEFT * self.window)

    @property
    def process_faults(self) -> Mapping[Kind, int]:
        """Number of faults of each kind that ends a process."""
        return {Kind.KILL: self.kills, Kind.RESTART: self.restarts, Kind.BROKER_KILL: self.broker_kills}

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return self.kills + self.restarts + self.broker_kills + self.cuts


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    pair: str
    amount: Amount
    began: datetime
    folder: Path
    """Folder of its logs."""
    exactly_once: bool = False
    """Whether the bridge promises that nothing arrives twice."""
    faults: Counter[Kind] = field(default_factory=Counter)
    account: Account | None = None
    """The account of the messages; None if the run ended before."""
    seconds: float = 0.0
    in_flight: list[int] = field(default_factory=list)
    """Number of messages that were read and not settled, at each fault."""
    finished: bool = False
    """Whether all messages were moved and settled in the end; if not, missing messages do not count as lost."""
    problems: list[str] = field(default_factory=list)
    """Broken promises, or the reason why the run proves nothing."""

    @property
    def bound(self) -> int:
        """Maximum number of duplicates; more for a killed broker, as it forgets the last acknowledgements, too."""
        if self.exactly_once:
            return 0
        return self.amount.window * (self.faults.total() + self.faults[Kind.BROKER_KILL])


class GaveUp(Exception):
    """The run cannot be finished; the message has the reason."""


def run(
    pair: Pair, amount: Amount, seed: int, brokers: Brokers, folder: Path, progress: Callable[[str], None]
) -> Outcome:
    """Run a pair with faults, and return the result; ``progress`` is called with a short line for each event."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(pair.name, amount, datetime.now(UTC), folder)
    with ExitStack() as stack:
        source, target = pair.source(brokers, "source", folder), pair.target(brokers, "target", folder)
        outcome.exactly_once = source.is_transactional and target.is_transactional
        for place in (source, target):
            stack.callback(place.close)
        daemon = Daemon(folder, source.table(), target.table(), amount.window)
        stack.callback(daemon.kill)
        places = [place for place in (source, target) if place.broker is not None]
        faults = plan(amount.last_fault, amount.process_faults, amount.cuts, len(places), Random(f"{seed} {pair.name}"))
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
        outcome.problems += outcome.account.problems(outcome.bound, finished=outcome.finished)
    return outcome


class _Run:
    """A running bridge, and its faults."""

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
        """Run until all messages are moved and settled. Raises GaveUp."""
        self._daemon.start()
        for fault in faults:
            read, in_flight = self._wait_for(fault)
            self._log_event(f"{read:,} read, {in_flight:,} on the way: {fault.kind.value} ({fault})")
            self._inflict(fault)
            self._grew = time.monotonic()
            self._outcome.faults[fault.kind] += 1
            self._outcome.in_flight.append(in_flight)
        self._feed(self._outcome.amount.messages)
        for timer in self._timers:
            timer.join()
        # Wait until it stays so: a source without connection has nothing unsettled, either, and messages that a broker
        # holds for a connection whose loss it has not noticed yet do not count as left.
        quiet, daemon = Quiet(), self._daemon
        while not quiet.look(idle=self._read() >= self._sent and daemon.count_unsettled() == 0 and daemon.is_ready):
            time.sleep(LOOK)
        code = self._daemon.stop()
        if code != 0:
            raise GaveUp(f"the bridge did not drain in the end: exit code {code}")

    def _log_event(self, line: str) -> None:
        print(datetime.now(UTC).isoformat(timespec="milliseconds"), line, file=self._log, flush=True)
        self._progress(line)

    def _feed(self, up_to: int) -> None:
        """Fill the source up to a number of messages, counted from the first one."""
        up_to, keys = min(up_to, self._outcome.amount.messages), self._outcome.amount.keys
        if up_to > self._sent:
            self._source.put((key_of(n, keys), b"%d" % n) for n in range(self._sent, up_to))
            self._sent = up_to

    def _read(self) -> int:
        """Return the number of messages that were read; 0 while it is unknown. Raises GaveUp."""
        if self._daemon.code is not None:
            raise GaveUp(f"the bridge ended by itself: exit code {self._daemon.code}")
        left, now = self._source.count_left(), time.monotonic()
        read = 0 if left is None else self._sent - left
        if read > self._most:
            self._most, self._grew = read, now
        if now - self._grew > STUCK:
            unsettled = self._daemon.count_unsettled()
            raise GaveUp(
                f"no progress in {STUCK:.0f} s, after {self._most:,} of {self._sent:,} messages; {left} are left in "
                f"the source, {unsettled} on the way in the bridge (None: it does not answer)"
            )
        return read

    def _wait_for(self, fault: Fault) -> tuple[int, int]:
        """Wait until a fault can come; return the number of messages that were read, and of those on the way."""
        messages, window = self._outcome.amount.messages, self._outcome.amount.window
        self._feed(min(fault.at + AHEAD * window, messages - window))
        while True:
            read = self._read()
            in_flight = self._daemon.count_unsettled() if read >= min(fault.at, self._sent) else None
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
        """Return whether there is a process or a connection for a fault."""
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
