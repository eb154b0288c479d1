"""What spans of a bridge cost for each message, by who has sampled its trace: processor time of the pump alone.

Messages come from memory and go nowhere, so that little else is measured; a real bridge has its endpoints beside it.
Spans go to the SDK's batches, and from there nowhere: what an exporter takes comes on top.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, Final

from benchmarks.bridge_pumps import Forgetting
from benchmarks.measure import Contestant, run_rounds, show
from bridge.daemon.config import Config
from bridge.daemon.run import calm_collector
from bridge.endpoints.memory import MemorySource
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Queue, Router, Topology
from exchange.amqp import ContentHeader, build_lazy_message

PARENT: Final = f"00-{'a' * 32}-{'b' * 16}-"
TOPOLOGY: Final = Topology([Exchange("in", "topic")], [Queue("q")], [Binding.to_queue("in", "q", "#")])


class _Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def bridge_spans(quick: bool) -> None:
    """Messages without tracing, not sampled, and recorded."""
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

    count = 2_000 if quick else 20_000
    every, few = ParentBased(ALWAYS_ON), ParentBased(TraceIdRatioBased(1e-9))
    rows = [
        Contestant("floor: without tracing", partial(_measure, count, "01", None), role="floor"),
        Contestant("not sampled by its publisher", partial(_measure, count, "00", every)),
        Contestant("not sampled by the bridge", partial(_measure, count, None, few)),
        Contestant("recorded, of its publisher's trace", partial(_measure, count, "01", every)),
        Contestant("recorded, of a new trace", partial(_measure, count, None, every)),
    ]
    show("bridge-spans", f"{count:,} messages of 200 bytes, two spans each", run_rounds(rows, 3 if quick else 9))


def _measure(count: int, flags: str | None, sampler: Any) -> float:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from bridge.daemon.telemetry.spans import TracedEvents

    content = ContentHeader.encode({"traceparent": PARENT + flags} if flags else {"tenant": "a"}, {"delivery_mode": 2})
    source, target = MemorySource([build_lazy_message("in", "order.eu", content, b"x" * 200)] * count), Forgetting()
    source.end()
    inlet, events, exporter = Inlet(source, "in"), _Silent(), InMemorySpanExporter()
    exporter.shutdown()  # it takes nothing then
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=4 * count))
    config = Config("spans", TOPOLOGY, (inlet,), {"q": target})
    heard: Any = events if sampler is None else TracedEvents(events, config, provider)
    pump = Pump([inlet], Router(TOPOLOGY), {"q": target}, heard, Policy(window=2_000))
    calm_collector()
    began = process_time()
    asyncio.run(pump.run())
    provider.force_flush()
    took = process_time() - began
    provider.shutdown()
    return took / count * 1e6
