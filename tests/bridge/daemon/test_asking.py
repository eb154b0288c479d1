"""Commands that ask a bridge that runs: where, what hostile answers do, one answer for several workers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from bridge.daemon.asking.forms import to_json, to_text, write_age
from bridge.daemon.asking.orders import give_order, reload
from bridge.daemon.asking.processes import Answers, find_addresses, parse_process, read_all
from exchange import InputError
from tests.bridge.daemon.test_web import serve
from tests.support.bridge.behaviour import on_a_loop
from tests.support.waiting import stretch


@cache
def make_status() -> str:
    """Return a status, as a real server makes it."""
    found: list[str] = []

    @on_a_loop
    async def read() -> None:
        web, metrics, _, _ = serve()
        metrics.connected("in")
        metrics.connected("out")
        await asyncio.sleep(0)
        web.stop()
        found.append(json.dumps(web.status()))

    read()
    return found[0]


def make_document(**changes: Any) -> dict[str, Any]:
    return {**json.loads(make_status()), **changes}


def show_only(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the status of one pipeline, as a bridge shows it."""
    parts = ("sources", "targets", "conditions", "fates")
    rows = {part: [each for each in document[part] if each["pipeline"] == name] for part in parts}
    (own,) = [each for each in document["pipelines"] if each["name"] == name]
    states = {key: own[key] for key in ("ready", "paused", "draining", "drained", "unsettled")}
    return {**document, **rows, **states, "pipelines": [own]}


Post = Callable[[dict[str, Any]], tuple[int, str]]


