"""A table of a TOML file that is read key by key, so that every error names its key and a way out.

Reading a value removes it from the table. A key that is left at the end is unknown: an error that suggests the closest
known key. Text may hold ``${NAME}`` for an environment variable; a secret may also be ``{ env = "NAME" }`` or
``{ file = "PATH" }``, and is never printed. What is allowed but will become a problem one day is a warning, which
`Table.warn` keeps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from bindings.sources.address import Address, parse_address
from bindings.sources.files import open_file
from bindings.sources.toml_places import locate
from bridge.endpoint import Disconnected
from bridge.mistakes import ConfigWarning, KeyMistake, Mistakes
from exchange.errors import InputError
from exchange.text.display import SECRETIVE, find_alike, suggest

T = TypeVar("T")

VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")

SECRET_BYTES: Final = 64 << 10
"""Maximum size of a file with a secret, in bytes."""
STAND_IN: Final = "localhost:1"
"""Host of the address that stands for one with a mistake; nothing connects to it, as the configuration is refused."""
WHOLE_LOGIN: Final = re.compile(r"(?<=://).*@", re.DOTALL)
"""The same in a value that is printed whole. A password may hold spaces and quotes, too: better hide too much."""


def read_address(table: Table, text: str, schemes: Collection[str], example: str, key: str = "url") -> Address:
    """Parse the address under a key. Keeps or raises InputError with the key and an example, but never the address
    itself; another one stands for it, as the keys beside it may have mistakes, too.
    """
    try:
        return parse_address(text, schemes, example)
    except InputError as error:
        reason = str(error).removesuffix(f"; write {example}")
        table.keep(table.error(key, f"must be {example}" + ("" if reason == "not an address" else f" ({reason})")))
        return Address(next(iter(schemes)), STAND_IN)


def refuse_second_login(table: Table, address: Address) -> None:
    """Raise InputError for a user or password in the address and under a key of its own: one of them is forgotten."""
    for key, within in (("user", address.user), ("password", address.password)):
        if within and table.has(key):
            raise table.error(key, "is given twice, here and in url; remove one of them")


class Secret(str):
    """A text that is never printed, with its value when the configuration was read; `current` reads it again."""

    __slots__ = ("_read",)
    _read: Callable[[], str]

    def __new__(cls, text: str, read: Callable[[], str] | None = None) -> Self:
        secret = super().__new__(cls, text)
        secret._read = read if read is not None else lambda: text
        return secret

    def current(self) -> str:
        """Read its file or variable again. Raises Disconnected if that cannot be read.

        Endpoints call this whenever they connect, so that a rotated secret needs no restart.
        """
        try:
            return self._read()
        except InputError as error:
            raise Disconnected(str(error)) from None

    def __repr__(self) -> str:
        return "'***'"


class Table:
    """A table and its path in the file. Each method that reads a key raises InputError for a value of a wrong type."""

    def __init__(
        self, values: Mapping[str, Any], source: str, path: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self._values = dict(values)
        self._known: list[str] = []
        self._texts: dict[str, str] = {}
        self.source = source
        """The file, for error messages."""
        self.path = path
        """The path of the table in it, for error messages: ``targets.kafka``."""
        self._environment = environment
        self.warnings: list[ConfigWarning] = []
        """Warnings of this table and of all tables in it."""
        self.mistakes: Mistakes | None = None
        """If set, keeps mistakes in values that have a default, instead of raising them; also those of tables in it."""
        self.files = set[Path]()
        """Files that were read, or will be, for its keys and those of tables in it: secrets, certificates."""
        self.tokens: Any = None
        """The `bridge.tokens.Tokens` with which its endpoint logs in, once its keys were read; None if it has none."""

    def path_of(self, name: str) -> str:
        """Return the path of a table in it."""
        return f"{self.path}.{name}" if self.path else name

    def warn(self, key: str, text: str) -> None:
        """Keep a warning about a key."""
        self.warnings.append(ConfigWarning(self.path, key, text))

    def missing(self, key: str, way_out: str) -> InputError:
        """Build the error for a required key that is missing; if there is an unknown key close to it, it names that."""
        unknown = [each for each in self._values if each not in self._known]
        close = find_alike(key, unknown)
        if close is not None:
            return self.error(close, f"is not known here{suggest(close, [key])}", masked=True)
        return self.error(key, way_out)

    def check_keys(self, known: Collection[str], *, listed: bool = True) -> None:
        """Check that all keys are among these, before any is read. Raises InputError naming the first unknown one.

        The error lists them unless they are too many.
        """
        for key in self._values:
            if key not in known:
                self._refuse_unknown(key, known, listed=listed)

    def error(self, key: str, problem: str, *, masked: bool = False) -> InputError:
        """Build the error for a key, whose value is not shown if it is ``masked``."""
        where = f"[{self.path}] " if self.path else ""
        line, caret = locate(self.source, self.path, key, masked=masked)
        return KeyMistake(f"{self.source}{line}: {where}{key}: {problem}{caret}", (self.path, key))

    def error_in(self, name: str, key: str, problem: str) -> InputError:
        """Build the error for a key of a table in it; it stands at the heading where the key is not given."""
        return Table({}, self.source, self.path_of(name)).error(key, problem)

    def keep(self, error: InputError, item: str = "") -> None:
        """Keep a mistake without which the table can be read on, in an ``item`` of its key; else raise it."""
        if self.mistakes is None:
            raise error
        self.mistakes.keep(error, item)

    def _refuse_unknown(self, key: str, known: Collection[str], *, listed: bool = True) -> None:
        """Keep or raise the error of a key that is not known, whose value may be a secret under a misspelt name."""
        names = f"; known: {', '.join(known)}" if listed else ""
        self.keep(self.error(key, f"is not known here{names}{suggest(key, known)}", masked=True))

    def text(self, key: str, default: str | None = None) -> str:
        """Read a text that is not empty. The key is required if there is no default."""
        value = self.take(key, default)
        if not isinstance(value, str) or not (value or default == ""):
            raise self.error(key, f'must be a text in quotes, and is {describe(value)}: {key} = "..."')
        self._texts[key] = self._expand(key, value)
        return self._texts[key]

    def reread_text(self, key: str) -> str | None:
        """Return a text that was read before; None if the key was missing."""
        return self._texts.get(key)

    def has(self, key: str) -> bool:
        """Return whether a key is there, and add it to the known keys."""
        if key not in self._known:
            self._known.append(key)
        return key in self._values

    def is_unread(self, key: str) -> bool:
        """Return whether a key may still have a mistake: its value was not read, or nothing has asked for it."""
        return key in self._values or key not in self._known

    def resolve_path(self, written: str) -> Path:
        """Return a path relative to the folder of the configuration; an absolute path stays as it is."""
        return Path(self.source).parent / written

    def file(self, key: str) -> str | None:
        """Read the path of a file, and check that the file can be read; None if the key is missing."""
        if not self.has(key):
            return None
        written = self.text(key)
        path = self.resolve_path(written)
        self._check_file(key, written, path)
        return str(path)

    def _check_file(self, key: str, written: str, path: Path) -> None:
        """Keep or raise InputError if a file cannot be read; one that could be waited for cannot."""
        self.files.add(path)
        try:
            open_file(path).close()
        except OSError as error:
            self.keep(self.error(key, f"the file {written} cannot be read: {error.strerror}"))

    def is_list(self, key: str) -> bool:
        """Return whether the value is a list."""
        return self.has(key) and isinstance(self._values[key], list)

    def texts(self, key: str, default: Collection[str] | None = None) -> list[str]:
        """Read a list of texts; a single text is a list of one."""
        value = self.take(key, default)
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(each, str) and each for each in texts):
            wrong = next((each for each in value if not isinstance(each, str)), "") if isinstance(value, list) else None
            found = f"is {describe(value)}" if wrong is None else f"has {describe(wrong)}"
            raise self.error(key, f'must be a list of texts, and {found}: {key} = ["...", "..."]')
        return [self._expand(key, each) for each in texts]

    def secret(self, key: str) -> Secret | None:
        """Read a secret: a text, ``{ env = "NAME" }`` or ``{ file = "PATH" }``; None if the key is missing."""
        if not self.has(key):
            return None
        value = self._values.pop(key)
        if isinstance(value, str):
            return Secret(self._expand(key, value))
        if isinstance(value, dict) and len(value) == 1:
            [(how, where)] = value.items()
            if how == "env" and isinstance(where, str):
                return self._make_secret(lambda: self._read_variable(key, where))
            if how == "file" and isinstance(where, str):
                path = self.resolve_path(self._expand(key, where))
                self._check_file(key, where, path)
                return self._make_secret(lambda: self._read_secret(key, where, path))
        raise self.error(key, 'must be a text, { env = "NAME" } or { file = "PATH" }')

    def _make_secret(self, read: Callable[[], str]) -> Secret:
        return Secret(read(), read)

    def _read_secret(self, key: str, written: str, path: Path) -> str:
        """Read a secret from a file, without the newline at its end."""
        try:
            with path.open("rb") as file:
                data = file.read(SECRET_BYTES + 1)
            text = data.decode().rstrip("\r\n")
        except OSError as error:
            raise self.error(key, f"the file {written} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self.error(key, f"the file {written} is not UTF-8") from None
        if len(data) > SECRET_BYTES or "\0" in text:
            raise self.error(key, f"the file {written} is no secret: it has a NUL, or more than {SECRET_BYTES:,} bytes")
        if not text:
            raise self.error(key, f"the file {written} is empty")
        return text

    def table(self, key: str) -> Table:
        """Read a table in this table; an empty one if the key is missing."""
        value, path = self.take(key, {}), self.path_of(key)
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, and is {describe(value)}: [{path}]")
        within = Table(value, self.source, path, self._environment)
        within.warnings = self.warnings
        within.files = self.files
        within.mistakes = self.mistakes
        return within

    def copy(self, kept: Collection[str] | None = None, added: Mapping[str, Any] | None = None) -> Table:
        """Return a table with the values that were not read yet, of these keys or of all, and others added.

        What is read of it stays here; its mistakes are raised, and its warnings are its own.
        """
        values = {key: value for key, value in self._values.items() if kept is None or key in kept}
        return Table({**values, **(added or {})}, self.source, self.path, self._environment)

    def tables(self, key: str) -> dict[str, Table]:
        """Read a table of tables, such as ``[sources.orders]`` and ``[sources.billing]``, by name."""
        within = self.table(key)
        return {name: within.table(name) for name in list(within._values)}

    def mapping(self, key: str, read: Callable[[Any], T], what: str) -> dict[str, T]:
        """Read a table whose values are all of one kind; a list of texts stands for a table of each text to itself.

        ``read`` converts a value, and raises ValueError for a wrong one; ``what`` describes a right one.
        """
        value = self.take(key, {})
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = {each: each for each in value}
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, and is {describe(value)}: {what}")
        values, wrong = {}, list[InputError]()
        for name, each in value.items():
            try:
                values[name] = read(self._expand(key, each) if isinstance(each, str) else each)
            except ValueError as error:
                why = f": {error}" if str(error) else ""
                shown = "'***'" if SECRETIVE.search(name) else describe(each)
                wrong.append(self.error(f"{key}.{name}", f"must be {what}, and is {shown}{why}"))
        for mistake in wrong:
            self.keep(mistake)
        if wrong and not values:  # it would seem to be empty
            raise wrong[0]
        return values

    def refuse_unread(self, documented: Collection[str]) -> None:
        """Refuse the keys that are left after all known ones were read, which must be among the documented ones."""
        assert {*self._known} <= {*documented}, self._known  # noqa: S101  else the schema would refuse what is read
        for key in self._values:
            self._refuse_unknown(key, self._known)

    def take(self, key: str, default: Any) -> Any:
        """Remove a value from the table and return it, or the default. Raises InputError if there is neither."""
        if self.has(key):
            return self._values.pop(key)
        if default is None:
            raise self.missing(key, f"is missing; write {key} = ...")
        return default

    def _expand(self, key: str, text: str) -> str:
        return VARIABLE.sub(lambda match: self._read_variable(key, match[1]), text)

    def _read_variable(self, key: str, name: str) -> str:
        try:
            return self._environment[name]
        except KeyError:
            raise self.error(key, f"the environment has no variable {name}") from None


def describe(value: Any) -> str:
    """Return what a value is, for errors, without any login in it."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping | list):  # with secrets, perhaps
        return "a table" if isinstance(value, Mapping) else "a list"
    return "true" if value is True else "false" if value is False else WHOLE_LOGIN.sub("***@", repr(value))
