"""Dead letters: the message as it was read, with headers about why and when it was given up, and where it was.

How many there may be is limited (`DeadLetterLimit`): where most messages are refused, something else is wrong.

==========================  ===========================================================================
header                      what it is
==========================  ===========================================================================
hashstar-reason             the reason of the target or the router
hashstar-time               when it was given up, AMQP timestamp: seconds since 1970
hashstar-origin             where it was read
hashstar-exchange           the exchange that it was published to
hashstar-routing-key        the routing key that it was published with
hashstar-queue              the topology's queue whose target refused it; "" when no queue got it
hashstar-target             the target, or the source when no queue got it
hashstar-attempts           how often it was sent to the target
hashstar-content-header     only if the message's headers cannot be read: flags and properties as the bytes that
                            were received. Then none of them is a header or property of the dead letter.
hashstar-user_id,           properties and headers of the message for which a broker would refuse, drop or copy
hashstar-expiration,        the dead letter; they are kept under these names instead of their own
hashstar-CC, hashstar-BCC
hashstar-packed             only if the target of dead letters refused this one because of its headers: true.
                            The body is then the whole dead letter as a line of JSON that `hashstar route` and
                            archives read, and its headers are only those of this table.
==========================  ===========================================================================
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from math import ceil, floor
from sys import maxsize
from typing import Final

from bridge.endpoint import Delivery, Outgoing
from exchange.amqp import MalformedHeader, get_content
from exchange.amqp.content import RAW_HEADER
from exchange.text.display import count_noun
from exchange.values.field_json import encode_fields, encode_message
from exchange.values.field_values import Typed, make_longstr
from exchange.values.message import Message

PACKED: Final = "hashstar-packed"

FEWEST: Final = 10
"""Number of dead letters among the latest messages of a queue that are never too many."""


def build_dead_letter(delivery: Delivery, reason: str, target: str, queue: str, attempts: int, now: float) -> Message:
    """Build the dead letter of a delivery; exchange, key, properties, body and the other headers stay as they were.

    ``now`` is in seconds since 1970.
    """
    message = delivery.message
    added = {
        "hashstar-reason": reason,
        "hashstar-time": Typed("timestamp", int(now)),
        "hashstar-origin": make_longstr(delivery.origin),
        "hashstar-exchange": make_longstr(message.exchange),
        "hashstar-routing-key": make_longstr(message.routing_key),
        "hashstar-queue": queue,
        "hashstar-target": target,
        "hashstar-attempts": attempts,
    }
    try:
        headers, properties = dict(message.headers), dict(message.properties)
        for name, values in (("user_id", properties), ("expiration", properties), ("CC", headers), ("BCC", headers)):
            if name in values:
                added[f"hashstar-{name}"] = values.pop(name)
        return replace(message, headers={**headers, **added}, properties=properties)
    except MalformedHeader:
        added[RAW_HEADER] = get_content(message).raw
        return replace(message, headers=added, properties={})


def pack(dead: Message) -> Message:
    """Return a dead letter with its whole message in the body, for a system that refuses its headers."""
    headers = {name: value for name, value in dead.headers.items() if name.startswith("hashstar-")}
    headers.pop(RAW_HEADER, None)
    return Message(
        dead.exchange, dead.routing_key, {**headers, PACKED: True}, {"content_type": "application/json"},
        encode_fields(encode_message(dead)),
    )  # fmt: skip


def is_packed(dead: Message) -> bool:
    """Return whether a dead letter was packed already, so that it cannot be made smaller."""
    return PACKED in dead.headers


class _Tally:
    """The latest messages for one queue: those that were written, and those that became dead letters."""

    __slots__ = ("_runs", "dead", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.dead = 0
        self._runs: deque[list[int]] = deque()
        """Runs of the same: their length, and 1 for dead letters, else 0."""

    @property
    def share(self) -> float:
        """Share of dead letters; 0 without any message."""
        return self.dead / self.messages if self.messages else 0.0

    def add(self, count: int, dead: int) -> None:
        """Add ``count`` messages; ``dead`` is 1 if they became dead letters, else 0."""
        if self._runs and self._runs[-1][1] == dead:
            self._runs[-1][0] += count
        else:
            self._runs.append([count, dead])
        self.messages += count
        self.dead += count * dead

    def find_room(self, share: float) -> int:
        """Return how many more may become dead letters: until there are `FEWEST`, or the share is reached with them."""
        if share >= 1:
            return maxsize
        # with n more: (dead + n) / (messages + n) <= share
        return max(FEWEST - self.dead, floor((share * self.messages - self.dead) / (1 - share)), 0)

    def forget_old(self, latest: int) -> None:
        """Forget all but the latest messages."""
        while (excess := self.messages - latest) > 0:
            first = self._runs[0]
            count = min(excess, first[0])
            first[0] -= count
            self.messages -= count
            self.dead -= count * first[1]
            if not first[0]:
                self._runs.popleft()


class DeadLetterLimit:
    """Decides which messages of one source may become dead letters, so that a wrong limit of a broker costs ten.

    Of the latest messages for each queue, at most the ``share`` may become dead letters: of the latest 20 if it is a
    half, as `FEWEST` always may. A message beyond that waits, and is tried again. While one waits, no message is
    forgotten: so it may become a dead letter once enough others were written, those that were read after it, too, and
    is tried again then: ``later`` calls a function soon, some writes later. The wait ends for all when the cause is
    removed, as they are written then, or with `lift`. The queue ``""`` stands for the topology: its messages are all
    that were read, its dead letters those that cannot be routed.
    """

    def __init__(self, share: float, later: Callable[[Callable[[], None]], object]) -> None:
        self.share: Final = share
        self._later: Final = later
        self._is_due = False
        """Whether what waits is tried again soon."""
        self._latest: Final = ceil(FEWEST / share)
        """Number of messages of a queue that are looked at while none waits."""
        self._tallies: dict[str, _Tally] = {}
        self._waiting: dict[tuple[Hashable, str], tuple[str, Callable[[], bool]]] = {}
        """Message and queue -> why it waits, and what tries it again, if it may be tried now, and returns whether."""
        self._ahead: Final = Counter[str]()
        """Queue -> number of messages that were counted before they were written."""
        self.since: float | None = None
        """Time since which messages wait; None if none does."""

    @property
    def is_due(self) -> bool:
        """Whether messages that wait are tried again soon, as enough others were written."""
        return self._is_due

    @property
    def is_reached(self) -> bool:
        """Whether messages wait because too many others became dead letters, or are tried again after that."""
        return bool(self._waiting)

    @property
    def highest(self) -> float:
        """Share of dead letters among the latest messages for one queue: that with the highest."""
        return max([tally.share for tally in self._tallies.values()], default=0.0)

    def note_written(self, queue: str, count: int) -> None:
        """Take note of messages that were written."""
        if self._ahead:
            counted = min(count, self._ahead[queue])
            self._ahead[queue] -= counted
            count -= counted
        tally = self._tallies.get(queue)
        if tally is None:
            tally = self._tallies[queue] = _Tally()
        tally.add(count, 0)
        if not self._waiting:
            tally.forget_old(self._latest)
        elif not self._is_due and tally.find_room(self.share):
            self._is_due = True
            self._later(self._try_permitted)

    def _try_permitted(self) -> None:
        """Try those messages again that may become dead letters now, in the order in which they came to wait."""
        self._is_due = False
        room = {queue: count for queue, tally in self._tallies.items() if (count := tally.find_room(self.share))}
        for (_, queue), (_, again) in [*self._waiting.items()]:
            if not room:
                break
            if queue in room and again():
                room[queue] -= 1
                if not room[queue]:
                    del room[queue]

    def note_accepted(self, queue: str, count: int) -> None:
        """Take note that a target has ``count`` messages, which it writes together with others, as in a transaction.

        If one of those others waits, nothing is written before it; so these count now, and not again.
        """
        ahead = self._ahead[queue]
        if count > ahead:
            self._ahead[queue] = 0
            self.note_written(queue, count - ahead)
            self._ahead[queue] = count

    def permit(self, message: Hashable, queue: str, reason: str, again: Callable[[], bool], now: float) -> bool:
        """Return whether a message may become a dead letter now; if not, it waits, and is tried with ``again``."""
        tally = self._tallies.setdefault(queue, _Tally())
        if tally.find_room(self.share):
            tally.add(1, 1)
            self.release(message, queue)
            if not self._waiting:
                tally.forget_old(self._latest)
            return True
        if not self._waiting:
            self.since = now
        self._waiting[message, queue] = reason, again
        return False

    def release(self, message: Hashable, queue: str, again: Callable[[], bool] | None = None) -> bool:
        """Take note that a message does not wait any more; with ``again``, unless it has another by now.

        Return whether it did wait.
        """
        waits = self._waiting.get((message, queue))
        if waits is None or (again is not None and waits[1] is not again):
            return False
        del self._waiting[message, queue]
        if not self._waiting:
            self.since = None
        return True

    def forget_waiting(self) -> None:
        """Forget the messages that wait, as their source will give them again."""
        self._waiting.clear()
        self._ahead.clear()
        self.since = None

    def lift(self) -> None:
        """Count anew, and try all that wait again."""
        waiting = [*self._waiting.values()]
        self._tallies.clear()
        self.forget_waiting()
        for _, again in waiting:
            again()

    def describe(self) -> str | None:
        """Return why messages wait; None if none does, or those that do may become dead letters and are tried again."""
        stopped = [queue for _, queue in self._waiting if not self._tallies[queue].find_room(self.share)]
        if not stopped:
            return None
        queue = stopped[0]
        reason = next(reason for (_, each), (reason, _) in self._waiting.items() if each == queue)
        tally = self._tallies[queue]
        where = f" for queue {queue}" if queue else ""
        return (
            f"of the latest {count_noun(tally.messages, 'message')}{where}, {tally.dead:,} ({tally.share:.0%}) became "
            f"dead letters; {len(stopped):,} more would, beyond max_dead_letters = {self.share:g}, and wait: {reason}"
        )


def count_accepted(messages: Iterable[Outgoing]) -> None:
    """Have the limits count messages that a target has accepted; see `DeadLetterLimit.note_accepted`."""
    counts = Counter([(outgoing.context.window, outgoing.queue) for outgoing in messages])
    for (window, queue), count in counts.items():
        if window.limit is not None:
            window.limit.note_accepted(queue, count)


def count_written(messages: Iterable[Outgoing]) -> None:
    """Have the limits count written messages; what waited for a limit does no more."""
    counts = Counter([(outgoing.context.window, outgoing.queue) for outgoing in messages])
    reached = set()
    for (window, queue), count in counts.items():
        if window.limit is not None:
            window.limit.note_written(queue, count)
            if window.limit.is_reached:
                reached.add(window)
    if reached:
        for outgoing in messages:
            window = outgoing.context.window
            if window in reached:
                window.limit.release(outgoing.context, outgoing.queue)
