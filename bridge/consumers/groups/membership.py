"""One member's view of its group: the live members, and the plan that assigns partitions to them.

Members announce themselves by beats. The member that joined first plans: whenever members come or go, or the
number of partitions changes, it announces a new plan, and each member follows the newest plan that it knows. When the
planner goes, the next one plans on from the last plan it heard. Two members that plan at once, because each thinks that
it is the oldest, do no harm: a partition is locked by its queue's single active consumer, and the newer plan wins.

Without I/O: it gets beats and times, and returns plans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.limits import BEAT_BYTES, GROUP_PARTITIONS
from exchange.partition.slots import assign_sticky
from exchange.values.json_text import parse_leniently

BEATS: Final = 4
"""Number of beats in a heartbeat."""
PATIENCE: Final = 2.0
"""Number of heartbeats, of its own or of the listener if that is longer, after which a silent member counts as gone."""
LONGEST_HEARTBEAT: Final = 600
"""Maximum heartbeat in seconds."""
LISTENING: Final = 4
"""Number of beats for which a new member listens before it plans."""
GATHERING: Final = 2
"""Number of beats for which the planner waits for further members when one has come."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Assignment of partitions to members."""

    epoch: int
    """Number of the plan; each is larger than those that its planner knew."""
    planner: str
    partitions: int
    """Number of partitions, all of which are assigned."""
    assignment: Mapping[str, tuple[int, ...]]
    """Member -> its partitions, in order."""

    def supersedes(self, other: GroupPlan | None) -> bool:
        """Return whether members that know both plans follow this one."""
        return other is None or (self.epoch, self.planner) > (other.epoch, other.planner)


class Progress(NamedTuple):
    """A member's figures about a partition that it holds."""

    handled: int
    """Number of messages handled since it has the partition."""
    waiting: int
    """Number of messages that it has and has not acknowledged."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Announcement of a member."""

    member: str
    joined: float
    """When it joined, in seconds since 1970 by its own clock. Only the order matters, and it is the same to all."""
    heartbeat: float
    """Its heartbeat in seconds, four beats long."""
    prefetch: int
    held: Mapping[int, Progress] = field(default_factory=dict)
    """The partitions that it holds, those that it still drains included."""
    leaving: bool = False
    plan: GroupPlan | None = None
    """The plan that it follows; only a planner announces it."""

    def to_bytes(self) -> bytes:
        """Return the beat as JSON."""
        plan = self.plan and {
            "epoch": self.plan.epoch,
            "planner": self.plan.planner,
            "partitions": self.plan.partitions,
            "assignment": self.plan.assignment,
        }
        return json.dumps({
            "member": self.member, "joined": self.joined, "heartbeat": self.heartbeat, "prefetch": self.prefetch,
            "held": self.held, "leaving": self.leaving, "plan": plan,
        }, separators=(",", ":")).encode()  # fmt: skip


def read_beat(body: bytes) -> Beat:
    """Read a beat. Raises InputError for anything else."""
    try:
        beat = parse_leniently(body if len(body) <= BEAT_BYTES else b"")  # nothing is no JSON
        plan = beat["plan"]
        return Beat(
            _text(beat["member"]),
            float(beat["joined"]),
            min(float(beat["heartbeat"]), LONGEST_HEARTBEAT),
            int(beat["prefetch"]),
            {int(number): Progress(*map(int, progress)) for number, progress in beat["held"].items()},
            bool(beat["leaving"]),
            plan and _read_plan(plan),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(f"not a member's announcement: {error!r:.200}") from None


def _read_plan(plan: Mapping[str, Any]) -> GroupPlan:
    partitions = int(plan["partitions"])
    assignment = {_text(name): tuple(map(int, mine)) for name, mine in plan["assignment"].items()}
    assigned = sorted(number for mine in assignment.values() for number in mine)
    if not 0 <= partitions <= GROUP_PARTITIONS or assigned != list(range(partitions)):
        raise ValueError("a plan that does not assign each partition once")
    return GroupPlan(int(plan["epoch"]), _text(plan["planner"]), partitions, assignment)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


class Membership:
    """The view of the member ``me``; times are seconds of any clock that only goes forward.

    Each member announces itself four times in its heartbeat, and hears its own beats, too.
    """

    def __init__(self, me: str, joined: float, *, heartbeat: float, now: float) -> None:
        self._me: Final = me
        self.joined: Final = joined
        """When this member joined, see `Beat`."""
        self._heartbeat: Final = heartbeat
        self._listens_until: Final = now + LISTENING * heartbeat / BEATS
        self._heard: dict[str, tuple[float, Beat]] = {}  # when a member was heard last, and what it announced
        self._gathers_until = self._listens_until
        # When this member heard itself last. Silence is measured by it: if the broker delivers no beats at all, silence
        # shows nothing about a member.
        self._echo = now
        self.plan: GroupPlan | None = None
        """The plan to follow."""

    def hear(self, beat: Beat, now: float) -> None:
        """Take note of a beat."""
        if beat.member == self._me:
            self._echo = now
            return
        if beat.member not in self._heard:
            self._gathers_until = max(self._gathers_until, now + GATHERING * self._heartbeat / BEATS)
        self._heard[beat.member] = (now, beat)
        if beat.plan is not None and beat.plan.supersedes(self.plan):
            self.plan = beat.plan

    def others(self) -> dict[str, Beat]:
        """Return the latest beats of the other members that live, those that leave included; forget the rest."""
        self._heard = {
            name: (when, beat)
            for name, (when, beat) in self._heard.items()
            if self._echo - when <= PATIENCE * max(self._heartbeat, beat.heartbeat)
        }
        return {name: beat for name, (_, beat) in self._heard.items()}

    def is_planner(self) -> bool:
        """Return whether this member has to plan: of those that stay, it joined first."""
        staying = [(beat.joined, name) for name, beat in self.others().items() if not beat.leaving]
        return min([*staying, (self.joined, self._me)]) == (self.joined, self._me)

    def plan_if_due(self, now: float, partitions: int) -> GroupPlan | None:
        """Return the new plan, which is to be announced, if this member has to make one; else None.

        Members that have gone are replaced at once. When some have joined, it waits a moment for more.
        """
        if now < self._listens_until or not self.is_planner():
            return None
        members = {name for name, beat in self.others().items() if not beat.leaving} | {self._me}
        planned = set(self.plan.assignment) if self.plan is not None else set()
        is_same = self.plan is not None and planned == members and self.plan.partitions == partitions
        if is_same or (planned < members and now < self._gathers_until):
            return None
        previous = self.plan.assignment if self.plan is not None else {}
        epoch = self.plan.epoch + 1 if self.plan is not None else 1
        self.plan = GroupPlan(epoch, self._me, partitions, assign_sticky(partitions, members, previous))
        return self.plan

    def assigned(self) -> tuple[int, ...]:
        """Return this member's partitions by the plan."""
        return self.plan.assignment.get(self._me, ()) if self.plan is not None else ()

    def is_held_by_another(self, partition: int) -> bool:
        """Return whether another member announced last that it holds this partition."""
        return any(partition in beat.held for beat in self.others().values())
