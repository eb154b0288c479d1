"""What a release refuses that an older one accepted, with the broker's texts: asked of the rules of each release.

For a topology that is under the rules of the new release itself, it is all that this release refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Final, TypeVar

from bindings.upgrading.facts.crossing import Crossing, Seen
from bindings.upgrading.facts.fact import ALWAYS, Fact
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Policy, Queue
from exchange.entities.in_force import SettingsInForce
from exchange.entities.indexes import Tables
from exchange.entities.part import Part
from exchange.entities.policy_definitions import refuse_policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import refuse_queue
from exchange.errors import BrokerError
from exchange.kinds import UnknownExchange, find_kind
from exchange.lifecycle.limits import find_crash, ignores_policies
from exchange.topology import rules

P = TypeVar("P", bound=Part)


def find_refused_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that only the new release refuses to declare, each with its answer."""

    def declare(queue: Queue, profile: Profile) -> None:
        what = rules.VirtualHost(crossing.before.vhost, profile).describe("queue", queue.name)
        refuse_queue(queue, what, profile)

    with_arguments = [queue for queue in crossing.before.queues.values() if queue.arguments]
    return _find_refused(with_arguments, declare, crossing)


def find_refused_exchanges(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges that only the new release refuses to declare."""

    def declare(exchange: Exchange, profile: Profile) -> None:
        rules.declare_exchange(Tables(), rules.VirtualHost(crossing.before.vhost, profile), exchange)

    exchanges = [each for name, each in crossing.before.exchanges.items() if name not in PREDECLARED_NAMES]
    return _find_refused(exchanges, declare, crossing)


def find_refused_bindings(crossing: Crossing) -> Iterator[Seen]:
    """Yield the bindings that only the new release refuses to make."""
    topology, tables = crossing.before, crossing.before.tables()

    def bind(binding: Binding, profile: Profile) -> None:
        source = tables.exchanges[binding.source]
        find_kind(source).check_binding(source, binding, tables, profile)

    known = [name for name, exchange in topology.exchanges.items() if find_kind(exchange) is not UnknownExchange]
    return _find_refused(chain.from_iterable(map(topology.bindings_from, known)), bind, crossing)


def find_refused_policies(crossing: Crossing) -> Iterator[Seen]:
    """Yield the policies and operator policies that only the new release refuses to set."""
    return _find_refused(crossing.before.all_policies, refuse_policy, crossing)


def find_refused_by_both(crossing: Crossing) -> Iterator[Seen]:
    """Yield what neither release accepts, with the answer of the new one: no import of it succeeds on either.

    Exchanges of unknown types are not among it: where their plugin is, both accept them.
    """
    topology, rest = crossing.before, Crossing(crossing.after, crossing.new)
    for find in (find_refused_queues, find_refused_exchanges, find_refused_bindings, find_refused_policies):
        newly = {part for part, _ in find(crossing)} if topology.profile != crossing.new else set()
        yield from (seen for seen in find(rest) if seen[0] not in newly and not _may_have_a_plugin(seen[0]))
    if not topology.profile.import_skips_bindings:
        yield from _find_refused_ends(crossing)


def find_left_out_bindings(crossing: Crossing) -> Iterator[Seen]:
    """Yield the bindings without one of their ends, which an import of the old release leaves out in silence."""
    if crossing.before.profile.import_skips_bindings:
        yield from _find_refused_ends(crossing)


def _find_refused_ends(crossing: Crossing) -> Iterator[Seen]:
    """Yield the bindings for which the new release refuses a whole file, as one of their ends does not exist."""
    topology, new = crossing.before, crossing.new
    tables, host = topology.tables(), rules.VirtualHost(topology.vhost, new)
    if topology.unread or new.import_skips_bindings:  # an end may be among what was not read
        return
    for binding in topology.bindings:
        if new.leaves_out(binding.destination) and not tables.exists(binding.destination):
            continue
        try:
            rules.require_ends(tables, host, binding)
        except BrokerError as error:
            yield binding, str(error)


def _may_have_a_plugin(part: Part | None) -> bool:
    return isinstance(part, Exchange) and find_kind(part) is UnknownExchange


def find_unreadable(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that nobody can consume or get from in the new release, each with the reason."""
    for queue, _, new in crossing.in_force:
        crash = _find_crash(queue, new, crossing)
        if crash:
            yield queue, crash


def _find_crash(queue: Queue, new: Iterable[SettingsInForce], crossing: Crossing) -> str:
    return max(find_crash(settings, queue, crossing.new) for settings in new)


def describe_crash(crossing: Crossing, part: Part) -> str:
    """Return what becomes of a refused queue that is there already, if it does not just stay."""
    if not isinstance(part, Queue):
        return ""
    new = crossing.new_in_force[part.name]
    if _find_crash(part, new, crossing):
        return "one that is there stays, and nobody can consume or get from it (HSU057)"
    is_deaf = any(ignores_policies(settings, part, crossing.new) for settings in new)
    return "one that is there stays, and policies do not come into force in it any more (HSU058)" if is_deaf else ""


def describe_shifts(crossing: Crossing, part: Part) -> str:
    """Return which other policies come into force when what is refused is removed from a policy."""
    return crossing.policy_shifts.explain(part) if isinstance(part, Policy) else ""


def _find_refused(parts: Iterable[P], refuse: Callable[[P, Profile], None], crossing: Crossing) -> Iterator[Seen]:
    """Yield the parts that the new release refuses, and the old one, if it is another, does not; each with its answer.

    ``refuse`` raises the BrokerError with which a release refuses a part.
    """
    old, new = crossing.before.profile, crossing.new
    for part in parts:
        try:
            refuse(part, new)
        except BrokerError as error:
            with suppress(BrokerError):
                if old != new:
                    refuse(part, old)
                yield part, str(error)


STAYS: Final = "What is there already stays if the cluster is upgraded; an import and a new declaration fail."

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU001", ALWAYS, "error", f"the new release refuses the queue. {STAYS}",
         "remove or change the argument, in the application that declares the queue, too", "trial",
         find_refused_queues, explain=describe_crash),
    Fact("HSU002", ALWAYS, "error", f"the new release refuses the exchange. {STAYS}",
         "declare an exchange of another type or without the argument", "trial",
         find_refused_exchanges),
    Fact("HSU003", ALWAYS, "error", f"the new release refuses the binding. {STAYS}",
         "bind with what the answer asks for: fewer '#', smaller weights in the same proportion, or the selector",
         "trial", find_refused_bindings),
    Fact("HSU004", ALWAYS, "error", f"the new release refuses the policy. {STAYS}",
         "remove the setting from the policy, and look at what that means to others: --transform default does so, and "
         "keeps others as they are in force where it can; split a pattern that is too long between policies of one "
         "definition and one priority, each with some of its alternatives", "trial",
         find_refused_policies, explain=describe_shifts),
    Fact("HSU057", (4, 3, 0), "error",
         "each channel that consumes or gets from the queue crashes with 541, which closes its connection; before 4.3, "
         "a timeout that is no integer means none at all",
         "declare the queue anew, with an integer or without the argument, before the upgrade, in the application, too",
         "observed", find_unreadable, "https://github.com/rabbitmq/rabbitmq-server/issues/16555"),
    Fact("HSU055", ALWAYS, "error",
         "the old release refuses it, too: neither imports the file, nor lets an application declare it",
         "correct it, or remove it: hashstar check says what is wrong", "trial", find_refused_by_both,
         recurs=True),
    Fact("HSU056", ALWAYS, "error",
         "the new release refuses the whole file for the binding, as one of its ends does not exist; an import of the "
         "old release leaves it out, without a word",
         "declare what is missing, or remove the binding", "trial", find_left_out_bindings, recurs=True),
)  # fmt: skip
"""Many facts in each row: the rules of both releases are asked, which are not written down here again."""
