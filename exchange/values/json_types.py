"""The types of JSON that several outputs share: field values, messages, bindings.

`exchange.values.json_schema` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypedDict

from exchange.limits import SHORTSTR_BYTES
from exchange.values.field_values import RANGES


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A JSON Schema with a name, for ``Annotated[Any, Definition(...)]``, where Python has no type for the values."""

    name: str
    schema: Mapping[str, Any]


FIELD: Final = {"$ref": "#/$defs/Field"}
TABLE: Final = {"type": "object", "additionalProperties": FIELD}
BASE64: Final = {"type": "string", "contentEncoding": "base64"}
FLOAT: Final = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
BYTES: Final = {
    "type": "object",
    "properties": {"!bytes": BASE64},
    "required": ["!bytes"],
    "additionalProperties": False,
}

TYPED: Final[Mapping[str, Any]] = {
    **{f"!{kind}": {"type": "integer", "minimum": low, "maximum": high} for kind, (low, high) in RANGES.items()},
    "!void": {"type": "null"},
    "!bool": {"type": "boolean"},
    "!float": FLOAT,
    "!double": FLOAT,
    "!decimal": {"type": "string", "pattern": r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"},
    "!longstr": {"anyOf": [{"type": "string"}, BYTES]},
    "!bytes": BASE64,
    "!binary": BASE64,
    "!array": {"type": "array", "items": FIELD},
    "!table": TABLE,
}
"""The only key of a typed value -> schema of its value; those that `exchange.values.field_json` reads."""

FieldJson: TypeAlias = Annotated[
    Any,
    Definition(
        "Field",
        {
            "description": 'A field value of AMQP: plain JSON where that determines the type, else `{"!type": value}`.',
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": FIELD},
                {
                    "type": "object",
                    "properties": TYPED,
                    "additionalProperties": False,
                    "minProperties": 1,
                    "maxProperties": 1,
                },
                {  # an object whose only key begins with "!" is a typed value, and never a table
                    **TABLE,
                    "anyOf": [
                        {"minProperties": 2},
                        {"maxProperties": 0},
                        {"propertyNames": {"not": {"pattern": "^!"}}},
                    ],
                },
            ],
        },
    ),
]
"""A field value as `exchange.values.field_json.encode` writes it."""

BytesJson: TypeAlias = Annotated[
    Any,
    Definition(
        "Body",
        {
            "description": 'The body: a text in UTF-8, or `{"!bytes": "<base64>"}`.',
            "anyOf": [{"type": "string"}, BYTES],
        },
    ),
]
"""The body of a message as `exchange.values.field_json` writes it."""

ShortText: TypeAlias = Annotated[
    Any,
    Definition(
        "ShortText",
        {
            "description": f"A text of at most {SHORTSTR_BYTES} bytes in UTF-8.",
            "type": "string",
            "maxLength": SHORTSTR_BYTES,
        },
    ),
]


class MessageInput(TypedDict):
    """A message as commands read it. Each field may be absent; fields that are not here are ignored."""

    exchange: NotRequired[ShortText | None]
    """The exchange that it is published to; "" or null: the default exchange."""
    routing_key: NotRequired[ShortText]
    headers: NotRequired[dict[str, FieldJson] | None]
    properties: NotRequired[dict[str, FieldJson] | None]
    """The basic properties, such as `message_id` and `timestamp`."""
    body: NotRequired[BytesJson | None]


class BodilessJson(TypedDict):
    """A message as commands write it, and read it, without its body."""

    exchange: str
    """The exchange that it is published to; "" is the default exchange."""
    routing_key: str
    headers: NotRequired[dict[str, FieldJson]]
    """Absent if it has none."""
    properties: NotRequired[dict[str, FieldJson]]
    """The basic properties; absent if it has none."""


class MessageJson(BodilessJson):
    """A message as commands write it, and read it."""

    body: NotRequired[BytesJson]
    """Absent if it is empty."""


class BindingJson(TypedDict):
    """A binding, with the field names of RabbitMQ's definitions."""

    source: str
    """The exchange; "" is the default exchange."""
    destination_type: str
    """`queue` or `exchange`."""
    destination: str
    routing_key: str
    arguments: dict[str, FieldJson]
