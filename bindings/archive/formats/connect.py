"""Read files of Kafka Connect's S3 sink, the values of a topic: ``<topic>+<partition>+<first offset>.<extension>``.

If the sink is configured so (``store.kafka.keys``, ``store.kafka.headers``), files of the same name with ``.keys`` and
``.headers`` before their extensions hold the keys and headers, record by record. Values are JSON, or Parquet of which
only the rows are counted; keys and headers are JSON. A `bindings.archive.mapping.FieldMapping` names the fields of a
record that are its exchange and routing key. Files whose values have exchange and routing key themselves are JSON lines
or Parquet like any other. Records have no times, and offsets are counted from the first offset without gaps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.formats.parquet import MAGIC, UNREADABLE, Parquet, read_footer
from bindings.archive.kafka.rows import ESCAPED
from bindings.archive.mapping import RECORDS_NOTE, USUAL, FieldMapping
from bindings.archive.nesting import parse_json
from bindings.archive.places import AnyPath, Place, open_file, to_path, to_place
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bad,
    Bias,
    Format,
    Item,
    Split,
    plan_complete_lines,
    read_blocks,
    take_sample,
)
from bindings.archive.record import Rows
from bindings.archive.routing_keys import rename
from exchange.errors import HashstarError, InputError, name_os_errors
from exchange.values.message import Message

NAME: Final = re.compile(
    r"(?P<topic>.+)\+(?P<partition>[0-9]+)\+(?P<offset>[0-9]+)(?P<side>\.keys|\.headers)?\.(?P<kind>.+)"
)
KINDS: Final = ("json", "json.gz")


@dataclass(frozen=True)
class Connect(Format):
    """The format of values of Kafka Connect, with their keys and headers."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "Kafka Connect files"
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = RECORDS_NOTE

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the name is one of Kafka Connect, and the values have no exchange and routing key.

        Where the user names columns, the values are read as any others, without their keys and headers.
        """
        name = NAME.fullmatch(path.name)
        if name is None or name["side"] is not None or self.mapping.columns:
            return False
        if head.startswith(MAGIC):
            return not Parquet().recognises(head, path)
        return name["kind"] in KINDS and not JsonLines().recognises(head, path)

    def is_companion(self, name: str, folder: str, is_beside: Callable[[str], bool]) -> bool:
        found = NAME.fullmatch(name)
        return found is not None and found["side"] is not None

    def is_complete(self, path: Place) -> bool:
        """Return whether the files of values, keys and headers are whole."""
        file = to_path(path)
        name = NAME.fullmatch(file.name)
        if name is None:
            return False
        stem = f"{name['topic']}+{name['partition']}+{name['offset']}"
        files = [file, *(beside for side in (".keys", ".headers") if (beside := _find_beside(file, stem + side)))]
        return all(_is_whole(each) for each in files)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        path = to_path(split.path)
        name = NAME.fullmatch(path.name)
        if name is None:
            raise InputError(f"{path}: its name is not one that Kafka Connect gives to files")
        stem = f"{name['topic']}+{name['partition']}+{name['offset']}"
        keys, headers = _read_beside(path, f"{stem}.keys"), _read_beside(path, f"{stem}.headers")
        rows = Rows(split.source, columns)
        offset = int(name["offset"])
        for value in _read_values(path):
            key_line = None if keys is None else next(keys, b"")
            header_line = None if headers is None else next(headers, b"")
            if isinstance(value, Bad):  # a line that is too long, or damage, after which no values are read
                yield value
                offset += 1
                continue
            try:
                message = self._message(name["topic"], value, key_line, header_line)
                rows.add(message, has_body=value is not None, offset=offset)
            except HashstarError as error:
                yield Bad(split.source, offset, str(error), take_sample(value or b""))
            offset += 1
            if rows.is_full:
                yield rows.batch()
        if len(rows):
            yield rows.batch()

    def _message(self, topic: str, value: bytes | None, key_line: bytes | None, header_line: bytes | None) -> Message:
        for line, what in ((key_line, "keys"), (header_line, "headers")):
            if line == b"":
                raise InputError(f"the file of {what} has fewer records than that of values")
        key = None if key_line is None else _to_text(_parse_side(key_line))
        headers = {} if header_line is None else _parse_headers(_parse_side(header_line))
        known: dict[str, Any] = {"topic": topic, "key": key}
        texts = []
        for place, what in ((self.mapping.exchange, "exchange"), (self.mapping.routing_key, "routing key")):
            text = place[1:] if place.startswith("=") else known.get(place)
            if place.startswith("header:"):
                text = headers.get(place.removeprefix("header:"))
            if text is None and what == "routing key" and self.mapping.allows_no_key and key_line is not None:
                text = ""  # its key is null; without a file of keys it is not known
            if text is None:
                raise InputError(f"a record without {place}, which is to be its {what}")
            texts.append(text)
        return Message(texts[0], texts[1], rename(headers, ESCAPED), {}, value or b"")


def _read_values(path: AnyPath) -> Iterator[bytes | Bad | None]:
    if _is_parquet(path):
        try:
            yield from [None] * read_footer(path).num_rows
        except UNREADABLE as error:
            yield Bad(str(path), 0, f"damaged Parquet file: {error}", records=None)
        return
    for block in read_blocks(Split(to_place(path))):
        if block.problem is not None:
            yield Bad(str(path), block.offset, block.problem, records=block.records)
        yield from block.data.splitlines()


def _is_parquet(path: AnyPath) -> bool:
    with name_os_errors(path), open_file(path) as file:
        return file.read(4) == MAGIC


def _is_whole(file: AnyPath) -> bool:
    if _is_parquet(file):
        try:
            read_footer(file)
        except UNREADABLE:
            return False
        return True
    return not plan_complete_lines(to_place(file), 0, SPLIT_BYTES).is_open


def _find_beside(path: AnyPath, stem: str) -> AnyPath | None:
    return next((beside for kind in KINDS if (beside := path.with_name(f"{stem}.{kind}")).is_file()), None)


def _read_beside(path: AnyPath, stem: str) -> Iterator[bytes] | None:
    beside = _find_beside(path, stem)
    if beside is None:
        return None
    return _read_lines(beside)


def _read_lines(path: AnyPath) -> Iterator[bytes]:
    """Yield the lines of a file of keys or headers; for a line that cannot be read, an empty one."""
    for block in read_blocks(Split(to_place(path))):
        if block.problem is not None:
            yield b""
        yield from block.data.splitlines()


def _parse_side(line: bytes) -> Any:
    try:
        return parse_json(line)
    except InputError as error:
        raise InputError(f"a key or headers that are {error}") from None


def _to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _parse_headers(value: Any) -> dict[str, Any]:
    if not isinstance(value, list) or not all(
        isinstance(item, dict) and type(item.get("key")) is str for item in value
    ):
        raise InputError("headers that are not a list of key and value")
    return {item["key"]: _to_text(item.get("value")) for item in value}
