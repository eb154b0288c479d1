"""The headers of a message on their way through the bridge: our codec, pika's, and what each step of the bridge costs.

An operation is one message. pika's decoding is not the same work: it loses floats, and the widths of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from benchmarks.measure import Contestant, microseconds_per, run_rounds, show
from bridge.interop import Record, to_amqp, to_kafka
from bridge.interop.marks import mark_message
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.values.field_values import Typed
from exchange.values.message import Message

FEW: Final[Mapping[str, Any]] = {"content_type": "application/json", "delivery_mode": 2, "message_id": "a" * 36}
MANY: Final[Mapping[str, Any]] = {
    **FEW, "priority": 4, "correlation_id": "c" * 36, "reply_to": "answers", "app_id": "shop",
    "timestamp": Typed("timestamp", 1_700_000_000),
}  # fmt: skip
TEXTS: Final[Mapping[str, Any]] = {"region": "eu-west-1", "tenant": "acme", "traceparent": "00-0af7651916cd43dd-01"}
DEATH: Final[Mapping[str, Any]] = {
    "count": 1, "reason": "expired", "queue": "orders.retry", "exchange": "", "routing-keys": ["a"],
    "time": Typed("timestamp", 1_700_000_000),
}  # fmt: skip
ALL: Final[Mapping[str, Any]] = {
    **TEXTS, "attempt": Typed("signedint", 3), "sent": 1_700_000_000_000, "urgent": True, "nothing": None,
    "at": Typed("timestamp", 1_700_000_000),
}  # fmt: skip

SHAPES: Final[Mapping[str, tuple[Mapping[str, Any] | None, Mapping[str, Any]]]] = {
    "no headers": (None, FEW),
    "three texts": (TEXTS, FEW),
    "eight of several types": (ALL, MANY),
    "a dead letter": ({**TEXTS, "x-death": [DEATH]}, FEW),
}
"""Name -> headers and properties of a message."""

GIVEN: Final = (("region", b"eu"), ("tenant", b"acme"), ("source", b"shop"))
RECORD: Final = Record("orders", b"key", b"body", GIVEN, timestamp=1_700_000_000_123, partition=3, offset=1207)


def codec(quick: bool) -> None:
    """Decode, encode, edit, and cross from AMQP to Kafka and back."""
    count, rounds = (2_000, 3) if quick else (2_000, 15)
    for name, (headers, properties) in SHAPES.items():
        content = ContentHeader.encode(headers, properties)
        raws = [bytes(bytearray(content.raw)) for _ in range(count)]
        rows = run_rounds([_row(*row, raws) for row in _calls(content)], rounds)
        show(f"codec, {name}", f"{len(content.raw)} bytes of header", rows)


def _row(name: str, call: Callable[[bytes], object], raws: list[bytes]) -> Contestant:
    return Contestant(name, partial(microseconds_per, call, raws), "peer" if name.startswith("pika") else "ours")


def _calls(content: ContentHeader) -> list[tuple[str, Callable[[bytes], object]]]:
    from pika.spec import BasicProperties

    headers = content.headers() if content.has_table else None
    properties = content.properties()
    of_pika = BasicProperties().decode(content.raw)
    record = to_kafka(_message(content.raw), "orders", b"key")
    guest = to_amqp(RECORD)
    return [
        ("pika: decode", lambda raw: BasicProperties().decode(raw)),
        ("decode", _decode),
        ("pika: encode", lambda _: b"".join(of_pika.encode())),
        ("encode", lambda _: ContentHeader.encode(headers, properties).raw),
        ("a message, undecoded", _message),
        ("the same, with an identity", lambda raw: mark_message(_message(raw), "kafka/main/orders/3/1207")),
        ("AMQP to Kafka", lambda raw: to_kafka(_message(raw), "orders", b"key")),
        ("and home", lambda _: to_amqp(record)),
        ("Kafka to AMQP, three headers", lambda _: to_amqp(RECORD)),
        ("and home", lambda _: to_kafka(guest, "orders")),
    ]


def _message(raw: bytes) -> Message:
    return build_lazy_message("orders", "order.eu.new", ContentHeader(raw), b"body")


def _decode(raw: bytes) -> object:
    content = ContentHeader(raw)
    return content.headers(), content.properties()


if __name__ == "__main__":
    codec(quick=True)
