"""What a release refuses that an older one accepted, with the broker's texts: asked of the rules of each release.

For a topology that is under the rules of the new release itself, it is all that this release refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from bindings.upgrade.facts.crossing import Crossing, Part
from bindings.upgrade.facts.fact import Fact
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Policy, Queue
from exchange.entities.indexes import Tables
from exchange.entities.policy_definitions import refuse_policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import refuse_queue
from exchange.errors import BrokerError
from exchange.kinds import Unknown, kind_of
from exchange.topology import rules
from exchange.topology.topology import Topology

__all__ = ["FACTS"]


Refuse = Callable[[Profile], None]
"""Function that raises the BrokerError with which a release refuses a part."""


def refused_queues(topology: Topology, new: Profile) -> Iterator[tuple[Queue, str]]:
    """Yield the queues that only the new release refuses to declare, each with its answer."""
    for name, queue in topology.queues.items():
        what = rules.VirtualHost(topology.vhost, new).describe("queue", name)
        if not queue.arguments:
            continue  # nothing that could be refused

        def declare(profile: Profile, part: Queue = queue, name: str = what) -> None:
            refuse_queue(part, name, profile)

        answer = _answer(declare, topology.profile, new)
        if answer is not None:
            yield queue, answer


def refused_exchanges(topology: Topology, new: Profile) -> Iterator[tuple[Exchange, str]]:
    """Yield the exchanges that only the new release refuses to declare."""
    for name, exchange in topology.exchanges.items():
        if name in PREDECLARED_NAMES:
            continue

        def declare(profile: Profile, part: Exchange = exchange) -> None:
            rules.declare_exchange(Tables(), rules.VirtualHost(topology.vhost, profile), part)

        answer = _answer(declare, topology.profile, new)
        if answer is not None:
            yield exchange, answer


def refused_bindings(topology: Topology, new: Profile) -> Iterator[tuple[Binding, str]]:
    """Yield the bindings that only the new release refuses to make."""
    tables = topology.tables()
    for name, exchange in topology.exchanges.items():
        kind = kind_of(exchange)
        if kind is Unknown:
            continue
        for binding in topology.bindings_from(name):

            def bind(profile: Profile, part: Binding = binding, source: Exchange = exchange) -> None:
                kind_of(source).check_binding(source, part, tables, profile)

            answer = _answer(bind, topology.profile, new)
            if answer is not None:
                yield binding, answer


def refused_policies(topology: Topology, new: Profile) -> Iterator[tuple[Policy, str]]:
    """Yield the policies and operator policies that only the new release refuses to set."""
    for policies in (topology.policies, topology.operator_policies):
        for policy in policies.values():

            def declare(profile: Profile, part: Policy = policy) -> None:
                refuse_policy(part, profile)

            answer = _answer(declare, topology.profile, new)
            if answer is not None:
                yield policy, answer


def shifts_of_policies(crossing: Crossing, part: Part) -> str:
    """Return which other policies come into force when what is refused is removed from a policy."""
    return crossing.policy_shifts.explain(part) if isinstance(part, Policy) else ""


def _answer(refuse: Refuse, old: Profile, new: Profile) -> str | None:
    """Return the answer of the new release if it refuses a part, and the old one does not; else None.

    If both are the same release, it is its answer.
    """
    try:
        refuse(new)
    except BrokerError as error:
        with suppress(BrokerError):
            if old != new:
                refuse(old)
            return str(error)
    return None


STAYS: Final = "What is there already stays if the cluster is upgraded; an import and a new declaration fail."

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU001", (0, 0, 0), "error", f"the new release refuses the queue. {STAYS}",
         "remove or change the argument, in the application that declares the queue, too", "live brokers",
         lambda crossing: refused_queues(crossing.before, crossing.new)),
    Fact("HSU002", (0, 0, 0), "error", f"the new release refuses the exchange. {STAYS}",
         "declare an exchange of another type or without the argument", "live brokers",
         lambda crossing: refused_exchanges(crossing.before, crossing.new)),
    Fact("HSU003", (0, 0, 0), "error", f"the new release refuses the binding. {STAYS}",
         "bind with what the answer asks for: fewer '#', smaller weights in the same proportion, or the selector",
         "live brokers", lambda crossing: refused_bindings(crossing.before, crossing.new)),
    Fact("HSU004", (0, 0, 0), "error", f"the new release refuses the policy. {STAYS}",
         "remove the setting from the policy, and look at what that means to others; --transform default does so, and "
         "keeps others as they are in force where it can", "live brokers",
         lambda crossing: refused_policies(crossing.before, crossing.new), explain=shifts_of_policies),
)  # fmt: skip
"""Many facts in each row: the rules of both releases are asked, which are not written down here again."""
