"""The management API that `bridge check` asks: the size and the time of its answers are bounded."""

from __future__ import annotations

import asyncio
import time

import pika
import pytest

from bridge.endpoints.rabbitmq import management
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from tests.bindings.sources.test_sources import HEAD, Dripping, answering
from tests.support.waiting import stretch

BROKER = pika.URLParameters("amqp://ann:s3cret@127.0.0.1:5672/%2F")


def test_a_slow_answer_is_given_up_after_its_seconds_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a byte now and then, a socket's own timeout never expires."""
    monkeypatch.setattr(management, "CHECK_SECONDS", 0.3)
    with Dripping((HEAD + b"\r\n[", b" "), 0.02) as server:
        began = time.monotonic()
        with pytest.raises(Unknown, match=r"gives no whole answer in 0\.3 s"):
            asyncio.run(ManagementClient(BROKER, f"http://{server.address}").queue("q"))
        assert time.monotonic() - began < stretch(60)


def test_an_answer_without_an_end_ends_with_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(management, "CHECK_BYTES", 1 << 20)
    with (
        Dripping((HEAD + b"\r\n[", b" " * (1 << 16)), 0) as server,
        pytest.raises(Unknown, match="answers with more than 1,048,576 bytes"),
    ):
        asyncio.run(ManagementClient(BROKER, f"http://{server.address}").queue("q"))


def test_a_redirection_is_not_followed() -> None:
    """It would carry the password to another server."""
    with answering(200, "{}") as (other, got), answering(302, "", {"Location": f"http://{other}/"}) as (address, _):
        with pytest.raises(Unknown, match="answers 302"):
            asyncio.run(ManagementClient(BROKER, f"http://{address}/").queue("q"))
        assert got == []


def test_an_ipv6_address_is_a_valid_host() -> None:
    parameters = pika.URLParameters("amqp://ann:s3cret@[::1]:5672/%2F")
    assert ManagementClient(parameters).url == "http://[::1]:15672"
