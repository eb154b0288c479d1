"""32x: messages that vanish from queues (HS323), that are tried very often (HS324), or that stop their queue (HS327).

The first two are optional, as most topologies have such queues. What other rules find is left to them: missing
exchanges, keys that no queue gets, circles of expiry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, permutations
from typing import Final

from bindings.checking.lives.places import (
    MessageLocation,
    PlaceGraph,
    find_expiry,
    find_leads,
    holds_messages,
    walk_back,
)
from bindings.checking.lives.trial import TRIED, find_drop, is_confirmed
from bindings.checking.rules import dead_letters
from bindings.checking.rules.finding import Finding, list_names
from bindings.checking.rules.life import Life, LifeEvent, What
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Queue
from exchange.entities.profile import QueueBehaviour
from exchange.lifecycle.limits import Limits
from exchange.text.display import count_noun, list_some, write_milliseconds
from exchange.topology.graph import find_cycles

TRIES: Final = 20
"""Number of times that a message may come back to its queue: more is a finding. RabbitMQ's own limit since 4.0."""
OTHER_RULES: Final = frozenset({"HS311", "HS312", "HS314"})
"""Codes of findings about lost dead letters."""
SEARCHES: Final = 1_000
"""Maximum number of circles for which lives of several rounds are looked for."""
ATTEMPTS: Final = 20
"""Maximum number of queues on one circle of which it is tried whether messages are dropped there."""
PHRASES: Final[Mapping[What, str]] = {
    "expired": "expire",
    "maxlen": "are over the limit",
    "delivery_limit": "are given back too often",
    "rejected": "are rejected",
}


def find_vanishing(view: TopologyView) -> Iterator[Finding]:
    """Yield how messages may end in a queue without a dead letter in another one: HS323."""
    graph = view.build_once(PlaceGraph)
    came = graph.came
    if not graph.is_whole:
        text = "not all queues from which messages vanish were found: there are too many ways to follow all of them"
        yield Finding("HS323", None, text, detail="limit")
    places: dict[str, list[MessageLocation]] = {}
    for place in graph.edges:
        if place.kind == "queue" and graph.edges[place][0] in graph.edges:  # it is known where its dead letters go
            places.setdefault(place.name, []).append(place)
    found = [each for each in dead_letters.find(view) if each.code in OTHER_RULES]
    elsewhere = {part.name for each in found for part in (each.part, *each.related) if isinstance(part, Queue)}
    for name, queue in view.topology.queues.items():
        limits = view.limits_of(name)
        if limits is None or limits.type == "stream":
            continue
        yield from _with_the_queue(queue, limits)
        if limits.dead_letter_address is None:
            for what in islice(_deaths(limits), 1):
                event = LifeEvent(name, what, after=find_expiry(limits) if what == "expired" else None)
                why = f"vanish from queue '{name}': it has no dead letter exchange"
                message = f"messages that {_list_deaths(_deaths(limits))} {why}"
                yield Finding("HS323", queue, message, name, detail="no exchange", life=Life("", name, (event,)))
            continue
        if limits.dead_letters.at_least_once:
            continue  # what no queue takes stays
        for place in places.get(name, ()):
            targets = graph.targets(place)
            lead = walk_back(came, place)
            deaths = tuple(_deaths(limits))
            cause, text = "", ""
            if not targets and name not in elsewhere:
                # Headers of dead letters, which the graph does not know, may lead some of them to queues.
                deaths = tuple(what for what in deaths if _is_lost(graph, lead, what))
                shown = f" with the key '{place.key}'" if limits.dead_letter_address[1] is None else ""
                cause, text = ("unroutable", f"no queue gets its dead letters{shown}") if deaths else ("", "")
            elif targets and all(_refuses(graph, each) for each in targets):
                cause, text = "full queue", f"{list_names(targets)} refuses its dead letters when it is full"
            if cause:
                filled = [LifeEvent(target, "filled") for target in targets]
                events = (*_rejections(lead), *filled, _death_in(graph, place, deaths[-1]))
                life = Life(*graph.starts[lead[0]], events)
                message = f"messages that {_list_deaths(deaths)} vanish from queue '{name}': {text}"
                yield Finding("HS323", queue, message, life.routing_key, detail=cause, life=life)
                break
    yield from _dropped(graph, came, elsewhere)


