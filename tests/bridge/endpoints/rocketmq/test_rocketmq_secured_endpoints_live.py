"""RocketMQ's endpoints at a broker that asks who they are, over TLS, as a configuration tells of it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.rocketmq.config import dead_letter_target, source
from bridge.pump.policy import Policy
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.table import Table
from exchange import Message
from tests.support.bridge.behaviour import Reports, on_a_loop, read_all_of, send_to
from tests.support.rocketmq.secured import OWNER


@pytest.fixture
def address(secured_addresses: list[str], secured_folder: Path) -> str:
    async def made() -> None:
        tls = ssl.create_default_context(cafile=secured_folder / "ca.pem")
        async with Client(
            ClientSettings(secured_addresses[0], channel=ChannelSettings(tls=tls, credentials=OWNER))
        ) as client:
            await admin.create_topic(client, admin.TopicConfig("guarded", 2, 2))

    asyncio.run(made())
    return secured_addresses[0]


def table(folder: Path, **told: Any) -> Table:
    values = {"topic": "guarded", "access_key": "hashstar", "secret_key": "12345678", "ca_file": str(folder / "ca.pem")}
    return Table({**values, "tls": True, **told}, "bridge.toml")


@on_a_loop
async def test_a_permitted_user_reads_and_writes_over_tls(address: str, secured_folder: Path) -> None:
    target, told = dead_letter_target("t", f"rocketmq://{address}", table(secured_folder)), Reports()
    await target.open(told)
    send_to(target, told, [Message("e", f"k{n}", {"n": n}, {}, b"%d" % n) for n in range(20)], "")
    await told.answers(20)
    await target.close()
    reading = source("s", f"rocketmq://{address}", table(secured_folder), Policy())
    await reading.open()
    found = await read_all_of(reading, 20)
    assert {(each.message.routing_key, each.message.headers["n"]) for each in found} == {
        (f"k{n}", n) for n in range(20)
    }
    await reading.close()


@on_a_loop
async def test_a_missing_permission_is_reported_and_no_message_is_refused_for_it(
    address: str, secured_folder: Path
) -> None:
    wrong = table(secured_folder, secret_key="another")  # noqa: S106  of nobody
    target, told = dead_letter_target("t", f"rocketmq://{address}", wrong), Reports()
    try:
        await target.open(told)
    except Disconnected as error:
        told.losses.append(error)
    else:
        send_to(target, told, [Message("e", "k", {}, {}, b"x")], "")
        await told.answers_or_loss(1)
    await target.close()
    assert told.losses
    assert not told.failures
    untrusted = source(
        "s", f"rocketmq://{address}", table(secured_folder, ca_file=str(secured_folder / "other.pem")), Policy()
    )
    with pytest.raises(Disconnected, match="TLS"):
        await untrusted.open()
    await untrusted.close()


@on_a_loop
async def test_a_check_reports_a_missing_permission_to_read(address: str, secured_folder: Path) -> None:
    url = f"rocketmq://{address}"
    for values, level in (({}, "ok"), ({"secret_key": "another"}, "error")):
        for endpoint in (
            source("s", url, table(secured_folder, **values), Policy()),
            dead_letter_target("t", url, table(secured_folder, **values)),
        ):
            found = await endpoint.check()
            assert level in {each.level for each in found}, found
            assert ("error" in {each.level for each in found}) == (level == "error"), found
