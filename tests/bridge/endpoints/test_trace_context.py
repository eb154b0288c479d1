"""The context of a trace travels unchanged: through each mapping, and through any number of them one after the other.

Messages are written as targets write them and read as sources read them; no broker is in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import to_records
from bridge.dead.restoring import restore
from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.archive.columns import prepare_batch
from bridge.endpoints.archive.rows import restore_message, to_rows
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.rabbitmq.routes import PublishAddress, PublishRoute
from bridge.endpoints.rocketmq.placing import MessageWriter, WritableQueues
from bridge.endpoints.topics import TopicDestination
from bridge.interop import Record, convert_from_rocketmq, to_amqp
from bridge.interop.requests import KAFKA, RABBITMQ, ROCKETMQ, ReplyRequest, to_reply, to_request
from bridge.interop.return_address import ReturnAddress
from bridge.pump.dead_letters import build_dead_letter, pack
from bridge.pump.placing import KeylessTurns
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import decode_properties, encode_checked_properties
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.partition.clients.kafka import build_default_3_3
from exchange.partition.partitions import Partitions
from exchange.values.message import Message

NOW: Final = 1_795_000_000_000
TO_TOPIC: Final = {"q": TopicDestination("t")}


def _digits(count: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdef", min_size=count, max_size=count)


VISIBLE: Final = st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters=",=")
NAMES: Final = st.from_regex(r"[a-z][a-z0-9_\-*/]{0,12}(@[a-z][a-z0-9_\-*/]{0,5})?", fullmatch=True)
MEMBERS: Final = st.builds("{}={}v".format, NAMES, st.text(VISIBLE, max_size=20))
CONTEXTS: Final = st.fixed_dictionaries(
    {"traceparent": st.builds("00-{}-{}-{}".format, _digits(32), _digits(16), _digits(2))},
    optional={
        "tracestate": st.lists(MEMBERS, min_size=1, max_size=32).map(",".join),
        "baggage": st.builds("{}={};p=1".format, NAMES, st.text(VISIBLE, max_size=20)),
    },
)  # fmt: skip
OTHERS: Final[st.SearchStrategy[dict[str, Any]]] = st.dictionaries(
    st.sampled_from(["a", "n", "TRACEPARENT", "x-trace", "CC", "x-kafka", "zz"]), st.text("ab", max_size=3), max_size=4
).map(lambda headers: {name: [value] if name == "CC" else value for name, value in headers.items()})


def _carry(message: Message) -> Outgoing:
    return Outgoing(message, Delivery(message, identity="i/1", origin="queue orders"), "q")


def pass_rabbitmq(message: Message) -> Message:
    route = PublishRoute("q", PublishAddress.queue("other"))
    outgoing = _carry(message)
    exchange, key, marks = route.address(outgoing)
    header = ContentHeader(route.header(outgoing, marks, "user"))
    return build_lazy_message(exchange.decode(), key.decode(), header, message.body)


def pass_kafka(message: Message) -> Message:
    writer = RecordWriter(TO_TOPIC, {"t": KafkaTopic(2, None)}, KeylessTurns(build_default_3_3()))
    record, partition = writer.make_record(_carry(message))
    return to_amqp(record._replace(partition=partition, offset=7))


def pass_rocketmq(message: Message) -> Message:
    writer = MessageWriter(TO_TOPIC)
    writer.spreads["t"] = WritableQueues("t", Partitions.queues({"a": 2}))
    sent, _ = writer.place(_carry(message))
    read = decode_properties(encode_checked_properties(sent.properties))
    return convert_from_rocketmq(
        StoredMessage("t", sent.body, read, sent.flag, "a", 0, 7, 1, 0, 2, bytes(8), 3, bytes(8), 0)
    )


def pass_archive(message: Message) -> Message:
    batch = prepare_batch([_carry(message)], {"q": ""}, NOW).batch
    [record] = to_records(to_rows(batch))
    return restore_message(record.message)


def die(message: Message) -> Message:
    return build_dead_letter(_carry(message).delivery, "nack", "out", "q", 3, NOW / 1_000)


def die_and_return(message: Message) -> Message:
    return restore(pass_rabbitmq(die(message)), "exchange")


def die_packed_and_return(message: Message) -> Message:
    return restore(pass_rabbitmq(pack(die(message))), "exchange")


def _ask(system: str) -> Callable[[Message], Message]:
    return lambda message: to_request(message, system, ReplyRequest("replies", "token", NOW), NOW)


def _answer(system: str) -> Callable[[Message], Message]:
    return lambda message: to_reply(message, system, ReturnAddress("caller", b"c"))


WAYS: Final[Mapping[str, Callable[[Message], Message]]] = {
    "rabbitmq": pass_rabbitmq, "kafka": pass_kafka, "rocketmq": pass_rocketmq, "archive": pass_archive, "dead": die,
    "replayed": die_and_return, "packed": die_packed_and_return,
    **{f"request to {system}": _ask(system) for system in (RABBITMQ, KAFKA, ROCKETMQ)},
    **{f"reply to {system}": _answer(system) for system in (RABBITMQ, KAFKA, ROCKETMQ)},
}  # fmt: skip


def publish_amqp(headers: Mapping[str, Any]) -> Message:
    return Message("orders", "order.eu", headers, {"message_id": "m"}, b"body")


def publish_kafka(headers: Mapping[str, Any]) -> Message:
    raw = [(name, str(value).encode()) for name, value in headers.items()]
    return to_amqp(Record("orders", b"k", b"body", raw, 5, False, 1, 3))


def publish_rocketmq(headers: Mapping[str, Any]) -> Message:
    texts = {name: str(value) or "-" for name, value in headers.items()}
    return convert_from_rocketmq(
        StoredMessage("orders", b"body", texts, 0, "a", 0, 7, 1, 0, 2, bytes(8), 3, bytes(8), 0)
    )


ORIGINS: Final = (publish_amqp, publish_kafka, publish_rocketmq)


def read_context(message: Message) -> dict[str, Any]:
    return {name: message.headers[name] for name in ("traceparent", "tracestate", "baggage") if name in message.headers}


@given(st.sampled_from(ORIGINS), CONTEXTS, OTHERS, st.lists(st.sampled_from([*WAYS]), max_size=6))
def test_the_context_of_a_trace_arrives_as_it_was_published_whatever_way_the_message_goes(
    publish: Callable[[Mapping[str, Any]], Message], context: dict[str, str], others: dict[str, Any], ways: list[str]
) -> None:
    message = publish({**others, **context})
    assert read_context(message) == context
    for way in ways:
        message = WAYS[way](message)
        assert read_context(message) == context, way


def test_it_arrives_through_each_pair_of_ways_from_each_origin() -> None:
    context = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a@b=c d,x=1", "baggage": "u=1;p=2"}
    lost = [
        (publish.__name__, first, second)
        for publish in ORIGINS
        for first in WAYS
        for second in WAYS
        if read_context(WAYS[second](WAYS[first](publish(context)))) != context
    ]
    assert lost == []
