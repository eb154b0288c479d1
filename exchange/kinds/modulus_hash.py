"""x-modulus-hash: the hash of the routing keys, modulo the number of bindings, picks one of them.

Since 4.3, bindings are ordered by kind and name of their destinations. Before 4.3, the order is that of Mnesia's table
of bindings, by binding key first. In all releases, a destination that is bound twice counts twice.

With the feature flag khepri_db, which 4.0 to 4.2 may have, the order is another one that a topology does not show. In
4.0 and 4.1 it is that of a hash table of all bindings of the broker; in 4.2 bindings are counted as they were made,
until a restart counts them as it finds them in Khepri. The router takes the order of Mnesia.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Hashable, Sequence
from typing import Final

from exchange.entities.entities import Binding, Exchange
from exchange.entities.profile import Profile
from exchange.kinds.kind import Choose, Decider, Kind
from exchange.kinds.misses import OTHER_ROUTE, Miss
from exchange.values.erlang_terms import encode_binary
from exchange.values.message import Message


class ModulusHashExchange(Kind):
    """`rabbit_exchange_type_modulus_hash.erl`, before 4.3 of the plugin rabbitmq_sharding."""

    routes_as = "x-modulus-hash"
    decider = Decider.HASH
    strategy = "rabbitmq.modulus_hash"
    always_takes_one = True

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        from exchange.partition.hashing.compiled import get_hashes  # not at the top: few topologies hash
        from exchange.partition.hashing.erlang import phash2

        self._hashes: Final = get_hashes
        self._phash2: Final = phash2
        self._profile = profile
        self._bindings: list[Binding] = []

    def bind(self, binding: Binding) -> None:
        insort(self._bindings, binding, key=self._place)

    def unbind(self, binding: Binding) -> None:
        self._bindings.remove(binding)

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        if not self._bindings:
            return ()
        return (self._bindings[self._hash(keys) % len(self._bindings)],)

    def describe_choice(self, message: Message, keys: Sequence[str]) -> str:
        count = len(self._bindings)
        if not count:
            return "there are no bindings"
        order = " as Mnesia orders them" if self.depends_on_store(self._bindings, self._profile) else ""
        number = self._hash(keys)
        return f"hash {number} of the routing keys, modulo {count} bindings{order}, is {number % count}"

    @classmethod
    def rules(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Hashable:
        by_place = sorted(bindings, key=lambda binding: _sort_key(binding, profile.modulus_hash_sorts))
        destinations = tuple([binding.destination for binding in by_place])
        is_known = profile.modulus_hash_sorts or len({*destinations}) < 2
        return destinations, is_known

    @classmethod
    def depends_on_store(cls, bindings: Collection[Binding], profile: Profile) -> bool:
        return profile.modulus_hash_depends_on_store and len({binding.destination for binding in bindings}) > 1

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return Miss(OTHER_ROUTE, "the message's hash chose another binding")

    def _hash(self, keys: Sequence[str]) -> int:
        if len(keys) == 1:
            return self._hashes().phash2_of_list(encode_binary(keys[0]))
        return self._phash2([encode_binary(key) for key in keys])

    def _place(self, binding: Binding) -> tuple[bytes, ...]:
        return _sort_key(binding, self._profile.modulus_hash_sorts)


def _sort_key(binding: Binding, by_destination: bool) -> tuple[bytes, ...]:
    key, destination = binding.routing_key, binding.destination
    by_name = (destination.kind.encode(), encode_binary(destination.name))
    return by_name if by_destination else (encode_binary(key), *by_name)
