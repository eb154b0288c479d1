"""A client of brokers that ask who it is, over TLS: `plain_acl.yml` of 4.x, users of 5.x."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.command import SerializeType
from bridge.rocketmq.remoting.errors import BrokerError, ConnectError
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.rocketmq.secured import OWNER
from tests.support.waiting import find_limit

STRANGER = Credentials("hashstar", "87654321")


def test_a_client_with_the_right_secret_may_send_over_tls(secured_addresses: list[str], secured_folder: Path) -> None:
    async def test(address: str, channel: ChannelSettings) -> None:
        async with (
            Client(ClientSettings(address, channel=channel)) as client,
            Producer(client, ProducerSettings("secured")) as producer,
        ):
            await admin.create_topic(client, admin.TopicConfig("secured", 2, 2))
            message = RocketMessage.build("secured", "größe".encode(), {"größe": "\U0001f600"}, tags="t")
            assert (await producer.send(message)).status == "SEND_OK"
            assert (await (await producer.send_async(message))).status == "SEND_OK"
            assert (await producer.send_batch([message, message])).status == "SEND_OK"

    for address in secured_addresses:
        for kind in SerializeType:
            for tls in (None, ssl.create_default_context(cafile=secured_folder / "ca.pem")):
                settings = ChannelSettings(serialize_type=kind, tls=tls, credentials=OWNER)
                asyncio.run(asyncio.wait_for(test(address, settings), find_limit()))


def test_a_client_without_or_with_a_wrong_secret_is_refused(secured_addresses: list[str]) -> None:
    async def test(address: str, credentials: Credentials | None) -> None:
        async with Client(ClientSettings(address, channel=ChannelSettings(credentials=credentials))) as client:
            with pytest.raises(BrokerError) as refused:
                await admin.create_topic(client, admin.TopicConfig("refused"))
            assert refused.value.code in {1, 16}

    for address in secured_addresses:
        for credentials in (None, STRANGER, Credentials("nobody", "12345678")):
            asyncio.run(asyncio.wait_for(test(address, credentials), find_limit()))


def test_no_connection_is_made_to_a_server_without_a_trusted_certificate(
    secured_addresses: list[str], secured_folder: Path
) -> None:
    async def test(address: str) -> None:
        channel = ChannelSettings(tls=ssl.create_default_context(cafile=secured_folder / "other.pem"))
        with pytest.raises(ConnectError, match="TLS"):
            await Client(ClientSettings(address, channel=channel)).open()

    for address in secured_addresses:
        asyncio.run(asyncio.wait_for(test(address), find_limit()))
