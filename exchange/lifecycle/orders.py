"""The orders in which queues of each type and release deliver the messages that are ready."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, Protocol

from exchange.lifecycle.content import Content


class Stored:
    """A message in one queue.

    ``place`` is its place in the queue, which a classic queue keeps for it while it is delivered. ``expires`` is the
    time in milliseconds at which it is dead, None for never. ``returns`` counts how often it came back to the queue,
    ``failures`` the failed deliveries among them (None as long as there is none).
    """

    __slots__ = ("content", "expires", "failures", "place", "priority", "redelivered", "returns", "size")

    def __init__(self, content: Content, place: int, size: int, priority: int, expires: float | None) -> None:
        self.content = content
        self.place = place
        self.size = size
        self.priority = priority
        self.expires = expires
        self.returns = 0
        self.failures: int | None = content.failures
        self.redelivered = False


class Order(Protocol):
    """The messages of a queue that are ready."""

    def put(self, message: Stored) -> None:
        """Add a message that comes from outside."""

    def give_back(self, message: Stored) -> None:
        """Add a message that was delivered and is not acknowledged."""

    def head(self) -> Stored | None:
        """Return the message that is delivered next; None if there is none."""

    def take(self) -> Stored:
        """Remove and return the head. There must be one."""

    def take_expired(self, now: float) -> list[Stored]:
        """Remove and return the messages that the queue finds expired at this time in milliseconds."""

    def next_expiry(self) -> float | None:
        """Return the time at which `take_expired` finds the next message, None for never."""

    def remove(self, message: Stored) -> None:
        """Remove a message. It must be there."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Stored]:
        """Iterate over all messages in the order in which they would be delivered."""


class ClassicOrder(deque[Stored]):
    """A classic queue without priorities: first in, first out; what is given back gets its old place."""

    put = deque.append
    take = deque.popleft

    def give_back(self, message: Stored) -> None:
        """Put a message in its old place."""
        if not self or message.place < self[0].place:
            self.appendleft(message)
        else:
            insort(self, message, key=attrgetter("place"))

    def head(self) -> Stored | None:
        """Return the oldest message."""
        return self[0] if self else None

    def take_expired(self, now: float) -> list[Stored]:
        """Take expired messages from the head, up to the first one that is not expired."""
        return _take_expired(self, now)

    def next_expiry(self) -> float | None:
        """Return the expiry of the head."""
        return self[0].expires if self else None


class ClassicPriorities:
    """A classic queue with priorities: the highest first; each priority is a `ClassicOrder`."""

    def __init__(self, highest: int) -> None:
        self._highest: Final = highest
        self._lanes: Final = {priority: ClassicOrder() for priority in range(highest, -1, -1)}

    def _lane(self, message: Stored) -> ClassicOrder:
        return self._lanes[min(max(message.priority, 0), self._highest)]

    def _first(self) -> ClassicOrder | None:
        return next((lane for lane in self._lanes.values() if len(lane)), None)

    def put(self, message: Stored) -> None:
        """Add a message behind those of its priority."""
        self._lane(message).put(message)

    def give_back(self, message: Stored) -> None:
        """Put a message in its old place among those of its priority."""
        self._lane(message).give_back(message)

    def head(self) -> Stored | None:
        """Return the oldest message of the highest priority."""
        lane = self._first()
        return None if lane is None else lane.head()

    def take(self) -> Stored:
        """Remove and return the head."""
        lane = self._first()
        if lane is None:
            raise IndexError("take from an empty queue")
        return lane.take()

    def take_expired(self, now: float) -> list[Stored]:
        """Take expired messages from the head: lower priorities are looked at only when the higher ones are empty."""
        taken: list[Stored] = []
        for lane in self._lanes.values():
            taken += lane.take_expired(now)
            if len(lane):
                break
        return taken

    def next_expiry(self) -> float | None:
        """Return the expiry of the head."""
        head = self.head()
        return None if head is None else head.expires

    def remove(self, message: Stored) -> None:
        """Remove a message."""
        self._lane(message).remove(message)

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Stored]:
        for lane in self._lanes.values():
            yield from lane


