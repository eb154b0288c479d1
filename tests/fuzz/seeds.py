"""Make the corpus of each target from the project's recordings, examples and generators: ``python -m tests.fuzz.seeds``.

Files whose names begin with ``seed-`` are made here; all others are findings, kept as they were found. A seed is small:
fuzzing begins with many small inputs, and the repository keeps them.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindings import comparison_file, tally_file, verification_file
from bindings.archive.json_lines import line_of
from bindings.archive.queue_dump import SUFFIX
from bindings.archive.record import Record, batch_of
from bindings.batch.comparing import Comparer
from bindings.batch.verifying import Verifier
from bindings.definitions import Definitions
from bridge.amqp import ContentHeader, encode_table
from bridge.amqp.fields import encode_value
from bridge.rabbitmq.frames import Acked, Arrived, Returned
from bridge.rocketmq.assigned import TopicQueue
from bridge.rocketmq.offsets import written
from bridge.rocketmq.properties import encoded
from exchange import Exchange, Message, Typed
from exchange.partition.strategies import STRATEGIES
from tests.bindings.archive import kafka_files, rocketmq_files, test_traces
from tests.bindings.archive.kafka_files import KafkaRecord
from tests.bindings.archive.rocketmq_files import Sent
from tests.bindings.report import reports
from tests.bridge import test_rabbitmq_frames
from tests.fuzz.archives import STORE
from tests.fuzz.target import PART
from tests.recorders import golden
from tests.recorders.rocketmq_filter import EXPRESSIONS
from tests.topologies import message, topology

CORPUS: Final = Path(__file__).parent / "corpus"
ROOT: Final = Path(__file__).parents[2]
MOST_BYTES: Final = 16_000
"""Maximum size of a seed."""

HEADERS: Final[dict[str, Any]] = {
    "s": "text", "b": True, "n": None, "d": 1.5, "x": b"\xff\x00", "l": 1 << 40, "dec": Decimal("1.25"),
    "f": Typed("float", 0.5), "t": Typed("timestamp", 1_700_000_000), "u": Typed("unsignedbyte", 200),
    "a": [1, "two", {"three": [None]}], "table": {"in": {"in": 1}}, "raw": Typed("longstr", b"\xfe"),
    "CC": ["other.key"], "x-death": [{"count": 1, "reason": "expired", "queue": "q"}],
}  # fmt: skip
PROPERTIES: Final[dict[str, Any]] = {
    "content_type": "text/plain", "delivery_mode": 2, "priority": 5, "correlation_id": "c", "reply_to": "r",
    "expiration": "1000", "message_id": "m", "timestamp": Typed("timestamp", 1_700_000_000), "type": "t",
    "user_id": "guest", "app_id": "app",
}  # fmt: skip


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the name of a target and an input for it."""
    for make in (_languages, _values, _wire, _crossings, _archives, _stores, _documents):
        for name, found in make().items():
            for data in found:
                assert len(data) <= MOST_BYTES, (name, len(data))
                yield name, data


