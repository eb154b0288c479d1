"""Change the number of queues of a RocketMQ topic, in steps that are each checked before they are taken.

A broker has two numbers for a topic: producers use queues 0 to writeQueueNums - 1, consumers 0 to readQueueNums - 1. No
message stays unread as long as each queue that is written or has unread messages is read. So to grow, the read number
is raised before the write number. To shrink, the write number is lowered, the queues above it are drained, and then the
read number is lowered. Messages with a key have another problem: when the number of queues changes, a key moves to
another queue, where its new messages can overtake the old ones.

Two things need more than that. A delayed or a transactional message is stored, when it is due or committed, in the
queue that its producer chose, whatever the numbers are by then: until then that queue is not drained. And a group
without an offset in a queue begins at the end of it (``CONSUME_FROM_LAST_OFFSET``), behind all that was written by
then: so each group gets an offset in a queue before the queue is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.hashing.java import encode_code_units
from exchange.partition.moves import Distribution, KeyCounts, Moves, compare_distributions
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitions import Partitions

SETTLED: Final = 33_000
"""Milliseconds after which no producer writes to queues above the new number: ``pollNameServerInterval`` of 30 s, and
``sendMsgTimeout`` of 3 s for messages under way. If producers have other settings, it is their sum."""


class QueueCounts(NamedTuple):
    """The numbers of queues that a broker has for the topic (`TopicConfig`)."""

    write: int
    """``writeQueueNums``."""
    read: int
    """``readQueueNums``."""


class QueueOffsets(NamedTuple):
    """The offsets of a queue and of its consumer groups (``mqadmin topicStatus`` and ``consumerProgress``)."""

    end: int
    """``maxOffset``: the offset of the next message."""
    consumed: Mapping[str, int] = MappingProxyType({})
    """Group that must read the topic -> its offset, -1 if it has none yet."""
    start: int = 0
    """``minOffset``: offset of the first message that was not deleted."""
    coming: int = 0
    """Number of delayed or transactional messages that the broker will store in this queue when they are due."""

    def unread(self) -> dict[str, int]:
        """Return the number of unread messages of each group that has any; under "", the messages that are coming."""
        lags = {group: self.end - max(offset, self.start) for group, offset in self.consumed.items()}
        return {group: lag for group, lag in {**lags, "": self.coming}.items() if lag > 0}


class UnreadMessages(NamedTuple):
    """Unread messages of a queue, for one group."""

    queue: MessageQueue
    group: str
    """Name of the group; empty for delayed and transactional messages that are not in the queue yet."""
    messages: int

    def __str__(self) -> str:
        if not self.group:
            return f"{self.queue.name} gets {self.messages} delayed or transactional"
        return f"{self.queue.name} has {self.messages} for {self.group}"


class Beginning(NamedTuple):
    """The offset that a group gets in a queue before the queue is written."""

    queue: MessageQueue
    group: str
    offset: int


class Action(StrEnum):
    """The kind of a step."""

    SET_READ = "set read"
    SET_OFFSETS = "set offsets"
    SET_WRITE = "set write"
    DRAIN = "drain"
    SETTLE = "settle"
    STOP_PRODUCERS = "stop producers"

    @property
    def is_change(self) -> bool:
        """Whether the step changes something at a broker; else it is waited for."""
        return self in (Action.SET_READ, Action.SET_OFFSETS, Action.SET_WRITE)


class ScalingStep(NamedTuple):
    """A step that can be taken now; it changes at most one number on one broker."""

    action: Action
    broker: str = ""
    """Name of the broker; empty for a step at all brokers."""
    number: int = 0
    """Number of queues to set, or that stay when the queues above are drained; or milliseconds to wait until producers
    have settled."""
    unread: tuple[UnreadMessages, ...] = ()
    """Messages to drain."""
    offsets: tuple[Beginning, ...] = ()
    """Offsets to set."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of a topic at one time.

    Determine ``since_write`` before the offsets: else these may lack messages of producers with the old route.
    """

    counts: Mapping[str, QueueCounts]
    """Name of a broker -> its numbers of queues."""
    offsets: Mapping[MessageQueue, QueueOffsets] = field(default_factory=lambda: MappingProxyType({}))
    """Queue -> its offsets; a queue whose offsets are unknown is not in it."""
    since_write: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Name of a broker -> milliseconds since its write number was lowered; without an entry, it never was."""
    keyed: bool = False
    """Whether messages with one key must stay in order."""
    producers_stopped: bool = False
    """Whether producers send nothing until they have the new route."""
    settled: int = SETTLED
    """Milliseconds after which no producer has the old route."""
    from_first: frozenset[str] = frozenset()
    """Groups that begin a queue at its first message; others begin at its end."""

    def unread(self, queues: Iterable[MessageQueue]) -> tuple[UnreadMessages, ...]:
        """Return the unread messages in these queues."""
        return tuple([
            UnreadMessages(queue, group, messages)
            for queue in queues
            if queue in self.offsets
            for group, messages in self.offsets[queue].unread().items()
        ])  # fmt: skip


