"""The metrics for Prometheus: in its format, by source, target and queue, without further series."""

from __future__ import annotations

import math
import platform
import re
import resource
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from bindings.counts.tally import compute_fingerprint
from bindings.http.exposition import format_labels, format_number
from bridge.daemon.coverage import CoverageCounter
from bridge.daemon.telemetry import gauges
from bridge.daemon.telemetry.gauges import build_info, read_process_metrics
from bridge.daemon.telemetry.metrics import BUCKETS, Metrics
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.memory import MemorySource
from bridge.pump.pump import Inlet
from exchange import Binding, Exchange, Message, Queue, Router, Topology

GUIDE = Path(__file__).parents[3] / "docs" / "bridge-operations.md"
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')

Family = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_metrics(text: str) -> dict[str, tuple[str, Family]]:
    """Parse Prometheus's text format 0.0.4 strictly: metric -> its type, and its samples by name and labels.

    Fails where https://prometheus.io/docs/instrumenting/exposition_formats says that it must: what is no line of the
    format, a sample that does not belong to the metric above it, a metric or a sample that comes twice.
    """
    assert text.endswith("\n")
    found: dict[str, tuple[str, Family]] = {}
    helped: set[str] = set()
    family, kind = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            assert meaning
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram")
            assert family in helped
            assert family not in found
            assert kind != "counter" or family.endswith("_total")
            found[family] = kind, {}
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match[1], LABEL.findall(match[2] or ""), float(match[3])
            suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            assert name in [family + suffix for suffix in suffixes], line
            assert len({label for label, _ in labels}) == len(labels)
            key = name, frozenset(labels)
            assert key not in found[family][1], line
            found[family][1][key] = value
    return found


def of(metrics: Metrics, gauges: dict[str, object] | None = None) -> dict[str, tuple[str, Family]]:
    return parse_metrics("\n".join(metrics.lines(gauges or {})) + "\n")  # type: ignore[arg-type]  # there are none


def outgoing(queue: str = "q", since: float = 0.0) -> Outgoing:
    message = Message("e", "k", body=b"12345")
    return Outgoing(message, Delivery(message), queue, context=SimpleNamespace(since=since))


def test_events_are_counted() -> None:
    metrics = Metrics()
    metrics.connected("s")
    metrics.disconnected("s", Disconnected("gone"), 1.0)
    message = Message(body=b"12345")
    metrics.read("s", [Delivery(message), Delivery(message, redelivered=True)])
    metrics.confirmed("t", [outgoing(), outgoing("r"), outgoing()], 0.5)
    metrics.refused("t", outgoing(), Failure("returned: 312 NO_ROUTE"), 1.0)
    metrics.gave_up("t", outgoing(), Failure("nack"), "dead-letter")
    metrics.unroutable("s", Delivery(message), "drop", "no queue")
    metrics.unreadable["s"] = Counter({'no "JSON"\n': 3})
    families = of(metrics)
    samples = {
        (name, *sorted(value for _, value in labels)): number
        for _, family in families.values()
        for (name, labels), number in family.items()
        if not name.endswith("_bucket")
    }
    assert samples == {
        ("hashstar_read_messages_total", "s"): 2,
        ("hashstar_read_bytes_total", "s"): 10,
        ("hashstar_redelivered_messages_total", "s"): 1,
        ("hashstar_written_messages_total", "q", "t"): 2,
        ("hashstar_written_messages_total", "r", "t"): 1,
        ("hashstar_refusals_total", "returned", "t"): 1,
        ("hashstar_fates_total", "dead-letter", "t"): 1,
        ("hashstar_fates_total", "drop", "s"): 1,
        ("hashstar_unreadable_records_total", r"no \"JSON\"\n", "s"): 3,
        ("hashstar_connections_total", "s"): 1,
        ("hashstar_disconnections_total", "s"): 1,
        ("hashstar_latency_seconds_sum", "t"): 1.5,
        ("hashstar_latency_seconds_count", "t"): 3,
    }


def test_the_guide_says_of_each_counter_of_messages_when_it_counts() -> None:
    """A new one is a question: does it count what is final?"""
    _, _, rest = GUIDE.read_text("utf-8").partition("### When a message counts\n")
    told = re.findall(r"`(hashstar_\w+)`", rest.partition("\n\nWhat an aborted")[0])
    of_others = {"hashstar_connections_total", "hashstar_disconnections_total"}
    counters = {name for name, (kind, *_) in Metrics().families().items() if kind == "counter"} - of_others
    assert len(told) == len({*told})
    assert {*told} == counters | {
        "hashstar_latency_seconds", "hashstar_binding_messages_total", "hashstar_vanished_messages_total"
    }  # fmt: skip


