"""A report has the counts of its tally, its sections add up to the totals, and nearest bindings are the nearest."""

from __future__ import annotations

from collections import Counter as Multiset
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.figures import EARLIEST_TIME, LATEST_TIME
from bindings.archive.reading import Bias
from bindings.counts.slots import DAY, WIDTHS, SlotCounts
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.verification import Verification
from bindings.report.build import SLOTS, Sources, build_report
from bindings.report.model import Archived, Report
from bindings.report.rows import Timeline
from exchange import (
    LATEST_PROFILE,
    Binding,
    BrokerError,
    Destination,
    Exchange,
    InputError,
    Message,
    Queue,
    Router,
    Topology,
)
from exchange.partition.partitioning.specification import Partitioning
from tests.support import topologies
from tests.support.bindings.reports import NOW, ORDERS, START, TALLY, hand_made, report_of, tally_of
from tests.support.tiers import examples


@examples(25)
@given(st.integers(0, 2**32))
def test_the_parts_of_a_report_add_up_to_its_totals(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    messages = rng.choices([topologies.message(rng, topology) for _ in range(20)], k=40)
    messages += [Message("nowhere", "a")]
    times = [START + rng.randrange(90 * DAY) for _ in messages]
    ignore = [{"source": "x1", "destination": "*q*", "reason": "random", "until": "2030-01-01"}]
    report = report_of(topology, messages, {"ignore": ignore, "stale_days": 10}, times=times)
    totals, states = report.summary.totals, report.summary.states

    assert sum(states.values()) == totals.bindings == len(report.bindings)
    assert totals.eligible == totals.bindings - states["ignored"] - states["dead letters only"] - states["not eligible"]
    assert totals.hit == totals.eligible - states["dead"]
    assert Multiset(row.state for row in report.bindings) == Multiset({k: n for k, n in states.items() if n})
    rows = report.exchanges
    assert sum(row.eligible for row in rows) == totals.eligible
    assert sum(row.hit for row in rows) == totals.hit
    assert sum(row.use.published for row in rows) == totals.messages
    assert sum(row.routed for row in rows) == totals.routed
    assert sum(row.use.unroutable for row in rows) == totals.unroutable
    assert sum(row.messages for row in report.unroutable) == totals.unroutable + totals.refused
    assert sum(row.use.messages for row in report.queues) == totals.copies
    assert report.timeline is not None
    counted = [count for counts in report.timeline.counts.values() for _, *fates in counts for count in fates]
    assert sum(counted) == totals.messages
    assert report.audited.without_time == 0


@examples(25)
@given(st.integers(0, 2**32))
def test_flows_agree_with_the_router(seed: int) -> None:
    rng = Random(seed)
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "topic", "headers"))
    topology = topologies.topology(rng, LATEST_PROFILE, kinds)
    messages = [topologies.message(rng, topology) for _ in range(30)]
    messages = [m for m in messages if m.exchange in topology.exchanges and not topology.exchanges[m.exchange].internal]
    router = Router(topology, cache=0)
    expected = Multiset[tuple[str, Destination]]()
    for message in messages:
        try:
            explanation = router.explain(message)
        except BrokerError:  # a CC that is no array
            continue
        for hop in explanation.hops:
            expected.update((hop.exchange.name, step.destination) for step in hop.steps if step.outcome != "missing")
    found = Multiset[tuple[str, Destination]]()
    for flow in report_of(topology, messages).flow:
        if flow.destination is not None:  # a binding and an alternate exchange may lead to the same
            found[flow.source, flow.destination] += flow.messages
    assert found == expected


def test_flows_end_where_a_message_is_lost() -> None:
    flows = {(flow.source, flow.destination, flow.kind): flow.messages for flow in hand_made().flow}
    assert flows == {
        ("orders", Destination("queue", "audit"), "binding"): 90,
        ("orders", Destination("queue", "billing"), "binding"): 60,
        ("orders", Destination("exchange", "lost"), "alternate"): 9,
        ("lost", None, "nowhere"): 9,
        ("ordres", None, "nowhere"): 1,
    }


def test_ignored_bindings_are_shown_and_not_eligible() -> None:
    report = hand_made()
    assert [row.state for row in report.bindings] == ["hit", "hit", "hit", "dead", "ignored"]
    assert (report.summary.totals.hit, report.summary.totals.eligible) == (3, 4)
    ignored = report.bindings[4].ignored
    assert ignored is not None
    assert ignored.entry.reason == "runs once a year"


