"""Links of the Markdown pages, as paths of the repository and as paths of the website.

A page links as it stands in the repository: ``topology.md``, ``../examples/orders/orders.bindings``. On the website,
pages below ``docs/`` keep their paths, README, CHANGELOG and CONTRIBUTING are pages beside them, and every other file
that a page links to is a page below ``repository/`` (`docs/site/repository.py`). Nothing here needs MkDocs.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[2]

CODE: Final = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2 *$|(?<!`)(`+)(?!`).+?(?<!`)\3(?!`)", re.DOTALL | re.MULTILINE)
"""A fenced block, or code between backquotes: brackets in it are no links."""

LINK: Final = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")

PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(([^)\s#]+)\)")

PAGES: Final = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""File at the top of the repository -> its page on the website; the first page takes the place of the README."""

TOOLS: Final = ("docs/site", "docs/scripts")
"""Folders below ``docs/`` that have no pages."""


def find_links(markdown: str) -> Iterator[re.Match[str]]:
    """Yield the links of a page, group 1 of each its target, code left out."""
    masked = CODE.sub(lambda code: " " * len(code[0]), markdown)
    yield from LINK.finditer(masked)


def links_of(markdown: str, page: str) -> Iterator[tuple[str, str]]:
    """Yield path and anchor of each relative link of ``page``; both paths are relative to the repository's root."""
    for link in find_links(markdown):
        path, _, anchor = link[1].partition("#")
        if path and not _is_external(link[1]):
            yield _resolve(page, path), anchor


def external_links(markdown: str) -> list[str]:
    """Return the addresses of other websites that a page links to."""
    return [link[1] for link in find_links(markdown) if "://" in link[1]]


def site_path(path: str) -> str:
    """Return the website's path of a file or folder, both as texts with ``/``; pages are named by their source."""
    if path in PAGES:
        return PAGES[path]
    is_folder = (ROOT / path).is_dir()
    if path.startswith("docs/") and not path.startswith(TOOLS):
        inside = path.removeprefix("docs/")
        return f"{inside}/README.md" if is_folder else inside
    if is_folder:
        return f"repository/{path}/index.md"
    return (
        f"repository/{path.removesuffix('README.md')}index.md"
        if path.endswith("/README.md")
        else f"repository/{path}.md"
    )


def rewrite_links(markdown: str, page: str, here: str, to_site: Callable[[str], str] = site_path) -> str:
    """Return a page of the repository with its relative links as the page ``here`` of the website needs them."""
    parts, end = [], 0
    for link in find_links(markdown):
        path, _, anchor = link[1].partition("#")
        if not path or _is_external(link[1]):
            continue
        target = _resolve(page, path)
        address = os.path.relpath(to_site(target), PurePosixPath(here).parent)
        parts += [markdown[end : link.start(1)], address, f"#{anchor}" if anchor else ""]
        end = link.end(1)
    return "".join([*parts, markdown[end:]])


def show_palettes(markdown: str, page: str) -> str:
    """Return a page in which a picture that has a dark one beside it (``-dark``) is both, one for each palette."""

    def both(picture: re.Match[str]) -> str:
        name, _, suffix = picture[2].rpartition(".")
        dark = f"{name}-dark.{suffix}"
        if not ((ROOT / page).parent / dark).is_file():
            return picture[0]
        return f"![{picture[1]}]({picture[2]}#only-light)![{picture[1]}]({dark}#only-dark)"

    return PICTURE.sub(both, markdown)


def _resolve(page: str, path: str) -> str:
    """Return what a relative path of a page names, as a path from the root of the repository."""
    return os.path.normpath(PurePosixPath(page).parent / path)


def _is_external(link: str) -> bool:
    return "://" in link or link.startswith("mailto:")
