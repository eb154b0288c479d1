"""What RabbitMQ's import would skip, refuse or interpret differently, and what routing cannot follow.

Invariant: each warning names its position in the file and changes nothing: the part that it is about was loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bindings.sources.definitions.entries import ENCODE, SECTIONS, Entry
from bindings.sources.definitions.extensions import KEY
from bindings.sources.definitions.import_fields import COMPONENTS, FIELDS
from bindings.sources.definitions.import_refusals import (
    CHANCE,
    find_refusals,
    find_typed_by_default,
    find_unknown_fields,
)
from exchange.entities.entities import OWN_NAMES, PREDECLARED, PREDECLARED_NAMES, Binding, Exchange, Policy
from exchange.entities.part import Part
from exchange.entities.profile import Profile
from exchange.entities.unread import UnreadPart
from exchange.kinds import UnknownExchange, can_delay, find_kind
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pcre import parse_expression
from exchange.text.display import clip_line, list_some, suggest
from exchange.values.field_json import encode_table
from exchange.values.field_values import to_bytes

PATTERN_SHOWN: Final = 80
"""Maximum number of characters of a pattern in a message."""
APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
AGAIN: Final = {
    "exchanges": "the first counts",
    "queues": "the first counts",
    "policies": "the last counts",
    "bindings": "it counts once",
}

ONE_VHOST: Final = (
    "entries without a virtual host, as in an export of one: the management API imports them into a virtual host; "
    "rabbitmqctl import_definitions and load_definitions refuse the file"
)
AT_BOOT: Final = "a node of 4.0 or later that loads the file at boot (load_definitions) has none, and does not start"
SIDE_BY_SIDE: Final = ("exchanges", "queues")
"""Sections whose entries the import handles at the same time."""

UNREAD: Final = ("users", "permissions", "topic_permissions", "parameters", "global_parameters")
"""Sections that are no part of a topology: arrays of objects, which are kept as they are."""
FIELDS_SHOWN: Final = 5
"""Maximum number of fields that a message names."""
COMMENTS: Final = ("_", "$", "/", "#")
"""First characters of keys that people write comments in."""
NAME_SHOWN: Final = 40
"""Maximum number of characters of a name in a message about its length."""

FILE_ONLY: Final = "HS901"
"""The code of warnings about what only the file shows, and the topology read from it does not."""
NOT_READ: Final = "HS902"
"""The code of warnings about parts of the file that were not read, so that they are missing in the topology."""
OTHERS: Final = frozenset({
    "rabbit_version", "rabbitmq_version", "product_name", "product_version", "rabbitmq_definition_format",
    "original_cluster_name", "original_vhost_name", "explanation", "metadata", "default_queue_type", "description",
    "tags", "tracing", "limits", "name", "vhosts", "operator_policies",
    *UNREAD, *SECTIONS, KEY,
})  # fmt: skip
"""Keys of definitions that RabbitMQ writes, or that `bindings.sources.definitions` reads."""
REFUSED: Final = "HS903"
"""The code of warnings about what RabbitMQ's import refuses, and with it the file."""
OTHERWISE: Final = "HS904"
"""The code of warnings about what the import leaves out or changes, or refuses unless the broker has it already."""
FILE_CODES: Final = (FILE_ONLY, REFUSED, OTHERWISE)


class SourceWarning(NamedTuple):
    """A warning about a source that was read nevertheless."""

    text: str
    """The whole warning, with its position: ``queues[3].arguments.x is null, ...`` or ``line 4: ...``."""
    code: str = FILE_ONLY
    """The rule of `bindings.check` that covers it."""
    line: int | None = None
    """The line in a .bindings file, from 1."""
    vhost: str | None = None
    part: Part | None = None
    """The part that the warning is about, in virtual host ``vhost``; None for the file."""
    unread: UnreadPart | None = None
    """What is missing in the topology because of it; None for a warning about what was read."""

    @classmethod
    def of_unread(cls, unread: UnreadPart, line: int | None = None) -> SourceWarning:
        """Return the warning about a part that was not read."""
        return cls(str(unread), NOT_READ, line, unread=unread)

    def __str__(self) -> str:
        return self.text


def find_unread(warnings: Iterable[SourceWarning]) -> tuple[UnreadPart, ...]:
    """Return what is missing in the topology of a source with these warnings."""
    return tuple(each.unread for each in warnings if each.unread is not None)


