"""What recorded applications are refused: as rows for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict

from bindings.recording.summary import describe_request
from bindings.sources.recording.model import ACCEPTED, RecordedRequest
from bindings.upgrading.facts.table import FACTS
from bindings.upgrading.forms.words import UpgradeRow
from bindings.upgrading.requests.applications import REFUSALS, Applications, RefusedByRelease
from exchange.text.display import count_noun, list_some
from exchange.values.documents import write_as
from exchange.values.field_json import encode_table
from exchange.values.json_types import FieldJson

MAX_NAMED_CLIENTS: Final = 3
"""Number of clients of a request that the text names; the others are counted, and in the JSON."""
MAX_LISTED_REFUSALS: Final = 50
"""Number of refusals that text and Markdown list; the JSON has all."""


class RequestingJson(TypedDict):
    """A client that makes a request."""

    product: str
    version: str
    platform: str
    name: str
    """The connection's name, which applications choose."""
    count: int
    """How often it has made the request, or the number of messages that it has published."""


class RefusedJson(TypedDict):
    """A request that the new release refuses, or takes for something else."""

    vhost: str
    """The virtual host; "" for what is asked before one is opened."""
    method: str
    """Such as `queue.declare`; `basic.publish` stands for all messages to an exchange."""
    arguments: dict[str, FieldJson]
    code: int | None
    """Reply code; from 500 on the connection is closed, else the channel; 0 if it is closed without one."""
    text: str
    """The broker's text."""
    fact: str
    """Id of the fact, or kind of refusal."""
    what: str
    way_out: str
    clients: list[RequestingJson]


def _refused_json(refused: RefusedByRelease) -> RefusedJson:
    row = refused.row
    what, way_out = explain_fact(refused.fact)
    return {
        "vhost": row.vhost,
        "method": row.method if isinstance(row, RecordedRequest) else "basic.publish",
        "arguments": encode_table(row.arguments) if isinstance(row, RecordedRequest) else {"exchange": row.exchange},
        "code": refused.answer.code,
        "text": refused.answer.text,
        "fact": refused.fact,
        "what": what,
        "way_out": way_out,
        "clients": [
            {
                "product": client.product, "version": client.version, "platform": client.platform,
                "name": client.name, "count": count,
            }
            for client, count in refused.clients
        ],
    }  # fmt: skip


write_as(RefusedByRelease, _refused_json, RefusedJson)


def list_rows(applications: Applications) -> Iterator[UpgradeRow]:
    """Yield what applications are refused, then what means something else, with their clients."""
    for refused in (*applications.refused[:MAX_LISTED_REFUSALS], *applications.changed[:MAX_LISTED_REFUSALS]):
        what, way_out = explain_fact(refused.fact)
        accepted = refused.answer == ACCEPTED
        yield UpgradeRow(
            refused.fact,
            "warning" if accepted else "error",
            _describe(refused),
            what,
            way_out,
            answer=None if accepted else ("the broker", str(refused.answer)),
            note=("asked by", _describe_clients(refused)),
        )


def explain_fact(fact: str) -> tuple[str, str]:
    """Return what a fact or kind of refusal means, and the way out."""
    kind = REFUSALS.get(fact)
    if kind is not None:
        return kind.what, kind.way_out
    [found] = [each for each in FACTS if each.id == fact]
    return found.what, found.way_out


def list_remarks(applications: Applications) -> Iterator[str]:
    """Yield what is not in the rows, or not known."""
    if not applications.refused:
        yield "the new release refuses none of those that were accepted"
    more = max(0, len(applications.refused) - MAX_LISTED_REFUSALS) + max(
        0, len(applications.changed) - MAX_LISTED_REFUSALS
    )
    if more:
        yield f"and {count_noun(more, 'more request')}, which --format json lists"
    if applications.already:
        number = count_noun(len(applications.already), "request")
        yield f"refused when it was recorded, and by the new release: {number}"
    if applications.unknown_vhosts:
        names = list_some([*map(repr, applications.unknown_vhosts)], MAX_NAMED_CLIENTS)
        yield f"virtual hosts that the topology lacks: {names}; what is asked of them is compared with an empty one"
    if applications.unread:
        yield f"recorded in part only: {count_noun(applications.unread, 'connection')}"
    if applications.left_out:
        yield f"not recorded, as there was no room: {count_noun(applications.left_out, 'call')}"


def _describe(refused: RefusedByRelease) -> str:
    place = "" if refused.row.vhost in ("", "/") else f" in virtual host {refused.row.vhost!r}"
    return f"{describe_request(refused.row)}{place}"


def _describe_clients(refused: RefusedByRelease) -> str:
    noun = "time" if isinstance(refused.row, RecordedRequest) else "message"
    most = sorted(refused.clients, key=lambda each: -each[1])
    return list_some([f"{client}, {count_noun(count, noun)}" for client, count in most], MAX_NAMED_CLIENTS)
