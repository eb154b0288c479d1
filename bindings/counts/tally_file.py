"""Save and load tallies as Parquet files: one row per outcome with its facts, and rows for named counts and slots.

Version 1 had slots of an hour (kind ``hour``); since version 2 the metadata has their width (kind ``slot``). Version 3
has groups of messages in place of outcomes, where these are too many; version 4 has damage of unknown size in rows of
its own. Each file has the least version that has all of it; all are read. Files come from anywhere, and
reports believe them: what the form of a file shows is checked where it is read (`bindings.counts.codec`), and
`check_fit` checks what only the topology shows, that its outcomes are routes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindings.archive.names import escape, unescape
from bindings.archive.sums import Unread
from bindings.counts.codec import TableFormat, build_column, build_schema, spread
from bindings.counts.groups import MessageGroup, find_fault
from bindings.counts.outcome import Facts, Outcome, sort_bindings
from bindings.counts.slots import HOUR, LAST_TIME, WIDTHS, SlotCounts
from bindings.counts.tally import Tally
from bindings.sources.files import make_folders, open_file
from exchange.entities.entities import Binding
from exchange.errors import InputError, name_os_errors
from exchange.files.replacing import replace_file
from exchange.topology.topology import Topology

DEFAULT: Final = ""
"""The default exchange, whose bindings are implicit: it alone leads to queues without any binding."""


class Numbered(NamedTuple):
    """A partitioned queue and its partition, None where the key does not decide it; a slot has only the number."""

    name: str
    number: int | None


OUTCOME: Final = spread(Outcome)
FACTS: Final = spread(Facts)
NUMBERED: Final = spread(Numbered)
GROUP: Final = spread(MessageGroup)
NAME: Final = build_column("name", str)
MESSAGES: Final = build_column("messages", int)

SCHEMA: Final = build_schema(OUTCOME, FACTS, NUMBERED)

FORM: Final = TableFormat(
    "tally",
    b"2",
    SCHEMA,
    {
        "outcome": (OUTCOME, FACTS),
        "partition": (NUMBERED, MESSAGES),
        "skipped": (NAME, MESSAGES),
        "bad": (NAME, MESSAGES),
    },
)
HOURLY: Final = FORM._replace(version=b"1")
"""The form of version 1, whose slots are hours."""


GROUPED: Final = TableFormat(
    "tally", b"3", build_schema(OUTCOME, FACTS, GROUP), {"group": (GROUP, FACTS), **FORM.kinds}
)
"""The form of a tally with groups, whose columns include those of `Numbered`."""
UNCOUNTED: Final = GROUPED._replace(version=b"4", kinds={**GROUPED.kinds, "uncounted": (NAME, MESSAGES)})
"""The form of a tally with damage that costs an unknown number of records."""


def build_table(tally: Tally) -> pa.Table:
    """Return a tally as a table, with its topology's fingerprint in the schema's metadata."""
    counts: dict[str, Mapping[Any, Any]] = {
        "outcome": tally.facts, "partition": tally.partitions, "skipped": tally.unread.skipped, "bad": tally.unread.bad,
        "group": tally.groups, "uncounted": tally.unread.uncounted,
    }  # fmt: skip
    form = UNCOUNTED if tally.unread.uncounted else GROUPED if tally.groups else FORM
    table = form.table(counts, {"topology": tally.topology, "slot": str(tally.timeline.width)})
    return pa.concat_tables([table, _slots(tally.timeline, table.schema)]).combine_chunks()


def decode_tally(table: pa.Table, source: str = "a table") -> Tally:
    """Return the tally in a table. Raises InputError, naming the source, if it has none of a supported version."""
    forms = {each.version: each for each in (HOURLY, FORM, GROUPED, UNCOUNTED)}
    form = forms.get((table.schema.metadata or {}).get(FORM.version_key, b""), UNCOUNTED)
    metadata = form.metadata(table, ("topology",), source)
    is_hourly = form is HOURLY
    text = str(HOUR) if is_hourly else metadata.get("slot")
    width = {str(each): each for each in WIDTHS}.get(text or "")
    if width is None:
        raise form.damage(source, f"the width of its slots is {text!r}")
    is_slot = pc.fill_null(pc.equal(table.column("kind"), "hour" if is_hourly else "slot"), False)
    timeline = _read_slots(table.filter(is_slot), width, source)
    counts = form.counts(table.filter(pc.invert(is_slot)), source)
    groups = counts.get("group", {})
    published = [facts.messages for group, facts in groups.items() if group.group == "exchange"]
    numbers = [*published, *[facts.messages for facts in counts["outcome"].values()]]
    if sum(numbers) + sum([sum(counts[kind].values()) for kind in ("partition", "skipped", "bad")]) >= 1 << 63:
        raise form.damage(source, "more messages than can be counted")
    uncounted = counts.get("uncounted", {})
    if Counter(uncounted) - Counter(counts["bad"]):
        raise form.damage(source, "more damage of unknown size than bad records")
    unread = Unread.from_counts(counts["skipped"], counts["bad"], uncounted)
    return Tally(metadata["topology"], counts["outcome"], counts["partition"], timeline, unread, groups)


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally, and create its folder if it is missing. Raises InputError if that fails."""
    with name_os_errors(path, "written"):
        make_folders(path.parent)
        with replace_file(path) as file:
            pq.write_table(build_table(tally), file, compression="zstd", write_page_checksum=True)


