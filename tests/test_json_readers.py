"""Every reader of JSON ends hostile texts with an error that is meant for users: each place that parses has a row here.

The places are found in the source, and ruff bans parsers other than `exchange.values.json_text`. A row has a text
that is read, and each value in it is replaced by hostile ones in turn.
"""

from __future__ import annotations

import ast
import json
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

import pika
import pyarrow as pa
import pytest
from click.testing import CliRunner

from bindings.archive.avro import container
from bindings.archive.avro.schema import convert_schema
from bindings.archive.columns import to_table
from bindings.archive.formats import foreign
from bindings.archive.formats.spark_sink import LOG, list_committed_files
from bindings.archive.rocketmq.store import open_store
from bindings.auditing.local.cache import TallyCache
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.local.tasks import ROW, add_results
from bindings.checking.baseline import Baseline
from bindings.cli import find_command
from bindings.mcp.tools import Tools
from bindings.serve.questions import Parameters
from bindings.serve.traffic import ReportTraffic
from bindings.sources.access_token import read_life
from bindings.sources.definitions.text import find_objects
from bindings.sources.management import Management
from bindings.sources.names import read_names
from bindings.sources.open import open_source
from bindings.sources.recording.file import read_recording
from bindings.sources.toml_places import _TomlLayout
from bindings.sources.tree import find_reason_to_skip
from bridge import oauth
from bridge.consumers.groups.barrier import read_news, read_resize
from bridge.consumers.groups.membership import read_beat
from bridge.consumers.groups.state import _read as read_state
from bridge.daemon.asking.processes import read_process
from bridge.dead.ledger import Ledger
from bridge.endpoints.archive.replay import Settled
from bridge.endpoints.rabbitmq import management as checked
from bridge.interop import amqp_guest, kafka_guest, rocketmq_packing
from bridge.interop.texts import parse_wire
from bridge.registry.client import read_client
from bridge.rocketmq.consumer.offsets import parse_table
from bridge.rocketmq.remoting.command import Decoder, read_json
from bridge.rocketmq.remoting.errors import RemotingError
from bridge.rocketmq.remoting.statistics import _by_queue
from bridge.table import Table
from exchange import Topology
from exchange.errors import HashstarError
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.columns.headers import HeaderColumn
from exchange.values.field_text import decode_field
from exchange.values.message import Message
from tests.bridge.daemon.test_asking import make_status
from tests.support.syntax import read_modules, walk
from tests.support.tiers import scale

ROOT: Final = Path(__file__).parent.parent
PARSERS: Final = {"parse", "parse_leniently", "parse_objects", "parse_fastjson", "parse_json", "scan_value",
                  "parse_line"}  # fmt: skip
HOMES: Final = ("exchange.values.json_text", "bindings.archive.nesting")

ELSEWHERE: Final = {
    "bindings/mcp/server.py _find_reason": "a line that has been refused: tests/bindings/mcp/test_mcp.py",
    "bindings/archive/rocketmq/store.py _Databases.read_config": "the same reader as of files, on values in RocksDB",
    "bridge/dead/conventions.py _parse_deaths": "x-death as archives hold it: tests/bridge/dead/test_conventions.py",
    "bridge/endpoints/kafka/cluster/health.py ClientHealth.look": "the statistics of librdkafka, in this process",
    "bridge/endpoints/archive/rotation.py Rotator.rotate": "a pipe from a process of its own",
    "bridge/endpoints/archive/rotation.py main": "a pipe from the bridge that started it",
}
"""Places that read what this program has just written, or have their tests elsewhere."""

HOSTILE: Final = (
    "[" * 50_000, "[" * 50_000 + "]" * 50_000, '{"a":' * 50_000, "[" * 150 + "]" * 150, "[" * 230 + "]" * 230,
    r'"\ud800"', r'"\udcff"', r'{"\udfff": 1}', "NaN", "-Infinity", "Infinity", "1e999", "9" * 5_000, "9" * 4_000,
    "-1", "1.5",
    '"\u0663"', '"1_0"', "null", "true", "[]", "{}", '""', '{"a": 1, "a": 2}', "[[[1]]]", '"x"', "nope", '"\x01"', "",
)  # fmt: skip


