"""What Spark's workers answer for columns of rows is what the router says of each message; no Spark is needed here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.fields import TABLE
from bindings.archive.record import SCHEMA, build_batch
from bindings.auditing.local.selection import OTHER_VHOST
from bindings.counts.columnar.counting import Tallier
from bindings.spark.answers import ANSWER, RoutingSetup, RowRouter, build_function, join_batches
from exchange import PROFILES, Binding, BrokerError, Exchange, Message, Profile, Queue, Router, Topology
from exchange.kinds import Decider, find_kind
from exchange.partition.partitioning.specification import Partitioning
from tests.support.archives.lines import records_for, topology_for
from tests.support.tiers import examples

NAMES = ("exchange", "routing_key", "headers", "properties", "body", "vhost", "cc", "bcc")


def make_router(topology: Topology, names: Sequence[str] = NAMES, **places: str) -> RowRouter:
    decide = ("vhost", *[name for name in Tallier(topology).columns if name not in ("exchange", "routing_key", "time")])
    return RowRouter(RoutingSetup(topology, decide, tuple(names), {name: name for name in names} | places))


def give_by_spark(column: pa.Array) -> pa.Array:
    """Return a column as Spark hands it over: it knows no field of a map's values that cannot be null."""
    if column.type != TABLE:
        return column
    fields = pa.StructArray.from_arrays(column.items.flatten(), names=["type", "value"])
    return pa.MapArray.from_arrays(column.offsets, column.keys, fields)


def expect(router: Router, message: Message) -> dict[str, Any]:
    try:
        route = router.route(message)
    except BrokerError as error:
        return {"queues": [], "partitions": [], "unroutable": True, "error": str(error)}
    names = [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in route.queues]
    placed = [(each.queue, each.partition) for each in route.placements]
    return {"queues": names, "partitions": sorted(placed), "unroutable": route.unroutable, "error": None}


def rows_of(answers: pa.Array) -> list[dict[str, Any]]:
    assert answers.type == ANSWER
    answers.validate(full=True)
    rows: list[dict[str, Any]] = answers.to_pylist()
    return [row | {"partitions": sorted(row["partitions"])} for row in rows]


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())))
def test_each_row_has_the_answer_of_the_router(seed: int, profile: Profile) -> None:
    """With headers, properties, CC, hashes, partitions, refusals, and names that are not UTF-8."""
    rng = Random(seed)
    topology = topology_for(rng, profile)
    exchanges = [each for each in topology.exchanges.values() if find_kind(each).decider is not Decider.CHANCE]
    names = {each.name for each in exchanges}
    topology = Topology(
        exchanges, topology.queues.values(),
        [each for each in topology.bindings if each.source in names and (
            each.destination.kind == "queue" or each.destination.name in names)],
        topology.policies.values(), vhost=topology.vhost, profile=profile,
    )  # fmt: skip
    records = records_for(rng, topology, 20)
    batch = build_batch(records)
    columns = [batch.column(name) for name in NAMES]
    answers = rows_of(make_router(topology).answer(columns))
    assert rows_of(make_router(topology).answer([*map(give_by_spark, columns)])) == answers
    router = Router(topology)
    for record, answer in zip(records, answers, strict=True):
        if record.vhost not in (None, topology.vhost):
            assert answer == {"queues": None, "partitions": [], "unroutable": None, "error": OTHER_VHOST}
        else:
            assert answer == expect(router, record.message), record


BODY = b'{"k": "x"}'
TEXT = st.sampled_from(["a", "b", "", "1"])
HEADERS = st.dictionaries(st.sampled_from(["h", "k"]), TEXT)
TOPOLOGY = Topology(
    [Exchange("orders", "topic"), Exchange("docs", "headers")],
    [Queue("a"), Queue("b", partitioning=Partitioning.parse('kafka.murmur2 over 4 by header "h"'))],
    [
        Binding.to_queue("orders", "a", "order.*"), Binding.to_queue("orders", "b", "#.eu"),
        Binding.to_queue("docs", "b", "", {"x-match": "any", "h": "a", "k": "b"}),
        Binding.to_queue("docs", "a", "", {"h": "a"}),
    ],
)  # fmt: skip


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from(["orders", "docs", "none"]), st.sampled_from(["order.eu", "x", ""]), HEADERS))
)
def test_headers_of_any_form_decide_alike(rows: list[tuple[str, str, dict[str, str]]]) -> None:
    """As a map, as JSON, as a struct, and within JSON: each message has the answer of the router."""
    router = Router(TOPOLOGY)
    expected = [expect(router, Message(*row)) for row in rows]
    tables = [headers for _, _, headers in rows]
    forms: list[tuple[pa.Array, str]] = [
        (pa.array([list(each.items()) for each in tables], pa.map_(pa.string(), pa.string())), "headers"),
        (pa.array([json.dumps(each) for each in tables], pa.string()), "headers"),
        (pa.array(tables, pa.struct([("h", pa.string()), ("k", pa.string())])), "headers"),
        (pa.array([json.dumps({"all": each}) for each in tables], pa.string()), "headers.all"),
    ]
    for column, place in forms:
        made = make_router(TOPOLOGY, NAMES[:3], headers=place)
        columns = [pa.array([row[at] for row in rows], pa.string()) for at in (0, 1)]
        assert rows_of(made.answer([*columns, column])) == expected


