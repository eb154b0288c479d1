"""The keys of a configuration's tables: name, form, default and meaning, each in one place.

The reader of a table, its JSON Schema and its rows in ``docs/bridge-*.md`` all follow from the same `Key`.
A `KeyForm` reads a value from a `Table`, and has the schema that accepts what it reads. Where a text may hold
``${NAME}``, the schema accepts any text with such a variable, as its value is not in the file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bindings.archive.times import to_microseconds
from bridge.table import Secret, Table, describe
from exchange.errors import InputError
from exchange.text.display import suggest
from exchange.text.numbers import DURATION, parse_duration

T = TypeVar("T")
Number = TypeVar("Number", int, float)

HAS_VARIABLE: Final[Mapping[str, Any]] = {"type": "string", "pattern": r"\$\{[^}]*\}"}
"""Schema of a text with a variable of the environment."""

LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True, eq=False)
class KeyForm(Generic[T]):
    """The form of a value: how it is read, and the JSON Schema of what is accepted."""

    read: Callable[[Table, str, Any], T]
    """Function of a table, the name of a key, and the default as the file would have it. Raises InputError."""
    schema: Mapping[str, Any]
    within: Keys | None = None
    """The keys of the table, if the value is one whose keys are known."""


@dataclass(frozen=True, slots=True, eq=False)
class Key(Generic[T]):
    """A key of a table.

    >>> KEY = Key("tries", whole(least=1), "number of refusals", 5)
    >>> KEY.read(Table({}, "bridge.toml")), KEY.row, KEY.schema["default"]
    (5, '| `tries` | `5` | number of refusals |', 5)
    """

    name: str
    form: KeyForm[T]
    about: str
    """Its meaning, in Markdown."""
    default: Any = None
    """Its default, as the file would have it; None: there is none, or it depends on something else."""
    otherwise: str = ""
    """What holds without the key, in Markdown, where that is no value. "" as well as no default: it is required."""

    @property
    def required(self) -> bool:
        """Whether a table must have the key."""
        return self.default is None and not self.otherwise

    def read(self, table: Table, default: object = None) -> T:
        """Read the key; ``default`` replaces its default. Raises InputError for a wrong value, or if it is missing."""
        return self.form.read(table, self.name, self.default if default is None else default)

    @property
    def row(self) -> str:
        """Its row in the table of the documentation."""
        shown = f"`{json.dumps(self.default)}`" if self.default is not None else self.otherwise
        return f"| `{self.name}` | {shown}{' ' if shown else ''}| {self.about}{' ' if self.about else ''}|"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its value, with its meaning and default."""
        without = f"without it: {self.otherwise}" if self.otherwise else ""
        words = LINK.sub(r"\1", "; ".join(filter(None, [self.about, without]))).replace("\\|", "|")
        described = {"description": words} if words else {}
        return {**described, **self.form.schema, **({} if self.default is None else {"default": self.default})}


class Keys(NamedTuple):
    """The keys of a table, and rules between them."""

    keys: tuple[Key[Any], ...]
    rules: tuple[Mapping[str, Any], ...] = ()
    """Further JSON Schemas that the whole table must match. The reader checks the same, with a way out."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple([key.name for key in self.keys])

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a table with these keys, and no others."""
        required = [key.name for key in self.keys if key.required]
        return {
            "type": "object",
            "properties": {key.name: key.schema for key in self.keys},
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"allOf": list(self.rules)} if self.rules else {}),
        }

    def __or__(self, other: Keys) -> Keys:
        return Keys((*self.keys, *other.keys), (*self.rules, *other.rules))


@contextmanager
def reading_whole(table: Table, keys: Keys) -> Iterator[None]:
    """Read these keys of a table in the block. If a mistake ends it, those in values that were not read are kept."""
    try:
        yield
    except InputError as error:
        if table.mistakes is not None:
            table.keep(error)
            check_rest(table, keys)
        raise


def check_rest(table: Table, keys: Keys) -> None:
    """Keep the mistakes in the values of a table that were not read: each by itself, without those between them."""
    assert table.mistakes is not None  # noqa: S101  else the first one is raised, and there is no rest
    for key in keys.keys:
        with table.mistakes.collect():
            unread = table.is_unread(key.name) and (key.required or table.has(key.name))
            value = key.read(table) if unread else None
            if isinstance(value, Table) and key.form.within is not None:
                value.check_keys(key.form.within.names)
                check_rest(value, key.form.within)


