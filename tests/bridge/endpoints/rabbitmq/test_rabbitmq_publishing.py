"""Confirms, nacks and returns at a RabbitMQ target, without a broker: events in, reports out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.endpoints.rabbitmq.frames import Acked, Returned
from bridge.endpoints.rabbitmq.permissions import Permissions
from bridge.endpoints.rabbitmq.publishing import ChannelPublishing
from bridge.endpoints.rabbitmq.refusals import Refused
from bridge.endpoints.rabbitmq.routes import PublishAddress, build_routes
from bridge.endpoints.rabbitmq.suspects import Suspects
from bridge.endpoints.rabbitmq.unrouted import Unrouted
from exchange import Message
from exchange.amqp.methods import decode_method
from tests.support.bridge.answers import Answers
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually


class Wire:
    """A connection that keeps what is written to it; it is its own channel, too."""

    number = 1
    user = "guest"
    frame_max = 131_072
    silence = None

    def __init__(self) -> None:
        self.blocked = False
        self.blocked_reason = ""
        self.writes = 0
        self.on_events: Callable[[list[Any]], None] = lambda _: None
        self.on_unblocked: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        self.writes += 1


class Scene:
    """The publishes of one connection, with its reports."""

    def __init__(self, suspects: int = 0, *, to_callers: bool = False) -> None:
        self.wire, self.answers = Wire(), Answers()
        wire: Any = self.wire
        routes = build_routes({"q": PublishAddress("x"), "r": PublishAddress("x"), "s": PublishAddress.queue("s")})
        self.suspects = Suspects(suspects)
        self.publishing = ChannelPublishing(
            wire, wire, self.answers, routes, self.suspects, Unrouted(30.0), Permissions(), to_callers=to_callers
        )
        self.sent = 0

    def send(self, count: int = 1, queue: str = "q") -> None:
        messages = [Message("in", f"k.{n}", {}, {}, b"%d" % n) for n in range(self.sent + 1, self.sent + count + 1)]
        self.publishing.send([
            Outgoing(message, Delivery(message), queue, number=n) for n, message in enumerate(messages, self.sent + 1)
        ])  # fmt: skip
        self.sent += count

    def hear(self, *events: Any) -> None:
        self.wire.on_events(list(events))

    def make_return(self, number: int, code: int = 312) -> Returned:
        return Returned(code, b"NO_ROUTE", b"x", b"k.%d" % number, b"\0\0", b"%d" % number)


def ack(number: int, *, multiple: bool = False) -> Acked:
    return Acked(number, multiple, nack=False)


def play_scene(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


def test_a_confirm_answers_one_message_or_all_up_to_it() -> None:
    async def play() -> None:
        scene = Scene()
        scene.send(6)
        scene.hear(ack(2))
        assert scene.answers.good == [2]
        scene.hear(ack(4, multiple=True))
        assert scene.answers.good == [2, 1, 3, 4]
        scene.hear(ack(4), ack(4, multiple=True))  # nobody is confirmed twice
        scene.hear(Acked(5, multiple=False, nack=True), ack(6))
        assert scene.answers.good == [2, 1, 3, 4, 6]
        reason = "nack: a queue behind exchange 'x' (routing key 'k.5') is full, or cannot be written to now"
        assert scene.answers.bad == [(5, Failure(reason, busy=True))]

    play_scene(play)


def test_a_message_that_was_returned_is_not_confirmed_by_its_confirm() -> None:
    """The broker returns an unroutable message and then confirms it; to count it as confirmed would be a loss."""

    async def play() -> None:
        scene = Scene()
        scene.send(3)
        scene.hear(scene.make_return(2), ack(3, multiple=True))
        assert scene.answers.good == [1, 3]
        [(number, failure)] = scene.answers.bad
        assert number == 2
        assert failure.waits
        assert failure.reason.startswith("returned: 312 NO_ROUTE: exchange 'x' does not route routing key 'k.2' now")
        scene.send(2)
        scene.hear(scene.make_return(5))
        assert len(scene.answers.bad) == 1  # the confirm comes behind it
        scene.hear(ack(4), ack(5))
        assert scene.answers.good == [1, 3, 4]
        assert [number for number, _ in scene.answers.bad] == [2, 5]

    play_scene(play)


def test_suspects_are_sent_one_by_one_until_the_guilty_one_is_found() -> None:
    async def play() -> None:
        scene = Scene(suspects=3)
        scene.send(5)
        assert scene.wire.writes == 1  # of the first one
        scene.hear(ack(1))
        assert scene.wire.writes == 2
        error = Refused(501, "a header that cannot be read")
        scene.publishing.accuse(error)
        assert scene.suspects.count == 1  # two were suspected, and this one it was
        [(number, failure)] = scene.answers.bad
        assert number == 2
        assert failure.final

    play_scene(play)


def test_the_number_of_suspects_is_counted() -> None:
    async def play() -> None:
        scene = Scene()
        scene.send(4)
        scene.hear(ack(1))
        scene.publishing.accuse(Refused(501, "no"))
        assert scene.suspects.count == 3
        assert scene.answers.bad == []

    play_scene(play)


def test_a_guilty_message_is_not_sent_again_and_ends_no_further_connection() -> None:
    """It is held and tried again where it cannot become a dead letter."""

    async def play() -> None:
        scene = Scene(suspects=1)
        scene.send(1)
        guilty = scene.publishing._under_way[1]
        scene.publishing.accuse(Refused(501, "a header that cannot be read"))
        for _ in range(3):
            before = scene.wire.writes
            scene.publishing.send([guilty])
            await asyncio.sleep(0)
            assert scene.wire.writes == before
        assert [(number, failure.final) for number, failure in scene.answers.bad] == [(1, True)] * 4
        assert len({failure.reason for _, failure in scene.answers.bad}) == 1
        scene.suspects.forget()
        scene.publishing.send([guilty])
        assert scene.wire.writes == 2

    play_scene(play)


@pytest.mark.parametrize(
    "text", ["message size 4 is larger than configured max size 3", "message size 9 is larger than max size 3"]
)
def test_where_the_broker_names_its_largest_message_only_larger_ones_are_guilty(text: str) -> None:
    async def play() -> None:
        scene = Scene()
        bodies = [b"123", b"1234", b"", b"12345"]
        outgoing = [
            Outgoing(message, Delivery(message), "q", number=n)
            for n, message in enumerate([Message("in", "k", {}, {}, body) for body in bodies], 1)
        ]
        scene.publishing.send(outgoing)
        scene.publishing.accuse(Refused(406, f"PRECONDITION_FAILED - {text}"))
        assert [number for number, _ in scene.answers.bad] == [2, 4]
        assert all(failure.final and "max_message_size" in failure.reason for _, failure in scene.answers.bad)
        assert scene.suspects.count == 0
        scene.publishing.send(outgoing)  # over the next connection
        await asyncio.sleep(0)
        assert [number for number, _ in scene.answers.bad] == [2, 4, 2, 4]
        scene.hear(ack(5), ack(6))  # behind the four of before
        assert scene.answers.good == [1, 3]

    play_scene(play)


def test_after_the_last_suspect_all_that_waits_goes_at_once() -> None:
    async def play() -> None:
        scene = Scene(suspects=2)
        scene.send(6)
        scene.hear(ack(1))
        scene.hear(ack(2))
        assert scene.wire.writes == 3
        scene.hear(ack(6, multiple=True))
        assert scene.answers.good == [1, 2, 3, 4, 5, 6]

    play_scene(play)


def test_while_publishers_are_blocked_nothing_is_written() -> None:
    async def play() -> None:
        scene = Scene()
        scene.wire.blocked = True
        scene.send(3)
        assert scene.wire.writes == 0
        assert scene.publishing.trouble == "blocked by the broker"
        scene.wire.blocked = False
        scene.wire.on_unblocked()
        assert scene.wire.writes == 1
        scene.hear(ack(3, multiple=True))
        assert scene.answers.good == [1, 2, 3]

    play_scene(play)


def test_a_message_that_cannot_be_written_is_refused_and_the_broker_s_numbers_stay_right() -> None:
    async def play() -> None:
        scene = Scene()
        good, bad = Message("in", "k.1", {}, {}, b"1"), Message("in", "k" * 300)
        outgoing = [Outgoing(each, Delivery(each), "q", number=n) for n, each in ((10, good), (11, bad), (12, good))]
        scene.publishing.send(outgoing)
        await pass_time(0.1)
        assert [(number, failure.final) for number, failure in scene.answers.bad] == [(11, True)]
        scene.hear(ack(2))
        assert scene.answers.good == [12]

    play_scene(play)


@examples(100)
@given(st.lists(st.booleans(), max_size=9), st.integers(0, 6))
@example([True, False, True, True], 4)
def test_all_are_answered_though_some_cannot_be_written_and_some_are_suspects(
    can_be: list[bool], suspects: int
) -> None:
    async def play() -> None:
        scene = Scene(suspects)
        messages = [Message("in", "k" if each else "k" * 300) for each in can_be]
        scene.publishing.send([Outgoing(each, Delivery(each), "q", number=n) for n, each in enumerate(messages)])
        for _ in can_be:
            await pass_time(0.1)
            for number in [*scene.publishing._under_way]:
                scene.hear(ack(number))
        await pass_time(0.1)
        assert scene.answers.good == [n for n, each in enumerate(can_be) if each]
        assert sorted(number for number, _ in scene.answers.bad) == [n for n, each in enumerate(can_be) if not each]

    play_scene(play)


@pytest.mark.parametrize(("queue", "exchange", "is_busy"), [("q", b"x", False), ("s", b"", True)])
def test_what_comes_back_waits_for_its_binding_or_for_the_queue_that_is_missing(
    queue: str, exchange: bytes, is_busy: bool
) -> None:
    """A queue that is missing takes nothing, as one that is full; an exchange may route others."""

    async def play() -> None:
        scene = Scene()
        scene.send(queue=queue)
        returned = Returned(312, b"NO_ROUTE", exchange, b"s" if is_busy else b"k.1", b"\0\0", b"1")
        scene.hear(returned, ack(1))
        [(number, failure)] = scene.answers.bad
        assert (number, failure.busy, failure.waits) == (1, is_busy, not is_busy)

    play_scene(play)


@pytest.mark.parametrize("to_callers", [False, True])
@pytest.mark.parametrize("key", ["amq.gen-1", "amq.rabbitmq.reply-to.abc"])
def test_all_but_direct_replies_come_back_if_no_queue_gets_them(key: str, to_callers: bool) -> None:
    async def play() -> None:
        publishing = Scene(to_callers=to_callers).publishing
        message = Message("", key)
        frame = publishing._encode(Outgoing(message, Delivery(message), "q"))
        method = decode_method(frame[7 : 7 + int.from_bytes(frame[3:7])])
        assert method.arguments["mandatory"] == (not to_callers or key == "amq.gen-1")

    play_scene(play)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4), st.none(), st.none()),
        st.tuples(st.sampled_from(["ack", "nack"]), st.integers(1, 30), st.booleans(), st.none()),
        st.tuples(st.just("return"), st.integers(0, 30), st.booleans(), st.sampled_from([312, 313])),
        st.tuples(st.sampled_from(["block", "unblock"]), st.none(), st.none(), st.none()),
    ),
    max_size=40,
)


@examples(400)
@given(STEPS, st.integers(0, 3))
@example([("send", 3, None, None), ("nack", 2, True, None)], 0)
def test_each_message_has_the_one_answer_that_the_broker_gave_it(steps: list[tuple[Any, ...]], suspects: int) -> None:
    """Only an ack confirms, and only what was not returned before it: all else would be a loss."""

    async def play() -> None:
        scene = Scene(suspects)
        published = 0
        alone, waiting = suspects, 0
        unanswered: dict[int, bool] = {}
        good, bad = set[int](), set[int]()

        def publish() -> None:
            nonlocal published, waiting
            if scene.wire.blocked:
                return
            count = waiting if not alone else min(waiting, not unanswered)
            waiting -= count
            unanswered.update((number, False) for number in range(published + 1, published + count + 1))
            published += count

        for step, number, flag, code in steps:
            if step == "send":
                waiting += number
                scene.send(number)
                publish()
            elif step in ("block", "unblock"):
                scene.wire.blocked = step == "block"
                if step == "unblock":
                    scene.wire.on_unblocked()
                    publish()
            elif step == "return":
                fresh = [each for each, returned in unanswered.items() if not returned]
                if fresh:
                    which = fresh[number % len(fresh)]
                    unanswered[which] = True
                    scene.hear(scene.make_return(which, code))
            else:
                last = min(number, published)
                to = [each for each in unanswered if (each <= last if flag else each == last)]
                for each in to:
                    (bad if unanswered.pop(each) or step == "nack" else good).add(each)
                alone = max(0, alone - len(to))
                scene.hear(Acked(last, multiple=flag, nack=step == "nack"))
                publish()
            assert set(scene.answers.good) == good
            assert {each for each, _ in scene.answers.bad} == bad
            assert len(scene.answers.good) + len(scene.answers.bad) == len(good) + len(bad)
            assert len(scene.publishing._under_way) == len(unanswered)

    play_scene(play)
