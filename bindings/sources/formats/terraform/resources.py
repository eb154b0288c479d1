"""The resources of Terraform's provider cyrilgdn/rabbitmq: which part of a topology the attributes of each make.

Attributes, defaults and conversions are the provider's: exchanges and queues are transient unless they state something
else; ``arguments`` are texts, whatever is written; numbers of ``arguments_json`` are 64-bit floats on their way; a text
in the definition of a policy that looks like an integer is sent as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from bindings.sources.definitions.entries import DESTINATIONS
from bindings.sources.formats.go_json import encode_as_go
from bindings.sources.formats.imported import Collector
from bindings.sources.formats.nodes import DocumentNode, parse_json_node
from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.errors import InputError
from exchange.text.display import clip_line
from exchange.values.field_json import decode_table
from exchange.values.field_values import FieldTable

PROVIDER: Final = "rabbitmq_"
"""What the types of the provider's resources begin with."""
NO_PARTS: Final = frozenset({"rabbitmq_permissions", "rabbitmq_topic_permissions", "rabbitmq_user"})
"""Types of the provider's resources that are no part of a topology."""
MOVERS: Final = frozenset({"rabbitmq_federation_upstream", "rabbitmq_shovel"})
"""Types of resources that move messages, and change no route: in definitions they are parameters."""
INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}")
"""What Go's ``strconv.ParseInt`` reads, but for the limits of 64 bits."""


def read_resource(collector: Collector, kind: str, address: str, node: DocumentNode) -> None:
    """Add what a resource of a type in `READERS` makes, by its attributes. Raises InputError for a mistake in them."""
    blocks = [(node.fields()[name], known) for name, known in BLOCKS.get(kind, {}).items() if name in node.fields()]
    inner = [(item, known) for block, known in blocks if isinstance(block.value, list) for item in block.items()]
    for each, known in [(node, ATTRIBUTES[kind]), *inner]:
        for stranger, reason in each.unknown(known):
            if stranger.value is not None:  # a plan has all attributes, null if they are not given
                collector.miss(stranger, "unknown", f"{address}: {reason}")
    READERS[kind](collector, node)


def _text(node: DocumentNode, name: str, default: str | None = None) -> str:
    """Return an attribute as a text, as Terraform converts numbers and bools."""
    value = node.get(name)
    if value is not None and isinstance(value.value, (bool, int, float)):
        return _as_text(value.value)
    return node.text(name, default)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _flag(node: DocumentNode, name: str) -> bool:
    value = node.get(name)
    if value is not None and value.value in ("true", "false"):
        return bool(value.value == "true")
    return node.flag(name, default=False)


def _block(node: DocumentNode, name: str) -> DocumentNode:
    """Return the only block of a type."""
    value = node.get(name)
    if value is None:
        raise node.error(f"it has no block {name!r}")
    items = value.items()
    if len(items) != 1:
        raise value.error(f"there are {len(items)} blocks {name!r}; there must be one")
    return items[0]


def _arguments(node: DocumentNode) -> FieldTable:
    plain, as_json = node.get("arguments"), node.get("arguments_json")
    if plain is not None and plain.fields() and as_json is not None and as_json.value:
        raise as_json.error("arguments and arguments_json are both given; the provider takes one of them")
    if as_json is not None and as_json.value:
        text = node.text("arguments_json")
        try:
            inner = parse_json_node(text, "arguments_json")
            inner.fields()
            return FieldTable(decode_table(encode_as_go(inner.plain()), "arguments_json"))
        except InputError as error:
            raise as_json.error(str(error)) from None
    if plain is None:
        return FieldTable()
    return FieldTable({name: _scalar_text(value) for name, value in plain.fields().items() if value.value is not None})


def _scalar_text(node: DocumentNode) -> str:
    if isinstance(node.value, (dict, list)):
        raise node.error(f"{node.shown()} is not a text; the provider takes lists and objects in arguments_json only")
    return node.value if isinstance(node.value, str) else _as_text(node.value)


def _read_vhost(collector: Collector, node: DocumentNode) -> None:
    settings: dict[str, Any] = {}
    for name in ("description", "default_queue_type"):
        if value := _text(node, name, ""):
            settings[name] = value
    if _flag(node, "tracing"):
        settings["tracing"] = True
    limits: dict[str, int] = {}
    for name, limit in LIMITS.items():
        text = _text(node, name, "")
        if text and not INTEGER.fullmatch(text):
            raise node.fields()[name].error(f"{clip_line(text, 40)!r} is not a number")
        if text:
            limits[limit] = int(text)
    collector.add_vhost(_text(node, "name"), settings, limits)


