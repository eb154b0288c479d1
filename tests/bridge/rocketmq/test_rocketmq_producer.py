"""A producer's requests and tries, against brokers that answer as a script says."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings, SendRequest, TopicPublishInfo
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import RESPONSE, Command, Decoder, SerializeType, encode
from bridge.rocketmq.remoting.errors import (
    BrokerError,
    ClientError,
    CommandError,
    ConnectError,
    RemotingTimeout,
    TooMuchRequest,
)
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import IllegalMessage, decode_properties
from exchange.partition.clients.rocketmq.faults import FaultStrategy
from exchange.partition.clients.rocketmq.queues import BrokerData, MessageQueue, QueueData, TopicRoute
from exchange.partition.clients.rocketmq.selectors import ByHash
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.support.waiting import find_limit, until

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
STORED = ResponseCode.SUCCESS
SILENCE = -1
CUT = -2


class Broker:
    """A name server and broker in one, which answers sends with the codes of a script, then with SUCCESS."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.script: list[int] = []
        self.sent: list[Command] = []
        self.route: dict[str, Any] = {}
        self.asks: Command | None = None
        """Requests to the client, sent before the answer to its next request."""
        self.answers: list[Command] = []
        self.connections = 0
        self.server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self.server is not None
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        decoder = Decoder()
        while data := await reader.read(1 << 16):
            for request in decoder.feed(data):
                if request.is_response:
                    self.answers.append(request)
                    continue
                if self.asks is not None and request.code in SENDS:
                    writer.write(encode(self.asks))
                    self.asks = None
                answer = self.answer(request)
                if answer is CUT_OFF:
                    writer.transport.abort()
                elif answer is not None and not request.is_oneway:
                    writer.write(encode(answer._replace(opaque=request.opaque, flag=RESPONSE), SerializeType.JSON))
        writer.close()

    def answer(self, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if request.fields["topic"] not in ("t", "TBW102"):
                return Command(ResponseCode.TOPIC_NOT_EXIST)
            return Command(0, body=json.dumps(self.route).encode())
        if request.code not in SENDS:
            return Command(0)
        self.sent.append(request)
        code = self.script.pop(0) if self.script else STORED
        if code in (SILENCE, CUT):
            return None if code == SILENCE else CUT_OFF
        return Command(code, {"queueId": request.fields["e"], "queueOffset": "7", "msgId": "ID"}, remark="so be it")


CUT_OFF = Command(CUT)


def run(test: Callable[[Client, Producer, Broker, Broker], Awaitable[None]], **settings: Any) -> None:
    """Run a scenario with two brokers, ``a`` and ``b``, of two queues each; the first queue is one of ``a``."""
    channel = settings.pop("channel", ChannelSettings())

    async def work() -> None:
        async with AsyncExitStack() as stack:
            brokers = Broker("a"), Broker("b")
            for broker in brokers:
                broker.server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
                await stack.enter_async_context(broker.server)
            for broker in brokers:
                broker.route = {
                    "queueDatas": [{"brokerName": each.name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
                                   for each in brokers],
                    "brokerDatas": [{"brokerName": each.name, "brokerAddrs": {"0": each.address}} for each in brokers],
                }  # fmt: skip
            client = await stack.enter_async_context(Client(ClientSettings(brokers[0].address, channel=channel)))
            # Drawn is always what has the next index be 0.
            producer = Producer(client, ProducerSettings("g", **settings), lambda n: n - 1)
            await stack.enter_async_context(producer)
            await test(client, producer, *brokers)
            await producer.close()
            # Whatever has happened: else a producer would wait for ever for room, or have none.
            assert (producer._tries.under_way, producer._tries.bytes_under_way) == (0, 0)

    asyncio.run(asyncio.wait_for(work(), find_limit()))


MESSAGE = RocketMessage.build("t", b"x")


def test_queues_take_turns() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        queues = [(await producer.send(MESSAGE)).queue for _ in range(5)]
        assert [queue.name for queue in queues] == ["a:0", "a:1", "b:0", "b:1", "a:0"]
        assert [request.fields["e"] for request in a.sent] == ["0", "1", "0"]

    run(test)


@pytest.mark.parametrize("faults", [FaultStrategy("5.3.3", enabled=False), FaultStrategy("5.3.3")])
def test_a_refusal_is_tried_at_another_broker_as_in_java(faults: FaultStrategy) -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        a.script = [ResponseCode.SYSTEM_BUSY]
        assert (await producer.send(MESSAGE)).queue.broker == "b"
        a.script = b.script = [ResponseCode.SYSTEM_ERROR] * 4
        with pytest.raises(ClientError, match=r"Send \[3\] times, still failed.*so be it") as failed:
            await producer.send(MESSAGE)
        assert failed.value.code == ResponseCode.SYSTEM_ERROR
        a.script, b.script = [ResponseCode.MESSAGE_ILLEGAL], [ResponseCode.MESSAGE_ILLEGAL]
        tries = len(a.sent) + len(b.sent)
        with pytest.raises(BrokerError):
            await producer.send(MESSAGE)
        assert len(a.sent) + len(b.sent) == tries + 1
        a.script = b.script = [ResponseCode.SYSTEM_BUSY]
        with pytest.raises(BrokerError):
            await producer.send(MESSAGE, selector=ByHash(), key="k")
        assert bool(producer.faults) == faults.enabled

    run(test, faults=faults)


def test_a_late_disk_or_replica_is_a_status() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        codes = [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE]
        a.script = list(codes)
        results = [await producer.send(MESSAGE, queue=MessageQueue("a", 0)) for _ in codes]
        assert [result.status for result in results] == [code.name for code in codes]
        assert (results[0].queue_offset, results[0].offset_message_id) == (7, "ID")

    run(test)


def test_an_asynchronous_send_without_an_answer_is_tried_again() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        a.script = [CUT]
        result = await (await producer.send_async(MESSAGE))
        assert result.queue == MessageQueue("b", 0)
        first, second = a.sent[0], b.sent[0]
        assert {**first.fields, "g": ""} == {**second.fields, "g": ""}
        assert first.body == second.body
        # Where the queue was chosen it is the same broker.
        a.script = [CUT, CUT]
        result = await (await producer.send_async(MESSAGE, queue=MessageQueue("a", 1)))
        assert result.queue == MessageQueue("a", 1)
        a.script = [CUT, CUT, CUT]
        with pytest.raises(Exception, match="ended"):
            await (await producer.send_async(MESSAGE, queue=MessageQueue("a", 1)))
        # An answer that says no is one.
        a.script = [ResponseCode.SYSTEM_BUSY]
        with pytest.raises(BrokerError):
            await (await producer.send_async(MESSAGE, queue=MessageQueue("a", 1)))

    run(test)


def test_a_malformed_answer_is_an_error() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        await producer.queues("t")
        a.answer = lambda request: Command(0, {"queueOffset": "x"})  # type: ignore[method-assign]
        with pytest.raises(CommandError, match="not the answer to a message"):
            await (await producer.send_async(MESSAGE, queue=MessageQueue("a", 0)))

    run(test)


def test_the_failure_of_a_handler_is_its_answer_to_the_broker() -> None:
    """And nothing else: the connection goes on."""

    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        def fail(request: Command) -> Command:
            raise ValueError("no way")

        client.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, fail)
        a.asks = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, opaque=77)
        assert (await producer.send(MESSAGE, queue=MessageQueue("a", 0))).status == "SEND_OK"
        assert (await producer.send(MESSAGE, queue=MessageQueue("a", 0))).status == "SEND_OK"
        (answer,) = a.answers
        assert (answer.opaque, answer.code, answer.remark) == (77, ResponseCode.SYSTEM_ERROR, "ValueError: no way")

    run(test)


