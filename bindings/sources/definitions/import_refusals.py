"""What RabbitMQ's import refuses: a table with a row for each field of each kind of entry.

The rows are what brokers of 3.10, 4.0 and 4.3 answer ``rabbitmqctl import_definitions`` and ``load_definitions``
(`rabbit_definitions.erl`), with their words. One entry that is refused fails the import of the whole file, and what
came before it stays; a node that is to load the file at boot does not start. What the topology of a file shows is left
to the rules of `bindings.check`: arguments of queues, types of exchanges, ends of bindings, settings of policies.

A row may refuse a value that one of the releases stores as it is, such as a name that is a number: nothing can use it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bindings.sources.definitions.entries import Entry
from exchange.display import clip_line
from exchange.entities.entities import PREDECLARED_NAMES, Queue
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import refuse_queue
from exchange.erlang_terms import show_json
from exchange.errors import BrokerError
from exchange.field_values import FieldTable
from exchange.patterns.pcre import expression

__all__ = ["COMPONENTS", "DEFAULT_TYPE", "Refusal", "find_refusals", "find_typed_by_default"]

ABSENT: Final = object()
"""The value of a field that an entry does not have."""
UNSURE: Final = "RabbitMQ's import may refuse the regular expression"
SHOWN: Final = 60
"""Maximum number of characters of a value in a message."""
DEFAULT_TYPE: Final = "default_queue_type"
DEFAULT_USER: Final = "guest"
DEFAULT_VHOST: Final = "/"


class Refusal(NamedTuple):
    """An entry that the import refuses."""

    place: str
    text: str
    """What is wrong, and the broker's words."""
    is_sure: bool = True
    """Whether every broker refuses it; else one that has what the file refers to, and does not declare, takes it."""


class Known(NamedTuple):
    """What entries may refer to: names in the file, and what every new broker has."""

    users: frozenset[str]
    vhosts: frozenset[str]
    default_types: Mapping[str, str]
    """Virtual host -> the type of durable queues that are declared there without x-queue-type."""
    exchanges: frozenset[tuple[object, object]]
    """Virtual host and name of each exchange in the file."""
    profile: Profile


Fault = Callable[[Any, Known], str | None]
"""Value of a field -> what is wrong with it; None if the import takes it."""


def _show(value: Any) -> str:
    return "undefined" if value is ABSENT else clip_line(show_json(value), SHOWN)


def _name(value: Any) -> str:
    return repr(value) if isinstance(value, str) else _show(value)


def _text(value: Any, known: Known) -> str | None:
    return None if isinstance(value, str) else f"{_show(value)} is no string (function_clause)"


def _may_be(fault: Fault) -> Fault:
    return lambda value, known: None if value is ABSENT else fault(value, known)


def _flag(value: Any, known: Known) -> str | None:
    return None if isinstance(value, bool) else f"{_show(value)} is neither true nor false (function_clause)"


def _queue_flag(value: Any, known: Known) -> str | None:
    if value is ABSENT and not known.profile.import_needs_queue_flags:
        return None
    return _flag(value, known)


def _exchange_flag(value: Any, known: Known) -> str | None:
    return None if value is ABSENT and not known.profile.import_needs_durable else _flag(value, known)


def _tracing(value: Any, known: Known) -> str | None:
    return (
        None
        if isinstance(value, bool)
        else f"{_show(value)} is neither true nor false ({{case_clause,{_show(value)}}})"
    )


def _object(value: Any, known: Known) -> str | None:
    return None if isinstance(value, dict) else f"{_show(value)} is no object (function_clause)"


def _arguments(value: Any, known: Known) -> str | None:
    return None if isinstance(value, dict) or value == [] else f"{_show(value)} is no object (function_clause)"


def _vhost(value: Any, known: Known) -> str | None:
    if isinstance(value, str) and value in known.vhosts:
        return None
    refuses = "RabbitMQ refuses to import the file where there is no such virtual host"
    return f"{_name(value)} is not under vhosts: {refuses} ({{no_such_vhost,{_show(value)}}})"


def _user(value: Any, known: Known) -> str | None:
    if isinstance(value, str) and value in known.users:
        return None
    refuses = "RabbitMQ refuses to import the file where there is no such user"
    return f"{_name(value)} is not under users: {refuses} ({{no_such_user,{_show(value)}}})"


