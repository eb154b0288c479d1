"""Every form of a report has the report's numbers, whatever characters names and keys have."""

from __future__ import annotations

import json
import re
import string
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.figures import EARLIEST_TIME, LATEST_TIME, format_minute, format_share, format_time
from bindings.archive.names import unescape
from bindings.archive.record import Record, build_batch
from bindings.checking.check import check
from bindings.counts.changes import list_changes
from bindings.counts.columnar.comparing import Comparer
from bindings.counts.columnar.verifying import Verifier
from bindings.diffing.planning.step import describe_part
from bindings.drawing.drawing import draw
from bindings.drawing.text import to_text as picture
from bindings.report.build import Sources, build_report
from bindings.report.forms import FORMS
from bindings.report.forms.as_json import encode_json, to_json
from bindings.report.forms.junit import to_junit
from bindings.report.forms.markdown import to_markdown
from bindings.report.forms.tables import TABLES, to_tables, write_tables
from bindings.report.forms.terminal.text import to_text
from bindings.report.forms.totals import to_totals
from bindings.report.model import Compared, Report
from bindings.sources.document import Document
from bindings.sources.files import save_form
from exchange import LATEST_PROFILE, Binding, Exchange, InputError, Message, Queue, Router, Topology
from exchange.commands.output import print_form
from exchange.kinds.headers import HeadersExchange as HeadersKind
from exchange.text.display import clip_line, count_noun, escape_line
from tests.support import topologies
from tests.support.bindings.reports import NOW, SETTINGS, START, hand_made, report_of, tally_of
from tests.support.documented import fields_of, words_of
from tests.support.tiers import examples

GOLDEN = Path(__file__).with_name("hand_made.json")

ODD = (
    "[bold]", "[/]", "[link=x]", "a\x1b[31mb", "\udcff\udc80", "\ud800", "new\nline", "\r", "\0", "￾", "\x7f\x85\u2028",
    "`|`", "``", "<b>&amp;</b>", "]]>", '"', "'", "\\", "日本語", "😀", "é", "x" * 240, "a b", "...", "",
    "</script>", "*", "#", "\u202eabc", "=1+1",
)  # fmt: skip
"""Names that some form might stumble over."""


def odd(names: tuple[str, ...] = ODD) -> Report:
    """Exchanges, queues, bindings and keys of these names; hit, dead, unroutable and refused."""
    exchanges = [Exchange(f"x{name}", "topic") for name in names]
    queues = [Queue(name) for name in names if name]
    bindings = [Binding.to_queue(f"x{name}", name, name) for name in names if name]
    bindings += [Binding.to_queue(f"x{name}", name, f"dead.{name}", {name: name}) for name in names if name]
    topology = Topology(exchanges, queues, bindings)
    messages = [
        Message(exchange, key) for name in names for exchange, key in ((f"x{name}", name), (f"x{name}", f"{name}x"))
    ]
    messages += [Message(f"y{name}", name) for name in names]
    ignore = {"destination": "😀", "reason": "[bold]\x1b|`", "until": "2030-01-01"}
    return report_of(
        topology, messages, {"ignore": [ignore], "fail_under": 100, "exchanges": {"*": {"fail_under": 100}}}
    )


def compared(rng: Random) -> Report:
    """With what a broker did and another topology, all at random."""
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "headers", "x-random"))
    before, after = topologies.topology(rng, LATEST_PROFILE, kinds), topologies.topology(rng, LATEST_PROFILE, kinds)
    messages = [topologies.message(rng, before) for _ in range(30)]
    queues = [*before.queues, "amq.gen-x", "stranger"]
    records = [Record(m, START, routed_queues=tuple(rng.sample(queues, rng.randrange(3)))) for m in messages]
    verifier = Verifier(before)
    verifier.add(build_batch(records))
    comparer = Comparer(before, after)
    comparer.add(build_batch(records))
    return build_report(
        before, tally_of(before, messages), Sources("before"), NOW, settings=SETTINGS, findings=check(before),
        verification=verifier.result(),
        comparison=Compared("after", "0", list_changes(comparer.result(), before, after)),
    )  # fmt: skip


