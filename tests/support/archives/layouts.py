"""Small archives as five programs write them, by their public documentation, all with the same messages.

``python -m tests.support.archives.layouts FOLDER`` writes them, and the same messages as our own JSON lines.

Debezium: https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html
Confluent's S3 sink: https://docs.confluent.io/kafka-connectors/s3-sink/current/overview.html
Amazon Data Firehose: https://docs.aws.amazon.com/firehose/latest/dev/s3-object-name.html, with events of EventBridge
Snowplow's lake loader: https://docs.snowplow.io/docs/api-reference/loaders-storage-targets/lake-loader/
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from exchange.values.field_json import encode_fields
from tests.support.archives.avro_files import encode_rows, record_schema


class Event(NamedTuple):
    """A message that was published."""

    key: str
    tenant: str
    amount: int
    time: datetime


FIRST: Final = datetime(2026, 11, 1, tzinfo=UTC)
KEYS: Final = ("order.eu.paid", "order.us.created", "order.eu.created", "order.ap.paid", "invoice.eu")
EVENTS: Final = [
    Event(KEYS[number % len(KEYS)], f"t{number % 7}", 100 + number, FIRST + timedelta(seconds=number))
    for number in range(60)
]
OWN_LINES: Final = "messages.jsonl"


def write_debezium(folder: Path) -> None:
    """Write changes of an outbox table, as JSON with schemas, a line each."""
    lines = []
    for number, event in enumerate(EVENTS):
        body = json.dumps({"tenant": event.tenant, "amount": event.amount})
        row = {"id": f"{number:08}", "aggregatetype": "orders", "aggregateid": str(number), "type": event.key,
               "payload": body}  # fmt: skip
        source = {"version": "3.4.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": _millis(event.time),
                  "db": "shop", "schema": "public", "table": "outbox", "lsn": 24_023_128 + number}  # fmt: skip
        payload = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": _millis(event.time),
                   "transaction": None}  # fmt: skip
        lines.append({"schema": {"type": "struct", "optional": False, "name": "shop.public.outbox.Envelope"},
                      "payload": payload})  # fmt: skip
    _write(folder / "debezium" / "shop.public.outbox.jsonl", b"".join(map(encode_fields, lines)))


def write_connect(folder: Path) -> None:
    """Write values of a topic in Avro, in files of 20 records."""
    schema = record_schema(
        event=["null", "string"],
        attributes=["null", record_schema(tenant=["null", "string"], amount=["null", "long"]) | {"name": "Attributes"}],

        created=["null", {"type": "long", "logicalType": "timestamp-millis"}],
    )  # fmt: skip
    for start in range(0, len(EVENTS), 20):
        rows = [
            {
                "event": event.key,
                "attributes": {"tenant": event.tenant, "amount": event.amount},
                "created": _millis(event.time),
            }
            for event in EVENTS[start : start + 20]
        ]
        name = f"orders+0+{start:010}.avro"
        _write(folder / "connect/topics/orders/partition=0" / name, encode_rows(schema, rows, codec="deflate"))


def write_firehose(folder: Path) -> None:
    """Write events of EventBridge, one after the other without line feeds, gzipped."""
    events = [
        {"version": "0", "id": f"{number:08}-0000-0000-0000-000000000000", "detail-type": event.key, "source": "orders",
         "account": "111122223333", "time": event.time.strftime("%Y-%m-%dT%H:%M:%SZ"), "region": "eu-west-1",
         "resources": [], "detail": {"tenant": event.tenant, "amount": event.amount}}
        for number, event in enumerate(EVENTS)
    ]  # fmt: skip
    data = b"".join(json.dumps(event).encode() for event in events)
    name = "2026/11/01/00/shop-1-2026-11-01-00-00-00-5c3f0e4a-0c1b-4e0b-9f60-2f2d8f7c1a11.gz"
    _write(folder / "firehose" / name, gzip.compress(data, mtime=0))


def write_snowplow(folder: Path) -> None:
    """Write enriched events as a lake has them: a struct for the custom event, a list of structs for its context."""
    table = pa.table(
        {
            "app_id": ["orders"] * len(EVENTS),
            "platform": ["srv"] * len(EVENTS),
            "collector_tstamp": pa.array([event.time for event in EVENTS], pa.timestamp("us", "UTC")),
            "event": ["unstruct"] * len(EVENTS),
            "event_id": [f"{number:08}" for number in range(len(EVENTS))],
            "event_vendor": ["com.example"] * len(EVENTS),
            "event_name": [event.key for event in EVENTS],
            "unstruct_event_com_example_order_1": [
                {"tenant": event.tenant, "amount": event.amount} for event in EVENTS
            ],
            "contexts_com_example_cart_1": [[{"_schema_version": "1-0-0", "items": 2}]] * len(EVENTS),
        }
    )
    path = folder / "snowplow" / "load_tstamp_date=2026-11-01" / "part-00000.snappy.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, compression="snappy")


def write_own(folder: Path) -> None:
    """Write the table of a team of its own: short names, and headers as a map that is encoded as a dictionary."""
    headers = [[("tenant", event.tenant), ("amount", str(event.amount))] for event in EVENTS]
    table = pa.table(
        {
            "ts": [_millis(event.time) for event in EVENTS],
            "exch": pa.array(["orders"] * len(EVENTS)).dictionary_encode(),
            "rkey": [event.key for event in EVENTS],
            "hdrs": pa.array(headers, pa.map_(pa.string(), pa.string())),
            "body": [b"{}"] * len(EVENTS),
        }
    )
    path = folder / "own" / "month=2026-11" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, use_dictionary=True)


LAYOUTS: Final[Mapping[str, Callable[[Path], None]]] = {
    "debezium": write_debezium, "connect": write_connect, "firehose": write_firehose, "snowplow": write_snowplow,
    "own": write_own,
}  # fmt: skip
"""Folder -> what writes the archive in it."""


def write_layouts(folder: Path) -> None:
    """Write all of them, each in a folder of its name, and beside these our own JSON lines."""
    for write in LAYOUTS.values():
        write(folder)
    lines = [
        {"exchange": "orders", "routing_key": event.key, "timestamp": event.time.timestamp(),
         "headers": {"tenant": event.tenant, "amount": event.amount}}
        for event in EVENTS
    ]  # fmt: skip
    _write(folder / OWN_LINES, b"".join(map(encode_fields, lines)))


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1_000)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main(arguments: Sequence[str]) -> None:
    """Write the archives to a folder."""
    write_layouts(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
