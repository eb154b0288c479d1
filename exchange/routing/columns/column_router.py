"""Route columns of messages: classes of keys that route alike, and one message of each class for the router.

So this module does not know how an exchange routes. Keys are in one class if the same bindings match them, up to
bindings that lead to the same destinations. One message of each class is routed, and its route holds for the class,
unless it passed an exchange that reads more than keys:

* past a headers exchange, the headers that bindings ask for divide the class further, and past one that delays
  messages, the header with the delay;
* past an exchange that hashes or evaluates a selector, and for messages with CC or BCC, each distinct combination of
  key and headers is routed;
* past an exchange that chooses at random, each row is routed, in the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exchange.arrays.arrow import read_column, read_texts
from exchange.arrays.columns import Column
from exchange.arrays.grouping import CHUNK, decode_dictionary, group_keys, split_pieces
from exchange.arrays.table import IntArray, KeyArray, pack_pairs
from exchange.errors import BrokerError, InputError
from exchange.kinds import Choose, Decider, can_delay, find_kind
from exchange.patterns.columns.set_numbers import UNKNOWN
from exchange.routing.columns.headers import HeaderColumn
from exchange.routing.columns.key_classes import KeyClasses, KeyDecisions
from exchange.routing.columns.outcomes import Outcomes
from exchange.routing.columns.route_columns import RouteColumns
from exchange.routing.route import Route
from exchange.routing.walk import Visit
from exchange.topology.topology import Topology
from exchange.values.field_values import to_bytes
from exchange.values.message import NO_FIELDS, Message

SETS: Final = 1 << 19
"""Maximum number of sets of patterns for each exchange, and of outcomes; then, all are forgotten after the call."""

SIGNATURES: Final = 1 << 20
"""Number of signatures, and of key classes, above which nothing is kept for the next call."""

# Numbers of outcomes are greater than 0; an array of them may also hold these marks.
BY_HEADERS: Final = -1
BY_MESSAGE: Final = -2
BY_ROW: Final = -3

DECIDERS: Final = {
    Decider.HEADERS: BY_HEADERS, Decider.SELECTOR: BY_MESSAGE, Decider.HASH: BY_MESSAGE, Decider.CHANCE: BY_ROW,
}  # fmt: skip
"""What decides at an exchange -> how messages that pass it are routed; all others by the class of their key."""


class MessageRouter(Protocol):
    """Routes messages one by one, as `Router`, which uses this module."""

    def route(self, message: Message) -> Route:
        """Return where the message goes."""

    def trace(self, message: Message) -> tuple[Route, list[Visit]]:
        """Return the route with what each exchange decided."""


MakeRouter: TypeAlias = Callable[..., MessageRouter]
"""The constructor of `Router`."""


class ColumnRouter:
    """Routes columns of messages through one topology; see `Router.route_columns`. Safe to use from several threads.

    Key classes and their routes are kept from call to call.
    """

    def __init__(self, topology: Topology, choose: Choose, make_router: MakeRouter) -> None:
        self._lock: Final = Lock()
        self._topology: Final = topology
        self._choose: Final = choose
        self._make_router: Final = make_router
        self._partitionings: Final = {
            name: queue.partitioning for name, queue in topology.queues.items() if queue.partitioning is not None
        }
        self._marks: Final = {
            name: DECIDERS.get(find_kind(exchange).decider, BY_HEADERS)
            for name, exchange in topology.exchanges.items()
            if find_kind(exchange).decider in DECIDERS or can_delay(exchange)
        }
        self._deciding = False
        self._begin()

    @cached_property
    def _router(self) -> MessageRouter:
        # Partitions are computed for whole columns, see `RouteColumns.partitions`.
        topology = self._topology
        queues = [replace(queue, partitioning=None) for queue in topology.queues.values()]
        return self._make_router(topology.with_parts(queues=queues), choose=self._draw, cache=0)

    def _begin(self) -> None:
        self._outcomes = Outcomes(self._topology.queues, SETS)
        self._keys = KeyClasses(self._topology, to_bytes, SETS, self._outcomes)
        self._decisions = KeyDecisions(self._keys, self._decide_keys, BY_MESSAGE)
        self._codes = {entry.name: number for number, entry in enumerate(self._keys.entries)}

    def route(self, exchange: Any, keys: Any, headers: Any = None, properties: Any = None) -> RouteColumns:
        """Return the routes of messages, as `Router.route_columns`."""
        chunks = read_texts(keys, "routing key")
        rows = sum(map(len, chunks))
        if isinstance(exchange, str):
            names, codes = [exchange], None
        else:
            names, codes = _encode_names(read_texts(exchange, "exchange"))
            _check_rows(len(codes), rows, "exchanges")
        tables, more = (
            None if each is None else HeaderColumn(join_chunks(read_column(each, what)), what)
            for each, what in ((headers, "headers"), (properties, "properties"))
        )
        for each, what in ((tables, "headers"), (more, "properties")):
            if each is not None:
                _check_rows(len(each), rows, f"tables of {what}")
        with self._lock:
            entries = np.array([self._entry_of(name) for name in names], np.int64)
            if codes is None and entries[0] < 0 and rows:
                raise self._outcomes.errors(~entries)[0]
            index, classes = self._route_keys(entries, codes, chunks, rows)
            alone = index < 0
            if tables is not None:  # CC and BCC are more keys; a refusal of the exchange does not depend on keys
                alone |= (tables.has("CC") | tables.has("BCC")) & (True if codes is None else entries.take(codes) >= 0)
            if alone.any():
                self._route_rest(_Rest(names, codes, chunks, tables, more), np.flatnonzero(alone), classes, index)
            result = self._collect(index, chunks, tables)
            learned = max(len(self._decisions.answers), self._keys.signatures)
            if len(self._outcomes) >= SETS or learned > SIGNATURES:
                self._begin()
            return result

    def _route_keys(
        self, entries: npt.NDArray[np.int64], codes: IntArray | None, chunks: Sequence[pa.Array], rows: int
    ) -> tuple[IntArray, IntArray]:
        """Return for each row the outcome by its key, or a mark, and the number of its key class.

        The number is 0 where the exchange is a direct entry, whose keys have outcomes in place of classes.
        """
        index, classes = np.empty(rows, np.int32), np.empty(rows, np.int32)
        only = self._keys.entries[int(entries[0])] if codes is None and entries[0] >= 0 else None
        start = 0
        for chunk in chunks:
            end = start + len(chunk)
            which = None if codes is None else codes[start:end]
            keys, of = decode_dictionary(chunk), None
            grouped = group_keys(chunk, which, len(entries))
            if grouped is not None:
                keys, distinct, of = grouped
                which = None if which is None else distinct
            numbers = np.zeros(len(keys), np.int32)
            if only is not None and only.direct:
                answers = self._keys.outcomes_of(split_pieces(keys), len(keys), only)
                answers[answers == UNKNOWN] = BY_MESSAGE
            else:
                at = 0
                for column in split_pieces(keys):
                    piece = slice(at, at + column.size)
                    entry = np.repeat(entries, column.size) if which is None else entries.take(which[piece])
                    numbers[piece], _ = self._decisions.number(column, entry)
                    at += column.size
                answers = self._decisions.answers.take(numbers)
            if which is not None:
                entry = entries.take(which)
                answers = np.where(entry < 0, ~entry, answers).astype(np.int32)
            index[start:end] = answers if of is None else answers.take(of)
            classes[start:end] = numbers if of is None else numbers.take(of)
            start = end
        return index, classes

    def _route_rest(self, rest: _Rest, rows: npt.NDArray[np.intp], classes: IntArray, index: IntArray) -> None:
        """Set the outcomes of the rows that keys do not decide."""
        inputs = [entry.inputs for entry in self._keys.entries]
        names = dict.fromkeys(header for each in inputs for header in each.headers)
        groups = rest.groups((*names, "CC", "BCC"), dict.fromkeys(name for each in inputs for name in each.properties))
        by_headers = rows[index[rows] == BY_HEADERS]
        if rest.headers is not None:
            copies = rest.headers.has("CC") | rest.headers.has("BCC")
            index[rows[copies[rows]]] = BY_MESSAGE
            by_headers = by_headers[~copies[by_headers]]
        if len(by_headers):
            pairs = pack_pairs(classes[by_headers], groups[by_headers])
            _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
            decided = [self._decide_message(message, BY_MESSAGE) for message in rest.messages(by_headers[first])]
            index[by_headers] = np.array(decided, np.int32)[which]
        left = rows[index[rows] < 0]
        known: dict[tuple[str, str, int], int] = {}
        for low in range(0, len(left), CHUNK):
            part = left[low : low + CHUNK]
            for row, message in zip(part.tolist(), rest.messages(part), strict=True):
                identity = (message.exchange, message.routing_key, int(groups[row]))
                outcome = known.get(identity)
                if outcome is None:
                    outcome = known[identity] = self._decide_message(message, BY_ROW)
                index[row] = self._route_message(message) if outcome == BY_ROW else outcome

    def _entry_of(self, name: str) -> int:
        """Return the index of an exchange among the entries; ~outcome if it takes no messages."""
        code = self._codes.get(name)
        return ~self._route_message(Message(name)) if code is None else code

    def _decide_keys(self, key_classes: KeyArray, column: Column, rows: Sequence[int]) -> list[int]:
        pairs = zip(key_classes.tolist(), rows, strict=True)
        return [self._decide(key_class, column, row) for key_class, row in pairs]

    def _decide(self, key_class: int, column: Column, row: int) -> int:
        """Route a key without headers; return the outcome, or a mark if the key alone does not decide."""
        start = self._keys.entry_of(key_class)
        if start.direct:
            return self._keys.outcome_of(key_class)
        if start.alone:  # the router would take the same bindings
            return self._outcomes.number(Route(tuple(sorted(self._keys.queues_of(key_class)))))
        message = Message(start.name, column.key(row).decode("utf-8", "surrogateescape"))
        return self._decide_message(message, BY_HEADERS)

    def _decide_message(self, message: Message, least: int) -> int:
        """Return the outcome of a message, or a mark if it passes an exchange with a mark of ``least`` or less."""
        code = self._codes.get(message.exchange)
        if code is not None and self._marks.keys().isdisjoint(self._keys.entries[code].reached):
            return self._route_message(message)
        self._deciding = True
        try:
            _, visits = self._router.trace(message)
        except BrokerError:
            return min(least, BY_MESSAGE)
        finally:
            self._deciding = False
        mark = min([self._marks.get(visit.exchange.name, 0) for visit in visits])
        return mark if mark <= least else self._route_message(message)

    def _draw(self, count: int) -> int:
        return 0 if self._deciding else self._choose(count)

    def _route_message(self, message: Message) -> int:
        """Return the outcome of a message."""
        try:
            return self._outcomes.number(self._router.route(message))
        except BrokerError as error:
            return self._outcomes.number_refusal(error)

    def _collect(self, index: IntArray, keys: Sequence[pa.Array], headers: HeaderColumn | None) -> RouteColumns:
        """Return the result, with the outcomes of these rows only."""
        occurs = np.zeros(len(self._outcomes) + 1, np.bool_)
        occurs[index] = True
        used = np.flatnonzero(occurs)
        numbers = np.zeros(len(occurs), np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        errors = self._outcomes.errors(used)
        return RouteColumns(numbers.take(index), errors, self._outcomes, used, keys, headers, self._partitionings)


class _Rest(NamedTuple):
    """The columns of a call, for rows that keys alone do not decide."""

    names: Sequence[str]
    codes: IntArray | None
    keys: Sequence[pa.Array]
    headers: HeaderColumn | None
    properties: HeaderColumn | None

    def groups(self, headers: Iterable[str], properties: Iterable[str]) -> IntArray:
        """Return a number for each row, equal for rows in which these headers and properties are equal."""
        result = np.zeros(sum(map(len, self.keys)), np.int32)
        if self.headers is not None:
            result = self.headers.groups(headers)
        if self.properties is not None:
            pairs = pack_pairs(result, self.properties.groups(properties))
            result = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
        return result

    def messages(self, rows: npt.NDArray[np.intp]) -> Iterator[Message]:
        """Yield rows as messages."""
        keys = join_chunks(pa.chunked_array(self.keys)).take(pa.array(rows)).to_pylist()
        for row, key in zip(rows.tolist(), keys, strict=True):
            name = self.names[0 if self.codes is None else self.codes[row]]
            text = key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")
            headers = NO_FIELDS if self.headers is None else self.headers.table(row)
            yield Message(name, text, headers, NO_FIELDS if self.properties is None else self.properties.table(row))


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked array as one array."""
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _encode_names(chunks: Sequence[pa.Array]) -> tuple[list[str], IntArray]:
    """Return the distinct names of a column of exchanges, and for each row the index of its name."""
    numbers: dict[str | bytes, int] = {}
    codes = []
    for chunk in chunks:
        coded = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
        own = [numbers.setdefault(name, len(numbers)) for name in coded.dictionary.to_pylist()]
        codes.append(np.array(own, np.int32).take(np.asarray(coded.indices)))
    names = [name if isinstance(name, str) else name.decode("utf-8", "surrogateescape") for name in numbers]
    return names, np.concatenate(codes) if codes else np.zeros(0, np.int32)


def _check_rows(count: int, rows: int, what: str) -> None:
    if count != rows:
        raise InputError(f"{count} {what} for {rows} routing keys: the columns must have the same length")
