"""4xx: keys of bindings that most likely do not do what their author meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from bindings.checking.rules.finding import Finding, list_names, quote_binding, quote_exchange
from bindings.checking.rules.view import TopologyView, is_too_long
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.kinds import Decider, KeyUse, find_kind
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import Pattern
from exchange.text.display import count_noun

ODD: Final = re.compile(r"[*#+>\s]|\.\.|^\.|\.$")
"""Matches in each key that a rule of this family can report, except for its case: in few of a million keys."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about the keys of bindings, and about names that are too long."""
    yield from _too_long(view)
    limit = view.topology.profile.max_many
    for binding in view.refused:
        if find_kind(view.topology.exchanges[binding.source]).key_use is KeyUse.PATTERN:
            count = binding.routing_key.split(".").count("#")
            yield Finding("HS404", binding, f"{quote_binding(binding)} has {count} '#', and {limit} are allowed")
    for name, (kind, bindings) in view.deciding.items():
        if kind.decider is not Decider.KEY:
            continue
        has_wildcards = kind.key_use is KeyUse.PATTERN
        odd = [binding for binding in bindings if ODD.search(binding.routing_key)]
        for binding in odd:
            words = binding.routing_key.split(".") if binding.routing_key else []
            if "" in words:
                yield Finding("HS403", binding, f"{quote_binding(binding)} has an empty word")
            if any(word != word.strip() for word in words):
                yield Finding("HS407", binding, f"{quote_binding(binding)} has white space around a word")
            if has_wildcards:
                yield from _wildcards(view, binding, words)
        if has_wildcards:
            yield from _zero_words(name, bindings, odd)
        yield from _case(name, bindings)


def _too_long(view: TopologyView) -> Iterator[Finding]:
    for binding in view.long_keys:
        size = len(binding.routing_key.encode("utf-8", "surrogatepass"))
        start = binding._replace(routing_key=binding.routing_key[:40] + "...")
        yield Finding("HS405", binding, f"the key of {quote_binding(start)} has {size} bytes, which are more than 255")
    parts: list[Exchange | Queue] = [*view.topology.exchanges.values(), *view.topology.queues.values()]
    for part in parts:
        if is_too_long(part.name):
            kind = type(part).__name__.lower()
            size = len(part.name.encode("utf-8", "surrogatepass"))
            message = f"the name of {kind} '{part.name[:40]}...' has {size} bytes, which are more than 255"
            yield Finding("HS405", part, message)


def _wildcards(view: TopologyView, binding: Binding, words: Sequence[str]) -> Iterator[Finding]:
    foreign = [word for at, word in enumerate(words) if _is_foreign(word, last=at == len(words) - 1)]
    if foreign:
        message = f"{quote_binding(binding)} has {list_names(foreign)}, which is no wildcard in AMQP"
        if len(words) > 1 and any("/" in word for word in foreign):
            message += "; the '.' of MQTT's 'a.b' parts words here"
        yield Finding("HS406", binding, message)
    literal = [word for word in words if len(word) > 1 and ("*" in word or "#" in word) and word not in foreign]
    if literal:
        message = f"{quote_binding(binding)} matches {list_names(literal)} literally"
        yield Finding("HS402", binding, message, binding.routing_key if literal == list(words) else None)


def _is_foreign(word: str, *, last: bool) -> bool:
    levels = word.split("/")
    if len(levels) > 1:
        return "+" in levels or "#" in levels
    return word == "+" or (word == ">" and last)


def _zero_words(exchange: str, bindings: Collection[Binding], odd: Sequence[Binding]) -> Iterator[Finding]:
    """Yield a finding for the patterns ``x.#`` where another binding asks for ``x``."""
    wide = [binding for binding in odd if binding.routing_key.endswith(".#") and binding.routing_key.count("#") == 1]
    if not wide:
        return
    exact: Matcher[Binding] = Matcher(cache=0, distinct=True)
    for binding in bindings:
        if "#" not in binding.routing_key:
            exact.bind(Pattern.of_binding_key(binding.routing_key), binding)
    asked_for: dict[Binding, Binding] = {}
    for binding in wide:
        base = binding.routing_key.removesuffix(".#")
        others = [other for other in exact.match(base) if other.destination != binding.destination]
        if others and "*" not in base:
            asked_for[binding] = min(others, key=lambda other: (other.destination, other.routing_key))
    if asked_for:
        first = next(iter(asked_for))
        base, other = first.routing_key.removesuffix(".#"), asked_for[first]
        message = f"{quote_binding(first)} also matches '{base}', which {quote_binding(other)} asks for"
        if len(asked_for) > 1:
            message += (
                f"; {count_noun(len(asked_for) - 1, 'more binding')} of {quote_exchange(exchange)} "
                f"{'matches' if len(asked_for) == 2 else 'match'} what others ask for"
            )
        yield Finding("HS401", first, message, base, (other, *list(asked_for)[1:]))


def _case(exchange: str, bindings: Collection[Binding]) -> Iterator[Finding]:
    by_folded_key: dict[str, Binding] = {}
    for binding in bindings:
        other = by_folded_key.setdefault(binding.routing_key.casefold(), binding)
        if other.routing_key != binding.routing_key:
            message = f"{quote_binding(binding)} differs in case only from {quote_binding(other)}"
            yield Finding("HS408", binding, message, related=(other,))