def _languages() -> Mapping[str, list[bytes]]:
    docs = (ROOT / "docs/bindings.md").read_text("utf-8")
    examples = [(ROOT / path).read_bytes() for path in ("examples/orders/orders.bindings", "examples/bridge/shop.bindings")]
    blocks = [block.encode() for block in re.findall(r"```(?:bindings)?\n(.*?)```", docs, re.DOTALL)]
    rng = Random(15)
    drawn = [topology(rng, reports.ORDERS.profile) for _ in range(3)]

    dumps = [Definitions().with_topology(each).dump().encode() for each in drawn]
    consumer = (ROOT / "examples/consumer/definitions.json").read_bytes()
    return {
        "pattern-amqp": [
            b"order.*.created\norder.eu.created\n#.paid\na.paid\n#\n\n*.#.*\na.b\n#.b.#.b\nb.b.a.b\n\n.", b"a..b\na..b\n*\n\n",
        ],
        "pattern-mqtt": [b"order/+/created\norder/eu/created\n#\na/b\n+/#\n$SYS/a\n$SYS/#\n$SYS/a/b\n/+\n/a", b"a/#\na"],
        "pattern-nats": [b"order.*.created\norder.eu.created\n>\na.b\n*.>\na\norder.>\norder.eu\n*.*\na.b"],
        "bindings-language": [each for each in [*examples, *blocks] if len(each) < 2_500],
        "definitions": [consumer, *[dump for dump in dumps if len(dump) <= MOST_BYTES]],
        "selector": [
            expression.encode() + PART + b"a=5\nb=x'y\nregion=eu\nc=-2.5" for expression in EXPRESSIONS[::180]
        ] + [b"paid || shipped" + PART + b"TAGS=paid"],
        "partitioning": [
            *[f"{name} over 12 by word 2".encode() for name in STRATEGIES],
            b'kafka.nearest(rack=eu-1) over a@eu-1:4,b@eu-2:4 by header "h"' + PART + b"key",
            b'rocketmq.hash over a:4,"b c":4 by body "/customer/id"' + PART + b'{"customer":{"id":7}}',
            b"rabbitmq.super_stream over s-0,s-1,s-2 by property message_id", b"erlang.phash2 over 3",
        ],
        "body-keys": [
            b"/a/0/b~1c" + PART + b'{"a":[{"b/c":"key"}]}', b"" + PART + b"12345678901", b"/id" + PART + b'{"id":-7}',
            b"/x" + PART + b'{"x":[1.5,true,null]}', b"/s" + PART + '{"s":"größe"}'.encode(),
        ],
    }  # fmt: skip


def _values() -> Mapping[str, list[bytes]]:
    line = line_of(_records()[0])
    typed = [
        {"!short": -5}, {"!unsignedint": 7}, {"!timestamp": 9}, {"!decimal": "1.25"}, {"!float": "NaN"}, {"!bytes": "/w=="},
        {"!table": {"!x": 1}}, {"!longstr": {"!bytes": "/w=="}}, {"!array": [1]}, {"!double": "Infinity"}, {"!void": None},
    ]
    return {
        "message-line": [line, b'{"exchange":"e","routing_key":"k","headers":{"h":' + json.dumps(typed).encode() + b'},"body":"x"}\r\n'],
        "message-value": [line],
        "typed-value": [json.dumps(each).encode() for each in [typed, {"a": [1, 2.5, "x", True, None, {"b": {}}]}]],
        "typed-texts": [
            kind + PART + text
            for kind, text in (
                (b"long", b"-5"), (b"longstr", b"text"), (b"decimal", b"1.25"), (b"timestamp", b"9"), (b"bool", b"true"),
                (b"table", b'{"a":1}'), (b"array", b"[1]"), (b"float", b"0.5"), (b"binary", b"/w=="), (b"void", b""),
                (b"double", b"1e300"), (b"unsignedbyte", b"255"),
            )
        ],
        "times": [b'"2026-11-21T06:28:37.431+00:00"', b"2026-11-21T06:28:37Z", b"1700000000.5", b"1700000000000", b"-1", b"1e18"],
    }  # fmt: skip


