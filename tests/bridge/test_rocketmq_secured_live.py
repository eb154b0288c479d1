"""A client of brokers that ask who it is, over TLS: `plain_acl.yml` of 4.x, users of 5.x."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.rocketmq import admin
from bridge.rocketmq.acl import Credentials
from bridge.rocketmq.channel import ChannelSettings
from bridge.rocketmq.client import Client, ClientSettings
from bridge.rocketmq.errors import BrokerError, ConnectError, RemotingError
from bridge.rocketmq.message import RocketMessage
from bridge.rocketmq.producer import Producer
from bridge.rocketmq.publishing import ProducerSettings
from bridge.rocketmq.remoting import SerializeType
from tests.bridge.certificates import authority_in
from tests.servers import SERVERS, START_SECONDS, Unavailable, _docker, _free_port, _have_image, listed, missing

pytestmark = pytest.mark.live

KIND = SERVERS["rocketmq"]
OWNER = Credentials("hashstar", "12345678")
STRANGER = Credentials("hashstar", "87654321")

PLAIN_ACL = """accounts:
- accessKey: hashstar
  secretKey: 12345678
  admin: true
"""
TLS = """tls.test.mode.enable=false
tls.server.keyPath=/secured/server.key
tls.server.certPath=/secured/server.pem
"""


def environment(image: str, port: int) -> dict[str, str]:
    """The settings of a broker that asks who its clients are."""
    options = "-Dtls.config.file=/secured/tls.properties"
    settings = {"ROCKETMQ_listenPort": str(port), "ROCKETMQ_brokerIP1": "127.0.0.1"}
    if ":4." in image:
        # The file is sought below RocketMQ's home, which is two folders deep.
        options += " -Drocketmq.acl.plain.file=../../secured/plain_acl.yml"
        return settings | {"ROCKETMQ_aclEnable": "true", "JAVA_TOOL_OPTIONS": options}
    provider = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    return settings | {
        "ROCKETMQ_authenticationEnabled": "true",
        "ROCKETMQ_authenticationMetadataProvider": provider,
        "ROCKETMQ_initAuthenticationUser": '{"username":"hashstar","password":"12345678"}',
        "ROCKETMQ_innerClientAuthenticationCredentials": '{"accessKey":"hashstar","secretKey":"12345678"}',
        "JAVA_TOOL_OPTIONS": options,
    }


@contextmanager
def secured(image: str, folder: Path) -> Iterator[str]:
    """The address of the name server of such a broker, once that takes requests."""
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        _have_image(_docker(DockerClient, KIND), image)
    except (ImportError, Unavailable) as reason:
        missing(f"no broker with access control: {reason}")
    port, namesrv = _free_port(), _free_port()
    container: Any = DockerContainer(image)
    container.ports.update({port: ("127.0.0.1", port), 9876: ("127.0.0.1", namesrv)})
    container.env.update(environment(image, port))
    container.with_volume_mapping(str(folder), "/secured", "ro")
    try:
        container.start()
        asyncio.run(until_it_is_there(f"127.0.0.1:{namesrv}", container))
        yield f"127.0.0.1:{namesrv}"
    finally:
        container.stop()


async def until_it_is_there(address: str, container: Any) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            async with Client(ClientSettings(address, channel=ChannelSettings(credentials=OWNER))) as client:
                ((_, broker),) = (await admin.masters(client)).items()
                await admin.runtime(client, broker)
                return
        except (RemotingError, ValueError) as error:
            if time.monotonic() > deadline:
                logs = b"".join(container.get_logs()).decode(errors="replace")
                pytest.fail(f"it did not start ({error}); its log ends:\n{logs[-3000:]}")
        await asyncio.sleep(0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority_in(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def addresses(folder: Path) -> Iterator[list[str]]:
    if listed(os.environ.get(KIND.url_variable, "")):
        missing("brokers with access control are started as containers only")
    (folder / "tls.properties").write_text(TLS, encoding="utf-8")
    (folder / "plain_acl.yml").write_text(PLAIN_ACL, encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o644)  # the container's user is another one
    folder.chmod(0o755)
    with ExitStack() as containers:
        images = listed(os.environ.get(KIND.image_variable, "")) or [KIND.default_image]
        yield [containers.enter_context(secured(image, folder)) for image in images]


def test_who_signs_may_send_over_tls(addresses: list[str], folder: Path) -> None:
    async def test(address: str, channel: ChannelSettings) -> None:
        async with (
            Client(ClientSettings(address, channel=channel)) as client,
            Producer(client, ProducerSettings("secured")) as producer,
        ):
            await admin.create_topic(client, admin.TopicConfig("secured", 2, 2))
            message = RocketMessage.of("secured", "größe".encode(), {"größe": "\U0001f600"}, tags="t")
            assert (await producer.send(message)).status == "SEND_OK"
            assert (await (await producer.send_async(message))).status == "SEND_OK"
            assert (await producer.send_batch([message, message])).status == "SEND_OK"

    for address in addresses:
        for kind in SerializeType:
            for tls in (None, ssl.create_default_context(cafile=folder / "ca.pem")):
                settings = ChannelSettings(serialize_type=kind, tls=tls, credentials=OWNER)
                asyncio.run(asyncio.wait_for(test(address, settings), 30))


def test_who_does_not_sign_or_with_another_secret_is_refused(addresses: list[str]) -> None:
    async def test(address: str, credentials: Credentials | None) -> None:
        async with Client(ClientSettings(address, channel=ChannelSettings(credentials=credentials))) as client:
            with pytest.raises(BrokerError) as refused:
                await admin.create_topic(client, admin.TopicConfig("refused"))
            assert refused.value.code in {1, 16}

    for address in addresses:
        for credentials in (None, STRANGER, Credentials("nobody", "12345678")):
            asyncio.run(asyncio.wait_for(test(address, credentials), 30))


def test_a_server_that_is_not_trusted_is_not_spoken_to(addresses: list[str], folder: Path) -> None:
    async def test(address: str) -> None:
        channel = ChannelSettings(tls=ssl.create_default_context(cafile=folder / "other.pem"))
        with pytest.raises(ConnectError, match="TLS"):
            await Client(ClientSettings(address, channel=channel)).open()

    for address in addresses:
        asyncio.run(asyncio.wait_for(test(address), 30))
