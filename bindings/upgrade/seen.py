"""Where facts about releases are seen in a topology: one function for each fact, which yields the parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.in_force import Policies, Settings
from exchange.entities.profile import Profile
from exchange.erlang_terms import encode_binary
from exchange.field_values import INTEGER_TYPES, type_and_value
from exchange.kinds import Decider, KeyUse, kind_of
from exchange.kinds.headers import conditions_of
from exchange.lifecycle.release import RELEASES
from exchange.topology.topology import Topology

__all__ = [
    "Crossing", "Part", "Seen", "bindings_with_numbers", "bindings_with_timestamps", "dead_lettering_queues",
    "everywhere", "lazy_queues", "mirrored_queues", "queues_of_version_1", "queues_without_consumer_timeout",
    "quorum_queues_that_dead_letter", "quorum_queues_that_drop", "quorum_queues_with_a_limit",
    "rings_in_another_order", "transient_queues",
]  # fmt: skip

NUMBERS: Final = INTEGER_TYPES | {"float", "double"}

Part: TypeAlias = Exchange | Queue | Binding | Policy
Seen: TypeAlias = tuple[Part | None, str]
"""A part of the topology, None for the whole broker, and what distinguishes it, "" for nothing."""


@dataclass(frozen=True)
class Crossing:
    """A topology under the profile of the old release, and the profile of the new one."""

    before: Topology
    new: Profile

    @cached_property
    def after(self) -> Topology:
        """The topology under the profile of the new release."""
        return self.before.with_profile(self.new)

    @cached_property
    def in_force(self) -> list[tuple[Queue, tuple[Settings, ...], tuple[Settings, ...]]]:
        """Each queue with the settings that may be in force in it, in the old release and in the new one."""
        old, new = self.before.policies_in_force(), self.after.policies_in_force()
        return [(q, old.possible_settings(q), new.possible_settings(q)) for q in self.before.queues.values()]


def everywhere(crossing: Crossing) -> Iterator[Seen]:
    """Yield the broker: no topology shows whether the fact matters."""
    yield None, ""


def transient_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that are not durable; the exclusive ones are not part of a topology."""
    yield from ((queue, "") for queue in crossing.before.queues.values() if not queue.durable)


def mirrored_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the classic queues with an ha-mode in force in the old release."""
    for queue, old, _ in crossing.in_force:
        mode = {settings.text("ha-mode") for settings in old} - {None}
        if queue.type == "classic" and mode:
            yield queue, ""


def quorum_queues_that_drop(crossing: Crossing) -> Iterator[Seen]:
    """Yield the quorum queues without a delivery limit that certainly have no dead letter exchange."""
    for queue, new in _without_delivery_limit(crossing):
        if not _may_dead_letter(queue, new):
            yield queue, ""


def quorum_queues_that_dead_letter(crossing: Crossing) -> Iterator[Seen]:
    """Yield the quorum queues without a delivery limit that have, or may have, a dead letter exchange."""
    for queue, new in _without_delivery_limit(crossing):
        if _may_dead_letter(queue, new):
            yield queue, ""


def quorum_queues_with_a_limit(crossing: Crossing) -> Iterator[Seen]:
    """Yield the quorum queues in which a delivery limit is in force, the default one included."""
    default = RELEASES[crossing.before.profile.lives].delivery_limit
    for queue, old, _ in crossing.in_force:
        given = [settings.integer("delivery-limit") for settings in old]
        limits = [default if limit is None else limit for limit in given]
        if queue.type == "quorum" and all(limit is not None and limit >= 0 for limit in limits):
            yield queue, ""


def _without_delivery_limit(crossing: Crossing) -> Iterator[tuple[Queue, tuple[Settings, ...]]]:
    for queue, _, new in crossing.in_force:
        if queue.type == "quorum" and all(settings.integer("delivery-limit") is None for settings in new):
            yield queue, new


def _may_dead_letter(queue: Queue, possible: tuple[Settings, ...]) -> bool:
    return any(Policies.dead_letters_by(settings, queue.type).exchange is not None for settings in possible)


def lazy_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the classic queues with lazy mode in force."""
    for queue, old, _ in crossing.in_force:
        if queue.type == "classic" and any(settings.text("queue-mode") == "lazy" for settings in old):
            yield queue, ""


def queues_of_version_1(crossing: Crossing) -> Iterator[Seen]:
    """Yield the durable classic queues for which nothing sets version 2."""
    for queue, old, _ in crossing.in_force:
        if queue.type == "classic" and queue.durable and any(s.integer("queue-version") != 2 for s in old):
            yield queue, ""


def queues_without_consumer_timeout(crossing: Crossing) -> Iterator[Seen]:
    """Yield the classic queues and streams with a consumer timeout in force in the old release."""
    for queue, old, _ in crossing.in_force:
        if queue.type != "quorum" and any(settings.integer("consumer-timeout") is not None for settings in old):
            yield queue, ""


def dead_lettering_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that dead-letter messages."""
    for queue, _, new in crossing.in_force:
        if _may_dead_letter(queue, new):
            yield queue, ""


def bindings_with_numbers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that want an integer or a whole number as a float."""
    for binding, wanted in _headers_bindings(crossing):
        if any(kind in NUMBERS and value == value // 1 for kind, value in wanted):
            yield binding, ""


def bindings_with_timestamps(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that want a timestamp."""
    for binding, wanted in _headers_bindings(crossing):
        if any(kind == "timestamp" for kind, _ in wanted):
            yield binding, ""


def _headers_bindings(crossing: Crossing) -> Iterator[tuple[Binding, list[tuple[str, Any]]]]:
    """Yield the bindings of headers exchanges, each with the AMQP types and values of the headers that it wants."""
    for source, exchange in crossing.before.exchanges.items():
        if kind_of(exchange).decider is Decider.HEADERS:
            for binding in crossing.before.bindings_from(source):
                names = [name for name, _ in conditions_of(binding, crossing.new)]
                yield binding, [type_and_value(binding.arguments[name]) for name in names]


def rings_in_another_order(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges with a hash ring whose bindings are not in the order in which a restart makes them."""
    for name, exchange in crossing.before.exchanges.items():
        kind = kind_of(exchange)
        if kind.key_use is not KeyUse.WEIGHT:
            continue
        bindings = [*crossing.before.bindings_from(name)]
        rebuilt = sorted(bindings, key=lambda b: (*map(encode_binary, (b.routing_key, *b.destination)),))
        if kind.sequence(bindings) != kind.sequence(rebuilt):
            yield exchange, ""
