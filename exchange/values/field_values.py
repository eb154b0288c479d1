"""AMQP 0-9-1 field values: plain Python values where their type determines the AMQP type, ``Typed`` elsewhere.

==========================  ===========================================
Python                      AMQP type, as RabbitMQ names it
==========================  ===========================================
None                        void
bool                        bool
int                         long (64 bits, as RabbitMQ imports the integers of definitions)
float                       double
str                         longstr
bytes                       binary
decimal.Decimal             decimal
datetime.datetime           timestamp (whole seconds; a naive one is UTC)
list, tuple                 array
Mapping                     table
Typed("short", 1)           short, and so on for the names in ``TYPES``
==========================  ===========================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Final

from exchange.errors import InputError
from exchange.limits import NESTING

if TYPE_CHECKING:
    from decimal import Decimal

TYPES: Final = frozenset({
    "void", "bool", "byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long",
    "float", "double", "decimal", "longstr", "binary", "timestamp", "array", "table",
})  # fmt: skip
"""The field types that RabbitMQ's parser knows, under its names (`rabbit_binary_parser.erl`)."""

RANGES: Final = {
    "byte": (-(2**7), 2**7 - 1),
    "unsignedbyte": (0, 2**8 - 1),
    "short": (-(2**15), 2**15 - 1),
    "unsignedshort": (0, 2**16 - 1),
    "signedint": (-(2**31), 2**31 - 1),
    "unsignedint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1),
    "timestamp": (0, 2**64 - 1),
}
"""Integer type -> lowest and highest value."""

INTEGER_TYPES: Final = frozenset(RANGES) - {"timestamp"}
"""Types of integers. Most rules of the broker do not distinguish them."""


FITTING: Final[Mapping[str, tuple[str, ...]]] = {
    "float": ("double", "long"),
    "double": ("double", "long"),
    "longstr": ("longstr", "binary"),
    "binary": ("binary", "longstr"),
} | {kind: (kind,) for kind in ("void", "bool", "decimal", "array", "table")}
"""Type that is not in ``RANGES`` -> types that a value may have by itself to get this type by `Typed`."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with an explicit AMQP type: ``Typed("timestamp", 1700000000)``, ``Typed("float", 1.5)``.

    Raises ValueError when there is no such type or the value does not fit it.
    """

    type: str
    value: Any

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"no AMQP field type {self.type!r}; there are {', '.join(sorted(TYPES))}")
        if self.type in RANGES:
            low, high = RANGES[self.type]
            if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
                raise ValueError(f"{_format_value(self.value)} is not a {self.type}: an integer from {low} to {high}")
            return
        if self.type in ("array", "table", "binary", "longstr"):
            object.__setattr__(self, "value", _freeze(self.value, f"Typed: {self.type}", 0, True))
        kind, value = resolve_type(self.value)
        if kind not in FITTING[self.type]:
            raise ValueError(f"{_format_value(self.value)} is not of the type {self.type}, but {kind}")
        if self.type in ("float", "double"):
            try:
                round_to_float32(float(value)) if self.type == "float" else float(value)
            except OverflowError:
                bits = 32 if self.type == "float" else 64
                raise ValueError(f"it is not a {self.type}: that has {bits} bits") from None

    def __hash__(self) -> int:
        try:
            return hash((self.type, self.value))
        except TypeError:  # an array or a table
            return hash(self.type)


def _format_value(value: Any) -> str:
    """Return a value as its author wrote it, in JSON or in a .bindings file, for an error."""
    return f'"{value}"' if isinstance(value, str) else WORDS.get(str(value), repr(value))


WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def resolve_type(value: Any) -> tuple[str, Any]:
    """Return the AMQP type of a field value, and the value as the broker holds it once decoded.

    A string becomes its UTF-8 bytes, a decimal ``(scale, unscaled)``, an array a tuple of pairs of type and value, a
    table a tuple of ``(key, type, value)``. Two results are equal if, for RabbitMQ, types and values are equal. Raises
    TypeError for what is no field value.
    """
    if value is None:
        return "void", None
    if isinstance(value, Typed):
        inner: Any = resolve_type(value.value)[1]
        if value.type == "double":
            return "double", float(inner)
        return value.type, round_to_float32(inner) if value.type == "float" else inner
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "long", int(value)
    if isinstance(value, float):
        return "double", value
    if isinstance(value, str):
        return "longstr", to_bytes(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "binary", bytes(value)
    if isinstance(value, Mapping):
        return "table", tuple([(key, *resolve_type(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return "array", tuple([resolve_type(item) for item in value])
    return _rare_type_and_value(value)


def _rare_type_and_value(value: Any) -> tuple[str, Any]:
    from datetime import datetime  # with decimal, a third of what importing the engine would take
    from decimal import Decimal

    if isinstance(value, Decimal):
        return "decimal", _decimal(value)
    if isinstance(value, datetime):
        from calendar import timegm

        return "timestamp", timegm(value.utctimetuple())
    raise TypeError(f"no AMQP field type for {value!r}")


def round_to_float32(value: float) -> float:
    """Return the double that a 32-bit float of this value decodes to."""
    return float(unpack(">f", pack(">f", value))[0])


def to_bytes(text: str) -> bytes:
    """Encode a string for the wire; each lone surrogate, which only JSON can bring, gets bytes of its own."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def make_longstr(text: str) -> str | Typed:
    """Return the field value of a text that came from bytes: itself, or its bytes if these are not UTF-8 (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return Typed("longstr", text.encode("utf-8", "surrogateescape"))
    return text


def _decimal(value: Decimal) -> tuple[int, int]:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a finite decimal")  # noqa: TRY004  Decimal("NaN") is of the right type
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    scale = max(-exponent, 0)
    unscaled *= 10 ** max(exponent, 0)
    if scale > 255 or not -(2**31) <= unscaled < 2**32:
        raise ValueError(f"{value} is not an AMQP decimal: 32 bits and a scale of up to 255")
    return scale, unscaled % 2**32  # RabbitMQ reads the digits as unsigned


class FieldTable(Mapping[str, Any]):
    """An immutable AMQP table, as arguments and headers are. Arrays in it become tuples, tables become `FieldTable`.

    Tables are equal when keys, types and values are, in any order, as when RabbitMQ compares the arguments of bindings.
    Raises TypeError for names that are no str and values that are no field values, InputError for values that AMQP
    cannot hold.
    """

    __slots__ = ("_fields", "_hash", "_identity")

    def __init__(self, fields: Mapping[str, Any] | None = None) -> None:
        # Copying the dict that freeze_table made is faster than setting its fields one by one.
        self._fields: Final[dict[str, Any]] = {} if fields is None else dict(freeze_table(fields, "FieldTable")._fields)
        self._identity: tuple[tuple[str, str, Any], ...] | None = None
        self._hash: int | None = None

    @property
    def identity(self) -> tuple[tuple[str, str, Any], ...]:
        """``(key, type, value)`` of each field, sorted by key; hashable. Tables are equal when their identities are."""
        if self._identity is None:
            typed = [(key, *resolve_type(value)) for key, value in self._fields.items()]
            fields = [(key, kind, _make_exact(value)) for key, kind, value in typed]
            self._identity = tuple(sorted(fields, key=itemgetter(0)))
        return self._identity

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default. What `Mapping` inherits here and for ``in`` takes several times as long."""
        return self._fields.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FieldTable):
            return self is other or self.identity == other.identity
        if isinstance(other, Mapping):
            return self.identity == _restore_table(dict(other)).identity
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:  # kept: needed whenever a binding is hashed
            self._hash = hash(self.identity)
        return self._hash

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], FieldTable], tuple[dict[str, Any]]]:
        return _restore_table, (self._fields,)  # without the hash: hashes of strings differ between processes

    def __repr__(self) -> str:
        return f"FieldTable({self._fields!r})"


ATOMS: Final = frozenset({str, float, bool, type(None), bytes})
"""Python types of which every value is an immutable field value."""
LOWEST, HIGHEST = RANGES["long"]


def check_fields(fields: Mapping[Any, Any], owner: str) -> None:
    """Raise what `freeze_table` raises for these fields, without building a table."""
    for name, value in fields.items():
        kind = type(value)
        if type(name) is not str or not (kind in ATOMS or (kind is int and LOWEST <= value <= HIGHEST)):
            freeze_table({name: value}, owner)


def freeze_table(fields: Any, owner: str, *, is_json: bool = False) -> FieldTable:
    """Return the fields as a table that cannot change; errors call it ``owner``.

    Raises TypeError for what is no mapping, names that are no str and values that are no field values, InputError for
    values that AMQP cannot hold. In JSON (``is_json``), integers have any size.
    """
    if type(fields) is FieldTable:
        return fields
    if not isinstance(fields, Mapping):
        raise TypeError(f"{owner} must be a mapping, not {type(fields).__name__}: {fields!r:.60}")
    return _restore_table(_freeze_fields(fields, owner, 0, is_json)) if fields else EMPTY


def _freeze_fields(fields: Mapping[Any, Any], owner: str, depth: int, is_json: bool) -> dict[str, Any]:
    frozen = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise TypeError(f"{owner}: names of fields are str, not {type(name).__name__}: {name!r:.60}")
        if type(value) not in ATOMS:  # an error names the outermost field only
            value = _freeze(value, owner if depth else f"{owner}: {name!r:.60}", depth, is_json)  # noqa: PLW2901
        frozen[name] = value
    return frozen


def _freeze(value: Any, owner: str, depth: int, is_json: bool) -> Any:
    """Return a field value that cannot change."""
    kind = type(value)
    if kind in ATOMS or kind is Typed or kind is FieldTable:
        return value
    if kind is int:
        if is_json or LOWEST <= value <= HIGHEST:
            return value
        raise InputError(f"{owner}: an integer of {value.bit_length()} bits; AMQP has 64, one of them the sign")
    if depth >= NESTING:
        raise InputError(f"{owner}: nested too deeply, beyond {NESTING} arrays and tables")
    if isinstance(value, Mapping):
        return _restore_table(_freeze_fields(value, owner, depth + 1, is_json))
    if isinstance(value, (list, tuple)):
        return tuple([_freeze(item, owner, depth + 1, is_json) for item in value])
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    try:
        resolve_type(value)
    except TypeError:
        raise TypeError(f"{owner}: no AMQP field type for {kind.__name__}: {value!r:.60}") from None
    except ValueError as error:
        raise InputError(f"{owner}: {error}") from None
    return value


def thaw(value: Any) -> Any:
    """Return a frozen value as dicts and lists, as a JSON parser returns it."""
    if isinstance(value, FieldTable):
        return {name: thaw(item) for name, item in value.items()}
    return [thaw(item) for item in value] if isinstance(value, tuple) else value


def to_plain(value: Any) -> Any:
    """Return a value as client libraries take it: numbers without their width, timestamps as datetime."""
    if isinstance(value, Typed) and value.type == "timestamp":
        from datetime import UTC, datetime  # not at the top: see `_rare_type_and_value`

        return datetime.fromtimestamp(value.value, UTC)
    if isinstance(value, Typed):
        return to_plain(value.value)
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restore_table(frozen: dict[str, Any]) -> FieldTable:
    """Build a table of fields that are frozen already."""
    table = FieldTable()
    table._fields.update(frozen)
    return table


EMPTY: Final = FieldTable()
"""The empty table, shared by most bindings."""


def _make_exact(value: Any) -> Any:
    # In Python 1 == True == 1.0 and 0.0 == -0.0. RabbitMQ distinguishes them, and so does repr.
    return repr(value) if isinstance(value, (float, tuple)) else value
