"""Seeds of archives, stores, settings and state."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindings.archive.formats.json_lines import encode_line
from bindings.archive.rabbitmq.queue_dump import SUFFIX
from bindings.archive.record import Record, build_batch
from bindings.checking.report import KnownFinding
from bindings.counts import comparison_file, tally_file, verification_file
from bindings.counts.columnar.comparing import Comparer
from bindings.counts.columnar.verifying import Verifier
from exchange import Exchange, Message
from tests.bindings.archive import test_traces
from tests.bindings.archive.test_every_format import FETCHED
from tests.fuzz.archives import DATA_FOLDER, STORE
from tests.fuzz.seeds_wire import HEADERS
from tests.fuzz.target import PART
from tests.recorders import golden
from tests.support.archives import kafka_files, rocketmq_files
from tests.support.archives.avro_files import CODECS, encode_rows, record_schema
from tests.support.archives.kafka_files import KafkaRecord
from tests.support.archives.rocketmq_files import Sent
from tests.support.bindings import reports
from tests.support.topologies import message, topology

ROOT: Final = Path(__file__).parents[2]


def sample_records() -> list[Record]:
    """Return records with headers of all types, and some of a drawn topology."""
    rng = Random(4)
    drawn = topology(rng, reports.ORDERS.profile)
    first = Message("e", "a.b", HEADERS, {"message_id": "m", "priority": 1}, b"body\xff")
    return [
        Record(first, 1_700_000_000_500_000, "/", 5, True, ("q1", "q2"), "file", 7),
        Record(Message("e", "k"), None, None, None, False, None, "", 0),
        *[Record(message(rng, drawn)) for _ in range(4)],
    ]


def _avro() -> list[bytes]:
    """Return files with records of nested and of several types, packed and not."""
    headers = {"type": "map", "values": ["null", "string", "long", "bytes"]}
    more = record_schema(n={"type": "int", "logicalType": "date"}, items={"type": "array", "items": "string"})
    schema = record_schema(
        exchange="string", routing_key=["null", "string"], headers=headers, more=["null", more | {"name": "More"}],
        time={"type": "long", "logicalType": "timestamp-millis"},
    )  # fmt: skip
    row = {"exchange": "e", "routing_key": "a.b", "headers": {"h": "v", "n": 5, "b": b"\xff"}, "time": 5}
    rows = [row | {"more": None}, row | {"routing_key": None, "more": {"n": 5, "items": ["a", "b"]}}]
    return [encode_rows(schema, rows, block_bytes=1, codec=codec) for codec in sorted(CODECS)]


def archives() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    records = sample_records()
    plain = [
        {"exchange": "e", "routing_key": f"a.{n}", "timestamp": 1_700_000_000 + n, "vhost": "/", "body": "x" * n}
        for n in range(5)
    ]
    plain_lines = b"".join([json.dumps(each).encode() + b"\n" for each in plain])
    typed_lines = b"".join(map(encode_line, records))
    mixed = plain_lines + b'{"exchange":"e"}\nnot json\n' + typed_lines + b'{"exchange":"e","rou'
    traced = [
        test_traces.TRACED,
        test_traces.TRACED | {"type": "received"},
        test_traces.TRACED | {"routed_queues": "none"},
    ]
    trace = b"".join([json.dumps(each).encode() + b"\n" for each in traced])
    text = "".join(map(test_traces.text_entry, ("body", "ü", "€", ""))).encode()
    received = test_traces.text_entry("x", "received", "Queue:        q\n").encode()
    rabtap = json.dumps(test_traces.RABTAP, indent=2).encode()
    dump = json.dumps(
        {
            "properties": {
                "exchange": "e",
                "routing_key": "k",
                "timestamp": "2026-11-21 06:00:05 +0000 UTC",
                "priority": 5,
            },
            "headers": {"h": "v", "n": 1},
        }
    ).encode()
    segments = _segments()
    made = [
        kafka_files.batch(
            0,
            [
                KafkaRecord(
                    n, n, None if n == 2 else b"key%d" % n, None if n == 1 else b"v" * n, [("h", b"1"), ("h", None)]
                )
                for n in range(4)
            ],
            codec=codec,
        )
        for codec in (0, 2, 3, 4)  # gzip's has the time in it
    ]
    log = _log([1, 2])
    parquet = BytesIO()
    pq.write_table(
        pa.Table.from_batches([build_batch(records[:3])]).select(["exchange", "routing_key", "time", "body"]), parquet
    )
    found = [plain_lines, trace, text, rabtap, dump, made[0], log]
    rows = json.loads(json.dumps(build_batch(records[:2]).to_pylist(), default=str))
    for row in rows:
        row |= {
            "time": None,
            "headers": [[key, [item["type"], item["value"]]] for key, item in row["headers"]],
            "properties": [],
        }
    return {
        "json-lines": [plain_lines, mixed],
        "json-lines-splits": [plain_lines, mixed],
        "tracing-json": [trace],
        "tracing-text": [text, text[:-1] + received + text],
        "avro": _avro(),
        "csv": [b'exchange,routing_key,headers,ts\nx,"a ""b""\n.c","{""n"": 1}",5\nx,y\n', b"exch;rkey\r\nx;a\r\n"],
        "rabtap": [rabtap, rabtap + b"\n" + rabtap + b'\n{]\n{"Exch'],
        "queue-dump": [dump + PART + b"body"],
        "connect": [b'{"v":1}\n"v"\nnull\n' + PART + b'"k"\n{"id":1}\n"k"\n'],
        "fetched": [json.dumps([FETCHED, {**FETCHED, "payload_encoding": "base64"}]).encode()],
        "kafka-lines": [b'{"topic":"x","partition":0,"offset":1,"key":"k","ts":1700000000,"payload":"b"}\n[]\n'],
        "mapped-lines": [b'{"exch": "x", "rkey": "k", "hdrs": {"h": "v"}, "timestamp": 1700000000}\n{"exch": 5}\n'],
        "kafka-segment": [*segments, b"".join(made[:2]) + bytes(64)],
        "kafka-batches": made,
        "kafka-messages": [
            b"".join([kafka_files.message(n, b"k", None if n % 3 else b"v" * n, magic=n % 2) for n in range(5)]),
            *[
                kafka_files.wrapper(
                    5, [KafkaRecord(n, n, b"key%d" % n, b"v" * n) for n in range(3)], magic=old, codec=codec
                )
                for old in (0, 1)
                for codec in (2, 3)
            ],
        ],
        "rocketmq-log": [log, log + bytes(40)],
        "rocketmq-messages": [log],
        "parquet": [parquet.getvalue()],
        "detect": [b".x" + PART + data for data in found] + [SUFFIX.encode()[-20:] + PART + dump],
        "erlang-terms": [
            b'[{<<"headers">>,table,[{<<"t">>,timestamp,-9},{<<"d">>,decimal,{2,125}}]},{a,1.5e3,"s"}]',
            b"'Q a'",
        ],
        "table-rows": [json.dumps(rows).encode()],
    }


def _segments() -> list[bytes]:
    with tarfile.open(golden.GOLDEN / "kafka-log-3.9.2.tar.gz") as kept:
        files = [
            kept.extractfile(member)
            for member in kept.getmembers()
            if re.search("(transactions|codec-zstd|codec-gzip).*log$", member.name)
        ]
        return [file.read() for file in files if file is not None]


def _log(versions: list[int]) -> bytes:
    log = b""
    for version in versions:
        for n in range(2):
            log += rocketmq_files.message(
                len(log), "orders", {"KEYS": "k1 k2", "TAGS": "t"}, b"body%d" % n, version=version
            )
    return log


def data_folders() -> Mapping[str, list[bytes]]:
    """Return seeds of the data folders of Kafka brokers: recorded ones, of which one partition of each kind."""
    found = []
    for version in ("3.9.2", "4.3.1"):
        with tarfile.open(golden.GOLDEN / f"kafka-folder-{version}.tar.gz") as kept:
            held = {member.name: member for member in kept.getmembers()}
            parts = []
            for name in DATA_FOLDER:
                each = name.replace("orders-0/", "paid-0/")
                place, _, file = each.rpartition("/")
                if file.endswith(".snapshot") or place.startswith("__cluster"):
                    parts.append(b"")
                    continue
                member = held.get(each) or held.get(each.replace("-0/", "-1/"))
                stream = kept.extractfile(member) if member is not None else None
                parts.append(stream.read()[:6000] if stream is not None else b"")
        found.append(PART.join(parts))
    return {"kafka-folder": found}


def stores() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    sent = [Sent("a", 0, {"KEYS": f"k{n}", "TAGS": "t", "UNIQ_KEY": f"U{n}"}, b"body") for n in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        rocketmq_files.store(Path(folder), sent)
        files = [Path(folder, name) for name in STORE]
        data = PART.join([path.read_bytes().rstrip(b"\0") if path.exists() else b"" for path in files])
    return {"rocketmq-store": [data]}


def documents() -> Mapping[str, list[bytes]]:
    """Return inputs by target."""
    after = reports.ORDERS.declare_exchange(Exchange("new", "fanout"))
    batch = build_batch(
        [Record(Message("orders", f"order.eu.{word}"), 1_700_000_000_000_000) for word in ("paid", "new")]
    )
    comparer, verifier = Comparer(reports.ORDERS, after), Verifier(reports.ORDERS)
    comparer.add(batch)
    verifier.add(batch)
    tables = {
        "saved-tally": tally_file.build_table(reports.TALLY),
        "saved-comparison": comparison_file.build_table(comparer.result()),
        "saved-verification": verification_file.build_table(verifier.result()),
    }
    saved = {name: [_as_json(table)] for name, table in tables.items()}
    stored = BytesIO()
    pq.write_table(tables["saved-tally"].slice(0, 1), stored, compression="zstd")
    account = {
        "records": 3,
        "first": 1,
        "last": 2,
        "untimed": 0,
        "skipped": {"a": 1},
        "bad": {"b": [1, [["f", 0, "b", "eA=="]]]},
    }
    taken = {"a.jsonl": ["JSON lines", 10, 10, 0, 7, 4, "x", False]}
    step = {"files": taken, "splits": [["JSON lines", "a.jsonl", 0, 10, True]], "notices": [], "open_files": 0}
    memory = b"""topology = "shop.bindings"
