"""For each message of a column its class: a number that stands for what becomes of it.

Messages to one exchange are alike when the same patterns match their keys and the same literal key is theirs. Of each
sort one is shown to the router, and its answer holds for all; unless it went through an exchange that looks at more
than keys. Then headers divide the sort further, and where there is no telling, as with hashes, CC and BCC, every
message is shown to the router, once for all that have the same key, headers and properties.

So nothing here knows how an exchange routes: the worst that a mistake in a pattern's reading could do is to take
messages for alike that are not, and that is what the tests are about.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.fields import tables_of
from bindings.archive.names import escaped, unescaped
from bindings.batch.automaton import BEYOND, Automaton
from bindings.batch.header_codes import HeaderCodes
from bindings.batch.keys import CHUNK, chunks, column_of_bytes, plain
from bindings.batch.table import IntArray, IntTable, KeyArray, pairs
from bindings.batch.ways import ALONE, HEADERS, Way, kind_of, special, way_from
from bindings.batch.words import Vocabulary, Words, split
from bindings.outcome import Explorer, Outcome
from exchange.errors import InputError
from exchange.message import Message
from exchange.partition.batch.columns import Column
from exchange.pattern import Pattern, ordered
from exchange.topology import Topology
from exchange.values import type_and_value

__all__ = ["NEEDED", "STATES", "Classes", "Classifier"]

NEEDED: Final = ("exchange", "routing_key", "cc", "bcc")
"""Columns of `bindings.archive.record.SCHEMA` that decide in every topology."""

STATES: Final = 1 << 17
"""So many states an automaton has at most."""

REMEMBERED: Final = 65_536
"""So many messages that were asked about one by one are remembered."""

BY_HEADERS: Final = -1
BY_MESSAGE: Final = -2
"""In the place of a class, where the key does not decide."""

ENTRY_SHIFT: Final = np.uint64(44)
ACCEPTED_SHIFT: Final = np.uint64(24)
"""Where in a sort's key the exchange and the accepted patterns begin; the literal key has the lowest bits."""

MOST_STATES: Final = 1 << 19
"""What a sort's key has room for."""

MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


class Classes(NamedTuple):
    """Of each row."""

    classes: IntArray
    """The index of its outcome in `Classifier.outcomes`."""
    shapes: KeyArray
    """A hash of its key with all words alike that no binding names."""


class _Entry(NamedTuple):
    """An exchange that messages are published to."""

    name: str
    state: int
    way: Way


