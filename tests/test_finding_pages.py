"""The pages about findings are those of the rules as they are, and each example has its finding."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from bindings.checking.rules.table import RULES
from bindings.sources.language.formatter import format_text
from bridge.cli import hashstar
from docs.scripts.finding_pages import (
    EXAMPLES,
    PAGES,
    RELEASES,
    ROOT,
    describe_releases,
    find_example,
    find_releases,
    render_index,
    render_page,
)
from exchange.entities.releases import PROFILES, find_profile_by_name
from tests.support.pages import blocks

LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


RANGES: Final = {
    describe_releases(RELEASES[first:end]): RELEASES[first:end]
    for first, end in combinations(range(len(RELEASES) + 1), 2)
}
"""Text of a page about releases -> these."""


def read_page(code: str) -> str:
    return (PAGES / f"{code}.md").read_text("utf-8")


def read_releases(code: str) -> tuple[str, ...]:
    """Return the releases that the page of a code names."""
    found = re.search(r"^\*\*Releases:\*\* (.*)$", read_page(code), re.MULTILINE)
    assert found, code
    return RANGES[found[1]]


def test_the_pages_are_up_to_date() -> None:
    """``python -m docs.scripts.finding_pages`` writes them anew."""
    pages = {f"{code}.md": render_page(rule, read_releases(code)) for code, rule in RULES.items()}
    pages["index.md"] = render_index()
    assert {page.name: page.read_text("utf-8") for page in PAGES.glob("*.md")} == pages


def test_a_page_names_the_releases_between_which_its_example_begins_and_ceases_to_have_its_finding() -> None:
    for code in RULES:
        named = read_releases(code)
        first, end = RELEASES.index(named[0]), RELEASES.index(named[-1]) + 1
        around = [*RELEASES[max(0, first - 1) : first + 1], *RELEASES[end - 1 : end + 1]]
        assert find_releases(code, around) == [release for release in around if release in named], code


@pytest.mark.process
def test_a_page_names_the_releases_with_its_finding_and_no_others() -> None:
    """Each example is checked with each of 36 releases, which takes long; with those where it changes, above."""
    assert {code: (*find_releases(code),) for code in RULES} == {code: read_releases(code) for code in RULES}


def test_there_is_an_example_for_each_code() -> None:
    """And none for a code that is not there any more."""
    assert {page.stem for page in (ROOT / EXAMPLES).iterdir() if page.is_file()} == set(RULES)


def test_an_example_has_its_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that its page shows, which prints what the page shows."""
    monkeypatch.chdir(ROOT)
    for code, rule in RULES.items():
        topology, console = blocks(PAGES / f"{code}.md")
        assert topology.text == (ROOT / find_example(code)[0]).read_text("utf-8"), code
        command, _, output = console.text.partition("\n")
        result = CliRunner().invoke(hashstar, command.removeprefix("$ hashstar ").split())
        assert result.stdout == output, code
        assert output.startswith(f"{code} {rule.name}: 1 {rule.severity}\n")
        assert result.exit_code == int(rule.severity == "error"), code


def test_examples_are_formatted() -> None:
    for example in sorted((ROOT / EXAMPLES).glob("*.bindings")):
        assert format_text(example.read_text("utf-8"), example.name) == example.read_text("utf-8"), example.name


def test_the_page_that_a_rule_names_is_there() -> None:
    """Its address is made of the path of the page below docs/."""
    for rule in RULES.values():
        assert rule.page.endswith(f"/findings/{rule.code}/")
        assert (PAGES / f"{rule.code}.md").is_file()


def test_links_of_the_pages_lead_to_files_that_are_there() -> None:
    for page in PAGES.glob("*.md"):
        for link in LINK.findall(page.read_text("utf-8")):
            assert (PAGES / link.partition("#")[0]).resolve().is_file(), link


def test_releases_are_those_at_which_rules_change() -> None:
    """Each has a profile of its own, and each profile that there is has its first release here."""
    profiles = [find_profile_by_name(release) for release in RELEASES]
    for one, other in pairwise(profiles):
        assert one is not None
        assert other is not None
        assert one != other
    assert set(PROFILES.values()) <= set(profiles)


def test_explain_leads_to_the_page() -> None:
    result = CliRunner().invoke(hashstar, ["check", "--explain", "HS104"])
    assert result.stdout.splitlines()[-1].strip() == RULES["HS104"].page


def test_the_address_of_the_site_is_written_once() -> None:
    """In one module: all else is made of it."""
    from exchange.text.site import SITE

    files = [*ROOT.glob("exchange/**/*.py"), *ROOT.glob("bindings/**/*.py"), *ROOT.glob("bridge/**/*.py")]
    assert [str(file.relative_to(ROOT)) for file in files if SITE in Path(file).read_text("utf-8")] == [
        "exchange/text/site.py"
    ]
