"""What the management API knows about a queue that is read: its type, and how often it delivers a message.

It is asked at each connection, as a queue may be declared anew, and its policy changed, at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import pika

from bridge.endpoint import Removal
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from exchange.entities.releases import find_profile
from exchange.lifecycle.limits import find_delivery_limit
from exchange.text.display import write_milliseconds
from exchange.text.numbers import is_digits

AGES: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Unit of an age of messages -> seconds."""

LENGTHS: Final = {"max-length": "messages", "max-length-bytes": "bytes"}
"""Limits of a queue's length, and their units."""

TOGETHER: Final = 3
"""Minimum delivery limit of a queue whose messages are ever taken together."""
TOGETHER_AGAIN: Final = 12
"""Minimum delivery limit of a queue whose messages are taken together again after they came back."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue at one connection."""

    type: str
    delivery_limit: int | None = None
    """Number of times that a message may come back; at the next it is dropped or dead-lettered. None for no limit."""
    is_single_active: bool = False
    """Whether one consumer gets all messages, and another one only after it."""
    expires: bool = False
    """Whether it is deleted when it has no consumer for a while."""
    is_provisional: bool = False
    """Whether its policy is not known yet, as in the seconds after it was declared; it may set a lower limit."""
    removals: tuple[Removal, ...] = ()
    """What removes messages that are not read in time."""

    @classmethod
    def from_answer(cls, known: Mapping[str, Any], version: str, title: str = "") -> Self:
        """Read the API's answer about a queue of a broker of this version."""
        kind, removals = str(known.get("type", "classic")), tuple(find_removals(known, title))
        if kind != "quorum":
            return cls(kind, removals=removals)
        if (
            "delivery_limit" in known
        ):  # the one in force, since 4.0: a policy need not be in force in a queue that exists
            shown = known["delivery_limit"]
            limit = shown if type(shown) is int and shown >= 0 else None
        else:
            given = find_setting(known, "delivery-limit")
            limit = find_delivery_limit(given if type(given) is int else None, find_profile(version))
        is_single_active = find_setting(known, "single-active-consumer") is True
        expires = find_setting(known, "expires") is not None
        is_provisional = "effective_policy_definition" not in known
        return cls(kind, limit, is_single_active, expires, is_provisional, removals)

    @property
    def alone_from(self) -> int | None:
        """Minimum number of earlier deliveries of a message that must be taken alone; None if none need be.

        Each crash costs those messages a delivery that are taken together. One that is alone when a process is killed
        comes back behind others, and may be taken together with these another time. What is left of the limit is for
        crashes while it is alone that it is not the cause of.
        """
        if self.type != "quorum" or self.is_single_active or self.expires:  # it must keep its consumer
            return None
        if self.delivery_limit is None:
            return 1 if self.is_provisional else None
        limit = self.delivery_limit
        alone_from = limit // 4 if limit >= TOGETHER_AGAIN else int(limit >= TOGETHER)
        return min(alone_from, 1) if self.is_provisional else alone_from


async def fetch_facts(parameters: pika.URLParameters, url: str, server: Mapping[str, Any], queue: str) -> QueueFacts:
    """Ask the management API at ``url`` about a queue of the broker with these properties. Raises Unknown."""
    management = ManagementClient(parameters, url)
    await management.check_cluster(server.get("cluster_name"))
    return QueueFacts.from_answer(await management.queue(queue), str(server.get("version", "")), f"queue {queue!r}")


async def find_host(brokers: Sequence[pika.URLParameters]) -> tuple[pika.URLParameters, Mapping[str, Any]]:
    """Connect for a moment, and return the host that accepts us and its properties. Raises Disconnected."""
    connection = await Connection.open(brokers, lambda _: None)
    try:
        return connection.parameters, connection.server
    finally:
        await connection.close()


async def look_up_removals(
    parameters: pika.URLParameters, server: Mapping[str, Any], url: str, queue: str
) -> Sequence[Removal] | None:
    """Return what removes messages of a queue, by the management API; None if it does not answer."""
    with suppress(Unknown):
        return (await fetch_facts(parameters, url, server, queue)).removals
    return None


def find_removals(known: Mapping[str, Any], title: str) -> Iterator[Removal]:
    """Yield what removes messages of a queue or stream that are not read in time, by the API's answer about it."""
    if known.get("type") == "stream":
        if isinstance(age := find_setting(known, "max-age"), str):
            unit = AGES.get(age[-1:], 0)
            seconds = int(age[:-1]) * unit if unit and is_digits(age[:-1]) else None
            yield Removal(f"{title} removes its oldest messages, read or not (max-age is {age})", seconds)
        if (size := find_setting(known, "max-length-bytes")) is not None:
            yield Removal(f"{title} removes its oldest messages, read or not (max-length-bytes is {size})")
        return
    if isinstance(expires := find_setting(known, "expires"), int):
        what = f"{title} is deleted with its messages when nothing reads it for {write_milliseconds(expires)} (expires)"
        yield Removal(what, expires / 1_000, without_reader=True)
    if known.get("auto_delete") is True:
        what = f"{title} is deleted with its messages when its last reader goes (auto-delete)"
        yield Removal(what, 0.0, without_reader=True)
    verb = "drops" if find_setting(known, "dead-letter-exchange") is None else "dead-letters"
    if isinstance(ttl := find_setting(known, "message-ttl"), int):
        what = f"{title} {verb} messages that are not read within {write_milliseconds(ttl)} (message-ttl)"
        yield Removal(what, ttl / 1_000)
    if refuses_when_full(known):
        return
    for limit, counted in LENGTHS.items():
        if isinstance(most := find_setting(known, limit), int):
            what = f"{title} {verb} its oldest messages when more than {most:,} {counted} wait ({limit})"
            yield Removal(what, messages=most if counted == "messages" else None)


def refuses_when_full(known: Mapping[str, Any]) -> bool:
    """Return whether a queue that is full refuses messages, rather than drop its oldest."""
    return str(find_setting(known, "overflow")).startswith("reject-publish")


def find_limits(known: Mapping[str, Any]) -> list[str]:
    """Return the names of the limits of a queue's length."""
    return [limit for limit in LENGTHS if find_setting(known, limit) is not None]


def find_setting(known: Mapping[str, Any], name: str) -> Any:
    """Return the setting in force for a queue: its argument, else that of its policy; the smaller of two numbers."""
    arguments, policy = known.get("arguments") or {}, known.get("effective_policy_definition") or {}
    own = arguments.get(f"x-{name}") if isinstance(arguments, dict) else None
    other = policy.get(name) if isinstance(policy, dict) else None
    if type(own) is int and type(other) is int:
        return min([each for each in (own, other) if each >= 0], default=-1)
    return other if own is None else own
