"""Dead letters at clusters that ask who reads them: a file has the login, in the keys of a bridge's endpoint."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from bridge.cli import hashstar
from bridge.rocketmq.producer.producer import Producer as RocketProducer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.bridge.dead.logs.command import invoke, run
from tests.support.bridge.oauth import CLIENT, SECRET, authorization_server, grant, make_unsigned
from tests.support.kafka.broker import PASSWORD, USER, Broker
from tests.support.kafka.topics import topics_at
from tests.support.rocketmq.secured import OWNER
from tests.support.waiting import find_limit

LIFE = 600.0


def test_letters_of_kafka_are_read_and_published_again_with_passwords_tls_and_tokens(
    kafka_broker: Broker, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", PASSWORD)
    password, tokens = tmp_path / "password.toml", tmp_path / "tokens.toml"
    password.write_text(
        f'user = "{USER}"\npassword = {{ env = "KAFKA_SECRET" }}\ntls = true\nca_file = "{certificates / "ca.pem"}"\n'
    )
    with topics_at(kafka_broker.url) as topics, authorization_server(
        grant(lambda: make_unsigned(LIFE), LIFE)
    ) as server:  # fmt: skip
        tokens.write_text(
            f'oauth = {{ token_url = "{server.url}", client_id = "{CLIENT}", client_secret = "{SECRET}" }}\n'
        )
        origin, dead = topics.make(partitions=1), topics.make(partitions=1)
        producer = Producer(topics.settings)
        for at in range(5):
            producer.produce(dead, b"%d" % at, b"k", headers=[("kafka_dlt-original-topic", origin.encode())])
        assert producer.flush(find_limit()) == 0
        for number, (url, login) in enumerate(
            ((kafka_broker.tls_login_url, password), (kafka_broker.tokens_url, tokens)), 1
        ):
            done = run(f"kafka://{url}/{dead}", tmp_path / f"ledger-{number}", "--login", str(login))
            assert (done["moved"], done["left"]) == (5, [])
            assert topics.find_end(origin) == 5 * number
        refused = invoke(f"kafka://{kafka_broker.tls_login_url}/{dead}", tmp_path / "l", "--replay", "topic")
        assert refused.exit_code == 2
        target = ("--target", f"kafka://{kafka_broker.tls_login_url}", "--target-login", str(password))
        assert run(f"kafka://{kafka_broker.url}/{dead}", tmp_path / "other", *target)["moved"] == 5
    assert PASSWORD not in refused.output
    assert server.asked


def test_letters_of_rocketmq_are_read_with_a_key_over_tls(
    secured_addresses: list[str], secured_folder: Path, tmp_path: Path
) -> None:
    address = secured_addresses[0]

    async def write() -> None:
        tls = ssl.create_default_context(cafile=secured_folder / "ca.pem")
        settings = ClientSettings(address, channel=ChannelSettings(tls=tls, credentials=OWNER))
        async with Client(settings) as client:
            await admin.create_topic(client, admin.TopicConfig("dead-guarded", 1, 1))
            async with RocketProducer(client, ProducerSettings("dead-letters")) as producer:
                for at in range(3):
                    await producer.send(RocketMessage.build("dead-guarded", b"%d" % at))

    asyncio.run(write())
    login = tmp_path / "login.toml"
    login.write_text(
        f'access_key = "hashstar"\nsecret_key = "12345678"\ntls = true\nca_file = "{secured_folder / "ca.pem"}"\n'
    )
    source = f"rocketmq://{address}/dead-guarded"
    found = CliRunner().invoke(hashstar, ["dead", source, "--login", str(login), "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["looked_at"] == 3
    assert CliRunner().invoke(hashstar, ["dead", source]).exit_code == 2
