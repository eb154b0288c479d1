"""Make the pictures of the documentation, ``docs/pictures``: of pages as Chromium shows them, and graphs of topologies.

``python -m docs.scripts.pictures`` makes all of them, ``python -m docs.scripts.pictures audit-page`` those of one name.
A page has a picture for each palette: pages of the documentation name the light one, the website shows the dark one
(``-dark``) in its place where the reader's palette is dark.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from docs.site.links import ROOT
from tests.support.browser import open_browser

FOLDER: Final = ROOT / "docs" / "pictures"
BUILD: Final = ROOT / "build" / "demo"

ORDERS: Final = "examples/orders/orders.bindings"
TRAFFIC: Final = "examples/orders/traffic.jsonl"

LARGEST: Final = 300_000
"""Maximum size of a picture in bytes: it is part of every checkout."""


def audit_page() -> Iterator[Path]:
    """Yield the pictures of the page that an audit of the demo's messages writes."""
    _run("-m", "examples.demo", "--quick", "--no-spark")
    (html,) = BUILD.glob("company-50000-*.html")
    yield from _photograph("audit-page", html.as_uri(), 1180, 860)


def serve_page() -> Iterator[Path]:
    """Yield the pictures of the page of ``hashstar serve``: a message, and a queue that does not get it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _run("-m", "bridge.cli", "audit", "-t", ORDERS, "--no-spark", "--json", str(report), TRAFFIC)
        command = [sys.executable, "-m", "bridge.cli", "serve", ORDERS, "--audit", str(report)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            shown = {
                "exchange": "orders", "key": "order.eu.refund", "headers": '{"tenant": "acme"}',
                "at": '{"kind":"queue","name":"billing"}',
            }  # fmt: skip
            try:
                yield from _photograph("serve-page", f"{address}#{urlencode(shown)}", 1400, 760)
            finally:
                server.send_signal(signal.SIGINT)


def graph() -> Iterator[Path]:
    """Yield the picture of a topology, as ``hashstar graph`` draws it."""
    picture = FOLDER / "graph.svg"
    _run("-m", "bridge.cli", "graph", ORDERS, "-o", str(picture))
    yield picture


MAKERS: Final[Mapping[str, Callable[[], Iterator[Path]]]] = {
    "audit-page": audit_page, "serve-page": serve_page, "graph": graph,
}  # fmt: skip
"""Name -> what makes the pictures of that name."""


def _photograph(name: str, address: str, width: int, height: int) -> Iterator[Path]:
    """Yield the picture of a page in each palette, once the page has announced that it is drawn.

    Width and height are those of the window, in pixels.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, open_browser(Path(profile)) as browser:
        for scheme, suffix in (("light", ""), ("dark", "-dark")):
            browser.visit(address, width=width, height=height, prefers_color_scheme=scheme)
            browser.wait("document.documentElement.dataset.state === 'ready'")
            picture = FOLDER / f"{name}{suffix}.png"
            browser.picture(picture)
            yield picture


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> None:
    """Make the pictures that are named, or all; end with 1 if one is too large."""
    names = sys.argv[1:] or list(MAKERS)
    if unknown := set(names) - MAKERS.keys():
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}")
    FOLDER.mkdir(exist_ok=True)
    large = False
    for name in names:
        for picture in MAKERS[name]():
            size = picture.stat().st_size
            large = large or size > LARGEST
            print(f"{picture.relative_to(ROOT)}: {size:,} bytes{', too many' if size > LARGEST else ''}")
    sys.exit(large)


if __name__ == "__main__":
    main()
