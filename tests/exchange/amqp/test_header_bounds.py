"""Bounds in a content header: searching in its bytes refuses the same bytes as decoding them."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange.amqp import ContentHeader, MalformedHeader
from exchange.amqp.fields import decode_table

SIZE = struct.Struct(">I")


def field(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + value


def long_string(text: bytes) -> bytes:
    return b"S" + SIZE.pack(len(text)) + text


def header(table: bytes, behind: bytes = b"", flags: int = 0x2000, size: int | None = None) -> ContentHeader:
    """Build a content header with a table of headers, whose size may be wrong."""
    length = len(table) if size is None else size
    return ContentHeader(flags.to_bytes(2, "big") + SIZE.pack(length) + table + behind)


def raises(look: Callable[[], object]) -> bool:
    try:
        look()
    except MalformedHeader:
        return True
    return False


SIMPLE = st.one_of(
    st.binary(max_size=4).map(long_string),
    st.binary(max_size=4).map(lambda data: b"x" + SIZE.pack(len(data)) + data),
    st.binary(min_size=4, max_size=4).map(b"I".__add__),
    st.binary(min_size=8, max_size=8).map(b"l".__add__),
    st.sampled_from([b"V", b"t\x01", b"t\x07", b"b\x05", b"D\x02\0\0\0\x01", b"?", b"S", b"S\0\0\0\xff"]),
)
NAMES = st.sampled_from([b"", b"a", b"b", b"\xff", b"name"])
TABLES = st.lists(st.builds(field, NAMES, SIMPLE), max_size=4).map(b"".join)


@given(TABLES, st.binary(max_size=12), st.integers(-6, 6), st.binary(max_size=3))
@example(field(b"a", long_string(b"bxy")), b"zzzz", -2, b"")
def test_fields_refuses_the_bytes_that_headers_refuses(table: bytes, behind: bytes, more: int, noise: bytes) -> None:
    """Whatever the bytes, of tables without tables in them: a field that reaches behind its table above all."""
    content = header(table + noise, behind, size=max(0, len(table + noise) + more))
    assert raises(content.fields) == raises(content.headers)


@given(TABLES, st.binary(max_size=12), st.integers(-6, 6))
def test_a_header_that_is_found_is_the_one_that_is_decoded(table: bytes, behind: bytes, more: int) -> None:
    content = header(table, behind, size=max(0, len(table) + more))
    if raises(content.headers):
        return
    decoded = content.headers()
    for name in ("a", "b", "name", "missing"):
        assert repr(content.header(name, "absent")) == repr(decoded.get(name, "absent"))


def test_a_header_does_not_reach_into_what_is_behind_its_table() -> None:
    """The bytes behind are another property, which would be read as the end of the header's value."""
    content = header(field(b"a", long_string(b"bxy")), b"\x02id", flags=0x2080, size=7)
    for look in (content.fields, content.headers, lambda: content.find("a"), lambda: content.header("a")):
        with pytest.raises(MalformedHeader):
            look()


@given(st.integers(0, 40), st.sampled_from(["message_id", "timestamp", "priority", "content_type"]))
def test_a_property_that_is_cut_is_refused(cut: int, name: str) -> None:
    whole = ContentHeader.encode(
        {"a": "b"}, {"content_type": "text", "priority": 3, "message_id": "m" * 20, "timestamp": 1_700_000_000}
    )
    content = ContentHeader(whole.raw[: max(2, len(whole.raw) - cut)])
    if raises(lambda: content.property(name)):
        assert raises(content.parts)
    else:
        assert content.property(name) == whole.property(name)


def test_all_headers_of_a_name_are_taken_away() -> None:
    once, other = field(b"a", long_string(b"1")), field(b"b", long_string(b"2"))
    content = header(once + other + once + once)
    assert content.without_header("a") == header(other)
    assert content.without_header("c") == content


@pytest.mark.parametrize("short", [1, 2, 3])
def test_a_table_with_one_name_twice_is_refused_where_its_last_field_reaches_behind_it(short: int) -> None:
    table = field(b"a", long_string(b"1")) * 2 + field(b"c", long_string(b"behind"))
    with pytest.raises(MalformedHeader):
        decode_table(table + b"more", 0, len(table) - short)


@pytest.mark.parametrize("tag", [b"F", b"A"])
def test_tables_and_arrays_have_a_maximum_depth(tag: bytes) -> None:
    value = b"V"
    for _ in range(5_000):
        inner = field(b"a", value) if tag == b"F" else value
        value = tag + SIZE.pack(len(inner)) + inner
    with pytest.raises(MalformedHeader, match="in one another"):  # and no RecursionError
        decode_table(field(b"a", value))
