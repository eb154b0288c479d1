"""Each question of the page has the answer that the library and the other commands give."""

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.serve.explorer import QUESTIONS, DraftGone, Explorer
from bindings.serve.pictures import NEIGHBOURS
from bindings.serve.traffic import ReportTraffic
from bindings.serve.watching import WatchedSource
from bindings.sources.document import Document
from bindings.sources.open import Source, open_source
from bindings.sources.section import Section
from exchange import Topology
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import BrokerError, HashstarError, InputError, PreconditionFailed
from exchange.routing.explain_json import to_json
from exchange.routing.router import Router
from exchange.values.field_json import encode_message
from tests.support import topologies
from tests.support.program import invoke
from tests.support.releases import NEXT_SERIES
from tests.support.tiers import examples

ORDERS = "examples/orders/orders.bindings"
TYPES = topologies.Kinds(
    ("direct", "fanout", "topic", "topic", "headers", "x-recent-history", "x-consistent-hash", "x-modulus-hash"), 0
)
"""Exchange types without chance, so that a message has one route."""


def explorer_of(topology: Topology, traffic: ReportTraffic | None = None) -> Explorer:
    document = Document({topology.vhost: Section(topology)})
    return Explorer(WatchedSource(lambda: Source("test", document), None, None, None), traffic)


def explore(path: str, traffic: ReportTraffic | None = None) -> Explorer:
    return Explorer(WatchedSource(lambda: open_source(path), path, None, None), traffic)


