"""Facts about dead letters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from bindings.upgrading.facts.crossing import Crossing, Seen, build_queue_finder, may_dead_letter
from bindings.upgrading.facts.fact import Fact, link_notes

__all__ = ["FACTS"]

LIMITS: Final = ("message-ttl", "max-length", "max-length-bytes")
"""Settings by which messages die without a consumer."""

that_dead_letter: Final = build_queue_finder(lambda queue, old, new: may_dead_letter(queue, new))
classic_queues: Final = build_queue_finder(lambda queue, old, new: may_dead_letter(queue, new), "classic")
quorum_queues: Final = build_queue_finder(lambda queue, old, new: may_dead_letter(queue, new), "quorum")


def find_queues_in_circles(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that a message may come back to as a dead letter."""
    yield from _named(crossing, crossing.dead_letters.circles)


def find_queues_in_circles_without_consumers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues of circles that a message goes round by times and limits alone."""
    ways = {q.name for q, _, new in crossing.in_force if any(s.get(name) is not None for s in new for name in LIMITS)}
    yield from _named(crossing, crossing.dead_letters.circles_among(ways))


def find_queues_with_dead_letters_to_streams(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues whose dead letters get to a stream."""
    streams = {name for name, queue in crossing.before.queues.items() if queue.type == "stream"}
    if streams:
        yield from _named(crossing, crossing.dead_letters.leading_to(streams))


def _named(crossing: Crossing, names: Collection[str]) -> Iterator[Seen]:
    """Yield the queues of these names in the order of the topology."""
    yield from ((queue, "") for name, queue in crossing.before.queues.items() if name in names)


FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU014", (4, 0, 0), "note",
         "x-death of a message that a client publishes is ignored: counts of republished messages begin anew",
         "count tries in a header of your own if an application republishes dead letters", "trial",
         that_dead_letter, link_notes("4.0.1")),
    Fact("HSU025", (3, 13, 0), "note",
         "dead letters have headers x-last-death-reason, -queue and -exchange beside those of the first death",
         "nothing is to be done, unless an application copies or compares all headers", "trial",
         that_dead_letter),
    Fact("HSU026", (3, 13, 0), "note",
         "a dead letter that goes round by times and limits alone is dropped when it comes back, even if it was "
         "rejected before; before 3.13 it may go round for ever",
         "consume and publish anew what must come back", "trial", find_queues_in_circles_without_consumers),
    Fact("HSU027", (3, 13, 0), "error",
         "a message that comes back to a queue as a dead letter may be dropped even if it was rejected on the way",
         "upgrade to 3.13.3 or later", "release notes", find_queues_in_circles, link_notes("3.13.3"), until=(3, 13, 3)),
    Fact("HSU028", (4, 3, 0), "note",
         "dead letters of a classic queue take the number of their failed deliveries along, in x-delivery-count",
         "read x-death for the number of deaths", "trial", classic_queues),
    Fact("HSU029", (4, 0, 0), "note",
         "dead letters of a quorum queue take the number of their failed deliveries along, in x-delivery-count",
         "read x-death for the number of deaths", "trial", quorum_queues),
    Fact("HSU044", (3, 12, 0), "note", "dead letters get to streams, too", "nothing is to be done", "trial",
         find_queues_with_dead_letters_to_streams, link_notes("3.12.0")),
)  # fmt: skip
"""What is seen in queues that dead-letter messages."""
