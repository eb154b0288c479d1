"""Spans of the messages that a bridge moves, as OpenTelemetry's SDK gets them, and the context that copies carry."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode

from bridge.daemon.config import Config, read_config
from bridge.daemon.journal import Journal
from bridge.daemon.pumps import build_pump
from bridge.daemon.telemetry.metrics import Metrics
from bridge.daemon.telemetry.spans import TracedEvents
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.kafka.consumer.assignment import PartitionAssignment, PartitionLane
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.rocketmq.lane import QueueLane
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.remoting.message import StoredMessage
from exchange import Binding, Exchange, Queue, Router, Topology
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.errors import InputError
from exchange.values.message import Message
from tests.support.bridge.behaviour import Silent
from tests.support.virtual_loop import on_a_virtual_loop, pass_time, run_virtually
from tests.support.waiting import find_limit

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
TOPOLOGY = Topology(
    exchanges=[Exchange("orders", "topic")], queues=[Queue("billing"), Queue("audit")],
    bindings=[Binding.to_queue("orders", "billing", "order.#"), Binding.to_queue("orders", "audit", "order.big")],
)  # fmt: skip


class Traced:
    """A pump from memory to memory, with spans; ``fault`` as that of `MemoryTarget`."""

    def __init__(
        self,
        *messages: Message,
        fault: Callable[[Outgoing], Failure | Disconnected | None] = lambda _: None,
        sampler: Sampler | None = None,
        policy: Policy = Policy(),  # noqa: B008  a frozen value
        is_traced: bool = True,
    ) -> None:
        self.exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.source, self.target = MemorySource(messages, "in"), MemoryTarget("out", fault)
        self.dead = MemoryTarget("dead")
        config = Config(
            "b.toml", TOPOLOGY, (Inlet(self.source),), {"billing": self.target, "audit": self.target},
            replace(policy, backoff=replace(policy.backoff, first=0.1)), self.dead,
        )  # fmt: skip
        self.events: Any = Silent()
        if is_traced:
            self.events = TracedEvents(self.events, config, provider)
        self.pump = Pump(
            config.inlets, Router(TOPOLOGY), config.targets, self.events, config.policy, config.dead_letters,
            random=Random(7).random,  # so that two pumps wait for the same times between tries
        )  # fmt: skip

    async def run(self) -> None:
        self.source.end()
        await self.pump.run()

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.kind is kind]

    def process(self) -> ReadableSpan:
        (span,) = self.spans(SpanKind.CONSUMER)
        return span

    def assert_nothing_is_left(self) -> None:
        assert not self.events._traced
        assert not any(each.sent for each in self.events._targets.values())
        assert not any(each.lanes for each in self.events._sources.values())


def name_span(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def order(key: str = "order.eu", **headers: Any) -> Message:
    return Message("orders", key, headers, {}, b"body")


@on_a_virtual_loop
async def test_a_copy_names_the_span_of_its_writing_whose_parents_lead_to_the_publisher() -> None:
    traced = Traced(order("order.big", traceparent=PARENT, tracestate="a=1", n=5))
    await traced.run()
    process, sends = traced.process(), traced.spans(SpanKind.PRODUCER)
    assert process.parent is not None
    assert f"{process.parent.trace_id:032x}-{process.parent.span_id:016x}" == PARENT[3:-3]
    assert {span.parent.span_id for span in sends if span.parent} == {process.context.span_id if process.context else 0}
    assert {each.message.headers["traceparent"] for each in traced.target.messages} == {*map(name_span, sends)}
    for each in traced.target.messages:
        assert each.message.headers == {**each.message.headers, "tracestate": "a=1", "n": 5}
        assert each.delivery.message.headers["traceparent"] == PARENT
    assert process.status.status_code is StatusCode.UNSET
    assert process.name == "process in"
    assert dict(process.attributes or {}) == {
        "messaging.system": "memory", "messaging.operation.type": "process", "messaging.operation.name": "process",
        "messaging.destination.name": "in", "messaging.message.body.size": 4,
    }  # fmt: skip
    assert {span.name for span in sends} == {"send billing", "send audit"}
    traced.assert_nothing_is_left()


@on_a_virtual_loop
async def test_a_message_without_a_context_begins_a_trace() -> None:
    traced = Traced(order())
    await traced.run()
    (send,) = traced.spans(SpanKind.PRODUCER)
    assert traced.process().parent is None
    assert [each.message.headers for each in traced.target.messages] == [{"traceparent": name_span(send)}]


@on_a_virtual_loop
async def test_a_message_that_is_not_sampled_is_written_as_it_was_read() -> None:
    messages = [order(traceparent=UNSAMPLED), order(), order(traceparent=PARENT)]
    traced = Traced(*messages, sampler=ParentBased(ALWAYS_OFF))
    await traced.run()
    written = [each.message for each in traced.target.messages]
    assert [each is read for each, read in zip(written, messages, strict=True)] == [True, True, False]
    assert len(traced.exporter.get_finished_spans()) == 2
    traced.assert_nothing_is_left()


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ParentBased(ALWAYS_ON, remote_parent_not_sampled=ALWAYS_ON)])
def test_a_sampler_that_does_not_follow_the_publisher_is_asked_about_each_message(sampler: Sampler) -> None:
    traced = Traced(order(traceparent=UNSAMPLED), sampler=sampler)
    run_virtually(traced.run())
    assert f"{traced.process().context.trace_id:032x}" == TRACE


@on_a_virtual_loop
async def test_each_try_is_a_span_and_a_refused_one_has_the_reason() -> None:
    refusals = [Failure("nack"), Failure("returned: NO_ROUTE")]
    traced = Traced(order(traceparent=PARENT), fault=lambda _: refusals.pop(0) if refusals else None)
    await traced.run()
    sends = traced.spans(SpanKind.PRODUCER)
    assert [(span.attributes or {}).get("error.type") for span in sends] == ["nack", "returned", None]
    assert [span.status.description for span in sends] == ["nack", "returned: NO_ROUTE", None]
    assert traced.target.messages[0].message.headers["traceparent"] == name_span(sends[-1])
    assert traced.process().status.status_code is StatusCode.UNSET
    traced.assert_nothing_is_left()


@on_a_virtual_loop
async def test_a_dead_letter_is_an_error_of_its_message_and_carries_what_was_published() -> None:
    traced = Traced(order(traceparent=PARENT), fault=lambda _: Failure("too large: 5 MB", final=True))
    await traced.run()
    process = traced.process()
    assert (process.status.status_code, process.status.description) == (StatusCode.ERROR, "too large: 5 MB")
    assert [(event.name, dict(event.attributes or {})) for event in process.events] == [
        ("dead-letter", {"reason": "too large: 5 MB", "queue": "billing"})
    ]
    assert [span.name for span in traced.spans(SpanKind.PRODUCER)] == ["send billing", "send dead"]
    assert traced.dead.messages[0].message.headers["traceparent"] == PARENT
    traced.assert_nothing_is_left()


@pytest.mark.parametrize(("fate", "copies"), [(Unroutable.DROP, 0), (Unroutable.DEAD_LETTER, 1)])
def test_what_no_queue_gets_is_an_error_of_its_message(fate: Unroutable, copies: int) -> None:
    traced = Traced(order("nothing", traceparent=PARENT), policy=Policy(unroutable=fate))
    run_virtually(traced.run())
    assert [event.name for event in traced.process().events] == [fate.value]
    assert traced.process().status.status_code is StatusCode.ERROR
    assert len(traced.spans(SpanKind.PRODUCER)) == len(traced.dead.messages) == copies
    traced.assert_nothing_is_left()


@on_a_virtual_loop
async def test_spans_end_with_the_connection_and_begin_anew_with_what_comes_again() -> None:
    losses = [Disconnected("cut")]
    traced = Traced(order(traceparent=PARENT), fault=lambda _: losses.pop() if losses else None)
    await traced.run()
    assert [span.status.description for span in traced.spans(SpanKind.PRODUCER)] == ["cut", None]
    traced.assert_nothing_is_left()

    stays = True
    traced = Traced(order(traceparent=PARENT), fault=lambda _: Failure("full", busy=True) if stays else None)
    running = asyncio.create_task(traced.pump.run())
    await pass_time(1)
    traced.source.break_connection()
    await pass_time(60)
    stays = False
    traced.source.end()
    await running
    assert [span.status.description for span in traced.spans(SpanKind.CONSUMER)] == ["the connection is broken", None]
    traced.assert_nothing_is_left()


class Slow(SpanExporter):
    """An exporter that does not come back before it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.has_begun = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.has_begun.set()
        self.may_end.wait()
        return SpanExportResult.SUCCESS


