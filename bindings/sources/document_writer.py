"""Write a `Document` as text: one statement for each part, in the order of the document, formatted.

Invariant: reading the text gives the document again, and formatting the text changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bindings.sources.language.expectations import Expectation
from bindings.sources.language.statements import APPLY_TO, BARE_ATTRIBUTES
from bindings.sources.section import Section
from exchange.entities.effects import QUEUE_TYPES
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Policy, Queue
from exchange.entities.profile import Profile
from exchange.values.field_json import encode_table
from exchange.values.field_values import thaw
from exchange.values.notation import VARIABLE, quote, write_arguments, write_json, write_name, write_table

WIDEST: Final = 100
"""Maximum number of characters of a statement on one line; a longer one has a line for each attribute."""


def write(sections: Mapping[str, Section], profile: Profile | None) -> Iterator[str]:
    """Yield the text in pieces: whole lines, with their line breaks."""
    if profile is not None:
        yield f"profile {profile.written}\n\n"
    for number, (vhost, section) in enumerate(sections.items()):
        yield "\n" if number else ""
        yield f"vhost {quote(vhost)}\n"
        for statements in _section(section):
            first = next(statements, None)
            if first is not None:
                yield f"\n{first}\n"
                yield from (f"{statement}\n" for statement in statements)


def _section(section: Section) -> Iterator[Iterator[str]]:
    topology = section.topology
    exchanges = (part for name, part in topology.exchanges.items() if name not in PREDECLARED_NAMES)
    yield map(_exchange, exchanges)
    yield map(_queue, topology.queues.values())
    yield map(_policy, topology.policies.values())
    yield map(_policy, topology.operator_policies.values())
    yield _bindings(topology.bindings)
    yield map(_expectation, section.expectations)


def _statement(head: str, attributes: list[str]) -> str:
    if not attributes:
        return head
    line = f"{head}: {', '.join(attributes)}"
    return line if len(line) <= WIDEST else f"{head}:\n    " + ",\n    ".join(attributes)


def _exchange(part: Exchange) -> str:
    attributes = [write_name(part.type, BARE_ATTRIBUTES)]
    if not part.durable:
        attributes.append("transient")
    if part.auto_delete:
        attributes.append("auto-delete")
    if part.internal:
        attributes.append("internal")
    arguments = encode_table(part.arguments)
    alternate = arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        del arguments["alternate-exchange"]
        attributes.append(f"alternate {write_name(alternate)}")
    return _statement(f"exchange {write_name(part.name)}", [*attributes, *_arguments(arguments)])


def _queue(part: Queue) -> str:
    attributes = []
    arguments = encode_table(part.arguments)
    if arguments.get("x-queue-type") in QUEUE_TYPES:
        attributes.append(arguments.pop("x-queue-type"))
    if not part.durable:
        attributes.append("transient")
    if part.auto_delete:
        attributes.append("auto-delete")
    attributes += _arguments(arguments)
    if part.partitioning is not None:
        attributes.append(f"partitioned {_partitioning(str(part.partitioning))}")
    return _statement(f"queue {write_name(part.name)}", attributes)


def _partitioning(text: str) -> str:
    is_plain = text.isprintable() and "#" not in text and not VARIABLE.search(text)
    return text if is_plain else quote(text)


def _policy(part: Policy) -> str:
    attributes = [quote(part.pattern)]
    if part.apply_to not in APPLY_TO:
        attributes.append(f"apply-to {quote(part.apply_to)}")
    elif part.apply_to != "all":
        attributes.append(part.apply_to)
    if part.operator:
        attributes.append("operator")
    if type(part.priority) is not int or part.priority:
        attributes.append(f"priority {json.dumps(part.priority)}")
    return _statement(f"policy {write_name(part.name)}", [*attributes, *_arguments(thaw(part.definition), typed=False)])


def _bindings(bindings: Iterable[Binding]) -> Iterator[str]:
    ends: dict[tuple[str, Any], str] = {}  # cache: many bindings have the same source and destination
    for source, destination, key, arguments in bindings:
        if not source:
            continue  # the broker makes the bindings of the default exchange
        head = ends.get((source, destination))
        if head is None:
            kind = "exchange " if destination.kind == "exchange" else ""
            head = ends[source, destination] = f"{write_name(source)} -> {kind}{write_name(destination.name)}"
        if arguments:
            condition = write_arguments(arguments)
            yield _statement(head, [f"{quote(key)} {condition}" if key else condition])
        else:
            yield f"{head}: {quote(key)}" if key else head


def _expectation(expectation: Expectation) -> str:
    headers = f" with {write_table(expectation.headers)}" if expectation.headers else ""
    queues = ", ".join(map(write_name, expectation.queues))
    outcome = f"-> {queues}" if expectation.relation == "exactly" else f"{expectation.relation} {queues}"
    if not queues:
        outcome = "unroutable"
    return f"expect {write_name(expectation.exchange)} {quote(expectation.routing_key)}{headers} {outcome}"


def _arguments(arguments: Mapping[str, Any], *, typed: bool = True) -> list[str]:
    return [
        f"{write_name(key, BARE_ATTRIBUTES)} = {write_json(value, typed=typed)}" for key, value in arguments.items()
    ]
