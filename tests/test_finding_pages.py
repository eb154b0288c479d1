"""The pages about findings are those of the rules as they are, and each example has its finding."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from bindings.checking.rules.table import RULES
from bindings.sources.language.formatter import format_text
from bridge.cli import hashstar
from docs.scripts.finding_pages import EXAMPLES, PAGES, RELEASES, ROOT, find_example, render_pages
from exchange.entities.releases import PROFILES, find_profile_by_name
from tests.support.pages import blocks

LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the pages as they would be written now."""
    return render_pages()


def test_the_pages_are_up_to_date(pages: dict[str, str]) -> None:
    """``python -m docs.scripts.finding_pages`` writes them anew."""
    assert {page.name: page.read_text("utf-8") for page in PAGES.glob("*.md")} == pages


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


def test_links_of_the_pages_lead_to_files_that_are_there(pages: dict[str, str]) -> None:
    for text in pages.values():
        for link in LINK.findall(text):
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
