"""The HTTP interface: its answers, who may ask for them, and what it answers while the event loop hangs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import time
from email.message import Message
from http.client import HTTPConnection
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge.daemon import web as web_module
from bridge.daemon.config import Config, Http
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.pumps import RunningPump
from bridge.daemon.telemetry.metrics import Metrics
from bridge.daemon.views import Condition
from bridge.daemon.web import Web
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, InputError, Queue, Router, Topology
from tests.bridge.daemon.test_metrics import parse_metrics
from tests.support.bridge.behaviour import Silent, on_a_loop
from tests.support.browser import CHROMIUM, NO_BROWSER, Browser
from tests.support.waiting import find_limit, until

TOPOLOGY = (
    Topology().declare_exchange(Exchange("e", "topic")).declare_queue(Queue("q")).bind(Binding.to_queue("e", "q", "#"))
)


def serve(host: str = "127.0.0.1", port: int = 0, *names: str) -> tuple[Web, Metrics, Pump, str]:
    """Yield a web server of a pump that does nothing, and its address, on a running loop."""
    inlets = (Inlet(MemorySource(name="in")),)
    targets = {"q": MemoryTarget("out")}
    config = Config("bridge.toml", TOPOLOGY, inlets, targets, http=Http(host, port, names))
    metrics = Metrics()
    pump = Pump(inlets, Router(TOPOLOGY), targets, Silent())
    health = Health(pump, inlets, metrics, Journal(level="error"), config=config.path)
    metrics.on_change = health.look
    web = Web(config, {"": RunningPump(config, pump, metrics=metrics, health=health)}, asyncio.get_running_loop())
    return web, metrics, pump, web.start()


def send_request(address: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    connection = HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=find_limit())
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


async def request(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(send_request, address, method, path, headers)


def check_with_prometheus(text: str) -> None:
    """Check that Prometheus's own client reads the same samples and types as our own stricter parser."""
    families = parse_metrics(text)
    theirs = {family.name: family for family in text_string_to_metric_families(text)}
    assert theirs.keys() == {name.removesuffix("_total") for name in families}
    for name, (kind, samples) in families.items():
        family = theirs[name.removesuffix("_total")]
        assert family.type == kind
        assert family.documentation
        assert {(each.name, frozenset(each.labels.items())) for each in family.samples} == samples.keys()


