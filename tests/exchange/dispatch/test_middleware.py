"""Middleware: what it measures, traces and skips, and that each needs only its extra."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from exchange import Delivery, Dispatcher, Message
from exchange.dispatch.middleware import deduplicate, log_deliveries, measure, observe, trace
from exchange.dispatch.middleware.duplicates import SeenInMemory
from exchange.text.site import build_install_command
from tests.support.memory_link import MemoryLink
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import until


def handle_all(link: MemoryLink, dispatcher: Dispatcher[Message], *middleware: Any, **options: Any) -> None:
    """Consume until the queue is empty, with errors dead-lettered."""

    async def work() -> None:
        options.setdefault("on_error", "dead-letter")
        async with dispatcher.consume(link, middleware=middleware, **options) as consumer:
            await pass_time(0.1)
            while link.messages or link.channel.unanswered or consumer.in_flight:  # virtual time
                await pass_time(0.1)

    run_virtually(work())


def failing_for(key: str) -> Dispatcher[Message]:
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> None:
        await pass_time(0.01)
        if delivery.routing_key == key:
            raise ValueError("no")

    return dispatcher


def test_observed_and_logged_state_duration_and_end(caplog: pytest.LogCaptureFixture) -> None:
    link = MemoryLink()
    link.put(Message("orders", "good", {}, {"message_id": "17"}), Message("orders", "bad"))
    seen: list[Any] = []
    with caplog.at_level(logging.INFO, "exchange.dispatch.deliveries"):
        handle_all(link, failing_for("bad"), observe(lambda *given: seen.append(given)), log_deliveries(slow=0))
    assert [(delivery.routing_key, type(error)) for delivery, _, error in seen] == [
        ("good", type(None)), ("bad", ValueError),
    ]  # fmt: skip
    assert all(seconds >= 0 for _, seconds, _ in seen)
    lines = [record for record in caplog.records if record.name == "exchange.dispatch.deliveries"]
    good = "queue 'memory', exchange 'orders', key 'good', message id '17': handled in "
    assert lines[0].getMessage().startswith(good)
    assert "key 'bad', message id None: ValueError in " in lines[1].getMessage()
    assert {record.levelno for record in lines} == {logging.WARNING}


def test_metrics_count_and_time_by_queue() -> None:
    registry, link = CollectorRegistry(), MemoryLink()
    link.put(*[Message("orders", key) for key in ("good", "good", "bad")])
    handle_all(link, failing_for("bad"), measure(registry))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"queue": "memory", **labels})

    assert value("hashstar_deliveries_total", outcome="handled") == 2
    assert value("hashstar_deliveries_total", outcome="failed") == 1
    assert value("hashstar_delivery_seconds_count") == 3
    assert value("hashstar_deliveries_at_work") == 0
    assert measure(registry) is measure(registry)


def test_a_span_continues_the_trace_of_the_publisher_also_in_threads() -> None:
    exporter, provider, link = InMemorySpanExporter(), TracerProvider(), MemoryLink()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    inside: list[int] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    def plain(delivery: Delivery) -> None:
        inside.append(otel.get_current_span().get_span_context().trace_id)
        if delivery.routing_key == "bad":
            raise ValueError("no")

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": parent, "n": 5}
    link.put(Message("orders", "good", headers, {"message_id": "17"}, b"body"), Message("orders", "bad"))

    async def work() -> None:
        async with dispatcher.consume(link, middleware=[trace(provider)], on_error="dead-letter") as consumer:
            await until(lambda: consumer.counts.handled + consumer.counts.failed >= 2)

    asyncio.run(work())
    good, bad = sorted(exporter.get_finished_spans(), key=lambda span: span.status.status_code.value)
    assert good.name == "process memory"
    assert good.context is not None
    assert good.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert good.context.trace_id in inside
    assert good.parent is not None
    assert good.parent.span_id == 0xB7AD6B7169203331
    assert dict(good.attributes or {}) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "orders:good:memory",
        "messaging.rabbitmq.destination.routing_key": "good",
        "messaging.rabbitmq.message.delivery_tag": 1,
        "messaging.message.body.size": 4,
        "messaging.message.id": "17",
    }
    assert bad.status.status_code is otel.StatusCode.ERROR
    assert bad.events[0].name == "exception"


def test_a_message_is_handled_once_however_often_it_comes() -> None:
    """One that failed counts as not handled; of two at the same time the second waits for the first; without id, always."""
    link, dispatcher = MemoryLink(), Dispatcher()
    calls: list[str] = []

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> None:
        calls.append(delivery.routing_key)
        await pass_time(1)
        if calls.count("fails") == 1 and delivery.routing_key == "fails":
            raise ValueError("no")

    ids = {"twice": "1", "fails": "2", "without": None}
    link.put(
        *(
            Message("", key, {}, {} if message_id is None else {"message_id": message_id})
            for key, message_id in ids.items()
        ),
        *(
            Message("", key, {}, {} if message_id is None else {"message_id": message_id})
            for key, message_id in ids.items()
        ),
    )
    handle_all(link, dispatcher, deduplicate())
    assert sorted(calls) == ["fails", "fails", "twice", "without", "without"]
    assert sorted(answer for answer, _ in link.settled) == ["ack"] * 5 + ["reject"]


@pytest.mark.parametrize("deliveries", [2, 5])
def test_a_message_is_handled_once_though_many_ask_a_slow_store_at_the_same_time(deliveries: int) -> None:
    class Slow(SeenInMemory):
        async def contains(self, message_id: str) -> bool:
            found = await super().contains(message_id)
            await pass_time(1)
            return found

    link, dispatcher = MemoryLink(), Dispatcher()
    calls: list[str] = []

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> None:
        calls.append(delivery.routing_key)
        await pass_time(3)

    link.put(*[Message("", "k", {}, {"message_id": "1"})] * deliveries)
    handle_all(link, dispatcher, deduplicate(Slow()))
    assert calls == ["k"]


def test_ids_in_memory_are_bounded_the_oldest_forgotten_first() -> None:
    async def work() -> list[bool]:
        seen = SeenInMemory(2)
        for message_id in ("a", "b"):
            await seen.add(message_id)
        assert await seen.contains("a")
        await seen.add("c")
        return [await seen.contains(message_id) for message_id in "abc"]

    assert asyncio.run(work()) == [True, False, True]
    with pytest.raises(ValueError, match="at least 1"):
        SeenInMemory(0)


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [(measure, "prometheus_client", "prometheus"), (trace, "opentelemetry", "opentelemetry")],
)
def test_without_its_extra_the_error_names_it(
    make: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(build_install_command(extra))):
        make()
