"""``hashstar record`` between real clients and a broker: all passes unchanged, and what was asked is in the file."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aio_pika
import kombu
import pika
import pika.exceptions
import pytest
from click.testing import CliRunner

from bindings.cli import find_command
from bindings.recording.ledger import Ledger
from bindings.recording.proxy import Proxy, Upstream, read_clock
from bindings.sources.recording.model import ACCEPTED
from bindings.testing.server import AmqpServer
from tests.support.bridge.certificates import authority_in
from tests.support.recorded import Recorded, recorded
from tests.support.waiting import find_limit, stretch

RECORD = find_command("record")


@pytest.fixture
def server() -> Iterator[AmqpServer]:
    with AmqpServer() as running:
        yield running


def upstream_of(server: AmqpServer) -> str:
    return server.url.replace("guest:guest@", "").partition("/%2F")[0]


@pytest.fixture
def proxy(server: AmqpServer, tmp_path: Path) -> Iterator[Recorded]:
    with recorded(upstream_of(server), tmp_path / "asked.jsonl") as running:
        yield running


def with_pika(url: str) -> None:
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "pika-shop"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("pika", durable=True, arguments={"x-message-ttl": 60_000})
    channel.basic_publish("", "pika", b"x" * 300_000, mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"", mandatory=True)
    _, _, body = channel.basic_get("pika", auto_ack=True)
    assert body == b"x" * 300_000
    connection.close()


def with_aio_pika(url: str) -> None:
    async def run() -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            await channel.set_qos(10, global_=True)
            queue = await channel.declare_queue("aio", durable=True)
            exchange = await channel.declare_exchange("events", "topic")
            await queue.bind(exchange, "order.#")
            await exchange.publish(aio_pika.Message(b"hello"), "order.eu")
            async with queue.iterator() as messages:
                async for message in messages:
                    assert message.body == b"hello"
                    await message.ack()
                    break

    asyncio.run(run())


def with_kombu(url: str) -> None:
    with kombu.Connection(url) as connection:
        queue = kombu.Queue("kombu", kombu.Exchange("tasks", "direct"), "task")
        with connection.Producer() as producer:
            producer.publish({"a": 1}, exchange=queue.exchange, routing_key="task", declare=[queue])
        got: list[Any] = []

        def take(body: Any, message: Any) -> None:
            got.append(body)
            message.ack()

        with connection.Consumer(queue, callbacks=[take]):
            connection.drain_events(timeout=find_limit())
    assert got == [{"a": 1}]


def test_clients_do_through_the_proxy_what_they_do_without(server: AmqpServer, proxy: Recorded) -> None:
    for work in (with_pika, with_aio_pika, with_kombu):
        work(proxy.url)
    assert proxy.stop() == 0
    recording = proxy.recording
    assert {client.product for client in recording.connections} == {
        "Pika Python Client Library", "aiormq", "py-amqp",
    }  # fmt: skip
    assert all(client.version for client in recording.connections)
    asked = {(each.method, each.arguments.get("queue")): each for each in recording.requests}
    ttl = asked["queue.declare", "pika"]
    assert ttl.arguments["arguments"]["x-message-ttl"].value == 60_000
    assert ttl.client.name == "pika-shop"
    assert asked["queue.bind", "aio"].arguments["routing_key"] == "order.#"
    assert asked["basic.consume", "aio"].arguments["prefetch_global"] is True
    assert asked["basic.consume", "kombu"].answers == {ACCEPTED: 1}
    messages = {(each.exchange, each.client.product): each for each in recording.publishing}
    largest = messages["", "Pika Python Client Library"]
    assert (largest.messages, largest.max_bytes, largest.returned) == (2, 300_000, 1)
    assert messages["tasks", "py-amqp"].messages == 1
    assert "3 connections of 3 clients" in proxy.err
    assert "guest" not in proxy.path.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_a_whole_file_even_with_open_connections(proxy: Recorded, number: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
    connection.channel().queue_declare("q")
    assert proxy.stop(number) == 0
    assert [each.method for each in proxy.recording.requests][-1] == "queue.declare"
    with pytest.raises(pika.exceptions.AMQPError):
        connection.channel()


def test_what_the_broker_closes_by_itself_is_no_refusal_of_a_request(proxy: Recorded) -> None:
    """Such as a channel on which an unknown delivery tag was acknowledged; the recording is as good as any."""
    connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_ack(7)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("q", durable=True)
    connection.close()
    assert proxy.stop() == 0
    lines = proxy.err.splitlines()
    at = lines.index("closed by the broker, which blames no request that is recorded:")
    assert lines[at + 1] == "  1 channel: 406 PRECONDITION_FAILED - unknown delivery tag 7"
    assert "refused by the broker:" not in lines
    [end] = [each for each in proxy.recording.requests if each.method == "channel.close"]
    assert [answer.code for answer in end.answers] == [406]
    result = CliRunner().invoke(
        find_command("upgrade"), [str(proxy.path), "--from", "3.13", "--declares", str(proxy.path)]
    )
    assert result.exit_code == 0, result.output


def test_what_is_no_amqp_passes_and_is_counted(proxy: Recorded) -> None:
    with socket.create_connection((proxy.host, proxy.port), timeout=find_limit()) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(8) == b"AMQP\x00\x00\x09\x01"  # the broker's own answer
    with_pika(proxy.url)
    assert proxy.stop() == 0
    assert sum(proxy.recording.unread.values()) == 1
    assert "1 connection, client: no frame of AMQP 0-9-1" in proxy.err


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    kept = tmp_path / "asked.jsonl"
    kept.write_text("precious")
    result = CliRunner().invoke(RECORD, ["--listen", "0", "--upstream", "amqp://127.0.0.1", str(kept)])
    assert result.exit_code == 2
    assert "it is there already" in result.output
    assert kept.read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--listen", "0", "--upstream", "http://127.0.0.1"), "not an address; write amqp://HOST:5672"),
        (("--listen", "0", "--upstream", "amqp://me:hunter2@127.0.0.1"), "user and virtual host are the clients'"),
        (("--listen", "0", "--upstream", "amqp://127.0.0.1", "--server-name", "x"), "are for --upstream amqps://"),
        (("--listen", "99999", "--upstream", "amqp://127.0.0.1"), "is no address to serve"),
        (("--listen", "192.0.2.1:5673", "--upstream", "amqp://127.0.0.1"), "192.0.2.1:5673: "),
        (("--listen", "5699", "--upstream", "127.0.0.1"), "--upstream: not an address; write amqp://HOST:5672"),
        (("--listen", "5699", "--upstream", "amqp://localhost:5699"), "localhost:5699 is the address of --listen"),
        (("--listen", "0.0.0.0:5699", "--upstream", "amqp://127.0.0.1:5699"), "5699 is the address of --listen"),
    ],
)
def test_bad_addresses_are_bad_usage(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(RECORD, [*options, str(tmp_path / "asked.jsonl")])
    assert result.exit_code == 2
    assert text in result.output
    assert "hunter2" not in result.output


def test_a_recording_is_a_file_and_not_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(RECORD, ["--listen", "0", "--upstream", "amqp://127.0.0.1", "-"])
    assert result.exit_code == 2
    assert "not to standard output: name a file" in result.output
    assert not list(tmp_path.iterdir())


def test_a_broker_that_is_not_there_closes_clients_and_is_reported(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with recorded(f"amqp://127.0.0.1:{closed.getsockname()[1]}", tmp_path / "asked.jsonl") as proxy:
            with pytest.raises(pika.exceptions.AMQPError):
                pika.BlockingConnection(pika.URLParameters(proxy.url))
            assert proxy.stop() == 0
    assert "the broker did not take 1 connection" in proxy.err


def test_it_is_printed_at_once_that_the_broker_takes_no_connections_and_when_it_takes_them_again() -> None:
    printed: list[str] = []

    async def connect(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        try:
            return await reader.read(5)
        except OSError:
            return b""
        finally:
            writer.close()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(5))
        writer.close()

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            broker = free.getsockname()[1]
        proxy = Proxy(Upstream("127.0.0.1", broker), Ledger("broker", read_clock()), printed.append)
        port = await proxy.start("127.0.0.1", 0)
        assert [await connect(port) for _ in range(3)] == [b""] * 3
        assert len(printed) == 1
        assert printed[0].startswith(f"the broker at 127.0.0.1:{broker} does not take connections")
        server = await asyncio.start_server(echo, "127.0.0.1", broker)
        assert [await connect(port) for _ in range(2)] == [b"hello"] * 2
        assert printed[1:] == [f"the broker at 127.0.0.1:{broker} takes connections again"]
        server.close()
        await proxy.stop()

    asyncio.run(run())


def test_tls_on_both_sides_verifies_and_carries(server: AmqpServer, tmp_path: Path) -> None:
    """A proxy that serves TLS is the broker of another one, which asks for TLS; a wrong authority is refused."""
    folder = authority_in(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text((folder / "server.pem").read_text() + (folder / "server.key").read_text())
    serving = recorded(upstream_of(server), tmp_path / "one.jsonl", "--listen-cert-file", str(both))
    with serving as inner:
        address = f"amqps://localhost:{inner.port}"
        with recorded(address, tmp_path / "two.jsonl", "--ca-file", str(folder / "ca.pem")) as outer:
            with_pika(outer.url)
            assert outer.stop() == 0
        with recorded(address, tmp_path / "three.jsonl", "--ca-file", str(folder / "other.pem")) as wrong:
            with pytest.raises(pika.exceptions.AMQPError):
                pika.BlockingConnection(pika.URLParameters(wrong.url))
            assert wrong.stop() == 0
        assert inner.stop() == 0
    assert "certificate verify failed" in wrong.err
    methods = [[each.method for each in proxy.recording.requests] for proxy in (inner, outer)]
    assert methods[0] == methods[1] != []


BUFFER = 1 << 18
"""Size in bytes of a receive buffer that is not to grow: the system lets one have 32 MiB, all that is sent."""


class Sink:
    """A server that reads as much as it is allowed to, and no more; what it reads is in ``taken``."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)  # that of its connections, too
        self.port: int = self.socket.getsockname()[1]
        self.allowed = threading.Event()
        self.taken = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        connection, _ = self.socket.accept()
        with connection:
            self.allowed.wait(find_limit())
            while data := connection.recv(1 << 16):
                self.taken += data
            connection.sendall(b"end")

    def close(self) -> None:
        self._thread.join(find_limit())
        self.socket.close()


