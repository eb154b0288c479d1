"""Past the limit of outcomes, groups of messages are counted: the report is the same, however messages were divided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.inspection import Account
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.local.tasks import Results, add_results, encode_results
from bindings.counts import groups as grouping
from bindings.counts import tally as tallies
from bindings.counts.adding import sum_by_key
from bindings.counts.columnar import counting
from bindings.counts.columnar.counting import Tallier
from bindings.counts.coverage import coverage
from bindings.counts.groups import MessageGroup, add_to_groups, find_sole_bindings, group_facts
from bindings.counts.outcome import Facts, Outcome, OutcomeExplorer, sort_bindings
from bindings.counts.sketch import Frequent, FrequentItem, hash_of
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import build_table, check_fit, decode_tally, load_tally, save_tally
from bindings.report.build import Sources, build_report
from bindings.report.forms.as_json import encode_json
from bindings.report.forms.tables import to_tables
from bindings.report.thresholds import Limits, Settings, parse_quota
from exchange import LATEST_PROFILE, Binding, Exchange, InputError, Message, Queue, Topology
from tests.bindings.counts.test_tally import records_for, slow_tally, tally_in_parts
from tests.support import topologies
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)


def list_groups(outcome: Outcome, topology: Topology) -> Iterator[MessageGroup]:
    """Yield the groups of messages with an outcome, as `MessageGroup` describes them."""
    bindings = sort_bindings(topology)
    names = {"queue": topology.queues.keys(), "exchange": topology.exchanges.keys()}
    for number in outcome.bindings:
        source, end = bindings[number].source, bindings[number].destination
        yield MessageGroup("binding", number=number)
        if end.kind == "queue":
            yield MessageGroup("way to queue", source, end.name)
            if end.name in topology.queues:
                yield MessageGroup("bound queue", end.name)
        else:
            yield MessageGroup("way to exchange", source, end.name)
    for number in outcome.possible_bindings:
        source, end = bindings[number].source, bindings[number].destination
        yield MessageGroup("possible binding", number=number)
        yield MessageGroup(
            "possible way to queue" if end.kind == "queue" else "possible way to exchange", source, end.name
        )
    for number in find_sole_bindings([outcome], bindings).values.tolist():
        yield MessageGroup("sole binding", number=number)
    for name in outcome.queues:
        yield MessageGroup("queue", name)
        if not outcome.exchange:
            yield MessageGroup("default way", "", name)
    for name in outcome.possible_queues:
        yield MessageGroup("possible queue", name)
    for name in outcome.exchanges:
        yield MessageGroup("passed exchange", name)
    for link in outcome.alternates:
        yield MessageGroup("alternate", *link)
    for link in outcome.possible_alternates:
        yield MessageGroup("possible alternate", *link)
    yield MessageGroup("exchange", outcome.exchange)
    yield MessageGroup("fate", outcome.exchange, outcome.fate)
    yield MessageGroup("fan-out", outcome.exchange, number=len(outcome.queues))
    if outcome.routed is False:
        yield MessageGroup("lost", outcome.exchange, outcome.refused)
        going_on = {
            bindings[number].source
            for number in outcome.bindings
            if bindings[number].destination.name in names[bindings[number].destination.kind]
        }
        going_on |= {link.exchange for link in outcome.alternates if link.alternate in topology.exchanges}
        for name in [each for each in outcome.exchanges if each not in going_on] or [outcome.exchange]:
            yield MessageGroup("end", name)


KEPT: dict[str, tuple[str, ...]] = {
    "binding": ("keys",), "queue": ("keys", "hot"), "exchange": ("keys", "hot"), "alternate": ("shapes",),
    "lost": ("shapes", "sample"),
}  # fmt: skip
"""Kind of a group -> what is kept of its messages beside their span."""


def slow_groups(facts: Mapping[Outcome, Facts], topology: Topology) -> dict[MessageGroup, Facts]:
    """Return the groups of outcomes, added up outcome by outcome."""
    parts = []
    for outcome, each in facts.items():
        for group in {*list_groups(outcome, topology)}:
            kept = {name: getattr(each, name) for name in KEPT.get(group.group, ())}
            parts.append((group, Facts(each.span, **kept)))
    return sum_by_key(parts)


@examples(20)
@given(SEED)
def test_groups_have_the_facts_of_all_outcomes_that_are_in_them(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    tally = tally_in_parts(Tallier(topology), records_for(rng, topology, 20), 100)
    assert exact(dict(group_facts(tally.facts, topology))) == exact(slow_groups(tally.facts, topology))


def test_frequent_keys_of_a_group_are_those_of_its_outcomes_together() -> None:
    topology = make_fan(2)
    facts = {
        Outcome("x", ("q0",), (0,), ("x",), (), True): Facts(Span(3), hot=Frequent((FrequentItem("a", 3),))),
        Outcome("x", ("q0", "q1"), (0, 1), ("x",), (), True): Facts(Span(4), hot=Frequent((FrequentItem("b", 4),))),
    }
    found = group_facts(facts, topology)
    assert [item[:2] for item in found[MessageGroup("queue", "q0")].hot.items] == [("b", 4), ("a", 3)]
    assert [item[:2] for item in found[MessageGroup("queue", "q1")].hot.items] == [("b", 4)]
    assert [item[:2] for item in found[MessageGroup("exchange", "x")].hot.items] == [("b", 4), ("a", 3)]
    assert found[MessageGroup("binding", number=0)].hot == Frequent()


@examples(20)
@given(SEED)
def test_groups_of_more_frequent_keys_than_are_kept_are_the_same_in_whatever_order_outcomes_were_met(seed: int) -> None:
    rng, topology = Random(seed), make_fan(5)
    facts = {
        Outcome("x", (f"q{n}", f"q{m}"), (n, m), ("x",), (), True): Facts(
            Span(99), hot=Frequent(tuple([FrequentItem(f"{n}{m}.{item}", rng.randint(1, 9)) for item in range(30)]))
        )
        for n in range(5) for m in range(n + 1, 5)
    }  # fmt: skip
    met = dict(rng.sample([*facts.items()], len(facts)))
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, 1)
        assert dict(add_to_groups({}, met, topology)) == dict(add_to_groups({}, facts, topology))


@examples(10)
@given(SEED)
def test_a_counter_makes_the_same_windows_whatever_it_has_counted_before(seed: int) -> None:
    rng, topology = Random(seed), make_fan(3)
    earlier, records = records_for(rng, topology, 30), records_for(rng, topology, 30)
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, 2)
        patch.setattr(counting, "OUTCOMES", 1)
        counted: list[int] = []
        count = Tallier._count_rows

        def note(counter: Tallier, batch: Any, addresses: Any) -> None:
            counted.append(batch.num_rows)
            count(counter, batch, addresses)

        patch.setattr(Tallier, "_count_rows", note)
        experienced = Tallier(topology)
        tally_in_parts(experienced, earlier, 7)
        for counter in (experienced, Tallier(topology)):
            counted.append(0)
            tally_in_parts(counter, records, 7)
    begin = counted.index(0)
    [after, alone] = ",".join(map(str, counted[begin + 1 :])).split(",0,")
    assert after == alone


def make_fan(number: int) -> Topology:
    """Return a topology in which a key of N words takes any of the bindings: word n is ``y`` for binding n."""
    patterns = [".".join("y" if word == n else "*" for word in range(number)) for n in range(number)]
    return Topology(
        [Exchange("x", "topic")],
        [Queue(f"q{n}") for n in range(number)],
        [Binding.to_queue("x", f"q{n}", pattern) for n, pattern in enumerate(patterns)],
    )


def limit(patch: pytest.MonkeyPatch, outcomes: int) -> None:
    """Set the limit of outcomes, and let a counter forget them as early, after windows of a few rows."""
    patch.setattr(tallies, "OUTCOMES", outcomes)
    patch.setattr(counting, "MOST_OUTCOMES", outcomes)
    patch.setattr(counting, "WINDOW", 4)
    patch.setattr(grouping, "PIECE", 3)


def study_of(topology: Topology) -> CoverageStudy:
    return CoverageStudy(topology)


def describe(tally: Tally, topology: Topology) -> tuple[Any, ...]:
    """Return what a report shows exactly."""
    report = build_report(topology, replace(exact(tally), unread=tally.unread), Sources("t"), 0)
    rows = [row._replace(shapes=()) for row in report.unroutable]
    return report.summary, report.bindings, report.queues, report.exchanges, rows, report.timeline, report.flow


@examples(20)
@given(SEED, st.integers(0, 6), st.integers(1, 9))
def test_a_report_is_the_same_whatever_the_limit_of_outcomes_is(seed: int, most: int, chunk: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 15)
    whole = slow_tally(topology, records)
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, most)
        found = tally_in_parts(Tallier(topology), records, chunk)
        assert bool(found.groups) == (len(whole.facts) > most)
        assert not (found.groups and found.facts)
        assert found.messages == whole.messages
        assert found.window == whole.window
        assert describe(found, topology) == describe(whole, topology)


@examples(20)
@given(SEED, st.integers(0, 12), st.integers(1, 4))
def test_a_tally_depends_neither_on_the_parts_of_an_archive_nor_on_their_order(seed: int, most: int, jobs: int) -> None:
    """In this process, in several, on workers of Spark, from files: all add tallies, some of them sent as tables."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 10)
    study = study_of(topology)
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, most)
        patch.setattr(grouping, "MAX_NAMES", 1)
        whole = tally_in_parts(study.counter(), records, len(records))
        parts = [tally_in_parts(study.counter(), records[n::jobs], rng.randint(1, 20)) for n in range(jobs)]
        here = sum(parts, study.zero())
        assert exact(here) == exact(whole)
        rng.shuffle(parts)
        sent = [encode_results(n, Results((each,), Account()), [study]) for n, each in enumerate(parts)]
        assert exact(add_results(sent, [study])[1].values[0]) == exact(whole)
        pairs = [sum(parts[:1], study.zero()), sum(parts[1:], study.zero())]
        assert exact(pairs[1] + pairs[0]) == exact(whole)
        # Heavy hitters, too, are those of the same work by a counter that counted something else before.
        one, experienced = tally_in_parts(study.counter(), records, 7), study.counter()
        tally_in_parts(experienced, rng.sample(records, 9), 5)
        assert tally_in_parts(experienced, records, 7) == one


