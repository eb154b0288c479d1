"""Facts about classic queues and streams, and about queues of all types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.upgrading.facts.crossing import Crossing, Seen, build_queue_finder
from bindings.upgrading.facts.fact import Fact, link_notes
from exchange.entities.entities import Policy, Queue

LOCATOR: Final = "queue-master-locator"


def find_transient_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that are not durable; the exclusive ones are not part of a topology."""
    yield from ((queue, "") for queue in crossing.before.queues.values() if not queue.durable)


def with_a_master_locator(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues and policies that choose the node of a queue by its old name."""
    parts: list[Queue | Policy] = [q for q in crossing.before.queues.values() if f"x-{LOCATOR}" in q.arguments]
    parts += [policy for policy in crossing.before.all_policies if LOCATOR in policy.definition]
    yield from ((part, "") for part in parts)


def find_policies_of_version_1(crossing: Crossing) -> Iterator[Seen]:
    """Yield the policies that set version 1 of classic queues."""
    policies = crossing.before.all_policies
    yield from ((policy, "") for policy in policies if policy.definition.get("queue-version") == 1)


mirrored_queues: Final = build_queue_finder(
    lambda queue, old, new: any(settings.text("ha-mode") is not None for settings in old), "classic"
)
lazy_queues: Final = build_queue_finder(
    lambda queue, old, new: any(settings.text("queue-mode") == "lazy" for settings in old), "classic"
)
queues_of_version_1: Final = build_queue_finder(
    lambda queue, old, new: queue.durable and any(settings.integer("queue-version") != 2 for settings in old), "classic"
)
queues_without_consumer_timeout: Final = build_queue_finder(
    lambda queue, old, new: any(settings.integer("consumer-timeout") is not None for settings in old),
    "classic", "stream",
)  # fmt: skip
queues_with_an_active_consumer: Final = build_queue_finder(
    lambda queue, old, new: any(settings.get("single-active-consumer") is True for settings in old), "classic"
)
queues_with_priority_0: Final = build_queue_finder(
    lambda queue, old, new: any(settings.integer("max-priority") == 0 for settings in old), "classic"
)
streams_with_an_initial_offset: Final = build_queue_finder(
    lambda queue, old, new: "x-stream-initial-offset" in queue.arguments, "stream"
)

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU005", (4, 3, 0), "error",
         "a queue that is neither durable nor exclusive is refused with 541, which closes the connection; the "
         "package in Debian's own repository permits it",
         "declare it durable, with x-expires if it should go by itself, or exclusive; or set "
         "deprecated_features.permit.transient_nonexcl_queues = true on all nodes before the upgrade",
         "trial", find_transient_queues, link_notes("4.3.0"), feature="transient_nonexcl_queues"),
    Fact("HSU006", (4, 0, 0), "error",
         "the queue is mirrored by policy; mirroring was removed: it is on one node only, and lost with that node",
         "declare a quorum queue in its place, and move the messages", "release notes",
         mirrored_queues, link_notes("4.0.1")),
    Fact("HSU009", (3, 12, 0), "note", "lazy mode has no effect: all classic queues keep messages on disk",
         "remove queue-mode from policies, and x-queue-mode from declarations", "release notes",
         lazy_queues, link_notes("3.12.0")),
    Fact("HSU010", (4, 0, 0), "note",
         "unless the broker's configuration sets version 2, the queue is converted to it when the node starts, which "
         "takes time for a long queue",
         "consume long queues, or set queue-version = 2 by policy before the upgrade", "release notes",
         queues_of_version_1, link_notes("4.0.1")),
    Fact("HSU015", (4, 3, 0), "note",
         "the timeout of consumers (consumer_timeout) is no longer for classic queues and streams",
         "use quorum queues where consumers must be timed out", "release notes",
         queues_without_consumer_timeout, link_notes("4.3.0")),
    Fact("HSU017", (3, 13, 0), "note",
         "a queue that is neither durable nor exclusive is deprecated, with a warning in the log: 4.3 refuses it",
         "declare it durable, with x-expires if it should go by itself, or exclusive", "trial",
         find_transient_queues, link_notes("4.3.0"), until=(4, 3, 0)),
    Fact("HSU018", (3, 13, 0), "note", "mirrored queues are deprecated: 4.0 has none",
         "declare a quorum queue in its place, and move the messages", "release notes",
         mirrored_queues, link_notes("3.13.0"), until=(4, 0, 0)),
    Fact("HSU019", (4, 0, 0), "note", "queue-master-locator is deprecated: 4.3 refuses it",
         "set queue-leader-locator, which classic queues know since 4.0", "trial",
         with_a_master_locator, link_notes("4.0.1"), until=(4, 3, 0)),
    Fact("HSU020", (4, 0, 0), "note",
         "when the single active consumer is cancelled, the next one gets the messages that are ready at once; before "
         "4.0 it waits",
         "nothing is to be done", "trial", queues_with_an_active_consumer),
    Fact("HSU064", (3, 13, 4), "note",
         "x-max-priority = 0 means two priorities, no longer one: messages of priority 1 and more overtake the others",
         "declare the queue without the argument, or publish without priority what must stay in order", "trial",
         queues_with_priority_0),
    Fact("HSU049", (4, 3, 0), "note",
         "the policy sets version 1 of classic queues, which is gone: the setting is accepted and has no effect",
         "remove queue-version from the policy", "release notes", find_policies_of_version_1, link_notes("4.3.0")),
    Fact("HSU053", (4, 4, 0), "note",
         "the first message of a new stream gets the offset of x-stream-initial-offset, which older releases accept "
         "and ignore: a stream that is there keeps its offsets, one that is declared anew begins elsewhere",
         "remove the argument unless the stream should begin there", "release notes", streams_with_an_initial_offset,
         link_notes("4.4.0")),
)  # fmt: skip
"""What is seen in queues other than quorum queues."""
