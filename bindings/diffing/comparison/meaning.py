"""What the difference of two topologies means to publishers and consumers, as values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from bindings.diffing.comparison.partitions import PartitionChange
from bindings.diffing.comparison.terms import Term
from exchange.entities.entities import Destination
from exchange.entities.unread import UnreadPart
from exchange.values.documents import document
from exchange.values.message import Message

Verdict = Literal["same", "changed", "undecided"]


@document("AccessJson")
class Access(NamedTuple):
    """An exchange that publishers can use now, or no longer can."""

    exchange: str
    opened: bool
    """Whether they can use it now; else they no longer can."""
    reason: Literal["declared", "deleted", "internal"]


class Effect(NamedTuple):
    """Messages to an exchange that a queue gains, or that it loses."""

    exchange: str
    """The exchange that they are published to; "" is the default exchange."""
    queue: str
    gained: bool
    witness: Message
    """A shortest such message. If ``undecided`` names the exchange and the queue, there may be a shorter one."""
    terms: tuple[Term, ...]
    before: Fraction | None = Fraction(0)
    """Probability that the queue got the witness before; None if that depends on an exchange of unknown type."""
    after: Fraction | None = Fraction(0)
    """The same after the change."""
    timing: Literal["at once", "later"] | None = None
    """When a message that an exchange delays gets there; None if this is not about delayed messages only."""

    @property
    def exact(self) -> bool:
        """Whether the terms describe all that is gained or lost on paths without chance, and nothing else."""
        return bool(self.terms) and all(term.exact for term in self.terms)

    @property
    def certain(self) -> bool:
        """Whether the witness shows a difference; else a random choice decides."""
        return None not in (self.before, self.after) and self.before != self.after


@document("UnroutableJson")
class UnroutableChange(NamedTuple):
    """Messages to an exchange that go nowhere now, or no longer do."""

    exchange: str
    now: bool
    """Whether they go nowhere now; else they no longer do."""
    witness: Message


@document("ChoiceJson", "exchange, at, by, certain, witness")
class ChoiceChange(NamedTuple):
    """Messages to an exchange that get to one which chooses by chance, by a hash, by selectors or in an unknown way.

    Something has changed: the choosing exchange itself, an exchange beyond it, or which messages get to it.
    """

    exchange: str
    """The exchange that the messages are published to."""
    at: str
    """The choosing exchange."""
    by: str
    """``chance``, ``hash``, ``selector`` or ``unknown``."""
    witness: Message
    """A message that gets to the choosing exchange."""
    before: tuple[tuple[str, Fraction], ...] | None
    """Queue and probability that it gets the witness, for each queue; None if that is not known."""
    after: tuple[tuple[str, Fraction], ...] | None
    certain: bool
    """Whether the witness shows a difference; if not, no message was found that does, though there may be one."""


@document("UndecidedJson")
class UndecidedQuestion(NamedTuple):
    """A question that could not be decided: whether messages from an exchange get to a destination."""

    exchange: str | None
    """None for all exchanges."""
    destination: Destination | None
    """None for all destinations."""
    reason: str


@document("MeaningJson", "verdict, access, effects, unroutable, choices, partitions, undecided, unread")
@dataclass(frozen=True, slots=True)
class Meaning:
    """Which messages are routed differently: all differences, in the order of names."""

    access: tuple[Access, ...] = ()
    effects: tuple[Effect, ...] = ()
    unroutable: tuple[UnroutableChange, ...] = ()
    choices: tuple[ChoiceChange, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    undecided: tuple[UndecidedQuestion, ...] = ()
    unread: tuple[UnreadPart, ...] = ()
    """What is missing in the topologies. If anything is, the verdict is ``undecided``: nothing is proved."""

    @property
    def verdict(self) -> Verdict:
        """``changed`` if something differs for sure, ``same`` if it is proved that nothing does, else ``undecided``."""
        proved = not self.unread and (
            bool(self.access or self.unroutable)
            or any(effect.certain for effect in self.effects)
            or any(choice.certain for choice in self.choices)
            or any(change.certain for change in self.partitions)
        )
        if proved:
            return "changed"
        open_ = self.unread or self.undecided or self.effects or self.choices or self.partitions
        return "undecided" if open_ else "same"
