"""Commands of RocketMQ's remoting protocol and their frames: bytes in, commands out, no socket.

A frame is ``length i32, type << 24 | header length i32, header, body``, where length counts all bytes after itself.
Type 0 is a header in JSON, type 1 (ROCKETMQ) a binary one; each side writes one of them, and reads both. Text is UTF-8.
A request and its response have the same ``opaque``, an id that the sender of the request chooses, unique within its
connection.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from bridge.rocketmq.remoting.errors import CommandError
from exchange.values.json_text import parse_fastjson, parse_leniently

T = TypeVar("T")

RESPONSE: Final = 1
"""The bit of ``flag`` of a response (`RemotingCommand.markResponseType`)."""
ONEWAY: Final = 2
"""The bit of a request without a response."""

VERSION: Final = 513
"""The version of a command's sender: the number of V5_5_0 in `MQVersion.Version`. Name servers answer versions below
401 in text that only resembles JSON; brokers announce to versions above 476 that they go away
(`ResponseCode.GO_AWAY`)."""

LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
"""`LanguageCode`, indexed by number."""

FRAME_MAX: Final = 16 * 1024 * 1024
"""Maximum length of a frame that either side takes, in bytes (``com.rocketmq.remoting.frameMaxLength``)."""

HEADER_MAX: Final = (1 << 24) - 1
"""Maximum length of a header, in bytes, and its bit mask."""
CODE_MAX: Final = (1 << 15) - 1
"""Maximum code of a command with a binary header. Requests for POP have greater ones, and headers in JSON."""
KEY_MAX: Final = (1 << 15) - 1
"""Maximum length of a field's name in a binary header, in bytes."""

PREFIX: Final = Struct(">iI")
"""Length of the frame; type and length of the header."""
HEAD: Final = Struct(">hBhiii")
"""Begin of a binary header: code, language, version, opaque, flag, length of the remark."""
WHOLE_HEAD: Final = Struct(">iIhBhiiii")
"""``PREFIX``, ``HEAD`` and the length of the fields: all bytes before the fields of a command without a remark."""
INT: Final = Struct(">i")
SHORT: Final = Struct(">h")
NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(LANGUAGES)}
OTHER: Final = NUMBERS["OTHER"]
PYTHON: Final = NUMBERS["PYTHON"]
ROCKETMQ_TYPE: Final = 1 << 24

NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


class SerializeType(IntEnum):
    """The format of a header (`org.apache.rocketmq.remoting.protocol.SerializeType`)."""

    JSON = 0
    ROCKETMQ = 1


class Command(NamedTuple):
    """A request or a response (`org.apache.rocketmq.remoting.protocol.RemotingCommand`)."""

    code: int
    """One of `RequestCode`, or of `ResponseCode` in a response."""
    fields: Mapping[str, str] = NO_FIELDS
    """``extFields``; Java reads an empty value of a binary header as null."""
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = "PYTHON"
    version: int = VERSION

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether it is a request that expects no answer."""
        return bool(self.flag & ONEWAY)

    def response(self, code: int = 0, remark: str | None = None, body: bytes = b"") -> Command:
        """Return a response to this request."""
        return Command(code, body=body, opaque=self.opaque, flag=RESPONSE, remark=remark)


def encode(command: Command, header: SerializeType = SerializeType.ROCKETMQ) -> bytes:
    """Return the frame of a command (`RemotingCommand.encode`).

    A code that does not fit in a binary header gives a header in JSON, which every server reads; Java's encoder would
    cut the code off. Raises CommandError for a command that is too long, and for text with lone surrogates.
    """
    if command.code > CODE_MAX:
        header = SerializeType.JSON
    try:
        head = _binary(command) if header == SerializeType.ROCKETMQ else _json(command)
    except UnicodeEncodeError as error:
        raise CommandError(f"not text: {error.object[max(error.start - 20, 0) : error.end + 20]!r}") from None
    except struct.error:
        raise CommandError("a number of the header is too great for it") from None
    length = 4 + len(head) + len(command.body)
    if len(head) > HEADER_MAX or length > FRAME_MAX:
        raise CommandError(f"a frame of {length:,} bytes, {len(head):,} of them its header; {FRAME_MAX:,} are allowed")
    return PREFIX.pack(length, header << 24 | len(head)) + head + command.body


def join_frame(code: int, opaque: int, flag: int, fields: bytes, body: bytes) -> bytes:
    """Return the frame of a command whose ``fields`` are encoded already, each by `encode_field`.

    It is what `encode` returns for the command, without its checks.
    """
    size = len(fields)
    return b"".join((
        WHOLE_HEAD.pack(
            4 + HEAD.size + 4 + size + len(body), ROCKETMQ_TYPE | HEAD.size + 4 + size, code, PYTHON, VERSION, opaque,
            flag, 0, size,
        ),
        fields, body,
    ))  # fmt: skip


def encode_field(name: str, value: str) -> bytes:
    """Encode a field for a binary header (`RocketMQSerializable.writeStr`). Raises CommandError, UnicodeEncodeError."""
    key, text = name.encode(), value.encode()
    if len(key) > KEY_MAX:
        raise CommandError(f"the name of a field has {len(key):,} bytes; {KEY_MAX:,} are allowed: {name[:40]}...")
    return SHORT.pack(len(key)) + key + INT.pack(len(text)) + text


class Decoder:
    """Splits the data of a connection into commands."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: bytes | bytearray = b""

    def feed(self, data: bytes) -> list[Command]:
        """Return the commands that are complete with this data.

        Raises CommandError for data that is no command. Complete commands before it in the same data are lost, and the
        connection cannot be used any more.
        """
        received: bytes | bytearray = data
        if self._rest:
            self._rest += data
            received = self._rest
        at, end = 0, len(received)
        commands = []
        while end - at >= 4:
            (length,) = INT.unpack_from(received, at)
            if not 4 <= length <= FRAME_MAX:
                raise CommandError(f"a frame of {length:,} bytes; from 4 to {FRAME_MAX:,} are allowed")
            stop = at + 4 + length
            if stop > end:
                break
            commands.append(_decode(received, at + 4, stop))
            at = stop
        rest = received[at:] if at else received
        # A bytearray grows in place: a large frame that comes in many pieces is not copied for each.
        self._rest = rest if not rest or isinstance(rest, bytearray) else bytearray(rest)
        return commands


