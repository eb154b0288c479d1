"""Spans of a daemon between a real RabbitMQ and a real Kafka lead from the publisher to the record."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.bridge.live_rabbitmq import Broker
from tests.support.kafka.topics import topics_at
from tests.support.servers import Server
from tests.support.waiting import find_limit, wait_until

ROOT = Path(__file__).parents[3]
COUNT = 200
PROGRAM = """if True:
    import sys
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    from bridge.cli import main

    out = open(sys.argv[1], "w")
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\\n")
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(exporter))
    main(["bridge", "run", sys.argv[2]])
"""
"""A bridge with an SDK, as opentelemetry-instrument sets one up, whose spans go to a file."""


def make_parent(number: int) -> str:
    """Return what the publisher of a message names: every other one has not sampled its trace."""
    return f"00-{number + 1:032x}-{number + 1:016x}-{'01' if number % 2 else '00'}"


def test_each_sampled_message_has_its_spans_and_its_record_names_the_last_one(
    rabbitmq: Server, kafka: Server, tmp_path: Path
) -> None:
    broker = Broker(rabbitmq)
    with topics_at(kafka.url) as topics:
        queue, topic = broker.queue(), topics.make(partitions=3)
        for number in range(COUNT):
            broker.put(queue, b"%d" % number, headers={"traceparent": make_parent(number)})
        (tmp_path / "t.bindings").write_text("exchange orders: fanout\nqueue q\norders -> q\n")
        (tmp_path / "bridge.toml").write_text(
            f'topology = "t.bindings"\ntracing = true\n[sources.in]\nurl = "{rabbitmq.url}"\nqueue = "{queue}"\n'
            f'exchange = "orders"\n[targets.out]\nurl = "kafka://{kafka.url}"\n'
            f'queues.q = "{topic}"\n'
        )
        log = tmp_path / "log"
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "spans"), str(tmp_path / "bridge.toml")]
        with log.open("wb") as into, subprocess.Popen(command, cwd=ROOT, stderr=into) as process:
            try:
                wait_until(lambda: b"connected" in log.read_bytes() or process.poll() is not None)
                assert process.poll() is None, log.read_text()
                records = topics.read(topic, COUNT)
                wait_until(lambda: broker.ready(queue) == 0)
                process.send_signal(signal.SIGTERM)
                assert process.wait(find_limit()) == 0, log.read_text()
            finally:
                process.kill()
    broker.close()
    spans: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    sampled = [number for number in range(COUNT) if number % 2]
    assert Counter(each["name"] for each in spans) == {f"process {queue}": len(sampled), f"send {topic}": len(sampled)}
    by_trace = {(int(each["context"]["trace_id"], 16) - 1, each["name"].split()[0]): each for each in spans}
    named = {int(each.value()): dict(each.headers())["traceparent"].decode() for each in records}
    for number in range(COUNT):
        if number not in sampled:
            assert named[number] == make_parent(number)
            continue
        processed, sent = by_trace[number, "process"], by_trace[number, "send"]
        assert int(processed["parent_id"], 16) == number + 1
        assert sent["parent_id"] == processed["context"]["span_id"]
        trace, span = (sent["context"][name].removeprefix("0x") for name in ("trace_id", "span_id"))
        assert named[number] == f"00-{trace}-{span}-01"
        assert sent["attributes"]["messaging.destination.name"] == topic
        assert processed["status"]["status_code"] == sent["status"]["status_code"] == "UNSET"
        assert processed["start_time"] <= sent["start_time"] <= sent["end_time"] <= processed["end_time"]
