"""In which line of a definitions file a part stands: the file is read once more, for those that findings are about."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias

from bindings.check.finding import Part
from bindings.sources.definition_entries import SECTIONS
from exchange.entities.entities import Binding, Exchange, Policy, Queue

__all__ = ["lines"]

Place: TypeAlias = tuple[str, Part]

SECTION_OF: Final = {Exchange: "exchanges", Queue: "queues", Policy: "policies", Binding: "bindings"}
NAMES: Final = ("name", "source", "destination", "destination_type", "routing_key")
BLANK: Final = re.compile(r"[ \t\r\n]*")
DECODE: Final = json.JSONDecoder().raw_decode


def lines(text: str, wanted: Collection[Place], default_vhost: str) -> dict[Place, int]:
    """Virtual host and part -> line, from 1, of those that are found in the text, which is definitions."""
    sought: dict[tuple[Any, ...], list[Place]] = {}
    for vhost, part in wanted:
        sought.setdefault(_identity(vhost, part), []).append((vhost, part))
    found: dict[Place, int] = {}
    line, counted = 1, 0
    for section, item, at in _items(text):
        vhost = item.get("vhost", default_vhost)
        places = sought.get((section, vhost, *map(item.get, NAMES)), ())
        if places:
            line += text.count("\n", counted, at)
            counted = at
        for place in places:
            if place not in found and (section != "bindings" or SECTIONS[section](item, section) == place[1]):
                found[place] = line
        if len(found) == len(wanted):
            break
    return found


def _identity(vhost: str, part: Part) -> tuple[Any, ...]:
    section = SECTION_OF[type(part)]
    if isinstance(part, Binding):
        return section, vhost, None, part.source, part.destination.name, part.destination.kind, part.routing_key
    return section, vhost, part.name, None, None, None, None


def _items(text: str) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Section, object and where it begins, of the sections that make topologies."""

    def after(at: int) -> int:
        return BLANK.match(text, at).end()  # type: ignore[union-attr]  # which matches nothing, too

    at = after(text.index("{") + 1)
    while text[at] == '"':
        key, at = DECODE(text, at)
        at = after(after(at) + 1)
        if key in SECTIONS:
            at = after(at + 1)
            while text[at] != "]":
                start = at
                item, at = DECODE(text, at)
                yield key, item, start
                at = after(at)
                at = after(at + 1) if text[at] == "," else at
            at += 1
        else:
            _, at = DECODE(text, at)
        at = after(at)
        at = after(at + 1) if text[at] == "," else at
