"""The use of bindings, counted while a bridge runs: the audit's tally of the messages that enter the topology.

Messages are counted as they enter, by the audit's own code, in batches of Arrow. So the numbers are those of an audit
of the same messages; a message that is delivered twice counts twice. Counting costs a few microseconds per message, so
it is off unless the configuration has ``coverage = true``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import time
from typing import Final

from bindings.archive.record import Rows
from bindings.archive.sums import Unread
from bindings.counts.columnar.counting import Tallier
from bindings.counts.coverage import coverage
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.report.build import Sources, build_report
from bindings.report.forms.as_json import encode_json
from bridge.daemon.telemetry.metrics import Gauges
from bridge.endpoint import Delivery
from bridge.pump.pump import Inlet
from exchange.topology.topology import Topology

ROWS: Final = 1 << 12
"""Number of messages that are counted at once; `CoverageCounter.tally` counts the rest, which are fewer."""
SERIES: Final = 1_000
"""Maximum number of bindings in the metrics for Prometheus; the report has all bindings."""


class CoverageCounter:
    """Counts the messages that are read. Use it on the event loop's thread, except `report` and `families`."""

    def __init__(self, name: str, topology: Topology) -> None:
        self._name = name
        self._topology = topology
        self._counter = Tallier(topology)
        self._rows = Rows("", self._counter.columns, is_received=True)
        self._total = Tally(compute_fingerprint(topology), routed_by=topology)
        self._bad: Counter[str] = Counter()

    def read(self, inlet: Inlet, deliveries: Sequence[Delivery]) -> None:
        """Count deliveries as they enter the topology, without those that the filter rejects."""
        add, enter, keep = self._rows.add, inlet.enter, inlet.filter
        now = int(time() * 1_000_000)
        for delivery in deliveries:
            if delivery.refusal is not None:
                self._bad[delivery.refusal] += 1
                continue
            try:
                if keep is None or keep.objection(delivery.message) is None:
                    add(enter(delivery.message), delivery.time or now)
            except Exception as error:  # noqa: BLE001  a broker would refuse the message, and so does the pump
                self._bad[str(error)] += 1
        if len(self._rows) >= ROWS:
            self._counter.add(self._rows.batch())

    def tally(self) -> Tally:
        """Return the tally of all messages so far."""
        if len(self._rows):
            self._counter.add(self._rows.batch())
        self._total = self._total + self._counter.result() + Tally(self._total.topology, unread=Unread(bad=self._bad))
        self._bad.clear()
        return self._total

    def report(self, tally: Tally) -> bytes:
        """Build the audit's report of a tally, as JSON; docs/audit-json.md describes it."""
        return encode_json(build_report(self._topology, tally, Sources(self._name), int(time() * 1_000_000)))

    def families(self, tally: Tally) -> Gauges:
        """Return metrics: messages by binding, and how many bindings matched some."""
        uses = coverage(tally, self._topology).bindings
        hit = sum([bool(use.messages or use.possible) for use in uses])
        return {
            "hashstar_binding_messages_total": ("counter", "Messages that matched a binding.", {
                (
                    ("binding", str(use.number)), ("source", use.binding.source),
                    ("kind", use.binding.destination.kind), ("destination", use.binding.destination.name),
                    ("routing_key", use.binding.routing_key),
                ): use.messages
                for use in uses[:SERIES]
            }),
            "hashstar_bindings": ("gauge", "Bindings, and those that a message matched.", {
                (("state", "all"),): len(uses), (("state", "hit"),): hit,
            }),
        }  # fmt: skip
