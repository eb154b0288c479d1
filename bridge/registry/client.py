"""Ask a registry for schemas, by Confluent's API, which Apicurio has, too: one GET, and one for each reference."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote
from urllib.request import Request

from bindings.sources.address import Address
from bindings.sources.http_answer import HttpAnswer, HttpFailure, read_answer
from bridge.endpoint import Disconnected
from bridge.keys import Key
from bridge.oauth import OAUTH, read_tokens
from bridge.registry import keys
from bridge.registry.avro import AvroType, UnreadableSchema, compile_schema, find_in_avro
from bridge.table import Secret, Table, read_address, refuse_second_login
from bridge.tls import make_context
from bridge.tokens import Tokens
from exchange.errors import InputError
from exchange.files.names import WEB
from exchange.limits import SCHEMA_BYTES, SCHEMA_REFERENCES, SCHEMA_SECONDS
from exchange.partition.partitioning.key_source import find_in_json
from exchange.values.json_text import parse_leniently

NOT_FOUND: Final = (40401, 40402, 40403)
"""Confluent's codes of errors for a subject, a version and a schema that are not there, of an answer 404."""

SchemaId: TypeAlias = int | str
"""The number of a schema, or its GUID."""
Find: TypeAlias = Callable[[int, bytes, Sequence[str]], Any]
"""Function of the index at which a value begins, of the body, and of the steps of a JSON Pointer -> the value there;
None if there is none. Raises ValueError."""


class Schema(NamedTuple):
    """A schema that the registry has."""

    find: Find | None
    """None: it cannot be read."""
    size: int
    """Its size in bytes, with what it refers to."""
    problem: str = ""
    """Why it cannot be read."""


