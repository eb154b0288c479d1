"""Whole columns are routed as their messages are one by one: any topology, any array, any headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import PROFILES, Binding, BrokerError, Exchange, InputError, Message, Profile, Queue, Router, Topology
from exchange.arrays import grouping
from exchange.arrays.columns import build_bytes_column
from exchange.partition.batch import UNDECIDED
from exchange.partition.partitioning.specification import Partitioning
from exchange.patterns.columns import pattern_sets, signatures
from exchange.routing.columns import column_router, key_classes
from exchange.routing.columns.outcomes import Outcomes
from exchange.routing.columns.route_columns import RouteColumns
from exchange.routing.route import Route
from exchange.values.field_json import encode_table
from tests.support import topologies
from tests.support.tiers import examples

PROFILE = st.sampled_from(list(PROFILES.values()))
SEED = st.integers(0, 2**32)


def seeded(seed: int) -> Callable[[int], int]:
    return Random(seed).randrange


def answers(router: Router, messages: Sequence[Message]) -> list[Route | str]:
    found: list[Route | str] = []
    for message in messages:
        try:
            found.append(router.route(message))
        except BrokerError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def answers_in(columns: RouteColumns) -> list[Route | str]:
    found: list[Route | str] = []
    for row in range(len(columns)):
        try:
            found.append(columns[row])
        except BrokerError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def encodable(message: Message) -> bool:
    """Return whether the column types take the message: headers and properties that JSON can hold."""
    try:
        for table in (message.headers, message.properties):
            json.dumps(encode_table(table), ensure_ascii=False).encode()
    except (ValueError, TypeError):
        return False
    return True


@examples(60)
@given(
    SEED,
    PROFILE,
    st.sampled_from([0, 20, 4096]),
    st.sampled_from([0, 1, 1024]),
    st.sampled_from([0, 2, 1 << 19]),
    st.integers(1, 60),
)
def test_a_column_has_the_routes_of_its_messages(
    seed: int, profile: Profile, conjunctions: int, literals: int, sets: int, chunk: int
) -> None:
    """With headers, properties, CC, alternates, cycles, hashes, refusals, and the same random draws in the order of rows."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    made = [topologies.message(rng, topology) for _ in range(30)]
    made += [Message(rng.choice(["nowhere", "amq.rabbitmq.trace", "x0", ""]), "a.b") for _ in range(3)]
    messages = [m for m in [*made, *rng.choices(made, k=30)] if encodable(m)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_sets, "MAX_CONJUNCTIONS", conjunctions)
        patch.setattr(key_classes, "FEW_LITERALS", literals)
        patch.setattr(column_router, "SETS", sets)
        patch.setattr(grouping, "CHUNK", 7)
        patch.setattr(signatures, "BLOCK_SIGNATURES", 3)
        patch.setattr(signatures, "WAITING", 5)
        router = Router(topology, choose=seeded(seed))
        for part in (messages[:chunk], messages[chunk:], messages):
            exchanges = [m.exchange.encode("utf-8", "surrogateescape") for m in part]
            keys = [m.routing_key.encode("utf-8", "surrogateescape") for m in part]
            headers = [json.dumps(encode_table(m.headers), ensure_ascii=False) for m in part]
            properties = [json.dumps(encode_table(m.properties), ensure_ascii=False) for m in part]
            state = seeded(seed)
            router = Router(topology, choose=state)
            columns = pa.array(exchanges, pa.binary()), pa.array(keys, pa.binary())
            found = router.route_columns(*columns, headers, properties)
            assert answers_in(found) == answers(Router(topology, choose=seeded(seed)), part)
            assert len(set(found.routes) - {Route(())}) == len([r for r in found.routes if r != Route(())])
            assert len(found.routes) == len(set(found.index.tolist()))


