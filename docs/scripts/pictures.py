"""Make the pictures of the documentation, ``docs/pictures``: of pages as Chromium shows them, and graphs of topologies.

``python -m docs.scripts.pictures`` makes all of them, ``python -m docs.scripts.pictures audit-page`` those of one name.
A page has a picture for each palette: pages of the documentation name the light one, the website shows the dark one
(``-dark``) in its place where the reader's palette is dark.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Page

from docs.scripts.browser import chromium
from docs.site.links import ROOT

__all__ = ["MAKERS"]

FOLDER: Final = ROOT / "docs" / "pictures"
BUILD: Final = ROOT / "build" / "demo"

LARGEST: Final = 300_000
"""Maximum size of a picture in bytes: it is part of every checkout."""

PALETTES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")

WIDTH: Final = 1180
"""Width of the window, in pixels."""


def audit_page() -> Iterator[Path]:
    """Yield the pictures of the page that an audit of the demo's messages writes."""
    _run("-m", "examples.demo", "--quick", "--no-spark")
    (html,) = BUILD.glob("company-50000-*.html")
    yield from _photograph(
        "audit-page", html.as_uri(), 860, lambda page: page.wait_for_selector('[data-state="ready"]')
    )


def graph() -> Iterator[Path]:
    """Yield the picture of a topology, as ``hashstar graph`` draws it."""
    picture = FOLDER / "graph.svg"
    _run("-m", "bridge.cli", "graph", "examples/orders/orders.bindings", "-o", str(picture))
    yield picture


MAKERS: Final[Mapping[str, Callable[[], Iterator[Path]]]] = {"audit-page": audit_page, "graph": graph}
"""Name -> what makes the pictures of that name."""


def _photograph(name: str, address: str, height: int, wait: Callable[[Page], object]) -> Iterator[Path]:
    """Yield the picture of a page in each palette."""
    with chromium() as browser:
        for scheme in PALETTES:
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme=scheme)
            page.goto(address)
            wait(page)
            picture = FOLDER / f"{name}{'-dark' if scheme == 'dark' else ''}.png"
            page.screenshot(path=picture, animations="disabled")
            page.close()
            yield picture


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> None:
    """Make the pictures that are named, or all; end with 1 if one is too large."""
    names = sys.argv[1:] or list(MAKERS)
    if unknown := set(names) - MAKERS.keys():
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}")
    FOLDER.mkdir(exist_ok=True)
    large = False
    for name in names:
        for picture in MAKERS[name]():
            size = picture.stat().st_size
            large = large or size > LARGEST
            print(f"{picture.relative_to(ROOT)}: {size:,} bytes{', too many' if size > LARGEST else ''}")
    sys.exit(large)


if __name__ == "__main__":
    main()
