"""Answer batches of rows on a worker of Spark: the queues, partitions and errors of their messages.

Rows become records as those of foreign Parquet do (`bindings.archive.formats.foreign`), are selected as an audit does
it, and are routed as columns (`Router.route_columns`). Messages with CC or BCC, and those with bytes that columns must
escape, are routed one by one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.formats.foreign import read_foreign
from bindings.archive.names import has_nul, unescape
from bindings.archive.reading import Bad
from bindings.auditing.local.selection import OTHER_VHOST, Selection
from bindings.counts.columnar.arrays.rows import COLUMN, build_messages, choose_partitions, find_rows_with_copies
from exchange.errors import BrokerError
from exchange.partition.batch import UNDECIDED
from exchange.routing.columns.route_columns import show_texts
from exchange.routing.route import Route
from exchange.routing.router import Router
from exchange.topology.topology import Topology

Rows = npt.NDArray[np.intp]

PARTITIONS: Final = pa.map_(pa.string(), pa.int32())
"""Partitioned queue -> id of its partition, null where the key does not decide it."""

ANSWER: Final = pa.struct([
    ("queues", pa.list_(pa.string())), ("partitions", PARTITIONS), ("unroutable", pa.bool_()), ("error", pa.string()),
])  # fmt: skip
"""The answer for a row: see `bindings.spark.frames.route`."""

SPARK_ANSWER: Final = "queues array<string>, partitions map<string, int>, unroutable boolean, error string"
"""``ANSWER`` as Spark writes it."""

ROUTERS: Final = 4
"""Maximum number of topologies that a worker keeps ready."""
ROWS: Final = 1 << 16
"""Number of rows that are answered at once: each of 10,000, which Spark hands over, would cost 2.5 times as much."""
ROWS_BYTES: Final = 16 << 20
"""The same in bytes: columns may have bodies."""


class RoutingSetup(NamedTuple):
    """What a worker needs to know beside the rows."""

    topology: Topology
    decide: tuple[str, ...]
    """Columns of `bindings.archive.record.SCHEMA` that decide where messages go."""
    names: tuple[str, ...]
    """Names of the columns that it gets, in their order; in SQL, the last ones may be missing."""
    places: Mapping[str, str]
    """Field of a message -> its place in these columns."""

    def first(self, count: int) -> RoutingSetup:
        """Return the setup without what only follows from columns after the first ``count``."""
        if count == len(self.names):
            return self
        names = self.names[:count]
        return self._replace(names=names, places={f: place for f, place in self.places.items() if place in names})

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns of records to make of the rows: what decides, as far as it is there."""
        there = {*self.places, *self.names, *(("cc", "bcc") if "headers" in self.places else ())}
        return ("offset", "exchange", "routing_key", *[name for name in self.decide if name in there])


