"""What several pipelines show, and how one of them is asked: by HTTP, by commands, on the page, by Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.daemon.asking.forms import to_json, to_text
from bridge.daemon.asking.orders import Result, give_order, reload
from bridge.daemon.asking.processes import Answers, find_addresses, parse_process, read_all
from bridge.daemon.config import Config, Http
from bridge.daemon.coverage import CoverageCounter
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import UnknownPipeline
from bridge.daemon.pumps import RunningPump
from bridge.daemon.telemetry.metrics import Metrics
from bridge.daemon.web import Web
from bridge.endpoint import Delivery
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet, Pump
from exchange import Message, Router
from tests.bridge.daemon.test_asking import make_document, serving, show_only
from tests.bridge.daemon.test_metrics import parse_metrics
from tests.bridge.daemon.test_web import TOPOLOGY, check_with_prometheus, lines, request
from tests.bridge.schema.test_schemas import check
from tests.support.bridge.behaviour import Silent, on_a_loop
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser
from tests.support.waiting import stretch

POST = {"X-Hashstar": "1"}


def serve(*names: str, coverage: tuple[str, ...] = ()) -> tuple[Web, dict[str, RunningPump], str]:
    """Serve pipelines that do nothing, each with a source `in` and a target `out`; return the address, too."""
    pumps: dict[str, RunningPump] = {}
    for name in names:
        inlets, targets, metrics = (Inlet(MemorySource(name="in")),), {"q": MemoryTarget("out")}, Metrics()
        config = Config("bridge.toml", TOPOLOGY, inlets, targets, name=name)
        pump = Pump(inlets, Router(TOPOLOGY), targets, Silent())
        health = Health(pump, inlets, metrics, Journal(level="error"), config=f"bridge.toml --pipeline {name}")
        metrics.on_change = health.look
        counter = CoverageCounter("bridge.toml", TOPOLOGY) if name in coverage else None
        pumps[name] = RunningPump(config, pump, counter, metrics=metrics, health=health)
    parts = tuple([each.config for each in pumps.values()])
    file = Config("bridge.toml", TOPOLOGY, (), {}, http=Http("127.0.0.1", 0), pipelines=parts)
    web = Web(file, pumps, asyncio.get_running_loop())
    return web, pumps, web.start()


def connect(running: RunningPump) -> None:
    running.metrics.connected("in")
    running.metrics.connected("out")


@on_a_loop
async def test_a_bridge_is_ready_when_all_pipelines_are_and_each_can_be_asked_by_itself() -> None:
    web, pumps, address = serve("a", "b")
    connect(pumps["a"])
    assert (await request(address, "/ready?pipeline=a"))[::2] == (200, "ok\n")
    for path in ("/ready", "/ready?pipeline=b"):
        code, _, body = await request(address, path)
        assert (code, lines(body)) == (
            503, ["b: out: not connected yet (disconnected)", "b: in: waits until out can be written to (waiting)"],
        )  # fmt: skip
    for path in ("/ready?pipeline=a&pipeline=b", "/ready?pipeline=b&pipeline=a"):
        assert (await request(address, path))[0] == 503
    connect(pumps["b"])
    for path in ("/ready", "/ready?pipeline=a&pipeline=b"):
        assert (await request(address, path))[::2] == (200, "ok\n")
    there = (404, "there is no pipeline 'orders'; there are a, b\n")
    assert (await request(address, "/ready?pipeline=orders"))[::2] == there
    assert (await request(address, "/ready?pipeline=aa"))[::2] == (
        404,
        "there is no pipeline 'aa'; did you mean 'a'?\n",
    )
    assert (await request(address, "/ready?pipeline="))[0] == 404
    assert (await request(address, "/live"))[0] == 200
    web.stop()


@on_a_loop
async def test_orders_are_for_one_pipeline_or_for_all() -> None:
    web, pumps, address = serve("a", "b")

    async def post(path: str) -> int:
        code, _, _ = await request(address, path, "POST", **POST)
        await asyncio.sleep(0)
        return code

    def find_paused() -> list[str]:
        return [name for name, each in pumps.items() if each.pump.paused]

    assert (await post("/pause?pipeline=b"), find_paused()) == (202, ["b"])
    assert not web.status()["paused"]
    assert (await post("/pause?pipeline=c"), find_paused()) == (404, ["b"])
    assert (await post("/pause"), find_paused()) == (202, ["a", "b"])
    assert web.status()["paused"]
    assert (await post("/resume?pipeline=a"), find_paused()) == (202, ["b"])
    assert (await post("/drain?pipeline=b"), [each.pump.drained for each in pumps.values()]) == (202, [False, True])
    code, _, body = await request(address, "/pause?pipeline=a", "POST")
    assert (code, "X-Hashstar" in body) == (403, True)
    asked = list[str | None]()

    async def carry_out(pipeline: str | None) -> str:
        asked.append(pipeline)
        return ""

    web._reload = carry_out
    assert [await post(f"/reload{query}") for query in ("", "?pipeline=a", "?pipeline=new", "?pipeline=")] == [
        200, 200, 200, 404,
    ]  # fmt: skip
    assert asked == [None, "a", "new"]
    web.stop()


@on_a_loop
async def test_what_a_request_misspells_never_makes_it_one_about_all() -> None:
    web, pumps, address = serve("a", "b", coverage=("a", "b"))
    web._reload = None
    orders = [(f"/{order}", "POST") for order in ("pause", "drain", "resume", "reload")]
    several = ("/ready", "/status", "/metrics")
    for path, method in (*orders, *[(path, "GET") for path in (*several, "/coverage", "/")]):
        for query, code in (("pipelines=b", 400), ("pipeline=b&x=", 400), ("pipeline=nope", 404), ("pipeline=", 404)):
            is_new = (path, query) == ("/reload", "pipeline=nope")  # the file may have it by now
            found = await request(address, f"{path}?{query}", method, **POST)
            assert found[0] == (409 if is_new else code), (path, query, found)
        if path not in several:
            found = await request(address, f"{path}?pipeline=a&pipeline=b", method, **POST)
            assert found[::2] == (400, "name one pipeline\n")
    assert not any(each.pump.paused or each.pump.leaves for each in pumps.values())

    async def refuse(name: str | None) -> str:
        raise UnknownPipeline(f"there is no pipeline {name!r}")

    web._reload = refuse
    assert (await request(address, "/reload?pipeline=c", "POST", **POST))[::2] == (404, "there is no pipeline 'c'\n")
    web.stop()


@on_a_loop
async def test_a_bridge_of_one_pipeline_refuses_a_name_rather_than_do_it_with_all() -> None:
    web, pumps, address = serve("")
    for path in ("/pause?pipeline=a", "/reload?pipeline=a", "/pause?pipeline="):
        code, _, body = await request(address, path, "POST", **POST)
        assert (code, "the file of this bridge has one, without a name" in body) == (404, True)
    assert not pumps[""].pump.paused
    assert "pipelines" not in web.status()
    assert all("pipeline" not in row for part in ("sources", "targets", "conditions") for row in web.status()[part])
    web.stop()


@on_a_loop
async def test_metrics_and_status_name_the_pipeline_of_endpoints_with_one_name() -> None:
    web, pumps, address = serve("a", "b")
    connect(pumps["a"])
    pumps["b"].metrics.read("in", [Delivery(Message("", "k", body=b"12"))])
    pumps["b"].metrics.gave_up("out", None, None, "drop")  # type: ignore[arg-type]  # it counts only
    _, _, text = await request(address, "/metrics")
    check_with_prometheus(text)
    families = parse_metrics(text)
    ready = {dict(labels)["pipeline"]: value for (_, labels), value in families["hashstar_ready"][1].items()}
    assert ready == {"a": 1, "b": 0}
    of_process = {"hashstar_build_info", "hashstar_reloads_total", "hashstar_reload_refused"}
    of_process |= {"hashstar_dropped_log_lines_total"}
    for name, (_, samples) in families.items():
        named = [dict(labels).get("pipeline") for _, labels in samples]
        assert all(named) or (name in of_process or name.startswith("process_")), name
    status = web.status()
    check("bridge-status", status)
    assert [(each["name"], each["ready"]) for each in status["pipelines"]] == [("a", True), ("b", False)]
    assert [(each["pipeline"], each["name"], each["messages"]) for each in status["sources"]] == [
        ("a", "in", 0),
        ("b", "in", 1),
    ]
    assert {each["pipeline"] for each in status["conditions"]} == {"b"}
    assert status["fates"] == [{"pipeline": "b", "endpoint": "out", "fate": "drop", "messages": 1}]
    assert not status["ready"]
    web.stop()


@on_a_loop
async def test_the_status_of_a_pipeline_is_that_of_a_bridge_with_no_other() -> None:
    web, pumps, address = serve("a", "b", "c")
    connect(pumps["a"])
    pumps["b"].metrics.read("in", [Delivery(Message("", "k", body=b"12"))])
    pumps["b"].pump.pause()

    async def ask(*names: str) -> dict[str, Any]:
        code, _, text = await request(address, "/status?" + "&".join([f"pipeline={name}" for name in names]))
        assert code == 200
        check("bridge-status", found := json.loads(text))
        del found["now"]
        for each in found["conditions"]:
            del each["since"]  # what is paused is so since now
        return dict(found)

    whole = await ask()
    for name in pumps:
        found = await ask(name)
        assert found == {**whole, **show_only(whole, name), **{each: found[each] for each in ("missing", "history")}}
        assert {each.partition("/")[0] for each in found["history"]["sources"]} <= {name}
        assert found["missing"] == [each for each in whole["missing"] if each.startswith(f"{name}: ")]
    assert ((await ask("a"))["ready"], (await ask("b"))["paused"], whole["paused"]) == (True, True, False)
    both = await ask("c", "a")
    assert [each["name"] for each in both["pipelines"]] == ["a", "c"]
    assert ({each["pipeline"] for each in both["sources"]}, both["ready"]) == ({"a", "c"}, False)
    web.stop()


@on_a_loop
async def test_metrics_of_a_pipeline_are_its_series_and_those_of_the_process() -> None:
    web, pumps, address = serve("a", "b", "c", coverage=("a", "b"))
    connect(pumps["a"])

    async def scrape(query: str) -> dict[str, set[tuple[Any, ...]]]:
        code, _, text = await request(address, f"/metrics{query}")
        check_with_prometheus(text)
        assert code == 200
        return {name: {*samples} for name, (_, samples) in parse_metrics(text).items() if samples}

    whole = await scrape("")
    for query, names in (("?pipeline=b", {"b"}), ("?pipeline=a&pipeline=c", {"a", "c"})):
        own = {
            name: {key for key in samples if dict(key[1]).get("pipeline") in {*names, None}}
            for name, samples in whole.items()
        }
        assert await scrape(query) == {name: samples for name, samples in own.items() if samples}
    web.stop()


@on_a_loop
async def test_coverage_is_that_of_a_pipeline() -> None:
    web, _, address = serve("a", "b", "c", coverage=("a", "b"))
    code, _, body = await request(address, "/coverage")
    assert (code, body) == (400, "name one of the pipelines with coverage, as /coverage?pipeline=a\n")
    code, _, body = await request(address, "/coverage?pipeline=b")
    assert (code, "bindings" in json.loads(body)) == (200, True)
    assert (await request(address, "/coverage?pipeline=c"))[0] == 404
    check_with_prometheus((await request(address, "/metrics"))[2])
    web.stop()


def make_several(**states: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a process with pipelines of these names and states."""
    plain = {"ready": True, "ended": False, "paused": False, "draining": False, "drained": False, "unsettled": 0}
    document = make_document(config="b.toml", started=0.0, now=100.0)
    rows = {part: document[part][0] for part in ("sources", "targets")}
    for part, row in rows.items():
        document[part] = [{**row, "pipeline": name} for name in states]
    document["pipelines"] = [{"name": name, "missing": [], **plain, **state} for name, state in states.items()]
    return document


