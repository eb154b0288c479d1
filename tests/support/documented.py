"""Check whether a page of ``docs/`` explains all fields of a JSON document."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path
from typing import Any


def words_of(page: str) -> set[str]:
    """Return all words of a page."""
    return set(re.findall(r"\w+", (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")))


def fields_of(value: Any, named_by_user: Container[str]) -> set[str]:
    """Return the names of all fields, without those below fields whose names a user chooses."""
    if isinstance(value, list):
        return {name for each in value for name in fields_of(each, named_by_user)}
    if isinstance(value, dict):
        below = [fields_of(each, named_by_user) for key, each in value.items() if key not in named_by_user]
        return {*value}.union(*below)
    return set()
