"""What the tally says, for a person at a terminal: plain text, some sixty lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from examples.demo.shapes import Shape
from examples.demo.tally import Tally
from exchange import Binding, Message, Router, Topology
from exchange.route import Obstacle
from exchange.typed_json import encode

__all__ = ["lines", "nearest"]

BAR: Final = 24
"""The width of the bar for the queue that got most."""
MOST_QUEUES: Final = 15
MOST_LOST: Final = 4
MOST_CAUGHT: Final = 3
MOST_BINDINGS: Final = 5
MOST_REFUSALS: Final = 3
MOST_ASKED: Final = 60
"""So many queues are asked why they did not get a message."""
WIDEST_NAME: Final = 40


def lines(tally: Tally, router: Router) -> Iterator[str]:
    """The report; the tally is settled."""
    topology = router.topology
    sections = (
        _queues(tally, topology),
        _totals(tally),
        _refusals(tally),
        _shapes("Unroutable, and the binding that comes nearest", tally.lost.merged(), MOST_LOST, router),
        _shapes("Caught by an alternate exchange only", tally.caught.merged(), MOST_CAUGHT, router),
        _never_matched(tally, topology),
        _needless(tally, topology),
    )
    first = True
    for section in map(list, sections):
        if section and not first:
            yield ""
        yield from section
        first = first and not section


def nearest(router: Router, topology: Topology, message: Message) -> tuple[str, Obstacle] | None:
    """The queue whose way is nearest to what the message did, and what is in this way; None when no way is."""
    found: list[tuple[float, int, str, Obstacle]] = []
    for place, queue in enumerate(islice(_within_reach(topology, message.exchange), MOST_ASKED)):
        obstacles = router.explain(message, queue).obstacles
        if obstacles:
            distance = sum(_distance(obstacle, message) for obstacle in obstacles)
            found.append((distance, place, queue, obstacles[0]))
    if not found:
        return None
    *_, queue, obstacle = min(found, key=lambda candidate: candidate[:2])
    return queue, obstacle


def _queues(tally: Tally, topology: Topology) -> Iterator[str]:
    if not tally.copies:
        return
    ranked = sorted(topology.queues, key=lambda queue: (-tally.queues[queue], queue))
    shown = [queue for queue in ranked if tally.queues[queue]][:MOST_QUEUES]
    rest = [queue for queue in ranked[len(shown) :] if tally.queues[queue]]
    idle = [queue for queue in ranked if not tally.queues[queue]]
    width = max([len("Where they went"), *(len(_cut(queue)) + 2 for queue in shown)])
    yield f"{'Where they went':{width + 9}}  {'':{BAR}}  {'messages':>11}    share"
    for queue in shown:
        count = tally.queues[queue]
        bar = "#" * round(BAR * count / tally.queues[shown[0]]) or "."
        kind = topology.queues[queue].type
        yield f"  {_cut(queue):{width - 2}}  {kind:7}  {bar:{BAR}}  {count:11,}  {_share(count, tally.messages)}"
    if rest:
        count = sum(tally.queues[queue] for queue in rest)
        yield f"  {'other queues':{width + 7}}  {'':{BAR}}  {count:11,}  copies in {_listed(rest, 4)}"
    if idle:
        yield f"  nothing came to {_listed(idle, 6)}"


def _totals(tally: Tally) -> Iterator[str]:
    total = tally.messages
    if not total:
        return
    routed = total - tally.unroutable - tally.undecided
    caught = sum(shape.count for shape in tally.caught.merged())
    yield f"  {'routed to a queue':26}{routed:11,}  {_share(routed, total)}   {tally.copies:,} copies made"
    if caught:
        yield f"  {'  by an alternate only':26}{caught:11,}  {_share(caught, total)}"
    if tally.undecided:
        reason = "through an exchange of a type that is unknown here"
        yield f"  {'undecided':26}{tally.undecided:11,}  {_share(tally.undecided, total)}   {reason}"
    share = _share(tally.unroutable, total)
    yield f"  {'unroutable':26}{tally.unroutable:11,}  {share}   dropped, or returned if mandatory"


def _refusals(tally: Tally) -> Iterator[str]:
    if tally.refused:
        yield f"Refused by the broker: {tally.refused.total():,}"
        for error, count in tally.refused.most_common(MOST_REFUSALS):
            yield f"  {count:11,}  {error}"
        if len(tally.refused) > MOST_REFUSALS:
            yield f"  and {len(tally.refused) - MOST_REFUSALS} other errors"


def _shapes(title: str, shapes: Sequence[Shape], most: int, router: Router) -> Iterator[str]:
    if not shapes:
        return
    topology = router.topology
    yield title
    for shape in shapes[:most]:
        caught = f", caught by {shape.caught.alternate}" if shape.caught.alternate is not None else ""
        sample = shape.sample
        example = ""
        if sample is not None and (sample.routing_key != shape.text or _by_headers(topology, sample)):
            example = f", such as {_message(sample, topology)}"
        yield f"  {shape.count:11,}  {_key(shape.text)} to {_exchange(shape.caught.exchange)}{caught}{example}"
        if sample is not None:
            yield f"  {'':11}    {_reason(nearest(router, topology, sample))}"
    if len(shapes) > most:
        rest = shapes[most:]
        yield f"  {sum(shape.count for shape in rest):11,}  in {_counted(len(rest), 'other shape')}"


def _reason(found: tuple[str, Obstacle] | None) -> str:
    if found is None:
        return "no binding leads from there to any queue"
    queue, obstacle = found
    if obstacle.binding is None:
        return f"{queue}: {obstacle.reason}"
    return f"{_pattern(obstacle.binding)} -> {queue}: {obstacle.reason}"


def _never_matched(tally: Tally, topology: Topology) -> Iterator[str]:
    never = [binding for binding in topology.bindings if not tally.bindings[binding]]
    if never:
        total = len(topology.bindings)
        yield f"Bindings that never matched: {len(never):,} of {total:,}"
        yield from _table([[_exchange(b.source), _pattern(b), f"-> {_destination(b)}"] for b in never[:MOST_BINDINGS]])
        if len(never) > MOST_BINDINGS:
            yield f"  and {len(never) - MOST_BINDINGS:,} more"


def _needless(tally: Tally, topology: Topology) -> Iterator[str]:
    needless = [binding for binding in topology.bindings if tally.companions.get(binding)]
    if needless:
        yield "Bindings that never made a difference: each time, another one led to the same place"
        rows = [
            [
                _exchange(binding.source),
                _pattern(binding),
                f"-> {_destination(binding)}",
                f"{tally.bindings[binding]:,} times, always with {_pattern(min(tally.companions[binding], key=repr))}",
            ]
            for binding in needless[:MOST_BINDINGS]
        ]
        yield from _table(rows)
        if len(needless) > MOST_BINDINGS:
            yield f"  and {len(needless) - MOST_BINDINGS:,} more"


def _within_reach(topology: Topology, start: str) -> Iterator[str]:
    """The queues that bindings, not alternates, lead to from an exchange, the nearest first."""
    if start == "":
        yield from topology.queues
        return
    seen: dict[tuple[str, str], None] = {("exchange", start): None}
    pending = [start]
    for exchange in pending:
        for binding in topology.bindings_from(exchange):
            destination = binding.destination
            if destination not in seen:
                seen[destination] = None
                if destination.kind == "exchange":
                    pending.append(destination.name)
                elif destination.name in topology.queues:
                    yield destination.name


def _distance(obstacle: Obstacle, message: Message) -> float:
    """How unlike the key and what was asked for are: 0 is alike, 1 has nothing in common."""
    wanted = obstacle.binding.routing_key if obstacle.binding is not None else obstacle.destination.name
    if obstacle.binding is not None and obstacle.binding.arguments:
        return 0.2 * (1 + obstacle.reason.count(";"))
    words = message.routing_key.split(".")
    parts: list[str] = []
    for place, part in enumerate(wanted.split(".")):
        parts += words[place : place + 1] if part == "*" else words[place:] if part == "#" else [part]
    return 1 - SequenceMatcher(None, ".".join(parts), message.routing_key, autojunk=False).ratio()


def _message(message: Message, topology: Topology) -> str:
    """A message as an example: its key, and its headers where these decide."""
    if not _by_headers(topology, message):
        return _key(message.routing_key)
    headers = ", ".join(f"{name}={encode(value)!r}" for name, value in message.headers.items())
    return _cut(f"{_key(message.routing_key)} with {headers}", 70)


def _by_headers(topology: Topology, message: Message) -> bool:
    return topology.exchanges[message.exchange].type == "headers" and bool(message.headers)


def _pattern(binding: Binding) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in binding.arguments.items())
    key = binding.routing_key
    return _cut(f"{_key(key)} [{arguments}]" if key and arguments else f"[{arguments}]" if arguments else _key(key), 60)


def _destination(binding: Binding) -> str:
    name = _cut(binding.destination.name)
    return name if binding.destination.kind == "queue" else f"exchange {name}"


def _exchange(name: str) -> str:
    return _cut(name) if name else "the default exchange"


def _key(text: str) -> str:
    return _cut(text, 60) if text else "the empty key"


def _cut(text: str, width: int = WIDEST_NAME) -> str:
    """A text on one line, not too long; what is no printable character would spoil a terminal."""
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."


def _share(count: int, total: int) -> str:
    percent = 100 * count / total
    return " <0.1 %" if 0 < percent < 0.05 else f"{percent:5.1f} %"


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _listed(names: Sequence[str], most: int) -> str:
    shown = ", ".join(_cut(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {_counted(len(names) - most, 'other queue')}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Left-aligned columns; the last one is as wide as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield ("  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))).rstrip()
