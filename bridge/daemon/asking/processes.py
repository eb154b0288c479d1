"""The processes of a bridge that runs, asked all at once: where they serve HTTP, and the state that each of them shows.

A configuration says where its workers serve; of an address, the status says which worker answers there, and how many
others there are on the ports beside it. A process that does not answer is an error beside the answers of the others.
"""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from bindings.sources.address import parse_address
from bindings.sources.http_answer import HttpAnswer, HttpFailure, read_answer
from bindings.sources.toml_file import read_toml
from bridge.daemon import keys
from bridge.daemon.config import NO_PIPELINE, explain_no_pipeline, read_http
from bridge.daemon.views import Condition, PipelineStatus
from bridge.table import Table
from exchange.errors import InputError
from exchange.files.names import WEB
from exchange.text.display import hide_logins
from exchange.values.json_text import parse_leniently

T = TypeVar("T")

EXAMPLE: Final = "http://HOST:9410"
STATUS_BYTES: Final = 64 << 20
"""Maximum size of a status, in bytes."""
ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  to ask, not to listen
"""Host that stands for all addresses of a machine -> the one to ask."""
RETRY: Final = 0.1
"""Seconds between two looks at a state that is waited for."""


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """A source or target of a process, as far as it is shown."""

    name: str
    up: bool
    counts: tuple[int | None, ...]
    """Of a source: messages that wait, and messages not settled. Of a target: messages sent, and messages held back."""
    oldest_age: float
    """Seconds since its oldest message was read; 0 if there is none."""
    ended: bool = False
    pipeline: str = ""
    """Its pipeline, if the file has several."""


@dataclass(frozen=True, slots=True)
class Process:
    """The state of a process of a bridge."""

    address: str
    config: str
    worker: int
    workers: int
    started: float
    now: float
    alive: bool
    ready: bool
    paused: bool
    draining: bool
    drained: bool
    unsettled: int
    reload_refused: str
    last_reload: float | None
    conditions: tuple[Condition, ...]
    sources: tuple[EndpointStatus, ...]
    targets: tuple[EndpointStatus, ...]
    document: dict[str, Any] = field(repr=False)
    """All of it, as the process has sent it."""
    pipelines: tuple[PipelineStatus, ...] = ()
    """The pipelines of a file with several."""

    @property
    def state(self) -> str:
        """Its state in a word or two."""
        return name_state(self) if self.alive else "hangs"

    @property
    def parts(self) -> Sequence[Process | PipelineStatus]:
        """What an order is for: its pipelines that have not ended, or itself if the file has only one."""
        return [each for each in self.pipelines if not each.ended] if self.pipelines else [self]


def name_state(of: Process | PipelineStatus) -> str:
    """Return the state of a process that is alive, or of a pipeline, in a word or two."""
    for state in ("ended", "drained", "draining", "paused"):
        if getattr(of, state, False):
            return state
    return "ready" if of.ready else "not ready"


class Answers(NamedTuple):
    """What all processes of a bridge have answered."""

    processes: tuple[Process, ...]
    errors: tuple[str, ...] = ()
    """Why others have not, one line each."""


def find_addresses(where: str, seconds: float) -> list[str]:
    """Return where the processes of a bridge serve, by its configuration, or by the address of one. Raises InputError.

    An address is asked how many others there are, for at most ``seconds``.
    """
    if "://" not in where:
        return _read_addresses(Path(where))
    parsed = parse_address(where, WEB, EXAMPLE)
    if parsed.login or parsed.query or parsed.fragment or "," in parsed.hosts:
        raise InputError(f"{hide_logins(where)}: the address of a bridge is {EXAMPLE}; it has no login")
    path = parsed.path.rstrip("/")
    first = read_process(f"{parsed.scheme}://{parsed.hosts}{path}", seconds)
    if first.workers == 1:
        return [first.address]
    port = (parsed.port or (443 if parsed.scheme == "https" else 80)) - first.worker + 1
    return [f"{parsed.scheme}://{parsed.host}:{port + n}{path}" for n in range(first.workers)]


def _read_addresses(path: Path) -> list[str]:
    table = Table(read_toml(path), str(path), environment=os.environ)
    workers = keys.WORKERS.read(table)
    https = [read_http(table.copy(), number) for number in range(1, workers + 1)]
    addresses = []
    for each in https:
        if each is None:
            raise table.error("http", 'is "off", so this bridge cannot be asked; its process takes signals')
        if not each.port:
            raise table.error("http", "has port 0, another one at each start, which the log shows: give that address")
        host = ANY.get(each.host, each.host)
        addresses.append(f"http://{f'[{host}]' if ':' in host else host}:{each.port}")
    return addresses


def ask(address: str, method: str, path: str, seconds: float) -> HttpAnswer:
    """Send a request to a process, and return its answer. Raises InputError, due to TimeoutError if none has come."""
    request = urllib.request.Request(f"{address}{path}", method=method, headers={"X-Hashstar": "1"})  # noqa: S310  WEB
    try:
        return read_answer(request, seconds, STATUS_BYTES)
    except HttpFailure as error:
        is_late = isinstance(error.__cause__, TimeoutError)
        hint = "" if is_late else "; does the bridge run, and is this what http says in its file?"
        raise InputError(f"{address} {error}{hint}") from error.__cause__


def query_for(pipeline: str | None) -> str:
    """Return the query of a request about one pipeline, or about all."""
    return "" if pipeline is None else f"?pipeline={quote(pipeline, safe='')}"