def load_tally(path: Path) -> Tally:
    """Read a tally. Raises InputError if the file cannot be read or holds no tally."""
    try:
        with open_file(path) as file:  # given a path, pyarrow would read it as a URI, and only in UTF-8
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a column name that is not UTF-8
        raise InputError(f"{path}: cannot be read as a tally: {error}") from None
    return decode_tally(table, str(path))


def _slots(timeline: SlotCounts, schema: pa.Schema) -> pa.Table:
    """Return the rows of a timeline, built by column: there may be thousands, with nulls in most columns."""
    number = len(timeline.counts)
    columns = {
        "kind": ["slot"] * number,
        "exchange": [escape(exchange) for _, exchange, _ in timeline.counts],
        "number": [slot for slot, _, _ in timeline.counts],
        "routed": [routed for _, _, routed in timeline.counts],
        "messages": list(timeline.counts.values()),
    }
    arrays = [
        pa.array(columns[column.name], column.type) if column.name in columns else pa.nulls(number, column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_slots(table: pa.Table, width: int, source: str) -> SlotCounts:
    """Return the timeline in rows of slots. Raises InputError for incomplete or impossible slots."""
    needed = table.select(["number", "exchange", "messages"])
    if any(column.null_count for column in needed.columns):
        raise FORM.damage(source, "a slot without number, exchange or messages")
    numbers, exchanges, fates, counts = (
        table.column(name).to_pylist() for name in ("number", "exchange", "routed", "messages")
    )
    if any(abs(number) * width > LAST_TIME for number in numbers):
        raise FORM.damage(source, "a slot at no time")
    if any(count < 0 for count in counts):
        raise FORM.damage(source, "fewer messages in a slot than none")
    if sum(counts) >= 1 << 63:  # the sum of two slots must fit into an int64 when it is saved again
        raise FORM.damage(source, "more messages in slots than can be counted")
    try:
        cells = zip(numbers, map(unescape, exchanges), fates, strict=True)
        return SlotCounts.from_counts(width, dict(zip(cells, counts, strict=True)))
    except ValueError:
        raise FORM.damage(source) from None


def check_fit(tally: Tally, topology: Topology, source: str) -> None:
    """Raise InputError, naming the source, if no messages have such outcomes or partitions in this topology."""
    bindings = sort_bindings(topology)
    for outcome in tally.facts:
        fault = _fault_of(outcome, topology, bindings)
        if fault:
            raise InputError(f"{source}: a damaged tally: an outcome {fault}")
    fault = find_fault(tally.groups, topology) or ("outcomes beside groups" if tally.facts and tally.groups else "")
    if fault:
        raise InputError(f"{source}: a damaged tally: {fault}")
    for name, partition in tally.partitions:
        queue = topology.queues.get(name)
        partitioning = None if queue is None else queue.partitioning
        if partitioning is None or (partition is not None and partition not in partitioning.partitions):
            raise InputError(f"{source}: a damaged tally: a partition that no queue has")
    if tally.timeline.messages > tally.messages:
        raise InputError(f"{source}: a damaged tally: more messages have a time than there are")


def _fault_of(outcome: Outcome, topology: Topology, bindings: Sequence[Binding]) -> str:
    """Return why no message has this outcome; "" if one may have it."""
    if outcome.refused:
        return "" if outcome == Outcome(outcome.exchange, refused=outcome.refused) else "that is refused and routed"
    pairs = (
        (outcome.queues, outcome.possible_queues),
        (outcome.bindings, outcome.possible_bindings),
        (outcome.exchanges, outcome.possible_exchanges),
        (outcome.alternates, outcome.possible_alternates),
        (outcome.undecided, ()),
    )
    for certain, possible in pairs:
        both: tuple[object, ...] = (*certain, *possible)
        if len(set(both)) < len(both) or sorted(certain) != [*certain] or sorted(possible) != [*possible]:
            return "whose names and numbers are not sorted, or there twice"
    numbers = {*outcome.bindings, *outcome.possible_bindings}
    passed = {*outcome.exchanges, *outcome.possible_exchanges}
    queues = {*outcome.queues, *outcome.possible_queues}
    alternates = {*outcome.alternates, *outcome.possible_alternates}
    if any(number >= len(bindings) for number in numbers):
        return "with a binding that the topology does not have"
    if not (queues <= topology.queues.keys() and passed <= topology.exchanges.keys()):
        return "with a queue or an exchange that the topology does not have"
    if outcome.exchange not in outcome.exchanges or not {*outcome.undecided} <= passed:
        return "that does not pass its own exchanges"
    taken = [bindings[number] for number in sorted(numbers)]
    if any(binding.source not in passed for binding in taken) or any(
        each.exchange not in passed for each in alternates
    ):
        return "with a binding or an alternate of an exchange that it does not pass"
    reached = {tuple(binding.destination) for binding in taken} | {("exchange", each.alternate) for each in alternates}
    if any(("exchange", name) not in reached for name in passed - {outcome.exchange}):
        return "that gets to an exchange without a binding"
    if DEFAULT not in passed and any(("queue", name) not in reached for name in queues):
        return "that gets to a queue without a binding"
    if any(kind == "queue" and name in topology.queues and name not in queues for kind, name in reached):
        return "that takes a binding, and does not get to its queue"
    if (outcome.routed is False and queues) or (outcome.routed is True and not queues):
        return "whose fate contradicts its queues"
    return ""
