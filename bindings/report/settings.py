"""Thresholds and ignored bindings from TOML: [audit] of hashstar.toml, [tool.hashstar.audit] of pyproject.toml.

Every mistake raises an InputError that names the file, the key and the way out: a misspelt threshold must not become a
gate that never fails.
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

__all__ = ["NAMES", "find_settings", "load_settings", "read_settings"]

NAMES: Final = {"hashstar.toml": ("audit",), "pyproject.toml": ("tool", "hashstar", "audit")}
"""Name of a file -> the path of keys to the table with the settings."""


class _Position(NamedTuple):
    """The file and the key of a setting, for errors."""

    file: str
    key: str

    def at(self, name: str) -> _Position:
        return _Position(self.file, f"{self.key}.{name}" if name.isidentifier() else f'{self.key}."{name}"')

    def error(self, problem: str) -> InputError:
        return InputError(f"{self.file}: {self.key}: {problem}")


def find_settings(folder: Path) -> Path | None:
    """Return the file in a folder with the settings of an audit, hashstar.toml before pyproject.toml; None if neither.

    Raises InputError for a file that is not TOML.
    """
    for name, keys in NAMES.items():
        path = folder / name
        if path.is_file() and _find_table(read_toml(path, Decimal), keys) is not None:
            return path
    return None


def load_settings(path: Path) -> Settings:
    """Return the settings in a file: under ``tool.hashstar.audit`` of a pyproject.toml, under ``audit`` of any other.

    Raises InputError when the file cannot be read, has no settings, or has a mistake in them.
    """
    keys = NAMES.get(path.name, ("audit",))
    value = _find_table(read_toml(path, Decimal), keys)
    if value is None:
        raise InputError(f"{path}: there is no [{'.'.join(keys)}] in it")
    return read_settings(value, str(path), ".".join(keys))


def read_settings(value: Any, file: str, key: str = "audit") -> Settings:
    """Return the settings in a table of TOML; ``file`` and ``key`` name it in errors."""
    position = _Position(file, key)
    table = _read_table(value, position)
    _refuse_unknown(table, position, (*_LIMITS, "stale_days", "precision", "exchanges", "queues", "ignore"))
    return Settings(
        _read_limits(table, position, tuple(_LIMITS)),
        _read_globs(table, position, "exchanges", ("fail_under", "fail_under_messages", "max_unroutable")),
        _read_globs(table, position, "queues", ("max_partition_skew",)),
        _read_ignores(table.get("ignore", []), position.at("ignore")),
        _read_whole(table, position, "stale_days", Settings().stale_days, 1, 100_000),
        _read_whole(table, position, "precision", Settings().precision, 0, 6),
    )


def _find_table(table: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _read_table(value: Any, position: _Position) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise position.error(f"expected a table, not {_show(value)}")
    return value


def _refuse_unknown(table: Mapping[str, Any], position: _Position, known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; is {near[0]} meant?" if near else f"; there are {', '.join(known)}"
            raise position.at(name).error(f"unknown setting{hint}")


def _read_limits(table: Mapping[str, Any], position: _Position, names: tuple[str, ...]) -> Limits:
    return Limits(**{name: _LIMITS[name](table[name], position.at(name)) for name in names if name in table})


def _read_percentage(value: Any, position: _Position) -> Decimal:
    number = _to_decimal(value)
    if number is None or not 0 <= number <= 100:
        raise position.error(f"expected a percentage from 0 to 100, not {_show(value)}")
    return number


def _read_ratio(value: Any, position: _Position) -> Decimal:
    number = _to_decimal(value)
    if number is None or number < 1:
        raise position.error(f"expected the fullest partition divided by the mean, a number from 1, not {_show(value)}")
    return number


def _read_quota(value: Any, position: _Position) -> Any:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    limit = parse_quota(text)
    if limit is None:
        raise position.error(f'expected a whole number such as 100, or a share such as "0.5%", not {_show(value)}')
    return limit


_LIMITS: Final[Mapping[str, Callable[[Any, _Position], Any]]] = {
    "fail_under": _read_percentage,
    "fail_under_messages": _read_percentage,
    "max_unroutable": _read_quota,
    "max_bad": _read_quota,
    "max_partition_skew": _read_ratio,
    "max_misrouted": _read_quota,
    "max_rerouted": _read_quota,
}
"""Name of a threshold -> the function that reads its value."""


def _read_globs(
    table: Mapping[str, Any], position: _Position, name: str, limits: tuple[str, ...]
) -> tuple[tuple[str, Limits], ...]:
    here = position.at(name)
    limits_of = []
    for glob, inner in _read_table(table.get(name, {}), here).items():
        own = here.at(glob)
        _refuse_unknown(_read_table(inner, own), own, limits)
        limits_of.append((glob, _read_limits(inner, own, limits)))
    return tuple(limits_of)


def _read_ignores(value: Any, position: _Position) -> tuple[Ignore, ...]:
    if not isinstance(value, list):
        raise position.error("expected a list of tables, each under [[audit.ignore]]")
    return tuple([_read_ignore(each, _Position(position.file, f"{position.key}[{n}]")) for n, each in enumerate(value)])


def _read_ignore(value: Any, position: _Position) -> Ignore:
    table = _read_table(value, position)
    globs = ("source", "destination", "pattern")
    _refuse_unknown(table, position, (*globs, "reason", "until"))
    if not any(name in table for name in globs):
        raise position.error("names no binding; give source, destination or pattern, each a glob")
    for name in (*globs, "reason"):
        if name in table and not (isinstance(table[name], str) and (name != "reason" or table[name].strip())):
            raise position.at(name).error(f"expected a text, not {_show(table[name])}")
    if "reason" not in table:
        raise position.error('reason is missing; write why these bindings are silent: reason = "..."')
    if "until" not in table:
        raise position.error("until is missing; write the day on which to look again: until = 2030-12-31")
    source, destination, pattern = [table.get(name, "*") for name in globs]
    return Ignore(
        source, destination, pattern, table["reason"].strip(), _read_day(table["until"], position.at("until"))
    )


def _read_day(value: Any, position: _Position) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise position.error(f"expected a day such as 2030-12-31, not {_show(value)}")


def _read_whole(
    table: Mapping[str, Any], position: _Position, name: str, default: int, least: int, greatest: int
) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
        raise position.at(name).error(f"expected a whole number from {least} to {greatest:,}, not {_show(value)}")
    return value


def _to_decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _show(value: Any) -> str:
    """Return a value of TOML as errors show it."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, Decimal) else repr(value)
