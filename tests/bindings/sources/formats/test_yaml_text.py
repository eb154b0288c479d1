"""YAML is read as Kubernetes and AsyncAPI mean it, within limits, and each value knows its line."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.formats import yaml_text
from bindings.sources.formats.yaml_text import find_excesses, parse_documents, write_documents
from exchange.errors import InputError
from exchange.text.site import build_install_command
from tests.support.cases import with_each
from tests.support.tiers import examples


def read(text: str) -> list[Any]:
    return [node.plain() for node in parse_documents(text, "f.yaml")]


@with_each(
    ("text", "value"),
    [
        ("5", 5), ("-5", -5), ("+5", 5), ("0x1F", 31), ("0o17", 15), ("017", 15), ("0", 0), ("1.5", 1.5), ("1e3", 1000.0),
        (".5", 0.5), ("1.", 1.0), ("true", True), ("No", False), ("ON", True), ("~", None), ("null", None), ('""', ""),
        ("'5'", "5"), ('"a\\n\\u00e9"', "a\né"), ("a b", "a b"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"), ("y", "y"), ("|\n  a\n  b\n", "a\nb\n"), ("08", 8.0),
    ],
)  # fmt: skip
def test_values_are_those_of_json_and_none_of_yaml_1_1_alone(text: str, value: object) -> None:
    """No base 60, no dates, no underscores in numbers; texts in quotes are texts."""
    (found,) = read(f"a: {text}")
    assert (found["a"], type(found["a"])) == (value, type(value))


def test_documents_aliases_and_merge_keys() -> None:
    """Empty documents are none; a key beside a merge key takes precedence."""
    assert read("a: 1\n---\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]
    assert read("x: &x {a: 1, b: [2]}\ny: *x\nz: {<<: *x, a: 3}") == [
        {"x": {"a": 1, "b": [2]}, "y": {"a": 1, "b": [2]}, "z": {"a": 3, "b": [2]}}
    ]
    assert read("# nothing") == []


def test_each_value_knows_its_line_and_its_path() -> None:
    """For the error about it."""
    (root,) = parse_documents("a:\n- b\n- c: {d: 5}\n", "f.yaml")
    inner = root.fields()["a"].items()[1].fields()["c"].fields()["d"]
    assert str(inner.error("is wrong")) == "f.yaml:3: a[1].c.d: is wrong"


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@with_each(
    ("text", "words"),
    [
        (BOMB, "more than 2,000,000 items in one document, those of aliases included"),
        ("[" * 200, "f.yaml:1: nested too deeply, beyond 100 lists and mappings"),
        ("[" * 1_000_000, "f.yaml:1: nested too deeply"),
        ("a: [b]\nc: " + "[{a: " * 1_000, "f.yaml:2: nested too deeply"),
        ("- " * 150 + "x", "f.yaml:1: nested too deeply"),
        ("a: '" + "[" * 2_000, "f.yaml:1:2005: not YAML: found unexpected end of stream"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1: the tag !!python/object/apply:os.system is not read"),
        ("a: !secret x", "the tag !secret is not read; write the value without it"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: 'a' is here twice; only one can be meant"),
        ("a: *b", "f.yaml:1: the alias *b has no anchor before it"),
        ("a: &a [*a]", "f.yaml:1: the alias *a has no anchor before it"),
        ("? [a]\n: b", "f.yaml:1: a list or mapping is a key here; keys are texts"),
        ("x: &x a\n*x : b", "f.yaml:2: an alias is a key here"),
        ("a: .inf", "f.yaml:1: .inf is no finite number"),
        ("a: 1e999", "f.yaml:1: 1e999 is no finite number"),
        (f"a: {'9' * 5000}", "f.yaml:1: a number of more than 4300 digits"),
        (f"a: 0x{'f' * 4000}", "f.yaml:1: a number of more than 4300 digits"),
        (f"a: 0o{'7' * 4900}", "f.yaml:1: a number of more than 4300 digits"),
        (f"a: 0{'7' * 4900}", "f.yaml:1: a number of more than 4300 digits"),
        ("a: 'b", "f.yaml:1:6: not YAML: found unexpected end of stream"),
        ("a: {{ .Values.name }}", "keys are texts (render a template of Helm first)"),
        ("a: \x00", "f.yaml:1:4: not YAML"),
        ("a: b\n{{- if .x }}\n", "render it first, if it is a template of Helm"),
        ("a: b: c", "f.yaml:1:5: not YAML: mapping values are not allowed in this context"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_an_error_with_its_line(text: str, words: str) -> None:
    """Bombs, deep nesting, tags, repeated names, broken texts."""
    with pytest.raises(InputError) as error:
        read(text)
    assert words in str(error.value)


def test_a_line_of_a_megabyte_is_read_at_once() -> None:
    """Scanning is linear."""
    assert read(f"a: {'x' * 1_000_000}\nb: '{'y' * 1_000_000}'") == [{"a": "x" * 1_000_000, "b": "y" * 1_000_000}]


ODD = ["y", "no", "1", "1e3", "0o7", "", " a", "a: b", "# x", "é", "\u2028", "\x00", "\U0001f407", "a\nb", '"', "'", "- x",
       "null", "~", "2024-01-01", "1:30", "&a", "*a", "{x}", "%x", "@x", "a" * 200 + " " + "b" * 200]  # fmt: skip


def test_texts_are_written_so_that_every_parser_reads_texts() -> None:
    """Those that some version of YAML takes for something else stand in quotes."""
    (text,) = write_documents([{key: [key] for key in ODD}])
    assert read(text) == [{key: [key] for key in ODD}] == [yaml.safe_load(text)]
    assert all(f'"{word}"' in text for word in ("y", "no", "1", "1e3", "0o7", "null", "1:30"))


def test_without_pyyaml_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no part of the core."""
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(InputError, match=f"YAML needs PyYAML: {re.escape(build_install_command('yaml'))}"):
        read("a: b")


VALUES = st.recursive(
    st.sampled_from(["a", "5", "", 5, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


def count_items(value: Any) -> int:
    """Return the number of lists, mappings, keys and scalars of a value."""
    if isinstance(value, dict):
        return 1 + sum(1 + count_items(each) for each in value.values())
    return 1 + sum(map(count_items, value)) if isinstance(value, list) else 1


@examples(60)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_what_is_written_has_a_warning_exactly_where_it_would_be_refused(documents: list[Any]) -> None:
    texts = list(write_documents(documents))
    most, size = max(map(count_items, documents)), sum(map(len, texts))
    for items, characters in ((most, size), (most - 1, size), (most, size - 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml_text, "DOCUMENT_ITEMS", items)
            patch.setattr(yaml_text, "YAML_BYTES", characters)
            is_read = (items, characters) == (most, size)
            assert (not list(find_excesses(texts))) == is_read
            if is_read:
                assert read("".join(texts)) == documents
            else:
                with pytest.raises(InputError):
                    read("".join(texts))
