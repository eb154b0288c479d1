"""List the addresses of other websites that the documentation links to, each with its pages.

Nothing is fetched: to see whether they are alive, give the list to a program that asks them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from docs.site.links import ROOT, external_links


def list_pages() -> Iterator[Path]:
    """Yield all pages in Markdown: of the documentation, of the examples, and those at the top."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("docs", "examples"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def main() -> None:
    """Print one line for each address: the address, and the pages that link to it."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for page in list_pages():
        for address in external_links(page.read_text("utf-8")):
            found[address].append(page.relative_to(ROOT).as_posix())
    for address, pages in sorted(found.items()):
        print(address, *dict.fromkeys(pages))


if __name__ == "__main__":
    main()
