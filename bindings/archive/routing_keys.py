"""Routing keys of records beside their own: those in the headers CC and BCC, by which a broker routes, too.

Rows have them in the columns ``cc`` and ``bcc``, so that no headers are read to route by keys. Our own archives have
the same keys in these columns and in the headers. Rows of other programs may have them in either, so of each row

* a list in the column counts, if it has keys;
* else the header does: there is no such column, or it is null or empty there.

A header that is no array makes a bad record, since a broker refuses the message. Records of Kafka and RocketMQ are not
distributed by their sender: a header CC of theirs is like any other, and has another name in the message (`rename`).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import to_text_array, unescape
from exchange.errors import BrokerError, InputError
from exchange.values.field_text import decode_field
from exchange.values.message import Message

HEADERS: Final[Mapping[str, str]] = {"cc": "CC", "bcc": "BCC"}
"""Column -> the header with its keys."""
NAMES: Final = pa.array([*HEADERS.values()])
V = TypeVar("V")


class FurtherKeys(NamedTuple):
    """Routing keys of rows beside their own."""

    columns: Mapping[str, pa.ListArray]
    """``cc`` and ``bcc``: the keys of each row, escaped, none where it has none."""
    wrong: Mapping[int, str]
    """Row -> why a broker refuses the message."""


def find_keys(headers: pa.MapArray) -> FurtherKeys:
    """Return the keys in a column of headers (`bindings.archive.fields.TABLE`)."""
    there = bool(pc.any(pc.is_in(headers.keys, NAMES)).as_py())
    empty = pa.nulls(len(headers), headers.type.item_type)
    return read_keys(
        {name: pc.map_lookup(headers, header, "last") if there else empty for name, header in HEADERS.items()}
    )


def read_keys(fields: Mapping[str, pa.StructArray]) -> FurtherKeys:
    """Return the keys in these headers: for ``cc`` and ``bcc`` the type and value of each row; null without it."""
    columns: dict[str, pa.ListArray] = {}
    wrong: dict[int, str] = {}
    for name, array in fields.items():
        lengths = np.zeros(len(array) + 1, np.int32)
        texts: list[str] = []
        rows = np.flatnonzero(np.asarray(array.is_valid()))
        for row, field in zip(rows.tolist(), array.take(pa.array(rows)).to_pylist(), strict=True):
            keys, error = _decode_keys(HEADERS[name], *field.values())
            lengths[row + 1] = len(keys)
            texts += keys
            if error:
                wrong[row] = error
        columns[name] = pa.ListArray.from_arrays(pa.array(np.cumsum(lengths, dtype=np.int32)), to_text_array(texts))
    return FurtherKeys(columns, wrong)


@lru_cache(1 << 12)
def _decode_keys(header: str, kind: str, text: str | None) -> tuple[Sequence[str], str]:
    """Return the keys in a header, or why a broker refuses it."""
    try:
        return Message("", "", {header: decode_field(kind, text)}).keys_in(header), ""
    except BrokerError as error:
        return (), error.text
    except InputError as error:
        return (), str(error)


def fill_keys(column: pa.ListArray, others: pa.ListArray) -> pa.ListArray:
    """Return a column of keys with those of another one in the rows without any."""
    is_filled = pc.fill_null(pc.greater(pc.list_value_length(column), 0), fill_value=False)
    if pc.all(is_filled).as_py():
        return column
    both = pa.concat_arrays([column.cast(others.type), others])
    rows = np.arange(len(column))
    return both.take(pa.array(np.where(np.asarray(is_filled), rows, rows + len(column))))


def give_keys(tables: Sequence[MutableMapping[str, Any]], batch: pa.RecordBatch) -> None:
    """Give the headers of these rows CC and BCC with the keys in their columns, where they have others, or none."""
    for name, header in HEADERS.items():
        lists = batch.column(name).to_pylist() if name in batch.schema.names else ()
        for table, escaped in zip(tables, lists, strict=False):
            if not escaped:
                continue
            keys = [unescape(key) for key in escaped]
            try:
                is_there = Message("", "", table).keys_in(header) == keys
            except BrokerError:
                is_there = False
            if not is_there:
                table[header] = [decode_field("longstr", key) for key in keys]


def rename(headers: Mapping[str, V], prefix: str) -> dict[str, V]:
    """Return the headers of a record of another system, of which none is CC or BCC: they get this prefix."""
    return {prefix + name if name in HEADERS.values() else name: value for name, value in headers.items()}
