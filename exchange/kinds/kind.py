"""What every kind of exchange is to the router: bindings come and go, and a message matches some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from exchange.message import Message
from exchange.parts import Binding, Exchange
from exchange.profile import Profile
from exchange.tables import Tables

__all__ = ["Choose", "Kind"]

Choose = Callable[[int], int]
"""Given n, an integer from 0 to n - 1: where the kinds that pick at random get their randomness from."""


class Kind:
    """One exchange's bindings, indexed for its kind of matching.

    The router serialises calls; a kind need not be safe for concurrent use.
    """

    by_key: bool = True
    """Whether the routing key alone decides, always in the same way, so that the router may remember its routes."""

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        self.exchange = exchange

    def bind(self, binding: Binding) -> None:
        """Take a binding that is not there yet."""
        raise NotImplementedError

    def unbind(self, binding: Binding) -> None:
        """Give back a binding that is there."""
        raise NotImplementedError

    def matched(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        """The bindings that the message takes, in any order; ``keys`` are its routing keys, CC and BCC included."""
        raise NotImplementedError

    def chosen_by(self, message: Message, keys: Sequence[str]) -> str | None:
        """By which hash and number it chooses among its bindings, in words; None where no hash decides."""
        return None

    def keys_affected(self, binding: Binding) -> Collection[str] | None:
        """The routing keys whose routes may change with the binding; None when there is no telling."""
        return None

    @classmethod
    def known_to(cls, profile: Profile) -> bool:
        """Whether that RabbitMQ has this kind."""
        return True

    @classmethod
    def decides(cls, exchange: Exchange) -> bool:
        """Whether it can tell where messages to this exchange go; if not, routes through it stay undecided."""
        return True

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        """Raise what the broker answers to a declaration with bad arguments."""

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        """Raise what the broker answers to a binding this kind does not allow."""
