"""What the difference of two topologies means to publishers and consumers, as values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from bindings.diff.comparison.partitions import PartitionChange
from bindings.diff.comparison.terms import Term
from exchange.entities.entities import Destination
from exchange.message import Message

__all__ = ["Access", "Choice", "Effect", "Meaning", "Undecided", "Unroutable"]

Verdict = Literal["same", "changed", "undecided"]


class Access(NamedTuple):
    """An exchange that publishers may use on one side only."""

    exchange: str
    opened: bool
    """Whether they may now; else they might before."""
    reason: Literal["declared", "deleted", "internal"]


class Effect(NamedTuple):
    """Messages to an exchange that a queue gains, or loses."""

    exchange: str
    queue: str
    gained: bool
    witness: Message
    """A shortest such message, unless ``undecided`` names the exchange and the queue: then there may be a shorter."""
    terms: tuple[Term, ...]
    before: Fraction | None = Fraction(0)
    """How often the witness came there before; None where that depends on an exchange of unknown type."""
    after: Fraction | None = Fraction(0)

    @property
    def exact(self) -> bool:
        """Whether the terms describe all that is gained or lost on paths without chance, and nothing else."""
        return bool(self.terms) and all(term.exact for term in self.terms)

    @property
    def certain(self) -> bool:
        """Whether the witness shows a difference."""
        return None not in (self.before, self.after) and self.before != self.after


class Unroutable(NamedTuple):
    """Messages to an exchange that now go nowhere, or no longer do."""

    exchange: str
    now: bool
    """Whether they go nowhere after; else before."""
    witness: Message


class Choice(NamedTuple):
    """Messages to an exchange that get to one that chooses by chance, by a hash or in an unknown way.

    Something has changed: the choosing exchange itself, where it leads to, or which messages get there.
    """

    exchange: str
    at: str
    by: str
    """chance, hash or unknown."""
    witness: Message
    """A message that gets there."""
    before: tuple[tuple[str, Fraction], ...] | None
    """How often each queue gets the witness; None when that is not known."""
    after: tuple[tuple[str, Fraction], ...] | None
    certain: bool
    """Whether the witness shows a difference; else no such message was found, and there may be one."""


class Undecided(NamedTuple):
    """What could not be decided."""

    exchange: str | None
    """None for all exchanges."""
    destination: Destination | None
    reason: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """All that is different, in the order of names."""

    access: tuple[Access, ...] = ()
    effects: tuple[Effect, ...] = ()
    unroutable: tuple[Unroutable, ...] = ()
    choices: tuple[Choice, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    undecided: tuple[Undecided, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``changed`` if something differs for sure, ``same`` if it is proved that nothing does, else ``undecided``."""
        proved = (
            bool(self.access or self.unroutable)
            or any(effect.certain for effect in self.effects)
            or any(choice.certain for choice in self.choices)
            or any(change.certain for change in self.partitions)
        )
        if proved:
            return "changed"
        open_ = self.undecided or self.effects or self.choices or self.partitions
        return "undecided" if open_ else "same"