def test_a_full_queue_of_an_exporter_that_hangs_delays_no_message() -> None:
    exporter, provider = Slow(), TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=4, max_export_batch_size=2))
    traced = Traced(*[order() for _ in range(500)])
    traced.events._tracer = provider.get_tracer("hashstar")
    try:
        run_virtually(traced.run())
        assert exporter.has_begun.wait(find_limit())
        assert len(traced.target.messages) == 500
    finally:
        exporter.may_end.set()
        provider.shutdown()


class Broken(Sampler):
    """A sampler that raises."""

    def should_sample(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no")

    def get_description(self) -> str:
        return "broken"


def test_what_is_wrong_with_spans_is_logged_and_messages_move_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "bridge.daemon.telemetry.spans")
    traced = Traced(*[order() for _ in range(5)], sampler=Broken())
    run_virtually(traced.run())
    assert len(traced.target.messages) == 5
    assert "tracing" in {record.getMessage() for record in caplog.records}


faults = st.sampled_from([None, None, None, "nack", "final", "busy", "waits", "lost"])


sent_messages = st.lists(st.tuples(st.sampled_from(["order.eu", "order.big", "nothing"]), st.booleans()), max_size=12)


@given(sent_messages, st.lists(faults, max_size=20))
def test_spans_change_nothing_but_the_context_that_copies_carry(
    sent: list[tuple[str, bool]], faults: list[str | None]
) -> None:
    """The same messages, in the same order, to the same ends, whatever is refused or lost on the way."""

    def run(*, is_traced: bool) -> tuple[Any, ...]:
        left = [*faults]

        def fault(_: Outgoing) -> Failure | Disconnected | None:
            kind = left.pop(0) if left else None
            if kind == "lost":
                return Disconnected("lost")
            return None if kind is None else Failure(kind, **({} if kind == "nack" else {kind: True}))

        messages = [order(key, n=n, **({"traceparent": PARENT} if has else {})) for n, (key, has) in enumerate(sent)]
        traced = Traced(*messages, fault=fault, is_traced=is_traced, policy=Policy(unroutable=Unroutable.DROP))
        run_virtually(traced.run())
        if is_traced:
            traced.assert_nothing_is_left()
            assert len(traced.spans(SpanKind.CONSUMER)) == len(sent)
        return tuple([
            [strip(outgoing) for outgoing in each.messages] for each in (traced.target, traced.dead)
        ])  # fmt: skip

    def strip(outgoing: Outgoing) -> tuple[Any, ...]:
        message, left_out = outgoing.message, {"traceparent", "hashstar-time"}
        headers = {name: value for name, value in message.headers.items() if name not in left_out}
        return outgoing.queue, outgoing.attempts, message.routing_key, message.body, headers

    assert run(is_traced=True) == run(is_traced=False)


