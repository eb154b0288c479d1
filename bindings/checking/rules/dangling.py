"""1xx: bindings whose source or destination does not exist; keys and arguments that an exchange ignores."""

from __future__ import annotations

from collections.abc import Iterator

from bindings.checking.rules.finding import Finding, list_names, quote_binding, quote_exchange
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider, KeyUse, Kind
from exchange.text.display import LIKE_NAMES, suggest
from exchange.topology.topology import Topology


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield one finding for each missing exchange or queue, and findings about keys and arguments that are ignored."""
    topology = view.topology
    missing: dict[Destination, list[Binding]] = {}
    useless: dict[str, list[Binding]] = {}
    uses: dict[str, tuple[bool, bool, bool]] = {}  # looked up once for each exchange: there can be a million bindings
    for binding in topology.bindings:
        source, destination = binding.source, binding.destination
        if source not in topology.exchanges:
            missing.setdefault(Destination("exchange", source), []).append(binding)
        known = topology.queues if destination.kind == "queue" else topology.exchanges
        if destination.name not in known:
            missing.setdefault(destination, []).append(binding)
        if source not in uses:
            uses[source] = _uses(view.kind_of(source))
        ignores_keys, ignores_x_match, is_literal = uses[source]
        # '#' describes what a fanout does, and many write it.
        if ignores_keys and binding.routing_key not in ("", "#") and binding not in view.filled_in:
            useless.setdefault(source, []).append(binding)
        if ignores_x_match and "x-match" in binding.arguments:
            message = f"is {_kind_of(view, source)} and ignores the x-match of {quote_binding(binding)}"
            yield Finding("HS109", binding, f"{quote_exchange(source)} {message}")
        if is_literal and not {"*", "#"}.isdisjoint(binding.routing_key.split(".")):
            yield Finding(
                "HS107", binding, f"{quote_binding(binding)} matches nothing but this very key", binding.routing_key
            )
    for end, bindings in missing.items():
        known, others = topology.queues, topology.exchanges
        if end.kind == "exchange":
            known, others = others, known
        swapped = next((binding for binding in bindings if _is_swapped(topology, binding)), None)
        if topology.profile.leaves_out(end):
            sources = list_names(dict.fromkeys(binding.source for binding in bindings))
            message = (
                f"{end} does not exist, and {_count(bindings)} to it, which an import leaves out: from {sources} with "
                f"{_keys(bindings)}"
            )
            yield Finding("HS112", bindings[0], message, related=tuple(bindings[1:]))
            continue
        if swapped is not None:
            queue, exchange = swapped.source, swapped.destination.name
            hint = f"; '{queue}' is a queue and '{exchange}' an exchange: did you mean {exchange} -> {queue}?"
        elif end.name in others:
            hint = f"; there is {'an exchange' if end.kind == 'queue' else 'a queue'} of this name"
        else:
            hint = suggest(end.name, known, likeness=LIKE_NAMES)
        yield from _missing(end, bindings, hint)
    for source, bindings in useless.items():
        yield Finding(
            "HS108",
            bindings[0],
            f"{quote_exchange(source)} is {_kind_of(view, source)} and ignores the routing keys of its bindings: "
            f"{_keys(bindings)}",
            related=tuple(bindings[1:]),
        )


def _is_swapped(topology: Topology, binding: Binding) -> bool:
    """Return whether a binding leads from a queue to an exchange, which no broker has, by the names of its ends."""
    source, destination = binding.source, binding.destination.name
    return source in topology.queues and source not in topology.exchanges and destination in topology.exchanges


def _kind_of(view: TopologyView, source: str) -> str:
    """Return what an exchange is, by the name of its type, and what that routes as if it is another one."""
    name, routes_as = view.topology.exchanges[source].type, view.kind_of(source).routes_as
    article = "an" if name.startswith("x-") else "a"
    return f"{article} {name} exchange" + ("" if name == routes_as else f", which routes as a {routes_as} exchange,")


def _uses(kind: type[Kind]) -> tuple[bool, bool, bool]:
    """Return whether a kind ignores the keys of bindings, ignores x-match, and has no wildcards."""
    ignores_keys = kind.decider in (Decider.NOTHING, Decider.HEADERS)
    return ignores_keys, kind.decider in (Decider.NOTHING, Decider.KEY), kind.key_use is KeyUse.LITERAL


def _missing(end: Destination, bindings: list[Binding], suggestion: str) -> Iterator[Finding]:
    is_source = [binding for binding in bindings if binding.source == end.name and end.kind == "exchange"]
    is_destination = [binding for binding in bindings if binding.destination == end]
    if is_source:
        destinations = list_names(dict.fromkeys(binding.destination for binding in is_source))
        message = (
            f"exchange '{end.name}' does not exist, and {_count(is_source)} from it: to {destinations}{suggestion}"
        )
        yield Finding("HS101", is_source[0], message, related=tuple(is_source[1:]))
    if is_destination:
        sources = list_names(dict.fromkeys(binding.source for binding in is_destination))
        message = (
            f"{end} does not exist, and {_count(is_destination)} to it: from {sources} with {_keys(is_destination)}"
            f"{suggestion}"
        )
        yield Finding("HS102", is_destination[0], message, related=tuple(is_destination[1:]))


def _count(bindings: list[Binding]) -> str:
    return "a binding leads" if len(bindings) == 1 else f"{len(bindings)} bindings lead"


def _keys(bindings: list[Binding]) -> str:
    return list_names(dict.fromkeys(binding.routing_key for binding in bindings))
