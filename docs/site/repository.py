"""Pages of the repository's files that the documentation links to: examples, and code where a page names it.

So the website is whole by itself. A folder is a page of its README and its files, a file a page of its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from docs.site.links import PAGES, ROOT, TOOLS, links_of, site_path

LANGUAGES: Final = {
    ".bindings": "bindings", ".ini": "ini", ".json": "json", ".jsonl": "json", ".py": "python", ".service": "ini",
    ".sh": "bash", ".toml": "toml", ".tpl": "text", ".txt": "text", ".yaml": "yaml", ".yml": "yaml",
    "Dockerfile": "docker",
}  # fmt: skip
"""End of a file's name -> the language of its text. A folder does not show files with other names."""

LINES: Final = 400
"""Maximum number of lines of a file that its page shows."""


class Page(NamedTuple):
    """A page of the website: the file or folder that it is of, and its Markdown."""

    path: str
    markdown: str


def linked_pages(pages: Mapping[str, str]) -> dict[str, Page]:
    """Return path on the website -> page, of all that ``pages`` (path in the repository -> Markdown) lead to."""
    found: dict[str, Page] = {}
    waiting = [link for path, markdown in pages.items() for link, _ in links_of(markdown, path)]
    while waiting:
        path = waiting.pop()
        where = site_path(path)
        if where in found or path in PAGES or (path.startswith("docs/") and not path.startswith(TOOLS)):
            continue
        page = Page(path, "".join(_describe(ROOT / path, path)))
        found[where] = page
        waiting += [link for link, _ in links_of(page.markdown, _base(path))]
    return found


def _base(path: str) -> str:
    """Return the file to which the links of a page of ``path`` are relative."""
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def _describe(file: Path, path: str) -> Iterator[str]:
    """Yield the Markdown of a file or a folder, with links that are relative to it."""
    yield "---\nsearch:\n  exclude: true\n---\n\n"
    if file.is_dir():
        readme = file / "README.md"
        yield readme.read_text("utf-8") if readme.is_file() else f"# `{path}`\n"
        names = [each.relative_to(file).as_posix() for each in sorted(file.rglob("*")) if _is_shown(each)]
        yield "\n## Files\n\n" if readme.is_file() else "\n"
        yield from (f"- [`{name}`]({name})\n" for name in names)
    elif file.suffix == ".md":
        yield file.read_text("utf-8")
    else:
        language = LANGUAGES.get(file.suffix or file.name, "text")
        lines = file.read_text("utf-8").splitlines()
        yield f"# `{path}`\n\n````{language}\n" + "\n".join(lines[:LINES]) + "\n````\n"
        if len(lines) > LINES:
            yield f"\nThe first {LINES:,} of {len(lines):,} lines.\n"


def _is_shown(file: Path) -> bool:
    """Return whether a folder's page lists the file: a text, and none that a program left there."""
    return (
        file.is_file()
        and file.name != "README.md"
        and (file.suffix or file.name) in LANGUAGES
        and file.stat().st_size > 0
    )