def read_kafka() -> Delivery:
    lane = PartitionLane(PartitionAssignment("kafka", 10, transactional=False), "orders", 3)
    record = SimpleNamespace(
        timestamp=lambda: (1, 5), offset=lambda: 7, key=lambda: b"k", value=lambda: b"body",
        headers=lambda: [("traceparent", PARENT.encode())],
    )  # fmt: skip
    return LaneReader("kafka", "orders", 3).make_delivery(record, lane)


def read_rocketmq() -> Delivery:
    assigned = SimpleNamespace(queue=TopicQueue("orders", "broker-a", 2))
    stored = StoredMessage(
        "orders", b"body", {"traceparent": PARENT}, 0, "broker-a", 2, 7, 1, 0, 2, bytes(8), 3, bytes(8), 0
    )
    return QueueLane("rocketmq", assigned).make_delivery(stored)  # type: ignore[arg-type]  # all that it reads of it


def read_rabbitmq() -> Delivery:
    content = ContentHeader.encode({"traceparent": PARENT}, {})
    return Delivery(build_lazy_message("orders", "order.\udcff", content, b"body"), 1, 9, origin="queue billing")


def read_archive() -> Delivery:
    return Delivery(order(traceparent=PARENT), "days/part-00000.parquet", 0, origin="days")


