"""A client's connections, routes and heartbeats, against live name servers and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.channel import Channel, ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import ONEWAY, Command, Decoder, SerializeType, encode, load_json
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, ConnectError, RemotingTimeout, SendRequestError
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import publish_queues
from tests.support.bridge.relay import relay_to
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until

NOBODY = "127.0.0.1:1"
TOPIC_LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


def on_each(servers: list[Server], test: Callable[[Client], Awaitable[None]], **settings: Any) -> None:
    """Run a scenario with a client of each server."""

    async def run(server: Server) -> None:
        async with Client(ClientSettings(server.url, **settings)) as client:
            await test(client)

    for server in servers:
        asyncio.run(asyncio.wait_for(run(server), find_limit()))


@pytest.mark.smoke
def test_a_topic_s_route_has_its_queues(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client) -> None:
        topic = unique_name("route")
        await admin.create_topic(client, admin.TopicConfig(topic, 3, 5))
        route = await client.route(topic)
        ((name, read, write, perm),) = route.queues
        assert (read, write, perm) == (3, 5, 6)
        assert publish_queues(route).count == 5
        assert client.address(name) == (await admin.list_masters(client))[name]
        assert topic in await admin.fetch_topics(client)
        await admin.delete_topic(client, topic)
        with pytest.raises(ClientError, match="No route info of this topic"):
            await client.route(topic)

    on_each(rocketmq_servers, test)


def test_listeners_get_a_changed_route_within_the_interval(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client) -> None:
        topic = unique_name("change")
        await admin.create_topic(client, admin.TopicConfig(topic, 2, 2))
        async with Client(ClientSettings(client.settings.namesrv_addr, poll_name_server_interval=0.1)) as other:
            counts: list[tuple[str, int]] = []
            other.on_routes.append(lambda topic, route: counts.append((topic, publish_queues(route).count)))
            await other.route(topic)
            await admin.create_topic(client, admin.TopicConfig(topic, 4, 4))

            async def is_told() -> bool:
                return len(counts) > 1

            await until(is_told)
            assert counts == [(topic, 2), (topic, 4)]
            assert publish_queues(await other.route(topic)).count == 4

    on_each(rocketmq_servers, test)


@pytest.mark.parametrize("kind", SerializeType)
def test_servers_take_both_encodings(rocketmq_servers: list[Server], kind: SerializeType) -> None:
    async def test(client: Client) -> None:
        ((_, broker),) = (await admin.list_masters(client)).items()
        for address, code, field in (
            (client.settings.namesrv_addr, RequestCode.GET_ROUTEINFO_BY_TOPIC, "topic"),
            (broker, RequestCode.GET_PRODUCER_CONNECTION_LIST, "producerGroup"),
        ):
            with pytest.raises(BrokerError) as refused:
                await client.ask(address, code, {field: "größe \U0001f600"}, b"body")
            assert "größe \U0001f600" in refused.value.remark

    on_each(rocketmq_servers, test, channel=ChannelSettings(serialize_type=kind))


def test_the_next_name_server_is_asked_when_one_fails(rocketmq_servers: list[Server]) -> None:
    async def test(server: Server) -> None:
        host, _, port = server.url.rpartition(":")
        with relay_to(host, int(port)) as first, relay_to(host, int(port)) as second:
            addresses = f"{NOBODY};127.0.0.1:{first.port},127.0.0.1:{second.port}"
            async with Client(ClientSettings(addresses, mq_client_api_timeout=0.5)) as client:
                assert await admin.fetch_topics(client)
                assert (first.accepted, second.accepted) == (1, 0)
                first.stall()
                assert await admin.fetch_topics(client)
                assert (first.accepted, second.accepted) == (1, 1)
                second.stall()
                with pytest.raises(ConnectError, match="no name server answers") as error:
                    await admin.fetch_topics(client)
                assert NOBODY in str(error.value)

    for server in rocketmq_servers[:1]:
        asyncio.run(asyncio.wait_for(test(server), find_limit()))


def test_concurrent_requests_all_find_the_name_server_that_answers(rocketmq: Server) -> None:
    async def test(server: Server) -> None:
        async with Client(ClientSettings(server.url)) as client:
            made = [unique_name(f"at-once-{number}") for number in range(4)]
            for topic in made:
                await admin.create_topic(client, admin.TopicConfig(topic, 1, 1))
        # Whoever has found the first one silent must not have the next skip the second.
        for count in (2, 4):
            async with Client(ClientSettings(f"{NOBODY};{server.url}")) as client:
                await asyncio.gather(*[client.route(topic) for topic in made[:count]])

    asyncio.run(asyncio.wait_for(test(rocketmq), find_limit()))


def test_a_closed_client_makes_no_connection(rocketmq: Server) -> None:
    async def test(server: Server) -> None:
        async with Client(ClientSettings(server.url)) as client:
            pass
        for again in (client.open, lambda: client.route("any")):
            with pytest.raises(ClientError, match="the client is closed"):
                await again()

    asyncio.run(asyncio.wait_for(test(rocketmq), find_limit()))


def test_the_error_without_a_name_server_names_all_addresses() -> None:
    async def test() -> None:
        with pytest.raises(ConnectError, match=f"{NOBODY}.*127.0.0.1:2"):
            await Client(ClientSettings(f"{NOBODY};127.0.0.1:2")).open()

    asyncio.run(test())
    for wrong in ("", ";", "127.0.0.1", "127.0.0.1:x", ":9876"):
        with pytest.raises(InputError):
            Client(ClientSettings(wrong))


def test_a_lost_connection_ends_its_requests_and_the_next_request_connects_again(rocketmq: Server) -> None:
    async def test(server: Server) -> None:
        host, _, port = server.url.rpartition(":")
        with relay_to(host, int(port)) as relay:
            async with Client(ClientSettings(f"127.0.0.1:{relay.port}")) as client:
                address = client.settings.namesrv_addr
                await client.ask(address, TOPIC_LIST)
                relay.stall()
                asked = [asyncio.ensure_future(client.ask(address, TOPIC_LIST)) for _ in range(3)]
                await asyncio.sleep(0.1)
                relay.cut()
                relay.go_on()
                for error in await asyncio.gather(*asked, return_exceptions=True):
                    assert isinstance(error, SendRequestError)
                await client.ask(address, TOPIC_LIST)
                assert relay.accepted == 2

    asyncio.run(asyncio.wait_for(test(rocketmq), find_limit()))


def test_an_answer_after_the_timeout_is_ignored(rocketmq: Server) -> None:
    async def test(server: Server) -> None:
        host, _, port = server.url.rpartition(":")
        with relay_to(host, int(port)) as relay:
            channel = await Channel.open(f"127.0.0.1:{relay.port}")
            relay.stall()
            with pytest.raises(RemotingTimeout, match=r"no answer in 0\.2 s"):
                await channel.invoke(TOPIC_LIST, {}, timeout=0.2)
            relay.go_on()
            answer = await channel.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "none"})
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
            assert relay.accepted == 1
            await channel.close()
            with pytest.raises(SendRequestError):
                await channel.invoke(TOPIC_LIST, {})

    asyncio.run(asyncio.wait_for(test(rocketmq), find_limit()))


def test_a_broker_knows_producers_until_they_unregister(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client) -> None:
        group = unique_name("producers")
        ((_, address),) = (await admin.list_masters(client)).items()
        fields = {"producerGroup": group}

        async def members() -> list[tuple[str, str]]:
            answer = await client.invoke(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, fields)
            found = load_json(answer.body)["connectionSet"] if answer.code == 0 else []
            return [(each["clientId"], each["language"]) for each in found]

        await client.route("TBW102")
        async with Client(ClientSettings(client.settings.namesrv_addr, instance_name="me")) as other:
            await other.register_producer(group)  # before it knows any broker
            await other.route("TBW102")

            async def is_known() -> bool:
                return await members() == [(other.client_id, "PYTHON")]

            await until(is_known)
            assert other.client_id.endswith("@me")
        assert await members() == []

    on_each(rocketmq_servers, test)


def test_brokers_notify_the_consumers_of_a_group_of_each_other(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client) -> None:
        group = unique_name("consumers")
        told: list[Command] = []

        def consumer() -> dict[str, Any]:
            return {
                "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [], "unitMode": False,
            }  # fmt: skip

        def hear(request: Command) -> None:
            told.append(request)

        await client.route("TBW102")
        stop = client.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, hear)
        await client.register_consumer(group, consumer)
        ((_, address),) = (await admin.list_masters(client)).items()

        async def members() -> set[str]:
            answer = await client.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
            return set(load_json(answer.body)["consumerIdList"])

        assert await members() == {client.client_id}
        async with Client(ClientSettings(client.settings.namesrv_addr)) as other:
            await other.route("TBW102")
            told.clear()
            await other.register_consumer(group, consumer)
            assert await members() == {client.client_id, other.client_id}

            async def is_told() -> bool:
                return any(request.fields.get("consumerGroup") == group and request.is_oneway for request in told)

            await until(is_told)
        assert await members() == {client.client_id}
        stop()

    on_each(rocketmq_servers, test)


def test_a_request_without_a_handler_is_answered_as_not_supported() -> None:
    """A request of the server gets one answer, unless it is one-way; and rubbish ends the connection."""

    async def test() -> None:
        heard: asyncio.Future[list[Command]] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for flag in (ONEWAY, 0):
                writer.write(encode(Command(40, opaque=5, flag=flag)))
            decoder, commands = Decoder(), list[Command]()
            while len(commands) < 2:
                commands += decoder.feed(await reader.read(1 << 16))
            writer.write(b"\0\0\0\1rubbish")
            commands += decoder.feed(await reader.read())
            heard.set_result(commands)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            channel = await Channel.open(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            with pytest.raises(SendRequestError, match="a frame of 1 bytes"):
                await channel.invoke(TOPIC_LIST, {})
            assert channel.closed
            (answer,) = [each for each in await heard if each.is_response]
            assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)

    asyncio.run(asyncio.wait_for(test(), find_limit()))
