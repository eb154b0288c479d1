"""Filters of sources: rejected messages are settled and counted, but not sent; mistakes are reported with a caret."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon.config import read_config
from bridge.daemon.coverage import CoverageCounter
from bridge.daemon.journal import Journal
from bridge.daemon.telemetry.metrics import Metrics
from bridge.endpoint import Delivery
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.interop import convert_from_rocketmq, find_headers_for_property, to_rocketmq
from bridge.interop.filtering import Filter
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from bridge.rocketmq.remoting.message import StoredMessage
from exchange import Binding, Exchange, InputError, Message, Queue, Router, Topology
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.selector import Selector, Tags, properties_of
from exchange.values.field_values import Typed
from tests.support.waiting import find_limit

TOPOLOGY = Topology().declare_exchange(Exchange("in", "fanout")).declare_queue(Queue("q")).bind(
    Binding.to_queue("in", "q")
)  # fmt: skip
QUICK = Policy(window=8, backoff=Backoff(0.001, 0.002), reconnect=Backoff(0.001, 0.002))
CONFIG = """
topology = "t.bindings"
[sources.replay]
url = "archive:in"
SELECTOR
[targets.out]
url = "archive:out"
queues = { q = "." }
"""


class CountingMetrics:
    """Metrics that also keep the events of filtered messages."""

    def __init__(self) -> None:
        self.filtered_calls: list[tuple[str, Delivery, str]] = []

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        self.filtered_calls.append((source, delivery, reason))

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def run_pump(messages: list[Message], message_filter: Filter) -> tuple[MemorySource, list[Message], CountingMetrics]:
    """Run messages through a pump with a filter."""
    source, target, metrics = MemorySource(messages, "s"), MemoryTarget(), CountingMetrics()
    source.end()
    pump = Pump([Inlet(source, "in", filter=message_filter)], Router(TOPOLOGY), {"q": target}, metrics, QUICK)
    asyncio.run(asyncio.wait_for(pump.run(), find_limit()))
    return source, [outgoing.message for outgoing in target.messages], metrics


def test_a_rejected_message_is_settled_and_not_sent() -> None:
    messages = [Message("", "k", {"n": n, "region": "eu" if n % 3 else "us"}) for n in range(100)]
    source, arrived, metrics = run_pump(messages, Filter(Selector.parse("region = 'eu' AND n >= 10")))
    wanted = [n for n in range(100) if n % 3 and n >= 10]
    assert [message.headers["n"] for message in arrived] == wanted
    assert source.unsettled == 0
    assert len(metrics.filtered_calls) == 100 - len(wanted)
    assert {(source, reason) for source, _, reason in metrics.filtered_calls} == {("s", "no match")}


def test_more_rejected_messages_than_a_window_holds_do_not_block_the_others() -> None:
    source, arrived, metrics = run_pump(
        [Message("", "k", {"n": n}) for n in range(500)], Filter(Selector.parse("n = 499"))
    )
    assert [message.headers["n"] for message in arrived] == [499]
    assert source.unsettled == 0
    assert len(metrics.filtered_calls) == 499


def test_selector_and_tags_must_both_match() -> None:
    wanted = Filter(Selector.parse("n > 1"), Tags.parse("a || b"))
    messages = [Message("", "k", {"n": n, "TAGS": tag}) for n in (1, 2) for tag in "abc"]
    _, arrived, _ = run_pump(messages, wanted)
    assert [message.headers["TAGS"] for message in arrived] == ["a", "b"]


def test_a_comparison_that_fails_is_logged_without_the_value() -> None:
    _, arrived, metrics = run_pump(
        [Message("", "k", {"price": "secret"})], Filter(Selector.parse("a = 1 OR price > 10"))
    )
    assert not arrived
    assert [reason for _, _, reason in metrics.filtered_calls] == ["fails: price > 10"]


def test_headers_that_cannot_be_read_are_not_filtered_away() -> None:
    """They are unroutable, and the owner decides what becomes of those."""
    broken = build_lazy_message("", "k", ContentHeader(b"\x20\x00\x00\x00\x00\x05\x03abc?"), b"")
    dead, source = MemoryTarget(), MemorySource([broken], "s")
    source.end()
    metrics, inlet = CountingMetrics(), Inlet(source, "in", filter=Filter(Selector.parse("abc = 'x'")))
    pump = Pump([inlet], Router(TOPOLOGY), {"q": MemoryTarget()}, metrics, QUICK, dead)
    asyncio.run(asyncio.wait_for(pump.run(), find_limit()))
    assert not metrics.filtered_calls
    assert len(dead.messages) == 1


def test_a_refused_message_is_a_dead_letter_whatever_the_filter_and_the_topology_say_of_it() -> None:
    class Refusing(MemorySource):
        async def read(self, limit: int) -> list[Delivery]:
            return [replace(delivery, refusal="too long for AMQP") for delivery in await super().read(limit)]

    dead, target, source = MemoryTarget(), MemoryTarget(), Refusing([Message("", "q"), Message("", "none")], "s")
    source.end()
    metrics, inlet = CountingMetrics(), Inlet(source, filter=Filter(Selector.parse("abc = 'x'")))
    pump = Pump([inlet], Router(TOPOLOGY), {"q": target}, metrics, QUICK, dead)
    asyncio.run(asyncio.wait_for(pump.run(), find_limit()))
    assert [outgoing.message.headers["hashstar-reason"] for outgoing in dead.messages] == [
        "unroutable: too long for AMQP"
    ] * 2
    assert not metrics.filtered_calls
    assert not target.messages
    assert not source.unsettled
    coverage = CoverageCounter("bridge", TOPOLOGY)
    coverage.read(inlet, [outgoing.delivery for outgoing in dead.messages])
    assert coverage.tally().unread.bad == {"too long for AMQP": 2}


names = st.sampled_from(["a", "price", "_x", "$y", "CC", "amount", "TAGS", "KEYS"])
texts = st.text(st.characters(exclude_characters="\0\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(st.dictionaries(names, texts))
def test_a_filter_sees_the_own_properties_of_a_message_from_rocketmq(properties: dict[str, str]) -> None:
    """So a filter here is what the broker's filter would be."""
    stored = StoredMessage("t", b"b", properties, 7, "b", 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0)
    asked = ("a", "price", "_x", "$y", "CC", "amount", "TAGS", "KEYS", "topic", "flag", "offset")
    assert properties_of(convert_from_rocketmq(stored), asked, find_headers_for_property) == properties


