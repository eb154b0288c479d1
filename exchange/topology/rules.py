"""RabbitMQ's rules for declaring, binding and deleting: what it refuses, with its texts, and what an edit changes.

Each rule reads the tables and returns the changes to make, or raises the error that the broker would answer with.
Texts are those of RabbitMQ's `rabbit_channel.erl`, `rabbit_exchange.erl` and `rabbit_misc.erl`; a live broker is the
oracle of the tests. Permissions, limits and exclusive queues need a server and are not here.

Invariant: a change that a rule returns can be applied: anything that could fail then makes the rule raise instead.
A name or key that no client can send, because it is no AMQP short string, raises `InputError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from exchange.entities.entities import DIRECT_REPLY_TO, Binding, Destination, Exchange, Policy, Queue
from exchange.entities.indexes import Change, Tables
from exchange.entities.policy_definitions import refuse_policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import NO_FLAGS, DeclareFlags, refuse_queue
from exchange.errors import (
    AccessRefused,
    BadRequest,
    BrokerError,
    CommandInvalid,
    InputError,
    NotFound,
    PreconditionFailed,
)
from exchange.kinds import KINDS, Kind, find_kind
from exchange.limits import SHORTSTR_BYTES
from exchange.values.field_values import INTEGER_TYPES, FieldTable, resolve_type, to_bytes

EXCHANGE_ARGUMENTS_COMPARED: Final = ("alternate-exchange",)
"""Arguments of an exchange that a second declaration must repeat."""


class VirtualHost(NamedTuple):
    """The virtual host to which a rule is applied: the broker's texts have its name, the profile selects the rules."""

    vhost: str
    profile: Profile

    def describe(self, kind: str, name: str) -> str:
        """Name an exchange, queue or policy as the broker's texts do."""
        return f"{kind} '{name}' in vhost '{self.vhost}'"

    def describe_lock(self, name: str) -> str:
        """Return the broker's text about a queue that is exclusive to another connection (405, RESOURCE_LOCKED)."""
        return (
            f"cannot obtain exclusive access to locked {self.describe('queue', name)}. It could be originally declared "
            "on another connection or the exclusive property value does not match that of the original declaration."
        )


def declare_exchange(tables: Tables, host: VirtualHost, exchange: Exchange) -> list[Change]:
    """Return the changes of exchange.declare: none if the exchange exists and is equivalent. Raises as the broker."""
    _require(exchange, Exchange)
    kind = KINDS.get(exchange.type)
    if kind is None or not kind.is_known_to(host.profile):
        text = f"unknown exchange type '{exchange.type}'"
        raise PreconditionFailed(text) if host.profile.unknown_type_closes_channel else CommandInvalid(text)
    name = strip_line_ends(_check_short(exchange.name, "the name of an exchange"))
    _check_arguments(exchange.arguments)
    _refuse_default(name)
    what = host.describe("exchange", name)
    existing = tables.exchanges.get(name)
    if existing is not None:
        for attribute in ("type", "durable", "auto_delete", "internal"):
            _require_equal(attribute, getattr(existing, attribute), getattr(exchange, attribute), what)
        _require_equal_arguments(existing.arguments, exchange.arguments, EXCHANGE_ARGUMENTS_COMPARED, what)
        return []
    _refuse_reserved("exchange", name)
    if "alternate-exchange" in exchange.arguments:
        field_type, _ = resolve_type(exchange.arguments["alternate-exchange"])
        if field_type != "longstr":
            raise PreconditionFailed(f"invalid type '{field_type}' for arg 'alternate-exchange' in {what}")
    kind.check_exchange(exchange)
    return [Change(True, _rename(exchange, name))]


def declare_queue(tables: Tables, host: VirtualHost, queue: Queue, flags: DeclareFlags = NO_FLAGS) -> list[Change]:
    """Return the changes of queue.declare, for a queue that has a name, maybe from a server. Raises as the broker."""
    _require(queue, Queue)
    name = strip_line_ends(_check_short(queue.name, "the name of a queue"))
    _check_arguments(queue.arguments)
    what = host.describe("queue", name)
    existing = tables.queues.get(name)
    if existing is not None:
        for attribute in ("durable", "auto_delete"):
            _require_equal(attribute, getattr(existing, attribute), getattr(queue, attribute), what)
        implied = {"x-queue-type": "classic"} if host.profile.queues_have_a_type else {}
        before, after = ({**implied, **declared.arguments} for declared in (existing, queue))
        _require_equal_arguments(before, after, host.profile.settings.arguments(existing.type), what)
        # A partitioning is unknown to the broker, so a declaration may change it.
        if queue.partitioning in (None, existing.partitioning):
            return []
        return [Change(True, replace(existing, partitioning=queue.partitioning))]
    if not name:
        raise PreconditionFailed("a queue without a name gets one from a server, and there is none here")
    if not flags.is_named_by_server:
        _refuse_reserved("queue", name)
    refuse_queue(queue, what, host.profile, flags)
    return [Change(True, _rename(queue, name))]


