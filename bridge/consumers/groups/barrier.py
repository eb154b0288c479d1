"""The barrier between the old and the new partitions of keys while the number of partitions changes.

When slots move from partitions to others, messages of a slot may be handled in its new partition only after all those
in its old one. So before the bindings are changed, a *gate* is put into each partition that gets slots; and after that,
a *marker* into each one that gave some away. What was routed to an old partition lies before its marker; what is routed
to a new one lies behind its gate, where the messages of moved slots are held. A member that has handled all before a
marker announces the old partition as *passed*, durably, to all new ones, and these let its slots through.

All state of a change is in queues: any member can die at any point, and the next owner of the partition finds gate,
marker and announcements there.

Without I/O: it gets what was read from queues, and returns what may be handled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from bridge.consumers.groups.names import check_partitions
from exchange.errors import InputError
from exchange.partition.slots import find_moved_slots
from exchange.values.json_text import parse_leniently

GATE: Final = "hashstar.gate"
MARKER: Final = "hashstar.marker"
"""Values of the property ``type`` of gates and markers."""

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Resize:
    """A change of the number of partitions. Raises InputError for numbers out of range."""

    id: str
    before: int
    after: int
    slots: int

    def __post_init__(self) -> None:
        for partitions in (self.before, self.after):
            check_partitions(self.slots, partitions)

    @property
    def sources(self) -> frozenset[int]:
        """Partitions that give slots away."""
        return frozenset(old for old, _ in find_moved_slots(self.slots, self.before, self.after).values())

    @property
    def targets(self) -> frozenset[int]:
        """Partitions that get slots; never a source."""
        return frozenset(new for _, new in find_moved_slots(self.slots, self.before, self.after).values())

    def to_bytes(self) -> bytes:
        """Return the change as JSON: the body of gates and markers, too."""
        return json.dumps(asdict(self)).encode()

    def news(self, queue: str) -> str:
        """Return the name of the exchange for announcements about this change to a partitioned queue."""
        return f"{queue}.resize.{self.id}"

    def inbox(self, queue: str, target: int | None = None) -> str:
        """Return the name of the queue with the announcements for a target; None: for the process that resizes."""
        return f"{self.news(queue)}.{'all' if target is None else target}"


def read_resize(body: bytes) -> Resize:
    """Read the body of a gate or a marker. Raises InputError for anything else."""
    try:
        read = parse_leniently(body)
        return Resize(UUID(hex=read["id"]).hex, int(read["before"]), int(read["after"]), int(read["slots"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"not a change of partitions: {error!r:.200}") from None


def write_news(*, passed: int | None = None, opened: int | None = None) -> bytes:
    """Return an announcement: this old partition is passed, or the gate of this new one is open."""
    return json.dumps({"passed": passed, "opened": opened}).encode()


def read_news(body: bytes) -> tuple[int | None, int | None]:
    """Return the partition that is passed, and the one that is open; (None, None) if the body is no announcement."""
    try:
        news: Any = parse_leniently(body)
        passed, opened = news["passed"], news["opened"]
    except (ValueError, TypeError, KeyError):
        return None, None
    return passed if isinstance(passed, int) else None, opened if isinstance(opened, int) else None


class PartitionGate(Generic[M]):
    """The gate of a partition that gets slots; M is a message."""

    def __init__(self, resize: Resize, target: int) -> None:
        moved = find_moved_slots(resize.slots, resize.before, resize.after)
        self._source_of: Final = {slot: old for slot, (old, new) in moved.items() if new == target}
        self._held: dict[int, list[M]] = {source: [] for source in set(self._source_of.values())}
        self.resize: Final = resize

    @property
    def is_open(self) -> bool:
        """Whether all old partitions are passed: the gate lets everything through."""
        return not self._held

    def hold(self, message: M, slot: int | None) -> bool:
        """Keep a message behind the gate if its slot's old partition is not passed yet; return whether it was kept.

        A message without a slot was not published through the exchange, so no old partition had messages before it.
        """
        held = self._held.get(self._source_of.get(slot, -1)) if slot is not None else None
        if held is None:
            return False
        held.append(message)
        return True

    def let_through(self, source: int) -> Iterable[M]:
        """Note that an old partition is passed; return the messages that were held for it, in order."""
        return self._held.pop(source, ())
