"""The page of an audit in Chromium: from the request for the file until it is drawn, by the size of the topology.

An operation is a page; the floor is that of a topology without bindings. The note has the size of the file.
"""

from __future__ import annotations

import random
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import Contestant, run_rounds, show
from bindings.archive.record import Record, build_batch
from bindings.counts.columnar.counting import Tallier
from bindings.report.build import Sources, build_report
from bindings.report.forms.html import to_html
from bindings.sources.document import Document
from bindings.sources.section import Listing
from exchange import Message
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser, open_browser

SIZES: Final = (0, 100, 10_000, 100_000)
"""Numbers of bindings."""

MESSAGES: Final = 5_000

EVENTS: Final = ("created", "paid", "shipped", "returned", "archived")

DRAWN: Final = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
"""The script at the end of the page has drawn all of it by then."""


def page(quick: bool) -> None:
    """Open pages of topologies of several sizes."""
    sizes, rounds = (SIZES[:3], 3) if quick else (SIZES, 9)
    if not CHROMIUM:
        show("page", "until drawn", [Contestant("page", None, note=NO_BROWSER)])
        return
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        rows = []
        for size in sizes:
            file = Path(folder) / f"{size}.html"
            file.write_bytes(_make_page(size))
            note = f"{file.stat().st_size / 1e6:.1f} MB"
            measure = partial(_open, browser, file)
            rows.append(Contestant(f"{size:,} bindings", measure, "ours" if size else "floor", note))
        show("page", "until drawn, in Chromium", run_rounds(rows, rounds))


def _open(browser: Browser, file: Path) -> float:
    browser.open(file)
    return float(browser.evaluate(DRAWN)) * 1e3


def _make_page(size: int) -> bytes:
    """Return the page of a topology of this size, a line for each binding, of which messages hit some."""
    choose = random.Random(size)
    exchanges, queues = min(40, 1 + size // 20), min(800, 1 + size // 12)
    lines = [f"exchange domain-{n}.events: topic" for n in range(exchanges)]
    lines += [f"queue service-{n}.inbox: quorum" for n in range(queues)]
    lines += [
        f'domain-{n % exchanges}.events -> service-{choose.randrange(queues)}.inbox: "{_key(choose, n)}"'
        for n in range(size)
    ]
    text = "\n".join(lines) + "\n"
    section = Document.loads(text).section()
    counter = Tallier(section.topology)
    messages = [
        Message(f"domain-{n % exchanges}.events", _key(choose, choose.randrange(max(1, size)))) for n in range(MESSAGES)
    ]
    counter.add(build_batch([Record(each, 1_790_000_000_000_000 + n * 40_000_000) for n, each in enumerate(messages)]))
    sources = Sources("shop.bindings", listing=Listing(text, section))
    return to_html(build_report(section.topology, counter.result(), sources, 1_800_000_000_000_000))


def _key(choose: random.Random, number: int) -> str:
    return f"{choose.choice(('eu', 'us', 'ap'))}.customer-{number}.{choose.choice(EVENTS)}"
