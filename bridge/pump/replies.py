"""Requests that a bridge passes on to servers of another system, and the replies that it brings back.

In an outgoing request, the bridge's own queue or topic for replies and a token replace the return address of the
caller. The token comes back in the reply and holds the caller's address, to which the reply is sent without routing, so
the bridge keeps no state between the two. `bridge.interop.return_address` describes tokens, `bridge.interop.requests`
the systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from bridge.endpoint import Delivery, Target
from bridge.interop.record import Unmappable
from bridge.interop.requests import CONVENTIONS, ReplyRequest, find_caller, find_correlation, to_reply, to_request
from bridge.interop.return_address import ReturnAddress, Sealer, open_token
from bridge.pump.policy import Unroutable
from exchange.values.message import Message

RequestOutcome = Literal["passed on", "expired"]
ReplyOutcome = Literal["brought home", "late", "unknown"]


@dataclass(frozen=True, slots=True, eq=False)
class Servers:
    """The servers that answer the requests a target writes."""

    system: str
    place: str
    """The queue or topic where the bridge reads their replies."""
    sealers: Mapping[str, Sealer]
    """Source -> sealer of the tokens of its requests."""
    timeout: float = 60.0
    """Seconds that the caller of a request waits, if the request has no time limit of its own."""
    expired: Unroutable = Unroutable.DROP
    """What happens to a request whose caller no longer waits: it is dropped, or becomes a dead letter."""


@dataclass(frozen=True, slots=True, eq=False)
class Callers:
    """The callers whose requests a source reads."""

    system: str
    target: Target
    """The target that writes replies to them."""
    topics: frozenset[str] | None = None
    """Topics that replies may be written to; None: any topic or queue that a request names."""


class PassedRequest(NamedTuple):
    """A request as it is passed on to servers."""

    message: Message
    request: ReplyRequest


class AddressedReply(NamedTuple):
    """A reply to be sent to its caller."""

    message: Message
    target: Target
    queue: str
    """The queue of `bridge.endpoint.Outgoing`: the topic for Kafka, where several may be written to; else ""."""
    address: ReturnAddress
    deadline: int
    """Time until which the caller waits, in milliseconds since 1970."""


class Replies:
    """The requests and replies of a bridge; ``callers`` is name of a source -> its callers. Times are in seconds."""

    def __init__(self, servers: Mapping[Target, Servers], callers: Mapping[str, Callers]) -> None:
        self.servers: Final = servers
        self.callers: Final = callers
        self._sealers: Final = {
            each: {sealer.id: sealer for sealer in each.sealers.values()} for each in servers.values()
        }

    def pass_on(
        self, source: str, delivery: Delivery, message: Message, servers: Servers, now: float
    ) -> PassedRequest | None:
        """Return a message as a request to these servers; None if it is no request.

        A time limit counts from the time at which the message was published, where its source knows that. RabbitMQ
        does not: ``timestamp`` is the publisher's, and may be that of an event long ago. There it counts from ``now``;
        the broker has dropped what had expired in its queue. Raises Unmappable, MalformedHeader; `TimeoutError`
        where the caller no longer waits.
        """
        callers = self.callers.get(source) if source in servers.sealers else None
        caller = None if callers is None else find_caller(message, callers.system)
        if callers is None or caller is None:
            return None
        if callers.topics is not None and caller.address.name not in callers.topics:
            raise Unmappable(f"its reply topic {caller.address.name!r} is not in reply_topics of [sources.{source}]")
        present = int(now * 1_000)
        from_reading = CONVENTIONS[callers.system].counts_from_reading
        published = present if delivery.time is None or from_reading else delivery.time // 1_000
        limit = int(servers.timeout * 1_000) if caller.limit is None else caller.limit
        deadline = min(published, present) + limit if caller.deadline is None else caller.deadline
        if deadline <= present:
            raise TimeoutError
        request = ReplyRequest(servers.place, servers.sealers[source].seal(caller.address, deadline), deadline)
        return PassedRequest(to_request(message, servers.system, request, present), request)

    def address_reply(self, servers: Servers, delivery: Delivery, now: float) -> AddressedReply | ReplyOutcome:
        """Return a reply of these servers with its caller's address, or why it has no caller.

        Raises MalformedHeader.
        """
        token = open_token(find_correlation(delivery.message, servers.system), self._sealers[servers])
        if token is None:
            return "unknown"
        callers, address = self.callers[token.caller], token.address
        if callers.topics is not None and address.name not in callers.topics:
            return "unknown"
        if token.deadline <= now * 1_000:
            return "late"
        queue = "" if callers.topics is None else address.name
        return AddressedReply(
            to_reply(delivery.message, callers.system, address), callers.target, queue, address, token.deadline
        )
