"""The page of an audit in Chromium: what fits where, what leads where, and that colours and counts are the report's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import bindings
from bindings.report.build import Sources, build_report
from bindings.report.forms import html as subject
from bindings.report.forms.as_json import to_json as encode_report
from bindings.report.forms.html import build_page
from bindings.report.model import Report
from bindings.report.thresholds import Settings
from bindings.sources.document import Document
from bindings.sources.section import Listing
from exchange import Binding, Exchange, Message, Queue, Topology
from tests.bindings.report.test_forms import compared, odd
from tests.bindings.report.test_html import HOSTILE, hostile, large, layered
from tests.support.bindings.report_pages import report_in
from tests.support.bindings.reports import NOW, ORDERS, ORDERS_TEXT, START, hand_made, report_of, tally_of
from tests.support.bindings.texts import ALL_STATES, ALL_STATES_IGNORED, ALL_STATES_KEYS
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser

pytestmark = pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)

DAY: Final = 86_400

OVERFLOWING: Final = """
(() => {
  const found = [];
  for (const each of document.querySelectorAll('main *')) {
    if (each.closest('.unseen, .word, svg') || getComputedStyle(each).display === 'inline') continue;
    if (each.clientWidth && each.scrollWidth > each.clientWidth + 1)
      found.push(`${each.tagName}.${each.className}: ${each.scrollWidth} > ${each.clientWidth}: ${each.textContent}`);
  }
  for (const each of document.querySelectorAll('svg text')) {
    const [box, picture] = [each.getBoundingClientRect(), each.closest('svg').getBoundingClientRect()];
    if (box.left < picture.left - 1 || box.right > picture.right + 1)
      found.push(`text: ${box.left} to ${box.right}: ${each.textContent}`);
  }
  const page = document.documentElement.scrollWidth;
  if (page > innerWidth) found.push(`the page: ${page} > ${innerWidth}`);
  return found.map((each) => each.slice(0, 160));
})()
"""
"""What is wider than the element that it stands in: tables, cells, names, and labels of drawings."""


TOP_AND_BOTTOM: Final = "(({{top, bottom}}) => [top, bottom])({}.getBoundingClientRect())"
MINUS: Final = "\N{MINUS SIGN}"


class Pages:
    """Writes pages and opens them; each must be drawn without an error, a warning or a request."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.file = folder / "report.html"

    def open(self, report: dict[str, Any], text: str | None = None, *, address: str = "", **window: Any) -> Browser:
        self.file.write_text(build_page(report, text), "utf-8")
        self.browser.open(self.file, address=address, **window)
        assert self.browser.evaluate("document.documentElement.dataset.state") == "ready"
        assert self.browser.evaluate("document.documentElement.dataset.errors || ''") == ""
        assert self.browser.errors == []
        assert self.browser.requests == [self.file.as_uri()]
        return self.browser


@pytest.fixture
def pages(browser: Browser, tmp_path: Path) -> Pages:
    return Pages(browser, tmp_path)


def to_json(report: Report) -> dict[str, Any]:
    """Return the JSON of a report, which tests change."""
    return dict(encode_report(report))


def listed(text: str, messages: list[Message], settings: Settings | None = None) -> dict[str, Any]:
    """Return the report of messages in the topology of a text, as JSON."""
    section = Document.loads(text).section()
    sources = Sources("folder/t.bindings", listing=Listing(text, section))
    tally = tally_of(section.topology, messages)
    return to_json(build_report(section.topology, tally, sources, NOW, settings=settings or Settings()))


def all_states() -> dict[str, Any]:
    messages = [Message("orders", key) for key in ALL_STATES_KEYS]
    return listed(ALL_STATES, messages, Settings(ignore=(ALL_STATES_IGNORED,)))


def wordy() -> dict[str, Any]:
    """Return a report whose names and keys have neither spaces nor dots where a line could break."""
    name = "a_name_that_is_longer_than_a_column_is_wide_and_that_does_not_break_" * 3
    topology = Topology(
        [Exchange(f"{name}{n}", "topic", arguments={"alternate-exchange": f"{name}0"}) for n in range(3)],
        [Queue(f"{name}{n}") for n in range(12)],
        [
            Binding.to_queue(f"{name}{n % 3}", f"{name}{n}", f"{'key' * 60}.{n}", {"note": "x" * 200} if n else None)
            for n in range(12)
        ],
    )
    messages = [Message(f"{name}{n % 3}", f"{'key' * 60}.{n}") for n in range(14)]
    return to_json(report_of(topology, messages))


