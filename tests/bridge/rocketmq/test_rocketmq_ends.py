"""However a source or target of RocketMQ ends, nothing of it is left: with servers of the test, no broker."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.aside import call_aside
from bridge.endpoint import Disconnected, Place, Source
from bridge.endpoints.rocketmq import addresses
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.endpoints.rocketmq.target import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.connections import Connections
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, ConnectError, RemotingTimeout
from bridge.table import Table
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import BrokerData, QueueData, TopicRoute
from tests.support.bridge.behaviour import Reports, on_a_loop
from tests.support.bridge.certificates import authority_in
from tests.support.bridge.relay import relay_to
from tests.support.tiers import scale
from tests.support.virtual_loop import on_a_virtual_loop, pass_time
from tests.support.waiting import find_limit, until

Endpoint = RocketmqSource | RocketmqTarget
QUEUE = TopicQueue("t", "b", 0)


def source(settings: ClientSettings) -> RocketmqSource:
    return RocketmqSource("s", settings, "g", [Subscription.to_tags("t")])


def target(settings: ClientSettings) -> RocketmqTarget:
    return RocketmqTarget("t", settings, {"q": TopicDestination("t")})


async def opened(endpoint: Endpoint) -> None:
    await (endpoint.open() if isinstance(endpoint, Source) else endpoint.open(Reports()))


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[str, set[asyncio.StreamWriter]]]:
    """Run a server that takes connections and reads their data, and never answers."""
    connections: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        finally:
            connections.discard(writer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


@pytest.mark.scaled
@pytest.mark.parametrize("make", [source, target])
def test_opening_that_is_cancelled_at_any_moment_leaves_nothing_behind(
    make: Callable[[ClientSettings], Endpoint],
) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        chance = random.Random(7)
        loop = asyncio.get_running_loop()
        async with silent() as (address, connections):
            others, closing = asyncio.all_tasks(), 0.0
            for turn in range(scale(200, 4)):
                endpoint = make(ClientSettings(address))
                opening = asyncio.create_task(opened(endpoint))
                if turn % 2:
                    await pass_time(chance.random() * 0.01)
                else:
                    for _ in range(chance.randrange(30)):
                        await asyncio.sleep(0)
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening
                began = loop.time()
                await endpoint.close()
                closing += loop.time() - began
            assert closing < 60  # waiting for one answer at each close would take minutes
            async with asyncio.timeout(find_limit()):
                while connections:
                    await pass_time(0.01)
            # Those of the server, which may be about to take a connection that has ended already, are not ours.
            servers = ("serve", "_accept_connection")
            left = [task for task in asyncio.all_tasks() - others if not any(name in repr(task) for name in servers)]
            assert left == []
        gc.collect()

    check()


@pytest.mark.scaled
@pytest.mark.parametrize("make", [source, target])
def test_closing_that_is_cancelled_at_any_moment_leaves_nothing_behind(
    make: Callable[[ClientSettings], Endpoint],
) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        chance = random.Random(7)
        async with silent() as (address, connections):
            others = asyncio.all_tasks()
            for _ in range(scale(100, 4)):
                endpoint = make(ClientSettings(address))
                opening = asyncio.create_task(opened(endpoint))
                await pass_time(0.002)
                opening.cancel()
                closing = asyncio.create_task(endpoint.close())
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.wait([opening, closing])
                await endpoint.close()
            async with asyncio.timeout(find_limit()):
                while connections or any("serve" not in repr(each) for each in asyncio.all_tasks() - others):
                    await pass_time(0.01)

    check()


@pytest.mark.parametrize("make", [source, target])
def test_any_error_while_opening_is_raised_as_disconnected(
    make: Callable[[ClientSettings], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        for error in (TypeError("odd"), InputError("odd"), OSError("odd"), RecursionError("odd")):

            async def fails(_: Any, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(Client, "open", fails)
            endpoint = make(ClientSettings("127.0.0.1:1"))
            with pytest.raises(Disconnected, match="odd"):
                await opened(endpoint)
            await endpoint.close()

    check()


# Background tasks.


class StubConsumer:
    """A consumer without messages, which can be broken."""

    def __init__(self) -> None:
        self.broken: BaseException | None = None
        self.troubles: dict[str, Exception] = {}
        self.unpersisted: dict[Any, Exception] = {}

    async def receive_by_queue(self, _: int) -> list[Any]:
        await asyncio.Event().wait()
        return []

    async def persist(self, _: Any) -> dict[Any, int]:
        raise KeyError("what nobody expects")


@on_a_virtual_loop
async def test_an_error_that_ends_the_commits_of_offsets_is_raised_as_disconnected() -> None:
    made = source(ClientSettings("127.0.0.1:1"))
    consumer: Any = StubConsumer()
    made._consumer = consumer
    committing = made._commits["b"] = made._start(made._commit_at(consumer, "b", []))
    with pytest.raises(Disconnected, match="unexpected KeyError: 'what nobody expects'"):
        await made.read(1)
    assert committing.done()


@on_a_virtual_loop
async def test_an_error_that_ends_committing_is_raised_also_while_the_window_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = source(ClientSettings("127.0.0.1:1"))
    consumer: Any = StubConsumer()
    made._consumer = consumer
    made._uncommitted = 10_000
    reading = asyncio.create_task(made.read(1))
    await asyncio.sleep(0)
    monkeypatch.setattr(made, "_settled", None)
    made._committing = made._start(made._commit(consumer))
    with pytest.raises(Disconnected, match="unexpected AttributeError"):
        await reading


@on_a_virtual_loop
async def test_an_error_that_breaks_a_consumer_is_raised_while_messages_come() -> None:
    made = source(ClientSettings("127.0.0.1:1"))
    consumer: Any = StubConsumer()
    consumer.broken = ZeroDivisionError("x")
    made._consumer = consumer
    assert "ZeroDivisionError: x" in str(made.lost)
    with pytest.raises(Disconnected, match="ZeroDivisionError: x"):
        await made.read(1)


@on_a_virtual_loop
async def test_unexpected_errors_of_background_tasks_are_reported_and_expected_ones_are_not() -> None:
    client = Connections(ClientSettings("127.0.0.1:1"))
    told: list[BaseException] = []
    client.on_broken.append(told.append)

    async def fails(error: Exception) -> None:
        raise error

    await asyncio.wait([client._start(fails(each)) for each in (ClientError("no"), LookupError("odd"))])
    await asyncio.sleep(0)
    assert [type(each) for each in told] == [LookupError]
    await client.close()


@on_a_virtual_loop
async def test_a_listener_that_fails_does_not_keep_a_route_from_the_others() -> None:
    client = Client(ClientSettings("127.0.0.1:1"))
    heard: list[str] = []
    told: list[BaseException] = []
    client.on_broken.append(told.append)
    client.on_routes.append(lambda topic, route: 1 // 0)  # type: ignore[arg-type]
    client.on_routes.append(lambda topic, route: heard.append(topic))
    client._take_route("t", TopicRoute())
    assert heard == ["t"]
    assert [type(each) for each in told] == [ZeroDivisionError]


def test_closing_a_client_does_not_cancel_the_tasks_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a task that must finish, such as leaving the group, would end as if it had been cancelled itself."""

    async def never(_: Any) -> Any:
        await asyncio.Event().wait()

    @on_a_virtual_loop
    async def check() -> None:
        monkeypatch.setattr(Connections, "_open", lambda self, address: never(address))
        client = Connections(ClientSettings("127.0.0.1:1"))
        opening = asyncio.create_task(client.channel("127.0.0.1:9"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        client.abort()
        with pytest.raises(ClientError, match="closed"):
            await opening

    check()


# What keeps an open source from moving.


class StubPulse:
    """A pulse with a given trouble."""

    trouble: str | None = None


@pytest.mark.parametrize(
    ("troubles", "unpersisted", "trouble"),
    [
        ({}, {}, None),
        ({QUEUE: BrokerError(ResponseCode.SYSTEM_ERROR, "no")}, {}, "t at b:0: SYSTEM_ERROR (1): no"),
        ({QUEUE: BrokerError(ResponseCode.SUBSCRIPTION_NOT_EXIST, "wait")}, {}, None),
        ({QUEUE: RemotingTimeout("late")}, {}, None),
        ({"%RETRY%g": BrokerError(ResponseCode.SYSTEM_ERROR, "no")}, {}, None),
        (
            {},
            {QUEUE: BrokerError(ResponseCode.NO_PERMISSION, "no")},
            "t at b:0: what is settled cannot be committed: NO_PERMISSION (16): no",
        ),
    ],
)
def test_refused_pulls_and_commits_are_reported_as_trouble(
    troubles: Any, unpersisted: Any, trouble: str | None
) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        made = source(ClientSettings("127.0.0.1:1"))
        assert made.trouble is None
        consumer: Any = StubConsumer()
        consumer.troubles, consumer.unpersisted = troubles, unpersisted
        pulse: Any = StubPulse()
        made._consumer, made._pulse = consumer, pulse
        assert made.trouble == trouble
        pulse.trouble = "no sign of life"
        assert made.trouble == "no sign of life"

    check()


@on_a_virtual_loop
async def test_a_missing_permission_to_commit_is_disconnected_before_the_window_is_full() -> None:
    made = source(ClientSettings("127.0.0.1:1"))
    consumer: Any = StubConsumer()
    consumer.unpersisted = {QUEUE: BrokerError(ResponseCode.NO_PERMISSION, "no")}
    made._consumer = consumer
    made._uncommitted = 10_000
    assert "what is settled cannot be committed: NO_PERMISSION" in str(made.lost)
    with pytest.raises(Disconnected, match="what is settled cannot be committed: NO_PERMISSION"):
        await made.read(1)


def test_places_have_the_decoded_names_of_topics() -> None:
    settings = ClientSettings("a:9876;b:9876")
    made = RocketmqSource("s", settings, "g", [Subscription.to_tags("orders%2Eeu"), Subscription.to_tags("t")])
    assert made.places == {Place("rocketmq", "a:9876", "topic orders.eu"), Place("rocketmq", "a:9876", "topic t")}
    assert target(settings).places == {Place("rocketmq", "a:9876", "topic t")}


def test_a_member_that_a_broker_lists_twice_has_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    @on_a_virtual_loop
    async def check() -> None:
        client = Client(ClientSettings("127.0.0.1:1"))
        client.client_id = "me"
        client._routes["t"] = TopicRoute((QueueData("b", 4, 4),), (BrokerData("b", ((0, "127.0.0.1:1"),)),))
        group = Group(client, "g", [Subscription.to_tags("t")], ConsumerSettings())

        async def members(_: Any) -> list[str]:
            return ["me", "me"]

        monkeypatch.setattr(group, "_members", members)
        assert (await group.share("t")).pull == {TopicQueue("t", "b", at) for at in range(4)}

    check()


# Secrets.


def test_secrets_are_read_again_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = iter(["first", "second", "third"])
    monkeypatch.setattr(addresses, "_current", lambda _: next(secrets))
    told = Table({"access_key": "me", "secret_key": "s"}, "bridge.toml", "sources.x")
    settings = addresses.read_settings("rocketmq://h", told)
    assert settings.channel.credentials == Credentials("me", "first")
    for secret in ("second", "third"):
        client = Connections(settings.current())
        assert client.settings.channel.credentials == Credentials("me", secret)


@on_a_loop
async def test_certificates_are_read_again_after_a_connection_that_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a client that stays: a source keeps its own for ever, as its brokers may be away for a while."""
    authority = authority_in(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    told = Table({"tls": True, "ca_file": str(tmp_path / "now.pem")}, "bridge.toml", "sources.x")
    (tmp_path / "now.pem").write_bytes((authority / "other.pem").read_bytes())
    async with silent() as (address, _):
        host, _, port = address.rpartition(":")
        with relay_to(host, int(port), context) as relay:
            url = f"127.0.0.1:{relay.port}"
            settings = addresses.read_settings(f"rocketmq://{url}", told)
            connections = Connections(await call_aside(settings.current))
            for _ in range(2):
                with pytest.raises(ConnectError, match="certificate verify failed"):
                    await connections.channel(url)
            (tmp_path / "now.pem").write_text("half of a file")
            with pytest.raises(ConnectError, match=r"now\.pem"):
                await connections.channel(url)
            (tmp_path / "now.pem").write_bytes((authority / "ca.pem").read_bytes())
            made = await connections.channel(url)
            asked: list[ChannelSettings] = []

            def note() -> ChannelSettings:
                asked.append(connections.settings.channel)
                return asked[-1]

            monkeypatch.setattr(connections, "_channel_now", note)
            await until(lambda: relay.connected)  # with TLS 1.3, a client is ready before its server is
            relay.cut()  # before anything came: as a server does that refuses the client's certificate
            await until(lambda: made.closed)
            await connections.channel(url)
            assert asked
            await connections.close()


@on_a_virtual_loop
async def test_a_secret_that_cannot_be_read_now_is_disconnected() -> None:
    def gone() -> ChannelSettings:
        raise InputError("secret_key: the file s cannot be read")

    endpoint = source(ClientSettings("127.0.0.1:1", channel_now=gone))
    with pytest.raises(Disconnected, match="the file s cannot be read"):
        await endpoint.open()
    await endpoint.close()


@on_a_loop
async def test_leaving_a_group_continues_when_its_caller_is_cancelled() -> None:
    async with silent() as (address, _):
        client = Client(ClientSettings(address))
        await client.open()
        consumer = Consumer(client, "g", [Subscription.to_tags("t")])
        consumer._is_open = True
        client.on_routes.append(consumer._handle_route_change)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert consumer._closing is not None
        await consumer._closing
        await client.close()


@on_a_loop
async def test_a_target_writes_to_the_queues_that_a_topic_got_while_it_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody tells of this change again."""
    brokers = (BrokerData("b", ((0, "127.0.0.1:1"),)),)

    async def look_up(client: Client, topic: str) -> TopicRoute:
        client._take_route(topic, TopicRoute((QueueData("b", 4, 4),), brokers))
        return client.routes()[topic]

    async def change(client: Client, topic: str, _: object) -> None:
        client._take_route(topic, TopicRoute((QueueData("b", 8, 8),), brokers))

    async def open_client(client: Client) -> None:
        client.client_id = "127.0.0.1@me"

    monkeypatch.setattr(Client, "open", open_client)
    monkeypatch.setattr(Client, "route", look_up)
    monkeypatch.setattr("bridge.endpoints.rocketmq.target.refuse_lite_topics", change)
    written = target(ClientSettings("127.0.0.1:1"))
    await written.open(Reports())
    assert written._writing is not None
    assert len(written._writing.writer.spreads["t"].queues) == 8
    await written.close()