def bind(tables: Tables, host: VirtualHost, binding: Binding) -> list[Change]:
    """Return the changes of queue.bind or exchange.bind: none if the binding exists. Raises as the broker."""
    _require(binding, Binding)
    _check_short(binding.source, "the name of an exchange")
    _check_short(binding.destination.name, f"the name of a {binding.destination.kind}")
    _check_short(binding.routing_key, "the routing key of a binding")
    _check_arguments(binding.arguments)
    binding = _strip_binding(binding)
    source = require_ends(tables, host, binding)
    find_kind(source).check_binding(source, binding, tables, host.profile)
    return [] if binding in tables.bindings() else [Change(True, binding)]


def find_refused_bindings(tables: Tables, profile: Profile) -> dict[Binding, BrokerError]:
    """Return the bindings that their exchanges do not allow, with what the broker answers, of those with both ends."""
    refused = {}
    for name, source in tables.exchanges.items():
        allows_all = find_kind(source).check_binding.__func__ is Kind.check_binding.__func__  # type: ignore[attr-defined]
        for binding in () if allows_all else tables.bindings_from(name):
            refusal = find_refusal(tables, profile, binding) if tables.exists(binding.destination) else None
            if refusal is not None:
                refused[binding] = refusal
    return refused


def find_refusal(tables: Tables, profile: Profile, binding: Binding) -> BrokerError | None:
    """Return what the broker answers to a binding, whose ends exist, that its exchange does not allow; else None."""
    source = tables.exchanges[binding.source]
    try:
        find_kind(source).check_binding(source, binding, tables, profile)
    except BrokerError as error:
        return error
    return None


def require_ends(tables: Tables, host: VirtualHost, binding: Binding) -> Exchange:
    """Return the source of a binding. Raises NotFound, as the broker, unless its source and destination exist."""
    source = tables.exchanges.get(binding.source)
    if source is None:
        raise NotFound(f"no {host.describe('exchange', binding.source)}")
    if not tables.exists(binding.destination):
        raise NotFound(f"no {host.describe(*binding.destination)}")
    return source


def unbind(tables: Tables, binding: Binding) -> list[Change]:
    """Return the changes of queue.unbind or exchange.unbind: none if there is no such binding. Raises as the broker."""
    _require(binding, Binding)
    binding = _strip_binding(binding)
    return _remove(tables, [binding]) if binding in tables.bindings() else []


def delete_exchange(tables: Tables, host: VirtualHost, name: str, if_unused: bool) -> list[Change]:
    """Return the changes of exchange.delete: none if there is no such exchange. Raises as the broker."""
    _require(name, str)
    name = strip_line_ends(name)
    _refuse_default(name)
    if name.startswith("amq."):
        raise AccessRefused(f"deletion of system {host.describe('exchange', name)} not allowed")
    exchange = tables.exchanges.get(name)
    if exchange is None:
        return []
    if if_unused and tables.bindings_from(name):
        raise PreconditionFailed(f"{host.describe('exchange', name)} in use")
    return _remove(tables, [exchange])


def delete_queue(tables: Tables, name: str) -> list[Change]:
    """Return the changes of queue.delete: none if there is no such queue."""
    _require(name, str)
    queue = tables.queues.get(strip_line_ends(name))
    return [] if queue is None else _remove(tables, [queue])


def set_policy(tables: Tables, host: VirtualHost, policy: Policy) -> list[Change]:
    """Return the change of adding or replacing a policy. Raises as the management API."""
    _require(policy, Policy)
    if not isinstance(policy.name, str):
        raise BadRequest(f"the name of a policy should be a string but was {policy.name!r}")
    _check_arguments(policy.definition)
    refuse_policy(policy, host.profile)
    return [Change(True, policy)]


def clear_policy(tables: Tables, host: VirtualHost, name: str, *, operator: bool = False) -> list[Change]:
    """Return the change of deleting a policy or operator policy. Raises NotFound."""
    policies = tables.operator_policies if operator else tables.policies
    if name not in policies:
        raise NotFound(f"no {host.describe('operator policy' if operator else 'policy', name)}")
    return [Change(False, policies[name])]


