"""What MkDocs calls while it builds the website; `docs/site/mkdocs.yml` names this file."""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs imports this file by its path, from wherever it runs

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from docs.site import bindings_lexer
from docs.site.links import PAGES, ROOT, rewrite_links, show_palettes
from docs.site.llms import Entry, write_texts
from docs.site.options import PAGE, options_page
from docs.site.reference import PACKAGES, describe_plainly, reference_pages
from docs.site.repository import linked_pages

log: Final = logging.getLogger("mkdocs.hooks")
"""A warning here ends a strict build."""

SEARCHED_LESS: Final = ("changelog", "decisions", "contributing")
"""Pages that a search finds after the others."""

_origins: Final[dict[str, str]] = {}
"""Path on the website -> file of the repository to which the links of the page are relative."""

_texts: Final[dict[str, str]] = {}
"""Path on the website -> its Markdown, for language models."""

_nav: Final[list[Any]] = []
"""The sections and pages at the top of the navigation."""


def on_startup(**_: Any) -> None:
    """Let code blocks of the `.bindings` language have colours, and collect garbage rarely: nearly all is kept."""
    gc.set_threshold(100_000, 50, 1000)
    bindings_lexer.register()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are no files below ``docs/``."""
    _origins.clear()
    own = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    _origins.update({file.src_uri: f"docs/{file.src_uri}" for file in files.documentation_pages()})
    top = {name: (ROOT / name).read_text("utf-8") for name in PAGES if name != "README.md"}
    for name, markdown in top.items():
        _add(files, config, PAGES[name], name, markdown)
    for where, markdown in {PAGE: options_page(), **reference_pages()}.items():
        _add(files, config, where, f"docs/{where}", markdown)
    for where, page in linked_pages({**own, **top}).items():
        path = f"{page.path}/README.md" if (ROOT / page.path).is_dir() else page.path
        _add(files, config, where, path, page.markdown)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links of the repository as links of the website."""
    where = page.file.src_uri
    if where == "index.md":
        page.meta["hide"] = ["navigation"]
    if where.startswith(SEARCHED_LESS):
        page.meta.setdefault("search", {"boost": 0.5})
    _texts[where] = rewrite_links(markdown, _origins[where], where)
    return rewrite_links(show_palettes(markdown, _origins[where]), _origins[where], where)


def on_nav(nav: Navigation, files: Files, **_: Any) -> Navigation:
    """Keep the navigation, whose pages get titles when they are read; warn of a page that is not in it."""
    _nav[:] = nav.items
    shown = {page.file.src_uri for page in nav.pages}
    for file in files.documentation_pages():
        if file.src_uri not in shown and not file.src_uri.startswith("repository/"):
            log.warning("%s is not in the navigation: name it, or its folder, in docs/.nav.yml", file.src_uri)
    return nav


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Write the texts for language models, with signatures in place of the directives of mkdocstrings."""
    texts = _texts | {f"api/{package}.md": describe_plainly(package) for package in PACKAGES}
    entries = [
        Entry(item.title or "", page.title or "", page.file.src_uri)
        for item in _nav
        for page in ([item] if isinstance(item, Page) else _pages_of(item))
    ]
    description = config.site_description or ""
    write_texts(Path(config.site_dir), config.site_name, description, entries, texts, config.site_url or "")


def _add(files: Files, config: MkDocsConfig, where: str, origin: str, markdown: str) -> None:
    _origins[where] = origin
    files.append(File.generated(config, where, content=markdown))


def _pages_of(item: Any) -> list[Page]:
    return [
        page for child in item.children or () for page in ([child] if isinstance(child, Page) else _pages_of(child))
    ]
