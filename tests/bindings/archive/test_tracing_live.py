"""What real brokers tell of publishings: the tracing plugin's logs and the firehose, read as what was published."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.record import Record
from exchange.values.field_json import encode_fields, encode_message
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.amqp_wire import all_types_in_pika
from tests.support.archives.containers import copy_out, run_inside
from tests.support.archives.reads import read, table
from tests.support.archives.traced import open_traced
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until

FOLDER = "/var/tmp/rabbitmq-tracing"  # noqa: S108  the plugin's, in the container
EXCHANGE = "ordør"
HEADERS: dict[str, Any] = {
    "s": "größe", "l": 2**40, "t": Typed("timestamp", 9), "b": True, "f": 1.5, "void": None, "short": Typed("short", 1),
    "array": [1, "x", [2.5]], "table": {"k": "v", "e": {}}, 'quo"te': 'a"b\\c\n\t', "bytes": b"\xff\x01",
}  # fmt: skip
BEYOND_LATIN_1 = Message(EXCHANGE, "zz.€", {}, {}, "€".encode())
MESSAGES = [
    Message(EXCHANGE, "a.b", {}, {}, b"hello"),
    Message(EXCHANGE, "zz", {}, {"content_type": "x/y", "priority": 5, "delivery_mode": 2}, b"\xff\0bin"),
    Message(EXCHANGE, "a.ü", HEADERS, {}, b"line\n" + b"=" * 80 + b"\nnot: Message published\n"),
    Message(EXCHANGE, "a.c", {"CC": ["b.1", "zz"], "BCC": ["a.x"], "other": 1}, {}, b""),
    Message(EXCHANGE, "w" * 200, {f"long{n}": "v" * 60 for n in range(6)}, {}, "ü".encode()),
    BEYOND_LATIN_1,
    Message("", "archive-a", {}, {}, b"default exchange"),
]
ROUTED = [{"archive-a"}, set(), {"archive-a"}, {"archive-a", "archive-b"}, set(), set(), {"archive-a"}]


@contextmanager
def publishing(server: Server, vhost: str) -> Iterator[Any]:
    """Yield a channel to a new virtual host with tracing on, an exchange and two queues."""
    with open_traced(server, vhost) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic")
        for queue, key in (("archive-a", "a.#"), ("archive-b", "b.#")):
            channel.queue_declare(queue)
            channel.queue_bind(queue, EXCHANGE, key)
        yield channel


def publish(channel: Any, messages: list[Message]) -> None:
    import pika

    for message in messages:
        properties = pika.BasicProperties(headers=dict(message.headers) or None, **message.properties)
        with all_types_in_pika():
            channel.basic_publish(message.exchange, message.routing_key, message.body, properties)


def consume_one(channel: Any) -> None:
    """Consume a message, so that its delivery is traced, too."""
    wait_until(lambda: channel.basic_get("archive-a", auto_ack=True)[0] is not None)


def check(records: list[Record], vhost: str, *, typed: bool, lost: Sequence[Message] = ()) -> None:
    """Compare with what was published; without types, names of headers are compared only."""
    expected = [(message, routed) for message, routed in zip(MESSAGES, ROUTED, strict=True) if message not in lost]
    assert [(r.message.exchange, r.message.routing_keys(), set(r.routed_queues or ()), r.vhost) for r in records] == [
        (message.exchange, message.routing_keys(), routed, vhost) for message, routed in expected
    ]
    for record, (message, _) in zip(records, expected, strict=True):
        if record.has_body:
            assert record.message.body == message.body
        if typed:
            assert table(record.message.headers) == table(message.headers)
        else:
            assert record.message.headers.keys() == message.headers.keys()
        assert record.message.properties.keys() == message.properties.keys()


@pytest.fixture(scope="module")
def tracing_servers(rabbitmq_servers: list[Server]) -> list[Server]:
    """Those with a management API, on which the tracing plugin is enabled once for all tests: that takes seconds."""
    found = [server for server in rabbitmq_servers if server.management_url is not None]
    for server in found:
        try:
            run_inside(server, "rabbitmq-plugins", "enable", "rabbitmq_tracing")
        except subprocess.CalledProcessError as reason:
            pytest.skip(f"rabbitmq_tracing cannot be enabled: {reason.stderr}")
    return found


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_plugins_logs_are_read_as_what_was_published(
    tracing_servers: list[Server], form: str, tmp_path: Path
) -> None:
    for server in tracing_servers:
        lost = [BEYOND_LATIN_1] if form == "text" and (3, 11) < server.version_info < (4, 3) else []
        vhost = name = unique_name("archive")
        with publishing(server, vhost) as channel:
            _trace(server, vhost, name, form)
            if lost:
                publish(channel, lost)
                time.sleep(2)  # what is in the plugin's hands when it cannot write is lost too
            publish(channel, [message for message in MESSAGES if message not in lost])
            consume_one(channel)
            path = _log(server, name, tmp_path)
        archive = detect(str(path))
        assert archive.formats == (f"RabbitMQ tracing log, {'JSON' if form == 'json' else 'text'}",)
        ((_, reader),) = archive.files
        result = read(reader, path, 1000)
        assert not result.bad
        assert list(result.skipped.values()) == [1]
        check(result.records, vhost, typed=form == "text", lost=lost)


def _trace(server: Server, vhost: str, name: str, form: str) -> None:
    assert server.management_url is not None
    connection = http.client.HTTPConnection(urlsplit(server.management_url).netloc, timeout=find_limit())
    body = json.dumps({"format": form, "pattern": "#", "max_payload_bytes": 10_000})
    headers = {
        "Authorization": f"Basic {b64encode(b'guest:guest').decode()}", "Content-Type": "application/json",
    }  # fmt: skip
    connection.request("PUT", f"/api/traces/{vhost}/{name}", body, headers)
    assert connection.getresponse().status in (201, 204)
    connection.close()


def _log(server: Server, name: str, into: Path) -> Path:
    """Return a copy of the log once the delivery is in it, which is logged last, and the log does not grow any more."""
    before = b""

    def read() -> Path | None:
        nonlocal before
        time.sleep(0.5)
        path = copy_out(server, f"{FOLDER}/{name}.log", into)
        last, before = before, path.read_bytes()
        return path if b"received" in before and before == last else None

    found: Path = wait_until(read, lambda: "the log does not come to an end")
    return found


def test_a_capture_of_the_firehose_is_read_as_what_was_published(
    rabbitmq_servers: list[Server], tmp_path: Path
) -> None:
    for server in rabbitmq_servers:
        vhost = unique_name("archive")
        with publishing(server, vhost) as channel:
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, "amq.rabbitmq.trace", "#")
            publish(channel, MESSAGES)
            consume_one(channel)
            lines: list[bytes] = []
            while len(lines) < len(MESSAGES) + 1:
                with all_types_in_pika():
                    method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    time.sleep(0.1)
                    continue
                message = Message(method.exchange, method.routing_key, properties.headers, {}, body)
                lines.append(encode_fields(encode_message(message)))
        path = tmp_path / "firehose.jsonl"
        path.write_bytes(b"".join(lines))
        result = read(JsonLines(), path)
        assert not result.bad
        assert list(result.skipped.values()) == [1]
        check(result.records, vhost, typed=False)  # pika knows fewer types than there are
