"""A live broker's management API: the definitions that it exports, and other requests.

The password comes from the address, else from the environment, which may have an access token in its place, else from
the user at the terminal. It goes only to the server that the user named: no message contains it, redirects are not
followed, and proxies are not used.
"""

from __future__ import annotations

import base64
import getpass
import http.client
import json
import os
import ssl
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bindings.sources.access_token import VARIABLE, TokenVariable, find_token
from bindings.sources.address import Address, has_scheme, parse_address
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import read_section
from bindings.sources.definitions.hosts import explain_no_vhost
from bindings.sources.http_answer import HttpAnswer, HttpFailure, read_answer
from exchange.entities.entities import Exchange
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.files.names import WEB
from exchange.limits import ANSWER_BYTES, ANSWER_SECONDS
from exchange.text.display import count_noun, list_some
from exchange.topology.topology import Topology
from exchange.values.json_text import parse_leniently

USER, PASSWORD = "HASHSTAR_RABBITMQ_USER", "HASHSTAR_RABBITMQ_PASSWORD"
EXCHANGE: Final = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
LOGIN: Final = f"{USER} and {PASSWORD}"
QUEUE: Final = "disable_stats=true&columns=name,vhost,exclusive"
"""What is asked of each queue."""
MAX_LISTED_NAMES: Final = 3
"""Maximum number of exclusive queues that a message names."""
HINTS: Final[Mapping[type[Exception] | tuple[type[Exception], ...], str]] = {
    TimeoutError: "; --timeout gives it more",
    ConnectionRefusedError: "; is it the management API's port, and is the plugin rabbitmq_management enabled?",
    ssl.SSLCertVerificationError: "; SSL_CERT_FILE names a file of authorities",
    (ConnectionError, http.client.HTTPException): " The management API is usually at port 15672, AMQP at 5672",
}
"""Why there is no answer -> what to do about it; the first that fits."""
EXAMPLE: Final = "http://HOST:15672 or http://HOST:15672/VHOST"

Ask: TypeAlias = Callable[[str, str | None], tuple[str, str]]
"""A function: the address, and the user if known -> user and password; raises InputError without a terminal."""


def is_address(where: str) -> bool:
    """Return whether a source is the address of a broker, and not a file."""
    return has_scheme(where, WEB)


def ask_at_terminal(address: str, user: str | None) -> tuple[str, str]:
    """Ask for user and password at the terminal. Raises InputError when there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            f"{address}: it requires a user and a password, and there is no terminal to ask for them: set {LOGIN}, or "
            f"{VARIABLE}"
        )
    try:
        if user is None:
            sys.stderr.write(f"user for {address}: ")
            sys.stderr.flush()
            user = sys.stdin.readline().strip()
        return user, getpass.getpass(f"password of {user!r} for {address}: ", sys.stderr)
    except (EOFError, KeyboardInterrupt):
        raise InputError(f"{address}: no password was given") from None


def find_login(address: Address, environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return the user and the password of the environment for an AMQP address without a login; None if it has none.

    With an access token, that is the password, and the user is "": RabbitMQ takes the one that it names.
    """
    if address.login:
        return None
    if (token := find_token(environ)) is not None:
        return "", token.read()
    user, password = environ.get(USER), environ.get(PASSWORD)
    return (user, password) if user and password else None


