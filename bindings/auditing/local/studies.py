"""The three studies: coverage, verification, comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from bindings.archive.inspection import Account
from bindings.counts import comparison_file, tally_file, verification_file
from bindings.counts.columnar.comparing import Comparer
from bindings.counts.columnar.counting import Tallier
from bindings.counts.columnar.verifying import Verifier
from bindings.counts.comparison import Comparison, make_zero
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.verification import Verification
from exchange.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class CoverageStudy:
    """Count the outcomes of messages in a topology: a `bindings.counts.tally.Tally`."""

    topology: Topology
    table_of = staticmethod(tally_file.build_table)

    def counter(self) -> Tallier:
        return Tallier(self.topology)

    def zero(self) -> Tally:
        return Tally(compute_fingerprint(self.topology), routed_by=self.topology)

    def value_of(self, table: pa.Table) -> Tally:
        return replace(tally_file.decode_tally(table), routed_by=self.topology)

    def finish(self, value: Tally, account: Account) -> Tally:
        return replace(value, unread=account.unread)


@dataclass(frozen=True, slots=True)
class VerifyStudy:
    """Compare the queues in which the broker put messages with those by the topology: a `Verification`."""

    topology: Topology
    table_of = staticmethod(verification_file.build_table)
    value_of = staticmethod(verification_file.read_verification_table)

    def counter(self) -> Verifier:
        return Verifier(self.topology)

    def zero(self) -> Verification:
        return Verification(compute_fingerprint(self.topology))

    def finish(self, value: Verification, account: Account) -> Verification:
        return value


@dataclass(frozen=True, slots=True)
class CompareStudy:
    """Compare the outcomes of messages in two topologies: a `bindings.counts.comparison.Comparison`."""

    before: Topology
    after: Topology
    table_of = staticmethod(comparison_file.build_table)
    value_of = staticmethod(comparison_file.read_comparison_table)

    def counter(self) -> Comparer:
        return Comparer(self.before, self.after)

    def zero(self) -> Comparison:
        return make_zero(self.before, self.after)

    def finish(self, value: Comparison, account: Account) -> Comparison:
        return value
