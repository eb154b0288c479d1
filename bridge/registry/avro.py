"""Find a field in a value of Avro's binary encoding, by the schema that it was written with.

What precedes the field is walked over, and what follows it is not read. fastavro would decode the whole body, and
bounds neither depth nor work: ten thousand nested records, ten kilobytes, overflow the stack and end the process.

A value is as in Avro's own JSON, but for unions, whose value has no type around it: logical types are the numbers and
bytes that they are stored as, enums their symbols, records and maps objects. Bytes stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Any, Final

from exchange.limits import NESTING
from exchange.partition.partitioning.key_source import INDEX

MAX_VALUES: Final = 1_000_000
"""Maximum number of values that are walked over for a field."""
NUMBER_BYTES: Final = 10
"""Maximum number of bytes of a whole number."""
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
FLOAT: Final = Struct("<f")
DOUBLE: Final = Struct("<d")


class UnreadableSchema(ValueError):
    """Raised for a schema that cannot be read; the message has the reason."""


@dataclass(slots=True, eq=False)
class AvroType:
    """A type of a schema; types that have names may contain themselves."""

    kind: str
    """``record``, ``union`` ..., or the name of a primitive type."""
    names: Sequence[str] = ()
    """Names of a record's fields, symbols of an enum."""
    types: list[AvroType] = field(default_factory=list, repr=False)
    """Types of a record's fields, of a union's branches, of the items of an array or a map."""
    size: int = 0
    """Number of bytes of a fixed."""


def compile_schema(schema: Any, named: dict[str, AvroType]) -> AvroType:
    """Return the type of a schema, parsed as JSON; its types with names are added to those that it may refer to.

    Raises UnreadableSchema for what is no schema.
    """
    try:
        return _compile(schema, "", named)
    except (KeyError, TypeError, AttributeError) as problem:
        raise UnreadableSchema(f"no schema of Avro: {problem!r:.100}") from None


def _compile(schema: Any, namespace: str, named: dict[str, AvroType]) -> AvroType:
    if isinstance(schema, list):
        return AvroType("union", types=[_compile(each, namespace, named) for each in schema])
    if isinstance(schema, str):
        name = schema if "." in schema else _join(namespace, schema)
        return AvroType(schema) if schema in PRIMITIVES else named[name]
    kind = schema["type"]
    if kind in ("array", "map"):
        return AvroType(kind, types=[_compile(schema["items" if kind == "array" else "values"], namespace, named)])
    if kind not in ("record", "error", "enum", "fixed"):
        return _compile(kind, namespace, named)
    space, dot, name = schema["name"].rpartition(".")
    namespace = space if dot else schema.get("namespace", namespace) or ""
    made = named[_join(namespace, name)] = AvroType("record" if kind == "error" else kind)
    if kind == "enum":
        made.names = tuple(schema["symbols"])
    elif kind == "fixed":
        made.size = max(0, int(schema["size"]))
    else:
        made.names = tuple([each["name"] for each in schema["fields"]])
        made.types = [_compile(each["type"], namespace, named) for each in schema["fields"]]
    return made


def _join(namespace: str, name: str) -> str:
    return f"{namespace}.{name}" if namespace else name


def find_in_avro(schema: AvroType, start: int, body: bytes, steps: Sequence[str]) -> Any:
    """Return the value at the steps of a JSON Pointer, in a value that begins at an index; None if there is none.

    A union is no step: its value is that of the branch. Raises ValueError for a damaged body.
    """
    try:
        return _find(schema, _AvroWalk(body, start), steps, 0)
    except (IndexError, error):
        raise ValueError("the value ends in the middle") from None


class _AvroWalk:
    """A place in a body, and the number of values that may still be walked over."""

    __slots__ = ("at", "body", "left")

    def __init__(self, body: bytes, at: int) -> None:
        self.body = body
        self.at = at
        self.left = MAX_VALUES

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes, and advance past them. Raises IndexError if there are fewer."""
        start, self.at = self.at, self.at + size
        if not start <= self.at <= len(self.body):
            raise IndexError
        return self.body[start : self.at]

    def number(self) -> int:
        """Return a whole number, in zigzag."""
        number = 0
        for shift in range(0, 7 * NUMBER_BYTES, 7):
            byte = self.body[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                if number >> 64:
                    break
                return number >> 1 ^ -(number & 1)
        raise ValueError("a number of more than 64 bits")

    def text(self) -> str:
        """Return a text."""
        return self.take(self.number()).decode()

    def items(self) -> Iterator[int]:
        """Yield the index of each item of an array or a map, at its beginning."""
        index = 0
        while count := self.number():
            if count < 0:  # followed by the size of the block
                count, _ = -count, self.number()
            yield from range(index, index + count)
            index += count


def _find(schema: AvroType, walk: _AvroWalk, steps: Sequence[str], depth: int) -> Any:
    kind = schema.kind
    if kind == "union":
        return _find(_choose(schema, walk), walk, steps, depth)
    if not steps:
        return _read(schema, walk, depth)
    step, rest = steps[0], steps[1:]
    if kind == "record":
        for name, each in zip(schema.names, schema.types, strict=True):
            if name == step:
                return _find(each, walk, rest, depth + 1)
            _read(each, walk, depth + 1)
    elif kind == "map" or (kind == "array" and INDEX.fullmatch(step)):
        for index in walk.items():
            if step == (walk.text() if kind == "map" else str(index)):
                return _find(schema.types[0], walk, rest, depth + 1)
            _read(schema.types[0], walk, depth + 1)
    return None


def _choose(schema: AvroType, walk: _AvroWalk) -> AvroType:
    """Return the branch of a union whose value follows."""
    branch = walk.number()
    if branch < 0:
        raise IndexError
    return schema.types[branch]


def _read(schema: AvroType, walk: _AvroWalk, depth: int) -> Any:
    walk.left -= 1
    if depth > NESTING or walk.left < 0:
        raise ValueError("nested too deeply, or too many values")
    return _READERS[schema.kind](schema, walk, depth + 1)


def _read_enum(schema: AvroType, walk: _AvroWalk, _: int) -> str:
    symbol = walk.number()
    if symbol < 0:
        raise IndexError
    return schema.names[symbol]


def _read_record(schema: AvroType, walk: _AvroWalk, depth: int) -> dict[str, Any]:
    return {name: _read(each, walk, depth) for name, each in zip(schema.names, schema.types, strict=True)}


_READERS: Final[Mapping[str, Callable[[AvroType, _AvroWalk, int], Any]]] = {
    "null": lambda schema, walk, depth: None,
    "boolean": lambda schema, walk, depth: walk.take(1) != b"\0",
    "int": lambda schema, walk, depth: walk.number(),
    "long": lambda schema, walk, depth: walk.number(),
    "float": lambda schema, walk, depth: FLOAT.unpack(walk.take(4))[0],
    "double": lambda schema, walk, depth: DOUBLE.unpack(walk.take(8))[0],
    "bytes": lambda schema, walk, depth: walk.take(walk.number()),
    "string": lambda schema, walk, depth: walk.text(),
    "fixed": lambda schema, walk, depth: walk.take(schema.size),
    "enum": _read_enum,
    "record": _read_record,
    "array": lambda schema, walk, depth: [_read(schema.types[0], walk, depth) for _ in walk.items()],
    "map": lambda schema, walk, depth: {walk.text(): _read(schema.types[0], walk, depth) for _ in walk.items()},
    "union": lambda schema, walk, depth: _read(_choose(schema, walk), walk, depth),
}
"""Kind of a type -> function that reads a value of it."""
