"""Editors colour .bindings files as hashstar reads them: the TextMate grammar splits each line into the same tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.language.tokens import KEYWORD_KINDS, build_scanner
from docs.scripts.textmate import FILE, SCOPES, build_grammar
from tests.support.pages import PAGES, ROOT, blocks

PATTERNS = [(re.compile(each["match"]), each["name"]) for each in build_grammar()["patterns"]]
WORDS = ("keyword.other.expectation", "support.type", "storage.modifier", "constant.language")
"""Scopes of names that mean something where they stand."""
LINES = [
    *(line for path in sorted(ROOT.glob("examples/**/*.bindings")) for line in path.read_text().splitlines()),
    *(
        line for page in PAGES for block in blocks(page)
        if block.language == "bindings" for line in block.text.splitlines()
    ),
]  # fmt: skip


def split(line: str) -> list[tuple[str, str]]:
    """Return the scopes and texts of a line, as a TextMate engine finds them: of the leftmost matches the first."""
    position, tokens = 0, []
    while found := [match for regex, _ in PATTERNS if (match := regex.search(line, position)) and match[0]]:
        start = min(match.start() for match in found)
        match, scope = next(
            (match, scope) for regex, scope in PATTERNS
            if (match := regex.search(line, position)) and match[0] and match.start() == start
        )  # fmt: skip
        tokens.append((scope.removesuffix(".bindings"), match[0]))
        position = match.end()
    return tokens


def compare(line: str) -> None:
    """Fail unless the grammar and the language's scanner split the line alike, up to what the scanner refuses."""
    tokens, comment = build_scanner()(line, 1)
    wanted = [(token.kind, token.text) for token in tokens]
    if comment:
        wanted.append(("COMMENT", comment))
    found = split(line)
    if wanted and wanted[-1][0] == "BAD":
        wanted.pop()
        found = found[: len(wanted)]
    assert len(found) == len(wanted)
    for (kind, text), (scope, coloured) in zip(wanted, found, strict=True):
        assert (coloured.rstrip() if kind == "COMMENT" else coloured) == text
        if kind == "NAME":
            assert scope == "entity.name" or scope.startswith(WORDS)
        elif kind in SCOPES:
            assert scope == SCOPES[kind].removesuffix(".bindings")
        else:
            assert scope == "punctuation"


def test_each_line_of_the_examples_is_split_as_the_language_splits_it() -> None:
    for line in dict.fromkeys(LINES):
        compare(line)


PIECES = [
    *KEYWORD_KINDS, *(kind.lower() for kind in KEYWORD_KINDS), "orders", "x-for", "for-x", "in{v}", "{v}", "->", "-",
    ":", ",", "=", "[", "]", "{", "}", " ", "  ", '"a.*"', '"a\\"b"', "'a\"b'", '"open', "'open", "1", "1..5", "1.5",
    "-2", "1.x", "!int", "!", "# for x", "partitioned kafka.murmur2 over 12 by word 2", "partitioned", "topic",
    "internal", "unroutable", "true", "é", "%",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_line_is_split_as_the_language_splits_it(line: str) -> None:
    compare(line)


def test_the_grammar_file_is_that_of_the_language() -> None:
    assert json.loads(FILE.read_text("utf-8")) == build_grammar(), "run python -m docs.scripts.textmate"


def test_the_extension_names_files_that_are_there() -> None:
    folder = FILE.parents[1]
    package: dict[str, Any] = json.loads((folder / "package.json").read_text())
    (language,), (grammar,) = package["contributes"]["languages"], package["contributes"]["grammars"]
    json.loads((folder / language["configuration"]).read_text())
    assert (folder / Path(grammar["path"])).resolve() == FILE.resolve()
    assert grammar["scopeName"] == build_grammar()["scopeName"]
