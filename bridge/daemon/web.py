"""The HTTP interface of a bridge: liveness, readiness, metrics, and a page that shows the present flow of messages.

====================  ==================================================================================
``GET /``             the status page, which asks for ``/status`` every second
``GET /status``       the same as JSON
``GET /live``         200 as long as the event loop runs
``GET /ready``        200 while there is no condition (`bridge.daemon.health`), else 503 and all conditions
``GET /metrics``      Prometheus's text format
``GET /coverage``     the use of bindings, as in `hashstar audit --json`; needs ``coverage = true``
``POST /pause``       stop reading; ``POST /drain``: also settle what was read, and close the sources;
                      ``POST /resume``: continue; each with the header ``X-Hashstar`` and any value
``POST /reload``      read the configuration again; with that header, too; 409 and the reason if that is refused,
                      202 while nothing has come of it
====================  ==================================================================================

HEAD works as GET. Requests are served by threads (`bindings.http`). They read counters and the results of the
last look of `bridge.daemon.health`, and wait for the event loop only to count coverage.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import cache
from importlib.resources import files
from platform import python_version
from typing import TYPE_CHECKING, Any, Final

from bindings.http.handler import NOTHING, PLAIN, Handler
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server, make_server
from bridge.daemon.gauges import build_info, read_gauges, read_process_metrics
from bridge.daemon.metrics import BUCKETS, Metrics
from bridge.daemon.pipelines import Pipeline
from bridge.daemon.views import SourceJson, SourceState, StatusJson, TargetJson, TargetState
from bridge.pump.outlet import Outlet
from bridge.pump.pump import Inlet, Pump
from exchange.errors import InputError
from exchange.text.numbers import write_time
from exchange.text.site import HASHSTAR_VERSION
from exchange.values.documents import encode_as

if TYPE_CHECKING:  # these modules import pyarrow
    from bindings.counts.tally import Tally
    from bridge.daemon.coverage import CoverageCounter

SLOW: Final = 5.0
"""Seconds after which an event loop that has run no callback of `Web` counts as dead."""
PATIENCE: Final = 180.0
"""Maximum number of seconds for which a request waits for the reload that it asks for."""
NOT_TURNING: Final = "the event loop does not turn"
CONTROLS: Final[Mapping[str, tuple[Callable[[Pump], None], str]]] = {
    "pause": (Pump.pause, "paused"), "drain": (Pump.drain, "draining"), "resume": (Pump.resume, "resumed"),
}  # fmt: skip
"""What ``POST`` takes besides ``reload`` -> what it does, and the answer."""


class Web:
    """Serves the state of the pump that runs; ``reload`` is `bridge.daemon.pipelines.Pipelines.reload`."""

    def __init__(
        self,
        pipeline: Pipeline,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        reload: Callable[[], Coroutine[Any, Any, str]] | None = None,
        worker: int = 1,
    ) -> None:
        self.pipeline = pipeline
        """Replaced as a whole by each reload: a request reads it once."""
        self._metrics = metrics
        self._loop = loop
        self._reload = reload
        self._worker = worker
        self._turned_at = time.monotonic()
        self._started = time.time()
        self._beat: asyncio.TimerHandle | None = None
        self._server: Server | None = None

    def start(self) -> str:
        """Start the server, and return its address. Raises InputError if the configured address cannot be used."""
        http = self.pipeline.config.http
        assert http is not None  # noqa: S101  the caller has checked it
        try:
            self._server = make_server(http.host, http.port, _make_handler(self, HostCheck(http.host, http.names)))
        except OSError as error:
            raise InputError(f"http: {http.host}:{http.port} cannot be served: {error.strerror}") from None
        self._server.start()
        self._turn()
        host = f"[{http.host}]" if ":" in http.host else http.host
        return f"http://{host}:{self._server.server_address[1]}/"

    def show(self, pipeline: Pipeline) -> None:
        """Serve the state of another pump."""
        self.pipeline = pipeline

    def stop(self) -> None:
        """Stop serving."""
        if self._beat is not None:
            self._beat.cancel()
        if self._server is not None:
            self._server.close()

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        self._beat = self._loop.call_later(SLOW / 5, self._turn)

    @property
    def alive(self) -> bool:
        """Whether the event loop runs."""
        return time.monotonic() - self._turned_at < SLOW

    def not_ready_reasons(self) -> list[str]:
        """Return the reasons why the bridge is not ready, one line each."""
        if not self.alive:
            return [NOT_TURNING]
        return [f"{each} ({each.kind} since {write_time(each.since)})" for each in self.pipeline.health.current()]

    def status(self) -> Any:
        """Return the JSON object that the status page shows."""
        metrics, pipeline = self._metrics, self.pipeline
        config, pump, health = pipeline.config, pipeline.pump, pipeline.health
        conditions = health.current()
        value: StatusJson = {
            "version": 1,
            "hashstar": HASHSTAR_VERSION,
            "python": python_version(),
            "config": config.path,
            "worker": self._worker,
            "workers": config.workers,
            "started": self._started,
            "now": time.time(),
            "alive": self.alive,
            "ready": self.alive and not conditions,
            "missing": [str(each) for each in conditions] if self.alive else [NOT_TURNING],
            "conditions": conditions,
            "paused": pump.paused,
            "draining": pump.draining,
            "drained": pump.drained,
            "unsettled": pump.in_flight,
            "sources": [self._source(inlet, health.sources[inlet.source.name]) for inlet in config.inlets],
            "targets": [
                self._target(outlet, health.targets[outlet.target.name], outlet.target is config.dead_letters)
                for outlet in pump.outlets
            ],
            "fates": [
                {"endpoint": name, "fate": fate, "messages": count}
                for (name, fate), count in list(metrics.fates.items())
                if count
            ],
            "latency_bounds": list(BUCKETS),
            "history": health.history.as_json(),
            "reloads": metrics.reloads["reloaded"],
            "last_reload": metrics.last_reload,
            "reload_refused": metrics.refusal,
        }
        return encode_as(StatusJson, value)

    def _source(self, inlet: Inlet, state: SourceState) -> SourceJson:
        metrics, name = self._metrics, inlet.source.name
        return {
            "name": name,
            "up": state.up,
            "ended": name in metrics.ended_sources,
            "places": sorted(inlet.source.places),
            "messages": metrics.read_messages[name],
            "bytes": metrics.read_bytes[name],
            "redelivered": metrics.redelivered[name],
            "filtered": sum(_counts_of(name, metrics.filtered_messages).values()),
            "unreadable": sum(metrics.unreadable.get(name, {}).values()),
            "unsettled": inlet.window.messages,
            "unsettled_bytes": state.unsettled_bytes,
            "fill": round(state.fill, 4),
            "oldest": state.oldest,
            "oldest_age": round(state.oldest_age, 3),
            "lag": state.lag,
            "withheld": state.withheld,
            "vanished": state.vanished,
            "survives": state.survives,
            "on_hold": state.on_hold,
            "held": [{"origin": origin, "reason": reason} for origin, reason in state.held],
        }

    def _target(self, outlet: Outlet, state: TargetState, has_dead_letters: bool) -> TargetJson:
        metrics, name = self._metrics, outlet.target.name
        return {
            "name": name,
            "up": state.up,
            "places": sorted(outlet.target.places),
            "dead_letters": has_dead_letters,
            "in_flight": outlet.in_flight,
            "held": outlet.held,
            "oldest_age": round(state.oldest_age, 3),
            "waiting": [{"queue": queue, "reason": reason} for queue, reason in state.waiting.items()],
            "queues": _counts_of(name, metrics.written),
            "refusals": _counts_of(name, metrics.refusals),
            "latency": {"seconds": metrics.latency_sums.get(name, 0.0), "buckets": [*metrics.latencies.get(name, ())]},
        }

    def metrics_text(self) -> str:
        """Return all metrics in Prometheus's text format."""
        pipeline, coverage = self.pipeline, self.pipeline.coverage
        gauges = read_gauges(pipeline.config, pipeline.pump, self._metrics, pipeline.health, alive=self.alive)
        lines = [*self._metrics.lines({**gauges, **build_info(), **read_process_metrics()})]
        if coverage is not None:
            with suppress(TimeoutError):  # the event loop hangs, which the other metrics show
                lines += coverage.lines(self._tally(coverage))
        return "\n".join(lines) + "\n"

    def coverage(self) -> bytes | None:
        """Return the report on the bindings; None if they are not counted. Raises TimeoutError if the loop hangs."""
        coverage = self.pipeline.coverage
        return None if coverage is None else coverage.report(self._tally(coverage))

    def _tally(self, coverage: CoverageCounter) -> Tally:
        """Return the present tally, made on the event loop's thread, where messages are counted."""
        result: Future[Tally] = Future()

        def make_tally() -> None:
            try:
                result.set_result(coverage.tally())
            except Exception as error:  # noqa: BLE001  `result.result` raises it again, on the thread that waits
                result.set_exception(error)

        self._loop.call_soon_threadsafe(make_tally)
        return result.result(SLOW)

    def control(self, action: str) -> None:
        """Have the pump that runs do one of `CONTROLS`, on the event loop's thread."""
        self._loop.call_soon_threadsafe(lambda: CONTROLS[action][0](self.pipeline.pump))

    def reload(self) -> tuple[int, str]:
        """Have the configuration read again; return the code and text to answer, once it is in effect or refused."""
        if self._reload is None:
            return 409, "this bridge has no file to read again"
        try:
            refusal = asyncio.run_coroutine_threadsafe(self._reload(), self._loop).result(PATIENCE)
        except CancelledError:
            return 503, "the bridge has ended"
        except TimeoutError:
            return 202, f"not in effect after {PATIENCE:.0f} s, and not refused: GET /status shows what it waits for"
        return (409, refusal) if refusal else (200, "reloaded")