def real() -> dict[str, Any]:
    return to_json(bindings.audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl"))


REPORTS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "real": real, "hand-made": lambda: to_json(hand_made()), "compared": lambda: to_json(compared(Random(3))),
    "odd": lambda: to_json(odd()), "hostile": hostile, "wordy": wordy, "all states": all_states,
    "large": lambda: large(60), "layered": lambda: to_json(
        report_of(layered(Random(15), 90), [Message(f"Contracts:Event{n}", "") for n in range(90)])
    ),
    "empty": lambda: to_json(report_of(Topology(), [])),
}  # fmt: skip
TEXTS: Final = {"hand-made": ORDERS_TEXT, "all states": ALL_STATES}


@pytest.mark.parametrize("name", REPORTS)
def test_the_first_screen_has_the_figures_and_the_flow(pages: Pages, name: str) -> None:
    report = REPORTS[name]()
    shown = pages.open(report, TEXTS.get(name), width=1280, height=800)
    for part in (".headline", "#flow", "#flow .legend"):
        if name == "empty" and part == "#flow .legend":
            continue
        box = shown.evaluate(
            f"(({{top, bottom}}) => [top, bottom])(document.querySelector('{part}').getBoundingClientRect())"
        )
        assert 0 <= box[0] < box[1] <= 800, part
    figures = shown.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((li) => "
        "[li.dataset.figure, Number(li.querySelector('b').textContent.replaceAll(',', ''))]))"
    )
    totals = report["totals"]
    assert figures["messages"] == totals["messages"]["all"]
    assert figures["routed"] == totals["messages"]["routed"]
    assert figures["unroutable"] == totals["messages"]["unroutable"]
    assert figures["covered"] == totals["bindings"]["hit"]
    assert figures["bad"] == sum(row["records"] for row in report["audited"]["records"]["bad"])


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_wider_than_its_container(pages: Pages, name: str) -> None:
    shown = pages.open(REPORTS[name](), TEXTS.get(name), width=1280, height=800)
    assert shown.evaluate(OVERFLOWING) == []
    shown.evaluate("document.querySelectorAll('.opener').forEach((each) => each.click())")
    shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    shown.settle()
    for width in (1280, 1180, 981, 800, 641, 390, 320):
        shown.resize(width)
        assert shown.evaluate(OVERFLOWING) == [], width
    assert shown.errors == []


def test_columns_that_matter_less_make_room_for_the_others(pages: Pages) -> None:
    """What they have is in the details of their rows."""
    shown = pages.open(to_json(hand_made()), ORDERS_TEXT)
    heads = "[...document.querySelectorAll('#table-bindings thead th')]"
    seen = f"{heads}.filter((each) => each.offsetWidth).map((each) => each.innerText)"
    wide = [each.split()[0] for each in shown.evaluate(seen)[1:]]
    assert wide == [
        "Source",
        "Binding",
        "Destination",
        "Line",
        "State",
        "Messages",
        "Only",
        "Share",
        "Exposure",
        "Last",
    ]
    shown.resize(390)
    assert [each.split()[0] for each in shown.evaluate(seen)[1:]] == ["Binding", "Destination", "State", "Messages"]
    shown.evaluate("document.querySelector('#table-bindings .opener').click()")
    detail = shown.evaluate("document.querySelector('#table-bindings tr.detail').innerText")
    for word in ("source", "line 13", "share", "only by it", "last seen", "99 messages went through its source"):
        assert word in detail
    shown.resize(1280)
    assert [each.split()[0] for each in shown.evaluate(seen)[1:]] == wide


