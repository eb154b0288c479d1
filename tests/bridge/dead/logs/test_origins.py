"""What became a dead letter in a topic is found again, to the bit, whoever gave it up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead.conventions import CONVENTIONS, Convention
from bridge.dead.logs.log import Letter
from bridge.dead.logs.origins import Goal, find_goal
from bridge.dead.restoring import REPLAY
from bridge.endpoint import Delivery
from bridge.interop import Record, convert_from_rocketmq, to_amqp, to_kafka, to_rocketmq
from bridge.pump.dead_letters import build_dead_letter, pack
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from exchange.values.message import Message
from tests.support.cases import with_each
from tests.support.tiers import examples

OF_RECORDS = [each for each in CONVENTIONS if each.added]
BYTES = st.binary(max_size=6)
HEADERS = st.lists(
    st.tuples(st.sampled_from(["tenant", "x-mine", "kafka", "h-ü", "retry"]), st.none() | BYTES), max_size=5
)
PARTITIONS = st.integers(0, 300)


def letter_of(record: Record) -> Letter:
    return Letter(to_amqp(record), record, None, "dead-0", 0, "id")


def stored_of(topic: str, body: bytes, properties: dict[str, str], flag: int = 0) -> StoredMessage:
    return StoredMessage(topic, body, properties, flag, "b", 0, 5, 9, 0, 1, bytes(8), 2, bytes(8), 3)


@examples(100)
@given(
    st.sampled_from(OF_RECORDS), st.none() | BYTES, st.none() | BYTES, HEADERS, PARTITIONS, st.integers(0, 9),
    st.booleans(),
)  # fmt: skip
def test_a_record_is_as_it_was_and_goes_to_its_partition(
    convention: Convention, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]],
    partition: int, at: int, twice: bool,
) -> None:  # fmt: skip
    raw = b"%d" % partition if convention.has_digits else partition.to_bytes(4)
    added = [(convention.queue, b"orders"), (convention.partition, raw), (f"{convention.added[0]}more", b"\xff")]
    if twice:  # it died once more in the topic of its dead letters
        added += [(convention.queue, b"dead"), (convention.partition, raw[::-1])]
    mixed = [*headers[: at % 3], *added, *headers[at % 3 :]]
    goal = find_goal(letter_of(Record("dead", key, value, mixed, 5, False, 0, 7)))
    assert goal == Goal(Record("orders", key, value, headers), partition)
    same = find_goal(letter_of(Record("dead", key, value, mixed, 5, False, 0, 7)), lambda message: message)
    assert (same.partition, same.stored.topic, same.key, same.body) == (partition, "orders", key, value or b"")
    assert isinstance(same.stored, Record)
    assert [*same.stored.headers] == headers
    stamped = goal.stamp("id").stamp("other").stored
    assert isinstance(stamped, Record)
    assert [*stamped.headers] == [*headers, (REPLAY, b"other")]


@with_each("raw", [b"", b"x", b"\x00\x00\x01", b"\xff\xff\xff\xff", b"-1", b"9" * 30])
@with_each("convention", OF_RECORDS)
def test_a_partition_that_is_none_is_that_of_the_key(convention: Convention, raw: bytes) -> None:
    record = Record("dead", b"k", b"v", [(convention.queue, b"orders"), (convention.partition, raw)])
    assert find_goal(letter_of(record)).partition is None


@pytest.mark.parametrize(
    ("headers", "words"),
    [([], "no header says where it died"),
     ([("kafka_dlt-exception-fqcn", b"x")], "the header kafka_dlt-original-topic names no topic"),
     ([("__connect.errors.topic", b"\xff")], "is no text"),
     ([("hashstar-reason", b"x"), ("hashstar-origin", b"queue q-1 at 5")], "--replay queue or exchange"),
     ([("hashstar-reason", b"x")], "--replay queue or exchange")],
)  # fmt: skip
def test_a_letter_that_names_no_topic_stays_with_a_reason(headers: list[tuple[str, bytes | None]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_goal(letter_of(Record("dead", b"k", b"v", headers)))


@examples(40)
@given(st.none() | BYTES, st.none() | BYTES, HEADERS, PARTITIONS, st.booleans())
def test_what_a_bridge_gave_up_goes_back_to_the_topic_that_it_read(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], partition: int, packed: bool
) -> None:
    topic = "orders-2 at 5-x"
    delivery = Delivery(to_amqp(Record(topic, key, value, headers, 5, False, partition, 7)))
    delivery.origin = f"{topic}-{partition} at 7"
    dead = build_dead_letter(delivery, "no route", "t", "q", 1, 0.0)
    written = to_kafka(pack(dead) if packed else dead, "dead", key)
    goal = find_goal(letter_of(written))
    assert isinstance(goal.stored, Record)
    assert (goal.stored.topic, goal.partition, goal.key, goal.stored.value) == (topic, partition, key, value)
    assert sorted(goal.stored.headers, key=repr) == sorted(headers, key=repr)


def test_an_edited_record_may_go_to_another_topic_and_keeps_its_key() -> None:
    record = Record("dead", b"k", b"v", [("a", b"b"), ("__connect.errors.topic", b"orders"),
                                         ("__connect.errors.partition", b"4")])  # fmt: skip

    def edit(message: Message) -> Message:
        assert (message.exchange, message.routing_key) == ("orders", "k")
        return replace(message, exchange="other", body=b"new")

    assert find_goal(letter_of(record), edit) == Goal(Record("other", b"k", b"new", [("a", b"b")]), None)


OWN = {"UNIQ_KEY": "id", "TAGS": "t", "KEYS": "k l", "__SHARDINGKEY": "s"}
ADDED = {"RECONSUME_TIME": "3", "MIN_OFFSET": "0", "ORIGIN_MESSAGE_ID": "x", "DELAY": "18", "REAL_TOPIC": "r"}


@pytest.mark.parametrize(
    ("topic", "named"),
    [("%DLQ%g", {"RETRY_TOPIC": "orders"}), ("%DLQ%g", {"DLQ_ORIGIN_TOPIC": "orders"}),
     ("%DLQ%g", {"RETRY_TOPIC": "orders", "DLQ_ORIGIN_TOPIC": "%RETRY%g"}),
     ("%DLQ%g", {"RETRY_TOPIC": "%RETRY%g_orders"}), ("%DLQ%g", {"RETRY_TOPIC": "%RETRY%g+orders"}),
     ("%RETRY%g", {"RETRY_TOPIC": "orders"})],
)  # fmt: skip
def test_a_message_of_rocketmq_is_as_it_was(topic: str, named: dict[str, str]) -> None:
    stored = stored_of(topic, b"x", {**OWN, **ADDED, **named, "tenant": "a"}, 7)
    goal = find_goal(Letter(convert_from_rocketmq(stored), stored, None, "q", 5, "id"))
    assert goal.stored == RocketMessage("orders", b"x", {**OWN, "tenant": "a"}, 7)
    assert goal.key == "s"


@pytest.mark.parametrize("named", [{}, {"RETRY_TOPIC": "%RETRY%g"}, {"DLQ_ORIGIN_TOPIC": "%DLQ%h"}])
def test_a_message_of_rocketmq_that_names_no_topic_stays(named: dict[str, str]) -> None:
    stored = stored_of("%DLQ%g", b"x", named)
    with pytest.raises(InputError, match="no property names the topic"):
        find_goal(Letter(convert_from_rocketmq(stored), stored, None, "q", 5, "id"))


def test_what_a_bridge_gave_up_goes_back_to_the_topic_of_rocketmq() -> None:
    before = stored_of("orders", b"x", {**OWN, "tenant": "a"}, 7)
    dead = build_dead_letter(Delivery(convert_from_rocketmq(before), origin="orders at b:0 at 5"), "r", "t", "q", 1, 0)
    for each in (dead, pack(dead)):
        written = to_rocketmq(each, "dead")
        stored = stored_of("dead", written.body, dict(written.properties), written.flag)
        goal = find_goal(Letter(each, stored, None, "q", 5, "id"))
        assert goal.stored == RocketMessage("orders", b"x", {**OWN, "tenant": "a"}, 7)
