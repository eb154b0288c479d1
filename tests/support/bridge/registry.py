"""A registry of schemas in the process of the test, which answers as Confluent's does; and a real one, Apicurio's."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.support.servers import ServerKind
from tests.support.waiting import find_limit

API: Final = "/apis/ccompat/v7"


def _read_version(url: str) -> str:
    """Return the version of an Apicurio Registry, once it answers as Confluent's does, too."""
    base = url.removesuffix(API)
    for path in (f"{API}/schemas/types", "/apis/registry/v3/system/info"):
        with urllib.request.urlopen(base + path, timeout=find_limit()) as answer:  # noqa: S310  http
            found = json.load(answer)
    return str(found["version"])


REGISTRY: Final = ServerKind(
    name="registry",
    url_variable="HASHSTAR_REGISTRY_URL",
    image_variable="HASHSTAR_REGISTRY_IMAGE",
    default_image="hashstar/registry:3.0.9",
    port=8080,
    build_url=f"http://{{}}:{{}}{API}".format,
    read_version=_read_version,
)
MISSING: Final[tuple[int, Any]] = 404, {"error_code": 40403, "message": "Schema not found"}


@dataclass
class RegistryServer:
    """A server whose answers the test decides: path -> status and body, JSON unless it is bytes."""

    answers: dict[str, tuple[int, Any]] = field(default_factory=lambda: {"/schemas/types": (200, ["AVRO", "JSON"])})
    otherwise: tuple[int, Any] = MISSING
    """The answer to all else."""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def add(self, path: str, schema: Any, **more: Any) -> None:
        """Answer with a schema."""
        self.answers[path] = 200, {"schema": json.dumps(schema), **more}


def frame(schema_id: int, value: bytes) -> bytes:
    """Return a body as Confluent's serializers frame it."""
    return b"\0" + schema_id.to_bytes(4) + value


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """Yield a server at 127.0.0.1."""
    server = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            server.headers.append(dict(self.headers))
            status, body = server.answers.get(self.path, server.otherwise)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        server.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            running.shutdown()
            thread.join()
