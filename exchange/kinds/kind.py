"""The base class of all kinds; a kind is the code of an exchange type.

For the router, an instance is an index of an exchange's bindings, which finds those that a message matches. For the
analyses (audit, diff, check, explain), the class defines what decides about messages, and what bindings mean.

No module outside `exchange.kinds` knows an exchange type by its name. It uses the `Kind` that
`exchange.kinds.find_kind` returns for the exchange; for an x-delayed-message exchange, that is the kind of its inner
type, and `exchange.kinds.delayed` has what it does before that.
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
from exchange.patterns.pattern import MANY, ExactKey, Pattern, normalise_wildcards
from exchange.values.message import Message

Choose = Callable[[int], int]
"""Function from n to an integer from 0 to n - 1: the random numbers of the kinds that choose at random."""


class Decider(Enum):
    """What decides which bindings of an exchange a message takes."""

    NOTHING = "nothing"
    """A message takes all bindings."""
    KEY = "key"
    HEADERS = "headers"
    SELECTOR = "selector"
    """An expression over headers, an argument of the binding."""
    CHANCE = "chance"
    """A message takes one binding, picked at random."""
    HASH = "hash"
    """A message takes one binding, picked by the hash of its key, a header or a property."""
    UNKNOWN = "unknown"

    @property
    def has_conditions(self) -> bool:
        """Whether each binding has a condition of its own on messages, `Kind.condition`.

        Then bindings are additive: adding one takes no message from another, and their order means nothing.
        """
        return self in (Decider.NOTHING, Decider.KEY, Decider.HEADERS)

    @property
    def is_key_only(self) -> bool:
        """Whether the exchange routes messages of equal routing keys alike, whatever else they carry.

        A hash may also be that of a header or property: `Kind.by_key` is false then.
        """
        return self in (Decider.NOTHING, Decider.KEY, Decider.HASH)


class KeyUse(Enum):
    """What the key of a binding means to its exchange."""

    PATTERN = "pattern"
    """A pattern of routing keys, with wildcards."""
    LITERAL = "literal"
    """The one routing key that matches."""
    WEIGHT = "weight"
    """A number, the larger the more messages."""
    NONE = "none"
    """Nothing, but it makes bindings different."""


class Unsure(Exception):
    """An answer that is not known: a message may take some bindings. The router calls the exchange undecided then."""

    def __init__(self, matched: Collection[Binding], reason: str) -> None:
        super().__init__(reason)
        self.matched = matched
        """The bindings that the message takes for certain."""
        self.reason = reason


class Reads(NamedTuple):
    """The headers and properties of a message that an exchange reads."""

    headers: frozenset[str] = frozenset()
    properties: frozenset[str] = frozenset()


class Kind:
    """The bindings of one exchange, indexed for matching.

    Attributes and class methods define what the kind *means*, for every exchange of it. The router serialises all calls
    of an instance, so a kind need not be safe for concurrent use.
    """

    routes_as: ClassVar[str]
    """Exchange type whose bindings mean the same: ``fanout`` for x-recent-history, else its own type."""
    decider: ClassVar[Decider]
    key_use: ClassVar[KeyUse] = KeyUse.NONE
    strategy: ClassVar[str | None] = None
    """Name of the partitioning strategy that chooses as this kind does, see `exchange.partition`."""
    always_takes_one: ClassVar[bool] = False
    """Whether every message takes one of the competing bindings, if there are any."""

    match_once: Callable[[str], tuple[Binding, ...]] | None = None
    """Function from a key to the bindings that a message with this one key takes, which keeps no key: for a caller that
    keeps the routes of keys. Most keys that match the same bindings get the same tuple. None where only `match` finds
    them."""

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        self.exchange = exchange

    @property
    def by_key(self) -> bool:
        """Whether the routing key alone decides, always in the same way: then the router may cache routes."""
        return self.decider.is_key_only

    def bind(self, binding: Binding) -> None:
        """Add a binding that is not there yet."""
        raise NotImplementedError

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        raise NotImplementedError

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        """Return the bindings that the message takes, in any order; ``keys`` are its keys, CC and BCC included.

        Raises BrokerError where the broker would fail, and `Unsure` where it is unknown whether a binding matches.
        """
        raise NotImplementedError

    def describe_choice(self, message: Message, keys: Sequence[str]) -> str | None:
        """Describe the hash and how it chooses among the bindings, for people; return None where no hash decides."""
        return None

    @classmethod
    def is_known_to(cls, profile: Profile) -> bool:
        """Return whether that release of RabbitMQ has this kind."""
        return True

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        """Raise the BrokerError that the broker answers to a declaration with bad arguments."""

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        """Raise the BrokerError that the broker answers to a binding that this kind does not allow."""

    @classmethod
    def fault(cls, binding: Binding) -> str | None:
        """Return why no router can have the binding, although a file may contain it; None if it can have it."""
        return None

    @classmethod
    def literal_key(cls, binding: Binding) -> str | None:
        """Return the only routing key whose messages take the binding; None if others may take it, too."""
        return None

    @classmethod
    def pattern(cls, binding: Binding) -> Pattern | None:
        """Return the pattern of the routing keys whose messages take the binding; None if not only keys decide.

        Raises PatternError when the key is longer than AMQP allows.
        """
        return None

    @classmethod
    def condition(cls, binding: Binding, profile: Profile) -> Condition | None:
        """Return what the binding requires of a message; equal for all bindings that require the same.

        None if the decider has no conditions. Raises PatternError when the key is longer than AMQP allows.
        """
        literal = cls.literal_key(binding)
        if literal is not None:
            return ExactKey(literal)
        pattern = cls.pattern(binding)
        return ALWAYS if pattern is not None and normalise_wildcards(pattern.words) == (MANY,) else pattern

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        """Return the headers and properties that decide, given the exchange's bindings.

        BCC may be among them although it never counts: the broker removes it from a message before routing.
        """
        return Reads()

    @classmethod
    def candidates(cls, bindings: Collection[Binding]) -> Collection[Binding]:
        """Return the bindings, of those that compete for a message, that the exchange can ever take."""
        return bindings

    @classmethod
    def sequence(cls, bindings: Collection[Binding]) -> tuple[Hashable, ...] | None:
        """Return a value that stands for what the order of the bindings decides; None if their order means nothing.

        Exchanges with the same arguments route alike if these values are equal, or the bindings in their order are.
        """
        return None

    @classmethod
    def rules(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Hashable:
        """Return what the release decides about the choice among these bindings, for a kind without conditions.

        If the values of two profiles are equal, both route all messages alike.
        """
        return ()

    @classmethod
    def depends_on_store(cls, bindings: Collection[Binding], profile: Profile) -> bool:
        """Return whether the metadata store decides about the choice among these bindings, which no topology shows."""
        return False

    @classmethod
    def slot(cls, binding: Binding) -> Hashable | None:
        """Return the slot of a binding; None if each binding counts by itself.

        Of all bindings in one slot, only one has an effect. Removing any of them empties the slot: the others have no
        effect until they are bound again.
        """
        return None

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        """Return how far a message is from matching a binding, and why it does not match."""
        raise NotImplementedError


class UnknownExchange(Kind):
    """An exchange type that is not known here, such as that of another plugin: routes through it are undecided.

    It has no instances: the router has None in place of one.
    """

    routes_as = "unknown"
    decider = Decider.UNKNOWN

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        return Miss(0.5, "the type of this exchange is unknown here: it may match or not")
