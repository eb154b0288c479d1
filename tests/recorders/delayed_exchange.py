"""Record what x-delayed-message makes of messages: ``python -m tests.recorders.delayed_exchange AMQP-URL [NOTE]``.

Writes tests/golden/rabbitmq-delayed-RELEASE.json for a broker with the plugin rabbitmq_delayed_message_exchange, which
does not come with RabbitMQ. A NOTE says what was unusual about it.

``values``: a message with each value of x-delay, published as mandatory to an exchange without alternate. Kept is
whether it was returned, which it is if it is delayed, and the header as it was delivered, if within a second; or what
the broker answered instead. ``cases``: random topologies with messages: which queues get each at once, which later,
each with the headers as delivered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from random import Random
from typing import Any, Final
from unittest import mock

import pika
import pika.data
from pika.exceptions import AMQPError

from exchange.values.field_json import encode_table
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.support.amqp_wire import all_types_in_pika
from tests.support.servers import amqp_version
from tests.support.unique import unique_name

MOST: Final = 2**32 - 1
"""The longest delay, in milliseconds."""
WAIT: Final = 3000
"""Delay of the messages of cases, in milliseconds."""

VALUES: Final[tuple[Any, ...]] = (
    1, 50, 0, -1, -50, MOST, MOST + 1, 2**62, "50", "0", "-50", "+50", " 50", "050", "50.5", "", "soon", "0x32", "5_0",
    "\u0665", str(MOST), str(MOST + 1), b"50", b"\xff", 50.0, 50.9, 0.5, -50.5, float(MOST), MOST + 0.5, 1e300,
    True, None, Typed("byte", 50), Typed("byte", -50), Typed("unsignedbyte", 50), Typed("short", 50),
    Typed("unsignedshort", 50), Typed("signedint", 50), Typed("unsignedint", 50), Typed("unsignedint", MOST),
    Typed("long", 50), Typed("float", 50.5), Typed("timestamp", 50), Decimal(50), Decimal("50.5"), [50], {"a": 50},
)  # fmt: skip

TYPES: Final = ("direct", "fanout", "topic", "headers")
DELAYS: Final = (WAIT, Typed("signedint", WAIT), str(WAIT), WAIT + 0.5, Typed("short", WAIT), 0, -WAIT, MOST, MOST + 1)


@contextmanager
def types_from_pika() -> Iterator[None]:
    """Let pika read field values as pairs of their type on the wire and the value."""
    plain = pika.data.decode_value

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        value, end = plain(encoded, offset)
        return [encoded[offset : offset + 1].decode(), _as_json(value)], end

    with mock.patch("pika.data.decode_value", decode_value):
        yield


def _as_json(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str, list, dict)) else repr(value)


def names(case: int) -> tuple[list[str], list[str]]:
    """Return the names of the exchanges and queues of a case."""
    return [f"hashstar-{case}-{letter}" for letter in "xyz"], [f"hashstar-{case}-{number}" for number in (1, 2, 3)]


def make_case(number: int) -> dict[str, Any]:
    """Make a topology with one or more delayed exchanges, and messages."""
    rng = Random(f"delayed/{number}")
    exchanges, queues = names(number)
    made: list[dict[str, Any]] = []
    for name in exchanges:
        inner, arguments = rng.choice(TYPES), dict[str, Any]()
        if rng.random() < 0.6:
            arguments["alternate-exchange"] = rng.choice([each for each in exchanges if each != name])
        delayed = name == exchanges[0] or rng.random() < 0.4
        if delayed:
            arguments["x-delayed-type"] = inner
        made.append({"name": name, "type": "x-delayed-message" if delayed else inner, "arguments": arguments})
    bindings: list[dict[str, Any]] = []
    for _ in range(rng.randint(2, 7)):
        source = rng.choice(made)
        kind = source["arguments"].get("x-delayed-type", source["type"])
        to_queue = rng.random() < 0.7
        destination = rng.choice(queues if to_queue else exchanges)
        key = rng.choice(("a", "b", "a.b") if kind != "topic" else ("a", "#", "*.b", "a.#"))
        arguments = {}
        if kind == "headers":
            wanted: tuple[dict[str, Any], ...] = (
                {"h": 1}, {"h": 1, "x-match": "any"}, {"x-delay": WAIT, "x-match": "any-with-x"},
                {"x-delay": -WAIT, "x-match": "all-with-x"}, {"x-delay": -WAIT, "x-match": "all"},
            )  # fmt: skip
            arguments = rng.choice(wanted)
        bindings.append({"source": source["name"], "kind": "queue" if to_queue else "exchange",
                         "destination": destination, "key": key, "arguments": arguments})  # fmt: skip
    messages = []
    for _ in range(6):
        headers: dict[str, Any] = {}
        if rng.random() < 0.85:
            headers["x-delay"] = rng.choice(DELAYS)
        more = (("h", 1, 0.4), ("CC", ["b"], 0.15), ("BCC", ["a.b"], 0.15))
        headers |= {name: value for name, value, share in more if rng.random() < share}
        messages.append({"exchange": rng.choice((exchanges[0], *exchanges)), "key": rng.choice(("a", "b", "a.b", "c")),
                         "headers": headers})  # fmt: skip
    return {"exchanges": made, "queues": queues, "bindings": bindings, "messages": messages}


def declare(channel: Any, case: Mapping[str, Any]) -> None:
    """Declare the topology of a case."""
    for each in case["exchanges"]:
        channel.exchange_declare(each["name"], each["type"], arguments=each["arguments"])
    for name in case["queues"]:
        channel.queue_declare(name)
    for each in case["bindings"]:
        if each["kind"] == "queue":
            channel.queue_bind(each["destination"], each["source"], each["key"], each["arguments"])
        else:
            channel.exchange_bind(each["destination"], each["source"], each["key"], each["arguments"])


def delete(channel: Any, case: Mapping[str, Any]) -> None:
    """Delete the topology of a case."""
    for each in case["exchanges"]:
        channel.exchange_delete(each["name"])
    for name in case["queues"]:
        channel.queue_delete(name)


def drain(channel: Any, queues: list[str]) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """Yield what is in the queues, and take it out: queue, body and headers."""
    for queue in queues:
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                break
            yield queue, body, properties.headers or {}


def record_cases(url: str, first: int, count: int) -> list[dict[str, Any]]:
    """Ask a broker about some cases at once."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _, __, ___, body: returned.append(body))
    cases = [make_case(number) for number in range(first, first + count)]
    for case in cases:
        delete(channel, case)
        declare(channel, case)
    queues = [name for case in cases for name in case["queues"]]
    began = time.monotonic()
    # A transaction is committed when the queues have the messages.
    publishing = connection.channel()
    publishing.add_on_return_callback(lambda _, __, ___, body: returned.append(body))
    publishing.tx_select()
    for number, case in enumerate(cases):
        for at, message in enumerate(case["messages"]):
            properties = pika.BasicProperties(headers=message["headers"])
            publishing.basic_publish(message["exchange"], message["key"], f"{number} {at}".encode(), properties, True)
    publishing.tx_commit()
    found: dict[bytes, tuple[list[Any], list[Any]]] = {}
    for moment in (0, 1):
        for queue, body, headers in drain(channel, queues):
            found.setdefault(body, ([], []))[moment].append([queue, headers])
        if not moment:
            late = time.monotonic() - began
            if late > WAIT / 1000 - 0.5:
                raise SystemExit(f"too slow to tell at once from later: {late:.1f} s")
            connection.sleep(2 * WAIT / 1000 + 0.5)
    for number, case in enumerate(cases):
        for at, message in enumerate(case["messages"]):
            body = f"{number} {at}".encode()
            now, later = found.get(body, ([], []))
            message |= {"returned": body in returned, "now": now, "later": later}
            message["headers"] = encode_table(message["headers"])
        for each in case["bindings"]:
            each["arguments"] = encode_table(each["arguments"])
        delete(channel, case)
    connection.close()
    return cases


