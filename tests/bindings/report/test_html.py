"""The page of a report: it needs nothing else, it lets nothing in, and a browser draws it."""

import json
import re
from base64 import b64encode
from copy import deepcopy
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.report.forms import as_json
from bindings.report.forms import html as subject
from bindings.report.forms.html import ROWS, build_page, to_html
from bindings.report.model import Report
from exchange import Binding, Exchange, Message, Queue, Topology
from tests.bindings.report.test_forms import compared, odd
from tests.support.bindings.report_pages import report_in, unpack
from tests.support.bindings.reports import hand_made, report_of
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser
from tests.support.tiers import scale

HOSTILE = [
    "<img src=x onerror=\"document.title='PWNED'\">", "</script><script>document.title='PWNED'</script>",
    "<!--<script>", "]]>\u2028\u2029\u202e\x00", "@@SCRIPT@@", "__proto__", "\udcff not UTF-8",
]  # fmt: skip


def to_json(report: Report) -> Any:
    """Return a report's JSON as the page gets it: any object."""
    return as_json.to_json(report)


def hostile() -> dict[str, Any]:
    """Return a report of exchanges, queues, keys and messages that are named to do harm."""
    names = HOSTILE[:-1]
    topology = Topology(
        [Exchange(name, "topic") for name in names],
        [Queue(name) for name in names],
        [Binding.to_queue(name, name, f"{name}.#", {"$columns": [1], "__proto__": {"$rows": 2}}) for name in names],
    )
    messages = [Message(name, f"{word}.key") for name in names for word in names]
    report: dict[str, Any] = json.loads(json.dumps(to_json(report_of(topology, messages))))
    report["audited"]["topology"]["source"] = HOSTILE[0]
    report["caveats"] = HOSTILE
    return report


def large(rows: int) -> dict[str, Any]:
    """Return a report with many bindings, of which every second is dead."""
    report: dict[str, Any] = deepcopy(to_json(hand_made()))
    first = report["bindings"][0]
    report["bindings"] = [
        {
            **first, "number": number, "routing_key": f"order.{number}.*", "messages": number % 2 * number,
            "state": "hit" if number % 2 else "dead",
        }
        for number in range(rows)
    ]  # fmt: skip
    return report


def test_a_page_refers_to_nothing_outside_of_it() -> None:
    text = build_page(hostile())
    text = text.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nobody fetches
    shell = re.sub(r'<script type="application/json".*?</script>|<title>.*?</title>', "", text, flags=re.DOTALL)
    assert not re.findall(r"https?:|//[a-z]+\.|@import|url\(|\bsrc=|<link|\bfetch\(|XMLHttpRequest|import\(", shell)


def test_a_page_forbids_all_scripts_but_its_own_and_all_requests() -> None:
    text = build_page(to_json(hand_made()))
    policy = unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[0])
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_the_script_writes_text_and_never_html() -> None:
    script = "".join([subject._read_part(f"{name}.js") for name in subject.SCRIPTS])
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)


def test_every_part_of_the_script_is_in_the_page() -> None:
    folder = Path(subject.__file__).with_name("page")
    assert sorted(path.stem for path in folder.glob("*.js")) == sorted(subject.SCRIPTS)


def test_the_report_comes_back_out_of_its_page() -> None:
    for report in (hand_made(), odd(), compared(Random(3))):
        assert report_in(to_html(report).decode()) == json.loads(json.dumps(to_json(report)))


def test_hostile_names_end_no_element_and_come_back_out_as_they_were() -> None:
    report = hostile()
    text = build_page(report)
    assert len(re.findall(r"<script", text)) == len(re.findall(r"</script", text)) == 2
    for name in HOSTILE[:3]:
        assert name not in text
    assert report_in(text) == report


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.sampled_from(["$columns", "</script>"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["$columns", "$rows", "$$", "a", "b", ""]), inner),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_is_packed_without_loss(value: Any) -> None:
    text = subject._embed({"value": value})
    assert "<" not in text
    assert text.isascii()
    assert unpack(json.loads(text)) == {"value": value}


