"""Reports to test the forms of: one from a tally made by hand, and those of real counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

from bindings.archive.reading import Bad, Bias
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span, Unread
from bindings.checking.check import check
from bindings.counts.columnar.counting import Tallier
from bindings.counts.outcome import AlternateLink, Facts, Outcome
from bindings.counts.sketch import Frequent, FrequentItem, SampledKey, compute_registers, hash_of
from bindings.counts.slots import HOUR, SlotCounts
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.report.build import Sources, build_report
from bindings.report.model import Archived, Report
from bindings.report.settings import read_settings
from bindings.report.thresholds import Ignore, Limits, Settings, parse_quota
from bindings.sources.document import Document
from bindings.sources.section import Listing
from exchange import Binding, Exchange, Message, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning

DAY = 86_400_000_000
START = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * 1_000_000
NOW = START + 40 * DAY

ORDERS = Topology(
    [Exchange("orders", "topic", arguments={"alternate-exchange": "lost"}), Exchange("lost", "fanout")],
    [
        Queue("audit", partitioning=Partitioning.parse("kafka.murmur2 over 4 by routing_key")),
        *map(Queue, ("billing", "dlq", "yearly")),
    ],
    [
        Binding.to_queue("orders", "audit", "order.#"),  # 0
        Binding.to_queue("orders", "audit", "order.eu.*"),  # 1
        Binding.to_queue("orders", "billing", "order.*.paid"),  # 2
        Binding.to_queue("orders", "dlq", "order.*.failed"),  # 3
        Binding.to_queue("orders", "yearly", "order.year.#"),  # 4
    ],
)
"""Of the five bindings, numbered as they stand, one is dead and one is ignored in `HAND_MADE`."""

ORDERS_TEXT = """\
# The same as a file.
exchange orders: topic, alternate lost
exchange lost: fanout

queue audit: partitioned kafka.murmur2 over 4 by routing_key
orders -> audit:
    "order.#",
    "order.eu.*"  # covered

queue billing
orders -> billing: "order.*.paid"
queue dlq
orders -> dlq: "order.*.failed"
queue yearly
orders -> yearly: "order.year.#"
"""

PAID = Outcome("orders", ("audit", "billing"), (0, 1, 2), ("orders",), routed=True)
OTHER = Outcome("orders", ("audit",), (0,), ("orders",), routed=True)
LOST = Outcome("orders", (), (), ("lost", "orders"), (AlternateLink("orders", "lost"),), routed=False)
REFUSED = Outcome("ordres", refused="404 NOT_FOUND - no exchange 'ordres' in vhost '/'")


def facts(counts: dict[str, int], first: int, last: int, shapes: Frequent = Frequent()) -> Facts:  # noqa: B008
    """Of messages with these keys."""
    hashes = {key: hash_of(key.encode()) for key in counts}
    hot = Frequent(
        tuple([FrequentItem(key, count) for key, count in sorted(counts.items(), key=lambda item: -item[1])])
    )
    sample = tuple(sorted([SampledKey(hashed, key) for key, hashed in hashes.items()]))
    return Facts(Span(sum(counts.values()), first, last), compute_registers(hashes.values()), sample, hot, shapes)


TALLY = Tally(
    compute_fingerprint(ORDERS),
    {
        PAID: facts({"order.eu.paid": 60}, START, START + 39 * DAY),
        OTHER: facts({"order.us.new": 20, "order.us.sent": 10}, START, START + 5 * DAY),
        LOST: facts(
            {"ordr.eu.paid": 9},
            START + DAY,
            START + 2 * DAY,
            Frequent((FrequentItem("*.eu.paid", 9, "ordr.eu.paid"),), 1),
        ),
        REFUSED: facts(
            {"order.eu.paid": 1}, START, START, Frequent((FrequentItem("order.eu.paid", 1, "order.eu.paid"),))
        ),
    },
    {("audit", 0): 60, ("audit", 1): 20, ("audit", 3): 10},
    SlotCounts(HOUR, {(START // HOUR, "orders", True): 90, (START // HOUR + 24, "orders", False): 9}),
    Unread(
        Counter({"in another virtual host": 5}),
        Counter({"no JSON": 2}),
        {"no JSON": (Bad("archive/a.jsonl", 17, "no JSON", b'{"exch\xff'),)},
    ),
)

SETTINGS = Settings(
    Limits(fail_under=75, max_unroutable=parse_quota("5%"), max_bad=parse_quota("2")),  # type: ignore[arg-type]
    ignore=(
        Ignore("*", "yearly", "*", "runs once a year", date(2026, 12, 31)),
        Ignore("*", "dlq", "*", "not used yet", date(2026, 1, 31)),
    ),
)

SOURCES = Sources(
    "orders.bindings",
    (Archived("archive", ("JSON lines",), 2, (Bias.EVERYTHING,), ("a note",), ("archive/README",)),),
    listing=Listing(ORDERS_TEXT, Document.loads(ORDERS_TEXT).section()),
)


def hand_made() -> Report:
    """Build the report of the tally above."""
    return build_report(ORDERS, TALLY, SOURCES, NOW, settings=SETTINGS, findings=check(ORDERS))


def tally_of(topology: Topology, messages: Iterable[Message], times: Sequence[int] = ()) -> Tally:
    """Return what is counted of messages."""
    counter = Tallier(topology)
    counter.add(build_batch([Record(each, times[n] if times else None) for n, each in enumerate(messages)]))
    return counter.result()


def report_of(
    topology: Topology,
    messages: Iterable[Message],
    settings: Settings | dict[str, object] | None = None,
    *,
    times: Sequence[int] = (),
    now: int = NOW,
) -> Report:
    """Return the report of messages; settings may be given as in TOML."""
    judged = settings if isinstance(settings, Settings) else read_settings(settings or {}, "hashstar.toml")
    tally = tally_of(topology, messages, times)
    return build_report(topology, tally, Sources("t"), now, settings=judged, findings=check(topology))
