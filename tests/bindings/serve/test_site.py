"""The HTTP side: who knows no token learns nothing, and no request keeps the server from others."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from bindings.http import listener
from bindings.http.hosts import HostCheck
from bindings.http.listener import make_server
from bindings.serve import explorer as subject
from bindings.serve.explorer import QUESTIONS, Explorer, Question
from bindings.serve.questions import Busy, OutOfTime, Questions
from bindings.serve.site import SCRIPTS, STYLES, load_files, make_handler
from bindings.serve.watching import WatchedSource
from bindings.sources.open import open_source
from exchange.limits import QUESTION_BYTES
from tests.support.waiting import find_limit

ORDERS = "examples/orders/orders.bindings"
TOKEN = "a-token"  # noqa: S105
HEAD = (
    f"POST /api/draft HTTP/1.1\r\nHost: localhost\r\nX-Hashstar-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
).encode()
"""The beginning of a question's head."""


@contextmanager
def serving(path: str = ORDERS) -> Iterator[int]:
    """Serve a topology, and yield the port."""
    explorer = Explorer(WatchedSource(lambda: open_source(path), path, None, None))
    server = make_server("127.0.0.1", 0, make_handler(explorer, TOKEN, HostCheck("127.0.0.1", ["shown.example"])))
    server.start()
    try:
        yield server.server_address[1]
    finally:
        server.close()


