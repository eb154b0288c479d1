"""Why a queue did not get a message: the obstacle nearest to it, and what would still lie behind.

Every binding is at a distance from a message: 0 when it matches, else how much of its key or its arguments would have
to be different. The message stands where its walk led; the nearest way from there to the queue, counted in distance,
starts with the binding its owner most likely meant, and the words on it that failed are the answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from exchange.conjunctions import PRESENT
from exchange.kinds.headers import comparable_headers, conditions_of, match_mode
from exchange.limits import SHORTSTR_BYTES
from exchange.message import Message
from exchange.notation import write_value
from exchange.parts import Binding, Destination, Exchange
from exchange.pattern import MANY, ONE, Pattern, Word
from exchange.profile import Profile
from exchange.route import Obstacle
from exchange.tables import Tables
from exchange.values import to_bytes

__all__ = ["Walk", "Way", "nearest_binding", "nearest_way"]

LOOKED_AT_CLOSELY = 50
"""Of a million bindings only so many, the nearest at first sight, are compared letter by letter."""

KEPT = 0.25
"""How much nearer a literal word that is right brings a pattern: the more of it is right, the likelier it is meant."""

SLIP = 0.3
"""The distance between texts that differ in upper and lower case or in white space around them."""

LEAST = 0.1
"""The distance of the nearest pattern that does not match."""

OTHER_ROUTE = 1.0
"""The distance of an alternate exchange that was not taken, and of a binding that chance or a hash passed over."""


class Way(NamedTuple):
    """How far it is from a message to a destination, and what stands in between."""

    distance: float
    obstacles: tuple[Obstacle, ...]


class Walk(NamedTuple):
    """What a message did, as far as the search for another way needs to know."""

    message: Message
    reached: frozenset[str]
    """The exchanges that routed it."""
    tables: Tables
    alternates: Mapping[str, str]
    """Exchange -> its alternate exchange in force."""
    profile: Profile


def nearest_way(walk: Walk, queue: str) -> tuple[Obstacle, ...]:
    """The obstacles between the exchanges a message reached and a queue that did not get it: nearest way, in order.

    Empty when nothing leads to the queue from where the message can get.
    """
    # Dijkstra's algorithm from the queue backwards.
    goal = Destination("queue", queue)
    best: dict[Destination, float] = {goal: 0.0}
    heap: list[tuple[float, int, Destination, tuple[Obstacle, ...]]] = [(0.0, 0, goal, ())]
    pushed = 0
    while heap:
        distance, _, at, obstacles = heapq.heappop(heap)
        if at.kind == "exchange" and at.name in walk.reached:
            return obstacles
        if distance > best[at]:
            continue
        for source, step in _ways_into(walk, at):
            total = distance + step.distance
            there = Destination("exchange", source)
            if total < best.get(there, float("inf")):
                best[there] = total
                pushed += 1
                heapq.heappush(heap, (total, pushed, there, (*step.obstacles, *obstacles)))
    return ()


def _ways_into(walk: Walk, destination: Destination) -> Iterable[tuple[str, Way]]:
    by_source: dict[str, list[Binding]] = {}
    for binding in walk.tables.bindings_to(destination):
        by_source.setdefault(binding.source, []).append(binding)
    for source, bindings in by_source.items():
        exchange = walk.tables.exchanges.get(source)
        if exchange is not None:
            yield source, nearest_binding(walk, exchange, bindings)
    if destination.kind == "exchange":
        for source, alternate in walk.alternates.items():
            if alternate == destination.name and not source:
                # Whatever comes to the default exchange as an alternate goes on; what is published to it never does.
                if walk.message.exchange:
                    yield source, Way(0.0, ())
            elif alternate == destination.name:
                reason = f"it is the alternate exchange of '{source}', whose own bindings matched"
                yield source, Way(OTHER_ROUTE, (Obstacle(source, destination, None, reason),))
    elif "" in walk.reached:
        key, name = walk.message.routing_key, destination.name
        reason = f"the default exchange routes to the queue that the key names: the key {_differ(key, name)}"
        yield "", Way(_distance_of_texts(key, name), (Obstacle("", destination, None, reason),))


def nearest_binding(walk: Walk, exchange: Exchange, bindings: Sequence[Binding]) -> Way:
    """Of some bindings of an exchange the one nearest to a message; of several as near, the first."""
    too_long = _length_fault(walk.message)
    if too_long:
        return Way(OTHER_ROUTE, (Obstacle(exchange.name, bindings[0].destination, bindings[0], too_long),))
    kind = exchange.type
    if kind == "x-delayed-message":
        kind = str(exchange.arguments.get("x-delayed-type", ""))
    look = _LOOKS.get(kind, _look_at_unknown)
    if len(bindings) > LOOKED_AT_CLOSELY and kind in ("topic", "direct"):
        bindings = heapq.nsmallest(LOOKED_AT_CLOSELY, bindings, key=lambda b: _first_sight(b.routing_key, walk.message))
    seen = [(*look(binding, walk.message, walk.profile), place) for place, binding in enumerate(bindings)]
    distance, reason, place = min(seen, key=lambda look: (look[0], look[2]))
    if not reason:
        return Way(distance, ())  # it would match, once its exchange is reached
    binding = bindings[place]
    return Way(distance, (Obstacle(exchange.name, binding.destination, binding, reason),))


def _length_fault(message: Message) -> str:
    """Why no client can have published the message. Comparing such keys word by word would take for ever."""
    for key in message.routing_keys():
        if len(key) * 4 > SHORTSTR_BYTES and len(to_bytes(key)) > SHORTSTR_BYTES:
            return (
                f"the routing key has {len(to_bytes(key))} bytes, AMQP allows {SHORTSTR_BYTES}: nobody can publish it"
            )
    return ""


Look = Callable[[Binding, Message, Profile], tuple[float, str]]


def _look_at_topic(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    pattern = Pattern.of_binding_key(binding.routing_key)
    ways = [_align(pattern.words, pattern.dialect.split(key)) for key in message.routing_keys()]
    return min((max(cost, LEAST) if fault else 0.0, fault) for cost, fault in ways)


def _look_at_direct(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    wanted = binding.routing_key
    return min((_distance_of_texts(key, wanted), _differ(key, wanted)) for key in message.routing_keys())


def _look_at_headers(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    headers = comparable_headers(message, profile)
    failed: list[str] = []
    conditions = conditions_of(binding, profile)
    for name, wanted in conditions:
        if name not in headers:
            failed.append(f"header '{name}' is not there")
        elif wanted is not PRESENT and headers[name] != wanted:
            is_, wants = message.headers[name], binding.arguments[name]
            failed.append(
                f"header '{name}' is {write_value(is_)}, it wants {write_value(wants)}{_type_hint(is_, wants)}"
            )
    if match_mode(binding).startswith("any"):
        if not conditions:
            return 2.0, "it asks for any of no headers, which never matches"
        return (1.0, "; ".join(failed)) if len(failed) == len(conditions) else (0.0, "")
    return float(len(failed)), "; ".join(failed)


def _look_at_fanout(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    return 0.0, ""


def _look_at_random(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    return OTHER_ROUTE, "chance picked another binding"


def _look_at_hash(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    return OTHER_ROUTE, "the message's hash chose another binding"


def _look_at_unknown(binding: Binding, message: Message, profile: Profile) -> tuple[float, str]:
    return 0.5, "the type of this exchange is unknown here: it may match or not"


_LOOKS: dict[str, Look] = {
    "topic": _look_at_topic,
    "direct": _look_at_direct,
    "headers": _look_at_headers,
    "fanout": _look_at_fanout,
    "x-recent-history": _look_at_fanout,
    "x-random": _look_at_random,
    "x-local-random": _look_at_random,
    "x-consistent-hash": _look_at_hash,
    "x-modulus-hash": _look_at_hash,
}


def _align(pattern: Sequence[Word], words: Sequence[str]) -> tuple[float, str]:
    """The cheapest way to read the words as the pattern, leaving out, adding and changing some; and its first fault."""
    # costs[i][j]: for pattern[i:] and words[j:], with what to do first.
    rows, columns = len(pattern) + 1, len(words) + 1
    costs: list[list[tuple[float, str]]] = [[(0.0, "")] * columns for _ in range(rows)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            ways: list[tuple[float, str]] = []
            part = pattern[i] if i < len(pattern) else None
            if part is None and j == len(words):
                continue
            if part is MANY:
                ways.append(costs[i + 1][j])
                if j < len(words):
                    ways.append(costs[i][j + 1])
            elif part is not None:
                wanted = "any word" if part is ONE else f"'{part}'"
                if j < len(words):
                    step, fault = _step(part, words[j], j)
                    ways.append(_after(step, fault, costs[i + 1][j + 1]))
                ways.append(_after(1.01, f"{_lacking(words, j)}: it wants {wanted}", costs[i + 1][j]))
            if j < len(words) and part is not MANY:
                fault = f"word {j + 1} '{words[j]}' is one too many"
                ways.append(_after(1.02, fault, costs[i][j + 1]))
            costs[i][j] = min(ways, key=lambda way: way[0])
    return costs[0][0]


def _lacking(words: Sequence[str], place: int) -> str:
    if not words:
        return "the key is empty"
    if place < len(words):
        return f"the key lacks a word before word {place + 1} '{words[place]}'"
    return f"the key lacks a word after its {len(words)} word{'s' if len(words) > 1 else ''}"


def _step(part: Word, word: str, place: int) -> tuple[float, str]:
    if part is ONE:
        return 0.0, ""
    if part == word:
        return -KEPT, ""
    return _distance_of_texts(word, str(part)), f"word {place + 1} {_differ(word, str(part))}"


def _after(step: float, fault: str, rest: tuple[float, str]) -> tuple[float, str]:
    return step + rest[0], fault or rest[1]


def _first_sight(wanted: str, message: Message) -> float:
    words = message.routing_key.split(".")
    parts = wanted.split(".")
    same = sum(part in (word, "*", "#") for part, word in zip(parts, words, strict=False))
    return abs(len(parts) - len(words)) + min(len(parts), len(words)) - same


def _distance_of_texts(is_: str, wanted: str) -> float:
    """From 0 for equal texts to 1 for texts with nothing in common; a slip of the keyboard is some way from 0."""
    if is_ == wanted:
        return 0.0
    if is_.strip().lower() == wanted.strip().lower():
        return SLIP
    return 0.5 + 0.5 * (1 - SequenceMatcher(None, is_, wanted, autojunk=False).ratio())


def _differ(is_: str, wanted: str) -> str:
    if is_ == wanted:
        return ""
    hint = ""
    if is_.lower() == wanted.lower():
        hint = " (upper and lower case differ)"
    elif is_.strip() == wanted.strip():
        hint = " (white space differs)"
    elif ("*" in wanted or "#" in wanted) and wanted not in ("*", "#"):
        hint = " (a wildcard counts only as a whole word)"
    return f"is '{is_}', it wants '{wanted}'{hint}"


def _type_hint(is_: object, wants: object) -> str:
    return " (of another type)" if str(is_) == str(wants) else ""