def answer(names: Sequence[str], columns: Sequence[pa.Array], topology: Topology = TOPOLOGY, **places: str) -> Any:
    return make_router(topology, names, **places).answer(columns).to_pylist()


def text(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.string())


def test_a_row_that_is_no_message_has_the_reason_and_the_others_their_answers() -> None:
    headers = text('{"h": "a"}', "{", "{}", "{}")
    found = answer(NAMES[:3], [text("docs", "docs", None, "docs"), text("", "", "", ""), headers])
    assert [row["queues"] for row in found] == [["a", "b"], None, None, []]
    assert [row["unroutable"] for row in found] == [False, None, None, True]
    assert found[1]["error"].startswith("headers are a text, but not JSON")
    assert found[2]["error"] == "no exchange or no routing key"


def test_the_exchange_may_be_a_constant_and_bytes_need_not_be_utf_8() -> None:
    binding = Binding.to_queue("orders", "a", "\udcff.*")
    topology = Topology([Exchange("orders", "topic")], [Queue("a")], [binding])
    for keys in (pa.array([b"\xff.x", b"\xfe.x"]), text("\0ff.x", "\0fe.x")):
        found = answer(["routing_key"], [keys], topology, exchange="=orders")
        assert [row["queues"] for row in found] == [["a"], []]


@pytest.mark.parametrize("key", [b"x", b"\xff"], ids=["columns", "one by one"])
def test_names_that_are_not_utf_8_are_shown_with_a_replacement(key: bytes) -> None:
    queue = Queue("q\udcff", partitioning=Partitioning.parse("kafka.murmur2 over 1 by word 1"))
    topology = Topology([Exchange("e\udcff", "fanout")], [queue], [Binding.to_queue("e\udcff", "q\udcff")])
    exchanges, keys = pa.array([b"e\xff", b"n\xff"]), pa.array([key, key])
    routed, refused = answer(NAMES[:2], [exchanges, keys], topology)
    assert (routed["queues"], routed["partitions"], routed["error"]) == (["q\ufffd"], [("q\ufffd", 0)], None)
    assert refused["error"] == "404 NOT_FOUND - no exchange 'n\\udcff' in vhost '/'"


def test_a_partition_that_follows_from_a_body_is_unknown_without_bodies() -> None:
    queue = Queue("q", partitioning=Partitioning.parse('kafka.murmur2 over 4 by body "/k"'))
    topology = Topology([], [queue])
    columns: list[pa.Array] = [text(""), text("q")]
    [known] = answer((*NAMES[:2], "body"), [*columns, pa.array([BODY])], topology)
    [unknown] = answer((*NAMES[:2], "body"), columns, topology)
    partition = Router(topology).route(Message("", "q", body=BODY)).placements[0].partition
    assert (known["partitions"], unknown["partitions"]) == ([("q", partition)], [("q", None)])


def test_no_rows_have_no_answers() -> None:
    assert answer(NAMES[:3], [text(), text(), pa.array([], SCHEMA.field("headers").type)]) == []


@examples(60)
@given(st.lists(st.lists(TEXT, max_size=5), max_size=6), st.integers(1, 8), st.integers(1, 60))
def test_rows_are_answered_in_their_order_however_many_come_at_once(
    batches: list[list[str]], rows: int, size: int
) -> None:
    columns = [(pa.array(["orders"] * len(keys), pa.string()), pa.array(keys, pa.string())) for keys in batches]
    joined = [*join_batches(columns, rows, size)]
    assert [key for _, each in joined for key in each.to_pylist()] == [key for keys in batches for key in keys]
    for exchanges, keys in joined[:-1]:
        assert len(keys) >= rows or exchanges.nbytes + keys.nbytes >= size
    names = ("exchange", "routing_key")
    setup = RoutingSetup(TOPOLOGY, (), names, {name: name for name in names})
    answers = [answer for each in build_function(setup)(iter(columns)) for answer in each.to_pylist()]
    assert answers == [answer for each in columns for answer in RowRouter(setup).answer(each).to_pylist()]
    keys_alone = setup._replace(names=names[1:], places={"exchange": "=orders", "routing_key": "routing_key"})
    assert answers == [
        a for each in build_function(keys_alone)(iter([keys for _, keys in columns])) for a in each.to_pylist()
    ]