def _counts_of(name: str, counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the counts of one endpoint."""
    return {label: count for (endpoint, label), count in list(counts.items()) if endpoint == name}


def _make_handler(web: Web, check: HostCheck) -> type[Handler]:
    class Answers(Handler):
        hosts = check
        hosts_option = 'http_hosts = ["..."]'

        def answer_to(self, method: str, path: str) -> None:
            if method == "POST":
                self._control(path.strip("/"))
            elif path == "/":
                page, policy = load_page()
                self.answer(200, "text/html; charset=utf-8", page, policy)
            elif path == "/status":
                self.answer(200, "application/json", json.dumps(web.status()).encode())
            elif path == "/live":
                self._list_problems([] if web.alive else [NOT_TURNING])
            elif path == "/ready":
                self._list_problems(web.not_ready_reasons())
            elif path == "/metrics":
                self.answer(200, "text/plain; version=0.0.4; charset=utf-8", web.metrics_text().encode())
            elif path == "/coverage":
                self._report_coverage()
            else:
                self.answer(404, PLAIN, b"there are /, /status, /live, /ready, /metrics and /coverage\n")

        def _report_coverage(self) -> None:
            try:
                report = web.coverage()
            except TimeoutError:
                self._list_problems([NOT_TURNING])
                return
            if report is None:
                self.answer(404, PLAIN, b"write coverage = true in the configuration\n")
            else:
                self.answer(200, "application/json", report)

        def _control(self, action: str) -> None:
            # A browser lets a page of another origin send a form to this server, but not with this header.
            if action != "reload" and action not in CONTROLS:
                self.answer(404, PLAIN, b"there are /pause, /drain, /resume and /reload\n")
            elif self.headers.get("X-Hashstar") is None:
                self.answer(403, PLAIN, b"send the header X-Hashstar: 1\n")
            elif action == "reload":
                code, text = web.reload()
                self.answer(code, PLAIN, f"{text}\n".encode("utf-8", "replace"))
            else:
                web.control(action)
                self.answer(202, PLAIN, f"{CONTROLS[action][1]}\n".encode())

        def _list_problems(self, problems: list[str]) -> None:
            # Names and reasons come from configurations and brokers, and may hold bytes that are not UTF-8.
            text = "\n".join(problems or ["ok"]) + "\n"
            self.answer(503 if problems else 200, PLAIN, text.encode("utf-8", "backslashreplace"))

    return Answers


@cache
def load_page() -> tuple[bytes, str]:
    """Return the status page, and the content security policy that allows only the script and style in it."""
    page = files("bridge.daemon").joinpath("status.html").read_bytes()
    hashes = {
        name: " ".join([
            f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
            for text in re.findall(rf"<{name}>(.*?)</{name}>".encode(), page, re.DOTALL)
        ])
        for name in ("script", "style")
    }  # fmt: skip
    allowed = f"script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; img-src data:"
    return page, f"{NOTHING}; {allowed}"
