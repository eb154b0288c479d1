"""An HTTP server that no client can block: connections, threads and the time for a request are bounded.

Requests are few and small, so each connection has a thread. There are at most `CONNECTIONS` connections: if one more
comes, the server closes the one that has waited longest for its client's request. So clients that send half a request,
or nothing, do not keep others out, and each probe is answered. While there is room, a client has `REQUEST_SECONDS` for
a request, from the first byte to the last, and `IDLE_SECONDS` until the next request.

`HostCheck` decides which names in the Host header are accepted. A page of an attacker can make its own name resolve to
127.0.0.1, and then has the same origin as this server (DNS rebinding). But then the Host header has the attacker's
name, never an address.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Any, Final

__all__ = ["CONNECTIONS", "Handler", "HostCheck", "Server", "make_server"]

LOG: Final = logging.getLogger(__name__)

CONNECTIONS: Final = 64
"""Maximum number of connections, and of threads."""
REQUEST_SECONDS: Final = 10.0
"""Maximum number of seconds for a request, and for reading an answer."""
IDLE_SECONDS: Final = 75.0
"""Maximum number of seconds between an answer and the next request."""
LOOK_EVERY: Final = 0.25
"""Seconds between checks for clients whose deadline has passed."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""
NOTHING: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Content security policy of every answer but the page."""


class HostCheck:
    """The names that a Host header may have: addresses, ``localhost``, the host of the server, and ``names``.

    ``"*"`` among the names allows any.
    """

    def __init__(self, host: str, names: Collection[str] = ()) -> None:
        self._any = "*" in names
        self._names = {"localhost", *[_plain(name) for name in (host, *names)]}

    def allows(self, header: str) -> bool:
        """Return whether a Host header, with or without a port, has one of these names."""
        if self._any:
            return True
        if header.startswith("["):
            name, bracket, port = header[1:].partition("]")
            port = port.removeprefix(":") if port.startswith(":") or not port else "x"
            return bool(bracket) and _is_address(name) and (not port or port.isdigit())
        name, colon, port = header.partition(":")
        return (port.isdigit() if colon else True) and (_plain(name) in self._names or _is_address(name))


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


class _Client:
    """A connection, and the deadline of its client's next request."""

    __slots__ = ("deadline", "since", "socket")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.since = time.monotonic()
        self.deadline: float | None = self.since + REQUEST_SECONDS
        """Time until which the request must be complete, by the monotonic clock; None while it is being answered."""


class Server(ThreadingHTTPServer):
    """The server; the head of this module describes its limits."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._clients: dict[socket.socket, _Client] = {}
        self._lock = threading.RLock()
        """Guards the clients, so that none is closed for its deadline while its request becomes complete."""
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind, without the base class's DNS lookup of the host's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # an IP address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread. If there are too many, close the one that waits longest, else this one."""
        with self._lock:
            if len(self._clients) >= CONNECTIONS:
                waiting = [client for client in self._clients.values() if client.deadline is not None]
                if not waiting:  # all are being answered, which does not take long
                    self.shutdown_request(request)
                    return
                self._end(min(waiting, key=lambda client: client.since))
            self._clients[request] = _Client(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no more threads
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections of clients whose deadline has passed; `serve_forever` calls this every `LOOK_EVERY`."""
        now = time.monotonic()
        with self._lock:
            for client in [each for each in self._clients.values() if each.deadline is not None]:
                if client.deadline is not None and client.deadline < now:
                    self._end(client)

    def expect(self, request: Any, seconds: float | None) -> None:
        """Set a client's deadline to ``seconds`` from now; None: no deadline, while its request is answered."""
        with self._lock:
            client = self._clients.get(request)
            if client is not None:
                client.since = time.monotonic()
                client.deadline = None if seconds is None else client.since + seconds

    def start(self) -> None:
        """Serve on a thread of its own."""
        threading.Thread(target=self.serve_forever, args=(LOOK_EVERY,), name="hashstar-http", daemon=True).start()

    def close(self) -> None:
        """Stop serving, and close all connections."""
        self.shutdown()
        self.server_close()
        with self._lock:
            for client in [*self._clients.values()]:
                self._end(client)

    def _end(self, client: _Client) -> None:
        # The connection's thread then reads the end of the stream, and closes the connection.
        self._clients.pop(client.socket, None)
        with suppress(OSError):
            client.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an unexpected error. That a client has closed its connection is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            LOG.error("answering on HTTP", exc_info=error)


class _Server6(Server):
    address_family = socket.AF_INET6


def make_server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> Server:
    """Return a server that is bound to an address. Raises OSError if that is not possible."""
    return (_Server6 if ":" in host else Server)((host, port), handler)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other. Subclasses define ``hosts`` and `answer_to`."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"
    """Version of an invalid request; it is 0.9 in the base class, whose answers would have no headers."""
    timeout = REQUEST_SECONDS
    """Seconds that the client may take to read an answer."""
    hosts: HostCheck
    server: Server
    _served = False

    def answer_to(self, method: str, path: str) -> None:
        """Answer with `answer`; ``method`` is GET or POST."""
        raise NotImplementedError

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self.close_connection = True
        try:
            self.connection.settimeout(IDLE_SECONDS + LOOK_EVERY)
            self.server.expect(self.connection, IDLE_SECONDS if self._served else REQUEST_SECONDS)
            if not self.rfile.peek(1):  # type: ignore[attr-defined]  # it is buffered
                return
            if self._served:
                self.server.expect(self.connection, REQUEST_SECONDS)
            self._served = True
            super().handle_one_request()
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def parse_request(self) -> bool:
        """Read a request; return False if it was invalid and has been answered."""
        if not super().parse_request():
            return False
        self.server.expect(self.connection, None)
        self.connection.settimeout(REQUEST_SECONDS)
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1 or (not hosts and self.request_version >= "HTTP/1.1"):
            self.close_connection = True
            self.answer(400, "text/plain; charset=utf-8", b"send one Host header\n")
            return False
        if hosts and not self.hosts.allows(hosts[0].strip()):
            self.close_connection = True
            name = hosts[0].strip().partition(":")[0].encode("ascii", "replace").decode()
            self.answer(
                421, "text/plain; charset=utf-8",
                f'{name[:200]!r} is not a name of this server; if it is to be: http_hosts = ["..."]\n'.encode(),
            )  # fmt: skip
            return False
        if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # a body follows, which is not read
        return True

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "hashstar"

    def do_GET(self) -> None:
        self.answer_to("GET", self.path.partition("?")[0])

    def do_HEAD(self) -> None:
        self.answer_to("GET", self.path.partition("?")[0])

    def do_POST(self) -> None:
        self.answer_to("POST", self.path.partition("?")[0])

    def answer(self, code: int, kind: str, body: bytes, policy: str = NOTHING) -> None:
        """Answer with a body, or only with its length for HEAD."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an invalid or unsupported request, and close the connection."""
        self.close_connection = True
        self.answer(code, "text/plain; charset=utf-8", f"{code} {HTTPStatus(code).phrase}\n".encode())

    def end_headers(self) -> None:
        """Add the headers of every answer."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  its name in the base class
        """Log nothing: probes ask every few seconds."""
