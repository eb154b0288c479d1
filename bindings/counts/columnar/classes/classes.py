"""Compute the class of each message of a batch: the number of its outcome.

Messages to one exchange have one key class when the same patterns match their keys and the same literal key, if any,
equals them. One message of each key class is shown to the router, and its outcome holds for the whole key class, unless
it passed an exchange that reads more than keys. Then headers divide the key class further; and where headers do not
suffice, as with hashes, CC and BCC, messages are routed one by one: the router sees one message for each combination of
keys, headers and properties.

So this module does not know how an exchange routes. A mistake in reading a pattern could only put messages into one
class that route differently, and the tests look for that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.growing import GrowingArray
from bindings.counts.columnar.arrays.hashing import CHUNK, split_chunks
from bindings.counts.columnar.arrays.rows import build_messages, find_rows_with_copies
from bindings.counts.columnar.classes.header_classes import HeaderClasses
from bindings.counts.columnar.classes.known import KnownAddresses
from bindings.counts.columnar.classes.own_bindings import OwnBindings
from bindings.counts.outcome import Outcome, OutcomeExplorer
from exchange.arrays.columns import Column
from exchange.arrays.table import IntArray, KeyArray
from exchange.entities.entities import Binding
from exchange.routing.columns.addresses import RowAddresses, find_addresses
from exchange.routing.columns.key_classes import STATES, KeyClasses, KeyDecisions
from exchange.routing.columns.routing_inputs import ALONE, HEADERS, find_special_exchanges
from exchange.topology.topology import Topology
from exchange.values.field_values import resolve_type
from exchange.values.message import Message

__all__ = ["NEEDED", "STATES", "Classes", "Classifier"]

NEEDED: Final = ("exchange", "routing_key", "cc", "bcc")
"""Columns of `bindings.archive.record.SCHEMA` that are read in every topology."""

REMEMBERED: Final = 65_536
"""Maximum number of individually routed messages in their cache, and of exchange names in theirs."""

# An array of classes holds classes (0 or greater) and these marks (less than 0). A mark names the step that a row still
# needs: `classify_addresses` replaces all marks before it returns.
BY_HEADERS: Final = -1
"""Mark of a key class whose messages are divided by their headers."""
BY_MESSAGE: Final = -2
"""Mark of messages that are routed one by one."""
UNKNOWN: Final = -3
"""Mark of a header class not shown to the router yet; only in ``Classifier._class_of_header_class``."""


class Classes(NamedTuple):
    """The classes of the rows of a batch."""

    classes: IntArray
    """Row -> index of its outcome in `Classifier.outcomes`."""
    shapes: KeyArray
    """Row -> hash of its key's shape, in which ``*`` replaces every word that no binding names."""


class AddressClasses(NamedTuple):
    """The classes of the rows of a batch, of which the addresses were found."""

    classes: IntArray
    """Row -> index of its outcome in `Classifier.outcomes`."""
    shapes: KeyArray
    """Address -> hash of its key's shape."""
    numbers: IntArray | None
    """Address -> its number in `Classifier.known`; None if none is kept."""
    hashes: KeyArray | None
    """Address -> hash of its key; None if none is kept."""