def record_value(url: str, value: Any) -> Any:
    """Return whether a message with this value of x-delay is returned, and the header as it arrives within a second."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _, __, ___, body: returned.append(body))
    name = unique_name("delayed")
    channel.exchange_declare(name, "x-delayed-message", auto_delete=True, arguments={"x-delayed-type": "fanout"})
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, name)
    try:
        publishing = connection.channel()
        publishing.add_on_return_callback(lambda _, __, ___, body: returned.append(body))
        publishing.tx_select()
        publishing.basic_publish(name, "", b"1", pika.BasicProperties(headers={"x-delay": value}), True)
        publishing.tx_commit()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            method, properties, _ = channel.basic_get(queue, auto_ack=True)
            if method is not None:
                return [bool(returned), properties.headers["x-delay"]]
            connection.sleep(0.02)
        return [bool(returned), None]
    except AMQPError as error:
        return f"{error.args[0]} {error.args[1]}" if len(error.args) > 1 else repr(error)
    finally:
        if connection.is_open:
            connection.close()


def record(url: str, note: str) -> None:
    """Ask one broker, and write its answers."""
    version = amqp_version(url)
    with all_types_in_pika(), types_from_pika():
        given: dict[str, Any] = {"note": note} if note else {}
        given["values"] = [record_value(url, value) for value in VALUES]
        given["cases"] = [case for first in range(0, 60, 10) for case in record_cases(url, first, 10)]
    golden.write(f"rabbitmq-delayed-{'.'.join(version.split('.')[:2])}", "RabbitMQ", version, given)


if __name__ == "__main__":
    record(sys.argv[1], " ".join(sys.argv[2:]))