def _wire() -> Mapping[str, list[bytes]]:
    table = encode_table(HEADERS)
    header = ContentHeader.of(HEADERS, PROPERTIES)
    remoting = [b64decode(each) for each in golden.read("rocketmq-remoting-5.5.0")["frames"]]
    recorded = golden.read("rocketmq-message-5.5.0")
    events = [
        Arrived(1, False, b"e", b"a.b", header.raw, b"body"), Arrived(2, True, b"", b"q", b"\0\0", b""),
        Returned(312, b"NO_ROUTE", b"e", b"k", b"\0\0", b"returned"), Acked(7, True, False), Acked(8, False, True),
        Arrived(3, False, b"e", b"k", b"\0\0", b"x" * 5_000),
    ]  # fmt: skip
    frames = [test_rabbitmq_frames.written(event) for event in events]
    route = {
        "brokerDatas": [{"brokerAddrs": {"0": "127.0.0.1:10911"}, "brokerName": "broker-a", "cluster": "c"}],
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
        "filterServerTable": {}, "orderTopicConf": "broker-a:4",
    }  # fmt: skip

    offsets = {TopicQueue("orders", "broker-a", number): 10 * number for number in range(3)}
    return {
        "field-table": [table, encode_table({}), encode_table({"a": {"b": [[], {}]}})],
        "field-value": [encode_value(value) for value in HEADERS.values()],
        "field-text": [
            kind + PART + text
            for kind, text in (
                (b"signedint", b"5"), (b"double", b"1.5"), (b"decimal", b"1.25"), (b"array", b"[1]"), (b"table", b'{"a":1}'),
                (b"bool", b"true"), (b"timestamp", b"9"), (b"binary", b"\xff"), (b"float", b"0.1"), (b"bool=dAI=", b"true"),
            )
        ],
        "content-header": [header.payload(3), ContentHeader.of({}, {}).payload(0), ContentHeader.of(None, PROPERTIES).payload(9)],
        "frames": [b"".join(frames[:3]), b"".join(frames[2:5]), frames[5]],
        "remoting": [*sorted({frame for frame in remoting if len(frame) < 500}, key=len)[::4], b"".join(remoting[:4])],
        "answer-json": [
            json.dumps(route).encode(), json.dumps(route).encode().replace(b'"0":', b"0:"),
            b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1",1:"i:2"}}}}',
        ],
        "stored": _some(recorded["records"], lambda each: b64decode(each["record"])),
        "batch": _some(recorded["batches"], lambda each: b64decode(each) if isinstance(each, str) else b""),
        "properties": [encoded({"KEYS": "a b", "TAGS": "t", "größe": "ß", "DELAY": "3"})],
        "offset-table": [
            written(offsets).encode(), b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7},"x":[1]}',
        ],
        "ids": [b"7F00000100002A9F0000000000000000", b"FD0000000000000000000000000000022B4A1DBD16A6696F78770000", b"0A" * 28],
        "management": [
            PART.join([
                b'{"rabbitmq_version":"4.0.5","vhosts":[{"name":"/"}],"exchanges":[{"name":"e","vhost":"/","type":"topic",'
                b'"durable":true,"auto_delete":false,"internal":false,"arguments":{}}],"queues":[],"bindings":[]}',
                b'[{"name":"i","vhost":"/","type":"fanout","durable":true,"auto_delete":false,"internal":true,"arguments":{}}]',
                b'{"rabbitmq_version":"4.0.5"}',
            ])
        ],
    }  # fmt: skip


def _some(items: list[Any], data: Callable[[Any], bytes]) -> list[bytes]:
    found = sorted({data(item) for item in items}, key=len)
    return [each for each in found if each and len(each) < 700][::6]


def _crossings() -> Mapping[str, list[bytes]]:
    headers = [ContentHeader.of(HEADERS, PROPERTIES), ContentHeader.of({"amqp.x": "1", "TAGS": "t", "": 2}, {}), ContentHeader.of()]
    abroad = PART.join([headers[0].raw, b"body", b"e\na.b"])

    def sized(*texts: bytes | None) -> bytes:
        return b"".join([b"\xff\xff" if text is None else len(text).to_bytes(2) + text for text in texts])

    return {
        "amqp-abroad": [abroad, *[PART.join([each.raw, b"", b"\nkey"]) for each in headers]],
        "kafka-abroad": [
            sized(b"key", b"value", b"h", b"1", b"h", None, b"x-death", b"a", b"CC", b"c"), sized(None, None),
            sized(b"k" * 300, b"v", b"n" * 300, b"x"),
            sized(b"k", b"v", b"amqp.routing_key", b"a.b", b"amqp.types", b'{"n":"signedint"}', b"n", b"5"),
        ],
        "rocketmq-abroad": [
            encoded({"KEYS": "a b", "TAGS": "t", "own": "x", "CC": "c", "UNIQ_KEY": "0A" * 16}) + PART + b"body",
            encoded({"amqp.routing_key": "a.b", "amqp.types": '{"n":"signedint"}', "n": "5"}) + PART + b"body",
        ],
        "archived": [each.raw + PART + b"body" for each in headers],
    }  # fmt: skip


