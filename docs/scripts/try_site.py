"""Try the built website in Chromium: every page, the search, the diagrams, the reference, both palettes.

``python -m docs.scripts.try_site build/site`` ends with 1 and one line for each fault: an error in the console, a
request that leaves this machine or finds nothing, a search without its page. Without Chromium it prints that, and ends
with 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from playwright.sync_api import ConsoleMessage, Error, Page, Request, Response

from docs.scripts.browser import chromium, find_chromium, serve_folder

__all__ = ["try_pages", "try_site"]

TIMEOUT: Final = 15_000
"""Maximum time for one thing to appear on a page, in milliseconds."""


def try_site(folder: Path) -> list[str]:
    """Return the faults of the website in this folder, each with its page; [] if there is none."""
    with _opened(folder) as (page, address, faults):
        _open_all(page, address, folder, faults)
        for attempt in (_search, _draw, _refer, _change_palette):
            try:
                attempt(page, address)
            except (AssertionError, Error) as error:
                faults.append(f"{attempt.__doc__} {str(error).splitlines()[0]}")
        return list(dict.fromkeys(faults))


def try_pages(folder: Path) -> list[str]:
    """Return the faults of the pages alone."""
    with _opened(folder) as (page, address, faults):
        _open_all(page, address, folder, faults)
        return list(dict.fromkeys(faults))


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[Page, str, list[str]]]:
    """Serve the folder; yield a page of the browser, the address of the website, and the list that gets its faults."""
    faults: list[str] = []
    with serve_folder(folder) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.set_default_timeout(TIMEOUT)
        _watch(page, address, faults)
        yield page, address, faults


def _open_all(page: Page, address: str, folder: Path, faults: list[str]) -> None:
    for path in _pages(folder):
        page.goto(urljoin(address, path), wait_until="load")
        titles = page.locator("article h1").count()
        if titles != 1:
            faults.append(f"{page.url}: it has {titles} titles")


def _pages(folder: Path) -> Iterator[str]:
    """Yield the addresses of all pages, relative to the website's."""
    for page in sorted(folder.rglob("*.html")):
        if page.name != "404.html":
            yield page.relative_to(folder).as_posix().removesuffix("index.html")


def _watch(page: Page, address: str, faults: list[str]) -> None:
    """Note errors of a page, and its requests to other machines: `chromium` finds no address for their names."""

    def check_request(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            faults.append(f"{page.url}: it requests {request.url}")

    def check_message(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            faults.append(f"{page.url}: {message.text}")

    def check_response(response: Response) -> None:
        if response.status >= 400:
            faults.append(f"{page.url}: {response.status} for {response.url}")

    page.on("request", check_request)
    page.on("console", check_message)
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on("response", check_response)


def _search(page: Page, address: str) -> None:
    """The search finds a page by its words:"""  # noqa: D401  the beginning of a fault
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("SIGUSR1 pauses")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url("**/bridge-operations/**")


def _draw(page: Page, address: str) -> None:
    """The diagram of the architecture is drawn:"""  # noqa: D401
    page.goto(urljoin(address, "architecture/"))
    drawn = page.locator(".diagram .only-light svg").first
    drawn.wait_for(state="visible")
    box = drawn.bounding_box()
    assert box is not None, "it has no size"
    assert box["width"] > 200, f"it is {box['width']} wide"
    assert box["height"] > 100, f"it is {box['height']} high"
    assert "daemon" in (drawn.text_content() or ""), "its text is missing"


def _refer(page: Page, address: str) -> None:
    """The reference has the public names:"""  # noqa: D401
    for path, anchor, text in (
        ("api/exchange/", "exchange.Router", "exactly as the RabbitMQ of its profile"),
        ("api/exchange/", "exchange.Router.explain", "Return the route with its reasons"),
        ("api/bindings/", "bindings.audit.run.audit", "topology"),
        ("api/bridge/", "bridge.run", "Run a bridge until all its sources have ended"),
    ):
        page.goto(urljoin(address, f"{path}#{anchor}"))
        section = page.locator(f'.doc-object:has(> [id="{anchor}"])').last
        section.wait_for(state="visible")
        assert text in section.inner_text(), f"{anchor} has no text {text!r}"


def _change_palette(page: Page, address: str) -> None:
    """The palette follows the system, and the reader:"""  # noqa: D401
    shown: Callable[[], str] = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    page.goto(address)
    light = shown()
    page.emulate_media(color_scheme="dark")
    page.reload()
    dark = shown()
    assert light != dark, "the background is the same"
    page.locator('label[title="Light"]:visible, label[title="As the system"]:visible').first.click()
    page.wait_for_function("before => getComputedStyle(document.body).backgroundColor !== before", arg=dark)


def main() -> None:
    """Try the website in the folder that is named, and print its faults."""
    folder = Path(sys.argv[1])
    if find_chromium() is None:
        print("the website was not tried: there is no Chromium on the path")
        return
    faults = try_site(folder)
    print("\n".join(faults) or f"{len(list(_pages(folder)))} pages tried in Chromium: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