def _with_the_queue(queue: Queue, limits: Limits) -> Iterator[Finding]:
    """Yield how a queue may be deleted with its messages."""
    if not holds_messages(limits) or limits.ttl == 0:
        return
    unused, abandoned = LifeEvent(queue.name, "unused", after=limits.expires), LifeEvent(queue.name, "abandoned")
    if limits.expires is not None:
        yield _end_of(queue, f"nobody uses it for {write_milliseconds(limits.expires)}", unused)
    if queue.auto_delete and limits.type == "classic":
        yield _end_of(queue, "its last consumer is gone", abandoned)


def _end_of(queue: Queue, when: str, event: LifeEvent) -> Finding:
    message = f"messages vanish with queue '{queue.name}', which is deleted when {when}"
    return Finding("HS323", queue, message, queue.name, detail=event.what, life=Life("", queue.name, (event,)))


def _deaths(limits: Limits) -> Iterator[What]:
    """Yield what messages may die of in a queue, what needs no consumer first; nothing where none gets in."""
    if not holds_messages(limits):
        if limits.max_length == 0 and limits.overflow == "drop-head":
            yield "maxlen"
        return
    if find_expiry(limits) is not None:
        yield "expired"
    if limits.has_length and limits.overflow == "drop-head":
        yield "maxlen"
    if limits.delivery_limit is not None:
        yield "delivery_limit"
    yield "rejected"


def _list_deaths(deaths: Iterable[What]) -> str:
    return list_some([PHRASES[what] for what in deaths], len(PHRASES), "or")


def _is_lost(graph: PlaceGraph, lead: Sequence[MessageLocation], what: What) -> bool:
    """Return whether a message is lost that dies of this at the end of a way, after rejections."""
    events = (*_rejections(lead), _death_in(graph, lead[-1], what))
    return len(events) > TRIED or is_confirmed(graph, Life(*graph.starts[lead[0]], events))


def _death_in(graph: PlaceGraph, place: MessageLocation, what: What) -> LifeEvent:
    return LifeEvent(place.name, what, after=graph.expiry(place) if what == "expired" else None)


def _refuses(graph: PlaceGraph, queue: str) -> bool:
    """Return whether a full queue loses dead letters."""
    limits = graph.view.limits_of(queue)
    return (
        limits is not None
        and limits.ttl != 0
        and (
            limits.loses_dead_letters
            or (limits.overflow == "reject-publish-dlx" and limits.has_length and limits.dead_letter_address is None)
        )
    )


def _rejections(way: Sequence[MessageLocation]) -> list[LifeEvent]:
    """Return the events that lead over places to the last one, where nothing happens yet."""
    names = [place.name for place in way if place.kind == "queue"]
    return [LifeEvent(name, "rejected", target) for name, target in pairwise(names)]


def _dropped(
    graph: PlaceGraph, came: Mapping[MessageLocation, MessageLocation | None], elsewhere: Collection[str]
) -> Iterator[Finding]:
    """Yield one finding for each circle on which RabbitMQ drops messages that come back without a rejection."""
    dying: dict[MessageLocation, LifeEvent] = {}
    keeping: set[MessageLocation] = set()
    for place in graph.edges:
        limits = graph.view.limits_of(place.name) if place.kind == "queue" else None
        if limits is not None:
            if limits.dead_letters.at_least_once:
                keeping.add(place)
            what: What | None = next(_deaths(limits), None)
            if what is not None and what != "rejected":
                dying[place] = LifeEvent(place.name, what, after=find_expiry(limits) if what == "expired" else None)
    release = graph.view.topology.profile.lives
    edges = {
        place: then
        for place, then in graph.edges.items()
        if place.kind == "exchange" or place in dying or release.sorts_deaths  # a rejection may protect none
    }
    events = {place.name: event for place, event in dying.items()}
    known, queues, searches = set(elsewhere), graph.view.topology.queues, SEARCHES
    for circle in find_cycles(edges):
        members = set(circle)
        ends = [place for place in circle if place in dying and place not in keeping and place.name not in known]
        lives = islice((life for end in ends for life in _lives_to(graph, came, dying, members, end)), ATTEMPTS)
        found = next((life for life in lives if len(life.events) > TRIED or is_confirmed(graph, life)), None)
        if found is None and ends and release.overlooks_cycles and searches:
            # A message may be dropped only after several rounds, or only if it was rejected in certain queues.
            searches -= 1
            found = find_drop(graph, walk_back(came, ends[0])[0], events, [end.name for end in ends])
        if found is not None:
            queue = queues[found.events[-1].queue]
            names = list(dict.fromkeys(place.name for place in circle if place.kind == "queue"))
            known.update(names)
            kept = "" if release.sorts_deaths else " without being rejected"
            message = f"messages that go round through {list_names(names)}{kept} are dropped, in '{queue.name}'"
            others = tuple(queues[name] for name in names if name != queue.name)
            yield Finding("HS323", queue, message, found.routing_key, others, detail="cycle", life=found)


