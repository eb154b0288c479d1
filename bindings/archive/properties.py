"""Check the properties of records: what AMQP cannot carry is a bad record to every reader, to an audit as to a replay.

Formats that write properties freely (JSON, Parquet, traces) may have one that AMQP does not have, or a value of another
type. A bridge could not send such a message, so it never was one, or the archive was changed since.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import unescape
from exchange.amqp.content import WIDTHS, check_properties
from exchange.errors import InputError
from exchange.limits import SHORTSTR_BYTES
from exchange.values.field_text import decode_field


def find_wrong_properties(array: pa.MapArray) -> dict[int, str]:
    """Return row -> reason for the tables with a property that `check_properties` refuses.

    Their values must fit their types: see `bindings.archive.fields.find_wrong_rows`. Texts that are short enough are
    checked by column, and each distinct pair of type and value of another property once.
    """
    ends = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(ends[0]), int(ends[-1])
    if first == last:
        return {}
    fields = array.items.slice(first, last - first)
    columns = array.keys.slice(first, last - first), fields.field(0), fields.field(1)
    names, kinds, texts = (each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in columns)
    wrong: dict[int, str] = {}
    for name in pc.unique(names).to_pylist():
        places = np.flatnonzero(np.asarray(pc.equal(names, name)))
        if WIDTHS.get(name) == 0 and _are_short(kinds.take(places), texts.take(places)):
            continue
        reasons: dict[tuple[str, str | None], str] = {}
        pairs = zip(kinds.take(places).to_pylist(), texts.take(places).to_pylist(), strict=True)
        for place, pair in zip(places.tolist(), pairs, strict=True):
            if pair not in reasons:
                reasons[pair] = _find_reason(unescape(name), *pair)
            if reasons[pair]:
                wrong.setdefault(int(np.searchsorted(ends, first + place, "right")) - 1, reasons[pair])
    return wrong


def _are_short(kinds: pa.Array, texts: pa.Array) -> bool:
    """Return whether all are texts that AMQP can carry for certain: escaped, they are no shorter than their bytes."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    return bool(pc.all(pc.equal(kinds, "longstr")).as_py()) and (longest or 0) <= SHORTSTR_BYTES


def _find_reason(name: str, kind: str, text: str | None) -> str:
    """Return why AMQP cannot carry a property; an empty text if it can."""
    try:
        if text is not None and kind == "longstr":
            text = unescape(text)
        check_properties({name: decode_field(kind, text)})
    except InputError as error:
        return str(error)
    return ""
