"""The settings of an audit: thresholds, for everything and by exchange and queue, and bindings that it leaves out.

The limits of an exchange or queue are those of the entry with exactly its name, else of the first entry whose glob
matches it; the limits for everything apply beside them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fnmatch import translate
from fractions import Fraction
from functools import cache
from typing import Final, Literal, NamedTuple

from exchange.entities.entities import Binding
from exchange.values.documents import document

STALE_DAYS: Final = 30
"""Default number of days without a message after which a binding is stale."""


class Quota(NamedTuple):
    """A maximum: a number of messages or records, or a percentage of them."""

    number: Decimal
    percent: bool

    def allows(self, part: int, whole: int) -> bool:
        """Return whether ``part`` of ``whole`` is within the quota; exact, without rounding."""
        if not self.percent:
            return part <= self.number
        return not part or Fraction(100 * part, whole) <= Fraction(self.number)

    def __str__(self) -> str:
        return f"{self.number} %" if self.percent else f"{self.number:,}"


def parse_quota(text: str) -> Quota | None:
    """Return the quota of a text such as ``100`` or ``0.5%``; None for any other text."""
    found = re.fullmatch(r"\s*(?:(\d+)|(\d+(?:\.\d+)?)\s*%)\s*", text, re.ASCII)
    if found is None:
        return None
    limit = Quota(Decimal(found[1] or found[2]), found[2] is not None)
    return None if limit.percent and limit.number > 100 else limit


class Limits(NamedTuple):
    """The thresholds of an audit; None for one that is not set.

    >>> settings = Settings(Limits(fail_under=Decimal(90)))
    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl", settings=settings)
    >>> report.gates[0].message
    'binding coverage is 66.7 % (8 of 12 bindings), wanted is 90 %'
    """

    fail_under: Decimal | None = None
    """Minimum percentage of the eligible bindings that are hit."""
    fail_under_messages: Decimal | None = None
    """Minimum percentage of the messages that are routed."""
    max_unroutable: Quota | None = None
    """Maximum of messages that no queue gets, or that the broker refuses: a number, or a share as "0.5%"."""
    max_bad: Quota | None = None
    """Maximum of unreadable records; a percentage is one of all records, and missed where nobody can count them."""
    max_partition_skew: Decimal | None = None
    """Maximum number of messages in the fullest partition of a queue, divided by the mean of its partitions."""
    max_misrouted: Quota | None = None
    """Maximum of messages that the broker did not route as predicted, of those compared.

    `count_misrouted` counts them.
    """
    max_rerouted: Quota | None = None
    """Maximum of messages that reach other queues in the other topology."""


NO_LIMITS: Final = Limits()


class Ignore(NamedTuple):
    """Bindings that no message matches for a good reason: globs of what they bind, the reason, and its last day."""

    source: str
    destination: str
    pattern: str
    reason: str
    until: date
    """The last day on which the entry holds, in UTC."""

    def matches(self, binding: Binding) -> bool:
        """Return whether all three globs match the binding."""
        return (
            matches_glob(self.source, binding.source)
            and matches_glob(self.destination, binding.destination.name)
            and matches_glob(self.pattern, binding.routing_key)
        )

    def __str__(self) -> str:
        globs = {"source": self.source, "destination": self.destination, "pattern": self.pattern}
        return ", ".join([f"{name} '{glob}'" for name, glob in globs.items() if glob != "*"]) or "everything"


@document(
    "IgnoredJson", "entry.source, entry.destination, entry.pattern, entry.reason, entry.until, expired, bindings, hit"
)
class IgnoreUse(NamedTuple):
    """An entry of the ignore list, and the bindings that it matches."""

    entry: Ignore
    expired: bool
    """Whether its last day is over; then it ignores nothing."""
    bindings: int
    """Number of bindings that it matches."""
    hit: int
    """Number of these bindings that a message matched."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The thresholds of an audit, for everything and by exchange and queue, and the bindings that it ignores.

    >>> settings = Settings(exchanges=(("orders*", Limits(fail_under=Decimal(70))),), stale_days=7)
    >>> audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl", settings=settings).passed
    True
    """

    limits: Limits = NO_LIMITS
    exchanges: tuple[tuple[str, Limits], ...] = ()
    """Globs of exchanges, in order, and the thresholds of each."""
    queues: tuple[tuple[str, Limits], ...] = ()
    """Globs of queues, in order, and the thresholds of each: queues have one, ``max_partition_skew``."""
    ignore: tuple[Ignore, ...] = ()
    stale_days: int = STALE_DAYS
    """Number of days without a message, before the end of the window, after which a binding is stale."""
    precision: int = 1
    """Number of decimals in percentages."""


@document("GateJson")
class Gate(NamedTuple):
    """A threshold and whether it was kept."""

    name: str
    """As in the settings; ``ignore`` for an entry that expired, ``unread`` for a topology of which parts were not read.
    """
    scope: str
    """The exchange or queue to which the threshold applies; "" for everything."""
    of: Literal["", "exchange", "queue"]
    """What the scope is a name of."""
    limit: str
    actual: str
    passed: bool
    message: str


def matches_glob(glob: str, name: str) -> bool:
    """Return whether a glob matches a whole name; ``*`` is any text, ``?`` any character, ``[*]`` an asterisk."""
    return glob == "*" or _compile_glob(glob).fullmatch(name) is not None


@cache
def _compile_glob(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))
