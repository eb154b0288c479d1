"""Method frames: equal to what pika writes and reads, and no bytes that are not understood."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import spec

from exchange.amqp import MalformedHeader
from exchange.amqp.methods import METHODS, decode_method, encode_method

VALUES = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": st.text(max_size=60),
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(st.text(min_size=1, max_size=9), st.booleans() | st.text(max_size=9), max_size=3),
}


@given(st.data(), st.sampled_from(sorted(METHODS)))
def test_what_is_encoded_is_decoded(data: st.DataObject, name: str) -> None:
    arguments = {argument: data.draw(VALUES[kind]) for argument, kind in METHODS[name].arguments}
    method = decode_method(encode_method(name, **arguments))
    assert (method.name, method.arguments) == (name, arguments)
    assert method.ids == (METHODS[name].class_id, METHODS[name].method_id)


def test_the_table_is_that_of_pika() -> None:
    """Numbers and names of all methods; pika has been generated from RabbitMQ's own description."""
    ours = {(shape.class_id << 16 | shape.method_id): shape.name.replace("-", "") for shape in METHODS.values()}
    theirs = {number: kind.NAME.lower() for number, kind in spec.methods.items()}
    missing = {name for number, name in theirs.items() if number not in ours}
    assert all(theirs[number] == name for number, name in ours.items() if number in theirs)
    assert {name.partition(".")[0] for name in missing} <= {"connection", "access"}


@pytest.mark.parametrize(("name", "theirs", "given"), [
    ("queue.declare", spec.Queue.Declare(0, "q", False, True, False, True, False, {}),
     {"queue": "q", "durable": True, "auto_delete": True}),
    ("exchange.declare", spec.Exchange.Declare(0, "x", "topic", True, False, True, False, True, {}),
     {"exchange": "x", "type": "topic", "passive": True, "auto_delete": True, "nowait": True}),
    ("basic.publish", spec.Basic.Publish(0, "x", "k", True, False),
     {"exchange": "x", "routing_key": "k", "mandatory": True}),
    ("basic.deliver", spec.Basic.Deliver("tag", 2**40, True, "x", "k"),
     {"consumer_tag": "tag", "delivery_tag": 2**40, "redelivered": True, "exchange": "x", "routing_key": "k"}),
    ("basic.nack", spec.Basic.Nack(7, True, False), {"delivery_tag": 7, "multiple": True, "requeue": False}),
    ("connection.open", spec.Connection.Open("/"), {"virtual_host": "/"}),
])  # fmt: skip
def test_frames_are_those_of_pika(name: str, theirs: spec.amqp_object.Method, given: dict[str, object]) -> None:
    payload = theirs.INDEX.to_bytes(4) + b"".join(theirs.encode())
    assert encode_method(name, **given) == payload


@given(st.binary(max_size=60))
def test_other_bytes_raise_one_error(payload: bytes) -> None:
    with suppress(MalformedHeader):
        decode_method(payload)


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=40))
def test_other_arguments_raise_one_error(name: str, rest: bytes) -> None:
    shape = METHODS[name]
    with suppress(MalformedHeader):
        decode_method(shape.class_id.to_bytes(2) + shape.method_id.to_bytes(2) + rest)


def test_wrong_arguments_are_refused() -> None:
    for wrong in ({"queue": "q" * 256}, {"ticket": -1}, {"nonsense": 1}):
        with pytest.raises(ValueError, match=r"."):
            encode_method("queue.declare", **wrong)