class Classifier:
    """Computes the classes of messages.

    ``states`` is the maximum number of sets of patterns, and of states of an automaton; it bounds memory, and results
    do not depend on it. Keys and their classes are kept from batch to batch. Two topologies of the same parts under the
    rules of two releases have the same key classes: the classifier of the one, ``like``, finds them for both. With
    ``at_once``, outcomes are those before any delay. Not safe for several threads.
    """

    def __init__(
        self, topology: Topology, *, states: int = STATES, like: Classifier | None = None, at_once: bool = False
    ) -> None:
        self._topology: Final = topology
        self._explorer: Final = OutcomeExplorer(topology, at_once=at_once)
        self._special: Final = find_special_exchanges(topology)
        found = _FoundClasses(KeyClasses(topology, _encode, states))
        shared = like is not None and like._has_key_classes_of(topology, found.key_classes)
        self._found: Final[_FoundClasses] = like._found if like is not None and shared else found
        self._key_classes: Final = self._found.key_classes
        self._own: Final = OwnBindings(topology, self._key_classes)
        self._entries: Final = self._key_classes.entries
        # Exchange name of a message -> code. For an exchange that accepts messages: its index among the entries. For
        # any other name: ~class of the refusal, which is less than 0; ~code is the class again.
        self._codes: Final = {entry.name: number for number, entry in enumerate(self._entries)}
        self._outcomes: Final[list[Outcome]] = []
        self._by_outcome: Final[dict[Outcome, int]] = {}
        self._decisions: Final = KeyDecisions(self._key_classes, self._classes_of_keys, BY_MESSAGE)
        """For each key class, its class, or the mark ``BY_HEADERS`` or ``BY_MESSAGE``."""
        headers = dict.fromkeys(header for entry in self._entries for header in entry.inputs.headers)
        self._header_classes: Final = HeaderClasses(headers, self._asking(topology), topology.profile)
        self._class_of_header_class = np.full(1, UNKNOWN, np.int32)
        """Header class -> class, or the mark ``BY_MESSAGE`` or ``UNKNOWN``."""
        self._class_of_message: Final[dict[Hashable, int]] = {}

    def _has_key_classes_of(self, topology: Topology, key_classes: KeyClasses) -> bool:
        """Return whether the key classes of another topology are the same."""
        same_parts = self._topology.with_profile(topology.profile) == topology
        return same_parts and self._key_classes.entries == key_classes.entries

    def _asking(self, topology: Topology) -> Iterator[Binding]:
        for name, need in self._special.items():
            if need == HEADERS:
                yield from topology.bindings_from(name)

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Class -> outcome of its messages. The sequence grows while messages are classified."""
        return self._outcomes

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `bindings.archive.record.SCHEMA` that are read."""
        inputs = [entry.inputs for entry in self._entries]
        headers = ("headers",) if any(each.headers for each in inputs) else ()
        return (*NEEDED, *headers, *(("properties",) if any(each.properties for each in inputs) else ()))

    @property
    def sets(self) -> int:
        """Number of sets of patterns that keys have matched so far."""
        return self._key_classes.sets

    def shapes(self, keys: Sequence[str]) -> Iterator[list[str | None]]:
        """Yield the words of each key, with None for each word that no binding names; best asked for many keys."""
        return self._key_classes.shapes(keys)

    def classify(self, batch: pa.RecordBatch) -> Classes:
        """Return the class of each row of a batch of `bindings.archive.record.SCHEMA`; only ``columns`` are read.

        Texts may be dictionary-encoded; a missing column counts as empty. Raises InputError for a null exchange or
        routing key, and for a broken header field.
        """
        addresses = find_addresses(batch)
        found = self.classify_addresses(batch, addresses)
        return Classes(found.classes, addresses.spread(found.shapes))

    def classify_addresses(self, batch: pa.RecordBatch, addresses: RowAddresses) -> AddressClasses:
        """Return the class of each row, and what is known of each address; raises as ``classify``."""
        entries = self._codes_of(addresses)
        found = self._found.find(addresses, entries)
        parts = [self._decisions.number_classes(key_classes, column) for column, key_classes in found.new]
        if found.numbers is None:
            numbers = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        else:
            numbers = self._decisions.find(found.key_classes)
        by_address = self._decisions.answers.take(numbers)
        refused = entries < 0
        by_address[refused] = ~entries[refused]
        classes = addresses.spread(by_address)
        # Headers before single messages: rows for which headers do not suffice get the mark BY_MESSAGE here.
        if (by_address == BY_HEADERS).any():
            self._classify_by_headers(batch, np.flatnonzero(classes == BY_HEADERS), addresses.spread(numbers), classes)
        alone = classes == BY_MESSAGE
        copies = find_rows_with_copies(batch)
        if copies is not None:  # CC and BCC are more keys than the address has; a refusal does not depend on keys
            alone |= copies & ~addresses.spread(refused)
        if alone.any():
            self._classify_each(batch, np.flatnonzero(alone), classes)
        return AddressClasses(classes, found.shapes, found.numbers, found.hashes)

    @property
    def known(self) -> KnownAddresses:
        """The addresses of batches so far, if they repeat; too many are forgotten when more come."""
        return self._found.known

    def _codes_of(self, addresses: RowAddresses) -> npt.NDArray[np.int64]:
        codes = np.array([self._code_of(unescape(name)) for name in addresses.names], np.int64)
        return codes.take(addresses.exchanges) if len(codes) else codes

    def _code_of(self, name: str) -> int:
        """Return the code of an exchange name, see ``_codes``."""
        code = self._codes.get(name)
        if code is None:
            code = ~self._class_of(self._explorer.outcome(Message(name)))
            if len(self._codes) < REMEMBERED:
                self._codes[name] = code
        return code

    def _classes_of_keys(self, key_classes: KeyArray, column: Column, rows: Sequence[int]) -> list[int]:
        """Return the class of each key class, of which a row has a key; a mark if the key does not determine it.

        Where the key class matches bindings that lead to queues only, these are the outcome, and the router is not
        asked. Where it matches none, an alternate exchange may take the message.
        """
        each = zip(self._own.list_outcomes(key_classes), key_classes.tolist(), rows, strict=True)
        return [
            self._class_by_router(key_class, column, row) if own is None else self._class_of(own)
            for own, key_class, row in each
        ]

    def _class_by_router(self, key_class: int, column: Column, row: int) -> int:
        """Route one key of a key class, and return its class, or a mark if the key does not determine the outcome.

        The message is routed without headers. If it passes an exchange that reads headers, other messages of the key
        class may be routed differently.
        """
        entry = self._key_classes.entry_of(key_class)
        outcome = self._explorer.outcome(Message(entry.name, unescape(column.key(row).decode())))
        needs = {self._special.get(name) for name in (*outcome.exchanges, *outcome.possible_exchanges)}
        if outcome.refused or ALONE in needs:
            return BY_MESSAGE
        if HEADERS in needs:
            return BY_HEADERS
        return self._class_of(outcome)

    def _class_of(self, outcome: Outcome) -> int:
        number = self._by_outcome.get(outcome)
        if number is None:
            number = self._by_outcome[outcome] = len(self._outcomes)
            self._outcomes.append(outcome)
        return number

    def _classify_by_headers(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], key_classes: IntArray, classes: IntArray
    ) -> None:
        """Set the classes of these rows by key class and headers; set ``BY_MESSAGE`` where these do not suffice."""
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        if len(rows) < batch.num_rows:
            key_classes = key_classes[rows]
            headers = None if headers is None else headers.take(pa.array(rows))
        numbers = self._header_classes.number_rows(key_classes, headers)
        missing = len(self._header_classes) - len(self._class_of_header_class)
        if missing > 0:
            more = np.full(missing, UNKNOWN, np.int32)
            self._class_of_header_class = np.append(self._class_of_header_class, more)
        found = self._class_of_header_class.take(numbers)
        unknown = np.flatnonzero(found == UNKNOWN)
        if len(unknown):
            new, first = np.unique(numbers[unknown], return_index=True)
            examples = build_messages(batch, rows[unknown[first]], self._header_classes.headers)
            self._class_of_header_class[new] = [self._class_with_headers(message) for message in examples]
            found = self._class_of_header_class.take(numbers)
        classes[rows] = found

    def _class_with_headers(self, message: Message) -> int:
        """Route a message with its headers, and return its class, or ``BY_MESSAGE`` if more than headers may matter."""
        outcome = self._explorer.outcome(message)
        names = (*outcome.exchanges, *outcome.possible_exchanges)
        alone = any(self._special.get(name) == ALONE for name in names)
        return BY_MESSAGE if alone else self._class_of(outcome)

    def _classify_each(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], classes: IntArray) -> None:
        for low in range(0, len(rows), CHUNK):
            chunk = rows[low : low + CHUNK]
            classes[chunk] = [self._class_alone(message) for message in build_messages(batch, chunk)]

    def _class_alone(self, message: Message) -> int:
        """Return the class of a message; messages with equal keys and equal routing inputs are routed once."""
        inputs = self._entries[self._codes[message.exchange]].inputs
        values = [message.headers.get(name, _ABSENT) for name in inputs.headers]
        values += [message.properties.get(name, _ABSENT) for name in inputs.properties]
        read = tuple([None if value is _ABSENT else repr(resolve_type(value)) for value in values])
        identity = (message.exchange, message.routing_keys(), read)
        known = self._class_of_message.get(identity)
        if known is None:
            if len(self._class_of_message) >= REMEMBERED:
                self._class_of_message.clear()
            known = self._class_of_message[identity] = self._class_of(self._explorer.outcome(message))
        return known