def test_a_silent_broker_is_given_up_after_the_timeout() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        a.script = b.script = [SILENCE] * 6
        with pytest.raises(RemotingTimeout):
            await producer.send(MESSAGE, queue=MessageQueue("a", 0))
        with pytest.raises((TooMuchRequest, ClientError)):
            await producer.send(MESSAGE)
        with pytest.raises(RemotingTimeout):
            await (await producer.send_async(MESSAGE, timeout_ms=100))

    run(test, sending=SendSettings(send_msg_timeout=200))


def test_a_broker_that_goes_away_is_asked_again_over_another_connection() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        await producer.send(MESSAGE, queue=MessageQueue("b", 0))
        assert b.connections == 1
        b.script = [ResponseCode.GO_AWAY]
        result = await (await producer.send_async(MESSAGE, queue=MessageQueue("b", 0)))
        assert result.queue == MessageQueue("b", 0)
        assert b.connections == 2
        b.script = [ResponseCode.GO_AWAY]
        assert (await client.invoke(b.address, RequestCode.SEND_MESSAGE_V2, {"e": "0"})).code == STORED
        assert b.connections == 3

    run(test)


def test_an_unreachable_broker_counts_as_a_try() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        a.route["brokerDatas"][1]["brokerAddrs"] = {"0": "127.0.0.1:1"}
        queues = [(await producer.send(MESSAGE)).queue.broker for _ in range(4)]
        assert queues == ["a"] * 4
        futures = [await producer.send_async(MESSAGE) for _ in range(4)]
        assert [(await future).queue.broker for future in futures] == ["a"] * 4
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(ConnectError):
                await send(MESSAGE, queue=MessageQueue("b", 0))

    run(test)


