"""Fields as bytes: of all types that RabbitMQ reads, in all spellings that it accepts."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hypothesis import strategies as st


def long_string(raw: bytes) -> bytes:
    """Encode a field that is a string."""
    return b"S" + struct.pack(">I", len(raw)) + raw


def sized(tag: bytes, raw: bytes) -> bytes:
    """Encode a field with its length."""
    return tag + struct.pack(">I", len(raw)) + raw


def table_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the fields of a table."""
    return b"".join([bytes([len(name)]) + name + wire for name, wire in fields])


def fixed(tags: str, width: int) -> st.SearchStrategy[bytes]:
    """Make fields of any content."""
    return st.tuples(st.sampled_from(list(tags)), st.binary(min_size=width, max_size=width)).map(
        lambda pair: pair[0].encode() + pair[1]
    )


names = st.sampled_from([b"a", b"b", b"amqp.a", b"\xff", b"", b"a\0"]) | st.binary(max_size=8)
scalars = st.one_of(
    fixed("tbB", 1), fixed("su", 2), fixed("Ii", 4), fixed("lLT", 8), fixed("D", 5), st.just(b"V"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: struct.pack(">cf", b"f", value)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: struct.pack(">cd", b"d", value)),
    st.binary(max_size=12).map(long_string),
    st.text(max_size=12).map(lambda text: long_string(text.encode("utf-8", "replace"))),
    st.binary(max_size=12).map(lambda raw: sized(b"x", raw)),
)  # fmt: skip
wires = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: sized(b"A", b"".join(items))),
        st.lists(st.tuples(names, inner), max_size=4).map(lambda fields: sized(b"F", table_of(fields))),
    ),
    max_leaves=10,
)
"""A field value, tag first."""

headers_wire = st.lists(st.tuples(names, wires), max_size=6).map(table_of)
"""Return the fields of a table."""
