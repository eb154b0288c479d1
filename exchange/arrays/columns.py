"""A column of keys as arrays: the bytes of all keys one after another, and the offset of each.

A column is processed in pieces, so hashing needs memory for one piece at a time, however long the column is. Arrow
arrays are read through their buffers, so no key becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.errors import InputError

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

Keys = Any
"""A column in one of three forms: an Arrow Array or ChunkedArray of string, binary, large_string or large_binary; a
pair of numpy arrays, the bytes of n keys and their n + 1 offsets, with key i from offsets[i] to offsets[i + 1]; or a
sequence of str, bytes, None and other keys.
"""

PIECE_KEYS: Final = 1 << 16
PIECE_BYTES: Final = 1 << 22
"""Maximum number of keys and of bytes of a piece; a single key may have more bytes."""

ARROW_OFFSETS: Final = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
"""Arrow type -> numpy type of its offsets."""


class Column(NamedTuple):
    """Keys as arrays."""

    data: Bytes
    offsets: Offsets
    """n + 1 offsets of n keys; the first need not be 0."""
    valid: npt.NDArray[np.bool_] | None = None
    """Whether each key is present, not null; None if all are."""
    text: bool = False
    """Whether the keys are texts, in UTF-8, and not bytes."""

    @property
    def size(self) -> int:
        """Number of keys."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Offsets:
        """Length of each key, in bytes."""
        return self.offsets[1:] - self.offsets[:-1]

    def key(self, row: int) -> bytes:
        """Return one key."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def objects(self) -> list[str | bytes | None]:
        """Return the keys as Python objects. Raises InputError for a text that is not UTF-8."""
        first = int(self.offsets[0])
        data = self.data[first : self.offsets[-1]].tobytes()
        ends = (self.offsets - first).tolist()
        valid = [True] * self.size if self.valid is None else self.valid.tolist()
        spans = zip(valid, ends, ends[1:], strict=False)
        if not self.text:
            return [data[start:end] if is_valid else None for is_valid, start, end in spans]
        try:
            return [data[start:end].decode() if is_valid else None for is_valid, start, end in spans]
        except UnicodeDecodeError as error:
            raise InputError(f"a column of texts has one that is not UTF-8: {error}") from None


def count_items(keys: Keys) -> int:
    """Return the number of keys of a column."""
    return max(len(keys[1]) - 1, 0) if _is_pair(keys) else len(keys)


def split_column(keys: Keys) -> Iterator[Column | list[Any]]:
    """Yield a column in pieces, in its order.

    A piece with keys that are not str, bytes or None, or with a str that UTF-8 cannot encode, is a list of the keys.
    Raises InputError for Arrow arrays of other types, and for offsets beyond the data.
    """
    if type(keys).__module__.partition(".")[0] == "pyarrow":
        for array in getattr(keys, "chunks", [keys]):
            yield from _split(_read_arrow(array))
    elif _is_pair(keys):
        data, offsets = keys
        yield from _split(_check_offsets(Column(np.frombuffer(data, np.uint8), np.asarray(offsets, np.int64))))
    else:
        for start in range(0, len(keys), PIECE_KEYS):
            piece = keys[start : start + PIECE_KEYS]
            objects = piece.tolist() if isinstance(piece, np.ndarray) else list(piece)
            column = build_column(objects)
            if column is None:
                yield objects
            else:
                yield from _split(column)


def build_column(keys: Sequence[Any]) -> Column | None:
    """Build a column of strings, bytes and None; return None if there is anything else among the keys."""
    types = set(map(type, keys))
    if not types <= {str, bytes, type(None)}:
        return None
    valid = np.array([key is not None for key in keys], np.bool_) if type(None) in types else None
    try:
        if types == {str} and (joined := "".join(keys)).isascii():
            return Column(np.frombuffer(joined.encode(), np.uint8), _offsets(keys), valid, text=True)
        encoded = [key.encode() if type(key) is str else key or b"" for key in keys]
    except UnicodeEncodeError:
        return None
    return Column(np.frombuffer(b"".join(encoded), np.uint8), _offsets(encoded), valid, text=bytes not in types)


def build_bytes_column(texts: Sequence[bytes]) -> Column:
    """Return a column of these texts, given as bytes. Raises InputError for an element that is not bytes."""
    column = build_column(texts)
    if column is None:
        raise InputError("a column of bytes has something else in it")
    return column


def _is_pair(keys: Keys) -> bool:
    return type(keys) is tuple and len(keys) == 2 and isinstance(keys[1], np.ndarray)


def _offsets(keys: Sequence[str | bytes]) -> Offsets:
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)), out=offsets[1:])
    return offsets


def _read_arrow(array: Any) -> Column:
    name = str(array.type)
    if name not in ARROW_OFFSETS:
        raise InputError(f"keys of Arrow type {name}: cast them to {', '.join(ARROW_OFFSETS)}")
    text = name.endswith("string")
    if not len(array):  # its buffers may be missing
        return Column(np.empty(0, np.uint8), np.zeros(1, np.int64), text=text)
    mask, places, data = array.buffers()
    begin, end = array.offset, array.offset + len(array)
    offsets = np.frombuffer(places, ARROW_OFFSETS[name], end + 1)[begin:].astype(np.int64)
    valid = None
    if array.null_count:
        # The validity bitmap has one bit for each value of the buffers, the lowest bit of a byte first.
        bits = np.frombuffer(mask, np.uint8, end + 7 >> 3)[begin >> 3 :]
        valid = np.unpackbits(bits, bitorder="little")[begin & 7 :][: len(array)].view(np.bool_)
    return _check_offsets(Column(np.frombuffer(data or b"", np.uint8), offsets, valid, text))


def _check_offsets(column: Column) -> Column:
    """Return the column. Raises InputError if its offsets fall or point out of the data: nothing else checks them."""
    offsets = column.offsets
    if not len(offsets) or offsets[0] < 0 or offsets[-1] > len(column.data) or (column.lengths < 0).any():
        raise InputError("the offsets of a column of keys do not rise within its data")
    return column


def _split(column: Column) -> Iterator[Column]:
    offsets, start = column.offsets, 0
    while start < column.size:
        # The last offset within PIECE_BYTES of the start; but a piece has at least one key.
        most = int(np.searchsorted(offsets, offsets[start] + PIECE_BYTES, "right")) - 1
        end = max(start + 1, min(most, start + PIECE_KEYS, column.size))
        valid = None if column.valid is None else column.valid[start:end]
        yield Column(column.data, offsets[start : end + 1], valid, column.text)
        start = end
