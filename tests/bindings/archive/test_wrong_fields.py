"""Fields of tables in Parquet: what is read of whole columns is what each value by itself is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive import fields as archive_fields
from bindings.archive.fields import FLAT_ARRAY, decode_field, find_wrong_rows
from exchange.errors import InputError

TYPES = st.sampled_from(["longstr", "longstr", "long", "timestamp", "double", "bool", "array", "none", None])
VALUES = st.sampled_from(
    [
        "a",
        "1",
        "-1",
        "true",
        "1e5",
        "[]",
        str(1 << 63),
        str(1 << 64),
        "",
        None,
        *(f'[{{"count": {each}, "queue": "q", "routing-keys": ["k"]}}]' for each in ("1", "01", "-")),
    ]
)


@given(
    st.lists(st.none() | st.lists(st.tuples(TYPES, VALUES), max_size=4), max_size=30),
    st.sampled_from([(False, False), (True, False), (False, True), (True, True)]),
    st.integers(0, 5),
    st.sampled_from([0, 1 << 24]),
)
def test_rows_are_wrong_where_one_of_their_values_is(
    rows: list[list[tuple[str | None, str | None]] | None], coded: tuple[bool, bool], start: int, flags: int
) -> None:
    fields = [field for row in rows for field in row or ()]
    columns = [pa.array([field[n] for field in fields], pa.string()) for n in range(2)]
    coded_columns = [each.dictionary_encode() if code else each for each, code in zip(columns, coded, strict=True)]
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row or ()))
    kinds = [pa.field(name, each.type) for name, each in zip(("type", "value"), coded_columns, strict=True)]
    items = pa.StructArray.from_arrays(coded_columns, fields=kinds)
    array = pa.MapArray.from_arrays(pa.array(ends, pa.int32()), pa.array(["k"] * len(fields)), items)[start:]
    expected = {}
    for n, row in enumerate(rows[start:]):
        for kind, value in row or ():
            try:
                decode_field(kind, value)  # type: ignore[arg-type]
            except InputError as error:
                expected[n] = str(error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_fields, "FLAGS", flags)
        found = find_wrong_rows(array)
    assert found.keys() == expected.keys()


@given(st.from_regex(FLAT_ARRAY, fullmatch=True))
def test_an_array_that_needs_no_decoding_can_be_decoded(text: str) -> None:
    assert isinstance(decode_field("array", text), list)