def send(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request with these headers (``_`` stands for ``-``), and return status, headers and body of the answer."""
    client = HTTPConnection("127.0.0.1", port, timeout=find_limit())
    try:
        client.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = client.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        client.close()


def ask(port: int, question: str, fields: Any = None, **headers: str) -> tuple[int, Any]:
    """Ask a question as the page does, and return the status and the JSON of the answer."""
    headers = {"Content_Type": "application/json", "X_Hashstar_Token": TOKEN, **headers}
    status, _, body = send(port, "POST", f"/api/{question}", json.dumps(fields or {}).encode(), **headers)
    return status, json.loads(body)


def test_a_question_with_the_token_is_answered() -> None:
    with serving() as port:
        message = {"exchange": "orders", "routing_key": "order.eu.created"}
        status, answer = ask(port, "explain", {"message": message})
        assert (status, answer["queues"]) == (200, ["audit", "billing"])


@pytest.mark.parametrize("token", ["", "a-toke", "a-token2", "\u00e9"])
def test_every_question_needs_the_token(token: str) -> None:
    with serving() as port:
        for question in QUESTIONS:
            status, answer = ask(port, question, X_Hashstar_Token=token)
            assert status == 403
            assert set(answer) == {"error"}
            assert "orders" not in json.dumps(answer)


@pytest.mark.parametrize("query", ["", "?token=", "?token=a-toke", "?token=%E9", "?other=a-token", "?token"])
def test_the_page_is_refused_to_those_without_the_token(query: str) -> None:
    """So that nobody waits for a page that stays empty; with others beside it, the token counts."""
    with serving() as port:
        status, headers, body = send(port, "GET", f"/{query}")
        assert status == 403
        assert body == b"open the address that hashstar serve has printed: its token is missing\n"
        assert headers["Content-Type"].startswith("text/plain")
        assert send(port, "GET", f"/?x=1&token={TOKEN}")[0] == 200


def test_the_page_holds_nothing_of_the_topology_and_lets_nothing_in() -> None:
    with serving() as port:
        for path in load_files():
            status, headers, body = send(port, "GET", f"{path}?token={TOKEN}")
            assert status == 200
            assert b"warehouse" not in body
            assert "Access-Control-Allow-Origin" not in headers
            assert headers["X-Content-Type-Options"] == "nosniff"
        _, headers, body = send(port, "GET", f"/?token={TOKEN}")
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert headers["Referrer-Policy"] == "no-referrer"
        assert not re.findall(rb"https?:|//[a-z]+\.|<style|<script>|\bon[a-z]+=|style=", body)


def test_the_script_refers_to_nothing_elsewhere_and_writes_text_and_never_html() -> None:
    script = load_files()["/page.js"][1].decode().replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style", script
    )
    assert not re.findall(r"https?://|import\(|XMLHttpRequest", script)
    style = load_files()["/page.css"][1].decode()
    assert not re.findall(r"@import|url\(", style)


def test_every_part_of_the_script_and_style_is_in_the_page() -> None:
    folder = Path(subject.__file__).with_name("page")
    assert sorted(path.stem for path in folder.glob("*.js")) == sorted(
        name for package, name in SCRIPTS if "serve" in package
    )
    assert sorted(path.name for path in folder.glob("*.css")) == [
        name for package, name in STYLES if "serve" in package
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/../site.py", "/page/../site.py", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page.js/..", "/page.css%00",
        "/api/explain", "/api/", "/api", "/orders.bindings", "/index.html", "http://127.0.0.1/", "*",
    ],
)  # fmt: skip
def test_there_are_no_other_files(path: str) -> None:
    with serving() as port:
        status, _, body = send(port, "GET", path)
        assert status == 404
        assert b"root:" not in body


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/", "/api/nothing", "/apiexplain", "/API/explain", "/api/explain/", "/page.js"]
)
def test_only_questions_can_be_posted(path: str) -> None:
    with serving() as port:
        status, _, _ = send(port, "POST", path, b"{}", Content_Type="application/json", X_Hashstar_Token=TOKEN)
        assert status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_other_methods_are_not_there(method: str) -> None:
    with serving() as port:
        status, headers, _ = send(port, method, "/api/explain", X_Hashstar_Token=TOKEN)
        assert status == 501
        assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("shown.example", 200),
        ("localhost:80", 200),
        ("[::1]", 200),
    ],
)
def test_a_page_whose_name_was_made_to_resolve_here_is_refused(host: str, code: int) -> None:
    with serving() as port:
        headers = {"Content_Type": "application/json", "X_Hashstar_Token": TOKEN, "Host": host}
        status, _, body = send(port, "POST", "/api/source", b"{}", **headers)
        assert status == code
        assert (b"--allow-host" in body) is (code == 421)


def test_a_form_of_another_page_cannot_ask() -> None:
    with serving() as port:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            assert ask(port, "source", Content_Type=kind)[0] == 415


def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    with serving() as port, socket.create_connection(("127.0.0.1", port), timeout=find_limit()) as client:
        client.sendall(HEAD + f"Content-Length: {QUESTION_BYTES + 1}\r\n\r\n".encode())
        assert client.recv(65_536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (HEAD.replace(TOKEN.encode(), b"another"), 403),
        (HEAD.replace(b"X-Hashstar-Token: a-token\r\n", b""), 403),
        (HEAD.replace(b"application/json", b"text/plain"), 415),
        (HEAD.replace(b"draft", b"nothing"), 404),
    ],
)
def test_who_may_not_ask_is_refused_before_the_body_is_sent(head: bytes, status: int) -> None:
    with serving() as port, socket.create_connection(("127.0.0.1", port), timeout=find_limit()) as client:
        client.sendall(head + f"Content-Length: {QUESTION_BYTES}\r\n\r\n".encode())
        assert client.recv(65_536).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    "line",
    [
        b"Content-Length : 49\r\n",
        b"Content-Length\t: 49\r\n",
        b"Content-Length: 4\r\n 9\r\n",
        b"Content-Length\r\n",
        b"no header\r\n",
        b" Content-Length: 49\r\n",
        b"X(y): 1\r\n",
    ],
)
def test_a_header_that_two_readers_may_read_differently_is_refused(line: bytes) -> None:
    """Else a body may be read as a second request."""
    for head in (
        HEAD,
        HEAD.replace(b"POST /api/draft", b"GET /"),
        HEAD.replace(b"\r\nHost", b"\r\n" + line + b"Host", 1),
    ):
        with serving() as port, socket.create_connection(("127.0.0.1", port), timeout=find_limit()) as client:
            client.sendall(head + line + b"\r\nGET /second HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers = b"".join(iter(lambda: client.recv(65_536), b""))
            assert answers.startswith(b"HTTP/1.1 400 ")
            assert answers.count(b"HTTP/1.1") == 1


def test_a_body_that_comes_slowly_ends_in_time_and_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 1.0)
    head = HEAD + b"Content-Length: 1000\r\n\r\n{"
    with serving() as port:
        slow = [socket.create_connection(("127.0.0.1", port), timeout=find_limit()) for _ in range(200)]
        for client in slow:
            client.sendall(head)
        assert ask(port, "source")[0] == 200
        for client in slow:
            with suppress(ConnectionResetError):
                assert not client.recv(65_536)
            client.close()


@pytest.mark.parametrize(
    ("question", "fields", "status", "error"),
    [
        ("explain", {}, 422, {"message": "message is wanted"}),
        ("explain", {"message": {"exchange": "no"}}, 422, {"broker": 404}),
        ("explain", {"message": {"exchange": "orders"}, "draft": "x"}, 410, {}),
        ("draft", {"text": "queue a\nquue b"}, 422, {"line": 2}),
        ("draft", {"edits": ["+ queue a", "+ quue b"]}, 422, {"edit": 1}),
    ],
)
def test_an_error_has_a_status_and_names_its_place(question: str, fields: Any, status: int, error: Any) -> None:
    with serving() as port:
        code, answer = ask(port, question, fields)
        assert code == status
        assert answer["error"]["message"]
        assert error.items() <= answer["error"].items()


def test_a_question_that_takes_too_long_is_undecided_and_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    slow = Question(lambda explorer, parameters: {"late": release.wait(find_limit())})
    monkeypatch.setattr(subject, "QUESTIONS", {**QUESTIONS, "part": slow})
    monkeypatch.setattr(subject, "ANSWER_SECONDS", 0.5)
    with serving() as port:
        began = time.monotonic()
        status, answer = ask(port, "part")
        assert (status, answer["error"]["out_of_time"]) == (503, True)
        assert "undecided: out of time" in answer["error"]["message"]
        assert time.monotonic() - began < find_limit()
        assert ask(port, "source")[0] == 200
        for _ in range(subject.ANSWERS_AT_ONCE - 1):
            assert ask(port, "part")[0] == 503
        assert ask(port, "source")[0] == 429  # all that may run at once are running
        release.set()
        until = time.monotonic() + find_limit()
        while ask(port, "source")[0] != 200:
            assert time.monotonic() < until


def test_questions_raise_what_their_work_raises_and_run_again_afterwards() -> None:
    questions = Questions(1, 5.0)
    with pytest.raises(ZeroDivisionError):
        questions.answer(lambda: 1 // 0)
    assert questions.answer(lambda: 5) == 5
    release = threading.Event()
    slow = Questions(1, 0.2)
    with pytest.raises(OutOfTime, match=r"out of time after 0\.2 s"):
        slow.answer(lambda: release.wait(find_limit()))
    with pytest.raises(Busy):
        slow.answer(lambda: 5)
    release.set()


def test_a_hundred_questions_at_once_are_all_answered_in_some_way() -> None:
    codes = []
    with serving() as port:

        def run() -> None:
            codes.append(ask(port, "picture")[0])

        threads = [threading.Thread(target=run) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(find_limit())
    assert len(codes) == 40
    assert set(codes) <= {200, 429, 503}
    assert codes.count(200) >= 6


def test_every_question_and_every_field_of_its_answer_is_described() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|(.*)\|$", Path("docs/serve.md").read_text(), flags=re.MULTILINE))
    assert set(rows) == set(QUESTIONS)
    message = {"exchange": "orders", "routing_key": "order"}
    with serving() as port:
        for question, fields in {
            "source": {}, "topology": {}, "search": {"text": "o"}, "nearest": {"message": message, "queue": "billing"},
            "rows": {"source": "orders", "message": message}, "part": {"part": {"kind": "exchange", "name": "orders"}},
            "picture": {}, "findings": {}, "text": {}, "draft": {}, "meaning": {},
        }.items():  # fmt: skip
            status, answer = ask(port, question, fields)
            assert status == 200
            common = {"kind", "name"} if question == "part" else set()
            for field in answer.keys() - common:
                assert f"`{field}`" in rows[question], (question, field)
