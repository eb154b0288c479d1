"""The headers of many dead letters at once: rows that are alike become one, without what varies from one to the next.

Of x-death the time and the count are taken out, and the routing key where there is one death; keys and texts of
errors are reduced to their shapes (`bridge.dead.conventions`). What is left differs between few rows of a batch, so
that Python looks at few of them. Arrow's regular expressions are RE2's, whose time is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import unescape
from bridge.dead.conventions import CONVENTIONS, DEATHS, HEADERS, KEY, NUMBER, SHORT, TEXT, VARYING, find_death

COLUMNS: Final = ("time", "exchange", "routing_key", "cc", "headers", "properties", "source", "offset")
"""The columns that are read."""
ERRORS: Final = frozenset([name for each in CONVENTIONS for name in (each.reason, each.error) if name])
KEYS: Final = frozenset([each.routing_key for each in CONVENTIONS if each.routing_key])
TRIES: Final = frozenset([each.tries for each in CONVENTIONS if each.tries])
ONE_KEY: Final = r'"routing-keys": \["(?P<key>(?:[^"\\]|\\.)*)"\]'
TIME: Final = r'"time": \{"!timestamp": (?P<time>[0-9]{1,11})\}'
COUNT: Final = r'"count": (?P<count>[0-9]{1,18})'
TAKEN: Final = ("exchange", "key", "cc")
"""Columns that are no headers, the first ones."""
NO_KEY: Final = '"routing-keys": []'
NO_TIME: Final = '"time": 0'


class Alike(NamedTuple):
    """Rows of a batch whose dead letters are alike."""

    exchange: str
    key: str
    """The routing key, or its shape."""
    headers: Mapping[str, str | None]
    """The headers that show why it died, with shapes in place of what varies."""
    has_cc: bool
    rows: Sequence[int]
    """The rows; the first only unless all are asked for."""
    number: int
    """Number of rows."""
    since: int | None
    until: int | None
    """Times of the first and the last death, or of the messages, in microseconds since 1970."""
    tries: int
    """Maximum number of tries or deaths."""


def find_alike(batch: pa.RecordBatch, *, by_key: bool) -> Iterator[Alike]:
    """Yield the rows of a batch that are alike; ``by_key`` is whether only rows with the same keys are."""
    headers = _find_headers(batch.column("headers"))
    columns = {"exchange": batch.column("exchange"), "key": batch.column("routing_key")}
    columns["cc"] = pc.greater(pc.list_value_length(batch.column("cc")), 0)
    tries = np.zeros(batch.num_rows, np.int64)
    times = batch.column("time").cast(pa.timestamp("us")).cast(pa.int64())
    for name, given in headers.items():
        values = given
        if name == DEATHS:
            key, died, count, values = _split_deaths(given)
            columns["death key"] = key
            times = pc.coalesce(died, times)
            tries = np.maximum(tries, _numbers(count))
        elif name in TRIES:
            tries = np.maximum(tries, _numbers(values))
            continue
        elif name in ERRORS:
            values = pc.utf8_slice_codeunits(pc.replace_substring_regex(values, NUMBER, "#"), 0, TEXT)
        columns[name] = values
    if not by_key:
        for name in ("key", "death key", *KEYS):
            if name in columns:
                cut = pc.utf8_slice_codeunits(columns[name], 0, KEY)
                shapes = pc.replace_substring_regex(cut, VARYING, "*")
                for _ in range(2):
                    shapes = pc.replace_substring_regex(shapes, SHORT, r"\1*\2")
                columns[name] = shapes
    names = [*columns]
    table = pa.table({**columns, "row": np.arange(batch.num_rows), "time": times, "tries": tries})
    wanted = [
        ("row", "list" if by_key else "min"),
        ("row", "count"),
        ("time", "min"),
        ("time", "max"),
        ("tries", "max"),
    ]
    grouped = table.group_by(names, use_threads=False).aggregate(wanted)
    rows = zip(*[grouped.column(name).to_pylist() for name in names],
               *[grouped.column(f"{name}_{what}").to_pylist() for name, what in wanted], strict=True)  # fmt: skip
    for *values, first, number, since, until, most in rows:
        known = {name: each if each is None else unescape(each) for name, each in zip(names, values, strict=True)
                 if name not in TAKEN}  # fmt: skip
        exchange, key, has_cc, *_ = values
        published, deaths = known.pop("death key", None), known.get(DEATHS)
        if published is not None and deaths is not None:  # as `find_death` reads it
            known[DEATHS] = deaths.replace(NO_KEY, f'"routing-keys": ["{published}"]', 1)
        alike = first if by_key else [first]
        yield Alike(unescape(exchange), unescape(key), known, has_cc, alike, number, since, until, most)


def read_key(batch: pa.RecordBatch, row: int) -> str:
    """Return the routing key with which the message of a row was published."""
    one = batch.slice(row, 1)
    texts = ((name, values[0].as_py()) for name, values in _find_headers(one.column("headers")).items())
    headers = {name: text if text is None else unescape(text) for name, text in texts}
    exchange, key = (unescape(one.column(name)[0].as_py()) for name in ("exchange", "routing_key"))
    return find_death(headers, exchange, key)[1]


def _find_headers(column: pa.MapArray) -> dict[str, pa.Array]:
    """Return the values of each header that decides about a group, null where a row has none."""
    ends = np.asarray(column.offsets)
    first, last = int(ends[0]), int(ends[-1])
    codes = np.asarray(pc.fill_null(pc.index_in(column.keys.slice(first, last - first), pa.array(HEADERS)), -1))
    values = column.items.slice(first, last - first).field(1)
    rows = np.repeat(np.arange(len(column)), np.diff(ends))
    found = {}
    for code in np.unique(codes[codes >= 0]).tolist():
        at = np.flatnonzero(codes == code)
        places = np.full(len(column), -1)
        places[rows[at]] = at
        found[HEADERS[code]] = values.take(pa.array(places, mask=places < 0))
    return found


def _split_deaths(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Return of x-death its routing key where that is one, the time of the first entry, its count, and the rest."""
    is_one = pc.equal(pc.count_substring(texts, '"routing-keys": '), 1)
    key = pc.struct_field(pc.extract_regex(texts, ONE_KEY), "key")
    key = pc.if_else(pc.fill_null(is_one, fill_value=False), key, None)
    time = pc.struct_field(pc.extract_regex(texts, TIME), "time").cast(pa.int64())
    count = pc.struct_field(pc.extract_regex(texts, COUNT), "count")
    rest = pc.replace_substring_regex(texts, TIME, NO_TIME)
    rest = pc.replace_substring_regex(rest, COUNT, '"count": 0')
    rest = pc.if_else(pc.is_valid(key), pc.replace_substring_regex(rest, ONE_KEY, NO_KEY), rest)
    return key, pc.multiply(time, 1_000_000), count, rest


def _numbers(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return texts as numbers, 0 for what is none."""
    is_number = pc.match_substring_regex(texts, "^[0-9]{1,18}$")
    numbers = pc.if_else(is_number, texts, None).cast(pa.int64())
    return np.asarray(pc.fill_null(numbers, 0))
