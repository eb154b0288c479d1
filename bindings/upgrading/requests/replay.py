"""Replay recorded requests: ask them again of a release whose virtual host has a topology.

The topology is declared first, part by part, as an import does. Then come the requests in the order of their first
calls, in `PHASES`: what is declared, what is bound, what is published, consumed and set, what is deleted. For a
recording may begin in the middle of an application, and an application may delete what it then declares otherwise. So
only parts of the topology contradict a declaration: what clients have declared makes room for the next of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bindings.sources.recording.model import ACCEPTED, RecordedPublishing, RecordedRequest, Recording
from bindings.upgrading.releases import Release
from bindings.upgrading.requests.answering import AnsweringHost, Foretold, answer_to_message, answer_to_tuning
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Queue
from exchange.entities.part import encode_declaration
from exchange.topology.topology import Topology

PHASES: Final[Mapping[str, int]] = {
    "exchange.declare": 0, "queue.declare": 0,
    "exchange.bind": 1, "queue.bind": 1,
    "basic.publish": 2, "basic.qos": 2, "basic.consume": 2, "basic.get": 2, "queue.purge": 2,
    "queue.unbind": 3, "exchange.unbind": 3, "queue.delete": 3, "exchange.delete": 3,
}  # fmt: skip
"""Method -> when it is asked, passive declarations as what is published; the others are not asked of a virtual host."""
PASSIVE: Final = 2
INEQUIVALENT: Final = "HSU301"


class Ask(NamedTuple):
    """A call to make, and what is foretold that the release answers."""

    method: str
    arguments: Mapping[str, Any]
    foretold: Foretold
    cause: Exchange | Queue | Binding | RecordedRequest | RecordedPublishing | None
    """The part that it declares, or what was recorded; None for what only makes room for the next call."""


def replay(
    topology: Topology,
    recordings: Iterable[Recording],
    release: Release,
    permitted: frozenset[str] = frozenset(),
    recorded_vhost: str | None = None,
    *,
    in_place: bool = False,
) -> Iterator[Ask]:
    """Yield the calls that declare a topology, and those that ask again what was recorded of its virtual host.

    ``recorded_vhost`` is the virtual host of the recording if that has another name than the topology's. After an
    upgrade ``in_place``, what is there stays, also what the release refuses to declare: clients can use it.
    """
    recordings = list(recordings)
    missing = _missing_types(recordings) - {exchange.type for exchange in topology.exchanges.values()}
    host = AnsweringHost(Topology(vhost=topology.vhost), release, permitted, missing)
    fixed: set[tuple[str, str]] = set()
    staying: list[Exchange | Queue] = []
    for part in _parts(topology):
        ask = _declaration(part, host)
        yield ask
        if isinstance(part, Binding):
            continue
        if ask.foretold.answer != ACCEPTED:
            staying.append(part)
        else:
            fixed.add(("queue" if isinstance(part, Queue) else "exchange", part.name))
    rows = _rows(recordings, topology.vhost if recorded_vhost is None else recorded_vhost)
    fixed -= {_target(method, given) for method, given, _ in rows if method in ("queue.delete", "exchange.delete")}
    for method, given, row in rows:
        while in_place and staying and (given.get("passive") or not method.endswith(".declare")):
            host.keep(staying.pop())
        if given.get("queue") == "" and method != "queue.declare" and not host.has("queue", ""):
            continue  # its declaration is in no recording
        if isinstance(row, RecordedPublishing):
            yield Ask(method, given, _answer_to_publishing(host, release, row, given), row)
            continue
        foretold = host.answer(method, given)
        target = _target(method, given)
        if foretold.fact == INEQUIVALENT and target not in fixed:
            deletion, arguments = _deletion(*target)
            yield Ask(deletion, arguments, host.answer(deletion, arguments), None)
            foretold = host.answer(method, given)
        yield Ask(method, given, foretold, row)


def _missing_types(recordings: Iterable[Recording]) -> frozenset[str]:
    """Return the types of exchanges that a recorded broker did not know, and none has accepted."""
    declared = [each for recording in recordings for each in recording.requests if each.method == "exchange.declare"]
    known = {each.arguments["type"] for each in declared if each.was_accepted}
    return frozenset(
        each.arguments["type"]
        for each in declared
        if each.arguments["type"] not in known
        and any(f"unknown exchange type '{each.arguments['type']}'" in answer.text for answer in each.answers)
    )


def list_tunings(recordings: Iterable[Recording], release: Release) -> Iterator[Ask]:
    """Yield what clients have tuned, which is of no virtual host."""
    for recording in recordings:
        for request in recording.requests:
            if request.method == "connection.tune-ok":
                yield Ask(request.method, request.arguments, answer_to_tuning(release, request.arguments), request)


def _answer_to_publishing(
    host: AnsweringHost, release: Release, row: RecordedPublishing, given: Mapping[str, Any]
) -> Foretold:
    foretold = host.answer("basic.publish", given)
    return answer_to_message(release, row.max_bytes) if foretold.answer == ACCEPTED else foretold


def _parts(topology: Topology) -> Iterator[Exchange | Queue | Binding]:
    yield from (exchange for name, exchange in topology.exchanges.items() if name not in PREDECLARED_NAMES)
    yield from topology.queues.values()
    yield from topology.bindings


def _declaration(part: Exchange | Queue | Binding, host: AnsweringHost) -> Ask:
    method, arguments = encode_declaration(part)
    return Ask(method, arguments, host.answer(method, arguments), part)


def _rows(
    recordings: Iterable[Recording], vhost: str
) -> list[tuple[str, Mapping[str, Any], RecordedRequest | RecordedPublishing]]:
    """Return what was recorded of a virtual host: methods with arguments, in the order in which they are asked."""
    rows: list[tuple[str, Mapping[str, Any], RecordedRequest | RecordedPublishing]] = []
    for recording in recordings:
        rows += [
            (request.method, request.arguments, request)
            for request in recording.requests
            if request.vhost == vhost and request.method in PHASES
        ]
        rows += [
            ("basic.publish", {"exchange": each.exchange, "immediate": each.immediate}, each)
            for each in recording.publishing
            if each.vhost == vhost
        ]
    return sorted(rows, key=lambda row: PASSIVE if row[1].get("passive") else PHASES[row[0]])


def _target(method: str, given: Mapping[str, Any]) -> tuple[str, str]:
    kind = method.partition(".")[0]
    return kind, given.get(kind, "")


def _deletion(kind: str, name: str) -> tuple[str, dict[str, Any]]:
    if kind == "queue":
        return "queue.delete", {"queue": name, "if_unused": False, "if_empty": False}
    return "exchange.delete", {"exchange": name, "if_unused": False}
