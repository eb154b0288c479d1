"""The part of a count that adds exactly: all of it but the summaries of heavy hitters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from bindings.counts.sketch import Frequent

T = TypeVar("T")


def exact(value: T) -> T:
    """Return a tally, comparison or verification, or a pass of these, with all summaries of heavy hitters empty."""
    return _exact(value)  # type: ignore[no-any-return]


def _exact(value: Any) -> Any:
    if isinstance(value, Frequent):
        return Frequent()
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _exact(getattr(value, each.name)) for each in fields(value)})
    if isinstance(value, Mapping):
        return {key: _exact(each) for key, each in value.items()}
    if isinstance(value, tuple):
        items = map(_exact, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
