"""Numbers in texts from outside are ASCII digits, in all of the product: what else Python takes is not a number."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.text.numbers import is_digits, read_float, read_integer
from exchange.values.field_text import decode_field
from exchange.values.field_values import RANGES
from tests.support.cases import with_each
from tests.support.syntax import read_modules, walk
from tests.support.tiers import examples

ALLOWED: Final = {
    "exchange/text/numbers.py",
    "exchange/selector/compiled.py",  # texts of Java's code, where all digits are ASCII
    "exchange/values/java_numbers.py",  # Java's own conversions, which take the digits of all scripts
    "exchange/partition/clients/rocketmq/queues.py",  # as Integer.parseInt
    "bridge/interop/amqp_guest.py",  # bytes, of which only ASCII are digits
}
METHODS: Final = {"isdigit", "isdecimal", "isnumeric"}

TEXTS: Final = st.text("0123456789+-_. eE\t\u0663\u00b2\u0be7\uff11xinfa", max_size=6) | st.floats().map(repr)


@given(TEXTS)
@examples(500)
def test_a_number_is_read_if_python_reads_it_and_only_usual_characters_are_in_it(text: str) -> None:
    usual = not set(text) - set(string.digits + "+-.eEinfatyINFATY")
    for read, slow in ((read_integer, int), (read_float, float)):
        try:
            expected = repr(slow(text)) if usual else None
        except ValueError:
            expected = None
        try:
            found = repr(read(text))
        except ValueError:
            found = None
        assert found == expected, (read, text)
    assert is_digits(text) == (bool(text) and not set(text) - set(string.digits))


@with_each("kind", [*RANGES, "long", "double", "float", "decimal"])
@with_each("text", ["\u0661", "1_0", " 1", "1\n", "\uff11", "\u00b2", ""])
def test_no_field_is_read_of_what_only_python_takes_for_a_number(kind: str, text: str) -> None:
    with pytest.raises(InputError):
        decode_field(kind, text)


def find_faults() -> Iterator[str]:
    """Yield each place where digits of all scripts count as digits."""
    for path, text in read_modules().items():
        if path in ALLOWED or not any(word in text for word in (*METHODS, "compile")):
            continue
        for node in walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                yield f"{path}:{node.lineno}: {node.attr}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                pattern, *flags = map(ast.unparse, [*node.args, *(each.value for each in node.keywords)])
                if _has_digits(pattern) and not any("ASCII" in flag for flag in flags):
                    yield f"{path}:{node.lineno}: {pattern}"


def _has_digits(pattern: str) -> bool:
    """Return whether a pattern of texts has a class of digits; one without letters and digits is that of names."""
    return not pattern.startswith(("b", "rb")) and "\\d" in re.sub(r"\[\^[^\]]*\]", "", pattern)


def test_no_module_takes_the_digits_of_all_scripts() -> None:
    assert list(find_faults()) == []