class RefusedRequest(InputError):
    """The management API refuses a request."""

    def __init__(self, text: str, status: int, reason: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        """The broker's words."""


@dataclass(frozen=True, slots=True)
class Management:
    """The management API of one broker, as one user."""

    address: str
    """``http://host:15672``, without user and password."""
    user: str
    password: str = field(repr=False)
    vhost: str | None = None
    """The virtual host that the address names."""
    seconds: float = ANSWER_SECONDS
    """Maximum duration of one answer, from the request to its last byte."""
    token: TokenVariable | None = None
    """Where the access token is that stands for user and password, which are empty then; None if there is none."""

    @classmethod
    def at(
        cls,
        where: str,
        *,
        environ: Mapping[str, str] = os.environ,
        ask: Ask = ask_at_terminal,
        seconds: float = ANSWER_SECONDS,
    ) -> Management:
        """Return the API at ``http(s)://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]``; "/" as a virtual host is ``%2F``.

        An access token of the environment stands for a login that the address does not have. Raises InputError for a
        text that is no such address, or if there is neither token nor password.
        """
        parsed = parse_address(where, WEB, EXAMPLE)
        if "," in parsed.hosts:
            raise InputError(f"an address with several hosts; write {EXAMPLE}")
        address = f"{parsed.scheme}://{parsed.host.lower()}{'' if parsed.port is None else f':{parsed.port}'}"
        vhost = urllib.parse.unquote(parsed.path[1:]) or None
        token = None if parsed.login else find_token(environ)
        if token is not None:
            return cls(address, "", "", vhost, seconds, token)
        user = environ.get(USER) if parsed.user is None else parsed.user
        password = environ.get(PASSWORD) if parsed.password is None else parsed.password
        if user is None or password is None:
            user, password = ask(address, user)
        return cls(address, user, password, vhost, seconds)

    def read_login(self) -> tuple[str, str]:
        """Return the user, and the password or the access token of now, for AMQP. Raises InputError."""
        return self.user, self.password if self.token is None else self.token.read()

    @property
    def account(self) -> str:
        """The user, as texts have it."""
        return f"user {self.user!r}" if self.token is None else f"the user of the access token in {self.token.name}"

    def definitions(self, vhost: str | None = None) -> Definitions:
        """Return the export of ``vhost``, else of the virtual host in the address, else of all. Raises InputError."""
        if None not in (vhost, self.vhost) and vhost != self.vhost:
            raise InputError(f"{self.address}: virtual host {self.vhost!r} by its address, {vhost!r} by --vhost")
        vhost = self.vhost if vhost is None else vhost
        export = self._read_export(vhost)
        if not export.is_topology:
            raise InputError(f"{self.address}: what answers is no management API: its definitions have no exchanges")
        return self._with_internal_exchanges(export, vhost)

    def _read_export(self, vhost: str | None) -> Definitions:
        if vhost is None:
            return Definitions.loads(self._bytes("GET", "/api/definitions"), self.address)
        if vhost.isascii():
            path = f"/api/definitions/{urllib.parse.quote(vhost, safe='')}"
            return Definitions.loads(self._bytes("GET", path), self.address, vhost)
        # RabbitMQ truncates the export of one virtual host whose name is not ASCII (seen with 4.3.6).
        everything = Definitions.loads(self._bytes("GET", "/api/definitions"), self.address)
        if vhost not in everything.vhosts:
            raise InputError(f"{self.address}: {self._explain_no_vhost(vhost)}")
        return Definitions(vhost).with_topology(everything.topology(vhost)).as_topology()

    def _with_internal_exchanges(self, definitions: Definitions, vhost: str | None) -> Definitions:
        """Return the definitions with the internal exchanges, which exports leave out although messages pass them."""
        path = _path("exchanges", vhost)
        listed: dict[str, list[Exchange]] = {}
        for item in self._list("exchanges", path):
            if item.get("internal"):
                try:
                    (entry,) = read_section("exchanges", [{key: item[key] for key in EXCHANGE if key in item}])
                except InputError as error:
                    raise InputError(f"{self.address}: {path}: {error}") from None
                listed.setdefault(entry.vhost or vhost or "/", []).append(entry.part)
        changed = []
        vhosts = set(definitions.vhosts)
        for name, internal in listed.items():
            known = definitions.topology(name) if name in vhosts else Topology(vhost=name)
            missing = [part for part in internal if part.name not in known.exchanges]
            if missing:
                exchanges = [*known.exchanges.values(), *missing]
                parts = (known.queues.values(), known.bindings, known.policies.values())
                changed.append(Topology(exchanges, *parts, vhost=name))
        return definitions.with_topologies(changed)

    def exclusive_queues(self, vhost: str | None = None) -> dict[str, list[str]]:
        """Return virtual host -> its queues that are exclusive to a connection. Raises InputError.

        No export has them; since 4.4.1 none has their bindings, either. ``vhost`` as for `definitions`.
        """
        found: dict[str, list[str]] = {}
        for item in self._list("queues", f"{_path('queues', self.vhost if vhost is None else vhost)}?{QUEUE}"):
            if item.get("exclusive") is True:
                found.setdefault(str(item.get("vhost")), []).append(str(item.get("name")))
        return found

    def _list(self, what: str, path: str) -> list[dict[str, Any]]:
        items = self.request("GET", path)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise InputError(f"{self.address}: what answers is no management API: it lists no {what}")
        return items

    def version(self) -> str:
        """Return the broker's version, ``"4.0.5"``. Raises InputError."""
        return self.overview("rabbitmq_version")

    def overview(self, key: str) -> str:
        """Return a value of the broker's overview, "" if it has none. Raises InputError."""
        overview = self.request("GET", "/api/overview")
        if not isinstance(overview, dict):
            raise InputError(f"{self.address}: what answers is no management API: its overview is no object")
        return str(overview.get(key, ""))

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON answer to a request, None if it is empty; a ``body`` is sent as JSON.

        Raises InputError, which explains what is wrong and what to do about it.
        """
        data = self._bytes(method, path, body)
        try:
            return parse_leniently(data) if data.strip() else None
        except ValueError:
            raise InputError(f"{self.address}: what answers is no management API: its answer is not JSON") from None

    def _bytes(self, method: str, path: str, body: Any = None) -> bytes:
        user, secret = self.read_login()
        login = base64.b64encode(f"{user}:{secret}".encode()).decode()
        login = f"Basic {login}" if self.token is None else f"Bearer {secret}"
        request = urllib.request.Request(  # noqa: S310  http and https only: see is_address
            self.address + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": login, "Accept": "application/json", "Content-Type": "application/json"},
            method=method,
        )
        try:
            answer = read_answer(request, self.seconds, ANSWER_BYTES)
        except HttpFailure as error:
            hint = next((hint for kind, hint in HINTS.items() if isinstance(error.__cause__, kind)), "")
            raise InputError(f"{self.address}: it {error}{hint}") from None
        if not 200 <= answer.status < 300:
            text = f"{self.address}: {self._refusal(answer, path)}"
            raise RefusedRequest(text, answer.status, _reason(answer))
        if answer.body.lstrip()[:1] not in (b"", b"{", b"["):
            raise InputError(f"{self.address}: what answers is no management API: its answer is not JSON")
        return answer.body

    def _refusal(self, answer: HttpAnswer, path: str) -> str:
        if answer.status == 401:
            reason = _reason(answer)
            if reason.endswith(" user"):  # it lacks a tag: "Not administrator user"
                way = "rabbitmqctl set_user_tags USER " if self.token is None else "the scope RESOURCE_SERVER.tag:"
                return f"{self.account} may not do this ({reason}): {way}administrator"
            if self.token is not None:
                return f"{self.account} is refused ({reason}): the broker's log has what is wrong with the token"
            return f"{self.account} is refused ({reason}): check the address, or {LOGIN}"
        if answer.status in (400, 404) and path.startswith(("/api/definitions/", "/api/vhosts/")):
            return self._explain_no_vhost(urllib.parse.unquote(path.rpartition("/")[2]))
        if answer.status == 404:
            return f"no management API here: {path} is not found; it is at port 15672 as a rule"
        if 300 <= answer.status < 400:
            return f"it sends elsewhere, to {_without_login(answer.headers.get('Location', '?'))}; use that address"
        return f"it answers {answer.status} ({_reason(answer)})"

    def _explain_no_vhost(self, vhost: str) -> str:
        try:
            names = [str(item["name"]) for item in self._list("vhosts", "/api/vhosts")]
        except (InputError, KeyError):  # such as of a user who may not list them
            return f"there is no virtual host {vhost!r} (rabbitmqctl list_vhosts shows them, add_vhost makes one)"
        return f"{explain_no_vhost(vhost, names)}; rabbitmqctl add_vhost makes one"


def build_unread_queues(vhost: str, names: Sequence[str]) -> UnreadPart:
    """Return what a topology lacks that was read of a broker with exclusive queues of these names."""
    listed = list_some(list(map(repr, sorted(names))), MAX_LISTED_NAMES)
    text = f"{count_noun(len(names), 'exclusive queue')} ({listed}) with all bindings, which no export has"
    return UnreadPart("unsupported", f"virtual host {vhost!r}", text)


def _path(what: str, vhost: str | None) -> str:
    return f"/api/{what}" if vhost is None else f"/api/{what}/{urllib.parse.quote(vhost, safe='')}"


def _reason(answer: HttpAnswer) -> str:
    try:
        reason = parse_leniently(answer.body)["reason"]
    except (ValueError, KeyError, TypeError):
        return answer.reason
    return reason if isinstance(reason, str) else answer.reason


def _without_login(url: str) -> str:
    return url.partition("?")[0].rpartition("@")[2]
