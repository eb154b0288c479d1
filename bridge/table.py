"""A table of a TOML file that is read key by key, so that every mistake is told with its key and a way out.

Values are taken; what is left at the end nobody knows, and is an error that names the likeliest key. Text may hold
``${NAME}`` for a variable of the environment; a secret may also be ``{ env = "NAME" }`` or ``{ file = "PATH" }``, and
is never shown. What is allowed and will cost something one day is a warning, which `Table.warn` keeps.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from bindings.sources.address import Address, parse_address
from bridge.endpoint import Disconnected
from exchange.errors import InputError

__all__ = ["ConfigError", "Mistakes", "Secret", "Table", "Warned", "hide_logins", "read_address"]

T = TypeVar("T")

VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")

LOGIN: Final = re.compile(r"(?<=://)[^\s'\"]*@")
"""User and password of an address in a sentence, up to its last ``@``: a password may hold ``/``, ``:`` and ``@``."""

WHOLE_LOGIN: Final = re.compile(r"(?<=://).*@", re.DOTALL)
"""The same in a value that is shown, where a password may hold spaces and quotes too: hides rather too much."""

SECRETIVE: Final = re.compile(r"passw|secret|token|pem$|\.key$", re.IGNORECASE)
"""Names of values that are secrets wherever they stand, as librdkafka's ``sasl.password``."""

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def hide_logins(text: str) -> str:
    """Return the text with user and password of each address in it replaced."""
    return LOGIN.sub("***@", text)


def read_address(table: Table, text: str, schemes: Collection[str], example: str, key: str = "url") -> Address:
    """Return the address under a key of a table. Raises InputError with the key and an example, and none of it."""
    try:
        return parse_address(text, schemes, example)
    except InputError as error:
        reason = str(error).removesuffix(f"; write {example}")
        raise table.error(key, f"must be {example}" + ("" if reason == "not an address" else f" ({reason})")) from None


class Secret(str):
    """A text that is not shown, as it was when the configuration was read; `current` reads it again."""

    __slots__ = ("_read",)
    _read: Callable[[], str]

    def __new__(cls, text: str, read: Callable[[], str] | None = None) -> Self:
        secret = super().__new__(cls, text)
        secret._read = read if read is not None else lambda: text
        return secret

    def current(self) -> str:
        """Return it as its file or variable has it now. Raises Disconnected if that cannot be read.

        Endpoints call this whenever they connect, so that a secret that was rotated needs no restart.
        """
        try:
            return self._read()
        except InputError as error:
            raise Disconnected(str(error)) from None

    def __repr__(self) -> str:
        return "'***'"


class Warned(NamedTuple):
    """A warning about a key of a configuration."""

    table: str
    """The table's place in the file, ``sources.orders``; "" for the file itself."""
    key: str
    text: str

    def __str__(self) -> str:
        return f"{f'[{self.table}] ' if self.table else ''}{self.key}: {self.text}"


