"""An identity belongs to one message: it goes with it through all systems, and to no other that has its headers."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.interop import (
    IDENTITY,
    Record,
    convert_from_rocketmq,
    identify_message,
    identify_record,
    identify_stored,
    to_amqp,
    to_kafka,
    to_rocketmq,
)
from bridge.interop.marks import build_hop_header, list_origin_fields, mark_header, mark_message
from exchange import Message
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from tests.bridge.interop.test_mapping_rocketmq import through
from tests.support.tiers import examples

SYSTEMS = ("queue", "stream", "kafka", "rocketmq")


class Read(NamedTuple):
    """A message that a bridge has read, with what its source says of it."""

    message: Message
    identity: str | None


def carry(read: Read, system: str, offset: int) -> Read:
    """Write a message to a system as a bridge does, and read it there as the next bridge does."""
    if system in ("queue", "stream"):
        marks = list_origin_fields(read.message.exchange, read.message.routing_key)
        content = ContentHeader(mark_header(get_content(read.message), read.identity, marks, "guest"))
        if system == "stream":
            content = content.with_header("x-stream-offset", offset)
        message = build_lazy_message("", "orders", content, read.message.body)
        return Read(message, identify_message("next", "orders", b"orders", content, message.body))
    marked, hops = mark_message(read.message, read.identity)
    if system == "kafka":
        made = to_kafka(marked, "orders", b"k")
        record = made._replace(headers=[*made.headers, build_hop_header(hops)], partition=0, offset=offset)
        return Read(to_amqp(record), identify_record("next", record))
    stored = through(to_rocketmq(marked, "orders"), offset=offset)
    return Read(convert_from_rocketmq(stored), identify_stored(f"rocketmq/next/{offset}", stored))


def copy_headers(read: Read, body: bytes, offset: int) -> Read:
    """Return the message that an application publishes to a stream that copies the headers of another one."""
    content = get_content(read.message).with_header("x-stream-offset", offset)
    message = build_lazy_message("", "orders", content, body)
    return Read(message, identify_message("application", "orders", b"orders", content, body))


steps = st.lists(st.sampled_from([*SYSTEMS, "copy"]), max_size=8)


@examples(200)
@given(steps, st.binary(min_size=1, max_size=9))
@example(["queue", "copy", "kafka"], b"v")
@example(["rocketmq", "copy", "copy", "rocketmq", "queue"], b"v")
def test_an_identity_stays_with_its_message_and_goes_to_no_other_that_has_its_headers(
    ways: list[str], body: bytes
) -> None:
    record = Record("orders", b"k", body, [("a", b"1")], partition=3, offset=7)
    read = Read(to_amqp(record), identify_record("main", record))
    earlier: set[str | None] = set()
    for offset, way in zip(count(100), ways, strict=False):
        before = read
        if way == "copy":
            earlier.add(before.identity)
            read = copy_headers(before, before.message.body + b"%d" % offset, offset)
            assert read.identity is not None
            assert read.identity not in earlier
        else:
            read = carry(before, way, offset)
            assert read.identity == before.identity
            assert read.message.headers[IDENTITY] == before.identity
        assert read.identity not in earlier


@given(st.sampled_from(["queue", "kafka", "rocketmq"]))
def test_an_id_that_is_not_the_message_s_own_does_not_travel_on_where_there_is_none_to_replace_it(system: str) -> None:
    other = Record("orders", b"k", b"first", [], partition=3, offset=7)
    headers = {IDENTITY: identify_record("main", other), "a": 1}
    message = build_lazy_message("", "orders", ContentHeader.encode(headers), b"second")
    identity = identify_message("application", "orders", b"orders", get_content(message), message.body)
    assert identity is None  # a queue knows nothing of a message without a message_id
    if system == "queue":
        made = ContentHeader(mark_header(get_content(message), identity, list_origin_fields("", "orders"), "guest"))
    else:
        made = get_content(mark_message(message, identity)[0])
    assert made.find(IDENTITY) is None
    assert made.header("a") == 1


def test_an_empty_body_proves_no_identity() -> None:
    """Whoever copies headers to a message without a body would give away the id with them."""
    record = Record("orders", b"k", None, [], partition=3, offset=7)
    content = get_content(to_amqp(record)).with_header(IDENTITY, identify_record("main", record))
    assert identify_message("next", "orders", b"orders", content, b"") is None


@given(st.binary(max_size=9), st.binary(max_size=9), st.binary(min_size=1, max_size=9))
@example(b"", b"k", b"v")
def test_a_record_of_the_same_value_and_headers_with_another_key_has_another_id(
    one: bytes, other: bytes, body: bytes
) -> None:
    """Kafka Streams gives the records that it makes of a record the headers of that record."""
    record = Record("orders", one, body, [], partition=3, offset=7)
    headers = [(IDENTITY, (identify_record("main", record) or "").encode())]
    made = record._replace(key=other, headers=headers, offset=8)
    assert (identify_record("main", made) == identify_record("main", record)) == (one == other)


@given(st.sampled_from(["a", "b"]), st.sampled_from([b"v", b"w"]))
def test_messages_with_one_message_id_have_one_identity_if_key_and_body_are_the_same(key: str, body: bytes) -> None:
    content = ContentHeader.encode({}, {"message_id": "1"})
    first = identify_message("main", "q", b"a", content, b"v")
    second = identify_message("main", "q", key.encode(), content, body)
    assert (first == second) == ((key, body) == ("a", b"v"))
    forwarded = content.with_header(IDENTITY, first)
    assert identify_message("main", "q", key.encode(), forwarded, body) == second
