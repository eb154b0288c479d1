"""For each message of a column its class: a number that stands for what becomes of it.

Messages to one exchange are alike when the same patterns match their keys and the same literal key is theirs. Of each
sort one is shown to the router, and its answer holds for all; unless it went through an exchange that looks at more
than keys. Then headers divide the sort further, and where there is no telling, as with hashes, CC and BCC, every
message is shown to the router, once for all that have the same key, headers and properties.

So nothing here knows how an exchange routes: the worst that a mistake in a pattern's reading could do is to take
messages for alike that are not, and that is what the tests are about.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.keys import CHUNK, chunks
from bindings.counts.columnar.arrays.messages import messages_of, with_copies
from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray
from bindings.counts.columnar.classes.header_classes import HeaderSorts
from bindings.counts.columnar.classes.key_classes import NO_SORT, STATES, KeySorts
from bindings.counts.columnar.classes.key_groups import Addresses, addresses_of
from bindings.counts.columnar.classes.routing_inputs import ALONE, HEADERS, special
from bindings.counts.outcome import Explorer, Outcome
from exchange.entities.entities import Binding
from exchange.field_values import type_and_value
from exchange.message import Message
from exchange.partition.batch.columns import Column
from exchange.topology.topology import Topology

__all__ = ["NEEDED", "STATES", "Classes", "Classifier"]

NEEDED: Final = ("exchange", "routing_key", "cc", "bcc")
"""Columns of `bindings.archive.record.SCHEMA` that decide in every topology."""

REMEMBERED: Final = 65_536
"""So many messages that were asked about one by one are remembered."""

BY_HEADERS: Final = -1
BY_MESSAGE: Final = -2
UNKNOWN: Final = -3
"""In the place of a class, where the key does not decide, and where nobody has asked yet."""


class Classes(NamedTuple):
    """Of each row."""

    classes: IntArray
    """The index of its outcome in `Classifier.outcomes`."""
    shapes: KeyArray
    """A hash of its key with all words alike that no binding names."""


class Classifier:
    """Finds classes. ``states`` bounds the memory that patterns take; results do not depend on it.

    What it has learned about keys it keeps; not safe to use from several threads at once.
    """

    def __init__(self, topology: Topology, *, states: int = STATES) -> None:
        self._explorer: Final = Explorer(topology)
        self._special: Final = special(topology)
        self._key_sorts: Final = KeySorts(topology, states)
        self._entries: Final = self._key_sorts.entries
        self._codes: Final = {entry.name: number for number, entry in enumerate(self._entries)}
        """Exchange -> its place among the entries, or ~class if it refuses."""
        self._outcomes: Final[list[Outcome]] = []
        self._by_outcome: Final[dict[Outcome, int]] = {}
        self._sorts: Final = IntTable()  # numbers of sorts, from 1 on
        self._fates = np.full(1, BY_MESSAGE, np.int32)  # of each such number; the first one is of ``NO_SORT``
        headers = dict.fromkeys(header for entry in self._entries for header in entry.way.headers)
        self._header_sorts: Final = HeaderSorts(headers, self._asking(topology), topology.profile)
        self._header_fates = np.full(1, UNKNOWN, np.int32)
        self._alone: Final[dict[Hashable, int]] = {}

    def _asking(self, topology: Topology) -> Iterator[Binding]:
        for name, what in self._special.items():
            if what == HEADERS:
                yield from topology.bindings_from(name)

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Class -> what becomes of its messages; it grows."""
        return self._outcomes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it asks for."""
        ways = [entry.way for entry in self._entries]
        headers = ("headers",) if any(way.headers for way in ways) else ()
        return (*NEEDED, *headers, *(("properties",) if any(way.properties for way in ways) else ()))

    @property
    def states(self) -> int:
        """How many states patterns have led to until now."""
        return self._key_sorts.states

    def shape(self, key: str) -> tuple[str | None, ...]:
        """The words of a key, None in the place of those that no binding names."""
        return self._key_sorts.shape(key)

    def classify(self, batch: pa.RecordBatch) -> Classes:
        """The class of each row of a batch of `bindings.archive.record.SCHEMA`, of which it reads ``columns``.

        Texts may stand in dictionaries. A batch without a column has nothing in it. Raises InputError for keys that are
        null, or fields that are none.
        """
        addresses = addresses_of(batch)
        classes, shapes = self.classify_addresses(batch, addresses)
        return Classes(classes, addresses.spread(shapes))

    def classify_addresses(self, batch: pa.RecordBatch, addresses: Addresses) -> tuple[IntArray, KeyArray]:
        """As ``classify``, of a batch whose addresses are found: the class of each row, the shape of each address."""
        entries = self._entries_of(addresses)
        shapes = np.empty(len(entries), np.uint64)
        sorts = np.zeros(len(entries), np.int32)
        start = 0
        for column in chunks(addresses.keys):
            some = slice(start, start + column.size)
            sorts[some], shapes[some] = self._sorts_of(column, entries[some])
            start += column.size
        fates = self._fates.take(sorts)
        refused = entries < 0
        fates[refused] = ~entries[refused]
        classes = addresses.spread(fates)
        if (fates == BY_HEADERS).any():
            self._ask_about_headers(batch, np.flatnonzero(classes == BY_HEADERS), addresses.spread(sorts), classes)
        alone = classes == BY_MESSAGE
        copies = with_copies(batch)
        if copies is not None:
            alone |= copies & ~addresses.spread(refused)
        if alone.any():
            self._ask_about_each(batch, np.flatnonzero(alone), classes)
        return classes, shapes

    def _entries_of(self, addresses: Addresses) -> npt.NDArray[np.int64]:
        codes = np.array([self._entry(unescape(name)) for name in addresses.names], np.int64)
        return codes.take(addresses.exchanges) if len(codes) else codes

    def _entry(self, name: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = ~self._class_of(self._explorer.outcome(Message(name)))
            if len(self._codes) < REMEMBERED:
                self._codes[name] = code
        return code

    def _sorts_of(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[IntArray, KeyArray]:
        """The number of each key's sort, and the hash of its shape."""
        sorts, shapes = self._key_sorts.of(column, entries)
        numbers = self._sorts.find(sorts)
        missing = np.flatnonzero((numbers == 0) & (sorts != NO_SORT))
        if len(missing):
            new, first, places = np.unique(sorts[missing], return_index=True, return_inverse=True)
            fates = [self._fate(column, int(row), int(entries[row])) for row in missing[first]]
            begin = len(self._fates)
            self._fates = np.append(self._fates, np.array(fates, np.int32))
            self._sorts.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            numbers[missing] = begin + places
        return numbers, shapes

    def _fate(self, column: Column, row: int, entry: int) -> int:
        """What becomes of a sort, by one of it: without headers, which is how they show whether they matter."""
        outcome = self._explorer.outcome(Message(self._entries[entry].name, _text(column, row)))
        on_the_way = {self._special.get(name) for name in (*outcome.exchanges, *outcome.possible_exchanges)}
        if outcome.refused or ALONE in on_the_way:
            return BY_MESSAGE
        if HEADERS in on_the_way:
            return BY_HEADERS
        return self._class_of(outcome)

    def _class_of(self, outcome: Outcome) -> int:
        found = self._by_outcome.get(outcome)
        if found is None:
            found = self._by_outcome[outcome] = len(self._outcomes)
            self._outcomes.append(outcome)
        return found

    def _ask_about_headers(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], sorts: IntArray, classes: IntArray
    ) -> None:
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        if len(rows) < batch.num_rows:
            sorts = sorts[rows]
            headers = None if headers is None else headers.take(pa.array(rows))
        numbers = self._header_sorts.of(sorts, headers)
        if len(self._header_fates) < len(self._header_sorts):
            more = np.full(len(self._header_sorts) - len(self._header_fates), UNKNOWN, np.int32)
            self._header_fates = np.append(self._header_fates, more)
        fates = self._header_fates.take(numbers)
        missing = np.flatnonzero(fates == UNKNOWN)
        if len(missing):
            new, first = np.unique(numbers[missing], return_index=True)
            witnesses = messages_of(batch, rows[missing[first]], self._header_sorts.headers)
            self._header_fates[new] = [self._header_fate(message) for message in witnesses]
            fates = self._header_fates.take(numbers)
        classes[rows] = fates

    def _header_fate(self, message: Message) -> int:
        outcome = self._explorer.outcome(message)
        names = (*outcome.exchanges, *outcome.possible_exchanges)
        alone = any(self._special.get(name) == ALONE for name in names)
        return BY_MESSAGE if alone else self._class_of(outcome)

    def _ask_about_each(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], classes: IntArray) -> None:
        for low in range(0, len(rows), CHUNK):
            part = rows[low : low + CHUNK]
            classes[part] = [self._class_alone(message) for message in messages_of(batch, part)]

    def _class_alone(self, message: Message) -> int:
        way = self._entries[self._codes[message.exchange]].way
        asked = [message.headers.get(name, _ABSENT) for name in way.headers]
        asked += [message.properties.get(name, _ABSENT) for name in way.properties]
        seen = tuple([None if value is _ABSENT else repr(type_and_value(value)) for value in asked])
        identity = (message.exchange, message.routing_keys(), seen)
        known = self._alone.get(identity)
        if known is None:
            if len(self._alone) >= REMEMBERED:
                self._alone.clear()
            known = self._alone[identity] = self._class_of(self._explorer.outcome(message))
        return known


_ABSENT: Final = object()


def _text(column: Column, row: int) -> str:
    return unescape(column.data[column.offsets[row] : column.offsets[row + 1]].tobytes().decode())
