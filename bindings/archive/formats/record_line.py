"""The type of a line of JSON that `bindings.archive.formats.json_lines` writes; see there for what it reads.

It is a module of its own because `hashstar schema` knows it without pyarrow.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from exchange.values.json_types import BodilessJson, BytesJson


class OriginJson(TypedDict):
    """Where a record was read first."""

    source: str
    """The file."""
    offset: NotRequired[int]
    """Its place there; absent if unknown."""


class Recorded(BodilessJson):
    """A message, and what an archive has recorded of it."""

    body: NotRequired[BytesJson | None]
    """Absent if it is empty or missing; null for a record of Kafka without a value, whose size is 0."""
    timestamp: NotRequired[int | float | str]
    """When it was published: seconds since 1970, or ISO 8601; absent if unknown."""
    vhost: NotRequired[str]
    size: NotRequired[int | None]
    """Bytes of the body, where it is missing or there is none; null if unknown."""
    body_truncated: NotRequired[bool]
    """True where the body is missing."""
    routed_queues: NotRequired[list[str]]
    """Queues that the broker routed it to; absent if the archive has not recorded them."""


class RecordLine(Recorded):
    """A message of an archive: a line of `hashstar archive convert IN OUT.jsonl`."""

    origin: OriginJson
