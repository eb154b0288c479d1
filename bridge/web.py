"""What a bridge shows on HTTP: whether it lives and is ready, its metrics, and a page that shows the flow as it is.

====================  ==================================================================================
``GET /``             the status page, which asks for ``/status`` every second
``GET /status``       the same as JSON
``GET /live``         200 as long as the event loop turns
``GET /ready``        200 while every endpoint is connected and nothing is paused, else 503 and why
``GET /metrics``      Prometheus's text format
``GET /coverage``     which bindings are used, as `hashstar audit --json` tells it, where ``coverage = true``
``POST /pause``       read nothing more; ``POST /resume``: go on; with the header ``X-Hashstar``, of whatever value
====================  ==================================================================================

It is served by a thread, which reads counters and never waits for the event loop but to see whether it turns.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from bridge.config import Config
from bridge.metrics import Gauges, Metrics
from bridge.pump import Pump
from exchange.errors import InputError

if TYPE_CHECKING:  # they need pyarrow
    from bindings.tally import Tally
    from bridge.coverage import Coverage

__all__ = ["Web"]

SLOW: Final = 5.0
"""Seconds without a turn after which an event loop is taken for dead."""


class Web:
    """The server of one pump."""

    def __init__(
        self,
        config: Config,
        pump: Pump,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        coverage: Coverage | None = None,
    ) -> None:
        self._coverage = coverage
        self._config = config
        self._pump = pump
        self._metrics = metrics
        self._loop = loop
        self._turned = time.monotonic()
        self._started = time.time()
        self._beat: asyncio.TimerHandle | None = None
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> str:
        """Serve; the address. Raises InputError if it cannot be had."""
        assert self._config.http is not None  # noqa: S101  whoever calls has looked
        host, port = self._config.http.host, self._config.http.port
        try:
            self._server = (_Server6 if ":" in host else _Server)((host, port), _handler(self))
        except OSError as error:
            raise InputError(f"http: {host}:{port} cannot be served: {error.strerror}") from None
        threading.Thread(target=self._server.serve_forever, name="hashstar-http", daemon=True).start()
        self._turn()
        return f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_address[1]}/"

    def stop(self) -> None:
        """Serve no more."""
        if self._beat is not None:
            self._beat.cancel()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _turn(self) -> None:
        self._turned = time.monotonic()
        self._beat = self._loop.call_later(SLOW / 5, self._turn)

    @property
    def alive(self) -> bool:
        """Whether the event loop turns."""
        return time.monotonic() - self._turned < SLOW

    def missing(self) -> list[str]:
        """Why it is not ready."""
        ended = self._metrics.ended_sources
        names = [endpoint.name for endpoint in self._config.endpoints if endpoint.name not in ended]
        up, errors = self._metrics.up, self._metrics.last_error
        found = [f"{name}: {errors.get(name, 'not connected yet')}" for name in names if not up.get(name)]
        return [*found, *(["paused"] if self._pump.paused else [])]

    def status(self) -> dict[str, Any]:
        """Everything that the page shows."""
        metrics = self._metrics
        return {
            "version": 1,
            "config": self._config.path,
            "started": self._started,
            "alive": self.alive,
            "ready": not (missing := self.missing()),
            "missing": missing,
            "paused": self._pump.paused,
            "unsettled": self._pump.in_flight,
            "sources": [
                {
                    "name": inlet.source.name,
                    "up": metrics.up.get(inlet.source.name, False),
                    "ended": inlet.source.name in metrics.ended_sources,
                    "messages": metrics.read_messages[inlet.source.name],
                    "bytes": metrics.read_bytes[inlet.source.name],
                    "redelivered": metrics.redelivered[inlet.source.name],
                    "filtered": sum(_of(inlet.source.name, metrics.filtered_messages).values()),
                    "unsettled": inlet.window.messages,
                    "unreadable": sum(metrics.unreadable.get(inlet.source.name, {}).values()),
                }
                for inlet in self._config.inlets
            ],
            "targets": [
                {
                    "name": outlet.target.name,
                    "up": metrics.up.get(outlet.target.name, False),
                    "in_flight": outlet.in_flight,
                    "held": outlet.held,
                    "queues": _of(outlet.target.name, metrics.written),
                    "refusals": _of(outlet.target.name, metrics.refusals),
                }
                for outlet in self._pump.outlets
            ],
            "fates": [
                {"endpoint": name, "fate": fate, "messages": count}
                for (name, fate), count in list(metrics.fates.items())
            ],
        }

    def metrics_text(self) -> str:
        """What Prometheus reads."""
        lines = [*self._metrics.lines(self._gauges())]
        if self._coverage is not None:
            lines += self._coverage.lines(self._tally(self._coverage))
        return "\n".join(lines) + "\n"

    def coverage(self) -> bytes | None:
        """The report on the bindings, None if they are not counted."""
        return None if self._coverage is None else self._coverage.report(self._tally(self._coverage))

    def _tally(self, coverage: Coverage) -> Tally:
        """What was counted so far, from the thread that counts; the rest of a report is made here."""
        found: Future[Tally] = Future()

        def take() -> None:
            try:
                found.set_result(coverage.tally())
            except Exception as error:  # noqa: BLE001  whoever asked is told
                found.set_exception(error)

        self._loop.call_soon_threadsafe(take)
        return found.result(SLOW)

    def _gauges(self) -> Gauges:
        pump = self._pump
        by_target = {(("target", outlet.target.name),): outlet for outlet in pump.outlets}
        return {
            "hashstar_unsettled_messages": ("Messages read and not settled.", {
                (("source", inlet.source.name),): inlet.window.messages for inlet in self._config.inlets
            }),
            "hashstar_in_flight_messages": ("Messages sent and not confirmed.", {
                label: outlet.in_flight for label, outlet in by_target.items()
            }),
            "hashstar_held_messages": ("Messages of keys that are held back.", {
                label: outlet.held for label, outlet in by_target.items()
            }),
            "hashstar_paused": ("Whether nothing is read for now.", {(): pump.paused}),
        }  # fmt: skip

    def ask(self, what: str) -> None:
        """Have the pump paused or resumed, on its own thread."""
        self._loop.call_soon_threadsafe(self._pump.pause if what == "pause" else self._pump.resume)


def _of(name: str, counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """What is counted of one endpoint."""
    return {what: count for (whose, what), count in list(counts.items()) if whose == name}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: whoever asked has gone, or is told nothing as the event loop does not turn."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "hashstar"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/":
                self._answer(200, "text/html; charset=utf-8", _page())
            elif path == "/status":
                self._answer(200, "application/json", json.dumps(web.status()).encode())
            elif path == "/live":
                self._say(web.alive, [] if web.alive else ["the event loop does not turn"])
            elif path == "/ready":
                self._say(not (missing := web.missing()), missing)
            elif path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", web.metrics_text().encode())
            elif path == "/coverage" and (report := web.coverage()) is not None:
                self._answer(200, "application/json", report)
            elif path == "/coverage":
                self._answer(404, "text/plain", b"write coverage = true in the configuration\n")
            else:
                self._answer(404, "text/plain", b"there are /, /status, /live, /ready, /metrics and /coverage\n")

        def do_POST(self) -> None:
            what = self.path.partition("?")[0].strip("/")
            # A page of another origin may send a form here, but not with this header, nor read the answer.
            if what not in ("pause", "resume"):
                self._answer(404, "text/plain", b"there are /pause and /resume\n")
            elif self.headers.get("X-Hashstar") is None:
                self._answer(403, "text/plain", b"send the header X-Hashstar: 1\n")
            else:
                web.ask(what)
                self._answer(202, "text/plain", f"{what}d\n".encode())

        def _say(self, good: bool, told: list[str]) -> None:
            self._answer(200 if good else 503, "text/plain; charset=utf-8", ("\n".join(told or ["ok"]) + "\n").encode())

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  its name in the base class
            """Nothing: probes ask every few seconds."""

    return Handler


def _page() -> bytes:
    return files("bridge").joinpath("status.html").read_bytes()
