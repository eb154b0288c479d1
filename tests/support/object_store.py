"""A store of objects for tests: moto's server of S3 in a thread, which counts the bytes that it sends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTS", "AWS_SECRET_ACCESS_KEY": "secret-of-tests", "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip
"""Environment of clients; moto takes any."""
NAMES = (
    "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
)  # fmt: skip


class ObjectStore:
    """A running server; `sent` has the number of bytes of each request that got an object or a part of one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.options = f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        self.sent: list[tuple[str, int]] = []

    def address(self, key: str, *, login: str = "") -> str:
        """Return the address of a bucket and a key."""
        return f"s3://{login}{key}{self.options}"

    def system(self) -> Any:
        """Return pyarrow's file system, which may create buckets."""
        from pyarrow.fs import FileSystem

        return FileSystem.from_uri(f"s3://any/{self.options}&allow_bucket_creation=true&allow_bucket_deletion=true")[0]

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        with self.system().open_output_stream(key) as file:
            file.write(data)

    def upload(self, path: Path, key: str) -> None:
        """Write a file, or all files of a folder, below a key."""
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file():
                self.put(key if path.is_file() else f"{key}/{file.relative_to(path).as_posix()}", file.read_bytes())


@contextmanager
def serve_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Run a store with the bucket ``bucket``."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    inner = DomainDispatcherApplication(create_backend_app)

    def serve(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        parts = [*inner(environ, start)]
        if environ["REQUEST_METHOD"] == "GET" and "list-type" not in environ.get("QUERY_STRING", ""):
            store.sent.append((unquote(environ["PATH_INFO"]), sum(map(len, parts))))
        return parts

    server = make_server("127.0.0.1", 0, serve, threaded=True)
    store = ObjectStore(server.server_port)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        store.system().create_dir("bucket")
        yield store
    finally:
        server.shutdown()
        thread.join()