@examples(15)
@given(SEED, st.integers(0, 3))
def test_a_tally_of_groups_is_read_back_and_believed(seed: int, most: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, most)
        patch.setattr(grouping, "MAX_NAMES", 1)
        tally = tally_in_parts(Tallier(topology), records_for(rng, topology, 20), 9)
    again = decode_tally(build_table(tally))
    assert again == tally
    check_fit(again, topology, "f")


def test_a_saved_tally_of_groups_says_so_by_its_version_and_others_are_as_before(tmp_path: Path) -> None:
    topology = make_fan(3)
    tally = tally_in_parts(Tallier(topology), [Record(Message("x", key), 5) for key in ("y.n.n", "n.y.n", "y.y.y")], 9)
    grouped = replace(tally, facts={}, groups=group_facts(tally.facts, topology))
    save_tally(grouped, tmp_path / "t")
    assert load_tally(tmp_path / "t") == grouped
    assert build_table(grouped).schema.metadata[b"hashstar.tally"] == b"3"
    assert build_table(tally).schema.metadata[b"hashstar.tally"] == b"2"


FAN = make_fan(2)
GROUPS = slow_groups({Outcome("x", ("q0",), (0,), ("x",), (), True): Facts(Span(2, 1, 3))}, FAN)
ONE = Facts(Span(1))


