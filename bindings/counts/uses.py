"""The coverage of a tally, as rows of tables, which `bindings.counts.coverage` computes.

There are two shares, and neither implies the other: of bindings that were hit, and of messages that were routed. If
none of the N messages that passed its source hit a binding, then, with 95 % confidence, less than 3 / N of such
messages use it, as long as the traffic stays the same (the rule of three).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bindings.archive.figures import Share, Time
from bindings.counts.sketch import Frequent
from exchange.entities.entities import Binding
from exchange.values.documents import document

RULE_OF_THREE: Final = 3.0


class BindingUse(NamedTuple):
    """The messages that matched a binding."""

    binding: Binding
    number: int
    """Its index in `bindings.counts.outcome.sort_bindings`."""
    messages: int
    """Number of messages that certainly matched it, on any hop."""
    possible: int
    """Number of messages that may match it, depending on a random choice; not among ``messages``."""
    only: int
    """Number of ``messages`` that reached its destination by this binding only, and by no alternate exchange."""
    first: Time | None
    last: Time | None
    distinct_keys: int
    """Approximate number of distinct keys, with the relative error `bindings.counts.sketch.ERROR`."""
    share: Share | None
    """Share of its destination's messages that matched it; None if the destination got no messages."""
    exposure: int
    """Number of messages that passed its source, and so could have matched it."""
    eligible: bool
    """Whether it can be hit: its source and its destination exist, the source's type is known, and messages other than
    dead letters get there."""
    only_dead_letters: bool = False
    """Whether only dead letters can reach its source, and so no message of an archive did."""

    @property
    def dead(self) -> bool:
        """Whether it could be hit, and was not, not even possibly."""
        return self.eligible and not self.messages and not self.possible

    @property
    def bound(self) -> Share | None:
        """Maximum share of its source's messages that use it (95 % confidence); None if a message hit it."""
        return None if self.messages else min(1.0, RULE_OF_THREE / self.exposure) if self.exposure else 1.0


class QueueUse(NamedTuple):
    """The messages of a queue."""

    queue: str
    messages: int
    """Number of messages that it certainly got."""
    possible: int
    """Number of messages that it may get, depending on a random choice; not among ``messages``."""
    duplicates_avoided: int
    """Number of copies that it did not get, because another binding had already put the message into it."""
    first: Time | None
    last: Time | None
    distinct_keys: int
    hot: Frequent
    partitions: Mapping[int | None, int]
    """Partition -> number of messages; None where the key does not decide it. Empty if the queue has no partitions."""


class ExchangeUse(NamedTuple):
    """The messages of an exchange."""

    exchange: str
    published: int
    """Number of messages published to it."""
    messages: int
    """Number of messages published to it or routed to it by other exchanges."""
    unroutable: int
    """Number of published messages that no queue got."""
    undecided: int
    """Number of published messages whose routing is undecided."""
    refused: int
    """Number of published messages that the broker refuses."""
    fan_out: Mapping[int, int]
    """Number of queues that certainly got a published message -> number of messages."""
    distinct_keys: int
    hot: Frequent


@document("AlternateUseJson", "exchange, alternate, messages, shapes = shapes.items, shapes_error = shapes.error")
class AlternateUse(NamedTuple):
    """An alternate exchange that messages took."""

    exchange: str
    alternate: str
    messages: int
    shapes: Frequent
    """Frequent shapes of their keys."""


class UnroutableMessages(NamedTuple):
    """Messages to one exchange that no queue got."""

    exchange: str
    refused: str
    """Error with which the broker refuses them; "" if it accepts and drops them."""
    messages: int
    shapes: Frequent
    sample: tuple[str, ...]
    """A few of their keys."""
    first: Time | None
    last: Time | None


class Totals(NamedTuple):
    """Numbers of bindings and of messages, and the two shares computed from them."""

    bindings: int
    eligible: int
    """Bindings that can be hit, by messages other than dead letters, and are not ignored."""
    hit: int
    """Number of eligible bindings that messages took, certainly or possibly."""
    messages: int
    routed: int
    """Messages that one queue or more gets."""
    unroutable: int
    """Messages that the broker drops or returns."""
    undecided: int
    """Messages that depend on a random choice or an exchange of unknown type."""
    refused: int
    """Messages for which the broker closes the channel."""
    copies: int
    """Number of copies that queues certainly got."""
    duplicates_avoided: int

    @property
    def binding_coverage(self) -> Share | None:
        """Share of eligible bindings that were hit; None if no binding is eligible."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> Share | None:
        """Share of messages that were routed; None if there are no messages."""
        return self.routed / self.messages if self.messages else None


class Coverage(NamedTuple):
    """All tables of a tally."""

    totals: Totals
    bindings: tuple[BindingUse, ...]
    queues: tuple[QueueUse, ...]
    exchanges: tuple[ExchangeUse, ...]
    alternates: tuple[AlternateUse, ...]
    unroutable: tuple[UnroutableMessages, ...]
