"""More or fewer queues for a RocketMQ topic, as steps of which each is checked before it is taken.

A broker has two numbers for a topic: producers are told of queues 0 to writeQueueNums - 1, consumers of 0 to
readQueueNums - 1. No message is left unread as long as every queue that is written or holds unread messages is read. So
read is raised before write; to shrink, write is lowered, the queues above it are drained, and then read is lowered.
Messages with a key meet another trap: with another number of queues they go elsewhere, and can be overtaken there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.hashing.java import code_units
from exchange.partition.moves import Distribution, KeyCounts, Moves, compare_distributions
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitions import Partitions

__all__ = [
    "SETTLED", "Counts", "Offsets", "Situation", "Step", "Unread", "moved_keys", "next_steps", "publish_list",
    "refusal",
]  # fmt: skip

SETTLED: Final = 33_000
"""Milliseconds after which no producer writes to queues it is no longer told of: ``pollNameServerInterval`` of 30 s,
and ``sendMsgTimeout`` of 3 s for what was under way. Producers configured otherwise need their own sum."""


class Counts(NamedTuple):
    """What a broker has configured for the topic (`TopicConfig`)."""

    write: int
    """``writeQueueNums``."""
    read: int
    """``readQueueNums``."""

    def accepts_send(self, queue_id: int) -> bool:
        """Whether the broker stores a message for this queue (`AbstractSendMessageProcessor.msgCheck`).

        Of queues that are only read it does, which is what producers with an old route need. For a negative id it draws
        one of the queues that are written.
        """
        return queue_id < max(self.write, self.read)

    def accepts_pull(self, queue_id: int) -> bool:
        """Whether the broker gives messages of this queue (`PullMessageProcessor.processRequest`)."""
        return 0 <= queue_id < self.read


class Offsets(NamedTuple):
    """Where a queue ends and how far it was read (``mqadmin topicStatus`` and ``consumerProgress``)."""

    end: int
    """``maxOffset``: the offset of the next message."""
    consumed: Mapping[str, int] = MappingProxyType({})
    """Every group that is to read the topic -> its offset, -1 where it has none yet."""
    start: int = 0
    """``minOffset``: what is older was deleted."""

    def unread(self) -> dict[str, int]:
        """Group -> how many messages it has still to read; groups that have none are left out."""
        lags = {group: self.end - max(offset, self.start) for group, offset in self.consumed.items()}
        return {group: lag for group, lag in lags.items() if lag > 0}


class Unread(NamedTuple):
    """Messages that a group has still to read."""

    queue: MessageQueue
    group: str
    messages: int

    def __str__(self) -> str:
        return f"{self.queue.name} has {self.messages} for {self.group}"


class Step(NamedTuple):
    """One thing to do; it can be taken now, and changes one number on one broker at most."""

    action: Literal["set read", "set write", "drain", "settle", "stop producers"]
    broker: str = ""
    """Empty where it concerns all."""
    number: int = 0
    """The number of queues to set; the milliseconds to wait until producers have settled."""
    unread: tuple[Unread, ...] = ()
    """What is to be drained."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A topic at one moment; offsets are to be taken after the times since write was lowered."""

    counts: Mapping[str, Counts]
    """By broker name."""
    offsets: Mapping[MessageQueue, Offsets] = field(default_factory=lambda: MappingProxyType({}))
    """Of a queue that is left out nothing is known."""
    since_write: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Broker -> milliseconds since its write number was lowered; left out where it never was."""
    keyed: bool = False
    """Whether the order of messages with one key counts."""
    producers_stopped: bool = False
    """Whether nothing is sent any more, and will be only by producers with the new route."""

    def unread(self, queues: Iterable[MessageQueue]) -> tuple[Unread, ...]:
        """What is unread in these queues."""
        return tuple([
            Unread(queue, group, messages)
            for queue in queues
            if queue in self.offsets
            for group, messages in self.offsets[queue].unread().items()
        ])  # fmt: skip


def next_steps(situation: Situation, target: Mapping[str, int]) -> tuple[Step, ...]:
    """What can be done now to have ``target`` queues on each broker; nothing is left to do when there is no step.

    One step a broker at most, and each can be taken whatever becomes of the others. Brokers that are not in the target
    stay as they are, but a queue that is written or unread and not read is mended there too. Raises InputError for a
    target that is none, and for queues of which the offsets are needed and not known.
    """
    for broker, number in target.items():
        if broker not in situation.counts:
            raise InputError(f"no broker {broker!r} has the topic; there are {', '.join(situation.counts)}")
        if number < 1:
            raise InputError(f"{broker}: {number} queues; take its write permission to take a broker out")
    steps = [
        step
        for broker in sorted(situation.counts, key=code_units)
        for step in _steps(situation, broker, target.get(broker))
    ]
    return tuple(dict.fromkeys(steps))


def refusal(situation: Situation, step: Step) -> str:
    """Why a step must not be taken now, and what to do first; empty when it is safe."""
    broker, number = step.broker, step.number
    if step.action not in ("set read", "set write"):
        return ""
    if broker not in situation.counts:
        return f"no broker {broker!r} has the topic"
    if number < 1:
        return f"{broker}: {number} queues would be none"
    counts = situation.counts[broker]
    if step.action == "set write":
        if number > counts.read:
            unread = f"queues {counts.read} to {number - 1} would be written and not read"
            return f"{broker}: {unread}; set read to {number} first"
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


def publish_list(counts: Mapping[str, Counts]) -> Partitions:
    """The queues that producers choose among, when each broker has a master and no order configuration is set."""
    return Partitions.queues({broker: counts[broker].write for broker in sorted(counts, key=code_units)})


def moved_keys(
    keys: KeyCounts, partitioner: Partitioner, counts: Mapping[str, Counts], target: Mapping[str, int]
) -> Moves:
    """What is sent elsewhere once all brokers have their target: the keys whose order is at risk are in it."""
    after = {broker: Counts(target.get(broker, now.write), now.read) for broker, now in counts.items()}
    return compare_distributions(
        keys, Distribution(partitioner, publish_list(counts)), Distribution(partitioner, publish_list(after))
    )


def _steps(situation: Situation, broker: str, target: int | None) -> Iterator[Step]:
    counts = situation.counts[broker]
    held = [
        unread.queue.queue_id + 1 for unread in situation.unread(situation.offsets) if unread.queue.broker == broker
    ]
    least_read = max(counts.write, target or 0, *held, 0)
    if counts.read < least_read:
        yield Step("set read", broker, least_read)
    elif target is not None and counts.write != target:
        yield from _write_steps(situation, Step("set write", broker, target))
    elif target is not None and counts.read > target:
        yield from _shrink(situation, Step("set read", broker, target))


def _write_steps(situation: Situation, step: Step) -> Iterator[Step]:
    if not situation.keyed:
        yield step
    elif not situation.producers_stopped:
        yield Step("stop producers")
    elif unread := situation.unread(_all_queues(situation)):
        yield Step("drain", unread=unread)
    elif reason := refusal(situation, step):
        raise InputError(reason)
    else:
        yield step


def _shrink(situation: Situation, step: Step) -> Iterator[Step]:
    broker = step.broker
    above = [MessageQueue(broker, at) for at in range(step.number, situation.counts[broker].read)]
    to_wait = _to_wait(situation, broker)
    if to_wait:
        yield Step("settle", broker, to_wait)
    elif unread := situation.unread(above):
        yield Step("drain", broker, unread=unread)
    elif reason := refusal(situation, step):
        raise InputError(reason)
    else:
        yield step


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
    return max(0, SETTLED - situation.since_write.get(broker, SETTLED))
