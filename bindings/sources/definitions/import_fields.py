"""What RabbitMQ's import refuses: a table with a row for each field of each kind of entry.

The rows are what brokers of 3.10, 4.0 and 4.3 answer ``rabbitmqctl import_definitions`` and ``load_definitions``
(`rabbit_definitions.erl`), with their words.

A row may refuse a value that one of the releases stores as it is, such as a name that is a number: nothing can use it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from exchange.entities.policy_definitions import find_wrong_pattern
from exchange.entities.profile import Profile
from exchange.patterns.pcre import parse_expression
from exchange.text.display import clip_line
from exchange.values.erlang_terms import show_json

ABSENT: Final = object()
"""The value of a field that an entry does not have."""
UNSURE: Final = "RabbitMQ's import may refuse the regular expression"
MAX_QUOTED_CHARACTERS: Final = 60
"""Maximum number of characters of a value in a message."""
DEFAULT_TYPE: Final = "default_queue_type"


class Known(NamedTuple):
    """What entries may refer to: names in the file, and what every new broker has."""

    users: frozenset[str]
    vhosts: frozenset[str]
    default_types: Mapping[str, str]
    """Virtual host -> the type of durable queues that are declared there without x-queue-type."""
    exchanges: frozenset[tuple[object, object]]
    """Virtual host and name of each exchange in the file."""
    queues_again: frozenset[tuple[object, object]]
    """Virtual host and name of each queue that the file has more than once."""
    profile: Profile


Fault = Callable[[Any, Known], str | None]
"""Value of a field -> what is wrong with it; None if the import takes it."""


def show_value(value: Any) -> str:
    """Return the value of a field as messages show it."""
    return "undefined" if value is ABSENT else clip_line(show_json(value), MAX_QUOTED_CHARACTERS)


def _name(value: Any) -> str:
    return repr(value) if isinstance(value, str) else show_value(value)


def _text(value: Any, known: Known) -> str | None:
    return None if isinstance(value, str) else f"{show_value(value)} is no string (function_clause)"


def _may_be(fault: Fault) -> Fault:
    return lambda value, known: None if value is ABSENT else fault(value, known)


def _flag(value: Any, known: Known) -> str | None:
    return None if isinstance(value, bool) else f"{show_value(value)} is neither true nor false (function_clause)"


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
        else f"{show_value(value)} is neither true nor false ({{case_clause,{show_value(value)}}})"
    )


def _object(value: Any, known: Known) -> str | None:
    return None if isinstance(value, dict) else f"{show_value(value)} is no object (function_clause)"


def _arguments(value: Any, known: Known) -> str | None:
    return None if isinstance(value, dict) or value == [] else f"{show_value(value)} is no object (function_clause)"


def _vhost(value: Any, known: Known) -> str | None:
    if isinstance(value, str) and value in known.vhosts:
        return None
    refuses = "RabbitMQ refuses to import the file where there is no such virtual host"
    return f"{_name(value)} is not under vhosts: {refuses} ({{no_such_vhost,{show_value(value)}}})"


def _user(value: Any, known: Known) -> str | None:
    if isinstance(value, str) and value in known.users:
        return None
    refuses = "RabbitMQ refuses to import the file where there is no such user"
    return f"{_name(value)} is not under users: {refuses} ({{no_such_user,{show_value(value)}}})"


def _regex(value: Any, known: Known) -> str | None:
    if not isinstance(value, str):
        return f"{show_value(value)} is no regular expression (badarg)"
    error = find_wrong_pattern(value, known.profile)
    if error:
        return f"{show_value(value)} is no regular expression ({{invalid_regexp,{show_value(value)},{error}}})"
    unknown = parse_expression(value).unknown
    return f"{UNSURE} {show_value(value)}: {unknown}" if unknown else None


def _password_hash(value: Any, known: Known) -> str | None:
    if value in ("", []):
        return None
    with_fault = f"{show_value(value)} is not in base64 ({{not_base64,{show_value(value)}}})"
    if not isinstance(value, str):
        return with_fault
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return with_fault
    return None


def _tags(value: Any, known: Known) -> str | None:
    if value is ABSENT:
        return "a user needs tags (tags_not_present)"
    return (
        None
        if isinstance(value, str | list)
        else f"{show_value(value)} is neither a string nor an array (function_clause)"
    )


def _user_tags(value: Any, known: Known) -> str | None:
    wrong, most = _tags(value, known), known.profile.max_user_tags
    if wrong is not None or most is None:
        return wrong
    number = len([tag for tag in value.split(",") if tag] if isinstance(value, str) else value)
    return f"{number} tags, and a user may have {most} ({{too_many_tags,{most}}})" if number > most else None


def _vhost_tags(value: Any, known: Known) -> str | None:
    if isinstance(value, list) and not all(each is None or isinstance(each, str | int) for each in value):
        return f"{show_value(value)} is no array of strings (case_clause)"
    return None if value is None else _tags(value, known)


def _password(value: Any, known: Known) -> str | None:
    return None if isinstance(value, str) else f"{show_value(value)} is no string (badarg)"


def _limits(*names: str) -> Fault:
    def fault(value: Any, known: Known) -> str | None:
        if not isinstance(value, dict):
            return f"{show_value(value)} is no object (not a list {show_value(value)})"
        for name, limit in value.items():
            if name not in names:
                return f"{name!r} is no limit (Unrecognised terms); there are {', '.join(names)}"
            if isinstance(limit, bool) or not isinstance(limit, int):
                return f"{name} should be a number, actually was {show_value(limit)}"
        return None

    return fault


def _vhost_limits(value: Any, known: Known) -> str | None:
    return None if value == [] else _limits("max-connections", "max-queues")(value, known)


def _metadata(value: Any, known: Known) -> str | None:
    wrong = _object(value, known)
    if wrong is not None or DEFAULT_TYPE not in value:
        return None if known.profile.import_takes_any_metadata and wrong else wrong
    kind, as_none = value[DEFAULT_TYPE], known.profile.values_for_no_default_type
    if as_none is None or kind in ("classic", "quorum", "stream", *as_none):
        return None
    return f"{DEFAULT_TYPE}: {show_value(kind)} is no type of queues ({{error,invalid_queue_type,{show_value(kind)}}})"


def find_wrong_tags(value: Any, known: Known) -> str | None:
    """Return what is wrong with the tags in the metadata of a virtual host, which count if it has no others."""
    return _may_be(_vhost_tags)(value.get("tags", ABSENT), known) if isinstance(value, dict) else None


def _priority(value: Any, known: Known) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return f"priority should be a number, actually was {show_value(value)}"


def _component(value: Any, known: Known) -> str | None:
    if value == "policy":
        return "policies may not be set using this method"
    return None if isinstance(value, str) and value in COMPONENTS else f"component {show_value(value)} not found"


def _operator_policy(value: Any, known: Known) -> str | None:
    if not isinstance(value, dict):
        return f"{show_value(value)} is no object (not a list {show_value(value)})"
    for name in ("definition", "pattern", "priority"):
        if name not in value:
            return f'Key "{name}" not found'
    unknown = [name for name in value if name not in ("definition", "pattern", "priority", "apply-to")]
    return f"{unknown[0]!r} is no field of an operator policy (Unrecognised terms)" if unknown else None


DECLARED: Final[dict[object, str]] = {_vhost: "vhosts", _user: "users"}
"""Check of a reference -> the section that declares what it names."""


class EntryField(NamedTuple):
    """A field of entries of a section."""

    name: str
    fault: Fault


TABLE: Final[Mapping[str, tuple[EntryField, ...]]] = {
    "users": (
        EntryField("name", _text),
        EntryField("password_hash", _may_be(_password_hash)),
        EntryField("password", _may_be(_password)),
        EntryField("tags", _user_tags),
        EntryField("limits", _may_be(_limits("max-connections", "max-channels"))),
    ),
    "vhosts": (
        EntryField("tracing", _may_be(_tracing)),
        EntryField("metadata", _may_be(_metadata)),
        EntryField("tags", _may_be(_vhost_tags)),
    ),
    "permissions": (
        EntryField("user", _user),
        EntryField("vhost", _vhost),
        EntryField("configure", _regex),
        EntryField("write", _regex),
        EntryField("read", _regex),
    ),
    "topic_permissions": (
        EntryField("user", _user),
        EntryField("vhost", _vhost),
        EntryField("exchange", _text),
        EntryField("write", _regex),
        EntryField("read", _regex),
    ),
    "exchanges": (
        EntryField("vhost", _vhost),
        EntryField("durable", _exchange_flag),
        EntryField("arguments", _may_be(_arguments)),
    ),
    "queues": (
        EntryField("vhost", _vhost),
        EntryField("durable", _queue_flag),
        EntryField("auto_delete", _queue_flag),
        EntryField("arguments", _may_be(_arguments)),
    ),
    "bindings": (EntryField("vhost", _vhost), EntryField("arguments", _may_be(_arguments))),
    "policies": (EntryField("vhost", _vhost), EntryField("priority", _may_be(_priority))),
    "global_parameters": (EntryField("name", _text),),
    "parameters": (EntryField("vhost", _vhost), EntryField("component", _component), EntryField("name", _text)),
}
"""Section -> what the import wants of the fields of its entries, in the order in which it reads the sections."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "users": ("name", "password_hash", "password", "hashing_algorithm", "tags", "limits"),
    "vhosts": (
        "name", "description", "tags", "tracing", "metadata", "limits", "default_queue_type", "protected_from_deletion",
        "cluster_state",
    ),
    "permissions": ("user", "vhost", "configure", "write", "read"),
    "topic_permissions": ("user", "vhost", "exchange", "write", "read"),
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("vhost", "name", "type", "durable", "auto_delete", "exclusive", "arguments"),
    "bindings": (
        "vhost", "source", "destination", "destination_type", "routing_key", "arguments", "properties_key",
    ),
    "policies": ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "global_parameters": ("name", "value"),
    "parameters": ("vhost", "component", "name", "value"),
}  # fmt: skip
"""Section -> all fields of its entries that brokers write or read."""

COMPONENTS: Final[Mapping[str, str]] = {
    "operator_policy": "", "vhost-limits": "", "federation-upstream": "rabbitmq_federation",
    "federation-upstream-set": "rabbitmq_federation", "shovel": "rabbitmq_shovel",
}  # fmt: skip
"""Component of a runtime parameter -> the plugin without which a broker refuses it, "" for none."""
VALUES: Final[Mapping[str, Fault]] = {"operator_policy": _operator_policy, "vhost-limits": _vhost_limits}
"""Component -> what the import wants of its values."""
