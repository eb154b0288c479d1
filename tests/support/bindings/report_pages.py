"""The report that a page of HTML holds, as the page's script reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any


def report_in(text: str) -> Any:
    """Return the report of a page as JSON values."""
    (block,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    return unpack(json.loads(block))["report"]


def unpack(value: Any) -> Any:
    """Return the value that `bindings.report.forms.html` packed."""
    if isinstance(value, list):
        return list(map(unpack, value))
    if not isinstance(value, dict):
        return value
    if "$columns" in value:
        return [_object(value["$columns"], row) for row in value["$rows"]]
    return _object(value, value.values())


def _object(names: Iterable[str], values: Iterable[Any]) -> dict[str, Any]:
    return {
        name.removeprefix("$"): unpack(value)  # only the first $, which marks names that begin with one
        for name, value in zip(names, values, strict=True)
    }
