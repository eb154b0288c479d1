"""What clients do with a broker, done with pika, aio-pika and kombu on the test server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aio_pika
import kombu
import pika
import pytest
from aio_pika.patterns import RPC
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, ProbableAccessDeniedError, UnroutableError

from bindings.adapters.declaring import declare, declare_async
from bindings.testing.server import AmqpServer
from exchange import Binding, Exchange, InputError, NotFound, Policy, Queue, Topology, Typed
from exchange.amqp.methods import encode_method
from tests.support.waiting import find_limit, until, wait_until

START = b"AMQP\x00\x00\x09\x01"

ORDERS = Topology(
    [Exchange("orders", "topic", arguments={"alternate-exchange": "lost"}), Exchange("lost", "fanout"),
     Exchange("docs", "headers")],
    [Queue("billing"), Queue("lost"), Queue("pdf", arguments={"x-queue-type": "classic"})],
    [Binding.to_queue("orders", "billing", "order.#"), Binding.to_queue("lost", "lost"),
     Binding.to_queue("docs", "pdf", "", {"type": "pdf", "at": Typed("timestamp", 5)}),
     Binding.to_exchange("orders", "docs", "doc.*")],
)  # fmt: skip


def of(user: str) -> pika.BasicProperties:
    return pika.BasicProperties(user_id=user)


@pytest.fixture
def server() -> Iterator[AmqpServer]:
    with AmqpServer() as running:
        yield running


@pytest.fixture
def channel(server: AmqpServer) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def bodies(server: AmqpServer, queue: str) -> list[bytes]:
    """Return the bodies of the messages that are ready."""
    return [message.body for message in server.messages(queue)]


def test_a_server_begins_with_its_topology() -> None:
    with AmqpServer(ORDERS) as server:
        assert server.topology == ORDERS
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("orders", "order.eu", b"eu")
            channel.basic_publish("orders", "other", b"other")
        assert bodies(server, "billing") == [b"eu"]
        assert bodies(server, "lost") == [b"other"]
        with pytest.raises(NotFound):
            server.messages("nowhere")


def test_pika_and_kombu_declare_a_topology(server: AmqpServer, channel: BlockingChannel) -> None:
    declare(ORDERS, channel)
    assert server.topology == ORDERS
    with AmqpServer() as other, kombu.Connection(other.url.replace("amqp://", "pyamqp://")) as connection:
        declare(ORDERS, connection.default_channel)
        assert other.topology == ORDERS
    with pytest.raises(InputError, match="policy 'p' cannot be declared over AMQP"):
        declare(Topology(policies=[Policy("p", "^a", {"expires": 1})]), channel)


def test_confirms_and_returns(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("amq.topic", "a", b"lost", mandatory=True)
    assert [message.body for message in caught.value.messages] == [b"lost"]
    channel.queue_declare("a")
    large = bytes(range(256)) * 2_000
    channel.basic_publish("", "a", large, mandatory=True)
    assert bodies(server, "a") == [large]


@pytest.mark.parametrize(("code", "call"), [
    (404, lambda c: c.queue_declare("nowhere", passive=True)),
    (404, lambda c: c.exchange_declare("nowhere", passive=True)),
    (404, lambda c: c.queue_bind("nowhere", "amq.topic", "a")),
    (404, lambda c: c.basic_consume("nowhere", print)),
    (403, lambda c: c.exchange_declare("amq.mine")),
    (406, lambda c: (c.queue_declare("q"), c.queue_declare("q", durable=True))),
    (406, lambda c: (c.basic_ack(17), c.queue_declare("q"))),
    (406, lambda c: c.exchange_declare("x", "nonsense")),
    (404, lambda c: (c.basic_publish("nowhere", "a", b""), c.queue_declare("q"))),
    (404, lambda c: (c.basic_publish("nowhere", "a", b"", of("nobody")), c.queue_declare("q"))),
    (406, lambda c: (c.basic_publish("", "a", b"", of("nobody")), c.queue_declare("q"))),
    (406, lambda c: (c.tx_select(), c._impl.confirm_delivery(print), c.queue_declare("q"))),
    (406, lambda c: (c.confirm_delivery(), c.tx_select())),
])  # fmt: skip
def test_a_refusal_closes_the_channel_and_not_the_connection(channel: BlockingChannel, code: int, call: Any) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        call(channel)
    assert caught.value.reply_code == code
    channel.connection.channel().queue_declare("still")


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_message_may_name_the_user_who_publishes_it(server: AmqpServer, mechanism: str) -> None:
    with kombu.Connection(server.url.replace("guest:guest", "shop:secret"), login_method=mechanism) as connection:
        queue = connection.SimpleQueue("q")
        queue.put("mine", user_id="shop")
        assert queue.get(timeout=find_limit()).properties["user_id"] == "shop"
        queue.close()


def test_another_virtual_host_is_refused(server: AmqpServer) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)):
        pika.BlockingConnection(pika.URLParameters(server.url.replace("%2F", "other")))


def test_what_is_not_acknowledged_is_redelivered_in_its_place(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "q", body)
    tags = [channel.basic_get("q")[0].delivery_tag for _ in range(2)]
    channel.basic_nack(tags[1])
    channel.basic_nack(tags[0])
    wait_until(lambda: bodies(server, "q") == [b"1", b"2", b"3"])
    method, _, _ = channel.basic_get("q")
    assert method.redelivered
    channel.connection.close()
    wait_until(lambda: bodies(server, "q") == [b"1", b"2", b"3"])


def test_dead_letters_of_rejected_and_expired_messages(server: AmqpServer, channel: BlockingChannel) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("dead")
    channel.queue_declare("rejected", arguments=dead)
    channel.queue_declare("waiting", arguments={**dead, "x-message-ttl": 60_000})
    channel.basic_publish("", "rejected", b"rejected")
    channel.basic_reject(channel.basic_get("rejected")[0].delivery_tag, requeue=False)
    channel.basic_publish("", "waiting", b"expired", pika.BasicProperties(expiration="20"))
    wait_until(lambda: bodies(server, "dead") == [b"rejected", b"expired"])
    deaths = [message.headers["x-death"][0] for message in server.messages("dead")]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("rejected", "rejected", 1), ("waiting", "expired", 1),
    ]  # fmt: skip
    assert deaths[1]["original-expiration"] == "20"
    assert server.messages("dead")[1].properties == {}


@pytest.mark.parametrize(("release", "keeps_cc"), [("rabbitmq-3.10", False), ("rabbitmq-4.3", True)])
def test_policies_give_queues_dead_letters_and_a_time_to_live_also_to_internal_exchanges(
    release: str, keeps_cc: bool
) -> None:
    topology = Topology(
        [Exchange("dlx", "fanout", internal=True)],
        [Queue("dead"), Queue("copied")],
        [Binding.to_queue("dlx", "dead")],
        [
            Policy(
                "p", "^jobs", {"dead-letter-exchange": "dlx", "dead-letter-routing-key": "k", "message-ttl": 60_000}
            ),
            Policy("limit", "^jobs", {"message-ttl": 10}, "queues", operator=True),
        ],
        profile=release,
    )
    with AmqpServer(topology) as server, pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("jobs", arguments={"x-message-ttl": 50_000})
        channel.basic_publish("", "jobs", b"late", pika.BasicProperties(headers={"CC": ["copied"]}))
        wait_until(lambda: bodies(server, "dead") == [b"late"])
        [late] = server.messages("dead")
        assert (late.exchange, late.routing_key, "CC" in late.headers) == ("dlx", "k", keeps_cc)
        assert bodies(server, "copied") == [b"late"]  # when it was published, and not once more


def test_a_delay_queue_brings_messages_back_and_counts(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "delay"})
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 1}
    channel.queue_declare("delay", arguments=back)
    channel.basic_publish("", "work", b"x")
    for _ in range(3):
        wait_until(lambda: bodies(server, "work"))
        method, _, _ = channel.basic_get("work")
        channel.basic_reject(method.delivery_tag, requeue=False)
    wait_until(lambda: bodies(server, "work"))
    deaths = server.messages("work")[0].headers["x-death"]
    assert {(death["queue"], death["count"]) for death in deaths} == {("work", 3), ("delay", 3)}


def test_prefetch_bounds_what_a_consumer_holds(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    got: list[int] = []
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("q", lambda _c, method, _p, _b: got.append(method.delivery_tag))
    for _ in range(5):
        channel.basic_publish("", "q", b"")
    wait_until(lambda: len(server.messages("q")) == 3)
    wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 2)
    assert got == [1, 2]
    channel.basic_ack(2, multiple=True)
    wait_until(lambda: len(server.messages("q")) == 1)


def test_a_single_active_consumer_gets_everything_until_it_ends(channel: BlockingChannel) -> None:
    channel.queue_declare("q", arguments={"x-single-active-consumer": True})
    got: list[str] = []
    for name in ("first", "second"):
        channel.basic_consume("q", lambda _c, _m, _p, _b, name=name: got.append(name), auto_ack=True, consumer_tag=name)
    for ended in (False, True):
        if ended:
            channel.basic_cancel("first")
        for _ in range(2):
            channel.basic_publish("", "q", b"")
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 2 + 2 * ended)  # noqa: B023
    assert got == ["first", "first", "second", "second"]


def test_exclusive_queues_are_locked_and_deleted(server: AmqpServer, channel: BlockingChannel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue
    with pika.BlockingConnection(pika.URLParameters(server.url)) as other:
        with pytest.raises(ChannelClosedByBroker) as caught:
            other.channel().queue_declare(name, passive=True)
        assert caught.value.reply_code == 405
    channel.connection.close()
    wait_until(lambda: name not in server.topology.queues)


def test_an_exclusive_consumer_keeps_others_out(channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    channel.basic_consume("q", print, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.connection.channel().basic_consume("q", print)
    assert caught.value.reply_code == 403


def test_transactions_publish_at_their_end(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    channel.tx_select()
    channel.basic_publish("", "q", b"undone")
    channel.tx_rollback()
    channel.basic_publish("", "q", b"done")
    assert bodies(server, "q") == []
    channel.tx_commit()
    assert bodies(server, "q") == [b"done"]
    tag = channel.basic_get("q")[0].delivery_tag
    channel.basic_ack(tag)
    channel.tx_rollback()
    channel.basic_nack(tag)
    channel.tx_commit()
    assert bodies(server, "q") == [b"done"]


def test_a_stopped_server_can_be_started_again(server: AmqpServer) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        connection.channel().queue_declare("q", durable=True)
        connection.channel().basic_publish("", "q", b"x")
        wait_until(lambda: bodies(server, "q"))
    server.stop()
    server.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        server.messages("q")
    server.start()
    assert bodies(server, "q") == [b"x"]


def test_a_server_starts_once_and_has_an_address_from_then_on() -> None:
    server = AmqpServer()
    with pytest.raises(RuntimeError, match="no address before it is started"):
        _ = server.url
    with server:
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            connection.channel().queue_declare("q")
        taken = AmqpServer(port=pika.URLParameters(server.url).port)
        with pytest.raises(OSError, match="in use"):
            taken.start()
        taken.stop()
    assert server.url.startswith("amqp://guest:guest@127.0.0.1:")


def test_a_server_of_what_is_no_topology_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a Topology is wanted, not 'shop\.json': bindings\.load reads one"):
        AmqpServer("shop.json")  # type: ignore[arg-type]


@pytest.mark.parametrize("sent", [
    b"GET / HTTP/1.1\r\n\r\n",
    START + bytes(100),
    START + b"\x01\x00\x00\xff\xff\xff\xff",
    START + b"\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x0b\x00\xce",
])  # fmt: skip
def test_hostile_bytes_close_their_own_connection_only(
    server: AmqpServer, channel: BlockingChannel, sent: bytes
) -> None:
    port = int(server.url.split(":")[3].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=find_limit()) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(4_096):
            pass
    channel.queue_declare("still")


def frame(name: str, channel: int = 0, **given: Any) -> bytes:
    """Return a method frame."""
    payload = encode_method(name, **given)
    return b"\x01" + channel.to_bytes(2) + len(payload).to_bytes(4) + payload + b"\xce"


def test_names_that_are_no_text_are_answered(server: AmqpServer) -> None:
    """No client library sends them."""
    hello = [
        START, frame("connection.start-ok", mechanism="PLAIN", response=b"", locale="en_US"),
        frame("connection.tune-ok", frame_max=131_072), frame("connection.open", virtual_host="/"),
        frame("channel.open", 1), frame("queue.declare", 1, queue="\udcff", passive=True),
    ]  # fmt: skip
    port = int(server.url.split(":")[3].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=find_limit()) as client:
        client.sendall(b"".join(hello))
        answer = b""
        while b"NOT_FOUND" not in answer:
            answer += client.recv(4_096)
    assert b"no queue '?' in vhost '/'" in answer


# aio-pika


def run(server: AmqpServer, main: Callable[[Any], Awaitable[None]]) -> None:
    """Run an asynchronous test with a robust connection of aio-pika."""

    async def start() -> None:
        async with await aio_pika.connect_robust(server.url) as connection:
            await main(connection)

    asyncio.run(start())


def test_a_service_of_aio_pika_consumes_what_was_routed(server: AmqpServer) -> None:
    async def main(connection: Any) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=2)
        await declare_async(ORDERS, channel)
        exchange = await channel.get_exchange("orders")
        queue = await channel.get_queue("billing")
        for number in range(5):
            await exchange.publish(aio_pika.Message(b"%d" % number, headers={"n": number}), "order")
        got = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    got.append((message.body, message.headers["n"]))
                if len(got) == 5:
                    break
        assert got == [(b"%d" % number, number) for number in range(5)]
        assert await queue.get(fail=False) is None

    run(server, main)
    assert server.topology == ORDERS


def test_errors_of_aio_pika_are_those_of_a_broker(server: AmqpServer) -> None:
    async def main(connection: Any) -> None:
        with pytest.raises(ChannelNotFoundEntity, match="no queue 'nowhere' in vhost '/'"):
            await (await connection.channel()).get_queue("nowhere")
        channel = await connection.channel()
        await channel.declare_queue("q")
        with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
            await channel.declare_queue("q", durable=True)

    run(server, main)


def test_rpc_patterns_and_direct_replies_work(server: AmqpServer) -> None:
    async def main(connection: Any) -> None:
        channel = await connection.channel()
        rpc = await RPC.create(channel)

        async def multiply(*, x: int, y: int) -> int:
            return x * y

        await rpc.register("multiply", multiply, auto_delete=True)
        assert await rpc.proxy.multiply(x=6, y=7) == 42

        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        replies = await channel.get_queue("amq.rabbitmq.reply-to")

        async def take(message: Any) -> None:
            answer.set_result(message.body)

        await replies.consume(take, no_ack=True)
        requests = await channel.declare_queue("requests")

        async def serve(message: Any) -> None:
            async with message.process():
                await channel.default_exchange.publish(aio_pika.Message(b"re " + message.body), message.reply_to)

        await requests.consume(serve)
        request = aio_pika.Message(b"x", reply_to="amq.rabbitmq.reply-to")
        await channel.default_exchange.publish(request, "requests")
        assert await asyncio.wait_for(answer, find_limit()) == b"re x"

    run(server, main)


def test_a_robust_connection_survives_a_restart(server: AmqpServer) -> None:
    async def main(connection: Any) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue("work", durable=True)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def work(message: Any) -> None:
            async with message.process():
                await got.put(message.body)

        await queue.consume(work)
        await channel.default_exchange.publish(aio_pika.Message(b"before"), "work")
        assert await asyncio.wait_for(got.get(), find_limit()) == b"before"
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(connection.ready(), find_limit())

        async def publish() -> bool:
            try:
                await channel.default_exchange.publish(aio_pika.Message(b"after"), "work")
            except aio_pika.exceptions.CONNECTION_EXCEPTIONS:
                return False
            return True

        await until(publish)
        body = await asyncio.wait_for(got.get(), find_limit())
        if body == b"before":  # it comes again if its acknowledgement was under way
            body = await asyncio.wait_for(got.get(), find_limit())
        assert body == b"after"

    async def start() -> None:
        async with await aio_pika.connect_robust(server.url, reconnect_interval=0.05) as connection:
            await main(connection)

    asyncio.run(start())
