"""Frozen values as JSON documents: the fields of a class, and its annotations, are the document and its schema.

A dataclass or NamedTuple is an object with its fields, a tuple, list or frozenset a list, a mapping an object, an Enum
its value, a date ISO 8601. `document` makes a class a document, and says where that has other fields. `As` in an
annotation, or `write_as` for a whole class, says how a value is written otherwise. Whatever else raises TypeError.
"""

from __future__ import annotations

import operator
import re
import types
from ast import literal_eval
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from inspect import get_annotations
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from exchange.values.json_types import Definition

T = TypeVar("T")
Encoder: TypeAlias = Callable[[Any], Any]

PLAIN: Final = frozenset({str, int, float, bool, type(None), Any})
"""Types whose values are JSON as they are."""
BETWEEN_FIELDS: Final = re.compile(r",(?![^(]*\))")
"""A comma that is not in the parentheses of an object."""
CONSTANT: Final = frozenset("0123456789\"'")
"""What a constant begins with."""
GROUP: Final = re.compile(r"(?P<name>\w+) = (?P<kind>\w+)\((?P<fields>.*)\)")
LISTS: Final = frozenset({tuple, list, frozenset, set, Sequence, Collection, Iterable})
MAPPINGS: Final = frozenset({dict, Mapping})


@dataclass(frozen=True, slots=True)
class As:
    """In an annotation, ``Annotated[int, As(format_time, str)]``: how a value is written, and the type of its JSON."""

    encode: Encoder
    kind: Any


def with_underscores(words: Any) -> As:
    """Return how the words of a Literal are written: with underscores for blanks."""
    names = [word.replace(" ", "_") for word in get_args(words) if word]
    return As(lambda word: word.replace(" ", "_"), Literal[tuple(names)])


def by_name(kind: type[Enum], change: Callable[[str], str] = str.lower) -> As:
    """Return how an Enum is written whose members are encoded by name, not by value."""
    return As(lambda member: change(member.name), Literal[tuple(map(change, kind.__members__))])


class Field(NamedTuple):
    """A field of a document."""

    name: str
    kind: Any
    """Its type, from the annotation."""
    owner: Any
    """The class or function that its description stands in."""
    attribute: str
    """The attribute of ``owner``; "" if that is a function."""
    path: str
    """The attributes that lead from the value to it, with dots between."""
    compute: Encoder | None = None
    """Function that makes it of the value; ``path`` is "" then."""
    if_any: bool = False
    """Whether it is absent where the value is None or False."""
    or_null: bool = False
    """Whether it is null where the value is false, such as an empty text."""
    is_spread: bool = False
    """Whether the fields of its object take its place."""
    is_counted: bool = False
    """Whether it is the number of items."""


class _Layout(NamedTuple):
    name: str
    fields: str
    computed: Mapping[str, Encoder]
    source: Any
    """The class whose values it is made of."""


_LAYOUTS: Final[dict[Any, _Layout]] = {}
_WRITTEN: Final[dict[Any, As]] = {}


def document(name: str, fields: str = "", **computed: Encoder) -> Callable[[T], T]:
    """Name the document of a class, as schemas have it, and say which fields it has: without ``fields``, all.

    ``fields`` are names with commas between: an attribute, or a path such as ``use.messages`` with the last name;
    ``key = text`` gives another name; ``*binding`` puts the fields of that object here; ``cause if any`` is absent
    where it is None or False, and ``refused or null`` is null where it is false; ``plan?.epoch`` is null where ``plan``
    is None. ``files = #log.files`` is a number of items, ``version = 1`` a constant. With ``window = WindowJson(first,
    until = last)`` a field is an object of that name, of fields of the same value. The functions ``computed`` make
    fields of the value; their return type is the field's, and their docstring describes it.
    """

    def register(kind: T) -> T:
        _LAYOUTS[kind] = _Layout(name, fields, computed, kind)
        return kind

    return register


def write_as(kind: type, encode: Callable[[Any], Any], written: Any) -> None:
    """Say that values of a class are written by a function, and of which type that JSON is."""
    _WRITTEN[kind] = As(encode, written)


