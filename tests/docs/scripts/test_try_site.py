"""What is wrong with a website is found in a browser: nothing passes because nobody looked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from docs.scripts.try_site import try_pages
from tests.support.browser import CHROMIUM, NO_BROWSER

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)]

PAGE: Final = "<!doctype html><link rel=icon href=data:,><title>t</title><article><h1>One</h1>%s</article>"
FAULTS: Final = {
    "image": ('<img src="https://fonts.example.org/a.png">', "it requests https://fonts.example.org/a.png"),
    "style": (
        "<style>@import 'https://fonts.example.org/a.css'</style>",
        "it requests https://fonts.example.org/a.css",
    ),
    "missing": ('<img src="missing.png">', "404"),
    "logged": ("<script>console.error('broken')</script>", "broken"),
    "thrown": ("<script>no_such_function()</script>", "no_such_function is not defined"),
    "titles": ("<h1>Two</h1>", "it has 2 titles"),
}
"""Name of a page -> what is wrong with it, and what is said about it."""


def test_the_faults_of_pages_are_found_and_sound_pages_have_none(tmp_path: Path) -> None:
    (tmp_path / "sound.html").write_text(PAGE % "<p>text</p>")
    for name, (content, _) in FAULTS.items():
        (tmp_path / f"{name}.html").write_text(PAGE % content)
    faults = try_pages(tmp_path)
    for name, (_, fault) in FAULTS.items():
        assert [each for each in faults if f"{name}.html: " in each and fault in each], (name, faults)
    assert not [each for each in faults if "sound.html" in each]