def test_the_json_is_the_golden_one() -> None:
    found = json.loads(encode_json(hand_made()))
    assert found["audited"]["topology"].pop("fingerprint") == hand_made().audited.fingerprint
    assert found == json.loads(GOLDEN.read_text())


def test_the_json_holds_any_name() -> None:
    report = odd()
    found = json.loads(encode_json(report).decode("utf-8"))
    assert [row["source"] for row in found["bindings"]] == [row.use.binding.source for row in report.bindings]
    assert [row["routing_key"] for row in found["bindings"]] == [row.use.binding.routing_key for row in report.bindings]


def test_every_field_of_the_json_is_documented() -> None:
    named_by_user = {"arguments", "headers", "properties", "message"}
    found = fields_of(to_json(hand_made()), named_by_user)
    for seed in range(5):
        found |= fields_of(to_json(compared(Random(seed))), named_by_user)
    # A finding's part is as `hashstar check` has it.
    assert found - {"kind", "name"} <= words_of("audit-json.md")


def cases(document: bytes) -> dict[str, list[ET.Element]]:
    """Return the cases of each suite."""
    return {suite.attrib["name"]: suite.findall("testcase") for suite in ET.fromstring(document)}  # noqa: S314


def test_junit_has_a_case_for_each_binding_and_each_gate() -> None:
    found = cases(to_junit(hand_made()))
    assert list(found) == ["exchange orders", "gates"]
    assert [(case.attrib["name"], [child.tag for child in case]) for case in found["exchange orders"]] == [
        ("'order.#' -> queue 'audit'", []),
        ("'order.eu.*' -> queue 'audit'", []),
        ("'order.*.paid' -> queue 'billing'", []),
        ("'order.*.failed' -> queue 'dlq'", ["skipped"]),
        ("'order.year.#' -> queue 'yearly'", ["skipped"]),
    ]
    dead = "nothing matched it in 99 messages through orders; with 95 % confidence at most 3.0 % do"
    assert found["exchange orders"][3][0].attrib == {"message": f"dead: {dead}"}
    assert [(case.attrib["name"], len(case)) for case in found["gates"]] == [
        ("fail_under", 0), ("max_unroutable", 1), ("max_bad", 0), ("ignore destination 'dlq'", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "dead_fail"),
    [
        ({}, False),
        ({"fail_under": 100}, True),
        ({"fail_under": 10}, False),
        ({"max_unroutable": "0"}, False),
        ({"exchanges": {"orders": {"fail_under": 100}}}, True),
        ({"exchanges": {"others": {"fail_under": 100}}}, False),
    ],
)
def test_junit_has_failures_exactly_where_the_audit_fails(settings: dict[str, Any], dead_fail: bool) -> None:
    """A dead binding is one only where a gate of coverage that counts it failed; the gate is one itself."""
    bindings = [Binding.to_queue(source, "q", key) for source in ("orders", "others") for key in ("a", "b")]
    topology = Topology([Exchange("orders", "topic"), Exchange("others", "topic")], [Queue("q")], bindings)
    messages = [Message("orders", "a"), Message("orders", "c"), *(Message("others", key) for key in "ab")]
    report = report_of(topology, messages, settings)
    found = cases(to_junit(report))
    failed = [case.attrib["name"] for case in found["exchange orders"] if case.find("failure") is not None]
    assert failed == (["'b' -> queue 'q'"] if dead_fail else [])
    assert [len(case) for case in found["exchange orders"]] == [0, 1]
    assert any(case.find("failure") is not None for each in found.values() for case in each) is not report.passed
    for gate, case in zip(report.gates, found["gates"], strict=True):
        assert (case.find("failure") is None) is gate.passed


