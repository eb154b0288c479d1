"""What is wrong with a website is found in a browser: nothing passes because nobody looked."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="the group docs is not installed")

from docs.scripts.browser import PROGRAMS, find_chromium
from docs.scripts.try_site import try_pages

pytestmark = pytest.mark.skipif(find_chromium() is None, reason=f"there is none of {', '.join(PROGRAMS)} on the path")

SOUND = "<!doctype html><link rel=icon href=data:,><title>t</title><article><h1>One</h1>%s</article>"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<p>text</p>", None),
        ('<img src="https://fonts.example.org/a.png">', "it requests https://fonts.example.org/a.png"),
        ("<style>@import 'https://fonts.example.org/a.css'</style>", "it requests https://fonts.example.org/a.css"),
        ('<img src="missing.png">', "404 for"),
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>no_such_function()</script>", "no_such_function is not defined"),
        ("<h1>Two</h1>", "it has 2 titles"),
    ],
)
def test_a_fault_of_a_page_is_found(content: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(SOUND % content)
    faults = try_pages(tmp_path)
    assert (faults == []) if fault is None else any(fault in each for each in faults), faults
