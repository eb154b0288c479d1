"""Short lives, each for one rule, for live brokers (tests.recorders.rabbitmq_lives records them) and for the model.

A pause comes after each step, so that timers fire and dead letters arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from exchange import Message, Queue, Topology
from tests.support.lives.plans import plain

PAUSE_SECONDS: Final = 0.25


class Taken(NamedTuple):
    """A message that basic.get took, and what settles it."""

    message: Message
    redelivered: bool
    handle: Any


class Driver(Protocol):
    """A broker or the model."""

    def publish(self, message: Message) -> bool:
        """Publish; return whether it was confirmed."""

    def get(self, queue: str) -> Taken | None:
        """Take a message, None if there is none."""

    def settle(self, taken: Taken, method: str, requeue: bool) -> None:
        """Settle by basic.ack, basic.nack or basic.reject."""

    def pause(self) -> None:
        """Let `PAUSE_SECONDS` pass."""


class Scenario(NamedTuple):
    """A topology and what is done.

    A step is a `Message` to publish, the name of a queue to get from, or a method that settles the latest message that
    was taken: ``ack``, ``nack``, ``nack-requeue``, ``reject``, ``reject-requeue``.
    """

    topology: Topology
    steps: tuple[Message | str, ...]
    since: tuple[int, int] = (3, 10)
    """The first series of releases that takes its queues."""

    def is_for(self, version: str) -> bool:
        """Return whether a broker of this version takes its queues."""
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) >= self.since


def play(scenario: Scenario, driver: Driver) -> list[Any]:
    """Take all steps; return what came of each: whether it was confirmed, or the message that was taken.

    At the end are the contents of all queues.
    """
    answers: list[Any] = []
    held: list[Taken] = []
    for step in scenario.steps:
        if isinstance(step, Message):
            answers.append(driver.publish(step))
        elif step in scenario.topology.queues:
            taken = driver.get(step)
            held += [taken] if taken else []
            answers.append(describe(taken))
        else:
            method, _, requeue = step.partition("-")
            driver.settle(held.pop(), method, bool(requeue))
            answers.append(None)
        driver.pause()
    contents: dict[str, list[Any]] = {}
    for queue in scenario.topology.queues:
        contents[queue] = []
        while (taken := driver.get(queue)) is not None:
            contents[queue].append(describe(taken))
    return [*answers, contents]


def describe(taken: Taken | None) -> dict[str, Any] | None:
    """Return what a consumer sees, without the times of deaths."""
    if taken is None:
        return None
    message = taken.message
    seen: dict[str, Any] = {"body": message.body.decode(), "exchange": message.exchange, "key": message.routing_key}
    seen |= {"redelivered": taken.redelivered, "headers": plain(dict(message.headers))}
    return seen | {name: message.properties[name] for name in ("expiration", "priority") if name in message.properties}


def queue(name: str, /, **arguments: Any) -> Queue:
    """Return a queue; ``max_length=1`` is its argument x-max-length."""
    return Queue(name, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})


def quorum(name: str, /, **arguments: Any) -> Queue:
    """Return a quorum queue."""
    return queue(name, queue_type="quorum", **arguments)


def to(target: str) -> Mapping[str, str]:
    """Return the arguments of a queue whose dead letters go to one other queue."""
    return {"dead_letter_exchange": "", "dead_letter_routing_key": target}


def send(key: str, number: int = 0, headers: Mapping[str, Any] | None = None, **properties: Any) -> Message:
    """Return a message through the default exchange."""
    return Message("", key, headers or {}, properties, str(number).encode())


def life(queues: list[Queue], *steps: Message | str, since: tuple[int, int] = (3, 10)) -> Scenario:
    """Return a scenario whose queues get their messages from the default exchange."""
    return Scenario(Topology(queues=queues), steps, since)


_DEATH: Final = {"count": 2, "reason": "expired", "queue": "b", "exchange": "", "routing-keys": ["k"]}
_FULL: Final = [send("a", number) for number in range(3)]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "expired by the queue's time to live": life([queue("a", message_ttl=20, **to("b")), queue("b")], send("a")),
    "expired by its own time to live": life(
        [queue("a", message_ttl=5000, **to("b")), queue("b")], send("a", expiration="20")
    ),
    "three deaths in two queues": life(
        [queue("a", **to("b")), queue("b", message_ttl=20, **to("a"))], send("a"), "a", "reject", "a", "reject", "a",
        "nack",
    ),
    "expired in a cycle": life(
        [queue("a", message_ttl=20, **to("b")), queue("b", message_ttl=20, **to("a"))], send("a")
    ),
    "rejected within a cycle": life(
        [queue("a", **to("b")), queue("b", **to("a"))], send("a"), "a", "reject", "b", "nack"
    ),
    "dropped from the head": life([queue("a", max_length=1, **to("b")), queue("b")], *_FULL),
    "refused by a full queue": life(
        [queue("a", max_length=1, overflow="reject-publish", **to("b")), queue("b")], *_FULL
    ),
    "refused and dead-lettered": life(
        [queue("a", max_length=1, overflow="reject-publish-dlx", **to("b")), queue("b")], *_FULL
    ),
    "refused by a full quorum queue": life([quorum("a", max_length=1, overflow="reject-publish"), queue("b")], *_FULL),
    "several dropped at once by a quorum queue": life(
        [quorum("a", max_length_bytes=800, **to("b")), queue("b")], *_FULL, Message("", "a", {}, {}, b"x" * 799),
    ),
    "over the delivery limit": life(
        [quorum("a", delivery_limit=1, **to("b")), queue("b")], send("a"), "a", "reject-requeue", "a",
        "reject-requeue", "b", "nack-requeue",
    ),
    "given back by nack and by reject": life(
        [quorum("a")], send("a"), "a", "nack-requeue", "a", "reject-requeue", "a", "nack-requeue"
    ),
    "failures remembered beyond a death": life(
        [
            quorum("a", delivery_limit=5, **to("b")),
            quorum("b", delivery_limit=5, **to("c")),
            queue("c", **to("d")),
            queue("d"),
        ],
        send("a"), "a", "reject-requeue", "a", "reject", "b", "reject", "c", "reject",
    ),
    "a classic queue's failures remembered": life(
        [queue("a", **to("b")), quorum("b")], send("a"), "a", "reject-requeue", "a", "reject"
    ),
    "given back in front of the others": life(
        [quorum("a", delivery_limit=9)], *_FULL, "a", "reject-requeue", "a", "nack-requeue",
    ),
    "copies and hidden copies": life(
        [queue("a", **to("d")), queue("b", dead_letter_exchange=""), queue("c", dead_letter_exchange=""), queue("d")],
        send("a", headers={"CC": ["b"], "BCC": ["c"]}), "a", "reject", "b", "reject", "c", "reject",
    ),
    "deaths by the publisher's hand": life(
        [queue("a", message_ttl=20, **to("b")), queue("b", message_ttl=20, **to("c")), queue("c")],
        send("a", headers={"x-death": [_DEATH]}),
    ),
    "a higher priority expires unseen": life(
        [queue("a", max_priority=5, **to("b")), queue("b")], send("a", 0, priority=1),
        send("a", 1, priority=5, expiration="20"), send("a", 2, priority=3),
    ),
    "priorities of a quorum queue": life(
        [quorum("a")], *(send("a", number, priority=priority) for number, priority in enumerate((0, 5, 9, 4, 31, 6)))
    ),
    "a dead letter that must arrive finds a full queue": life(
        [
            quorum("a", overflow="reject-publish", dead_letter_strategy="at-least-once", max_length=1, **to("b")),
            quorum("b", overflow="reject-publish", max_length=0),
        ],
        send("b", 0), send("a", 1), "a", "reject", send("a", 2), send("a", 3),
    ),
    "given back to wait": life(
        [quorum("a", delayed_retry_type="all", delayed_retry_min=400)],
        *_FULL, "a", "a", "nack-requeue", "reject-requeue", "a", "a", "nack-requeue", "a", since=(4, 3),
    ),
    "given back to wait longer with each failure, up to a maximum": life(
        [quorum("a", delayed_retry_type="failed", delayed_retry_min=400, delayed_retry_max=650, delivery_limit=9)],
        send("a"), "a", "nack-requeue", "a", "reject-requeue", "a", "a", "reject-requeue", "a", "a", "a", since=(4, 3),
    ),
    "waits, and expires meanwhile": life(
        [quorum("a", delayed_retry_type="returned", delayed_retry_min=400, message_ttl=600, **to("b")), queue("b")],
        send("a"), "a", "nack-requeue", "b", "a", "b", since=(4, 3),
    ),
    "waits, and counts for the limit": life(
        [quorum("a", delayed_retry_type="all", delayed_retry_min=900, max_length=1, overflow="reject-publish")],
        send("a"), "a", "reject-requeue", send("a", 1), send("a", 2), "a", "ack", send("a", 3), since=(4, 3),
    ),
}  # fmt: skip
"""What happens -> how."""
