"""What RabbitMQ's import would skip, refuse or read otherwise, and what routing cannot follow.

Invariant: each finding names its place in the file and changes nothing; what is found was loaded all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from bindings.sources.definition_entries import ENCODE, Entry, Part
from exchange.display import clip_line
from exchange.entities.entities import PREDECLARED, Binding, Exchange, Policy
from exchange.kinds import Unknown, kind_of
from exchange.patterns.pcre import expression

__all__ = ["PATTERN_SHOWN", "RESERVED", "findings", "not_imported", "of_part", "undeclared_vhosts"]

RESERVED: Final = frozenset(exchange.name for exchange in PREDECLARED)
"""The names of exchanges that are never declared."""

PATTERN_SHOWN: Final = 80
"""Maximum number of characters of a pattern in a message."""
APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
AGAIN: Final = {
    "exchanges": "the first counts",
    "queues": "the first counts",
    "policies": "the last counts",
    "bindings": "it counts once",
}


def findings(sections: Mapping[str, Sequence[Entry]], default_vhost: str) -> Iterator[str]:
    """All there are, in one pass, section by section."""
    for key, entries in sections.items():
        seen: set[tuple[str, Any]] = set()
        for index, entry in enumerate(entries):
            place = f"{key}[{index}]"
            part = entry.part
            vhost = default_vhost if entry.vhost is None else entry.vhost
            identity = (vhost, part if key == "bindings" else part.name)
            if identity in seen:
                yield f"{place}: {_named(part)} is here again; {AGAIN[key]}"
            seen.add(identity)
            for finding in of_arguments(entry):
                yield f"{place}{finding}"
            for finding in of_part(entry.part):
                yield f"{place}{finding}"


def undeclared_vhosts(sections: Mapping[str, Sequence[Entry]], declared: AbstractSet[str]) -> Iterator[str]:
    """Describe the first part of each virtual host that the file does not declare; every broker begins with "/"."""
    seen = {None, "/", *declared}
    for key, entries in sections.items():
        for index, entry in enumerate(entries):
            if entry.vhost not in seen:
                seen.add(entry.vhost)
                yield (
                    f"{key}[{index}].vhost: {entry.vhost!r} is not under vhosts: "
                    "RabbitMQ refuses to import the file where there is no such virtual host"
                )


def not_imported(sections: Mapping[str, Sequence[Entry]]) -> Iterator[str]:
    """The arguments among them that RabbitMQ's import refuses or reads as something else."""
    for key, entries in sections.items():
        for index, entry in enumerate(entries):
            for finding in of_arguments(entry):
                yield f"{key}[{index}]{finding}"


def _named(part: Part) -> str:
    if isinstance(part, Binding):
        return f"the binding from {part.source!r} to {part.destination} with the key {part.routing_key!r}"
    return f"{type(part).__name__.lower()} {part.name!r}"


def of_arguments(entry: Entry) -> Iterator[str]:
    """What JSON cannot say to RabbitMQ; each begins where the place of the entry ends."""
    if not isinstance(entry.part, Policy) and (entry.part.arguments or isinstance(entry.written, dict)):
        yield from _argument_findings(entry.object().get("arguments", {}), ".arguments")


def of_part(part: Part) -> Iterator[str]:
    """What is odd about one part; each begins where its place ends."""
    if isinstance(part, Policy):
        yield from _policy_findings(part)
        return
    if isinstance(part, Binding):
        if not part.source and part != Binding.to_queue("", part.destination.name, part.destination.name):
            yield f": {_named(part)} cannot exist in RabbitMQ and is left out"
        return
    if isinstance(part, Exchange) and part.name in RESERVED:
        if part not in PREDECLARED:
            yield f": skipped by RabbitMQ's import and left out: {_named(part)} is predeclared with other attributes"
    elif part.name.startswith("amq."):
        yield f": skipped by RabbitMQ's import, as all names with amq. are; {_named(part)} counts here"
    if isinstance(part, Exchange) and kind_of(part) is Unknown:
        yield f": {_named(part)} is of type {part.type!r}, which is unknown here: routes through it stay undecided"


def _policy_findings(policy: Policy) -> Iterator[str]:
    if policy.apply_to not in APPLY_TO:
        known = ", ".join(map(repr, APPLY_TO))
        yield f".apply-to: {policy.apply_to!r} is unknown and applies to nothing; there are {known}"
    found = expression(policy.pattern)
    pattern = f"'{clip_line(policy.pattern, PATTERN_SHOWN)}'"
    if found.error:
        yield f".pattern: {pattern} is refused by RabbitMQ and applies to nothing: {found.error}"
    elif found.unknown:
        yield f".pattern: {pattern} is not understood here, routes may stay undecided: {found.unknown}"


def _argument_findings(value: Any, place: str, *, table: bool = True) -> Iterator[str]:
    if value is None:
        yield f"{place} is null, which RabbitMQ's import refuses (null_not_allowed); it is a void here"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _argument_findings(item, f"{place}[{index}]", table=False)
    elif isinstance(value, dict):
        if not table and len(value) == 1 and next(iter(value)).startswith("!"):
            yield f"{place} is {ENCODE(value)}: a typed value here, a table for RabbitMQ's import"
            return
        for key, item in value.items():
            yield from _argument_findings(item, f"{place}.{key}", table=False)
