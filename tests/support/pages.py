"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


class Block(NamedTuple):
    """A fenced block: its page, line, language and text, and the text of an output block right after it."""

    page: str
    line: int
    language: str
    text: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page; a ``text`` block that follows another one is the output of that."""
    text = page.read_text("utf-8")
    name = str(page.relative_to(ROOT))
    fences = list(re.finditer(r"^```(\w*)\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE))
    result: list[Block] = []
    for fence in fences:
        language, content = fence.groups()
        if result and language == "text" and text[: fence.start()].endswith("```\n\n"):
            result[-1] = result[-1]._replace(output=content)
        else:
            result.append(Block(name, text.count("\n", 0, fence.start()) + 1, language, content, None))
    return result


def commands(block: Block) -> list[tuple[str, str | None]]:
    """Return the commands of a console block, each with the output shown; None where no prompt is shown.

    A command without a prompt is one that the reader has to adapt: it names files or servers that are not here.
    """
    if block.text.startswith("$ "):
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
        return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]
    return [(line.partition("  #")[0].strip(), None) for line in block.text.splitlines()]