def _records() -> list[Record]:
    rng = Random(4)
    drawn = topology(rng, reports.ORDERS.profile)
    first = Message("e", "a.b", HEADERS, {"message_id": "m", "priority": 1}, b"body\xff")
    return [
        Record(first, 1_700_000_000_500_000, "/", 5, True, ("q1", "q2"), "file", 7),
        Record(Message("e", "k"), None, None, None, False, None, "", 0),
        *[Record(message(rng, drawn)) for _ in range(4)],
    ]


def _archives() -> Mapping[str, list[bytes]]:
    records = _records()
    plain = [
        {"exchange": "e", "routing_key": f"a.{n}", "timestamp": 1_700_000_000 + n, "vhost": "/", "body": "x" * n} for n in range(5)
    ]
    plain_lines = b"".join([json.dumps(each).encode() + b"\n" for each in plain])
    typed_lines = b"".join(map(line_of, records))
    mixed = plain_lines + b'{"exchange":"e"}\nnot json\n' + typed_lines + b'{"exchange":"e","rou'
    traced = [test_traces.TRACED, test_traces.TRACED | {"type": "received"}, test_traces.TRACED | {"routed_queues": "none"}]
    trace = b"".join([json.dumps(each).encode() + b"\n" for each in traced])
    text = "".join(map(test_traces.text_entry, ("body", "ü", "€", ""))).encode()
    received = test_traces.text_entry("x", "received", "Queue:        q\n").encode()
    rabtap = json.dumps(test_traces.RABTAP, indent=2).encode()
    dump = json.dumps({
        "properties": {"exchange": "e", "routing_key": "k", "timestamp": "2026-11-21 06:00:05 +0000 UTC", "priority": 5},
        "headers": {"h": "v", "n": 1},
    }).encode()  # fmt: skip
    segments = _segments()
    made = [
        kafka_files.batch(0, [
            KafkaRecord(n, n, None if n == 2 else b"key%d" % n, None if n == 1 else b"v" * n, [("h", b"1"), ("h", None)])
            for n in range(4)
        ], codec=codec)
        for codec in range(5)
    ]  # fmt: skip
    log = _log([1, 2])
    parquet = BytesIO()
    pq.write_table(pa.Table.from_batches([batch_of(records[:3])]).select(["exchange", "routing_key", "time", "body"]), parquet)
    found = [plain_lines, trace, text, rabtap, dump, made[0], log]
    rows = json.loads(json.dumps(batch_of(records[:2]).to_pylist(), default=str))
    for row in rows:
        row |= {"time": None, "headers": [[key, [item["type"], item["value"]]] for key, item in row["headers"]], "properties": []}
    return {
        "json-lines": [plain_lines, mixed],
        "json-lines-splits": [plain_lines, mixed],
        "tracing-json": [trace],
        "tracing-text": [text, text[:-1] + received + text],
        "rabtap": [rabtap, rabtap + b"\n" + rabtap + b'\n{]\n{"Exch'],
        "queue-dump": [dump + PART + b"body"],
        "kafka-segment": [*segments, b"".join(made[:2]) + bytes(64)],
        "kafka-batches": made,
        "rocketmq-log": [log, log + bytes(40)],
        "rocketmq-messages": [log],
        "parquet": [parquet.getvalue()],
        "detect": [b".x" + PART + data for data in found] + [SUFFIX.encode()[-20:] + PART + dump],
        "erlang-terms": [b'[{<<"headers">>,table,[{<<"t">>,timestamp,-9},{<<"d">>,decimal,{2,125}}]},{a,1.5e3,"s"}]', b"'Q a'"],
        "table-rows": [json.dumps(rows).encode()],
    }  # fmt: skip


def _segments() -> list[bytes]:
    with tarfile.open(golden.GOLDEN / "kafka-log-3.9.2.tar.gz") as kept:
        files = [kept.extractfile(member) for member in kept.getmembers() if re.search("(transactions|codec-zstd).*log$", member.name)]
        return [file.read() for file in files if file is not None]