def load_json(body: bytes) -> Any:
    """Return the JSON in a server's answer; keys that are numbers become strings (fastjson's ``{0:"..."}``).

    Raises CommandError for a body that is not JSON.
    """
    try:
        return parse_fastjson(body.decode())
    except ValueError:
        raise CommandError(f"no JSON: {body[:200]!r}") from None


def read_json(body: bytes, read: Callable[[Any], T]) -> T:
    """Return what ``read`` makes of the JSON in a body. Raises CommandError where the JSON has another structure."""
    value = load_json(body)
    try:
        return read(value)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CommandError(f"an answer of another shape ({type(error).__name__} {error}): {body[:200]!r}") from None


def _json(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code, "language": command.language, "version": command.version, "opaque": command.opaque,
        "flag": command.flag, "serializeTypeCurrentRPC": "JSON",
    }  # fmt: skip
    if command.remark is not None:
        header["remark"] = command.remark
    if command.fields:
        header["extFields"] = dict(command.fields)
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()


def _binary(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    fields = b"".join([encode_field(name, value) for name, value in command.fields.items()])
    language = NUMBERS.get(command.language, OTHER)
    head = HEAD.pack(command.code, language, command.version, command.opaque, command.flag, len(remark))
    return b"".join((head, remark, INT.pack(len(fields)), fields))


def _decode(data: bytes | bytearray, at: int, stop: int) -> Command:
    """Decode the frame that ends at ``stop``; ``at`` is behind its length. Raises CommandError."""
    (word,) = INT.unpack_from(data, at)
    kind, body = word >> 24, at + 4 + (word & HEADER_MAX)
    if body > stop:
        raise CommandError(f"a header of {word & HEADER_MAX:,} bytes in a frame of {stop - at:,}")
    try:
        if kind == SerializeType.ROCKETMQ:
            return _from_binary(data, at + 4, body, stop)
        if kind == SerializeType.JSON:
            return _from_json(str(data[at + 4 : body], "utf-8"), bytes(data[body:stop]))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        wrong = bytes(data[at + 4 : body][:200])
        raise CommandError(f"a header that cannot be read ({type(error).__name__} {error}): {wrong!r}") from None
    raise CommandError(f"a header of type {kind}; there are 0 (JSON) and 1 (ROCKETMQ)")


def _from_binary(data: bytes | bytearray, at: int, body: int, stop: int) -> Command:
    """Decode a command with a binary header, ``data[at:body]``, and the body, ``data[body:stop]``.

    Behind `HEAD` come the remark, the length of all fields (4 bytes), and the fields as `encode_field` writes them.
    Raises ValueError or struct.error for lengths that do not add up.
    """
    code, language, version, opaque, flag, size = HEAD.unpack_from(data, at)
    at += HEAD.size
    remark = None
    if size:
        remark = str(data[at : at + size], "utf-8")
        at += size
    (size,) = INT.unpack_from(data, at)
    at += 4
    if at + size != body:
        raise ValueError("the lengths in it do not add up")
    fields = {}
    while at < body:
        (size,) = SHORT.unpack_from(data, at)
        value_at = at + 2 + size
        name = str(data[at + 2 : value_at], "utf-8")
        (size,) = INT.unpack_from(data, value_at)
        at = value_at + 4 + size
        if size < 0 or at > body:
            raise ValueError("the lengths in it do not add up")
        fields[name] = str(data[value_at + 4 : at], "utf-8")
    name = LANGUAGES[language] if language < len(LANGUAGES) else "OTHER"
    return Command(code, fields, bytes(data[body:stop]), opaque, flag, remark, name, version)


def _from_json(header: str, body: bytes) -> Command:
    read = parse_leniently(header)
    get = read.get
    return Command(
        int(read["code"]), get("extFields") or {}, body, int(get("opaque", 0)), int(get("flag", 0)), get("remark"),
        str(get("language", "OTHER")), int(get("version", 0)),
    )  # fmt: skip


def now_ms() -> int:
    """Return the milliseconds since 1970, the protocol's unit for all times."""
    return time.time_ns() // 1_000_000
