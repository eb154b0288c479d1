"""Chromium, driven by Playwright: for the pictures of the pages, and for trying the built website."""

from __future__ import annotations

import functools
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

__all__ = ["chromium", "find_chromium", "serve_folder"]

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of the machine's Chromium, None if it has none; Playwright's own is not asked for."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the machine's Chromium without a window; end the process with exit code 2 if there is none.

    It finds no other machine: a page that requests something from elsewhere does without.
    """
    program = find_chromium()
    if program is None:
        print(f"there is none of {', '.join(PROGRAMS)} on the path", file=sys.stderr)
        sys.exit(2)
    with sync_playwright() as playwright:
        # Root, as in a container, may not use the sandbox; the pages are our own.
        arguments = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
        arguments.append("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the base class
        """Log nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on 127.0.0.1 and yield its address, which ends with ``/``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
