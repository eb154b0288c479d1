"""The present state of a partitioned queue and its group: members, owners, lag and skew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bindings.http.exposition import format_family
from bridge.consumers.groups.connection import close, close_channel, connect, translate_losses
from bridge.consumers.groups.membership import Beat, GroupPlan, read_beat
from bridge.consumers.groups.names import PartitionedQueue
from bridge.consumers.groups.state import GroupState, read_state
from exchange.errors import InputError
from exchange.text.display import count_noun, escape_line, list_some
from exchange.values.documents import document

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

LISTENING: float = 1.0
"""Default number of seconds to listen for members, which announce themselves four times in a heartbeat."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The present state of a partition."""

    number: int
    queue: str
    ready: int
    """Number of messages in the queue that are not delivered to a member."""
    waiting: int
    """Number of messages that members have and have not acknowledged, as they announced last."""
    handled: int
    """Number of messages that the members holding it now have handled since they got it."""
    holders: tuple[str, ...]
    """Members that hold the partition: two or more while it is handed over, none if it has no owner."""

    @property
    def lag(self) -> int:
        """Number of messages that are not acknowledged."""
        return self.ready + self.waiting


@dataclass(frozen=True, slots=True)
class Description:
    """A partitioned queue and its group."""

    state: GroupState
    plan: GroupPlan | None
    """The newest plan that was announced; None if no member was seen."""
    members: Mapping[str, Beat]
    partitions: tuple[PartitionStatus, ...]

    @property
    def lag(self) -> int:
        """Number of messages of all partitions that are not acknowledged."""
        return sum(partition.lag for partition in self.partitions)

    @property
    def skew(self) -> float:
        """Largest lag of a partition, divided by the mean; 1 if all are equal, as without any message."""
        return (
            max(partition.lag for partition in self.partitions) * len(self.partitions) / self.lag if self.lag else 1.0
        )

    @property
    def unowned(self) -> tuple[int, ...]:
        """Numbers of the partitions that no member holds."""
        return tuple([partition.number for partition in self.partitions if not partition.holders])


async def describe(url: str, queue: str, *, listen: float = LISTENING) -> Description:
    """Return the present state of a partitioned queue and its group; ``listen`` is in seconds.

    Nothing is changed, and no message is taken. Raises InputError if there is no such queue; GroupConnectionLost.
    """
    connection = await connect(url, f"describe {queue}", 10)
    try:
        with translate_losses("the broker refused, or the connection is lost"):
            state = await read_state(connection, queue)
            beats = await _listen(connection, state.queue, listen)
            plan: GroupPlan | None = None
            for beat in beats.values():
                if beat.plan is not None and beat.plan.supersedes(plan):
                    plan = beat.plan
            channel = await connection.channel(publisher_confirms=False)
            partitions = [await _describe(channel, state.queue, number, beats) for number in range(state.owned)]
            return Description(state, plan, beats, tuple(partitions))
    finally:
        await close(connection)


async def _listen(connection: Any, names: PartitionedQueue, listen: float) -> dict[str, Beat]:
    beats: dict[str, Beat] = {}

    async def hear(delivered: DeliveredMessage) -> None:
        try:
            beat = read_beat(delivered.body)
        except InputError:
            return
        beats[beat.member] = beat

    channel = await connection.channel(publisher_confirms=False)
    await channel.exchange_declare(names.members, exchange_type="fanout", auto_delete=True)
    inbox = (await channel.queue_declare(exclusive=True, auto_delete=True)).queue
    await channel.queue_bind(inbox, names.members)
    await channel.basic_consume(inbox, hear, no_ack=True)
    await asyncio.sleep(listen)
    await close_channel(channel)
    return dict(sorted(beats.items()))


async def _describe(channel: Any, names: PartitionedQueue, number: int, beats: Mapping[str, Beat]) -> PartitionStatus:
    holders = {name: beat.held[number] for name, beat in beats.items() if number in beat.held}
    queue = names.partition(number)
    declared = await channel.queue_declare(queue, passive=True)
    return PartitionStatus(
        number,
        queue,
        declared.message_count or 0,
        sum(progress.waiting for progress in holders.values()),
        sum(progress.handled for progress in holders.values()),
        tuple(holders),
    )


def _members(described: Description) -> list[Beat]:
    return list(described.members.values())


def _held(beat: Beat) -> list[int]:
    """The partitions that it holds."""  # noqa: D401  it describes a field
    return sorted(beat.held)


def _skew(described: Description) -> float:
    return round(described.skew, 3)


document("MemberJson", "member, joined, prefetch, leaving, partitions", partitions=_held)(Beat)
document("PartitionJson", "partition = number, queue, holders, lag, ready, waiting, handled")(PartitionStatus)
document(
    "DescriptionJson",
    "queue = state.queue.name, state.queue.queue_type, state.queue.slots, resizing_to = state.resize?.after, "
    "plan?.planner, plan?.epoch, lag, skew, unowned, members, partitions",
    members=_members,
    skew=_skew,
)(Description)


def to_text(described: Description) -> Iterator[str]:
    """Yield the lines of a description: what the queue is, a line for each partition, its members."""
    state, plan = described.state, described.plan
    sizes = (
        f"{count_noun(len(described.partitions), 'partition')} ({state.queue.queue_type}), {state.queue.slots} slots"
    )
    members = count_noun(len(described.members), "member") + (f", plan {plan.epoch}" if plan is not None else "")
    yield f"{state.queue.name}: {sizes}, {members}"
    if state.resize is not None:
        yield f"being resized from {state.resize.before} to {state.resize.after} partitions"
    yield f"lag {described.lag:,}, skew {described.skew:.2f}"
    yield ""
    yield f"{'partition':>9}  {'lag':>9}  {'ready':>9}  {'handled':>11}  owner"
    for partition in described.partitions:
        owner = ", then ".join(partition.holders) or "none"
        yield f"{partition.number:>9}  {partition.lag:>9,}  {partition.ready:>9,}  {partition.handled:>11,}  {owner}"
    if described.members:
        yield ""
        width = max(len(escape_line(name)) for name in described.members)
        yield f"{'member':{width}}  partitions"
        for name, beat in described.members.items():
            held = list_some([str(partition) for partition in sorted(beat.held)], 20) or "none"
            yield f"{escape_line(name):{width}}  {held}" + (" (leaving)" if beat.leaving else "")


def format_metrics(described: Description) -> Iterator[str]:
    """Yield the metrics of a description, in Prometheus's text format."""
    queue = ("queue", described.state.queue.name)

    def by_partition(values: Mapping[int, float]) -> Mapping[tuple[tuple[str, str], ...], float]:
        return {(queue, ("partition", str(number))): value for number, value in values.items()}

    yield from format_family(
        "hashstar_group_lag", "gauge", "Messages of a partition that are not acknowledged.",
        by_partition({partition.number: partition.lag for partition in described.partitions}),
    )  # fmt: skip
    yield from format_family(
        "hashstar_group_holders", "gauge", "Members that hold a partition: 0 without an owner, 2 during a hand-over.",
        by_partition({partition.number: len(partition.holders) for partition in described.partitions}),
    )  # fmt: skip
    for name, meaning, value in (
        ("skew", "Largest lag of a partition, divided by the mean.", described.skew),
        ("members", "Members of the group.", len(described.members)),
        ("partitions", "Partitions that members share.", len(described.partitions)),
        ("unowned", "Partitions that no member holds.", len(described.unowned)),
    ):
        yield from format_family(f"hashstar_group_{name}", "gauge", meaning, {(queue,): value})