TOPOLOGY = Topology(
    [Exchange("orders", "topic"), Exchange("docs", "headers")],
    [Queue("a"), Queue("b"), Queue("c")],
    [
        Binding.to_queue("orders", "a", "order.*"),
        Binding.to_queue("orders", "b", "order.eu"),
        Binding.to_queue("docs", "c", "", {"format": "pdf", "pages": 3}),
    ],
)
KEYS = ["x", "order.eu", "order.us", "", "order.eu", "order.é"]
ROUTES = [Route(()), Route(("a", "b")), Route(("a",)), Route(()), Route(("a", "b")), Route(("a",))]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_keys_may_be_of_any_type_of_text(kind: pa.DataType) -> None:
    """Plain, dictionary-encoded, sliced, in chunks, and as the dictionary of a slice."""
    plain = pa.array([key.encode() for key in KEYS]).cast(pa.string()).cast(kind)
    router = Router(TOPOLOGY)
    assert list(router.route_columns("orders", plain)) == ROUTES
    assert list(router.route_columns("orders", plain.slice(2))) == ROUTES[2:]
    chunks = pa.chunked_array([plain.slice(0, 1), plain.slice(0, 0), plain.slice(1, 4), plain.slice(5)])
    assert list(router.route_columns("orders", chunks)) == ROUTES
    coded = pa.DictionaryArray.from_arrays(pa.array([5, 1, 0, 1], pa.int8()), plain).slice(1)
    assert list(router.route_columns("orders", coded)) == [ROUTES[1], ROUTES[0], ROUTES[1]]
    many = pa.chunked_array([plain] * 50)
    assert list(router.route_columns("orders", many)) == ROUTES * 50
    assert len(router.route_columns("orders", plain.slice(0, 0))) == 0


def test_columns_of_other_libraries_are_taken_and_given() -> None:
    """Polars, DuckDB and pandas, by the PyCapsule interface."""
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    router = Router(TOPOLOGY)
    frame = polars.DataFrame({"key": KEYS, "exchange": ["orders"] * 6})
    found = router.route_columns(frame["exchange"], frame["key"])
    assert list(found) == ROUTES
    given = polars.DataFrame(found)
    assert given["queues"].to_list() == [list(route.queues) for route in ROUTES]
    assert given["outcome"].to_list() == found.index.tolist()
    assert list(router.route_columns("orders", frame["key"].cast(polars.Categorical))) == ROUTES
    for dtype in (object, "string", "category", pandas.ArrowDtype(pa.string())):
        assert list(router.route_columns("orders", pandas.Series(KEYS, range(6, 0, -1), dtype))) == ROUTES
    assert list(router.route_columns("orders", np.array(KEYS))) == ROUTES
    for missing in (None, float("nan")):
        with pytest.raises(InputError, match="row 1 has no routing key"):
            router.route_columns("orders", pandas.Series(["order", missing]))
    taken = pa.table(found).to_pandas(types_mapper=pandas.ArrowDtype)
    assert taken["queues"].tolist() == [list(route.queues) for route in ROUTES]
    assert list(router.route_columns("orders", duckdb.sql("select key from frame"))) == ROUTES
    table = pa.table(found)
    assert duckdb.from_arrow(table).project("queues").fetchall() == [(list(route.queues),) for route in ROUTES]
    assert pa.array(found).to_pylist()[1] == {
        "outcome": int(found.index[1]),
        "queues": ["a", "b"],
        "undecided": [],
        "error": None,
    }


