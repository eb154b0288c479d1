"""The routes of a column of messages: each distinct route once, and which of them each row has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exchange.errors import BrokerError, InputError
from exchange.partition.batch import UNDECIDED, PartitionArray, partition_batch
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.columns.headers import HeaderColumn
from exchange.routing.columns.outcomes import Outcomes
from exchange.routing.route import Route
from exchange.text.display import count_noun


@dataclass(frozen=True, eq=False, repr=False)
class RouteColumns:
    """The routes of the rows of a column.

    As a sequence it has the route of each row; asking for a row that the broker refuses raises its error. As Arrow, by
    ``__arrow_c_array__``, it is a dictionary-encoded array of structs with the fields of `outcomes`; by
    ``__arrow_c_stream__`` a table with these as columns.
    """

    index: npt.NDArray[np.int32]
    """Row -> outcome."""
    errors: Mapping[int, BrokerError]
    """Outcome -> error with which the broker refuses such a message."""
    _outcomes: Outcomes
    _used: npt.NDArray[np.intp]
    """Outcome -> its number among all outcomes so far; ascending."""
    _keys: Sequence[pa.Array] = field(default=())
    _headers: HeaderColumn | None = None
    _partitionings: Mapping[str, Partitioning] = field(default_factory=dict)

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Outcome -> route, each distinct one once, in no particular order and without placements: see `partitions`.

        Of an outcome in ``errors`` it is the empty route. The routes are made when they are read first.
        """
        return tuple(map(self._outcomes.route, self._used.tolist()))

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, row: int) -> Route: ...
    @overload
    def __getitem__(self, row: slice) -> list[Route]: ...
    def __getitem__(self, row: int | slice) -> Route | list[Route]:
        """Return the route of a row, or of several. Raises the BrokerError with which the broker refuses one."""
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        outcome = int(self.index[row])
        if outcome in self.errors:
            raise self.errors[outcome]
        return self._outcomes.route(int(self._used[outcome]))

    def __iter__(self) -> Iterator[Route]:
        for outcome in self.index.tolist():
            if outcome in self.errors:
                raise self.errors[outcome]
            yield self.routes[outcome]

    def __repr__(self) -> str:
        outcomes = count_noun(len(self._used), "outcome")
        return f"<RouteColumns of {count_noun(len(self), 'row')}: {outcomes}, {len(self.errors)} of them refused>"

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each outcome."""
        return np.bincount(self.index, minlength=len(self._used))

    @property
    def outcomes(self) -> pa.StructArray:
        """The outcomes as Arrow structs.

        ``outcome`` is the number; ``queues`` and ``undecided`` are lists of names as in `Route`; ``error`` is the
        broker's refusal, else null.
        Bytes of names that are not UTF-8 are shown as U+FFFD.
        """
        numbers = range(len(self._used))
        queues, offsets = self._outcomes.queues_of(self._used)
        names = show_texts(self._outcomes.queues).take(pa.array(queues))
        undecided = self._outcomes.undecided(self._used)
        return pa.StructArray.from_arrays(
            [
                pa.array(numbers, pa.int32()),
                pa.ListArray.from_arrays(pa.array(offsets), names),
                _lists([undecided.get(number, ()) for number in numbers]),
                pa.array([str(self.errors[each]) if each in self.errors else None for each in numbers], pa.string()),
            ],
            ["outcome", "queues", "undecided", "error"],
        )

    def partitions(self, queue: str) -> PartitionArray:
        """Return the id of the partition of a partitioned queue for each row.

        It is `exchange.partition.batch.UNDECIDED` where the row does not reach the queue, or the key does not decide.
        Raises InputError for a queue that is not partitioned, and where its key is not in these columns.
        """
        partitioning = self._partitionings.get(queue)
        if partitioning is None:
            raise InputError(f"queue {queue!r} is not partitioned")
        gets = self._outcomes.reach(self._used, queue).take(self.index)
        result = np.full(len(self), UNDECIDED, np.int32)
        rows = np.flatnonzero(gets)
        result[rows] = self._choose(partitioning, rows)
        return result

    def _choose(self, partitioning: Partitioning, rows: npt.NDArray[np.intp]) -> PartitionArray:
        from exchange.values.message import Message

        source = partitioning.key
        if source.part not in ("routing_key", "word", "header"):
            raise InputError(f"partitions follow from the {source.part} of a message, which is not in these columns")
        parts: list[PartitionArray] = []
        start = 0
        for keys in self._keys:
            here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(keys))]
            if source.part == "header":
                tables = [{} if self._headers is None else self._headers.table(int(row)) for row in here]
                parts.append(_partition(partitioning, [source.read(Message(headers=table)) for table in tables]))
            else:
                chosen = keys.take(pa.array(here - start)).dictionary_encode()
                texts = [_text(key) for key in chosen.dictionary.to_pylist()]
                found = [source.read(Message(routing_key=text)) for text in texts]
                parts.append(_partition(partitioning, found).take(np.asarray(chosen.indices)))
            start += len(keys)
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def to_arrow(self) -> pa.DictionaryArray:
        """Return the outcome of each row as a dictionary-encoded array of structs."""
        return pa.DictionaryArray.from_arrays(pa.array(self.index), self.outcomes)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        exported: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return exported

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        index, outcomes = pa.array(self.index), self.outcomes
        named = zip(outcomes.type.names, outcomes.flatten(), strict=True)
        columns = {name: pa.DictionaryArray.from_arrays(index, values) for name, values in named}
        columns["outcome"] = index
        return pa.table(columns).__arrow_c_stream__(requested_schema)


def _lists(names: Sequence[Sequence[str]]) -> pa.ListArray:
    offsets = np.cumsum([0, *map(len, names)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), show_texts([name for each in names for name in each]))


def show_texts(names: Sequence[str]) -> pa.StringArray:
    """Return names, with U+FFFD for bytes that are not UTF-8."""
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError:
        return pa.array([name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in names])


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")


def _partition(partitioning: Partitioning, keys: Sequence[Any]) -> PartitionArray:
    try:
        return partition_batch(partitioning.partitioner, keys, partitioning.partitions)
    except InputError:  # the client refuses a key: choose for each by itself, so that the others get partitions
        chosen = [partitioning.partition_for(key) for key in keys]
        return np.array([UNDECIDED if each is None else each for each in chosen], np.int32)
