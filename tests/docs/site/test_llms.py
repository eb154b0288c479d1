"""The texts for language models list every page with a sentence, and have the Markdown of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site.llms import LONGEST, Entry, first_sentence, write_texts

ENTRIES = [Entry("Guides", "Embed", "embed.md"), Entry("Guides", "Audit", "a/audit.md"), Entry("More", "Empty", "e.md")]
TEXTS = {
    "embed.md": "# Embed\n\n`exchange` is [the engine](x.md): pure. It routes.\n",
    "a/audit.md": "# Audit\n\n```console\n$ x\n```\n\n| a |\n|---|\n\nIt reads\narchives. Then it counts.\n",
    "e.md": "# Empty\n",
    "unlisted.md": "# Unlisted\n",
}


def test_pages_are_listed_by_section_with_their_first_sentences(tmp_path: Path) -> None:
    write_texts(tmp_path, "name", "What it is.", ENTRIES, TEXTS, "")
    assert (tmp_path / "llms.txt").read_text() == (
        "# name\n\n> What it is.\n"
        "\n## Guides\n\n- [Embed](embed.md): `exchange` is the engine: pure.\n"
        "- [Audit](a/audit.md): It reads archives.\n"
        "\n## More\n\n- [Empty](e.md)\n"
    )


def test_the_markdown_of_each_page_stands_alone_and_with_all_others(tmp_path: Path) -> None:
    write_texts(tmp_path, "name", "What it is.", ENTRIES, TEXTS, "https://docs.example/")
    full = (tmp_path / "llms-full.txt").read_text()
    for entry in ENTRIES:
        assert (tmp_path / entry.path).read_text() == TEXTS[entry.path]
        assert TEXTS[entry.path].strip() in full
        assert f"](https://docs.example/{entry.path})" in (tmp_path / "llms.txt").read_text()
    assert "Unlisted" not in full


@pytest.mark.parametrize(
    ("markdown", "sentence"),
    [
        ("# T\n\n> Quoted.\n\nSaid. More.", "Said."),
        ("# T\n\nAccepted, 2026-11.\n\n## Context\n\nIt must be fast. So it is.", "It must be fast."),
        ("# T\n\n**Context.** Brokers differ.", ""),
        ("# T\n\nRabbitMQ 4.3 is exact, e.g. here. Not there.", "RabbitMQ 4.3 is exact, e.g. here."),
        ("# T\n\n" + "word " * 100, "word " * 47 + "..."),
    ],
)
def test_the_first_sentence_of_a_page_is_found(markdown: str, sentence: str) -> None:
    assert first_sentence(markdown) == sentence
    assert len(sentence) <= LONGEST
