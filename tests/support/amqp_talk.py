"""Conversations of AMQP 0-9-1 as bytes: who sends which frames, in order, as clients and brokers send them."""

from __future__ import annotations

import struct
from typing import Any, Literal, NamedTuple

from exchange.amqp import ContentHeader
from exchange.amqp.methods import encode_method

Side = Literal["client", "broker"]
PROTOCOL = b"AMQP\x00\x00\x09\x01"
SECRET = b"\x00guest\x00hunter2-do-not-keep"


class Sent(NamedTuple):
    """Bytes that one side sends."""

    side: Side
    data: bytes


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(name: str, channel: int = 1, **arguments: Any) -> bytes:
    """Return the frame of a method; ``is_global`` stands for its argument global."""
    if "is_global" in arguments:
        arguments["global"] = arguments.pop("is_global")
    return frame(1, channel, encode_method(name, **arguments))


def message(exchange: str, key: str, body: bytes, channel: int = 1, *, mandatory: bool = False) -> bytes:
    """Return the frames of basic.publish, the body in frames of 100 bytes."""
    parts = [body[at : at + 100] for at in range(0, len(body), 100)]
    return b"".join([
        method("basic.publish", channel, exchange=exchange, routing_key=key, mandatory=mandatory),
        frame(2, channel, ContentHeader.encode({"secret-header": "secret-value"}, {}).payload(len(body))),
        *(frame(3, channel, part) for part in parts),
    ])  # fmt: skip


def handshake(name: str = "shop", vhost: str = "/") -> list[Sent]:
    """Return the beginning of a connection with one channel."""
    properties = {"product": "Client", "version": "1.0", "platform": "Python", "connection_name": name}
    server = {"product": "RabbitMQ", "version": "3.10.8"}
    return [
        Sent("client", PROTOCOL),
        Sent("broker", method("connection.start", 0, minor=9, server_properties=server, mechanisms=b"PLAIN")),
        Sent(
            "client", method("connection.start-ok", 0, client_properties=properties, mechanism="PLAIN", response=SECRET)
        ),
        Sent("broker", method("connection.tune", 0, channel_max=2047, frame_max=131072, heartbeat=60)),
        Sent("client", method("connection.tune-ok", 0, channel_max=2047, frame_max=4096, heartbeat=60)),
        Sent("client", method("connection.open", 0, virtual_host=vhost)),
        Sent("broker", method("connection.open-ok", 0)),
        Sent("client", method("channel.open")),
        Sent("broker", method("channel.open-ok")),
    ]


def close(code: int, text: str, asked: tuple[int, int], channel: int = 1) -> bytes:
    """Return the frame with which a broker closes a channel, or the connection for channel 0."""
    name = "channel.close" if channel else "connection.close"
    return method(name, channel, reply_code=code, reply_text=text, class_id=asked[0], method_id=asked[1])
