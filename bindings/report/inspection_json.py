"""What an archive holds, as JSON: ``hashstar archive inspect --json``. ``docs/inspect-json.md`` explains the fields.

Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from bindings.archive.figures import Time
from bindings.archive.formats.detect import Archive
from bindings.archive.inspection import Inspection
from bindings.archive.kafka.folder import FolderInspection
from bindings.archive.reading import Bias
from bindings.report.inspection import BadJson, bad_json
from bindings.report.kafka_json import KafkaJson, kafka_json
from exchange.values.documents import encode_as

__all__ = ["BiasKey", "InspectionJson", "inspection_json"]

BiasKey = Literal["EVERYTHING", "SURVIVORS", "SAMPLE", "UNKNOWN"]


class FileJson(TypedDict):
    """A file that is read."""

    path: str
    format: str
    bias: BiasKey


class WindowJson(TypedDict):
    """When the first and the last message were published."""

    first: Time | None
    last: Time | None
    records_without_time: int


class BodiesJson(TypedDict):
    """The bodies of the messages."""

    bytes: int
    records_without_size: int


class OutcomeJson(TypedDict):
    """What the broker did with the messages."""

    known: int
    """Messages whose routed queues are known."""
    nowhere: int
    """Number of these that went nowhere."""


class ExchangeCountJson(TypedDict):
    """Messages to an exchange."""

    vhost: str | None
    exchange: str
    records: int


class InspectionJson(TypedDict):
    """What an archive holds: `hashstar archive inspect --json`."""

    version: Literal[1]
    path: str
    """What was asked for."""
    formats: list[str]
    files: list[FileJson]
    not_archives: list[str]
    """Files that are no archives; each is also a bad record."""
    bias: list[BiasKey]
    """How the messages were taken, one for each format."""
    notes: list[str]
    """Sentences that a reader must know before the numbers."""
    auditable: bool
    """Whether `hashstar audit` can use it: there are records."""
    records: int
    skipped: dict[str, int]
    """Reason -> records that are no messages, or cannot be audited."""
    window: WindowJson
    bodies: BodiesJson
    outcome: OutcomeJson
    exchanges: list[ExchangeCountJson]
    bad: list[BadJson]
    kafka: NotRequired[KafkaJson]
    """What else is in the data folder of a Kafka broker; absent for other archives."""


def inspection_json(archive: Archive, inspection: Inspection, folder: FolderInspection | None = None) -> Any:
    """Return what an archive holds as one JSON object; ``folder`` is the data folder of a broker that it is in."""
    span = inspection.span
    value: InspectionJson = {
        "version": 1,
        "path": archive.path,
        "formats": list(archive.names),
        "files": [
            {"path": path, "format": form.name, "bias": _bias_key(form.bias_of(path))} for path, form in archive.files
        ],
        "not_archives": list(archive.others),
        "bias": [_bias_key(bias) for bias in archive.biases],
        "notes": list(archive.notes),
        "auditable": bool(inspection.records),
        "records": inspection.records,
        "skipped": dict(inspection.unread.skipped),
        "window": {"first": span.first, "last": span.last, "records_without_time": inspection.untimed},
        "bodies": {"bytes": inspection.body_bytes, "records_without_size": inspection.without_size},
        "outcome": {"known": inspection.with_outcome, "nowhere": inspection.unrouted},
        "exchanges": [
            {"vhost": vhost, "exchange": name, "records": count}
            for (vhost, name), count in inspection.exchanges.most_common()
        ],
        "bad": bad_json(inspection.unread),
    }
    if folder is not None:
        value["kafka"] = kafka_json(folder)
    return encode_as(InspectionJson, value)


def _bias_key(bias: Bias) -> BiasKey:
    key: BiasKey = bias.name  # type: ignore[assignment]  # a test compares the names
    return key
