"""Fields of Avro's values: as fastavro, which writes them here, reads them; and no body costs more than its bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.registry import avro
from bridge.registry.avro import compile_schema, find_in_avro
from exchange.partition.partitioning.key_source import EncodedBody, KeySource
from exchange.values.message import Message
from tests.support.tiers import examples

NAMES = st.sampled_from(["id", "a", "b/c", "~", "0", "1"])
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=9),
    "string": st.text(max_size=9),
}
FIELDS = st.sampled_from(["id", "a", "b_c", "_"])


@st.composite
def schemas(draw: st.DrawFn, names: Iterator[str], levels: int) -> tuple[Any, st.SearchStrategy[Any]]:
    """Return a schema, and its values as fastavro takes them."""
    kinds = [*PRIMITIVES, *(["record", "array", "map", "enum", "fixed", "union"] if levels else [])]
    kind = draw(st.sampled_from(kinds))
    if kind in PRIMITIVES:
        return draw(st.sampled_from([kind, {"type": kind}])), PRIMITIVES[kind]
    inner = schemas(names, levels - 1)
    if kind == "array":
        items, values = draw(inner)
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if kind == "map":
        items, values = draw(inner)
        return {"type": "map", "values": items}, st.dictionaries(NAMES, values, max_size=3)
    if kind == "enum":
        return {"type": "enum", "name": next(names), "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])
    if kind == "fixed":
        return {"type": "fixed", "name": next(names), "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "union":
        other, values = draw(inner.filter(lambda each: not isinstance(each[0], list) and each[0] != "null"))
        other = other if not isinstance(other, dict) or other["type"] != "null" else "null"
        if other == "null":
            return ["null"], st.none()
        order = draw(st.permutations(["null", other]))
        return order, st.one_of(st.none(), values)
    chosen = draw(st.lists(FIELDS, unique=True, max_size=3))
    fields = {name: draw(inner) for name in chosen}
    record = {"type": "record", "name": next(names), "fields": [{"name": n, "type": f[0]} for n, f in fields.items()]}
    return record, st.fixed_dictionaries({name: each[1] for name, each in fields.items()})


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, bytes]:
    """Return a schema, and a value of it as fastavro writes it."""
    schema, values = draw(schemas(iter([f"space.N{number}" for number in range(100)]), 3))
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), draw(values))
    return schema, file.getvalue()


WRITTEN = written()


def list_fields(value: Any, steps: Sequence[str] = ()) -> Iterator[tuple[Sequence[str], Any]]:
    """Yield the steps to each value within a value."""
    yield steps, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from list_fields(each, (*steps, str(step)))


def find(schema: Any, body: bytes, steps: Sequence[str]) -> Any:
    return find_in_avro(compile_schema(schema, {}), 0, body, steps)


@examples(300)
@given(WRITTEN)
def test_each_field_is_what_fastavro_reads(case: tuple[Any, bytes]) -> None:
    schema, body = case
    value = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)
    for steps, wanted in list_fields(value):
        assert find(schema, body, steps) == wanted
        assert find(schema, body, (*steps, "none")) is None


@examples(300)
@given(WRITTEN, st.binary(max_size=20), st.integers(0, 40))
def test_a_damaged_body_has_a_value_or_none_and_no_other_error(
    case: tuple[Any, bytes], other: bytes, place: int
) -> None:
    schema, body = case
    for damaged in (other, body[:place] + other + body[place:]):
        for steps in ((), ("id",), ("0", "a")):
            with suppress(ValueError):
                find(schema, damaged, steps)


LIST = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}


def test_nested_records_are_read_up_to_a_hundred_and_cost_no_more_beyond() -> None:
    """Ten thousand of them are the end of a process that reads them with fastavro."""
    assert find(LIST, b"\x02" * 30 + b"\0", ["next"] * 31) is None
    assert find(LIST, b"\x02" * 30 + b"\0", ["next"] * 30) == {"next": None}
    with pytest.raises(ValueError, match="nested too deeply"):
        find(LIST, b"\x02" * 1_000_000 + b"\0", ["next"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}},
        {"type": "record", "name": "Self", "fields": [{"name": "of", "type": "Self"}]},
    ],
)
def test_values_without_bytes_end_at_their_bounds(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_VALUES", 1_000)
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    for steps in ((), ("5000",), ("of",)):
        if steps != ("of",) or "fields" in schema:
            with pytest.raises(ValueError, match="too many values"):
                find(schema, endless, steps)


def test_names_are_looked_up_in_their_namespace() -> None:
    inner = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    fields = [
        {"name": "first", "type": inner},
        {"name": "second", "type": "Kind"},
        {"name": "third", "type": "org.shop.Kind"},
        {"name": "fourth", "type": {"type": "fixed", "name": "other.Two", "size": 2}},
        {"name": "fifth", "type": ["null", "other.Two"]},
    ]
    schema = {"type": "record", "name": "Order", "namespace": "org.shop", "fields": fields}
    body = b"\0\x02\x02ab\x02cd"
    found = [find(schema, body, [name]) for name in ("first", "second", "third", "fourth", "fifth")]
    assert found == ["A", "B", "B", b"ab", b"cd"]


def test_logical_types_are_what_they_are_stored_as() -> None:
    stored = {
        "at": (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 11, 30, tzinfo=UTC),
            1_795_996_800_000,
        ),
        "day": ({"type": "int", "logicalType": "date"}, datetime(1970, 1, 3, tzinfo=UTC).date(), 2),
        "sum": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("1.25"), b"\x7d"),
        "id": ({"type": "string", "logicalType": "uuid"}, UUID(int=7), str(UUID(int=7))),
    }
    schema = {
        "type": "record", "name": "R", "fields": [{"name": name, "type": each[0]} for name, each in stored.items()],
    }  # fmt: skip
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), {name: each[1] for name, each in stored.items()})
    for name, (_, _, wanted) in stored.items():
        assert find(schema, file.getvalue(), [name]) == wanted


def test_bytes_within_a_record_are_written_as_in_avros_json() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "raw", "type": "bytes"}, {"name": "n", "type": "int"}]}
    compiled = compile_schema(schema, {})
    body = EncodedBody(b"\x04\x01\xff\x02")
    body.find_field = lambda data, steps: find_in_avro(compiled, 0, data, steps)
    assert KeySource("body", "").read(Message(body=body)) == json.dumps(
        {"raw": "\x01\xff", "n": 1}, ensure_ascii=False, separators=(",", ":")
    )
    assert KeySource("body", "/raw").read(Message(body=body)) == b"\x01\xff"


@pytest.mark.parametrize(
    "schema",
    ["Unknown", {}, {"type": "record"}, {"type": "record", "name": "R", "fields": [{}]}, 7, [None], {"type": 1}],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(avro.UnreadableSchema):
        compile_schema(schema, {})
