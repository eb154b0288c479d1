"""docs/bindings.md and the example are true: every block is a valid file, formatted, and its expectations hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bindings.sources.document import Document
from bindings.sources.language.formatter import format_text
from bindings.sources.language.statements import APPLY_TO
from bindings.sources.language.values import TYPES
from exchange import Router
from exchange.entities.effects import QUEUE_TYPES
from exchange.values.notation import KEYWORDS, MATCH_MODES
from tests.test_readme import run_line

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/bindings.md").read_text()
EXAMPLES = sorted(ROOT.glob("examples/**/*.bindings"))
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


def good(text: str) -> Document:
    """Return the document of a text, which must be formatted and have no warnings and no failures."""
    document = Document.loads(text)
    assert format_text(text) == text
    assert document.warnings == []
    assert Document.loads(document.dump()) == document
    assert Document.of_definitions(document.definitions()) == document
    for section in document.sections.values():
        router = Router(section.topology)
        assert [
            expectation.find_failure(router) for expectation in section.expectations if expectation.find_failure(router)
        ] == []
    return document


@pytest.mark.parametrize("text", [text for language, text in BLOCKS if language == "bindings"])
def test_a_block_is_a_good_file(text: str) -> None:
    """It can be copied and used as it stands."""
    assert any(section.topology != Document.loads("").topology() for section in good(text).sections.values())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_good_file(path: Path) -> None:
    """And expects something."""
    assert good(path.read_text()).expectations()


@pytest.mark.parametrize("block", [text for language, text in BLOCKS if language == "console"])
def test_a_command_prints_what_is_shown(block: str) -> None:
    """Each block is one command and its output."""
    command, _, output = block.removeprefix("$ ").partition("\n")
    assert run_line(command, ROOT)[:2] == (output, "")


def test_every_word_of_the_language_is_documented() -> None:
    """Keywords, types of queues and of values, modes and outcomes."""
    words = (*KEYWORDS, *QUEUE_TYPES, *MATCH_MODES, *APPLY_TO, *(f"!{kind}" for kind in TYPES))
    documented = (
        *words,
        "transient",
        "auto-delete",
        "internal",
        "alternate",
        "partitioned",
        "priority",
        "mqtt",
        "nats",
    )
    assert [word for word in (*documented, "includes", "excludes", "unroutable") if word not in TEXT] == []
    assert {language for language, _ in BLOCKS} == {"bindings", "console"}