@contextmanager
def serving(document: dict[str, Any], **posts: Post) -> Iterator[str]:
    """Serve a status, and answers to POST, which may change it; yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = parse_qs(self.path.partition("?")[2]).get("pipeline", [""])[0]
            names = [each["name"] for each in document.get("pipelines", ())]
            if name and names and name not in names:
                self._answer(404, f"there is no pipeline {name!r}; there are {', '.join(names)}")
            else:  # that of an earlier release takes the name for nothing
                self._answer(200, json.dumps(show_only(document, name) if name and names else document))

        def do_POST(self) -> None:
            post = posts.get(self.path.strip("/"))
            code, text = (404, "there are /pause, /resume and /reload") if post is None else post(document)
            self._answer(code if self.headers.get("X-Hashstar") else 403, text)

        def _answer(self, code: int, text: str) -> None:
            data = text.encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def write_bridge(folder: Path, text: str) -> str:
    (folder / "bridge.toml").write_text(text)
    return str(folder / "bridge.toml")


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ["http://127.0.0.1:9410"]),
        ('http = "bridge.example:80"', ["http://bridge.example:80"]),
        ('http = "0.0.0.0:9000"\nworkers = 3', [f"http://127.0.0.1:{port}" for port in (9000, 9001, 9002)]),
        ('http = "[::]:9000"', ["http://[::1]:9000"]),
        ('http = "${HASHSTAR_TEST_HTTP}"\n[sources.in]\nurl = "${NOT_SET}"', ["http://localhost:7"]),
    ],
)
def test_a_bridge_is_asked_where_its_file_says(
    text: str, addresses: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HASHSTAR_TEST_HTTP", "localhost:7")
    assert find_addresses(write_bridge(tmp_path, text), 1.0) == addresses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('http = "off"', 'http: is "off", so this bridge cannot be asked'),
        ('http = "127.0.0.1:0"', "http: has port 0, another one at each start, which the log shows"),
        ('http = "9410"', "http: "),
        ("workers = 0", "workers: "),
        ("http = ", "bridge.toml"),
    ],
)
def test_a_bridge_that_cannot_be_asked_is_an_error_that_names_the_key(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        find_addresses(write_bridge(tmp_path, text), 1.0)
    assert reason in str(error.value)


@pytest.mark.parametrize("where", ["http://user:pw@127.0.0.1:1", "http://127.0.0.1:1/?x", "http://a:1,b:2", "http://"])
def test_an_address_with_more_than_a_host_is_refused_and_no_login_is_shown(where: str) -> None:
    with pytest.raises(InputError, match="http://HOST:9410") as error:
        find_addresses(where, 1.0)
    assert "pw" not in str(error.value)


def test_an_address_of_one_worker_stands_for_all() -> None:
    with serving(make_document(worker=2, workers=3)) as address:
        port = int(address.rpartition(":")[2])
        assert find_addresses(f"{address}/", 5.0) == [f"http://127.0.0.1:{port + n}" for n in (-1, 0, 1)]


def test_a_status_of_another_type_is_no_bridge() -> None:
    good = make_document()
    others: tuple[object, ...] = ("x", {}, [1], True, -1.5, None, [{}], [{"name": "a"}])
    assert parse_process("here", good).state == "ready"
    for name in ("config", "worker", "started", "alive", "drained", "conditions", "sources", "last_reload"):
        for value in others:
            if type(value) is not type(good[name]) and (name, value) not in (("started", -1.5), ("last_reload", -1.5)):
                with serving({**good, name: value}) as address:
                    answers = read_all([address], 5.0)
                assert not answers.processes
                assert answers.errors == (f"{address}: what answers is no bridge, or one of an earlier release",)
                break


def test_a_server_that_does_not_answer_in_time_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert read_all([address], 0.2).errors == (f"{address} gives no whole answer in 0.2 s",)
        for result in (give_order([address], "pause", 0.2), reload([address], 0.2)):
            assert not result.done
        assert "not in effect after 0.2 s, and not refused" in reload([address], 0.2).text


def become(**changes: Any) -> Post:
    def post(document: dict[str, Any]) -> tuple[int, str]:
        document.update(changes)
        return 202, "so it is"

    return post


def test_an_order_is_done_when_all_workers_have_done_it() -> None:
    with ExitStack() as stack:
        pause, drain = become(paused=True), become(draining=True, unsettled=2)
        first = stack.enter_context(
            serving(make_document(worker=1, workers=2), pause=pause, drain=become(drained=True))
        )
        held = {"endpoint": "out", "kind": "backpressure", "reason": "it is full", "since": 1.0, "way_out": ""}
        second = stack.enter_context(
            serving(make_document(worker=2, workers=2, conditions=[held]), pause=pause, drain=drain)
        )
        seconds = float(f"{stretch(1.0):.1f}")
        assert give_order([first, second], "pause", 5 * seconds) == ("paused", True, ())
        result = give_order([first, second], "drain", seconds)
        assert not result.done
        assert result.text == (
            f"not drained after {seconds:g} s: 2 messages that were read are not settled\n  out: it is full\n"
            "it goes on; ask again, or resume"
        )
        result = give_order([first, second], "resume", seconds)  # these are of a release that does not know it
        assert (result.done, len(result.errors)) == (False, 2)
        assert "it answers 404 (there are /pause, /resume and /reload)" in result.errors[0]


def test_reloads_of_several_workers_have_one_answer() -> None:
    def answer(code: int, text: str) -> Post:
        return lambda _: (code, text)

    with ExitStack() as stack:
        enter = stack.enter_context
        good = [enter(serving({}, reload=answer(200, "reloaded\n"))) for _ in range(2)]
        assert reload(good, 60.0) == ("reloaded", True, ())
        wrong = [enter(serving({}, reload=answer(409, "bridge.toml: wrong\n"))) for _ in range(2)]
        assert reload(wrong, 60.0) == ("refused, and nothing has changed:\nbridge.toml: wrong", False, ())
        assert not reload([good[0], wrong[0]], 60.0).done
        ended = enter(serving({}, reload=answer(503, "the bridge has ended")))
        assert reload([good[0], ended], 60.0) == ("reloaded", False, (f"{ended}: the bridge has ended",))


def test_the_state_of_several_workers_is_that_of_the_worst_and_each_has_its_rows() -> None:
    first = parse_process("http://h:1", make_document(worker=1, workers=2, config="b.toml", started=0.0, now=4000.0))
    document = make_document(
        worker=2, workers=2, config="b.toml", started=0.0, now=4000.0, paused=True, reload_refused="one\ntwo",
        last_reload=0.0,
    )  # fmt: skip
    document["sources"][0] |= {"lag": None, "unsettled": 1234, "oldest_age": 100.0}
    second = parse_process("http://h:2", document)
    assert [*to_text(Answers((first, second)))] == [
        "b.toml: paused",
        "worker  address     state   runs for   not settled",
        "1       http://h:1  ready   1 h 6 min  0",
        "2       http://h:2  paused  1 h 6 min  0",
        "",
        "worker  source  state  waiting  not settled  oldest",
        "1       in      up     0        0            -",
        "2       in      up     ?        1,234        1 min 40 s",
        "",
        "worker  target  state  sent  held  oldest",
        "1       out     up     0     0     -",
        "2       out     up     0     0     -",
        "",
        "last reload: 1970-01-01T00:00:00Z, refused; it goes on as before:",
        "  one",
        "  two",
    ]
    shown = to_json(Answers((first, second), ("http://h:3: nothing answers there",)))
    assert (shown["state"], shown["ready"], len(shown["workers"])) == ("away", False, 2)
    assert to_json(Answers((first,)))["ready"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 0 s"), (3_599, "59 min 59 s"), (90_000, "1 d 1 h"), (-1, "0.0 s")],
)
def test_a_time_that_has_passed_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert write_age(seconds) == text
