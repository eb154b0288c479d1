"""The tools: questions about topologies and reports that were named at the start, with answers as JSON objects.

No other file is read and nothing is written. A file is read anew for each question, so that the answer is about what it
has now. Each list in an answer has `MAX_LISTED_ENTRIES` entries at most; the number of those left out is beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bindings.checking.forms.as_json import to_json as check_to_json
from bindings.checking.run import check_sources
from bindings.checking.selection import CodeSelection
from bindings.diffing.against import list_caveats
from bindings.diffing.diff import diff
from bindings.diffing.forms.as_json import to_json as diff_to_json
from bindings.sources.document import Document
from bindings.sources.files import decode_text, read_content
from bindings.sources.open import open_source
from exchange.amqp.content import check_properties
from exchange.entities.queue_arguments import read_expiration
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.dead_letters import follow_dead_letters
from exchange.routing.explain_json import to_json
from exchange.routing.router import Router
from exchange.text.display import list_some
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread
from exchange.values.documents import encode_as
from exchange.values.field_json import decode_message
from exchange.values.json_text import JsonFault, parse
from exchange.values.message import Message

MAX_LISTED_ENTRIES: Final = 100
"""Maximum number of entries of a list in an answer."""
SECONDS: Final = 10.0
"""Maximum duration of a comparison; what is not decided then is reported as undecided."""
TEXT_LENGTH: Final = 1 << 20
"""Maximum number of characters of a topology that is given as text."""
KEYS: Final = 1_000
"""Maximum number of keys of one question about partitions."""

PARTS: Final = ("totals", "findings", "bindings", "queues", "exchanges", "unroutable", "comparison", "verification")
"""Parts of a report that can be asked for."""


class Tools:
    """Answers questions about topologies and audit reports, by the names under which they were given."""

    def __init__(
        self, topologies: Sequence[str], reports: Sequence[str], vhost: str | None = None, profile: str | None = None
    ) -> None:
        self._topologies = tuple(topologies)
        self._reports = tuple(reports)
        self._vhost = vhost
        self._profile = profile

    @property
    def functions(self) -> tuple[Callable[..., dict[str, Any]], ...]:
        """The tools; the docstring of each is its description for the assistant."""
        audits = (self.read_audit,) if self._reports else ()
        return (
            self.list_topologies, self.explain_message, self.check_topology, self.compare_topologies,
            self.choose_partitions, *audits,
        )  # fmt: skip

    def read_sources(self) -> None:
        """Read the topologies and reports once. Raises InputError for what is none."""
        self.list_topologies()
        for name in self._reports:
            _read_report(name)

    def list_topologies(self) -> dict[str, Any]:
        """List the topologies and audit reports that can be asked about, with exchanges and queues of each topology."""
        return {"topologies": [self._outline(name) for name in self._topologies], "reports": list(self._reports)}

    def explain_message(
        self,
        exchange: str,
        routing_key: str = "",
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        queue: str | None = None,
        topology: str | None = None,
    ) -> dict[str, Any]:
        """Explain where RabbitMQ routes a message, and why: exchanges and bindings passed, queues, partitions.

        exchange is the one that the message is published to, "" the default exchange. With queue, the answer has why
        this queue gets the message or not: the nearest binding, and the word or header that fails. Without topology,
        the only or first one is meant.
        """
        given = {"exchange": exchange, "routing_key": routing_key, "headers": headers or {}}
        message: Message = decode_message({**given, "properties": properties or {}})
        check_properties(message.properties)
        routed = self._load(topology)
        router = Router(routed)
        explanation = follow_dead_letters(routed, router, router.explain(message, queue))
        read_expiration(message.properties)
        answer = {**to_json(explanation), "profile": routed.profile.name, "text": str(explanation)}
        if routed.profile.caveat:
            answer["caveat"] = routed.profile.caveat
        if unread := find_unread(routed):
            answer["unread"] = encode_as(tuple[UnreadPart, ...], unread)
        return shorten(answer)

    def check_topology(
        self, topology: str | None = None, select: Sequence[str] = (), ignore: Sequence[str] = ()
    ) -> dict[str, Any]:
        """List mistakes in a topology: each with code, severity, part, line and a way out.

        select and ignore are codes or prefixes of codes, such as HS1 or HS104; HS205 finds messages that are lost.
        """
        selection = CodeSelection(tuple(select), tuple(ignore))
        result = check_sources([self._find(topology)], selection, vhost=self._vhost, profile=self._profile)
        for error in result.errors:
            raise error.error
        return shorten(check_to_json(result))

    def compare_topologies(
        self, before: str | None = None, after: str | None = None, changed_text: str | None = None
    ) -> dict[str, Any]:
        """Show what a change of a topology means: messages that each queue gains and loses, and the steps of a plan.

        after is another of the topologies; or changed_text is the text of a changed .bindings file, to ask "what if".
        Nothing is changed. The verdict is "same" only where that is proved, and "undecided" where parts of a file were
        not read, which "unread" lists.
        """
        if (after is None) == (changed_text is None):
            raise InputError("give after, the name of a topology, or changed_text, a .bindings file: one of them")
        old = self._load(before)
        if changed_text is None:
            new = self._load(after)
        else:
            if len(changed_text) > TEXT_LENGTH:
                raise InputError(f"changed_text has more than {TEXT_LENGTH:,} characters")
            new = Document.loads(changed_text, "changed_text").topology(self._vhost, self._profile)
        result = diff(old, new.with_profile(old.profile), seconds=SECONDS)
        answer = diff_to_json(result, old.profile.name)
        caveats = list_caveats(old.profile, new.profile, rules=old.profile)
        return shorten({**answer, **({"caveats": [*caveats]} if caveats else {})})

    def choose_partitions(self, partitioner: str, partitions: str, keys: Sequence[str | None]) -> dict[str, Any]:
        """Return the partition that a client chooses for each key, exactly as the client does.

        partitioner is a strategy such as kafka.murmur2 (Java's client), librdkafka.consistent_random, sarama.hash,
        rocketmq.hash or rabbitmq.super_stream; partitions their number, such as 12, or their names. A partition is null
        where the key does not decide it.
        """
        if len(keys) > KEYS:
            raise InputError(f"more than {KEYS:,} keys")
        choices = Partitioning.parse(f"{partitioner} over {partitions}")
        return {"partitions": [choices.partitioner.partition_of(key, choices.partitions) for key in keys]}

    def read_audit(
        self, part: str = "totals", name: str | None = None, state: str | None = None, report: str | None = None
    ) -> dict[str, Any]:
        """Read an audit of archived messages: what bindings, queues and exchanges did.

        part is totals, findings, bindings, queues, exchanges, unroutable, comparison or verification. name keeps what
        is about this exchange or queue, state the bindings in this state, such as dead, hit or stale.
        """
        if part not in PARTS:
            raise InputError(f"part must be {list_some(PARTS, len(PARTS), 'or')}, and is {part!r}")
        values = _read_report(_choose(report, self._reports, "report"))
        rows = values.get(part)
        if isinstance(rows, list):
            rows = [
                row for row in rows
                if (name is None or name in _names_of(row)) and (state is None or row.get("state") == state)
            ]  # fmt: skip
        return shorten({"part": part, "caveats": values.get("caveats"), part: rows})

    def _find(self, name: str | None) -> str:
        return _choose(name, self._topologies, "topology")

    def _load(self, name: str | None) -> Topology:
        return open_source(self._find(name), self._vhost).routable(self._vhost, self._profile)

    def _outline(self, name: str) -> dict[str, Any]:
        source = open_source(name, self._vhost)
        vhosts = {}
        for vhost in source.vhosts if self._vhost is None else (self._vhost,):
            topology = source.topology(vhost, self._profile)
            vhosts[vhost] = {
                "exchanges": {each.name: each.type for each in topology.exchanges.values()},
                "queues": list(topology.queues),
                "bindings": len(topology.bindings),
            }
        return shorten({"name": name, "vhosts": vhosts})


def shorten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the first entries of each list and object in it, and the numbers of those left out.

    Bytes of names that are not UTF-8, which the protocol cannot carry, are written as escapes.
    """
    short = {_escape(name): _shorten_value(value) for name, value in list(values.items())[:MAX_LISTED_ENTRIES]}
    for name, value in values.items():
        if isinstance(value, list | tuple | Mapping) and len(value) > MAX_LISTED_ENTRIES:
            short[f"{name}_left_out"] = len(value) - MAX_LISTED_ENTRIES
    return short


def _shorten_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return shorten(value)
    if isinstance(value, list | tuple):
        return [_shorten_value(inner) for inner in value[:MAX_LISTED_ENTRIES]]
    return _escape(value) if isinstance(value, str) else value


def _escape(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _choose(name: str | None, names: Sequence[str], kind: str) -> str:
    if name is None and names:
        return names[0]
    if name is None or name not in names:
        raise InputError(f"there is no {kind} {name!r}; there is {list_some(names, 10, 'and') or 'none'}")
    return name


def _read_report(name: str) -> dict[str, Any]:
    try:
        values = parse(decode_text(read_content(name), name))
    except (JsonFault, ValueError) as error:
        raise InputError(f"{name}: not JSON: {error}") from None
    if not isinstance(values, dict) or "audited" not in values:
        raise InputError(f"{name}: no report of hashstar audit --format json")
    return values


def _names_of(row: Mapping[str, Any]) -> set[Any]:
    """Return the names of exchanges and queues that a row of a report is about."""
    fields = ("exchange", "queue", "source", "destination", "binding", "part")
    return {
        inner
        for field in fields
        for inner in (row[field].values() if isinstance(row.get(field), Mapping) else [row.get(field)])
        if isinstance(inner, str)
    }
