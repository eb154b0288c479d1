"""Access tokens at a live Kafka: clients log in again before theirs expires, and what is refused is explained."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.endpoint import Disconnected
from bridge.endpoints import build_target
from bridge.endpoints.kafka import config
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from bridge.table import Table
from exchange import Message
from tests.support.bridge.behaviour import QUICK, Reports, on_a_loop, read_all_of, router_to, send_to
from tests.support.bridge.events import Events
from tests.support.bridge.oauth import CLIENT, SECRET, AuthorizationServer, authorization_server, grant, make_unsigned
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics
from tests.support.waiting import until

LIFE = 20.0
"""Seconds that a token lives: a newer one is there three seconds before librdkafka logs in again, on a busy machine."""
LIVES = 2


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with authorization_server(grant(lambda: make_unsigned(LIFE), LIFE)) as running:
        yield running


def table_of(server: AuthorizationServer, **more: Any) -> Table:
    values = {"oauth": {"token_url": server.url, "client_id": CLIENT, "client_secret": SECRET}, **more}
    return Table(values, "bridge.toml")


@on_a_loop
async def test_a_bridge_moves_messages_over_many_lives_of_its_tokens(
    broker: Broker, topics: Topics, server: AuthorizationServer
) -> None:
    before, behind = await asyncio.to_thread(topics.make), await asyncio.to_thread(topics.make)
    url, open_url = f"kafka://{broker.tokens_url}", f"kafka://{broker.url}"
    source = config.source("from", url, table_of(server, topic=before, group=before), Policy())
    target, _ = config.target("to", url, table_of(server, queues={"queue": behind}))
    assert not server.asked  # to read a configuration asks nothing
    events, reports = Events(), Reports()
    pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, events, QUICK)
    running = asyncio.create_task(pump.run())
    writer, _ = config.target("writer", open_url, Table({"queues": {"queue": before}}, "t.toml"))
    await writer.open(reports)
    sent = 0

    async def send_until_renewed() -> bool:
        nonlocal sent
        send_to(writer, reports, [Message("", "k", body=b"%d" % sent)], "queue")
        sent += 1
        await reports.answers(sent)
        return len(server.asked) > 2 * LIVES  # those of source and target: the last of them serves when this ends

    await until(send_until_renewed)
    reader = config.source("reader", open_url, Table({"topic": behind, "group": behind}, "t.toml"), Policy())
    await reader.open()
    got = [each.message.body for each in await read_all_of(reader, sent)]
    assert got == [b"%d" % n for n in range(sent)]
    assert events.calls_of("disconnected") == []
    for endpoint in (reader, writer):
        await endpoint.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_a_loop
async def test_a_renewal_that_fails_is_known_while_the_connection_lasts(
    broker: Broker, topics: Topics, server: AuthorizationServer
) -> None:
    topic = await asyncio.to_thread(topics.make)
    target, _ = build_target("to", table_of(server, url=f"kafka://{broker.tokens_url}", queues={"queue": topic}))
    await target.open(Reports())
    right, server.answer = server.answer, lambda _: (503, "down")
    await until(lambda: target.tokens.trouble)
    assert "gives no token (503)" in target.tokens.trouble
    assert "and the token expires at " in target.tokens.trouble
    server.answer = right
    await until(lambda: target.tokens.trouble is None)
    await target.close()


@on_a_loop
async def test_a_token_that_the_brokers_refuse_is_explained_and_not_used_again(
    broker: Broker, topics: Topics, server: AuthorizationServer
) -> None:
    topic = await asyncio.to_thread(topics.make)
    given = make_unsigned(60, iat="never")
    server.answer = grant(lambda: given, 60)
    target, _ = config.target("to", f"kafka://{broker.tokens_url}", table_of(server, queues={"queue": topic}))
    with pytest.raises(Disconnected, match="the broker refuses the access token") as refused:
        await target.open(Reports())
    assert given not in str(refused.value)
    await target.close()
    server.answer = grant(lambda: make_unsigned(60), 60)
    await target.open(Reports())
    await target.close()


@on_a_loop
async def test_without_a_token_a_client_is_not_made_and_the_reason_is_the_servers(
    broker: Broker, server: AuthorizationServer
) -> None:
    server.answer = lambda _: (503, "down")
    url = f"kafka://{broker.tokens_url}"
    target, _ = config.target("to", url, table_of(server, queues={"queue": "t"}))
    with pytest.raises(Disconnected, match=r"oauth.token_url: the authorization server at .* gives no token \(503\)"):
        await target.open(Reports())
    await target.close()


def test_a_check_says_what_is_wrong_with_the_answer_at_its_key(
    broker: Broker, server: AuthorizationServer, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    (tmp_path / "t.bindings").write_text("exchange events: fanout\nqueue out\nevents -> out\n")
    (tmp_path / "bridge.toml").write_text(f"""
topology = "t.bindings"
ignore = ["out"]
[sources.orders]
url = "kafka://{broker.tokens_url}"
topic = "{topic}"
exchange = "events"
oauth = {{ token_url = "{server.url}", client_id = "{CLIENT}", client_secret = "{SECRET}" }}
""")
    check = ["bridge", "check", str(tmp_path / "bridge.toml")]
    assert "ready to run" in CliRunner().invoke(hashstar, check).output
    server.answer = lambda _: (401, "{}")
    found = CliRunner().invoke(hashstar, check).output
    assert "[sources.orders] oauth.client_secret: the authorization server" in found
    assert SECRET not in found