def test_a_binding_is_stale_when_nothing_matched_it_at_the_end_of_the_window() -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", key) for key in ("a", "b", "c", "d")])
    messages = [Message("amq.topic", key) for key in ("a", "b", "c")]
    times = [START + DAY - 1, START + DAY, START + 8 * DAY]
    report = report_of(topology, messages, {"stale_days": 7}, times=times, now=START + 500 * DAY)
    assert [row.state for row in report.bindings] == ["stale", "hit", "hit", "dead"]
    assert report.summary.totals.hit == 3


def test_a_message_from_the_future_makes_nothing_stale() -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", key) for key in ("a", "b")])
    messages = [Message("amq.topic", "a"), Message("amq.topic", "b")]
    report = report_of(topology, messages, times=[START, START + 9_999 * DAY], now=START + DAY)
    assert [row.state for row in report.bindings] == ["hit", "hit"]


def test_chance_makes_a_binding_possible_which_counts_as_hit() -> None:
    bindings = [Binding.to_queue("x", f"q{n}") for n in range(3)]
    topology = Topology([Exchange("x", "x-random")], [Queue(f"q{n}") for n in range(3)], bindings)
    report = report_of(topology, [Message("x")])
    assert [row.state for row in report.bindings] == ["possible"] * 3
    assert report.summary.totals.binding_coverage == 1
    assert {(flow.messages, flow.possible) for flow in report.flow} == {(0, 1)}


def nearest(report: Report) -> list[tuple[str, str]]:
    """Return the destinations that are nearest, each with the reason why messages did not get there."""
    shapes = [shape for row in report.unroutable for shape in row.shapes]
    return [(shape.nearest.destination.name, shape.nearest.reason) for shape in shapes if shape.nearest is not None]


def test_an_unroutable_key_has_the_nearest_binding_and_the_word_that_failed() -> None:
    topology = Topology(
        (), [Queue("eu"), Queue("us")],
        [Binding.to_queue("amq.topic", "eu", "order.eu.paid"), Binding.to_queue("amq.topic", "us", "order.us.#")],
    )  # fmt: skip
    assert nearest(report_of(topology, [Message("amq.topic", "order.eu.payd")])) == [
        ("eu", "word 3 is 'payd', it wants 'paid'")
    ]


def test_the_nearest_binding_is_searched_where_the_message_ended() -> None:
    topology = Topology(
        [Exchange("in", "fanout"), Exchange("inner", "topic")], [Queue("q")],
        [Binding.to_exchange("in", "inner"), Binding.to_queue("inner", "q", "order.*")],
    )  # fmt: skip
    assert nearest(report_of(topology, [Message("in", "ordr.paid")])) == [("q", "word 1 is 'ordr', it wants 'order'")]


def test_a_binding_that_matches_and_leads_to_what_does_not_exist_is_nearest() -> None:
    topology = Topology((), (), [Binding.to_queue("amq.topic", "gone", "a.#")])
    assert nearest(report_of(topology, [Message("amq.topic", "a.b")])) == [
        ("gone", "it matches, and queue 'gone' does not exist")
    ]


@pytest.mark.parametrize(
    ("exchange", "key", "near"),
    [
        ("Orders", "a", [("orders", "the exchange is called 'Orders', there is 'orders'")]),
        ("something else", "a", []),
        ("", "billng", [(
            "billing", "the default exchange takes the key for the name of a queue: it is 'billng', there is 'billing'"
        )]),
        ("amq.headers", "a", []),
    ],
)  # fmt: skip
def test_a_similar_name_is_nearest_where_no_binding_is(exchange: str, key: str, near: list[tuple[str, str]]) -> None:
    assert nearest(report_of(ORDERS, [Message(exchange, key)])) == near


def test_skew_counts_empty_partitions() -> None:
    (audit,) = [row for row in hand_made().queues if row.use.queue == "audit"]
    assert audit.skew is not None
    assert [(part.partition, part.messages) for part in audit.partitions] == [(0, 60), (1, 20), (2, 0), (3, 10)]
    assert audit.skew.max_to_mean == 60 / 22.5
    assert audit.skew.top_share == 60 / 90
    assert audit.skew.gini == pytest.approx(2 * (1 * 0 + 2 * 10 + 3 * 20 + 4 * 60) / (4 * 90) - 5 / 4)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40).filter(any))