def _log(versions: list[int]) -> bytes:
    log = b""
    for version in versions:
        for n in range(2):
            log += rocketmq_files.message(len(log), "orders", {"KEYS": "k1 k2", "TAGS": "t"}, b"body%d" % n, version=version)
    return log


def _stores() -> Mapping[str, list[bytes]]:
    sent = [Sent("a", 0, {"KEYS": f"k{n}", "TAGS": "t", "UNIQ_KEY": f"U{n}"}, b"body") for n in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        rocketmq_files.store(Path(folder), sent)
        files = [Path(folder, name) for name in STORE]
        data = PART.join([path.read_bytes().rstrip(b"\0") if path.exists() else b"" for path in files])
    return {"rocketmq-store": [data]}


def _documents() -> Mapping[str, list[bytes]]:
    after = reports.ORDERS.declare_exchange(Exchange("new", "fanout"))
    batch = batch_of([Record(Message("orders", f"order.eu.{word}"), 1_700_000_000_000_000) for word in ("paid", "new")])
    comparer, verifier = Comparer(reports.ORDERS, after), Verifier(reports.ORDERS)
    comparer.add(batch)
    verifier.add(batch)
    tables = {
        "saved-tally": tally_file.table_of(reports.TALLY),
        "saved-comparison": comparison_file.table_of(comparer.result()),
        "saved-verification": verification_file.table_of(verifier.result()),
    }
    saved = {name: [_as_json(table)] for name, table in tables.items()}
    stored = BytesIO()
    pq.write_table(tables["saved-tally"].slice(0, 1), stored, compression="zstd")
    account = {"records": 3, "first": 1, "last": 2, "untimed": 0, "skipped": {"a": 1}, "bad": {"b": [1, [["f", 0, "b", "eA=="]]]}}
    memory = b'topology = "shop.bindings"\nignore = ["audit", "lost-and-found"]\n[sources.a]\nurl = "archive:in"\n[targets.b]\nurl = "archive:out"\nqueues = ["billing"]\n'
    return {
        **saved,
        "tally-bytes": [stored.getvalue()],
        "settings": [block.encode() for block in re.findall(r"```toml\n(.*?)```", (ROOT / "docs/audit.md").read_text("utf-8"), re.DOTALL)],
        "bridge-config": [memory, *[path.read_bytes() for path in sorted((ROOT / "examples/bridge").glob("*.toml"))]],
        "ledger": [PART.join([json.dumps(account).encode()] * 2)],
        "growth": [
            b'{"a.jsonl":["JSON lines",10,10,0,7,4,"x",false]}' + PART
            + b'{"files":{"a.jsonl":["JSON lines",10,10,0,7,4,"x",false]},"splits":[["JSON lines","a.jsonl",0,10,true]],"notices":[],"open_files":0}'
        ],
        "state-files": [
            b"17 abc\n", b'{"version":1,"files":{"a":[3,100]}}',
            b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}',
        ],
        "addresses": [
            b"http://guest:guest@localhost:15672/%2F", b"amqp://u:p@h:5672/v?heartbeat=5", b"amqps://h", b"kafka://a:9092,b:9092/t?x=1",
            b"kafka://a:9092", b"rocketmq://k:s@a:9876,b", b"https://[::1]:15672",
        ],
    }  # fmt: skip


def _as_json(table: pa.Table) -> bytes:
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    # Registers of HyperLogLog are less than 128 each; dense ones would be most of the seed.
    rows = json.dumps([metadata, table.to_pylist()], default=lambda data: data[:64].decode("ascii"))
    return rows.encode()


def main() -> None:
    """Replace the seeds of all targets."""
    for old in CORPUS.glob("*/seed-*"):
        old.unlink()
    counts: dict[str, int] = {}
    for name, data in seeds():
        counts[name] = counts.get(name, 0) + 1
        path = CORPUS / name / f"seed-{counts[name]:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{sum(counts.values())} seeds for {len(counts)} targets")


if __name__ == "__main__":
    main()