def find_definitions_warnings(sections: Mapping[str, Sequence[Entry]], default_vhost: str) -> Iterator[SourceWarning]:
    """Yield the warnings about all entries of definitions, section by section."""
    for key, entries in sections.items():
        seen: dict[tuple[str, Any], Part] = {}
        for index, entry in enumerate(entries):
            place = f"{key}[{index}]"
            part = entry.part
            vhost = default_vhost if entry.vhost is None else entry.vhost
            identity = (vhost, part if key == "bindings" else part.name)
            if identity in seen:
                chance = key in SIDE_BY_SIDE and seen[identity] != part
                text = f"{place}: {describe(part)} is here again; {CHANCE if chance else AGAIN[key]}"
                yield SourceWarning(text, OTHERWISE if chance else FILE_ONLY)
            seen.setdefault(identity, part)
            for code, text in _argument_texts_of(entry):
                yield SourceWarning(f"{place}{text}", code)
            for code, text in find_part_warnings(part):
                yield SourceWarning(f"{place}{text}", code, vhost=vhost, part=part)


def find_section_warnings(document: Mapping[str, Any]) -> Iterator[SourceWarning]:
    """Yield the warnings about what RabbitMQ's import leaves out in sections that are no part of a topology."""
    for key in UNREAD:
        section = document.get(key, [])
        for index, item in enumerate(section if isinstance(section, list) else ()):
            if not isinstance(item, dict):
                shown = clip_line(ENCODE(item), PATTERN_SHOWN)
                text = f"{key}[{index}]: {shown} is not an object: RabbitMQ's import leaves it out"
                yield SourceWarning(text, OTHERWISE)
            elif key == "parameters" and (plugin := COMPONENTS.get(str(item.get("component")), "")):
                yield SourceWarning(f"{key}[{index}]: a broker without the plugin {plugin} refuses the file")
    if document.get("operator_policies"):
        text = "operator_policies: RabbitMQ's import leaves this section out: operator policies are under parameters"
        yield SourceWarning(text, OTHERWISE)
    yield from _unknown_fields(document)
    yield from find_unknown_sections(document)


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[SourceWarning]:
    """Yield a warning for each field that looks misspelt, and one for each section with its other unknown ones."""
    others: dict[str, list[str]] = {}
    for section, name, index in find_unknown_fields(document):
        near = suggest(name, FIELDS[section])
        if near:
            text = f"{section}[{index}].{clip_line(name, NAME_SHOWN)}: RabbitMQ's import leaves this field out{near}"
            yield SourceWarning(text, OTHERWISE)
        elif name and not name.startswith(COMMENTS):
            others.setdefault(section, []).append(clip_line(ENCODE(name), NAME_SHOWN))
    for section, names in others.items():
        yield SourceWarning(f"{section}: RabbitMQ's import leaves these fields out: {list_some(names, FIELDS_SHOWN)}")


def find_unknown_sections(document: Mapping[str, Any]) -> Iterator[SourceWarning]:
    """Yield a warning for each section that is not known, and so not read."""
    for key, value in document.items():
        # Texts and numbers, and comments, hold no parts.
        if key not in OTHERS and isinstance(value, dict | list) and value and not key.startswith(COMMENTS):
            near = suggest(key, SECTIONS, or_list=True)
            text = f"there is no section {clip_line(ENCODE(key), NAME_SHOWN)} in definitions{near}"
            yield SourceWarning.of_unread(UnreadPart("unknown", clip_line(key, NAME_SHOWN), text))


def find_refusal_warnings(
    document: Mapping[str, Any], profile: Profile, *, of_one_vhost: str | None
) -> Iterator[SourceWarning]:
    """Yield the warnings about entries that RabbitMQ's import refuses, and with them the file."""
    for place, text, is_sure in find_refusals(document, profile, of_one_vhost=of_one_vhost):
        code = FILE_ONLY if is_sure is None else REFUSED if is_sure else OTHERWISE
        yield SourceWarning(f"{place}: {text}", code)


def find_boot_warnings(document: Mapping[str, Any], *, of_one_vhost: str | None) -> Iterator[SourceWarning]:
    """Yield the warnings about a file that one way of importing accepts and another refuses."""
    if of_one_vhost is not None:
        yield SourceWarning(ONE_VHOST)
    vhosts = document.get("vhosts", [])
    used = {entry.vhost for key in ("exchanges", "queues", "policies") for entry in document.get(key, ())}
    if "vhosts" in document and "/" in used and not any(vhost["name"] == "/" for vhost in vhosts):
        yield SourceWarning(f"vhosts: '/' is not there: {AT_BOOT}")


def find_default_type_warnings(document: Mapping[str, Any], profile: Profile) -> Iterator[SourceWarning]:
    """Yield the warnings about queues that get another type by the default of their virtual host."""
    for index, vhost, queue in find_typed_by_default(document, profile):
        text = f"queue {queue.name!r} names no type and becomes a {queue.type} queue, as is the default of {vhost!r}"
        yield SourceWarning(f"queues[{index}]: {text}", OTHERWISE)