def test_reading_stops_where_the_other_side_does_not_take() -> None:
    """Nothing is kept in memory beyond buffers, and all arrives in the end, in order."""
    sent = os.urandom(1 << 16) * 512  # 32 MiB, and no AMQP
    sink = Sink()

    async def run() -> int:
        proxy = Proxy(Upstream("127.0.0.1", sink.port), Ledger("sink", read_clock()))
        port = await proxy.start("127.0.0.1", 0)
        assert proxy._server is not None
        proxy._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.set_write_buffer_limits(0)
        passed = 0
        try:
            while passed < len(sent):
                writer.write(sent[passed : passed + (1 << 16)])
                await asyncio.wait_for(writer.drain(), 0.5)
                passed += 1 << 16
        except TimeoutError:
            pass
        stuck, passed = passed, passed + (1 << 16)
        sink.allowed.set()
        while passed < len(sent):
            writer.write(sent[passed : passed + (1 << 16)])
            await writer.drain()
            passed += 1 << 16
        writer.write_eof()
        assert await reader.read() == b"end"
        writer.close()
        await writer.wait_closed()
        await proxy.stop()
        return stuck

    stuck = asyncio.run(run())
    sink.close()
    assert stuck < 24 << 20
    assert sink.taken == sent


def test_many_connections_at_a_time_are_each_carried(proxy: Recorded) -> None:
    connections = [pika.BlockingConnection(pika.URLParameters(proxy.url)) for _ in range(30)]
    for number, connection in enumerate(connections):
        connection.channel().queue_declare(f"q{number % 3}")
    for connection in connections:
        connection.close()
    assert proxy.stop() == 0
    declared = [each for each in proxy.recording.requests if each.method == "queue.declare"]
    assert {each.arguments["queue"]: each.count for each in declared} == {"q0": 10, "q1": 10, "q2": 10}