class Reader(NamedTuple):
    """A place that parses."""

    text: str
    """A text that it reads."""
    read: Callable[[str, Path], object]
    """Gives it a text, with a folder for files."""
    errors: tuple[type[Exception], ...] = (HashstarError,)
    ends_in_error: bool = False
    """Whether it reads a text to describe in an error what is wrong with it."""


def run(name: str, *options: str) -> Callable[[str, Path], object]:
    """Return what runs a command; FILE in its options is a file with the text."""

    def read(text: str, folder: Path) -> None:
        file = write(text, folder / "text.json")
        given = [file if option == "FILE" else text if option == "TEXT" else option for option in options]
        result = CliRunner().invoke(find_command(name), given)
        assert result.exit_code in (0, 1, 2)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception

    return read


def write(text: str, path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return str(path)


def of_file(name: str, read: Callable[[str], object]) -> Callable[[str, Path], object]:
    return lambda text, folder: read(write(text, folder / name))


def read_replay(path: str) -> None:
    first = b'{"ledger": "q"}\n'
    Path(path).write_bytes(first + Path(path).read_bytes() + b"\n")
    Ledger(Path(path), "q").close()


def read_archive(path: str) -> None:
    run("archive", "inspect", path)("", Path(path).parent / "unused")


def read_beside(text: str, folder: Path) -> None:
    write("{}", folder / "t+0+0.json")
    write(text, folder / "t+0+0.headers.json")
    read_archive(str(folder))


def read_sink(text: str, folder: Path) -> object:
    write(f"v1\n{text}", folder / LOG / "0")
    return list_committed_files(folder)


def read_store(text: str, folder: Path) -> object:
    for name in ("commitlog", "consumequeue"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("topics.json", "consumerOffset.json", "delayOffset.json"):
        write(text, folder / "config" / name)
    return open_store(str(folder))


def read_ledger(text: str, folder: Path) -> object:
    from bindings.auditing.spark.ledger import BatchLedger  # imports PySpark

    ledger = BatchLedger(folder, {})
    write(text, folder / "account" / "batch=0000000000.json")
    return ledger.total()


def read_results(text: str, folder: Path) -> object:
    return add_results([pa.record_batch([[0], [-1], [text.encode("utf-8", "surrogatepass")]], ROW)], [])


def read_cache(text: str, folder: Path) -> object:
    key = "a" * 40
    write(f"digest\n{text}\n", folder / f"{key}-{key}.tally")
    return TallyCache(folder, [CoverageStudy(Topology())], Selection(), ()).find(key)


def read_growth(text: str, folder: Path) -> object:
    from bindings.auditing.spark import growth

    return growth._read(Path(write(text, folder / "x")), growth._parse_step_files)


def read_epoch(text: str, folder: Path) -> object:
    from bindings.archive.mapping import USUAL
    from bindings.auditing.spark import streaming

    begin = partial(streaming._epoch, "a", (), str(folder), Selection(), USUAL)
    write(text, begin()[0] / "epoch.json")
    return begin()


def read_error(text: str, folder: Path) -> object:
    from bindings.auditing.spark.gathering import decode_spark_error

    return decode_spark_error(RuntimeError(f"x <<hashstar:InputError:{text}>> y"))


class Answers(BaseHTTPRequestHandler):
    """A management API whose every answer is a text."""

    body = b""
    status = 200

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    def answer(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing."""


@cache
def serve() -> str:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def ask(status: int, read: Callable[[str], object]) -> Callable[[str, Path], object]:
    def ask_it(text: str, folder: Path) -> object:
        Answers.body, Answers.status = text.encode("utf-8", "surrogatepass"), status
        return read(serve())

    return ask_it


def ask_checked(address: str) -> object:
    return checked.ManagementClient(pika.URLParameters(f"amqp://{address}"), f"http://{address}")._ask("/api/x")


def read_tokens(address: str) -> object:
    from bindings.sources.address import Address

    values = {"token_url": f"http://{address}/token", "client_id": "c", "client_secret": "s"}
    tokens = oauth.read_tokens(Table({"oauth": values}, "bridge.toml"), Address("amqp", address), ())
    assert tokens is not None
    return tokens.current()


def fetch_schema(address: str) -> object:
    return read_client(Table({"url": f"http://{address}"}, "bridge.toml")).fetch(1)


def fetch_schema_of(text: str, folder: Path) -> object:
    return ask(200, fetch_schema)(json.dumps({"schema": text}), folder)


def read_header(text: str, folder: Path) -> object:
    header = text.encode("utf-8", "surrogatepass")
    return Decoder().feed(struct.pack(">ii", 4 + len(header), len(header)) + header)


def by_queue(text: str, folder: Path) -> object:
    body = json.dumps({"offsetTable": {text: {"a": 1, "b": 2}}}).encode()
    return read_json(body, lambda value: _by_queue(value, "a", "b"))


def unspell(text: str, folder: Path) -> object:
    from bindings.adapters.kombu.virtual import _unspell  # imports kombu

    return _unspell(text)


def call(read: Callable[[Any], object], *, as_bytes: bool = False) -> Callable[[str, Path], object]:
    return lambda text, folder: read(text.encode("utf-8", "surrogatepass") if as_bytes else text)


def read_schema(schema: bytes) -> object:
    return convert_schema(container.read_header(container.encode_container(schema, 0, b"")).schema)


ORDERS: Final = str(ROOT / "examples/orders/orders.bindings")
MESSAGE: Final = (
    '{"exchange": "e", "routing_key": "k", "headers": {"a": {"!long": 5}, "b": [1, {"c": "x"}]}, '
    '"properties": {"priority": 3}, "body": {"!bytes": "AAE="}, "time": "2026-01-02T03:04:05Z"}'
)
DEFINITIONS: Final = (
    '{"rabbitmq_version": "4.1.0", "queues": [{"name": "q", "vhost": "/", "durable": true, "auto_delete": false, '
    '"arguments": {"x-max-length": 5}}], "exchanges": [], "bindings": [{"source": "e", "vhost": "/", "destination": '
    '"q", "destination_type": "queue", "routing_key": "k", "arguments": {}}], "policies": [{"vhost": "/", "name": "p", '
    '"pattern": "^q", "apply-to": "queues", "priority": 1, "definition": {"max-length": 5}}]}'
)
REPORT: Final = (
    '{"audited": {"topology": {"source": "x", "vhost": "/"}}, "queues": [{"queue": "q"}], '
    '"bindings": [{"source": "e", "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {},'
    ' "messages": 5, "possible": 0, "state": "hit"}], "exchanges": [{"exchange": "e", "messages": 5, "hot": '
    '{"keys": [{"key": "k", "messages": 4}]}}],'
    ' "unroutable": [{"exchange": "e", "shapes": [{"example": "k", "messages": 1}]}]}'
)
BEAT: Final = (
    '{"member": "a", "joined": 1.5, "heartbeat": 5, "prefetch": 3, "held": {"0": [1, 2]}, "leaving": false, "plan": '
    '{"epoch": 1, "planner": "a", "partitions": 1, "assignment": {"a": [0]}}}'
)
RESIZE: Final = '{"id": "12345678123456781234567812345678", "before": 1, "after": 2, "slots": 12}'
RECORDING: Final = (
    '{"kind": "recording", "format": 1, "upstream": "u", "brokers": ["b"], "started": "s", "ended": "e", "opened": 1, '
    '"unread": [{"side": "client", "reason": "r", "count": 1}], "left_out": 0}'
)
REQUEST: Final = (
    '{"kind": "request", "client": 1, "vhost": "/", "method": "queue.declare", "arguments": {"queue": "q", "passive": '
    'false, "durable": true, "exclusive": false, "auto_delete": false, "arguments": {"a": 1}}, '
    '"count": 1, "first": "a", "last": "b", "answers": [{"code": 404, "text": "x", "count": 1}]}'
)
CLIENT: Final = (
    '{"kind": "client", "client": 1, "product": "p", "version": "v", "platform": "f", "name": "n", "connections": 1}'
)
ACCOUNT: Final = (
    '{"records": 1, "first": 2, "last": 3, "untimed": 0, "skipped": {"x": 1}, '
    '"bad": {"y": [1, [["f", 0, "y", "AA=="]]]}}'
)
KEYS: Final = '{"key": {"!long": 5}, "value": "x", "topic": "t", "time": 5, "size": 6}'

READERS: Final = {
    "exchange/commands/partition.py _read": Reader(
        KEYS, run("partition", "-p", "kafka.murmur2", "-n", "12", "--seed", "1", "FILE")
    ),
    "exchange/routing/message_lines.py route_lines": Reader(MESSAGE, run("route", "-t", ORDERS, "FILE")),
    "bindings/commands/route.py _parse_field": Reader(
        '{"a": [1, "x"]}', lambda text, folder: run("explain", "-t", ORDERS, "orders", "k", "--header", f"h={text}")(
            "", folder
        )
    ),
    "exchange/values/field_json.py decode_message_line": Reader(
        MESSAGE, run("diff", ORDERS, ORDERS, "--messages", "FILE")
    ),
    "exchange/values/field_text.py _decode_rare_field": Reader(
        '{"a": {"!long": 5}}', call(partial(decode_field, "table"))
    ),
    "exchange/partition/partitioning/key_source.py find_in_json": Reader(
        '{"a": {"b": [5, "x"]}}',
        call(lambda body: [
            Partitioning.parse(f'{strategy} over 12 by body "{pointer}"').choose(Message("e", "k", {}, {}, body))
            for pointer in ("/a/b", "/a/b/0", "/a/b/1")
            for strategy in ("kafka.murmur2", "rabbitmq.super_stream", "rocketmq.hash")
        ], as_bytes=True),
    ),
    "exchange/partition/partitioning/specification.py _value": Reader(
        '"/a"', call(lambda text: Partitioning.parse(f"kafka.murmur2 over 3 by body {text}"))
    ),
    "exchange/partition/partitioning/specification.py _parse": Reader(
        '"/a"', call(lambda text: Partitioning.parse(f"kafka.murmur2 over 3 by header {text}"))
    ),
    "exchange/routing/columns/headers.py HeaderColumn._parse": Reader(
        '{"a": {"!long": 5}}',
        call(lambda text: HeaderColumn(
            pa.array([text.encode("utf-8", "replace").decode()])
        ).groups(["a"])),
    ),
    "bindings/adapters/kombu/virtual.py _unspell": Reader('["k", {"a": {"!long": 5}}]', unspell),
    "bindings/archive/formats/spark_sink.py _parse_entry": Reader(
        '{"path": "file:///rows/day=1/part-0.parquet", "action": "add"}', read_sink
    ),
    "bindings/archive/columns.py to_table": Reader('{"a": {"!long": 5}}', call(partial(to_table, field="headers"))),
    "bindings/archive/columns.py find_value": Reader(
        '{"a": {"b": 5}}', call(lambda text: foreign._from_json(pa.array([text]), "a", "headers"))
    ),
    "bindings/archive/avro/container.py read_header": Reader(
        '{"type": "record", "name": "E", "fields": [{"name": "a", "type": "string"}]}',
        call(read_schema, as_bytes=True),
    ),
    "bindings/archive/formats/connect.py _parse_side": Reader('[{"a": "b"}]', read_beside),
    "bindings/archive/rabbitmq/fetched.py _read_elements": Reader(
        '[{"payload_bytes": 1, "redelivered": false, "exchange": "e", "routing_key": "k", "message_count": 1, '
        '"properties"'
        ': {"headers": {"a": 1}, "priority": 1}, "payload": "x", "payload_encoding": "string"}]',
        of_file("f.json", read_archive),
    ),
    "bindings/archive/rabbitmq/fetched.py _parse_array": Reader(
        '[{"payload_bytes": 1, "redelivered": false, "exchange": "e", "routing_key": "k", "message_count": 1, '
        '"properties"'
        ': {}, "payload": "x", "payload_encoding": "base64"}]', of_file("f.json", read_archive),
    ),
    "bindings/archive/formats/json_lines.py _read_line": Reader(MESSAGE, of_file("a.jsonl", read_archive)),
    "bindings/archive/formats/json_lines.py parse_objects": Reader(
        '{"exchange": "e", "key": "k"}', of_file("a.jsonl", read_archive)
    ),
    "bindings/archive/rabbitmq/queue_dump.py QueueDump.recognises": Reader(
        '{"properties": {"priority": 1}, "headers": {"a": 1}}',
        of_file("msg-0001-headers+properties.json", read_archive)
    ),
    "bindings/archive/nesting.py parse_json": Reader(MESSAGE, of_file("b.ndjson", read_archive)),
    "bindings/archive/rabbitmq/objects.py _parse_objects": Reader(
        MESSAGE, of_file("c.json", read_archive)
    ),
    "bindings/archive/reading.py _is_object": Reader('{"a": 1}', of_file("d.jsonl", read_archive)),
    "bindings/archive/rocketmq/store.py _read_json": Reader(
        '{"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, '
        '"attributes": '
        '{"a": "b"}}}, "offsetTable": {"T@g": {"0": 5}}}', read_store,
    ),
    "bindings/auditing/local/cache.py _parse_needs": Reader(f'["{"a" * 40}", ["x"], true]', read_cache),
    "bindings/auditing/local/tasks.py _read_account": Reader(ACCOUNT, read_results),
    "bindings/auditing/spark/gathering.py decode_spark_error": Reader('"x"', read_error),
    "bindings/auditing/spark/growth.py _read": Reader(
        '{"files": {"f": ["x", 0, 1, 2, 3, 4, "h", false]}, "splits": [], "notices": [], "open_files": 0}', read_growth
    ),
    "bindings/auditing/spark/ledger.py BatchLedger._read": Reader(ACCOUNT, read_ledger),
    "bindings/auditing/spark/streaming.py _epoch": Reader('{"archive": "a"}', read_epoch),
    "bindings/checking/baseline.py Baseline.load": Reader(
        '{"hashstar_baseline": 1, "files": {"f": [{"code": "HS101", "vhost": "/", "part": "q", "message": '
        '"x", "fingerprint": "y"}]}}',
        of_file("b.json", Baseline.load),
    ),
    "bindings/mcp/tools.py _read_report": Reader(
        REPORT, of_file("r.json", lambda path: Tools([], [path]).read_audit("queues"))
    ),
    "bindings/serve/questions.py Parameters.__init__": Reader(
        '{"message": {"exchange": "e"}, "n": 5, "parts": [{"kind": "queue", "name": "q"}]}',
        call(lambda body: [
            (read := Parameters(body)).message(), read.number("n", 1, 9), read.parts("parts", 9), read.texts("t", 9)
        ], as_bytes=True),
    ),
    "bindings/serve/traffic.py ReportTraffic.load": Reader(REPORT, of_file("r.json", ReportTraffic.load)),
    "bindings/sources/definitions/text.py find_objects": Reader(
        DEFINITIONS, lambda text, folder: list(find_objects(text)), (ValueError, IndexError)
    ),
    "bindings/sources/definitions/text.py parse_text": Reader(DEFINITIONS, run("check", "FILE")),
    "bindings/sources/formats/__init__.py _top_names": Reader(
        '{"format_version": "1.2", "terraform_version": "1.9.0", "planned_values": {"root_module": '
        '{"resources": [{"mode": '
        '"managed", "type": "rabbitmq_queue", "name": "q", "values": {"name": "q", "vhost": "/", "settings": '
        '[{"durable": '
        'true}]}}]}}}', of_file("plan.json", open_source),
    ),
    "bindings/sources/formats/nodes.py parse_json_node": Reader(
        '{"asyncapi": "3.0.0", "channels": {"c": {"address": "a", "bindings": {"amqp": {"is": "queue", '
        '"queue": {"name": '
        '"q", "durable": true}}}}}}', of_file("a.json", open_source),
    ),
    "bindings/sources/language/values.py Terms._special.replace": Reader(
        r'"\u00e9"', lambda text, folder: open_source(write(f"queue {text}\n", folder / "a.bindings"))
    ),
    "bindings/sources/management.py Management.request": Reader(
        '{"rabbitmq_version": "4.1.0"}', ask(200, lambda address: Management(f"http://{address}", "u", "p").version())
    ),
    "bindings/sources/management.py _reason": Reader(
        '{"error": "x", "reason": "y"}',
        ask(400, lambda address: Management(f"http://{address}", "u", "p").definitions("/")),
        ends_in_error=True,
    ),
    "bindings/sources/open.py _is_json": Reader('"a"', of_file("x.json", open_source), ends_in_error=True),
    "bindings/sources/open.py _why_none": Reader(
        '{"error": "x", "reason": "y", "queuse": []}', of_file("x.json", open_source), ends_in_error=True
    ),
    "bindings/sources/recording/file.py is_recording": Reader(RECORDING, of_file("x.jsonl", open_source)),
    "bindings/sources/recording/file.py read_recording": Reader(
        REQUEST, lambda text, folder: read_recording(f"{RECORDING}\n{CLIENT}\n{text}", "x")
    ),
    "bindings/sources/toml_places.py _unquote": Reader(
        '"a"', lambda text, folder: _TomlLayout(f"[{text}]\n{text} = 1\n")
    ),
    "bindings/sources/names.py _read_definitions": Reader(
        DEFINITIONS, of_file("x.json", lambda path: read_names(Path(path))), (ValueError, HashstarError)
    ),
    "bindings/sources/tree.py find_reason_to_skip": Reader(DEFINITIONS, of_file("x.json", find_reason_to_skip)),
    "bridge/daemon/asking/processes.py read_process": Reader(
        make_status(), ask(200, lambda address: read_process(f"http://{address}", 10.0))
    ),
    "bridge/dead/ledger.py Ledger._read": Reader(
        '{"sent": "a", "queue": "q", "header": "AAA=", "body": null}',
        of_file("l", read_replay),
    ),
    "bridge/endpoints/archive/replay.py Settled.read": Reader(
        '{"version": 1, "files": {"f": [5, null]}}', of_file("s", lambda path: Settled.read(Path(path)))
    ),
    "bridge/oauth.py _read_object": Reader('{"access_token": "t", "expires_in": 60}', ask(200, read_tokens)),
    "bindings/sources/access_token.py read_life": Reader(
        '{"exp": 60}',
        call(lambda claims: read_life(f"e30.{urlsafe_b64encode(claims).decode()}.x"), as_bytes=True),
    ),
    "bridge/registry/client.py RegistryClient._read": Reader(
        '{"schema": "\\"int\\"", "references": [{"subject": "a", "version": 1}]}', ask(200, fetch_schema)
    ),
    "bridge/registry/client.py _SchemaReader._compile": Reader(
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}', fetch_schema_of
    ),
    "bridge/endpoints/rabbitmq/management.py ManagementClient._ask": Reader(
        '{"a": 1}', ask(200, ask_checked), (checked.Unknown,)
    ),
    "bridge/consumers/groups/barrier.py read_resize": Reader(RESIZE, call(read_resize, as_bytes=True)),
    "bridge/consumers/groups/barrier.py read_news": Reader(
        '{"passed": 1, "opened": null}', call(read_news, as_bytes=True), ()
    ),
    "bridge/consumers/groups/membership.py read_beat": Reader(BEAT, call(read_beat, as_bytes=True)),
    "bridge/consumers/groups/state.py _read": Reader(
        f'{{"slots": 12, "queue_type": "quorum", "partitions": 3, "owned": 3, "resize": {RESIZE}, "version": 1}}',
        call(partial(read_state, "q"), as_bytes=True),
    ),
    "bridge/interop/amqp_guest.py _read_types": Reader(
        '{"a": ["long", null]}', call(amqp_guest._read_types, as_bytes=True)
    ),
    "bridge/interop/kafka_guest.py _order": Reader('["a", "b"]', call(kafka_guest._order, as_bytes=True)),
    "bridge/interop/rocketmq_packing.py _read_json": Reader(
        '["a", "b"]', call(partial(rocketmq_packing._read_json, rocketmq_packing.ORDER))
    ),
    "bridge/interop/texts.py _nested.read": Reader(
        '{"a": {"!long": 5}}', call(partial(parse_wire, "table"), as_bytes=True), (ValueError,)
    ),
    "bridge/rocketmq/consumer/offsets.py _read_value": Reader(
        '{"offsetTable": {{"topic": "t", "brokerName": "b", "queueId": 0}: 5}}', call(parse_table)
    ),
    "bridge/rocketmq/remoting/command.py load_json": Reader(
        '{"offsetTable": {}}',
        call(lambda body: read_json(body, lambda value: _by_queue(value, "a", "b")), as_bytes=True),
        (RemotingError,),
    ),
    "bridge/rocketmq/remoting/command.py _from_json": Reader(
        '{"code": 1, "extFields": {"a": "b"}, "opaque": 2, "flag": 0, "language": "JAVA", "version": 3}',
        read_header, (RemotingError,)
    ),
    "bridge/rocketmq/remoting/statistics.py _by_queue": Reader('{"queueId": 3}', by_queue, (RemotingError,)),
}  # fmt: skip


def find_parsers() -> Iterator[str]:
    """Yield each place in the product that parses JSON, as file and function."""
    for path, text in read_modules().items():
        if not any(home in text for home in HOMES):
            continue
        tree = ast.parse(text)
        names = {
            alias.name
            for node in walk(tree) if isinstance(node, ast.ImportFrom) and node.module in HOMES
            for alias in node.names
        } & PARSERS  # fmt: skip
        yield from (f"{path} {name}" for name in find_calls(tree, names, ()))


def find_calls(node: ast.AST, names: set[str], inside: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        within = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = (*inside, child.name)
        if isinstance(child, ast.Name) and child.id in names:
            yield ".".join(within)
        yield from find_calls(child, names, within)


def test_each_place_that_parses_has_a_row() -> None:
    assert set(find_parsers()) == READERS.keys() | ELSEWHERE.keys()


def replace_each(text: str) -> Iterator[str]:
    """Yield a text with each of its values replaced by `HOSTILE` texts, one at a time; and the whole, too."""
    yield from HOSTILE
    try:
        value = json.loads(text)
    except ValueError:
        return
    mark = "@@"
    for marked in put_mark(value, mark):
        for hostile in HOSTILE:
            yield json.dumps(marked, ensure_ascii=False).replace(f'"{mark}"', hostile)


def put_mark(value: Any, mark: str) -> Iterator[Any]:
    """Yield a value with each of its parts replaced by a mark, one at a time."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        for marked in (mark, *put_mark(inner, mark)):
            copy = value.copy()
            copy[key] = marked
            yield copy


@pytest.mark.parametrize("place", READERS)
def test_hostile_texts_end_in_an_error_for_users(place: str, tmp_path: Path) -> None:
    reader = READERS[place]
    (tmp_path / "fine").mkdir()
    with pytest.raises(reader.errors) if reader.ends_in_error else nullcontext():
        reader.read(reader.text, tmp_path / "fine")
    texts = list(replace_each(reader.text))
    for number, text in enumerate(texts[:: len(texts) // scale(len(texts)) or 1]):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            reader.read(text, folder)
        except reader.errors:
            pass
        except Exception as error:
            raise AssertionError(f"{text[:300]}: {error!r}"[:600]) from error
