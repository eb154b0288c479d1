"""What a change of a setting means to the messages of a queue: one function for each setting, in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple, TypeAlias

from exchange.entities.in_force import DeadLetters, SettingsInForce
from exchange.entities.profile import Profile
from exchange.lifecycle.limits import RETURNS, describe_retry, find_delivery_limit, find_retry_delay
from exchange.text.display import count_noun, describe_exchange, write_milliseconds

HALF_AN_HOUR: Final = 1_800_000
"""Milliseconds for which a consumer may keep a message where nothing else is set, in all releases since 3.10."""


class Consequence(NamedTuple):
    """What a change means to messages."""

    text: str
    loses: bool
    """Whether a message may be lost that was not, or leave the queue that kept it."""


class QueueSide(NamedTuple):
    """A queue before or after the change."""

    settings: SettingsInForce
    type: str
    exchanges: Container[str]
    """The exchanges that exist."""
    profile: Profile
    may_arrive: Callable[[DeadLetters], bool]
    """Whether some dead letter may get to a queue."""

    def number(self, name: str) -> int | None:
        """Return the value of a setting that is an integer; None if there is none."""
        return self.settings.integer(name)

    @property
    def gone(self) -> str:
        """What becomes of a message that leaves the queue without a consumer."""
        exchange = self.letters.exchange
        if exchange is None:
            return "dropped"
        exists = "" if exchange in self.exchanges else ", which does not exist"
        return f"dead-lettered to {describe_exchange(exchange)}{exists}"

    @property
    def letters(self) -> DeadLetters:
        """Where dead letters are sent."""
        return self.settings.dead_letters

    @property
    def overflow(self) -> str:
        """What happens to messages above a limit, as policies name it."""
        return self.settings.text("overflow") or "drop-head"

    @property
    def max_age(self) -> float | None:
        """The maximum age of a stream's segments, in seconds; None if nothing limits it."""
        age = re.fullmatch("([0-9]+)([YMDhms])", self.settings.text("max-age") or "")
        return None if age is None else float(age[1]) * _SECONDS[age[2]]

    @property
    def delivery_limit(self) -> int | None:
        """How often a message may come back to consumers, by default, too; None for ever."""
        return find_delivery_limit(self.settings.get("delivery-limit"), self.profile) if self.type == "quorum" else None

    @property
    def consumer_timeout(self) -> int | None:
        """Milliseconds for which a consumer may keep a message, by default, too; None for ever."""
        if self.profile.lives.consumer_timeout is not None and self.type in ("classic", "stream"):
            return None  # since 4.3, only quorum queues and plugins' types look at it
        given = self.number("consumer-timeout")
        return HALF_AN_HOUR if given is None else given

    def beyond(self, limit: str) -> str:
        """Return what happens to messages above a limit."""
        if self.type == "stream":
            return f"above {limit}, the oldest segments are deleted"
        if self.overflow == "reject-publish":
            return f"above {limit}, new messages are refused, and without publisher confirms they are lost"
        if self.overflow == "reject-publish-dlx" and self.type == "classic":
            return f"above {limit}, new messages are refused and {self.gone}"
        return f"above {limit}, the oldest messages are {self.gone}"


Find: TypeAlias = Callable[[str, QueueSide, QueueSide], Consequence | None]


