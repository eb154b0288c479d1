"""The tracing plugin's logs, rabtap's files, dumps of queues, Kafka Connect's files, as these tools write them."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.connect import Connect
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.mapping import FieldMapping
from bindings.archive.rabbitmq.firehose import unwrap
from bindings.archive.rabbitmq.queue_dump import QueueDump
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingJson, TracingText
from bindings.archive.record import Record
from exchange.errors import InputError
from exchange.values.erlang_parser import ParsedAtom, parse
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.archives.reads import FILES, facts, read

TIME = 1_795_242_517_431_000
TRACED: dict[str, Any] = {
    "timestamp": "2026-11-21T06:28:37.431+00:00", "type": "published", "node": "rabbit@a", "vhost": "/", "channel": 1,
    "connection": "c", "user": "guest", "exchange": "orders", "queue": "none", "routing_keys": ["a.c", "b.1", "a.x"],
    "routed_queues": ["q1"], "properties": {"priority": 5, "headers": {"CC": ["b.1"], "n": 1}},
    "payload": base64.b64encode(b"\xffbody").decode(),
}  # fmt: skip
MESSAGE = Message("orders", "a.c", {"CC": ["b.1"], "n": 1, "BCC": ["a.x"]}, {"priority": 5}, b"\xffbody")


def text_entry(body: str, kind: str = "published", routed: str = 'Routed queues: [<<"q1">>]\n') -> str:
    return (
        f"\n{'=' * 80}\n2026-11-21T06:28:37.431+00:00: Message {kind}\n\nNode:         rabbit@a\nConnection:   c\n"
        "Virtual host: /\nUser:         guest\nChannel:      1\nExchange:     orders\n"
        f'Routing keys: [<<"a.c">>,\n               <<"ü"/utf8>>]\n{routed}'
        'Properties:   [{<<"headers">>,table,[{<<"t">>,timestamp,9},\n  {<<"d">>,decimal,{2,125}}]}]\n'
        f"Payload: \n{body}\n"
    )


def test_a_published_entry_in_json_is_a_record_and_a_received_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    received = TRACED | {"type": "received", "queue": "q1", "routed_queues": "none"}
    path.write_text("".join(json.dumps(line) + "\n" for line in (TRACED, received, TRACED | {"routed_queues": "none"})))
    assert TracingJson().recognises(path.read_bytes(), path)
    result = read(TracingJson(), path)
    assert [facts(r) for r in result.records] == [facts(Record(MESSAGE, TIME, "/", 5, True, ("q1",), str(path), 0))]
    assert list(result.skipped.values()) == [1]
    assert [bad.reason for bad in result.bad] == ["routed_queues is not a list of names"]


BEGIN_LENGTH = len(f"\n{'=' * 80}\n2026-11-21T06:28:37.431+00:00: Message published\n")
BODIES = st.lists(st.text(st.characters(codec="ascii"), max_size=9) | st.sampled_from(["\n" + "=" * 80 + "\n", "\n\n"]))


@FILES
@given(st.lists(BODIES.map("".join), max_size=4), st.integers(1, 900))
def test_text_entries_are_read_once_however_the_file_is_split(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[str], size: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "t.log"
    path.write_bytes("".join(text_entry(body) for body in bodies).encode())
    result = read(TracingText(), path, size)
    assert not result.bad
    assert len(result.records) == len(bodies)
    known = bodies[:-1] if bodies and bodies[-1].endswith("\n") else bodies
    assert [record.message.body.decode() for record in result.records if record.has_body] == known


@FILES
@given(st.data(), st.integers(100, 900))
def test_a_text_log_torn_anywhere_gives_the_whole_entries_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, size: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "t.log"
    entries = [text_entry(f"body{n}").encode() for n in range(3)]
    cut = data.draw(st.integers(0, 3 * len(entries[0])))
    path.write_bytes(b"".join(entries)[:cut])
    result = read(TracingText(), path, size)
    whole, rest = divmod(cut, len(entries[0]))
    certain = whole - (whole > 0 and 0 < rest < BEGIN_LENGTH)
    assert [record.message.body for record in result.records if record.has_body] == [
        b"body%d" % n for n in range(certain)
    ]
    assert len(result.records) == whole
    assert len(result.bad) == (rest > 1 if whole == 0 else rest >= BEGIN_LENGTH)


@pytest.mark.parametrize("size", [1 << 20, 97])
def test_an_entry_that_is_cut_behind_its_first_line_hides_no_other(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t.log"
    cut = f"\n{'=' * 80}\n2026-11-21T06:28:37.431+00:00: Message published"
    path.write_text(cut + text_entry("body"), encoding="utf-8")
    result = read(TracingText(), path, size)
    assert [record.message.body for record in result.records] == [b"body"]
    assert [bad.reason for bad in result.bad] == ["an entry that is not whole"]


def test_a_text_entry_has_its_types_and_no_ambiguous_body(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text(text_entry("ÿ") + text_entry("€") + text_entry("x", "received", "Queue:        q\n"))
    assert TracingText().recognises(path.read_bytes(), path)
    first, second = read(TracingText(), path).records
    assert (first.has_body, first.size, second.message.body) == (False, None, "€".encode())
    assert first.message.headers["t"] == Typed("timestamp", 9)
    assert str(first.message.headers["d"]) == "1.25"
    assert first.message.headers["BCC"] == ["ü"]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("[]", []),
        ('[<<"a">>, <<255,1>>,<<>>]', [b"a", b"\xff\x01", b""]),
        ('{a,-1,1.5e3,"s"}', (ParsedAtom("a"), -1, 1500.0, "s")),
        (r'<<"q\"\\\n\x{e4}\000">>', b'q"\\\n\xe4\0'),
        ('<<"größe">>', "größe".encode("latin-1")),
        ('<<"größe"/utf8>>', "größe".encode()),
        ("'Q a'", ParsedAtom("Q a")),
    ],
)
def test_terms_are_read_as_erlang_prints_them(text: str, term: Any) -> None:
    assert parse(text) == term


@FILES
@given(st.text('[]{}<>"\\,a1 /utf8\nü', max_size=12))
def test_bad_terms_raise_input_errors_only(text: str) -> None:
    with suppress(InputError):
        parse(text)


@pytest.mark.parametrize(
    ("exchange", "keys", "body", "read_as"),
    [
        # 3.10
        ("ordør".encode(), '[<<"a.ü">>,<<195,159>>]'.encode(), "€".encode(), ("ordør", ["a.ü", "ß"], "€".encode())),
        (b"o", b'[<<"\xfc">>]', b"\xff", ("o", ["\udcfc"], None)),
        # 4.0
        (b"ord\xf8r", b'[<<"a.\xfc"/utf8>>,<<"\xfc">>]', b"\xff", ("ordør", ["a.ü", "\udcfc"], None)),
        (b"ord\xf8r", b'[<<"a">>]', b"\xfc", ("ordør", ["a"], None)),
        (b"\xc3\xbc", b'[<<"\xfc"/utf8>>]', b"", ("\u00c3\u00bc", ["ü"], b"")),
        # 4.3
        ("ordør".encode(), '[<<"€"/utf8>>,<<"ü">>]'.encode(), "ü".encode(), ("ordør", ["€", "\udcfc"], None)),
        ("ordør".encode(), b'[<<"a">>]', "€".encode(), ("ordør", ["a"], "€".encode())),
    ],
)
def test_text_beyond_ascii_is_read_as_each_broker_writes_it(
    tmp_path: Path, exchange: bytes, keys: bytes, body: bytes, read_as: tuple[str, list[str], bytes | None]
) -> None:
    path = tmp_path / "t.log"
    entry = text_entry("body").encode().replace(b"     orders\n", b"     %s\n" % exchange)
    entry = entry.replace('[<<"a.c">>,\n               <<"ü"/utf8>>]'.encode(), keys)
    path.write_bytes(entry.replace(b"Payload: \nbody\n", b"Payload: \n%s\n" % body))
    result = read(TracingText(), path)
    assert not result.bad
    (record,) = result.records
    body_read = record.message.body if record.has_body else None
    assert (record.message.exchange, list(record.message.routing_keys()), body_read) == read_as


def test_a_firehose_capture_in_json_lines_is_unwrapped(tmp_path: Path) -> None:
    headers = {
        "exchange_name": "orders", "routing_keys": ["a.c", "b.1", "a.x"], "vhost": "/", "node": "n",
        "properties": {"priority": 5, "headers": {"CC": ["b.1"], "n": 1}}, "routed_queues": ["q1"],
    }  # fmt: skip
    line = {
        "exchange": "amq.rabbitmq.trace",
        "headers": headers,
        "body": {"!bytes": "/2JvZHk="},
        "timestamp": TIME / 1e6,
    }
    path = tmp_path / "f.jsonl"
    keys = ("publish.orders", "deliver.q1", "other")
    path.write_text("".join(json.dumps(line | {"routing_key": key}) + "\n" for key in keys))
    result = read(JsonLines(), path)
    assert [facts(r) for r in result.records] == [facts(Record(MESSAGE, TIME, "/", 5, True, ("q1",), str(path), 0))]
    assert (len(result.bad), list(result.skipped.values())) == (1, [1])
    with pytest.raises(InputError):
        unwrap(Message("amq.rabbitmq.trace", "publish.x", {"exchange_name": 1}))


RABTAP: dict[str, Any] = {
    "Headers": {"h": "v", "n": 1}, "ContentType": "", "DeliveryMode": 2, "Priority": 0, "MessageID": "m",
    "Timestamp": "2019-06-13T17:45:01Z", "DeliveryTag": 1, "Redelivered": False, "Exchange": "x", "RoutingKey": "k",
    "XRabtapReceivedTimestamp": "2019-12-29T21:51:33.52288901+01:00", "Body": "SGVsbG8=",
}  # fmt: skip


def test_rabtap_saves_objects_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "rabtap-1.json"
    broken = json.dumps(RABTAP | {"Body": "?"})
    path.write_text(json.dumps(RABTAP, indent=2) + "\n" + broken + "\n{]\n" + json.dumps(RABTAP) + '\n{"Exch')
    assert Rabtap().recognises(path.read_bytes(), path)
    result = read(Rabtap(), path)
    message = Message(
        "x",
        "k",
        {"h": "v", "n": 1},
        {"delivery_mode": 2, "message_id": "m", "timestamp": Typed("timestamp", 1560447901)},
        b"Hello",
    )
    assert [facts(r, origin=False) for r in result.records] == [
        facts(Record(message, 1_577_652_693_522_889, None, 5), origin=False)
    ] * 2
    assert [bad.reason.partition(":")[0] for bad in result.bad] == [
        "Body is not base64", "not JSON", "the file ends in the middle of an object",
    ]  # fmt: skip


def test_rabtaps_raw_files_have_their_body_beside_them(tmp_path: Path) -> None:
    (tmp_path / "rabtap-1.json").write_text(json.dumps({k: v for k, v in RABTAP.items() if k != "Body"}))
    (tmp_path / "rabtap-1.dat").write_bytes(b"raw")
    assert Rabtap().is_companion("rabtap-1.dat", "", ["rabtap-1.json"].__contains__)
    assert [r.message.body for r in read(Rabtap(), tmp_path / "rabtap-1.json").records] == [b"raw"]


def test_a_dumped_message_has_its_body_beside_it_and_empty_names_left_out(tmp_path: Path) -> None:
    path = tmp_path / "msg-0000-headers+properties.json"
    properties = {"delivery_mode": 2, "priority": 0, "routing_key": "q", "timestamp": "2026-11-21 06:28:37 +0000 UTC"}
    path.write_text(json.dumps({"properties": properties, "headers": {"h": "v"}}, indent=2))
    (tmp_path / "msg-0000").write_bytes(b"body")
    assert QueueDump().recognises(path.read_bytes(), path)
    assert QueueDump().is_companion("msg-0000", "", [path.name].__contains__)
    (record,) = read(QueueDump(), path).records
    assert (record.message.exchange, record.message.routing_key, record.message.body) == ("", "q", b"body")
    assert record.time == 1_795_242_517_000_000


def test_connect_pairs_values_with_keys_and_headers(tmp_path: Path) -> None:
    name = "orders+3+0000000010"
    (tmp_path / f"{name}.json").write_text('{"v":1}\n{"v":2}\n{"v":3}\n')
    (tmp_path / f"{name}.keys.json").write_text('"k1"\n{"id":2}\n')
    (tmp_path / f"{name}.headers.json").write_text('[{"key":"rk","value":"a.b"}]\n[]\n[]\n')
    path = tmp_path / f"{name}.json"
    assert Connect().recognises(path.read_bytes(), path)
    assert Connect().is_companion(f"{name}.keys.json", "", [path.name].__contains__)
    result = read(Connect(), path)
    assert [(r.message.exchange, r.message.routing_key, r.message.body, r.offset) for r in result.records] == [
        ("orders", "k1", b'{"v":1}', 10),
        ("orders", '{"id":2}', b'{"v":2}', 11),
    ]
    assert [(bad.offset, bad.reason) for bad in result.bad] == [
        (12, "the file of keys has fewer records than that of values")
    ]
    by_header = read(Connect(FieldMapping(routing_key="header:rk")), path)
    assert [r.message.routing_key for r in by_header.records] == ["a.b"]


@pytest.mark.parametrize("long", [".json", ".keys.json"])
def test_a_line_that_is_too_long_costs_its_own_record_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    monkeypatch.setattr("bindings.archive.reading.RECORD_BYTES", 1 << 20)
    for suffix in (".json", ".keys.json"):
        middle = "x" * (4 << 20) if suffix == long else "2"
        (tmp_path / f"orders+3+0000000010{suffix}").write_text(f'"1"\n"{middle}"\n"3"\n')
    result = read(Connect(), tmp_path / "orders+3+0000000010.json")
    assert [(r.message.routing_key, r.message.body, r.offset) for r in result.records] == [
        ("1", b'"1"', 10), ("3", b'"3"', 12),
    ]  # fmt: skip
    assert len(result.bad) == 1


def test_values_with_exchange_and_key_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "orders+3+0000000010.json"
    path.write_text('{"exchange":"x","routing_key":"a"}\n')
    assert not Connect().recognises(path.read_bytes(), path)


def test_a_null_key_of_connect_is_no_key_and_an_unknown_one_is_bad(tmp_path: Path) -> None:
    """Without a file of keys they are unknown."""
    for name in ("orders+0+0", "unknown+0+0"):
        (tmp_path / f"{name}.json").write_text('{"a":1}\n{"b":2}\n')
    (tmp_path / "orders+0+0.keys.json").write_text('null\n"k"\n')
    found = read(Connect(), tmp_path / "orders+0+0.json")
    assert ([record.message.routing_key for record in found.records], found.bad) == (["", "k"], [])
    assert len(read(Connect(), tmp_path / "unknown+0+0.json").bad) == 2
