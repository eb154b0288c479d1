"""Kafka with TLS and passwords, on a live broker: accepted and refused logins, and errors without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bridge.cli import hashstar
from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.addresses import read_settings
from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget
from bridge.endpoints.topics import TopicDestination
from bridge.table import Table
from exchange import Message
from tests.support.bridge.behaviour import Reports, on_a_loop, read_all_of, send_to
from tests.support.kafka.broker import PASSWORD, SCRAM_PASSWORD, USER, Broker
from tests.support.kafka.topics import Topics, topics_at
from tests.support.waiting import find_limit

WRONG = "hush-hush"


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Iterator[Topics]:
    with topics_at(broker.url) as made:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4_096)
            altered = made.admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(USER, info, SCRAM_PASSWORD.encode())]
            )
            altered[USER].result(find_limit())
        yield made


def login(mechanism: str, password: str) -> dict[str, Any]:
    return {"user": USER, "password": {"env": "SECRET"}, "mechanism": mechanism, "$": password}


def files(certificates: Path, **names: str) -> dict[str, Any]:
    return {key: str(certificates / name) for key, name in names.items()}


def list_logins(broker: Broker, certificates: Path) -> Mapping[str, tuple[str, dict[str, Any]]]:
    """Return name -> address and table of logins that are accepted."""
    tls = {"tls": True, **files(certificates, ca_file="ca.pem")}
    own = files(certificates, cert_file="client.pem", key_file="client.key")
    return {
        "PLAIN": (broker.login_url, login("PLAIN", PASSWORD)),
        "SCRAM-SHA-256": (broker.login_url, login("SCRAM-SHA-256", SCRAM_PASSWORD)),
        "SCRAM-SHA-512": (broker.login_url, login("SCRAM-SHA-512", SCRAM_PASSWORD)),
        "TLS": (broker.tls_url, {**tls, **own}),
        "PLAIN and TLS": (broker.tls_login_url, {**tls, **login("PLAIN", PASSWORD)}),
        "SCRAM and TLS": (broker.tls_login_url, {**tls, **login("SCRAM-SHA-512", SCRAM_PASSWORD)}),
    }


def settings(way: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    address, values = way
    secret = values.pop("$", "")
    return read_settings(f"kafka://{address}", Table(values, "bridge.toml", environment={"SECRET": secret}))()


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "TLS", "PLAIN and TLS", "SCRAM and TLS"])
@on_a_loop
async def test_each_way_to_log_in_writes_and_reads(
    broker: Broker, topics: Topics, certificates: Path, name: str
) -> None:
    topic = await asyncio.to_thread(topics.make)
    own = settings(list_logins(broker, certificates)[name])
    target, reports = KafkaTarget("written", own, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", "k", body=b"%d" % n) for n in range(10)], "queue")
    await reports.answers(10)
    await target.close()
    source = KafkaSource("read", {**own, "group.id": topic}, [topic])
    await source.open()
    assert [d.message.body for d in await read_all_of(source, 10)] == [b"%d" % n for n in range(10)]
    await source.close()


def list_refused_logins(broker: Broker, certificates: Path) -> Mapping[str, tuple[str, dict[str, Any], str]]:
    """Return name -> address and table of logins that are refused, and the error."""
    closed = "close the connection: check .* whether they expect TLS, a password or a client certificate"
    tls = {"tls": True, **files(certificates, ca_file="ca.pem")}
    stranger = {"tls": True, **files(certificates, ca_file="other.pem")}
    return {
        "PLAIN": (broker.login_url, login("PLAIN", WRONG), "_AUTHENTICATION: .*Authentication failed"),
        "SCRAM": (broker.login_url, login("SCRAM-SHA-256", WRONG), "_AUTHENTICATION: .*invalid credentials"),
        "no password": (broker.login_url, {}, closed),
        "an authority of another's": (
            broker.tls_login_url, {**stranger, **login("PLAIN", PASSWORD)}, "verify failed.*; no authority",
        ),
        "no certificate of ours": (broker.tls_url, tls, f"alert certificate required|{closed}"),
        "no TLS": (broker.tls_login_url, login("PLAIN", PASSWORD), closed),
        "TLS to one without": (broker.login_url, {**tls, **login("PLAIN", PASSWORD)}, "to a PLAINTEXT broker"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "PLAIN", "SCRAM", "no password", "an authority of another's", "no certificate of ours", "no TLS",
        "TLS to one without",
    ],
)  # fmt: skip
@on_a_loop
async def test_a_refused_login_is_explained_without_its_secret(
    broker: Broker, topics: Topics, certificates: Path, name: str, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    address, values, words = list_refused_logins(broker, certificates)[name]
    own = settings((address, values))
    caplog.set_level(0)
    for endpoint in (
        KafkaSource("read", {**own, "group.id": "g"}, ["none"]),
        KafkaTarget("written", own, {"queue": TopicDestination("none")}),
    ):
        with pytest.raises(Disconnected, match=words) as caught:
            await (endpoint.open() if isinstance(endpoint, KafkaSource) else endpoint.open(Reports()))
        await endpoint.close()
        print(str(caught.value))
        for secret in (WRONG, PASSWORD):
            assert secret not in str(caught.value)
    out, err = capfd.readouterr()
    assert not err  # librdkafka's own lines are logged
    for secret in (WRONG, PASSWORD):
        assert secret not in out + caplog.text


def test_a_check_reports_a_refused_login_without_its_secret(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text('vhost "/"\nexchange events: fanout\nqueue out\nevents -> out\n')
    (tmp_path / "bridge.toml").write_text(f"""
        topology = "t.bindings"
        [sources.orders]
        url = "kafka://{USER}:{WRONG}@{broker.login_url}"
        topics = ["orders"]
        exchange = "events"
        [targets.copies]
        url = "kafka://{broker.login_url}"
        user = "{USER}"
        password = {{ env = "SECRET" }}
        queues = {{ out = "copies" }}
    """)
    done = CliRunner(env={"SECRET": WRONG}).invoke(hashstar, ["bridge", "check", str(tmp_path / "bridge.toml")])
    assert done.exit_code == 1, done.output
    for where in ("[sources.orders]", "[targets.copies]"):
        assert f"{where} url: _AUTHENTICATION: " in done.output
    assert WRONG not in done.output
