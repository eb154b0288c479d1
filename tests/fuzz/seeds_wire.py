"""Seeds of what comes over connections, and of what crosses."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from bridge.endpoints.rabbitmq.frames import Acked, Arrived, Event, Returned
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.offsets import format_table
from bridge.rocketmq.remoting.properties import encode_properties
from exchange import Typed
from exchange.amqp import ContentHeader, encode_table
from exchange.amqp.fields import encode_value
from tests.bridge.endpoints.rabbitmq import test_rabbitmq_frames
from tests.fuzz.target import PART
from tests.recorders import golden

HEADERS: Final[dict[str, Any]] = {
    "s": "text", "b": True, "n": None, "d": 1.5, "x": b"\xff\x00", "l": 1 << 40, "dec": Decimal("1.25"),
    "f": Typed("float", 0.5), "t": Typed("timestamp", 1_700_000_000), "u": Typed("unsignedbyte", 200),
    "a": [1, "two", {"three": [None]}], "table": {"in": {"in": 1}}, "raw": Typed("longstr", b"\xfe"),
    "CC": ["other.key"], "x-death": [{"count": 1, "reason": "expired", "queue": "q"}],
}  # fmt: skip
PROPERTIES: Final[dict[str, Any]] = {
    "content_type": "text/plain", "delivery_mode": 2, "priority": 5, "correlation_id": "c", "reply_to": "r",
    "expiration": "1000", "message_id": "m", "timestamp": Typed("timestamp", 1_700_000_000), "type": "t",
    "user_id": "guest", "app_id": "app",
}  # fmt: skip


def wire() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    table = encode_table(HEADERS)
    header = ContentHeader.encode(HEADERS, PROPERTIES)
    remoting = [b64decode(each) for each in golden.read("rocketmq-remoting-5.5.0")["frames"]]
    recorded = golden.read("rocketmq-message-5.5.0")
    events: list[Event] = [
        Arrived(1, False, b"e", b"a.b", header.raw, b"body"),
        Arrived(2, True, b"", b"q", b"\0\0", b""),
        Returned(312, b"NO_ROUTE", b"e", b"k", b"\0\0", b"returned"),
        Acked(7, True, False),
        Acked(8, False, True),
        Arrived(3, False, b"e", b"k", b"\0\0", b"x" * 5_000),
    ]
    frames = [test_rabbitmq_frames.encode_event(event) for event in events]
    route = {
        "brokerDatas": [{"brokerAddrs": {"0": "127.0.0.1:10911"}, "brokerName": "broker-a", "cluster": "c"}],
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
        "filterServerTable": {},
        "orderTopicConf": "broker-a:4",
    }

    overview = {"rabbitmq_version": "4.0.5"}
    internal = {
        "name": "i",
        "vhost": "/",
        "type": "fanout",
        "durable": True,
        "auto_delete": False,
        "internal": True,
        "arguments": {},
    }
    outer = internal | {"name": "e", "type": "topic", "internal": False}
    exported = {**overview, "vhosts": [{"name": "/"}], "exchanges": [outer], "queues": [], "bindings": []}
    offsets = {TopicQueue("orders", "broker-a", number): 10 * number for number in range(3)}
    return {
        "field-table": [table, encode_table({}), encode_table({"a": {"b": [[], {}]}})],
        "field-value": [encode_value(value) for value in HEADERS.values()],
        "field-text": [
            kind + PART + text
            for kind, text in (
                (b"signedint", b"5"),
                (b"double", b"1.5"),
                (b"decimal", b"1.25"),
                (b"array", b"[1]"),
                (b"table", b'{"a":1}'),
                (b"bool", b"true"),
                (b"timestamp", b"9"),
                (b"binary", b"\xff"),
                (b"float", b"0.1"),
                (b"bool=dAI=", b"true"),
            )
        ],
        "content-header": [
            header.payload(3),
            ContentHeader.encode({}, {}).payload(0),
            ContentHeader.encode(None, PROPERTIES).payload(9),
        ],
        "frames": [b"".join(frames[:3]), b"".join(frames[2:5]), frames[5]],
        "remoting": [
            *sorted({frame for frame in remoting if len(frame) < 500}, key=lambda each: (len(each), each))[::4],
            b"".join(remoting[:4]),
        ],
        "answer-json": [
            json.dumps(route).encode(),
            json.dumps(route).encode().replace(b'"0":', b"0:"),
            b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1",1:"i:2"}}}}',
        ],
        "stored": _some(recorded["records"], lambda each: b64decode(each["record"])),
        "batch": _some(recorded["batches"], lambda each: b64decode(each) if isinstance(each, str) else b""),
        "properties": [encode_properties({"KEYS": "a b", "TAGS": "t", "größe": "ß", "DELAY": "3"})],
        "offset-table": [
            format_table(offsets).encode(),
            b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7},"x":[1]}',
        ],
        "ids": [
            b"7F00000100002A9F0000000000000000",
            b"FD0000000000000000000000000000022B4A1DBD16A6696F78770000",
            b"0A" * 28,
        ],
        "management": [PART.join(json.dumps(answer).encode() for answer in (exported, [internal], overview))],
    }


def _some(items: list[Any], data: Callable[[Any], bytes]) -> list[bytes]:
    found = sorted({data(item) for item in items}, key=lambda each: (len(each), each))
    return [each for each in found if each and len(each) < 700][::6]


def crossings() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    headers = [
        ContentHeader.encode(HEADERS, PROPERTIES),
        ContentHeader.encode({"amqp.x": "1", "TAGS": "t", "": 2}, {}),
        ContentHeader.encode(),
    ]
    abroad = PART.join([headers[0].raw, b"body", b"e\na.b"])

    def sized(*texts: bytes | None) -> bytes:
        return b"".join([b"\xff\xff" if text is None else len(text).to_bytes(2) + text for text in texts])

    return {
        "amqp-abroad": [abroad, *[PART.join([each.raw, b"", b"\nkey"]) for each in headers]],
        "kafka-abroad": [
            sized(b"key", b"value", b"h", b"1", b"h", None, b"x-death", b"a", b"CC", b"c"),
            sized(None, None),
            sized(b"k" * 300, b"v", b"n" * 300, b"x"),
            sized(b"k", b"v", b"amqp.routing_key", b"a.b", b"amqp.types", b'{"n":"signedint"}', b"n", b"5"),
        ],
        "rocketmq-abroad": [
            encode_properties(properties) + PART + b"body"
            for properties in (
                {"KEYS": "a b", "TAGS": "t", "own": "x", "CC": "c", "UNIQ_KEY": "0A" * 16},
                {"amqp.routing_key": "a.b", "amqp.types": '{"n":"signedint"}', "n": "5"},
            )
        ],
        "archived": [each.raw + PART + b"body" for each in headers],
    }