@pytest.mark.parametrize(
    "changed",
    [
        {MessageGroup("binding", number=2): ONE},
        {MessageGroup("sole binding", number=1): ONE},
        {MessageGroup("sole binding", number=0): Facts(Span(3))},
        {MessageGroup("binding", number=1): Facts(Span(3))},
        {MessageGroup("queue", "nothing"): ONE},
        {MessageGroup("possible queue", "nothing"): ONE},
        {MessageGroup("passed exchange", "nowhere"): ONE},
        {MessageGroup("bound queue", "q1"): ONE},
        {MessageGroup("exchange", "x"): ONE},
        {MessageGroup("exchange", "nowhere"): ONE},
        {MessageGroup("fate", "x", "unroutable"): ONE},
        {MessageGroup("fan-out", "x", number=2): ONE},
        {MessageGroup("lost", "x"): Facts(Span(3))},
        {MessageGroup("way to queue", "amq.topic", "q0"): ONE},
        {MessageGroup("default way", "", "q1"): ONE},
        {MessageGroup("anything"): ONE},  # type: ignore[arg-type]
    ],
)
def test_groups_that_no_messages_have_are_refused(changed: dict[MessageGroup, Facts]) -> None:
    tally = Tally(compute_fingerprint(FAN), groups=GROUPS)
    check_fit(tally, FAN, "f")
    with pytest.raises(InputError, match=r"^f: a damaged tally: (a|an|more) "):
        check_fit(replace(tally, groups=GROUPS | changed), FAN, "f")


