"""A headless Chromium, asked over its debugging protocol: what it drew, what it complained about, what it requested.

The protocol goes through a pipe, with a NUL after each message: no port, no server, no library.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.waiting import find_limit

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM: Final = next((found for name in NAMES if (found := shutil.which(name))), "")
NO_BROWSER: Final = f"there is none of {', '.join(NAMES)} on the path"
SECONDS: Final = 60.0
"""Maximum time of an answer."""


class Browser:
    """One tab. ``errors`` and ``requests`` are of the page that was opened last."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, file: Path, *, width: int = 1280, height: int = 800, address: str = "", **media: str) -> None:
        """Open a page and wait until it is drawn. ``media`` are features: ``prefers_color_scheme="dark"``."""
        self.visit(f"{file.as_uri()}{address}", width=width, height=height, **media)

    def visit(self, url: str, *, width: int = 1280, height: int = 800, **media: str) -> None:
        """Open the page of a server, as `open` does that of a file."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self._ask("Emulation.setEmulatedMedia", media="", features=features)
        self._resize(width, height)
        self._ask("Page.navigate", url="about:blank")  # so that another fragment of the same page is opened anew
        self._events.clear()
        self._ask("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        self.settle()

    def resize(self, width: int, height: int = 800) -> None:
        """Give the window another size; below 600 pixels it is a phone's."""
        self._resize(width, height)
        self.settle()

    def _resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._ask("Emulation.setDeviceMetricsOverride", **metrics)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page, as JSON. Raises AssertionError if it throws."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + find_limit()
        while not self.evaluate(f"Boolean({condition})"):  # an element alone would be an empty object
            assert time.monotonic() < until, f"not in {SECONDS:.0f} s: {condition}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait for two frames: observers of sizes have been called then."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def type_text(self, text: str) -> None:
        """Type a text into the element that has the focus, character by character."""
        for character in text:
            self._ask("Input.insertText", text=character)

    def press(self, key: str) -> None:
        """Press and release a key: ``Enter``, ``Tab``, ``j``."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {
            "Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
        }.get(key, ord(key[0].upper()))  # fmt: skip
        self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self._ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def print_mode(self) -> None:
        """Show the page as it is printed."""
        self._ask("Emulation.setEmulatedMedia", media="print")
        self.settle()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        answer = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(b64decode(answer["data"]))

    @property
    def errors(self) -> list[str]:
        """Exceptions, and errors and warnings at the console."""
        self.evaluate("1")  # events that came before this answer have been read now
        listed = []
        for event in self._events:
            details = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                listed.append(json.dumps(details["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                listed.append(json.dumps(details["args"]))
            elif event["method"] == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
                listed.append(details["entry"]["text"])
        return listed

    @property
    def requests(self) -> list[str]:
        """Addresses that were requested, the page's own included."""
        self.evaluate("1")
        sent = [event["params"] for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [details["request"]["url"] for details in sent]

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            assert ready, f"Chromium did not answer in {SECONDS:.0f} s"
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium ended"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile in a folder; it ends with the block."""
    from_us, write = map(_above, os.pipe())
    read, to_us = map(_above, os.pipe())
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
        "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank",
    ]  # fmt: skip
    process = os.posix_spawn(
        CHROMIUM,
        command,
        {**os.environ, "LANG": "C.UTF-8", "TZ": "Europe/Berlin"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, from_us, 3),  # the descriptors that Chromium reads and writes
            (os.POSIX_SPAWN_DUP2, to_us, 4),
        ],
    )
    os.close(from_us)
    os.close(to_us)
    try:
        yield Browser(write, read)
    finally:
        os.close(write)
        os.close(read)
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)


def _above(descriptor: int) -> int:
    """Return the same pipe under a number that the child's own descriptors do not take."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy
