"""The state of a partitioned queue, kept at the broker: numbers of slots and partitions, and the change in progress.

It is one message in the queue NAME.state, which holds one at most. Readers take it and put it back.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from bridge.consumers.groups.barrier import Resize, read_resize
from bridge.consumers.groups.connection import close_channel, is_missing, list_loss_errors
from bridge.consumers.groups.names import PartitionedQueue
from exchange.errors import HashstarError, InputError
from exchange.values.json_text import parse_leniently

READING: Final = 5.0
"""Maximum number of seconds until a reader finds the state, which other processes may be reading."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a partitioned queue."""

    queue: PartitionedQueue
    partitions: int
    """Number of partitions; during a change, the number before it."""
    owned: int
    """Number of partitions that members share; during a change, new and removed ones are included."""
    resize: Resize | None = None
    """The change in progress; None if there is none."""
    version: int = 1

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps({
            "slots": self.queue.slots, "queue_type": self.queue.queue_type, "partitions": self.partitions,
            "owned": self.owned, "resize": self.resize and asdict(self.resize), "version": self.version,
        }).encode()  # fmt: skip


def _read(name: str, body: bytes) -> GroupState:
    try:
        read: Any = parse_leniently(body)
        resize = read["resize"] and read_resize(json.dumps(read["resize"]).encode())
        queue = PartitionedQueue(name, int(read["slots"]), read["queue_type"])
        return GroupState(queue, int(read["partitions"]), int(read["owned"]), resize, int(read["version"]))
    except (ValueError, TypeError, KeyError, InputError) as error:
        raise InputError(f"the queue {name}.state holds no state of a partitioned queue: {error!r:.200}") from None


def name_state(name: str) -> str:
    """Return the name of the queue with the state."""
    return f"{name}.state"


async def declare_state(channel: Any, queue: PartitionedQueue) -> None:
    """Declare the queue of the state."""
    arguments = {"x-max-length": 1, **queue.lasting_arguments}
    await channel.queue_declare(name_state(queue.name), durable=True, arguments=arguments)


async def write_state(channel: Any, state: GroupState) -> None:
    """Replace the state; ``channel`` has publisher confirms."""
    from pamqp.commands import Basic

    await channel.basic_publish(
        state.to_bytes(), routing_key=name_state(state.queue.name), properties=Basic.Properties(delivery_mode=2)
    )


async def read_state(connection: Any, name: str) -> GroupState:
    """Return the state of a partitioned queue. Raises InputError if there is none, or something else in its place."""
    state = await find_state(connection, name)
    if state is None:
        raise InputError(f"the queue {name_state(name)} is empty; hashstar group create {name} declares it anew")
    return state


async def find_state(connection: Any, name: str, *, wait: float = READING) -> GroupState | None:
    """Return the state of a partitioned queue; None if the queue of the state is empty for ``wait`` seconds.

    Raises InputError if there is no such queue, or it holds something else.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    channel = await connection.channel(publisher_confirms=False)
    try:
        while True:
            newest: GroupState | None = None
            while (got := await channel.basic_get(name_state(name))).delivery_tag is not None:
                state = _read(name, got.body)
                newest = state if newest is None or state.version > newest.version else newest
            await channel.basic_nack(0, multiple=True, requeue=True)
            if newest is not None or loop.time() > until:
                return newest
            await asyncio.sleep(0.05)
    except list_loss_errors() as error:
        if is_missing(error):
            raise InputError(
                f"there is no partitioned queue {name!r}; hashstar group create {name} declares it"
            ) from None
        raise HashstarError(f"the state of {name!r} cannot be read: {error}") from error
    finally:
        await close_channel(channel)
