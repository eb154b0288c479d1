"""The questions that a page can ask, and their answers as JSON values. ``docs/serve.md`` describes each.

Every question names a virtual host (null: the one that is shown first) and perhaps a draft. An answer depends on
nothing else: the server keeps no state for a page, except the drafts, which a page can make again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import nsmallest
from typing import Any, Final, Literal, NamedTuple

from bindings.analysis.crawl import Budget, Deadline
from bindings.checking.rules.finding import Finding
from bindings.diffing.diff import diff
from bindings.diffing.forms.as_json import to_json as diff_to_json
from bindings.diffing.forms.text import format_meaning, format_settings, plan_lines
from bindings.serve.drafts import MAX_EDITS, Drafts
from bindings.serve.nearest import find_nearest
from bindings.serve.pictures import DEFAULT_NODES, make_picture
from bindings.serve.questions import Parameters, Questions
from bindings.serve.rows import decode_binding, describe_part, list_rows
from bindings.serve.traffic import ReportTraffic
from bindings.serve.view import View
from bindings.serve.watching import WatchedSource
from exchange.entities.entities import Binding, Destination
from exchange.entities.unread import UnreadPart
from exchange.errors import HashstarError, InputError
from exchange.routing.dead_letters import follow_dead_letters
from exchange.routing.explain_json import to_json
from exchange.routing.nearest import Walk, find_missed
from exchange.routing.route import Obstacle
from exchange.topology.unread import find_unread
from exchange.values.documents import encode_as
from exchange.values.field_json import encode_message
from exchange.values.message import Message

ANSWER_SECONDS: Final = 2.0
"""Maximum duration of the answer to a question that a page asks at each keystroke."""
STUDY_SECONDS: Final = 20.0
"""Maximum duration of the answers that need a search of the whole topology: its findings, the meaning of a draft."""
ANSWERS_AT_ONCE: Final = 6
STUDIES_AT_ONCE: Final = 3
MAX_STEPS: Final = 300_000
"""Maximum cost of the search for a nearest message."""
MAX_ROWS: Final = 200
"""Maximum number of bindings or names in one answer."""
MAX_NODES: Final = 500
"""Maximum number of nodes of a picture, whatever the page asks for."""
MAX_FINDINGS: Final = 2_000
"""Maximum number of findings in one answer."""

Json = dict[str, Any]
SEPARATORS: Final = ".-_:/ "
"""Characters after which a word of a name begins."""


class DraftGone(HashstarError):
    """A draft that is not kept any more: the page makes it again."""


class Explorer:
    """A source and what was asked about it."""

    def __init__(self, watched: WatchedSource, traffic: ReportTraffic | None = None) -> None:
        self.watched: Final = watched
        self.traffic: Final = traffic
        self._drafts: Final = Drafts()
        self._quick: Final = Questions(ANSWERS_AT_ONCE, ANSWER_SECONDS)
        self._slow: Final = Questions(STUDIES_AT_ONCE, STUDY_SECONDS)

    def answer(self, name: str, body: bytes) -> Json:
        """Return the answer to a question of `QUESTIONS`.

        Raises InputError, BrokerError, DraftGone, OutOfTime and Busy.
        """
        question = QUESTIONS[name]
        parameters = Parameters(body)
        runner = self._slow if question.is_study else self._quick
        return runner.answer(lambda: question.ask(self, parameters))

    def view(self, parameters: Parameters) -> View:
        """Return the virtual host that a question is about, as it was read or as its draft makes it."""
        draft = parameters.text("draft")
        if draft is None:
            return self.base(parameters)
        view = self._drafts.find(draft)
        if view is None:
            raise DraftGone("this draft is not kept any more: make it again")
        return view

    def base(self, parameters: Parameters) -> View:
        """Return the virtual host that a question is about, as it was read."""
        return self.watched.reading.view(self._vhost_of(parameters))

    def traffic_of(self, view: View) -> ReportTraffic | None:
        """Return the report of an audit if it is about this virtual host."""
        return self.traffic if self.traffic is not None and self.traffic.vhost == view.topology.vhost else None

    def make_draft(self, parameters: Parameters) -> Json:
        """Answer the question ``draft``."""
        edits = parameters.texts("edits", MAX_EDITS)
        reading = self.watched.reading
        return {"draft": self._drafts.make(reading, self._vhost_of(parameters), parameters.text("text"), edits)}

    def _vhost_of(self, parameters: Parameters) -> str:
        vhost = parameters.text("vhost")
        return self.watched.vhost if vhost is None else vhost


def _source(explorer: Explorer, parameters: Parameters) -> Json:
    watched, traffic = explorer.watched, explorer.traffic
    reading = watched.reading
    return {
        "source": reading.source.name,
        "version": reading.version,
        "read": reading.time,
        "watched": watched.is_watched,
        "fault": None if watched.fault is None else watched.fault._asdict(),
        "warnings": [str(warning) for warning in reading.warnings[:MAX_ROWS]],
        "vhosts": list(reading.source.vhosts),
        "vhost": watched.vhost,
        "profile": reading.profile,
        "traffic": None
        if traffic is None
        else {"report": traffic.name, "source": traffic.source, "vhost": traffic.vhost},
    }


def _topology(explorer: Explorer, parameters: Parameters) -> Json:
    view = explorer.view(parameters)
    topology, traffic = view.topology, explorer.traffic_of(view)
    usable = [name for name, each in topology.exchanges.items() if topology.bindings_from(name) and not each.internal]
    return {
        "vhost": topology.vhost,
        "profile": topology.profile.name,
        "exchanges": len(topology.exchanges),
        "queues": len(topology.queues),
        "bindings": len(topology.bindings),
        "first": max(usable, key=lambda name: len(topology.bindings_from(name)), default=""),
        "counted": None if traffic is None else sum(binding in traffic.uses for binding in topology.bindings),
    }


def _search(explorer: Explorer, parameters: Parameters) -> Json:
    kind = parameters.text("kind")
    if kind not in (None, "exchange", "queue"):
        raise InputError("kind: exchange or queue is wanted")
    view = explorer.view(parameters)
    most = parameters.number("most", 20, MAX_ROWS)
    parts, more = _find_parts(view, parameters.text("text") or "", kind, most)  # type: ignore[arg-type]
    return {"parts": [_part_json(view, part) for part in parts], "more": more}


def _explain(explorer: Explorer, parameters: Parameters) -> Json:
    view = explorer.view(parameters)
    explanation = view.router.explain(_message(parameters), parameters.text("queue"))
    explanation = follow_dead_letters(view.topology, view.router, explanation)
    profile = view.topology.profile
    caveat = {"caveat": profile.caveat} if profile.caveat else {}
    parts = find_unread(view.topology)
    unread = {"unread": encode_as(tuple[UnreadPart, ...], parts)} if parts else {}
    return {**to_json(explanation), "profile": profile.name, **caveat, **unread}


def _nearest(explorer: Explorer, parameters: Parameters) -> Json:
    view, message = explorer.view(parameters), _message(parameters)
    queue, binding = parameters.text("queue"), parameters.value("binding")
    if (queue is None) == (binding is None):
        raise InputError("queue or binding is wanted, and not both")
    goal: Destination | Binding
    if queue is not None:
        goal = Destination("queue", queue)
        obstacles = to_json(view.router.explain(message, queue))["asked"]["obstacles"]
    else:
        goal, obstacles = decode_binding(binding), []
        if goal not in view.topology.bindings_from(goal.source):
            raise InputError("binding: there is no such binding")
        view.router.explain(message)  # raises what the broker would answer
    nearest = find_nearest(view, message, goal, Budget(MAX_STEPS, Deadline(ANSWER_SECONDS * 0.75)))
    return {
        "obstacles": obstacles,
        "message": None if nearest.message is None else encode_message(nearest.message),
        "why_not": nearest.why_not,
        "proved": nearest.proved,
        "entries": list(nearest.entries),
    }


def _missed(explorer: Explorer, parameters: Parameters) -> Json:
    view, message = explorer.view(parameters), _message(parameters)
    reached = frozenset(hop.exchange.name for hop in view.router.explain(message).hops)
    walk = Walk(message, reached, view.topology.tables(), {}, view.topology.profile)
    return {"obstacles": [encode_as(Obstacle, each) for each in find_missed(walk)]}


def _rows(explorer: Explorer, parameters: Parameters) -> Json:
    view = explorer.view(parameters)
    source, destination = parameters.text("source"), parameters.part("destination")
    if source is None and destination is None:
        raise InputError("source or destination is wanted")
    most = parameters.number("most", 50, MAX_ROWS)
    return list_rows(view, source, destination, parameters.message(), most, explorer.traffic_of(view))


def _part(explorer: Explorer, parameters: Parameters) -> Json:
    part = parameters.part("part")
    if part is None:
        raise InputError("part is wanted")
    view = explorer.view(parameters)
    traffic = explorer.traffic_of(view)
    keys = traffic.keys_of(part.name) if traffic is not None and part.kind == "exchange" else None
    return {**describe_part(view, part), "keys": keys}


def _picture(explorer: Explorer, parameters: Parameters) -> Json:
    view = explorer.view(parameters)
    most = parameters.number("most", DEFAULT_NODES, MAX_NODES)
    return make_picture(view, parameters.parts("focus", MAX_NODES), most, explorer.traffic_of(view))


def _findings(explorer: Explorer, parameters: Parameters) -> Json:
    view = explorer.view(parameters)
    findings = view.findings()
    return {
        "findings": [encode_as(Finding, _with_line(view, finding)) for finding in findings[:MAX_FINDINGS]],
        "more": max(0, len(findings) - MAX_FINDINGS),
    }


def _with_line(view: View, finding: Finding) -> Finding:
    if finding.line is not None or finding.part is None:
        return finding
    return replace(finding, line=view.line_of(finding.part))


def _text(explorer: Explorer, parameters: Parameters) -> Json:
    reading = explorer.watched.reading
    return {"version": reading.version, "text": reading.text()}


def _meaning(explorer: Explorer, parameters: Parameters) -> Json:
    old, new = explorer.base(parameters).topology, explorer.view(parameters).topology
    result = diff(old, new, seconds=STUDY_SECONDS * 0.75)
    values = diff_to_json(result, new.profile.name)
    caveats = list(dict.fromkeys(filter(None, (each.profile.caveat for each in (old, new)))))
    return {
        **({"caveats": caveats} if caveats else {}),
        **{name: values[name] for name in ("plan", "meaning", "settings")},
        "plan_lines": [*plan_lines(result.plan)],
        "meaning_lines": [*format_meaning(result.meaning)],
        "settings_lines": [*format_settings(result.settings)],
        "loses": result.loses,
        "gains": result.gains,
    }


def _read_again(explorer: Explorer, parameters: Parameters) -> Json:
    explorer.watched.read_again()
    return _source(explorer, parameters)


def _message(parameters: Parameters) -> Message:
    message = parameters.message()
    if message is None:
        raise InputError("message is wanted")
    return message


def _part_json(view: View, part: Destination) -> Json:
    topology = view.topology
    declared = topology.exchanges[part.name] if part.kind == "exchange" else topology.queues[part.name]
    return {"kind": part.kind, "name": part.name, "type": declared.type}


class Question(NamedTuple):
    """A question with the function that answers it."""

    ask: Callable[[Explorer, Parameters], Json]
    is_study: bool = False
    """Whether it may take long, and so runs beside the questions of the keystrokes."""


QUESTIONS: Final[Mapping[str, Question]] = {
    "source": Question(_source),
    "topology": Question(_topology),
    "search": Question(_search),
    "explain": Question(_explain),
    "nearest": Question(_nearest),
    "missed": Question(_missed),
    "rows": Question(_rows),
    "part": Question(_part),
    "picture": Question(_picture),
    "findings": Question(_findings, is_study=True),
    "text": Question(_text),
    "draft": Question(Explorer.make_draft, is_study=True),
    "meaning": Question(_meaning, is_study=True),
    "read-again": Question(_read_again, is_study=True),
}
"""Name of a question, as in ``POST /api/NAME`` -> what answers it."""


def _find_parts(
    view: View, text: str, kind: Literal["exchange", "queue"] | None, most: int
) -> tuple[list[Destination], int]:
    """Return the ``most`` best parts whose names contain a text, and the number of the others.

    Capitals make no difference. Best is the whole name, then its beginning, then the beginning of one of its words,
    then the shorter name. ``kind`` restricts the search to exchanges or queues.
    """
    wanted = text.strip().lower()
    found = [
        (_rank(name, wanted), len(name), part)
        for name, part in view.names()
        if wanted in name and (kind is None or part.kind == kind)
    ]
    best = nsmallest(most, found) if wanted else found[:most]
    return [part for _, _, part in best], len(found) - len(best)


def _rank(name: str, wanted: str) -> int:
    if name == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    return 2 if any(separator + wanted in name for separator in SEPARATORS) else 3
