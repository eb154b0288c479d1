"""A recording in a few lines: who asked how much, what was refused, what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.sources.recording.model import ACCEPTED, CLOSINGS, RecordedPublishing, RecordedRequest, Recording
from exchange.text.display import count_noun

MAX_LISTED: Final = 10
"""Maximum number of lines of each list: clients, refusals, reasons."""


def format_summary(recording: Recording) -> Iterator[str]:
    """Yield the lines of a summary."""
    requests = [request for request in recording.requests if request.method not in CLOSINGS]
    closings = [request for request in recording.requests if request.method in CLOSINGS]
    calls = sum(request.count for request in requests)
    messages = sum(each.messages for each in recording.publishing)
    yield (
        f"{count_noun(recording.opened, 'connection')} of {count_noun(len(recording.connections), 'client')}: "
        f"{count_noun(len(requests), 'different request')} in {count_noun(calls, 'call')}, "
        f"{count_noun(messages, 'message')} published"
    )
    most = sorted(recording.connections.items(), key=lambda each: -each[1])
    yield from (f"  {client}: {count_noun(count, 'connection')}" for client, count in most[:MAX_LISTED])
    yield from _more(len(most), "client")
    rows: list[RecordedRequest | RecordedPublishing] = [*requests, *recording.publishing]
    refusals = [(row, answer, count) for row in rows for answer, count in row.answers.items() if answer != ACCEPTED]
    if refusals:
        yield "refused by the broker:"
    for row, answer, count in refusals[:MAX_LISTED]:
        yield f"  {describe_request(row)}, {count_noun(count, 'time')}: {answer}"
    yield from _more(len(refusals), "refusal")
    ends = [(row.method.partition(".")[0], *each) for row in closings for each in row.answers.items()]
    if ends:
        yield "closed by the broker, which blames no request that is recorded:"
    for what, answer, count in ends[:MAX_LISTED]:
        yield f"  {count_noun(count, what)}: {answer}"
    yield from _more(len(ends), "reason")
    for unread, count in recording.unread.items():
        number = count_noun(count, "connection")
        yield f"passed on without being read to the end: {number}, {unread.side}: {unread.reason}"
    if recording.left_out:
        yield f"left out, as the recording is full: {count_noun(recording.left_out, 'call')}; --max-size makes room"


def _more(number: int, noun: str) -> Iterator[str]:
    if number > MAX_LISTED:
        yield f"  and {count_noun(number - MAX_LISTED, f'more {noun}')}"


NAMED_BY: Final = {
    "exchange.declare": "exchange",
    "exchange.delete": "exchange",
    "exchange.bind": "destination",
    "exchange.unbind": "destination",
}
"""Method -> the argument that has the name of what it is about; ``queue`` for the others."""


def describe_request(row: RecordedRequest | RecordedPublishing) -> str:
    """Return the method with the name of what it is about: ``queue.declare 'jobs'``."""
    if isinstance(row, RecordedPublishing):
        return f"basic.publish to exchange {row.exchange!r}"
    name = row.arguments.get(NAMED_BY.get(row.method, "queue"))
    if name == "" and row.method not in NAMED_BY:
        return f"{row.method} of a queue that the broker names"
    if isinstance(name, str):
        passive = ", passive" if row.arguments.get("passive") else ""
        return f"{row.method} {name!r}{passive}"
    if row.method == "basic.qos":
        shared = ", global" if row.arguments.get("global") else ""
        return f"basic.qos with prefetch_count = {row.arguments.get('prefetch_count')}{shared}"
    if row.method == "connection.tune-ok":
        return f"connection.tune-ok with frame_max = {row.arguments.get('frame_max')}"
    return row.method