def find_encoding(kind: Any) -> As | None:
    """Return how values of a type are written; None for those that no `As` is for."""
    if get_origin(kind) is Annotated:
        for note in kind.__metadata__:
            if isinstance(note, As):
                return note
    return _WRITTEN.get(kind)


def is_document(kind: Any) -> bool:
    """Return whether `document` names the document of a class."""
    return kind in _LAYOUTS


def name_of(kind: Any) -> str:
    """Return the name of the definition of a class: the one that `document` gives, or that of a TypedDict."""
    return _LAYOUTS[kind].name if kind in _LAYOUTS else str(kind.__name__).lstrip("_")


@cache
def list_fields(kind: Any) -> tuple[Field, ...]:
    """Return the fields of the document of a dataclass or NamedTuple."""
    layout = _LAYOUTS[kind]
    if not layout.fields:
        names = getattr(kind, "_fields", None) or tuple(kind.__dataclass_fields__)
        return tuple([Field(name, *_annotation(kind, name), name) for name in names])
    return tuple([_read_field(layout, text.strip()) for text in BETWEEN_FIELDS.split(layout.fields)])


def _read_field(layout: _Layout, text: str) -> Field:
    kind, computed = layout.source, layout.computed
    if group := GROUP.fullmatch(text):
        inner = type(group["kind"], (), {"__doc__": ""})
        _LAYOUTS[inner] = layout._replace(name=group["kind"], fields=group["fields"])
        return Field(group["name"], inner, inner, "", "")
    rest, if_any, _ = text.partition(" if any")
    rest, or_null, _ = rest.partition(" or null")
    given, _, path = rest.rpartition(" = ")
    is_spread = path.startswith("*")
    path = path.removeprefix("*")
    name = given or path.rpartition(".")[2]
    if path[0] in CONSTANT:
        constant = literal_eval(path)
        return Field(name, Literal[constant], None, "", "", lambda _: constant)
    is_counted = path.startswith("#")
    path = path.removeprefix("#")
    notes = bool(if_any), bool(or_null), is_spread, is_counted
    if path in computed:
        function = computed[path]
        return Field(name, get_type_hints(function, include_extras=True)["return"], function, "", "", function, *notes)
    found, owner, last = kind, kind, ""
    for attribute in path.split("."):
        found, owner, last = _annotation(found, attribute.removesuffix("?"))
        found = _without_none(found) if attribute.endswith("?") else found
    if is_counted:
        return Field(name, int, None, "", path, None, *notes)
    return Field(name, found | None if "?" in path else found, owner, last, path, None, *notes)


def _annotation(kind: Any, name: str) -> tuple[Any, Any, str]:
    """Return the type of an attribute or property of a class, the class that has it, and its name."""
    for owner in (get_args(kind)[0] if get_origin(kind) is Annotated else kind).__mro__:
        own = get_annotations(owner)
        if name in own:  # alone, as the types of other fields may be imported for type checkers only
            only = type("_", (), {"__annotations__": {name: own[name]}, "__module__": owner.__module__})
            return get_type_hints(only, include_extras=True)[name], owner, name
        member = vars(owner).get(name)
        if isinstance(member, property):
            return get_type_hints(member.fget, include_extras=True)["return"], owner, name
    raise TypeError(f"{kind.__name__} has no field or property {name!r}")


def encode_as(kind: Any, value: Any) -> Any:
    """Return the JSON of a value of a type: a class, or an annotation such as ``tuple[Gate, ...]``."""
    encoder = _encoder(kind)
    return value if encoder is None else encoder(value)