def test_lines_have_the_colour_sign_and_count_of_the_report(pages: Pages) -> None:
    report = all_states()
    states = {row["line"]: row["state"] for row in report["lines"]}
    assert set(states.values()) == {"hit", "partial", "never", "unreached", "ignored", "not_eligible"}
    shown = pages.open(report, ALL_STATES)
    drawn = shown.evaluate(
        """[...document.querySelectorAll('#table-source tbody tr.line')].map((row) => ({
          line: Number(row.querySelector('.lineno').textContent),
          state: (/line-(\\w+)/.exec(row.className) || [null, null])[1],
          sign: row.querySelector('.sign [aria-hidden]')?.textContent || '',
          edge: getComputedStyle(row.cells[0]).borderLeftColor + getComputedStyle(row.cells[0]).borderLeftStyle,
          count: row.querySelector('.figure').textContent,
          text: row.querySelector('.code .text').textContent,
        }))"""
    )
    lines = ALL_STATES.removesuffix("\n").split("\n")
    assert [row["text"] for row in drawn] == lines
    assert {row["line"]: row["state"] for row in drawn if row["state"]} == states
    counts = {row["line"]: (len(row["bindings"]), row["messages"]) for row in report["lines"]}
    for row in drawn:
        if row["line"] in counts:
            several, messages = counts[row["line"]]
            assert row["count"] == f"{'Σ ' if several > 1 else ''}{messages}"
    by_state = {row["state"]: (row["sign"], row["edge"]) for row in drawn if row["state"]}
    assert len({sign for sign, _ in by_state.values()}) == len(by_state), "a state has a sign of its own"
    assert by_state["hit"][1] != by_state["never"][1] != by_state["partial"][1]
    # Grey: what passed an exchange, and what a queue got.
    exchange, queue = [next(row for row in drawn if row["text"].startswith(each)) for each in ("exchange o", "queue b")]
    assert (exchange["count"], queue["count"]) == ("4", "2")


def test_a_line_that_is_repeated_unfolds_to_each_repetition(pages: Pages) -> None:
    report = all_states()
    shown = pages.open(report, ALL_STATES, address="#L7")
    assert shown.evaluate("document.activeElement.dataset.row") == "6"
    detail = shown.evaluate("document.activeElement.nextElementSibling.innerText")
    assert re.search(r"hit\s+1\s+orders\s+order\.eu\.paid\s+stock-eu", detail)
    assert re.search(r"dead\s+0\s+orders\s+order\.us\.paid\s+stock-us", detail)
    title = shown.evaluate("document.activeElement.querySelector('.sum').title")
    assert title.split("\n")[0] == "sum of 2 bindings, 1 hit"
    assert "orders → stock-us: order.us.paid" in title


def test_a_binding_leads_to_its_line_and_back(pages: Pages) -> None:
    report = all_states()
    (binding,) = [row for row in report["bindings"] if row["routing_key"] == "order.*.refunded"]
    shown = pages.open(report, ALL_STATES, address=f"#b{binding['number']}")
    assert "order.*.refunded" in shown.evaluate("document.activeElement.innerText")
    shown.evaluate("document.activeElement.querySelector('a[href^=\"#L\"]').click()")
    shown.wait("document.activeElement.classList.contains('line-never')")
    assert '"order.*.refunded"' in shown.evaluate("document.activeElement.innerText")
    shown.evaluate("document.activeElement.querySelector('.opener').click()")
    shown.evaluate("document.activeElement.nextElementSibling.querySelector('a[href^=\"#b\"]').click()")
    shown.wait("document.activeElement.closest('#table-bindings')")
    assert "order.*.refunded" in shown.evaluate("document.activeElement.innerText")
    box = shown.evaluate(TOP_AND_BOTTOM.format("document.activeElement"))
    assert 0 <= box[0] < box[1] <= 800


def test_keys_lead_from_one_missed_line_to_the_next_and_unfold_it(pages: Pages) -> None:
    report = all_states()
    missed = [row["line"] for row in report["lines"] if row["state"] in ("partial", "never", "unreached")]
    assert len(missed) == 3
    shown = pages.open(report, ALL_STATES)
    visited = []
    for key in ("j", "j", "j", "j", "k"):
        shown.press(key)
        visited.append(int(shown.evaluate("document.activeElement.dataset.row")) + 1)
    assert visited == [*missed, missed[0], missed[-1]]
    shown.evaluate("document.activeElement.querySelector('.opener').focus()")
    shown.press("Enter")
    assert shown.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    shown.evaluate("document.querySelector('#table-source input').focus()")
    row = shown.evaluate("document.querySelector('#table-source tr.target').dataset.row")
    shown.press("j")  # where one writes, a letter is a letter
    assert shown.evaluate("document.querySelector('#table-source input').value") == "j"
    assert row == str(missed[-1] - 1)