def find_next_steps(situation: Situation, target: Mapping[str, int]) -> tuple[ScalingStep, ...]:
    """Return the steps that can be taken now to have ``target`` queues on each broker; none if the target is reached.

    There is at most one step for each broker, independent of the others. Brokers that are not in the target keep their
    numbers, except that the read number is raised if a queue there is written or has unread messages, and is not read.
    Raises InputError for an invalid target, and for queues whose offsets are needed and not known.
    """
    for broker, number in target.items():
        if broker not in situation.counts:
            raise InputError(f"no broker {broker!r} has the topic; there are {', '.join(situation.counts)}")
        if number < 1:
            raise InputError(f"{broker}: {number} queues; take its write permission to take a broker out")
    steps = [
        step
        for broker in sorted(situation.counts, key=encode_code_units)
        for step in _steps(situation, broker, target.get(broker))
    ]
    return tuple(dict.fromkeys(steps))


def list_steps(situation: Situation, target: Mapping[str, int]) -> tuple[ScalingStep, ...]:
    """Return all steps to the target in an order that is safe, broker by broker, as they are known now.

    Before a read number is lowered, there is always a step to drain the queues, even if they are empty now: until
    producers have settled, messages come. Raises InputError as `find_next_steps`.
    """
    find_next_steps(situation, target)  # checks the target
    steps: dict[ScalingStep, None] = {}
    for broker in sorted(situation.counts, key=encode_code_units):
        now = situation
        while step := next(_steps(now, broker, target.get(broker)), None):
            if step.action == Action.SETTLE:
                above = [MessageQueue(broker, at) for at in range(target[broker], now.counts[broker].read)]
                steps[step] = None
                step = ScalingStep(Action.DRAIN, broker, target[broker], situation.unread(above))
                now = replace(now, since_write={**now.since_write, broker: now.settled})
            steps[step] = None
            now = _after(now, step)
    return tuple(steps)


def count_after(counts: Mapping[str, QueueCounts], step: ScalingStep) -> Mapping[str, QueueCounts]:
    """Return the brokers' numbers of queues after a step."""
    if step.action == Action.SET_READ:
        return {**counts, step.broker: counts[step.broker]._replace(read=step.number)}
    if step.action == Action.SET_WRITE:
        return {**counts, step.broker: counts[step.broker]._replace(write=step.number)}
    return counts


def explain_refusal(situation: Situation, step: ScalingStep) -> str:
    """Return why a step must not be taken now, and what to do first; empty if it is safe."""
    broker, number = step.broker, step.number
    if step.action not in (Action.SET_READ, Action.SET_WRITE):
        return ""
    if broker not in situation.counts:
        return f"no broker {broker!r} has the topic"
    if number < 1:
        return f"{broker}: {number} queues would be none"
    counts = situation.counts[broker]
    if step.action == Action.SET_WRITE:
        if number > counts.read:
            unread = f"queues {counts.read} to {number - 1} would be written and not read"
            return f"{broker}: {unread}; set read to {number} first"
        if beginnings := _beginnings(situation, broker, number):
            groups = ", ".join(dict.fromkeys([each.group for each in beginnings]))
            return f"{broker}: {groups} would skip what is written first; set offsets first"
        if situation.keyed and number != counts.write:
            return _order_at_risk(situation)
        return ""
    if number < counts.write:
        return f"{broker}: queues {number} to {counts.write - 1} are written; set write to {number} first"
    hidden = [MessageQueue(broker, at) for at in range(number, counts.read)]
    unknown = [queue.name for queue in hidden if queue not in situation.offsets]
    if unknown:
        return f"the offsets of {', '.join(unknown)} are not known"
    not_drained = situation.unread(hidden)
    if not_drained:
        return f"not drained: {', '.join(map(str, not_drained))}"
    to_wait = _to_wait(situation, broker) if hidden else 0
    if to_wait:
        return f"{broker}: producers with the old route may still write to the queues; wait {to_wait} ms"
    return ""


def publish_list(counts: Mapping[str, QueueCounts]) -> Partitions:
    """Return the queues that producers choose among, if each broker has a master and no order configuration is set."""
    return Partitions.queues({broker: counts[broker].write for broker in sorted(counts, key=encode_code_units)})