class QuorumOrder:
    """A quorum queue: returned messages first, in the order in which they came back; then the others by priority.

    With two priorities (4.0), normal messages get every third turn, unless the one of high priority is older. With 32,
    the highest comes first.
    """

    WEIGHT: Final = 2
    """Number of turns of high priority for one of normal priority."""
    HIGH: Final = 4
    """The highest normal priority; with 32 priorities, the one of messages that have none."""

    def __init__(self, priorities: int) -> None:
        self._priorities: Final = priorities
        self._returned: Final[deque[Stored]] = deque()
        self._lanes: dict[int, deque[Stored]] = {}
        """Number of a lane -> its messages, the highest first; those that messages had so far."""
        self._lane_of: Final[dict[int, deque[Stored]]] = {}
        """Priority of a message -> its lane."""
        self._turns = 0
        self.count = 0
        """Number of messages: `len` takes longer."""

    def _lane(self, priority: int) -> deque[Stored]:
        """Return the messages among which one of this priority belongs."""
        number = 0
        if self._priorities > 2:
            number = min(priority, self._priorities - 1) if priority >= 0 else self.HIGH
        elif self._priorities == 2 and priority > self.HIGH:
            number = 1
        lane = self._lanes.get(number)
        if lane is None:
            self._lanes[number] = lane = deque()
            self._lanes = dict(sorted(self._lanes.items(), reverse=True))
        return lane

    def put(self, message: Stored) -> None:
        """Add a message behind those of its priority."""
        priority = message.priority
        lane = self._lane_of.get(priority)
        if lane is None:
            lane = self._lane_of[priority] = self._lane(priority)
        lane.append(message)
        self.count += 1

    def give_back(self, message: Stored) -> None:
        """Add a message behind those that came back before it."""
        self._returned.append(message)
        self.count += 1

    def put_last(self, message: Stored, place: int) -> None:
        """Add a message that came back behind those of normal priority, in a new place: there is no delivery limit."""
        message.place = place
        self._lane(self.HIGH).append(message)
        self.count += 1

    def _first(self) -> deque[Stored] | None:
        """Return the lane whose first message is delivered next."""
        if self._returned:
            return self._returned
        if self._priorities == 2 and self._turns == self.WEIGHT:
            high, normal = self._lanes.get(1), self._lanes.get(0)
            if high and normal:
                return high if high[0].place < normal[0].place else normal
        for lane in self._lanes.values():
            if lane:
                return lane
        return None

    def head(self) -> Stored | None:
        """Return the first returned message, else the first of the lane whose turn it is."""
        if not self.count:
            return None
        lane = self._first()
        return None if lane is None else lane[0]

    def take(self) -> Stored:
        """Remove and return the head."""
        self.count -= 1
        if self._returned:
            return self._returned.popleft()
        lane = self._first()
        if lane is None:
            raise IndexError("take from an empty queue")
        if self._priorities == 2:
            self._turns = 0 if self._turns == self.WEIGHT else self._turns + 1
        return lane.popleft()

    def take_expired(self, now: float) -> list[Stored]:
        """Take expired messages from the head; with 32 priorities, from the front of each lane."""
        taken: list[Stored] = []
        if self._priorities > 2:
            for lane in (self._returned, *self._lanes.values()):
                taken += _take_expired(lane, now)
            self.count -= len(taken)
            return taken
        while (head := self.head()) is not None and head.expires is not None and head.expires <= now:
            taken.append(self.take())
        return taken

    def next_expiry(self) -> float | None:
        """Return the expiry of the head; with 32 priorities, the earliest of the first messages of all lanes."""
        if not self.count:
            return None
        if self._priorities <= 2:
            head = self.head()
            return None if head is None else head.expires
        firsts = [lane[0].expires for lane in (self._returned, *self._lanes.values()) if lane]
        return min((each for each in firsts if each is not None), default=None)

    def remove(self, message: Stored) -> None:
        """Remove a message."""
        lane = next(lane for lane in (self._returned, *self._lanes.values()) if message in lane)
        lane.remove(message)
        self.count -= 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Stored]:
        if self._priorities != 2:
            for lane in (self._returned, *self._lanes.values()):
                yield from lane
            return
        copy = QuorumOrder(2)
        copy._returned.extend(self._returned)
        copy._lanes = {number: deque(lane) for number, lane in self._lanes.items()}
        copy._turns, copy.count = self._turns, self.count
        while copy.count:
            yield copy.take()


def _take_expired(messages: deque[Stored], now: float) -> list[Stored]:
    """Take messages from the front as long as they are expired."""
    taken: list[Stored] = []
    while messages and (expires := messages[0].expires) is not None and expires <= now:
        taken.append(messages.popleft())
    return taken
