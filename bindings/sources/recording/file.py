"""The file of a recording: JSON lines, of four kinds.

The first line is about the recording; then come the clients, their requests, and their publishing. A line names its
client by a number that an earlier line has given it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypedDict

from bindings.sources.recording.model import (
    CLOSINGS,
    RECORDED,
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
    Recording,
    UnreadConnections,
)
from exchange.amqp.methods import METHODS
from exchange.errors import InputError
from exchange.values.field_json import decode_table, encode_fields, encode_table
from exchange.values.json_text import parse_line
from exchange.values.json_types import FieldJson

FORMAT: Final = 1
"""Number of the form of the file; a reader refuses a higher one."""
METHODS_READ: Final = {**RECORDED, **CLOSINGS}
"""Method that a line may be about -> the arguments that it has."""
ARGUMENT_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "shortstr": lambda value: type(value) is str,
    "longstr": lambda value: type(value) in (str, bytes),
    "table": lambda value: type(value) is dict,
    "bit": lambda value: type(value) is bool,
}
"""Type of an argument -> whether a value is of it; the others are numbers."""


class UnreadJson(TypedDict):
    """Connections that were passed on without being read to their end."""

    side: str
    """Who sent what is not AMQP 0-9-1: `client` or `broker`."""
    reason: str
    count: int


class RecordingJson(TypedDict):
    """The first line: what was recorded."""

    kind: Literal["recording"]
    format: int
    upstream: str
    """`HOST:PORT` of the broker."""
    brokers: list[str]
    """Product and version of each broker behind the address."""
    started: str
    ended: str
    opened: int
    """Number of connections."""
    unread: list[UnreadJson]
    left_out: int
    """Number of calls that are not recorded because there were too many different ones."""


class ClientJson(TypedDict):
    """A client, as it names itself."""

    kind: Literal["client"]
    client: int
    """The number by which the lines after this one name it."""
    product: str
    version: str
    platform: str
    name: str
    """The connection's name, which applications choose."""
    connections: int


class AnswerJson(TypedDict):
    """An answer of the broker, and how often it came."""

    code: int | None
    """Reply code of a refusal, 0 if the broker closed the connection without one; null if it did what it was asked."""
    text: str
    count: int


class RequestJson(TypedDict):
    """A method that a client has called, with the same arguments each time.

    `connection.close` and `channel.close` are closings by the broker that blame no call; `answers` has the reasons.
    """

    kind: Literal["request"]
    client: int
    vhost: str
    method: str
    arguments: dict[str, FieldJson]
    """The arguments as AMQP names them."""
    count: int
    first: str
    last: str
    answers: list[AnswerJson]


class PublishingJson(TypedDict):
    """The messages that a client has published to an exchange: only their number and size."""

    kind: Literal["publishing"]
    client: int
    vhost: str
    exchange: str
    mandatory: bool
    immediate: bool
    messages: int
    max_bytes: int
    returned: int
    """Number of messages that came back because no queue got them."""
    first: str
    last: str
    answers: list[AnswerJson]
    """The refusals that closed a channel or a connection."""


def format_recording(recording: Recording) -> Iterator[bytes]:
    """Yield the lines of a recording's file."""
    unread = [{"side": each.side, "reason": each.reason, "count": count} for each, count in recording.unread.items()]
    yield _format_row(RecordingJson, recording, kind="recording", format=FORMAT, unread=unread)
    clients = dict.fromkeys(recording.connections)
    clients |= dict.fromkeys(row.client for row in recording.requests)  # who asks may not have named itself
    clients |= dict.fromkeys(row.client for row in recording.publishing)
    numbers = {client: number for number, client in enumerate(clients, 1)}
    for client, number in numbers.items():
        connections = recording.connections[client]
        yield _format_row(ClientJson, client, kind="client", client=number, connections=connections)
    for request in recording.requests:
        arguments, answers = encode_table(request.arguments), _encode_answers(request.answers)
        named = {"kind": "request", "client": numbers[request.client]}
        yield _format_row(RequestJson, request, arguments=arguments, answers=answers, **named)
    for publishing in recording.publishing:
        named = {"kind": "publishing", "client": numbers[publishing.client]}
        yield _format_row(PublishingJson, publishing, answers=_encode_answers(publishing.answers), **named)


def _format_row(form: type, row: object, **others: Any) -> bytes:
    """Return the line of a row in a form: the fields of that name, and others."""
    names = form.__annotations__
    return encode_fields({name: others[name] if name in others else getattr(row, name) for name in names})


def _encode_answers(answers: Mapping[RecordedAnswer, int]) -> list[AnswerJson]:
    return [{"code": answer.code, "text": answer.text, "count": count} for answer, count in answers.items()]


def is_recording(text: str) -> bool:
    """Return whether a file begins as a recording does."""
    line = text.lstrip("\ufeff \t\r\n").partition("\n")[0]
    if '"recording"' not in line[:100]:
        return False
    try:
        head = parse_line(line.encode())
    except InputError:
        return False
    return isinstance(head, dict) and head.get("kind") == "recording"


