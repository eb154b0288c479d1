"""The HTTP server is safe from its clients: none keeps others out, holds a thread for long, or uses another name."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection

import pytest

from bindings.http import listener
from bindings.http.handler import Handler
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server, make_server
from tests.support.waiting import find_limit, wait_until


class Answers(Handler):
    """Answers with the method and path of the request."""

    hosts = HostCheck("127.0.0.1")

    def answer_to(self, method: str, path: str) -> None:
        self.answer(200, "text/plain", f"{method} {path}".encode())


@contextmanager
def serve(handler: type[Handler] = Answers) -> Iterator[tuple[Server, int]]:
    server = make_server("127.0.0.1", 0, handler)
    server.start()
    try:
        yield server, server.server_address[1]
    finally:
        server.close()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=find_limit())
    client.sendall(sent)
    return client


def receive_all(client: socket.socket) -> bytes:
    """Receive everything until the server closes the connection."""
    found = b""
    try:
        while part := client.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def send_request(port: int, request: bytes) -> bytes:
    with connect(port, request) as client:
        client.shutdown(socket.SHUT_WR)
        return receive_all(client)


def threads_serving() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


HALF = b"GET /live HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a request"])
def test_400_clients_that_do_not_finish_keep_nobody_out_and_are_gone_in_time(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 1.0)
    before = threads_serving()
    with serve() as (server, port), ExitStack() as clients:
        sockets = [clients.enter_context(connect(port, sent)) for _ in range(400)]
        assert b"GET /live" in send_request(port, b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert len(server._clients) <= listener.CONNECTIONS
        wait_until(lambda: threads_serving() == before)
        for each in sockets:
            assert b"200" not in receive_all(each)
        assert not server._clients


@pytest.mark.parametrize(("files", "most"), [(1_024, 64), (80, 10), (16, listener.MIN_CONNECTIONS), (float("inf"), 64)])
def test_connections_take_their_share_of_the_files_and_probes_are_answered(
    files: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "read_file_limit", lambda: files)
    with serve() as (server, port), ExitStack() as clients:
        for _ in range(100):
            clients.enter_context(connect(port, b""))
        assert b"GET /live" in send_request(port, b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert len(server._clients) <= most


STARVED = """
import os, resource, sys, time
from tests.bindings.http.test_listener import Answers, make_server
server = make_server("127.0.0.1", 0, Answers)
server.start()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    print(server.server_address[1], flush=True)
sys.stdin.readline()
began = time.process_time()
time.sleep(1)
print(time.process_time() - began, flush=True)
os.close(taken.pop())
os.close(taken.pop())
sys.stdin.readline()
"""


def test_a_client_that_is_being_answered_is_not_cut_off_when_more_come() -> None:
    """The one that comes then gives way, as no other waits for a request."""
    asked, may_answer = threading.Event(), threading.Event()

    class Slow(Answers):
        def answer_to(self, method: str, path: str) -> None:
            asked.set()
            assert may_answer.wait(find_limit())
            super().answer_to(method, path)

    request = b"GET /one HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serve(Slow) as (server, port), connect(port, request) as one:
        server._most = 1
        assert asked.wait(find_limit())
        with connect(port) as other:
            assert receive_all(other) == b""
        may_answer.set()
        assert receive_all(one).endswith(b"GET /one")


@pytest.mark.process
def test_without_a_free_descriptor_connections_wait_and_take_no_processor_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with connect(port, b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as client:
            print(file=process.stdin, flush=True)
            assert float(process.stdout.readline()) < 0.5
            assert b"GET /live" in receive_all(client)
        print(file=process.stdin, flush=True)


def takes_a_byte(client: socket.socket) -> bool:
    try:
        client.sendall(b"x")
    except OSError:
        return False
    return True


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.5)
    with serve() as (server, port), connect(port, HALF) as client:
        wait_until(lambda: len(server._clients) == 1)
        wait_until(lambda: not takes_a_byte(client))
        assert not server._clients


def test_a_connection_answers_one_request_after_the_other_and_is_closed_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 0.5)
    with serve() as (_, port), connect(port) as client:
        for n in range(3):
            client.sendall(b"GET /%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (n, port))
            answer = b""
            while not answer.endswith(b"GET /%d" % n):
                part = client.recv(65_536)
                assert part
                answer += part
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"Connection: close" not in answer
        assert not receive_all(client)


def test_pipelined_requests_are_answered_in_order() -> None:
    with serve() as (_, port):
        answers = send_request(port, b"".join(b"GET /%d HTTP/1.1\r\nHost: [::1]\r\n\r\n" % n for n in range(3)))
    assert [part.split()[0] for part in answers.split(b"GET ")[1:]] == [b"/0HTTP/1.1", b"/1HTTP/1.1", b"/2"]


def test_a_client_of_http_1_0_is_answered_and_disconnected() -> None:
    with serve() as (_, port):
        answer = send_request(port, b"GET /live HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"\r\nConnection: close\r\n" in answer


def test_head_is_get_without_its_body() -> None:
    with serve() as (_, port):
        client = HTTPConnection("127.0.0.1", port, timeout=find_limit())
        lengths = []
        for method in ("GET", "HEAD"):
            client.request(method, "/ready")
            answer = client.getresponse()
            lengths.append((answer.status, answer.headers["Content-Length"], answer.read()))
        client.close()
    assert lengths == [(200, "10", b"GET /ready"), (200, "10", b"")]


def test_the_body_of_a_request_is_not_read_as_the_next_request() -> None:
    hidden = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve() as (_, port):
        for head in (b"Content-Length: %d" % len(hidden), b"Transfer-Encoding: chunked"):
            answer = send_request(port, b"POST /pause HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n" + hidden)
            assert answer.count(b"HTTP/1.1 ") == 1
            assert b"hidden" not in answer


@pytest.mark.parametrize(
    ("request_head", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n", 421),
        (
            b"POST /pause HTTP/1.1\r\nHost: evil.example:9410\r\nX-Hashstar: 1\r\nOrigin: http://evil.example:9410\r\n",
            421,
        ),
        (b"GET / HTTP/1.0\r\nHost: localhost.evil.example\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: [evil.example]\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: [::1]evil\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: localhost:x\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost:\r\n", 421),
        (b"GET / HTTP/1.1\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: LOCALHOST.:80\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: 10.1.2.3:9410\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: [fe80::1]:9410\r\n", 200),
        (b"GET / HTTP/1.0\r\n", 200),
    ],
)
def test_only_requests_for_addresses_and_its_own_names_are_served(request_head: bytes, code: int) -> None:
    with serve() as (_, port):
        answer = send_request(port, request_head + b"Connection: close\r\n\r\n")
    assert int(answer.split()[1]) == code
    assert (b"GET /" in answer) == (code == 200)


def test_requests_for_configured_names_are_served() -> None:
    check = HostCheck("bridge.internal", ("status.example.com", "10.0.0.1"))
    assert check.allows("Bridge.Internal:9410")
    assert check.allows("status.example.com")
    assert not check.allows("example.com")
    assert HostCheck("127.0.0.1", ("*",)).allows("anything")


def test_every_answer_forbids_guessing_its_type_and_frames() -> None:
    with serve() as (_, port):
        for request in (
            b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            b"PUT / HTTP/1.1\r\nHost: localhost\r\n",
            b"nonsense\r\n",
        ):
            answer = send_request(port, request + b"Connection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 ")
            assert b"X-Content-Type-Options: nosniff" in answer
            assert b"X-Frame-Options: DENY" in answer


def test_an_unexpected_error_is_logged_and_a_client_that_has_gone_is_not(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(Answers):
        """Raises the exception that the path names."""

        def answer_to(self, method: str, path: str) -> None:
            raise ValueError("a mistake") if path == "/mistake" else BrokenPipeError

    with serve(Wrong) as (server, port):
        for path in (b"/gone", b"/mistake"):
            assert not send_request(port, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        wait_until(lambda: not server._clients)
    assert [record.exc_info and str(record.exc_info[1]) for record in caplog.records] == ["a mistake"]


def test_a_server_that_is_closed_leaves_no_connection() -> None:
    with serve() as (server, port), connect(port, HALF) as client:
        wait_until(lambda: len(server._clients) == 1)
        server.close()
        assert b"200" not in receive_all(client)
        with pytest.raises(OSError, match="refused"):
            connect(port)


class Echo(Handler):
    """Answers with the body of the request; reads at most 100 bytes."""

    hosts = HostCheck("127.0.0.1")
    hosts_option = "--allow-host"
    most_body = 100

    def answer_to(self, method: str, path: str) -> None:
        self.answer(200, "text/plain", b"[" + self.body + b"]")


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


def test_bodies_are_read_one_after_the_other_on_one_connection() -> None:
    requests = b"".join(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in (b"one", b"", b"three"))
    with serve(Echo) as (_, port):
        answers = send_request(port, requests)
    assert [part.partition(b"]")[0] for part in answers.split(b"[")[1:]] == [b"one", b"", b"three"]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"Content-Length: 100", 200),
        (b"Content-Length: 101", 413),
        (b"Content-Length: 999999999999999", 413),
        (b"Content-Length: 9999999999999999999999", 411),
        (b"Content-Length: -1", 411),
        (b"Content-Length: +1", 411),
        (b"Content-Length: 1_0", 411),
        (b"Content-Length: ", 411),
        (b"Content-Length: 1\r\nContent-Length: 2", 411),
        (b"Transfer-Encoding: chunked", 411),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", 411),
    ],
)
def test_a_body_that_is_too_long_or_of_unknown_length_is_refused_before_it_is_read(head: bytes, code: int) -> None:
    with serve(Echo) as (_, port), connect(port, HEAD + head + b"\r\n\r\n") as client:
        if code == 200:
            client.sendall(b"x" * 100)
        answer = client.recv(65_536)
    assert int(answer.split()[1]) == code
    assert (b"Connection: close" in answer) == (code != 200)


def test_a_body_that_comes_byte_by_byte_ends_with_the_time_for_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REQUEST_SECONDS", 0.5)
    with serve(Echo) as (server, port), connect(port, HEAD + b"Content-Length: 100\r\n\r\n") as client:
        wait_until(lambda: len(server._clients) == 1)
        wait_until(lambda: not takes_a_byte(client))
        assert not server._clients


def test_half_a_body_is_not_answered() -> None:
    with serve(Echo) as (_, port):
        assert not send_request(port, HEAD + b"Content-Length: 100\r\n\r\nhalf")


def test_the_answer_to_a_name_that_is_not_allowed_names_the_option() -> None:
    with serve(Echo) as (_, port):
        assert b"--allow-host" in send_request(port, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
