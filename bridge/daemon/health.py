"""Look at a pump: why a bridge does not move messages, or soon will not, as `bridge.daemon.conditions` lists it.

`Health.look` is called on the event loop once a second, and when a connection is made or lost. It replaces conditions
and states by new values, so the threads that answer HTTP read them without a lock. The bridge is ready while there is
no condition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import Final

from bridge.daemon.conditions import OF_THE_BRIDGE, Causes, ConditionLog
from bridge.daemon.journal import Journal
from bridge.daemon.telemetry.metrics import History, Metrics
from bridge.daemon.views import Condition, SourceState, TargetState
from bridge.endpoint import Endpoint, Outgoing, Source
from bridge.endpoints.outages import KnownRemovals, find_risk, find_survived
from bridge.pump.inlet import Inlet
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Policy
from bridge.pump.pump import Pump
from bridge.pump.window import Pending
from exchange.text.display import count_noun, list_some

STOPPED_AFTER: Final = 1.0
"""Seconds for which messages wait for the limit of dead letters before that is a condition: others that are under way
may be written, and these permit more."""
BACKPRESSURE_AFTER: Final = 3.0
"""Seconds for which a queue takes nothing before that is a condition: a full queue takes messages now and then."""
VANISHED_FOR: Final = 60.0
"""Seconds for which messages that were removed unread are a condition."""
NOT_READ: Final = ("disconnected", "trouble", "registry", "dead-letters", "waiting", "window-full")
"""Kinds of conditions of a source of which nothing is read."""
LOOK_EVERY: Final = 1.0
"""Seconds between looks at the pump."""
LATE: Final = 5.0
"""Seconds by which a look is late where this process was stopped, as by SIGSTOP or with its machine."""
SCAN_AFTER: Final = 0.5
"""Minimum age of the oldest unsettled message, in seconds, at which all messages under way are scanned."""
SCAN_CHEAP: Final = 0.005
"""Maximum duration, in seconds, of a scan that is made at each look."""
SCAN_SHARE: Final = 0.01
"""Maximum share of the time for scans that take longer: they are made less often."""
SCAN_EVERY_AT_MOST: Final = 4.0
"""Maximum number of seconds between scans, however long they take, so that their results are not too old."""
MAX_NAMED_PARTS: Final = 3
"""Maximum number of queues or messages that a reason names."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """The result of a scan of all messages under way."""

    copies: Mapping[str, Outgoing | None] = field(default_factory=dict)
    """Target -> its oldest message without an answer."""
    held: Mapping[str, Sequence[Pending]] = field(default_factory=dict)
    """Source -> its messages on hold, the oldest first."""


class Health:
    """Looks at a pump again and again, and knows its conditions.

    ``config`` is the path of the configuration, which ways out name; ``before`` is the health of the pump before, whose
    conditions last; ``clock`` returns seconds since 1970, ``loop_clock`` the loop's time.
    """

    def __init__(
        self,
        pump: Pump,
        inlets: Sequence[Inlet],
        metrics: Metrics,
        journal: Journal,
        policy: Policy = Policy(),  # noqa: B008  a frozen value
        *,
        config: str = "",
        has_dead_letters: bool = False,
        before: Health | None = None,
        loop_clock: Callable[[], float] | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._pump = pump
        self._inlets = inlets
        self._metrics = metrics
        self.journal = journal
        self._policy = policy
        self._config = config
        self._has_dead_letters = has_dead_letters
        self._loop_clock = loop_clock or asyncio.get_running_loop().time
        self._clock = clock
        self._log: Final[ConditionLog] = ConditionLog(journal, None if before is None else before._log, clock)
        self._ran = self._loop_clock()  # time of the last look, by the loop's clock; later: there is none until then
        self._scan = _Scan()
        self._scan_at = float("-inf")
        """Earliest time of the next scan, by the loop's clock."""
        self._refusing: dict[tuple[str, str], float] = {}
        """Target and queue -> time since which it takes nothing, by the loop's clock."""
        self._idle: dict[str, float] = {} if before is None else before._idle
        """Source -> time since which nothing of it is read, by the loop's clock."""
        self._vanished: dict[str, tuple[int, float]] = {}  # source -> messages removed unread, and when it grew
        self.removals: Final = {inlet.source.name: KnownRemovals() for inlet in inlets}
        """Source -> what removes messages that wait for it. It is looked up while a source waits to be opened, too."""
        self.conditions: tuple[Condition, ...] = ()
        self.sources: Mapping[str, SourceState] = {}
        self.targets: Mapping[str, TargetState] = {}
        self.history: History = History() if before is None else before.history
        self.look()

    async def run(self) -> None:
        """Look once a second, and at each connection made or lost, until cancelled."""
        loop, self._ran = asyncio.get_running_loop(), self._loop_clock()
        self._metrics.on_change = lambda: loop.call_soon(self._look_safely)
        sources = [inlet.source for inlet in self._inlets]
        asking = [loop.create_task(self.removals[each.name].keep_looking(each.find_removals)) for each in sources]
        try:
            while True:
                self._look_safely()
                self.journal.catch_up()
                await asyncio.sleep(LOOK_EVERY)
        finally:
            for task in asking:
                task.cancel()

    def current(self) -> tuple[Condition, ...]:
        """Return the conditions; from any thread. A pause or stop is among them at once, even before the next look."""
        conditions = [each for each in self.conditions if each.kind not in OF_THE_BRIDGE]
        for kind, applies, reason, way_out in self._requests():
            if applies:
                known = next((each for each in self.conditions if each.kind == kind), None)
                conditions.append(known or Condition("", kind, reason, self._clock(), way_out))
        return tuple(conditions)

    def _requests(self) -> tuple[tuple[str, bool, str, str], ...]:
        """Return kind, presence, reason and way out of the conditions that a user causes."""
        resume = f"run: hashstar bridge resume {self._config}"
        return (
            ("paused", self._pump.paused, "paused", resume),
            ("draining", self._pump.draining, "it waits until everything that was read is settled", ""),
            ("drained", self._pump.drained, "drained: nothing is read or under way", resume),
        )

    def look(self) -> None:
        """Find the present conditions and states, and log conditions that begin, last or end."""
        now = self._loop_clock()
        causes = Causes()
        self._scan_if_due(now)
        self.targets = {outlet.target.name: self._look_at_target(outlet, causes, now) for outlet in self._pump.outlets}
        self.sources = {inlet.source.name: self._look_at_source(inlet, causes, now) for inlet in self._inlets}
        for kind, applies, reason, way_out in self._requests():
            if applies:
                causes.add("", kind, reason, way_out=way_out)
        for inlet in self._inlets:
            self._add_risk(inlet.source, causes, now)
        self.conditions = self._log.compare(causes, now)
        self.history.add(now, self._metrics)

    def _look_safely(self) -> None:
        now = self._loop_clock()
        if (late := now - self._ran - LOOK_EVERY) > LATE:
            # Brokers seem silent then, and messages old; what they sent meanwhile is read first, whatever changes.
            self.journal.write("warning", "process was stopped", seconds=round(late, 1))
            self._ran = now + LOOK_EVERY
        elif now >= self._ran:
            self._ran = now
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  a look that fails must not end all later ones
                self.journal.write_rarely("error", "health failed", ("", repr(error)), error=repr(error))

    def _scan_if_due(self, now: float) -> None:
        """Scan all messages under way if one is old enough, as often as the duration of the scan allows."""
        oldest = [inlet.window.oldest() for inlet in self._inlets]
        if not any(pending is not None and now - pending.since >= SCAN_AFTER for pending in oldest):
            self._scan, self._scan_at = _Scan(), now
        elif now >= self._scan_at:
            began = perf_counter()
            self._scan = _Scan(
                {outlet.target.name: outlet.oldest() for outlet in self._pump.outlets},
                {
                    inlet.source.name: sorted(inlet.window.on_hold(), key=lambda pending: pending.since)
                    for inlet in self._inlets
                },
            )
            took = perf_counter() - began
            self._scan_at = now + (min(SCAN_EVERY_AT_MOST, took / SCAN_SHARE) if took > SCAN_CHEAP else 0.0)

    # Endpoints.

    def _is_up(self, endpoint: Endpoint, causes: Causes) -> bool:
        """Return whether an endpoint is connected and without trouble; add the condition if not."""
        name = endpoint.name
        if not self._metrics.up.get(name):
            reason = self._metrics.last_error.get(name, "not connected yet")
            causes.add(name, "disconnected", reason, way_out=f"hashstar bridge check {self._config} finds the cause")
            return False
        try:
            trouble = endpoint.trouble
        except Exception as error:  # noqa: BLE001  an endpoint whose state fails is in trouble as well
            trouble = f"its state cannot be read: {error!r}"
        if trouble is not None:
            causes.add(name, "trouble", trouble, way_out="look at the broker; the bridge continues when it does")
        if endpoint.tokens is not None and (expiring := endpoint.tokens.trouble) is not None:
            causes.add(name, "token", expiring, way_out="see the authorization server, or the file of the token")
        return trouble is None

    def _look_at_target(self, outlet: Outlet, causes: Causes, now: float) -> TargetState:
        name = outlet.target.name
        up = self._is_up(outlet.target, causes)
        waits = outlet.waiting
        waiting = {queue: failure.reason for queue, failure in waits.items()}
        for key in [key for key in self._refusing if key[0] == name and key[1] not in waiting]:
            del self._refusing[key]
        patience = min(BACKPRESSURE_AFTER, self._policy.stalled_after)
        lasting = []
        for queue in sorted(waiting):
            since = self._refusing.setdefault((name, queue), now)
            if now - since >= patience:
                lasting.append((queue, since))
        if lasting:
            reasons = [
                f"{f'queue {queue}' if queue else 'it'} {'waits' if waits[queue].waits else 'takes nothing'}: "
                f"{waiting[queue]}"
                for queue, _ in lasting
            ]
            causes.add(
                name, "backpressure", list_some(reasons, MAX_NAMED_PARTS), min([since for _, since in lasting]),
                "its messages wait in order; see that the queue is there, has room, and may be written",
            )  # fmt: skip
        oldest = self._scan.copies.get(name)
        return TargetState(up, max(0.0, now - oldest.context.since) if oldest is not None else 0.0, waiting)

    def _look_at_source(self, inlet: Inlet, causes: Causes, now: float) -> SourceState:
        source, window = inlet.source, inlet.window
        name, stalled_after = source.name, (inlet.policy or self._policy).stalled_after
        if name in self._metrics.ended_sources:
            up = self._metrics.up.get(name, False)
        elif not self._metrics.up.get(name) and not self._pump.takes:
            up = False  # it is opened when the bridge is resumed
        elif not self._metrics.up.get(name) and (waits := self._pump.waiting_for(inlet)) is not None:
            up = False
            causes.add(name, "waiting", waits, way_out="it opens when its targets are open")
        else:
            up = self._is_up(source, causes)
        if inlet.admission is not None and (why := inlet.admission.trouble) is not None:
            causes.add(name, "registry", why, way_out=f"hashstar bridge check {self._config} finds the cause")
        oldest = window.oldest()
        age = max(0.0, now - oldest.since) if oldest is not None else 0.0
        held = self._scan.held.get(name, ())
        limit = window.limit
        if limit is not None and limit.since is not None:
            if now - limit.since >= STOPPED_AFTER and (why := limit.describe()) is not None:
                causes.add(
                    name, "dead-letters", why, limit.since, "remove the cause: what waits is tried again, "
                    "and written; POST /resume or SIGUSR2 lets ten more become dead letters, max_dead_letters = 1 all",
                )  # fmt: skip
        elif held:
            self._add_held(inlet, held, causes)
        if oldest is not None and age >= stalled_after and oldest.held_reason is None:
            causes.add(name, "stalled", self._stall(oldest, stalled_after, now), oldest.since, "see its target")
        if window.full_since is not None and now - window.full_since >= stalled_after:
            causes.add(
                name, "window-full", f"nothing is read: {count_noun(window.messages, 'message')} of {window.bytes:,} "
                f"bytes {'is' if window.messages == 1 else 'are'} not settled", window.full_since,
                "see what the oldest waits for; window and window_bytes bound it",
            )  # fmt: skip
        count, last = self._vanished.get(name, (0, now - VANISHED_FOR))
        if source.vanished > count:
            count, last = self._vanished[name] = source.vanished, now
        if now - last < VANISHED_FOR:
            reason = f"{count_noun(count, 'message was', 'messages were')} removed unread"
            causes.add(name, "vanished", reason, last, "give it a longer retention")
        fill = max(window.messages / window.capacity, window.bytes / max(1, window.capacity_bytes))
        return SourceState(
            up, None if name in self._metrics.ended_sources else source.lag, source.withheld, source.vanished,
            window.bytes, fill, age,
            oldest.delivery.origin if oldest is not None else "", len(held),
            tuple([(each.delivery.origin, each.held_reason or "") for each in held[:MAX_NAMED_PARTS]]),
            find_survived(self.removals[name].all),
            0.0 if limit is None else limit.highest,
        )  # fmt: skip

    def _add_risk(self, source: Source, causes: Causes, now: float) -> None:
        """Add a condition if nothing is read, and what waits may not survive that."""
        name = source.name
        is_ended = name in self._metrics.ended_sources
        if is_ended or (self._pump.takes and not any((name, kind) in causes.all for kind in NOT_READ)):
            self._idle.pop(name, None)
            return
        idle = now - self._idle.setdefault(name, now)
        risk = find_risk(self.removals[name].all, idle, source.lag, is_open=bool(self._metrics.up.get(name)))
        if risk is not None:
            reason = f"messages may be lost while nothing is read: {risk.what}"
            causes.add(name, "at-risk", reason, way_out="take that setting away, or raise it, until it is read again")

    def _add_held(self, inlet: Inlet, held: Sequence[Pending], causes: Causes) -> None:
        first, window = held[0], inlet.window
        behind = window.messages - len(held)
        reason = f"{first.delivery.origin} is on hold: {first.held_reason}"
        if len(held) > 1:
            reason += f"; so {'is' if len(held) == 2 else 'are'} {len(held) - 1:,} more"
        reason += f"; {count_noun(behind, 'message')} read after it must wait to be settled" if behind else ""
        reason += ", and nothing more is read" if window.room <= 0 else ""
        ways = []
        if first.delivery.message.exchange == "" and inlet.exchange is None:
            ways.append(f'it was published to the default exchange: write exchange = "..." in [sources.{_name(inlet)}]')
        if not self._has_dead_letters:
            ways.append("write [dead_letters] to have such messages put aside")
        causes.add(_name(inlet), "held", reason, first.since, "; or ".join(ways) or "see the dead letters' target")

    def _stall(self, oldest: Pending, stalled_after: float, now: float) -> str:
        """Return the reason of a stall: what the oldest message waits for."""
        copies = self._scan.copies.items()
        names = [name for name, copy in copies if copy is not None and copy.context is oldest]
        if not names:  # it is no target's oldest message, but waits behind older ones
            names = [name for name, copy in copies if copy is not None and now - copy.context.since >= stalled_after]
        targets = list_some([f"target {name}" for name in names], MAX_NAMED_PARTS)
        waits = f"it waits for {targets}" if names else "no target has it any more"
        return f"the oldest message, {oldest.delivery.origin}, is not settled: {waits}"


def _name(inlet: Inlet) -> str:
    return inlet.source.name
