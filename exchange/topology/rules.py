"""RabbitMQ's rules for declaring, binding and deleting: what it refuses, in its words, and what follows from what.

Each rule reads the tables and answers with the changes to make, or raises the error the broker would answer with.
Texts are those of RabbitMQ's `rabbit_channel.erl`, `rabbit_exchange.erl` and `rabbit_misc.erl`; a live broker is the
oracle of the tests. Permissions, limits and exclusive queues need a server and are not here.

A rule raises for everything that applying its changes could fail on later: a change that a rule returns can be made.
What a client cannot even send, a name or key that is no AMQP short string, is an `InputError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.indexes import Change, Tables
from exchange.entities.policy_definitions import refuse_policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import refuse_queue
from exchange.errors import AccessRefused, BadRequest, CommandInvalid, InputError, NotFound, PreconditionFailed
from exchange.field_values import FieldTable, to_bytes, type_and_value
from exchange.kinds import KINDS, kind_of
from exchange.limits import SHORTSTR_BYTES

__all__ = [
    "Place",
    "bind",
    "clear_policy",
    "declare_exchange",
    "declare_queue",
    "delete_exchange",
    "delete_queue",
    "set_policy",
    "unbind",
]

QUEUE_ARGUMENTS_COMPARED: Final = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
    "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
    "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-max-age",
    "x-stream-max-segment-size-bytes", "x-initial-cluster-size", "x-queue-leader-locator",
)  # fmt: skip
"""The arguments of a queue that a second declaration must repeat; of an exchange, only its alternate-exchange."""


class Place(NamedTuple):
    """Where a rule is asked: the virtual host is part of the broker's texts, the profile of its rules."""

    vhost: str
    profile: Profile

    def named(self, kind: str, name: str) -> str:
        """A thing as the broker's messages call it."""
        return f"{kind} '{name}' in vhost '{self.vhost}'"


def declare_exchange(tables: Tables, place: Place, exchange: Exchange) -> list[Change]:
    """exchange.declare."""
    _require(exchange, Exchange)
    kind = KINDS.get(exchange.type)
    if kind is None or not kind.known_to(place.profile):
        text = f"unknown exchange type '{exchange.type}'"
        raise CommandInvalid(text) if place.profile.unknown_type_closes_connection else PreconditionFailed(text)
    name = _stripped(_short(exchange.name, "the name of an exchange"))
    _check_arguments(exchange.arguments)
    _refuse_default(name)
    what = place.named("exchange", name)
    existing = tables.exchanges.get(name)
    if existing is not None:
        for attribute in ("type", "durable", "auto_delete", "internal"):
            _require_equal(attribute, getattr(existing, attribute), getattr(exchange, attribute), what)
        _require_equal_arguments(existing.arguments, exchange.arguments, ("alternate-exchange",), what)
        return []
    _refuse_reserved("exchange", name)
    if "alternate-exchange" in exchange.arguments:
        field_type, _ = type_and_value(exchange.arguments["alternate-exchange"])
        if field_type != "longstr":
            raise PreconditionFailed(f"invalid type '{field_type}' for arg 'alternate-exchange' in {what}")
    kind.check_exchange(exchange)
    return [Change(True, _renamed(exchange, name))]


def declare_queue(tables: Tables, place: Place, queue: Queue) -> list[Change]:
    """queue.declare, of a queue with a name."""
    _require(queue, Queue)
    name = _stripped(_short(queue.name, "the name of a queue"))
    _check_arguments(queue.arguments)
    what = place.named("queue", name)
    existing = tables.queues.get(name)
    if existing is not None:
        for attribute in ("durable", "auto_delete"):
            _require_equal(attribute, getattr(existing, attribute), getattr(queue, attribute), what)
        implied = {"x-queue-type": "classic"} if place.profile.queues_have_a_type else {}
        before, after = ({**implied, **declared.arguments} for declared in (existing, queue))
        _require_equal_arguments(before, after, QUEUE_ARGUMENTS_COMPARED, what)
        # Partitions are no broker's business: it has no objection to new ones.
        if queue.partitioning in (None, existing.partitioning):
            return []
        return [Change(True, replace(existing, partitioning=queue.partitioning))]
    if not name:
        raise PreconditionFailed("a queue without a name gets one from a server, and there is none here")
    _refuse_reserved("queue", name)
    refuse_queue(queue, what, place.profile)
    return [Change(True, _renamed(queue, name))]


def bind(tables: Tables, place: Place, binding: Binding) -> list[Change]:
    """queue.bind and exchange.bind."""
    _require(binding, Binding)
    _short(binding.source, "the name of an exchange")
    _short(binding.destination.name, f"the name of a {binding.destination.kind}")
    _short(binding.routing_key, "the routing key of a binding")
    _check_arguments(binding.arguments)
    binding = _checked(binding)
    source = tables.exchanges.get(binding.source)
    if source is None:
        raise NotFound(f"no {place.named('exchange', binding.source)}")
    if not tables.exists(binding.destination):
        raise NotFound(f"no {place.named(*binding.destination)}")
    kind_of(source).check_binding(source, binding, tables, place.profile)
    return [] if binding in tables.bindings() else [Change(True, binding)]


