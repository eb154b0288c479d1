"""Thresholds and ignored bindings from TOML: [audit] of hashstar.toml, [tool.hashstar.audit] of pyproject.toml.

Every mistake raises an InputError that names the file, the key and the way out: a misspelt threshold must not become a
gate that never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.report.thresholds import Ignore, Limits, Quota, Settings, parse_quota
from bindings.sources.toml_file import read_toml
from bindings.sources.toml_places import locate
from exchange.errors import InputError
from exchange.text.display import suggest
from exchange.values.json_schema import DRAFT_07, describe_fields, identify

NAMES: Final = {"hashstar.toml": ("audit",), "pyproject.toml": ("tool", "hashstar", "audit")}
"""Name of a file -> the path of keys to the table with the settings."""


class _Position(NamedTuple):
    """The file and the key of a setting, for errors."""

    file: str
    key: str

    def at(self, name: str) -> _Position:
        return _Position(self.file, f"{self.key}.{name}" if name.isidentifier() else f'{self.key}."{name}"')

    def error(self, problem: str) -> InputError:
        if not self.file:  # an option
            return InputError(f"{self.key}: {problem}")
        line, caret = locate(self.file, "", self.key.replace('"', ""))
        return InputError(f"{self.file}{line}: {self.key}: {problem}{caret}")


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
    found = _read_all(_SETTINGS, _read_table(value, position), position)
    limits = Limits(**{name: found.pop(name) for name in _LIMITS if name in found})
    return Settings(limits, **found)


def read_option(name: str, text: str) -> Any:
    """Return the threshold in the text of its option. Raises InputError, which names the option."""
    form = _LIMITS[name]
    value: str | Decimal = text
    if form is not _QUOTA:
        with suppress(InvalidOperation):
            value = Decimal(text.strip().removesuffix("%"))
    return form.read(value, _Position("", f"--{name.replace('_', '-')}"))


def build_settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of hashstar.toml, in draft-07, which every editor with schemas for TOML has."""
    table = _schema_of(_SETTINGS, describe_fields(Settings) | describe_fields(Limits))
    for name in ("stale_days", "precision"):
        table["properties"][name]["default"] = getattr(Settings(), name)
    return {
        "$schema": DRAFT_07,
        "$id": identify("hashstar"),
        "title": "The settings of audits, hashstar.toml",
        "type": "object",
        "properties": {"audit": table},
    }


def _find_table(table: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _read_table(value: Any, position: _Position) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise position.error(f"expected a table, not {_show(value)}")
    return value


def _refuse_unknown(table: Mapping[str, Any], position: _Position, known: Collection[str]) -> None:
    for name in table:
        if name not in known:
            raise position.at(name).error(f"unknown setting{suggest(name, known, or_list=True)}")


class _Form(NamedTuple):
    """The form of a setting: the function that reads its value, and the JSON Schema of what that accepts."""

    read: Callable[[Any, _Position], Any]
    schema: Mapping[str, Any]


def _read_all(forms: Mapping[str, _Form], table: Mapping[str, Any], position: _Position) -> dict[str, Any]:
    """Return the settings that a table has, by name. Raises InputError, first for an unknown one."""
    _refuse_unknown(table, position, forms)
    return {name: form.read(table[name], position.at(name)) for name, form in forms.items() if name in table}


def _schema_of(forms: Mapping[str, _Form], about: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        name: {**({"description": about[name]} if name in about else {}), **form.schema} for name, form in forms.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


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


def _read_quota(value: Any, position: _Position) -> Quota:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    limit = parse_quota(text)
    if limit is None:
        raise position.error(f'expected a whole number such as 100, or a share such as "0.5%", not {_show(value)}')
    return limit


_PERCENTAGE: Final = _Form(_read_percentage, {"type": "number", "minimum": 0, "maximum": 100})
_RATIO: Final = _Form(_read_ratio, {"type": "number", "minimum": 1})
_QUOTA: Final = _Form(
    _read_quota,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\s*([0-9]+|0*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)\s*%)\s*$"},
        ]
    },
)

_LIMITS: Final[Mapping[str, _Form]] = {
    "fail_under": _PERCENTAGE, "fail_under_messages": _PERCENTAGE, "max_unroutable": _QUOTA, "max_bad": _QUOTA,
    "max_partition_skew": _RATIO, "max_misrouted": _QUOTA, "max_rerouted": _QUOTA,
}  # fmt: skip
"""Name of a threshold -> its form."""


