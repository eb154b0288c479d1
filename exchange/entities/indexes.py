"""The entities of one virtual host, indexed: the state that rules read and changes are applied to.

Copying is cheap, since copies share the bindings of each exchange and of each destination until one of them changes
these (copy on write). So the same code serves `Topology`, a value, and `Router`, which is edited in place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.unread import UnreadPart

Bindings = dict[Binding, None]
Key = TypeVar("Key", str, Destination)


class Change(NamedTuple):
    """The addition or removal of one part. An added policy or queue replaces the one of the same name."""

    added: bool
    part: Exchange | Queue | Binding | Policy


class Tables:
    """Exchanges, queues and policies by name; bindings by source and by destination."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self.unread: tuple[UnreadPart, ...] = ()
        """What is missing in the source of the parts: here, so that all copies and edits keep it."""
        self.allows_unread = False
        """Whether the user wants claims in spite of what is missing."""
        self._from: dict[str, Bindings] = {}
        self._to: dict[Destination, Bindings] = {}
        # Keys of both indexes whose dict no other tables share; all other dicts are copied before they are changed.
        self._own: set[str | Destination] = set()

    def copy(self) -> Tables:
        """Return tables with the same parts that can be changed independently."""
        new = Tables()
        new.exchanges, new.queues, new.policies = dict(self.exchanges), dict(self.queues), dict(self.policies)
        new.operator_policies = dict(self.operator_policies)
        new.unread, new.allows_unread = self.unread, self.allows_unread
        new._from, new._to = dict(self._from), dict(self._to)
        self._own.clear()  # all is shared now: either side copies a dict of bindings before it changes it
        return new

    def bindings_from(self, exchange: str) -> Collection[Binding]:
        """Return the bindings whose source is the exchange, in the order in which they were added."""
        return self._from.get(exchange, {}).keys()

    def bindings_to(self, destination: Destination) -> Collection[Binding]:
        """Return the bindings to a queue or exchange, in the order in which they were added."""
        return self._to.get(destination, {}).keys()

    def bindings(self) -> Collection[Binding]:
        """Return all bindings, grouped by source."""
        return _Flat(self._from)

    def exists(self, destination: Destination) -> bool:
        """Return whether the queue or exchange exists."""
        names: Mapping[str, object] = self.queues if destination.kind == "queue" else self.exchanges
        return destination.name in names

    def apply(self, change: Change) -> None:
        """Make a change, without checking any rule."""
        part = change.part
        if isinstance(part, Binding):
            for bindings in (self._writable(self._from, part.source), self._writable(self._to, part.destination)):
                if change.added:
                    bindings[part] = None
                else:
                    bindings.pop(part, None)
            if not change.added:
                self._drop_if_empty(self._from, part.source)
                self._drop_if_empty(self._to, part.destination)
            return
        parts: dict[str, Any] = self.operator_policies if isinstance(part, Policy) and part.operator else self.policies
        if isinstance(part, Exchange):
            parts = self.exchanges
        elif isinstance(part, Queue):
            parts = self.queues
        if change.added:
            parts[part.name] = part
        else:
            parts.pop(part.name, None)

    def add_bindings(self, bindings: Iterable[Binding]) -> None:
        """Add many bindings at once."""
        source, destination = None, None
        for binding in bindings:
            if type(binding) is not Binding:
                raise TypeError(f"Topology: Binding is wanted, not {type(binding).__name__}: {binding!r:.60}")
            if binding.source != source:
                source = binding.source
                outgoing = self._writable(self._from, source)
            if binding.destination is not destination:
                destination = binding.destination
                incoming = self._writable(self._to, destination)
            outgoing[binding] = incoming[binding] = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tables):
            return NotImplemented
        mine, theirs = (
            (t._from, t.exchanges, t.queues, t.policies, t.operator_policies, t.unread) for t in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def _writable(self, index: dict[Key, Bindings], key: Key) -> Bindings:
        """Return the bindings of a key, copied first if other tables may share them."""
        if key not in self._own or key not in index:
            index[key] = dict(index.get(key, ()))
            self._own.add(key)
        return index[key]

    def _drop_if_empty(self, index: dict[Key, Bindings], key: Key) -> None:
        if not index[key]:
            del index[key]
            self._own.discard(key)


class _Flat(Collection[Binding]):
    """A view of the bindings of all exchanges."""

    def __init__(self, by_source: dict[str, Bindings]) -> None:
        self._by_source = by_source

    def __len__(self) -> int:
        return sum(map(len, self._by_source.values()))

    def __iter__(self) -> Iterator[Binding]:
        return chain.from_iterable(self._by_source.values())

    def __contains__(self, binding: object) -> bool:
        return isinstance(binding, Binding) and binding in self._by_source.get(binding.source, {})
