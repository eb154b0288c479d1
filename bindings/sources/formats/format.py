"""What a format of another system is: how it is recognised, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import describe
from bindings.sources.formats.go_json import overflows
from bindings.sources.formats.imported import Imported
from exchange.entities.entities import Binding, Exchange
from exchange.entities.part import Part
from exchange.text.display import count_noun

__all__ = ["SourceFile", "TopologyFormat", "Omissions", "WriteTarget", "Written", "find_half"]


class SourceFile(NamedTuple):
    """A file that was read: its name and its text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        """Whether its text begins like a JSON object."""
        return self.text.lstrip("\ufeff \t\r\n")[:1] == "{"


class WriteTarget(NamedTuple):
    """What a file is written for."""

    name: str
    """Its name, without .gz; its ending may choose between YAML and JSON."""
    cluster: str | None = None
    """``NAME`` or ``NAME/NAMESPACE`` of the RabbitmqCluster, for objects of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a file, in pieces, and what is missing in it."""

    chunks: list[str]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class TopologyFormat:
    """A format that topologies are converted from and to."""

    name: str
    """Its name for ``--to``."""
    title: str
    """What help and errors call it."""
    recognises: Callable[[SourceFile], bool]
    """Whether a file is of this format, by its content and, where that is not enough, its name. It reads little."""
    read: Callable[[Sequence[SourceFile], str], Imported]
    """Read the files of a source, which errors call by the second argument. Raises InputError."""
    write: Callable[[Definitions, WriteTarget], Written]
    """Write definitions. Raises InputError."""


class Omissions:
    """Collects the warnings about what a format cannot express."""

    def __init__(self, title: str) -> None:
        self._title = title
        self.warnings: list[str] = []

    def part(self, vhost: str, part: Part, reason: str) -> None:
        """Warn about a part that is left out."""
        self._add(vhost, part, f"is left out: {reason}")

    def detail(self, vhost: str, part: Part, reason: str) -> None:
        """Warn about a detail of a part that is written without it or arrives otherwise."""
        self._add(vhost, part, reason)

    def refuses(self, vhost: str, part: Part, values: object, go_arguments: object = None) -> bool:
        """Return whether no format can hold a part with these texts, with a warning if so.

        ``go_arguments`` are arguments that a program in Go reads, which may make of a number what RabbitMQ refuses.
        """
        name = part.destination.name if isinstance(part, Binding) else part.name
        if not vhost or not name:
            self.part(vhost, part, "the virtual host has no name" if not vhost else "it has no name")
        elif find_half([vhost, name, values]):
            self.part(vhost, part, "half of a surrogate pair in it is no text in UTF-8")
        elif isinstance(part, Exchange) and not part.type:
            self.part(vhost, part, "it has no type")
        elif overflows(go_arguments):
            self.part(vhost, part, f"{self._title} rounds an integer in its arguments to one of more than 64 bits")
        else:
            return False
        return True

    def rest(self, definitions: Definitions, kept: Iterable[str] = ()) -> None:
        """Warn about everything in definitions that is no part of a topology, but for the sections ``kept``."""
        written = set(kept)
        others = {key: count for key, count in definitions.others.items() if key not in written}
        listed = [f"{count:,} {key.replace('_', ' ')}" for key, count in others.items()]
        listed += _additions(definitions)
        if listed:
            self.warnings.append(f"left out, as {self._title} has no place for them: {', '.join(listed)}")

    def _add(self, vhost: str, part: Part, text: str) -> None:
        place = "" if vhost == "/" else f"virtual host {vhost!r}: "
        self.warnings.append(f"{place}{describe(part)} {text}")


def find_half(value: Any) -> bool:
    """Return whether a JSON value has half of a surrogate pair in a text, which no file in UTF-8 can hold."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(map(find_half, value)) or any(map(find_half, value.values()))
    return isinstance(value, list) and any(map(find_half, value))


def _additions(definitions: Definitions) -> Iterator[str]:
    """Yield what only .bindings files and the key "hashstar" hold."""
    expectations = sum(len(definitions.expectations(vhost)) for vhost in definitions.vhosts)
    topologies = map(definitions.topology, definitions.vhosts)
    partitioned = sum(queue.partitioning is not None for topology in topologies for queue in topology.queues.values())
    if expectations:
        yield count_noun(expectations, "expectation")
    if partitioned:
        yield count_noun(partitioned, "partitioning")
    if definitions.names_profile:
        yield "the profile"