def _remove(tables: Tables, parts: list[Exchange | Queue | Binding]) -> list[Change]:
    """Return the changes that remove these parts and what is deleted with them.

    All bindings of a deleted exchange or queue are deleted, and an auto-delete exchange with its last binding.
    """
    removed: dict[Exchange | Queue | Binding, None] = {}
    left: dict[str, int] = {}  # bindings that the exchange still has as their source
    pending = list(parts)
    while pending:
        part = pending.pop()
        if part in removed:
            continue
        removed[part] = None
        if isinstance(part, Binding):
            source = part.source
            left[source] = left.get(source, len(tables.bindings_from(source))) - 1
            exchange = tables.exchanges.get(source)
            if exchange is not None and exchange.auto_delete and not left[source]:
                pending.append(exchange)
        elif isinstance(part, Exchange):
            pending += tables.bindings_from(part.name)
            pending += tables.bindings_to(Destination("exchange", part.name))
        else:
            pending += tables.bindings_to(Destination("queue", part.name))
    return [Change(False, part) for part in removed]


def _strip_binding(binding: Binding) -> Binding:
    """Return the binding with stripped names. Raises AccessRefused if no user may bind these."""
    source, destination = strip_line_ends(binding.source), strip_line_ends(binding.destination.name)
    if binding.destination.kind == "queue" and destination.startswith(DIRECT_REPLY_TO):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    if binding.destination.kind == "exchange":
        _refuse_default(destination)
    _refuse_default(source)
    if source == binding.source and destination == binding.destination.name:
        return binding
    return binding._replace(source=source, destination=binding.destination._replace(name=destination))


def _require(part: object, kind: type) -> None:
    if not isinstance(part, kind):
        raise TypeError(f"{kind.__name__} is wanted, not {type(part).__name__}: {part!r:.60}")


def _check_short(text: str, what: str) -> str:
    """Return the text if it fits in an AMQP short string. Raises InputError."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, not {type(text).__name__}: {text!r:.60}")
    if len(text) * 4 > SHORTSTR_BYTES and len(to_bytes(text)) > SHORTSTR_BYTES:
        raise InputError(f"{what} has {len(to_bytes(text))} bytes; AMQP allows {SHORTSTR_BYTES}: {text[:40]!r}...")
    return text


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that could not be compared or hashed later."""
    if arguments and isinstance(arguments, FieldTable):
        try:
            hash(arguments)
        except RecursionError:
            raise InputError("arguments are nested too deeply") from None


def strip_line_ends(name: str) -> str:
    """Return a name as RabbitMQ stores it: without line ends."""
    return name.replace("\n", "").replace("\r", "")


def _rename(part: Any, name: str) -> Any:
    if part.name == name:
        return part
    return replace(part, name=name)


def _refuse_default(exchange: str) -> None:
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")


def _refuse_reserved(kind: str, name: str) -> None:
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def _require_equal(attribute: str, current: Any, received: Any, what: str) -> None:
    if current != received:
        texts = [str(value).lower() if isinstance(value, bool) else _quote_atom(value) for value in (received, current)]
        raise PreconditionFailed(
            f"inequivalent arg '{attribute}' for {what}: received '{texts[0]}' but current is '{texts[1]}'"
        )


def _require_equal_arguments(
    current: Mapping[str, Any], received: Mapping[str, Any], names: tuple[str, ...], what: str
) -> None:
    for name in names:
        before, after = (resolve_type(table[name]) if name in table else None for table in (current, received))
        if before == after or (name == "x-queue-type" and {before, after} == {None, ("longstr", b"classic")}):
            continue
        if before and after and _type_class(before[0]) == _type_class(after[0]) and before[1] == after[1]:
            continue
        if before and after:
            texts = [f"'{_format_value(value)}'" for _, value in (after, before)]
        else:
            texts = [
                f"the value '{_format_value(value[1])}' of type '{value[0]}'" if value else "none"
                for value in (after, before)
            ]
        raise PreconditionFailed(f"inequivalent arg '{name}' for {what}: received {texts[0]} but current is {texts[1]}")


def _quote_atom(name: str) -> str:
    """Return an exchange type as Erlang prints it: quoted when it is not a plain lower-case word."""
    return name if re.fullmatch("[a-z][A-Za-z0-9_@]*", name) else f"'{name}'"


def _type_class(kind: str) -> str:
    """Return the class of an AMQP type; the broker compares only the values of two types of one class."""
    if kind in INTEGER_TYPES or kind == "decimal":
        return "int"
    return "float" if kind in ("float", "double") else kind


def _format_value(value: Any) -> str:
    """Return a value as `resolve_type` returns it, as text for an error."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).lower() if isinstance(value, bool) else str(value)
