"""Declare a partitioned queue, and change the number of its partitions while publishers and members run.

A change begins when it is written into the state. From then on any process can complete it, by running it again: each
step may be repeated. `bridge.consumers.groups.barrier` explains how messages of a key stay in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bridge.consumers.groups.barrier import GATE, MARKER, Resize, read_news, write_news
from bridge.consumers.groups.connection import (
    close,
    close_channel,
    connect,
    import_aiormq,
    is_missing,
    list_loss_errors,
    translate_losses,
)
from bridge.consumers.groups.names import PartitionedQueue, check_partitions, format_binding_key
from bridge.consumers.groups.session import LOOK
from bridge.consumers.groups.state import GroupState, declare_state, find_state, name_state, read_state, write_state
from exchange.errors import HashstarError, InputError
from exchange.partition.slots import find_moved_slots, place_slots
from exchange.text.display import list_some

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

GRACE: Final = 2.0
"""Default number of seconds between the last change of a binding and the markers: more than the broker needs to put a
routed message into its queue."""
LOOK_EVERY: Final = 5.0
"""Number of seconds without news after which members are looked for again."""
LEAVING: Final = 10.0
"""Maximum number of seconds to wait until members have left the partitions that are removed."""

Report = Callable[[str], object]


async def create(url: str, queue: PartitionedQueue | str, partitions: int, *, dry_run: bool = False) -> bool:
    """Declare a partitioned queue; return False if it exists with these settings. A name alone has the default ones.

    With ``dry_run``, only look whether it exists.

    Raises InputError for a number out of range, or if the queue exists with other settings.
    """
    queue = PartitionedQueue(queue) if isinstance(queue, str) else queue
    check_partitions(queue.slots, partitions)
    async with _locked(url, queue.name) as (connection, channel):
        if not dry_run:
            await declare_state(channel, queue)
        elif await _look(connection, name_state(queue.name)) is None:
            return True
        state = await find_state(connection, queue.name, wait=0)
        if state is not None:
            if (state.queue, state.partitions) != (queue, partitions) or state.resize is not None:
                raise InputError(
                    f"{queue.name!r} exists with {state.partitions} partitions, {state.queue.slots} slots, "
                    f"{state.queue.queue_type} queues; hashstar group resize changes the number of partitions"
                )
            return False
        if dry_run:
            return True
        await channel.exchange_declare(queue.name, exchange_type="topic", durable=True)
        for number in range(partitions):
            await channel.queue_declare(queue.partition(number), durable=True, arguments=queue.arguments)
        for slot, number in enumerate(place_slots(queue.slots, partitions)):
            await channel.queue_bind(queue.partition(number), queue.name, format_binding_key(slot))
        await write_state(channel, GroupState(queue, partitions, partitions))
    return True


async def resize(
    url: str,
    name: str,
    partitions: int,
    *,
    grace: float = GRACE,
    wait: float | None = None,
    dry_run: bool = False,
    report: Report = lambda _: None,
) -> bool:
    """Change the number of partitions, and wait until all old messages of moved keys are handled.

    Returns False if the queue has this number already. ``report`` is called with a text for each step. If it is
    interrupted, or ``wait`` seconds are over before members have handled what moves, messages of moved keys wait in
    their new partitions until it is run again, with the same number. With ``dry_run``, only the first step is reported.

    Raises InputError for a number out of range, if there is no such queue, and if another change is in progress;
    GroupConnectionLost.
    """
    async with _locked(url, name) as (connection, channel):
        state = await read_state(connection, name)
        change = state.resize
        if change is not None and change.after != partitions:
            raise InputError(f"a change to {change.after} partitions is not complete: run that one again first")
        if change is None:
            check_partitions(state.queue.slots, partitions)
            if partitions == state.partitions:
                return False
            change = Resize(uuid4().hex, state.partitions, partitions, state.queue.slots)
        if dry_run:
            moved = find_moved_slots(state.queue.slots, change.before, change.after)
            report(f"{change.before} partitions become {change.after}: {len(moved)} of {state.queue.slots} slots move")
            return True
        await _Resizing(connection, channel, state, change, grace, wait, report).run()
    return True


class _Resizing:
    """The steps of a change. Each may have been done before, in an interrupted run."""

    def __init__(
        self,
        connection: Any,
        channel: Any,
        state: GroupState,
        change: Resize,
        grace: float,
        wait: float | None,
        report: Report,
    ) -> None:
        self._connection: Final = connection
        self._channel: Final = channel
        self._queue: Final = state.queue
        self._state = state
        self._change: Final = change
        self._grace: Final = grace
        self._wait: Final = wait
        self._report: Final = report

    async def run(self) -> None:
        change, queue = self._change, self._queue
        self._report(f"{change.before} partitions become {change.after}: declaring queues")
        for number in range(change.before, change.after):
            await self._channel.queue_declare(queue.partition(number), durable=True, arguments=queue.arguments)
        await self._declare_inboxes()
        if self._state.owned >= change.before:  # not if an earlier run had begun to remove partitions
            await self._write(owned=max(change.before, change.after), resize=change)
            for target in sorted(change.targets):
                await self._put(target, GATE)
            await self._bind()
            self._report(f"waiting {self._grace:g} s for messages that the broker is routing")
            await asyncio.sleep(self._grace)
            for source in sorted(change.sources):
                await self._put(source, MARKER)
            await self._wait_for_members()
        await self._remove_partitions()
        await self._write(owned=change.after, partitions=change.after, resize=None)
        await self._delete_inboxes()

    async def _declare_inboxes(self) -> None:
        change, name = self._change, self._queue.name
        await self._channel.exchange_declare(change.news(name), exchange_type="fanout", durable=True)
        for target in (None, *sorted(change.targets)):
            inbox = change.inbox(name, target)
            await self._channel.queue_declare(inbox, durable=True, arguments=self._queue.lasting_arguments)
            await self._channel.queue_bind(inbox, change.news(name))

    async def _delete_inboxes(self) -> None:
        change, name = self._change, self._queue.name
        for target in (None, *change.targets):
            await self._channel.queue_delete(change.inbox(name, target))
        await self._channel.exchange_delete(change.news(name))

    async def _write(self, **changes: Any) -> None:
        self._state = replace(self._state, version=self._state.version + 1, **changes)
        await write_state(self._channel, self._state)
        await _announce(self._channel, self._queue)

    async def _put(self, number: int, kind: str) -> None:
        from pamqp.commands import Basic

        properties = Basic.Properties(message_type=kind, delivery_mode=2)
        await self._channel.basic_publish(
            self._change.to_bytes(), routing_key=self._queue.partition(number), properties=properties, mandatory=True
        )

    async def _bind(self) -> None:
        """Bind each moved slot to its new partition, then unbind it from the old one: a slot always has a queue."""
        queue = self._queue
        moved = find_moved_slots(queue.slots, self._change.before, self._change.after)
        self._report(f"moving {len(moved)} of {queue.slots} slots")
        for slot, (old, new) in moved.items():
            await self._channel.queue_bind(queue.partition(new), queue.name, format_binding_key(slot))
            await self._channel.queue_unbind(queue.partition(old), queue.name, format_binding_key(slot))

    async def _wait_for_members(self) -> None:
        """Wait until all old partitions are passed and all new ones are open."""
        sources, targets = set(self._change.sources), set(self._change.targets)
        unattended = {*sources, *targets}
        news: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        channel = await self._connection.channel(publisher_confirms=False)
        await channel.basic_consume(self._change.inbox(self._queue.name), news.put)
        loop = asyncio.get_running_loop()
        until = inf if self._wait is None else loop.time() + self._wait
        while sources or targets:
            for number in sorted(unattended & (sources or targets)):
                unattended.discard(number)  # not again: a message that comes back counts as a delivery
                await self._act_for_absent_member(number)
            numbers = list_some([str(number) for number in sorted(sources or targets)], 10)
            waiting = (
                f"members have handled what was in partitions {numbers}"
                if sources
                else f"members have let messages through in partitions {numbers}"
            )
            self._report(f"waiting until {waiting}{await self._find_lack(sources or targets)}")
            try:
                arrived = await asyncio.wait_for(news.get(), min(LOOK_EVERY, until - loop.time()))
            except TimeoutError:
                if loop.time() < until:
                    continue
                lack = await self._find_lack(sources or targets)
                raise HashstarError(f"not done within {self._wait:g} s: {waiting}{lack}; run it again") from None
            passed, opened = read_news(arrived.body)
            sources.discard(-1 if passed is None else passed)
            targets.discard(-1 if opened is None else opened)
        await close_channel(channel)

    async def _act_for_absent_member(self, number: int) -> None:
        """Do what a member does with the marker or the gate of a partition that nobody consumes, if that is its head.

        Then no message is before it: it is passed, or as the old ones are passed, it is open. The queue has a single
        active consumer, this one, so a member that comes meanwhile begins behind it.
        """
        name = self._queue.partition(number)
        if (found := await _look(self._connection, name)) is None or found[1]:
            return
        kind = MARKER if number in self._change.sources else GATE
        heads: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        channel = await self._connection.channel(publisher_confirms=False)
        await channel.basic_qos(prefetch_count=1)
        await channel.basic_consume(name, heads.put)
        with suppress(TimeoutError):
            head = await asyncio.wait_for(heads.get(), LEAVING)
            tag = head.delivery_tag or 0
            if head.header.properties.message_type == kind and head.body == self._change.to_bytes():
                news = write_news(passed=number) if kind == MARKER else write_news(opened=number)
                await self._channel.basic_publish(news, exchange=self._change.news(self._queue.name))
                await channel.basic_ack(tag, wait=True)
                self._report(f"partition {number} has nothing to wait for, and no member")
            else:
                await channel.basic_nack(tag, requeue=True, wait=True)
        await close_channel(channel)

    async def _find_lack(self, numbers: Iterable[int]) -> str:
        """Return a text that says which of these partitions no member consumes; "" if each has one."""
        looks = [(number, await _look(self._connection, self._queue.partition(number))) for number in sorted(numbers)]
        lacking = [str(number) for number, found in looks if found is not None and not found[1]]
        return f"; no member consumes {list_some(lacking, 10)}: start one" if lacking else ""

    async def _remove_partitions(self) -> None:
        change = self._change
        if change.after >= change.before:
            return
        await self._write(owned=change.after, resize=change)
        loop = asyncio.get_running_loop()
        for number in reversed(range(change.after, change.before)):
            name = self._queue.partition(number)
            until = loop.time() + LEAVING
            while (found := await _look(self._connection, name)) is not None:
                messages, consumers = found
                if messages:
                    raise HashstarError(f"queue {name!r} has {messages} messages: something else publishes to it")
                if not consumers or loop.time() > until:
                    self._report(f"deleting {name}")
                    await self._channel.queue_delete(name)
                    break
                await asyncio.sleep(0.1)


async def _look(connection: Any, name: str) -> tuple[int, int] | None:
    """Return a queue's number of ready messages and of consumers; None if there is no such queue."""
    channel = await connection.channel(publisher_confirms=False)
    try:
        declared = await channel.queue_declare(name, passive=True)
    except list_loss_errors() as error:
        if not is_missing(error):
            raise
        return None
    await close_channel(channel)
    return declared.message_count, declared.consumer_count


async def _announce(channel: Any, queue: PartitionedQueue) -> None:
    """Ask the members to read the state."""
    await channel.exchange_declare(queue.members, exchange_type="fanout", auto_delete=True)
    await channel.basic_publish(LOOK, exchange=queue.members)


@asynccontextmanager
async def _locked(url: str, name: str) -> AsyncIterator[tuple[Any, Any]]:
    """Connect, and yield connection and channel while no other process can declare or resize this partitioned queue."""
    connection = await connect(url, f"resize {name}", 10)
    try:
        with translate_losses("the broker refused, or the connection is lost"):
            lock = await connection.channel()
            try:
                await lock.queue_declare(f"{name}.resizer", exclusive=True)
            except import_aiormq().exceptions.ChannelLockedResource:
                raise InputError(f"{name!r} is being declared or resized by another process") from None
            yield connection, await connection.channel()
    finally:
        await close(connection)
