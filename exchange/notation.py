"""Field values for people: as the ``.bindings`` language writes them, which can be pasted there.

A text stands in double quotes, an array in brackets, a table in braces, and a type that JSON lacks before its value:
``!timestamp 5``, ``!decimal 1.5``, ``!bytes "/w=="``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exchange.display import dump_json
from exchange.typed_json import encode

__all__ = ["write_value"]

VARIABLE: Final = re.compile(r"\{(?=[^\W\d]\w*\})")


def write_value(value: Any) -> str:
    """Return a field value on one line. Raises as `exchange.typed_json.encode`."""
    return _written(encode(value))


def _written(value: Any) -> str:
    if isinstance(value, str):
        return VARIABLE.sub(r"\\{", dump_json(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if not isinstance(value, dict):
        return dump_json(value)
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "!table":
            return _table(inner)
        if key == "!decimal":
            return f"{key} {inner}" if inner.replace("-", "").replace(".", "").isdecimal() else f'{key} "{inner}"'
        if key.startswith("!"):
            return f"{key} {_written(inner)}"
    return _table(value)


def _table(fields: dict[str, Any]) -> str:
    entries = ", ".join([f"{_written(name)} = {_written(value)}" for name, value in fields.items()])
    return f"{{ {entries} }}" if entries else "{}"