def test_a_command_asks_for_one_pipeline_or_waits_for_all() -> None:
    posts = list[str]()

    def pause(*names: str) -> Any:
        def post(document: dict[str, Any]) -> tuple[int, str]:
            for each in document["pipelines"]:
                each["paused"] |= each["name"] in names
            return 202, ""

        posts.extend(names)
        return post

    three = make_several(a={}, b={}, c={"ended": True})
    with serving(three, **{"pause?pipeline=b": pause("b"), "pause": pause("a", "b")}) as address:
        assert give_order([address], "pause", 60.0, "b") == Result("paused", done=True)
        assert [each["paused"] for each in three["pipelines"]] == [False, True, False]
        assert give_order([address], "pause", 60.0) == Result("paused", done=True)  # what has ended needs no pause
        result = give_order([address], "pause", 60.0, "bb")
        assert (result.done, [each.partition(": ")[2] for each in result.errors]) == (
            False, ["there is no pipeline 'bb'; there are a, b, c"],
        )  # fmt: skip


def test_a_bridge_of_an_earlier_release_is_not_asked_for_one_pipeline_as_it_would_do_it_with_all() -> None:
    asked = list[str]()

    def post(document: dict[str, Any]) -> tuple[int, str]:
        asked.append("asked")
        return 202, ""

    orders: tuple[Literal["pause", "drain", "resume"], ...] = ("pause", "drain", "resume")
    with serving(make_document(), pause=post, drain=post, resume=post, reload=post) as address:
        for result in (*[give_order([address], order, 60.0, "a") for order in orders], reload([address], 60.0, "a")):
            assert not result.done
            assert "the file of this bridge has one, without a name" in result.errors[0]
    assert asked == []


