"""Ranges of a stream are the same whenever they are read; no offset is waited for, and what is lost is counted."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.applying.amqp import Lost, OperationRefused
from bindings.spark.streams.log import RETRIES, OffsetRange, find_first, find_last, find_message, read_range
from exchange.errors import InputError
from tests.support.bindings.stream_broker import MemoryBroker, MemoryStream
from tests.support.tiers import examples

ENTRY = st.one_of(st.none(), st.binary(max_size=2), st.binary(max_size=2))
CHUNKS = st.lists(st.lists(ENTRY, min_size=1, max_size=5), max_size=8)
FIRST = st.integers(0, 3)


def pause(seconds: float) -> None:
    """Take no time."""


def never(lost: int, first: int) -> None:
    raise AssertionError(lost, first)


@given(CHUNKS, FIRST, st.data(), st.integers())
@examples(300)
def test_a_range_has_its_messages_once_and_in_order_whatever_connections_are_lost(
    chunks: list[list[bytes | None]], first: int, data: st.DataObject, seed: int
) -> None:
    stream = MemoryStream(chunks, first)
    seen = [each.offset for each in stream.messages]
    if not seen:
        return
    last = data.draw(st.sampled_from(seen))
    end = data.draw(st.integers(first, last + 1))
    start = data.draw(st.integers(seen[0], max(end, seen[0])))
    broker = MemoryBroker({"s": stream}, random=Random(seed), losses=RETRIES - 1)
    read = [*read_range(broker.connect, OffsetRange("s", start, end), never, pause)]
    assert read == [each for each in stream.messages if start <= each.offset < end]
    assert read == [*read_range(MemoryBroker({"s": stream}).connect, OffsetRange("s", start, end), never, pause)]
    assert not broker.waited  # an offset without a message is never waited for


@given(CHUNKS, FIRST, st.data())
@examples(300)
def test_what_retention_removed_is_counted_and_what_has_no_message_is_not(
    chunks: list[list[bytes | None]], first: int, data: st.DataObject
) -> None:
    stream = MemoryStream(chunks, first)
    before = stream.messages
    if not before:
        return
    end = before[-1].offset + 1
    start = data.draw(st.integers(before[0].offset, end - 1))
    stream.retain(data.draw(st.integers(1, len(chunks))))
    left = stream.messages
    if not left or left[-1] != before[-1]:
        return  # the message before the end is gone, too: read_range is promised that it, or a later one, is there
    lost: list[tuple[int, int]] = []
    read = [
        *read_range(
            MemoryBroker({"s": stream}).connect, OffsetRange("s", start, end), lambda *how: lost.append(how), pause
        )
    ]
    assert read == [each for each in left if start <= each.offset < end]
    removed = {*range(start, left[0].offset)}
    assert lost == ([(len(removed), left[0].offset)] if removed else [])
    assert {each.offset for each in before if each.offset >= start} - {each.offset for each in read} <= removed


@given(CHUNKS, FIRST, st.integers())
@examples(200)
def test_ends_are_those_of_messages(chunks: list[list[bytes | None]], first: int, seed: int) -> None:
    stream = MemoryStream(chunks, first)
    messages = stream.messages
    broker = MemoryBroker({"s": stream}, random=Random(seed))
    assert find_first(broker, "s") == (messages[0] if messages else None)
    last = find_last(broker, "s", first)
    assert last == (messages[-1] if messages else None)
    for each in messages:
        assert find_message(broker, "s", each.offset, 1) == each


def test_messages_that_do_not_come_end_the_read() -> None:
    broker = MemoryBroker({"s": MemoryStream([[b"a", None]])})
    with pytest.raises(Lost, match="stream 's': no message in 60 s, though it had one at 1"):
        [*read_range(broker.connect, OffsetRange("s", 0, 2), never, pause)]
    assert broker.connections == RETRIES + 1


def test_a_refusal_is_not_asked_again_but_a_node_that_starts_is() -> None:
    broker = MemoryBroker({})
    with pytest.raises(OperationRefused, match="404"):
        [*read_range(broker.connect, OffsetRange("s", 0, 2), never, pause)]
    assert broker.connections == 1
    starting = OperationRefused(
        406, "PRECONDITION_FAILED - stream 's' does not have a running replica on the local node"
    )
    pauses: list[float] = []

    class Starting(MemoryBroker):
        def count(self, stream: str) -> int:
            if len(pauses) < 3:
                raise starting
            return super().count(stream)

    broker = Starting({"s": MemoryStream([[b"a"]])})
    assert len([*read_range(broker.connect, OffsetRange("s", 0, 1), never, pauses.append)]) == 1
    assert pauses == [0.5, 1.0, 2.0]


def test_what_lose_raises_ends_the_read_behind_what_was_there() -> None:
    stream = MemoryStream([[b"a"], [b"b"], [b"c"]])
    stream.retain(2)

    def lose(lost: int, first: int) -> None:
        raise InputError(f"{lost} {first}")

    reading = read_range(MemoryBroker({"s": stream}).connect, OffsetRange("s", 0, 3), lose, pause)
    assert [next(reading).offset, next(reading).offset] == [1, 2]
    with pytest.raises(InputError, match="1 1"):
        next(reading)
