"""Thresholds mean what they say, misspelt ones are errors, and ignoring a binding has a reason and an end."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.figures import to_percent
from bindings.archive.reading import Bad
from bindings.archive.sums import Span, Unread
from bindings.counts.changes import Changes, ChangeTotals
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import build_table, decode_tally
from bindings.counts.verification import Evidence, PlacementDifference, Verification
from bindings.report.build import Sources, build_report
from bindings.report.gates import count_misrouted, match_ignores
from bindings.report.model import Compared, Report
from bindings.report.settings import find_settings, load_settings, read_settings
from bindings.report.thresholds import Gate, Ignore, Limits, Settings, matches_glob, parse_quota
from exchange import Binding, Exchange, InputError, Message, Queue, Topology
from tests.support.bindings.reports import DAY, NOW, ORDERS, TALLY, hand_made, report_of
from tests.support.cases import with_each


def gates(report: Report) -> dict[tuple[str, str], Gate]:
    return {(gate.name, gate.scope): gate for gate in report.gates}


def with_bindings(hit: int, eligible: int, wanted: Any, precision: int = 1) -> Gate:
    """Return the gate of binding coverage for these numbers of bindings."""
    bindings = [Binding.to_queue("amq.direct", "q", str(n)) for n in range(eligible)]
    topology = Topology((), [Queue("q")], bindings)
    messages = [Message("amq.direct", str(n)) for n in range(hit)]
    settings = {"fail_under": wanted, "precision": precision}
    return gates(report_of(topology, messages, settings))["fail_under", ""]


@pytest.mark.parametrize(
    ("hit", "eligible", "wanted", "precision", "passes"),
    [
        (1, 2, 50, 1, True),
        (1, 2, Decimal("50.1"), 1, False),
        (2, 3, Decimal("66.7"), 1, True),  # 66.666 ..., which is shown as 66.7
        (2, 3, Decimal("66.7"), 2, False),  # and here as 66.67
        (2, 3, 67, 0, True),
        (999, 1000, 100, 0, False),  # 100 is never reached by rounding
        (1000, 1000, 100, 0, True),
        (0, 1, 0, 1, True),
    ],
)
def test_coverage_is_compared_as_it_is_shown(
    hit: int, eligible: int, wanted: Any, precision: int, passes: bool
) -> None:
    assert with_bindings(hit, eligible, wanted, precision).passed is passes


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.integers(0, 6))
def test_percentages_are_right_and_0_and_100_are_nothing_and_all(part: int, whole: int, precision: int) -> None:
    part = min(part, whole)
    shown = to_percent(part, whole, precision)
    assert (shown == 0) == (part == 0)
    assert (shown == 100) == (part == whole)
    assert abs(Fraction(shown) - Fraction(100 * part, whole)) <= Fraction(1, 10**precision)
    assert str(shown) == f"{shown:.{precision}f}"


def test_nothing_to_cover_is_covered() -> None:
    assert with_bindings(0, 0, 100).passed


@pytest.mark.parametrize(
    ("limit", "part", "whole", "allowed"),
    [
        ("10", 10, 10, True), ("10", 11, 10**6, False), ("0", 0, 0, True), ("0%", 0, 100, True),
        ("0%", 1, 10**9, False), ("0.1%", 1, 1000, True), ("0.1%", 2, 1999, False), ("33.3 %", 1, 3, False),
        ("100%", 3, 3, True), ("5%", 0, 0, True),
    ],
)  # fmt: skip
def test_a_limit_is_a_number_or_a_share_and_is_exact(limit: str, part: int, whole: int, allowed: bool) -> None:
    found = parse_quota(limit)
    assert found is not None
    assert found.allows(part, whole) is allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "5 of 7", "%", "1e3", "٣"])
def test_a_text_that_is_no_limit_gives_none(text: str) -> None:
    assert parse_quota(text) is None


def test_all_gates_of_the_hand_made_report() -> None:
    report = hand_made()
    assert [(gate.name, gate.passed) for gate in report.gates] == [
        ("fail_under", True), ("max_unroutable", False), ("max_bad", True), ("ignore", False),
    ]  # fmt: skip
    found = gates(report)
    assert found["fail_under", ""].message == "binding coverage is 75.0 % (3 of 4 bindings), wanted is 75 %"
    assert found["max_unroutable", ""].message == (
        "unroutable messages: 10 (10 %) of 100 messages, at most 5 % are allowed"
    )
    assert not report.passed
    assert report.exit_code == 1


def test_the_entry_with_the_very_name_of_an_exchange_goes_before_a_glob() -> None:
    topology = Topology(
        [Exchange("orders.eu", "direct"), Exchange("orders.us", "direct"), Exchange("other", "direct")], [Queue("q")],
        [Binding.to_queue(name, "q", "k") for name in ("orders.eu", "orders.us", "other")],
    )  # fmt: skip
    report = report_of(
        topology, [Message("orders.eu", "k"), Message("orders.eu", "lost")],
        {"exchanges": {
            "orders.*": {"fail_under": 100},
            "orders.us": {"fail_under": 0},
            "*": {"fail_under": 50, "max_unroutable": 0},
        }},
    )  # fmt: skip
    found = gates(report)
    assert {name: gate.passed for (_, name), gate in found.items()} == {
        "orders.eu": True, "orders.us": True, "other": False, "*": True,
    }  # fmt: skip
    # The first glob that fits counts, and with it what it does not limit.
    assert ("max_unroutable", "orders.eu") not in found


def test_a_limit_of_an_unknown_exchange_fails_and_of_a_glob_without_a_match_is_reported() -> None:
    limits = {"ordres": {"fail_under": 90}, "ordres.*": {"fail_under": 90}}
    found = gates(report_of(ORDERS, [], {"exchanges": limits}))
    assert not found["exchanges", "ordres"].passed
    assert "there is no exchange 'ordres'" in found["exchanges", "ordres"].message
    assert found["exchanges", "ordres.*"].passed


def test_partition_skew_is_limited_for_all_queues_and_for_some() -> None:
    for settings, passes in (
        ({"max_partition_skew": Decimal("2.6")}, False),
        ({"max_partition_skew": Decimal("2.7")}, True),
        ({"max_partition_skew": 1, "queues": {"aud*": {"max_partition_skew": 3}}}, True),
    ):
        report = build_report(ORDERS, TALLY, Sources("t"), NOW, settings=read_settings(settings, "f"))
        assert gates(report)["max_partition_skew", "audit"].passed is passes


def test_an_entry_ignores_until_the_end_of_its_day_and_then_fails() -> None:
    day = date(2026, 4, 10)  # of NOW
    for until, expired in ((day, False), (date(2026, 4, 9), True)):
        entry = Ignore("orders", "dlq", "*", "not used yet", until)
        report = build_report(ORDERS, TALLY, Sources("t"), NOW + DAY - 1, settings=Settings(ignore=(entry,)))
        assert report.passed is not expired
        assert report.bindings[3].state == ("dead" if expired else "ignored")
        assert report.ignored[0].expired is expired
        if expired:
            assert "until 2026-04-09" in report.gates[0].message


def test_of_several_entries_the_first_that_has_not_expired_ignores_a_binding() -> None:
    old, first, second = (
        Ignore("orders", "dlq", "*", reason, until)
        for reason, until in (("old", date(2020, 1, 1)), ("first", date(2030, 1, 1)), ("second", date(2030, 1, 1)))
    )
    binding = Binding.to_queue("orders", "dlq", "k")
    uses, ignored = match_ignores([old, first, second], {binding: False}, NOW)
    assert [(use.expired, use.bindings) for use in uses] == [(True, 1), (False, 1), (False, 1)]
    assert ignored[binding].entry is first


def test_an_entry_that_matches_nothing_is_reported_and_fails_nothing() -> None:
    entry = Ignore("gone", "*", "*", "an old one", date(2030, 1, 1))
    report = build_report(ORDERS, TALLY, Sources("t"), NOW, settings=Settings(ignore=(entry,)))
    assert report.ignored[0].bindings == 0
    assert report.passed


def test_an_entry_counts_the_ignored_bindings_that_were_hit() -> None:
    entry = Ignore("*", "billing", "*", "silent, they said", date(2030, 1, 1))
    report = build_report(ORDERS, TALLY, Sources("t"), NOW, settings=Settings(ignore=(entry,)))
    assert (report.ignored[0].bindings, report.ignored[0].hit) == (1, 1)
    assert report.summary.totals.eligible == 4


@pytest.mark.parametrize(
    ("glob", "name", "expected"),
    [
        ("*", "", True), ("a*", "a.b", True), ("A", "a", False), ("order.*", "order.*", True),
        ("order.*", "order.x", True),
        ("order.[*]", "order.x", False), ("order.[*]", "order.*", True), ("#", "#", True), ("#", "a", False),
        ("a", "ab", False), ("*\n*", "a\nb", True), ("*", "\udcff\n", True),
    ],
)  # fmt: skip
def test_globs_match_whole_names(glob: str, name: str, expected: bool) -> None:
    assert matches_glob(glob, name) is expected


def test_misrouted_and_rerouted_messages_can_be_limited() -> None:
    verification = Verification(
        compute_fingerprint(ORDERS), agreed=90,
        differences={
            PlacementDifference("orders", ("billing",)): Evidence(Span(4)),
            PlacementDifference("orders", unknown=("amq.gen-*",)): Evidence(Span(6)),
        },
    )  # fmt: skip
    assert count_misrouted(verification) == 4
    compared = Compared("b", "0", Changes(ChangeTotals(100, 8, 8, 0, 0, 0, 0, 0), (), (), (), (), ()))
    for settings, passes in (
        ({"max_misrouted": "4%", "max_rerouted": 8}, True),
        ({"max_misrouted": "3.9%", "max_rerouted": "7%"}, False),
    ):
        report = build_report(
            ORDERS, TALLY, Sources("t"), NOW,
            settings=read_settings(settings, "f"), verification=verification, comparison=compared,
        )  # fmt: skip
        assert [(gate.name, gate.passed) for gate in report.gates] == [
            ("max_misrouted", passes), ("max_rerouted", passes),
        ]  # fmt: skip


def test_no_limit_of_misrouted_messages_is_kept_where_nobody_knows_what_the_broker_did() -> None:
    for found, state in (
        (None, (True, "not counted")),
        (Verification(compute_fingerprint(ORDERS), unknown=100), (False, "unknown")),
        (Verification(compute_fingerprint(ORDERS), agreed=1, unknown=99), (True, "0")),
    ):
        settings = read_settings({"max_misrouted": 0}, "f")
        report = build_report(ORDERS, TALLY, Sources("t"), NOW, settings=settings, verification=found)
        assert [(gate.name, gate.passed, gate.actual) for gate in report.gates] == [("max_misrouted", *state)]


def test_a_limit_of_what_was_not_compared_is_no_silence() -> None:
    settings = read_settings({"max_misrouted": 0, "max_rerouted": "1%"}, "f")
    report = build_report(ORDERS, TALLY, Sources("t"), NOW, settings=settings)
    assert [(gate.passed, gate.message) for gate in report.gates] == [
        (True, "misrouted messages: not counted without --verify, so nothing is limited"),
        (True, "messages that go elsewhere: not counted without --compare, so nothing is limited"),
    ]


def test_each_threshold_is_a_gate() -> None:
    """Of a report that has all that a threshold can be about; one that is only read would never fail."""
    verification = Verification(compute_fingerprint(ORDERS), agreed=90)
    compared = Compared("b", "0", Changes(ChangeTotals(100, 8, 8, 0, 0, 0, 0, 0), (), (), (), (), ()))
    for name in Limits._fields:
        report = build_report(
            ORDERS, TALLY, Sources("t"), NOW,
            settings=read_settings({name: 1}, "f"), verification=verification, comparison=compared,
        )  # fmt: skip
        assert name in {gate.name for gate in report.gates}


WHOLE = """
[audit]
fail_under = 99.5
fail_under_messages = 90
max_unroutable = "0.5%"
max_bad = 100
max_partition_skew = 2.5
stale_days = 14
precision = 2

