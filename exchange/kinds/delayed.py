"""x-delayed-message: routes as the type its argument ``x-delayed-type`` names, later."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from exchange.errors import PreconditionFailed
from exchange.kinds.kind import Choose, Kind
from exchange.message import Message
from exchange.parts import Binding, Exchange
from exchange.profile import Profile
from exchange.tables import Tables

__all__ = ["Delayed"]


class Delayed(Kind):
    """`rabbit_exchange_type_delayed_message.erl` of the plugin rabbitmq_delayed_message_exchange.

    The delay itself (the header ``x-delay``) is not routing.
    """

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._inner = _inner(exchange)(exchange, profile, choose)
        self.by_key = self._inner.by_key

    def bind(self, binding: Binding) -> None:
        self._inner.bind(binding)

    def unbind(self, binding: Binding) -> None:
        self._inner.unbind(binding)

    def matched(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        return self._inner.matched(message, keys)

    def chosen_by(self, message: Message, keys: Sequence[str]) -> str | None:
        return self._inner.chosen_by(message, keys)

    def keys_affected(self, binding: Binding) -> Collection[str] | None:
        return self._inner.keys_affected(binding)

    @classmethod
    def decides(cls, exchange: Exchange) -> bool:
        return _known_inner(exchange) is not None

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        _inner(exchange)

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        _inner(exchange).check_binding(exchange, binding, tables, profile)


def _inner(exchange: Exchange) -> type[Kind]:
    kind = _known_inner(exchange)
    if kind is None:
        raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
    return kind


def _known_inner(exchange: Exchange) -> type[Kind] | None:
    from exchange.kinds import KINDS  # which lists this module

    name = exchange.arguments.get("x-delayed-type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    return kind if kind is not Delayed else None
