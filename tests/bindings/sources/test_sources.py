"""Topologies come from files of both formats, from standard input and from brokers; errors name the way out, and no
output has a password.
"""

from __future__ import annotations

import base64
import gzip
import http.server
import io
import json
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from bindings.applying.live import Live
from bindings.sources import management
from bindings.sources.access_token import VARIABLE
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.management import LOGIN, PASSWORD, USER, Management, RefusedRequest, ask_at_terminal
from bindings.sources.open import load, open_source
from exchange import Binding, Exchange, Queue, Topology
from exchange.entities.releases import LATEST_PROFILE, PROFILES, find_profile
from exchange.errors import InputError
from tests.support.servers import Server
from tests.support.waiting import stretch

TEXT = """
profile rabbitmq-4.0
vhost "/shop"
exchange orders: topic
queue billing
orders -> billing: "order.#"
expect orders "order.new" -> billing
"""
SHOP = Topology(
    [Exchange("orders", "topic")],
    [Queue("billing")],
    [Binding.to_queue("orders", "billing", "order.#")],
    vhost="/shop",
    profile="rabbitmq-4.0",
)
DEFINITIONS = Document.loads(TEXT).definitions().dump()


@pytest.mark.parametrize("name", ["shop.bindings", "shop.json", "shop", "shop.json.gz"])
@pytest.mark.parametrize("text", [TEXT, DEFINITIONS, "\ufeff" + TEXT, "\ufeff\n" + DEFINITIONS])
def test_the_content_of_a_file_decides_what_it_is(tmp_path: Path, name: str, text: str) -> None:
    """Whatever it is called, and gzipped or not."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    source = open_source(str(path))
    assert load(str(path)) == source.topology() == SHOP
    assert [str(expectation) for expectation in source.expectations("/shop")] == [
        "'orders' <- 'order.new' reaches exactly 'billing'"
    ]
    assert source.document == Document.loads(TEXT)
    assert source.profile == PROFILES["rabbitmq-4.0"]
    assert load(str(path), "/shop", "rabbitmq-3.10").profile == PROFILES["rabbitmq-3.10"]


def test_a_bindings_file_knows_the_lines_of_its_parts(tmp_path: Path) -> None:
    """Of parts of either kind, for findings that name a place; definitions have none."""
    path = tmp_path / "shop.bindings"
    path.write_text(TEXT)
    source = open_source(str(path))
    assert [source.line_of("/shop", part) for part in (SHOP.exchanges["orders"], SHOP.queues["billing"])] == [4, 5]
    assert [source.line_of("/shop", binding) for binding in SHOP.bindings] == [6]
    assert [expectation.line for expectation in source.expectations("/shop")] == [7]
    path.write_text(DEFINITIONS)
    assert open_source(str(path)).line_of("/shop", SHOP.queues["billing"]) is None


@pytest.mark.parametrize("text", [TEXT, DEFINITIONS])
def test_an_unknown_virtual_host_is_an_error_that_lists_the_others(tmp_path: Path, text: str) -> None:
    """Sources of all kinds speak alike."""
    path = tmp_path / "shop"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(str(path), "/other")
    assert str(caught.value).startswith(f"{path}: there is no virtual host '/other'; there are '/shop'")


@pytest.mark.parametrize(("given", "vhosts"), [(TEXT, ("/shop",)), (DEFINITIONS, ("/shop",)), ("# nothing", ("/",))])
def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, given: str, vhosts: tuple[str, ...]) -> None:
    """Of both kinds."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    source = open_source("-")
    assert (source.name, source.vhosts) == ("standard input", vhosts)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.bindings", b"exchange x\n", "a.bindings:1:10: exchange 'x' has no type"),
        ("a.json", b'{"queues": 5}', "a.json: queues: 5 is not an array"),
        ("a.json", b"", "a.json:1:1: not JSON"),
        ("a.bindings", b"\xff", "a.bindings: not UTF-8 at byte 0"),
        ("a.gz", b"\x1f\x8b", "a.gz: cannot be read"),
    ],
)
def test_every_error_names_the_file(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    """And the place in it."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(str(path))
    assert str(caught.value).startswith(f"{tmp_path}/{words}")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """As any that cannot be read."""
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        load(str(tmp_path / "nowhere"))


def test_an_empty_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty pipe is a mistake of the one who built it."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input: there is nothing"):
        load("-")


@contextmanager
def answering(
    code: int, body: str, headers: dict[str, str] | None = None, exchanges: str = "[]"
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the address of a server that gives one answer to all but lists of exchanges and queues, and what it got."""
    got: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if code == 200 and self.path.startswith(("/api/exchanges", "/api/queues")):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(exchanges.encode())
                return
            got.append((self.path, self.headers.get("Authorization")))
            self.send_response(code)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove credentials from the environment, so that it decides nothing."""
    for name in (USER, PASSWORD, VARIABLE, f"{VARIABLE}_FILE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


def basic(user: str, password: str) -> str:
    """Return the header of these credentials."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_broker_is_asked_for_its_definitions() -> None:
    """With the credentials of the address, escapes undone; the profile is the server's, the name has no password."""
    export = json.dumps({**json.loads(DEFINITIONS), "hashstar": {}, "rabbitmq_version": "3.10.8"})
    with answering(200, export) as (address, got):
        source = open_source(f"http://ann:s%3Acret%2F@{address}")
        assert source.name == f"http://{address}"
        assert source.topology() == SHOP.with_profile("rabbitmq-3.10")
        assert source.document.profile == PROFILES["rabbitmq-3.10"]
        open_source(f"http://ann:s%3Acret%2F@{address}/")
        assert got == [("/api/definitions", basic("ann", "s:cret/"))] * 2


@pytest.mark.parametrize(
    ("path", "vhost", "asked"),
    [
        ("/shop", None, "/api/definitions/shop"),
        ("/%2F", None, "/api/definitions/%2F"),
        ("//", None, "/api/definitions/%2F"),
        ("/%2Fshop", "/shop", "/api/definitions/%2Fshop"),
        ("", "a b", "/api/definitions/a%20b"),
        ("/#/queues", None, "/api/definitions"),
    ],
)
def test_one_virtual_host_is_asked_for_if_one_is_named(path: str, vhost: str | None, asked: str) -> None:
    """By the address or by the option."""
    with answering(200, '{"rabbit_version": "4.0.5", "queues": [{"name": "q"}]}') as (address, got):
        source = open_source(f"http://a:b@{address}{path}", vhost)
        assert got[0][0] == asked
        expected = "/" if asked == "/api/definitions" else urllib.parse.unquote(asked.rpartition("/")[2])
        assert source.topology(vhost).vhost == expected
        assert source.profile == PROFILES["rabbitmq-4.0"]


def test_credentials_come_from_the_address_or_the_environment_or_the_terminal() -> None:
    """Each half from the first that has it."""
    environ = {USER: "env", PASSWORD: "env's"}

    def ask(address: str, user: str | None) -> tuple[str, str]:
        assert address == "http://h:15672"
        return user or "asked", "asked's"

    def login(where: str, environ: dict[str, str]) -> tuple[str, str]:
        management = Management.at(where, environ=environ, ask=ask)
        return management.user, management.password

    assert login("http://ann:p@h:15672", environ) == ("ann", "p")
    assert login("http://ann@h:15672", environ) == ("ann", "env's")
    assert login("http://h:15672", environ) == ("env", "env's")
    assert login("http://h:15672", {USER: "env"}) == ("env", "asked's")
    assert login("http://ann@h:15672", {}) == ("ann", "asked's")
    assert login("http://h:15672", {}) == ("asked", "asked's")


def test_without_a_terminal_missing_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe cannot answer; the error names what can."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(InputError) as caught:
        open_source("http://127.0.0.1:1")
    assert str(caught.value).startswith("http://127.0.0.1:1: it requires a user and a password")
    assert LOGIN in str(caught.value)
    with pytest.raises(InputError):
        ask_at_terminal("http://h", "ann")


def test_a_password_is_shown_nowhere() -> None:
    """Not by an error, not by repr."""
    management = Management.at("http://ann:s3cret@127.0.0.1:1/v")
    assert "s3cret" not in repr(management)
    with pytest.raises(InputError) as caught:
        management.definitions()
    assert "s3cret" not in str(caught.value)
    assert str(caught.value).startswith("http://127.0.0.1:1: it cannot be reached: nothing listens there; is it")


@pytest.mark.parametrize(
    ("code", "body", "path", "words"),
    [
        (401, '{"reason": "Login failed"}', "", f"'ann' is refused (Login failed): check the address, or {LOGIN}"),
        (401, '{"reason": "Not administrator user"}', "", "user): rabbitmqctl set_user_tags USER administrator"),
        (401, "no JSON", "", "user 'ann' is refused (Unauthorized)"),
        (404, '{"reason": "Not Found"}', "/shop", "there is no virtual host 'shop'"),
        (400, '{"reason": "vhost_not_found"}', "/shop", "there is no virtual host 'shop'"),
        (404, "<html>", "", "no management API here: /api/definitions is not found"),
        (503, '{"reason": "later"}', "", "it answers 503 (later)"),
        (200, "<html>", "", "what answers is no management API: its answer is not JSON"),
        (200, "{", "", "not JSON"),
    ],
)  # fmt: skip
def test_the_error_of_a_refusal_names_the_way_out(code: int, body: str, path: str, words: str) -> None:
    """Whatever a server answers, it is named and no traceback comes of it."""
    with answering(code, body) as (address, _), pytest.raises(InputError) as caught:
        open_source(f"http://ann:s3cret@{address}{path}")
    assert str(caught.value).startswith(f"http://{address}:")
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_refused_request_has_the_words_of_the_broker_apart() -> None:
    """For a comparison with what was foretold, without the address."""
    with answering(400, '{"reason": "Validation failed\\n\\nx"}') as (address, _):
        with pytest.raises(RefusedRequest, match="it answers 400") as caught:
            Management.at(f"http://ann:s3cret@{address}").request("GET", "/api/policies")
        assert (caught.value.status, caught.value.reason) == (400, "Validation failed\n\nx")


def test_the_password_is_not_sent_to_the_target_of_a_redirect() -> None:
    """A redirect is reported and not followed."""
    with answering(200, "{}") as (other, got):
        headers = {"Location": f"http://x:y@{other}/api/definitions?token=1"}
        with answering(302, "", headers) as (address, _), pytest.raises(InputError) as caught:
            open_source(f"http://ann:s3cret@{address}")
        assert f"it sends elsewhere, to {other}/api/definitions; use that address" in str(caught.value)
        assert got == []


def test_a_port_of_another_protocol_is_an_error_that_names_the_usual_ports() -> None:
    """AMQP's, for one, which answers with its own header."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"AMQP\0\0\x09\x01")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InputError, match=r"answer as HTTP: .*\? The management API is usually at port 15672"):
            open_source(f"http://a:b@127.0.0.1:{port}")
        thread.join()


@pytest.mark.parametrize("where", ["http://", "http://h:99999", "https://[::1"])
def test_a_text_that_is_no_address_is_refused(where: str) -> None:
    """With how one is written."""
    with pytest.raises(InputError, match="write http://HOST:15672 or http://HOST:15672/VHOST"):
        open_source(where)


def test_two_virtual_hosts_are_a_contradiction() -> None:
    """The address names one, the option another."""
    with pytest.raises(InputError, match="'a' by its address, 'b' by --vhost"):
        open_source("http://x:y@127.0.0.1:1/a", "b")


def test_internal_exchanges_are_asked_for_too() -> None:
    """A broker's export leaves them out, and messages pass them all the same."""
    internal = {"name": "inner", "vhost": "/shop", "type": "fanout", "durable": True, "auto_delete": False,
                "internal": True, "arguments": {}, "message_stats": {}}  # fmt: skip
    others = [{**internal, "name": "amq.rabbitmq.trace"}, {**internal, "name": "plain", "internal": False}]
    with answering(200, DEFINITIONS, exchanges=json.dumps([internal, *others])) as (address, _):
        exchanges = open_source(f"http://a:b@{address}").topology().exchanges
    assert exchanges["inner"] == Exchange("inner", "fanout", internal=True)
    assert exchanges.keys() == {*SHOP.exchanges, "inner"}


@pytest.mark.live
def test_a_live_broker_is_a_source(rabbitmq_servers: list[Server]) -> None:
    """What a broker imported comes back from its management API, under its own profile, with warnings."""
    for server in rabbitmq_servers:
        if server.management_url is None:
            continue
        vhost = "hashstar/sources é"
        document = Document.loads(
            (TEXT + "exchange inner: fanout, internal\norders -> exchange inner: 'a'\n")
            .replace('"/shop"', f'"{vhost}"')
            .replace("queue billing", "queue billing: quorum")
        )
        login = urllib.parse.urlsplit(server.url)
        where = server.management_url.replace("://", f"://{login.username}:{login.password}@")
        broker = Management.at(where)
        quoted = urllib.parse.quote(vhost, safe="")
        try:
            # The key "hashstar", which holds the expectation and the profile, must not disturb the import.
            broker.request("POST", "/api/definitions", json.loads(document.definitions().dump()))
            for source in (open_source(f"{where}/{quoted}"), open_source(where, vhost), open_source(where)):
                expected = document.topology().with_profile(find_profile(server.version))
                assert source.topology(vhost) == expected
                assert source.name == server.management_url
            with pytest.raises(InputError, match="there is no virtual host 'nowhere'"):
                open_source(f"{where}/nowhere")
            with pytest.raises(InputError, match="user 'guest' is refused"):
                open_source(server.management_url.replace("://", "://guest:wrong@"))
            with pytest.raises(InputError, match="it does not answer as HTTP"):
                open_source(f"http://a:b@{login.hostname}:{login.port}")
        finally:
            broker.request("DELETE", f"/api/vhosts/{quoted}")


class Dripping:
    """A server that answers a connection with its first piece, and then with its second for as long as it is read."""

    def __init__(self, pieces: Iterable[bytes], pause: float) -> None:
        self._pieces, self._pause = list(pieces), pause
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run)
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()
        self._thread.join()

    def _run(self) -> None:
        connection, _ = self._server.accept()
        with connection, suppress(OSError):
            connection.recv(10_000)
            connection.sendall(self._pieces[0])
            while not self._over.wait(self._pause):
                connection.sendall(self._pieces[1])


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("pieces", [(HEAD + b"\r\n[", b" "), (HEAD, b"X-Drip: 1\r\n"), (b"HTTP/1.1 2", b"0")])
def test_an_answer_that_comes_byte_by_byte_ends_with_the_time_limit(pieces: tuple[bytes, bytes]) -> None:
    """A byte now and then never lets a socket's own timeout come."""
    with Dripping(pieces, 0.02) as server:
        began = time.monotonic()
        with pytest.raises(InputError, match=r"gives no whole answer in 0\.3 s; --timeout gives it more"):
            open_source(f"http://a:b@{server.address}", seconds=0.3)
        assert time.monotonic() - began < stretch(60)