def find_consequence(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    """Return what a change of a setting means; None if it loses no message or is not known."""
    find = _MEANINGS.get(name)
    return None if find is None else find(name, before, after)


def _limit(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    old, new = before.number(name), after.number(name)
    noun = "byte" if name.endswith("bytes") else "message"
    if new is None:
        rest = [f"{other} {after.number(other):,}" for other in _LIMITS if after.number(other) is not None]
        if after.type == "stream" and after.settings.get("max-age") is not None:
            rest.append(f"max-age {after.settings.get('max-age')}")
        bound = f"only {' and '.join(rest)} bounds the queue now" if rest else "nothing bounds the queue now"
        return Consequence(bound, loses=False)
    if old is not None and new > old:
        return Consequence(f"the queue keeps up to {count_noun(new, noun)} now", loses=False)
    if new == 0 and after.overflow == "drop-head":
        return Consequence(f"a message that no consumer takes at once is {after.gone}", loses=True)
    return Consequence(after.beyond(count_noun(new, noun)), loses=True)


def _overflow(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    limits = [
        count_noun(number, "byte" if limit.endswith("bytes") else "message")
        for limit in _LIMITS
        if (number := after.number(limit)) is not None
    ]
    if not limits:
        return Consequence("without effect, as nothing limits the queue", loses=False)
    if before.overflow == after.overflow:
        return Consequence("without effect: drop-head is the default", loses=False)
    return Consequence(after.beyond(" or ".join(limits)), loses=True)


def _time_to_live(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    old, new = before.number(name), after.number(name)
    if new is None:
        return Consequence("messages no longer expire, unless they have an expiration of their own", loses=False)
    if old is not None and new > old:
        return Consequence(f"messages wait for up to {write_milliseconds(new)} now", loses=False)
    if new == 0:
        return Consequence(f"a message that no consumer takes at once is {after.gone}", loses=True)
    return Consequence(f"messages that wait longer than {write_milliseconds(new)} are {after.gone}", loses=True)


def _expires(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    old, new = before.number(name), after.number(name)
    if new is None:
        return Consequence("the queue is no longer deleted when it is not used", loses=False)
    text = f"the queue is deleted, with its messages, after {write_milliseconds(new)} without use"
    return Consequence(text, loses=old is None or new < old)


def _delivery_limit(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    if after.type != "quorum":
        return Consequence(f"without effect in a {after.type} queue", loses=False)
    old, new = before.delivery_limit, after.delivery_limit
    if new is None:
        return Consequence("a message may come back to consumers for ever", loses=False)
    by_default = "by default, " if new == after.profile.lives.delivery_limit != after.number(name) else ""
    text = f"{by_default}a message that comes back more than {count_noun(new, 'time')} is {after.gone}"
    return Consequence(text, loses=old is None or new < old)


def _retry(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    """Return what becomes of messages that come back: once, for the first of the three settings that changes."""
    if name != next(each for each in _RETRIES if before.settings.get(each) != after.settings.get(each)):
        return None
    old, new = (find_retry_delay(side.settings) if side.type == "quorum" else None for side in (before, after))
    if new == old:
        return (
            Consequence("without effect: nothing waits that comes back to the queue", loses=False) if not new else None
        )
    if new is None:
        return Consequence("what comes back to the queue is delivered again at once", loses=False)
    most = None if new.most == new.milliseconds(1) else new.most
    return Consequence(f"{RETURNS[new.kind]}: {describe_retry(new.milliseconds(1), most)}", loses=False)


def _consumer_timeout(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    if after.consumer_timeout is None:
        effect = "without effect" if before.consumer_timeout is None else "a consumer may keep messages for ever"
        return Consequence(f"{effect}: no consumer of a {after.type} queue has a timeout since 4.3", loses=False)
    default = after.number(name) is None
    if default and after.settings.get(name) is not None and after.profile.lives.consumer_timeout is None:
        return Consequence("no time is too long for a consumer: the timeout is no integer", loses=False)
    time = write_milliseconds(after.consumer_timeout)
    start = f"{'by default, ' if default else ''}a consumer that does not settle a message for {time}"
    if after.profile.lives.consumer_timeout is None:
        return Consequence(f"{start} loses its channel, within a minute, and what it holds comes back", loses=False)
    return Consequence(f"{start} is cancelled: the queue takes the message back", loses=False)


def _active_consumer(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    one = "one consumer at a time gets the messages, in their order"
    return Consequence(one if after.settings.get(name) is True else "consumers share the messages", loses=False)


def _priorities(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    if after.type != "classic":
        return None
    most = after.number(name)
    text = (
        "messages have no priorities" if most is None else f"messages have priorities up to {most}: higher ones first"
    )
    return Consequence(text, loses=False)


def _max_age(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    if after.type != "stream":
        return None
    age = after.settings.get(name)
    if age is None:
        return Consequence("segments are no longer deleted for their age", loses=False)
    old, new = before.max_age, after.max_age
    return Consequence(f"segments older than {age} are deleted", loses=old is None or new is None or new < old)


def _dead_letters(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    old, new = before.letters, after.letters
    if new == old:
        return Consequence("without effect: at-most-once is the default", loses=False)
    if (old.exchange, old.routing_key) == (new.exchange, new.routing_key):
        text = "wait until their queues have confirmed them" if new.at_least_once else "may be lost on the way"
        return Consequence(f"dead letters {text} now", loses=old.at_least_once)
    dead = "messages that are rejected, expire or exceed a limit"
    loses = before.may_arrive(old)
    if new.exchange is None or new.exchange not in after.exchanges:
        return Consequence(f"{dead} are {after.gone}{'' if new.exchange is None else ': they are lost'}", loses)
    key = "" if new.routing_key is None else f" with the key '{new.routing_key}'"
    return Consequence(f"{dead} go to {describe_exchange(new.exchange)}{key}", loses)


def _queue_mode(name: str, before: QueueSide, after: QueueSide) -> Consequence | None:
    if "queue-mode" in after.profile.settings.classic_ignores:
        return Consequence("without effect from RabbitMQ 3.12 on", loses=False)
    return None


def _mirroring(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    if not after.profile.settings.mirrors_queues:
        return Consequence("without effect: RabbitMQ 4.0 removed mirrored queues", loses=False)
    lost = name == "ha-mode" and after.settings.get(name) is None
    text = "the queue is on one node only: it is lost with that node" if lost else "the queue has other mirrors"
    return Consequence(text, loses=lost)


def _queue_type(name: str, before: QueueSide, after: QueueSide) -> Consequence:
    text = f"a {after.type} queue takes the place of a {before.type} one"
    limit = after.delivery_limit
    if limit is None or before.type == "quorum" or after.number("delivery-limit") is not None:
        return Consequence(text, loses=False)  # a limit that is set is reported by itself
    dropped = f"by default, a message that comes back more than {count_noun(limit, 'time')} is {after.gone}"
    return Consequence(f"{text}: {dropped}", loses=True)


_SECONDS: Final = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Unit of a maximum age -> its seconds."""
_LIMITS: Final = ("max-length", "max-length-bytes")
_RETRIES: Final = ("delayed-retry-type", "delayed-retry-min", "delayed-retry-max")

_MEANINGS: Final[Mapping[str, Find]] = {
    "max-length": _limit, "max-length-bytes": _limit, "overflow": _overflow, "message-ttl": _time_to_live,
    "expires": _expires, "delivery-limit": _delivery_limit, "delayed-retry-type": _retry, "delayed-retry-min": _retry,
    "delayed-retry-max": _retry, "consumer-timeout": _consumer_timeout, "single-active-consumer": _active_consumer,
    "max-priority": _priorities, "max-age": _max_age, "dead-letter-exchange": _dead_letters,
    "dead-letter-routing-key": _dead_letters, "dead-letter-strategy": _dead_letters, "queue-mode": _queue_mode,
    "ha-mode": _mirroring, "ha-params": _mirroring, "queue-type": _queue_type,
}  # fmt: skip
"""Setting -> the function that finds what a change of it means."""