class Mistakes:
    """The mistakes of a configuration, of which each key has one: what follows from another is not shown."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, ...], InputError] = {}

    def __len__(self) -> int:
        return len(self._errors)

    def keep(self, error: InputError, part: str = "") -> None:
        """Keep one more; a key has one of each part of its value."""
        where = error.where if isinstance(error, KeyMistake) else ("", str(error))
        self._errors.setdefault((*where, part), error)

    @contextmanager
    def kept(self, part: str = "") -> Iterator[None]:
        """Keep what the block raises, and go on behind it."""
        try:
            yield
        except InputError as error:
            self.keep(error, part)

    def check(self) -> None:
        """Raise the mistake that there is, or ConfigError for several."""
        if len(self) == 1:
            raise next(iter(self._errors.values()))
        if self:
            raise ConfigError(*self._errors.values())


class KeyMistake(InputError):
    """What is wrong with a key of a table."""

    def __init__(self, text: str, where: tuple[str, str]) -> None:
        super().__init__(text)
        self.where = where


class ConfigError(InputError):
    """All mistakes of a configuration, in the order of their sections."""

    def __init__(self, *mistakes: InputError) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


class Table:
    """A table and where it is. Every method raises InputError for a value that is none of what it takes."""

    def __init__(
        self, values: Mapping[str, Any], source: str, path: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self._values = dict(values)
        self._known: list[str] = []
        self._texts: dict[str, str] = {}
        self.source = source
        """The file, for messages."""
        self.path = path
        """The table's place in it, for messages: ``targets.kafka``."""
        self._environment = environment
        self.warnings: list[Warned] = []
        """Those of this table and of all tables within."""
        self.mistakes: Mistakes | None = None
        """Keeps what is wrong with values that have a default, in place of raising it; of all tables within, too."""

    def warn(self, key: str, text: str) -> None:
        """Keep a warning about a key."""
        self.warnings.append(Warned(self.path, key, text))

    def missing(self, key: str, way_out: str) -> InputError:
        """Return the error of a required key that is not there: what was written in its place if that can be seen."""
        left = [each for each in self._values if each not in self._known]
        meant = get_close_matches(key, left, 1)
        if meant:
            return self.error(meant[0], f"is not known here (did you mean {key}?)")
        return self.error(key, way_out)

    def only(self, known: Collection[str]) -> None:
        """Look at once whether all keys are among these. Raises InputError naming the first that is not."""
        for key in self._values:
            if key not in known:
                self._refuse(key, f"is not known here{_meant(key, known)}; known: {', '.join(known)}", True)

    def error(self, key: str, problem: str) -> InputError:
        """What is wrong with a key."""
        where = f"[{self.path}] " if self.path else ""
        return KeyMistake(f"{self.source}: {where}{key}: {problem}", (self.path, key))

    def _refuse(self, key: str, problem: str, default: T | None) -> T:
        """Keep the error of a wrong value and return the default; without one to go on with, raise the error."""
        error = self.error(key, problem)
        if self.mistakes is None or default is None:
            raise error
        self.mistakes.keep(error)
        return default

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty. Without a default the key must be there."""
        value = self._take(key, default)
        if not isinstance(value, str) or not (value or default == ""):
            raise self.error(key, f'must be a text in quotes, and is {_shown(value)}: {key} = "..."')
        self._texts[key] = self._expanded(key, value)
        return self._texts[key]

    def taken(self, key: str) -> str | None:
        """A text that was taken before, for who needs it, too; None if it was not there."""
        return self._texts.get(key)

    def maybe(self, key: str) -> str | None:
        """A text, or None if the key is not there."""
        return self.text(key) if self.has(key) else None

    def has(self, key: str) -> bool:
        """Whether a key is there; asked or not, it is known from then on."""
        if key not in self._known:
            self._known.append(key)
        return key in self._values

    def path_of(self, written: str) -> Path:
        """A path as it is meant: beside the file of the configuration, unless it says all."""
        return Path(self.source).parent / written

    def file(self, key: str) -> str | None:
        """The path of a file that can be read, or None if the key is not there."""
        written = self.maybe(key)
        if written is None:
            return None
        try:
            self.path_of(written).open("rb").close()
        except OSError as error:
            raise self.error(key, f"the file {written} cannot be read: {error.strerror}") from None
        return str(self.path_of(written))

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """One of some words."""
        value = self.text(key, default)
        if value not in choices:
            return self._refuse(
                key, f"must be one of {', '.join(choices)}, and is {value!r}{_meant(value, choices)}", default
            )
        return value

    def integer(self, key: str, default: int | None = None, least: int = 0) -> int:
        """A whole number."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            return self._refuse(key, f"must be a whole number, at least {least:,}, and is {_shown(value)}", default)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number above zero."""
        value = self._take(key, default)
        number = _finite(value)
        if number is None or number <= 0:
            return self._refuse(key, f"must be a number above zero, and is {_shown(value)}", default)
        return number

    def maybe_number(self, key: str) -> float | None:
        """A number above zero, or None if the key is not there."""
        return self.number(key, 1.0) if self.has(key) else None  # the default goes with a mistake that is kept

    def number_or(self, key: str, word: str, default: str) -> float | None:
        """A number above zero, or None for a word that stands for no number."""
        value = self._take(key, default)
        if value == word:
            return None
        number = _finite(value)
        if number is None or number <= 0:
            self._refuse(key, f'must be a number above zero or "{word}", and is {_shown(value)}', default)
            return None
        return number

    def moment(self, key: str) -> int | None:
        """A date with a time, microseconds since 1970; without an offset, UTC. None if the key is not there."""
        if not self.has(key):
            return None
        value = self._values.pop(key)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise self.error(key, f"must be a date, and is {_shown(value)}: {key} = 2026-11-21T08:00:00Z")
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1_000_000)

    def is_list(self, key: str) -> bool:
        """Whether the value is a list."""
        return self.has(key) and isinstance(self._values[key], list)

    def seconds(self, key: str, default: float | None = None) -> float:
        """A span of time: a number of seconds, or a text such as ``"500 ms"``, ``"30 s"``, ``"5 m"``, ``"1 h"``."""
        return self._measure(key, default, UNITS, "a number of seconds or a text such as '30 s' or '5 m'")

    def size(self, key: str, default: int | None = None) -> int:
        """A size: a number of bytes, or a text such as ``"64 MiB"``."""
        return int(self._measure(key, default, SIZES, "a number of bytes or a text such as '64 MiB'"))

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            return self._refuse(key, f"must be true or false, and is {_shown(value)}", default)
        return value

    def texts(self, key: str, default: Collection[str] | None = None) -> list[str]:
        """A list of texts; one text is a list of it."""
        value = self._take(key, default)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not all(isinstance(each, str) and each for each in listed):
            raise self.error(key, f'must be a list of texts, and is {_shown(value)}: {key} = ["...", "..."]')
        return [self._expanded(key, each) for each in listed]

    def secret(self, key: str) -> Secret | None:
        """A text, or where to find it: ``{ env = "NAME" }``, ``{ file = "PATH" }``; None if the key is not there."""
        if not self.has(key):
            return None
        value = self._values.pop(key)
        if isinstance(value, str):
            return Secret(self._expanded(key, value))
        if isinstance(value, dict) and len(value) == 1:
            [(how, where)] = value.items()
            if how == "env" and isinstance(where, str):
                return self._secret(lambda: self._variable(key, where))
            if how == "file" and isinstance(where, str):
                path = self.path_of(self._expanded(key, where))
                return self._secret(lambda: self._content(key, where, path))
        raise self.error(key, 'must be a text, { env = "NAME" } or { file = "PATH" }')

    def _secret(self, read: Callable[[], str]) -> Secret:
        return Secret(read(), read)

    def _content(self, key: str, written: str, path: Path) -> str:
        """Return the secret in a file, without the end of its line."""
        try:
            found = path.read_text("utf-8").rstrip("\r\n")
        except OSError as error:
            raise self.error(key, f"the file {written} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self.error(key, f"the file {written} is not UTF-8") from None
        if not found:
            raise self.error(key, f"the file {written} is empty")
        return found

    def table(self, key: str) -> Table:
        """A table within; an empty one if the key is not there."""
        value = self._take(key, {})
        path = f"{self.path}.{key}" if self.path else key
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, and is {_shown(value)}: [{path}]")
        within = Table(value, self.source, path, self._environment)
        within.warnings = self.warnings
        within.mistakes = self.mistakes
        return within

    def maybe_table(self, key: str) -> Table | None:
        """A table within, or None if the key is not there."""
        return self.table(key) if self.has(key) else None

    def tables(self, key: str) -> dict[str, Table]:
        """The tables of a table, by name: ``[sources.orders]``, ``[sources.billing]``."""
        within = self.table(key)
        return {name: within.table(name) for name in list(within._values)}

    def mapping(self, key: str, read: Callable[[Any], T], what: str) -> dict[str, T]:
        """A table of one kind of values, which are ``what``; ``read`` raises ValueError for what is none."""
        value = self._take(key, {})
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = {each: each for each in value}
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, and is {_shown(value)}: {what}")
        found = {}
        for name, each in value.items():
            try:
                found[name] = read(self._expanded(key, each) if isinstance(each, str) else each)
            except ValueError as error:
                why = f": {error}" if str(error) else ""
                shown = "'***'" if SECRETIVE.search(name) else _shown(each)
                raise self.error(f"{key}.{name}", f"must be {what}, and is {shown}{why}") from None
        return found

    def done(self) -> None:
        """All that is known was taken: what is left is a mistake."""
        for key in self._values:
            self._refuse(key, f"is not known here{_meant(key, self._known)}; known: {', '.join(self._known)}", True)

    def _take(self, key: str, default: Any) -> Any:
        if self.has(key):
            return self._values.pop(key)
        if default is None:
            raise self.missing(key, f"is missing; write {key} = ...")
        return default

    def _measure(self, key: str, default: float | None, units: Mapping[str, float], what: str) -> float:
        value = self._take(key, default)
        if isinstance(value, str):
            parts = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", value)
            number = _finite(float(parts[1]) * units[parts[2]]) if parts is not None and parts[2] in units else None
        else:
            number = _finite(value)
        if number is not None and number >= 0:
            return number
        return self._refuse(key, f"must be {what}, and is {_shown(value)}", default)

    def _expanded(self, key: str, text: str) -> str:
        return VARIABLE.sub(lambda match: self._variable(key, match[1]), text)

    def _variable(self, key: str, name: str) -> str:
        try:
            return self._environment[name]
        except KeyError:
            raise self.error(key, f"the environment has no variable {name}") from None


def _finite(value: Any) -> float | None:
    """Return a number as a float, or None for what is none, for infinity, and beyond the range of a float."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not -sys.float_info.max <= value <= sys.float_info.max
    ):
        return None
    return float(value)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return "true" if value is True else "false" if value is False else WHOLE_LOGIN.sub("***@", repr(value))


def _meant(word: str, words: Collection[str]) -> str:
    close = get_close_matches(word, words, 1)
    return f" (did you mean {close[0]}?)" if close else ""
