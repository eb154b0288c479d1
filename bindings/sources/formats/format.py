"""What a format of another system is: how it is recognised, read and written; and what its writers share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import describe
from bindings.sources.definitions.operator_policies import COMPONENT
from bindings.sources.formats.go_json import has_overflow
from bindings.sources.formats.imported import Imported
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange
from exchange.entities.part import Part
from exchange.text.display import count_noun

HASH_DIGITS: Final = 10
LIMITS_COMPONENT: Final = "vhost-limits"
"""The component of the runtime parameters that limit virtual hosts."""


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
    """Its name for ``--format``."""
    title: str
    """What help and errors call it."""
    recognises: Callable[[SourceFile], bool]
    """Whether a file is of this format, by its content and, where that is not enough, its name. It reads little."""
    read: Callable[[Sequence[SourceFile], str], Imported]
    """Read the files of a source, which errors call by the second argument. Raises InputError."""
    write: Callable[[Definitions, WriteTarget], Written]
    """Write definitions. Raises InputError."""
    suffixes: tuple[str, ...] = ()
    """Endings of the names of files that are written in this format unless another one is chosen."""
    in_yaml: str | None = None
    """What a YAML file of this format is, for errors; None if the format is never YAML."""


def list_parts(definitions: Definitions) -> Iterator[tuple[str, Part]]:
    """Yield virtual host and part of all that a broker can be asked to make, in an order in which it makes them.

    Predeclared exchanges, and bindings of the default exchange, are the broker's own; operator policies come last.
    """
    topologies = [(vhost, definitions.topology(vhost)) for vhost in definitions.vhosts]
    for vhost, topology in topologies:
        yield from ((vhost, part) for name, part in topology.exchanges.items() if name not in PREDECLARED_NAMES)
        yield from ((vhost, queue) for queue in topology.queues.values())
    for vhost, topology in topologies:
        yield from ((vhost, binding) for binding in topology.bindings if binding.source)
        yield from ((vhost, policy) for policy in topology.policies.values())
    yield from definitions.operator_policies


class GivenNames:
    """The names given so far to objects of another system, by kind: equal names of different kinds do not meet.

    A name is made of the part's own identity alone: adding another part changes no name, or the system would delete and
    declare what did not change. A hash keeps apart what would become equal.
    """

    def __init__(self, limit: int | None = None) -> None:
        """``limit`` is the maximum number of characters of a name."""
        self._limit = limit
        self._given: dict[tuple[str, str], tuple[Any, ...]] = {}

    def give(self, kind: str, plain: str | None, slug: str, identity: tuple[Any, ...]) -> str:
        """Return ``plain`` if it is free, else ``slug``, words for people with a separator behind them, and a hash."""
        digest = sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        hashed = (f"{slug}{digest[:most]}" for most in (HASH_DIGITS, len(digest)))
        candidates = (plain, *(name[-self._limit :].lstrip("-") if self._limit else name for name in hashed))
        return next(
            each
            for each in candidates
            if each is not None and self._given.setdefault((kind, each), identity) == identity
        )


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
        elif has_lone_surrogate([vhost, name, values]):
            self.part(vhost, part, "half of a surrogate pair in it is no text in UTF-8")
        elif isinstance(part, Exchange) and not part.type:
            self.part(vhost, part, "it has no type")
        elif has_overflow(go_arguments):
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


def has_lone_surrogate(value: Any) -> bool:
    """Return whether a JSON value has half of a surrogate pair in a text, which no file in UTF-8 can hold."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(map(has_lone_surrogate, value)) or any(map(has_lone_surrogate, value.values()))
    return isinstance(value, list) and any(map(has_lone_surrogate, value))


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


def list_settings(definitions: Definitions) -> dict[str, dict[str, Any]]:
    """Return virtual host -> its settings that are not empty; newer releases write them under "metadata", too."""
    found: dict[str, dict[str, Any]] = {}
    for entry in definitions.other_entries("vhosts"):
        metadata = entry.get("metadata")
        given = {**(metadata if isinstance(metadata, dict) else {}), **entry}
        found[entry["name"]] = {key: value for key, value in given.items() if key not in ("name", "metadata") and value}
    return found


def list_limits(definitions: Definitions) -> dict[str, Mapping[str, Any]]:
    """Return virtual host -> its limits."""
    return {
        str(item.get("vhost")): item["value"]
        for item in definitions.other_entries("parameters")
        if item.get("component") == LIMITS_COMPONENT and isinstance(item.get("value"), dict)
    }


def find_kept_sections(definitions: Definitions, settings: Collection[str]) -> Iterator[str]:
    """Yield the sections that are written whole where the format has all of this, and these settings."""
    yield "operator_policies"
    if all(item.get("component") in (LIMITS_COMPONENT, COMPONENT) for item in definitions.other_entries("parameters")):
        yield "parameters"
    if all(given.keys() <= set(settings) for given in list_settings(definitions).values()):
        yield "virtual hosts with settings"