HEADERS: list[dict[str, Any]] = [{"format": "pdf", "pages": 3}, {"format": "pdf"}, {}, {"format": "pdf", "pages": 4}]
PLAIN_ROUTES = [Route(("c",)), Route(()), Route(()), Route(())]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(HEADERS),
        pa.array([json.dumps(each) for each in HEADERS]),
        pa.array([json.dumps(each) for each in HEADERS]).dictionary_encode(),
        pa.array(
            [
                [(k, {"type": "long" if k == "pages" else "longstr", "value": str(v)}) for k, v in h.items()]
                for h in HEADERS
            ],
            pa.map_(pa.string(), pa.struct([pa.field("type", pa.string(), nullable=False), ("value", pa.string())])),
        ),
    ],
    ids=["struct", "json", "coded json", "archive"],
)
def test_headers_may_be_structs_maps_or_json(column: pa.Array) -> None:
    router = Router(TOPOLOGY)
    keys = ["k"] * 4
    assert list(router.route_columns("docs", keys, column)) == PLAIN_ROUTES
    assert list(router.route_columns("docs", keys[1:], column.slice(1))) == PLAIN_ROUTES[1:]
    chunked = pa.chunked_array([column.slice(0, 3), column.slice(3)])
    assert list(router.route_columns(["docs"] * 4, keys, chunked)) == PLAIN_ROUTES


def test_maps_of_one_type_and_lists_of_pairs_are_headers() -> None:
    topology = Topology([Exchange("h", "headers")], [Queue("q")], [Binding.to_queue("h", "q", "", {"x": "1"})])
    router = Router(topology)
    pairs = [[("x", "1")], [("x", "2"), ("x", "1")], [("y", "1")], None]
    wanted = [("q",), ("q",), (), ()]
    column = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    assert [route.queues for route in router.route_columns("h", ["k"] * 4, column)] == wanted
    listed = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in pairs]
    assert [route.queues for route in router.route_columns("h", ["k"] * 4, pa.array(listed))] == wanted


def test_a_name_without_a_value_in_a_map_is_a_header_without_one() -> None:
    """It is there, which is all that a binding without a value asks for."""
    absent = "absent"
    rows = [
        {name: value for name, value in (("x", x), ("y", y)) if value != absent}
        for x, y in product((absent, None, "1"), (absent, None, "2"))
    ]
    bindings = [
        Binding.to_queue("h", f"{mode}{number}", "", {"x-match": mode, **asked})
        for number, asked in enumerate(rows)
        for mode in ("all", "any")
    ]
    queues = [Queue(binding.destination.name) for binding in bindings]
    router = Router(Topology([Exchange("h", "headers")], queues, bindings))
    rows += [*rows[5:], *rows[:7]]
    column = pa.array([[*row.items()] for row in rows], pa.map_(pa.string(), pa.string()))
    found = router.route_columns("h", ["k"] * len(rows), column)
    assert list(found) == [router.route(Message("h", "k", row)) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("orders", ["a", None]), "row 1 has no routing key"),
        (("orders", pa.chunked_array([["a"], ["b", None]])), "row 2 has no routing key"),
        (
            ("orders", pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))),
            "row 1 has no routing key",
        ),
        (("orders", pa.array([1, 2])), "a routing key is a text or bytes, not Arrow's int64"),
        ((["orders"], ["a", "b"]), "1 exchanges for 2 routing keys"),
        (([None, "orders"], ["a", "b"]), "row 0 has no exchange"),
        (("orders", ["a", "a.\ud800"]), "row 1 has half of a surrogate pair"),
        (("h", ["a"] * 3, ["{}", "{}", '{"a": 1']), "row 2: headers: Expecting"),
        (("h", ["a"] * 2, ["{}", "[]"]), "row 1: headers"),
        (("h", ["a"] * 3, [None, "{}", '{"a": NaN}']), "row 2: headers: not JSON: a number that it does not have"),
        (("h", ["a"] * 2, ["{}", '{"a": 1, "a": 2}']), "row 1: headers: a name that is twice"),
        (("ids", ["a"] * 2, None, ["{}", '{"messageid": "4711"}']), "row 1: properties: AMQP has no property"),
        (("ids", ["a"] * 2, None, ["{}", '{"message_id": 4711}']), "row 1: properties: 4711 is no shortstr"),
        (("ids", ["a"], None, [{"message_id": 4711}]), "row 0: properties: 4711 is no shortstr"),
        (("orders", ["a"], [1]), "headers are structs, maps or JSON, not Arrow's int64"),
        (("orders", ["a"], [{"x": 1}, {"x": 2}]), "2 tables of headers for 1 routing keys"),
        (("orders", 5), "a column of Arrow or a sequence is needed, not int"),
        (("orders", "a.b"), "a column of Arrow or a sequence is needed, not str"),
    ],
)
def test_columns_that_cannot_be_routed_are_refused(arguments: tuple[Any, ...], problem: str) -> None:
    by_headers, by_id = (
        Exchange("h", "headers"),
        Exchange("ids", "x-consistent-hash", arguments={"hash-property": "message_id"}),
    )
    bound = Topology(
        [*TOPOLOGY.exchanges.values(), by_headers, by_id],
        TOPOLOGY.queues.values(),
        [*TOPOLOGY.bindings, Binding.to_queue("h", "a", "", {"a": 1}), Binding.to_queue("ids", "a", "1")],
    )
    with pytest.raises(InputError, match=problem.replace("[", r"\[")) as refused:
        Router(bound).route_columns(*arguments)
    assert type(refused.value) is InputError


