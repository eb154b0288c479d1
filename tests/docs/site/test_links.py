"""Links of the repository become links of the website that lead to the same page, and nothing else changes."""

from __future__ import annotations

import os.path
import re
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from docs.scripts.external_links import list_pages
from docs.site.links import ROOT, external_links, find_links, links_of, rewrite_links, show_palettes, site_path
from docs.site.repository import linked_pages

PAGES = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in list_pages()}


def test_files_have_paths_on_the_website() -> None:
    assert site_path("docs/topology.md") == "topology.md"
    assert site_path("docs/decisions") == "decisions/README.md"
    assert site_path("docs/pictures/graph.svg") == "pictures/graph.svg"
    assert site_path("README.md") == "index.md"
    assert site_path("CHANGELOG.md") == "changelog.md"
    assert site_path("examples/orders/orders.bindings") == "repository/examples/orders/orders.bindings.md"
    assert site_path("examples/consumer") == site_path("examples/consumer/README.md")
    assert site_path("docs/scripts/man_pages.py") == "repository/docs/scripts/man_pages.py.md"


def test_a_rewritten_link_leads_to_the_same_page() -> None:
    for page, text in PAGES.items():
        here = site_path(page)
        after = list(links_of(rewrite_links(text, page, here), here))
        assert after == [(site_path(path), anchor) for path, anchor in links_of(text, page)], page


def test_every_link_of_the_documentation_leads_to_a_page_of_the_website() -> None:
    documented = {path: text for path, text in PAGES.items() if not path.startswith("examples/")}
    repository = linked_pages(documented)
    made = {site_path(path) for path in documented} | repository.keys()
    for path, text in documented.items():
        for link, _ in links_of(text, path):
            assert site_path(link) in made or (link.startswith("docs/") and (ROOT / link).is_file()), f"{path}: {link}"
    assert "repository/examples/consumer/index.md" in repository
    assert "repository/examples/consumer/consume.py.md" in repository, "files of a folder that is linked to are pages"
    assert "````bindings\n" in repository["repository/examples/orders/orders.bindings.md"].markdown


def test_code_is_no_link() -> None:
    text = "`[a](b.md)` and ``[a](`b`.md)`` [x](y.md)\n\n```text\n[a](b.md)\n```\n[`z`](z.md#top) \\](no.md)\n"
    assert [link[1] for link in find_links(text)] == ["y.md", "z.md#top"]


def test_links_to_other_websites_stay() -> None:
    text = "[a](https://semver.org/) [b](mailto:a@b.example) [c](#here) [d](x.md)"
    assert rewrite_links(text, "docs/a.md", "a.md", lambda path: f"moved/{path}") == text.replace(
        "x.md", "moved/docs/x.md"
    )
    assert external_links(text) == ["https://semver.org/"]


NAMES = st.lists(st.sampled_from(["a", "b", "long-name"]), min_size=1, max_size=3).map("/".join).map("{}.md".format)
TEXTS = st.text(st.characters(exclude_characters="[]()`\\\r\n", exclude_categories=["Cs"]), max_size=5)


@given(st.lists(st.tuples(TEXTS, NAMES)), NAMES, NAMES)
def test_links_are_rewritten_and_texts_are_kept(parts: list[tuple[str, str]], page: str, here: str) -> None:
    links = [os.path.relpath(name, PurePosixPath(page).parent) for _, name in parts]
    text = "".join(f"{before}[x]({link})" for (before, _), link in zip(parts, links, strict=True))
    rewritten = rewrite_links(text, page, here, lambda path: path)
    assert [path for path, _ in links_of(rewritten, here)] == [name for _, name in parts]
    assert re.sub(r"\([^)]*\)", "()", rewritten) == re.sub(r"\([^)]*\)", "()", text)


def test_a_picture_with_a_dark_one_is_shown_in_both_palettes() -> None:
    page = "![The page](pictures/audit-page.png) ![A graph](pictures/graph.svg)"
    assert show_palettes(page, "docs/audit.md") == (
        "![The page](pictures/audit-page.png#only-light)![The page](pictures/audit-page-dark.png#only-dark)"
        " ![A graph](pictures/graph.svg)"
    )
