"""The text of the store of a RocketMQ broker, and of messages that were found in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from bindings.archive.figures import format_position, format_time
from bindings.report.inspection import format_bad
from exchange.errors import HashstarError
from exchange.text.display import clip_line, count_noun, count_rest, escape_line, list_some
from exchange.text.site import build_install_command

if TYPE_CHECKING:
    from bindings.archive.rocketmq.commit import CommitRecord
    from bindings.archive.rocketmq.find import FoundMessages
    from bindings.archive.rocketmq.inspection import Level, StoredQueueFacts, StoredTopicFacts, StoreInspection
    from bindings.archive.rocketmq.store import Store, StoredTopic
    from bindings.archive.rocketmq.timer import Timer

MAX_LISTED_ENTRIES: Final = 20
"""Maximum number of topics, groups, tags or messages in text; JSON has all."""
WIDTH: Final = 60
"""Maximum number of characters of a name."""
BODY: Final = 200
"""Maximum number of characters of a body or a property."""


def store_lines(store: Store, inspection: StoreInspection) -> Iterator[str]:
    """Yield the lines of a store."""
    from bindings.archive.rocketmq.inspection import TopicKind

    yield f"{store.path}: the store of a RocketMQ broker"
    if store.has_abort:
        yield "state: it runs, or did not end cleanly: the file abort is there; what follows may be behind by seconds"
    for name in store.in_database:
        way_out = f"; {build_install_command('rocksdb')}" if store.lacks_library else ""
        yield f"not read, as they are in RocksDB: {name}{way_out}"
    log = store.log
    yield (
        f"commit log: {count_noun(len(log.files), 'file')}, bytes {log.begin:,} to {inspection.log_end:,}; "
        f"{count_noun(inspection.records, 'record')}, stored {_window(inspection.first_stored, inspection.last_stored)}"
    )
    behind = f"; {count_noun(inspection.behind_index, 'message')} behind it" if inspection.behind_index else ""
    yield f"index: {count_noun(len(store.index), 'file')}, {count_noun(inspection.keys, 'key')}{behind}"
    if store.checkpoint is not None:
        point = store.checkpoint
        times = (("log", point.log), ("queues", point.queues), ("index", point.keys))
        yield f"on the disk for sure: {', '.join([f'{what} to {_time(time)}' for what, time in times])}"
    users = [topic for topic in inspection.topics if topic.kind is TopicKind.USER]
    own = [topic for topic in inspection.topics if topic.kind is not TopicKind.USER]
    for title, topics in (("topics", users), ("topics of RocketMQ's own", own)):
        if topics:
            yield f"{title}:"
        for topic in sorted(topics, key=lambda topic: -topic.messages)[:MAX_LISTED_ENTRIES]:
            yield from _topic_lines(topic, store.topics.get(topic.name))
        yield from count_rest(len(topics), MAX_LISTED_ENTRIES)
    timer = store.timer
    if inspection.levels or inspection.wheel.waiting or timer is not None:
        yield "delayed, as delivery was written down last:"
        for level in inspection.levels:
            yield f"  level {level.level}{_delay(level)}: {level.waiting:,} waiting{_due(level)}"
        if inspection.wheel.waiting:
            yield f"  by time: {inspection.wheel.waiting:,} waiting{_due(inspection.wheel)}"
        if timer is not None:
            kind = TIMER_KINDS[timer.kind]
            yield f"  timer, in {kind}: {timer.waiting:,} waiting{_due(timer)}; {_timer_parts(timer)}"
    yield from _group_lines(inspection)
    yield from format_bad(inspection.problems)


TIMER_KINDS: Final = {"files": "timerwheel and timerlog", "database": "RocksDB"}


def _timer_parts(timer: Timer) -> str:
    """Return what the timer consists of."""
    if timer.kind == "database":
        return count_noun(timer.entries, "entry", "entries")
    slots = f", {count_noun(timer.in_slots, 'message')} in {count_noun(timer.slots, 'slot')}" if timer.slots else ""
    return f"{count_noun(timer.entries, 'unit')} in the log{slots}"


def _topic_lines(topic: StoredTopicFacts, config: StoredTopic | None) -> Iterator[str]:
    kind = "" if topic.kind.name == "USER" else f"  ({topic.kind.value})"
    sums = f"{count_noun(topic.messages, 'message')}, {topic.size:,} bytes in {count_noun(len(topic.queues), 'queue')}"
    yield f"  {clip_line(topic.name, WIDTH)}: {sums}{kind}"
    for queue in topic.queues:
        yield f"    queue {queue.queue}: {_queue_line(queue)}"
    if config is not None and config.unread_queues:
        yield (
            f"    {config.write_queues} write queues and {config.read_queues} read queues: what is written to "
            f"{config.unread_queues} of them is never read; hashstar rocketmq scale changes both numbers in safe steps"
        )
    tags = [
        f"{'none' if tag is None else clip_line(tag, WIDTH)} {count:,}{'' if tag is None else f' ({find_code(tag)})'}"
        for tag, count in topic.tags.items()
    ]
    if list(topic.tags) != [None] and tags:
        yield f"    tags (codes): {list_some(tags, MAX_LISTED_ENTRIES)}"


def find_code(tag: str | None) -> int:
    """Return the code that stands for a tag in a broker's queues."""
    from bindings.archive.rocketmq.queue import encode_tag

    return encode_tag(tag)