def unbind(tables: Tables, binding: Binding) -> list[Change]:
    """queue.unbind and exchange.unbind; of a binding that is not there as of one that is."""
    _require(binding, Binding)
    binding = _checked(binding)
    return _without(tables, [binding]) if binding in tables.bindings() else []


def delete_exchange(tables: Tables, place: Place, name: str, if_unused: bool) -> list[Change]:
    """exchange.delete; of an exchange that is not there too."""
    _require(name, str)
    name = _stripped(name)
    _refuse_default(name)
    if name.startswith("amq."):
        raise AccessRefused(f"deletion of system {place.named('exchange', name)} not allowed")
    exchange = tables.exchanges.get(name)
    if exchange is None:
        return []
    if if_unused and tables.bindings_from(name):
        raise PreconditionFailed(f"{place.named('exchange', name)} in use")
    return _without(tables, [exchange])


def delete_queue(tables: Tables, name: str) -> list[Change]:
    """queue.delete; of a queue that is not there too."""
    _require(name, str)
    queue = tables.queues.get(_stripped(name))
    return [] if queue is None else _without(tables, [queue])


def set_policy(tables: Tables, place: Place, policy: Policy) -> list[Change]:
    """Set a policy, as the management API does."""
    _require(policy, Policy)
    if not isinstance(policy.name, str):
        raise BadRequest(f"the name of a policy should be a string but was {policy.name!r}")
    _check_arguments(policy.definition)
    refuse_policy(policy, place.profile)
    return [Change(True, policy)]


def clear_policy(tables: Tables, place: Place, name: str) -> list[Change]:
    """Delete a policy."""
    if name not in tables.policies:
        raise NotFound(f"no {place.named('policy', name)}")
    return [Change(False, tables.policies[name])]


def _without(tables: Tables, parts: list[Exchange | Queue | Binding]) -> list[Change]:
    """The removal of these parts and of what goes with them.

    With an exchange or a queue go its bindings; with the last binding from an auto-delete exchange goes the exchange.
    """
    removed: dict[Exchange | Queue | Binding, None] = {}
    left: dict[str, int] = {}
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


def _checked(binding: Binding) -> Binding:
    source, destination = _stripped(binding.source), _stripped(binding.destination.name)
    if binding.destination.kind == "queue" and destination.startswith("amq.rabbitmq.reply-to"):
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


def _short(text: str, what: str) -> str:
    """A text that fits in an AMQP short string."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, not {type(text).__name__}: {text!r:.60}")
    if len(text) * 4 > SHORTSTR_BYTES and len(to_bytes(text)) > SHORTSTR_BYTES:
        raise InputError(f"{what} has {len(to_bytes(text))} bytes; AMQP allows {SHORTSTR_BYTES}: {text[:40]!r}...")
    return text


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise what comparing or hashing the table would raise: its values are no field values."""
    if arguments and isinstance(arguments, FieldTable):
        try:
            hash(arguments)
        except RecursionError:
            raise InputError("arguments are nested too deeply") from None


def _stripped(name: str) -> str:
    return name.replace("\n", "").replace("\r", "")


def _renamed(part: Any, name: str) -> Any:
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
        shown = [str(value).lower() if isinstance(value, bool) else _atom(value) for value in (received, current)]
        raise PreconditionFailed(
            f"inequivalent arg '{attribute}' for {what}: received '{shown[0]}' but current is '{shown[1]}'"
        )


def _require_equal_arguments(
    current: Mapping[str, Any], received: Mapping[str, Any], names: tuple[str, ...], what: str
) -> None:
    for name in names:
        before, after = (type_and_value(table[name]) if name in table else None for table in (current, received))
        if before == after or (name == "x-queue-type" and {before, after} == {None, ("longstr", b"classic")}):
            continue
        if before and after and _type_class(before[0]) == _type_class(after[0]) and before[1] == after[1]:
            continue
        if before and after:
            shown = [f"'{_shown(value)}'" for _, value in (after, before)]
        else:
            shown = [
                f"the value '{_shown(value[1])}' of type '{value[0]}'" if value else "none" for value in (after, before)
            ]
        raise PreconditionFailed(f"inequivalent arg '{name}' for {what}: received {shown[0]} but current is {shown[1]}")


def _atom(name: str) -> str:
    """An exchange type as Erlang prints it: quoted when it is not a plain lower-case word."""
    return name if re.fullmatch("[a-z][A-Za-z0-9_@]*", name) else f"'{name}'"


def _type_class(kind: str) -> str:
    if kind in ("byte", "short", "signedint", "long", "decimal", "unsignedbyte", "unsignedshort", "unsignedint"):
        return "int"
    return "float" if kind in ("float", "double") else kind


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).lower() if isinstance(value, bool) else str(value)
