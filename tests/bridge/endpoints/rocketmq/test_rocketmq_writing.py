"""What a target of RocketMQ makes of a broker's answers: a producer of the test gives them."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridge.endpoints.rocketmq.writing as module
from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.rocketmq.placing import MessageWriter, WritableQueues
from bridge.endpoints.rocketmq.writing import BATCH_MESSAGES, Writing
from bridge.endpoints.topics import TopicDestination
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import SendResult
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import (
    BrokerError,
    ClientError,
    CommandError,
    ConnectError,
    RemotingTimeout,
    SendRequestError,
)
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import IllegalMessage
from exchange import Message
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.partitions import Partitions
from tests.support.bridge.behaviour import Reports
from tests.support.tiers import examples
from tests.support.virtual_loop import on_a_virtual_loop, pass_time

Answer = str | Exception
OK = "SEND_OK"


class Scripted:
    """A producer with scripted answers, then SEND_OK; a request takes one turn of the loop."""

    def __init__(self, *answers: Answer | Callable[[list[bytes]], Answer]) -> None:
        self.answers = deque(answers)
        self.requests: list[tuple[MessageQueue, list[bytes]]] = []
        self.under_way: dict[MessageQueue, int] = {}

        self.unwritable: dict[bytes, Exception] = {}

    def check(self, message: RocketMessage) -> None:
        if message.body in self.unwritable:
            raise self.unwritable[message.body]

    async def send(self, message: RocketMessage, *, queue: MessageQueue) -> SendResult:
        return await self.send_batch([message], queue=queue)

    async def send_batch(self, messages: Sequence[RocketMessage], *, queue: MessageQueue) -> SendResult:
        bodies = [message.body for message in messages]
        self.requests.append((queue, bodies))
        self.under_way[queue] = self.under_way.get(queue, 0) + 1
        assert self.under_way[queue] == 1
        await asyncio.sleep(0)
        self.under_way[queue] -= 1
        answer = self.answers.popleft() if self.answers else OK
        if callable(answer):
            answer = answer(bodies)
        if isinstance(answer, Exception):
            raise answer
        return SendResult(answer, "", "", queue, 0)


def writing(producer: Scripted, told: Reports, *, queues: int = 1, confirm: bool = False) -> Writing:
    writer = MessageWriter({"q": TopicDestination("t")})
    writer.spreads["t"] = WritableQueues("t", Partitions.queues({"a": queues}))
    return Writing(cast("Client", None), cast("Producer", producer), told, writer, confirm_not_store_ok=confirm)


def outgoing(count: int, keys: int = 1) -> list[Outgoing]:
    messages = [Message("", f"k{n % keys}", body=b"%d" % n) for n in range(count)]
    return [Outgoing(message, Delivery(message), "q", None, n + 1) for n, message in enumerate(messages)]


def numbers(told: Reports) -> list[int]:
    return [each.number for each in told.confirmations]


def refusal(code: ResponseCode) -> BrokerError:
    return BrokerError(code, "no", "a:10911")


@on_a_virtual_loop
async def test_messages_that_come_during_a_request_are_the_next_batch() -> None:
    producer, told = Scripted(), Reports()
    state = writing(producer, told)
    messages = outgoing(BATCH_MESSAGES + 10)
    state.send(messages[:1])
    await asyncio.sleep(0)
    state.send(messages[1:])
    await told.answers(len(messages))
    assert [len(bodies) for _, bodies in producer.requests] == [1, BATCH_MESSAGES, 9]
    assert numbers(told) == [each.number for each in messages]


@on_a_virtual_loop
async def test_queues_do_not_wait_for_each_other_and_each_is_in_order() -> None:
    producer, told = Scripted(), Reports()
    state = writing(producer, told, queues=4)
    messages = outgoing(100, keys=20)
    for each in messages:
        state.send([each])
        await asyncio.sleep(0)
    await told.answers(100)
    assert {queue for queue, _ in producer.requests} == {MessageQueue("a", at) for at in range(4)}
    for at in range(4):
        line = [int(body) for queue, bodies in producer.requests if queue.queue_id == at for body in bodies]
        assert line == sorted(line)


@pytest.mark.parametrize("status", ["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_a_message_that_is_not_stored_safely_is_refused_or_confirmed_as_configured(status: str) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        told = Reports()
        writing(Scripted(status), told).send(outgoing(3))
        await told.answers(3)
        assert [(failure.reason, failure.final) for _, failure in told.failures] == [
            (f"not as safe as it is to be: {status}", False)
        ] * 3
        told = Reports()
        writing(Scripted(status), told, confirm=True).send(outgoing(3))
        await told.answers(3)
        assert numbers(told) == [1, 2, 3]

    check()


@pytest.mark.parametrize("error", [refusal(ResponseCode.MESSAGE_ILLEGAL), IllegalMessage("no")])
def test_only_the_illegal_message_of_a_batch_is_refused_finally(error: Exception) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        def judge(bodies: list[bytes]) -> Answer:
            return error if b"2" in bodies else OK

        producer, told = Scripted(*[judge] * 8), Reports()
        state = writing(producer, told)
        state.send(outgoing(5))
        await told.answers(5)
        assert numbers(told) == [1, 2, 4, 5]
        [(refused, failure)] = told.failures
        assert (refused.number, failure.final) == (3, True)
        assert failure.reason == f"illegal: {error}"
        halves = [b"0 1", b"2 3 4", b"2", b"3 4"]
        assert [b" ".join(bodies) for _, bodies in producer.requests][1:] == halves

    check()


LIMIT = 5_000
SIZES = st.lists(st.sampled_from([0, 1, 300, 900, 2_000, LIMIT + 1]), min_size=1, max_size=40)


@examples(200)
@given(sizes=SIZES, modern=st.booleans())
def test_a_batch_over_the_limit_of_the_broker_is_halved_and_only_too_large_messages_are_refused(
    sizes: list[int], *, modern: bool
) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        stored: list[int] = []
        refused: list[tuple[int, int]] = []

        def judge(bodies: list[bytes]) -> Answer:
            if sum(map(len, bodies)) > LIMIT:
                refused.append((len(bodies), sum(map(len, bodies))))
                if modern and len(bodies) > 1:
                    return BrokerError(
                        ResponseCode.SYSTEM_ERROR, "java.lang.RuntimeException: message body size exceeded"
                    )
                return refusal(ResponseCode.MESSAGE_ILLEGAL)
            stored.extend(int(body) for body in bodies)
            return OK

        messages = [Message("", "k", body=(b"%d" % n).rjust(size)) for n, size in enumerate(sizes)]
        told = Reports()
        state = writing(Scripted(*[judge] * 999), told)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "BUSY_SECONDS", 0.0)
            state.send([Outgoing(each, Delivery(each), "q", None, n) for n, each in enumerate(messages)])
            await told.answers(len(sizes))
        large = [n for n, size in enumerate(sizes) if size > LIMIT]
        assert [outgoing.number for outgoing, _ in told.failures] == large
        assert stored == numbers(told) == [n for n in range(len(sizes)) if n not in large]
        if not large and refused:
            [line] = state.lines.values()
            assert line.batch_bytes < module.BATCH_BYTES

    check()


@pytest.mark.parametrize("code", sorted(module.BUSY))
def test_a_busy_broker_gets_the_same_batch_again(code: ResponseCode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_FIRST", 0.001)

    @on_a_virtual_loop
    async def check() -> None:
        producer, told = Scripted(refusal(code), refusal(code)), Reports()
        writing(producer, told).send(outgoing(2))
        await told.answers(2)
        assert producer.requests == [(MessageQueue("a", 0), [b"0", b"1"])] * 3
        assert numbers(told) == [1, 2]

    check()


LASTING: list[Exception] = [
    refusal(ResponseCode.NO_PERMISSION), refusal(ResponseCode.TOPIC_NOT_EXIST), ClientError("no broker"),
    ConnectError("no"), SendRequestError("gone"), RemotingTimeout("late"),
]  # fmt: skip


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_an_error_that_is_no_message_s_fault_is_a_lost_connection(error: Exception) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        producer, told = Scripted(OK, error), Reports()
        state = writing(producer, told, queues=2)
        messages = outgoing(40, keys=9)
        state.send(messages)
        await told.loss()
        await pass_time(0.01)
        [lost] = told.losses
        assert str(error) in str(lost)
        assert "t at a:" in str(lost)
        assert not told.failures
        before = len(told.confirmations)
        state.send(messages)
        await pass_time(0.01)
        assert len(told.confirmations) == before
        await state.end()

    check()


@on_a_virtual_loop
async def test_a_broker_that_stays_busy_is_a_lost_connection() -> None:
    told = Reports()
    state = writing(Scripted(*[refusal(ResponseCode.SYSTEM_BUSY)] * 99), told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUSY_SECONDS", 0.05)
        patch.setattr(module, "BUSY_FIRST", 0.01)
        state.send(outgoing(1))
        await told.loss()
    assert "SYSTEM_BUSY" in str(told.losses[0])


@on_a_virtual_loop
async def test_a_message_that_cannot_be_translated_fails_but_not_before_send_returns() -> None:
    told = Reports()
    state = writing(Scripted(), told)
    wrong = Message("", "k", {"x-rocketmq-topic": 1}, {}, b"x")
    messages = [*outgoing(1), Outgoing(wrong, Delivery(wrong), "q", None, 2)]
    told.sending = True
    state.send(messages)
    told.sending = False
    await told.answers(2)
    [(refused, failure)] = told.failures
    assert (refused.number, failure.final) == (2, True)
    assert failure.reason.startswith("unmappable: header x-rocketmq-topic")


@on_a_virtual_loop
async def test_after_its_end_nothing_is_reported() -> None:
    producer, told = Scripted(), Reports()
    state = writing(producer, told)
    state.send(outgoing(10))
    await asyncio.sleep(0)
    await state.end()
    await pass_time(0.01)
    assert not told.confirmations
    assert not told.losses


@on_a_virtual_loop
async def test_a_refusal_that_passes_is_back_pressure_and_never_final() -> None:
    told = Reports()
    writing(Scripted("SLAVE_NOT_AVAILABLE"), told).send(outgoing(2))
    await told.answers(2)
    assert [(failure.busy, failure.final) for _, failure in told.failures] == [(True, False)] * 2


@pytest.mark.parametrize("error", [TypeError("x"), RecursionError(), KeyError("k"), MemoryError()], ids=repr)
def test_any_error_that_ends_the_writing_of_a_queue_is_a_lost_connection(error: Exception) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        told = Reports()
        writing(Scripted(OK, error), told).send(outgoing(40, keys=1))
        state = writing(Scripted(error), told)
        state.send(outgoing(1))
        await told.loss()
        assert type(error).__name__ in str(told.losses[0])
        assert not told.failures

    check()


@pytest.mark.parametrize("error", [OverflowError("x"), struct.error("x"), CommandError("not text")], ids=repr)
def test_only_the_message_that_cannot_be_encoded_is_refused_whatever_error_it_raises(error: Exception) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        def judge(bodies: list[bytes]) -> Answer:
            return error if b"2" in bodies else OK

        producer, told = Scripted(*[judge] * 3), Reports()
        producer.unwritable[b"2"] = error
        writing(producer, told).send(outgoing(5))
        await told.answers(5)
        assert numbers(told) == [1, 2, 4, 5]
        [(refused, failure)] = told.failures
        assert (refused.number, failure.final) == (3, True)

    check()


@pytest.mark.parametrize("error", [OverflowError("x"), RecursionError("x"), struct.error("x")], ids=repr)
def test_only_the_message_whose_translation_fails_is_refused(error: Exception) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        told = Reports()
        state = writing(Scripted(), told)
        place = state.writer.place

        def mapped(each: Outgoing) -> tuple[RocketMessage, MessageQueue]:
            if each.number == 2:
                raise error
            return place(each)

        setattr(state.writer, "place", mapped)  # noqa: B010
        state.send(outgoing(3))
        await told.answers(3)
        assert numbers(told) == [1, 3]
        assert [(each.number, failure.final) for each, failure in told.failures] == [(2, True)]

    check()


@on_a_virtual_loop
async def test_a_busy_broker_is_trouble_until_it_takes_a_batch() -> None:
    producer, told = Scripted(refusal(ResponseCode.SYSTEM_BUSY)), Reports()
    state = writing(producer, told)
    state.send(outgoing(1))
    while state.trouble is None:  # noqa: ASYNC110  as the bridge looks
        await asyncio.sleep(0)
    assert "t at a:0: a:10911: SYSTEM_BUSY" in state.trouble
    await told.answers(1)
    assert state.trouble is None


@on_a_virtual_loop
async def test_a_request_without_an_answer_is_trouble() -> None:
    told = Reports()
    state = writing(Scripted(), told)
    state.send(outgoing(1))
    await told.answers(1)
    [line] = state.lines.values()
    line.asked = asyncio.get_running_loop().time() - module.LATE
    assert "no answer to what was sent 5 s ago" in str(state.trouble)