def test_junit_is_what_its_readers_expect() -> None:
    """The order of elements, the attributes and their types as in the schemas of Ant and Jenkins; names are unique."""
    for report in (hand_made(), odd()):
        root = ET.fromstring(to_junit(report))  # noqa: S314
        assert (root.tag, root.attrib) == ("testsuites", {})
        for number, suite in enumerate(root):
            assert suite.tag == "testsuite"
            assert suite.attrib["id"] == str(number)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
            tags = [child.tag for child in suite]
            assert tags == ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]
            found = suite.findall("testcase")
            assert int(suite.attrib["tests"]) == len(found)
            for tag in ("failure", "skipped"):
                name = {"failure": "failures", "skipped": "skipped"}[tag]
                assert int(suite.attrib[name]) == sum(case.find(tag) is not None for case in found)
            names = [case.attrib["name"] for case in found]
            assert len(set(names)) == len(names)
            assert all({"name", "classname", "time"} == set(case.attrib) and len(case) <= 1 for case in found)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_gets_no_line_that_is_too_long_and_no_control_character(width: int) -> None:
    for report in (hand_made(), odd(), compared(Random(1))):
        *lines, verdict = to_text(report, width=width).splitlines()
        assert max(cells(line) for line in lines) <= width
        assert all(line.isprintable() for line in [*lines, verdict])


