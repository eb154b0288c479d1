"""What a new release refuses recorded applications: each request once, with all clients that make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from bindings.sources.recording.model import (
    ACCEPTED,
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
    Recording,
)
from bindings.upgrading.releases import Release
from bindings.upgrading.requests.replay import Ask, list_tunings, replay
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.field_values import FieldTable


class RefusalKind(NamedTuple):
    """A kind of refusal that follows from no fact about releases, but from what clients ask and what is there."""

    what: str
    way_out: str


REFUSALS: Final[dict[str, RefusalKind]] = {
    "HSU301": RefusalKind(
        "an application declares with other arguments what the topology has",
        "declare it as the topology has it, or delete it before, once its messages are consumed",
    ),
    "HSU302": RefusalKind(
        "an application uses what will not be there", "add it to the topology, or let the application declare it"
    ),
    "HSU303": RefusalKind(
        "an application asks what this type of queue does not support",
        "change the application, or keep the type of the queue",
    ),
    "HSU304": RefusalKind("an application asks what the new release refuses", "change the application"),
    "HSU305": RefusalKind(
        "an application consumes exclusively, which keeps no other consumers away from a quorum queue or stream",
        "declare a quorum queue with x-single-active-consumer, or keep the classic queue",
    ),
}
"""Id -> kind; an id is never used for another one."""


class RefusedByRelease(NamedTuple):
    """A request that the new release refuses, or takes for something else."""

    row: RecordedRequest | RecordedPublishing
    """The request as the first client has made it."""
    answer: RecordedAnswer
    fact: str
    """Id of a fact about releases, or of `REFUSALS`."""
    clients: tuple[tuple[RecordedClient, int], ...]
    """Each client that makes it, and how often it did."""
    was_refused: bool
    """Whether the recorded broker has refused it each time, too."""


@document("ApplicationsJson", "requests, refused, changed, refused_already = already, unknown_vhosts, unread, left_out")
class Applications(NamedTuple):
    """What recorded applications are refused."""

    requests: int
    """Number of different requests that were compared."""
    refused: tuple[RefusedByRelease, ...]
    """What is refused by the new release and was accepted by the recorded broker, or not answered."""
    changed: tuple[RefusedByRelease, ...]
    """What is accepted, and means something else."""
    already: tuple[RefusedByRelease, ...]
    """What was refused each time when it was recorded, too."""
    unknown_vhosts: tuple[str, ...]
    """Virtual hosts of recordings that the topologies lack; what is asked of them is compared with an empty one."""
    unread: int
    """Number of connections that were recorded in part only."""
    left_out: int
    """Number of calls for which a recording had no room."""

    @property
    def severity(self) -> Literal["warning", "error"] | None:
        """``error`` if something is refused, ``warning`` if something only means something else; None for neither."""
        if self.refused:
            return "error"
        return "warning" if self.changed else None


def find_refused(
    topologies: Sequence[Topology],
    recordings: Sequence[Recording],
    release: Release,
    permitted: frozenset[str] = frozenset(),
    vhost: str | None = None,
    before: Sequence[Topology] = (),
) -> Applications:
    """Compare what was recorded with what a release accepts and what its virtual hosts will have.

    ``permitted`` has the deprecated features that the new broker permits; with ``vhost``, only what is asked of this
    virtual host is compared. ``before`` are the topologies whose queues the new ones may have with another type.
    """
    known = {topology.vhost: topology for topology in topologies}
    names = [vhost] if vhost is not None else _list_vhosts(recordings)
    asks = [*list_tunings(recordings, release)]
    for name in names:
        topology = known.get(name, Topology(vhost=name))
        replayed = replay(topology, recordings, release, permitted, in_place=True)
        asks += [ask for ask in replayed if isinstance(ask.cause, RecordedRequest | RecordedPublishing)]
    found = _group(ask for ask in asks if ask.foretold.fact and not _was_shared(ask, before))
    refused = [each for each in found if each.answer != ACCEPTED]
    return Applications(
        len(asks),
        tuple(each for each in refused if not each.was_refused),
        tuple(each for each in found if each.answer == ACCEPTED),
        tuple(each for each in refused if each.was_refused),
        tuple(name for name in names if name not in known),
        sum(sum(recording.unread.values()) for recording in recordings),
        sum(recording.left_out for recording in recordings),
    )


def _was_shared(ask: Ask, before: Iterable[Topology]) -> bool:
    """Return whether an exclusive consumer kept no others away before, either."""
    if ask.foretold.fact != "HSU305" or not isinstance(ask.cause, RecordedRequest):
        return False
    host, name = ask.cause.vhost, ask.arguments["queue"]
    return not any(
        each.vhost == host and name in each.queues and each.queues[name].type == "classic" for each in before
    )


def _list_vhosts(recordings: Iterable[Recording]) -> list[str]:
    names = {request.vhost for recording in recordings for request in recording.requests}
    names |= {each.vhost for recording in recordings for each in recording.publishing}
    return sorted(names - {""})


def _group(asks: Iterable[Ask]) -> list[RefusedByRelease]:
    """Return the refusals, equal requests of several clients together, in the order of the asks."""
    groups: dict[Any, list[Ask]] = {}
    for ask in asks:
        row = ask.cause
        if isinstance(row, RecordedRequest | RecordedPublishing):
            arguments = row.arguments if isinstance(row, RecordedRequest) else {"exchange": row.exchange}
            key = (row.vhost, ask.method, FieldTable(dict(arguments)), ask.foretold.answer, _was_refused(row))
            groups.setdefault(key, []).append(ask)
    return [_merge(group) for group in groups.values()]


def _merge(asks: list[Ask]) -> RefusedByRelease:
    """Return the refusal of equal requests, with the clients that made them."""
    rows = [ask.cause for ask in asks if isinstance(ask.cause, RecordedRequest | RecordedPublishing)]
    counts: dict[RecordedClient, int] = {}
    for row in rows:
        counts[row.client] = counts.get(row.client, 0) + (
            row.count if isinstance(row, RecordedRequest) else row.messages
        )
    answer, fact = asks[0].foretold
    return RefusedByRelease(rows[0], answer, fact, tuple(counts.items()), _was_refused(rows[0]))


def _was_refused(row: RecordedRequest | RecordedPublishing) -> bool:
    """Return whether the recorded broker has refused it each time."""
    if isinstance(row, RecordedPublishing):
        return sum(row.answers.values()) >= row.messages > 0
    return bool(row.answers) and not row.was_accepted