def _globs(*names: str) -> _Form:
    """Return the form of a table: glob of names -> those of these thresholds that it sets."""
    limits = {name: _LIMITS[name] for name in names}

    def read(value: Any, position: _Position) -> tuple[tuple[str, Limits], ...]:
        found = []
        for glob, inner in _read_table(value, position).items():
            own = position.at(glob)
            found.append((glob, Limits(**_read_all(limits, _read_table(inner, own), own))))
        return tuple(found)

    return _Form(
        read,
        {
            "description": f"Glob of names = thresholds for each of these: {', '.join(f'`{name}`' for name in names)}.",
            "type": "object",
            "additionalProperties": _schema_of(limits, describe_fields(Limits)),
        },
    )


def _whole(least: int, greatest: int) -> _Form:
    """Return the form of a whole number in a range."""

    def read(value: Any, position: _Position) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
            raise position.error(f"expected a whole number from {least} to {greatest:,}, not {_show(value)}")
        return value

    return _Form(read, {"type": "integer", "minimum": least, "maximum": greatest})


def _read_glob(value: Any, position: _Position) -> str:
    if not isinstance(value, str):
        raise position.error(f"expected a text, not {_show(value)}")
    return value


def _read_reason(value: Any, position: _Position) -> str:
    if not isinstance(value, str) or not value.strip():
        raise position.error(f"expected a text, not {_show(value)}")
    return value.strip()


def _read_day(value: Any, position: _Position) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise position.error(f"expected a day such as 2030-12-31, not {_show(value)}")


_GLOB: Final = _Form(_read_glob, {"type": "string"})
_GLOBS: Final = ("source", "destination", "pattern")

_IGNORE: Final[Mapping[str, _Form]] = {
    **dict.fromkeys(_GLOBS, _GLOB),
    "reason": _Form(_read_reason, {"type": "string", "pattern": r"\S"}),
    "until": _Form(_read_day, {"type": "string", "pattern": r"^\d{4}-?(\d\d-?\d\d|W\d\d(-?[1-7])?)$"}),
}
"""Key of an entry that ignores bindings -> its form."""


def _read_ignores(value: Any, position: _Position) -> tuple[Ignore, ...]:
    if not isinstance(value, list):
        raise position.error("expected a list of tables, each under [[audit.ignore]]")
    return tuple([_read_ignore(each, _Position(position.file, f"{position.key}[{n}]")) for n, each in enumerate(value)])


def _read_ignore(value: Any, position: _Position) -> Ignore:
    table = _read_table(value, position)
    _refuse_unknown(table, position, _IGNORE)
    if not any(name in table for name in _GLOBS):
        raise position.error("names no binding; give source, destination or pattern, each a glob")
    found = _read_all(_IGNORE, table, position)
    if "reason" not in found:
        raise position.error('reason is missing; write why these bindings are silent: reason = "..."')
    if "until" not in found:
        raise position.error("until is missing; write the day on which to look again: until = 2030-12-31")
    source, destination, pattern = [found.get(name, "*") for name in _GLOBS]
    return Ignore(source, destination, pattern, found["reason"], found["until"])


def _ignores_schema() -> dict[str, Any]:
    entry = _schema_of(_IGNORE, describe_fields(Ignore))
    named = [{"required": [name]} for name in _GLOBS]
    return {
        "description": "Bindings that no message matches for a good reason: globs `source`, `destination`, `pattern`; "
        "`reason`; and `until`, the last day.",
        "type": "array",
        "items": {**entry, "required": ["reason", "until"], "anyOf": named},
    }


_SETTINGS: Final[Mapping[str, _Form]] = {
    **_LIMITS,
    "stale_days": _whole(1, 100_000),
    "precision": _whole(0, 6),
    "exchanges": _globs("fail_under", "fail_under_messages", "max_unroutable"),
    "queues": _globs("max_partition_skew"),
    "ignore": _Form(_read_ignores, _ignores_schema()),
}
"""Name of a setting -> its form. Those that are no thresholds are fields of `Settings`."""


def _to_decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None


def _show(value: Any) -> str:
    """Return a value of TOML for an error."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, Decimal) else repr(value)
