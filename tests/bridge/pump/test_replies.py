"""Requests and replies in the pump: replies go home, or are counted and settled where nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.endpoint import Failure, Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.interop.requests import KAFKA, RABBITMQ
from bridge.interop.return_address import Sealer
from bridge.pump.inlet import Inlet
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.pump import Pump
from bridge.pump.replies import Callers, Replies, Servers
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.message import Message
from tests.support.bridge.events import Events
from tests.support.waiting import find_limit

NOW = 1_795_000_000.0
SEALER = Sealer("asking", "here")


@dataclass
class Bridge:
    """A bridge between callers of RabbitMQ and servers of Kafka, in memory."""

    expired: Unroutable = Unroutable.DROP
    fault: Callable[[Outgoing], Any] = lambda _: None
    events: Events = field(default_factory=Events)
    served: MemoryTarget = field(default_factory=lambda: MemoryTarget("served"))
    dead: MemoryTarget = field(default_factory=lambda: MemoryTarget("dead"))
    now: float = NOW
    topics: frozenset[str] | None = None

    def run(self, requests: Sequence[Message] = (), replies: Sequence[Message] = ()) -> list[Outgoing]:
        """Carry requests and replies, and return the replies that callers got."""

        async def run() -> list[Outgoing]:
            asking, replying = MemorySource(requests, "asking"), MemorySource(replies, "replies.served")
            home = MemoryTarget("callers.asking", self.fault)
            servers = Servers(KAFKA, "place", {"asking": SEALER}, 5.0, self.expired)
            between = Replies({self.served: servers}, {"asking": Callers(RABBITMQ, home, self.topics)})
            router = Router(Topology(queues=[Queue("rpc")]))
            inlets = [Inlet(asking), Inlet(replying, replies_of=servers)]
            asking.end()
            replying.end()
            pump = Pump(
                inlets, router, {"rpc": self.served}, self.events, Policy(), self.dead, clock=lambda: self.now,
                replies=between,
            )  # fmt: skip
            await asyncio.wait_for(pump.run(), find_limit())
            assert asking.unsettled == replying.unsettled == 0
            return home.messages

        return asyncio.run(run())


def ask(**properties: Any) -> Message:
    return Message("", "rpc", {}, {"reply_to": "amq.gen-1", "correlation_id": "7", **properties}, b"ask")


def answer(request: Outgoing) -> Message:
    """Return what a server of Kafka replies, as the bridge reads it."""
    headers = request.message.headers
    assert headers["kafka_replyTopic"] == "place"
    return Message("place", "", {"kafka_correlationId": headers["kafka_correlationId"]}, {}, b"reply")


def test_a_reply_goes_home_through_a_bridge_that_was_started_after_the_request() -> None:
    first, second = Bridge(), Bridge()
    first.run([ask()])
    [request] = first.served.messages
    [reply] = second.run(replies=[answer(request)])
    assert (reply.message.exchange, reply.message.routing_key, reply.message.body) == ("", "amq.gen-1", b"reply")
    assert reply.message.properties["correlation_id"] == "7"
    assert second.events.calls_of("replied") == [("replies.served", "brought home")]
    assert first.events.calls_of("requested") == [("asking", "passed on")]


def test_a_message_that_asks_for_no_reply_passes_as_it_is() -> None:
    bridge = Bridge()
    bridge.run([Message("", "rpc", {"a": 1}, {}, b"tell")])
    [told] = bridge.served.messages
    assert told.message.headers == {"a": 1}
    assert told.request is None
    assert bridge.events.calls_of("requested") == []


def test_a_reply_that_comes_too_late_is_dropped() -> None:
    first = Bridge()
    first.run([ask(expiration="3000")])
    reply = answer(first.served.messages[0])
    assert len(Bridge(now=NOW + 2.9).run(replies=[reply])) == 1
    late = Bridge(now=NOW + 3)
    assert late.run(replies=[reply]) == []
    assert late.events.calls_of("replied") == [("replies.served", "late")]
    assert late.dead.messages == []


def test_a_reply_without_a_token_of_this_bridge_is_dropped() -> None:
    foreign = Sealer("asking", "there")
    bridge = Bridge()
    first = Bridge()
    first.run([ask()])
    token = str(first.served.messages[0].message.headers["kafka_correlationId"])
    replies = [
        Message("place", "", {}, {}, b"1"),
        Message("place", "", {"kafka_correlationId": "7"}, {}, b"2"),
        Message("place", "", {"kafka_correlationId": token[:-1]}, {}, b"3"),
        Message("place", "", {"kafka_correlationId": token.replace(SEALER.id, foreign.id)}, {}, b"4"),
    ]
    assert bridge.run(replies=replies) == []
    assert bridge.events.calls_of("replied") == 4 * [("replies.served", "unknown")]


@pytest.mark.parametrize("fate", [Unroutable.DROP, Unroutable.DEAD_LETTER])
def test_an_expired_request_meets_the_fate_of_its_table(fate: Unroutable) -> None:
    bridge = Bridge(expired=fate)
    bridge.run([ask(expiration="0"), ask()])
    assert len(bridge.served.messages) == 1
    assert bridge.events.calls_of("requested") == [("asking", "expired"), ("asking", "passed on")]
    reasons = [dead.message.headers["hashstar-reason"] for dead in bridge.dead.messages]
    assert reasons == ([] if fate is Unroutable.DROP else ["expired: its caller waits no longer"])


def test_a_request_that_is_malformed_becomes_a_dead_letter_at_once() -> None:
    bridge = Bridge()
    bridge.run([ask(expiration="soon")])
    [dead] = bridge.dead.messages
    assert "'soon' is not a whole number" in str(dead.message.headers["hashstar-reason"])
    assert bridge.served.messages == []


def test_a_caller_that_is_gone_holds_up_no_others() -> None:
    first = Bridge()
    first.run([ask(reply_to="gone"), ask(reply_to="there"), ask(reply_to="gone"), ask(reply_to="there")])
    bridge = Bridge(
        fault=lambda reply: (
            Failure("returned: 312 NO_ROUTE", final=True) if reply.message.routing_key == "gone" else None
        )
    )
    home = bridge.run(replies=[answer(each) for each in first.served.messages])
    assert [each.message.routing_key for each in home] == ["there", "there"]
    assert [call[3] for call in bridge.events.calls_of("gave_up")] == ["drop", "drop"]
    assert bridge.dead.messages == []


def test_a_request_that_names_a_topic_that_may_not_be_replied_to_becomes_a_dead_letter() -> None:
    bridge = Bridge(topics=frozenset({"home"}))
    bridge.run([ask(reply_to="orders"), ask(reply_to="home")])
    [dead] = bridge.dead.messages
    assert "'orders' is not in reply_topics of [sources.asking]" in str(dead.message.headers["hashstar-reason"])
    assert len(bridge.served.messages) == 1


@pytest.mark.parametrize(("topics", "comes_home"), [(None, 1), ({"home", "other"}, 1), ({"other"}, 0)])
def test_a_reply_goes_only_where_replies_may_still_be_written_when_it_comes(
    topics: set[str] | None, comes_home: int
) -> None:
    asked = Bridge(topics=frozenset({"home"}))
    asked.run([ask(reply_to="home")])
    later = Bridge(topics=None if topics is None else frozenset(topics))
    assert len(later.run(replies=[answer(each) for each in asked.served.messages])) == comes_home


def test_copies_for_other_targets_are_no_requests() -> None:
    """One queue has servers, and another is an archive: it gets the message as it was."""

    async def run() -> tuple[list[Outgoing], list[Outgoing]]:
        asking, served, kept = (
            MemorySource([ask(expiration="0"), ask()], "asking"),
            MemoryTarget("s"),
            MemoryTarget("k"),
        )
        asking.end()
        home = MemoryTarget("callers.asking")
        between = Replies({served: Servers(KAFKA, "place", {"asking": SEALER})}, {"asking": Callers(RABBITMQ, home)})
        topology = Topology(exchanges=[Exchange("fan", "fanout")], queues=[Queue("rpc"), Queue("log")])
        for queue in ("rpc", "log"):
            topology = topology.bind(Binding.to_queue("fan", queue))
        pump = Pump(
            [Inlet(asking, exchange="fan")], Router(topology), {"rpc": served, "log": kept}, Events(),
            clock=lambda: NOW, replies=between,
        )  # fmt: skip
        await asyncio.wait_for(pump.run(), find_limit())
        return served.messages, kept.messages

    served, kept = asyncio.run(run())
    assert len(served) == 1
    assert [each.message.properties["reply_to"] for each in kept] == 2 * ["amq.gen-1"]
    assert all("kafka_replyTopic" not in each.message.headers for each in kept)
