"""The marks of bridges on messages: one pass over the header's bytes says the same as setting header after header."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Message as Consumed
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import convert_from_rocketmq, to_amqp, to_rocketmq
from bridge.interop.marks import FIRST_HOP, is_dead_letter, list_origin_fields, mark_header, mark_message, read_hops
from bridge.interop.record import find_last_header
from bridge.pump.dead_letters import build_dead_letter
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from bridge.rocketmq.remoting.message import RocketMessage
from exchange import Message
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.values.field_values import Typed
from tests.support.bridge.behaviour import router_to

values = st.one_of(
    st.text(max_size=5),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.booleans(),
    st.none(),
    st.lists(st.text(max_size=3), max_size=2),
)
names = st.sampled_from([
    "a", "CC", "BCC", "aCC", "x-hashstar-id", "x-hashstar-hops", "x-hashstar-cc", "x-hashstar-exchange",
    "x-hashstar-user-id", "x-kafka-topic",
])  # fmt: skip
properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text(max_size=4),
        "content_encoding": st.text(max_size=4),
        "delivery_mode": st.sampled_from([1, 2]),
        "message_id": st.text(max_size=4),
        "user_id": st.sampled_from(["me", "other"]),
        "cluster_id": st.text(max_size=4),
    },
)


def plainly(
    headers: dict[str, Any], held: dict[str, Any], identity: str | None, place: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `mark_header` should make of headers and properties, header after header."""
    found, kept = dict(headers), dict(held)
    hops = found.pop("x-hashstar-hops", 0)
    for name in ("CC", "BCC"):
        if name in found:
            found[f"x-hashstar-{name.lower()}"] = found.pop(name)
    found.pop("x-hashstar-id", None)
    if identity is not None:
        found["x-hashstar-id"] = identity
    if place and "x-kafka-topic" not in found:
        found.setdefault("x-hashstar-exchange", "shop")
        found.setdefault("x-hashstar-routing-key", "order.new")
    if kept.get("user_id") == "other":
        found.setdefault("x-hashstar-user-id", kept.pop("user_id"))
        kept.pop("user_id", None)
    kept.setdefault("delivery_mode", 2)
    is_count = isinstance(hops, int) and not isinstance(hops, bool) and hops > 0
    digits = isinstance(hops, str) and hops.isascii() and hops.isdigit()
    found["x-hashstar-hops"] = min((int(hops) if is_count or digits else 0) + 1, (1 << 31) - 1)
    return found, kept


@given(st.none() | st.dictionaries(names, values, max_size=5), properties, st.none() | st.just("id/1"), st.booleans())
def test_marking_in_one_pass_equals_setting_header_after_header(
    headers: dict[str, Any] | None, held: dict[str, Any], identity: str | None, place: bool
) -> None:
    content = ContentHeader.encode(headers, held)
    marks = list_origin_fields("shop", "order.new") if place else FIRST_HOP
    made = ContentHeader(mark_header(content, identity, marks, "me"))
    wanted, kept = plainly(headers or {}, held, identity, place)
    assert dict(made.headers()) == wanted
    assert made.properties() == kept


REPEATED = st.lists(
    st.tuples(
        st.sampled_from(["a", "CC", "x-hashstar-id", "x-hashstar-hops", "x-hashstar-cc"]),
        st.one_of(st.text("12", max_size=2), st.integers(1, 9)),
    ),
    max_size=6,
)
"""Headers of which several have one name, as clients may send them."""


@given(REPEATED, st.none() | st.just("id/1"))
@example([("x-hashstar-id", "1"), ("a", "2"), ("x-hashstar-id", "2")], "id/1")
@example([("x-hashstar-id", "1")], None)
@example([("x-hashstar-hops", "5"), ("x-hashstar-hops", "2")], None)
def test_headers_with_one_name_stay_and_no_mark_is_there_twice(
    headers: list[tuple[str, Any]], identity: str | None
) -> None:
    content = ContentHeader.encode({}).with_table(
        b"".join(
            bytes([len(name)]) + name.encode() + ContentHeader.encode({name: value}).fields()[0][1]
            for name, value in headers
        )
    )
    marked, hops = mark_message(build_lazy_message("", "", content, b""), identity)
    names = [name.decode() for name, _ in get_content(marked).fields()]
    given_ = [name for name, _ in headers]
    has_cc = "CC" in given_
    kept = [
        "x-hashstar-cc" if name == "CC" else name
        for name in given_
        if name != "x-hashstar-hops" and not (has_cc and name == "x-hashstar-cc")
    ]
    wanted = [name for n, name in enumerate(kept) if name != "x-hashstar-id" or (identity and name not in kept[:n])]
    if identity is not None and "x-hashstar-id" not in wanted:
        wanted.append("x-hashstar-id")
    assert names == wanted
    assert get_content(marked).headers().get("x-hashstar-id") == identity
    assert hops == 1 + max([int(value or 0) for name, value in headers if name == "x-hashstar-hops"], default=0)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "x-hashstar-id"]), st.none() | st.binary(max_size=2)), max_size=6))
