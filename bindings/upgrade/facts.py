"""The facts about releases of RabbitMQ that matter to a topology: one row for each, in `FACTS`.

A row says since when a fact holds, where it is seen in a topology, what it means, and the way out. Its source is live
brokers, before and after, which the tests ask; brokers observed by hand; or the release notes. Ids are stable: a number
is never used for another fact. What releases refuse and how they route is not written down here again:
`bindings.upgrade.refusals` and `bindings.diff` ask the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from bindings.upgrade import refusals, seen
from bindings.upgrade.seen import Crossing, Seen

__all__ = ["FACTS", "Fact", "Severity", "Source"]

Severity = Literal["note", "warning", "error"]
Source = Literal["live brokers", "observed", "release notes"]


class Fact(NamedTuple):
    """Something that is otherwise from a release on."""

    id: str
    since: tuple[int, int, int]
    """The first release for which it holds; (0, 0, 0) where the rules of each release decide."""
    severity: Severity
    """``error`` for what is refused or lost, ``warning`` for what means something else, else ``note``."""
    what: str
    way_out: str
    source: Source
    find: Callable[[Crossing], Iterator[Seen]]
    """Yields where it is seen; what no topology shows is seen once, in no part."""
    page: str = ""
    """Address of the release notes."""


def _notes(version: str) -> str:
    return f"https://github.com/rabbitmq/rabbitmq-server/blob/main/release-notes/{version}.md"


STAYS: Final = "What is there already stays if the cluster is upgraded; an import and a new declaration fail."

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU001", (0, 0, 0), "error", f"the new release refuses the queue. {STAYS}",
         "remove or change the argument, in the application that declares the queue, too", "live brokers",
         lambda crossing: refusals.refused_queues(crossing.before, crossing.new)),
    Fact("HSU002", (0, 0, 0), "error", f"the new release refuses the exchange. {STAYS}",
         "declare an exchange of another type or without the argument", "live brokers",
         lambda crossing: refusals.refused_exchanges(crossing.before, crossing.new)),
    Fact("HSU003", (0, 0, 0), "error", f"the new release refuses the binding. {STAYS}",
         "bind with another key: fewer '#', or smaller weights in the same proportion",
         "live brokers", lambda crossing: refusals.refused_bindings(crossing.before, crossing.new)),
    Fact("HSU004", (0, 0, 0), "error", f"the new release refuses the policy. {STAYS}",
         "remove the setting from the policy, and the policy if it has no other", "live brokers",
         lambda crossing: refusals.refused_policies(crossing.before, crossing.new)),
    Fact("HSU005", (4, 3, 0), "error",
         "a queue that is neither durable nor exclusive is refused with 541, which closes the connection; Debian's "
         "package permits it",
         "declare it durable, with x-expires if it should go by itself, or exclusive; or set "
         "deprecated_features.permit.transient_nonexcl_queues = true on all nodes before the upgrade",
         "release notes", seen.transient_queues, _notes("4.3.0")),
    Fact("HSU006", (4, 0, 0), "error",
         "the queue is mirrored by policy; mirroring was removed: it is on one node only, and lost with that node",
         "declare a quorum queue in its place, and move the messages", "release notes",
         seen.mirrored_queues, _notes("4.0.1")),
    Fact("HSU007", (4, 0, 0), "error",
         "a quorum queue without a delivery limit has one of 20: a message that comes back more often is dropped, "
         "as the queue has no dead letter exchange",
         "set a dead letter exchange, or a delivery-limit by policy (-1 for none)", "live brokers",
         seen.quorum_queues_that_drop, _notes("4.0.1")),
    Fact("HSU008", (4, 0, 0), "warning",
         "a quorum queue without a delivery limit has one of 20: a message that comes back more often is dead-lettered",
         "set a delivery-limit by policy if consumers return messages more often", "live brokers",
         seen.quorum_queues_that_dead_letter, _notes("4.0.1")),
    Fact("HSU009", (3, 12, 0), "note", "lazy mode has no effect: all classic queues keep messages on disk",
         "remove queue-mode from policies, and x-queue-mode from declarations", "release notes",
         seen.lazy_queues, _notes("3.12.0")),
    Fact("HSU010", (4, 0, 0), "note",
         "unless the broker's configuration sets version 2, the queue is converted to it when the node starts, which "
         "takes time for a long queue",
         "consume long queues, or set queue-version = 2 by policy before the upgrade", "release notes",
         seen.queues_of_version_1, _notes("4.0.1")),
    Fact("HSU011", (3, 13, 0), "warning",
         "a number that a headers binding wants equals only a number of the same kind: the integer 1 no longer 1.0",
         "publish the header in the type in which the binding has it", "live brokers",
         seen.bindings_with_numbers, _notes("3.13.0")),
    Fact("HSU012", (3, 13, 0), "warning",
         "a message's timestamp in a header is compared in milliseconds, a binding's as it is: equal ones do not match",
         "bind an integer of milliseconds in place of the timestamp", "live brokers",
         seen.bindings_with_timestamps, _notes("3.13.0")),
    Fact("HSU013", (4, 3, 0), "note",
         "the hash ring is kept over restarts; before 4.3 a restart builds it anew, ordered by weight and queue, so an "
         "upgrade may move keys if the bindings were made in another order",
         "let consumers finish before the upgrade if the order of messages counts", "observed",
         seen.rings_in_another_order, _notes("4.3.0")),
    Fact("HSU014", (4, 0, 0), "note",
         "x-death of a message that a client publishes is ignored: counts of republished messages begin anew",
         "count tries in a header of your own if an application republishes dead letters", "release notes",
         seen.dead_lettering_queues, _notes("4.0.1")),
    Fact("HSU015", (4, 3, 0), "note", "the timeout of consumers (consumer_timeout) is no longer for classic queues and "
         "streams", "use quorum queues where consumers must be timed out", "release notes",
         seen.queues_without_consumer_timeout, _notes("4.3.0")),
    Fact("HSU016", (4, 3, 0), "warning",
         "basic.nack with requeue is no failed delivery: the delivery limit counts rejects and lost consumers only, so "
         "a message that is given back again and again stays",
         "call basic.reject for messages that cannot be processed", "live brokers",
         seen.quorum_queues_with_a_limit, _notes("4.3.0")),
    Fact("HSU101", (4, 0, 0), "note", "an unknown exchange type is answered with 406 on the channel, no longer with "
         "503 on the connection", "expect PRECONDITION_FAILED in clients", "live brokers", seen.everywhere),
    Fact("HSU102", (4, 0, 0), "note", "a message may have 16 MiB, no longer 128 MiB",
         "set max_message_size for larger ones", "release notes", seen.everywhere, _notes("4.0.1")),
    Fact("HSU103", (4, 1, 0), "note", "clients that set frame_max below 8192 cannot connect",
         "leave frame_max to the server", "release notes", seen.everywhere, _notes("4.1.0")),
    Fact("HSU104", (4, 3, 0), "note", "basic.qos with global = true sets the prefetch of each consumer, no longer that "
         "of the channel", "set a prefetch per consumer, or deprecated_features.permit.global_qos = true",
         "live brokers", seen.everywhere, _notes("4.3.0")),
    Fact("HSU105", (4, 3, 0), "note", "Khepri is the only metadata store: settings of partition handling have no "
         "effect, and a cluster needs a majority of its nodes", "run three or five nodes", "release notes",
         seen.everywhere, _notes("4.3.0")),
)  # fmt: skip
"""The facts, from HSU001 on about parts of a topology, from HSU101 on about all applications of a broker."""
