"""The message nearest to a given one that reaches a queue, or takes a binding.

The search goes over all paths from the exchange of the message to the goal that lead through exchanges which decide by
conditions. For each, it changes as few words of the key and as few headers as the conditions of the path ask for. What
it returns was routed, so it does reach the goal. If there is no path, no message to that exchange reaches the goal,
unless an exchange on the way decides by chance, by a hash, or in a way unknown here. The search adds no routing keys in
CC and BCC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_fresh_word
from bindings.diffing.comparison.headers import find_fewest_headers
from bindings.diffing.comparison.paths import PathConditions, find_paths
from bindings.diffing.comparison.sides import Ways
from bindings.serve.view import View
from exchange.entities.entities import Binding, Destination
from exchange.errors import BrokerError
from exchange.kinds.condition import NEVER, Condition, HeadersCondition
from exchange.kinds.headers import normalise_headers
from exchange.kinds.misses import estimate_distance
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pattern import AMQP, MANY, ONE, Pattern, Word
from exchange.text.display import describe_exchange, list_some
from exchange.topology.unread import find_unread
from exchange.values.field_values import to_bytes
from exchange.values.message import Message

PATHS: Final = 40
"""Maximum number of paths that are tried: those whose keys look nearest."""
ENTRIES: Final = 5
"""Maximum number of other exchanges that are named if no message to this one reaches the goal."""
RECASE: Final = 30
"""Cost of writing a word with other capitals."""
REPLACE: Final = 100
"""Cost of replacing a word by another one, which is preferred to adding a word, and that to removing one."""
ADD: Final = 101
REMOVE: Final = 102

Places: TypeAlias = frozenset[int]
"""The places in the words of a pattern where a reader of it can be: after its last word it has matched."""


@dataclass(frozen=True, slots=True)
class NearestMessage:
    """A message that reaches the goal, or why there is none."""

    message: Message | None
    why_not: str = ""
    """Why there is no message; empty if there is one."""
    proved: bool = True
    """Whether it is proved that there is none. False: none was found."""
    entries: tuple[str, ...] = ()
    """Other exchanges from which the goal can be reached, if it cannot be from this one."""


def find_nearest(view: View, message: Message, goal: Destination | Binding, budget: Budget) -> NearestMessage:
    """Return the nearest message to the same exchange that reaches a queue or takes a binding."""
    if _arrives(view, message, goal):
        return NearestMessage(message)
    side = view.side()
    end = goal if isinstance(goal, Destination) else Destination("exchange", goal.source)
    if isinstance(goal, Binding) and goal.source in side.loose:
        return NearestMessage(
            None, f"exchange '{goal.source}' does not choose its bindings by key or headers alone", False
        )
    ways = Ways(side, end)
    start = PathConditions()
    if isinstance(goal, Binding):
        condition = side.condition_of(goal)
        if condition == NEVER:
            return NearestMessage(None, "no message can match the binding")
        start = PathConditions((condition,))
    try:
        paths = find_paths(ways, message.exchange, start, budget)
        candidates = _try_paths(view, ways, message, paths, budget)
    except OutOfBudget:
        return NearestMessage(None, "out of time", False)
    found = next((candidate for candidate in candidates if _arrives(view, candidate, goal)), None)
    if found is not None:
        return NearestMessage(found)
    is_whole = not find_unread(view.topology)
    return _explain_none(view, ways, message, proved=len(paths) <= PATHS and not candidates and is_whole)


def _try_paths(
    view: View, ways: Ways, message: Message, paths: Sequence[PathConditions], budget: Budget
) -> list[Message]:
    """Return the nearest message for each of the most promising paths, the nearest one first."""
    candidates: list[tuple[int, int, Message]] = []
    for number, path in enumerate(nsmallest(PATHS, paths, key=lambda path: _estimate(path, message))):
        unmatched = [edge for name in path.unmatched for edge in ways.side.branches(name).near(path.matching)]
        changed = _change(view, message, path.matching, [edge.condition for edge in unmatched], budget)
        if changed is not None:
            candidates.append((changed[0], number, changed[1]))
    return [candidate for _, _, candidate in sorted(candidates, key=lambda each: each[:2])]


def _change(
    view: View, message: Message, all_of: Sequence[Condition], none_of: Sequence[Condition], budget: Budget
) -> tuple[int, Message] | None:
    """Return the message with the fewest changes for which all of these conditions and none of those hold.

    Returns their cost, too; None when there is no such message.
    """
    patterns, others = ([c for c in conditions if isinstance(c, Pattern)] for conditions in (all_of, none_of))
    key = find_nearest_key(message.routing_key, patterns, others, budget)
    if key is None:
        return None
    wanted, unwanted = ([c for c in conditions if isinstance(c, HeadersCondition)] for conditions in (all_of, none_of))
    headers = _change_headers(view, message, wanted, unwanted, budget)
    if headers is None:
        return None
    before = message.headers
    changes = len(before.keys() ^ headers.keys()) + sum(
        name in before and before[name] is not value for name, value in headers.items()
    )
    return key.cost + REPLACE * changes, Message(message.exchange, key.key, headers, message.properties, message.body)


def _change_headers(
    view: View,
    message: Message,
    all_of: Sequence[HeadersCondition],
    none_of: Sequence[HeadersCondition],
    budget: Budget,
) -> dict[str, Any] | None:
    """Return headers for which all of ``all_of`` and none of ``none_of`` hold; the message's own stay if they can."""
    profile = view.topology.profile

    def fit(headers: dict[str, Any]) -> bool:
        compared = normalise_headers(Message("", "", headers), profile)
        return all(c.holds(compared) for c in all_of) and not any(c.holds(compared) for c in none_of)

    given = dict(message.headers)
    if fit(given):
        return given
    fewest = find_fewest_headers(all_of, none_of, budget)
    if fewest is None:
        return None
    merged = {**given, **fewest}
    if fit(merged):
        return merged
    # Headers that no condition names never matter; the others are as the search chose them.
    named = {name for condition in (*all_of, *none_of) for name, _ in condition.wanted}
    return {**{name: value for name, value in given.items() if name not in named}, **fewest}