def test_a_tally_has_either_outcomes_or_groups() -> None:
    facts = {Outcome("x", ("q0",), (0,), ("x",), (), True): ONE}
    with pytest.raises(InputError, match="outcomes beside groups"):
        check_fit(Tally(compute_fingerprint(FAN), facts, groups=GROUPS), FAN, "f")


def test_groups_of_more_messages_than_can_be_counted_are_damage() -> None:
    groups = {MessageGroup("exchange", name): Facts(Span(2**62)) for name in ("x", "amq.topic")}
    with pytest.raises(InputError, match="more messages than can be counted"):
        decode_tally(build_table(Tally(compute_fingerprint(FAN), groups=groups)))


NAMES = [*[f"nowhere-{n}" for n in range(8)], "*"]


def count_unnamed(topology: Topology, names: list[str], chunk: int) -> Tally:
    """Return the sum of two tallies of two messages to each of these exchanges, of which three keep their names."""
    records = [Record(Message(name, "a"), 10**6 * n) for name in names for n in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, 1)
        patch.setattr(grouping, "MAX_NAMES", 3)
        cut = min(chunk, len(records))
        return tally_in_parts(Tallier(topology), records[:cut], chunk) + tally_in_parts(
            Tallier(topology), records[cut:], chunk
        )


@examples(15)
@given(st.permutations(NAMES), st.integers(1, 18), st.sampled_from(["x", "*"]))
def test_of_many_exchanges_that_are_not_there_some_have_rows_and_one_row_has_all_others(
    order: list[str], chunk: int, exchange: str
) -> None:
    """Also where an exchange of the topology, or one that messages are published to, has the name of that row."""
    topology = Topology([Exchange(exchange, "topic")], [Queue("q")], [Binding.to_queue("gone", "q", "#")])
    unnamed = [name for name in NAMES if name != exchange]
    kept = sorted({*unnamed} - {"*"}, key=lambda name: hash_of(name.encode()))[:3]
    others = "**" if exchange == "*" else "*"
    tally = count_unnamed(topology, [*order, "gone"], chunk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "MAX_NAMES", 3)
        report = build_report(topology, tally, Sources("t"), 0)
    refused = {row.use.exchange: row.use.refused for row in report.exchanges if row.use.refused}
    assert refused == dict.fromkeys([*kept, "gone"], 2) | {others: 2 * (len(unnamed) - 3)}
    lost = {row.exchange: row.messages for row in report.unroutable}
    assert lost == refused | ({"*": 2} if exchange == "*" else {})
    assert report.timeline is not None
    assert report.timeline.counts.keys() == lost.keys()
    assert sum(tally.timeline.counts.values()) == 20
    assert any(f"'{others}' stands for all others" in caveat for caveat in report.caveats)


@examples(15)
@given(st.permutations(NAMES[-5:]), st.integers(0, 5), st.integers(1, 10))
def test_how_names_are_counted_depends_on_all_of_them_alone(order: list[str], number: int, chunk: int) -> None:
    assert exact(count_unnamed(FAN, order[:number], chunk)) == exact(count_unnamed(FAN, sorted(order[:number]), 9))


def test_a_message_to_an_exchange_of_that_name_alone_stands_for_itself() -> None:
    tally = count_unnamed(FAN, ["*", "a", "b"], 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "MAX_NAMES", 3)
        report = build_report(FAN, tally, Sources("t"), 0)
    assert not any("stands for" in caveat for caveat in report.caveats)
    assert {row.use.exchange: row.use.refused for row in report.exchanges if row.use.refused} == {
        "*": 2,
        "a": 2,
        "b": 2,
    }