def test_of_several_headers_with_one_name_the_last_counts(headers: list[tuple[str, bytes | None]]) -> None:
    """As with `Headers.lastHeader` of Kafka's clients, so that whoever adds one decides."""
    for name in ("a", "b", "x-hashstar-id"):
        assert find_last_header(headers, name) == dict(headers).get(name)


def test_all_but_the_marks_keeps_its_bytes_and_order() -> None:
    fields = {"z": 1.5, "a": Typed("timestamp", 5), "m": b"\xff"}
    content = ContentHeader.encode(fields, {"message_id": "7", "delivery_mode": 1})
    made = ContentHeader(mark_header(content, None, FIRST_HOP, "me"))
    assert made.fields()[:-1] == content.fields()
    assert made.parts() == content.parts()


def test_cc_keeps_its_type_and_replaces_that_of_an_earlier_bridge() -> None:
    content = ContentHeader.encode({"x-hashstar-cc": ["old"], "CC": ["new", "er"]})
    made = ContentHeader(mark_header(content, None, FIRST_HOP, "me"))
    assert dict(made.headers()) == {"x-hashstar-cc": ["new", "er"], "x-hashstar-hops": 1}


@pytest.mark.parametrize(
    ("value", "hops"),
    [(3, 3), ("4", 4), (b"5", 5), (Typed("signedint", 6), 6), (True, 0), (-1, 0), ("x", 0), ("9" * 40, 0), (None, 0)],
)
def test_hops_are_numbers_or_digits_and_anything_else_counts_as_none(value: Any, hops: int) -> None:
    content = ContentHeader.encode({"x-hashstar-hops": value})
    assert read_hops(build_lazy_message("", "", content, b"")) == hops
    assert read_hops(Message("", "", {"x-hashstar-hops": value})) == hops


def test_hops_in_a_malformed_header_are_none_and_the_router_reports_the_header() -> None:
    broken = ContentHeader(b"\x20\x00\x00\x00\x00\xff\x0fx-hashstar-hopsZ")
    assert read_hops(build_lazy_message("", "", broken, b"")) == 0


def read_from_kafka(headers: list[tuple[str, str | bytes | None]]) -> Message:
    """Return the message of a record without a value, as a source of Kafka makes it."""
    consumed = Consumed(topic="s", partition=0, offset=9, key=b"k", headers=headers, timestamp=(1, 7))
    return LaneReader("source", "s", 0).make_delivery(consumed, 0).message


def test_the_hops_of_a_record_are_read_without_translating_it() -> None:
    plain, marked = read_from_kafka([("a", b"1")]), read_from_kafka([("a", b"1"), ("x-hashstar-hops", b"3")])
    assert (read_hops(plain), read_hops(marked)) == (0, 3)
    assert plain.headers.made is None  # type: ignore[attr-defined]


def outgoing(message: Message) -> Outgoing:
    return Outgoing(message, Delivery(message, identity="id/1"), "queue", None, 1)


def test_every_bridge_adds_a_hop_whatever_systems_are_between_them() -> None:
    writer = RecordWriter({"queue": TopicDestination("t")}, {"t": KafkaTopic(1, None)})
    message = build_lazy_message("shop", "key", ContentHeader.encode({"CC": ["other"], "n": 5}), b"v")
    for hops in range(1, 7, 3):
        record, _ = writer.make_record(outgoing(message))  # to Kafka
        assert dict(record.headers)["x-hashstar-hops"] == b"%d" % hops
        assert [name for name, _ in record.headers].count("x-hashstar-hops") == 1
        message = to_amqp(record)
        assert read_hops(message) == hops
        raw = mark_header(get_content(message), "id/1", list_origin_fields("shop", "key"), "me")  # to RabbitMQ
        message = build_lazy_message("shop", "key", ContentHeader(raw), b"v")
        assert message.headers["x-hashstar-hops"] == hops + 1
        carried_on, count = mark_message(message, "id/1")  # to RocketMQ, as its target does
        rocket = to_rocketmq(carried_on, "t")
        properties = {**rocket.properties, "x-hashstar-hops": str(count)}
        message = convert_from_rocketmq(stored(rocket, properties))
        assert read_hops(message) == hops + 2
    assert "CC" not in message.headers
    assert message.headers["x-hashstar-cc"] == ["other"]
    assert message.headers["n"] == 5
    assert message.headers["x-hashstar-id"] == "id/1"