class RegistryError(Disconnected):
    """The registry does not answer with a schema: the reason, and the key of the table that it is about."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}", key)


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """What is asked of a registry. Its functions wait for answers: call them aside."""

    table: Table
    address: Address = field(repr=False)
    user: str | None
    password: Secret | None = field(repr=False)
    tokens: Tokens | None
    login: Key[Any]
    """The key that the login is under."""
    files: tuple[str | None, str | None, str | None]
    """The files of TLS: authorities, certificate, private key."""

    @property
    def server(self) -> str:
        """The registry, as it is shown."""
        return f"{self.address.scheme}://{self.address.hosts}{self.address.path}"

    def fetch(self, schema_id: SchemaId) -> Schema | None:
        """Return a schema; None if the registry has none of this id. Raises Disconnected if it does not answer."""
        path = f"ids/{schema_id}" if isinstance(schema_id, int) else f"guids/{quote(schema_id)}"
        answer = self._get(f"/schemas/{path}")
        return None if answer is None else _SchemaReader(self).read(answer)

    def fetch_version(self, subject: str, version: int) -> Mapping[str, Any] | None:
        """Return what the registry has of the version of a subject, also of a deleted one; None if there is none."""
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")

    def fetch_types(self) -> Sequence[str]:
        """Return the types of schemas that the registry has. Raises Disconnected."""
        return [each for each in self._ask("/schemas/types", list) if isinstance(each, str)]

    def _get(self, path: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._ask(path, dict)
        return found

    def _ask(self, path: str, kind: type) -> Any:
        """Return the JSON of an answer; None if the registry says that it has no such object. Raises Disconnected."""
        headers, context = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}, None
        if self.tokens is not None:
            headers["Authorization"] = f"Bearer {self.tokens.current().text}"
        elif self.user is not None:
            login = f"{self.user}:{'' if self.password is None else self.password.current()}"
            headers["Authorization"] = f"Basic {b64encode(login.encode('utf-8', 'surrogateescape')).decode()}"
        try:
            if self.address.scheme == "https":
                context = make_context(self.table, *self.files)
        except InputError as error:
            raise Disconnected(str(error)) from None
        request = Request(self.server.rstrip("/") + path, headers=headers)  # noqa: S310  http and https only
        try:
            answer = read_answer(request, SCHEMA_SECONDS, SCHEMA_BYTES, context)
        except HttpFailure as error:
            by_file = isinstance(error.__cause__, ssl.SSLCertVerificationError) and self.files[0] is not None
            raise self._error(str(error), keys.CA_FILE if by_file else keys.URL) from None
        if answer.status == 401 and self.tokens is not None:
            self.tokens.forget(headers["Authorization"].removeprefix("Bearer "))
        return self._read(answer, kind)

    def _read(self, answer: HttpAnswer, kind: type) -> Any:
        try:
            found = parse_leniently(answer.body)
        except ValueError:
            found = None
        if answer.status in (401, 403):
            who = "this access token" if self.tokens is not None else f"user {self.user!r}" if self.user else "nobody"
            raise self._error(f"does not answer {who} ({answer.status})", self.login)
        is_error = kind is dict and isinstance(found, dict)
        if answer.status == 404 and is_error and found.get("error_code") in NOT_FOUND:
            return None
        if answer.status == 200 and isinstance(found, kind):
            return found
        hint = ": is this the address of Confluent's API?" if answer.status < 400 or answer.status == 404 else ""
        raise self._error(f"answers {answer.status} {answer.reason}{hint}")

    def _error(self, problem: str, key: Key[Any] = keys.URL) -> RegistryError:
        return RegistryError(key.name, f"{self.server} {problem}")


class _SchemaReader:
    """Reads one schema, with all that it refers to."""

    def __init__(self, client: RegistryClient) -> None:
        self._client: Final = client
        self._named: Final[dict[str, AvroType]] = {}
        self._known: Final = set[tuple[str, int]]()
        self._size = 0

    def read(self, answer: Mapping[str, Any]) -> Schema:
        """Return the schema of an answer. Raises Disconnected if what it refers to cannot be had now."""
        kind = answer.get("schemaType", "AVRO")
        if kind == "JSON":
            return Schema(_find_in_framed_json, 0)
        if kind != "AVRO":
            return Schema(None, 0, f"it is of the type {kind!r:.40}, and those of Avro and JSON are read")
        try:
            return Schema(partial(find_in_avro, self._compile(answer)), self._size)
        except ValueError as error:
            return Schema(None, self._size, str(error))

    def _compile(self, answer: Mapping[str, Any]) -> AvroType:
        """Return the type of a schema, after those that it refers to. Raises ValueError, Disconnected."""
        text, references = answer.get("schema"), answer.get("references") or ()
        if not isinstance(text, str) or not isinstance(references, list | tuple):
            raise UnreadableSchema("the registry gives no text of it")
        for each in references:
            self._refer(each)
        self._size += len(text)
        return compile_schema(parse_leniently(text), self._named)

    def _refer(self, reference: Any) -> None:
        """Read the version of a subject, once."""
        subject, version = (
            (reference.get("subject"), reference.get("version")) if isinstance(reference, dict) else (None, None)
        )
        if not isinstance(subject, str) or not isinstance(version, int):
            raise UnreadableSchema("it refers to something that has no subject and version")
        if (subject, version) in self._known:
            return
        self._known.add((subject, version))
        if len(self._known) > SCHEMA_REFERENCES:
            raise UnreadableSchema(f"it refers to more than {SCHEMA_REFERENCES} schemas")
        answer = self._client.fetch_version(subject, version)
        if answer is None:
            raise UnreadableSchema(
                f"it refers to version {version} of {subject!r:.100}, which the registry does not have"
            )
        self._compile(answer)


def _find_in_framed_json(start: int, body: bytes, steps: Sequence[str]) -> Any:
    return find_in_json(body[start:], steps)


def read_client(table: Table) -> RegistryClient:
    """Read the table of a registry. Nothing is asked yet. Raises InputError."""
    address = read_address(table, keys.URL.read(table), WEB, keys.EXAMPLE)
    if "," in address.hosts or address.query or address.fragment:
        raise table.error(keys.URL.name, f"must be {keys.EXAMPLE}", masked=True)
    refuse_second_login(table, address)
    tokens = read_tokens(table, address, (keys.USER.name, keys.PASSWORD.name))
    user, password = keys.USER.read(table), keys.PASSWORD.read(table)
    files = keys.CA_FILE.read(table), keys.CERT_FILE.read(table), keys.KEY_FILE.read(table)
    table.refuse_unread(keys.REGISTRY.names)
    has_login = user is not None or address.user is not None or tokens is not None
    if password is not None and not has_login:
        raise table.missing(keys.USER.name, "is missing, and there is a password")
    if address.scheme == "https":
        make_context(table, *files)
    elif any(files):
        raise table.error(keys.URL.name, "files for TLS are given, but the URL does not begin with https:", masked=True)
    elif has_login and address.host not in ("localhost", "127.0.0.1", "::1"):
        table.warn(keys.URL.name, "sends the login without encryption; write https:")
    login = OAUTH if tokens is not None else keys.URL if password is None else keys.PASSWORD
    if password is None and address.password is not None:
        password = Secret(address.password)
    return RegistryClient(table, address, user or address.user, password, tokens, login, files)
