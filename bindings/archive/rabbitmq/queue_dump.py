"""Read files of rabbitmq-dump-queue with ``-full``: one per body, and beside it ``-headers+properties.json``.

The tool reads a queue, so all messages were routed to that queue. It omits empty properties, so a missing exchange or
routing key is the empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from bindings.archive.nesting import parse_json
from bindings.archive.places import AnyPath, Place, to_path
from bindings.archive.rabbitmq.objects import is_whole, read_body_beside, read_messages, read_objects
from bindings.archive.reading import Bias, Format, Item, Split
from bindings.archive.record import Rows
from bindings.archive.times import parse_time_text
from exchange.errors import InputError
from exchange.values.field_json import decode_table
from exchange.values.field_values import Typed
from exchange.values.message import Message

SUFFIX: Final = "-headers+properties.json"
GO_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) ([+-]\d\d)(\d\d)\b.*", re.ASCII)
"""Go's ``time.Time.String()``: ``2026-11-21 06:00:05 +0000 UTC``."""


class QueueDump(Format):
    """The format of a folder that rabbitmq-dump-queue filled."""

    name: ClassVar[str] = "rabbitmq-dump-queue"
    bias: ClassVar[Bias] = Bias.SURVIVORS

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file is an object with the fields properties and headers only."""
        try:
            value = parse_json(head)
        except InputError:
            return False
        return isinstance(value, dict) and value.keys() == {"properties", "headers"}

    def expects(self, path: AnyPath) -> bool:
        return path.name.endswith(SUFFIX)

    def is_companion(self, name: str, folder: str, is_beside: Callable[[str], bool]) -> bool:
        return not name.endswith(SUFFIX) and is_beside(name + SUFFIX)

    def is_complete(self, path: Place) -> bool:
        """Return whether the file is a whole object."""
        return is_whole(path)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_messages(split, columns, read_objects(split.path), partial(_add_message, split.path))


def _add_message(file: Place, rows: Rows, value: dict[str, Any], place: int) -> None:
    properties = decode_table(value.get("properties"), "properties")
    headers = decode_table(value.get("headers") or {}, "headers")
    exchange, key = properties.pop("exchange", ""), properties.pop("routing_key", "")
    if type(exchange) is not str or type(key) is not str:
        raise InputError("exchange or routing_key is not a text")
    time = None
    if "timestamp" in properties:
        match = GO_TIME.fullmatch(str(properties["timestamp"]))
        if match is None:
            raise InputError("timestamp is not a time")
        time = parse_time_text(f"{match[1]}T{match[2]}{match[3]}:{match[4]}")
        properties["timestamp"] = Typed("timestamp", max(time // 1_000_000, 0))
    path = to_path(file)
    try:
        body = read_body_beside(path.with_name(path.name.removesuffix(SUFFIX))) if path.name.endswith(SUFFIX) else None
    except OSError as error:
        raise InputError(f"the body cannot be read: {error.strerror}") from None
    rows.add(Message(exchange, key, headers, properties, body or b""), time, has_body=body is not None, offset=place)
