"""Publishes that RabbitMQ does not permit, without a broker: what goes elsewhere goes on, and nothing overtakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pika.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Outgoing
from bridge.endpoints.rabbitmq.frames import Acked, Returned
from bridge.endpoints.rabbitmq.permissions import CALM, Permissions
from bridge.endpoints.rabbitmq.publishing import ChannelPublishing
from bridge.endpoints.rabbitmq.refusals import Refused, ask_for_grant
from bridge.endpoints.rabbitmq.routes import PublishAddress, build_routes
from bridge.endpoints.rabbitmq.suspects import Suspects
from bridge.endpoints.rabbitmq.unrouted import Unrouted
from exchange import Message
from tests.support.bridge.answers import Answers
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

TO_EXCHANGE = "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'"
TO_KEY = "ACCESS_REFUSED - write access to topic 'k.3' in exchange 'x' in vhost '/' refused for user 'u'"
INTERNAL = "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
BEFORE_3_13 = "ACCESS_REFUSED - access to topic 'k.3' in exchange 'x' in vhost '/' refused for user 'u'"


class Channel:
    """A channel of the broker below."""

    def __init__(self, broker: Broker, number: int, on_end: Callable[[BaseException], None]) -> None:
        self.number, self.on_end, self._broker, self.published = number, on_end, broker, 0
        self.on_events: Callable[[list[Any]], None] = lambda _: None

    async def enable_confirms(self) -> None:
        await pass_time(0.001)


class Broker:
    """A connection, and a broker that takes what is permitted, and closes the channel of the rest."""

    user, frame_max, silence, blocked, blocked_reason = "u", 131_072, None, False, ""

    def __init__(self, forbidden: set[tuple[bytes, bytes | None]]) -> None:
        self.forbidden = forbidden
        self.taken: list[tuple[bytes, bytes, bytes]] = []
        self.lost: list[BaseException] = []
        self.opened = 0
        self.channels = {1: Channel(self, 1, self.lose)}
        self.on_unblocked: Callable[[], None] = lambda: None

    async def channel(self, *, on_end: Callable[[BaseException], None]) -> Channel:
        await pass_time(0.001)
        self.opened += 1
        self.channels[2] = Channel(self, 2, on_end)
        return self.channels[2]

    def lose(self, error: BaseException) -> None:
        self.lost.append(error)

    def write(self, publishes: bytes) -> None:
        asyncio.get_running_loop().call_later(0.01, self.answer, publishes)

    def answer(self, publishes: bytes) -> None:
        for each in publishes.split(b"\n")[:-1]:
            number, exchange, key, body = each.split(b"|")
            channel = self.channels.get(int(number))
            if channel is None:
                continue
            whole = (exchange, None) in self.forbidden
            if whole or (exchange, key) in self.forbidden:
                del self.channels[channel.number]
                topic = "" if whole else f"topic '{key.decode()}' in "
                text = f"ACCESS_REFUSED - write access to {topic}exchange '{exchange.decode()}' in vhost '/' refused"
                channel.on_end(pika.exceptions.ChannelClosedByBroker(403, text))
                return
            channel.published += 1
            self.taken.append((exchange, key, body))
            channel.on_events([Acked(channel.published, multiple=False, nack=False)])


class Scene:
    """The publishes of a connection to that broker; what is published is written as a line."""

    def __init__(self, *forbidden: tuple[bytes, bytes | None], refusal: str = "") -> None:
        self.broker, self.answers, self.permissions = Broker({*forbidden}), Answers(), Permissions()
        if refusal:
            assert self.permissions.note_refusal(Refused(403, refusal), 0.0)
        routes = build_routes({"q": PublishAddress("x"), "r": PublishAddress("y")})
        broker: Any = self.broker
        self.publishing = ChannelPublishing(
            broker, broker.channels[1], self.answers, routes, Suspects(), Unrouted(30.0), self.permissions
        )
        self.publishing._encode = self.encode  # type: ignore[method-assign]
        self.publishing._trials._encode = self.encode
        self.sent = 0

    def encode(self, outgoing: Outgoing, channel: int | None = None) -> bytes:
        exchange, key, _ = self.publishing._address(outgoing)
        return b"%d|%s|%s|%d\n" % (channel or 1, exchange, key, outgoing.number)

    def send(self, keys: Sequence[int], queue: str = "q") -> None:
        messages = []
        for key in keys:
            self.sent += 1
            message = Message("in", f"k.{key}")
            messages.append(Outgoing(message, Delivery(message), queue, number=self.sent))
        self.publishing.send(messages)


@pytest.mark.parametrize(
    ("text", "exchange", "by_key"),
    [
        (TO_EXCHANGE, b"x", False),
        (TO_KEY, b"x", True),
        (BEFORE_3_13, b"x", True),
        (INTERNAL, b"x", False),
        (TO_EXCHANGE.replace("'x'", "'amq.default'"), b"", False),
        (TO_EXCHANGE.replace("'x'", "'it's in vhost 'here''"), b"it's in vhost 'here'", False),
    ],
)
def test_a_refusal_names_what_may_not_be_written_to(text: str, exchange: bytes, by_key: bool) -> None:
    permissions = Permissions()
    assert not permissions
    assert permissions.note_refusal(Refused(403, text), 0.0)
    assert permissions.doubts(exchange, b"k.1", 0.0)
    assert permissions.are_by_key(exchange) is by_key
    assert not permissions.doubts(b"other", b"k.1", 0.0)


def test_a_right_is_asked_for_only_where_one_is_missing() -> None:
    assert ask_for_grant(Refused(403, TO_EXCHANGE)).endswith("; grant it")
    internal = ask_for_grant(Refused(403, INTERNAL))
    assert "grant" not in internal
    assert internal.endswith("declare it anew, without internal, or write to another")


@pytest.mark.parametrize("error", [Refused(403, "ACCESS_REFUSED - cut off"), Refused(404, TO_KEY), Disconnected("end")])
def test_other_ends_of_a_connection_say_nothing_of_permissions(error: Disconnected) -> None:
    permissions = Permissions()
    assert not permissions.note_refusal(error, 0.0)
    assert not permissions


def test_an_exchange_that_may_not_be_written_to_holds_up_no_other_and_one_publish_proves_it() -> None:
    async def play() -> None:
        scene = Scene((b"x", None), refusal=TO_EXCHANGE)
        scene.send([1, 2])
        scene.send([1, 2, 3], "r")
        await pass_time(1.0)
        assert scene.answers.good == [3, 4, 5]
        assert [number for number, _ in scene.answers.bad] == [1, 2]
        assert all(each.busy and "grant it" in each.reason for _, each in scene.answers.bad)
        assert scene.broker.opened == 1  # the second one is like the first, and is not tried
        scene.broker.forbidden.clear()
        scene.send([1, 2, 3])
        await pass_time(1.0)
        assert scene.answers.good == [3, 4, 5, 6, 7, 8]
        assert not scene.permissions
        assert not scene.broker.lost

    run_virtually(play())


def test_a_routing_key_that_may_not_be_written_holds_up_no_other_key() -> None:
    async def play() -> None:
        scene = Scene((b"x", b"k.3"), refusal=TO_KEY)
        scene.send([1, 3, 2, 3, 1])
        await pass_time(1.0)
        assert sorted(scene.answers.good) == [1, 3, 5]
        assert [(number, each.waits, each.busy) for number, each in scene.answers.bad] == [
            (2, True, False),
            (4, True, False),
        ]
        await pass_time(CALM)
        scene.send([9])
        await pass_time(1.0)
        assert not scene.permissions
        assert not scene.broker.lost

    run_virtually(play())


def test_a_message_that_is_permitted_and_returned_is_published_as_others() -> None:
    async def play() -> None:
        scene = Scene(refusal=TO_EXCHANGE)
        scene.send([1])
        await pass_time(0.005)
        channel = scene.broker.channels[2]
        channel.on_events(
            [Returned(312, b"NO_ROUTE", b"x", b"k.1", b"\0\0", b""), Acked(1, multiple=False, nack=False)]
        )
        await pass_time(1.0)
        assert scene.answers.good == [1]
        assert [body for _, _, body in scene.broker.taken] == [b"1", b"1"]  # over both channels, by this broker

    run_virtually(play())


def test_a_refused_exchange_costs_the_same_for_each_message_however_many_wait() -> None:
    """Else a window of 100,000 messages would stop the loop for minutes, as long as the permission is missing."""

    def count(messages: int) -> int:
        scene, asked = Scene((b"x", None), refusal=TO_EXCHANGE), 0
        place = scene.publishing._trials._place

        def count_place(outgoing: Outgoing) -> tuple[bytes, bytes]:
            nonlocal asked
            asked += 1
            return place(outgoing)

        async def play() -> None:
            scene.publishing._trials._place = count_place
            for first in range(0, messages, 100):
                scene.send(range(first, first + 100))
            await pass_time(1.0)
            assert len(scene.answers.bad) == messages

        run_virtually(play())
        return asked

    assert count(4_000) <= 2.2 * count(2_000)


STEPS = st.lists(st.one_of(st.lists(st.integers(1, 4), max_size=6), st.sampled_from(["wait", "long"])), max_size=12)


@examples(200)
@given(STEPS, st.sets(st.integers(1, 4)))
def test_each_message_is_answered_and_those_that_are_taken_are_in_order(
    steps: list[list[int] | str], forbidden: set[int]
) -> None:
    async def play() -> None:
        scene = Scene(*[(b"x", b"k.%d" % key) for key in forbidden], refusal=TO_KEY)
        keys: dict[int, int] = {}
        for step in steps:
            if isinstance(step, list):
                keys |= dict(enumerate(step, scene.sent + 1))
                scene.send(step)
            else:
                await pass_time(0.004 if step == "wait" else 0.1)
            trials = scene.publishing._trials
            tried = [*trials._waiting, *([trials._under_way] if trials._under_way is not None else [])]
            exchanges = {trials._place(each)[0] for each in tried}
            assert [trials.holds(each) for each in (b"x", b"y")] == [each in exchanges for each in (b"x", b"y")]
        await pass_time(5.0)
        bad = [number for number, _ in scene.answers.bad]
        assert sorted([*scene.answers.good, *bad]) == [*keys]
        assert {keys[number] for number in bad} <= forbidden
        assert all(keys[number] not in forbidden for number in scene.answers.good)
        taken = [int(body) for _, _, body in scene.broker.taken]
        for key in {*keys.values()}:
            mine = [number for number in taken if keys[number] == key]
            assert mine == sorted(mine)
        assert not scene.broker.lost

    run_virtually(play())
