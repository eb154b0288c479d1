"""Messages as batches of a spool, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from bindings.archive.names import to_text_array
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.endpoints.archive.files import RecordPosition
from bridge.endpoints.archive.spool import SPOOLED
from exchange.amqp.lazy import get_content

FRAME_BYTES: Final = 32 << 20
"""Size of all bodies of a batch together, in bytes, at which no further message is added."""
FRAME_ROWS: Final = 4_096
"""Maximum number of messages of a batch: the event loop does nothing else while they are prepared."""


class PreparedBatch(NamedTuple):
    """Messages that can be appended to a spool, and those that cannot."""

    batch: pa.RecordBatch
    messages: Sequence[Outgoing]
    """Messages of the batch, in its order."""
    refused: Sequence[tuple[Outgoing, Failure]]


def read_clock() -> int:
    """Return the time now, in microseconds since 1970."""
    return time_ns() // 1_000


def prepare_batch(messages: Sequence[Outgoing], folders: Mapping[str, str], now: int) -> PreparedBatch:
    """Make a batch of messages; ``folders`` maps the topology's queues to folders below the archive.

    Messages whose source does not know when they were published get the time ``now``, in microseconds since 1970. A
    message that cannot be written, for whatever reason that lies in it, is refused alone.
    """
    try:
        return PreparedBatch(_make_batch(messages, folders, now), messages, ())
    except MemoryError:  # no fault of a message's
        raise
    except Exception:  # noqa: BLE001  publishers choose what is in a message, so there is no list of what it may raise
        refused: list[tuple[Outgoing, Failure]] = []
        taken = _sort_out(messages, folders, now, refused)
        return PreparedBatch(_make_batch(taken, folders, now), taken, refused)


def _sort_out(
    messages: Sequence[Outgoing], folders: Mapping[str, str], now: int, refused: list[tuple[Outgoing, Failure]]
) -> list[Outgoing]:
    """Return the messages that a batch can hold; add the others to ``refused``.

    The messages are halved until each wrong one is found, which is fast because there are few.
    """
    try:
        _make_batch(messages, folders, now)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  as above
        if len(messages) == 1:
            refused.append(
                (messages[0], Failure(f"cannot be archived: {str(error) or type(error).__name__}", final=True))
            )
            return []
        half = len(messages) // 2
        first = _sort_out(messages[:half], folders, now, refused)
        return first + _sort_out(messages[half:], folders, now, refused)
    return list(messages)


def _make_batch(messages: Sequence[Outgoing], folders: Mapping[str, str], now: int) -> pa.RecordBatch:
    """Make a batch of all messages, with the columns in the order of `SPOOLED`. Raises what any message causes."""
    deliveries = [outgoing.delivery for outgoing in messages]
    bare = [outgoing.message for outgoing in messages]
    places = [_find_place(delivery) for delivery in deliveries]
    columns = [
        to_text_array([_folder_of(outgoing, folders) for outgoing in messages]),
        _integers([now if delivery.time is None else delivery.time for delivery in deliveries], now),
        to_text_array([message.exchange for message in bare]),
        to_text_array([message.routing_key for message in bare]),
        pa.array([get_content(message).raw for message in bare], pa.binary()),
        pa.array([message.body for message in bare], pa.binary()),
        to_text_array([delivery.identity for delivery in deliveries]),
        to_text_array([source for source, _ in places]),
        _integers([number for _, number in places], None),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPOOLED)


def _find_place(delivery: Delivery) -> tuple[str, int | None]:
    """Return where a message was read, and its number there: of a record of an archive, the one in its file.

    The number is None where the origin does not name it: positions may count anything, as the tags of deliveries do,
    which begin anew with each connection.
    """
    position = delivery.position
    number = position.number if isinstance(position, RecordPosition) else position
    source, _, written = delivery.origin.rpartition(" at ")  # which may be in the name of a queue or a file, too
    return (source, number) if written == str(number) else (delivery.origin, None)


def _integers(values: Sequence[int | None], otherwise: int | None) -> pa.Int64Array:
    """Return a column of integers, with ``otherwise`` in the place of those of more than 64 bits."""
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        fits = [value is None or -(1 << 63) <= value < 1 << 63 for value in values]
        return pa.array([value if fit else otherwise for value, fit in zip(values, fits, strict=True)], pa.int64())


def _folder_of(outgoing: Outgoing, folders: Mapping[str, str]) -> str:
    folder = folders[outgoing.queue]
    placement = outgoing.placement
    if placement is None:
        return folder
    number = "unknown" if placement.partition is None else placement.partition
    return f"{folder}/partition={number}" if folder else f"partition={number}"


def to_folder_name(name: str) -> str:
    """Return a queue's name as a folder's, as Hive writes values: what paths cannot hold is escaped as in a URL."""
    return quote(name.encode("utf-8", "surrogateescape"), safe=" !#$&'()+,;@[]{}~")
