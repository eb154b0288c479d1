"""Brokers with access control, with TLS or without: `plain_acl.yml` of 4.x, users of 5.x."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingError
from tests.support.bridge.certificates import authority_in
from tests.support.servers import SERVERS, _have_image, connect_docker, listed, missing, started
from tests.support.starting import START_SECONDS, Unavailable
from tests.support.unique import free_ports
from tests.support.waiting import stretch

KIND = SERVERS["rocketmq"]
OWNER = Credentials("hashstar", "12345678")

PLAIN_ACL = """accounts:
- accessKey: hashstar
  secretKey: 12345678
  admin: true
"""
TLS = """tls.test.mode.enable=false
tls.server.keyPath=/secured/server.key
tls.server.certPath=/secured/server.pem
"""


def _environment(image: str, port: int) -> dict[str, str]:
    """Return the settings of a broker with access control."""
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
def _secured(image: str, folder: Path) -> Iterator[str]:
    """Return the address of such a broker's name server, once the broker takes requests."""
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        _have_image(connect_docker(DockerClient, KIND), image)
    except (ImportError, Unavailable) as reason:
        missing(f"no broker with access control: {reason}")
    port, namesrv = free_ports(2)
    container: Any = DockerContainer(image)
    container.ports.update({port: ("127.0.0.1", port), 9876: ("127.0.0.1", namesrv)})
    container.env.update(_environment(image, port))
    container.with_volume_mapping(str(folder), "/secured", "ro")
    try:
        started(container, image)
        asyncio.run(_until_it_is_there(f"127.0.0.1:{namesrv}", container))
        yield f"127.0.0.1:{namesrv}"
    finally:
        container.stop()


async def _until_it_is_there(address: str, container: Any) -> None:
    deadline = time.monotonic() + stretch(START_SECONDS)
    while True:
        try:
            async with Client(ClientSettings(address, channel=ChannelSettings(credentials=OWNER))) as client:
                ((_, broker),) = (await admin.list_masters(client)).items()
                await client.ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO)
                return
        except (RemotingError, ValueError) as error:
            if time.monotonic() > deadline:
                logs = b"".join(container.get_logs()).decode(errors="replace")
                pytest.fail(f"it did not start ({error}); its log ends:\n{logs[-3000:]}")
        await asyncio.sleep(0.5)


def folder_of(folder: Path) -> Path:
    """Return the folder, filled with the files of such a broker."""
    authority_in(folder)
    (folder / "tls.properties").write_text(TLS, encoding="utf-8")
    (folder / "plain_acl.yml").write_text(PLAIN_ACL, encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o644)  # the container's user is another one
    folder.chmod(0o755)
    return folder


@contextmanager
def secured_brokers(folder: Path) -> Iterator[list[str]]:
    """Yield the name servers of such brokers, one of each image of this run."""
    if listed(os.environ.get(KIND.url_variable, "")):
        missing("brokers with access control are started as containers only")
    with ExitStack() as containers:
        images = KIND.images()
        yield [containers.enter_context(_secured(image, folder)) for image in images]
