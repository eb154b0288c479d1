"""Read columns of other libraries over Arrow's PyCapsule interface: pyarrow, Polars, DuckDB, pandas and more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from exchange.errors import InputError
from exchange.text.site import build_install_command

if TYPE_CHECKING:
    import pyarrow as pa

HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no text in UTF-8 has."""


def import_arrow() -> Any:
    """Import pyarrow. Raises InputError naming the extra if numpy or pyarrow is not installed."""
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa
    except ImportError as error:
        raise InputError(f"columns need numpy and pyarrow ({error}): {build_install_command('audit')}") from None
    return pa


def read_column(values: Any, what: str) -> pa.ChunkedArray:
    """Return a column as a chunked array, without copying what is in Arrow's memory already.

    ``values`` has ``__arrow_c_stream__`` or ``__arrow_c_array__``, as columns of pyarrow and Polars and a table of one
    column have; is a Series of pandas or an array of numpy, which are copied, NaN as null; or is a sequence of Python
    values. ``what`` names it in errors. Raises InputError for anything else.
    """
    arrow = import_arrow()
    try:
        if hasattr(values, "__arrow_c_stream__"):
            column = arrow.chunked_array(values)
        elif hasattr(values, "__arrow_c_array__") or _is_sequence(values):
            column = arrow.chunked_array([arrow.array(values)])
        elif hasattr(values, "__array__"):
            array = arrow.array(values, from_pandas=True)
            column = array if isinstance(array, arrow.ChunkedArray) else arrow.chunked_array([array])
        else:
            raise InputError(f"{what}: a column of Arrow or a sequence is needed, not {type(values).__name__}")
    except UnicodeEncodeError as error:  # it names no row
        halves = (row for row, text in enumerate(values) if isinstance(text, str) and HALF.search(text))
        place = next((f"row {row}" for row in halves), "a value")
        raise InputError(
            f"{what}: {place} has half of a surrogate pair, {error.object[error.start]!a}; give bytes"
        ) from None
    except (arrow.ArrowException, OverflowError) as error:
        raise InputError(f"{what}: {error}") from None
    if arrow.types.is_struct(column.type) and column.type.num_fields == 1 and what not in ("headers", "properties"):
        column = arrow.chunked_array([chunk.field(0) for chunk in column.chunks], column.type.field(0).type)
    return column


def _is_sequence(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def read_texts(values: Any, what: str) -> list[pa.Array]:
    """Return the chunks of a column of texts or bytes, plain or dictionary-encoded. See `read_column`.

    Each chunk, or its dictionary, is of string, binary, large_string or large_binary. Raises InputError for another
    type, and for a null, naming its row.
    """
    arrow = import_arrow()
    column = read_column(values, what)
    start, chunks = 0, []
    for chunk in column.chunks:
        if chunk.null_count or (arrow.types.is_dictionary(chunk.type) and chunk.dictionary.null_count):
            row = arrow.compute.index(arrow.compute.is_null(chunk), True).as_py()
            if row >= 0:
                raise InputError(f"row {start + row} has no {what}: drop such rows, or fill them")
        chunks.append(_as_texts(arrow, chunk, what))
        start += len(chunk)
    return chunks


def _as_texts(arrow: Any, chunk: pa.Array, what: str) -> pa.Array:
    kinds = arrow.types
    if kinds.is_dictionary(chunk.type):
        values = _as_texts(arrow, chunk.dictionary, what)
        return arrow.DictionaryArray.from_arrays(chunk.indices, values)
    kind = chunk.type
    if kind in (arrow.string(), arrow.binary(), arrow.large_string(), arrow.large_binary()):
        return chunk
    if kinds.is_string_view(kind) or kinds.is_null(kind):
        return chunk.cast(arrow.large_string())
    if kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return chunk.cast(arrow.large_binary())
    raise InputError(f"a {what} is a text or bytes, not Arrow's {kind}")