values = st.one_of(
    texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.just(Typed("short", 5)),
    st.just(Decimal("1.50")), st.lists(st.integers(0, 9)), st.just(Typed("timestamp", 1_700_000_000)), st.none(),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["a", "price", "_x", "$y"]), values))
def test_a_filter_sees_the_properties_that_a_message_would_have_in_rocketmq(headers: dict[str, Any]) -> None:
    """The same selector takes the same messages on both sides of a bridge."""
    asked = ("a", "price", "_x", "$y")
    properties = to_rocketmq(Message("e", "k", headers), "t").properties
    assert properties_of(Message("e", "k", headers), asked) == {n: properties[n] for n in asked if n in properties}


def read(tmp_path: Path, lines: str) -> Inlet:
    """Return the inlet of a configuration with these lines in its source's table."""
    (tmp_path / "t.bindings").write_text('vhost "/"\nexchange events: fanout\nqueue q\nevents -> q\n')
    (tmp_path / "bridge.toml").write_text(CONFIG.replace("SELECTOR", lines))
    return read_config(tmp_path / "bridge.toml", {}).inlets[0]


def test_a_filter_is_configured_at_its_source(tmp_path: Path) -> None:
    assert read(tmp_path, "").filter is None
    inlet = read(tmp_path, 'selector = "region = \'eu\' AND price > 10"\ntags = "a || b"')
    assert inlet.filter == Filter(Selector.parse("region = 'eu' AND price > 10"), Tags.parse("a || b"))


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ('selector = "a LIKE 1"', r"\[sources.replay\] selector: there is no LIKE.*\n    a LIKE 1\n      \^\^\^\^"),
        ('tags = "a || *"', r"\[sources.replay\] tags: \* is every message only.*\n    a \|\| \*\n         \^"),
        ("selector = 5", r"\[sources.replay\] selector: must be a text"),
    ],
)
def test_a_mistake_in_a_filter_is_shown_where_it_is(tmp_path: Path, lines: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        read(tmp_path, lines)


def test_metrics_count_what_is_filtered() -> None:
    metrics, delivery = Metrics(), Delivery(Message())
    for reason in ("no match", "no match", "fails: price > 10", "fails: n = 5"):
        metrics.filtered("s", delivery, reason)
    assert metrics.filtered_messages == {("s", "no match"): 2, ("s", "fails"): 2}
    assert 'hashstar_filtered_messages_total{source="s",reason="fails"} 2' in [*metrics.lines({})]


def test_the_journal_has_only_the_first_rejected_message_but_each_failing_comparison() -> None:
    out = io.StringIO()
    journal = Journal("text", "info", out, lambda: 1.0)
    for reason in ("no match", "no match", "fails: price > 10", "fails: price > 10", "fails: n = 5"):
        journal.filtered("s", Delivery(Message("e", "k"), origin="o"), reason)
    lines = [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]
    assert lines == [
        'info    filtered source=s reason="no match" only="the first is logged" origin=o exchange=e routing_key=k',
        'warning filter fails source=s comparison="price > 10" origin=o exchange=e routing_key=k',
        'warning filter fails source=s comparison="n = 5" origin=o exchange=e routing_key=k',
    ]


def test_coverage_counts_what_enters_the_topology() -> None:
    coverage = CoverageCounter("", TOPOLOGY)
    inlet = Inlet(MemorySource(), "in", filter=Filter(Selector.parse("n > 4")))
    coverage.read(inlet, [Delivery(Message("", "k", {"n": n})) for n in range(10)])
    assert 'destination="q",routing_key=""} 5' in "\n".join(Metrics().lines(coverage.families(coverage.tally())))
