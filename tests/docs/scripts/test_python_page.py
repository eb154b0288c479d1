"""The page of the Python API has every public name."""

from __future__ import annotations

import re
from importlib import import_module

from docs.scripts.python_page import PACKAGES, PAGE, write_page


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text("utf-8") == write_page(), "run python -m docs.scripts.python_page"


def test_each_public_name_has_a_sentence() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.+\.) \|$", write_page(), re.MULTILINE)
    names = [f"{package}.{name}" for package in PACKAGES for name in import_module(package).__all__]
    assert [name for name, _ in rows] == names
