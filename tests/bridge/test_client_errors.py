"""Each row of the table is met with the text that a client gives for a fault, and no place shows that text alone."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import resource
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from bridge.client_errors import DESCRIPTORS, MEANINGS, explain, explain_client_error
from bridge.endpoint import Disconnected, Source
from bridge.endpoints.kafka.config import KafkaSource
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import RabbitmqSource
from bridge.endpoints.rabbitmq.refusals import explain_connect_error, explain_refusal, to_answer_error, to_disconnected
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import ClientSettings
from exchange.errors import BrokerError
from tests.support.bridge.behaviour import on_a_loop
from tests.support.bridge.certificates import authority_in
from tests.support.syntax import read_modules, walk
from tests.support.waiting import find_limit

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 20)


async def answer_wrong_frame(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(8)
    writer.write(b"\x09\x00\x00\x00\x00\x00\x04abcd\xce" * 4)
    await reader.read()


async def offer_no_plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(8)
    start = struct.pack(">HHBBI", 10, 10, 0, 9, 0) + struct.pack(">I8sI5s", 8, b"AMQPLAIN", 5, b"en_US")
    writer.write(struct.pack(">BHI", 1, 0, len(start)) + start + b"\xce")
    await reader.read()


@asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(kept, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def rabbit(host: str, port: int, tls: ssl.SSLContext | None = None) -> Source:
    address = parse_broker(f"amqp://guest:secret@{host}:{port}")
    if tls is not None:
        address.ssl_options = pika.SSLOptions(tls, "localhost")
    return RabbitmqSource("s", [address], "q")


def kafka(host: str, port: int) -> Source:
    return KafkaSource("s", {"bootstrap.servers": f"{host}:{port}", "group.id": "g"}, ["t"])


def rocket(host: str, port: int) -> Source:
    return RocketmqSource("s", ClientSettings(f"{host}:{port}"), "g", [Subscription.to_tags("t")])


async def reason_of(source: Source) -> str:
    """Return why a source cannot be opened."""
    with pytest.raises(Disconnected) as caught:
        await source.open()
    await source.close()
    return str(caught.value)


SILENT = "it accepts connections and is silent"
NOTHING = "nothing listens there"
UNKNOWN = "no name server knows this host"
FAULTS: list[tuple[Serve, Callable[..., Source], str]] = [
    (be_silent, rabbit, SILENT),
    (be_silent, kafka, SILENT),
    (be_silent, rocket, SILENT),
    (hang_up, rabbit, "hung up during the handshake"),
    (hang_up, kafka, "the brokers close the connection: check"),
    (hang_up, rocket, "it closes the connection"),
    (answer_http, kafka, "no Kafka broker"),
    (answer_http, rocket, "no server of RocketMQ"),
    (answer_wrong_frame, rabbit, "is this an AMQP port"),
    (offer_no_plain, rabbit, "takes no password by PLAIN"),
]


@on_a_loop
async def test_what_each_client_says_of_a_fault_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.rabbitmq.addresses.OPEN_SECONDS", 1.0)

    async def look(serve: Serve, make: Callable[..., Source], words: str) -> None:
        async with serving(serve) as port:
            reason = await reason_of(make("127.0.0.1", port))
        assert words in reason, (serve.__name__, make.__name__, reason)
        assert str(port) in reason or "brokers are down" in reason
        assert "prev_state" not in reason
        assert not reason.endswith(": PLAIN")

    async def look_at(host: str, make: Callable[..., Source], words: str) -> None:
        reason = await reason_of(make(host, 1))
        assert words in reason, (host, make.__name__, reason)

    async with asyncio.timeout(find_limit()):
        await asyncio.gather(
            *[look(*each) for each in FAULTS],
            *[look_at("127.0.0.1", make, NOTHING) for make in (rabbit, kafka, rocket)],
            *[look_at("no-such-host.invalid", make, UNKNOWN) for make in (rabbit, kafka, rocket)],
        )


@pytest.mark.parametrize("make", [rabbit, rocket])
@on_a_loop
async def test_name_servers_that_do_not_answer_are_named(
    make: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hang(*_: object, **__: object) -> list[Any]:
        over.wait()
        raise OSError("it is over")

    monkeypatch.setattr("bridge.endpoints.rabbitmq.wire.NAME_SECONDS", 0.5)
    monkeypatch.setattr("bridge.endpoints.rabbitmq.wire.CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        # A name of its own: who asks about one that is being looked up waits for that answer.
        reason = await reason_of(make(f"{make.__name__}.example", 1))
    finally:
        over.set()
    assert f"{make.__name__}.example:1: no answer from name servers in" in reason
    assert reason.endswith("can this machine reach the name servers that it asks (/etc/resolv.conf)?")


@on_a_loop
async def test_certificates_of_others_are_named(tmp_path: Path) -> None:
    authority = authority_in(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    ours = ssl.create_default_context(cafile=authority / "ca.pem")
    async with serving(be_silent, context) as port:
        assert "no authority in ca_file" in await reason_of(rabbit("127.0.0.1", port, ssl.create_default_context()))
        named = parse_broker(f"amqp://guest:secret@127.0.0.1:{port}")
        named.ssl_options = pika.SSLOptions(ours, "other.example")
        assert "certificate is of another host" in await reason_of(RabbitmqSource("s", [named], "q"))
    async with serving(answer_http) as port:
        assert "answers TLS with plain text" in await reason_of(rabbit("127.0.0.1", port, ours))


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Leave this process without a file descriptor."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-host.invalid"])
@pytest.mark.parametrize("make", [rabbit, rocket])
@on_a_loop
async def test_a_process_without_descriptors_says_so_whatever_failed(make: Callable[..., Source], host: str) -> None:
    async with serving(be_silent) as port:
        source = make(host, port)
        with no_descriptors():
            reason = await reason_of(source)
            # As resolvers say then, some with what another call has left in errno.
            unnamed = [explain(f"h:1: {text}") for text in ("Name or service not known", "Invalid argument")]
        assert "this process has no file descriptor left" in reason
        assert all(each.endswith(DESCRIPTORS) for each in unnamed)


RECORDED = (
    "h:9092/bootstrap: Failed to create socket: Too many open files (after 0ms in state INIT)",
    "h:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker",
    "UNSUPPORTED_SASL_MECHANISM: Broker: Unsupported SASL mechanism",
    "h:9092/bootstrap: Unsupported SASL mechanism 'PLAIN': broker's supported mechanisms: SCRAM-SHA-256",
    "h:9098/1: SASL OAUTHBEARER mechanism handshake failed: Broker: Request not valid in current SASL state",
    "h:5671: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1000)",
    "h:5671: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:2580)",
    "TOPIC_AUTHORIZATION_FAILED: Broker: Topic authorization failed",
    "GROUP_AUTHORIZATION_FAILED: FindCoordinator response error: Broker: Group authorization failed",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Broker: Transactional Id authorization failed",
    "CLUSTER_AUTHORIZATION_FAILED: Broker: Cluster authorization failed",
    "INCONSISTENT_GROUP_PROTOCOL: JoinGroup failed: Broker: Inconsistent group protocol",
    'h:9098/1: SASL authentication error: {"status":"invalid_token"} (after 305ms in state AUTH_REQ)',
    "320 CONNECTION_FORCED - credential expired",
    "403 ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'",
    "127.0.0.1:10911: NO_PERMISSION (16): check permission failed",
    "h:5672: no answer from name servers in 24 s",
    "h:9876: No route to host",
    "h:9876: no connection in 3 s",
    "h:5672: [Errno 110] Connection timed out",
    "h:5672: ProtocolSyntaxError('x')",
    "h:5672: virtual host '/': 530 NOT_ALLOWED - connection refused for user 'u': user connection limit (1) is reached",
)  # fmt: skip


def test_every_row_is_met_and_explained_once() -> None:
    met = [words for _, _, words in FAULTS] + [
        NOTHING, UNKNOWN, "answers TLS", "is of another host", "no file descriptor",
    ]  # fmt: skip
    for meaning in MEANINGS:
        recorded = [text for text in RECORDED if explain_client_error(text) == meaning.words]
        assert recorded or any(words in meaning.words for words in met), meaning.words
    for text in RECORDED:
        assert explain(text).count(str(explain_client_error(text))) == 1
        assert explain(explain(text)) == explain(text)
        assert "Errno" not in str(Disconnected(f"{text}; grant it"))


def test_a_text_that_no_row_knows_stays_as_it_is() -> None:
    assert explain("topic 't' has 3 partitions") == "topic 't' has 3 partitions"


def test_no_reason_begins_with_the_name_of_its_endpoint() -> None:
    """The log, conditions and findings have the name in front of it already."""
    named = re.compile(r"\b(Disconnected|Failure|Finding)\(")
    for path, text in read_modules("bridge/").items():
        for call in walk(ast.parse(text)) if named.search(text) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Disconnected", "Failure", "Finding"):
                for reason in call.args:
                    if isinstance(reason, ast.JoinedStr) and isinstance(reason.values[0], ast.FormattedValue):
                        assert ast.unparse(reason.values[0].value) != "self.name", f"{path}:{call.lineno}"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            pika.exceptions.ConnectionClosedByBroker(530, "NOT_ALLOWED - vhost 'shop' not found"),
            "127.0.0.1:5672: virtual host '/': NOT_ALLOWED - vhost 'shop' not found",
        ),
        (
            pika.exceptions.AMQPConnectionError(
                "ConnectionClosedByBroker: (530) \"NOT_ALLOWED - vhost 'shop' not found\""
            ),
            "127.0.0.1:5672: virtual host '/': 530 NOT_ALLOWED - vhost 'shop' not found",
        ),
        (
            pika.exceptions.AMQPConnectionError(
                "TCP connection attempt timed out: '127.0.0.1'/(<AddressFamily.AF_INET: 2>, <SocketKind: 1>, "
                "6, '', ('127.0.0.1', 5672))"
            ),
            "127.0.0.1:5672: nothing answers there: is the host up, and does a firewall let connections through?",
        ),
    ],
)
def test_what_pika_knows_by_its_text_only_is_told_in_the_words_of_the_broker(error: Exception, text: str) -> None:
    assert str(explain_connect_error(parse_broker("amqp://127.0.0.1"), error)) == text


@pytest.mark.parametrize(("code", "name"), [(403, "ACCESS_REFUSED"), (404, "NOT_FOUND"), (406, "PRECONDITION_FAILED")])
def test_the_code_of_a_refusal_is_there_once_whoever_passes_it_on(code: int, name: str) -> None:
    closed = pika.exceptions.ChannelClosedByBroker(code, f"{name} - inequivalent arg")
    answer = to_answer_error(closed)
    assert isinstance(answer, BrokerError)
    for each in (closed, answer, to_disconnected(closed), to_disconnected(answer)):
        assert str(to_disconnected(each)) == f"{code} {name} - inequivalent arg"
    assert explain_refusal(answer, "queue 'q'").count(str(code)) <= 1
