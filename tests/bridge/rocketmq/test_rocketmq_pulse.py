"""The checks whether servers are alive, with servers of the test that answer, fall silent and go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

import bridge.rocketmq.remoting.pulse as module
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command, Decoder, encode
from bridge.rocketmq.remoting.pulse import Pulse
from tests.support.bridge.behaviour import on_a_loop
from tests.support.waiting import until


class Server:
    """A name server and its only broker, at one port, which can be silenced."""

    def __init__(self) -> None:
        self.silent = False
        self.has_route = True
        self.connections = 0
        self.asked: list[int] = []
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        decoder = Decoder()
        while data := await reader.read(1 << 16):
            for request in decoder.feed(data):
                self.asked.append(request.code)
                if not self.silent:
                    writer.write(encode(self._answer(request)))
        writer.close()

    def _answer(self, request: Command) -> Command:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return request.response(16, "no right")  # which is a sign of life as well
        names = ["b"] if self.has_route else []
        route = {
            "queueDatas": [{"brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in names],
            "brokerDatas": [{"brokerName": name, "brokerAddrs": {"0": f"127.0.0.1:{self.port}"}} for name in names],
        }
        return request.response(0, None, json.dumps(route).encode())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(module, "QUIET", 0.1)
    monkeypatch.setattr(module, "ANSWER", 0.1)
    monkeypatch.setattr(module, "SILENT", 0.5)
    monkeypatch.setattr(module, "GIVE_UP", 0.9)


def watching(test: Callable[[Server, Client, Pulse], Awaitable[None]], *, replicas: bool = True) -> None:
    @on_a_loop
    async def run() -> None:
        server = Server()
        await server.start()
        client = Client(ClientSettings(f"127.0.0.1:{server.port}"))
        errors: list[BaseException] = []
        await client.open()
        await client.route("t")
        pulse = Pulse(client, ["t"], replicas=replicas, failed=errors.append)
        pulse.open()
        try:
            await test(server, client, pulse)
        finally:
            await pulse.close()
            await client.close()
            await server.stop()
        assert not errors

    run()


@pytest.mark.parametrize("replicas", [True, False])
def test_silent_servers_are_reported_until_they_answer_again(replicas: bool) -> None:
    async def test(server: Server, _: Client, pulse: Pulse) -> None:
        await until(lambda: len(server.asked) > 2)
        assert pulse.trouble is None
        server.silent = True
        await until(lambda: pulse.trouble is not None and "broker 'b'" in pulse.trouble)
        assert "the name server" in str(pulse.trouble)
        server.silent = False
        await until(lambda: pulse.trouble is None)

    watching(test, replicas=replicas)


def test_servers_that_refuse_connections_are_reported_with_the_reason() -> None:
    async def test(server: Server, _: Client, pulse: Pulse) -> None:
        await server.stop()
        await until(lambda: "Connect call failed" in str(pulse.trouble) or "refused" in str(pulse.trouble))
        await server.start()
        await until(lambda: pulse.trouble is None)

    watching(test)


def test_a_connection_without_data_is_ended_and_made_again() -> None:
    async def test(server: Server, client: Client, pulse: Pulse) -> None:
        old = client.open_channel(f"127.0.0.1:{server.port}")
        assert old is not None
        server.silent = True
        before = server.connections
        await until(lambda: old.closed and server.connections > before)
        server.silent = False
        await until(lambda: pulse.trouble is None)

    watching(test)


def test_a_broker_that_left_the_routes_is_watched_by_a_source_as_long_as_it_is_dead_and_never_by_a_target() -> None:
    async def leaves(server: Server, client: Client, pulse: Pulse) -> None:
        await until(lambda: "b" in pulse._watched)
        server.has_route = False
        await client.update_route("t")
        await until(lambda: "b" not in pulse._watched)

    watching(leaves, replicas=True)  # its server answers still
    watching(leaves, replicas=False)

    async def dies(server: Server, client: Client, pulse: Pulse) -> None:
        await until(lambda: "b" in pulse._watched)
        server.silent = True
        await until(lambda: pulse.trouble is not None)
        client._routes["t"] = type(client.routes()["t"])()
        connections = server.connections
        # It takes new ones, and says nothing.
        await until(lambda: server.connections > connections or "b" not in pulse._watched)
        pulse._looked -= 2 * module.SILENT  # as after this process was stopped
        for _ in range(10):
            await asyncio.sleep(0.02)
            assert "b" in pulse._watched
        await until(lambda: "broker 'b'" in str(pulse.trouble))

    watching(dies)


def test_a_server_that_sends_data_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked_for(server: Server, client: Client, pulse: Pulse) -> None:
        """Send answers for three times as long as a silence after which the client sends a request.

        A machine may itself be silent for as long: then the client waits longer.
        """
        loop, address = asyncio.get_running_loop(), f"127.0.0.1:{server.port}"
        for _ in range(10):
            server.asked.clear()
            await client.invoke(address, RequestCode.HEART_BEAT)
            began = latest = loop.time()
            longest = 0.0
            while latest - began < 3 * module.QUIET:
                await client.invoke(address, RequestCode.HEART_BEAT)
                await asyncio.sleep(0.01)
                longest, latest = max(longest, loop.time() - latest), loop.time()
            if longest < module.QUIET / 2:
                break
            monkeypatch.setattr(module, "QUIET", 2 * longest + module.QUIET)
        assert set(server.asked) == {RequestCode.HEART_BEAT}

    watching(asked_for)


def test_an_error_that_ends_the_watching_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    @on_a_loop
    async def run() -> None:
        errors: list[BaseException] = []
        client = Client(ClientSettings("127.0.0.1:1"))
        pulse = Pulse(client, ["t"], replicas=True, failed=errors.append)
        monkeypatch.setattr(pulse, "_to_watch", lambda: 1 // 0)
        pulse.open()
        await until(lambda: bool(errors))
        await pulse.close()
        await client.close()
        assert [type(each) for each in errors] == [ZeroDivisionError]

    run()
