"""Keys of TOML are found where they stand, whatever their form, and values that may be secret are not shown."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources import toml_places
from bindings.sources.files import open_file
from bindings.sources.toml_places import MAX_LINE_CHARACTERS, _TomlLayout, locate
from tests.support.tiers import examples

TEXT = """\
top = 1  # a = 2
[a.b]
c = [1, { d = 2, "e f" = [{ g = 3 }] }, # h = 4
  "i = 5"]
"j.k" = '''
l = 6
'''
m.n = { o = 7 }
[[p]]
q = 8
[[p]]
q = 9
"""


def test_keys_and_headings_of_every_form_are_found() -> None:
    places = _TomlLayout(TEXT).places
    assert {path: (place.line, place.column, place.width) for path, place in places.items()} == {
        "top": (1, 0, 3), "a.b": (2, 1, 3), "a.b.c": (3, 0, 1), "a.b.c.d": (3, 10, 1), "a.b.c.e f": (3, 17, 5),
        "a.b.c.e f.g": (3, 28, 1), "a.b.j.k": (5, 0, 5), "a.b.m.n": (8, 0, 3), "a.b.m.n.o": (8, 8, 1), "p": (9, 2, 1),
        "p.q": (10, 0, 1),
        "a": (2, 1, 3), "a.b.m": (8, 0, 3),
    }  # fmt: skip


KEYS = st.one_of(st.text("ab_-1", min_size=1, max_size=3), st.text("a. \u00e9=[]{}#,", min_size=1, max_size=4))
VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text("a=\n#[]{},.\"'", max_size=6)),
    lambda values: st.one_of(st.lists(values, max_size=3), st.dictionaries(KEYS, values, max_size=3)),
    max_leaves=8,
)


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def write(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quote(value)
        case list():
            return "[" + ",\n".join(map(write, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{quote(key)} = {write(each)}" for key, each in value.items()) + " }"
    return str(value)


def paths_of(value: Any, path: str) -> set[str]:
    """Return the paths of all keys in a value."""
    if isinstance(value, list):
        return {each for item in value for each in paths_of(item, path)}
    if isinstance(value, dict):
        within = {key: f"{path}.{key}" if path else key for key in value}
        return {*within.values(), *(each for key, item in value.items() for each in paths_of(item, within[key]))}
    return set()


@examples(300)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3))
def test_the_keys_are_those_that_the_parser_reads(tables: dict[str, dict[str, Any]]) -> None:
    lines = []
    for name, table in tables.items():
        lines.append(f"[{quote(name)}] # x = 1")
        lines += [f"{quote(key)} = {write(value)}" for key, value in table.items()]
    text = "\n".join(lines)
    read = tomllib.loads(text)
    places = _TomlLayout(text).places
    assert set(places) == paths_of(read, "")
    for place in places.values():
        assert text.split("\n")[place.line - 1][place.column] == '"'


@examples(300)
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), st.data())
def test_no_value_of_another_key_is_shown(table: dict[str, Any], data: st.DataObject) -> None:
    """Values are marked; what is drawn has the mark of the key alone, if its value is a text, and a caret under it."""

    def mark(value: Any, path: str) -> Any:
        match value:
            case dict():
                return {key: mark(each, f"{path}.{key}") for key, each in value.items()}
            case list():
                return [mark(each, path) for each in value]
        marks[path] = marks.get(path, f"hunter{len(marks)}-")
        return marks[path]

    marks: dict[str, str] = {}
    marked = mark(table, "t")
    text = f"t = {write(marked)} # hunter-"
    path = data.draw(st.sampled_from(sorted(paths_of(marked, "t") | {"t"})))
    layout = _TomlLayout(text)
    for is_masked in (False, True):
        line, caret = layout.draw(path, is_masked=is_masked)
        others = [each for of, each in marks.items() if each in line and (is_masked or of != path)]
        assert not others
        assert "hunter-" not in line
        assert line[caret.index("^")] == (line[0] if path == "t" else '"')


@pytest.mark.parametrize(("line", "shown"), [
    ('password = "hunter2"', "password = ..."),
    ("password = 12345", "password = ..."),
    ('password = { hunter2 = "x" }', "password = { ... = ... }"),
    ('password.value = "hunter2"', "password.value = ..."),
    ('url = "amqp://me:hunter2@host"', "url = ..."),
    ('url = "me:hunter2@host"', "url = ..."),
    ('"sasl.password" = "hunter2"', '"sasl.password" = ...'),
    ('librdkafka = { "sasl.password" = "hunter2", x = 1 }', 'librdkafka = { "sasl.password" = ..., x = ... }'),
    ('queue = 5 # was "hunter2"', "queue = 5"),
    ('hosts = ["a", "me:hunter2@b"]', 'hosts = ["a", ...]'),
    ('queue = """\nhunter2"""', "queue = ..."),
    ("\t\tqueue\t= 5", "queue = 5"),
])  # fmt: skip
def test_what_may_be_secret_is_not_shown(line: str, shown: str, tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(f"[sources.a]\n{line}\n")
    key = line.strip().split()[0].removesuffix(".value").strip('"')
    where, caret = locate(str(file), "sources.a", key)
    assert where == ":2"
    assert caret == f"\n    {shown}\n    {'^' * len(shown.split(maxsplit=1)[0])}"
    assert "hunter2" not in locate(str(file), "sources.a", key, masked=True)[1]


def test_the_caret_is_under_the_key_of_any_line(tmp_path: Path) -> None:
    """Wide characters take two cells; of a long line, the part with the key is shown; a mark of byte order is none."""
    file = tmp_path / "bridge.toml"
    file.write_bytes('\ufeffa = { "\u65e5\u672c" = 1, e\u0301 = 2 }\r\n'.encode())
    assert locate(str(file), "a", "\u65e5\u672c")[1].split("\n")[2] == f"    {' ' * 6}^^^^^^"
    assert locate(str(file), "a", "e\u0301")[1].split("\n")[2] == f"    {' ' * 20}^"
    file.write_text(f"a = {{ {', '.join(f'key{n} = 1' for n in range(100))} }}")
    line, caret = locate(str(file), "a", "key77")[1].split("\n")[1:]
    assert line[caret.index("^") :].startswith("key77 = 1, key78 = ...")
    assert max(len(line), len(caret)) <= 4 + MAX_LINE_CHARACTERS
    file.write_text(f"{'k' * 5000} = 1")
    assert max(map(len, locate(str(file), "", "k" * 5000)[1].split("\n"))) <= 4 + MAX_LINE_CHARACTERS


def test_a_file_is_read_once_for_all_its_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when it has changed."""
    file = tmp_path / "bridge.toml"
    file.write_text("".join([f"key{number} = 1\n" for number in range(100)]))
    opened: list[str | Path] = []

    def count(name: str | Path) -> BinaryIO:
        opened.append(name)
        return open_file(name)

    monkeypatch.setattr(toml_places, "open_file", count)
    assert [locate(str(file), "", f"key{number}")[0] for number in range(100)] == [f":{n + 1}" for n in range(100)]
    assert opened == [str(file)]
    file.write_text("\nkey1 = 1\n")
    os.utime(file, ns=(0, 0))
    assert locate(str(file), "", "key1")[0] == ":2"


def test_a_missing_key_is_at_its_heading_and_what_cannot_be_read_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text("\n[sources.a]\n")
    assert locate(str(file), "sources.a", "url") == (":2", "\n    [sources.a]\n     ^^^^^^^^^")
    assert locate(str(file), "targets", "x") == locate(str(tmp_path / "none"), "", "x") == ("", "")