class Classifier:
    """Finds classes. ``states`` bounds the memory that patterns take; results do not depend on it.

    What it has learned about keys it keeps; not safe to use from several threads at once.
    """

    def __init__(self, topology: Topology, *, states: int = STATES) -> None:
        self._topology: Final = topology
        self._explorer: Final = Explorer(topology)
        self._special: Final = special(topology)
        self._automaton: Final = Automaton(min(states, MOST_STATES))
        self._vocabulary: Final = Vocabulary()
        self._entries: Final[list[_Entry]] = []
        self._codes: Final[dict[str, int]] = {}  # exchange -> its place among the entries, or ~class if it refuses
        self._outcomes: Final[list[Outcome]] = []
        self._by_outcome: Final[dict[Outcome, int]] = {}
        self._sorts: Final = IntTable()
        self._fates = np.zeros(1, np.int32)  # of each sort its class, or BY_HEADERS, BY_MESSAGE
        self._headers: Final[dict[str, HeaderCodes]] = {}
        self._narrowed: Final = IntTable()  # pairs of a sort, or what it was narrowed to, and a header's code
        self._narrow_fates: Final[dict[int, int]] = {}
        self._alone: Final[dict[Hashable, int]] = {}
        self._learn_patterns()
        self._entry_array = np.array([entry.state for entry in self._entries], np.int32)

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
        return self._automaton.states

    def classify(self, batch: pa.RecordBatch) -> Classes:
        """The class of each row of a batch of `bindings.archive.record.SCHEMA`, of which it reads ``columns``.

        A batch without a column has nothing in it. Raises InputError for keys that are null, or fields that are none.
        """
        for name in ("exchange", "routing_key"):
            if batch.column(name).null_count:
                raise InputError(f"a message without {name.replace('_', ' ')} cannot be routed")
        classes = np.empty(batch.num_rows, np.int32)
        shapes = np.empty(batch.num_rows, np.uint64)
        entries = self._entries_of(batch.column("exchange"))
        sorts = np.zeros(batch.num_rows, np.int32)
        start = 0
        for column in chunks(plain(batch.column("routing_key"))):
            rows = slice(start, start + column.size)
            sorts[rows], shapes[rows] = self._sorts_of(column, entries[rows])
            start += column.size
        refused = entries < 0
        alone = sorts == 0
        classes[:] = self._fates[sorts]
        self._ask_about_headers(batch, sorts, classes, ~alone)
        with_copies = _with_copies(batch)
        alone |= with_copies | (classes == BY_MESSAGE)
        alone &= ~refused
        self._ask_about_each(batch, np.flatnonzero(alone), classes)
        if refused.any():
            classes[refused] = ~entries[refused]
        return Classes(classes, shapes)

    def shape(self, key: str) -> tuple[str | None, ...]:
        """The words of a key, None in the place of those that no binding names."""
        words = key.split(".") if key else []
        if not words:
            return ()
        numbers = self._vocabulary.numbers_of([escaped(word).encode() for word in words])
        return tuple([word if number else None for word, number in zip(words, numbers.tolist(), strict=True)])

    def _learn_patterns(self) -> None:
        topology = self._topology
        roots = {}
        literals: dict[str, None] = dict.fromkeys(topology.queues)
        texts: dict[str, None] = {}
        for name, exchange in topology.exchanges.items():
            kind = kind_of(exchange)
            if kind not in ("topic", "direct"):
                continue
            wild: dict[str, None] = {}
            for binding in topology.bindings_from(name):
                key = binding.routing_key
                if kind == "topic" and ("*" in key or "#" in key) and not Pattern.of_binding_key(key).literal:
                    wild[key] = None
                else:
                    literals[key] = None
            if wild:
                roots[name] = self._automaton.tree([ordered(Pattern.of_binding_key(key).words) for key in wild])
                texts |= wild
        for name, exchange in topology.exchanges.items():
            if exchange.internal:
                continue
            way = way_from(topology, name)
            self._codes[name] = len(self._entries)
            state = self._automaton.start([roots[topic] for topic in way.topics if topic in roots])
            self._entries.append(_Entry(name, state, way))
        for way in {entry.way for entry in self._entries}:
            for header in way.headers:
                if header not in self._headers:
                    self._headers[header] = HeaderCodes(header, self._headers_bindings(), topology.profile)
        self._learn_words(list(literals), list(texts))

    def _headers_bindings(self) -> Iterable[Any]:
        for name, what in self._special.items():
            if what == HEADERS:
                yield from self._topology.bindings_from(name)

    def _learn_words(self, literals: list[str], patterns: list[str]) -> None:
        named = [escaped(text).encode() for text in literals]
        words = split(column_of_bytes(named))
        self._vocabulary.add(words)
        columns = self._automaton.columns
        wild = [escaped(word).encode() for word in columns]
        self._vocabulary.add_each(wild)
        self._column_of = np.zeros(len(self._vocabulary), np.int32)
        if wild:
            self._column_of[self._vocabulary.numbers_of(wild)] = np.arange(1, len(wild) + 1, dtype=np.int32)
        # Literal keys are found by a hash of their words' numbers, and then compared.
        self._literal_words = self._vocabulary.numbers(words)
        self._literal_first = np.append(0, words.first)
        self._literal_counts = np.append(0, words.counts)
        hashes = _hashes(self._literal_words, words.first, words.counts)
        distinct, first = np.unique(hashes, return_index=True)
        self._literals = IntTable()
        self._literals.put(distinct, (first + 1).astype(np.int32))
        twice = np.ones(len(hashes), np.bool_)
        twice[first] = False
        self._ambiguous = np.unique(hashes[twice])
        """Hashes that two literal keys have: keys with one are asked about one by one."""

    def _entries_of(self, names: Any) -> npt.NDArray[np.int64]:
        encoded = names if isinstance(names, pa.DictionaryArray) else names.dictionary_encode()
        codes = [self._entry(unescaped(name)) for name in encoded.dictionary.to_pylist()]
        return np.array(codes, np.int64)[np.asarray(encoded.indices)] if codes else np.zeros(0, np.int64)

    def _entry(self, name: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = ~self._class_of(self._explorer.outcome(Message(name)))
            if len(self._codes) < REMEMBERED:
                self._codes[name] = code
        return code

    def _sorts_of(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[IntArray, KeyArray]:
        """The sort of each key, 0 where every message is one of its own; and the hash of its shape."""
        words = split(column)
        numbers = self._vocabulary.numbers(words)
        states = self._entry_array[np.maximum(entries, 0)]
        hashes = _walk(self._automaton, states, self._column_of.take(numbers), numbers, words.first, words.counts)
        literals = self._literals_of(hashes, numbers, words)
        beyond = (states == BEYOND) | (literals < 0) | (entries < 0)
        keys = (entries.astype(np.uint64) << ENTRY_SHIFT) | (
            (self._automaton.accepted(states).astype(np.uint64) + np.uint64(1)) << ACCEPTED_SHIFT
        )
        keys |= literals.astype(np.uint64)
        if beyond.any():
            keys[beyond] = 0
        sorts = self._sorts.find(keys)
        missing = np.flatnonzero((sorts == 0) & ~beyond)
        if len(missing):
            new, first, places = np.unique(keys[missing], return_index=True, return_inverse=True)
            fates = [self._fate(column, int(row), int(entries[row])) for row in missing[first]]
            begin = len(self._fates)
            self._fates = np.append(self._fates, np.array(fates, np.int32))
            self._sorts.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            sorts[missing] = begin + places
        return sorts, hashes

    def _literals_of(self, hashes: KeyArray, numbers: IntArray, words: Words) -> IntArray:
        """Which literal key each key is, from 1 on; 0 for none and -1 for those that must be asked about."""
        found = self._literals.find(hashes)
        rows = np.flatnonzero(found)
        if not len(rows):
            return found
        which = found[rows]
        counts = self._literal_counts[which]
        same = counts == words.counts[rows]
        for place in range(int(counts.max(initial=0))):
            on = np.flatnonzero(same & (counts > place))
            mine = numbers[words.first[rows[on]] + place]
            same[on] = mine == self._literal_words[self._literal_first[which[on]] + place]
        found[rows[~same]] = 0
        if len(self._ambiguous):
            found[np.isin(hashes, self._ambiguous)] = -1
        return found

    def _fate(self, column: Column, row: int, entry: int) -> int:
        """What becomes of a sort, by one of it: without headers, which is how they show whether they matter."""
        key = _text(column, row)
        outcome = self._explorer.outcome(Message(self._entries[entry].name, key))
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
        self, batch: pa.RecordBatch, sorts: IntArray, classes: IntArray, known: npt.NDArray[np.bool_]
    ) -> None:
        rows = np.flatnonzero(known & (classes == BY_HEADERS))
        if not len(rows):
            return
        narrowed = sorts[rows]
        table = batch.column("headers") if "headers" in batch.schema.names else None
        if table is not None:
            cut = table if len(rows) == len(table) else table.take(pa.array(rows))
            for codes in self._headers.values():
                narrowed = self._narrow(narrowed, codes.of(cut))
        distinct, first, places = np.unique(narrowed, return_index=True, return_inverse=True)
        new = [at for at, sort in enumerate(distinct.tolist()) if sort not in self._narrow_fates]
        if new:
            witnesses = self._messages(batch, rows[first[new]], self._headers)
            for at, message in zip(new, witnesses, strict=True):
                outcome = self._explorer.outcome(message)
                names = (*outcome.exchanges, *outcome.possible_exchanges)
                alone = any(self._special.get(name) == ALONE for name in names)
                self._narrow_fates[int(distinct[at])] = BY_MESSAGE if alone else self._class_of(outcome)
        fates = np.array([self._narrow_fates[sort] for sort in distinct.tolist()], np.int32)
        classes[rows] = fates[places]

    def _narrow(self, sorts: IntArray, codes: IntArray) -> IntArray:
        keys = pairs(sorts, codes)
        found = self._narrowed.find(keys)
        if not found.all():
            new = np.unique(keys[found == 0])
            # Apart from the sorts of keys, which have the numbers from 1 on.
            begin = (1 << 30) + len(self._narrowed)
            self._narrowed.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            found = self._narrowed.find(keys)
        return found

    def _ask_about_each(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], classes: IntArray) -> None:
        for low in range(0, len(rows), CHUNK):
            part = rows[low : low + CHUNK]
            found = []
            for message in self._messages(batch, part, None):
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
                found.append(known)
            classes[part] = found

    def _messages(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], only: Iterable[str] | None) -> list[Message]:
        """These rows as messages; with ``only`` some headers, and then without CC and BCC."""
        part = batch.take(pa.array(rows))
        names = part.schema.names
        texts = zip(part.column("exchange").to_pylist(), part.column("routing_key").to_pylist(), strict=True)
        none: list[dict[str, Any]] = [{} for _ in rows]
        headers = tables_of(part.column("headers")) if "headers" in names else none
        properties = tables_of(part.column("properties")) if "properties" in names else none
        if only is not None:
            headers = [{name: table[name] for name in only if name in table} for table in headers]
        for name in ("CC", "BCC") if only is None else ():
            if name.lower() in names:
                for table, keys in zip(headers, part.column(name.lower()).to_pylist(), strict=True):
                    if keys and name not in table:
                        table[name] = [unescaped(key) for key in keys]
        columns = zip(texts, headers, properties, strict=True)
        return [Message(unescaped(exchange), unescaped(key), h, p) for (exchange, key), h, p in columns]


