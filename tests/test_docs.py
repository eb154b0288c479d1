"""The documentation is whole: links lead somewhere, the index has every page, the tables have every command."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml

from bridge.cli import hashstar
from docs.site.links import external_links, find_links, links_of
from tests.support.pages import PAGES, ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
MARKDOWN = (*PAGES, ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*/**/*.md")), *sorted(ROOT.glob("examples/**/README.md")))
"""All pages: those with tested snippets, and those whose links and form are looked at only."""

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LARGEST_PICTURE = 300_000
MADE_BY_THE_SITE = {
    "api/exchange.md", "api/bindings.md", "api/bindings.spark.md", "api/bridge.md", "changelog.md",
    "contributing.md", "options.md",
}  # fmt: skip


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and the website."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_links(page: Path) -> Iterator[str]:
    """Yield each link that leads to no file or heading."""
    text = page.read_text("utf-8")
    for path, anchor in links_of(text, name_of(page)):
        if not (ROOT / path).exists() or (anchor and anchor not in anchors(ROOT / path)):
            yield f"a link to {path}#{anchor}"
    for link in find_links(text):
        if link[1].startswith("#") and link[1][1:] not in anchors(page):
            yield f"a link to {link[1]}"


def odd_addresses(page: Path) -> Iterator[str]:
    """Yield each external link that is no address; ``python -m docs.scripts.external_links`` lists them."""
    for address in external_links(page.read_text("utf-8")):
        parts = urlsplit(address)
        if (
            parts.scheme != "https"
            or not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc)
            or re.search(r"[\s<>\"\\^`{|}]|[.,;:]$", address)
        ):
            yield f"the address {address}"


def odd_headings(page: Path) -> Iterator[str]:
    """Yield the levels of headings, unless there is one title, first, and no level is skipped."""
    levels = [len(marks) for marks in re.findall(r"^(#+) ", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)]
    if levels[:1] != [1] or 1 in levels[1:] or any(after > before + 1 for before, after in pairwise(levels)):
        yield f"the levels of headings {levels}"


def odd_fences(page: Path) -> Iterator[str]:
    """Yield the languages of blocks of code, unless each names one."""
    fences = re.findall(r"^ *```(.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    if not all(fences[::2]) or any(fences[1::2]):
        yield f"the languages of blocks {fences}"


def odd_lists(page: Path) -> Iterator[str]:
    """Yield each line without what the website wants: an empty one before a list, four spaces inside an item."""
    lines = FENCE.sub("", page.read_text("utf-8")).splitlines()
    for before, line in pairwise(lines):
        if re.match(r" *- ", line) and before != "" and not re.match(r" *(- |\d+\. )|  ", before):
            yield f"no empty line before {line!r}"
        indent = re.match(r" +(?=\S)", line)
        if indent and (before == "" or re.match(r" +(- |\d+\. )", line)) and len(indent[0]) % 4:
            yield f"not four spaces before {line!r}"


@pytest.mark.parametrize("faults_of", [missing_links, odd_addresses, odd_headings, odd_fences, odd_lists])
def test_the_form_of_each_page_is_right(faults_of: Callable[[Path], Iterator[str]]) -> None:
    assert [f"{name_of(page)}: {fault}" for page in MARKDOWN for fault in faults_of(page)] == []


def test_the_readme_is_a_front_page() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 140


def test_pictures_are_small_and_shown() -> None:
    """A picture for the dark palette is shown by the website, beside the one that a page names."""
    shown = {ROOT / path for page in MARKDOWN for path, _ in links_of(page.read_text("utf-8"), name_of(page))}
    for picture in DOCS.glob("pictures/*"):
        assert picture.stat().st_size <= LARGEST_PICTURE, picture.name
        assert picture in shown or picture.with_stem(picture.stem.removesuffix("-dark")) in shown, picture.name


def test_the_index_has_every_page() -> None:
    linked = {path for path, _ in links_of((DOCS / "index.md").read_text("utf-8"), "docs/index.md")}
    assert {name_of(page) for page in PAGES} - linked == {"README.md", "docs/index.md"}


def test_every_page_can_be_reached_from_the_index() -> None:
    waiting, reached = ["docs/index.md"], set()
    while waiting:
        path = waiting.pop()
        page = ROOT / path / "README.md" if (ROOT / path).is_dir() else ROOT / path
        if page.suffix == ".md" and page.is_file() and page not in reached:
            reached.add(page)
            waiting += [link for link, _ in links_of(page.read_text("utf-8"), name_of(page))]
    assert {name_of(page) for page in DOCS.rglob("*.md") if page not in reached} == set()


def test_the_navigation_names_pages_that_are_there() -> None:
    """A page that it does not name stands where a pattern of it is; MkDocs warns of one that stands nowhere."""

    def named(items: list[Any]) -> Iterator[str]:
        for item in items:
            if isinstance(item, str):
                yield item
            elif "glob" not in item:
                (value,) = item.values()
                yield from [value] if isinstance(value, str) else named(value)

    pages = list(named(yaml.safe_load((DOCS / ".nav.yml").read_text("utf-8"))["nav"]))
    assert len(pages) == len(set(pages)) > 20
    assert [page for page in pages if page not in MADE_BY_THE_SITE and not (DOCS / page).exists()] == []


def names_of(command: click.Command, path: tuple[str, ...] = ()) -> list[str]:
    """Return the names of all commands below a command, as they are written in a shell."""
    if not isinstance(command, click.Group):
        return [" ".join(path)]
    context = click.Context(command)
    names = command.list_commands(context)
    return [
        name
        for each in names
        if (below := command.get_command(context, each))
        for name in names_of(below, (*path, each))
    ]


def test_the_tests_that_decisions_name_are_there() -> None:
    named = {
        name
        for page in (DOCS / "decisions").glob("*.md")
        for name in re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    }
    defined: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))
    assert named
    assert not named - defined


def test_the_table_of_commands_has_every_command() -> None:
    rows = re.findall(r"^\| `(hashstar [^`]+)` \|", (DOCS / "commands.md").read_text("utf-8"), flags=re.MULTILINE)
    assert sorted(rows) == sorted(names_of(hashstar, ("hashstar",)))


ARCHITECTURE = (DOCS / "architecture.md").read_text("utf-8")
PACKAGES = ("exchange", "bindings", "bridge")


def test_files_and_folders_of_the_architecture_are_there() -> None:
    """Those in backquotes and those in the diagrams; ``NAME`` and ``*`` stand for others."""
    paths = re.findall(r"\b((?:exchange|bindings|bridge|tests|docs)/[\w./*-]*[\w/])", ARCHITECTURE)
    wanted = [path for path in paths if "NAME" not in path]
    assert len(wanted) > 100
    assert [path for path in wanted if not any(ROOT.glob(path.rstrip("/")))] == []


def test_every_folder_has_its_line_in_the_architecture() -> None:
    listed = re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, flags=re.MULTILINE)
    folders = {
        str(folder.relative_to(ROOT))
        for package in PACKAGES
        for folder in (ROOT / package).rglob("*")
        if folder.is_dir() and folder.name != "__pycache__" and any(file.is_file() for file in folder.iterdir())
    }
    assert sorted(listed) == sorted(folders)


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    """The folders of a package stand in the order of its contract in pyproject.toml, from the top to the bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        for package in PACKAGES:
            if contract.get("containers") == [package]:
                layers = [re.split(r" [|:] ", layer) for layer in contract["layers"]]
                height = {name.strip("()"): at for at, names in enumerate(layers) for name in names}
                folders = re.findall(rf"^\| `{package}/(\w+)/` \|", ARCHITECTURE, flags=re.MULTILINE)
                heights = [height[folder] for folder in folders]
                assert heights == sorted(heights), package


GLOSSARY = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \|$", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)


def test_modules_of_the_glossary_are_there() -> None:
    """Each line names one."""
    lines = [line for line in (DOCS / "glossary.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(GLOSSARY) == len([line for line in lines if not line.startswith("| word")]) > 80
    assert [module for _, module in GLOSSARY if not (ROOT / module).is_file()] == []
