"""x-consistent-hash: the hash of the key, or of a header or property, picks a bucket of a ring, and so a binding.

**The ring has a history.** A binding's key is its weight, a number of buckets. Binding adds these buckets at the end of
the ring, for the binding's destination, unless the destination has buckets already (up to 3.10.5, also then). Unbinding
any binding of a destination removes all its buckets, and the buckets behind them move up; up to 3.10.5, those of others
between them are lost, and messages that hash to their places. So the order of bindings decides; and a
destination that is bound twice and unbound once stays bound, but gets nothing until it is bound again.

A `Router` that is edited changes its ring as the broker does. A `Topology` knows the order of its bindings, but not the
bindings that were removed before: a router built from it has the ring of a broker where exactly these bindings were
made, in this order. Definitions do not determine the ring, since a broker imports bindings with several processes, in
any order (one of eight imports into 3.10 and 4.0 kept the order of the file; 4.3 kept it in four of four). And 3.10 and
4.0 have rings in memory only: a restart builds them anew, ordered by binding key (as text) and destination. 4.3 keeps
rings, and adds buckets at the end for a bound destination that has none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import BrokerError, PreconditionFailed
from exchange.kinds.kind import Choose, Decider, KeyUse, Kind, Reads
from exchange.kinds.misses import OTHER_ROUTE, Miss
from exchange.values.erlang_terms import encode_binary, show_binary
from exchange.values.field_values import resolve_type
from exchange.values.message import Message

INTEGER: Final = re.compile("[+-]?[0-9]+")
"""A number that Erlang's ``list_to_integer`` accepts."""
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class ConsistentHashExchange(Kind):
    """`rabbit_exchange_type_consistent_hash.erl` of the plugin rabbitmq_consistent_hash_exchange."""

    routes_as = "x-consistent-hash"
    decider = Decider.HASH
    key_use = KeyUse.WEIGHT
    strategy = "rabbitmq.consistent_hash"

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        from exchange.partition.hashing import erlang  # not at the top: few topologies hash, and it imports much
        from exchange.partition.hashing.compiled import get_hashes

        self._hashes: Final = get_hashes
        self._erlang: Final = erlang
        self._profile = profile
        self._header = _long_string(exchange, "hash-header")
        self._property = _long_string(exchange, "hash-property")
        self._ring: list[Binding | None] = []  # None where buckets were lost
        self._destinations: set[Destination] = set()  # those of the bindings in the ring
        self._ends: list[int] = []  # for each binding in the ring, the number of buckets up to and with its last one
        self._buckets = 0  # those that were not lost

    @property
    def by_key(self) -> bool:
        return self._header is None and self._property is None

    def bind(self, binding: Binding) -> None:
        weight = _weight(binding)
        if weight > 0 and (self._profile.counts_each_binding or binding.destination not in self._destinations):
            self._destinations.add(binding.destination)
            self._ring.append(binding)
            self._ends.append((self._ends[-1] if self._ends else 0) + weight)
            self._buckets += weight

    def unbind(self, binding: Binding) -> None:
        self._destinations.discard(binding.destination)
        widths = [end - start for start, end in pairwise((0, *self._ends))]
        own = [place for place, other in enumerate(self._ring) if other and other.destination == binding.destination]
        if own:
            between = range(own[0], own[-1] + 1)
            lost = sum(widths[place] for place in between) - sum(widths[place] for place in own)
            self._buckets -= sum(widths[place] for place in between if self._ring[place])
            self._ring[between.start : between.stop] = [None] * bool(lost)
            widths[between.start : between.stop] = [lost] * bool(lost)
            self._ends = list(accumulate(widths))

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        buckets = self._buckets
        if not buckets:
            return ()
        header = self._header
        if self._profile.needs_hash_header and header is not None and not _has(message, header):
            raise BrokerError(f"the channel crashes on a message without the hash-header '{header}'")
        bucket = self._hashes().jump(self._seed(message, keys), buckets) if buckets > 1 else 0
        chosen = self._ring[bisect_right(self._ends, bucket)]
        return () if chosen is None else (chosen,)

    def describe_choice(self, message: Message, keys: Sequence[str]) -> str:
        buckets = self._buckets
        if buckets < 2:
            return f"the ring has {'only one bucket' if buckets else 'no buckets'}"
        what = f"header '{self._header}'" if self._header is not None else self._property or "the routing key"
        seed = self._seed(message, keys)
        return f"hash {seed} of {what} jumps to bucket {self._hashes().jump(seed, buckets)} of 0 to {buckets - 1}"

    def _seed(self, message: Message, keys: Sequence[str]) -> int:
        term = self._term(message, keys)
        return self._hashes().phash2(term) if type(term) is bytes else self._erlang.jump_key(term)

    def _term(self, message: Message, keys: Sequence[str]) -> Any:
        """Return the Erlang term that is hashed."""
        if self._header is not None:
            return self._term_of_header(message, self._header)
        if self._property is not None:
            value = resolve_type(message.properties.get(self._property))[1]
            if value is None:
                return self._erlang.UNDEFINED
            return value if isinstance(value, bytes) else str(value).encode()  # a timestamp's seconds, in decimal
        return encode_binary(keys[0])

    def _term_of_header(self, message: Message, name: str) -> Any:
        if not _has(message, name):
            return self._erlang.UNDEFINED
        kind, value = resolve_type(message.headers[name])
        term = self._erlang.encode_field_term(kind, value)
        if self._profile.hash_headers_have_types:
            return self._erlang.Atom(kind), term
        if isinstance(term, list):
            if term:
                return term[0]
            if not self._profile.hashes_empty_arrays:
                raise BrokerError(f"the channel crashes on an empty array or table in the hash-header '{name}'")
        return value * 1000 if kind == "timestamp" else term

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        header, hash_property = _long_string(exchange, "hash-header"), _long_string(exchange, "hash-property")
        return Reads(
            frozenset({header} if header is not None else ()),
            frozenset({hash_property} if hash_property is not None else ()),
        )

    @classmethod
    def sequence(cls, bindings: Collection[Binding]) -> tuple[Hashable, ...]:
        return tuple([(tuple(binding.destination), binding.routing_key) for binding in bindings])

    @classmethod
    def rules(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Hashable:
        ring = build_ring(bindings, profile)
        several = len({destination for destination, _ in ring}) > 1
        # Two releases are the same broker before and after a restart.
        kept = profile.hash_rings_are_kept
        restarted = (ring if kept else build_ring_after_restart(bindings, profile)) if several else ()
        if not ring or _long_string(exchange, "hash-header") is None:
            return restarted
        is_hashed = sum(weight for _, weight in ring) > 1  # not with a single bucket
        has_types = profile.hash_headers_have_types
        fails_on_empty_arrays = is_hashed and not (has_types or profile.hashes_empty_arrays)
        return restarted, several and has_types, fails_on_empty_arrays, profile.needs_hash_header

    @classmethod
    def slot(cls, binding: Binding) -> Destination:
        return binding.destination

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return Miss(OTHER_ROUTE, "the message's hash chose another binding")

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        given = [name for name in ("hash-header", "hash-property") if name in exchange.arguments]
        for name in given:
            if _long_string(exchange, name) is None:
                raise BrokerError(f"the channel crashes on a '{name}' that is not a long string")
        if len(given) == 2:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        hash_property = _long_string(exchange, "hash-property")
        if hash_property is not None and hash_property not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {hash_property}")

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        weight = _weight(binding)
        if not INTEGER.fullmatch(binding.routing_key):
            key = show_binary(encode_binary(binding.routing_key))
            raise PreconditionFailed(f"The binding key must be an integer: {key}")
        if weight < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if profile.max_weight is not None and weight > profile.max_weight:
            raise PreconditionFailed(f"The binding key must not exceed {profile.max_weight}")


def build_ring(bindings: Iterable[Binding], profile: Profile) -> tuple[tuple[Destination, int], ...]:
    """Return the destinations of a ring with their numbers of buckets, for bindings made in this order.

    A destination that has buckets in several places, up to 3.10.5, is there several times.
    """
    ring: list[tuple[Destination, int]] = []
    for binding in bindings:
        weight, destination = _weight(binding), binding.destination
        if weight > 0 and (profile.counts_each_binding or all(destination != other for other, _ in ring)):
            ring.append((destination, weight))
    return tuple(ring)


def build_ring_after_restart(bindings: Iterable[Binding], profile: Profile) -> tuple[tuple[Destination, int], ...]:
    """Return the ring, as `build_ring`, that a restart builds of these bindings before 4.3."""
    ordered = sorted(bindings, key=lambda each: [*map(encode_binary, (each.routing_key, *each.destination))])
    return build_ring(ordered, profile)


def _has(message: Message, header: str) -> bool:
    """Return whether a message has a header when it is routed: the broker removes BCC before."""
    return header in message.headers and header != "BCC"


def _long_string(exchange: Exchange, argument: str) -> str | None:
    kind, value = resolve_type(exchange.arguments.get(argument))
    return value.decode("utf-8", "surrogateescape") if kind == "longstr" else None


def _weight(binding: Binding) -> int:
    """Return the number of buckets of a binding; 0 if its key is no integer, as in a file that no broker accepts."""
    return int(binding.routing_key) if INTEGER.fullmatch(binding.routing_key) else 0