def _or_variable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"anyOf": [schema, HAS_VARIABLE]}


def accept(convert: Callable[[Any], T], what: str, schema: Mapping[str, Any], example: str = "") -> KeyForm[T]:
    """Return the form of the values that ``convert`` takes; which raises TypeError or ValueError for
    others; ``what`` describes them.

    A wrong value is a mistake that is kept, where mistakes are, and the default stands for it.
    """

    def read(table: Table, key: str, default: Any) -> T:
        value = table.take(key, default)
        try:
            return convert(value)
        except (TypeError, ValueError):
            shown = f": {key} = {example}" if example else ""
            mistake = table.error(key, f"must be {what}, and is {describe(value)}{shown}")
            if default is None:
                raise mistake from None
            table.keep(mistake)
            return convert(default)

    return KeyForm(read, schema)


def accept_missing(form: KeyForm[T], default: object = None) -> KeyForm[T | None]:
    """Return the form of a value that may be missing: None. ``default`` stands for one whose mistake is kept."""
    return KeyForm(lambda table, key, _: form.read(table, key, default) if table.has(key) else None, form.schema)


def _to_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _to_number(value: Any, most: float = sys.float_info.max) -> float:
    """Return a number above zero as a float. Raises ValueError for all else, such as one beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise ValueError
    return float(value)


def _to_moment(value: Any) -> int:
    """Return a date, or a date and time, as microseconds since 1970; UTC if it has no offset."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise TypeError
    return to_microseconds(value)


def _measure(parse: Callable[[str], float | None], unit: type[Number], what: str, pattern: str) -> KeyForm[Number]:
    """Return the form of a number that is not negative, or of a text that stands for one."""

    def convert(value: Any) -> Number:
        number = parse(value) if isinstance(value, str) else value
        return unit(number if number == 0 and number is not False else _to_number(number))

    schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]}
    return accept(convert, what, schema)


def _parse_size(text: str) -> float | None:
    parts = re.fullmatch(SIZE_PATTERN, text, re.ASCII)
    return float(text.strip().removesuffix(parts[2])) * SIZES[parts[2]] if parts is not None else None


SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SIZE_PATTERN: Final = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(SIZES)})\s*$"

TEXT: Final[KeyForm[str]] = KeyForm(
    lambda table, key, default: table.text(key, default), {"type": "string", "minLength": 1}
)
MAYBE_TEXT: Final = accept_missing(TEXT)
FILE: Final[KeyForm[str | None]] = KeyForm(lambda table, key, _: table.file(key), TEXT.schema)
FLAG: Final = accept(_to_flag, "true or false", {"type": "boolean"})
TEXTS: Final[KeyForm[list[str]]] = KeyForm(
    lambda table, key, default: table.texts(key, default),
    {"anyOf": [TEXT.schema, {"type": "array", "items": TEXT.schema}]},
)
NUMBER: Final = accept(_to_number, "a number above zero", {"type": "number", "exclusiveMinimum": 0})
MAYBE_NUMBER: Final = accept_missing(NUMBER, 1.0)
SHARE: Final = accept(
    lambda value: _to_number(value, 1.0), "a number above zero and at most 1", {**NUMBER.schema, "maximum": 1}
)
# A date of TOML, which is a text where TOML is read as JSON.
DATE: Final = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?)?$"}
MOMENT: Final = accept_missing(accept(_to_moment, "a date", DATE, "2026-11-21T08:00:00Z"))
TABLE: Final[KeyForm[Table | None]] = accept_missing(
    KeyForm(lambda table, key, _: table.table(key), {"type": "object"})
)
SECONDS: Final = _measure(parse_duration, float, "a number of seconds or a text such as '30 s' or '5 m'", DURATION)
SIZE: Final = _measure(_parse_size, int, "a number of bytes or a text such as '64 MiB'", SIZE_PATTERN)
SECRET: Final[KeyForm[Secret | None]] = KeyForm(
    lambda table, key, _: table.secret(key),
    {
        "anyOf": [
            {"type": "string"},
            *[
                {
                    "type": "object",
                    "properties": {how: {"type": "string"}},
                    "required": [how],
                    "additionalProperties": False,
                }
                for how in ("env", "file")
            ],
        ]
    },
)


