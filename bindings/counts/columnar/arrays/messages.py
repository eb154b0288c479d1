"""Turn rows of a batch into messages for the router. A column that the batch lacks counts as empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.fields import decode_tables
from bindings.archive.names import unescape
from exchange.values.message import Message

__all__ = ["messages_of", "rows_with_copies"]

NEEDED: Final = ("exchange", "routing_key", "cc", "bcc", "headers", "properties")


def messages_of(
    batch: pa.RecordBatch, rows: npt.NDArray[np.intp], headers_only: Iterable[str] | None = None
) -> list[Message]:
    """Return rows as messages with exchange, key, headers and properties; the columns cc and bcc become headers.

    With ``headers_only``, only these headers are kept, and CC and BCC are not added.
    """
    names = batch.schema.names
    part = batch.select([n for n in NEEDED if n in names]).take(pa.array(rows))
    texts = zip(part.column("exchange").to_pylist(), part.column("routing_key").to_pylist(), strict=True)
    none: list[dict[str, Any]] = [{} for _ in rows]
    headers = decode_tables(part.column("headers")) if "headers" in names else none
    properties = decode_tables(part.column("properties")) if "properties" in names else none
    if headers_only is not None:
        wanted = tuple(headers_only)
        headers = [{name: table[name] for name in wanted if name in table} for table in headers]
    for name in ("CC", "BCC") if headers_only is None else ():
        if name.lower() in names:
            for table, keys in zip(headers, part.column(name.lower()).to_pylist(), strict=True):
                if keys and name not in table:
                    table[name] = [unescape(key) for key in keys]
    columns = zip(texts, headers, properties, strict=True)
    return [Message(unescape(exchange), unescape(key), h, p) for (exchange, key), h, p in columns]


def rows_with_copies(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the rows with routing keys in CC or BCC; None if no row has any."""
    result: npt.NDArray[np.bool_] | None = None
    for name in ("cc", "bcc"):
        if name in batch.schema.names and batch.num_rows:
            offsets = np.asarray(batch.column(name).offsets)
            if offsets[0] != offsets[-1]:
                has_keys = np.diff(offsets) > 0
                result = has_keys if result is None else result | has_keys
    return result