def _queue_line(queue: StoredQueueFacts) -> str:
    deleted = f"; {count_noun(queue.deleted, 'unit')} of messages that were deleted" if queue.deleted else ""
    batches = ", in batches" if queue.batches else ""
    stored = f", stored {_window(queue.first_stored, queue.last_stored)}" if queue.messages else ""
    return (
        f"offsets {queue.min_offset:,} to {queue.max_offset:,}, {count_noun(queue.messages, 'message')}{batches}, "
        f"{queue.size:,} bytes{stored}{deleted}"
    )


def _group_lines(inspection: StoreInspection) -> Iterator[str]:
    if not inspection.groups:
        return
    yield "consumer groups, as their offsets were written down last:"
    rows = [(where, list(each)) for where, each in groupby(inspection.groups, key=lambda row: (row.group, row.topic))]
    for (group, topic), queues in rows[:MAX_LISTED_ENTRIES]:
        offsets = ", ".join([f"{each.queue}: {each.offset:,}" for each in queues[:MAX_LISTED_ENTRIES]])
        lag = sum(each.lag for each in queues)
        yield f"  {clip_line(group, WIDTH)} of {clip_line(topic, WIDTH)}: {lag:,} behind (queue: offset; {offsets})"
    yield from count_rest(len(rows), MAX_LISTED_ENTRIES)


def _delay(level: Level) -> str:
    return "" if level.delay is None else f" ({level.delay / 1000:g} s)"


def _due(waiting: Any) -> str:
    return f", due {_window(waiting.first_due, waiting.last_due)}" if waiting.waiting else ""


def _time(milliseconds: int) -> str:
    return format_time(milliseconds * 1000) if milliseconds else "never"


def _window(first: int | None, last: int | None) -> str:
    if first is None or last is None:
        return "never"
    return format_time(first * 1000) if first == last else f"{format_time(first * 1000)} to {format_time(last * 1000)}"


def format_matches(matches: FoundMessages) -> Iterator[str]:
    """Yield the lines of the messages that were found."""
    for number, message in enumerate(matches.messages[:MAX_LISTED_ENTRIES]):
        if number:
            yield ""
        yield f"{escape_line(message.topic)}, queue {message.queue}, offset {message.offset:,}"
        yield f"  id: {message.message_id}; unique id: {escape_line(message.unique_id or 'none')}"
        yield f"  commit log: byte {message.place:,}, {message.size:,} bytes"
        yield f"  stored: {_time(message.stored)} at {message.stored_host}"
        yield f"  born: {_time(message.born)} at {message.born_host}"
        if message.reconsumed:
            yield f"  sent back by consumers: {count_noun(message.reconsumed, 'time')}"
        for name, value in message.properties.items():
            if name != "UNIQ_KEY":
                yield f"  {escape_line(name)}: {clip_line(value, BODY)}"
        for size, text in list_bodies(message):
            yield f"  body: {text}" if size is None else f"  body: {count_noun(size, 'byte')}: {text}"
    yield from count_rest(len(matches.messages), MAX_LISTED_ENTRIES, " messages", indent="")
    if matches.deleted:
        yield f"deleted since: {count_noun(matches.deleted, 'message')} that the index names"
    if matches.others:
        yield f"passed over: {count_noun(matches.others, 'message')} with another key of the same hash"
    for bad in matches.problems:
        yield f"bad: {escape_line(bad.reason)}: {format_position(escape_line(bad.source), bad.offset)}"


def list_bodies(message: CommitRecord) -> Iterator[tuple[int | None, str]]:
    """Yield size and beginning of the body, or of each in a batch; if it is unreadable, no size and the reason."""
    try:
        messages = message.parts()
    except HashstarError as error:
        yield None, str(error)
        return
    for each in messages:
        try:
            text = clip_line(each.body.decode("utf-8"), BODY)
        except UnicodeDecodeError:
            text = f"0x{each.body[: BODY // 4].hex()}{'...' if len(each.body) > BODY // 4 else ''}"
        yield len(each.body), text
