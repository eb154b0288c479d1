"""What a consumer writes and reads of POP: handles, answers, acknowledgements; as Java's client wrote and read them."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.pop.acking import Acking
from bridge.rocketmq.consumer.pop.answers import parse_pop
from bridge.rocketmq.consumer.pop.handle import (
    ORDER_REVIVE_QUEUE,
    POP_CK,
    PopHandle,
    parse_original_topic,
    pop_retry_topic,
    retry_mark,
)
from bridge.rocketmq.consumer.pop.requests import BrokerAssignment, TopicHandle, encode_batch_ack, query_assignment
from bridge.rocketmq.consumer.retrying import restore_topic
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, CommandError, RemotingError, SendRequestError
from exchange.errors import InputError
from tests.recorders import golden
from tests.recorders.rocketmq_pop import ACKS, ANSWERS, HANDLES
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import find_limit

RECORDED = golden.read("rocketmq-pop")


@pytest.mark.parametrize("at", range(len(HANDLES)))
def test_a_handle_is_java_s_text_and_leads_to_java_s_topic(at: int) -> None:
    start, pop_ms, invisible_ms, revive, topic, broker, queue, offset = HANDLES[at]
    text, real, ordered, original = RECORDED["handles"][at]
    handle = PopHandle(start, pop_ms, invisible_ms, revive, retry_mark(topic), broker, queue, offset)
    assert (handle.text, PopHandle.parse(text)) == (text, handle)
    assert handle.real_topic("orders", "group") == real
    assert (handle.revive_queue == ORDER_REVIVE_QUEUE) is ordered
    assert parse_original_topic(topic, "group") == original


NUMBERS = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "), min_size=1)


@given(st.builds(PopHandle, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from("012"), NAMES, NUMBERS, NUMBERS))
def test_a_handle_is_parsed_as_it_was_written(handle: PopHandle) -> None:
    assert PopHandle.parse(handle.text) == handle


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3", "0 1 2 3 0 b 0 x", "0 1 2 3 7 b 0 1", "0 1 2 3 0 b 0 1 ", "0 1_0 2 3 0 b 0 1", "1 2 3 4 0  0 1 1"],
)
def test_another_text_is_no_handle(text: str) -> None:
    with pytest.raises(InputError, match="handle of a popped message"):
        PopHandle.parse(text)


@pytest.mark.parametrize("at", range(len(ACKS)))
def test_the_body_of_a_batch_of_acknowledgements_is_java_s(at: int) -> None:
    ours = json.loads(encode_batch_ack("group", [("orders", PopHandle.parse(text)) for text in ACKS[at]]))
    java = json.loads(RECORDED["acks"][at])
    assert sorted(ours.pop("acks"), key=str) == sorted(java.pop("acks"), key=str)
    assert ours == java


@pytest.mark.parametrize("at", range(len(ANSWERS)))
def test_the_messages_of_an_answer_have_java_s_handles_topics_and_counts(at: int) -> None:
    asked, java = ANSWERS[at], RECORDED["answers"][at]
    answer = Command(asked["code"], asked["fields"], b64decode(java["body"]))
    if "error" in java:
        with pytest.raises((BrokerError, CommandError)):
            parse_pop(answer, "broker-a", "orders", 1 << 20)
        return
    popped = parse_pop(answer, "broker-a", "orders", 1 << 20)
    assert (popped.status.value, popped.rest) == (java["status"], java["rest"])
    assert [[each.topic, each.reconsume_times, each.properties] for each in popped.messages] == java["messages"]


def test_of_a_large_answer_only_what_there_is_room_for_is_unpacked() -> None:
    asked, java = ANSWERS[5], RECORDED["answers"][5]
    answer = Command(0, asked["fields"], b64decode(java["body"]))
    for room in range(3):
        popped = parse_pop(answer, "broker-a", "orders", [0, 1, 1 << 20][room])
        assert [each.properties for each in popped.messages] == [
            row[2] for row in java["messages"][: len(popped.messages)]
        ]
        assert len(popped.messages) == [1, 1, 3][room]


def test_retries_of_popped_messages_are_read_with_the_topic_they_were_popped_from() -> None:
    answer = Command(0, ANSWERS[4]["fields"], b64decode(RECORDED["answers"][4]["body"]))
    (message, _) = parse_pop(answer, "broker-a", "orders", 1 << 20).messages
    for mark in "12":
        retry = message._replace(topic=pop_retry_topic("orders", "group", mark))
        assert restore_topic(retry, "group").topic == "orders"
        assert restore_topic(retry, "other").topic == retry.topic


@pytest.mark.parametrize(
    "settings",
    [{"pop_batch_nums": 33}, {"pop_batch_nums": 0}, {"pop_invisible_time": 0}, {"pop_threshold_for_queue": 0}],
)
def test_settings_that_no_broker_takes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="pop_"):
        ConsumerSettings(**settings)


class Asked:
    """A client whose broker gives one answer."""

    client_id = "127.0.0.1@1"

    def __init__(self, body: bytes | BrokerError) -> None:
        self.body = body

    async def ask(self, *_: Any, **__: Any) -> Command:
        if isinstance(self.body, BrokerError):
            raise self.body
        return Command(0, body=self.body)


def assign(body: bytes | BrokerError) -> BrokerAssignment | None:
    return run_virtually(query_assignment(Asked(body), "h:1", "orders", "group", "AVG", "CLUSTERING"))  # type: ignore[arg-type]


def test_an_assignment_has_queues_to_pull_and_queues_to_pop() -> None:
    queue = {"brokerName": "b", "queueId": 1, "topic": "orders"}
    rows = [{"messageQueue": queue}, {"messageQueue": {**queue, "queueId": -1}, "mode": "POP"}]
    assert assign(json.dumps({"messageQueueAssignments": rows}).encode()) == BrokerAssignment(
        frozenset([TopicQueue("orders", "b", 1)]), frozenset([TopicQueue("orders", "b", -1)])
    )
    assert assign(b'{"messageQueueAssignments":[]}') == BrokerAssignment(frozenset())


def test_a_broker_without_assignments_is_no_error_and_one_without_ours_is() -> None:
    assert assign(BrokerError(3, "request type 400 not supported")) is None
    with pytest.raises(ClientError, match="assigns no queues of orders"):
        assign(b"{}")
    with pytest.raises(CommandError):
        assign(b'{"messageQueueAssignments":[{}]}')


class Broker:
    """Requests that fail as a test wants, and what was acknowledged."""

    def __init__(self, *failures: RemotingError | None) -> None:
        self.failures = list(failures)
        self.requests: list[list[int]] = []

    async def ack_all(self, handles: list[TopicHandle]) -> None:
        await pass_time(0.01)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.requests.append([handle.offset for _, handle in handles])


def acknowledge(broker: Broker, *offsets: int, seconds: float = 60) -> list[RemotingError | None]:
    told: list[RemotingError | None] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()

        def start(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
            return loop.create_task(work)

        acking = Acking("group", broker, start, lambda _, error: told.append(error))  # type: ignore[arg-type]
        for at in offsets:
            acking.add("orders", PopHandle(0, 1, 2, 3, "0", "b", 0, at), loop.time() + seconds)
            if at % 4 == 3:
                await pass_time(0.002)
        async with asyncio.timeout(find_limit()):
            await acking.flush()

    run_virtually(work())
    return told


def test_acknowledgements_that_come_while_a_request_is_under_way_are_the_next_one() -> None:
    broker = Broker()
    acknowledge(broker, *range(12))
    assert broker.requests == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11]]


def test_a_request_that_fails_is_sent_again_in_order() -> None:
    broker = Broker(SendRequestError("gone"))
    told = acknowledge(broker, 0, 1, 2)
    assert broker.requests == [[0, 1, 2]]
    assert [type(each) for each in told] == [SendRequestError, type(None)]


def test_what_is_overdue_is_not_acknowledged_any_more() -> None:
    broker = Broker(SendRequestError("gone"))
    acknowledge(broker, 0, 1, seconds=0.1)
    assert broker.requests == []


def test_a_broker_that_knows_no_batches_gets_one_at_a_time_and_a_refused_one_is_left() -> None:
    broker = Broker(BrokerError(3, "not supported"), None, BrokerError(208, "offset is illegal"))
    acknowledge(broker, 0, 1, 2)
    assert broker.requests == [[0], [2]]


@pytest.mark.parametrize("forged", ["not a handle", PopHandle(0, 1, 60_000, 1, "0", "broker-a", 0, 0).text])
def test_a_handle_that_a_producer_wrote_is_replaced(forged: str) -> None:
    asked, java = ANSWERS[4], RECORDED["answers"][4]
    raw = f"POP_CK\x01{forged}\x02".encode()
    body = b64decode(java["body"])
    size = int.from_bytes(body[:4], "big")
    first = body[: size - 2] + len(raw).to_bytes(2, "big") + raw
    first = len(first).to_bytes(4, "big") + first[4:]
    (message,) = parse_pop(Command(0, asked["fields"], first), "broker-a", "orders", 1 << 20).messages
    assert message.properties == java["messages"][0][2]


def test_only_popped_messages_have_a_handle() -> None:
    answer = Command(0, ANSWERS[4]["fields"], b64decode(RECORDED["answers"][4]["body"]))
    for message in parse_pop(answer, "broker-a", "orders", 1 << 20).messages:
        assert PopHandle.parse(message.properties[POP_CK]).offset == message.queue_offset
