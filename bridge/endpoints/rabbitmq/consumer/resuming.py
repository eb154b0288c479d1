"""Whether a stream still has the message that was settled last, as it was: else reading on would skip messages.

A stream always keeps its newest segment. So if both this message and all later ones are missing, it is another stream
of the same name, or it has lost its end: a consumer at the old offset would get nothing until it is that long again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

import pika

from bridge.aside import call_aside
from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rabbitmq.frames import Arrived
from bridge.endpoints.rabbitmq.keys import STREAM_FILTER
from bridge.endpoints.rabbitmq.refusals import explain_refusal, refuses_argument
from bridge.endpoints.rabbitmq.wire import fulfil
from exchange.amqp import ContentHeader
from exchange.amqp.streams import STREAM_OFFSET, fingerprint_content, read_offset
from exchange.errors import BrokerError, InputError
from exchange.text.display import count_noun

FIND_SECONDS: Final = 10.0
"""Maximum number of seconds until a stream delivers the message that was settled last."""


class NoStream(Disconnected):
    """The queue of a source with filter values is no stream."""

    def __init__(self, queue: str) -> None:
        text = f"queue {queue!r} is no stream, and only these have filter values; take it away, or write a selector"
        super().__init__(f"{STREAM_FILTER.name}: {text}", STREAM_FILTER.name)


def explain_missing(queue: str, offsets: StreamOffsets) -> str:
    """Return why a stream that has nothing from the settled offset on is not read."""
    return (
        f"stream {queue!r} has nothing from offset {offsets.last} on, which was settled; if it was "
        f"deleted and declared anew, {offsets.way_out}"
    )


async def find_settled(
    arrival: Awaitable[Arrived], queue: str, offsets: StreamOffsets, forget: Callable[[], None]
) -> Arrived:
    """Wait for the message that was settled last, or a later one, and return it.

    Raises Disconnected if none comes, or another one is there; then ``forget`` is called, and the next try begins as a
    new source would if there is no file.
    """
    try:
        async with asyncio.timeout(FIND_SECONDS):
            first = await arrival
    except TimeoutError:
        raise Disconnected(explain_missing(queue, offsets)) from None
    if (problem := explain_other(queue, offsets, first)) is not None:
        offsets.forget()
        forget()
        raise Disconnected(problem)
    return first


async def fetch_first(connection: Connection, queue: str, offset: str | int) -> Arrived:
    """Wait for the first message of a stream from an offset on, on a channel of its own.

    Raises BrokerError, also for a queue that is no stream, and Disconnected.
    """
    channel = await connection.channel()
    first: asyncio.Future[Arrived] = asyncio.get_running_loop().create_future()
    channel.on_events = lambda events: fulfil(first, cast("Arrived", events[0]))
    try:
        await channel.consume(queue, exclusive=False, arguments={STREAM_OFFSET: offset}, prefetch=1)
        return await connection.answer(first, "basic.consume")
    finally:
        channel.close()


def explain_other(queue: str, offsets: StreamOffsets, first: Arrived) -> str | None:
    """Return why a stream is not read whose ``first`` message from the settled offset on is another one there."""
    known = offsets.fingerprint
    if find_offset(first) != offsets.last or known in ("", fingerprint_content(*_content_of(first))):
        return None
    way_out = f"; {offsets.way_out} to read it from its beginning" if offsets.has_file else ""
    return (
        f"stream {queue!r} has another message at offset {offsets.last} than the one that was settled: it was deleted "
        f"and declared anew{way_out}"
    )


def find_offset(arrived: Arrived) -> int | None:
    """Return the offset of a message that has arrived."""
    return read_offset(ContentHeader(arrived.properties))


async def check_position(
    brokers: Sequence[pika.URLParameters],
    queue: str,
    offsets: StreamOffsets,
    offset: str | int,
    *,
    is_filtered: bool,
) -> list[Finding]:
    """Return where a stream will be read on, if that is a known offset; of a queue of another type, nothing.

    The first message from there on is read: of a stream, that changes nothing. A queue of another type is an error if
    the source is ``is_filtered`` by values, whatever the position.
    """
    try:
        last = await call_aside(lambda: offsets.last)
    except InputError as error:
        return [Finding.from_error(error, "offsets")]
    is_known = last is not None or isinstance(offset, int)
    if not is_known and not is_filtered:
        return []
    try:
        connection = await Connection.open(brokers, lambda _: None)
    except Disconnected as error:
        return [Finding.from_error(error, "url")]
    try:
        async with asyncio.timeout(FIND_SECONDS):
            first = await fetch_first(connection, queue, last if last is not None else offset if is_known else "first")
    except BrokerError as error:
        if refuses_argument(error, STREAM_OFFSET):
            return [Finding.from_error(NoStream(queue), "queue")] if is_filtered else []
        return [Finding("error", explain_refusal(error, f"queue {queue!r}"), "queue")]
    except Disconnected as error:
        return [Finding.from_error(error, "url")]
    except TimeoutError:
        if not is_known:
            return []
        if last is not None:
            return [Finding("error", explain_missing(queue, offsets), "offsets")]
        text = f"stream {queue!r} has nothing from offset {offset} on yet: what comes before it is not read"
        return [Finding("warning", text, "offset")]
    finally:
        await connection.close()
    if last is None:
        return []
    if (problem := explain_other(queue, offsets, first)) is not None:
        return [Finding("error", problem, "offsets")]
    there = find_offset(first)
    if there is not None and there > last + 1:
        removed = count_noun(there - last - 1, "offset")
        text = f"stream {queue!r}: {removed} after {last}, which was settled last, were removed before they were read"
        return [Finding("warning", f"{text}: it goes on at {there}", "offsets")]
    return [Finding("ok", f"stream {queue!r}: goes on after offset {last}", "offsets")]


def _content_of(arrived: Arrived) -> tuple[bytes, bytes, bytes]:
    return arrived.exchange, arrived.routing_key, arrived.body
