"""An authorization server in the process of the test, its signed tokens, and a RabbitMQ that takes them."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.parse
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final, cast

import pika

from tests.support.servers import SERVERS, _address, _have_image, connect_docker, missing, started
from tests.support.starting import Unavailable, has_ended, read_log, wait_for_service

CLIENT, SECRET = "bridge", "s3cret+of/the bridge"
ALL: Final = ("read:*/*", "write:*/*", "configure:*/*", "tag:monitoring")
"""What a token may do, without the name of the resource server."""
KEY: Final = "tests"
FOLDER: Final = "/oauth"
CONFIG: Final = f"""
auth_backends.1 = rabbit_auth_backend_oauth2
auth_backends.2 = internal
auth_oauth2.resource_server_id = rabbitmq
auth_oauth2.default_key = {KEY}
auth_oauth2.signing_keys.{KEY} = {FOLDER}/public.pem
auth_oauth2.algorithms.1 = RS256
"""
PLUGINS: Final = "[rabbitmq_management, rabbitmq_auth_backend_oauth2].\n"


def _encode(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


class Signer:
    """A key, and the tokens (JWT) that it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for command in ("genrsa -out private.pem 2048", "rsa -in private.pem -pubout -out public.pem"):
            subprocess.run(["openssl", *command.split()], cwd=folder, capture_output=True, check=True)

    def sign(self, seconds: float, scopes: Sequence[str] = ALL, **claims: Any) -> str:
        """Return a token that expires in so many seconds; RabbitMQ counts whole ones."""
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY}
        own = {"sub": CLIENT, "aud": ["rabbitmq"], "exp": int(time.time() + seconds)}
        body = {**own, "scope": [f"rabbitmq.{each}" for each in scopes], "jti": str(time.monotonic_ns()), **claims}
        signed = b".".join(_encode(json.dumps(each).encode()) for each in (head, body))
        command = ["openssl", "dgst", "-sha256", "-sign", "private.pem"]
        done = subprocess.run(command, cwd=self.folder, input=signed, capture_output=True, check=True)
        return (signed + b"." + _encode(done.stdout)).decode()


def make_unsigned(seconds: float, **claims: Any) -> str:
    """Return a token without a signature."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": CLIENT, "iat": now - 1, "exp": now + seconds, **claims}
    return b".".join([*[_encode(json.dumps(each).encode()) for each in parts], b""]).decode()


@dataclass
class Asked:
    """A request for a token."""

    form: dict[str, str]
    login: tuple[str, str] | None
    """Client and secret of its header, as they were before they were encoded."""

    @property
    def client(self) -> tuple[str, str]:
        """Client and secret, wherever they are."""
        return self.login or (self.form.get("client_id", ""), self.form.get("client_secret", ""))


Answer = tuple[int, str | bytes]
"""Status, and body: JSON as a rule."""


@dataclass
class AuthorizationServer:
    """A server whose answers the test decides; ``answer`` may be replaced at any time."""

    answer: Callable[[Asked], Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers of its answers."""
    hanging: threading.Event | None = None
    """If set, what each answer waits for."""


def grant(token: Callable[[], str], seconds: float | None) -> Callable[[Asked], Answer]:
    """Return what answers the right client with a token, which lives so long, and others with a refusal."""

    def answer(asked: Asked) -> Answer:
        if asked.client != (CLIENT, SECRET):
            return 401, json.dumps({"error": "invalid_client", "error_description": f"not {asked.client[1]}"})
        life = {} if seconds is None else {"expires_in": seconds}
        return 200, json.dumps({"access_token": token(), "token_type": "Bearer", **life})

    return answer


@contextmanager
def authorization_server(
    answer: Callable[[Asked], Answer], context: SSLContext | None = None
) -> Iterator[AuthorizationServer]:
    """Yield a server at 127.0.0.1, with TLS if there is a context."""
    server = AuthorizationServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            login = b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode().split(":")
            pair = [urllib.parse.unquote_plus(each) for each in login]
            asked = Asked(form, (pair[0], pair[1]) if len(pair) == 2 else None)
            server.asked.append(asked)
            if server.hanging is not None:
                server.hanging.wait()
            status, text = server.answer(asked)
            body = text if isinstance(text, bytes) else text.encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        scheme = "http"
        if context is not None:
            scheme = "https"
            running.socket = context.wrap_socket(running.socket, server_side=True, do_handshake_on_connect=False)
        server.url = f"{scheme}://127.0.0.1:{running.server_address[1]}/token"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            if server.hanging is not None:
                server.hanging.set()
            running.shutdown()
            thread.join()


@dataclass(frozen=True)
class OauthBroker:
    """A RabbitMQ that takes tokens of a signer."""

    signer: Signer
    host: str
    port: int
    management: str

    def connect(self, token: str) -> pika.BlockingConnection:
        """Connect with a token, as another client."""
        login = pika.PlainCredentials("", token)
        return pika.BlockingConnection(pika.ConnectionParameters(self.host, self.port, credentials=login, heartbeat=0))


@contextmanager
def oauth_broker(folder: Path) -> Iterator[OauthBroker]:
    """Start a RabbitMQ of the newest image of this run, with the plugin for tokens: older ones ask them for less."""
    kind = SERVERS["rabbitmq"]
    image = max(kind.images(), key=lambda name: [int(part) for part in re.findall(r"\d+", name.rpartition(":")[2])])
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        _have_image(connect_docker(DockerClient, kind), image)
    except (ImportError, Unavailable) as reason:
        missing(f"no RabbitMQ that takes tokens: {reason}")
    signer = Signer(folder)
    (folder / "oauth.conf").write_text(CONFIG)
    (folder / "plugins").write_text(PLUGINS)
    for file in folder.iterdir():
        file.chmod(0o644)  # the container's user is another one
    folder.chmod(0o755)
    container = DockerContainer(image)
    ports = cast("dict[Any, Any]", container.ports)
    ports.update({5672: ("127.0.0.1",), 15672: ("127.0.0.1",)})
    files = {"RABBITMQ_CONFIG_FILES": f"{FOLDER}/oauth.conf", "RABBITMQ_ENABLED_PLUGINS_FILE": f"{FOLDER}/plugins"}
    container.env.update(files)
    container.with_volume_mapping(str(folder), FOLDER, "ro")

    def ask() -> OauthBroker:
        host, port = _address(container, 5672)
        broker = OauthBroker(signer, host, port, "http://{}:{}".format(*_address(container, 15672)))
        broker.connect(signer.sign(60)).close()
        return broker

    try:
        started(container, image)
        ended, log = (lambda: has_ended(container)), (lambda: read_log(container))
        yield wait_for_service("a RabbitMQ that takes tokens", ask, log, has_ended=ended)
    except Unavailable as reason:
        missing(str(reason))
    finally:
        container.stop()
