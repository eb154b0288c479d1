"""What the data folder of a Kafka broker holds, as text: see `bindings.archive.kafka.folder`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bindings.archive.figures import format_timestamp
from bindings.report.inspection import describe_inspection, format_bad
from exchange.text.display import clip_line, count_noun, count_rest, escape_line, list_some

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive, ArchiveContents
    from bindings.archive.inspection import Inspection
    from bindings.archive.kafka.cluster import Cluster
    from bindings.archive.kafka.folder import FolderInspection, LocatedPartition, TopicFacts
    from bindings.archive.kafka.transaction_state import TransactionState

MAX_LISTED_ENTRIES: Final = 20
"""Maximum number of topics, groups, partitions, members or transactions in text; JSON has all."""
WIDTH: Final = 60
"""Maximum number of characters of a name."""


def format_inspection(
    archive: Archive, contents: ArchiveContents, inspection: Inspection, folder: FolderInspection | None = None
) -> Iterator[str]:
    """Yield what an archive holds, for people; ``folder`` is the data folder of a broker that it is in."""
    if archive.files:
        yield from describe_inspection(archive, contents, inspection)
    if folder is not None:
        yield from format_kafka(folder)


def format_kafka(found: FolderInspection) -> Iterator[str]:
    """Yield what the data folder of a broker holds, for people."""
    ids = [f"{name} {escape_line(found.properties[key])}" for name, key in ID_PROPERTIES if key in found.properties]
    state = "ended cleanly" if found.is_clean else "it runs, or did not end cleanly; checkpoints may be behind"
    yield f"data folder of a Kafka broker: {', '.join([*ids, state])}"
    for title, is_own in (("topics", False), ("topics of Kafka's own", True)):
        topics = [topic for topic in found.topics if topic.is_own is is_own]
        if topics:
            yield f"{title}:"
        for topic in sorted(topics, key=_count_records, reverse=True)[:MAX_LISTED_ENTRIES]:
            yield from _topic_lines(topic)
        yield from count_rest(len(topics), MAX_LISTED_ENTRIES)
    yield from _group_lines(found)
    if found.transactions:
        yield "transactional producers:"
        for each in found.transactions[:MAX_LISTED_ENTRIES]:
            yield f"  {_transaction_line(each)}"
        yield from count_rest(len(found.transactions), MAX_LISTED_ENTRIES)
    if found.cluster is not None:
        yield from _cluster_lines(found, found.cluster)
    yield from format_bad(found.problems)


ID_PROPERTIES: Final = (("cluster", "cluster.id"), ("node", "node.id"), ("broker", "broker.id"))


def _count_records(topic: TopicFacts) -> int:
    return sum(each.facts.records for each in topic.partitions)


def _topic_lines(topic: TopicFacts) -> Iterator[str]:
    size = sum(each.facts.size for each in topic.partitions)
    known = "" if topic.topic_id is None else f" (id {topic.topic_id})"
    count = count_noun(_count_records(topic), "record")
    sums = f"{count}, {size:,} bytes in {count_noun(len(topic.partitions), 'partition')}"
    yield f"  {clip_line(topic.name, WIDTH)}{known}: {sums}"
    filled = [each for each in topic.partitions if each.facts.end_offset]
    for each in filled[:MAX_LISTED_ENTRIES]:
        yield from _partition_lines(each)
    yield from count_rest(len(filled), MAX_LISTED_ENTRIES, " partitions", indent="    ")


def _partition_lines(located: LocatedPartition) -> Iterator[str]:
    facts = located.facts
    watermark = "" if located.high_watermark is None else f" (high watermark {located.high_watermark:,})"
    times = "" if facts.first_time is None else f", {_window(facts.first_time, facts.last_time)}"
    old = (
        f", message format {list_some([str(each) for each in sorted(facts.formats)], 3)}" if facts.formats - {2} else ""
    )
    bad = f"; {facts.bad:,} damaged" if facts.bad else ""
    yield (
        f"    partition {facts.partition}: offsets {located.start_offset:,} to {facts.end_offset:,}{watermark}, "
        f"{count_noun(facts.records, 'record')} in {count_noun(facts.batches, 'batch', 'batches')} and "
        f"{count_noun(facts.segments, 'segment')}, {facts.size:,} bytes{times}{old}{bad}"
    )
    if len(facts.epochs) > 1:
        epochs = [f"{each.epoch} from {each.start_offset:,}" for each in facts.epochs]
        yield f"      leader epochs: {list_some(epochs, MAX_LISTED_ENTRIES)}"
    if facts.producers:
        aborted = f"; {count_noun(len(facts.aborted), 'aborted transaction')}" if facts.aborted else ""
        yield f"      {count_noun(len(facts.producers), 'producer')}{aborted}"
    for producer in facts.open_transactions[:MAX_LISTED_ENTRIES]:
        yield (
            f"      open transaction: producer {producer.producer_id}, epoch {producer.epoch}, since offset "
            f"{producer.open_since:,}; consumers of committed records stop at {located.last_stable_offset:,}"
        )


def _group_lines(found: FolderInspection) -> Iterator[str]:
    if not found.groups:
        return
    yield "consumer groups:"
    ends = found.end_offsets
    for group in found.groups[:MAX_LISTED_ENTRIES]:
        rows = [
            (where, each, measure_lag(ends.get(where), each.offset)) for where, each in sorted(group.offsets.items())
        ]
        known = [lag for _, _, lag in rows if lag is not None]
        state = "" if group.state is None else f", {group.state}"
        sums = count_noun(len(group.members), "member") + (f", {sum(known):,} behind" if known else "")
        yield f"  {clip_line(group.name, WIDTH)} ({group.kind}{state}): {sums}"
        for (topic, partition), each, lag in rows[:MAX_LISTED_ENTRIES]:
            end = "its log is elsewhere" if lag is None else f"{lag:,} behind"
            yield f"    {clip_line(topic, WIDTH)}-{partition}: offset {each.offset:,}, {end}"
        yield from count_rest(len(rows), MAX_LISTED_ENTRIES, " partitions", indent="    ")
        for member in list(group.members.values())[:MAX_LISTED_ENTRIES]:
            count = count_noun(len(member.partitions), "partition")
            yield f"    member {clip_line(member.client_id, WIDTH)} at {escape_line(member.host)}: {count}"
    yield from count_rest(len(found.groups), MAX_LISTED_ENTRIES)


def _transaction_line(each: TransactionState) -> str:
    partitions = [f"{clip_line(topic, WIDTH)}-{number}" for topic, number in each.partitions]
    parts = f" in {list_some(partitions, MAX_LISTED_ENTRIES)}" if partitions else ""
    return (
        f"{clip_line(each.transactional_id, WIDTH)}: {each.state}{parts}, producer {each.producer_id}, "
        f"epoch {each.epoch}, since {format_timestamp(each.updated) or 'unknown'}"
    )


def _cluster_lines(found: FolderInspection, cluster: Cluster) -> Iterator[str]:
    version = cluster.features.get("metadata.version")
    level = "" if version is None else f", metadata.version {version}"
    yield f"metadata of the cluster: {count_noun(len(cluster.topics), 'topic')}{level}"
    held = {topic.name for topic in found.topics}
    missing = sorted(topic.name for topic in cluster.topics.values() if topic.name not in held)
    if missing:
        listed = list_some([clip_line(name, WIDTH) for name in missing], MAX_LISTED_ENTRIES)
        yield f"  without a partition in this folder: {listed}"


def measure_lag(end: int | None, offset: int) -> int | None:
    """Return the number of offsets from one to the end of the log; None if that is not known."""
    return None if end is None else max(end - offset, 0)


def _window(first: int | None, last: int | None) -> str:
    begin, end = format_timestamp(first) or "unknown", format_timestamp(last) or "unknown"
    return begin if begin == end else f"{begin} to {end}"
