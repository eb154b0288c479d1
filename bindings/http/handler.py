"""Read the requests of one connection, refuse those that are not for this server, and answer the others.

The time for a request (`bindings.http.listener`) includes its body. A body that is too long, or whose length is not
known beforehand, is refused before it is read.
"""

from __future__ import annotations

import re
from email.errors import (
    FirstHeaderLineIsContinuationDefect,
    MisplacedEnvelopeHeaderDefect,
    MissingHeaderBodySeparatorDefect,
)
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final

from bindings.http import listener
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""
NOTHING: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Content security policy of every answer but the page."""
PLAIN: Final = "text/plain; charset=utf-8"
"""Content type of answers for people."""
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Name of a header, as RFC 9110 has it."""
DIGITS: Final = re.compile("[0-9]{1,15}")


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other. Subclasses define ``hosts`` and `answer_to`."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"
    """Version of an invalid request; it is 0.9 in the base class, whose answers would have no headers."""
    timeout = listener.REQUEST_SECONDS
    """Seconds that the client may take to read an answer."""
    disable_nagle_algorithm = True
    """Send the head and the body of an answer at once: else a client waits 40 ms for the body."""
    hosts: HostCheck
    hosts_option: ClassVar[str] = ""
    """How the user allows another host name, for the answer to a request with one that is not allowed."""
    most_body: ClassVar[int] = 0
    """Maximum number of bytes of a request's body; 0: bodies are not read, and end the connection."""
    body = b""
    """The body of the present request."""
    server: Server
    _served = False

    def answer_to(self, method: str, path: str) -> None:
        """Answer with `answer`; ``method`` is GET or POST."""
        raise NotImplementedError

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self.close_connection = True
        try:
            self.connection.settimeout(listener.IDLE_SECONDS + listener.LOOK_EVERY)
            self.server.expect(self.connection, listener.IDLE_SECONDS if self._served else listener.REQUEST_SECONDS)
            if not self.rfile.peek(1):  # type: ignore[attr-defined]  # it is buffered
                return
            if self._served:
                self.server.expect(self.connection, listener.REQUEST_SECONDS)
            self._served = True
            super().handle_one_request()
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def parse_request(self) -> bool:
        """Read a request and its body; return False if it was invalid and has been answered."""
        if not super().parse_request():
            return False
        if not self.most_body:
            self._begin_to_answer()
        if not self._are_headers_plain():
            # Two readers may see two requests where a name has a blank before its colon, or a line continues another.
            self._refuse(400, "send headers as NAME: VALUE, each in one line")
            return False
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1 or (not hosts and self.request_version >= "HTTP/1.1"):
            self._refuse(400, "send one Host header")
            return False
        if hosts and not self.hosts.allows(hosts[0].strip()):
            name = hosts[0].strip().partition(":")[0].encode("ascii", "replace").decode()
            self._refuse(421, f"{name[:200]!r} is not a name of this server; if it is to be: {self.hosts_option}")
            return False
        if not self.most_body:
            if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0":
                self.close_connection = True  # a body follows, which is not read
            return True
        return self.may_ask(self.path.partition("?")[0]) and self._read_body()

    def _are_headers_plain(self) -> bool:
        wrong = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect, MisplacedEnvelopeHeaderDefect)
        return not (
            any(isinstance(defect, wrong) for defect in self.headers.defects)
            or any("\n" in value or "\r" in value or not TOKEN.fullmatch(name) for name, value in self.headers.items())
        )

    def may_ask(self, path: str) -> bool:
        """Return whether the body is to be read; else the request has been answered, and the connection ends.

        The head alone decides: a client that may not ask must not make the server read.
        """
        return True

    def _read_body(self) -> bool:
        """Read the body within the time for the request; return False if it was refused."""
        lengths = self.headers.get_all("Content-Length", ["0"])
        if self.headers.get("Transfer-Encoding") or len(lengths) > 1 or not DIGITS.fullmatch(lengths[0].strip()):
            self._refuse(411, "send one Content-Length, and no Transfer-Encoding")
            return False
        length = int(lengths[0])
        if length > self.most_body:
            self._refuse(413, f"the body has {length:,} bytes; at most {self.most_body:,} are read")
            return False
        self.body = self.rfile.read(length)
        if len(self.body) < length:  # the client has closed the connection
            self.close_connection = True
            return False
        self._begin_to_answer()
        return True

    def _begin_to_answer(self) -> None:
        self.server.expect(self.connection, None)
        self.connection.settimeout(listener.REQUEST_SECONDS)

    def _refuse(self, code: int, reason: str) -> None:
        """Answer, and close the connection: what else the client sends is not read."""
        self.begin_to_refuse()
        self.answer(code, PLAIN, f"{reason}\n".encode())

    def begin_to_refuse(self) -> None:
        """Close the connection after the answer that follows, as what else the client sends is not read."""
        self.close_connection = True
        self._begin_to_answer()

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
        self.answer(code, PLAIN, f"{code} {HTTPStatus(code).phrase}\n".encode())

    def end_headers(self) -> None:
        """Add the headers of every answer."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  its name in the base class
        """Log nothing: probes ask every few seconds."""
