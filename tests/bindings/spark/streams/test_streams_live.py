"""Streams of a real RabbitMQ, read as logs: ends, ranges, large messages, and what retention removes."""

from __future__ import annotations

from bindings.spark.streams.log import OffsetRange, find_first, find_last, find_message, read_range
from exchange.values.field_values import Typed
from tests.support.bindings.live_streams import Streams, never
from tests.support.waiting import wait_until


def test_ends_and_ranges_are_those_of_the_broker(streams: Streams) -> None:
    empty, full = streams.declare("empty"), streams.declare("full")
    streams.publish(full, range(600))
    with streams.settings(stream=full).login.connect() as broker:
        assert find_first(broker, empty) is find_last(broker, empty, 0) is None
        first, last, middle = find_first(broker, full), find_last(broker, full, 0), find_message(broker, full, 300, 9)
        assert first is not None
        assert last is not None
        assert middle is not None
        assert (first.offset, last.offset, middle.offset, middle.body) == (0, 599, 300, b"300")
        for _ in range(50):  # a consumer that has ended leaves nothing on the channel
            assert find_last(broker, full, 0) == last
    everything = [(number, b"%d" % number) for number in range(600)]
    assert streams.read(full, 0, 600) == everything
    assert streams.read(full, 299, 302) == everything[299:302]


def test_large_messages_and_their_headers_come_as_they_are(streams: Streams) -> None:
    large = streams.declare("large")
    streams.publish(large, range(100, 104), 400_000)
    settings = streams.settings(stream=large, prefetch="2")
    read = [*read_range(settings.login.connect, OffsetRange(large, 0, 4), never, never)]
    assert [each.body for each in read] == [b"%d" % number * 400_000 for number in range(100, 104)]
    assert read[0].content.without_header("x-stream-offset").headers() == {
        "n": Typed("signedint", 100), "big": 1 << 40,
    }  # fmt: skip


def test_offsets_that_retention_removed_are_counted(streams: Streams) -> None:
    short = streams.declare(
        "short", **{"x-max-length-bytes": 2_000_000, "x-stream-max-segment-size-bytes": 1_000_000}
    )  # fmt: skip
    login = streams.settings(stream=short).login

    published: list[bytes] = []

    def find_first_offset() -> int:
        bodies = range(len(published) + 100, len(published) + 110)
        streams.publish(short, bodies, 40_000)
        published.extend(b"%d" % number for number in bodies)
        with login.connect() as broker:
            first = find_first(broker, short)
            return 0 if first is None else first.offset

    wait_until(lambda: find_first_offset() > 5)
    with login.connect() as broker:
        first, last = find_first(broker, short), find_last(broker, short, 0)
    assert first is not None
    assert last is not None
    lost: list[tuple[int, int]] = []
    wanted = OffsetRange(short, 5, last.offset + 1)
    read = [*read_range(login.connect, wanted, lambda *how: lost.append(how), never)]
    # RabbitMQ begins segments with data of its own: some offsets have no message, and are not lost.
    assert len(read) <= last.offset + 1 - first.offset
    assert [each.body[:3] for each in read] == published[-len(read) :]
    assert (read[0].offset, read[-1].offset) == (first.offset, last.offset)
    assert lost == [(first.offset - 5, first.offset)]
