"""Count the archived messages that an upgrade moves: a sample of an archive, or all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bindings.archive.sums import Unread
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CompareStudy
from bindings.auditing.run import count, open_traffic
from bindings.counts.changes import Changes, list_changes
from bindings.counts.comparison import MessageSum
from exchange.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ReroutedTraffic(NamedTuple):
    """The archived messages of a virtual host that are routed differently after an upgrade."""

    changes: Changes
    share: float
    """Share of the archive that was read, by its bytes: from 0 to 1."""
    unread: Unread
    """The records that were not counted, by reason."""
    to_unknown: int
    """Number of messages to exchanges that neither topology has; they count as routed alike."""

    @property
    def moved(self) -> float:
        """Share of the messages that go elsewhere, from 0 to 1; also to another queue of a hash."""
        totals = self.changes.totals
        return totals.elsewhere / totals.messages if totals.messages else 0.0


def count_traffic(
    before: Topology,
    after: Topology,
    archives: Sequence[str],
    *,
    most_bytes: int | None = None,
    spark: SparkSession | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> ReroutedTraffic:
    """Return which messages of archives two topologies route differently, each under its own profile.

    Of a larger archive, parts of ``most_bytes`` altogether are read, drawn by chance but always the same ones; None for
    all of it. With a Spark session all is read, on its workers. ``step`` is called with the numbers of bytes read and
    to read. Raises InputError as `bindings.audit`.
    """
    study = CompareStudy(before, after)
    passed = count(
        open_traffic(archives), [study], Selection(before.vhost), spark=spark, step=step,
        most_bytes=None if spark is not None else most_bytes,
    )  # fmt: skip
    comparison = passed.values[0]
    to_unknown = comparison.sums.get(MessageSum("unknown exchange"), 0)
    return ReroutedTraffic(list_changes(comparison, before, after), passed.share, passed.account.unread, to_unknown)