@cache
def _encoder(kind: Any) -> Encoder | None:
    """Return the function that writes values of a type; None if they are JSON as they are."""
    written = find_encoding(kind)
    if written is not None:
        return written.encode
    if kind in PLAIN:
        return None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        is_json = any(isinstance(note, Definition) for note in kind.__metadata__)
        return None if is_json else _encoder(arguments[0])
    if origin is Literal:
        return None
    if origin in (Union, types.UnionType):
        return _union_encoder(arguments)
    if origin in LISTS:
        return _list_encoder(arguments)
    if origin in MAPPINGS:
        key, item = (_encoder(each) or _same for each in arguments)
        return lambda value: {key(name): item(each) for name, each in value.items()}
    if is_typeddict(kind):
        return _typeddict_encoder(kind)
    if kind in _LAYOUTS:
        return partial(_encode_value, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return operator.attrgetter("value")
    if isinstance(kind, type) and kind.__module__ == "datetime":  # which takes long to import
        return operator.methodcaller("isoformat")
    raise TypeError(f"{kind!r} has no JSON")


def _same(value: Any) -> Any:
    return value


def _union_encoder(kinds: Sequence[Any]) -> Encoder | None:
    encoders = {kind: _encoder(kind) for kind in kinds}
    special = [kind for kind, encoder in encoders.items() if encoder is not None]
    if not special:
        return None
    if len(special) == 1 and {*kinds} == {special[0], type(None)}:
        encode = encoders[special[0]]
        return lambda value: None if value is None else encode(value)  # type: ignore[misc]
    classes = {(get_args(kind)[0] if get_origin(kind) is Annotated else kind): each for kind, each in encoders.items()}
    if not all(isinstance(each, type) for each in classes):
        raise TypeError(f"{' | '.join(map(str, kinds))}: values of these types cannot be distinguished")

    def choose(value: Any) -> Any:
        encode = classes[type(value)]
        return value if encode is None else encode(value)

    return choose


def _list_encoder(arguments: Sequence[Any]) -> Encoder:
    if len(arguments) == 1 or arguments[1] is Ellipsis:
        encode = _encoder(arguments[0])
        if encode is None:
            return lambda values: sorted(values) if isinstance(values, (frozenset, set)) else list(values)
        return lambda values: [encode(value) for value in values]
    encoders = [_encoder(each) or _same for each in arguments]
    return lambda values: [encode(value) for encode, value in zip(encoders, values, strict=True)]


def _typeddict_encoder(kind: Any) -> Encoder | None:
    fields = get_type_hints(kind, include_extras=True)
    plain = {name: get_args(each)[0] if get_origin(each) is NotRequired else each for name, each in fields.items()}
    special = [(name, encode) for name, each in plain.items() if (encode := _encoder(each)) is not None]
    if not special:
        return None

    def replace(value: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(value)
        for name, encode in special:
            if name in result:
                result[name] = encode(result[name])
        return result

    return replace


@cache
def _value_encoder(kind: Any) -> Encoder:
    """Return the function that makes the object of a value.

    It is compiled, as dataclasses compile theirs: one display of a dict is faster than any loop over fields, and
    reports have rows by the hundred thousand.
    """
    scope: dict[str, Any] = {"or_null": lambda encode, value: encode(value) if value else None}
    items = []
    for number, each in enumerate(list_fields(kind)):
        path = f"value.{each.path}".rstrip(".")
        if "?." in path:
            path = "(None if (part := {}) is None else part.{})".format(*path.split("?."))
        text = f"compute{number}(value)" if each.compute is not None else f"len({path})" if each.is_counted else path
        inner = _without_none(each.kind)
        encode = _encoder(each.kind if inner is None else inner)
        scope |= {f"compute{number}": each.compute, f"encode{number}": encode or _same}
        if each.or_null:
            text = f"or_null(encode{number}, {text})"
        elif encode is not None and inner is not None:
            text = f"None if (found := {text}) is None else encode{number}(found)"
        elif encode is not None:
            text = f"encode{number}({text})"
        items.append(f"**{text}" if each.is_spread else f"{each.name!r}: {text}")
    make: Encoder = eval(f"lambda value: {{{', '.join(items)}}}", scope)  # noqa: S307  its text is our own
    absent = [each.name for each in list_fields(kind) if each.if_any]
    return partial(_leave_out, make, absent) if absent else make


def _without_none(kind: Any) -> Any:
    """Return the type beside None of a union of two; None for any other type."""
    others = [each for each in get_args(kind) if each is not types.NoneType]
    return others[0] if get_origin(kind) in (Union, types.UnionType) and len(others) == 1 else None


def _leave_out(make: Encoder, absent: Sequence[str], value: Any) -> dict[str, Any]:
    result: dict[str, Any] = make(value)
    for name in absent:
        if result[name] is None or result[name] is False:
            del result[name]
    return result


def _encode_value(kind: Any, value: Any) -> Any:
    return _value_encoder(kind)(value)  # found at the first value, as a class may hold values of its own