def read_process(address: str, seconds: float, pipeline: str | None = None) -> Process:
    """Return the state of a process, or of one pipeline of it. Raises InputError."""
    answer = ask(address, "GET", f"/status{query_for(pipeline)}", seconds)
    if answer.status != 200:
        raise InputError(f"{address}: {describe_refusal(answer)}")
    try:
        process = parse_process(address, parse_leniently(answer.body))
    except (ValueError, KeyError, TypeError, InputError):
        raise InputError(f"{address}: what answers is no bridge, or one of an earlier release") from None
    if pipeline is not None and [each.name for each in process.pipelines] != [pipeline]:
        raise InputError(explain_lone_pipeline(address, pipeline))
    return process


def explain_lone_pipeline(address: str, name: str) -> str:
    """Return why a process has no pipeline of this name where it names none at all."""
    return f"{address}: {explain_no_pipeline(name, ())}, or its release knows no several"


def describe_refusal(answer: HttpAnswer) -> str:
    """Return what a process has answered instead of what was asked for, as a text of its lines."""
    text = answer.body.decode("utf-8", "replace").strip()
    is_ours = answer.status in (409, 503) or (answer.status == 404 and text.startswith(NO_PIPELINE))
    return text if is_ours and text else f"it answers {answer.status} ({text[:200]})"


def parse_process(address: str, document: Any) -> Process:
    """Return the state that a document shows. Raises InputError, KeyError for what is not as `/status` has it."""

    def read(entry: Any, name: str, *kinds: type) -> Any:
        value = entry[name] if isinstance(entry, dict) else None
        if type(value) not in kinds:
            raise InputError(f"{name}: has another type")
        return value

    def read_all(name: str, make: Callable[[Any], T]) -> tuple[T, ...]:
        return tuple([make(each) for each in read(document, name, list)])

    def read_endpoint(entry: Any, *counts: str, ended: bool = False) -> EndpointStatus:
        found = [read(entry, each, int, type(None)) for each in counts]
        age = read(entry, "oldest_age", int, float)
        name, up = read(entry, "name", str), read(entry, "up", bool)
        return EndpointStatus(name, up, tuple(found), age, ended, read({"pipeline": "", **entry}, "pipeline", str))

    numbers, maybe = (int, float), type(None)
    kinds: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(("config", "reload_refused"), (str,)),
        **dict.fromkeys(("worker", "workers", "unsettled"), (int,)),
        **dict.fromkeys(("alive", "ready", "paused", "draining", "drained"), (bool,)),
        **dict.fromkeys(("started", "now"), numbers), "last_reload": (*numbers, maybe),
    }  # fmt: skip
    texts = ("endpoint", "kind", "reason", "way_out")

    def read_condition(entry: Any) -> Condition:
        fields = {name: read(entry, name, str) for name in texts}
        pipeline = read({"pipeline": None, **entry}, "pipeline", str, maybe)
        return Condition(**fields, since=read(entry, "since", *numbers), pipeline=pipeline)

    flags = ("ready", "ended", "paused", "draining", "drained")

    def read_pipeline(entry: Any) -> PipelineStatus:
        states = {name: read(entry, name, bool) for name in flags}
        name, missing = read(entry, "name", str), tuple(read(entry, "missing", list))
        return PipelineStatus(name, unsettled=read(entry, "unsettled", int), missing=missing, **states)

    return Process(
        address=address,
        document=document,
        conditions=read_all("conditions", read_condition),
        sources=read_all("sources", lambda each: read_endpoint(each, "lag", "unsettled", ended=each["ended"] is True)),
        targets=read_all("targets", lambda each: read_endpoint(each, "in_flight", "held")),
        pipelines=read_all("pipelines", read_pipeline) if "pipelines" in document else (),
        **{name: read(document, name, *each) for name, each in kinds.items()},
    )


def read_all(addresses: Sequence[str], seconds: float, pipeline: str | None = None) -> Answers:
    """Return the states of all processes, or of one pipeline in each."""
    processes: list[Process] = []
    errors: list[str] = []
    for each in ask_all(addresses, lambda address: read_process(address, seconds, pipeline)):
        if isinstance(each, Process):
            processes.append(each)
        else:
            errors.append(str(each))
    return Answers(tuple(processes), tuple(errors))


def ask_all(addresses: Sequence[str], call: Callable[[str], T]) -> list[T | InputError]:
    """Call a function with each address, at the same time, and return its results, and the errors that it raises."""

    def call_one(address: str) -> T | InputError:
        try:
            return call(address)
        except InputError as error:
            return error

    with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
        return [*pool.map(call_one, addresses)]


def wait_for(
    addresses: Sequence[str], holds: Callable[[Process | PipelineStatus], bool], seconds: float, pipeline: str | None
) -> tuple[Answers, bool]:
    """Ask all processes until the condition holds for each, for at most ``seconds``; return answers, and if it holds.

    Of several pipelines it must hold for each, or for the one that is named. A process may not answer for a moment,
    as a worker that is started again.
    """
    until = time.monotonic() + seconds
    while True:
        answers = read_all(addresses, max(RETRY, until - time.monotonic()), pipeline)
        is_so = not answers.errors and all(holds(part) for each in answers.processes for part in each.parts)
        if is_so or time.monotonic() + RETRY >= until:
            return answers, is_so
        time.sleep(RETRY)
