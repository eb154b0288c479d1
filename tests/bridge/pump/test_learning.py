"""Batches of new keys go through the pump as columns, and arrive as without."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from unittest.mock import Mock

import pytest

from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump import learning
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.events import Events
from tests.support.waiting import find_limit

TOPOLOGY = Topology(
    [Exchange("in", "topic", arguments={"alternate-exchange": "rest"}), Exchange("rest", "fanout")],
    [Queue("even"), Queue("all"), Queue("rest")],
    [
        Binding.to_queue("in", "even", "even.#"),
        Binding.to_queue("in", "all", "*.*.created"),
        Binding.to_queue("rest", "rest", ""),
    ],
)


def make_messages(count: int, key: Callable[[int], str]) -> list[Message]:
    return [Message("in", key(n), {"n": n} if n % 5 else {"n": n, "CC": ["even.copy"]}) for n in range(count)]


def unique(n: int) -> str:
    return f"{'even' if n % 2 == 0 else 'odd'}.{n}.{'created' if n % 3 else 'deleted'}"


def run_pump(
    messages: Sequence[Message], router: Router, routing_key: str | None = None
) -> tuple[dict[str, list[int]], list[int]]:
    """Return the numbers of the messages that each queue and the dead letters got."""
    targets = {queue: MemoryTarget() for queue in ("even", "all", "rest")}
    dead = MemoryTarget()

    async def run() -> None:
        source = MemorySource(messages)
        source.end()
        policy = Policy(unroutable=Unroutable.DEAD_LETTER)
        pump = Pump([Inlet(source, routing_key=routing_key)], router, targets, Events(), policy, dead)
        await asyncio.wait_for(pump.run(), find_limit())

    asyncio.run(run())
    got = {queue: [each.message.headers["n"] for each in target.messages] for queue, target in targets.items()}
    return got, [each.message.headers["n"] for each in dead.messages]


def test_batches_of_new_keys_are_learned_and_arrive_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = make_messages(3_000, unique)
    messages[1_500] = Message("nowhere", "k", {"n": 1_500})
    expected = run_pump(messages, Router(TOPOLOGY))
    monkeypatch.setattr(learning, "WORTH", 1)
    router = Router(TOPOLOGY)
    assert run_pump(messages, router) == expected
    assert expected[1] == [1_500]
    assert router._columns is not None


@pytest.mark.parametrize(
    ("count", "routing_key"),
    [pytest.param(100, None, id="small batches"), pytest.param(3_000, "even.1", id="one key for all")],
)
def test_what_would_not_pay_is_not_learned(
    monkeypatch: pytest.MonkeyPatch, count: int, routing_key: str | None
) -> None:
    monkeypatch.setattr(learning, "WORTH", 1)
    router = Router(TOPOLOGY)
    run_pump(make_messages(count, unique), router, routing_key)
    assert router._columns is None


def test_keys_that_the_router_knows_are_not_learned() -> None:
    """The first batches of a pump are too few to learn from, and the keys of later ones are known."""
    router = Router(TOPOLOGY)
    run_pump(make_messages(20_000, lambda n: unique(n % 50)), router)
    assert router._columns is None


def test_without_pyarrow_a_pump_moves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = make_messages(3_000, unique)
    expected = run_pump(messages, Router(TOPOLOGY))
    monkeypatch.setattr(learning, "WORTH", 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run_pump(messages, Router(TOPOLOGY)) == expected


def test_an_error_while_learning_ends_it_and_no_message_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    messages = make_messages(3_000, unique)
    expected = run_pump(messages, Router(TOPOLOGY))
    fails = Mock(side_effect=MemoryError)
    monkeypatch.setattr(learning, "WORTH", 1)
    monkeypatch.setattr(Router, "learn", fails)
    assert run_pump(messages, Router(TOPOLOGY)) == expected
    fails.assert_called_once()
    assert "not routed as columns" in caplog.text
