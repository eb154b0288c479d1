"""JSON Schemas of outputs, made of the classes of their values (`exchange.values.documents`), or of TypedDicts.

mypy checks that values have the types of their fields, and the schema follows from these. A field's description is the
docstring below it, for which the source is read. A schema allows fields that it does not have, as later releases add
some.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from exchange.values.documents import LISTS, MAPPINGS, Field, find_encoding, is_document, list_fields, name_of
from exchange.values.json_types import Definition

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"
"""The dialect for files of TOML, as editors have it."""

VERSION: Final = 1
"""Version of all schemas; see docs/versioning.md."""

PLAIN: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    date: {"type": "string"},
    datetime: {"type": "string"},
}
"""Type -> its schema."""

MARKUP: Final = re.compile(r"``([^`]*)``")
NONE: Final = re.compile(r"\bNone\b")


def identify(name: str) -> str:
    """Return the ``$id`` of a schema. It names the version, and is no address: schemas are printed and shipped."""
    return f"urn:hashstar:schema:{name}:{VERSION}"


def build_schema(kinds: Sequence[Any], name: str, title: str) -> dict[str, Any]:
    """Return the JSON Schema of values of one of these classes or TypedDicts; ``name`` makes its ``$id``.

    Raises TypeError for a type that JSON lacks.
    """
    definitions: dict[str, Any] = {}
    schema = _union([_schema(kind, definitions) for kind in kinds])
    if len(kinds) == 1:  # it is the root, not a definition
        schema = definitions.pop(name_of(kinds[0]))
    rest = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {"$schema": DIALECT, "$id": identify(name), "title": title, **schema, **rest}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; types with a name become definitions, to which it refers."""
    if kind in PLAIN:
        return dict(PLAIN[kind])
    written = find_encoding(kind)
    if written is not None:
        return _schema(written.kind, definitions)
    if is_typeddict(kind) or is_document(kind):
        name = name_of(kind)
        if name not in definitions:
            definitions[name] = {}  # it may refer to itself
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner, *notes = arguments
        for note in notes:
            if isinstance(note, Definition):
                definitions[note.name] = dict(note.schema)
                return {"$ref": f"#/$defs/{note.name}"}
        return _schema(inner, definitions)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union([_schema(each, definitions) for each in arguments])
    if origin in LISTS:
        if len(arguments) == 1 or arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], definitions)}
        items = [_schema(each, definitions) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in MAPPINGS:
        names = _schema(arguments[0], definitions)
        limited = {} if arguments[0] is str else {"propertyNames": names}
        return {"type": "object", **limited, "additionalProperties": _schema(arguments[1], definitions)}
    raise TypeError(f"{kind!r} has no JSON Schema")


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of one of several; plain types are joined: ``{"type": ["string", "null"]}``."""
    schemas = [each for one in schemas for each in (one["anyOf"] if one.keys() == {"anyOf"} else [one])]
    plain = [each["type"] for each in schemas if each.keys() == {"type"}]
    plain = list(dict.fromkeys([name for each in plain for name in ([each] if isinstance(each, str) else each)]))
    others = [each for each in schemas if each.keys() != {"type"}]
    joined: list[dict[str, Any]] = [{"type": plain[0] if len(plain) == 1 else plain}] if plain else []
    every = [*others, *joined]
    return every[0] if len(every) == 1 else {"anyOf": every}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    if is_typeddict(kind):
        about = describe_fields(kind)
        for name, field in get_type_hints(kind, include_extras=True).items():
            is_required = get_origin(field) is not NotRequired
            schema = _schema(field if is_required else get_args(field)[0], definitions)
            properties[name] = {**_describe(about.get(name, "")), **schema}
            required += [name] * is_required
    else:
        for each in list_fields(kind):
            _add_field(each, properties, required, definitions)
    described = _describe(NONE.sub("null", _first_paragraph(kind.__doc__ or "")))
    return {**described, "type": "object", "properties": properties, "required": required}


def _describe(text: str) -> dict[str, str]:
    return {"description": text} if text else {}


def _add_field(field: Field, properties: dict[str, Any], required: list[str], definitions: dict[str, Any]) -> None:
    """Add a field of a class to the properties of its object."""
    kind = field.kind
    if field.is_spread:
        written = find_encoding(kind)
        inner = _object(kind if written is None else written.kind, definitions)
        properties |= inner["properties"]
        required += inner["required"]
        return
    if field.if_any and get_origin(kind) in (Union, types.UnionType):
        kind = Union[tuple([each for each in get_args(kind) if each is not types.NoneType])]  # noqa: UP007
    if field.or_null:
        kind = kind | None
    properties[field.name] = {**_describe(_describe_field(field)), **_schema(kind, definitions)}
    required += [field.name] * (not field.if_any)


def _describe_field(field: Field) -> str:
    """Return the docstring of a field, a property, or the function that makes it; what is None is null in JSON."""
    member = vars(field.owner).get(field.attribute) if field.attribute else field.owner
    function = getattr(member, "fget", member)
    text = describe_fields(field.owner).get(field.attribute, "") if field.attribute else ""
    text = text or (_first_paragraph(function.__doc__ or "") if callable(function) else "")
    text = text.replace('""', "null") if field.or_null else text
    if field.if_any:
        return NONE.sub("absent", text)
    return NONE.sub("null", text.replace("None ", "Null ", 1) if text.startswith("None ") else text)


def describe_fields(kind: Any) -> dict[str, str]:
    """Return the docstrings of a class's fields, those of its bases included."""
    module = sys.modules[kind.__module__]
    node = _classes(module.__name__).get(kind.__name__)
    if node is None:  # made by a call, which has no place for docstrings
        return {}
    found: dict[str, str] = {}
    for base in node.bases:
        above = getattr(module, base.id, None) if isinstance(base, ast.Name) else None
        found |= describe_fields(above) if isinstance(above, type) else {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            constant = text.value
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                found[field.target.id] = _first_paragraph(constant.value)
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _first_paragraph(text: str) -> str:
    """Return the first paragraph of a docstring as one line, with Markdown's marks for code."""
    return MARKUP.sub(r"`\1`", " ".join(inspect.cleandoc(text).split("\n\n")[0].split()))
