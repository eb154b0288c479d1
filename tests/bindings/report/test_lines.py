"""The lines of a ``.bindings`` file: which bindings a line makes, and what they did together."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.auditing.run import Subject
from bindings.counts.uses import BindingUse
from bindings.report.build import Sources, build_report, sum_lines
from bindings.report.model import Report
from bindings.report.rows import BindingRow, LineRow, State
from bindings.report.thresholds import Ignore, Settings
from bindings.sources.document import Document
from bindings.sources.language.expectations import Expectation
from bindings.sources.open import open_source
from bindings.sources.section import Listing
from exchange import Binding, Message
from tests.support.bindings.reports import NOW, hand_made, tally_of
from tests.support.bindings.texts import ALL_STATES, ALL_STATES_IGNORED, ALL_STATES_KEYS


def row(line: int | None, state: State, messages: int = 0, exposure: int = 5, number: int = 0) -> BindingRow:
    """Return a binding of a line; of its counts only those that lines add up."""
    binding = Binding.to_queue("x", f"q{number}", "k")
    use = BindingUse(binding, number, messages, 0, 0, None, None, 0, None, exposure, state != "not eligible")
    return BindingRow(use, state, None, line)


def audited(text: str, messages: list[Message], ignore: tuple[Ignore, ...] = ()) -> Report:
    """Return the report of messages in the topology of a text."""
    section = Document.loads(text).section()
    sources = Sources("t.bindings", listing=Listing(text, section))
    tally = tally_of(section.topology, messages)
    return build_report(section.topology, tally, sources, NOW, settings=Settings(ignore=ignore))


def states_of(report: Report) -> dict[int, str]:
    """Return line -> its state."""
    assert report.listing is not None
    return {each.line: each.state for each in report.listing.rows}


def test_a_line_sums_its_bindings() -> None:
    rows = [row(7, "hit", 3, number=1), row(2, "hit", 1, number=2), row(7, "dead", number=4), row(None, "hit", 9)]
    assert sum_lines(rows) == (LineRow(2, (2,), 1, 0, 1, "hit"), LineRow(7, (1, 4), 3, 0, 1, "partial"))


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([row(1, "hit", 2)], "hit"),
        ([row(1, "stale", 2)], "hit"),
        ([row(1, "possible")], "hit"),
        ([row(1, "hit", 2), row(1, "dead")], "partial"),
        ([row(1, "hit", 2), row(1, "dead", exposure=0)], "partial"),
        ([row(1, "dead")], "never"),
        ([row(1, "dead", exposure=0), row(1, "dead")], "never"),
        ([row(1, "dead", exposure=0)], "unreached"),
        ([row(1, "dead"), row(1, "ignored")], "never"),
        ([row(1, "hit", 1), row(1, "ignored"), row(1, "not eligible")], "hit"),
        ([row(1, "ignored")], "ignored"),
        ([row(1, "not eligible"), row(1, "ignored")], "not eligible"),
    ],
)
def test_a_line_has_the_state_of_its_bindings_that_count(rows: list[BindingRow], state: str) -> None:
    (line,) = sum_lines(rows)
    assert line.state == state


def test_a_text_with_every_state_has_them_at_its_lines() -> None:
    messages = [Message("orders", key) for key in ALL_STATES_KEYS]
    report = audited(ALL_STATES, messages, (ALL_STATES_IGNORED,))
    lines = ALL_STATES.split("\n")
    marked = {n: line.partition("# ")[2] for n, line in enumerate(lines, 1) if "# " in line}
    assert states_of(report) == marked


def test_the_lines_of_a_report_add_up_to_its_bindings() -> None:
    report = hand_made()
    assert report.listing is not None
    assert sum(line.messages for line in report.listing.rows) == sum(each.use.messages for each in report.bindings)
    numbers = [number for line in report.listing.rows for number in line.bindings]
    assert sorted(numbers) == [each.use.number for each in report.bindings]


KEYS = st.sampled_from(["a", "b.c", "#", "*.d"])
NAMES = st.sampled_from(["q1", "q2", "q3"])


@given(st.lists(st.tuples(st.lists(NAMES, min_size=1), st.lists(st.tuples(KEYS, st.booleans())), st.booleans())))
def test_a_binding_is_of_the_line_with_its_key_else_of_that_with_its_destination(
    statements: list[tuple[list[str], list[tuple[str, bool]], bool]],
) -> None:
    """What is written down while the text is made is the oracle: each name and key stands in a known line."""
    lines: list[str] = ["exchange x: topic"]
    expected: dict[Binding, int] = {}
    for queues, keys, breaks in statements:
        lines.append("x ->")
        places = []
        for at, queue in enumerate(queues):
            if breaks:
                lines.append("   ")
            lines[-1] += f" {queue}" + ("," if at < len(queues) - 1 else "")
            places.append(len(lines))
        made = []
        for at, (key, own_line) in enumerate(keys):
            lines[-1] += " :" if not at else ","
            if own_line:
                lines.append("   ")
            lines[-1] += f' "{key}"'
            made.append((key, len(lines)))
        for (queue, place), (key, line) in product(zip(queues, places, strict=True), made or [("", 0)]):
            expected.setdefault(Binding.to_queue("x", queue, key), line or place)
    section = Document.loads("\n".join(lines)).section()
    assert {binding: section.line_of(binding) for binding in section.topology.bindings} == expected


def test_repetitions_of_a_for_are_of_one_line() -> None:
    text = 'exchange x: topic\nfor n in 1..3:\n    queue q{n}\n    x -> q{n}: "k.{n}"'
    report = audited(text, [Message("x", "k.1"), Message("x", "k.1"), Message("x", "k.3")])
    assert report.listing is not None
    (line,) = report.listing.rows
    assert line == LineRow(4, (0, 1, 2), 3, 0, 2, "partial")
    assert [queue.line for queue in report.queues] == [3, 3, 3]


def test_findings_of_an_audit_have_the_lines_of_their_parts() -> None:
    text = "exchange x: topic\n\nqueue lonely\nexpect x 'k' -> lonely"
    section = Document.loads(text).section()
    subject = Subject(section.topology, "t", section.expectations, Listing(text, section))
    assert {finding.code: finding.line for finding in subject.findings}["HS204"] == 3
    assert {finding.code: finding.line for finding in subject.findings}["HS801"] == 4
    assert isinstance(subject.expectations[0], Expectation)


def test_definitions_have_no_lines() -> None:
    source = open_source("examples/demo/definitions.json")
    assert source.listing("/") is None
    assert Subject.from_source(source).listing is None