def test_a_resume_is_done_when_no_pipeline_is_paused_any_more() -> None:
    def resume(*names: str) -> Any:
        def post(document: dict[str, Any]) -> tuple[int, str]:
            for each in document["pipelines"]:
                each["paused"] &= each["name"] not in names
            return 202, ""

        return post

    seconds = float(f"{stretch(0.5):.1f}")
    for names, done in (((), False), (("b",), False), (("b", "c"), True)):
        with serving(make_several(a={}, b={"paused": True}, c={"paused": True}), resume=resume(*names)) as address:
            result = give_order([address], "resume", 60.0 if done else seconds)
            assert result == Result("resumed" if done else f"not resumed after {seconds:g} s", done)


def test_the_state_of_pipelines_is_a_table_of_its_own() -> None:
    document = make_several(a={}, b={"ready": False, "unsettled": 7}, c={"ended": True})
    condition = {"endpoint": "out", "kind": "held", "reason": "on hold", "since": 40.0, "way_out": "", "pipeline": "b"}
    process = parse_process("http://h:1", {**document, "conditions": [condition], "ready": False})
    assert [*to_text(Answers((process,)))] == [
        "b.toml: not ready",
        "address     state      runs for    not settled",
        "http://h:1  not ready  1 min 40 s  0",
        "",
        "pipeline  state      not settled",
        "a         ready      0",
        "b         not ready  7",
        "c         ended      0",
        "",
        "pipeline  source  state  waiting  not settled  oldest",
        "a         in      up     0        0            -",
        "b         in      up     0        0            -",
        "c         in      up     0        0            -",
        "",
        "pipeline  target  state  sent  held  oldest",
        "a         out     up     0     0     -",
        "b         out     up     0     0     -",
        "c         out     up     0     0     -",
        "",
        "b: out: on hold (held for 1 min 0 s)",
    ]
    only = Answers((parse_process("http://h:1", show_only(document, "a")),))
    assert [line for line in to_text(only) if re.match(r"[bc] ", line)] == []
    assert (to_json(only)["ready"], to_json(Answers((process,)))["ready"]) == (True, False)
    check("bridge-workers", to_json(Answers((process,))))


