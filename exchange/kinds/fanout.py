"""fanout: a message takes all bindings; keys mean nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from exchange.entities.entities import Binding, Exchange
from exchange.entities.profile import Profile
from exchange.errors import PreconditionFailed
from exchange.kinds.condition import EVERYTHING
from exchange.kinds.kind import Choose, Decider, Kind
from exchange.kinds.misses import MATCH, Miss
from exchange.patterns.pattern import Pattern
from exchange.values.erlang_terms import show_field
from exchange.values.field_values import INTEGER_TYPES, resolve_type
from exchange.values.message import Message


class FanoutExchange(Kind):
    """`rabbit_exchange_type_fanout.erl`."""

    routes_as = "fanout"
    decider = Decider.NOTHING

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        return self._bindings

    @classmethod
    def pattern(cls, binding: Binding) -> Pattern | None:
        return EVERYTHING

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return MATCH


class RecentHistory(FanoutExchange):
    """`rabbit_exchange_type_recent_history.erl`: routes as fanout.

    It also replays its last messages to each new binding, which is not routing and not done here.
    """

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        if "x-recent-history-length" not in exchange.arguments:
            return
        kind, length = resolve_type(exchange.arguments["x-recent-history-length"])
        if kind not in INTEGER_TYPES or length <= 0:
            raise PreconditionFailed(
                f"Invalid argument {show_field(length)}, 'x-recent-history-length' must be a positive integer"
            )
