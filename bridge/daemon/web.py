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

Of several pipelines, ``?pipeline=NAME`` asks about one, and has one pause, drain, resume or reload; ``/status``,
``/ready`` and ``/metrics`` take several of them. Any other parameter is refused: if it were ignored, a misspelt one
would mean all pipelines. ``/live`` is about the process. HEAD works as GET. Requests are served by threads
(`bindings.http`). They read counters and the results of the last look of `bridge.daemon.health`, and wait for the event
loop only to count coverage.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from platform import python_version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from bindings.http.handler import NOTHING, PLAIN, Handler
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server, make_server
from bridge.daemon.asking import rows
from bridge.daemon.config import Config, explain_no_pipeline
from bridge.daemon.pumps import RunningPump, control
from bridge.daemon.telemetry.gauges import build_info, read_bridge_gauges, read_gauges, read_process_metrics
from bridge.daemon.telemetry.metrics import BUCKETS, Gauges, Metrics, Reloads, format_metrics
from bridge.daemon.views import Condition, StatusJson
from bridge.pump.pump import Pump
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
    """Serves the state of the pumps that run; ``reload`` is `bridge.daemon.pipelines.Pipelines.reload`."""

    def __init__(
        self,
        config: Config,
        pumps: Mapping[str, RunningPump],
        loop: asyncio.AbstractEventLoop,
        reload: Callable[[str | None], Coroutine[Any, Any, str]] | None = None,
        reloads: Reloads | None = None,
        worker: int = 1,
    ) -> None:
        self._config = config
        self.pumps = pumps
        """Pipeline -> its pump. Replaced as a whole by each reload: a request reads it once."""
        self._loop = loop
        self._reload = reload
        self._reloads = reloads or Reloads()
        self._worker = worker
        self._turned_at = time.monotonic()
        self._started = time.time()
        self._beat: asyncio.TimerHandle | None = None
        self._server: Server | None = None

    def start(self) -> str:
        """Start the server, and return its address. Raises InputError if the configured address cannot be used."""
        http = self._config.http
        assert http is not None  # noqa: S101  the caller has checked it
        try:
            self._server = make_server(http.host, http.port, _make_handler(self, HostCheck(http.host, http.names)))
        except OSError as error:
            raise InputError(f"http: {http.host}:{http.port} cannot be served: {error.strerror}") from None
        self._server.start()
        self._turn()
        host = f"[{http.host}]" if ":" in http.host else http.host
        return f"http://{host}:{self._server.server_address[1]}/"

    def show(self, pumps: Mapping[str, RunningPump]) -> None:
        """Serve the state of other pumps."""
        self.pumps = pumps

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

    def not_ready_reasons(self, pipelines: Collection[str] = ()) -> list[str]:
        """Return the reasons why the bridge, or one of these pipelines if any is named, is not ready, one line each."""
        if not self.alive:
            return [NOT_TURNING]
        by_pipeline = _find_conditions(_choose(self.pumps, pipelines))
        conditions = [each for own in by_pipeline.values() for each in own]
        return [f"{each} ({each.kind} since {write_time(each.since)})" for each in conditions]

    def status(self, pipelines: Collection[str] = ()) -> Any:
        """Return the JSON object that the status page shows; of these pipelines if any is named, as if no other ran."""
        pumps, config, reloads, alive = _choose(self.pumps, pipelines), self._config, self._reloads, self.alive
        by_pipeline = _find_conditions(pumps)
        conditions = [each for own in by_pipeline.values() for each in own]
        running = [each.pump for each in pumps.values() if not each.ended] or [each.pump for each in pumps.values()]
        value: StatusJson = {
            "version": 1,
            "hashstar": HASHSTAR_VERSION,
            "python": python_version(),
            "config": config.path,
            "worker": self._worker,
            "workers": config.workers,
            "started": self._started,
            "now": time.time(),
            "alive": alive,
            "ready": alive and not conditions,
            "missing": [str(each) for each in conditions] if alive else [NOT_TURNING],
            "conditions": conditions,
            "paused": all(each.paused for each in running),
            "draining": any(each.draining for each in running),
            "drained": all(each.drained for each in running),
            "unsettled": sum([each.pump.in_flight for each in pumps.values()]),
            "sources": rows.list_rows(pumps, rows.list_sources),
            "targets": rows.list_rows(pumps, rows.list_targets),
            "fates": rows.list_rows(pumps, rows.list_fates),
            "latency_bounds": list(BUCKETS),
            "history": rows.join_histories({name: each.health.history.as_json() for name, each in pumps.items()}),
            "reloads": reloads.counts["reloaded"],
            "last_reload": reloads.last,
            "reload_refused": reloads.refusal,
        }
        if "" not in pumps:
            value["pipelines"] = [rows.describe_pipeline(name, each, by_pipeline[name]) for name, each in pumps.items()]
        return encode_as(StatusJson, value)

    def metrics_text(self, pipelines: Collection[str] = ()) -> str:
        """Return the metrics of all pipelines, or of these, and of the process, in Prometheus's text format."""
        pumps, shown = _choose(self.pumps, pipelines), dict[str, tuple[Metrics, Gauges]]()
        for name, each in pumps.items():
            gauges = dict(read_gauges(each.config, each.pump, each.health, alive=self.alive))
            if each.coverage is not None:
                with suppress(TimeoutError):  # the event loop hangs, which the other metrics show
                    gauges |= each.coverage.families(self._tally(each.coverage))
            shown[name] = each.metrics, gauges
        dropped = max([each.health.journal.dropped for each in pumps.values()], default=0)
        of_all = {**read_bridge_gauges(self._reloads, dropped), **build_info(), **read_process_metrics()}
        return "\n".join(format_metrics(shown, of_all)) + "\n"

    def coverage(self, pipeline: str | None) -> bytes | None:
        """Return the report on the bindings of a pipeline; of the only one that has any for None.

        None if they are not counted. Raises TimeoutError if the loop hangs, InputError if there are several.
        """
        pumps = self.pumps
        counting = {name: each.coverage for name, each in pumps.items() if each.coverage and pipeline in (None, name)}
        if len(counting) > 1:
            raise InputError(f"name one of the pipelines with coverage, as /coverage?pipeline={next(iter(counting))}")
        return next((each.report(self._tally(each)) for each in counting.values()), None)

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

    def control(self, action: str, pipeline: str | None) -> None:
        """Have the pumps that run, or that of a pipeline, do one of `CONTROLS`, on the event loop's thread."""
        self._loop.call_soon_threadsafe(lambda: control(self.pumps, CONTROLS[action][0], pipeline))

    def reload(self, pipeline: str | None) -> tuple[int, str]:
        """Have the configuration read again; return the code and text to answer, once it is in effect or refused."""
        if self._reload is None:
            return 409, "this bridge has no file to read again"
        try:
            refusal = asyncio.run_coroutine_threadsafe(self._reload(pipeline), self._loop).result(PATIENCE)
        except CancelledError:
            return 503, "the bridge has ended"
        except TimeoutError:
            return 202, f"not in effect after {PATIENCE:.0f} s, and not refused: GET /status shows what it waits for"
        except InputError as error:
            return 404, str(error)
        return (409, refusal) if refusal else (200, "reloaded")