def cells(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(line)


def test_the_terminal_shows_names_as_they_are() -> None:
    text = re.sub(r"\s+", "", to_text(odd(), width=120, listed=1000))
    for name in ("[bold]", "[/]", "[link=x]", "\\x1b[31m", "\\udcff\\udc80", "new\\nline", "日本語", "</script>"):
        assert name in text


def test_the_terminal_shows_totals_dead_bindings_nearest_bindings_and_ends_with_the_verdict() -> None:
    lines = to_text(hand_made(), width=100).splitlines()
    text = "\n".join(lines)
    assert re.search(r"binding coverage +\S+ +75.0 % +3 of 4 hit, 1 dead, 1 ignored", text)
    assert re.search(r"message coverage +\S+ +90.0 % +90 of 100 routed, 9 unroutable, 1 refused", text)
    assert re.search(r"0 of 99 +3.0 % +orders -> dlq: 'order.\*.failed'", text)
    assert "nearest: 'order.eu.*' -> audit: word 1 is 'ordr', it wants 'order'" in text
    assert "the exchange is called 'ordres', there is 'orders'" in text
    assert re.search(r"max/mean 2.67, top 67 %, Gini 0.53", text)
    assert lines[-1] == "FAILED 2 of 4 gates; bindings hit: 3 of 4 (75.0 %); messages routed: 90 of 100 (90.0 %)"


def test_lists_are_bounded_and_count_the_rows_that_they_leave_out() -> None:
    bindings = [Binding.to_queue("amq.direct", "q", f"{n:03}") for n in range(300)]
    report = report_of(Topology((), [Queue("q")], bindings), [Message("amq.direct", f"lost{n}") for n in range(50)])
    text = to_text(report)
    assert "and 290 more" in text
    assert len(text.splitlines()) < 60
    assert text.count("more; --all shows them") == 1
    assert "and 280 more" in "\n".join(to_markdown(report))
    whole = to_text(report, listed=sys.maxsize)
    assert whole.count("amq.direct -> q: '") == 300
    assert " more" not in whole


def test_all_is_not_offered_for_rows_that_the_report_lacks() -> None:
    report = compared(Random(3))
    assert report.verification is not None
    found = replace(report.verification, more=5)  # messages that differ in ways that were not kept
    lacking = found.sorts - len(found.differences)
    assert lacking > 0
    report = replace(report, verification=found)
    assert f"and {lacking:,} more sorts of difference\n" in to_text(report, listed=sys.maxsize)
    assert f"and {found.sorts - 1:,} more sorts of difference; --all shows them\n" in to_text(report, listed=1)


def test_only_terminals_get_colours_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    class Terminal(TextIOWrapper):
        def isatty(self) -> bool:
            return True

    def shown_on(terminal_there: bool) -> bytes:
        out = BytesIO()
        monkeypatch.setattr("sys.stdout", Terminal(out) if terminal_there else TextIOWrapper(out, "ascii"))
        print_form(FORMS["text"], odd())
        return out.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[" not in shown_on(False)
    assert b"\x1b[" in shown_on(True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b[" not in shown_on(True)


def test_markdown_has_whole_tables_whatever_the_names() -> None:
    for report in (hand_made(), odd()):
        lines = list(to_markdown(report))
        assert all(line.isprintable() for line in lines)
        columns = 0
        for line in lines:
            bars = len(re.sub(r"\\\|", "", line).split("|")) - 2
            if not line.startswith("|"):
                columns = 0
            elif not columns:
                columns = bars
            else:
                assert bars == columns, line
        assert lines.count("</details>") == sum(line.startswith("<details>") for line in lines)
    assert "- **failed**: unroutable messages: 10 (10 %) of 100 messages, at most 5 % are allowed" in list(
        to_markdown(hand_made())
    )


def test_the_total_is_two_numbers() -> None:
    assert to_totals(hand_made()) == "bindings 75.0\nmessages 90.0"
    assert to_totals(report_of(Topology(), [])) == "bindings none\nmessages none"


def test_tables_have_the_numbers_of_the_report(tmp_path: Path) -> None:
    for report in (hand_made(), odd(), compared(Random(2))):
        paths = write_tables(report, tmp_path / "out")
        assert [path.stem for path in paths] == list(TABLES)
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
            f"{name}.parquet" for name in TABLES
        )
        found = {path.stem: pq.read_table(path) for path in paths}
        assert {name: table.schema for name, table in found.items()} == {
            name: table.schema for name, table in to_tables(report).items()
        }
        rows = found["bindings"].to_pylist()
        assert [unescape(row["routing_key"]) for row in rows] == [r.use.binding.routing_key for r in report.bindings]
        assert sum(row["messages"] for row in found["queues"].to_pylist()) == report.summary.totals.copies
        assert found["partitions"].num_rows == sum(len(row.partitions) for row in report.queues)
        counted_in = found["timeline"].to_pylist()
        expected = report.summary.totals.messages - report.audited.without_time
        if report.timeline is not None and report.audited.topology == "before":
            assert sum(row["routed"] + row["unroutable"] + row["undecided"] for row in counted_in) == expected
        if report.comparison is not None:
            assert found["changed_queues"].num_rows == len(report.comparison.changes.queues)
        if report.verification is not None:
            assert found["differences"].num_rows == len(report.verification.differences)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_written_to_a_path_that_it_makes(name: str, tmp_path: Path) -> None:
    """A file, or a folder of files."""
    path = tmp_path / "new" / "report"
    save_form(FORMS[name], hand_made(), path=path, with_folders=True)
    assert path.stat().st_size
    assert path.is_dir() == FORMS[name].is_folder
    assert not (FORMS[name].is_folder and FORMS[name].is_printed)


def test_tables_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be written"):
        write_tables(hand_made(), tmp_path / "file")


@examples(15)
@given(st.integers(0, 2**32))
def test_every_form_has_the_verification_and_the_comparison(seed: int) -> None:
    report = compared(Random(seed))
    found = json.loads(encode_json(report))
    assert report.verification is not None
    assert report.comparison is not None
    assert found["verification"]["different"] == report.verification.different
    assert sum(row["messages"] for row in found["comparison"]["rerouted"]) == report.comparison.changes.totals.elsewhere
    text = " ".join(to_text(report, width=100).split())
    assert f"{report.verification.agreed:,} went where they should" in text
    assert f"Over {report.comparison.changes.totals.messages:,} messages" in text
    cases(to_junit(report))


NAMES = st.text(st.characters(), min_size=1, max_size=12) | st.text(string.printable, min_size=1, max_size=12)


@examples(25)
@given(
    st.lists(
        NAMES.filter(lambda name: len(name.encode("utf-8", "surrogatepass")) < 200), min_size=1, max_size=4, unique=True
    )
)
def test_no_name_breaks_a_form(names: list[str]) -> None:
    report = odd(tuple(names))
    json.loads(encode_json(report))
    cases(to_junit(report))
    to_tables(report)
    lines = [*to_text(report, width=80).splitlines(), *to_markdown(report)]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_time(START), "2026-03-01T00:00:00Z"),
        (format_time(START + 1), "2026-03-01T00:00:00.000001Z"),
        (format_time(-1), "1969-12-31T23:59:59.999999Z"),
        (format_minute(START + 90_000_000), "2026-03-01 00:01"),
        (format_minute(EARLIEST_TIME), "0001-01-01 00:00"),
        (format_minute(EARLIEST_TIME - 1), "0001-01-01 00:00"),
        (format_minute(LATEST_TIME + 1), "9999-12-31 23:59"),
        (format_share(3 / 726), "0.41 %"),
        (format_share(3e-9), "0.00000030 %"),
        (format_share(1), "100 %"),
        (format_share(0.375), "38 %"),
        (count_noun(1, "message"), "1 message"),
        (count_noun(2000, "message"), "2,000 messages"),
        (clip_line("x" * 99, 20), f"{'x' * 11}...{'x' * 6}"),
        (escape_line("a\nb\udcff\x00"), "a\\nb\\udcff\\x00"),
    ],
)
def test_figures_have_their_exact_text(text: str, expected: str) -> None:
    assert text == expected