def test_series_of_endpoints_start_at_0_before_anything_happens() -> None:
    metrics = Metrics()
    endpoints = {"s": True, "plain": False}, {"t": ["q", "r"], "dead_letters": [""]}
    metrics.prepare(*endpoints)
    families = of(metrics)
    assert {number for _, family in families.values() for number in family.values()} == {0}
    there = {
        (name, *[value for label, value in sorted(labels) if label != "le"])
        for _, family in families.values()
        for name, labels in family
    }
    every = ("s", "plain", "t", "dead_letters")
    assert there == {
        *[(f"hashstar_{name}_total", each) for name in ("connections", "disconnections") for each in every],
        *[("hashstar_fates_total", each, fate) for each in every for fate in ("dead-letter", "hold", "drop")],
        *[
            (f"hashstar_{name}_total", each)
            for name in ("read_messages", "read_bytes", "redelivered_messages")
            for each in ("s", "plain")
        ],
        *[("hashstar_filtered_messages_total", reason, "s") for reason in ("no match", "fails")],
        *[("hashstar_written_messages_total", *each) for each in (("q", "t"), ("r", "t"), ("", "dead_letters"))],
        *[(f"hashstar_latency_seconds_{part}", each) for part in ("bucket", "sum", "count")
          for each in ("t", "dead_letters")],
    }  # fmt: skip
    metrics.disconnected("t", Disconnected("gone"), 1.0)
    metrics.prepare(*endpoints)
    assert metrics.disconnections["t"] == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (True, "1"), (1 << 53, "9007199254740992"), (1234567.9, "1234567.9"), (0.1 + 0.2, "0.30000000000000004"),
     (1e22, "1e+22"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")],
)  # fmt: skip
def test_numbers_are_written_exactly(value: float, shown: str) -> None:
    assert format_number(value) == shown


def test_a_sum_still_grows_after_a_day() -> None:
    metrics = Metrics()
    metrics.confirmed("t", [outgoing()], 1_234_567.9)
    before = of(metrics)["hashstar_latency_seconds"][1]["hashstar_latency_seconds_sum", frozenset({("target", "t")})]
    metrics.confirmed("t", [outgoing()], 4.0)
    after = of(metrics)["hashstar_latency_seconds"][1]["hashstar_latency_seconds_sum", frozenset({("target", "t")})]
    assert (before, after) == (1_234_567.9, 1_234_571.9)


def test_the_metrics_of_the_process_are_those_of_the_system() -> None:
    families = parse_metrics("\n".join(Metrics().lines({**read_process_metrics(), **build_info()})) + "\n")
    value = {name: next(iter(family.values()), None) for name, (_, family) in families.items()}
    assert families["process_cpu_seconds_total"][0] == "counter"
    assert value["process_cpu_seconds_total"]
    assert abs((value["process_start_time_seconds"] or 0) - time.time()) < 86_400
    [labels] = [dict(labels) for _, labels in families["hashstar_build_info"][1]]
    assert labels["python"] == platform.python_version()
    assert labels["version"]
    if Path("/proc/self/status").exists():
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        resident = int(status["VmRSS"].split()[0]) * 1024
        assert 0.8 * resident < (value["process_resident_memory_bytes"] or 0) < 1.2 * resident
        assert abs((value["process_open_fds"] or 0) - len([*Path("/proc/self/fd").iterdir()])) < 5
        limit = float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        assert value["process_max_fds"] == (math.inf if limit == resource.RLIM_INFINITY else limit)


def test_the_process_has_metrics_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gauges, "PROC", tmp_path)
    assert read_process_metrics().keys() == {"process_cpu_seconds_total", "process_start_time_seconds"}


def test_latencies_are_a_histogram_whose_buckets_rise_to_the_count() -> None:
    metrics = Metrics()
    for took in (0.0005, 0.001, 0.3, 7.0, 1000.0):
        metrics.confirmed("t", [outgoing(since=0.0)], took)
    kind, family = of(metrics)["hashstar_latency_seconds"]
    assert kind == "histogram"
    buckets = sorted((float(dict(labels)["le"]), n) for (name, labels), n in family.items() if "bucket" in name)
    assert [bound for bound, _ in buckets] == [*BUCKETS, math.inf]
    counts = [n for _, n in buckets]
    assert counts == sorted(counts)
    assert dict(buckets)[0.001] == 2
    assert dict(buckets)[math.inf] == 5


def test_a_reason_that_names_messages_is_one_series() -> None:
    metrics = Metrics()
    for n in range(100):
        metrics.refused("t", outgoing(), Failure(f"too large: {n} bytes"), None)
    assert dict(metrics.refusals) == {("t", "too large"): 100}


def test_names_of_any_bytes_are_labels() -> None:
    assert format_labels((("a", 'x"\\\n'), ("b", "\udcff"))) == '{a="x\\"\\\\\\n",b="\\\\xff"}'


def test_coverage_counts_what_enters_the_topology_as_the_audit_does() -> None:
    topology = (
        Topology()
        .declare_exchange(Exchange("e", "topic"))
        .declare_queue(Queue("all"))
        .declare_queue(Queue("none"))
        .bind(Binding.to_queue("e", "all", "#"))
        .bind(Binding.to_queue("e", "none", "x.*"))
    )
    coverage = CoverageCounter("bridge.toml", topology)
    inlet = Inlet(MemorySource(), "e")
    messages = [Message("other", f"k.{n}", {"CC": ["x.y"]} if n % 2 else {}) for n in range(5_000)]
    expected: dict[str, int] = defaultdict(int)
    router = Router(topology)
    for start in range(0, 5_000, 100):
        some = messages[start : start + 100]
        coverage.read(inlet, [Delivery(message) for message in some])
        for message in some:
            for queue in router.route(inlet.enter(message)).queues:
                expected[queue] += 1
    coverage.read(inlet, [Delivery(Message("e", "k", {"CC": "no array"}))])
    tally = coverage.tally()
    assert tally.topology == compute_fingerprint(topology)
    assert tally.messages == 5_000
    assert sum(tally.unread.bad.values()) == 1
    families = parse_metrics("\n".join(Metrics().lines(coverage.families(tally))) + "\n")
    _, family = families["hashstar_binding_messages_total"]
    assert {dict(labels)["destination"]: count for (_, labels), count in family.items()} == dict(expected)
    assert coverage.tally() == tally
    assert b'"bindings":[' in coverage.report(tally)