def test_lines_of_one_state_are_shown_alone(pages: Pages) -> None:
    shown = pages.open(all_states(), ALL_STATES, address="#source?show=never")
    lines = shown.evaluate("[...document.querySelectorAll('#table-source .lineno a')].map((a) => a.textContent)")
    assert lines == ["10"]
    chips = shown.evaluate("[...document.querySelectorAll('#table-source .chip .tally')].map((e) => e.textContent)")
    assert chips == ["1"] * 6


def test_findings_stand_at_their_lines(pages: Pages, tmp_path: Path) -> None:
    text = "exchange x: topic\nqueue lonely\nqueue q\nx -> q: 'a.#',\n  'a.b'\nexpect x 'b' -> q\n"
    file, archive = tmp_path / "t.bindings", tmp_path / "archive.jsonl"
    file.write_text(text)
    archive.write_text('{"exchange": "x", "routing_key": "a.b"}\n')
    shown = pages.open(to_json(bindings.audit(file, archive)), text)
    tags = shown.evaluate(
        """Object.fromEntries(
          [...document.querySelectorAll('#table-source tr')]
            .filter((row) => row.querySelector('.finding'))
            .map((row) => [row.querySelector('.lineno').textContent, row.querySelector('.finding').textContent]),
        )"""
    )
    assert tags == {"2": "HS204 queue-without-bindings", "5": "HS104 covered-binding", "6": "HS801 failed-expectation"}


def test_bindings_of_definitions_stand_under_their_exchanges(pages: Pages) -> None:
    report = to_json(report_of(ORDERS, [Message("orders", "order.eu.paid")]))
    shown = pages.open(report, address="#g2")
    assert shown.evaluate("document.querySelector('#source h2').firstChild.textContent") == "Bindings by exchange"
    assert "order.*.paid → billing" in shown.evaluate("document.activeElement.innerText")
    rows = shown.evaluate(
        "[...document.querySelectorAll('#table-source tbody tr')].map((row) => [row.className, row.innerText])"
    )
    looks = [(re.findall(r"line-(\w+)", look) or [""])[0] for look, _ in rows]
    assert looks == ["head", "hit", "hit", "hit", "never", "never"]
    assert "orders" in rows[0][1]


def test_a_long_text_is_cut_and_the_page_counts_what_it_lacks(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "TEXT_LINES", 8)
    shown = pages.open(all_states(), ALL_STATES)
    assert shown.evaluate("document.querySelectorAll('#table-source tr.line').length") == 8
    assert "The last 5 lines are not in this page." in shown.evaluate("document.querySelector('#source').innerText")
    monkeypatch.setattr(subject, "TEXT", len(ALL_STATES.split("\n")[0]) + 1)
    shown = pages.open(all_states(), ALL_STATES, address="#L12")  # an address of a line that the page lacks
    assert shown.evaluate("document.querySelectorAll('#table-source tr.line').length") == 1


