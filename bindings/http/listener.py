"""An HTTP server that no client can block: connections, threads and the time for a request are bounded.

Requests are few and small, so each connection has a thread. There are at most `CONNECTIONS` connections: if one more
comes, the server closes the one that has waited longest for its client's request. So clients that send half a request,
or nothing, do not keep others out, and each probe is answered. While there is room, a client has `REQUEST_SECONDS` for
a request, from the first byte to the last, and `IDLE_SECONDS` until the next request.

Connections take at most an eighth of the files that the process may have open, and only `MIN_CONNECTIONS` when most are
in use: what the process is there for, such as the connections of a bridge to its brokers, comes first.

What a connection is asked and answers is the work of `bindings.http.handler`.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

from exchange.files.operating_system import read_file_limit

LOG: Final = logging.getLogger(__name__)

CONNECTIONS: Final = 64
"""Maximum number of connections, and of threads."""
REQUEST_SECONDS: Final = 10.0
"""Maximum number of seconds for a request with its body, and for reading an answer."""
IDLE_SECONDS: Final = 75.0
"""Maximum number of seconds between an answer and the next request."""
SHARE: Final = 8
"""Connections take at most this fraction, 1 / `SHARE`, of the files that the process may have open."""
MIN_CONNECTIONS: Final = 4
"""Maximum number of connections while less than such a fraction is left."""
LOOK_EVERY: Final = 0.25
"""Seconds between checks for clients whose deadline has passed."""


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
        files = read_file_limit()
        self._most = int(max(MIN_CONNECTIONS, min(CONNECTIONS, files / SHARE)))
        """Maximum number of connections."""
        self._highest = files * (1 - 1 / SHARE)
        """Lowest descriptor that shows that most are in use: a new one is the lowest that is free."""
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
            most = MIN_CONNECTIONS if request.fileno() >= self._highest else self._most
            if len(self._clients) >= most and not self._end_longest_waiting():
                self.shutdown_request(request)  # all are being answered, which does not take long
                return
            self._clients[request] = _Client(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no more threads
            self.shutdown_request(request)

    def get_request(self) -> Any:
        """Accept a connection. Without a free descriptor, the one that waits longest gives way; raises OSError."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                with self._lock:
                    self._end_longest_waiting()
                time.sleep(LOOK_EVERY)  # the connection that cannot be accepted is there again at once
            raise

    def _end_longest_waiting(self) -> bool:
        """Close the connection that has waited longest for its client's request; return whether there is one."""
        waiting = [client for client in self._clients.values() if client.deadline is not None]
        if waiting:
            self._end(min(waiting, key=lambda client: client.since))
        return bool(waiting)

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
        with suppress(OSError):  # it wakes `serve_forever`, but on macOS
            self.socket.shutdown(socket.SHUT_RDWR)
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