def test_like_rows_name_their_fields_once() -> None:
    packed = subject._pack([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert packed == {"$columns": ["a", "b"], "$rows": [[1, 2], [3, 4]]}


def test_a_page_of_many_bindings_keeps_them_all() -> None:
    report = large(20_000)
    assert len(report_in(build_page(report))["bindings"]) == 20_000


@pytest.mark.scaled
def test_a_page_of_too_many_bindings_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scale(ROWS)
    monkeypatch.setattr(subject, "ROWS", rows)
    report = large(rows + 5_000)
    text = build_page(report)
    kept = report_in(text)["bindings"]
    assert len(kept) == rows
    assert '"left_out":{"bindings":5000}' in text
    assert [row["number"] for row in kept] == sorted(row["number"] for row in kept)
    left_out = {row["number"] for row in report["bindings"]} - {row["number"] for row in kept}
    # Half is for what is dead, so that the busiest cannot crowd it out; of the busy the busiest stay.
    assert sum(row["state"] == "dead" for row in kept) == rows // 2
    assert max(number for number in left_out if number % 2) < min(row["messages"] for row in kept if row["messages"])


def test_long_names_cut_a_page_before_it_grows_without_bound() -> None:
    report = large(ROWS)
    for row in report["bindings"]:
        row["routing_key"] = "x" * 1_000
    assert len(build_page(report)) < subject.TABLES["bindings"] * 1.1 + 1_000_000


class Elements(HTMLParser):
    """The elements and attributes that a document has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update([name for name, _ in attrs])


def drawn(browser: Browser, report: dict[str, Any], folder: Path, address: str = "") -> str:
    """Return the page as a browser has it after its script has run."""
    file = folder / "report.html"
    file.write_text(build_page(report), "utf-8")
    browser.open(file, address=address)
    dom: str = browser.evaluate("document.documentElement.outerHTML")
    # Its own source is no part of what it drew.
    return re.sub(r"<script.*?</script>|<style.*?</style>", "", dom, flags=re.DOTALL)


def rows_of(dom: str, table: str) -> int:
    """Return the number of rows of a table in the document."""
    after = dom[dom.index(f'id="table-{table}"') :]
    return after[: after.index("</table>")].count('<tr class="can-open')


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_draws_every_section_without_an_error(browser: Browser, tmp_path: Path) -> None:
    report = to_json(hand_made())
    dom = drawn(browser, report, tmp_path)
    assert 'data-state="ready"' in dom
    assert "data-errors" not in dom
    assert rows_of(dom, "bindings") == len(report["bindings"]) == 5
    assert rows_of(dom, "queues") == 4
    sections = re.findall(r'<section id="([a-z]+)"', dom)
    assert sections[:4] == ["flow", "gates", "bindings", "unroutable"]  # what a reader comes for
    assert sections[4:] == ["exchanges", "traffic", "source", "queues", "partitions", "findings", "trust"]
    assert 'class="timeline"' in dom
    assert 'class="flow"' in dom
    assert "no JSON" in dom  # why a record was bad
    assert re.search(r'class="off"><bdi>ordr</bdi>', dom)  # the word that kept messages from a binding


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_reads_hostile_names_as_text(browser: Browser, tmp_path: Path) -> None:
    dom = drawn(browser, hostile(), tmp_path)
    assert 'data-state="ready"' in dom
    assert "data-errors" not in dom
    assert "<title>PWNED" not in dom
    reader = Elements()
    reader.feed(dom)
    assert "td" in reader.tags
    assert not reader.tags & {"img", "script", "iframe", "object", "embed"}
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert "&lt;img src=x" in dom
    assert r"\u202e" in dom  # what would turn the reading direction is shown


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_has_a_page_of_many_rows_in_the_document_and_no_more(browser: Browser, tmp_path: Path) -> None:
    dom = drawn(browser, large(20_000), tmp_path)
    assert 'data-state="ready"' in dom
    assert rows_of(dom, "bindings") == 50
    assert "1\N{EN DASH}50 of 20,000" in dom


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_the_address_of_a_page_keeps_the_search(browser: Browser, tmp_path: Path) -> None:
    dom = drawn(browser, large(2_000), tmp_path, "#bindings?show=dead&find=order.12")
    assert "56 of 2,000 rows" in dom  # the even ones are dead: 12, five of 12x, fifty of 12xx
    assert rows_of(dom, "bindings") == 50


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_draws_what_a_broker_did_and_another_topology(browser: Browser, tmp_path: Path) -> None:
    report = to_json(compared(Random(3)))
    assert report["verification"]["differences"]
    assert report["comparison"]["rerouted"]
    dom = drawn(browser, report, tmp_path)
    assert 'data-state="ready"' in dom
    assert "data-errors" not in dom
    assert rows_of(dom, "differences") == min(25, len(report["verification"]["differences"]))
    assert 0 < rows_of(dom, "rerouted") <= 25


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_draws_any_name(browser: Browser, tmp_path: Path) -> None:
    dom = drawn(browser, to_json(odd()), tmp_path)
    assert 'data-state="ready"' in dom
    assert "data-errors" not in dom
    assert r"\udcff\udc80" in dom


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_an_empty_report_is_drawn_too(browser: Browser, tmp_path: Path) -> None:
    dom = drawn(browser, to_json(report_of(Topology(), [])), tmp_path)
    assert 'data-state="ready"' in dom
    assert "data-errors" not in dom
    assert "No message was counted." in dom


def layered(random: Random, exchanges: int) -> Topology:
    """Return fanout exchanges that lead to later ones only, such as one for each type of message and its supertypes."""
    names = [f"Contracts:Event{number}" for number in range(exchanges)]
    bindings = [
        Binding.to_exchange(names[one], names[other])
        for one in range(exchanges)
        for other in random.sample(range(one + 1, exchanges), min(2, exchanges - one - 1))
        if random.random() < 0.3
    ]
    return Topology(
        [Exchange(name, "fanout") for name in names],
        [Queue(name) for name in names[::3]],
        [*bindings, *(Binding.to_queue(name, name) for name in names[::3])],
    )


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_browser_shows_how_much_a_page_lacks_beside_what_it_has(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "ROWS", 2_000)
    report = large(5_000)
    report["totals"]["bindings"]["states"] = {"hit": 2_500, "dead": 2_500}
    dom = drawn(browser, report, tmp_path)
    assert "data-errors" not in dom
    text = re.sub(r"<[^>]*>", "", dom)
    assert "This page has 2,000 of 5,000 bindings" in text
    assert "2,000 rows; 3,000 more are not in this page" in text
    assert "dead 1,000 of 2,500" in text
    assert "hit 1,000 of 2,500" in text
    assert "connections without a message" not in text or "At least" in text


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_arguments_are_in_the_notation_of_the_language_and_the_title_is_the_name_of_the_file(
    browser: Browser, tmp_path: Path
) -> None:
    headers = {"x-match": "any", "mode": "644", "urgent": True, "size": 5, "parts": None}
    topology = Topology([Exchange("h", "headers")], [Queue("q")], [Binding.to_queue("h", "q", "", headers)])
    report = json.loads(json.dumps(to_json(report_of(topology, [Message("h", "", headers={"urgent": True})]))))
    report["audited"]["topology"]["source"] = "/srv/<deep>/orders.bindings"
    dom = drawn(browser, report, tmp_path)
    assert 'any { mode = "644", urgent = true, size = 5, parts = null }' in dom
    assert "<title>Audit of orders.bindings</title>" in dom
    assert 'Audit of <bdi title="/srv/<deep>/orders.bindings">orders.bindings</bdi>' in unescape(dom)
    assert report_in(build_page(report)) == report
    report["audited"]["topology"]["source"] = "http://broker:15672/orders"
    assert "<title>Audit of http://broker:15672/orders</title>" in build_page(report)


def test_the_most_severe_findings_stay_in_a_page_that_lacks_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "ROWS", 1_500)
    report = large(10)
    finding = deepcopy(report["findings"][0])
    report["findings"] = [
        {**finding, "severity": "error" if number > 2_900 else "note", "message": str(number)}
        for number in range(3_000)
    ]
    kept = report_in(build_page(report))["findings"]
    assert len(kept) == 1_500
    assert sum(row["severity"] == "error" for row in kept) == 99
    assert [int(row["message"]) for row in kept] == sorted(int(row["message"]) for row in kept)


def flow_of(dom: str) -> str:
    """Return the section with the picture of the flow."""
    return dom[dom.index('<section id="flow"') :].partition("</section>")[0]


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_gathering_nodes_adds_no_cycle_to_the_picture_of_a_flow(browser: Browser, tmp_path: Path) -> None:
    random = Random(15)
    topology = layered(random, 300)
    names = [*topology.exchanges]
    messages = [Message(random.choice(names), "") for _ in range(3_000)]
    flow = flow_of(drawn(browser, to_json(report_of(topology, messages)), tmp_path))
    assert "other exchanges" in flow
    assert "several, drawn as one" in flow
    assert not re.findall(r'class="link[^"]* back', flow)
    assert "leads back" not in flow


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_cycle_of_exchanges_is_drawn_and_its_colour_named(browser: Browser, tmp_path: Path) -> None:
    topology = Topology(
        [Exchange(name, "fanout") for name in "abc"],
        [Queue("q")],
        [*(Binding.to_exchange(one, other) for one, other in ("ab", "bc", "ca")), Binding.to_queue("b", "q")],
    )
    flow = flow_of(drawn(browser, to_json(report_of(topology, [Message("a", "")])), tmp_path))
    assert len(re.findall(r'class="link[^"]* back', flow)) == 1
    assert "leads back: a cycle" in flow
    assert "drawn as one" not in flow
