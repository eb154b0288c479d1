"""A part of a topology, whichever it is, and its JSON in findings and changes: its kind and what names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.values.documents import As, write_as
from exchange.values.field_json import encode_table
from exchange.values.json_types import BindingJson

__all__ = ["BindingPartJson", "NamedPartJson", "Part", "PartJson", "encode_binding", "part_json"]


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


def part_json(part: Exchange | Queue | Binding | Policy) -> PartJson:
    """Return the kind and the name of a part as JSON values, with the field names of RabbitMQ."""
    if isinstance(part, Binding):
        return {"kind": "binding", **encode_binding(part)}
    return {"kind": KINDS[type(part)], "name": part.name}


KINDS: Final[Mapping[type, Literal["exchange", "queue", "policy"]]] = {
    Exchange: "exchange",
    Queue: "queue",
    Policy: "policy",
}

Part: TypeAlias = Annotated[Exchange | Queue | Binding | Policy, As(part_json, PartJson)]