def _read_exchange(collector: Collector, node: DocumentNode) -> None:
    block = _block(node, "settings")
    durable, auto_delete = _flag(block, "durable"), _flag(block, "auto_delete")
    exchange = Exchange(_text(node, "name"), _text(block, "type"), durable, auto_delete, arguments=_arguments(block))
    collector.add(_text(node, "vhost", "/"), exchange, node)


def _read_queue(collector: Collector, node: DocumentNode) -> None:
    block = _block(node, "settings")
    durable, auto_delete = _flag(block, "durable"), _flag(block, "auto_delete")
    queue = Queue(_text(node, "name"), durable, auto_delete, _arguments(block))
    collector.add(_text(node, "vhost", "/"), queue, node)


def _read_binding(collector: Collector, node: DocumentNode) -> None:
    kind = _text(node, "destination_type")
    if kind not in DESTINATIONS:
        raise node.fields()["destination_type"].error(f'{kind!r} is neither "queue" nor "exchange"')
    destination = Destination(DESTINATIONS[kind], _text(node, "destination"))
    key, arguments = _text(node, "routing_key", ""), _arguments(node)
    collector.add(_text(node, "vhost"), Binding(_text(node, "source"), destination, key, arguments), node)


def _policy(node: DocumentNode) -> Policy:
    block = _block(node, "policy")
    definition = block.fields().get("definition")
    if definition is None:
        raise block.error("it has no definition")
    given = {} if definition.value is None else definition.fields()  # Terraform plans an empty map as null
    fields: dict[str, Any] = {name: _scalar_text(value) for name, value in given.items() if value.value is not None}
    if fields.get("ha-mode") == "nodes" and "ha-params" in fields:
        fields["ha-params"] = fields["ha-params"].split(",")
    for name, value in fields.items():
        if isinstance(value, str) and INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63:
            fields[name] = int(value)
    priority = _text(block, "priority")
    if not INTEGER.fullmatch(priority):
        raise block.fields()["priority"].error(f"{clip_line(priority, 40)!r} is not an integer")
    return Policy(_text(node, "name"), _text(block, "pattern"), fields, _text(block, "apply_to"), int(priority))


def _read_policy(collector: Collector, node: DocumentNode) -> None:
    collector.add(_text(node, "vhost"), _policy(node), node)


def _read_operator_policy(collector: Collector, node: DocumentNode) -> None:
    collector.add_operator_policy(_text(node, "vhost"), _policy(node))


READERS: Final[Mapping[str, Callable[[Collector, DocumentNode], None]]] = {
    "rabbitmq_vhost": _read_vhost, "rabbitmq_exchange": _read_exchange, "rabbitmq_queue": _read_queue,
    "rabbitmq_binding": _read_binding, "rabbitmq_policy": _read_policy,
    "rabbitmq_operator_policy": _read_operator_policy,
}  # fmt: skip
"""Type of a resource -> the function that reads it."""
ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "rabbitmq_vhost": (
        "id", "name", "description", "default_queue_type", "tracing", "max_connections", "max_queues",
    ),
    "rabbitmq_exchange": ("id", "name", "vhost", "settings"),
    "rabbitmq_queue": ("id", "name", "vhost", "settings"),
    "rabbitmq_binding": (
        "id", "source", "vhost", "destination", "destination_type", "properties_key", "routing_key", "arguments",
        "arguments_json",
    ),
    "rabbitmq_policy": ("id", "name", "vhost", "policy"),
    "rabbitmq_operator_policy": ("id", "name", "vhost", "policy"),
}  # fmt: skip
BLOCKS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "rabbitmq_exchange": {"settings": ("type", "durable", "auto_delete", "arguments")},
    "rabbitmq_queue": {"settings": ("durable", "auto_delete", "arguments", "arguments_json")},
    "rabbitmq_policy": {"policy": ("pattern", "priority", "apply_to", "definition")},
    "rabbitmq_operator_policy": {"policy": ("pattern", "priority", "apply_to", "definition")},
}
"""Type of a resource -> its block, and the attributes in it."""
LIMITS: Final = {"max_connections": "max-connections", "max_queues": "max-queues"}
