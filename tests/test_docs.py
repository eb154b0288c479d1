"""The documentation is whole: links lead somewhere, the index has every page, the tables have every command."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from bridge.cli import hashstar
from tests.support.pages import PAGES, ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
LARGEST_PICTURE = 150_000


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_a_front_page() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 140
    assert (DOCS / "audit-page.png").stat().st_size <= LARGEST_PICTURE


def test_the_index_has_every_page_and_every_decision() -> None:
    linked = {
        (DOCS / link.partition("#")[0]).resolve() for link in LINK.findall((DOCS / "index.md").read_text("utf-8"))
    }
    missing = {*PAGES, *DOCS.glob("decisions/*.md")} - linked - {DOCS / "index.md"}
    assert {page.name for page in missing} == set()


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