[audit.exchanges."orders*"]
fail_under = 100

[audit.queues.audit]
max_partition_skew = 4

[[audit.ignore]]
source = "orders"
pattern = "order.*.failed"
reason = "the yearly drill"
until = 2026-12-31
"""


def test_all_settings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "hashstar.toml"
    file.write_text(WHOLE)
    assert load_settings(file) == Settings(
        Limits(Decimal("99.5"), Decimal(90), parse_quota("0.5%"), parse_quota("100"), Decimal("2.5")),
        (("orders*", Limits(fail_under=Decimal(100))),),
        (("audit", Limits(max_partition_skew=Decimal(4))),),
        (Ignore("orders", "*", "order.*.failed", "the yearly drill", date(2026, 12, 31)),),
        14,
        2,
    )


def test_settings_are_found_in_either_file(tmp_path: Path) -> None:
    assert find_settings(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "hashstar.toml").write_text("[other]\n")
    assert find_settings(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[tool.hashstar.audit]\nfail_under = 10\n")
    assert find_settings(tmp_path) == tmp_path / "pyproject.toml"
    assert load_settings(tmp_path / "pyproject.toml").limits.fail_under == 10
    (tmp_path / "hashstar.toml").write_text("[audit]\n")
    assert find_settings(tmp_path) == tmp_path / "hashstar.toml"


IGNORE = {"source": "x", "reason": "r", "until": date(2030, 1, 1)}


@with_each(
    ("settings", "message"),
    [
        ({"fail_undr": 9}, "f.toml: audit.fail_undr: unknown setting; did you mean 'fail_under'?"),
        ({"colour": 9}, "f.toml: audit.colour: unknown setting; known: fail_under,"),
        ({"fail_under": 101}, "f.toml: audit.fail_under: expected a percentage from 0 to 100, not 101"),
        ({"fail_under": "90"}, "f.toml: audit.fail_under: expected a percentage"),
        ({"fail_under": True}, "f.toml: audit.fail_under: expected a percentage"),
        ({"fail_under": Decimal("NaN")}, "f.toml: audit.fail_under: expected a percentage"),
        ({"max_unroutable": Decimal("0.5")}, 'expected a whole number such as 100, or a share such as "0.5%", not 0.5'),
        ({"max_bad": -1}, "audit.max_bad: expected a whole number"),
        ({"max_partition_skew": 0}, "max_partition_skew: expected the fullest partition divided by the mean"),
        ({"stale_days": 0}, "audit.stale_days: expected a whole number from 1 to 100,000, not 0"),
        ({"exchanges": 1}, "audit.exchanges: expected a table"),
        ({"exchanges": {"a b": {"max_bad": 1}}}, 'audit.exchanges."a b".max_bad: unknown setting'),
        ({"queues": {"q": {"fail_under": 1}}}, "audit.queues.q.fail_under: unknown setting"),
        ({"ignore": IGNORE}, "audit.ignore: expected a list of tables"),
        ({"ignore": [IGNORE | {"source": 7}]}, "audit.ignore[0].source: expected a text, not 7"),
        ({"ignore": [{"reason": "r"}]}, "audit.ignore[0]: names no binding"),
        ({"ignore": [IGNORE, {"source": "x", "until": date(2030, 1, 1)}]}, "audit.ignore[1]: reason is missing"),
        ({"ignore": [IGNORE | {"reason": " "}]}, "audit.ignore[0].reason: expected a text"),
        ({"ignore": [{"source": "x", "reason": "r"}]}, "audit.ignore[0]: until is missing"),
        ({"ignore": [IGNORE | {"until": "soon"}]}, "audit.ignore[0].until: expected a day such as 2030-12-31"),
        ({"ignore": [IGNORE | {"untill": 1}]}, "audit.ignore[0].untill: unknown setting; did you mean 'until'?"),
        (7, "f.toml: audit: expected a table, not 7"),
    ],
)  # fmt: skip
def test_errors_name_the_file_the_key_and_the_way_out(settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_settings(settings, "f.toml")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    file = tmp_path / "hashstar.toml"
    with pytest.raises(InputError, match=r"hashstar\.toml: cannot be read"):
        load_settings(file)
    file.write_text("[audit\n")
    with pytest.raises(InputError, match=r"hashstar\.toml:1:[0-9]+: not TOML"):
        load_settings(file)
    file.write_text("[other]\n")
    with pytest.raises(InputError, match=r"hashstar\.toml: there is no \[audit\] in it"):
        load_settings(file)


def test_no_percentage_of_bad_records_is_kept_by_damage_of_unknown_size() -> None:
    """The rows that a damaged row group has are counted; those behind the damage of a gzipped file cannot be."""
    lost = Bad("a.parquet", 0, "damaged", records=40)
    for limit, bad, actual, passes in (
        ("50%", (lost,), "40 (40 %)", True),
        ("1%", (lost,), "40 (40 %)", False),
        ("50%", (lost, lost._replace(records=None)), "unknown", False),
        ("1%", (lost, lost._replace(records=None)), "41 (40.594 %)", False),
        ("100%", (lost._replace(records=None),), "1 (1.639 %)", True),
        (50, (lost, lost._replace(records=None)), "41 (40.594 %)", True),
    ):
        unread = Unread()
        for each in bad:
            unread.add_bad(each)
        tally = tally_with(unread, 60)
        found = gates(build_report(ORDERS, tally, Sources("t"), NOW, settings=read_settings({"max_bad": limit}, "f")))
        assert (found["max_bad", ""].actual, found["max_bad", ""].passed) == (actual, passes), found["max_bad", ""]
        table = decode_tally(build_table(tally))
        assert bool(table.unread.uncounted) is any(each.records is None for each in bad)


def tally_with(unread: Unread, messages: int) -> Tally:
    """Return a tally of this many skipped records and of these bad ones."""
    return Tally(compute_fingerprint(ORDERS), unread=replace(unread, skipped=Counter({"no message": messages})))


def test_each_threshold_of_each_entry_that_fits_a_name_has_a_gate() -> None:
    """Also one that has nothing to limit: no partitions, no bindings, no messages. It passes, and says so."""
    topology = Topology([Exchange("idle", "topic")], [Queue("q")], ())
    limits: dict[str, Any] = {"fail_under": 90, "fail_under_messages": 90, "max_unroutable": "1%"}
    settings = {
        "max_partition_skew": 2, "queues": {"q*": {"max_partition_skew": 2}, "q": {"max_partition_skew": 3}},
        "exchanges": {"i*": limits, "idle": limits},
    }  # fmt: skip
    found = gates(report_of(topology, [], settings))
    for name, scope, of, limit in (
        ("max_partition_skew", "", "queue", "2"), ("max_partition_skew", "q*", "queue", "2"),
        ("max_partition_skew", "q", "queue", "3"), ("fail_under", "i*", "exchange", "90 %"),
        ("fail_under_messages", "idle", "exchange", "90 %"), ("max_unroutable", "i*", "exchange", "1 %"),
    ):  # fmt: skip
        gate = found[name, scope]
        assert (gate.limit, gate.actual, gate.passed) == (limit, "none", True)
        assert gate.message.startswith(f"no {of} ")
        assert gate.message.endswith(", so nothing is limited")
