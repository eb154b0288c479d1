"""What was read of a file of another system: definitions, the places of their parts, and what is missing in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import SECTION_OF, Entry
from bindings.sources.definitions.import_warnings import (
    SourceWarning,
    describe,
    find_argument_texts,
    find_part_warnings,
)
from bindings.sources.formats.nodes import DocumentNode, format_path
from exchange.entities.entities import Binding, Policy
from exchange.entities.part import Part
from exchange.entities.unread import UnreadKind, UnreadPart
from exchange.text.display import list_some

MAX_LISTED_MOVERS: Final = 5
"""Maximum number of objects of a kind that move messages whose names are listed."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The content of one file or folder."""

    definitions: Definitions
    places: Mapping[tuple[str, Part], DocumentNode]
    """Virtual host and part -> where it is declared."""
    warnings: list[SourceWarning]
    """What is missing in the definitions, and what RabbitMQ would refuse or interpret differently."""
    several: bool = False
    """Whether it was read from several files."""

    def line_of(self, vhost: str, part: Part) -> int | None:
        """Return the line that declares a part, from 1, if it was read from one file that has lines."""
        node = self.places.get((vhost, part))
        return None if node is None or self.several else node.line


class Collector:
    """Collects the parts of a topology as they are read, each with its place; ``finish`` returns all of it.

    ``several`` states that there is more than one file, so that a warning must name it.
    """

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._vhosts: dict[str, Mapping[str, Any]] = {}
        self._entries: dict[str, list[Any]] = {section: [] for section in SECTION_OF.values()}
        self._operator_policies: list[Any] = []
        self._limits: list[Any] = []
        self._names: dict[tuple[str, str, Any], DocumentNode] = {}
        self._places: dict[tuple[str, Part], DocumentNode] = {}
        self._warnings: list[SourceWarning] = []
        self._others: Counter[str] = Counter()
        self._movers: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, vhost: str, part: Part, node: DocumentNode) -> None:
        """Add a part that ``node`` declares. Of several with one name the first counts."""
        section = SECTION_OF[type(part)]
        first = self._names.setdefault((vhost, section, part if isinstance(part, Binding) else part.name), node)
        if first is not node:
            self.warn(node, f"{describe(part)} is here again, after {self.position(first)}; the first counts")
            return
        self._places[vhost, part] = node
        self._entries[section].append(Entry.new(part, vhost))

    def add_vhost(self, name: str, settings: Mapping[str, Any], limits: Mapping[str, int]) -> None:
        """Add a virtual host with its settings and limits, named as in RabbitMQ's definitions."""
        self._vhosts.setdefault(name, {"name": name, **settings})
        if limits:
            limit = {"component": "vhost-limits", "vhost": name, "name": "limits", "value": dict(limits)}
            self._limits.append(limit)

    def add_operator_policy(self, vhost: str, policy: Policy) -> None:
        """Add an operator policy: no part of a topology, kept in definitions."""
        self._operator_policies.append(Entry.new(policy, vhost).object())

    def warn(self, node: DocumentNode, text: str) -> None:
        """Warn about what stands at ``node``."""
        self._warnings.append(SourceWarning(f"{self.position(node)}: {text}", line=self._line(node)))

    def miss(self, node: DocumentNode, kind: UnreadKind, text: str) -> None:
        """Record that what stands at ``node`` was not read: the topology lacks it, and nothing is proved of it."""
        self._warnings.append(SourceWarning.of_unread(UnreadPart(kind, self.position(node), text), self._line(node)))

    def leave_out(self, kind: str) -> None:
        """Count an object that is certainly no part of a topology."""
        self._others[kind] += 1

    def leave_out_mover(self, kind: str, name: str) -> None:
        """Name an object that moves messages and changes no route, such as a shovel: no part of a topology, either."""
        self._movers[kind].append(repr(name))

    def finish(self) -> Imported:
        """Return all that was collected."""
        used = (entry.vhost for entries in self._entries.values() for entry in entries)
        vhosts = {name: {"name": name} for name in used} | self._vhosts
        sections = {
            "vhosts": list(vhosts.values()), **self._entries,
            "operator_policies": self._operator_policies, "parameters": self._limits,
        }  # fmt: skip
        definitions = Definitions("/", {key: section for key, section in sections.items() if section})
        warnings = [*self._warnings, *self._part_warnings()]
        if self._movers:
            movers = ", ".join(
                f"{len(names):,} {kind} ({list_some(names, MAX_LISTED_MOVERS)})"
                for kind, names in sorted(self._movers.items())
            )
            text = f"not read, as it moves messages and changes no route, so that it is no part of a topology: {movers}"
            warnings.append(SourceWarning(text))
        if self._others:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self._others.items()))
            warnings.append(SourceWarning(f"not read, as it is no part of a topology: {counts}"))
        return Imported(definitions, self._places, warnings, self._several)

    def position(self, node: DocumentNode) -> str:
        """Return what a warning about the source calls a place in it."""
        if self._several:
            return node.where
        return format_path(node.path) or "the file" if node.line is None else f"line {node.line}"

    def _line(self, node: DocumentNode) -> int | None:
        return None if self._several else node.line

    def _part_warnings(self) -> Iterator[SourceWarning]:
        for (vhost, part), node in self._places.items():
            for text in find_argument_texts(part):
                yield SourceWarning(f"{self.position(node)}: {describe(part)}{text}", line=self._line(node))
            for code, text in find_part_warnings(part):
                yield SourceWarning(f"{self.position(node)}{text}", code, self._line(node), vhost, part)