def count_moved_keys(
    keys: KeyCounts, partitioner: Partitioner, counts: Mapping[str, QueueCounts], target: Mapping[str, int]
) -> Moves:
    """Return which keys move once all brokers have their target; the order of their messages is at risk."""
    after = {broker: QueueCounts(target.get(broker, now.write), now.read) for broker, now in counts.items()}
    return compare_distributions(
        keys, Distribution(partitioner, publish_list(counts)), Distribution(partitioner, publish_list(after))
    )


def _steps(situation: Situation, broker: str, target: int | None) -> Iterator[ScalingStep]:
    counts = situation.counts[broker]
    held = [
        unread.queue.queue_id + 1 for unread in situation.unread(situation.offsets) if unread.queue.broker == broker
    ]
    # Each queue that is, or will be, written or that has unread messages must be read: that comes first.
    least_read = max(counts.write, target or 0, *held, 0)
    if counts.read < least_read:
        yield ScalingStep(Action.SET_READ, broker, least_read)
    elif target is not None and (beginnings := _beginnings(situation, broker, target)):
        yield ScalingStep(Action.SET_OFFSETS, broker, offsets=beginnings)
    elif target is not None and counts.write != target:
        yield from _write_steps(situation, ScalingStep(Action.SET_WRITE, broker, target))
    elif target is not None and counts.read > target:
        yield from _shrink(situation, ScalingStep(Action.SET_READ, broker, target))


def _write_steps(situation: Situation, step: ScalingStep) -> Iterator[ScalingStep]:
    if not situation.keyed:
        yield step
    elif not situation.producers_stopped:
        yield ScalingStep(Action.STOP_PRODUCERS)
    elif unread := situation.unread(_all_queues(situation)):
        yield ScalingStep(Action.DRAIN, unread=unread)
    elif reason := explain_refusal(situation, step):
        raise InputError(reason)
    else:
        yield step


def _shrink(situation: Situation, step: ScalingStep) -> Iterator[ScalingStep]:
    broker = step.broker
    above = [MessageQueue(broker, at) for at in range(step.number, situation.counts[broker].read)]
    to_wait = _to_wait(situation, broker)
    if to_wait:
        yield ScalingStep(Action.SETTLE, broker, to_wait)
    elif unread := situation.unread(above):
        yield ScalingStep(Action.DRAIN, broker, step.number, unread)
    elif reason := explain_refusal(situation, step):
        raise InputError(reason)
    else:
        yield step


def _beginnings(situation: Situation, broker: str, target: int) -> tuple[Beginning, ...]:
    """Return the offsets that groups need in queues before these are written."""
    queues = [MessageQueue(broker, at) for at in range(situation.counts[broker].write, target)]
    return tuple([
        Beginning(queue, group, known.start if group in situation.from_first else known.end)
        for queue in queues
        if (known := situation.offsets.get(queue)) is not None
        for group, offset in known.consumed.items()
        if offset < 0
    ])  # fmt: skip


def _after(situation: Situation, step: ScalingStep) -> Situation:
    """Return the situation after a step, if no message comes meanwhile."""
    counts, offsets = situation.counts, dict(situation.offsets)
    since_write, stopped = dict(situation.since_write), situation.producers_stopped
    if step.action == Action.SET_READ:
        for at in range(step.number):  # new queues, which are empty
            offsets.setdefault(MessageQueue(step.broker, at), QueueOffsets(0))
    elif step.action == Action.SET_WRITE:
        if step.number < counts[step.broker].write:
            since_write[step.broker] = 0
    elif step.action == Action.STOP_PRODUCERS:
        stopped = True
    for queue, group, offset in step.offsets:
        offsets[queue] = offsets[queue]._replace(consumed={**offsets[queue].consumed, group: offset})
    for queue in {unread.queue for unread in step.unread}:
        end = offsets[queue].end
        offsets[queue] = offsets[queue]._replace(consumed=dict.fromkeys(offsets[queue].consumed, end), coming=0)
    after = count_after(counts, step)
    return replace(situation, counts=after, offsets=offsets, since_write=since_write, producers_stopped=stopped)


def _order_at_risk(situation: Situation) -> str:
    if not situation.producers_stopped:
        return "keys move to other queues, and their messages overtake those that are unread; stop the producers first"
    unknown = [queue.name for queue in _all_queues(situation) if queue not in situation.offsets]
    if unknown:
        return f"the offsets of {', '.join(unknown)} are not known"
    unread = situation.unread(_all_queues(situation))
    return f"messages that moved would overtake those that are unread: {', '.join(map(str, unread))}" if unread else ""


def _all_queues(situation: Situation) -> list[MessageQueue]:
    return [
        MessageQueue(broker, at)
        for broker, counts in situation.counts.items()
        for at in range(max(counts.write, counts.read))
    ]


def _to_wait(situation: Situation, broker: str) -> int:
    return max(0, situation.settled - situation.since_write.get(broker, situation.settled))
