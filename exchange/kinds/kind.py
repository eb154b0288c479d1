"""What every kind of exchange is: to the router, bindings that come and go and messages that match some of them; to
the analyses (audit, diff, check, explain), what decides and what its bindings mean.

No module outside `exchange.kinds` knows an exchange type by its name. It asks the `Kind` that `exchange.kinds.kind_of`
returns for the exchange, which for an x-delayed-message exchange is that of its inner type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple

from exchange.entities.entities import Binding, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.kinds.condition import ALWAYS, Condition
from exchange.kinds.misses import Miss
from exchange.message import Message
from exchange.patterns.pattern import MANY, Key, Pattern, ordered

__all__ = ["Choose", "Decider", "KeyUse", "Kind", "Reads", "Unknown", "Unsure"]

Choose = Callable[[int], int]
"""Given n, an integer from 0 to n - 1: where the kinds that pick at random get their randomness from."""


class Decider(Enum):
    """What decides which bindings of an exchange a message takes."""

    NOTHING = "nothing"
    """A message takes all bindings."""
    KEY = "key"
    HEADERS = "headers"
    SELECTOR = "selector"
    """An expression over headers that stands in the binding."""
    CHANCE = "chance"
    """One binding, picked at random."""
    HASH = "hash"
    """One binding, picked by the hash of a part of the message."""
    UNKNOWN = "unknown"

    @property
    def has_conditions(self) -> bool:
        """Whether each binding has a condition of its own on messages, `Kind.condition`.

        Then bindings are additive: adding one takes no message from another, and their order means nothing.
        """
        return self in (Decider.NOTHING, Decider.KEY, Decider.HEADERS)

    @property
    def is_key_only(self) -> bool:
        """Whether the exchange takes equal routing keys alike, whatever else is in the message.

        A hash may be that of a header; its kind says so.
        """
        return self in (Decider.NOTHING, Decider.KEY, Decider.HASH)


class KeyUse(Enum):
    """What the key of a binding is to its exchange."""

    PATTERN = "pattern"
    """A pattern of routing keys, with wildcards."""
    LITERAL = "literal"
    """The one routing key that matches."""
    WEIGHT = "weight"
    """A number, the larger the more messages."""
    NONE = "none"
    """Nothing but a part of the binding's identity."""


class Unsure(Exception):
    """It is not known here whether a message takes some bindings: the router makes the exchange an undecided one."""

    def __init__(self, matched: Collection[Binding], reason: str) -> None:
        super().__init__(reason)
        self.matched = matched
        """The bindings that the message takes for certain."""
        self.reason = reason


class Reads(NamedTuple):
    """What an exchange looks at in a message beside the routing keys."""

    headers: frozenset[str] = frozenset()
    properties: frozenset[str] = frozenset()


class Kind:
    """One exchange's bindings, indexed for its kind of matching.

    Attributes and methods of the class are what the kind *means*, for every exchange of it. The router serialises calls
    of an instance; a kind need not be safe for concurrent use.
    """

    routes_as: ClassVar[str]
    """The exchange type whose bindings mean the same: ``fanout`` for x-recent-history, else its own."""
    decider: ClassVar[Decider]
    key_use: ClassVar[KeyUse] = KeyUse.NONE
    strategy: ClassVar[str | None] = None
    """Name of the partitioning strategy that chooses as this kind does, see `exchange.partition`."""
    always_takes_one: ClassVar[bool] = False
    """Whether every message takes one of the bindings as long as there are any, although they compete."""

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        self.exchange = exchange

    @property
    def by_key(self) -> bool:
        """Whether the routing key alone decides, always in the same way, so that the router may remember its routes."""
        return self.decider.is_key_only

    def bind(self, binding: Binding) -> None:
        """Take a binding that is not there yet."""
        raise NotImplementedError

    def unbind(self, binding: Binding) -> None:
        """Give back a binding that is there."""
        raise NotImplementedError

    def matched(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        """Return the bindings that the message takes, in any order; ``keys`` are its keys, CC and BCC included.

        Raises BrokerError where the broker would fail, and `Unsure` where it is not known here whether a binding
        matches.
        """
        raise NotImplementedError

    def chosen_by(self, message: Message, keys: Sequence[str]) -> str | None:
        """Return the hash and the number that choose among the bindings, in words; None where no hash decides."""
        return None

    @classmethod
    def known_to(cls, profile: Profile) -> bool:
        """Return whether that RabbitMQ has this kind."""
        return True

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        """Raise what the broker answers to a declaration with bad arguments."""

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        """Raise what the broker answers to a binding this kind does not allow."""

    @classmethod
    def fault(cls, binding: Binding) -> str | None:
        """Return why no router can have the binding, which a file may hold all the same; None when one can."""
        return None

    @classmethod
    def literal_key(cls, binding: Binding) -> str | None:
        """Return the only routing key whose messages take the binding; None where others may take it, too."""
        return None

    @classmethod
    def pattern(cls, binding: Binding) -> Pattern | None:
        """Return the pattern of the routing keys whose messages take the binding; None where more than keys decides.

        Raises PatternError when the key is longer than AMQP allows.
        """
        return None

    @classmethod
    def condition(cls, binding: Binding, profile: Profile) -> Condition | None:
        """Return what the binding asks of a message, equal for all bindings that ask the same.

        None where the decider has no conditions. Raises PatternError when the key is longer than AMQP allows.
        """
        literal = cls.literal_key(binding)
        if literal is not None:
            return Key(literal)
        pattern = cls.pattern(binding)
        return ALWAYS if pattern is not None and ordered(pattern.words) == (MANY,) else pattern

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        """Return the headers and properties that decide, given the exchange's bindings.

        BCC may be among them, which the broker takes out of a message before it routes it, so that it is never there.
        """
        return Reads()

    @classmethod
    def candidates(cls, bindings: Collection[Binding]) -> Collection[Binding]:
        """Return the bindings that can be taken at all, of those that compete."""
        return bindings

    @classmethod
    def sequence(cls, bindings: Collection[Binding]) -> tuple[Hashable, ...] | None:
        """Return what the bindings decide by their order, as a value; None where their order means nothing.

        Exchanges with the same arguments route alike when their sequences are equal, or their bindings are.
        """
        return None

    @classmethod
    def slot(cls, binding: Binding) -> Hashable | None:
        """Return what several bindings share of which the broker keeps one; None where each stands for itself.

        Removing any binding empties its slot: those that stay in it have no effect until they are made again.
        """
        return None

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        """Return how far a message is from a binding and why it missed it."""
        raise NotImplementedError


class Unknown(Kind):
    """An exchange type that is not known here, such as another plugin's: routes through it are undecided.

    It has no instances; the router keeps None in the place of one.
    """

    routes_as = "unknown"
    decider = Decider.UNKNOWN

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return Miss(0.5, "the type of this exchange is unknown here: it may match or not")