def test_an_empty_key_is_visible_and_refused_messages_are_listed_apart() -> None:
    """In the terminal and in markdown; what is unroutable adds up with what the totals say."""
    topology = Topology([Exchange("x", "topic")], [Queue("q")], [Binding.to_queue("x", "q", "a.#")])
    messages = [Message("x", ""), Message("x", ""), Message("gone", "b"), Message("x", "a")]
    report = report_of(topology, messages)
    text = to_text(report)
    assert "Unroutable: 3 messages, 75.0 % of all, 1 of them refused;" in text
    assert re.search(r'^ +2 +""$', text, re.MULTILINE)
    assert '`""`' in "".join(to_markdown(report))


def test_the_share_of_the_hottest_key_is_shown_with_its_bounds() -> None:
    """Exact with few keys; where the count is approximate, from the least to the most that it can be."""
    topology = Topology([Exchange("x", "fanout")], [Queue("q")], [Binding.to_queue("x", "q")])
    few = report_of(topology, [Message("x", "a"), Message("x", "a"), Message("x", "b"), Message("x", "b")])
    assert re.search(r"q +4 +100 % +~2 +50 %", to_text(few))
    many = report_of(topology, [Message("x", f"k{n % 300}") for n in range(1_000)] + [Message("x", "hot")] * 600)
    (row,) = many.queues
    assert row.hot_error
    assert re.search(r"[\d.]+ to [\d.]+ %", to_text(many, width=140))


def test_a_headers_binding_has_one_notation_everywhere() -> None:
    """The language's, in which the text 644 is not the number."""
    written = 'all { mode = "644", n = 5 }'
    topology = Document.loads(
        f"exchange h: headers\nqueue q\nh -> q: {written}\nh -> q: {written[:-2]}, o = 1 }}"
    ).topology()
    report = report_of(topology, [Message("h", "k", {"mode": "644", "n": 5})])
    binding = next(iter(topology.bindings))
    explained = str(Router(topology).explain(Message("h", "k", {"mode": "644", "n": 5})))
    found = check(topology)
    texts = [
        to_text(report), "".join(to_markdown(report)), to_junit(report).decode(), explained,
        "".join(f.message for f in found),
        picture(draw(topology)), describe_part(binding), str(HeadersKind.condition(binding, LATEST_PROFILE)),
    ]  # fmt: skip
    for each in texts[:-1]:
        assert written.removesuffix(" }") in each.replace("&quot;", '"'), each
    assert texts[-1] == 'headers mode = "644" and n = 5'


def test_markdown_mentions_nobody() -> None:
    """A name in a sentence of a comment would call whoever has it."""
    report = replace(hand_made(), caveats=("what @octocat and @org/team said",))
    (line,) = [line for line in to_markdown(report) if "octocat" in line]
    assert "@octocat" not in line
    assert "@org" not in line
    assert "@&#8203;octocat" in line


def test_a_line_feed_in_a_name_has_one_spelling_in_the_text() -> None:
    report = report_of(Topology(queues=[Queue("a\nb")]), [])
    text = to_text(report)
    assert r"a\nb" in text
    assert "a; b" not in text