def test_an_asynchronous_send_waits_for_room() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        a.script = [SILENCE, SILENCE]
        futures = [await producer.send_async(MESSAGE, queue=MessageQueue("a", 0), timeout_ms=1_000) for _ in range(2)]
        third = asyncio.ensure_future(producer.send_async(MESSAGE))
        await asyncio.sleep(0.1)
        assert not third.done()
        await asyncio.wait(futures)
        assert (await (await third)).status == "SEND_OK"
        assert all(future.exception() for future in futures)

    run(test, async_send_num=2, sending=SendSettings(retry_times_when_send_async_failed=0))


def test_large_bodies_are_compressed_but_not_in_batches() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        large = RocketMessage.build("t", b"large " * 1000, tags="t")
        to_a = MessageQueue("a", 0)
        await producer.send(large, queue=to_a)
        await producer.send_batch([large, large], queue=to_a)
        await producer.send(MESSAGE, queue=to_a)
        one, batch, small = a.sent
        assert zlib.decompress(one.body) == large.body
        assert (one.fields["f"], batch.fields["f"], small.fields["f"]) == (str(0x301), "0", "0")
        assert (batch.code, batch.fields["m"], batch.body.count(b"large ")) == (320, "true", 2000)
        assert small.body == MESSAGE.body
        told = decode_properties(one.fields["i"].encode())
        assert told.keys() == {"TAGS", "WAIT", "UNIQ_KEY"}

    run(test)


def test_an_empty_unique_id_is_an_error_alone_and_in_a_batch() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        nameless = MESSAGE.with_property("UNIQ_KEY", "")
        for sending in (producer.send(nameless), producer.send_batch([nameless])):
            with pytest.raises(IllegalMessage, match="'UNIQ_KEY': its value is empty"):
                await sending

    run(test)


@pytest.mark.parametrize("kind", SerializeType)
def test_signed_requests_have_the_same_fields(kind: SerializeType) -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        message = MESSAGE.with_property("größe", "\U0001f600")
        await producer.send(message, queue=MessageQueue("a", 0))
        await producer.send_oneway(message, queue=MessageQueue("a", 0))
        async with asyncio.timeout(find_limit()):
            await until(lambda: len(a.sent) >= 2)
        for request in a.sent:
            assert request.fields["AccessKey"] == "me"
            assert Credentials("me", "secret").sign(request) == request
            assert decode_properties(request.fields["i"].encode())["größe"] == "\U0001f600"

    run(test, channel=ChannelSettings(serialize_type=kind, credentials=Credentials("me", "secret")))


def test_a_topic_that_does_not_exist_has_the_queues_of_the_default_topic() -> None:
    async def test(client: Client, producer: Producer, a: Broker, b: Broker) -> None:
        assert [queue.name for queue in await producer.queues("new")] == ["a:0", "b:0"]
        assert (await producer.send(RocketMessage.build("new", b"x"))).queue.name == "a:0"
        assert (a.sent[0].fields["c"], a.sent[0].fields["d"]) == ("TBW102", "1")

    run(test, default_topic_queue_nums=1)


TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
ROUTE = TopicRoute((QueueData("größe", 4, 4),), (BrokerData("größe", ((0, "127.0.0.1:1"),)),))


@given(
    st.sampled_from(SENDS), st.binary(max_size=20), st.dictionaries(TEXT, TEXT, max_size=4),
    st.sampled_from((0, 1, 0x301)), INT, st.booleans(), st.integers(1_000_000_000_000, 9_999_999_999_999), INT,
)  # fmt: skip
def test_the_frame_of_a_request_is_its_encoded_command(
    code: RequestCode, body: bytes, properties: dict[str, str], system_flag: int, flag: int, is_batch: bool, born: int,
    opaque: int,
) -> None:  # fmt: skip
    place = TopicPublishInfo.from_route("t", ROUTE, ProducerSettings("g", unit_mode=is_batch)).queues[3]
    raw = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()
    request = SendRequest(code, "t", body, raw, "", system_flag, flag, is_batch)
    (read,) = Decoder().feed(place.frame(request, born, opaque, 2))
    assert read == place.command(request, born)._replace(opaque=opaque, flag=2)
