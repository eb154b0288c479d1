"""The page of an upgrade in Chromium: whole by itself, readable in both palettes, and no name in it is markup."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from bindings.cli import find_command
from bindings.upgrading.run import NEWEST
from tests.bindings.drawing.test_style import contrast
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)

HOSTILE = "</pre><script>document.title='x'</script><img src=http://192.0.2.1/a onerror=alert(1)>"
EXPORT = {
    "rabbitmq_version": "3.12.1",
    "vhosts": [{"name": "/"}, {"name": HOSTILE}],
    "policies": [{"vhost": "/", "name": "ha", "pattern": "^j", "definition": {"ha-mode": "all"}, "apply-to": "queues"}],
    "queues": [
        {"vhost": vhost, "name": name, "durable": durable, "auto_delete": False, "arguments": {}}
        for vhost, name, durable in (("/", "jobs", True), (HOSTILE, HOSTILE, False), ("/", "n" * 200, True))
    ],
    "exchanges": [
        {"vhost": "/", "name": "h", "type": "headers", "durable": True, "auto_delete": False, "internal": False,
         "arguments": {}}
    ],
    "bindings": [
        {"vhost": "/", "source": "h", "destination": "jobs", "destination_type": "queue", "routing_key": HOSTILE,
         "arguments": {"n": 1}}
    ],
}  # fmt: skip
COLOURS = """
[...document.querySelectorAll('p, dd, dt, pre, h1, h2, h3, .sign, a, li')].map((each) => {
  let at = each;
  while (getComputedStyle(at).backgroundColor === 'rgba(0, 0, 0, 0)' && at.parentElement) at = at.parentElement;
  return [getComputedStyle(each).color, getComputedStyle(at).backgroundColor];
})
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    source, page = tmp_path / "export.json", tmp_path / "upgrade.html"
    source.write_text(json.dumps(EXPORT))
    command = find_command("upgrade")
    options = ["--html", str(page), "-o", str(tmp_path / "new.json")]
    result = CliRunner().invoke(command, [str(source), *options])
    assert result.exit_code == 1, result.output
    return page


def as_hex(colour: str) -> str:
    """Return ``rgb(1, 2, 3)`` as ``#010203``."""
    parts = [int(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return "#" + "".join(f"{part:02x}" for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_whole_by_itself_and_readable(browser: Browser, page: Path, scheme: str, width: int) -> None:
    browser.open(page, width=width, prefers_color_scheme=scheme)
    assert browser.errors == []
    assert browser.requests == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    faint = [pair for pair in browser.evaluate(COLOURS) if contrast(*map(as_hex, pair)) < 4.5]
    assert faint == []


def test_the_page_has_what_the_text_has_and_names_are_text(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.evaluate("document.title").startswith(f"RabbitMQ 3.12.1 to {NEWEST}: ")
    assert browser.evaluate("document.querySelectorAll('script, img').length") == 0
    text = browser.evaluate("document.body.innerText")
    for part in (HOSTILE, "mirrored-to-quorum", "transformations move no message: proved", "HSU006", "3.12 to 3.13"):
        assert part in text
    assert browser.evaluate("document.querySelectorAll('input[type=checkbox]').length") == 4
    headings = browser.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((each) => +each.tagName[1])")
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
