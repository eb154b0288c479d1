"""Try the built website in Chromium: the pages, the search, the diagrams, the reference, both palettes.

``python -m docs.scripts.try_site build/site`` ends with 1 and one line for each fault: an error in the console, a
request that leaves this machine or finds nothing, a search without its page. Without Chromium it prints that, and ends
with 0.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from tests.support.browser import CHROMIUM, NO_BROWSER, Browser, open_browser

FAMILIES: Final = ("decisions", "findings", "repository")
"""Folders of many pages that one template makes from plain text: their longest pages are opened, for all of them."""
LONGEST: Final = 5


def list_addresses(folder: Path) -> list[str]:
    """Return the addresses of the pages to open, relative to the website's."""
    pages = sorted(page for page in folder.rglob("*.html") if page.name != "404.html")
    for family in FAMILIES:
        members = sorted(
            (page for page in pages if page.is_relative_to(folder / family)), key=lambda page: page.stat().st_size
        )
        pages = [page for page in pages if page not in members[:-LONGEST]]
    return [page.relative_to(folder).as_posix().removesuffix("index.html") for page in pages]


def try_site(folder: Path) -> list[str]:
    """Return the faults of the website in this folder, each with its page; [] if there is none."""
    with _opened(folder) as (browser, site):
        faults = list(_open_all(browser, site, folder))
        for attempt in (_search, _draw, _refer, _change_palette):
            try:
                attempt(browser, site)
            except AssertionError as error:
                faults.append(f"{attempt.__doc__} {error}")
            faults += _faults_of(browser, site)
    return faults


def try_pages(folder: Path) -> list[str]:
    """Return the faults of the pages alone."""
    with _opened(folder) as (browser, site):
        return list(_open_all(browser, site, folder))


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[Browser, str]]:
    """Serve a folder on 127.0.0.1; yield a browser, and the address of the website, which ends with ``/``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, open_browser(Path(profile)) as browser:
            yield browser, f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the base class
        """Log nothing."""


def _open_all(browser: Browser, site: str, folder: Path) -> Iterator[str]:
    for address in list_addresses(folder):
        browser.visit(urljoin(site, address))
        yield from _faults_of(browser, site)
        titles = browser.evaluate("document.querySelectorAll('article h1').length")
        if titles != 1:
            yield f"{address}: it has {titles} titles"


def _faults_of(browser: Browser, site: str) -> Iterator[str]:
    """Yield errors of the page that was opened last, and its requests to other machines."""
    where = browser.evaluate("location.pathname")
    yield from (f"{where}: {error}" for error in browser.errors)
    for request in browser.requests:
        if not request.startswith((site, "data:", "blob:", "about:")):
            yield f"{where}: it requests {request}"


def _search(browser: Browser, site: str) -> None:
    """The search finds a page by its words:"""  # noqa: D401  the beginning of a fault
    browser.visit(site)
    browser.press("/")
    browser.type_text("SIGUSR1 pauses")
    browser.wait("document.querySelector('.md-search-result__link')")
    found = browser.evaluate("document.querySelector('.md-search-result__link').href")
    assert found.startswith(urljoin(site, "bridge-operations/")), f"{found} is the first"


def _draw(browser: Browser, site: str) -> None:
    """The diagram of the architecture is drawn:"""  # noqa: D401
    browser.visit(urljoin(site, "architecture/"))
    width, height, text = browser.evaluate("""(() => {
        const drawn = document.querySelector('.diagram .only-light svg');
        const box = drawn ? drawn.getBoundingClientRect() : { width: 0, height: 0 };
        return [box.width, box.height, drawn ? drawn.textContent : ''];
    })()""")
    assert width > 200, f"it is {width} pixels wide"
    assert height > 100, f"it is {height} pixels high"
    assert "daemon" in text, "its text is missing"


def _refer(browser: Browser, site: str) -> None:
    """The reference has the public names:"""  # noqa: D401
    for page, anchor, text in (
        ("api/exchange/", "exchange.Router", "exactly as the RabbitMQ of its profile"),
        ("api/exchange/", "exchange.Router.explain", "Return the route with its reasons"),
        ("api/bindings/", "bindings.audit", "topology"),
        ("api/bridge/", "bridge.run", "Run a bridge until all its sources have ended"),
        ("options/", "hashstar-explain", "Explain where one message goes"),
    ):
        browser.visit(urljoin(site, page))
        shown = browser.evaluate(f"document.getElementById({json.dumps(anchor)})?.parentElement.innerText")
        assert text in (shown or ""), f"{anchor} has no text {text!r}"


def _change_palette(browser: Browser, site: str) -> None:
    """The palette follows the system, and the reader:"""  # noqa: D401
    background = "getComputedStyle(document.body).backgroundColor"
    browser.visit(site, prefers_color_scheme="light")
    light = browser.evaluate(background)
    browser.visit(site, prefers_color_scheme="dark")
    dark = browser.evaluate(background)
    assert light != dark, f"the background is {light} in both"
    browser.evaluate("document.querySelector('label[title]:not([hidden])').click()")
    browser.wait(f"{background} !== {json.dumps(dark)}")


def main() -> None:
    """Try the website in the folder that is named, and print its faults."""
    folder = Path(sys.argv[1] if len(sys.argv) == 2 else "build/site")
    if not (folder / "index.html").is_file():
        print(f"{folder}: there is no index.html; `make docs` builds the website", file=sys.stderr)
        sys.exit(2)
    if not CHROMIUM:
        print(f"the website was not tried: {NO_BROWSER}")
        return
    faults = list(dict.fromkeys(try_site(folder)))
    print("\n".join(faults) or f"{len(list_addresses(folder))} pages tried in Chromium: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
