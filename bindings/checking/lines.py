"""Find the lines of parts in a definitions file, which is read a second time, for the parts of findings only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from bindings.sources.definitions.entries import SECTIONS
from bindings.sources.definitions.positions import find_objects
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.part import Part

__all__ = ["find_lines"]

PartOfVhost: TypeAlias = tuple[str, Part]

SECTION_OF: Final = {Exchange: "exchanges", Queue: "queues", Policy: "policies", Binding: "bindings"}
NAMES: Final = ("name", "source", "destination", "destination_type", "routing_key")


def find_lines(text: str, wanted: Collection[PartOfVhost], default_vhost: str) -> dict[PartOfVhost, int]:
    """Return (virtual host, part) -> line, from 1, for those of the wanted parts that the definitions have."""
    sought: dict[tuple[Any, ...], list[PartOfVhost]] = {}
    for vhost, part in wanted:
        sought.setdefault(_identity(vhost, part), []).append((vhost, part))
    known: dict[PartOfVhost, int] = {}
    line, counted = 1, 0  # ``line`` is that of position ``counted``: no line break is counted twice
    for section, item, at, _ in find_objects(text):
        vhost = item.get("vhost", default_vhost)
        candidates = sought.get((section, vhost, *map(item.get, NAMES)), ())
        if candidates:
            line += text.count("\n", counted, at)
            counted = at
        for candidate in candidates:
            # Bindings may differ in their arguments alone, which are compared last: decoding them takes long.
            if candidate not in known and (section != "bindings" or SECTIONS[section](item, section) == candidate[1]):
                known[candidate] = line
        if len(known) == len(wanted):
            break
    return known


def _identity(vhost: str, part: Part) -> tuple[Any, ...]:
    section = SECTION_OF[type(part)]
    if isinstance(part, Binding):
        return section, vhost, None, part.source, part.destination.name, part.destination.kind, part.routing_key
    return section, vhost, part.name, None, None, None, None
