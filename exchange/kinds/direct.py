"""direct: a message takes the bindings whose key equals its own, byte for byte. Wildcards mean nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from exchange.entities.entities import Binding, Exchange
from exchange.entities.profile import Profile
from exchange.kinds.kind import Choose, Decider, KeyUse, Kind
from exchange.kinds.misses import Miss, compare_texts, describe_difference
from exchange.patterns.pattern import ExactKey
from exchange.values.message import Message


class DirectExchange(Kind):
    """`rabbit_exchange_type_direct.erl`."""

    routes_as = "direct"
    decider = Decider.KEY
    key_use = KeyUse.LITERAL

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._by_key: dict[str, dict[Binding, None]] = {}

    def bind(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def unbind(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        if len(keys) == 1:
            return self._by_key.get(keys[0], {})
        return dict.fromkeys(chain.from_iterable([self._by_key.get(key, {}) for key in keys]))

    @classmethod
    def literal_key(cls, binding: Binding) -> str:
        return binding.routing_key

    @classmethod
    def pattern(cls, binding: Binding) -> ExactKey:
        return ExactKey(binding.routing_key)

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        wanted = binding.routing_key
        keys = message.routing_keys()
        return min([Miss(compare_texts(key, wanted), describe_difference(key, wanted)) for key in keys])


class Default(DirectExchange):
    """The first clause of `rabbit_exchange.erl route/3`: queues imply the bindings, so none are stored."""

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        return [Binding.to_queue("", key, key) for key in dict.fromkeys(keys)]