def test_skew_lies_between_even_and_all_in_one(counts: list[int]) -> None:
    number = len(counts)
    queue = Queue("q", partitioning=Partitioning.parse(f"kafka.murmur2 over {number}"))
    topology = Topology((), [queue])
    tally = Tally(compute_fingerprint(topology), partitions={("q", n): count for n, count in enumerate(counts)})
    (row,) = build_report(topology, tally, Sources("t"), NOW).queues
    assert row.skew is not None
    assert 1 - 1e-9 <= row.skew.max_to_mean <= number + 1e-9
    assert 0 <= row.skew.gini <= 1 - 1 / number + 1e-9
    pairs = sum(abs(a - b) for a in counts for b in counts)
    assert row.skew.gini == pytest.approx(pairs / (2 * number * sum(counts)), abs=1e-9)


def test_a_hot_key_has_its_partition_where_the_routing_key_alone_decides_it() -> None:
    for by, known in (("routing_key", True), ('header "tenant"', False)):
        partitioning = Partitioning.parse(f"kafka.murmur2 over 4 by {by}")
        topology = Topology((), [Queue("q", partitioning=partitioning)])
        report = report_of(topology, [Message("", "q")] * 3)
        (row,) = report.queues
        expected = partitioning.choose(Message("", "q")).partition if known else None
        assert [(hot.text, hot.messages, hot.partition) for hot in row.hot] == [("q", 3, expected)]


@given(st.sampled_from(WIDTHS), st.lists(st.integers(0, 3_000_000), min_size=1, max_size=30))
def test_a_timeline_is_short_and_loses_nothing(width: int, seconds: list[int]) -> None:
    scale = min(width, 364 * DAY) // 1_000_000
    times = [second * scale * 1_000_000 for second in seconds]
    counts = SlotCounts.from_counts(WIDTHS[0], {(second * scale, "x", True): 1 for second in seconds})
    check_timeline(counts, times)


def check_timeline(counts: SlotCounts, times: list[int]) -> Timeline:
    """Check and return the timeline of one message of the exchange x at each of the times."""
    topology = Topology()
    timeline = build_report(topology, Tally(compute_fingerprint(topology), timeline=counts), Sources("t"), NOW).timeline
    assert timeline is not None
    assert timeline.slots <= SLOTS
    assert timeline.start == timeline.start_of(0) <= min(times) < timeline.start_of(1)
    found = {slot: routed for slot, routed, _, _ in timeline.counts["x"]}
    assert sum(found.values()) == len(set(times))
    assert all(any(timeline.start_of(slot) <= time < timeline.start_of(slot + 1) for slot in found) for time in times)
    assert all(0 <= slot < timeline.slots for slot in found)
    return timeline