def build_function(setup: RoutingSetup) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """Return the function that Spark calls with batches of columns, which yields arrays of ``ANSWER`` for their rows.

    Workers need this package for it. Spark takes its kind from the annotations, and hands over one column as itself,
    others as a tuple.
    """
    data = pickle.dumps(setup, pickle.HIGHEST_PROTOCOL)

    def hashstar_route(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        router = _open(data)
        yield from map(router.answer, join_batches(each if isinstance(each, tuple) else (each,) for each in batches))

    return hashstar_route


def join_batches(
    batches: Iterable[tuple[pa.Array, ...]], rows: int = ROWS, size: int = ROWS_BYTES
) -> Iterator[tuple[pa.Array, ...]]:
    """Yield the same rows in the same order, in batches that have this many rows or bytes; only the last has fewer."""
    joined: list[tuple[pa.Array, ...]] = []
    for columns in batches:
        joined.append(columns)
        if (
            sum(len(each[0]) for each in joined) >= rows
            or sum(array.nbytes for each in joined for array in each) >= size
        ):
            yield _join(joined)
            joined = []
    if joined:
        yield _join(joined)


def _join(batches: Iterable[tuple[pa.Array, ...]]) -> tuple[pa.Array, ...]:
    return tuple([pa.concat_arrays(columns) for columns in zip(*batches, strict=True)])


@lru_cache(maxsize=ROUTERS)
def _open(setup: bytes) -> RowRouter:
    return RowRouter(pickle.loads(setup))  # noqa: S301  made by the driver


class RowRouter:
    """Routes rows through one topology; what it learns of keys is kept from batch to batch."""

    def __init__(self, setup: RoutingSetup) -> None:
        self._setup: Final = setup
        self._select: Final = Selection(setup.topology.vhost)
        self._router: Final = Router(setup.topology)
        self._partitionings: Final = {
            name: queue.partitioning for name, queue in setup.topology.queues.items() if queue.partitioning is not None
        }

    def answer(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return an array of ``ANSWER``. Raises `bindings.archive.formats.foreign.WrongColumn`."""
        setup = self._setup.first(len(columns))
        batch = pa.RecordBatch.from_arrays([_hold_bytes(column) for column in columns], list(setup.names))
        problems: dict[int | None, str] = {}
        records = pa.RecordBatch.from_pylist([], pa.schema([("offset", pa.int64())]))
        for item in read_foreign(batch, "", 0, setup.wanted, setup.places):
            if isinstance(item, Bad):
                problems[item.offset] = item.reason
            else:
                records = self._select.apply(item)[0] if "vhost" in setup.places else item
        rows = np.asarray(records.column("offset"))
        outcomes = _Outcomes()
        index = np.full(batch.num_rows, outcomes.add_problem(OTHER_VHOST), np.int32)
        for row, reason in problems.items():
            index[row] = outcomes.add_problem(reason)
        if len(rows):
            index[rows] = self._route(records, outcomes)
        queues, unroutable, errors = outcomes.arrays()
        partitions = self._partitions(records, rows, index, queues)
        at = pa.array(index)
        arrays = [queues.take(at), partitions, unroutable.take(at), errors.take(at)]
        return pa.StructArray.from_arrays(arrays, fields=list(ANSWER))

    def _route(self, records: pa.RecordBatch, outcomes: _Outcomes) -> npt.NDArray[np.int32]:
        """Return for each record the index of its outcome."""
        index = np.zeros(len(records), np.int32)
        copies = find_rows_with_copies(records)
        alone = np.zeros(len(records), np.bool_) if copies is None else copies
        if any(_has_escapes(column) for column in records.columns):
            alone = np.ones(len(records), np.bool_)
        if alone.any():
            for row, message in zip(
                np.flatnonzero(alone).tolist(), build_messages(records, np.flatnonzero(alone)), strict=True
            ):
                try:
                    index[row] = outcomes.add(self._router.route(message))
                except BrokerError as error:
                    index[row] = outcomes.add_refusal(str(error))
            records = records.filter(pa.array(~alone))
        if len(records):
            tables = [records.column(name) if name in records.schema.names else None for name in TABLES]
            found = self._router.route_columns(records.column("exchange"), records.column("routing_key"), *tables)
            index[~alone] = outcomes.add_all(found.outcomes, found.index)
        return index

    def _partitions(
        self, records: pa.RecordBatch, rows: Rows, index: npt.NDArray[np.int32], queues: pa.ListArray
    ) -> pa.MapArray:
        """Return for each row the partitioned queues that get it, with their partitions."""
        flat, owners = queues.flatten(), np.asarray(pc.list_parent_indices(queues))
        taken: list[Rows] = []
        chosen: list[pa.Array] = []
        names: list[pa.Array] = []
        for name, partitioning in self._partitionings.items():
            reached = np.zeros(len(queues), np.bool_)
            [shown] = show_texts([name])
            reached[owners[np.asarray(pc.equal(flat, shown))]] = True
            here = np.flatnonzero(reached.take(index.take(rows)))
            if COLUMN.get(partitioning.key.part, "routing_key") in records.schema.names:
                ids = choose_partitions(records, here, partitioning)
            else:
                ids = np.full(len(here), UNDECIDED, np.int32)
            taken.append(rows[here])
            chosen.append(pa.array(ids, pa.int32(), mask=ids == UNDECIDED))
            names.append(pa.array([shown]).take(pa.array(np.zeros(len(here), np.int32))))
        owned = np.concatenate([*taken, np.zeros(0, np.intp)])
        order = pa.array(np.argsort(owned, kind="stable"))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owned, minlength=len(index)))]).astype(np.int32)
        keys = pa.concat_arrays([*names, pa.array([], pa.string())]).take(order)
        values = pa.concat_arrays([*chosen, pa.array([], pa.int32())]).take(order)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, values)


TABLES: Final = ("headers", "properties")


class _Outcomes:
    """The distinct outcomes of a batch, as columns: queues, unroutable, error."""

    def __init__(self) -> None:
        self._rows: dict[tuple[tuple[str, ...] | None, bool | None, str | None], int] = {}
        self._columns: pa.StructArray | None = None

    def add(self, route: Route) -> int:
        """Return the index of a route; before `add_all`."""
        return self._add(route.queues, route.unroutable, None)  # not the route: keys in its placements may be tables

    def add_refusal(self, error: str) -> int:
        """Return the index of messages that the broker refuses with this error; before `add_all`."""
        return self._add((), True, error)

    def add_problem(self, reason: str) -> int:
        """Return the index of rows that are no messages for this reason; before `add_all`."""
        return self._add(None, None, reason)

    def _add(self, queues: tuple[str, ...] | None, unroutable: bool | None, error: str | None) -> int:
        return self._rows.setdefault((queues, unroutable, error), len(self._rows))

    def add_all(self, outcomes: pa.StructArray, index: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Add the outcomes of routed columns, and return their indices; once, and last."""
        self._columns = outcomes
        return index + np.int32(len(self._rows))

    def arrays(self) -> tuple[pa.ListArray, pa.BooleanArray, pa.StringArray]:
        """Return queues, whether no queue gets the message, and the error."""
        lists = [None if each is None else show_texts(each).to_pylist() for each, _, _ in self._rows]
        queues = pa.array(lists, pa.list_(pa.string()))
        unroutable = pa.array([each for _, each, _ in self._rows], pa.bool_())
        errors = pa.array([each for _, _, each in self._rows], pa.string())
        if self._columns is None:
            return queues, unroutable, errors
        _, reached, undecided, refusals = self._columns.flatten()
        nowhere = pc.equal(pc.list_value_length(reached), 0)
        is_open = pc.greater(pc.list_value_length(undecided), 0)
        lost = pc.if_else(pc.and_(nowhere, is_open), pa.scalar(None, pa.bool_()), nowhere)
        return tuple(
            pa.concat_arrays([one, other]) for one, other in ((queues, reached), (unroutable, lost), (errors, refusals))
        )


def _hold_bytes(column: pa.Array) -> pa.Array:
    """Return a column of texts as bytes where it has escapes, as `spark.read.format("hashstar")` writes them."""
    if pa.types.is_string(column.type) and has_nul(column):
        texts = column.to_pylist()
        return pa.array([None if t is None else unescape(t).encode("utf-8", "surrogateescape") for t in texts])
    return column


def _has_escapes(column: pa.Array) -> bool:
    """Return whether a column of records has texts that are escaped."""
    kind = column.type
    if pa.types.is_string(kind):
        return has_nul(column)
    if pa.types.is_map(kind):
        fields = column.items
        return has_nul(column.keys) or any(has_nul(fields.field(number)) for number in range(fields.type.num_fields))
    return False
