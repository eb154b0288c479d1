"""The lines of a source that declare what findings are about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from bindings.checking.rules.finding import Finding
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import SECTION_OF, SECTIONS
from bindings.sources.definitions.text import find_objects
from bindings.sources.files import decode_text, read_content
from bindings.sources.open import Source
from exchange.entities.entities import Binding
from exchange.entities.part import Part

PartOfVhost: TypeAlias = tuple[str, Part]

NAMES: Final = ("name", "source", "destination", "destination_type", "routing_key")


def with_lines(source: Source, found: Mapping[str, Sequence[Finding]]) -> dict[str, list[Finding]]:
    """Return virtual host -> its findings, each with its line where that is known.

    Raises InputError if a definitions file cannot be read a second time.
    """
    wanted = {(vhost, each.part) for vhost, findings in found.items() for each in findings if each.part is not None}
    known: dict[PartOfVhost, int | None] = {}
    if source.imported is not None or not isinstance(source.content, Definitions):
        known |= {(vhost, part): source.line_of(vhost, part) for vhost, part in wanted}
    elif wanted and source.path is not None:
        text = decode_text(read_content(source.path), source.name)
        with suppress(ValueError, IndexError):  # the file was changed since it was loaded: its lines are unknown
            known |= _find_lines(text, wanted, source.content.default_vhost)

    def add_line(vhost: str, finding: Finding) -> Finding:
        if finding.part is None or finding.line is not None:
            return finding
        return replace(finding, line=known.get((vhost, finding.part)))

    return {vhost: [add_line(vhost, finding) for finding in findings] for vhost, findings in found.items()}


def _find_lines(text: str, wanted: Collection[PartOfVhost], default_vhost: str) -> dict[PartOfVhost, int]:
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