SOURCES: dict[str, tuple[str, Callable[[], Delivery], str, dict[str, Any]]] = {
    "kafka": (
        'url = "kafka://127.0.0.1:1"\ntopics = ["orders"]\ngroup = "g"', read_kafka, "process orders",
        {"messaging.consumer.group.name": "g", "messaging.destination.name": "orders",
         "messaging.destination.partition.id": "3", "messaging.kafka.offset": 7},
    ),
    "rocketmq": (
        'url = "rocketmq://127.0.0.1:1"\ntopics = ["orders"]\ngroup = "g"', read_rocketmq, "process orders",
        {"messaging.consumer.group.name": "g", "messaging.destination.name": "orders",
         "messaging.destination.partition.id": "broker-a:2"},
    ),
    "rabbitmq": (
        'url = "amqp://127.0.0.1:1"\nqueue = "billing"', read_rabbitmq, "process billing",
        {"messaging.destination.name": "orders:order.?:billing",
         "messaging.rabbitmq.destination.routing_key": "order.?", "messaging.rabbitmq.message.delivery_tag": 9},
    ),
    "archive": ('url = "archive:days"', read_archive, "process in", {"messaging.destination.name": "in"}),
}  # fmt: skip
TARGETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "kafka": ('url = "kafka://127.0.0.1:1"\nqueues = { q = "bills" }', "bills", {}),
    "rocketmq": ('url = "rocketmq://127.0.0.1:1"\nqueues = { q = "bills" }', "bills", {}),
    "rabbitmq": (
        'url = "amqp://127.0.0.1:1"\nqueues = { q = { exchange = "bills" } }', "bills",
        {"messaging.destination.name": "bills:k", "messaging.rabbitmq.destination.routing_key": "k"},
    ),
    "archive": ('url = "archive:parts"\nqueues = { q = "q" }', "q", {}),
}  # fmt: skip


def read_file(folder: Path, source: str, target: str, *lines: str) -> Config:
    (folder / "t.bindings").write_text('exchange orders: topic\nqueue q\norders -> q: "#"\n')
    path = folder / "bridge.toml"
    path.write_text("\n".join([
        'topology = "t.bindings"', *lines, "[sources.in]", source, 'exchange = "orders"', "[targets.out]", target
    ]))  # fmt: skip
    return read_config(path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_spans_have_the_attributes_of_the_conventions_and_names_of_few_kinds(
    source: str, target: str, tmp_path: Path
) -> None:
    (read, make, name, attributes), (written, place, more) = SOURCES[source], TARGETS[target]
    config = read_file(tmp_path, read, written, "tracing = true")
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    assert config.tracing
    events, delivery = TracedEvents(Silent(), config, provider), make()
    assert delivery.message.headers["traceparent"] == PARENT
    events.read("in", [delivery])
    outgoing = Outgoing(replace(delivery.message, routing_key="k"), delivery, "q")
    events.sending("out", [outgoing])
    events.confirmed("out", [outgoing], 0.0)
    events.settled("in", delivery)
    sent, processed = exporter.get_finished_spans()
    assert (processed.name, sent.name) == (name, f"send {place}")
    body = {"messaging.message.body.size": 4}
    assert dict(processed.attributes or {}) == {
        "messaging.system": source, "messaging.operation.type": "process", "messaging.operation.name": "process",
        **attributes, **body,
    }  # fmt: skip
    assert dict(sent.attributes or {}) == {
        "messaging.system": target, "messaging.operation.type": "send", "messaging.operation.name": "send",
        "messaging.destination.name": place, **more, **body,
    }  # fmt: skip
    carried = outgoing.message.headers["traceparent"]
    assert carried == (PARENT if target == "archive" else name_span(sent))


def test_without_the_extra_the_file_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = SOURCES["kafka"][0], TARGETS["kafka"][0]
    monkeypatch.setitem(sys.modules, "bridge.daemon.telemetry.spans", None)
    config = read_file(tmp_path, source, target, "tracing = true")
    with pytest.raises(InputError, match=r"tracing: needs .*: pip install 'opentelemetry-api"):
        build_pump(config, Router(config.topology), Journal(level="error"), Metrics())
    quiet = read_file(tmp_path, source, target)
    assert not quiet.tracing
    build_pump(quiet, Router(quiet.topology), Journal(level="error"), Metrics())


def test_a_bridge_without_an_sdk_warns_that_its_spans_go_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, ...]] = []
    monkeypatch.setattr(Journal, "write", lambda _, level, event, **about: said.append((level, event, about["text"])))
    config = read_file(tmp_path, SOURCES["kafka"][0], TARGETS["kafka"][0], "tracing = true")
    build_pump(config, Router(config.topology), Journal(level="warning"), Metrics())
    ((level, event, text),) = said
    assert (level, event) == ("warning", "tracing")
    assert text.endswith("start it with opentelemetry-instrument")