def test_refusals_are_raised_for_one_exchange_and_kept_for_many() -> None:
    router = Router(TOPOLOGY)
    with pytest.raises(BrokerError, match="no exchange 'nowhere'"):
        router.route_columns("nowhere", ["a"])
    found = router.route_columns(["orders", "nowhere"], ["order.eu", "a"])
    assert found[0] == ROUTES[1]
    with pytest.raises(BrokerError, match="no exchange 'nowhere'"):
        found[1]
    assert [str(error) for error in found.errors.values()] == ["404 NOT_FOUND - no exchange 'nowhere' in vhost '/'"]
    assert found.outcomes.field("error").to_pylist().count(None) == 1
    assert "1 of them refused" in repr(found)


def test_columns_follow_the_changes_of_a_router() -> None:
    router = Router(TOPOLOGY)
    assert router.route_columns("orders", ["order.eu"])[0].queues == ("a", "b")
    router.bind(Binding.to_queue("orders", "c", "order.#"))
    assert router.route_columns("orders", ["order.eu"])[0].queues == ("a", "b", "c")
    router.delete_queue("a")
    assert router.route_columns("orders", ["order.eu"])[0].queues == ("b", "c")


def test_many_literal_bindings_have_few_classes() -> None:
    """Keys that lead to the same queues are one class, however many bindings there are."""
    bindings = [Binding.to_queue("amq.direct", f"q{n % 3}", f"device.{n}") for n in range(3_000)]
    router = Router(Topology([], [Queue(f"q{n}") for n in range(3)], bindings))
    found = router.route_columns("amq.direct", [f"device.{n}" for n in range(4_000)])
    assert [route.queues for route in found] == [(f"q{n % 3}",) if n < 3_000 else () for n in range(4_000)]
    assert len(found.routes) == 4
    assert sorted(found.counts().tolist()) == [1_000] * 4


