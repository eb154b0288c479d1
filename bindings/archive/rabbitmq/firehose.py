"""The firehose: RabbitMQ's copies of all published messages when tracing is on (`rabbit_trace.erl`).

A message to ``amq.rabbitmq.trace`` with the key ``publish.<exchange>`` is a copy: it has the published body, and in its
headers the exchange, the routing keys (its own, those of CC, those of BCC), the properties and the queues that the
message was routed to. An archive of copies, in whatever format, is read as the messages that were published; copies of
deliveries, with the key ``deliver.<queue>``, are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bindings.archive.reading import Skipped
from bindings.archive.record import Record
from exchange.errors import InputError
from exchange.values.field_values import Typed, resolve_type
from exchange.values.message import Message

EXCHANGE: Final = "amq.rabbitmq.trace"
DELIVERY: Final = Skipped("a delivery to a consumer, not a publishing")


def unwrap(message: Message) -> Record | Skipped:
    """Return the published message of which a firehose message is a copy. Raises InputError if it is no such copy."""
    if message.routing_key.startswith("deliver."):
        return DELIVERY
    if not message.routing_key.startswith("publish."):
        raise InputError("a message of the firehose that is neither publish. nor deliver.")
    headers = message.headers
    keys = _read_names(headers, "routing_keys")
    routed = _read_names(headers, "routed_queues") if "routed_queues" in headers else None
    properties = headers.get("properties", {})
    if not isinstance(properties, Mapping):
        raise InputError("firehose: properties is not a table")
    return build_record(
        _read_name(headers, "exchange_name"), keys, properties, message.body, _read_name(headers, "vhost"), routed
    )


def build_record(
    exchange: str,
    keys: Sequence[str],
    properties: Mapping[str, Any],
    body: bytes,
    vhost: str | None,
    routed_queues: Sequence[str] | None,
) -> Record:
    """Return the record of a published message; ``properties`` include its headers.

    The broker removes the header BCC before it makes the copy, so keys that are not in CC are put back into BCC.
    """
    if not keys:
        raise InputError("there is no routing key")
    headers = properties.get("headers", {})
    if not isinstance(headers, Mapping):
        raise InputError("the headers are not a table")
    if len(keys) > 1:
        hidden = list(keys[1:])  # of CC and BCC; the loop removes each key of CC once, as a key may occur twice
        for key in Message(headers={"CC": headers["CC"]}).routing_keys()[1:] if "CC" in headers else ():
            if key in hidden:
                hidden.remove(key)
        if hidden:
            headers = {**headers, "BCC": [_encode_longstr(key) for key in hidden]}
    rest = {name: value for name, value in properties.items() if name != "headers"}
    queues = None if routed_queues is None else tuple(routed_queues)
    return Record(Message(exchange, keys[0], headers, rest, body), vhost=vhost, routed_queues=queues)


def _encode_longstr(key: str) -> Any:
    """Return a routing key as a header value; bytes that are not UTF-8 need an explicit type."""
    if key.isascii():
        return key
    try:
        data = key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate from JSON
        return key
    return Typed("longstr", data)


def _read_name(headers: Mapping[str, Any], header: str) -> str:
    kind, value = resolve_type(headers.get(header))
    if kind != "longstr":
        raise InputError(f"firehose: {header} is not a name")
    return str(value.decode("utf-8", "surrogateescape"))


def _read_names(headers: Mapping[str, Any], header: str) -> list[str]:
    kind, items = resolve_type(headers.get(header))
    if kind != "array" or any(inner != "longstr" for inner, _ in items):
        raise InputError(f"firehose: {header} is not an array of names")
    return [value.decode("utf-8", "surrogateescape") for _, value in items]