def _regex(value: Any, known: Known) -> str | None:
    if not isinstance(value, str):
        return f"{_show(value)} is no regular expression (badarg)"
    error = expression(value).error
    if error:
        return f"{_show(value)} is no regular expression ({{invalid_regexp,{_show(value)},{error}}})"
    unknown = expression(value).unknown
    return f"{UNSURE} {_show(value)}: {unknown}" if unknown else None


def _password_hash(value: Any, known: Known) -> str | None:
    if value in ("", []):
        return None
    with_fault = f"{_show(value)} is not in base64 ({{not_base64,{_show(value)}}})"
    if not isinstance(value, str):
        return with_fault
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return with_fault
    return None


def _algorithm(value: Any, known: Known) -> str | None:
    return None if value is None or isinstance(value, str | bool) or value == [] else _text(value, known)


def _tags(value: Any, known: Known) -> str | None:
    if value is ABSENT:
        return "a user needs tags (tags_not_present)"
    return (
        None if isinstance(value, str | list) else f"{_show(value)} is neither a string nor an array (function_clause)"
    )


def _vhost_tags(value: Any, known: Known) -> str | None:
    if isinstance(value, list) and not all(isinstance(each, str) for each in value):
        return f"{_show(value)} is no array of strings (case_clause)"
    return None if value is None else _tags(value, known)


def _password(value: Any, known: Known) -> str | None:
    return None if isinstance(value, str) else f"{_show(value)} is no string (badarg)"


def _limits(*names: str) -> Fault:
    def fault(value: Any, known: Known) -> str | None:
        if not isinstance(value, dict):
            return f"{_show(value)} is no object (not a list {_show(value)})"
        for name, limit in value.items():
            if name not in names:
                return f"{name!r} is no limit (Unrecognised terms); there are {', '.join(names)}"
            if isinstance(limit, bool) or not isinstance(limit, int):
                return f"{name} should be a number, actually was {_show(limit)}"
        return None

    return fault


def _vhost_limits(value: Any, known: Known) -> str | None:
    return None if value == [] else _limits("max-connections", "max-queues")(value, known)


def _metadata(value: Any, known: Known) -> str | None:
    wrong = _object(value, known)
    if wrong is not None or DEFAULT_TYPE not in value:
        return wrong
    kind = value[DEFAULT_TYPE]
    if kind in ("classic", "quorum", "stream", "undefined"):
        return None
    return f"{DEFAULT_TYPE}: {_show(kind)} is no type of queues ({{error,invalid_queue_type,{_show(kind)}}})"


def _priority(value: Any, known: Known) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return f"priority should be a number, actually was {_show(value)}"


def _component(value: Any, known: Known) -> str | None:
    if value == "policy":
        return "policies may not be set using this method"
    return None if isinstance(value, str) and value in COMPONENTS else f"component {_show(value)} not found"


def _operator_policy(value: Any, known: Known) -> str | None:
    if not isinstance(value, dict):
        return f"{_show(value)} is no object (not a list {_show(value)})"
    for name in ("definition", "pattern", "priority"):
        if name not in value:
            return f'Key "{name}" not found'
    unknown = [name for name in value if name not in ("definition", "pattern", "priority", "apply-to")]
    return f"{unknown[0]!r} is no field of an operator policy (Unrecognised terms)" if unknown else None


DECLARED: Final[dict[object, str]] = {_vhost: "vhosts", _user: "users"}
"""Check of a reference -> the section that declares what it names."""


class Field(NamedTuple):
    """A field of entries of a section."""

    name: str
    fault: Fault