def count_answered(proxy: Recorded, number: int) -> int:
    """Open connections, all at a time, and return how many the broker has answered."""
    clients = [socket.create_connection((proxy.host, proxy.port), timeout=find_limit()) for _ in range(number)]
    answered = 0
    for client in clients:
        with suppress(OSError):
            client.sendall(b"AMQP\x00\x00\x09\x01")
            answered += bool(client.recv(1))
    for client in clients:
        client.close()
    return answered


def test_connections_that_have_no_files_are_closed_without_a_flood_of_errors(
    server: AmqpServer, tmp_path: Path
) -> None:
    """What the process may open bounds them, and that is printed once."""
    with recorded(upstream_of(server), tmp_path / "asked.jsonl", files=(200, 200)) as proxy:
        assert count_answered(proxy, 90) == 50
        assert proxy.stop() == 0
    assert proxy.err.count("there are too many connections at a time: more than 50 are closed at once") == 1
    assert "closed, as there were too many at a time: 40 connections" in proxy.err
    assert len(proxy.err.splitlines()) < 10


def test_it_allows_itself_as_many_open_files_as_the_system_lets_it(server: AmqpServer, tmp_path: Path) -> None:
    with recorded(upstream_of(server), tmp_path / "asked.jsonl", files=(100, 1000)) as proxy:
        assert count_answered(proxy, 120) == 120
        assert proxy.stop() == 0
    assert "too many" not in proxy.err


def test_the_time_that_is_given_ends_it(server: AmqpServer, tmp_path: Path) -> None:
    begun = time.monotonic()
    with recorded(upstream_of(server), tmp_path / "asked.jsonl", "--for", "1s") as proxy:
        proxy.process.communicate(timeout=find_limit())
    assert proxy.process.returncode == 0
    assert time.monotonic() - begun < stretch(15)
    assert proxy.recording.opened == 0
