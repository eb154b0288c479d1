"""Read the logs of RabbitMQ's tracing plugin (`rabbit_tracing_consumer.erl`), in JSON and in text.

Both are written from copies of the firehose: see `bindings.archive.rabbitmq.firehose`. The plugin cuts bodies at
``max_payload_bytes`` without a mark. A trace with a pattern other than ``#`` or ``publish.#`` has only the messages
that the pattern matched.

In its JSON, all integers are longs, a void is the text ``undefined``, and the plugin writes a text in place of bytes
that are not UTF-8. `bindings.archive.rabbitmq.tracing_text` reads the entries of its text logs.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from bindings.archive.formats.json_lines import JsonLines, parse_objects, read_lines
from bindings.archive.mapped import Mapped
from bindings.archive.places import AnyPath, Place
from bindings.archive.rabbitmq import firehose
from bindings.archive.rabbitmq.objects import read_messages
from bindings.archive.rabbitmq.tracing_text import BEGIN, RULE, add_text_entry, parse_trace_time, read_entries
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bias,
    CompletePart,
    Format,
    Item,
    Skipped,
    Split,
    cut_range,
    plan_complete_gzip,
    plan_ranges,
)  # fmt: skip
from bindings.archive.record import Rows
from bindings.archive.unpacking import is_gzipped
from exchange.errors import InputError
from exchange.values.field_json import decode_table

NOTE: Final = "bodies may have been cut by the trace's max_payload_bytes"
FIELDS: Final = frozenset({"type", "routing_keys", "routed_queues", "payload"})


class TracingJson(JsonLines):
    """The format of the plugin's JSON: one entry a line."""

    name: ClassVar[str] = "RabbitMQ tracing log, JSON"
    bias: ClassVar[Bias] = Bias.EVERYTHING
    note: ClassVar[str] = NOTE

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the first line that is an object has the fields that the plugin writes."""
        return next(parse_objects(head.split(b"\n", 20)[:20]), {}).keys() >= FIELDS

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return any(value.keys() >= FIELDS for value in parse_objects(head.split(b"\n")))

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
        published.message, parse_trace_time(_read_text(value, "timestamp")), published.vhost,
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


class TracingText(Format):
    """The format of the plugin's text: one entry after another, each begins with a line of 80 ``=``."""

    name: ClassVar[str] = "RabbitMQ tracing log, text"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.EVERYTHING
    note: ClassVar[str] = (
        f"{NOTE}; a body that looks like an entry is read as one; brokers before 4.3 lose entries with characters "
        "beyond Latin-1"
    )

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file begins with an entry."""
        return BEGIN.match(head) is not None or BEGIN.match(b"\n" + head) is not None

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return BEGIN.search(head) is not None

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return plan_ranges(path, split_bytes)

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return all entries except the last one, whose end is only known when the next one begins."""
        if is_gzipped(path):
            return plan_complete_gzip(path, start)
        with Mapped(path) as data:
            end = len(data)
            while (end := data.rfind(RULE, start, end)) >= 0 and BEGIN.match(data, end) is None:
                end += len(RULE) - 1  # a body may have half of the rule before this one
            return CompletePart(
                cut_range(path, start, max(end, start), split_bytes), max(end, start), is_open=len(data) > end
            )

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_messages(split, columns, read_entries(split), add_text_entry)
