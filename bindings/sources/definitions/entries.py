"""The entries of a definitions file: each exchange, queue, policy and binding with the JSON that it was read from.

Invariant: ``entry.object()`` is the JSON object that the entry was read from, the order of its keys included. If its
part is replaced, only the fields that differ are rewritten. Bindings become compact entries while the text is parsed,
so that a million of them never exist as dicts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.errors import InputError
from exchange.values.field_json import decode_table, encode_table
from exchange.values.field_values import EMPTY, FieldTable, thaw
from exchange.values.json_text import JsonRefused

Object: TypeAlias = dict[str, Any]

DESTINATIONS: Final[Mapping[str, Literal["queue", "exchange"]]] = {"queue": "queue", "exchange": "exchange"}
BINDING_KEYS: Final = ("vhost", "source", "destination", "destination_type", "routing_key", "arguments")


class Entry(NamedTuple):
    """A part, and the JSON object that it was read from.

    A binding whose object can be rebuilt from its values has in ``written`` only the order of the keys, which many
    bindings share.
    """

    part: Any
    vhost: str | None  # None when it has no such field
    written: Object | tuple[str, ...]

    @classmethod
    def new(cls, part: Part, vhost: str | None) -> Entry:
        """Return the entry of a new part, as RabbitMQ writes it; without the field "vhost" if ``vhost`` is None."""
        return cls(part, vhost, BINDING_KEYS if isinstance(part, Binding) else _with_vhost(vhost, _fields(part)))

    def object(self) -> Object:
        """Return the JSON object as it is written."""
        if isinstance(self.written, dict):
            return self.written
        fields = _with_vhost(self.vhost, _fields(self.part))
        return {key: fields[key] for key in self.written if key in fields}

    def with_part(self, part: Part) -> Entry:
        """Return the entry for another part of the same kind and name: itself if nothing differs."""
        if part is self.part:
            return self
        before = _fields(self.part)
        changes = {key: value for key, value in _fields(part).items() if not is_same_json(before[key], value)}
        if not changes:
            return self
        written = {**self.object(), **changes}
        # RabbitMQ exports a queue's type beside the argument that decides it.
        if isinstance(part, Queue) and "type" in written and part.type != self.part.type:
            written["type"] = part.type
        return Entry(part, self.vhost, written)


class Compactor:
    """The JSON parser's hook for objects: makes an entry of each plain binding as soon as it is read.

    The hook does not know in which section an object is: `expand` restores the objects that are not under "bindings".
    Raises `exchange.values.json_text.JsonRefused` if a name occurs twice in an object.
    """

    def __init__(self) -> None:
        # Objects that many bindings share: orders of keys, destinations, names.
        self._orders: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._destinations: dict[tuple[str, str], Destination] = {}
        self._names: dict[str, str] = {}

    def __call__(self, pairs: list[tuple[str, Any]]) -> Object | Entry:
        # Whatever is not exactly a plain binding stays an object: `read_section` reads it, or raises the error.
        item = dict(pairs)
        if len(item) != len(pairs):
            raise JsonRefused
        if len(item) not in (5, 6):
            return item
        keys = tuple(item)
        order = self._orders.get(keys)
        if order is None:
            if {*keys, "vhost"} != {*BINDING_KEYS}:
                return item
            order = self._orders[keys] = keys
        vhost, source, kind, name = item.get("vhost", ""), item["source"], item["destination_type"], item["destination"]
        routing_key, arguments = item["routing_key"], item["arguments"]
        if not (type(vhost) is type(source) is type(kind) is type(name) is type(routing_key) is str):
            return item
        destination = self._destinations.get((kind, name))
        if destination is None:
            if kind not in DESTINATIONS:
                return item
            destination = self._destinations[kind, name] = Destination(DESTINATIONS[kind], name)
        table = EMPTY if arguments == {} else _plain(arguments)
        if table is None:
            return item
        shared = self._names.setdefault
        of_vhost = shared(vhost, vhost) if "vhost" in item else None
        return Entry(Binding(shared(source, source), destination, routing_key, table), of_vhost, order)


def _plain(arguments: Any) -> FieldTable | None:
    """Return the table, or None if writing it would not give the same JSON again."""
    try:
        table = decode_table(arguments)
    except (InputError, RecursionError):
        return None  # `read_section` raises the error, with the position
    return FieldTable(table) if table == arguments else None


def expand(value: Any) -> Any:
    """Return the JSON value with each entry replaced by its object."""
    if isinstance(value, Entry):
        return value.object()
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item) for item in value]
    return value


def read_section(key: str, section: Any) -> Any:
    """Return the value of one key of the file, as entries if it is one of SECTIONS. Raises InputError."""
    if key in SECTIONS:
        _require(isinstance(section, list), key, section, "not an array")
        return [
            item if key == "bindings" and type(item) is Entry else _entry(expand(item), key, f"{key}[{index}]")
            for index, item in enumerate(section)
        ]
    section = expand(section)
    if key == "vhosts":
        _require(isinstance(section, list), key, section, "not an array")
        for index, item in enumerate(section):
            _require(isinstance(item, dict), f"vhosts[{index}]", item, "not an object")
            _text(item, "name", f"vhosts[{index}]")
    return section


def is_same_json(one: Any, another: Any) -> bool:
    """Return whether both are the same JSON, in which 1, 1.0 and true differ."""
    return ENCODE_SORTED(one) == ENCODE_SORTED(another)


def _entry(item: Any, key: str, place: str) -> Entry:
    _require(isinstance(item, dict), place, item, "not an object")
    vhost = _text(item, "vhost", place) if "vhost" in item else None
    return Entry(SECTIONS[key](item, place), vhost, item)


def _exchange(item: Object, place: str) -> Exchange:
    return Exchange(
        _text(item, "name", place),
        _text(item, "type", place),
        _flag(item, "durable", place, default=True),
        item.get("auto_delete") != UNDEFINED and _flag(item, "auto_delete", place),
        _flag(item, "internal", place),
        _arguments(item, place),
    )


def _queue(item: Object, place: str) -> Queue:
    durable = _flag(item, "durable", place, default=True)
    return Queue(_text(item, "name", place), durable, _flag(item, "auto_delete", place), _arguments(item, place))


def _policy(item: Object, place: str) -> Policy:
    definition, priority = item.get("definition"), item.get("priority", 0)
    _require(isinstance(definition, dict), f"{place}.definition", definition, "not an object")
    number = isinstance(priority, (int, float)) and not isinstance(priority, bool)
    _require(number, f"{place}.priority", priority, "not a number")
    apply_to = _text({"apply-to": "all", **item}, "apply-to", place)
    return Policy(_text(item, "name", place), _text(item, "pattern", place), dict(definition or {}), apply_to, priority)


def _binding(item: Object, place: str) -> Binding:
    kind = _text(item, "destination_type", place)
    _require(kind in DESTINATIONS, f"{place}.destination_type", kind, 'neither "queue" nor "exchange"')
    destination = Destination(DESTINATIONS[kind], _text(item, "destination", place))
    return Binding(
        _text(item, "source", place), destination, _text(item, "routing_key", place), _arguments(item, place)
    )


UNDEFINED: Final = "undefined"
"""How brokers export `auto_delete` of an exchange that was imported without it (seen on 3.10.8 and 4.3.6): false."""

SECTIONS: Final[Mapping[str, Callable[[Object, str], Part]]] = {
    "exchanges": _exchange, "queues": _queue, "policies": _policy, "bindings": _binding,
}  # fmt: skip
"""Section of a topology -> the function that reads its objects. All other sections are kept unchanged."""

SECTION_OF: Final[Mapping[type, str]] = {
    Exchange: "exchanges", Queue: "queues", Binding: "bindings", Policy: "policies",
}  # fmt: skip
"""Type of a part -> the section of its objects."""


def _text(item: Object, key: str, place: str) -> str:
    if key not in item:
        raise InputError(f'{place}: it has no "{key}"')
    _require(isinstance(item[key], str), f"{place}.{key}", item[key], "not a string")
    return str(item[key])


def _flag(item: Object, key: str, place: str, *, default: bool = False) -> bool:
    value = item.get(key, default)
    _require(isinstance(value, bool), f"{place}.{key}", value, "not true or false")
    return bool(value)


def _arguments(item: Object, place: str) -> FieldTable:
    arguments = item.get("arguments")
    if arguments is None or arguments in ({}, []):  # RabbitMQ reads an empty array as no arguments, too
        return EMPTY
    return FieldTable(decode_table(arguments, f"{place}.arguments"))


def _require(fits: bool, place: str, value: Any, wrong: str) -> None:
    if not fits:
        text = ENCODE(expand(value))
        raise InputError(f"{place}: {text if len(text) <= 60 else text[:57] + '...'} is {wrong}")


def _exchange_object(part: Exchange) -> Object:
    flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
    return {"name": part.name, "type": part.type, **flags, "arguments": encode_table(part.arguments)}


def _queue_object(part: Queue) -> Object:
    flags = {"durable": part.durable, "auto_delete": part.auto_delete}
    return {"name": part.name, **flags, "arguments": encode_table(part.arguments)}


def _policy_object(part: Policy) -> Object:
    what = {"pattern": part.pattern, "apply-to": part.apply_to, "priority": part.priority}
    return {"name": part.name, **what, "definition": thaw(part.definition)}


def _binding_object(part: Binding) -> Object:
    kind, name = part.destination
    arguments = encode_table(part.arguments) if part.arguments else {}
    ends = {"source": part.source, "destination": name, "destination_type": kind}
    return {**ends, "routing_key": part.routing_key, "arguments": arguments}


WRITERS: Final[Mapping[type[Any], Callable[[Any], Object]]] = {
    Exchange: _exchange_object, Queue: _queue_object, Policy: _policy_object, Binding: _binding_object,
}  # fmt: skip
"""Type of a part -> the function that returns its fields as RabbitMQ names them, without the virtual host."""


def _fields(part: Part) -> Object:
    return WRITERS[type(part)](part)


def _with_vhost(vhost: str | None, fields: Object) -> Object:
    return fields if vhost is None else {"vhost": vhost, **fields}


ENCODE: Final = json.JSONEncoder(check_circular=False).encode
ENCODE_SORTED: Final = json.JSONEncoder(check_circular=False, sort_keys=True).encode