def test_a_hostile_text_is_text(pages: Pages) -> None:
    text = "exchange x: topic\n" + "".join(
        f"# {each}\n" for each in HOSTILE if not re.search(r"[\x00\u2028\udcff]", each)
    )
    shown = pages.open(listed(text, []), text)
    assert shown.evaluate("document.title") == "Audit of t.bindings"
    assert HOSTILE[0] in shown.evaluate("document.querySelector('#table-source').innerText")
    assert shown.evaluate("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.parametrize(
    ("seconds", "unit", "ticks"),
    [
        (45, "second", ["00:00:00", "00:00:05"]),
        (150, "2 seconds", ["00:00:00", "00:00:30"]),
        (390, "5 seconds", ["00:00:30", "00:01:00"]),
        (1_000, "10 seconds", ["00:00", "00:02"]),
        (3_500, "30 seconds", ["00:00", "00:05"]),
        (7_100, "minute", ["00:00", "00:10"]),
        (20_000, "5 minutes", ["00:00", "00:30"]),
        (60_000, "10 minutes", ["00:00", "02:00"]),
        (DAY, "15 minutes", ["00:00", "02:00"]),
        (4 * DAY, "hour", ["00:00", "12:00"]),
        (9 * DAY, "2 hours", ["03-01", "03-02"]),
        (40 * DAY, "12 hours", ["03-02", "03-09"]),
        (100 * DAY, "day", ["03-02", "03-16"]),
        (199 * DAY, "2 days", ["2026-03", "2026-04"]),
        (390 * DAY, "week", ["2026-04", "2026-07"]),
        (700 * DAY, "7 days", ["2026-04", "2026-07"]),
        (2_000 * DAY, "month", ["2027-01", "2027-07"]),
        (9_000 * DAY, "84 days", ["2030", "2035"]),
    ],
)  # fmt: skip
def test_a_window_has_40_to_120_slots(pages: Pages, seconds: int, unit: str, ticks: list[str]) -> None:
    times = [START + seconds * 1_000_000 * number // 1_000 for number in range(1_000)]
    report = to_json(report_of(ORDERS, [Message("orders", "order.new")] * 1_000, times=times))
    shown = pages.open(report)
    bars = shown.evaluate("document.querySelectorAll('svg.timeline rect.hue0').length")
    assert 40 <= bars <= 121  # a window that begins in the middle of a slot has one more
    note = shown.evaluate("document.querySelector('#traffic .note').textContent")
    assert f"Each bar is {'' if unit[0].isdigit() else 'one '}{unit}, UTC." in note
    labels = shown.evaluate("[...document.querySelectorAll('svg.timeline text.tick')].map((each) => each.textContent)")
    assert set(ticks) <= set(labels), labels
    boxes = shown.evaluate(
        """[...document.querySelectorAll('svg.timeline text.tick')]
          .filter((each) => Number(each.getAttribute('y')) > 215)
          .map((each) => each.getBoundingClientRect())
          .map(({ left, right, top }) => [top, left, right])
          .sort((a, b) => a[0] - b[0] || a[1] - b[1])"""
    )
    for (top, _, right), (next_top, left, _) in pairwise(boxes):
        assert top != next_top or right < left, "labels of ticks overlap"


def test_a_slot_has_its_time_in_utc_and_here(pages: Pages) -> None:
    times = [START + hour * 3_600_000_000 for hour in range(60)]
    shown = pages.open(to_json(report_of(ORDERS, [Message("orders", "order.new")] * 60, times=times)))
    shown.evaluate("document.querySelector('svg.timeline').focus()")
    shown.settle()  # the page scrolls to it
    shown.press("ArrowRight")
    tip = shown.evaluate("document.getElementById('tip').innerText")
    title, here, *_ = re.split(r"\n+|(?<=UTC)(?=from)", tip)
    assert title == "2026-03-01 00:00 to 00:30 UTC"
    assert re.search("1:00:00.*GMT[+]1", here)  # the browser of these tests is in Berlin


def test_lost_ways_are_red_and_gained_ones_green_with_signs(pages: Pages, tmp_path: Path) -> None:
    before, after = [
        Topology([Exchange("x", "topic")], [Queue("q"), Queue("r")], [Binding.to_queue("x", "q", key)])
        for key in ("a.#", "b.#")
    ]
    archive = tmp_path / "archive.jsonl"
    archive.write_text("".join([f'{{"exchange": "x", "routing_key": "{key}.k"}}\n' for key in "aab"]))
    report = to_json(bindings.audit(before, archive, compare=after))
    shown = pages.open(report, address="#comparison")
    colours = shown.evaluate(
        "Object.fromEntries(['way-lost', 'way-gained'].map((each) => "
        "[each, getComputedStyle(document.querySelector(`#comparison .link.${each}`)).fill]))"
    )
    red, green = [[int(part) for part in re.findall(r"\d+", colours[each])] for each in ("way-lost", "way-gained")]
    assert red[0] > 2 * red[1]
    assert green[1] > 1.5 * green[0]
    words = shown.evaluate("document.getElementById('comparison').innerText")
    assert f"{MINUS} no more to q" in words
    assert "+ now to q" in words
    labels = shown.evaluate("[...document.querySelectorAll('#comparison svg text')].map((each) => each.textContent)")
    assert f"q{MINUS}2 +1" in labels
    assert "b.k" in words, "a witness"


def test_what_a_broker_did_otherwise_has_signs_and_a_witness(pages: Pages) -> None:
    report = to_json(compared(Random(3)))
    shown = pages.open(report, address="#verification")
    words = shown.evaluate("document.getElementById('verification').innerText")
    assert re.search(rf"({MINUS} (not in|in none of)|\+ but in) ", words)
    difference = report["verification"]["differences"][0]
    assert difference["witnesses"][0]["message"]["routing_key"] in words


def test_the_flow_draws_bindings_as_wide_as_their_messages(pages: Pages) -> None:
    topology = Topology(
        [Exchange("x", "topic")],
        [Queue("much"), Queue("little"), Queue("none")],
        [Binding.to_queue("x", queue, key) for queue, key in (("much", "a.#"), ("little", "b"), ("none", "never"))],
    )
    messages = [Message("x", key) for key in ["a.b"] * 60 + ["b"] * 20 + ["lost"] * 20]
    shown = pages.open(to_json(report_of(topology, messages)))
    pills = shown.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#flow .pill')].map((each) => "
        "[each.querySelector('text').textContent, [each.getBBox().height, each.getAttribute('class')]]))"
    )
    assert set(pills) == {"a.#", "b", "✗ never", "✗ no match"}
    assert pills["a.#"][0] == pytest.approx(3 * pills["b"][0], rel=0.05)
    assert "idle" in pills["✗ never"][1]
    dash = "getComputedStyle(document.querySelector('#flow {}')).{}"
    assert shown.evaluate(dash.format(".pill.idle rect", "strokeDasharray")) != "none"
    assert shown.evaluate(dash.format(".link.idle", "strokeDasharray")) != "none"
    grey = [int(part) for part in re.findall(r"\d+", shown.evaluate(dash.format(".link.idle", "stroke")))]
    assert max(grey) - min(grey) < 30
    red = [int(part) for part in re.findall(r"\d+", shown.evaluate(dash.format(".link.nowhere", "fill")))]
    assert red[0] > 2 * max(red[1:])
    shown.evaluate("document.querySelector('#flow .pill').focus()")
    assert "binding x → " in shown.evaluate("document.getElementById('tip').innerText")