def _estimate(path: PathConditions, message: Message) -> float:
    return sum([estimate_distance(c.text, message) for c in path.matching if isinstance(c, Pattern)])


def _arrives(view: View, message: Message, goal: Destination | Binding) -> bool:
    try:
        explanation = view.router.explain(message)
    except BrokerError:
        return False
    if isinstance(goal, Destination):
        return goal.name in explanation.route.queues
    return any(goal in hop.matched for hop in explanation.hops)


def _explain_none(view: View, ways: Ways, message: Message, *, proved: bool) -> NearestMessage:
    loose = ways.side.graph.downstream([message.exchange]) & set(ways.side.loose)
    if loose:
        names = list_some([f"'{name}'" for name in sorted(loose)], 3)
        do = "does" if len(loose) == 1 else "do"
        return NearestMessage(
            None, f"none was found: {names} on the way {do} not choose by key or headers alone", False
        )
    if not ways.side.exists(ways.end):
        return NearestMessage(None, f"there is no {ways.end}")
    others = sorted(
        name for name in ways.exchanges if name and name != message.exchange and name in ways.side.published
    )
    where = describe_exchange(message.exchange)
    reason = "none was found"
    if proved:  # one with CC might take one binding by one key, and the next binding by another one
        keys = " with one routing key" if message.exchange in ways.exchanges else ""
        reason = f"no message to {where}{keys} gets there"
    return NearestMessage(None, reason, proved, tuple(others[:ENTRIES]))


class NearKey(NamedTuple):
    """A key, and what it takes to get there from the given one."""

    cost: int
    """The sum of the costs of the words that are changed; 0 if it is the given key."""
    key: str


def find_nearest_key(
    key: str, all_of: Sequence[Pattern], none_of: Collection[Pattern], budget: Budget
) -> NearKey | None:
    """Return a nearest AMQP key; None when no key matches all of ``all_of`` and none of ``none_of``.

    A word that a pattern leaves open is ``x`` or another word that no pattern names. Raises OutOfBudget.
    """  # fmt: skip
    words = AMQP.split(key)
    patterns = [pattern.words for pattern in (*all_of, *none_of)]
    wanted = len(all_of)
    named = {word for pattern in patterns for word in pattern if isinstance(word, str)}
    fresh = find_fresh_word(named, words)
    order = count()
    start = tuple(_rest(pattern, {0}) for pattern in patterns)
    # cost, tie, words of the given key that are done, places, the new key so far
    heap: list[tuple[int, int, int, tuple[Places, ...], tuple[str, ...]]] = [(0, next(order), 0, start, ())]
    done: set[tuple[int, tuple[Places, ...], bool]] = set()
    while heap:
        cost, _, at, places, new = heappop(heap)
        # The key "" has no words, so one empty word is no key: that the words so far are this one is part of the state.
        state = at, places, new == ("",)
        if state in done:
            continue
        done.add(state)
        budget.spend(1 + len(patterns))
        if at == len(words) and new != ("",) and _fits(patterns, places, wanted):
            text = ".".join(new)
            if len(to_bytes(text)) <= SHORTSTR_BYTES:
                return NearKey(cost, text)
        for more, ahead, word in _steps(words, at, _useful(patterns[:wanted], places, fresh)):
            after = places if word is None else tuple(map(_step, patterns, places, [word] * len(patterns)))
            if all(after[:wanted]):
                heappush(heap, (cost + more, next(order), ahead, after, new if word is None else (*new, word)))
    return None


def _steps(words: Sequence[str], at: int, useful: Collection[str]) -> Iterator[tuple[int, int, str | None]]:
    """Yield cost, words of the given key done afterwards, and the next word of the new key; None for no word."""
    if at < len(words):
        here = words[at]
        yield 0, at + 1, here
        yield REMOVE, at + 1, None
        for word in useful:
            if word != here:
                yield RECASE if word.lower() == here.lower() else REPLACE, at + 1, word
    for word in useful:
        yield ADD, at, word


def _useful(patterns: Sequence[Sequence[Word]], places: Sequence[Places], fresh: str) -> dict[str, None]:
    """Return the words worth trying: those that a pattern names next, and one that no pattern names."""
    nexts = {
        word: None
        for pattern, at in zip(patterns, places, strict=False)
        for place in sorted(at)
        if place < len(pattern) and isinstance(word := pattern[place], str)
    }
    return {**nexts, fresh: None}


def _fits(patterns: Sequence[Sequence[Word]], places: Sequence[Places], wanted: int) -> bool:
    return all(
        (len(pattern) in at) is (number < wanted)
        for number, (pattern, at) in enumerate(zip(patterns, places, strict=True))
    )


def _step(pattern: Sequence[Word], places: Places, word: str) -> Places:
    """Return the places after one more word."""
    reached = set()
    for place in places:
        if place < len(pattern):
            part = pattern[place]
            if part is MANY:
                reached.add(place)
            elif part is ONE or part == word:
                reached.add(place + 1)
    return _rest(pattern, reached)


def _rest(pattern: Sequence[Word], places: Collection[int]) -> Places:
    """Return the places, and those that are reached from there without a word: a MANY matches none, too."""
    reached = set(places)
    for place in places:
        at = place
        while at < len(pattern) and pattern[at] is MANY:
            at += 1
            reached.add(at)
    return frozenset(reached)
