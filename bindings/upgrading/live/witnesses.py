"""The messages that a test broker is asked about: those that show where routes of two releases differ."""

from __future__ import annotations

from collections.abc import Iterator

from bindings.diffing.comparison.meaning import Meaning
from bindings.upgrading.live.comparing import ProbeMessage
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["witnesses_of"]


def witnesses_of(before: Topology, meaning: Meaning) -> list[ProbeMessage]:
    """Return the messages of a comparison, each once, with the queues to which the old release routes them."""
    router = Router(before)
    found: dict[tuple[str, str, str], ProbeMessage] = {}
    for message in _messages(meaning):
        key = (message.exchange, message.routing_key, repr(sorted(message.headers.items(), key=repr)))
        if key not in found:
            try:
                queues = frozenset(router.route(message).queues)
            except BrokerError:
                queues = frozenset()
            found[key] = ProbeMessage(message, queues)
    return [*found.values()]


def _messages(meaning: Meaning) -> Iterator[Message]:
    yield from (effect.witness for effect in meaning.effects)
    yield from (lost.witness for lost in meaning.unroutable)
    yield from (choice.witness for choice in meaning.choices)
