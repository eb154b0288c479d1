"""The record: what goes into a batch comes out of it; names written for columns match as they did unwritten."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.names import decode_bytes_array, escape, escape_bytes, to_text_array, unescape
from bindings.archive.record import SCHEMA, Record, Rows, build_batch, to_records
from exchange import Binding, Exchange, Queue, Topology
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.archives.reads import FILES, NAMES, RECORDS, facts


@FILES
@given(st.lists(RECORDS, max_size=5))
def test_records_come_back_with_types_and_values(records: list[Record]) -> None:
    batch = build_batch(records)
    batch.validate(full=True)
    assert [facts(record) for record in to_records(batch)] == [facts(record) for record in records]
    for start in range(len(records)):  # a slice shares the buffers of the whole
        assert [facts(record) for record in to_records(batch.slice(start, 2))] == [
            facts(record) for record in records[start : start + 2]
        ]


@FILES
@given(st.lists(RECORDS, max_size=3), st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_columns_that_are_not_wanted_change_nothing_in_the_others(records: list[Record], wanted: set[str]) -> None:
    whole = build_batch(records)
    rows = Rows("", sorted(wanted))
    for record in records:
        rows.add_record(record)
    assert rows.batch() == whole.select(sorted(wanted))


@FILES
@given(RECORDS)
def test_routing_needs_the_columns_of_keys_only(record: Record) -> None:
    (row,) = build_batch([record]).select(["routing_key", "cc", "bcc"]).to_pylist()
    keys = [unescape(key) for key in (row["routing_key"], *row["cc"], *row["bcc"])]
    assert tuple(keys) == record.message.routing_keys()


@FILES
@given(NAMES)
def test_a_name_comes_back_and_is_valid_unicode(name: str) -> None:
    assert unescape(escape(name)) == name
    escape(name).encode()


@FILES
@given(NAMES, NAMES)
def test_different_names_are_written_differently(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@FILES
@given(st.lists(st.none() | st.binary(max_size=4), max_size=4))
def test_a_column_of_bytes_is_written_as_each_of_them(items: list[bytes | None]) -> None:
    column = pa.array([b"x", *items], pa.binary()).slice(1)
    assert decode_bytes_array(column).to_pylist() == [None if item is None else escape_bytes(item) for item in items]
    texts = [None if item is None else item.decode("utf-8", "surrogateescape") for item in items]
    assert to_text_array(texts).to_pylist() == decode_bytes_array(column).to_pylist()


WORDS = st.lists(st.sampled_from([b"a", b"", b"\xff", b"\0", b"\xc3", b"\xa4", b"\xc3\xa4"]), max_size=4)


@FILES
@given(WORDS, st.lists(st.sampled_from([b"a", b"*", b"#", b"", b"\xff", b"\0", b"\xc3"]), max_size=4))
def test_a_written_pattern_matches_the_written_keys_that_it_matches_unwritten(
    words: list[bytes], pattern: list[bytes]
) -> None:
    key, binding = (b".".join(parts).decode("utf-8", "surrogateescape") for parts in (words, pattern))

    def routed(key: str, binding: str) -> int:
        parts = [Exchange("x", "topic")], [Queue("q")], [Binding.to_queue("x", "q", binding)]
        return len(Router(Topology(*parts)).route(Message("x", key)).queues)

    assert routed(escape(key), escape(binding)) == routed(key, binding)


@pytest.mark.parametrize(
    ("headers", "properties"),
    [
        ({"CC": "a"}, {"priority": 3}),
        ({"a": 1 << 63}, {"priority": 3}),
        ({}, {"type": object()}),
        ({}, {"priority": object()}),
        ({}, {"colour": "red"}),
        ({"a": [Typed("float", 1.0), 1 << 64]}, {"priority": 3}),
    ],
)
def test_a_message_that_no_broker_takes_is_no_record_and_adds_nothing(
    headers: dict[str, Any], properties: dict[str, Any]
) -> None:
    """A message checks what it is made of, and then keeps the mappings: they may have changed."""
    rows = Rows("")
    rows.add(Message("x", "a", {"h": 1}, {"priority": 2}))
    message = Message("", "b", kept := {"x": 1}, others := {"x": 1})
    for before, after in ((kept, headers), (others, properties)):
        before.clear()
        before.update(after)
    with pytest.raises(InputError):
        rows.add(message)
    rows.add(Message("x", "c", {"h": 4}, {"priority": 5}))
    assert [(r.message.routing_key, r.message.headers, r.message.properties) for r in to_records(rows.batch())] == [
        ("a", {"h": 1}, {"priority": 2}),
        ("c", {"h": 4}, {"priority": 5}),
    ]
