"""Read what clients have declared, of a recording of `hashstar record`, as a topology.

It has the exchanges, queues and bindings that a broker has accepted, but for what was deleted after its last
declaration, exclusive queues, and queues that the broker has named. Of several declarations of a name the last counts.
What was there before the recording, and no client has declared since, is not in it: bindings of it are missing, and the
result says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import SourceWarning, describe
from bindings.sources.formats.format import SourceFile, WriteTarget
from bindings.sources.formats.imported import Imported
from bindings.sources.recording.file import read_recording
from bindings.sources.recording.model import RecordedRequest, Recording
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Queue
from exchange.entities.part import decode_binding, decode_exchange, decode_queue
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.topology.topology import Topology

VERSION: Final = re.compile(r"RabbitMQ ([0-9]+\.[0-9]+\.[0-9]+)")

Part = Exchange | Queue | Binding


def read_declared(files: Sequence[SourceFile], name: str) -> Imported:
    """Read one recording. Raises InputError, which names file and line."""
    [file] = files
    recording = read_recording(file.text, name)
    definitions = Definitions("/", _read_version(recording))
    by_vhost: dict[str, list[RecordedRequest]] = {}
    for request in recording.requests:
        if request.vhost:
            by_vhost.setdefault(request.vhost, []).append(request)
    missing: list[SourceWarning] = []
    topologies: list[Topology] = []
    for vhost, requests in sorted(by_vhost.items()):
        topology, loose = _declared(requests, vhost)
        topologies.append(topology)
        where = f"virtual host {vhost!r}"
        for binding in loose:
            text = f"{describe(binding)} is left out: no client has declared both of its ends"
            missing.append(SourceWarning.of_unread(UnreadPart("unknown", where, text)))
    definitions = definitions.with_topologies(topologies)
    return Imported(definitions, {}, missing)


def refuse_to_write(definitions: Definitions, target: WriteTarget) -> NoReturn:
    """Raise InputError: only a proxy makes recordings."""
    raise InputError("recordings are not written by converting, but by hashstar record")


def _read_version(recording: Recording) -> dict[str, Any]:
    found = VERSION.match(recording.brokers[0]) if recording.brokers else None
    return {} if found is None else {"rabbitmq_version": found[1]}


def _declared(requests: Sequence[RecordedRequest], vhost: str) -> tuple[Topology, list[Binding]]:
    """Return what clients have declared, and the bindings of which an end was there before."""
    exchanges: dict[str, Exchange] = {}
    queues: dict[str, Queue] = {}
    bindings: dict[Binding, None] = {}
    accepted = [each for each in requests if each.was_accepted]
    gone = {part: each.last for each in accepted for part in _removed(each)}
    for request in sorted(accepted, key=lambda each: each.last):
        part = _added(request)
        if part is None or gone.get(_name(part), "") > request.last:
            continue
        if isinstance(part, Exchange):
            exchanges[part.name] = part
        elif isinstance(part, Queue):
            queues[part.name] = part
        else:
            bindings[part] = None
    ends = {("exchange", name) for name in (*exchanges, *PREDECLARED_NAMES)} | {("queue", name) for name in queues}
    kept = [each for each in bindings if {("exchange", each.source), tuple(each.destination)} <= ends]
    passing = {"", *(each.arguments["queue"] for each in accepted if each.arguments.get("exclusive"))}
    loose = [
        each
        for each in bindings
        if {("exchange", each.source), tuple(each.destination)} - ends
        and (each.destination.kind == "exchange" or each.destination.name not in passing)
        and not {("exchange", each.source), tuple(each.destination)} & gone.keys()
    ]
    return Topology(exchanges.values(), queues.values(), kept, vhost=vhost), loose


def _name(part: Part) -> Any:
    if isinstance(part, Binding):
        return part
    return ("queue" if isinstance(part, Queue) else "exchange", part.name)


def _added(request: RecordedRequest) -> Part | None:
    """Return what a request declares or binds that outlives its connection; None for nothing."""
    read, given = READERS.get(request.method), request.arguments
    if read is None or given.get("passive") or given.get("exclusive") or given.get("queue") == "":
        return None
    return None if request.method == "exchange.declare" and given["exchange"] in PREDECLARED_NAMES else read(given)


def _removed(request: RecordedRequest) -> Iterator[Any]:
    kind, _, verb = request.method.partition(".")
    if verb == "delete":
        yield kind, request.arguments[kind]
    elif verb == "unbind":
        yield READERS[f"{kind}.bind"](request.arguments)


READERS: Final[dict[str, Callable[[Any], Part]]] = {
    "exchange.declare": decode_exchange,
    "queue.declare": decode_queue,
    "queue.bind": decode_binding,
    "exchange.bind": decode_binding,
}
"""Method -> function that returns the part that it declares."""