TABLE: Final[Mapping[str, tuple[Field, ...]]] = {
    "users": (
        Field("name", _text),
        Field("password_hash", _may_be(_password_hash)),
        Field("password", _may_be(_password)),
        Field("hashing_algorithm", _may_be(_algorithm)),
        Field("tags", _tags),
        Field("limits", _may_be(_limits("max-connections", "max-channels"))),
    ),
    "vhosts": (
        Field("tracing", _may_be(_tracing)),
        Field("metadata", _may_be(_metadata)),
        Field("tags", _may_be(_vhost_tags)),
    ),
    "permissions": (
        Field("user", _user),
        Field("vhost", _vhost),
        Field("configure", _regex),
        Field("write", _regex),
        Field("read", _regex),
    ),
    "topic_permissions": (
        Field("user", _user),
        Field("vhost", _vhost),
        Field("exchange", _text),
        Field("write", _regex),
        Field("read", _regex),
    ),
    "exchanges": (Field("vhost", _vhost), Field("durable", _exchange_flag), Field("arguments", _may_be(_arguments))),
    "queues": (
        Field("vhost", _vhost),
        Field("durable", _queue_flag),
        Field("auto_delete", _queue_flag),
        Field("arguments", _may_be(_arguments)),
    ),
    "bindings": (Field("vhost", _vhost), Field("arguments", _may_be(_arguments))),
    "policies": (Field("vhost", _vhost), Field("priority", _may_be(_priority))),
    "global_parameters": (Field("name", _text),),
    "parameters": (Field("vhost", _vhost), Field("component", _component), Field("name", _text)),
}
"""Section -> what the import wants of the fields of its entries, in the order in which it reads the sections."""

COMPONENTS: Final[Mapping[str, str]] = {
    "operator_policy": "",
    "vhost-limits": "",
    "federation-upstream": "rabbitmq_federation",
    "federation-upstream-set": "rabbitmq_federation",
    "shovel": "rabbitmq_shovel",
}
"""Component of a runtime parameter -> the plugin without which a broker refuses it, "" for none."""
VALUES: Final[Mapping[str, Fault]] = {
    "operator_policy": _operator_policy,
    "vhost-limits": _vhost_limits,
}
"""Component -> what the import wants of its values."""


def find_refusals(document: Mapping[str, Any], profile: Profile, *, of_one_vhost: str | None) -> Iterator[Refusal]:
    """Yield what a broker that is new, of the profile's release, refuses of the sections of a file.

    ``of_one_vhost`` names the virtual host of an export of one, which only the management API imports: its entries
    have no field "vhost". None for other files.
    """
    known = Known(
        frozenset({DEFAULT_USER, *_names(document, "users")}),
        frozenset({DEFAULT_VHOST, *_names(document, "vhosts"), *([] if of_one_vhost is None else [of_one_vhost])}),
        _default_types(document) if profile.queues_have_a_type else {},
        frozenset((entry.vhost, entry.part.name) for entry in document.get("exchanges", ())),
        profile,
    )
    missing: set[str] = set()
    for section, fields in TABLE.items():
        entries = document.get(section, [])
        if not isinstance(entries, list):
            yield Refusal(section, f"{_show(entries)} is no array: RabbitMQ's import fails (badarg)")
            continue
        if section == "users":
            yield from _find_users_again(entries)
        for index, entry in enumerate(entries):
            if isinstance(entry, Entry) and type(entry.written) is tuple and entry.vhost in known.vhosts:
                continue  # a plain binding: there can be a million
            item = _fields_of(entry)
            if item is None:
                continue
            place = f"{section}[{index}]"
            for name, fault in fields:
                value = item.get(name, ABSENT)
                if name == "vhost" and value is ABSENT and of_one_vhost is not None:
                    continue
                wrong = fault(value, known)
                declared = DECLARED.get(fault)
                if wrong is None or (declared is not None and wrong in missing):
                    continue
                if declared is not None:  # named once
                    missing.add(wrong)
                is_sure = declared is None or declared in document or value is ABSENT
                yield Refusal(f"{place}.{name}", wrong, is_sure and not wrong.startswith(UNSURE))
            for more in MORE.get(section, ()):
                yield from more(entry, item, place, known)
    if not profile.import_skips_bindings:
        yield from _find_default_bindings(document)