_ABSENT: Final = object()


def _walk(
    automaton: Automaton,
    states: IntArray,
    columns: IntArray,
    numbers: IntArray,
    first: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> KeyArray:
    """Lead each state through its key's words, in place; and hash the words' numbers on the way.

    Keys are taken longest first, so that those that have a word at a place are the first ones.
    """
    order = np.argsort(counts.astype(np.min_scalar_type(int(counts.max(initial=0)))), kind="stable")[::-1]
    ascending = counts[order[::-1]]
    places, now = first[order], states[order]
    hashes = np.zeros(len(counts), np.uint64)
    moves = automaton.patterns > 0
    for place in range(int(ascending[-1]) if len(ascending) else 0):
        size = len(counts) - int(np.searchsorted(ascending, place, "right"))
        at = places[:size] + place
        if moves:
            now[:size] = automaton.step(now[:size], columns[at])
        part = hashes[:size]
        part ^= numbers[at].astype(np.uint64)
        part *= MULTIPLIER
        part ^= part >> np.uint64(29)
    states[order] = now
    result = np.empty(len(counts), np.uint64)
    result[order] = hashes
    return _finished(result, counts)


def _hashes(numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> KeyArray:
    """The same hash, of keys that no automaton is led through."""
    hashes = np.zeros(len(counts), np.uint64)
    for place in range(int(counts.max(initial=0))):
        on = np.flatnonzero(counts > place)
        part = hashes[on] ^ numbers[first[on] + place].astype(np.uint64)
        part *= MULTIPLIER
        hashes[on] = part ^ (part >> np.uint64(29))
    return _finished(hashes, counts)


def _finished(hashes: KeyArray, counts: npt.NDArray[np.int64]) -> KeyArray:
    # Words that nobody named are 0, as no word is; the count tells them apart. A table's key is never 0.
    return (hashes ^ (counts.astype(np.uint64) * MULTIPLIER)) | np.uint64(1)


def _with_copies(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows have routing keys in CC or BCC."""
    result = np.zeros(batch.num_rows, np.bool_)
    for name in ("cc", "bcc"):
        if name in batch.schema.names and batch.num_rows:
            result |= np.diff(np.asarray(batch.column(name).offsets)) > 0
    return result


def _text(column: Column, row: int) -> str:
    return unescaped(column.data[column.offsets[row] : column.offsets[row + 1]].tobytes().decode())
