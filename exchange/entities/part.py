"""An exchange, queue, binding or policy: its JSON in findings and changes, and the AMQP method that declares it.

Arguments have the names of `exchange.amqp.methods`. Those that no part has, such as ``nowait``, are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.values.documents import As, write_as
from exchange.values.field_json import encode_table
from exchange.values.json_types import BindingJson


class NamedPartJson(TypedDict):
    """An exchange, a queue or a policy."""

    kind: Literal["exchange", "queue", "policy"]
    name: str


class BindingPartJson(BindingJson):
    """A binding."""

    kind: Literal["binding"]


PartJson: TypeAlias = NamedPartJson | BindingPartJson


def encode_binding(binding: Binding) -> BindingJson:
    """Return the fields of a binding as RabbitMQ's definitions name them."""
    return {
        "source": binding.source,
        "destination_type": binding.destination.kind,
        "destination": binding.destination.name,
        "routing_key": binding.routing_key,
        "arguments": encode_table(binding.arguments),
    }


write_as(Binding, encode_binding, BindingJson)


def encode_part(part: Exchange | Queue | Binding | Policy) -> PartJson:
    """Return the kind and the name of a part as JSON values, with the field names of RabbitMQ."""
    if isinstance(part, Binding):
        return {"kind": "binding", **encode_binding(part)}
    return {"kind": KINDS[type(part)], "name": part.name}


KINDS: Final[Mapping[type, Literal["exchange", "queue", "policy"]]] = {
    Exchange: "exchange",
    Queue: "queue",
    Policy: "policy",
}

Part: TypeAlias = Annotated[Exchange | Queue | Binding | Policy, As(encode_part, PartJson)]


def decode_exchange(given: Mapping[str, Any]) -> Exchange:
    """Return the exchange that the arguments of ``exchange.declare`` describe."""
    return Exchange(
        given["exchange"], given["type"], given["durable"], given["auto_delete"], given["internal"], given["arguments"]
    )


def decode_queue(given: Mapping[str, Any]) -> Queue:
    """Return the queue that the arguments of ``queue.declare`` describe."""
    return Queue(given["queue"], given["durable"], given["auto_delete"], given["arguments"])


def decode_binding(given: Mapping[str, Any]) -> Binding:
    """Return the binding that the arguments of ``bind`` or ``unbind``, of a queue or an exchange, describe."""
    key, arguments = given["routing_key"], given["arguments"]
    if "queue" in given:
        return Binding.to_queue(given["exchange"], given["queue"], key, arguments)
    return Binding.to_exchange(given["source"], given["destination"], key, arguments)


def encode_declaration(part: Exchange | Queue | Binding) -> tuple[str, dict[str, Any]]:
    """Return the name of the method that declares or binds a part, and its arguments."""
    if isinstance(part, Exchange):
        flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
        named = {"exchange": part.name, "type": part.type}
        return "exchange.declare", {**named, **flags, "passive": False, "arguments": part.arguments}
    if isinstance(part, Queue):
        flags = {"durable": part.durable, "auto_delete": part.auto_delete, "exclusive": False}
        return "queue.declare", {"queue": part.name, **flags, "passive": False, "arguments": part.arguments}
    kind, name = part.destination
    key = {"routing_key": part.routing_key, "arguments": part.arguments}
    if kind == "queue":
        return "queue.bind", {"queue": name, "exchange": part.source, **key}
    return "exchange.bind", {"destination": name, "source": part.source, **key}


def with_last_queue(method: str, given: Mapping[str, Any], last: str) -> Mapping[str, Any]:
    """Return the arguments of a method with the last declared queue of the channel in place of "".

    As RabbitMQ reads them: an empty routing key beside an empty name stands for the queue, too.
    """
    if method == "queue.declare" or given.get("queue") != "":
        return given
    return {**given, "queue": last, **({"routing_key": last} if given.get("routing_key") == "" else {})}
