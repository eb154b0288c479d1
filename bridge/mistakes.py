"""Mistakes and warnings of a configuration: all are kept and shown at once, each with its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from exchange.errors import InputError


class ConfigWarning(NamedTuple):
    """A warning about a key of a configuration."""

    table: str
    """The name of the table, ``sources.orders``; "" for the top level of the file."""
    key: str
    text: str

    def __str__(self) -> str:
        return f"{f'[{self.table}] ' if self.table else ''}{self.key}: {self.text}"


class Mistakes:
    """The mistakes of a configuration: the first one of each key, as further ones often follow from it."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, ...], InputError] = {}

    def __len__(self) -> int:
        return len(self._errors)

    def keep(self, error: InputError, item: str = "") -> None:
        """Keep a mistake, unless its key has one; a list or table may have one for each ``item`` of it."""
        if isinstance(error, ConfigError):
            for each in error.mistakes:
                self.keep(each, item)
            return
        where = error.where if isinstance(error, KeyMistake) else ("", str(error))
        self._errors.setdefault((*where, item), error)

    @contextmanager
    def collect(self, item: str = "") -> Iterator[None]:
        """Keep the InputError that the block raises, and continue after the block."""
        try:
            yield
        except InputError as error:
            self.keep(error, item)

    def raise_any(self) -> None:
        """Raise the mistake if there is one, or ConfigError if there are several."""
        if len(self) == 1:
            raise next(iter(self._errors.values()))
        if self:
            raise ConfigError(*self._errors.values())


class KeyMistake(InputError):
    """A mistake in the value of a key."""

    def __init__(self, text: str, where: tuple[str, str]) -> None:
        super().__init__(text)
        self.where = where


class ConfigError(InputError):
    """All mistakes of a configuration, in the order of their sections.

    >>> error = ConfigError(InputError("targets: there are none"), InputError("workers: must be at least 1"))
    >>> print(error)
    targets: there are none
    workers: must be at least 1
    """

    def __init__(self, *mistakes: InputError) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes
