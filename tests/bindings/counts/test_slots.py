"""Slots are as narrow as the window allows, whatever the parts and the order in which they are counted."""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.counts.columnar import timeline
from bindings.counts.outcome import Outcome
from bindings.counts.slots import HOUR, SLOTS, WIDTHS, SlotCounts
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import SCHEMA, build_table, decode_tally
from exchange import Binding, InputError, Queue, Topology
from tests.support.tiers import examples

Timed: TypeAlias = tuple[int, str, bool | None]
"""The time of a message, its exchange, and whether a queue gets it."""

SECOND = 1_000_000
INT64 = 1 << 63

TIMES = st.one_of(
    st.integers(-INT64, INT64 - 1),
    st.builds(
        lambda start, number, width: start + number * width,
        st.sampled_from([0, -1, 1_790_000_000 * SECOND, 1_790_000_000 * SECOND - 1]),
        st.integers(-SLOTS - 2, SLOTS + 2),
        st.sampled_from(WIDTHS[:14]),
    ),
)
"""Any times, and times whose distance decides between two widths."""
MESSAGES = st.lists(st.tuples(TIMES, st.sampled_from("xy"), st.sampled_from([True, False, None])), max_size=12)


def counted(messages: Sequence[Timed]) -> SlotCounts:
    """Return the counts of messages by the definition of a width, from all of them at once."""
    if not messages:
        return SlotCounts()
    times = [time for time, _, _ in messages]
    width = next(width for width in WIDTHS if len(range(min(times) // width, max(times) // width + 1)) <= SLOTS)
    return SlotCounts(width, Multiset((time // width, exchange, routed) for time, exchange, routed in messages))


@examples(300)
@given(st.lists(MESSAGES, min_size=3, max_size=3), st.integers(0, 36))
def test_the_sum_of_parts_is_the_whole_in_any_order_and_grouping(parts: list[list[Timed]], cut: int) -> None:
    a, b, c = map(counted, parts)
    messages = [message for part in parts for message in part]
    whole = counted(messages)
    assert (a + b) + c == a + (b + c) == c + (b + a) == (c + a) + b == whole
    assert counted(messages[:cut]) + counted(messages[cut:]) == whole
    assert a + SlotCounts() == SlotCounts() + a == a
    assert whole.messages == len(messages)
    assert sum([counted([message]) for message in messages], SlotCounts()) == whole
    if messages:
        slots = [slot for slot, _, _ in whole.counts]
        assert max(slots) - min(slots) < SLOTS


def test_each_width_divides_the_next_and_the_last_suits_any_time() -> None:
    assert all(wide % narrow == 0 and narrow < wide for narrow, wide in pairwise(WIDTHS))
    both = counted([(-INT64, "x", True)]) + counted([(INT64 - 1, "x", True)])
    assert both == counted([(-INT64, "x", True), (INT64 - 1, "x", True)])
    assert both.messages == 2


@examples(150)
@given(MESSAGES, st.integers(1, 12), st.sampled_from([0, 1 << 18]), st.sampled_from([0, 3, 1 << 18]))
def test_columns_are_counted_as_messages_are(messages: list[Timed], chunk: int, dense: int, pending: int) -> None:
    """Counted in arrays or by sorting, summed up at once or at the end, with new outcomes from time to time."""
    outcomes = [Outcome(exchange, routed=routed) for _, exchange, routed in messages]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "DENSE", dense)
        patch.setattr(timeline, "PENDING", pending)
        columns = timeline.TimelineCounter()
        for start in range(0, len(messages), chunk):
            some = messages[start : start + chunk]
            batch = pa.record_batch({"time": pa.array([time for time, _, _ in some], pa.timestamp("us", "UTC"))})
            classes = np.arange(start, start + len(some), dtype=np.int32)
            columns.add(batch, classes, None, outcomes[: start + chunk])
        assert columns.result() == counted(messages)


def test_messages_of_many_batches_are_held_in_few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number of seconds and outcomes, only the cells of slots in use are held, and a few that wait."""
    monkeypatch.setattr(timeline, "PENDING", 2_000)
    outcomes = [Outcome("x", ("q",), (number,), routed=True) for number in range(500)]
    columns = timeline.TimelineCounter()
    for number in range(200):
        times = pa.array((number * 1_000 + np.arange(1_000)) * 4 * SECOND, pa.timestamp("us", "UTC"))
        columns.add(pa.record_batch({"time": times}), np.arange(1_000, dtype=np.int32) % 500, None, outcomes)
        assert sum(len(cells.slots) for cells in columns._pending) <= 2_000 + 2 * SLOTS
    found = columns.result()
    assert found.width == HOUR // 4
    assert len(found.counts) == 800_000 // 900 + 1
    assert found.messages == 200_000


def hourly(hours: Sequence[int]) -> pa.Table:
    """Return a tally as version 1 of the file has it: a row for each hour."""
    table = build_table(
        Tally(compute_fingerprint(TOPOLOGY), timeline=SlotCounts(HOUR, {(hour, "x", True): 1 for hour in hours}))
    )
    kinds = pa.array(["hour"] * len(hours), pa.string())
    metadata = {key: value for key, value in table.schema.metadata.items() if key != b"hashstar.slot"}
    return table.set_column(0, "kind", kinds).replace_schema_metadata({**metadata, b"hashstar.tally": b"1"})


TOPOLOGY = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "a")])


@pytest.mark.parametrize("hours", [[], [5], [0, SLOTS - 1], [0, SLOTS], [0, 1_000_000]])
def test_a_tally_of_an_older_release_has_slots_of_an_hour(hours: list[int]) -> None:
    old = decode_tally(hourly(hours)).timeline
    exact = counted([(hour * HOUR, "x", True) for hour in hours])
    assert old == (exact.at_width(max(exact.width, HOUR)) if hours else SlotCounts())
    new = counted([(hour * HOUR + SECOND, "y", None) for hour in hours])
    both = (new + old, decode_tally(build_table(Tally("t", timeline=new + old))).timeline)
    assert both[0] == both[1]
    assert both[0].width == old.width
    assert both[0].messages == 2 * len(hours)


@pytest.mark.parametrize(
    ("column", "values", "width", "message"),
    [
        ("number", [None], b"1000000", "slot without number"),
        ("messages", [None], b"1000000", "slot without number"),
        ("exchange", [None], b"1000000", "slot without number"),
        ("number", [INT64 - 1], b"1000000", "slot at no time"),
        ("messages", [-INT64], b"1000000", "fewer messages in a slot than none"),
        ("number", [1], b"1000001", "width of its slots is '1000001'"),
        ("number", [1], b"0", "width of its slots is '0'"),
        ("kind", [None], b"1000000", "row of kind None"),
        ("kind", ["hour"], b"1000000", "row of kind 'hour'"),
    ],
)
def test_a_damaged_timeline_is_refused(column: str, values: list[object], width: bytes, message: str) -> None:
    table = build_table(Tally("t", timeline=SlotCounts(SECOND, {(1, "x", True): 1})))
    kind = SCHEMA.field(column).type
    table = table.set_column(SCHEMA.names.index(column), column, pa.array(values, kind))
    with pytest.raises(InputError, match=message):
        decode_tally(table.replace_schema_metadata({**table.schema.metadata, b"hashstar.slot": width}))
