"""The logs of RabbitMQ's tracing plugin (`rabbit_tracing_consumer.erl`), in JSON and in text.

Both tell what the firehose tells: see `bindings.archive.formats.firehose`. The plugin cuts bodies at
``max_payload_bytes`` without saying so. A trace with a pattern other than ``#`` or ``publish.#`` holds what the pattern
let through.

In JSON all integers become longs, a void the text ``undefined``, and bytes that are not UTF-8 a text that says so.

In text, the characters of an entry are written in one of three ways, which no entry tells of itself:

====  ==================================================  ===========================  =========================
      how terms are printed                               names and the body           characters are written
====  ==================================================  ===========================  =========================
3.10  ``~p``: no ``/utf8``, so binaries are Latin-1        as their bytes               in Latin-1
4.0   ``~tp``: ``<<"ü"/utf8>>`` where a binary is UTF-8    as UTF-8, else as Latin-1    in Latin-1
4.3   as 4.0                                              as 4.0                       in UTF-8
====  ==================================================  ===========================  =========================

An entry whose head is not UTF-8 is thus in Latin-1, and so is one without ``/utf8``, its keys then being those of 3.10;
any other is in UTF-8. A body that is not ASCII can be more than one, so it is unknown unless it has a character beyond
Latin-1. Of such characters 4.0 can write none: where a body or name has one, the entry and the up to 99 that it would
have written with it are lost, and the broker says nothing of it. The body of the last entry of a file may have been cut
at the end of a line.

In text, a body can look like the beginning of the next entry, and what follows is then read as one: the format has
nothing against it. Lines that stand between entries are bodies.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from bindings.archive.formats import firehose
from bindings.archive.formats.json_lines import parse_objects, read_lines
from bindings.archive.mapped import Mapped
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bad,
    Bias,
    CompletePart,
    Format,
    Item,
    Skipped,
    Split,
    cut_range,
    plan_complete_gzip,
    plan_complete_lines,
    plan_ranges,
    take_sample,
)  # fmt: skip
from bindings.archive.record import Rows
from bindings.archive.times import EPOCH, MICROSECOND, parse_time_text
from bindings.archive.unpacking import is_gzipped, read_pieces
from exchange.erlang_parser import parse
from exchange.errors import HashstarError, InputError
from exchange.field_json import decode_table
from exchange.field_values import Typed
from exchange.limits import RECORD_BYTES

__all__ = ["TracingJson", "TracingText"]

TIME: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d\d):(\d\d)(?:[:.](\d{1,3}))?")
NOTE: Final = "bodies may have been cut by the trace's max_payload_bytes"


FIELDS: Final = frozenset({"type", "routing_keys", "routed_queues", "payload"})


class TracingJson(Format):
    """The plugin's JSON: one entry a line."""

    name: ClassVar[str] = "RabbitMQ tracing log, JSON"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.EVERYTHING
    note: ClassVar[str] = NOTE

    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether the first line that is an object has what the plugin writes."""
        return next(parse_objects(head.split(b"\n", 20)[:20]), {}).keys() >= FIELDS

    def resembles(self, head: bytes, path: Path) -> bool:
        return any(value.keys() >= FIELDS for value in parse_objects(head.split(b"\n")))

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return plan_ranges(path, split_bytes)

    def settled(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        return plan_complete_lines(path, start, split_bytes)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_lines(split, columns, _add_entry)


def _add_entry(rows: Rows, value: Any, place: int) -> Skipped | None:
    if type(value) is not dict:
        raise InputError("not an object")
    if value.get("type") == "received":
        return firehose.DELIVERY
    if value.get("type") != "published":
        raise InputError("type is neither published nor received")
    properties = value.get("properties") or {}
    try:
        body = b64decode(value.get("payload", ""), validate=True)
    except (ValueError, TypeError):
        raise InputError("payload is not base64") from None
    published = firehose.build_record(
        _read_text(value, "exchange"), _read_texts(value, "routing_keys"), decode_table(properties, "properties"), body,
        _read_text(value, "vhost"), _read_texts(value, "routed_queues"),
    )  # fmt: skip
    rows.add(
        published.message, _parse_time(_read_text(value, "timestamp")), published.vhost,
        routed_queues=published.routed_queues, offset=place,
    )  # fmt: skip
    return None


def _read_text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if type(text) is not str:
        raise InputError(f"no {name}")
    return text


def _read_texts(value: Mapping[str, Any], name: str) -> list[str]:
    texts = value.get(name)
    if type(texts) is not list or not all(type(text) is str for text in texts):
        raise InputError(f"{name} is not a list of names")
    return texts


def _parse_time(text: str) -> int:
    """ISO 8601; brokers before 3.8 wrote ``2026-11-21 6:00:05:123``, in UTC."""
    found = TIME.fullmatch(text)
    if found is None:
        return parse_time_text(text)
    try:
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        moment = datetime(year, month, day, hour, minute, second, int((found[7] or "0").ljust(3, "0")) * 1000, UTC)
    except ValueError:
        raise InputError("timestamp is not a time") from None
    return (moment - EPOCH) // MICROSECOND


HEAD: Final = re.compile(
    rb"\n={80}\n(?P<time>[0-9][^\n]{0,40}): Message (?P<type>published|received)\n\n"
    rb"Node:         (?P<node>[^\n]*)\nConnection:   (?P<connection>[^\n]*)\n"
    rb"Virtual host: (?P<vhost>[^\n]*)\nUser:         (?P<user>[^\n]*)\n"
    rb"Channel:      (?P<channel>[^\n]*)\nExchange:     (?P<exchange>[^\n]*)\nRouting keys: (?=\[)"
)
"""The lines of an entry before its terms."""
BEHIND_KEYS: Final = re.compile(rb"\]\n(?:Queue:        [^\n]*\n)?(?P<next>Routed queues: |Properties:   )(?=\[)")
BEHIND_ROUTED: Final = re.compile(rb"\]\n(?P<next>Properties:   )(?=\[)")
BEHIND_PROPERTIES: Final = re.compile(rb"\]\nPayload: \n")
BEGIN: Final = re.compile(rb"\n={80}\n[0-9][^\n]{0,40}: Message (?:published|received)\n")
RULE: Final = b"\n" + b"=" * 80 + b"\n"
BEGIN_BYTES: Final = 200
"""As long as the beginning of an entry can be."""


class TracingText(Format):
    """The plugin's text: one entry after another, each begun by a line of 80 ``=``."""

    name: ClassVar[str] = "RabbitMQ tracing log, text"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.EVERYTHING
    note: ClassVar[str] = (
        f"{NOTE}; a body that looks like an entry is read as one; brokers before 4.3 lose entries with characters "
        "beyond Latin-1"
    )

    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether it begins as an entry does."""
        return BEGIN.match(head) is not None or BEGIN.match(b"\n" + head) is not None

    def resembles(self, head: bytes, path: Path) -> bool:
        return BEGIN.search(head) is not None

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return plan_ranges(path, split_bytes)

    def settled(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """All entries but the last, which ends only where the next one begins."""
        if is_gzipped(path):
            return plan_complete_gzip(path, start)
        with Mapped(path) as data:
            end = len(data)
            while (end := data.rfind(RULE, start, end)) >= 0 and BEGIN.match(data, end) is None:
                end += len(RULE) - 1  # a body may have half of it
            return CompletePart(
                cut_range(path, start, max(end, start), split_bytes), max(end, start), is_open=len(data) > end
            )

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        rows = Rows(split.path, columns)
        for place, entry, is_last in _read_entries(split):
            try:
                if isinstance(entry, str):
                    raise InputError(entry)
                skipped = _add_text_entry(rows, entry, place, is_last)
                if skipped is not None:
                    yield skipped
            except HashstarError as error:
                yield Bad(split.path, place, str(error), take_sample(b"" if isinstance(entry, str) else entry[82:]))
            if rows.is_full:
                yield rows.batch()
        if len(rows):
            yield rows.batch()


def _read_entries(split: Split) -> Iterator[tuple[int, bytes | str, bool]]:
    """Yield the entries that begin in a split, with the byte at which each does; a text says why there is no entry.

    The third is whether it is the last of the file, behind which another one may begin. Each byte is searched once for
    the beginning of an entry, however long entries are.
    """
    data, place = bytearray(), split.start
    if split.start == 0:  # the first entry may have no empty line before it
        data, place = bytearray(b"\n"), -1
    begun = False
    """Whether an entry begins where the data do."""
    searched = 0
    is_whole_file = split.start == 0
    for piece in read_pieces(split.path, split.start):
        if isinstance(piece, str):
            if begun:
                yield place, bytes(data), True
            yield place + len(data), piece, True
            return
        data += piece
        starts = [found.start() for found in BEGIN.finditer(data, searched)]
        searched = max(len(data) - BEGIN_BYTES, 0)
        if starts and not begun:
            if is_whole_file and data[: starts[0]].strip():
                yield 0, "what stands before the first entry is none", False
            is_whole_file = False
        ends = ([0, *starts] if begun and starts[:1] != [0] else starts) if starts else []
        for start, end in pairwise(ends):
            if split.end is not None and place + start >= split.end:
                return
            yield place + start, bytes(data[start:end]), False
        if ends:
            place += ends[-1]
            del data[: ends[-1]]
            searched, begun = max(len(data) - BEGIN_BYTES, 1), True
        elif not begun:
            if is_whole_file and data.strip():
                yield 0, "what stands before the first entry is none", False
                is_whole_file = False
            place += searched
            del data[:searched]
            searched = 0
        if split.end is not None and place >= split.end:
            return
        if begun and len(data) > RECORD_BYTES:
            yield place, f"an entry of more than {RECORD_BYTES >> 20} MiB", False
            place += searched
            del data[:searched]
            searched, begun = 0, False
    if begun:
        yield place, bytes(data), True


def _add_text_entry(rows: Rows, data: bytes, place: int, is_last: bool) -> Skipped | None:
    found = HEAD.match(data)
    if found is None:
        raise InputError("an entry that is not whole")
    # Terms are printed without "]" at the end of a line but for their own: so the first one that fits is the right one.
    behind_keys = BEHIND_KEYS.search(data, found.end())
    if behind_keys is None:
        raise InputError("an entry that is not whole")
    if found["type"] == b"received":
        return firehose.DELIVERY
    if behind_keys["next"].startswith(b"Properties"):
        raise InputError("no routed queues")
    behind_routed = BEHIND_ROUTED.search(data, behind_keys.end())
    behind_properties = BEHIND_PROPERTIES.search(data, behind_routed.end()) if behind_routed is not None else None
    if behind_routed is None or behind_properties is None:
        raise InputError("an entry that is not whole")
    head = data[: behind_properties.end()]
    names = _Encoding.of(head)
    keys, routed, properties = (
        parse(head[start : end.start() + 1].decode(names.encoding))
        for start, end in (
            (found.end(), behind_keys), (behind_keys.end(), behind_routed), (behind_routed.end(), behind_properties)
        )
    )  # fmt: skip
    body = data[len(head) :]
    published = firehose.build_record(
        names.name(found["exchange"]), _check_binaries(keys), _read_table(properties), body.removesuffix(b"\n"),
        names.name(found["vhost"]), _check_binaries(routed),
    )  # fmt: skip
    is_open = is_last and BEGUN.search(body, max(len(body) - BEGIN_BYTES, 0)) is not None
    if not body.endswith(b"\n") and not is_open:
        raise InputError("the file ends in the middle of an entry")
    rows.add(
        published.message, _parse_time(_decode(found["time"])), published.vhost,
        has_body=not is_open and _is_certain(body), routed_queues=published.routed_queues, offset=place + 1,
    )  # fmt: skip
    return None


BEGUN: Final = re.compile(rb"\n\n(?:={1,80}(?:\n[^\n]*)?)?\Z")
"""How a file ends in the beginning of an entry, or in a body that ends with an empty line: nobody can tell."""


def _is_certain(body: bytes) -> bool:
    """Whether a body as it is printed can only be the one that was published."""
    try:
        return body.isascii() or any(ord(character) > 0xFF for character in body.decode())
    except UnicodeDecodeError:
        return False


class _Encoding(NamedTuple):
    """How the characters of an entry are written."""

    encoding: str
    is_unicode: bool
    """Whether names were printed as text: `False` where they were printed as their bytes, or nothing tells."""

    @classmethod
    def of(cls, head: bytes) -> _Encoding:
        is_unicode = b'"/utf8>>' in head
        try:
            head.decode()
        except UnicodeDecodeError:
            return cls("latin-1", is_unicode)
        return cls("utf-8" if is_unicode else "latin-1", is_unicode)

    def name(self, data: bytes) -> str:
        """A name that is printed as it is; one in Latin-1 that would be no UTF-8 is text, as names are."""
        if not self.is_unicode or self.encoding == "utf-8":
            try:
                return data.decode()
            except UnicodeDecodeError:
                pass
        return data.decode("latin-1")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _check_binaries(term: Any) -> list[str]:
    if type(term) is not list or not all(type(item) is bytes for item in term):
        raise InputError("not a list of names")
    return [_decode(item) for item in term]


def _read_table(term: Any) -> dict[str, Any]:
    """A table of RabbitMQ: a list of ``{Key, Type, Value}``."""
    if type(term) is not list or not all(type(item) is tuple and len(item) == 3 for item in term):
        raise InputError("not a table")
    return {
        _decode(key) if type(key) is bytes else str(key): _read_field(str(kind), value) for key, kind, value in term
    }


def _read_field(kind: str, value: Any) -> Any:
    try:
        if kind == "table":
            return _read_table(value)
        if kind == "array":
            return [_read_field(str(inner), item) for inner, item in value]
        if kind == "longstr":
            return _decode_longstr(_check_binary(value))
        if kind == "binary":
            return _check_binary(value)
        if kind == "void":
            return None
        if kind == "bool":
            return {"true": True, "false": False}[value]
        if kind == "decimal":
            return _read_decimal(*value)
        return Typed(kind, value)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise InputError(f"not a {kind[:SHOWN]}: {str(error)[:SHOWN]}") from None


SHOWN: Final = 80
"""Maximum number of characters of what is wrong that an error quotes."""


def _check_binary(value: Any) -> bytes:
    if type(value) is not bytes:  # bytes() of a number would make as many zeros
        raise TypeError("it is not a binary")
    return value


def _decode_longstr(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Typed("longstr", data)


def _read_decimal(scale: int, digits: int) -> Any:
    from decimal import Decimal  # seldom met

    if not (type(scale) is type(digits) is int and 0 <= scale <= 0xFF and 0 <= digits <= 0xFFFFFFFF):
        raise ValueError("AMQP has a scale of one byte and digits of four")
    return Decimal(digits).scaleb(-scale)
