"""A management API on localhost that gives recorded answers: of a state that tests choose, or none while it is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote

from tests.recorders import golden
from tests.recorders.rabbitmq_management import VHOST

RECORDINGS = golden.names("rabbitmq-management-")


class RecordedBroker:
    """The answers, and the address with a login."""

    def __init__(self, name: str) -> None:
        self._answers = golden.read(name)
        self.state = "same"
        """A state of the recording; "away" answers nothing, "broken" what is no JSON."""
        self.address = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body."""
        if self.state == "broken":
            return 200, b"<html>"
        for known, value in self._answers[self.state].items():
            if path == f"/api/{known.format(quote(VHOST, safe=''))}":
                return 200, json.dumps(value).encode()
        return 404, b'{"reason": "Not Found"}'


@contextmanager
def recorded_broker(name: str) -> Iterator[RecordedBroker]:
    """Serve a recording."""
    broker = RecordedBroker(name)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if broker.state == "away":
                self.connection.close()
                return
            status, body = broker.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]  # a connection it closed
    broker.address = f"http://guest:s3cret@127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield broker
    finally:
        server.shutdown()
        server.server_close()