def _choose(pumps: Mapping[str, RunningPump], pipelines: Collection[str]) -> Mapping[str, RunningPump]:
    """Return the pumps of these pipelines, in the order of the file; all if none is named."""
    return {name: each for name, each in pumps.items() if name in pipelines} if pipelines else pumps


def _find_conditions(pumps: Mapping[str, RunningPump]) -> dict[str, list[Condition]]:
    """Return the present conditions by pipeline."""
    return {
        name: [replace(condition, pipeline=name or None) for condition in each.health.current()]
        for name, each in pumps.items()
    }


def _make_handler(web: Web, check: HostCheck) -> type[Handler]:
    class Answers(Handler):
        hosts = check
        hosts_option = 'http_hosts = ["..."]'

        def answer_to(self, method: str, path: str) -> None:
            if method == "POST":
                self._control(path.strip("/"))
            elif path == "/":
                if self._find_pipelines() is not None:
                    page, policy = load_page()
                    self.answer(200, "text/html; charset=utf-8", page, policy)
            elif path == "/status":
                if (pipelines := self._find_pipelines(most=None)) is not None:
                    self.answer(200, "application/json", json.dumps(web.status(pipelines)).encode())
            elif path == "/live":
                self._list_problems([] if web.alive else [NOT_TURNING])
            elif path == "/ready":
                if (pipelines := self._find_pipelines(most=None)) is not None:
                    self._list_problems(web.not_ready_reasons(pipelines))
            elif path == "/metrics":
                if (pipelines := self._find_pipelines(most=None)) is not None:
                    self.answer(200, "text/plain; version=0.0.4; charset=utf-8", web.metrics_text(pipelines).encode())
            elif path == "/coverage":
                if (pipelines := self._find_pipelines()) is not None:
                    self._report_coverage(next(iter(pipelines), None))
            else:
                self.answer(404, PLAIN, b"there are /, /status, /live, /ready, /metrics and /coverage\n")

        def _find_pipelines(self, *, most: int | None = 1, may_be_new: bool = False) -> list[str] | None:
            """Return the pipelines that the request names, at most ``most``; none: it is about all.

            None if it has been answered, as it names what is not there, or asks for more than pipelines.
            """
            query = parse_qs(self.path.partition("?")[2], keep_blank_values=True)
            found, names = query.pop("pipeline", []), [each for each in web.pumps if each]
            unknown = [name for name in found if name not in names and not (name and names and may_be_new)]
            if unknown:
                code, text = 404, explain_no_pipeline(unknown[0], names)
            elif names and query:
                code, text = 400, f"pipeline=NAME is all that may be asked for, not {next(iter(query))!r}"
            elif most is not None and len(found) > most:
                code, text = 400, "name one pipeline"
            else:
                return found
            self.answer(code, PLAIN, f"{text}\n".encode("utf-8", "replace"))
            return None

        def _report_coverage(self, pipeline: str | None) -> None:
            try:
                report = web.coverage(pipeline)
            except TimeoutError:
                self._list_problems([NOT_TURNING])
                return
            except InputError as error:
                self.answer(400, PLAIN, f"{error}\n".encode())
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
            elif (pipelines := self._find_pipelines(may_be_new=action == "reload")) is not None:
                pipeline = next(iter(pipelines), None)
                if action == "reload":
                    code, text = web.reload(pipeline)
                else:
                    web.control(action, pipeline)
                    code, text = 202, CONTROLS[action][1]
                self.answer(code, PLAIN, f"{text}\n".encode("utf-8", "replace"))

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