@pytest.mark.parametrize(
    ("glob", "limits", "passed"),
    [
        ("nowhere-*", Limits(max_unroutable=parse_quota("9")), False),
        ("nowhere-*", Limits(fail_under_messages=Decimal(0)), False),
        ("nowhere-*", Limits(fail_under=Decimal(1)), True),
        ("x", Limits(max_unroutable=parse_quota("0")), True),
    ],
)
def test_no_threshold_is_kept_by_messages_whose_exchange_is_not_known(glob: str, limits: Limits, passed: bool) -> None:
    settings = Settings(exchanges=((glob, limits),))
    tally = count_unnamed(FAN, NAMES, 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "MAX_NAMES", 3)
        gates = build_report(FAN, tally, Sources("t"), 0, settings=settings).gates
    assert [gate.actual for gate in gates if not gate.passed and gate.actual == "unknown"] == ["unknown"] * (not passed)


def keys_of(number: int) -> list[str]:
    """Return all keys of so many words, each ``y`` or ``n``: each key has an outcome of its own in `make_fan`."""
    return [".".join("y" if code >> word & 1 else "n" for word in range(number)) for code in range(1 << number)]


def test_a_report_says_that_outcomes_were_too_many_to_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = make_fan(4)
    records = [Record(Message("x", key), 5) for key in keys_of(4)]
    sentence = "Messages took more than 65,536 combinations of bindings and queues"
    few = build_report(topology, tally_in_parts(Tallier(topology), records, 9), Sources("t"), 0)
    assert not any(caveat.startswith(sentence) for caveat in few.caveats)
    limit(monkeypatch, 15)
    many = build_report(topology, tally_in_parts(Tallier(topology), records, 9), Sources("t"), 0)
    assert [caveat.startswith(sentence) for caveat in many.caveats].count(True) == 1
    assert json.loads(encode_json(many))["caveats"] == [*many.caveats]
    for table in to_tables(many).values():
        assert json.loads(table.schema.metadata[b"hashstar.caveats"]) == [*many.caveats]


def test_a_counter_keeps_no_more_outcomes_than_the_limit_and_those_of_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = make_fan(7)
    limit(monkeypatch, 10)
    monkeypatch.setattr(counting, "LIGHT_WINDOWS", 1)
    counter = Tallier(topology)
    most = 0
    for key in keys_of(7):
        counter.add(build_batch([Record(Message("x", key), 5)]))
        most = max(most, len(counter._classifier.outcomes), len(counter._total.facts))
    assert most <= 2 * 10 + 4
    tally = counter.result()
    assert not tally.facts
    assert tally.messages == 128
    assert len(tally.groups) < 8 * 7 + 20


def test_the_binding_that_almost_matched_is_found_by_a_key_where_outcomes_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology = Topology(
        [Exchange("x", "topic"), Exchange("h", "headers")],
        [Queue("q")],
        [Binding.to_queue("x", "q", "order.*.paid"), Binding.to_queue("h", "q", "", {"a": 1})],
    )
    lost = [("x", "order.eu.payed"), ("h", "order"), ("no", "a")]
    records = [Record(Message(*each), 5) for each in lost]
    kept = build_report(topology, tally_in_parts(Tallier(topology), records, 9), Sources("t"), 0)
    limit(monkeypatch, 0)
    grouped = build_report(topology, tally_in_parts(Tallier(topology), records, 9), Sources("t"), 0)
    assert grouped.unroutable == kept.unroutable
    (shape,) = next(row for row in grouped.unroutable if row.exchange == "x").shapes
    assert shape.nearest is not None
    assert shape.nearest.reason == "word 3 is 'payed', it wants 'paid'"


def test_an_outcome_is_what_the_router_says_also_after_outcomes_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = make_fan(3)
    limit(monkeypatch, 2)
    counter = Tallier(topology)
    tally = tally_in_parts(counter, [Record(Message("x", key), 5) for key in keys_of(3) * 3], 2)
    explorer = OutcomeExplorer(topology)
    got = [queue for key in keys_of(3) for queue in explorer.outcome(Message("x", key)).queues]
    assert {use.queue: use.messages for use in coverage(tally, topology).queues} == {
        queue: 3 * got.count(queue) for queue in topology.queues
    }
