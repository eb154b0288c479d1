"""How a step is carried out: which method, with which conditions, and who is asked first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bindings.applying.apply import apply
from bindings.applying.broker import LiveBroker
from bindings.diffing.planning.step import Step
from exchange import Binding, Exchange, InputError, Queue


class Channel:
    """Keeps what is called, but not the callback."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, callback: Any, **named: Any) -> None:
            self.calls.append((name, *arguments, *named.items()))

        return call


class Connection:
    """Carries out on a channel what it is given, and finds every queue empty."""

    message_count = consumer_count = 0

    def __init__(self) -> None:
        self.channel = Channel()
        self.method = self

    def call(self, what: str, operation: Any) -> Any:
        operation(self.channel, lambda _: None)
        return self

    def send(self, what: str, name: str, arguments: Mapping[str, Any]) -> Any:
        self.channel.calls.append((name, arguments.get("routing_key")))
        return self


class Live:
    """A management API that unbinds, or cannot."""

    def __init__(self, *, unbinds: bool = False) -> None:
        self.unbinds = unbinds
        self.unbound: list[Binding] = []

    def unbind(self, binding: Binding) -> bool:
        self.unbound.append(binding)
        return self.unbinds


def carried_out(step: Step, live: Live | None = None, *, force: bool = False) -> list[tuple[Any, ...]]:
    connection: Any = Connection()
    management: Any = live or Live()
    LiveBroker(connection, management, force=force).carry_out(step)
    calls: list[tuple[Any, ...]] = connection.channel.calls
    return calls


@pytest.mark.parametrize(
    ("kind", "force", "condition"), [("classic", False, True), ("quorum", False, False), ("classic", True, False)]
)
def test_a_classic_queue_is_deleted_on_condition_that_it_is_unused_and_empty(
    kind: str, force: bool, condition: bool
) -> None:
    """It was found empty; what comes in between is not lost."""
    queue = Queue("q", arguments={"x-queue-type": kind})
    assert carried_out(Step(False, queue), force=force)[-1] == ("queue_delete", "q", condition, condition)


@pytest.mark.parametrize("in_use", [False, True])
def test_an_exchange_is_deleted_if_it_is_unused_unless_it_is_replaced(in_use: bool) -> None:
    assert carried_out(Step(False, Exchange("x"), in_use=in_use)) == [("exchange_delete", "x", not in_use)]


def test_a_binding_with_arguments_is_unbound_by_the_management_api_where_it_can() -> None:
    """It names a binding by arguments that AMQP cannot write as they are."""
    plain, argued = Binding.to_queue("x", "q", "k"), Binding.to_queue("x", "q", "k", {"a": 1})
    live = Live(unbinds=True)
    assert carried_out(Step(False, argued), live) == []
    assert live.unbound == [argued]
    live = Live()
    assert carried_out(Step(False, argued), live) == [("queue.unbind", "k")]
    assert live.unbound == [argued]
    for step in (Step(False, plain), Step(True, plain), Step(True, argued)):
        live = Live(unbinds=True)
        [call] = carried_out(step, live)
        assert call[0] == f"queue.{step.verb}"
        assert live.unbound == []


def test_a_step_is_done_before_its_progress_is_reported() -> None:
    """So an error of the report ends the plan, and the step is not carried out once more."""
    connection: Any = Connection()
    management: Any = Live()

    def fail(_: Step) -> None:
        raise InputError("a full disk")

    with pytest.raises(InputError, match="a full disk"):
        apply([Step(True, Exchange("x")), Step(True, Queue("q"))], LiveBroker(connection, management), progress=fail)
    assert [call[0] for call in connection.channel.calls] == ["exchange.declare"]
