"""Configuration files: whatever is in them, they are read or refused in seconds, with the place and a way out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.toml_file import read_toml
from bridge.cli import hashstar
from exchange.errors import InputError
from exchange.limits import CONFIG_BYTES, CONFIG_KEY_PARTS, NESTING


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a." * 500_000 + "a = 1", "a key has more than 32 parts (at line 1, column 64); shorten it"),
        ("[t]\n" + '"a.b" . ' * 100_000 + "a = 1", "a key has more than 32 parts (at line 2, column 255); shorten it"),
        ("[" + "a." * 500_000 + "a]", "a key has more than 32 parts (at line 1, column 65); shorten it"),
        ("a = {" + "'b'." * 100_000 + "c = 1}", "a key has more than 32 parts (at line 1, column 133); shorten it"),
        ("a = " + "[" * 100_000, "nested too deeply, beyond 100 arrays and tables (at line 1, column 105); flatten it"),
        ("\na = " + "{a=" * 9_000, "nested too deeply, beyond 100 arrays and tables (at line 2, column 305); flatten"),
        ("a = [{c = 0x" + "f" * 4_000 + "}]", "a number has more than 4,300 digits in decimal; shorten it"),
        ("a = 1\nb = " + "7" * 5_000, "a number has more than 4,300 digits (at line 2, column 5); shorten it"),
        ("#" * (CONFIG_BYTES + 1), "too large: a configuration has 1 MiB at most"),
        (b"a = 1\nb = '\xff'", "not TOML: line 2 is not UTF-8; save it as UTF-8"),
        ('"""\\"' * 200_000, "not TOML: Expected '='"),
        ('a = """' + '\\"""' * 200_000, "not TOML: Unterminated string"),
    ],
)  # fmt: skip
def test_a_hostile_configuration_is_refused_by_the_commands_in_few_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hashstar.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "t.bindings").write_text("exchange e topic\n")
    (tmp_path / "a.jsonl").write_text('{"exchange": "e", "routing_key": "a"}\n')
    for command in (
        ("audit", "--no-spark", "-t", "t.bindings", "a.jsonl"),
        ("audit", "--no-spark", "-t", "t.bindings", "a.jsonl", "--settings", "hashstar.toml"),
        ("bridge", "check", "--offline", "hashstar.toml"),
    ):
        result = CliRunner().invoke(hashstar, command)
        told, *drawing = result.stderr.splitlines()
        assert result.exit_code == 2, result.output
        assert re.sub(r":[0-9]+:[0-9]+:", ":", told).startswith(f"hashstar: hashstar.toml: {message}")
        assert len(drawing) == (2 if told.count(":") > 3 else 0)  # the line and a caret where there is a column
        assert all(len(line) <= 200 for line in drawing)


def test_dots_and_brackets_in_strings_and_comments_are_no_parts_of_a_key(tmp_path: Path) -> None:
    many = ".x" * 500 + "[" * 500
    text = "\n".join([
        f'basic = "{many}\\"{many}"',
        f"literal = '{many}'",
        f'long = """{many}"" \\""" {many}"""""',
        f"long_literal = '''{many}'' {many}'''''",
        f"# {many} \" ' ",
        f"[quoted.'{many}'.\"{many}\"]",
        *[".".join("k" * CONFIG_KEY_PARTS) + f"{n} = 1.5" for n in range(100)],
        "deep = " + "[" * NESTING + "]" * NESTING,
    ])  # fmt: skip
    (tmp_path / "a.toml").write_text(text)
    assert read_toml(tmp_path / "a.toml") == tomllib.loads(text)


PIECES = st.sampled_from(
    ["a", ".", "=", "\n", '"', '"""', "'", "'''", "\\", "#", "[", "]", "{", "}", ",", " ", "1", "é"]
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_what_is_within_the_limits_is_read_as_python_reads_it(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "some.toml"
    path.write_bytes(text.encode())
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(InputError, match=r"not TOML|more than 32 parts|nested too deeply"):
            read_toml(path)
    else:
        assert read_toml(path) == expected