def lines(text: str) -> list[str]:
    """Return the lines of an answer without their start times."""
    return [re.sub(r" since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "", line) for line in text.splitlines()]


@on_a_loop
async def test_a_bridge_is_ready_when_all_are_connected_and_it_is_neither_paused_nor_draining() -> None:
    web, metrics, pump, address = serve()
    code, _, body = await request(address, "/ready")
    assert (code, lines(body)) == (
        503, ["out: not connected yet (disconnected)", "in: waits until out can be written to (waiting)"],
    )  # fmt: skip
    metrics.connected("in")
    metrics.connected("out")
    assert (await request(address, "/ready"))[::2] == (200, "ok\n")
    metrics.disconnected("out", OSError("gone"), 1.0)
    code, _, body = await request(address, "/ready")
    assert (code, lines(body)) == (503, ["out: gone (disconnected)"])
    metrics.connected("out")
    metrics.disconnected("in", OSError("gone"), 1.0)
    metrics.ended("in")  # it is not needed any more
    pump.pause()
    code, _, body = await request(address, "/ready")
    assert (code, lines(body)) == (503, ["paused (paused)"])
    pump.resume()
    pump.stop()
    code, _, body = await request(address, "/ready")
    assert (code, lines(body)) == (503, ["it waits until everything that was read is settled (draining)"])
    assert (await request(address, "/live"))[0] == 200
    web.stop()


@on_a_loop
async def test_every_answer_has_its_content_type() -> None:
    web, _, _, address = serve()
    code, kind, metrics = await request(address, "/metrics?name=x")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    check_with_prometheus(metrics)
    assert parse_metrics(metrics)["hashstar_paused"] == ("gauge", {("hashstar_paused", frozenset()): 0.0})
    code, kind, status = await request(address, "/status")
    assert (code, kind, json.loads(status)["version"]) == (200, "application/json", 1)
    assert (await request(address, "/coverage"))[0] == 404
    code, kind, page = await request(address, "/")
    assert (code, kind) == (200, "text/html; charset=utf-8")
    web.stop()
    # Names are put into the page as texts only, and nothing is fetched from elsewhere.
    assert "innerHTML" not in page
    assert not re.search(r'(src|href)="?(https?:)?//', page)
    content = json.loads(status)
    rows = {"sources": "source", "targets": "target", "conditions": "condition", "fates": "fate"}
    web.stop()
    for part, name in rows.items():
        shown = {*re.findall(rf"\b{name}\.(\w+)", page)}
        assert shown
        assert shown <= documented_status()[part]
        assert all(row.keys() == documented_status()[part] for row in content[part])
    assert {*re.findall(r"\bstatus\.(\w+)", page)} <= content.keys()


def documented_status() -> dict[str, set[str]]:
    """Return the keys that the guide documents for ``/status``."""
    return {
        "sources": {
            "name", "up", "ended", "places", "messages", "bytes", "redelivered", "filtered", "unreadable", "unsettled",
            "unsettled_bytes", "fill", "oldest", "oldest_age", "lag", "withheld", "vanished", "survives",
            "on_hold", "held",
        },
        "targets": {
            "name", "up", "places", "dead_letters", "in_flight", "held", "oldest_age", "waiting", "queues", "refusals",
            "latency",
        },
        "conditions": {"endpoint", "kind", "reason", "since", "way_out"},
        "fates": {"endpoint", "fate", "messages"},
    }  # fmt: skip


@on_a_loop
async def test_a_browser_runs_the_script_of_the_page_and_no_other() -> None:
    web, _, _, address = serve()
    headers, page = await asyncio.to_thread(answer_of, address)
    web.stop()
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    for name in ("script", "style"):
        [text] = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{name}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert not re.search(r'\s(style|on\w+)="', page)  # which the policy forbids


Shown = dict[str, tuple[bool, str]]
"""Endpoint -> whether its band is red, and the word for its state."""


@pytest.mark.skipif(not CHROMIUM, reason=NO_BROWSER)
def test_a_system_that_is_away_or_not_well_has_a_red_band_and_is_not_called_connected(browser: Browser) -> None:
    """And no other; as all others once it is there again."""

    async def run() -> tuple[Shown, Shown, Shown]:
        web, metrics, _, address = serve()
        metrics.connected("in")
        metrics.disconnected("out", OSError("no broker answers"), 1.0)
        away = await asyncio.to_thread(show, address)
        metrics.connected("out")
        there = await asyncio.to_thread(show, address)
        web.pumps[""].health.conditions = (
            Condition("out", "backpressure", "queue q takes nothing", 0.0, "see the queue"),
        )
        unwell = await asyncio.to_thread(show, address)
        web.stop()
        return away, there, unwell

    def show(address: str) -> Shown:
        browser.visit(address)
        browser.wait("document.querySelectorAll('#flow path').length === 2")
        red = browser.evaluate(
            "[...document.querySelectorAll('#flow path')].map((each) => each.classList.contains('unwell'))"
        )
        words = browser.evaluate("[...document.querySelectorAll('span.up, span.down')].map((each) => each.textContent)")
        assert browser.errors == []
        return dict(zip(("in", "out"), zip(red, words, strict=True), strict=True))

    assert asyncio.run(run()) == (
        {"in": (False, "connected"), "out": (True, "not well")},
        {"in": (False, "connected"), "out": (False, "connected")},
        {"in": (False, "connected"), "out": (True, "connected, not well")},
    )


def answer_of(address: str) -> tuple[Message[str, str], str]:
    with urlopen(address, timeout=find_limit()) as answer:  # noqa: S310  it is our own
        return answer.headers, answer.read().decode()


@on_a_loop
async def test_a_page_from_elsewhere_can_neither_read_nor_pause() -> None:
    web, _, pump, address = serve("127.0.0.1", 0, "bridge.example.com")
    evil = {"Host": "evil.example", "Origin": "http://evil.example", "X-Hashstar": "1"}
    for method, path in (("POST", "/pause"), ("GET", "/status"), ("GET", "/")):
        code, _, body = await request(address, path, method, **evil)
        assert code == 421
        assert "http_hosts" in body
    assert (await request(address, "/status", Host="bridge.example.com"))[0] == 200
    await asyncio.sleep(0)
    assert not pump.paused
    web.stop()


@on_a_loop
async def test_only_requests_with_the_header_can_pause() -> None:
    web, _, pump, address = serve()
    assert (await request(address, "/pause", "POST"))[0] == 403
    assert (await request(address, "/pause", "POST", Origin="http://elsewhere"))[0] == 403
    assert (await request(address, "/pause", "OPTIONS", Origin="http://elsewhere"))[0] == 501
    assert (await request(address, "/pause", "GET"))[0] == 404
    assert not pump.paused
    assert (await request(address, "/pause", "POST", **{"X-Hashstar": "1"}))[0] == 202
    await asyncio.sleep(0)
    assert web.status()["paused"]
    assert (await request(address, "/resume", "POST", **{"X-Hashstar": "1"}))[0] == 202
    await asyncio.sleep(0)
    assert not pump.paused
    assert (await request(address, "/drain", "POST"))[0] == 403
    assert (await request(address, "/drain", "POST", **{"X-Hashstar": "1"}))[::2] == (202, "draining\n")
    await asyncio.sleep(0)
    assert web.status()["drained"]  # at once, as nothing is under way
    assert not web.status()["draining"]
    assert "drained: nothing is read or under way (drained" in (await request(address, "/ready"))[2]
    assert (await request(address, "/resume", "POST", **{"X-Hashstar": "1"}))[0] == 202
    await asyncio.sleep(0)
    assert not pump.drained
    web.stop()


@on_a_loop
async def test_a_bridge_whose_event_loop_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_module, "SLOW", 0.2)
    web, _, _, address = serve()

    async def is_alive() -> bool:
        return (await request(address, "/live"))[0] == 200

    await until(is_alive)
    time.sleep(0.5)  # noqa: ASYNC251  so that it does not turn
    assert send_request(address, "GET", "/live", {})[::2] == (503, "the event loop does not turn\n")
    assert send_request(address, "GET", "/ready", {})[::2] == (503, "the event loop does not turn\n")
    await until(is_alive)
    web.stop()


@on_a_loop
async def test_an_address_that_cannot_be_bound_is_reported() -> None:
    web, _, _, address = serve()
    port = int(address.rstrip("/").rpartition(":")[2])
    with pytest.raises(InputError, match=f"http: 127.0.0.1:{port} cannot be served: Address already in use"):
        serve(port=port)
    web.stop()


@on_a_loop
async def test_an_address_of_ip_6_may_be_served() -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    web, _, _, address = serve("::1")
    assert re.fullmatch(r"http://\[::1\]:\d+/", address)
    assert (await request(address, "/live"))[0] == 200
    web.stop()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [("", 200, "reloaded"), ("wrong", 409, "wrong"), (asyncio.CancelledError, 503, "ended"), (None, 202, "/status")],
)
@on_a_loop
async def test_a_reload_that_lasts_is_not_refused(
    outcome: object, code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reload(pipeline: str | None) -> str:
        assert pipeline is None
        if outcome is None:
            await asyncio.Event().wait()
        if not isinstance(outcome, str):
            raise asyncio.CancelledError
        return outcome

    if outcome is None:
        monkeypatch.setattr(web_module, "PATIENCE", 0.0)
    web, _, _, address = serve()
    web._reload = reload
    try:
        answer = await asyncio.to_thread(send_request, address, "POST", "/reload", {"X-Hashstar": "1"})
        assert (answer[0], text in answer[2]) == (code, True)
    finally:
        web.stop()
