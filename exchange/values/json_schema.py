"""JSON Schemas of outputs, made of the TypedDicts that the functions which build them return.

mypy checks that an output has all fields of its type and no others, and the schema follows from the type. A field's
description is the docstring below it, for which the source is read. A schema allows fields that it does not have, as
later releases add some.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Mapping, Sequence
from enum import StrEnum
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

from exchange.values.json_types import Definition

__all__ = ["DIALECT", "DRAFT_07", "describe_fields", "identify", "schema_of"]

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
}
"""Type -> its schema."""

MARKUP: Final = re.compile(r"``([^`]*)``")


def identify(name: str) -> str:
    """Return the ``$id`` of a schema. It names the version, and is no address: schemas are printed and shipped."""
    return f"urn:hashstar:schema:{name}:{VERSION}"


def schema_of(kinds: Sequence[Any], name: str, title: str) -> dict[str, Any]:
    """Return the JSON Schema of values of one of these TypedDicts; ``name`` makes its ``$id``.

    Raises TypeError for a type that JSON lacks.
    """
    definitions: dict[str, Any] = {}
    schema = _union([_schema(kind, definitions) for kind in kinds])
    if len(kinds) == 1:  # it is the root, not a definition
        schema = definitions.pop(_name(kinds[0]))
    rest = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {"$schema": DIALECT, "$id": identify(name), "title": title, **schema, **rest}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; types with a name become definitions, to which it refers."""
    if kind in PLAIN:
        return dict(PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(each) for each in kind]}
    if is_typeddict(kind):
        name = _name(kind)
        if name not in definitions:
            definitions[name] = {}  # it may refer to itself
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
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
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], definitions)}
        items = [_schema(each, definitions) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        names = _schema(arguments[0], definitions)
        limited = {} if arguments[0] is str else {"propertyNames": names}
        return {"type": "object", **limited, "additionalProperties": _schema(arguments[1], definitions)}
    raise TypeError(f"{kind!r} has no JSON Schema")


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of one of several; plain types are joined: ``{"type": ["string", "null"]}``."""
    plain = [each["type"] for each in schemas if each.keys() == {"type"}]
    others = [each for each in schemas if each.keys() != {"type"}]
    joined: list[dict[str, Any]] = [{"type": plain[0] if len(plain) == 1 else plain}] if plain else []
    every = [*others, *joined]
    return every[0] if len(every) == 1 else {"anyOf": every}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = get_type_hints(kind, include_extras=True)
    about = describe_fields(kind)
    properties: dict[str, Any] = {}
    required = []
    for name, field in fields.items():
        inner = field
        if get_origin(field) is NotRequired:
            (inner,) = get_args(field)
        else:
            required.append(name)
        description = {"description": about[name]} if name in about else {}
        properties[name] = {**description, **_schema(inner, definitions)}
    text = _first_paragraph(kind.__doc__ or "")
    described = {"description": text} if text else {}
    return {**described, "type": "object", "properties": properties, "required": required}


def _name(kind: Any) -> str:
    return str(kind.__name__).lstrip("_")


def describe_fields(kind: Any) -> dict[str, str]:
    """Return the docstrings of a class's fields, those of its bases included."""
    module = sys.modules[kind.__module__]
    node = _classes(module.__name__).get(kind.__name__)
    if node is None:  # made by a call, which has no place for docstrings
        return {}
    found: dict[str, str] = {}
    for base in node.bases:
        above = getattr(module, base.id, None) if isinstance(base, ast.Name) else None
        found |= describe_fields(above) if is_typeddict(above) else {}
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
