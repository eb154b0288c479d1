"""Leases, addresses and messages of groups, without a broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.consumers.groups import ConsumerGroup, Publisher, connection
from bridge.consumers.groups.connection import (
    GroupConnectionLost,
    Lease,
    build_properties,
    connect,
    read_message,
    translate_losses,
)
from exchange.errors import HashstarError, InputError
from exchange.text.site import build_install_command
from exchange.values.message import Message
from tests.support.waiting import find_limit


class Clock:
    """The clock of leases, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(connection, "read_clock", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock."""
    return Clock(monkeypatch)


def test_a_lease_ends_before_the_broker_may_give_the_connection_up(clock: Clock) -> None:
    async def run() -> None:
        lease = Lease(1.0)
        clock.now += 1.7
        assert lease.is_valid()
        clock.now += 0.1
        assert not lease.is_valid()  # RabbitMQ waits two heartbeats at least

    asyncio.run(run())


def test_an_answer_proves_only_what_was_before_its_request(clock: Clock) -> None:
    """A process that was stopped reads the answer to a request from before: that proves nothing about now."""

    async def run() -> None:
        lease = Lease(1.0)
        sent = clock.now
        clock.now += 10  # the process is stopped
        lease.renew(sent)
        assert not lease.is_valid()
        waiting = asyncio.create_task(lease.wait())
        await asyncio.sleep(0)
        lease.renew(sent + 1)
        await asyncio.sleep(0)
        assert not waiting.done()
        lease.renew(clock.now)
        await asyncio.wait_for(waiting, find_limit())

    asyncio.run(run())


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1", "http://guest:secret@127.0.0.1", "amqp://", "amqp:///orders", "amqp://guest:secret@a b"]
)
def test_what_is_no_address_is_refused_and_no_password_is_shown(url: str) -> None:
    with pytest.raises(InputError) as refused:
        asyncio.run(connect(url, "test", 1))
    assert "secret" not in str(refused.value)


def test_no_broker_is_a_loss_and_no_password_is_shown() -> None:
    with pytest.raises(GroupConnectionLost, match="no connection to") as lost:
        asyncio.run(connect("amqp://guest:secret@127.0.0.1:1", "test", 1))
    assert "secret" not in str(lost.value)
    assert "Errno" not in str(lost.value)
    assert str(lost.value).endswith("; nothing listens there: is the broker up, and is this its port?")


@pytest.mark.parametrize("error", [Exception(), OSError("gone"), RuntimeError("closed"), TimeoutError()])
def test_errors_of_the_client_are_losses(error: Exception) -> None:
    with pytest.raises(GroupConnectionLost, match=r"^what: "), translate_losses("what"):
        raise error


@pytest.mark.parametrize("error", [InputError("no"), KeyError("bug"), ZeroDivisionError()])
def test_errors_of_others_are_not(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, translate_losses("what"):
        raise error
    assert raised.value is error


def test_a_wait_that_the_client_cancels_is_a_loss_but_a_cancellation_is_none() -> None:
    async def wait_for_loss() -> None:
        with translate_losses("what"):
            raise asyncio.CancelledError

    async def run() -> None:
        with pytest.raises(GroupConnectionLost):
            await wait_for_loss()

        async def sleep() -> None:
            with translate_losses("what"):
                await asyncio.Event().wait()

        task = asyncio.create_task(sleep())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


VALUES = st.one_of(st.booleans(), st.integers(-(2**31), 2**31), st.text(max_size=9), st.none())
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(
    st.dictionaries(TEXTS, VALUES, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "content_type": TEXTS, "priority": st.integers(0, 9), "correlation_id": TEXTS, "expiration": TEXTS,
            "timestamp": st.integers(0, 2**31), "type": TEXTS, "app_id": TEXTS,
        },
    ),
    st.binary(max_size=9),
)  # fmt: skip
def test_a_message_comes_back_from_the_frames_that_are_sent(
    headers: dict[str, Any], properties: dict[str, Any], body: bytes
) -> None:
    from aiormq.abc import DeliveredMessage
    from pamqp.commands import Basic
    from pamqp.header import ContentHeader

    message = Message("orders", "order.eu", headers, properties, body)
    sent = ContentHeader(body_size=len(body), properties=build_properties(message, delivery_mode=2))
    received = ContentHeader()
    received.unmarshal(sent.marshal())
    delivery = Basic.Deliver("tag", 1, False, "orders", "17.order.eu")
    read = read_message(DeliveredMessage(delivery, received, body, None), "order.eu")  # type: ignore[arg-type]
    assert read == Message("orders", "order.eu", headers, {"delivery_mode": 2, **properties}, body)


@pytest.mark.parametrize(
    "settings",
    [{"prefetch": 0}, {"prefetch": 65_536}, {"concurrency": 0}, {"heartbeat": 0}, {"heartbeat": 1.5},
     {"heartbeat": 601}, {"on_error": "ignore"}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ConsumerGroup("amqp://127.0.0.1", "orders", print, **settings)


def test_a_publisher_that_is_not_connected_says_how() -> None:
    with pytest.raises(HashstarError, match="async with"):
        asyncio.run(Publisher("amqp://127.0.0.1", "orders").publish(Message()))


def test_without_the_client_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["aiormq"] = None
from bridge.cli import main
main(["group", "describe", "orders", "--url", "amqp://127.0.0.1"])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"hashstar: consumer groups need aiormq: {build_install_command('aio-pika')}\n"