def test_a_large_flow_is_gathered_and_can_be_drawn_whole(pages: Pages) -> None:
    shown = pages.open(
        to_json(report_of(layered(Random(15), 60), [Message(f"Contracts:Event{n}", "") for n in range(60)]))
    )
    before = shown.evaluate("document.querySelectorAll('#flow .node').length")
    shown.evaluate("document.querySelector('#flow .flow-below button').click()")
    shown.settle()
    assert shown.evaluate("document.querySelectorAll('#flow .node').length") > before
    assert shown.evaluate(OVERFLOWING) == []


def test_the_dark_page_is_dark_and_the_printed_one_light_without_controls(pages: Pages) -> None:
    brightness = "Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))"
    shown = pages.open(to_json(hand_made()), ORDERS_TEXT, prefers_color_scheme="dark")
    assert shown.evaluate(brightness) < 60
    shown.print_mode()
    assert shown.evaluate(brightness) > 240
    hidden = "getComputedStyle(document.querySelector('{}')).display"
    assert {shown.evaluate(hidden.format(each)) for each in ("nav", ".bar", ".opener", ".flow-below .plain")} == {
        "none"
    }


def test_a_page_of_ten_thousand_bindings_keeps_few_rows_in_the_document(pages: Pages) -> None:
    """`benchmarks.page` measures its speed; this is what makes it: no table has more than a page of its rows there."""
    report = large(10_000)
    for number, row in enumerate(report["bindings"]):
        row["line"] = number + 2
    report["lines"] = [
        {"line": row["line"], "bindings": [row["number"]], "messages": row["messages"], "possible": 0,
         "hit": int(row["messages"] > 0), "state": "hit" if row["messages"] else "never"}
        for row in report["bindings"]
    ]  # fmt: skip
    text = "\n".join(["# all", *(f'orders -> q: "{row["routing_key"]}"' for row in report["bindings"])])
    shown = pages.open(report, text, address="#L9876")
    assert shown.evaluate("document.activeElement.querySelector('.lineno').textContent") == "9876"
    assert shown.evaluate("document.querySelectorAll('tr').length") < 1_000


def test_the_json_in_a_page_is_the_report_beside_the_text() -> None:
    report = all_states()
    page = build_page(deepcopy(report), ALL_STATES)
    assert report_in(page) == json.loads(json.dumps(report))