@examples(60)
@given(SEED, PROFILE, st.sampled_from([0, 1, 1024]), st.sampled_from([0, 2, 1 << 19]))
def test_a_column_of_one_exchange_has_the_routes_of_its_keys(
    seed: int, profile: Profile, literals: int, sets: int
) -> None:
    """Also beyond the limit of sets, and again, when all was forgotten."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    keys = [m.routing_key for m in (topologies.message(rng, topology) for _ in range(25)) if encodable(m)] * 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_classes, "FEW_LITERALS", literals)
        patch.setattr(column_router, "SETS", sets)
        patch.setattr(grouping, "CHUNK", 7)
        patch.setattr(signatures, "BLOCK_SIGNATURES", 3)
        patch.setattr(signatures, "WAITING", 5)
        router = Router(topology, choose=seeded(seed))
        plain = Router(topology, choose=seeded(seed))
        column = pa.array([key.encode("utf-8", "surrogateescape") for key in keys], pa.binary())
        for name, exchange in topology.exchanges.items():
            for _ in range(2):
                if not exchange.internal:
                    found = answers_in(router.route_columns(name, column))
                    assert found == answers(plain, [Message(name, key) for key in keys]), name


@pytest.mark.parametrize("sets", [10, 1 << 19])
def test_each_key_of_one_exchange_may_have_an_outcome_of_its_own(sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default exchange has more literal keys than are matched as patterns, and that concerns no other exchange."""
    monkeypatch.setattr(column_router, "SETS", sets)
    rng = Random(7)
    words = [f"w{n}" for n in range(12)]
    patterns = sorted({".".join(rng.choice([*words, "*", "*", "#"]) for _ in range(3)) for _ in range(1_100)})
    bindings = [Binding.to_queue("amq.topic", f"q{n}", pattern) for n, pattern in enumerate(patterns)]
    router = Router(Topology([], [Queue(f"q{n}") for n in range(len(patterns))], bindings))
    keys = [".".join(rng.choices(words, k=rng.randint(0, 5))) for _ in range(3_000)] + ["q7"]
    found = router.route_columns("amq.topic", keys)
    assert list(found) == [router.route(Message("amq.topic", key)) for key in keys]
    assert list(found) == [found[row] for row in range(len(keys))] == found[:]
    assert len(set(found.routes)) == len(found.routes) > 1_000
    table = pa.table(found)
    assert table["queues"].to_pylist() == [list(route.queues) for route in found]
    by_name = router.route_columns(["", "amq.topic", "nowhere", "amq.topic"], ["q7", keys[0], "k", keys[1]])
    assert answers_in(by_name)[:2] == [Route(("q7",)), found[0]]
    assert answers_in(by_name)[3] == found[1]


def test_an_outcome_whose_number_is_too_large_for_a_key_class_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its bits would be those of another exchange."""
    monkeypatch.setattr(key_classes, "MAX_PATTERN_SET", 2)
    queues = [Queue(name) for name in "abc"]
    topology = Topology([], queues, [Binding.to_queue("amq.topic", name, f"{name}.#") for name in "abc"])
    outcomes = Outcomes(topology.queues, column_router.SETS)
    for name in "abc":  # as another exchange gives them
        outcomes.number(Route((name,)))
    keys = key_classes.KeyClasses(topology, str.encode, column_router.SETS, outcomes)
    entry = next(at for at, each in enumerate(keys.entries) if each.name == "amq.topic")
    assert keys.entries[entry].direct
    found, _ = keys.classify(build_bytes_column([b"a.x", b"b.x", b"c.x"]), np.full(3, entry, np.int64))
    assert [keys.outcome_of(each) for each in found.tolist()[:2]] == [1, 2]
    assert found.tolist()[2] == key_classes.NO_CLASS


def test_partitions_of_partitioned_queues_are_columns_too() -> None:
    text = "kafka.murmur2 over 12 by {}"
    queues = [
        Queue("key", partitioning=Partitioning.parse(text.format("routing_key"))),
        Queue("word", partitioning=Partitioning.parse(text.format("word 2"))),
        Queue("header", partitioning=Partitioning.parse(text.format('header "user"'))),
    ]
    bindings = [Binding.to_queue("amq.topic", queue.name, "order.#") for queue in queues]
    router = Router(Topology([], queues, bindings))
    keys = [f"order.{n}.created" for n in range(30)] + ["other"]
    headers = [{"user": f"u{n % 7}"} for n in range(31)]
    found = router.route_columns("amq.topic", keys, headers)
    routes = [router.route(Message("amq.topic", key, table)) for key, table in zip(keys, headers, strict=True)]
    assert [route.queues for route in found] == [route.queues for route in routes]
    for queue in ("key", "word", "header"):
        placed = [{p.queue: p.partition for p in route.placements}.get(queue, UNDECIDED) for route in routes]
        assert found.partitions(queue).tolist() == placed
    with pytest.raises(InputError, match="queue 'none' is not partitioned"):
        found.partitions("none")