def test_an_answer_without_an_end_ends_with_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(management, "ANSWER_BYTES", 1 << 20)
    with (
        Dripping((HEAD + b"\r\n[", b" " * (1 << 16)), 0) as server,
        pytest.raises(InputError, match="answers with more than 1,048,576 bytes"),
    ):
        open_source(f"http://a:b@{server.address}")


def test_a_proxy_of_the_environment_gets_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes to the server that was named."""
    with answering(200, "{}") as (proxy, got), answering(200, '{"exchanges": []}') as (address, asked):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy}")
        monkeypatch.delenv("no_proxy", raising=False)
        open_source(f"http://ann:s3cret@{address}")
        assert asked
        assert got == []


@pytest.mark.parametrize(
    "body",
    [
        "[1]",
        '[{"internal": true}]',
        "[]",
        "[null]",
        "{}",
        "null",
        '{"rabbitmq_version": [1]}',
        "[" * 100_000,
        '"x"',
        "",
    ],
)
def test_an_answer_of_another_shape_is_an_error_that_names_the_server(body: str) -> None:
    """From every path of the API, as another server at the port may answer."""
    with answering(200, body, exchanges=body) as (address, _):
        broker = Management.at(f"http://a:b@{address}")
        asks: list[Callable[[], object]] = [
            broker.definitions,
            broker.version,
            lambda: broker._with_internal_exchanges(Definitions(), None),
            lambda: Live(broker, "/").cluster,
            lambda: Live(broker, "/").topology(Topology()),
            lambda: Live(broker, "/").as_declared(Topology()),
            lambda: Live(broker, "/").clear_policy("x"),
            lambda: Live(broker, "/").unbind(Binding.to_queue("a", "b")),
            lambda: list(Live(broker, "/")._with_names(Live(broker, "/")._list("bindings/{}", ()))),
        ]
        for ask in asks:
            with suppress(InputError):  # which names the server; any other exception fails
                ask()


def test_a_redirect_may_have_a_location_that_is_no_address() -> None:
    with answering(302, "", {"Location": "http://[::1"}) as (address, _), pytest.raises(InputError, match="elsewhere"):
        open_source(f"http://ann:s3cret@{address}")


@pytest.mark.parametrize(
    ("version", "profile"),
    [("3.10.8", "rabbitmq-3.10"), ("4.1.1", "rabbitmq-4.0"), ("4.3.6", "rabbitmq-4.3"), ("3.13.7-rc", "rabbitmq-3.13")],
)
def test_the_release_that_exported_a_file_chooses_the_profile(tmp_path: Path, version: str, profile: str) -> None:
    """Unless one is given, by its name or as a version. One that is none chooses the newest, an old one the oldest."""
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps({"rabbitmq_version": version, "queues": [{"name": "q", "vhost": "/"}]}))
    assert load(str(path)).profile == PROFILES[profile]
    assert load(str(path), profile="3.12").profile == PROFILES["rabbitmq-3.12"]
    path.write_text(json.dumps({"rabbitmq_version": "unknown", "queues": []}))
    assert load(str(path)).profile == LATEST_PROFILE
    path.write_text(json.dumps({"rabbitmq_version": "3.8.9", "queues": []}))
    assert load(str(path)).profile == PROFILES["rabbitmq-3.10"]


@pytest.mark.parametrize("text", ["null", "5", '"x"', " true\n", "[]", "NaN"])
def test_a_json_file_that_is_no_object_is_an_error_that_explains_it(tmp_path: Path, text: str) -> None:
    """And not in the words of the language, which it is not written in."""
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"d\.json(: not definitions, which are an object|:1:1: not JSON: a number)"):
        load(str(path))
    path.write_text("queue q\n")
    assert "q" in load(str(path)).queues
