"""Messages as batches of a spool, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from bindings.archive.names import text_array
from bridge.amqp.lazy import content_of
from bridge.archive.spool import SPOOLED
from bridge.endpoint import Failure, Outgoing
from exchange.errors import HashstarError

__all__ = ["FRAME_BYTES", "FRAME_ROWS", "Spooled", "folder_name", "microseconds", "spooled"]

FRAME_BYTES: Final = 32 << 20
"""What the bodies of a batch have together, about; a single body may have more."""
FRAME_ROWS: Final = 4_096
"""The messages of a batch, at most: while they are made ready, nothing else is done."""

UNHELD: Final = (HashstarError, TypeError, ValueError, OverflowError, AttributeError)
"""What making a content header raises for what AMQP cannot hold."""


class Spooled(NamedTuple):
    """Messages made ready, and those that cannot be."""

    batch: pa.RecordBatch
    messages: Sequence[Outgoing]
    """Those of the batch, in its order."""
    refused: Sequence[tuple[Outgoing, Failure]]


def microseconds() -> int:
    """Since 1970, now."""
    return time_ns() // 1_000


def spooled(messages: Sequence[Outgoing], folders: Mapping[str, str], now: int) -> Spooled:
    """A batch of these; ``folders`` maps the topology's queues to folders below the archive.

    Messages whose source does not know when they were published get the time ``now``, in microseconds since 1970.
    """
    refused: list[tuple[Outgoing, Failure]] = []
    try:
        contents = [content_of(outgoing.message).raw for outgoing in messages]
    except UNHELD:
        messages, contents, refused = _sorted_out(messages)
    deliveries = [outgoing.delivery for outgoing in messages]
    bare = [outgoing.message for outgoing in messages]
    positions = [delivery.position for delivery in deliveries]
    columns = [
        text_array([_folder(outgoing, folders) for outgoing in messages]),
        pa.array([delivery.time or now for delivery in deliveries], pa.int64()),
        text_array([message.exchange for message in bare]),
        text_array([message.routing_key for message in bare]),
        pa.array(contents, pa.binary()),
        pa.array([message.body for message in bare], pa.binary()),
        text_array([delivery.identity for delivery in deliveries]),
        text_array([delivery.origin.partition(" at ")[0] for delivery in deliveries]),
        pa.array([position if type(position) is int else 0 for position in positions], pa.int64()),
    ]
    return Spooled(pa.RecordBatch.from_arrays(columns, schema=SPOOLED), messages, refused)


def _sorted_out(messages: Sequence[Outgoing]) -> tuple[list[Outgoing], list[bytes], list[tuple[Outgoing, Failure]]]:
    taken, contents, refused = [], [], []
    for outgoing in messages:
        try:
            content = content_of(outgoing.message).raw
        except UNHELD as error:
            refused.append((outgoing, Failure(f"not AMQP: {error}", final=True)))
        else:
            taken.append(outgoing)
            contents.append(content)
    return taken, contents, refused


def _folder(outgoing: Outgoing, folders: Mapping[str, str]) -> str:
    folder = folders[outgoing.queue]
    placement = outgoing.placement
    if placement is None:
        return folder
    number = "unknown" if placement.partition is None else placement.partition
    return f"{folder}/partition={number}" if folder else f"partition={number}"


def folder_name(name: str) -> str:
    """A queue's name as a folder's, as Hive writes values: what paths cannot hold is written as in a URL."""
    return quote(name.encode("utf-8", "surrogateescape"), safe=" !#$&'()+,;@[]{}~")