ignore = ["audit", "lost-and-found"]
[sources.a]
url = "archive:in"
[targets.b]
url = "archive:out"
queues = ["billing"]
"""
    known = KnownFinding("HS204", "/", {"kind": "queue", "name": "q"}, "no binding leads to queue 'q'", "ab")
    return {
        **saved,
        "tally-bytes": [stored.getvalue()],
        "settings": [
            block.encode()
            for block in re.findall(r"```toml\n(.*?)```", (ROOT / "docs/audit.md").read_text("utf-8"), re.DOTALL)
        ],
        "bridge-config": [memory, *[path.read_bytes() for path in sorted((ROOT / "examples/bridge").glob("*.toml"))]],
        "ledger": [PART.join([json.dumps(account).encode()] * 2)],
        "growth": [json.dumps(taken).encode() + PART + json.dumps(step).encode()],
        "state-files": [
            b"17 abc\n",
            b'{"version":1,"files":{"a":[3,100]}}',
            b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}',
        ],
        "baseline": [json.dumps({"hashstar_baseline": 1, "files": {"a.bindings": [known._asdict()]}}).encode()],
        "recognised": [
            b'{"rabbitmq_version": "4.1.0", "queues": []}',
            b'{"bindings": [{"source": "x", "destination": "q", "destination_type": "queue"}]}',
        ],
        "addresses": [
            b"http://guest:guest@localhost:15672/%2F",
            b"amqp://u:p@h:5672/v?heartbeat=5",
            b"amqps://h",
            b"kafka://a:9092,b:9092/t?x=1",
            b"kafka://a:9092",
            b"rocketmq://k:s@a:9876,b",
            b"https://[::1]:15672",
        ],
    }


def _as_json(table: pa.Table) -> bytes:
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    # Registers of HyperLogLog are less than 128 each; dense ones would be most of the seed.
    rows = json.dumps([metadata, table.to_pylist()], default=lambda data: data[:64].decode("ascii"))
    return rows.encode()
