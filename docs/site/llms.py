"""``llms.txt`` and ``llms-full.txt``: the pages for language models, as https://llmstxt.org/ describes them.

``llms.txt`` lists the pages by section, each with its first sentence and the address of its Markdown, which stands
beside the page; ``llms-full.txt`` has the Markdown of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple

SKIPPED: Final = re.compile(r"^(#|\||```|!\[|>|- |$|<|\d+\. |::: |Accepted, |\*\*Context)")
"""How a paragraph begins that is no sentence: a heading, table, block, picture, quotation or list; or a decision."""

LONGEST: Final = 240
"""Maximum number of characters of a page's sentence."""


class Entry(NamedTuple):
    """A page as ``llms.txt`` lists it: section of the navigation, title, path of its Markdown."""

    section: str
    title: str
    path: str


def write_texts(
    folder: Path, name: str, description: str, entries: list[Entry], texts: Mapping[str, str], base: str
) -> None:
    """Write both files and the Markdown of each page into ``folder``; ``base`` is the site's address, or ""."""
    for entry in entries:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[entry.path], encoding="utf-8")
    head = f"# {name}\n\n> {description}\n"
    (folder / "llms.txt").write_text(head + "".join(_list(entries, texts, base)), encoding="utf-8")
    pages = [f"\n\n<!-- {entry.path} -->\n\n{texts[entry.path].strip()}\n" for entry in entries]
    (folder / "llms-full.txt").write_text(head + "".join(pages), encoding="utf-8")


def _list(entries: list[Entry], texts: Mapping[str, str], base: str) -> Iterator[str]:
    section = None
    for entry in entries:
        if entry.section != section:
            section = entry.section
            yield f"\n## {section}\n\n"
        sentence = first_sentence(texts[entry.path])
        yield f"- [{entry.title}]({base}{entry.path})" + (f": {sentence}" if sentence else "") + "\n"


def first_sentence(markdown: str) -> str:
    """Return the first sentence of a page as plain text, "" if it has none."""
    for paragraph in re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE).split("\n\n"):
        text = " ".join(paragraph.split())
        if not SKIPPED.match(text):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
            sentence = re.split(r"(?<=[.!?]) (?=[A-Z`*])", plain)[0]
            return shorten(sentence, LONGEST, placeholder=" ...")
    return ""
