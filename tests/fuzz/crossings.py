"""Targets: messages that cross to another system and come home unchanged."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from bindings.archive.record import to_records
from bridge.endpoints.archive.rows import restore_message, to_rows
from bridge.interop import Record, Unmappable, convert_from_rocketmq, to_amqp, to_kafka, to_rocketmq
from bridge.interop.rocketmq_guest import PRODUCER_PROPERTIES
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import SYSTEM, IllegalMessage, decode_properties, encode_checked_properties
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.errors import HashstarError
from exchange.values.message import Message
from tests.fuzz.target import cut, text_of


def amqp_abroad(data: bytes) -> None:
    """Check that an AMQP message crosses to Kafka and to RocketMQ, and comes back with the same bytes."""
    raw, body, names = cut(data, 3)
    exchange, _, key = text_of(names[:400]).partition("\n")
    header = ContentHeader(raw)
    header.fields()  # one that is malformed does not cross
    header.properties()
    message = build_lazy_message(exchange[:80], key[:80], header, body)
    with suppress(Unmappable):
        assert _parts(to_amqp(to_kafka(message, "t", b"k"))) == _parts(message)
    with suppress(Unmappable, IllegalMessage):
        sent = to_rocketmq(message, "t")
        assert _parts(convert_from_rocketmq(_cross(sent))) == _parts(message)


def kafka_abroad(data: bytes) -> None:
    """Check that a record of Kafka crosses to AMQP, and from there to RocketMQ, and comes back unchanged."""
    record = _record(data)
    with suppress(Unmappable):
        message = to_amqp(record)
        if any(name == "amqp.routing_key" for name, _ in record.headers):
            to_kafka(message, record.topic)
            return
        home = record._replace(partition=None, offset=None)
        assert to_kafka(message, record.topic) == home
        with suppress(IllegalMessage):
            sent = to_rocketmq(message, "t", record.key)
            assert to_kafka(convert_from_rocketmq(_cross(sent)), record.topic) == home


def rocketmq_abroad(data: bytes) -> None:
    """Check that a message of RocketMQ crosses to AMQP and then to Kafka, and comes back with its own properties."""
    raw, body = cut(data, 2)
    message = StoredMessage(
        "orders", body or b"\0", decode_properties(raw), 3, "broker-a", 1, 2, 7, 0, 1_700_000_000_000, bytes(8), 5,
        bytes(8), 0,
    )  # fmt: skip
    with suppress(Unmappable, IllegalMessage):
        encode_checked_properties(message.properties)  # what no producer can send does not come home
        abroad = convert_from_rocketmq(message)
        if any(name.startswith("amqp.") for name in message.properties):
            to_rocketmq(abroad, message.topic)
            return
        kept = {
            name: text
            for name, text in message.properties.items()
            if name in PRODUCER_PROPERTIES or not _is_given(name)
        }
        home = RocketMessage(message.topic, message.body, kept, message.flag)
        assert to_rocketmq(abroad, message.topic) == home
        assert to_rocketmq(to_amqp(to_kafka(abroad, "t", b"k")), message.topic) == home


def archived(data: bytes) -> None:
    """Check that any content header becomes a row of an archive, and that row a message that can be sent."""
    raw, body = cut(data, 2)
    columns = {
        "content": pa.array([raw], pa.binary()), "identity": pa.array([None], pa.string()),
        "time": pa.array([0], pa.int64()), "exchange": pa.array(["e"]), "routing_key": pa.array(["k"]),
        "body": pa.array([body], pa.binary()), "source": pa.array(["s"]), "offset": pa.array([1], pa.int64()),
    }  # fmt: skip
    (record,) = to_records(to_rows(pa.RecordBatch.from_pydict(columns)))
    with suppress(HashstarError):
        again = restore_message(record.message)
        assert again.body == body
        with suppress(ValueError, TypeError):
            get_content(again)
        replace(again, body=b"")


def _parts(message: Message) -> tuple[str, str, bytes, bytes]:
    return message.exchange, message.routing_key, get_content(message).raw, message.body


def _cross(sent: RocketMessage) -> StoredMessage:
    wire = decode_properties(encode_checked_properties(sent.properties))
    return StoredMessage(sent.topic, sent.body, wire, sent.flag, "b", 0, 0, 1, 0, 2, bytes(8), 3, bytes(8), 0)


def _is_given(name: str) -> bool:
    return name in SYSTEM or name.startswith("__RMQ.TRANSIENT.")


def _record(data: bytes) -> Record:
    """Read key, value and headers, each behind its length of two bytes; -1 is null."""
    texts: list[bytes | None] = []
    at = 0
    while at + 2 <= len(data) and len(texts) < 40:
        size = int.from_bytes(data[at : at + 2], "big", signed=True)
        texts.append(None if size < 0 else data[at + 2 : at + 2 + size])
        at += 2 + max(size, 0)
    key, value, *rest = [*texts, None, None][: max(len(texts), 2)]
    pairs = zip(rest[::2], rest[1::2], strict=False)
    headers = [((name or b"").decode("utf-8", "replace"), value) for name, value in pairs]
    return Record("orders", key, value, headers, 1_700_000_000_000)