def test_the_commands_take_the_name_of_a_pipeline(tmp_path: Path) -> None:
    with serving(make_several(a={}, b={"ready": False})) as address:
        for arguments, code in (([], 0), (["--pipeline", "a"], 0), (["--pipeline", "b"], 1), (["--pipeline", "c"], 2)):
            done = CliRunner().invoke(hashstar, ["bridge", "status", address, *arguments])
            assert done.exit_code == code, done.output
        assert "there is no pipeline 'c'; there are a, b" in done.stderr
        done = CliRunner().invoke(hashstar, ["bridge", "status", address, "--pipeline", "a", "--json"])
        (shown,) = json.loads(done.stdout)["workers"]
        assert ([each["name"] for each in shown["pipelines"]], shown["ready"]) == (["a"], True)
        assert read_all(find_addresses(address, 5.0), 5.0, "b").processes[0].state == "not ready"


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_the_page_shows_all_pipelines_or_one(browser: Browser) -> None:
    async def run() -> list[Any]:
        web, pumps, address = serve("a", "b")
        connect(pumps["a"])
        shown = [await asyncio.to_thread(show, f"{address}{query}") for query in ("", "?pipeline=a")]
        web.stop()
        return shown

    def show(address: str) -> tuple[Any, ...]:
        browser.visit(address)
        browser.wait("document.querySelectorAll('#flow path').length > 0")
        names = browser.evaluate(
            "[...document.querySelectorAll('h3 > span:first-child')].map((each) => each.textContent)"
        )
        links = browser.evaluate("[...document.querySelectorAll('#pipelines a')].map((each) => each.textContent)")
        assert browser.errors == []
        return names, links, browser.evaluate("document.getElementById('ready').textContent")

    links = ["all pipelines", "a", "b"]
    assert asyncio.run(run()) == [
        (["a/in", "b/in", "a/out", "b/out"], links, "not ready"),
        (["a/in", "a/out"], links, "ready"),
    ]
