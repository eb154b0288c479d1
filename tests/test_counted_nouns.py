"""A number that may be one has its noun by `exchange.text.display.count_noun`: no text reads "1 queues"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tests.support.syntax import read_modules

NOUN: Final = re.compile(r" (?:more |other |earlier |further )?(?!bytes|characters|is |ms)[a-z]+s\b")
"""A plural behind a number. Bytes and characters, of which errors have many, are left out."""
MAYBE: Final = re.compile(r"""(?:\{len\([^{}"]*|:,)\} (?:[a-z]+ )?[a-z]+s\b""")
"""What any such text has."""
NEVER_ONE: Final = frozenset({
    ("exchange/partition/slots.py", "slots"), ("exchange/partition/slots.py", "partitions"),  # too few, or too many
    ("bridge/consumers/groups/names.py", "partitions"), ("exchange/rocketmq/stored_record.py", "most"),
    # one is what is wanted, and the texts are about others
    ("exchange/partition/clients/rocketmq/queues.py", "len(totals)"),
    ("bindings/sources/formats/asyncapi_reader.py", "len(documents)"),
    ("bindings/sources/formats/asyncapi_reader.py", "len(exchanges)"),
    ("bindings/sources/formats/terraform/resources.py", "len(items)"),
    ("bindings/sources/language/values.py", "len(items)"),
    ("bindings/diffing/forms/markdown.py", "dangerous"),  # an adjective
    ("bridge/dead/forms.py", "group.tries"),  # said of two and more
})  # fmt: skip
"""Module and number of texts in which the number is never one."""


def _find_plurals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and number of each plural behind a number; without those that a condition about one decides."""
    choices = [each for each in ast.walk(tree) if isinstance(each, ast.IfExp) and "1" in ast.unparse(each.test)]
    decided = {id(node) for choice in choices for node in ast.walk(choice)}
    for text in ast.walk(tree):
        if isinstance(text, ast.JoinedStr) and id(text) not in decided:
            for number, noun in pairwise(text.values):
                if _is_number(number) and isinstance(noun, ast.Constant) and NOUN.match(str(noun.value)):
                    assert isinstance(number, ast.FormattedValue)
                    yield number.lineno, ast.unparse(number.value)


def _is_number(part: ast.expr) -> bool:
    """Return whether a part of a text is written as a number, and is no constant."""
    if not isinstance(part, ast.FormattedValue) or ast.unparse(part.value).rpartition(".")[2].isupper():
        return False
    has_commas = part.format_spec is not None and ast.unparse(part.format_spec) in ("f','", 'f","')
    return has_commas or ast.unparse(part.value).startswith("len(")


def test_no_text_has_a_plural_behind_a_number_that_may_be_one() -> None:
    found = {
        (path, number): line
        for path, text in read_modules().items()
        if MAYBE.search(text)  # parsing all modules takes too long
        for line, number in _find_plurals(ast.parse(text))
    }
    assert {
        f"{path}:{line} {number}" for (path, number), line in found.items() if (path, number) not in NEVER_ONE
    } == set()
    assert found.keys() >= NEVER_ONE, "an exception that nothing needs any more"


def test_the_rule_finds_what_it_is_for() -> None:
    code = (
        "f'{n:,} queues'; f'{len(q)} more lines'; f'{MOST:,} keys'; f'{n:,} bytes'; 'one' if n == 1 else f'{n:,} keys'"
    )
    assert [number for _, number in _find_plurals(ast.parse(code))] == ["n", "len(q)"]