def stored(rocket: RocketMessage, properties: dict[str, str]) -> Any:
    from tests.bridge.interop.test_mapping_rocketmq import through

    return through(RocketMessage(rocket.topic, rocket.body, properties, rocket.flag))


def test_a_record_from_kafka_to_kafka_only_has_one_hop_more() -> None:
    writer = RecordWriter({"queue": TopicDestination("t")}, {"t": KafkaTopic(1, None)})
    for before, after in (([], b"1"), ([("x-hashstar-hops", b"4")], b"5")):
        written, _ = writer.make_record(outgoing(read_from_kafka([("a", None), *before])))
        assert written.headers == [("a", None), ("x-hashstar-id", b"id/1"), ("x-hashstar-hops", after)]
        assert (written.key, written.value, written.timestamp) == (b"k", None, 7)


# Loops.

QUICK = Policy(window=8, backoff=Backoff(0.001, 0.002), drain=0.2, max_hops=16, unroutable=Unroutable.DROP)


class Heard:
    """Records the messages that the pump gives up."""

    def __init__(self) -> None:
        self.fates: list[tuple[str, str]] = []
        self.held = asyncio.Event()

    def unroutable(self, _: str, __: Delivery, fate: str, reason: str) -> None:
        self.fates.append((fate, reason))
        if fate == "hold":
            self.held.set()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def pump(message: Message, dead: MemoryTarget | None) -> tuple[MemorySource, MemoryTarget, Heard]:
    """Pump a message until it is settled, or held."""
    source, target, heard = MemorySource([message]), MemoryTarget(), Heard()
    source.end()
    running = Pump([Inlet(source)], router_to("queue"), {"queue": target}, heard, QUICK, dead)
    task = asyncio.ensure_future(running.run())
    held = asyncio.ensure_future(heard.held.wait())
    await asyncio.wait([task, held], return_when=asyncio.FIRST_COMPLETED)
    held.cancel()
    running.stop()
    await task
    return source, target, heard


def looping_message(hops: int, **headers: Any) -> Message:
    return build_lazy_message("", "queue", ContentHeader.encode({"x-hashstar-hops": hops, **headers}), b"x")


def test_a_message_with_the_maximum_of_hops_goes_on() -> None:
    source, target, heard = asyncio.run(pump(looping_message(16), MemoryTarget("dead")))
    assert len(target.messages) == 1
    assert not source.unsettled
    assert not heard.fates


def test_a_message_with_more_hops_is_a_dead_letter_whatever_the_policy_for_unroutable_messages() -> None:
    dead = MemoryTarget("dead")
    source, target, _ = asyncio.run(pump(looping_message(17), dead))
    assert not target.messages
    assert not source.unsettled
    [letter] = dead.messages
    assert letter.message.headers["hashstar-reason"] == "loop: passed 17 bridges"
    assert read_hops(letter.message) == 17


@pytest.mark.parametrize("letters", [True, False])
def test_without_dead_letters_or_as_a_dead_letter_it_is_held(letters: bool) -> None:
    """A queue of dead letters that is a source of the same bridge would give it back for ever."""
    dead = MemoryTarget("dead") if letters else None
    message = looping_message(17, **{"hashstar-reason": "nack"}) if letters else looping_message(17)
    source, target, heard = asyncio.run(pump(message, dead))
    assert not target.messages
    assert dead is None or not dead.messages
    assert source.unsettled
    assert heard.fates[0] == ("hold", "loop: passed 17 bridges")


def test_a_dead_letter_is_recognised_and_its_hops_count_on() -> None:
    letter = build_dead_letter(Delivery(looping_message(3, CC=["other"])), "nack", "to", "queue", 5, 0.0)
    assert is_dead_letter(letter)
    assert not is_dead_letter(looping_message(3))
    made = ContentHeader(mark_header(get_content(letter), None, FIRST_HOP, "me"))
    assert made.header("x-hashstar-hops") == 4
    assert made.header("hashstar-CC") == ["other"]
    assert made.find("x-hashstar-cc") is None