def ask(explorer: Explorer, question: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to a question, as a page gets it."""
    answer: dict[str, Any] = json.loads(json.dumps(explorer.answer(question, json.dumps(fields).encode())))
    return answer


def message_of(exchange: str, key: str, **headers: Any) -> dict[str, Any]:
    return {"exchange": exchange, "routing_key": key, "headers": headers}


def part(kind: str, name: str) -> dict[str, str]:
    return {"kind": kind, "name": name}


@pytest.mark.parametrize(
    ("exchange", "key", "options"),
    [
        ("orders", "order.eu.paid", []),
        ("orders", "order.eu.paid", ["-q", "climate"]),
        ("orders", "order.eu.paid", ["-q", "warehouse-us", "-H", "tenant=acme"]),
        ("orders", "nonsense", ["-q", "nowhere"]),
        ("documents", "", ["-H", 'format="pdf"', "-H", "pages=1"]),
        ("", "billing", []),
    ],
)
def test_explain_is_the_json_of_the_command(exchange: str, key: str, options: list[str]) -> None:
    ended = invoke("explain", "-t", ORDERS, "--json", *options, "--", exchange, key)
    headers = dict(value.split("=") for option, value in pairwise(options) if option == "-H")
    message = message_of(exchange, key, **{name: _value(text) for name, text in headers.items()})
    queue = options[1] if "-q" in options else None
    assert ask(explore(ORDERS), "explain", message=message, queue=queue) == json.loads(ended.stdout)


def test_a_message_that_the_broker_refuses_for_its_expiration_is_explained_nowhere() -> None:
    reason = "406 PRECONDITION_FAILED - invalid expiration '1s': {leftover_string,\"s\"}"
    assert reason in invoke("explain", "-t", ORDERS, "-P", 'expiration="1s"', "--", "orders", "order.eu.paid").stderr
    message = {**message_of("orders", "order.eu.paid"), "properties": {"expiration": "1s"}}
    with pytest.raises(PreconditionFailed, match="invalid expiration '1s'"):
        ask(explore(ORDERS), "explain", message=message, queue=None)


def test_explain_says_that_a_release_is_unknown_as_the_command_does(tmp_path: Path) -> None:
    path = tmp_path / "newer.bindings"
    path.write_text(f"profile rabbitmq-{NEXT_SERIES}\nqueue q\n")
    ended = invoke("explain", "-t", str(path), "--json", "--", "", "q")
    answer = ask(explore(str(path)), "explain", message=message_of("", "q"))
    assert answer == json.loads(ended.stdout)
    assert answer["caveat"].startswith(f"RabbitMQ {NEXT_SERIES} is newer than")


@pytest.mark.parametrize(
    ("exchange", "key", "headers", "reason"),
    [
        ("orders", "order.eu", {}, "audit"),
        ("amq.topic", "sensor.cellar.humidity", {}, "word 3 is 'humidity', it wants 'temperature'"),
        ("documents", "", {"urgent": False, "copies": 2.5}, "header 'urgent' is false, it wants true"),
        ("amq.direct", "k", {}, None),
    ],
)
def test_an_unroutable_message_has_the_nearest_binding(
    exchange: str, key: str, headers: dict[str, Any], reason: str | None
) -> None:
    """Of keys as of headers, without a queue that is asked for; none where the exchange has no bindings."""
    explorer, message = explore(ORDERS), message_of(exchange, key, **headers)
    route = ask(explorer, "explain", message=message)
    missed = ask(explorer, "missed", message=message)["obstacles"]
    if route["unroutable"] is False:
        return
    assert [each["exchange"] for each in missed] == ([] if reason is None else [exchange])
    assert all(reason in each["reason"] for each in missed if reason)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@given(st.integers(0, 2**32))
@examples(60)
def test_explain_and_rows_agree_with_the_router_on_any_topology(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE, TYPES)
    explorer, router = explorer_of(topology), Router(topology)
    for _ in range(5):
        message = topologies.message(rng, topology)
        asked = encode_message(message)
        explanation = router.explain(message)
        expected = json.loads(json.dumps({**to_json(explanation), "profile": topology.profile.name}))
        assert ask(explorer, "explain", message=asked) == expected
        taken = {binding for hop in explanation.hops for binding in hop.matched}
        for name in topology.exchanges:
            rows = ask(explorer, "rows", source=name, message=asked, most=200)["rows"]
            assert len(rows) == len(topology.bindings_from(name))
            found = [Document.loads(row["text"]).topology().bindings for row in rows]
            unsure = {hop.exchange.name for hop in explanation.hops if hop.undecided}
            for row, bindings in zip(rows, found, strict=True):
                (binding,) = bindings
                if name not in unsure:
                    assert row["matched"] is (binding in taken)
                assert bool(row["reason"]) is (row["matched"] is not True)


def test_the_source_and_the_topology_describe_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('vhost "/a"\nqueue q\nexchange x: fanout\nx -> q\nvhost "/b"\n')
    explorer = explore(str(path))
    source = ask(explorer, "source")
    assert source["vhosts"] == ["/a", "/b"]
    assert (source["vhost"], source["version"], source["watched"], source["fault"]) == ("/a", 1, True, None)
    topology = ask(explorer, "topology")
    assert (topology["vhost"], topology["queues"], topology["bindings"], topology["first"]) == ("/a", 1, 1, "x")
    assert ask(explorer, "topology", vhost="/b")["queues"] == 0


def test_the_search_ranks_whole_names_then_beginnings_then_words() -> None:
    names = ["order", "orders", "new-order", "reorder", "x"]
    explorer = explorer_of(Document.loads("\n".join(f"queue {name}" for name in names)).topology())
    answer = ask(explorer, "search", text=" ORDER ", kind="queue")
    assert [each["name"] for each in answer["parts"]] == names[:4]
    answer = ask(explorer, "search", text="order", kind="queue", most=1)
    assert [each["name"] for each in answer["parts"]] == ["order"]
    assert answer["more"] == 3


def test_rows_say_why_a_message_does_not_take_them() -> None:
    rows = ask(explore(ORDERS), "rows", source="orders", message=message_of("orders", "order.eu.payd"))["rows"]
    reasons = {row["routing_key"]: (row["matched"], row["reason"], row["line"]) for row in rows}
    assert reasons["order.#"][:2] == (True, "")
    assert reasons["order.eu.paid"][:2] == (False, "word 3 is 'payd', it wants 'paid'")
    line = reasons["order.*.paid"][2]
    assert "order.*" in Path(ORDERS).read_text().splitlines()[line]
    away = ask(explore(ORDERS), "rows", source="documents", message=message_of("orders", "order"))["rows"]
    assert {row["reason"] for row in away} == {"the message does not get to exchange 'documents'"}
    both = ask(explore(ORDERS), "rows", source="orders", destination=part("queue", "billing"))
    assert {row["destination"] for row in both["rows"]} == {"billing"}
    assert {row["matched"] for row in both["rows"]} == {None}


def test_a_picture_of_a_large_topology_is_what_is_near_and_of_a_small_one_everything() -> None:
    lines = ["exchange hub: topic"] + [f'queue q{n}\nhub -> q{n}: "k{n}"' for n in range(300)]
    explorer = explorer_of(Document.loads("\n".join(lines)).topology())
    picture = ask(explorer, "picture", focus=[part("queue", "q7"), part("queue", "q250")], most=20)
    assert len(picture["nodes"]) == 20
    assert picture["left_out"] == 281
    names = {node["name"] for node in picture["nodes"]}
    assert {"q7", "q250", "hub"} <= names
    assert {edge["destination"] for edge in picture["edges"]} <= names
    assert len(ask(explorer, "picture", focus=[part("queue", "q7")])["nodes"]) == 1 + NEIGHBOURS
    assert len(ask(explorer, "picture", most=500)["nodes"]) == 301
    assert ask(explorer, "picture", most=1)["left_out"] == 300
    small = ask(explore(ORDERS), "picture")
    assert small["left_out"] == 0
    assert small["svg"].startswith("<svg")
    assert "<style" not in small["svg"]
    assert "<script" not in small["svg"]
    assert ".shape" in small["style"]


def test_the_meaning_of_a_draft_is_that_of_diff(tmp_path: Path) -> None:
    explorer = explore(ORDERS)
    edits = ['- orders -> billing: "order.*.paid"', "+ queue neu", '+ orders -> neu: "order.#"']
    draft = ask(explorer, "draft", edits=edits)["draft"]
    answer = ask(explorer, "meaning", draft=draft)
    changed = tmp_path / "changed.bindings"
    text = re.sub("(?m)^expect .*$", "", Path(ORDERS).read_text()).replace('    "order.*.paid",\n', "")
    changed.write_text(text + '\nqueue neu\norders -> neu: "order.#"\n')
    ended = invoke("diff", "--json", ORDERS, str(changed))
    assert ended.exit_code == 1, ended.stderr
    expected = json.loads(ended.stdout)
    assert answer["meaning"] == expected["meaning"]
    assert answer["plan"]["steps"] == expected["plan"]["steps"]
    assert answer["loses"]
    before = ask(explorer, "explain", message=message_of("orders", "order.eu.paid"))
    after = ask(explorer, "explain", message=message_of("orders", "order.eu.paid"), draft=draft)
    assert "billing" in before["queues"]
    assert "billing" not in after["queues"]
    assert "neu" in after["queues"]
    same = ask(explorer, "draft", text=Path(ORDERS).read_text())["draft"]
    assert ask(explorer, "meaning", draft=same)["meaning"]["verdict"] == "same"


def test_findings_are_those_of_check(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange x: topic\nqueue q\nqueue lone\nx -> q: "a.#", "a.b"\nexpect x "a" -> lone\n')
    ended = invoke("check", "--format", "json", str(path))
    (host,) = json.loads(ended.stdout)["vhosts"]
    expected = [finding for finding in host["findings"] if finding["code"] != "HS901"]
    answer = ask(explore(str(path)), "findings")["findings"]
    assert {finding["code"] for finding in answer} >= {"HS204", "HS801"}
    assert answer == expected
    draft = ask(explore(str(path)), "draft", edits=["- queue lone"])
    assert set(draft) == {"draft"}


def test_the_counts_of_an_audit_stand_beside_the_bindings(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = invoke("audit", "-t", ORDERS, "--no-spark", "--json", str(report), "examples/orders/traffic.jsonl")
    assert report.exists(), ended.stderr
    counted = {
        (row["source"], row["destination"], row["routing_key"], json.dumps(row["arguments"])): row
        for row in json.loads(report.read_text())["bindings"]
    }
    explorer = explore(ORDERS, ReportTraffic.load(str(report)))
    assert ask(explorer, "topology")["counted"] == len(counted) == 12
    rows = ask(explorer, "rows", source="orders", most=100)["rows"]
    assert rows
    for row in rows:
        expected = counted[row["source"], row["destination"], row["routing_key"], json.dumps(row["arguments"])]
        assert row["traffic"] == {name: expected[name] for name in ("messages", "possible", "state")}
    edges = ask(explorer, "picture")["edges"]
    for edge in edges:
        ends = [
            row
            for row in counted.values()
            if (row["source"], row["destination"]) == (edge["source"], edge["destination"])
        ]
        if not edge["alternate"] and not edge["dead_letters"]:
            assert edge["messages"] == sum(row["messages"] for row in ends)
            assert edge["dead"] is all(row["state"] == "dead" for row in ends)
    keys = ask(explorer, "part", part=part("exchange", "orders"))["keys"]
    assert keys["hot"]
    assert all(each["messages"] > 0 for each in keys["hot"])


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "5", '{"bindings": []}', '{"audited": 5}', "\x00", '{"audited": {"topology": {}}}']
)
def test_what_is_no_report_of_an_audit_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"r\.json"):
        ReportTraffic.load(str(path))


@pytest.mark.parametrize(
    ("question", "fields", "error", "text"),
    [
        ("explain", {}, InputError, "message is wanted"),
        ("explain", {"message": 5}, InputError, "object"),
        ("explain", {"message": {"exchange": 5}}, InputError, "exchange"),
        ("explain", {"message": message_of("nowhere", "k")}, BrokerError, "404"),
        ("explain", {"message": message_of("unrouted", "k")}, BrokerError, "403"),
        ("explain", {"message": message_of("orders", "k" * 256)}, InputError, "255"),
        ("explain", {"message": message_of("orders", "k"), "vhost": "/other"}, InputError, "no virtual host"),
        ("explain", {"message": message_of("orders", "k"), "draft": "none"}, DraftGone, "not kept"),
        ("explain", {"message": message_of("orders", "k"), "draft": 5}, InputError, "draft"),
        ("nearest", {"message": message_of("orders", "k")}, InputError, "queue or binding"),
        ("nearest", {"message": message_of("orders", "k"), "binding": {}}, InputError, "binding"),
        ("rows", {}, InputError, "source or destination"),
        ("rows", {"source": "orders", "most": 0}, InputError, "most"),
        ("rows", {"source": "orders", "most": True}, InputError, "most"),
        ("part", {"part": {"kind": "policy", "name": "x"}}, InputError, "part"),
        ("picture", {"focus": [part("queue", "q")] * 501}, InputError, "focus"),
        ("picture", {"most": 501}, InputError, "most"),
        ("search", {"kind": "vhost"}, InputError, "kind"),
        ("draft", {"edits": "x"}, InputError, "edits"),
        ("draft", {"edits": ["+ queue q"] * 201}, InputError, "edits"),
        ("draft", {"text": "quue a"}, InputError, "draft:1:1"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_names_the_field(
    question: str, fields: dict[str, Any], error: type[HashstarError], text: str
) -> None:
    with pytest.raises(error, match=text):
        ask(explore(ORDERS), question, **fields)


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"\xff", b'{"a": 1, "a": 2}', b"[" * 100_000])
def test_a_body_that_is_no_object_is_an_error(body: bytes) -> None:
    with pytest.raises(InputError):
        explore(ORDERS).answer("source", body)


def test_every_question_can_be_asked_about_any_name() -> None:
    odd = "a\udcff\u202e<script>\n'\""
    topology = Document.loads("").topology()
    explorer = explorer_of(topology)
    for question in QUESTIONS:
        if question in ("explain", "nearest", "missed"):
            with pytest.raises(BrokerError):
                ask(explorer, question, message=message_of(odd, odd), queue=odd)
        else:
            ask(explorer, question, text=None if question == "draft" else odd, source=odd, part=part("queue", odd),
                destination=part("queue", odd), focus=[part("queue", odd)])  # fmt: skip