def _find_default_bindings(document: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield the bindings from the default exchange, which no topology holds, to queues that do not exist."""
    queues = {(entry.vhost, entry.part.name) for entry in document.get("queues", ())}
    for index, (part, vhost, _) in enumerate(document.get("bindings", ())):
        if not part.source and part.destination.kind == "queue" and (vhost, part.destination.name) not in queues:
            text = f"{part.destination} does not exist (resources_missing)"
            yield Refusal(f"bindings[{index}].destination", text)


def _find_users_again(entries: list[Any]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name in seen:
            yield Refusal(f"users[{index}]", f"{name!r} is here again ({{user_already_exists,{_show(name)}}})")
        elif isinstance(name, str):
            seen.add(name)


def _find_in_user(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    if "password" in item and "password_hash" in item:
        yield Refusal(place, "a user has one of both (both_password_and_password_hash_are_provided)")


def _find_in_parameter(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    component, value = item.get("component"), item.get("value", ABSENT)
    fault = VALUES.get(component) if isinstance(component, str) else None
    wrong = None if fault is None else fault(value, known)
    if wrong is not None:
        yield Refusal(f"{place}.value", wrong)
    if component == "vhost-limits" and item.get("name") != "limits":
        yield Refusal(f"{place}.name", f"{_show(item.get('name', ABSENT))} is not 'limits' (function_clause)")


def _find_in_topic_permission(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    name = item.get("exchange")
    if not known.profile.import_checks_topic_exchanges or not isinstance(name, str) or name in PREDECLARED_NAMES:
        return
    if (item.get("vhost"), name) not in known.exchanges:
        yield Refusal(f"{place}.exchange", f"{_show(name)} is not under exchanges ({{no_such_exchange,{_show(name)}}})")


def _find_in_queue(entry: Any, item: Mapping[str, Any], place: str, known: Known) -> Iterator[Refusal]:
    """Yield what the broker refuses of a queue that gets the default type of its virtual host."""
    queue = _typed_by_default(entry, known.default_types)
    if queue is not None:
        try:
            refuse_queue(queue, f"queue '{queue.name}' in vhost '{entry.vhost}'", known.profile)
        except BrokerError as error:
            yield Refusal(place, f"a queue here is a {queue.type} queue by default: {error}")


More = Callable[[Any, Mapping[str, Any], str, Known], Iterator[Refusal]]
MORE: Final[Mapping[str, tuple[More, ...]]] = {
    "users": (_find_in_user,),
    "parameters": (_find_in_parameter,),
    "topic_permissions": (_find_in_topic_permission,),
    "queues": (_find_in_queue,),
}
"""Section -> what depends on more than one field of an entry."""


def _typed_by_default(entry: Entry, default_types: Mapping[str, str]) -> Queue | None:
    """Return the queue that a broker makes of an entry by the default type; None if that is as the entry says."""
    queue: Queue = entry.part
    kind = default_types.get(entry.vhost or "")
    if kind is None or not queue.durable or queue.auto_delete or "x-queue-type" in queue.arguments:
        return None
    return replace(queue, arguments=FieldTable({**queue.arguments, "x-queue-type": kind}))


def find_typed_by_default(document: Mapping[str, Any], profile: Profile) -> Iterator[tuple[int, str, Queue]]:
    """Yield index, virtual host and queue of each entry that the broker gives the default type of its virtual host."""
    default_types = _default_types(document) if profile.queues_have_a_type else {}
    for index, entry in enumerate(document.get("queues", ()) if default_types else ()):
        queue = _typed_by_default(entry, default_types)
        if queue is not None:
            yield index, entry.vhost, queue


def _default_types(document: Mapping[str, Any]) -> dict[str, str]:
    """Return virtual host -> the type that its metadata names, which is all that an import looks at."""
    found: dict[str, str] = {}
    for vhost in document.get("vhosts", ()):
        metadata = vhost.get("metadata")
        kind = metadata.get(DEFAULT_TYPE) if isinstance(metadata, dict) else None
        if kind in ("quorum", "stream"):
            found[vhost["name"]] = kind
    return found


def _fields_of(entry: Any) -> Mapping[str, Any] | None:
    """Return the fields of an entry, of a plain binding only its virtual host; None for what is no object."""
    if isinstance(entry, Entry):
        if isinstance(entry.written, dict):
            return entry.written
        return {} if entry.vhost is None else {"vhost": entry.vhost}
    return entry if isinstance(entry, dict) else None


def _names(document: Mapping[str, Any], section: str) -> Iterator[str]:
    entries = document.get(section)
    for item in entries if isinstance(entries, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"]
