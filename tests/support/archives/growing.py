"""Archives that grow, of several formats at once: files whose bytes come in pieces, cut anywhere."""

from __future__ import annotations

import gzip
import json
import shutil
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import FORMAT_KEY, VERSION
from bindings.archive.record import SCHEMA, Record, build_batch
from bindings.auditing.local.run import Pass, run_here
from bindings.auditing.local.studies import CoverageStudy
from exchange import Binding, Destination, Exchange, Message, Queue, Topology
from exchange.values.field_values import FieldTable
from tests.support.archives import kafka_files, rocketmq_files

TOPOLOGY = Topology(
    exchanges=[Exchange("orders", "topic"), Exchange("billing", "direct"), Exchange("events", "headers")],
    queues=[Queue("new"), Queue("all"), Queue("eu"), Queue("paid")],
    bindings=[
        Binding("orders", Destination("queue", "new"), "order.new.*"),
        Binding("orders", Destination("queue", "all"), "order.#"),
        Binding("billing", Destination("queue", "paid"), "paid"),
        Binding("events", Destination("queue", "eu"), "", FieldTable({"x-match": "all", "region": "eu"})),
    ],
)
STUDY = CoverageStudy(TOPOLOGY)
KEYS = ("order.new.eu", "order.new.us", "order.sent", "paid", "lost", "")
EXCHANGES = ("orders", "orders", "billing", "events", "unknown")
DAY = 86_400


class GrowingFile(NamedTuple):
    """A file and what it will hold in the end."""

    path: Path
    content: bytes
    size: int = 0
    """Full size of a file that is allocated at its beginning, in bytes."""
    settled: bytes = b""
    """The complete part of the content, if it is not all."""

    def write(self, end: int) -> None:
        """Write the file as it is after ``end`` bytes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.size:
            with self.path.open("r+b" if self.path.exists() else "w+b") as file:
                file.truncate(self.size)
                file.write(self.content[:end])
            return
        have = self.path.stat().st_size if self.path.exists() else 0
        with self.path.open("ab") as file:
            file.write(self.content[have:end])


def make_growing_files(rng: Random, folder: Path, records: int) -> list[GrowingFile]:
    """Files of several formats, each with so many records at most."""
    makers = [_lines, _packed_lines, _trace, _text_trace, _segment, _commit_log, _parquet]
    return [
        make(rng, folder / f"{n}", rng.randrange(1, records + 1))
        for n, make in enumerate(rng.sample(makers, rng.randrange(1, len(makers) + 1)))
    ]


def count_at_once(files: list[GrowingFile], folder: Path) -> Pass:
    """Count a copy of the whole archive, without the records that cannot be known to be complete."""
    for file in files:
        path = folder.joinpath(*file.path.parts[-3:])
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.path, path)
        if file.settled:
            path.write_bytes(file.settled)
    return run_here(detect(str(folder)), [STUDY])


def _message(rng: Random) -> Message:
    headers = {"region": rng.choice(["eu", "us"])} if rng.random() < 0.3 else {}
    return Message(rng.choice(EXCHANGES), rng.choice(KEYS), headers)


def _line(rng: Random) -> bytes:
    if rng.random() < 0.05:
        return b"{broken}\n"
    message = _message(rng)
    value = {"exchange": message.exchange, "routing_key": message.routing_key, "timestamp": rng.randrange(10 * DAY)}
    return json.dumps(value | ({"headers": message.headers} if message.headers else {})).encode() + b"\n"


def _lines(rng: Random, folder: Path, records: int) -> GrowingFile:
    content = b"".join([_first_line(), *(_line(rng) for _ in range(records)), _first_line()])
    return GrowingFile(folder / "lines" / "messages.jsonl", content[: -1 if rng.random() < 0.3 else None])


def _first_line() -> bytes:
    return b'{"exchange": "orders", "routing_key": "order.new.eu"}\n'


def _packed_lines(rng: Random, folder: Path, records: int) -> GrowingFile:
    content = b"".join([_first_line(), *(_line(rng) for _ in range(records))])
    return GrowingFile(folder / "packed" / "messages.jsonl.gz", gzip.compress(content))


def _trace(rng: Random, folder: Path, records: int) -> GrowingFile:
    lines = []
    for _ in range(records):
        message = _message(rng)
        published = rng.random() < 0.8
        entry = {
            "timestamp": f"2026-11-21T06:28:{rng.randrange(60):02}.431+00:00",
            "type": "published" if published else "received", "node": "r@h", "connection": "c", "vhost": "/",
            "user": "g", "channel": 1, "exchange": message.exchange, "queue": "none" if published else "q",
            "routed_queues": ["q"] if published else "none", "routing_keys": [message.routing_key],
            "properties": {"headers": message.headers}, "payload": b64encode(b"x").decode(),
        }  # fmt: skip
        lines.append(json.dumps(entry).encode() + b"\n")
    return GrowingFile(folder / "trace" / "trace.log", b"".join(lines))


def _text_trace(rng: Random, folder: Path, records: int) -> GrowingFile:
    entries = []
    for _ in range(records + 1):
        message = _message(rng)
        body = rng.choice(["x", "two\nlines", "", "=" * 80])
        entries.append(
            f"\n{'=' * 80}\n2026-11-21T06:28:{rng.randrange(60):02}.431+00:00: Message published\n\n"
            f"Node:         r@h\nConnection:   c\nVirtual host: /\nUser:         g\nChannel:      1\n"
            f'Exchange:     {message.exchange}\nRouting keys: [<<"{message.routing_key}">>]\n'
            f'Routed queues: [<<"q1">>]\nProperties:   []\nPayload: \n{body}\n'.encode()
        )
    settled = b"".join(entries[:-1])
    return GrowingFile(folder / "text" / "trace.txt", settled + entries[-1], settled=settled)


def _segment(rng: Random, folder: Path, records: int) -> GrowingFile:
    batches, offset = [], 0
    while offset < records:
        some = [
            kafka_files.KafkaRecord(n, n, rng.choice(KEYS).encode(), b"x", [("region", b"eu")])
            for n in range(rng.randrange(1, 9))
        ]
        batches.append(kafka_files.batch(offset, some, time=1_700_000_000_000 + offset, codec=rng.randrange(5)))
        offset += len(some)
    return GrowingFile(folder / "orders-0" / "00000000000000000000.log", b"".join(batches))


def _commit_log(rng: Random, folder: Path, records: int) -> GrowingFile:
    content = b""
    for _ in range(records):
        properties = {"KEYS": rng.choice(KEYS[:-1])}
        content += rocketmq_files.message(len(content), "orders", properties, b"body", version=rng.choice([1, 2]))
    size = len(content) + 3000
    if rng.random() < 0.3:
        content += rocketmq_files.blank(size - len(content))
    return GrowingFile(folder / "store" / "00000000000000000000", content, size)


def _parquet(rng: Random, folder: Path, records: int) -> GrowingFile:
    made = [Record(_message(rng), rng.randrange(10 * DAY) * 10**6) for _ in range(records)]
    sink = BytesIO()
    table = pa.Table.from_batches([build_batch(made)], SCHEMA).replace_schema_metadata({FORMAT_KEY: VERSION})
    pq.write_table(table, sink, row_group_size=max(records // 3, 1), write_page_checksum=True)
    return GrowingFile(folder / "day=2026-11-21" / "part-00000.parquet", sink.getvalue())
