"""x-random and x-local-random: a message takes one binding, picked at random."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from exchange.entities.entities import Binding, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import PreconditionFailed
from exchange.kinds.kind import Choose, Decider, Kind
from exchange.kinds.misses import OTHER_ROUTE, Miss
from exchange.values.message import Message


class RandomExchange(Kind):
    """`rabbit_exchange_type_random.erl`: one of all bindings; keys mean nothing."""

    routes_as = "x-random"
    decider = Decider.CHANCE
    always_takes_one = True

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._choose = choose
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        candidates = list(self.candidates(self._bindings))
        if len(candidates) < 2:
            return candidates
        return [candidates[self._choose(len(candidates))]]

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return Miss(OTHER_ROUTE, "chance picked another binding")


class LocalRandom(RandomExchange):
    """`rabbit_exchange_type_local_random.erl`: one of the classic queues on the publisher's node, bound with key "".

    A topology does not contain the nodes of queues: all are assumed to be on the publisher's node.
    """

    routes_as = "x-local-random"
    always_takes_one = False  # all queues may be on other nodes

    @classmethod
    def candidates(cls, bindings: Collection[Binding]) -> list[Binding]:
        return [binding for binding in bindings if not binding.routing_key]

    @classmethod
    def is_known_to(cls, profile: Profile) -> bool:
        return profile.local_random

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.destination.kind != "queue" or binding.destination.name not in tables.queues:
            raise PreconditionFailed("Destination not found")
        queue_type = tables.queues[binding.destination.name].type
        if queue_type != "classic":
            module = f"rabbit_{queue_type}_queue"
            raise PreconditionFailed(f"Queue type {module} not valid for this exchange type")