class _Found(NamedTuple):
    """The key classes of the addresses of a batch."""

    key_classes: KeyArray
    """Address -> its key class."""
    shapes: KeyArray
    """Address -> hash of its key's shape."""
    new: list[tuple[Column, KeyArray]]
    """Keys whose classes were computed now, each with its key class; those of all other addresses were before."""
    numbers: IntArray | None
    """Address -> its number among the known ones; None if none is kept."""
    hashes: KeyArray | None
    """Address -> hash of its key; None if none is kept."""


class _FoundClasses:
    """The key classes of a topology; those of a batch are found once, also if several classifiers ask."""

    def __init__(self, key_classes: KeyClasses) -> None:
        self.key_classes: Final = key_classes
        self.known: Final = KnownAddresses()
        self._classes: Final = GrowingArray(np.uint64)
        self._shapes: Final = GrowingArray(np.uint64)
        """Number of a known address -> hash of its key's shape, as ``_classes`` has its key class."""
        self._last: tuple[RowAddresses, _Found] | None = None

    def find(self, addresses: RowAddresses, entries: npt.NDArray[np.int64]) -> _Found:
        """Return the key classes of addresses."""
        if self._last is None or self._last[0] is not addresses:
            known = None if addresses.address_of_row is None else self._find_known(addresses, entries)
            self._last = addresses, self._classify(addresses.keys, entries) if known is None else known
        return self._last[1]

    def _find_known(self, addresses: RowAddresses, entries: npt.NDArray[np.int64]) -> _Found | None:
        numbered = self.known.number(addresses)
        if numbered is None:
            return None
        numbers, new, hashes = numbered
        columns: list[tuple[Column, KeyArray]] = []
        if len(new):
            added = self._classify(addresses.keys.take(pa.array(new)), entries[new])
            for kept, values in ((self._classes, added.key_classes), (self._shapes, added.shapes)):
                kept.cut(len(self.known) - len(new))
                kept.append(values)
            columns = added.new
        return _Found(self._classes.items.take(numbers), self._shapes.items.take(numbers), columns, numbers, hashes)

    def _classify(self, keys: pa.Array, entries: npt.NDArray[np.int64]) -> _Found:
        key_classes, shapes = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
        new: list[tuple[Column, KeyArray]] = []
        start = 0
        for column in split_chunks(keys):
            chunk = slice(start, start + column.size)
            key_classes[chunk], shapes[chunk] = self.key_classes.classify(column, entries[chunk])
            new.append((column, key_classes[chunk]))
            start += column.size
        return _Found(key_classes, shapes, new, None, None)


_ABSENT: Final = object()


def _encode(text: str) -> bytes:
    return escape(text).encode()
