"""Facts about dead letters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from bindings.upgrading.facts.crossing import Crossing, Seen, build_queue_finder, may_dead_letter
from bindings.upgrading.facts.fact import Fact, link_notes, link_pull_request

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


def find_where_deaths_counted(counted: bool, crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues that dead-letter, if the old release counts x-death of a publisher, or if it ignores it."""
    if crossing.before.profile.lives.published_deaths_count == counted:
        yield from that_dead_letter(crossing)


deaths_counted: Final = partial(find_where_deaths_counted, True)
deaths_did_not_count: Final = partial(find_where_deaths_counted, False)


def _named(crossing: Crossing, names: Collection[str]) -> Iterator[Seen]:
    """Yield the queues of these names in the order of the topology."""
    yield from ((queue, "") for name, queue in crossing.before.queues.items() if name in names)


FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU014", (4, 0, 0), "note",
         "x-death of a message that a client publishes is ignored: counts of republished messages begin anew",
         "count tries in a header of your own if an application republishes dead letters", "trial",
         deaths_counted, link_notes("4.0.1")),
    Fact("HSU066", (3, 13, 0), "note",
         "x-death of a message that a client publishes is ignored, up to 3.13.2: counts of republished messages begin "
         "anew",
         "upgrade to 3.13.3 or later, or count tries in a header of your own", "source", that_dead_letter,
         link_notes("3.13.3"), until=(3, 13, 3)),
    Fact("HSU067", (3, 13, 3), "note",
         "x-death of a message that a client publishes counts again, for the numbers of its deaths and for circles; "
         "from 3.13.0 to 3.13.2 it is ignored, and so it is in 4.0",
         "publish without x-death what is to begin anew", "source", deaths_did_not_count,
         link_notes("3.13.3"), until=(4, 0, 0)),
    Fact("HSU069", (4, 0, 0), "error",
         "a message that a client published with the header x-death to 3.13.3 or later of 3.13, and that is in the "
         "queue during the upgrade, crashes it when it is dead-lettered, up to 4.0.4",
         "upgrade to 4.0.5 or later, or consume such messages before", "source", deaths_counted,
         link_pull_request(12935), until=(4, 0, 5)),
    Fact("HSU025", (3, 13, 0), "note",
         "dead letters have headers x-last-death-reason, -queue and -exchange beside those of the first death",
         "nothing is to be done, unless an application copies or compares all headers", "trial",
         that_dead_letter),
    Fact("HSU026", (3, 13, 3), "note",
         "a dead letter that goes round by times and limits alone is dropped when it comes back, even if it was "
         "rejected before; before 3.13.3 it may go round for ever",
         "consume and publish anew what must come back", "trial", find_queues_in_circles_without_consumers),
    Fact("HSU027", (3, 13, 0), "error",
         "a message that comes back to a queue as a dead letter may be dropped even if it was rejected on the way, or "
         "go round for ever by times and limits alone: the names of the queues decide",
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