def read_recording(text: str, name: str) -> Recording:
    """Read the file of a recording; errors call it ``name``. Raises InputError, which names the line."""
    reader = _RecordingReader()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                reader.read(parse_line(line.encode("utf-8", "surrogatepass")))
            except InputError as error:
                raise InputError(f"{name}: line {number}: {error}{error.drawing}") from None
    if reader.recording is None:
        raise InputError(f"{name}: no recording of hashstar record")
    return reader.recording


class _RecordingReader:
    """Puts the lines of a file together."""

    def __init__(self) -> None:
        self.recording: Recording | None = None
        self._clients: dict[int, RecordedClient] = {}

    def read(self, line: Any) -> None:
        """Read a line that is parsed. Raises InputError."""
        if not isinstance(line, dict):
            raise InputError("not an object")
        kind = line.get("kind")
        if (self.recording is None) is not (kind == "recording"):
            raise InputError("the first line of a recording, and no other, is of the kind recording")
        if self.recording is None:
            self.recording = _read_head(line)
        elif kind == "client":
            client = RecordedClient(*(_get(line, field, str) for field in RecordedClient._fields))
            self._clients[_get(line, "client", int)] = client
            self.recording.connections[client] += _get(line, "connections", int)
        elif kind == "request":
            self.recording.requests.append(self._read_request(line))
        elif kind == "publishing":
            self.recording.publishing.append(self._read_publishing(line))
        else:
            raise InputError("its kind is none of client, request, publishing")

    def _read_request(self, line: Mapping[str, Any]) -> RecordedRequest:
        method = _get(line, "method", str)
        if method not in METHODS_READ:
            raise InputError(f"no recording has the method {method!r:.60}")
        arguments = decode_table(line.get("arguments"), "arguments")
        _check_arguments(method, arguments)
        return RecordedRequest(
            self._find_client(line), _get(line, "vhost", str), method, arguments, _get(line, "first", str),
            _get(line, "last", str), _get(line, "count", int), _read_answers(line),
        )  # fmt: skip

    def _read_publishing(self, line: Mapping[str, Any]) -> RecordedPublishing:
        return RecordedPublishing(
            self._find_client(line), _get(line, "vhost", str), _get(line, "exchange", str),
            _get(line, "mandatory", bool), _get(line, "immediate", bool), _get(line, "first", str),
            _get(line, "last", str), _get(line, "messages", int), _get(line, "max_bytes", int),
            _get(line, "returned", int), _read_answers(line),
        )  # fmt: skip

    def _find_client(self, line: Mapping[str, Any]) -> RecordedClient:
        client = self._clients.get(_get(line, "client", int))
        if client is None:
            raise InputError("no line before it is about its client")
        return client


def _read_head(line: Mapping[str, Any]) -> Recording:
    if _get(line, "format", int) > FORMAT:
        raise InputError("a newer hashstar has written it: read it with that one")
    brokers = _get(line, "brokers", list)
    if not all(isinstance(broker, str) for broker in brokers):
        raise InputError("brokers is no list of texts")
    recording = Recording(_get(line, "upstream", str), _get(line, "started", str), _get(line, "ended", str), brokers)
    recording.opened, recording.left_out = _get(line, "opened", int), _get(line, "left_out", int)
    recording.unread = Counter({
        UnreadConnections(_get(each, "side", str), _get(each, "reason", str)): _get(each, "count", int)
        for each in _get_objects(line, "unread")
    })  # fmt: skip
    return recording


def _read_answers(line: Mapping[str, Any]) -> Counter[RecordedAnswer]:
    answers: Counter[RecordedAnswer] = Counter()
    for each in _get_objects(line, "answers"):
        code = each.get("code")
        answer = RecordedAnswer(None if code is None else _get(each, "code", int), _get(each, "text", str))
        answers[answer] += _get(each, "count", int)
    return answers


def _check_arguments(method: str, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for other arguments than those that are recorded, and for values of another type."""
    names = METHODS_READ[method]
    if sorted(arguments) != sorted(names):
        raise InputError(f"{method} has the arguments {', '.join(names) or 'none'}")
    shape = dict(METHODS[method].arguments)
    if method == "basic.consume":
        shape |= {"prefetch_count": "short", "prefetch_global": "bit"}
    for name, value in arguments.items():
        if not ARGUMENT_TYPES.get(shape[name], _is_number)(value):
            raise InputError(f"the argument {name} of {method} is no {shape[name]}")


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _get(line: Mapping[str, Any], field: str, kind: type) -> Any:
    value = line.get(field)
    if type(value) is not kind or (kind is int and not _is_number(value)):
        raise InputError(f"{field} is missing or of another type")
    return value


def _get_objects(line: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    value = _get(line, field, list)
    if not all(isinstance(each, dict) for each in value):
        raise InputError(f"{field} is no list of objects")
    return list(value)