def _lives_to(
    graph: PlaceGraph,
    came: Mapping[MessageLocation, MessageLocation | None],
    dying: Mapping[MessageLocation, LifeEvent],
    members: Collection[MessageLocation],
    end: MessageLocation,
) -> Iterator[Life]:
    """Yield lives that lead through all targets of a place to it, without a rejection on the way: it ends there."""
    targets = [each for each in graph.edges[graph.edges[end][0]] if each in members]
    if len(targets) < len(graph.targets(end)) or len(targets) > 3:
        return
    edges = {place: [each for each in graph.edges[place] if each in members] for place in members}
    for order in permutations(targets):
        way = [order[0]]
        for place in (*order[1:], end):
            found = find_leads(edges, [way[-1]])
            way += walk_back(found, place)[1:]
        queues = [place for place in way if place.kind == "queue"]
        names = [place.name for place in queues]
        if len(set(names)) == len(names):
            lead = walk_back(came, order[0])
            thens = [*names[1:], None]
            deaths = [
                dying.get(place, LifeEvent(place.name, "rejected"))._replace(target=then)
                for place, then in zip(queues, thens, strict=True)
            ]
            yield Life(*graph.starts[lead[0]], (*_rejections(lead), *deaths))


def find_many_tries(view: TopologyView) -> Iterator[Finding]:
    """Yield the queues to which a message may come back more than `TRIES` times: HS324."""
    release = view.topology.profile.lives
    for name, queue in view.topology.queues.items():
        limits = view.limits_of(name)
        if limits is None or limits.type == "stream" or limits.ttl == 0 or not holds_messages(limits):
            continue
        ways = [*_list_returns(limits, release)]
        delay = limits.retry_delay
        if delay is not None:  # one without a pause is worse
            ways.sort(key=lambda way: delay.applies_to(failed=way[0] == "requeued"))
        for what, often in ways[:1]:
            how, pause = LifeEvent(name, what, times=TRIES + 1), ""
            if delay is not None and delay.applies_to(failed=what == "requeued"):
                how = how._replace(after=delay.milliseconds(1))
                pause = f", each time after {write_milliseconds(delay.milliseconds(1))} at least"
            message = f"a message may come back to queue '{name}' {often}{pause}"
            yield Finding("HS324", queue, message, name, life=Life("", name, (how,)))


def _list_returns(limits: Limits, release: QueueBehaviour) -> Iterator[tuple[What, str]]:
    """Yield how a message may come back more than `TRIES` times: the event of a life, and how often."""
    limit = limits.delivery_limit
    if limit is None:
        kind = "classic queues have none" if limits.type != "quorum" else "it sets none"
        often = f"as there is no delivery limit: {kind}"
        yield "requeued", f"any number of times, {often}"
        if release.nack_is_no_failure and limits.type == "quorum":
            yield "nacked", f"any number of times by basic.nack, {often}"
        return
    if limit > TRIES:
        yield "requeued", f"{count_noun(limit, 'time')}, which is its delivery limit"
    if release.nack_is_no_failure:
        yield "nacked", "any number of times by basic.nack, which the delivery limit does not count"


def find_standstill(view: TopologyView) -> Iterator[Finding]:
    """Yield quorum queues that stop when too many of their messages wait for a retry: HS327."""
    for name, queue in view.topology.queues.items():
        limits = view.limits_of(name)
        if limits is None or limits.retry_delay is None or not limits.drops_head or limits.ttl == 0:
            continue
        most = limits.max_length
        limit = "its max-length-bytes" if most is None else f"{count_noun(most, 'message')}"
        message = (
            f"queue '{name}' drops from its head, and stops for ever once more than {limit} wait for a delayed retry"
        )
        yield Finding("HS327", queue, message, name)
