"""The reference of the Python API has every public name, each with its text; the docstrings become Markdown."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

pytest.importorskip("griffe", reason="the group docs is not installed")

from docs.site.reference import PACKAGES, describe_plainly, fence_examples, make_page


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_its_place_and_its_text(package: str) -> None:
    names = import_module(package).__all__
    page = make_page(package)
    directives = re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)
    rows = dict(re.findall(r"^\| \[`(\w+)`\]\(#([\w.]+)\) \| .+ \|$", page, flags=re.MULTILINE))
    assert tuple(rows) == tuple(names)
    assert list(rows.values()) == directives
    plain = describe_plainly(package)
    for name in names:
        text = re.split(rf"^## {package}\.{name}\n", plain, flags=re.MULTILINE)[1].partition("\n#")[0]
        assert re.search(r"^[A-Z0-9`].*\.", text, re.MULTILINE), f"{name} has no docstring"


def test_examples_are_fenced() -> None:
    text = "Do it.\n\n>>> do(\n...     1)\n1\n\nThen::\n\n    code()\n"
    assert fence_examples(text) == "Do it.\n\n```pycon\n>>> do(\n...     1)\n1\n```\n\nThen:\n\n    code()\n"