def find_argument_warnings(sections: Mapping[str, Sequence[Entry]]) -> Iterator[SourceWarning]:
    """Yield a warning for each argument that RabbitMQ's import refuses or reads as another type."""
    for key, entries in sections.items():
        for index, entry in enumerate(entries):
            for code, text in _argument_texts_of(entry):
                yield SourceWarning(f"{key}[{index}]{text}", code)


def describe(part: Part) -> str:
    """Return a part as warnings name it."""
    if isinstance(part, Binding):
        return f"the binding from {part.source!r} to {part.destination} with the key {part.routing_key!r}"
    return f"{type(part).__name__.lower()} {part.name!r}"


def find_part_warnings(part: Part) -> Iterator[tuple[str, str]]:
    """Yield the warnings about one part: the code of the rule that covers each, and the text after the position."""
    yield from _name_warnings(part)
    if isinstance(part, Policy):
        yield from _policy_warnings(part)
        return
    if isinstance(part, Binding):
        if not part.source and part != Binding.to_queue("", part.destination.name, part.destination.name):
            yield FILE_ONLY, f": {describe(part)} cannot exist in RabbitMQ and is left out"
        return
    if isinstance(part, Exchange) and part.name in PREDECLARED_NAMES:
        if part not in PREDECLARED:
            text = f"{describe(part)} is predeclared with other attributes"
            yield FILE_ONLY, f": skipped by RabbitMQ's import and left out: {text}"
    elif part.name.startswith("amq.") and part.name not in OWN_NAMES:
        code = "HS602" if isinstance(part, Exchange) else OTHERWISE  # no rule finds it: brokers name queues so
        yield code, f": skipped by RabbitMQ's import, as all names with amq. are; {describe(part)} counts here"
    if isinstance(part, Exchange) and find_kind(part) is UnknownExchange:
        unknown = "whose x-delayed-type is missing or unknown here" if can_delay(part) else "which is unknown here"
        text = f": {describe(part)} is of type {part.type!r}, {unknown}: routes through it stay undecided"
        yield "HS601", text


def _name_warnings(part: Part) -> Iterator[tuple[str, str]]:
    if isinstance(part, Binding | Policy):
        return
    size = len(to_bytes(part.name))
    if size > SHORTSTR_BYTES:
        kind, shown = type(part).__name__.lower(), clip_line(part.name, NAME_SHOWN)
        yield "HS405", f".name: {kind} '{shown}' has a name of {size:,} bytes, AMQP allows {SHORTSTR_BYTES}"


def _policy_warnings(policy: Policy) -> Iterator[tuple[str, str]]:
    if policy.apply_to not in APPLY_TO:
        known = ", ".join(map(repr, APPLY_TO))
        yield "HS705", f".apply-to: {policy.apply_to!r} is unknown: RabbitMQ's import refuses it; there are {known}"
    compiled = parse_expression(policy.pattern)
    pattern = f"'{clip_line(policy.pattern, PATTERN_SHOWN)}'"
    if compiled.error:
        yield "HS701", f".pattern: {pattern} is refused by RabbitMQ and applies to nothing: {compiled.error}"
    elif compiled.unknown:
        yield "HS706", f".pattern: {pattern} is not understood here, routes may stay undecided: {compiled.unknown}"


def find_argument_texts(part: Part) -> Iterator[str]:
    """Yield the texts, after the position, about arguments of a part that RabbitMQ's import cannot read."""
    if not isinstance(part, Policy) and part.arguments:
        yield from (text for _, text in _argument_texts(encode_table(part.arguments), ".arguments"))


def _argument_texts_of(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the texts about the arguments of an entry as they are written."""
    if not isinstance(entry.part, Policy) and (entry.part.arguments or isinstance(entry.written, dict)):
        yield from _argument_texts(entry.object().get("arguments") or {}, ".arguments")


def _argument_texts(value: Any, place: str, *, table: bool = True) -> Iterator[tuple[str, str]]:
    if value is None:
        yield REFUSED, f"{place} is null, which RabbitMQ's import refuses (null_not_allowed); it is a void here"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _argument_texts(item, f"{place}[{index}]", table=False)
    elif isinstance(value, dict):
        if not table and len(value) == 1 and next(iter(value)).startswith("!"):
            yield FILE_ONLY, f"{place} is {ENCODE(value)}: a typed value here, a table for RabbitMQ's import"
            return
        for key, item in value.items():
            yield from _argument_texts(item, f"{place}.{key}", table=False)