def accept_table(keys: Keys) -> KeyForm[Table | None]:
    """Return the form of an optional table with these keys; the reader of the table refuses other keys."""
    return KeyForm(TABLE.read, keys.schema, keys)


def require_flag(keys: Iterable[Key[Any]], needed: Key[bool]) -> Mapping[str, Any]:
    """Return the rule of a schema that a flag must be set where one of the keys is there."""
    return {
        "if": {"anyOf": [{"required": [key.name]} for key in keys]},
        "then": {"properties": {needed.name: {"const": True}}, "required": [needed.name]},
    }


def accept_whole(least: int = 0, most: int | None = None) -> KeyForm[int]:
    """Return the form of a whole number, at least ``least`` and at most ``most``."""

    def convert(value: Any) -> int:
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or value < least
            or (most is not None and value > most)
        ):
            raise ValueError
        return value

    schema = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    limit = "" if most is None else f" and at most {most:,}"
    return accept(convert, f"a whole number, at least {least:,}{limit}", schema)


def accept_choice(*words: str) -> KeyForm[str]:
    """Return the form of one of several words."""

    def read(table: Table, key: str, default: Any) -> str:
        value = table.text(key, default)
        if value in words:
            return value
        table.keep(table.error(key, f"must be one of {', '.join(words)}, and is {value!r}{suggest(value, words)}"))
        return str(default)

    return KeyForm(read, _or_variable({"enum": [*words]}))


def accept_number_or(word: str) -> KeyForm[float | None]:
    """Return the form of a number above zero, or a word that stands for no number."""
    schema = {"anyOf": [NUMBER.schema, {"const": word}]}
    what = f'a number above zero or "{word}"'
    return accept(lambda value: None if value == word else _to_number(value), what, schema)


def accept_matching(form: KeyForm[T], *patterns: str | re.Pattern[str]) -> KeyForm[T]:
    """Return the form of a text that matches one of the patterns as a whole; the reader of the key checks that."""
    texts = [pattern if isinstance(pattern, str) else pattern.pattern for pattern in patterns]
    each = [re.sub(r"\?P<\w+>", "", text) for text in texts]  # schemas have no names of groups
    text = _or_variable({"type": "string", "pattern": f"^(?:{'|'.join(each)})$"})
    if form.schema is TEXTS.schema:
        return KeyForm(form.read, {"anyOf": [text, {"type": "array", "items": text}]})
    return KeyForm(form.read, text)


class Entries(NamedTuple):
    """A value that is a table of entries of one kind, or a list; what an entry means, only its endpoint knows."""

    table: Table
    key: str
    what: str
    """Description of a valid entry, for errors."""

    @property
    def is_list(self) -> bool:
        """Whether it is a list, which stands for a table of each text to itself."""
        return self.table.is_list(self.key)

    def convert(self, read: Callable[[Any], T]) -> dict[str, T]:
        """Return the entries, each converted by ``read``. Raises InputError where that raises ValueError."""
        return self.table.mapping(self.key, read, self.what)


def accept_entries(what: str, each: Mapping[str, Any]) -> KeyForm[Entries]:
    """Return the form of a table whose values match ``each``; ``what`` describes a value for errors."""
    return KeyForm(lambda table, key, _: Entries(table, key, what), {"type": "object", "additionalProperties": each})


def accept_queues(what: str, destination: Mapping[str, Any]) -> KeyForm[Entries]:
    """Return the form of ``queues``: a list of queues, or queue -> destination, and at least one."""
    listed = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    form = accept_entries(what, destination)
    return KeyForm(form.read, {"anyOf": [listed, {**form.schema, "minProperties": 1}]})


def describe_destination(*names: str, required: str) -> Mapping[str, Any]:
    """Return the schema of a destination: a text, or a table of texts with these names, one of which is required."""
    properties = {name: {"type": "string"} for name in names}
    table = {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}
    return {"anyOf": [{"type": "string"}, table]}
