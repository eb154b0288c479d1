"""x-delayed-message: routes as the type named by its argument ``x-delayed-type``, after a delay."""

from __future__ import annotations

from exchange.entities.entities import Exchange
from exchange.errors import PreconditionFailed
from exchange.kinds.kind import Unknown

__all__ = ["Delayed"]


class Delayed(Unknown):
    """`rabbit_exchange_type_delayed_message.erl` of the plugin rabbitmq_delayed_message_exchange.

    This class has only the rules of its declaration. For all else, `exchange.kinds.kind_of` returns the kind of the
    inner type; the delay itself (header ``x-delay``) is not routing.
    """

    @classmethod
    def inner_type(cls, exchange: Exchange) -> str | None:
        """Return the exchange type that decides where messages go; None if the argument cannot name one."""
        name = exchange.arguments.get("x-delayed-type")
        return name if isinstance(name, str) else None

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        from exchange.kinds import kind_of  # not at the top: it imports this module

        if kind_of(exchange) is Unknown:
            raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
