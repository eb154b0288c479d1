"""Access tokens as passwords of a live RabbitMQ: renewed on open connections, refused, and without a server."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner

from bindings.sources.access_token import VARIABLE
from bridge.cli import hashstar
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq import config
from bridge.endpoints.rabbitmq.addresses import read_brokers
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from bridge.table import Table
from bridge.tokens import READ_EVERY
from tests.support.bridge.behaviour import QUICK, on_a_loop, router_to
from tests.support.bridge.events import Events
from tests.support.bridge.oauth import (
    ALL,
    CLIENT,
    SECRET,
    AuthorizationServer,
    OauthBroker,
    authorization_server,
    grant,
    oauth_broker,
)
from tests.support.unique import unique_name
from tests.support.waiting import until, wait_until

LIFE = 4.0
"""Seconds that a token lives: the broker counts whole ones, so between three and four."""
LIVES = 5


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthBroker]:
    with oauth_broker(tmp_path_factory.mktemp("oauth")) as running:
        yield running


@pytest.fixture
def server(broker: OauthBroker) -> Iterator[AuthorizationServer]:
    with authorization_server(grant(lambda: broker.signer.sign(LIFE), LIFE - 1)) as running:
        yield running


@pytest.fixture
def channel(broker: OauthBroker) -> Iterator[Any]:
    with closing(broker.connect(broker.signer.sign(600))) as connection:
        yield connection.channel()


@pytest.fixture
def queues(channel: Any) -> Iterator[tuple[str, str]]:
    names = unique_name("oauth"), unique_name("oauth")
    for name in names:
        channel.queue_declare(name, durable=True)
    yield names
    for name in names:
        channel.queue_delete(name)


def table_of(server: AuthorizationServer, **more: Any) -> dict[str, Any]:
    return {"oauth": {"token_url": server.url, "client_id": CLIENT, "client_secret": SECRET}, **more}


def brokers_of(broker: OauthBroker, values: dict[str, Any]) -> Any:
    return read_brokers("bridge", f"amqp://{broker.host}:{broker.port}", Table(values, "bridge.toml"))


async def open_with(broker: OauthBroker, values: dict[str, Any], lost: list[Disconnected] | None = None) -> Connection:
    return await Connection.open(brokers_of(broker, values), (lost if lost is not None else []).append)


@on_a_loop
async def test_a_bridge_moves_messages_over_many_lives_of_its_tokens_on_the_same_connections(
    broker: OauthBroker, server: AuthorizationServer, queues: tuple[str, str], channel: Any
) -> None:
    before, behind = queues
    url = f"amqp://{broker.host}:{broker.port}"
    source = config.source("from", url, Table(table_of(server, queue=before), "t.toml"), Policy())
    target, _ = config.target("to", url, Table(table_of(server, queues={"queue": behind}), "t.toml"))
    events = Events()
    running = asyncio.create_task(
        Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, events, QUICK).run()
    )
    sent = 0

    def send_until_renewed() -> bool:
        nonlocal sent
        channel.basic_publish("", before, b"%d" % sent, pika.BasicProperties(message_id=str(sent)))
        sent += 1
        return len(server.asked) > 2 * LIVES  # those of source and target

    await until(send_until_renewed)
    await until(lambda: channel.queue_declare(behind, passive=True).method.message_count >= sent)
    bodies = [channel.basic_get(behind, auto_ack=True)[2] for _ in range(sent)]
    assert bodies == [b"%d" % n for n in range(sent)]
    assert events.calls_of("disconnected") == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_a_loop
async def test_a_connection_outlives_an_authorization_server_that_is_away_for_less_than_a_life(
    broker: OauthBroker, server: AuthorizationServer
) -> None:
    lost: list[Disconnected] = []
    right, server.answer = server.answer, grant(lambda: broker.signer.sign(2 * LIFE), 2 * LIFE - 1)
    connection = await open_with(broker, table_of(server), lost)
    server.answer = lambda _: (503, "down")
    tokens = connection.parameters.credentials.tokens
    await until(lambda: tokens.trouble)
    assert "gives no token (503)" in tokens.trouble
    server.answer = right
    await until(lambda: tokens.trouble is None)
    count = len(server.asked)
    await until(lambda: lost or len(server.asked) > count + 2)
    assert not lost
    await connection.close()


@on_a_loop
async def test_without_a_newer_token_the_broker_ends_the_connection_and_the_next_one_says_why(
    broker: OauthBroker, server: AuthorizationServer
) -> None:
    lost: list[Disconnected] = []
    brokers = brokers_of(broker, table_of(server))
    await Connection.open(brokers, lost.append)
    server.answer = lambda _: (503, "down")
    await until(lambda: lost)
    assert "credential expired; no newer access token came in time" in str(lost[0])
    with pytest.raises(Disconnected, match=r"oauth.token_url: the authorization server at .* gives no token \(503\)"):
        await Connection.open(brokers, lost.append)


@on_a_loop
async def test_a_token_that_another_renews_in_a_file_is_sent_on_the_open_connection(
    broker: OauthBroker, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    first = 2 * READ_EVERY
    file.write_text(broker.signer.sign(first) + "\n")
    expired = time.monotonic() + first + 1
    lost: list[Disconnected] = []
    connection = await open_with(broker, {"oauth": {"token": {"file": str(file)}}}, lost)
    newer = broker.signer.sign(600)
    file.write_text(newer)
    await until(lambda: lost or connection.parameters.credentials.password == newer)
    await until(lambda: time.monotonic() > expired)
    await connection.look("exchange", "amq.topic")
    assert not lost
    await connection.close()


@on_a_loop
async def test_a_token_that_the_broker_refuses_is_said_to_be_and_never_shown(
    broker: OauthBroker, server: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = broker.signer.sign(60, aud=["another"])
    server.answer = grant(lambda: given, 60)
    brokers = brokers_of(broker, table_of(server))
    with pytest.raises(Disconnected, match="the broker refuses the access token; its log has the reason") as refused:
        await Connection.open(brokers, print)
    server.answer = grant(lambda: broker.signer.sign(60), 60)
    await (await Connection.open(brokers, print)).close()  # the refused one is not tried again
    for text in (str(refused.value), caplog.text, repr(brokers), repr(brokers[0].credentials.token)):
        assert given not in text
        assert SECRET not in text


@on_a_loop
async def test_a_token_without_a_scope_for_the_virtual_host_is_told_from_a_wrong_one(
    broker: OauthBroker, server: AuthorizationServer
) -> None:
    server.answer = grant(lambda: broker.signer.sign(60, ["read:other/*"]), 60)
    with pytest.raises(Disconnected, match=r"virtual host '/': .*the access token needs scopes for it"):
        await open_with(broker, table_of(server))


@on_a_loop
async def test_a_newer_token_that_is_refused_ends_the_connection_and_is_not_used_again(
    broker: OauthBroker, server: AuthorizationServer
) -> None:
    lost: list[Disconnected] = []
    brokers = brokers_of(broker, table_of(server))
    await Connection.open(brokers, lost.append)
    server.answer = grant(lambda: broker.signer.sign(60, sub="another"), 60)
    await until(lambda: lost)
    assert "New secret was refused" in str(lost[0])
    server.answer = grant(lambda: broker.signer.sign(60), 60)
    connection = await Connection.open(brokers, lost.append)
    await connection.look("exchange", "amq.topic")
    await connection.close()


@on_a_loop
async def test_the_management_api_gets_the_token_of_now_as_a_bearer(
    broker: OauthBroker, server: AuthorizationServer, queues: tuple[str, str]
) -> None:
    connection = await open_with(broker, table_of(server))
    client = ManagementClient(connection.parameters, broker.management)
    await connection.close()
    assert (await client.queue(queues[0]))["name"] == queues[0]
    await until(lambda: time.monotonic() > connection.parameters.credentials.token.expires_at + 1)
    assert (await client.queue(queues[0]))["name"] == queues[0]
    server.answer = lambda _: (503, "down")

    async def find_refusal() -> str:
        try:
            await client.queue(queues[0])
        except Unknown as error:
            return str(error)
        return ""

    assert "gives no token (503)" in await until(find_refusal)


def run(*arguments: str) -> str:
    """Return what a command prints that ends well; its token must not be in it."""
    done = CliRunner().invoke(hashstar, arguments)
    assert done.exit_code == 0, done.output
    assert Path(os.environ[f"{VARIABLE}_FILE"]).read_text().strip() not in done.output
    return done.output


def test_commands_log_in_with_the_token_of_a_file_that_another_renews(
    broker: OauthBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channel: Any
) -> None:
    """All kinds of them: what reads a management API, what changes a broker, and what talks AMQP alone."""
    file, name = tmp_path / "token", unique_name("oauth")
    monkeypatch.setenv(f"{VARIABLE}_FILE", str(file))
    amqp, rights = f"amqp://{broker.host}:{broker.port}", (*ALL, "read:*/*/*", "tag:administrator")
    (tmp_path / "t.bindings").write_text(f"exchange {name}: fanout\nqueue {name}\n{name} -> {name}\n")
    file.write_text(broker.signer.sign(600, rights) + "\n")
    apply = ("apply", str(tmp_path / "t.bindings"), broker.management, "--other-address", amqp, "--yes", "--vhost", "/")
    assert "applied: 3 steps" in run(*apply)
    drift = ("drift", str(tmp_path / "t.bindings"), broker.management, "--vhost", "/", "--ignore-extra")
    seen = [run("convert", f"{broker.management}/%2F"), run("check", f"{broker.management}/%2F", "--fail-on", "never")]
    assert name in seen[0]
    run(*drift)
    channel.basic_publish("", name, b"dead")
    file.write_text(broker.signer.sign(600, rights))
    seen += [run("dead", amqp, "--queue", name, "--management", broker.management)]
    assert "1 dead letter" in seen[2]
    dead, first = f"{name}-dead", f"{name}-first"
    channel.queue_declare(dead)
    channel.queue_declare(first, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    channel.basic_publish("", first, b"d")
    channel.basic_nack(channel.basic_get(first)[0].delivery_tag, requeue=False)
    wait_until(lambda: channel.queue_declare(dead, passive=True).method.message_count)
    again = ("--replay", "queue", "--yes", "--ledger", str(tmp_path / "ledger"), "--management", broker.management)
    replayed = CliRunner().invoke(hashstar, ["dead", amqp, "--queue", dead, *again])
    assert replayed.exit_code == 0, replayed.output
    assert channel.queue_declare(first, passive=True).method.message_count == 1
    run("group", "create", f"{name}-shared", "--partitions", "2", "--url", amqp)
    described = CliRunner().invoke(hashstar, ["group", "describe", f"{name}-shared", "--url", amqp, "--for", "1"])
    assert "2 partitions" in described.output
    file.write_text(expired := broker.signer.sign(-60, rights))
    group = ("group", "create", "x", "--partitions", "2", "--url", amqp)
    for command in (apply, drift, ("dead", amqp, "--queue", name), group):
        failed = CliRunner().invoke(hashstar, command)
        assert failed.exit_code == 2
        assert "the access token expired at 20" in failed.output
        assert expired not in failed.output
    for each in (name, dead, first, f"{name}-shared-0", f"{name}-shared-1"):
        channel.queue_delete(each)
    for each in (name, f"{name}-shared"):
        channel.exchange_delete(each)


def test_a_check_finds_what_a_token_may_read(
    broker: OauthBroker, server: AuthorizationServer, queues: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "t.bindings").write_text("exchange events: fanout\nqueue out\nevents -> out\n")
    (tmp_path / "bridge.toml").write_text(f"""
        topology = "t.bindings"
        ignore = ["out"]
        [sources.orders]
        url = "amqp://{broker.host}:{broker.port}"
        management = "{broker.management}"
        queue = "{queues[0]}"
        exchange = "events"
        [sources.orders.oauth]
        token_url = "{server.url}"
        client_id = "{CLIENT}"
        client_secret = "{SECRET}"
    """)

    def check() -> str:
        return CliRunner().invoke(hashstar, ["bridge", "check", str(tmp_path / "bridge.toml")]).output

    found = check()
    assert f"queue '{queues[0]}': there" in found
    assert "the rights of the user of this access token: they are in its scopes" in found
    server.answer = grant(lambda: broker.signer.sign(60, [each for each in ALL if "read" in each]), 60)
    assert f"queue '{queues[0]}'" in check()
    server.answer = grant(lambda: broker.signer.sign(60, ["read:*/nothing"]), 60)
    assert "has no right that would allow it" in check()