@given(st.lists(st.integers(EARLIEST_TIME // DAY, LATEST_TIME // DAY), min_size=1, max_size=9), st.booleans())
def test_each_slot_of_a_timeline_begins_at_a_date_that_there_is(days: list[int], has_first: bool) -> None:
    times = sorted({EARLIEST_TIME if has_first else days[0] * DAY, *[day * DAY for day in days]})
    timeline = check_timeline(SlotCounts.from_counts(DAY, {(time // DAY, "x", True): 1 for time in times}), times)
    starts = [timeline.start_of(slot) for slot in range(timeline.slots)]
    assert all(EARLIEST_TIME <= start <= LATEST_TIME for start in starts)
    assert all(start == EARLIEST_TIME or not start % timeline.slot for start in starts)


@pytest.mark.parametrize(
    ("seconds", "slot"), [(1, 1), (180, 1), (400, 1), (401, 5), (3_600, 15), (86_400, 300), (30 * 86_400, 10_800)]
)
def test_slots_of_a_timeline_are_as_short_as_its_window_allows(seconds: int, slot: int) -> None:
    """A capture of three minutes has 180 bars: it was two bars of an hour before."""
    times = [START + seconds * 1_000_000 * number // 1_111 for number in range(1_111)]
    timeline = report_of(ORDERS, [Message("orders", "order.new")] * 1_111, times=times).timeline
    assert timeline is not None
    assert timeline.slot == slot * 1_000_000
    assert timeline.slots == -(-seconds // slot)
    assert sum(routed for _, routed, _, _ in timeline.counts["orders"]) == 1_111


def test_findings_have_the_evidence_of_the_traffic() -> None:
    topology = Topology(
        [Exchange("aside", "fanout", internal=True)], [Queue("q"), Queue("r"), Queue("alone")],
        [
            Binding.to_queue("amq.topic", "q", "a.#"),
            Binding.to_queue("amq.topic", "q", "a.b"),
            Binding.to_queue("amq.topic", "q", "a.never"),
            Binding.to_queue("amq.direct", "r", "x.*"),
            Binding.to_queue("amq.topic", "missing", "z"),
        ],
    )  # fmt: skip
    messages = [
        Message("amq.topic", "a.b"),
        Message("amq.direct", "x.*"),
        Message("amq.topic", "z"),
        Message("", "alone"),
    ]
    found = {
        (row.finding.code, row.finding.message.split("'")[-2]): (row.evidence, row.sentence)
        for row in report_of(topology, messages).findings
    }
    assert found["HS104", "a.#"] in (
        ("proved", "1 message matched it, and all got to its destination by another way, too"),
        ("no traffic", "no message matched it"),
    )
    assert found["HS107", "x.*"] == ("belied", "1 message matched it")
    assert found["HS102", "z"] == ("proved", "1 message matched and would have gone there")
    assert found["HS203", "aside"] == ("proved", "no message went through it")
    assert found["HS204", "alone"] == ("", "1 message got there by the default exchange")


@examples(25)
@given(st.integers(0, 2**32))
def test_traffic_never_contradicts_a_finding_that_holds_for_every_message(seed: int) -> None:
    rng = Random(seed)
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "topic"))
    topology = topologies.topology(rng, LATEST_PROFILE, kinds)
    report = report_of(topology, [topologies.message(rng, topology) for _ in range(40)])
    for row in report.findings:
        if row.finding.code in ("HS103", "HS104", "HS105", "HS106", "HS304", "HS501"):
            assert row.evidence != "belied", (row.finding.message, row.sentence)


def test_caveats_name_what_an_archive_cannot_show() -> None:
    archived = Archived("dump", ("queue dump",), 1, (Bias.SURVIVORS,))
    report = build_report(ORDERS, TALLY, Sources("t", (archived,)), NOW)
    assert any("Survivors only" in caveat and "unroutable" in caveat for caveat in report.caveats)
    assert any("2 records of 107 (1.87 %) could not be read" in caveat for caveat in report.caveats)
    nothing = build_report(ORDERS, Tally(compute_fingerprint(ORDERS)), Sources("t"), NOW)
    assert nothing.caveats[0].startswith("No message was counted")


def test_a_report_whose_messages_all_name_other_exchanges_says_where_they_may_be() -> None:
    """As of the topics of Kafka that a bridge wrote: each topic is taken for an exchange."""
    assert (
        "No message was published to an exchange of the topology. --exchange"
        in report_of(ORDERS, [Message("billing", "order.eu.paid"), Message("audit", "t3")]).caveats[0]
    )
    some = report_of(ORDERS, [Message("billing", "order.eu.paid"), Message("orders", "order.eu.paid")])
    assert not any("--exchange" in caveat for caveat in some.caveats)


def test_counts_of_another_topology_are_refused() -> None:
    with pytest.raises(InputError, match="another topology"):
        build_report(Topology(), TALLY, Sources("t"), NOW)
    with pytest.raises(InputError, match="another topology"):
        build_report(ORDERS, TALLY, Sources("t"), NOW, verification=Verification("0"))


def test_a_report_reads_no_clock() -> None:
    tally = tally_of(ORDERS, [Message("orders", "order.eu.paid")])
    assert build_report(ORDERS, tally, Sources("t"), NOW) == build_report(ORDERS, tally, Sources("t"), NOW)


def test_a_binding_that_rabbitmq_refuses_is_a_caveat() -> None:
    parts = [Exchange("d", "headers")], [Queue("q")]
    topology = Topology(*parts, [Binding.to_queue("d", "q", "", {"x-match": "banana"})])
    assert any("refuses to make 1 binding" in each for each in report_of(topology, [Message("d", "")]).caveats)
