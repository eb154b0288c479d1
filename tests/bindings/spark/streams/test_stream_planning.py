"""What a query reads: each message once, whatever the micro-batches and restarts; losses are told apart from news."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.spark.streams.log import OffsetRange, StreamMessage, read_range
from bindings.spark.streams.offsets import (
    Reached,
    decode_offsets,
    encode_offsets,
    limit_ends,
    plan_ranges,
)
from bindings.spark.streams.planning import BEHIND_SECONDS, Planner, StreamNames, find_whole
from exchange.errors import InputError
from tests.support.bindings.stream_broker import MemoryBroker, MemoryStream
from tests.support.tiers import examples

NAMES = st.sampled_from(["a", "b", "c"])
COUNTS = st.dictionaries(NAMES, st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1)
ENTRIES = st.lists(st.one_of(st.none(), st.binary(max_size=1), st.binary(max_size=1)), min_size=1, max_size=4)
STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), ENTRIES),
    st.tuples(st.just("batch"), st.one_of(st.none(), st.integers(1, 5)), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
)


def pause(seconds: float) -> None:
    """Take no time."""


def never(lost: int, first: int) -> None:
    raise AssertionError(lost, first)


def tick(seconds: float = 1.0) -> Callable[[], float]:
    """Return a clock that goes on whenever it is looked at."""
    return count(0.0, seconds).__next__


class Query:
    """A streaming query in memory, with its checkpoint as text."""

    def __init__(self, broker: MemoryBroker, names: StreamNames, *, fails: bool = True, clock: float = 1.0) -> None:
        self.broker, self.names, self.fails, self.clock = broker, names, fails, clock
        self.read: dict[str, list[StreamMessage]] = {}
        self.restart()
        self.checkpoint = json.dumps(encode_offsets(self.planner.find_start("first")))

    def restart(self) -> None:
        self.planner = Planner(
            self.broker.connect, self.names, fail_on_data_loss=self.fails, clock=tick(self.clock), pause=pause
        )

    def run(self, most: int | None = None) -> list[OffsetRange]:
        """Run a micro-batch, if there is anything new."""
        start = decode_offsets(json.loads(self.checkpoint))
        ends = json.dumps(encode_offsets(self.planner.find_ends(start, most)))
        if ends == self.checkpoint:
            return []
        ranges = self.planner.plan(start, decode_offsets(json.loads(ends)))
        if most is not None:
            assert sum(each.end - each.start for each in ranges) <= most
        for each in ranges:
            self.read.setdefault(each.stream, []).extend(read_range(self.broker.connect, each, never, pause))
        self.checkpoint = ends
        return ranges


@given(st.lists(STEP, max_size=12), st.integers())
@examples(200)
def test_each_message_is_read_once_and_in_order_whatever_micro_batches_and_restarts(
    steps: list[tuple[str, object, list[bytes | None]]], seed: int
) -> None:
    streams = {f"s-{number}": MemoryStream() for number in range(2)}
    broker = MemoryBroker(streams, random=Random(seed), losses=5)
    query = Query(broker, StreamNames(super_stream="s"))
    for what, which, entries in steps:
        if what == "append":
            stream = streams[f"s-{which}"]
            stream.append(entries if stream.chunks else [b"0", *entries])
        elif what == "restart":
            query.restart()
        else:
            query.run(which if isinstance(which, int) else None)
    while query.run():
        pass
    assert {name: read for name, read in query.read.items() if read} == {
        name: stream.messages for name, stream in streams.items() if stream.messages
    }


@given(COUNTS, st.one_of(st.none(), st.integers(0, 200)))
def test_a_limit_is_used_in_full_and_shared_by_what_is_there(
    given_: dict[str, tuple[int, int]], most: int | None
) -> None:
    starts = {name: start for name, (start, _) in given_.items()}
    ends = {name: start + waiting for name, (start, waiting) in given_.items()}
    chosen = limit_ends(starts, ends, most)
    total = sum(waiting for _, waiting in given_.values())
    assert all(starts[name] <= chosen[name] <= ends[name] for name in given_)
    assert sum(chosen.values()) - sum(starts.values()) == (total if most is None else min(total, most))
    if most is not None and total > most:
        assert all(abs(chosen[name] - starts[name] - most * n / total) < 1 for name, (_, n) in given_.items())


REACHED = st.builds(
    Reached, st.integers(0, 10**18), st.text("0af", max_size=3), st.one_of(st.none(), st.integers(0, 9))
)


@given(st.dictionaries(st.text(max_size=3), REACHED))
def test_offsets_come_back_from_a_checkpoint(offsets: dict[str, Reached]) -> None:
    assert decode_offsets(json.loads(json.dumps(encode_offsets(offsets)))) == offsets
    assert not plan_ranges(offsets, offsets)


@pytest.mark.parametrize("kept", [{"step": 3}, {"s": {"next": 1}}, {"s": {"next": "x", "seen": ""}}, {"s": None}])
def test_a_checkpoint_of_another_source_is_refused(kept: dict[str, object]) -> None:
    with pytest.raises(InputError, match="the checkpoint is of another source"):
        decode_offsets(kept)


def test_a_stream_that_was_declared_again_is_known_by_its_message(caplog: pytest.LogCaptureFixture) -> None:
    streams = {"s": MemoryStream([[b"a", b"b", b"c"]])}
    broker = MemoryBroker(streams)
    strict, lax = Query(broker, StreamNames("s")), Query(broker, StreamNames("s"), fails=False)
    strict.run()
    lax.run(2)
    for longer in ([b"A", b"B"], [b"A", b"B", b"C", b"D"]):
        streams["s"] = MemoryStream([longer])
        if len(longer) < 3:
            assert strict.run() == []  # while it is short, a copy of the old one may only be behind
            continue
        with pytest.raises(InputError, match="'s' was deleted and declared again"):
            strict.run()
    with caplog.at_level(logging.WARNING, "hashstar.spark"):
        assert lax.run(3) == [OffsetRange("s", 0, 3)]
        assert lax.run() == [OffsetRange("s", 3, 4)]
    assert [each.body for each in lax.read["s"]] == [b"a", b"b", b"A", b"B", b"C", b"D"]
    assert "its message at offset 1 is not the one that was read" in caplog.text


def test_a_stream_that_stays_behind_its_checkpoint_began_anew() -> None:
    streams = {"s": MemoryStream([[b"a", b"b", b"c"]])}
    query = Query(MemoryBroker(streams), StreamNames("s"), fails=False, clock=BEHIND_SECONDS / 4)
    query.run()
    streams["s"] = MemoryStream([[b"A"]])
    ran = [query.run() for _ in range(8)]
    assert ran[0] == []
    assert [each for each in ran if each] == [[OffsetRange("s", 0, 1)]]


def test_removed_offsets_are_an_error_with_the_way_out_or_counted(caplog: pytest.LogCaptureFixture) -> None:
    stream = MemoryStream([[b"a"], [b"b"], [b"c"], [b"d"]])
    broker = MemoryBroker({"s": stream})
    queries = [Query(broker, StreamNames("s"), fails=fails) for fails in (True, False)]
    for each in queries:
        each.run(1)
    stream.retain(1)
    with pytest.raises(InputError, match=r"lacks 2 offsets from 1 on, its first message is 3: .*failOnDataLoss"):
        queries[0].run()
    queries[1].planner.plan({"s": Reached(1)}, {"s": Reached(4)})
    assert "lacks 2 offsets from 1 on" in caplog.text


def test_offsets_without_a_message_before_the_first_one_are_taken_for_removed_ones() -> None:
    streams = {"s": MemoryStream()}
    query = Query(MemoryBroker(streams), StreamNames("s"))
    streams["s"].append([None, b"a"])
    with pytest.raises(InputError, match=r"lacks 1 offset from 0 on.*unless AMQP 0-9-1 has no messages for them"):
        query.run()


def test_new_partitions_are_read_from_their_beginning_and_lost_ones_end_the_query() -> None:
    streams = {"s-0": MemoryStream([[b"a"]])}
    query = Query(MemoryBroker(streams), StreamNames(super_stream="s"), clock=60.0)
    query.run()
    streams["s-1"] = MemoryStream([[b"b", b"c"]])
    assert query.run() == [OffsetRange("s-1", 0, 2)]
    del streams["s-1"]
    with pytest.raises(InputError, match="stream 's-1' is gone"):
        query.run()


@pytest.mark.parametrize(
    ("position", "starts"),
    [
        ("first", 2), ("last", 4), ("next", 6), (0, 2), (3, 3), (9, 6), ("12h", 6),
        (datetime(2030, 1, 1, tzinfo=UTC), 6),
    ],
)  # fmt: skip
def test_a_query_begins_where_it_is_told_or_at_the_nearest_offset(position: int | str | datetime, starts: int) -> None:
    broker = MemoryBroker({"s": MemoryStream([[b"a", b"b"], [b"c", b"d"]], first=2)})
    planner = Planner(broker.connect, StreamNames("s"), clock=tick(), pause=pause)
    assert planner.find_start(position)["s"].next == starts
    assert sum(each.end - each.start for each in find_whole(planner, position, 5)) == max(0, 5 - starts)


def test_ends_that_are_held_stay_while_the_stream_grows() -> None:
    stream = MemoryStream([[b"a", b"b"]])
    query = Query(MemoryBroker({"s": stream}), StreamNames("s"))
    query.planner.hold_ends({})
    stream.append([b"c"])
    assert [query.run(1), query.run(1), query.run(1)] == [[OffsetRange("s", 0, 1)], [OffsetRange("s", 1, 2)], []]


def test_streams_that_are_not_there_are_named() -> None:
    broker = MemoryBroker({"s-eu": MemoryStream()})
    for names, match in (
        (StreamNames("t"), "there is no stream 't'"),
        (StreamNames(super_stream="s"), "no stream 's-0'.*routingKeys"),
        (StreamNames(super_stream="s", keys=("eu", "us")), "there is no stream 's-us'"),
    ):
        with pytest.raises(InputError, match=match):
            Planner(broker.connect, names, clock=tick(), pause=pause).find_start("first")
    planner = Planner(broker.connect, StreamNames(super_stream="s", keys=("eu",)), clock=tick(), pause=pause)
    assert [*planner.find_start("first")] == ["s-eu"]


def test_an_idle_query_asks_the_broker_twice_a_second() -> None:
    broker = MemoryBroker({"s": MemoryStream([[b"a"]])})
    query = Query(broker, StreamNames("s"), clock=0.01)
    query.run()
    asked = broker.asked
    for _ in range(100):  # each looks at the clock once, a hundredth of a second later
        assert query.run() == []
    assert 0 < broker.asked - asked <= 20
