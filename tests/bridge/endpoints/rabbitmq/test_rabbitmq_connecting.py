"""Opening a connection: errors of ports with other protocols, and sockets, none of which stays open."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq import wire as module
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from tests.support.bridge.behaviour import on_a_loop
from tests.support.bridge.certificates import authority_in
from tests.support.waiting import find_limit, until

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

HUNG_UP = "hung up during the handshake: is this an AMQP port, and the broker behind it up?"


async def reason_from(serve: Serve, tls: bool = False, server_tls: ssl.SSLContext | None = None) -> str:
    """Return why no connection can be made to a server that treats its clients in this way."""
    served: set[asyncio.Task[Any] | None] = set()

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        with suppress(OSError):
            await serve(reader, writer)
            await writer.wait_closed()

    server = await asyncio.start_server(kept, "127.0.0.1", 0, ssl=server_tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        address = parse_broker(f"amqp://guest:secret@127.0.0.1:{port}")
        if tls:
            address.ssl_options = pika.SSLOptions(ssl.create_default_context(), "localhost")
        with pytest.raises(Disconnected) as caught:
            await Connection.open([address], lambda _: None)
        await asyncio.gather(*[task for task in served if task is not None])
    assert "secret" not in str(caught.value)
    return str(caught.value).replace(str(port), "PORT")


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(8)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@on_a_loop
async def test_a_port_of_http_is_not_taken_for_a_broker() -> None:
    reason = await reason_from(answer_http)
    assert reason.startswith("127.0.0.1:PORT: ")
    assert reason.endswith(HUNG_UP)


@on_a_loop
async def test_a_port_that_hangs_up_is_reported_in_words() -> None:
    assert await reason_from(hang_up) == f"127.0.0.1:PORT: {HUNG_UP}"


@on_a_loop
async def test_tls_to_a_port_without_tls_is_reported_in_words() -> None:
    words = "the broker's port answers TLS with plain text: is this the amqps listener?"
    assert await reason_from(answer_http, tls=True) == f"127.0.0.1:PORT: {words}"


@on_a_loop
async def test_missing_tls_and_an_unknown_authority_are_reported_in_words(tmp_path: Path) -> None:
    authority = authority_in(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    assert (await reason_from(be_silent, server_tls=context)).endswith(HUNG_UP)
    assert "no authority in ca_file knows" in await reason_from(be_silent, tls=True, server_tls=context)


def method(number: tuple[int, int], arguments: bytes) -> bytes:
    payload = struct.pack(">HH", *number) + arguments
    return struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


START = method((10, 10), b"\0\x09" + bytes(4) + struct.pack(">I5sI5s", 5, b"PLAIN", 5, b"en_US"))
TUNE = method((10, 30), struct.pack(">HIH", 2047, 131072, 60))
OPEN_OK = method((10, 41), b"\0")
CLOSE = method((10, 50), struct.pack(">HB17sHH", 320, 17, b"CONNECTION_FORCED", 0, 0))


@pytest.mark.parametrize(
    ("end", "reason"), [(CLOSE, "CONNECTION_FORCED"), (b"", HUNG_UP)], ids=["by its method", "by the socket"]
)
@on_a_loop
async def test_a_connection_that_is_ended_at_the_moment_when_it_is_open_has_a_reason(end: bytes, reason: str) -> None:
    async def end_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        for answer in (START, TUNE):
            writer.write(answer)
            await reader.read(1_000)
        writer.write(OPEN_OK + end)
        writer.close()

    assert await reason_from(end_at_once) == f"127.0.0.1:PORT: {reason}"


@on_a_loop
async def test_a_silent_host_does_not_keep_the_next_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_SECONDS", 1e6)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)
    ended = asyncio.Event()

    async def be_silent_to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await be_silent(reader, writer)
        ended.set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        for method_of_broker in (START, TUNE, OPEN_OK):
            writer.write(method_of_broker)
            await reader.read(1_000)
        writer.close()

    ports: list[int] = []
    async with AsyncExitStack() as servers:
        for serve in (be_silent_to_the_end, answer):
            server = await servers.enter_async_context(await asyncio.start_server(serve, "127.0.0.1", 0))
            ports.append(server.sockets[0].getsockname()[1])
        hosts = [parse_broker(f"amqp://127.0.0.1:{port}") for port in ports]
        hosts[0].stack_timeout = hosts[0].socket_timeout = 1e6
        async with asyncio.timeout(find_limit()):
            connection = await Connection.open(hosts, lambda _: None)
            assert connection.parameters.port == ports[1]
            await connection.close()
            await ended.wait()


@on_a_loop
async def test_a_silent_port_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(module, "NAME_SECONDS", 0.1)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.5)
    assert "no answer in" in await reason_from(be_silent)


@on_a_loop
async def test_opening_that_is_cancelled_once_and_again_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any moment, even for a port that never answers: a server sees the end of each connection."""
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    served: list[asyncio.Task[Any] | None] = []
    wires: list[module.Wire] = []

    class Kept(module.Wire):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            wires.append(self)

    async def look_up_at_once(host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    monkeypatch.setattr(module, "Wire", Kept)
    monkeypatch.setattr(module, "look_up", look_up_at_once)  # on a busy machine, a thread may take longer than 0.2 s

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with suppress(OSError):
            await reader.read()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(wait_for_the_end, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for turns in range(1, 15):
        opening = asyncio.ensure_future(Connection.open([parse_broker(f"amqp://127.0.0.1:{port}")], lambda _: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.sleep(0)
        opening.cancel()  # while it cleans up
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert len(wires) == 14
    await until(lambda: all(wire.is_closed for wire in wires))
    async with asyncio.timeout(find_limit()):
        # Accepted behind all others, of which the first may have been given up before they were made.
        last, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await last.read()
        await asyncio.gather(*[task for task in served if task is not None])
    assert len(served) > 1
    server.close()
    await server.wait_closed()
    assert not problems
