"""Thresholds and ignored bindings from TOML: [audit] of hashstar.toml, [tool.hashstar.audit] of pyproject.toml.

Everything that is wrong is an InputError that names the file, the key and the way out: a misspelt threshold must not
be one that never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.report.gates import Ignore, Limits, Settings, parse_quota
from bindings.sources.toml_file import read_toml
from exchange.errors import InputError

__all__ = ["NAMES", "find_settings", "load_settings", "settings_of"]

NAMES: Final = {"hashstar.toml": ("audit",), "pyproject.toml": ("tool", "hashstar", "audit")}
"""Name of a file -> where in it the settings are."""


class _Place(NamedTuple):
    """Where something stands, for messages."""

    file: str
    key: str

    def at(self, name: str) -> _Place:
        return _Place(self.file, f"{self.key}.{name}" if name.isidentifier() else f'{self.key}."{name}"')

    def error(self, told: str) -> InputError:
        return InputError(f"{self.file}: {self.key}: {told}")


def find_settings(folder: Path) -> Path | None:
    """The file in a folder that has settings of an audit, hashstar.toml before pyproject.toml; None if none has.

    Raises InputError for one that is no TOML.
    """
    for name, keys in NAMES.items():
        path = folder / name
        if path.is_file() and _inner(read_toml(path, Decimal), keys) is not None:
            return path
    return None


def load_settings(path: Path) -> Settings:
    """The settings in a file: under ``tool.hashstar.audit`` if it is called pyproject.toml, else under ``audit``.

    Raises InputError when it cannot be read, has none, or something in them is wrong.
    """
    keys = NAMES.get(path.name, ("audit",))
    found = _inner(read_toml(path, Decimal), keys)
    if found is None:
        raise InputError(f"{path}: there is no [{'.'.join(keys)}] in it")
    return settings_of(found, str(path), ".".join(keys))


def settings_of(found: Any, file: str, key: str = "audit") -> Settings:
    """The settings that a table of TOML says; ``file`` and ``key`` are what errors call it."""
    place = _Place(file, key)
    table = _table(found, place)
    _only(table, place, (*_LIMITS, "stale_days", "precision", "exchanges", "queues", "ignore"))
    return Settings(
        _limits(table, place, tuple(_LIMITS)),
        _globs(table, place, "exchanges", ("fail_under", "fail_under_messages", "max_unroutable")),
        _globs(table, place, "queues", ("max_partition_skew",)),
        _ignores(table.get("ignore", []), place.at("ignore")),
        _whole(table, place, "stale_days", Settings().stale_days, 1, 100_000),
        _whole(table, place, "precision", Settings().precision, 0, 6),
    )


def _inner(table: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _table(found: Any, place: _Place) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise place.error(f"expected a table, not {_told(found)}")
    return found


def _only(table: Mapping[str, Any], place: _Place, known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; is {near[0]} meant?" if near else f"; there are {', '.join(known)}"
            raise place.at(name).error(f"unknown setting{hint}")


def _limits(table: Mapping[str, Any], place: _Place, names: tuple[str, ...]) -> Limits:
    return Limits(**{name: _LIMITS[name](table[name], place.at(name)) for name in names if name in table})


def _percentage(value: Any, place: _Place) -> Decimal:
    number = _number(value)
    if number is None or not 0 <= number <= 100:
        raise place.error(f"expected a percentage from 0 to 100, not {_told(value)}")
    return number


def _ratio(value: Any, place: _Place) -> Decimal:
    number = _number(value)
    if number is None or number < 1:
        raise place.error(f"expected the fullest partition divided by the mean, a number from 1, not {_told(value)}")
    return number


def _most(value: Any, place: _Place) -> Any:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    limit = parse_quota(text)
    if limit is None:
        raise place.error(f'expected a whole number such as 100, or a share such as "0.5%", not {_told(value)}')
    return limit


_LIMITS: Final[Mapping[str, Callable[[Any, _Place], Any]]] = {
    "fail_under": _percentage,
    "fail_under_messages": _percentage,
    "max_unroutable": _most,
    "max_bad": _most,
    "max_partition_skew": _ratio,
    "max_misrouted": _most,
    "max_rerouted": _most,
}
"""Name of a limit -> how its value is read."""


def _globs(
    table: Mapping[str, Any], place: _Place, name: str, limits: tuple[str, ...]
) -> tuple[tuple[str, Limits], ...]:
    here = place.at(name)
    found = []
    for glob, inner in _table(table.get(name, {}), here).items():
        own = here.at(glob)
        _only(_table(inner, own), own, limits)
        found.append((glob, _limits(inner, own, limits)))
    return tuple(found)


def _ignores(found: Any, place: _Place) -> tuple[Ignore, ...]:
    if not isinstance(found, list):
        raise place.error("expected a list of tables, each under [[audit.ignore]]")
    return tuple([_ignore(each, _Place(place.file, f"{place.key}[{n}]")) for n, each in enumerate(found)])


def _ignore(found: Any, place: _Place) -> Ignore:
    table = _table(found, place)
    globs = ("source", "destination", "pattern")
    _only(table, place, (*globs, "reason", "until"))
    if not any(name in table for name in globs):
        raise place.error("names no binding; give source, destination or pattern, each a glob")
    for name in (*globs, "reason"):
        if name in table and not (isinstance(table[name], str) and (name != "reason" or table[name].strip())):
            raise place.at(name).error(f"expected a text, not {_told(table[name])}")
    if "reason" not in table:
        raise place.error('reason is missing; write why these bindings are silent: reason = "..."')
    if "until" not in table:
        raise place.error("until is missing; write the day on which to look again: until = 2030-12-31")
    source, destination, pattern = [table.get(name, "*") for name in globs]
    return Ignore(source, destination, pattern, table["reason"].strip(), _day(table["until"], place.at("until")))


def _day(value: Any, place: _Place) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise place.error(f"expected a day such as 2030-12-31, not {_told(value)}")


def _whole(table: Mapping[str, Any], place: _Place, name: str, usual: int, least: int, greatest: int) -> int:
    value = table.get(name, usual)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
        raise place.at(name).error(f"expected a whole number from {least} to {greatest:,}, not {_told(value)}")
    return value


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _told(value: Any) -> str:
    """Return a value of TOML as a message shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, Decimal) else repr(value)
