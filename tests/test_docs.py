"""The documentation is whole: links lead somewhere, the index has every page, the tables have every command."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
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
    "api/exchange.md", "api/bindings.md", "api/bridge.md", "changelog.md", "contributing.md", "options.md",
}  # fmt: skip


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and the website."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, anchor in links_of(text, name_of(page)):
        assert (ROOT / path).exists(), path
        assert not anchor or anchor in anchors(ROOT / path), f"{path}#{anchor}"
    for link in find_links(text):
        assert not link[1].startswith("#") or link[1][1:] in anchors(page), link[1]


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_external_links_are_addresses(page: Path) -> None:
    """Nothing is fetched: their form only. ``python -m docs.scripts.external_links`` lists them."""
    for address in external_links(page.read_text("utf-8")):
        parts = urlsplit(address)
        assert parts.scheme == "https", address
        assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc), address
        assert not re.search(r"[\s<>\"\\^`{|}]|[.,;:]$", address), address


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_a_page_has_one_title_and_headings_that_skip_no_level(page: Path) -> None:
    levels = [len(marks) for marks in re.findall(r"^(#+) ", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)]
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_every_block_of_code_names_its_language(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    assert all(fences[::2])
    assert not any(fences[1::2])


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_lists_are_lists_to_every_reader_of_markdown(page: Path) -> None:
    """The website's wants an empty line before a list, and four spaces before what is inside an item."""
    lines = FENCE.sub("", page.read_text("utf-8")).splitlines()
    for before, line in pairwise(lines):
        if re.match(r" *- ", line):
            assert before == "" or re.match(r" *(- |\d+\. )|  ", before), f"no empty line before {line!r}"
        if before == "" and (indent := re.match(r" +(?=\S)", line)):
            assert len(indent[0]) % 4 == 0, f"not four spaces before {line!r}"
        if re.match(r" +(- |\d+\. )", line):
            assert re.match(r"( {4})+\S", line), f"not four spaces before {line!r}"


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
