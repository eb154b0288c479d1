"""Whether a stream still has the message that was settled last, as it was: else reading on would skip messages.

A stream always keeps its newest segment. So if both this message and all later ones are missing, it is another stream
of the same name, or it has lost its end: a consumer at the old offset would get nothing until it is that long again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, cast

import pika

from bridge.aside import call_aside
from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rabbitmq.frames import Arrived, Event
from bridge.endpoints.rabbitmq.refusals import explain_refusal, refuses_argument
from exchange.amqp import ContentHeader
from exchange.amqp.streams import STREAM_OFFSET, fingerprint_content, read_offset
from exchange.errors import BrokerError, InputError
from exchange.text.display import count_noun

FIND_SECONDS: Final = 10.0
"""Maximum number of seconds until a stream delivers the message that was settled last."""


def explain_missing(queue: str, offsets: StreamOffsets) -> str:
    """Return why a stream that has nothing from the settled offset on is not read."""
    return (
        f"stream {queue!r} has nothing from offset {offsets.last} on, which was settled; if it was "
        f"deleted and declared anew, {offsets.way_out}"
    )


async def wait_for_settled(arrival: Awaitable[None], queue: str, offsets: StreamOffsets) -> None:
    """Wait for the message that was settled last, or a later one. Raises Disconnected if none comes."""
    try:
        async with asyncio.timeout(FIND_SECONDS):
            await arrival
    except TimeoutError:
        raise Disconnected(explain_missing(queue, offsets)) from None


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
    arguments: Mapping[str, Any],
) -> list[Finding]:
    """Return where a stream will be read on, if that is a known offset; of a queue of another type, nothing.

    The first message from there on is read: of a stream, that changes nothing.
    """
    try:
        last = await call_aside(lambda: offsets.last)
    except InputError as error:
        return [Finding.from_error(error, "offsets")]
    if last is None and not isinstance(offset, int):
        return []
    found: asyncio.Future[Arrived] = asyncio.get_running_loop().create_future()

    def lose(error: Disconnected) -> None:
        if not found.done():
            found.set_exception(error)

    def take(events: list[Event]) -> None:
        if not found.done():
            found.set_result(cast("Arrived", events[0]))

    try:
        connection = await Connection.open(brokers, lose)
    except Disconnected as error:
        return [Finding.from_error(error, "url")]
    try:
        channel = await connection.channel()
        channel.on_events = take
        at = {STREAM_OFFSET: offset if last is None else last, **arguments}
        await channel.consume(queue, exclusive=False, arguments=at, prefetch=1)
        async with asyncio.timeout(FIND_SECONDS):
            first = await found
    except BrokerError as error:
        if refuses_argument(error, STREAM_OFFSET):
            return []
        return [Finding("error", explain_refusal(error, f"queue {queue!r}"), "queue")]
    except Disconnected as error:
        return [Finding.from_error(error, "url")]
    except TimeoutError:
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
