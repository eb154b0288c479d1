"""``hashstar archive inspect`` of the store of a RocketMQ broker: all of it, or some messages of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from bindings.report.figures import format_time
from bindings.report.inspection import bad_json, bad_lines
from exchange.commands.console import echo_line
from exchange.display import clip_line, count_noun, escape_line
from exchange.errors import HashstarError, InputError

if TYPE_CHECKING:
    from bindings.archive.rocketmq.commit import Stored
    from bindings.archive.rocketmq.find import Matches
    from bindings.archive.rocketmq.inspection import Level, QueueFacts, StoreInspection, TopicFacts
    from bindings.archive.rocketmq.store import Store

__all__ = ["inspect_a_store"]

LISTED: Final = 20
"""Topics, groups, tags and messages that are told in lines; JSON has all."""
WIDTH: Final = 60
BODY: Final = 200
"""Characters of a body that are shown."""
NOT_FOUND: Final = 1


def inspect_a_store(path: str, key: str | None, topic: str | None, message_id: str | None, as_json: bool) -> None:
    """Print what is asked. Raises InputError if it cannot be read; exits with 1 if no message is found."""
    from bindings.archive.rocketmq.find import find_by_id, find_by_key
    from bindings.archive.rocketmq.inspection import inspect_store
    from bindings.archive.rocketmq.store import open_store

    if key is not None and message_id is not None:
        raise InputError("--key and --message-id: give one of them")
    store = open_store(path)
    topics = None if topic is None else (topic,)
    if key is None and message_id is None:
        found = inspect_store(store)
        if topic is not None:
            found.topics = tuple([each for each in found.topics if each.name == topic])
            found.groups = tuple([each for each in found.groups if each.topic == topic])
            if not found.topics:
                raise InputError(f"{path}: there are no queues of a topic {topic!r}")
        _print(_store_json(store, found) if as_json else _store_lines(store, found))
        return
    matches = find_by_key(store, key, topics) if key is not None else find_by_id(store, message_id or "", topics)
    asked = {"key": key, "topic": topic, "message_id": message_id}
    _print({"version": 1, "path": path, **asked, **_matches_json(matches)} if as_json else _matches_lines(matches))
    if not matches.messages:
        wanted = f"key {key!r}" if key is not None else f"id {message_id!r}"
        index = "" if store.index else ", and the store has no index"
        echo_line(f"hashstar: {path}: no message with the {wanted}{index}", err=True)
        sys.exit(NOT_FOUND)


def _print(told: dict[str, Any] | Iterator[str]) -> None:
    if isinstance(told, dict):
        click.echo(json.dumps(told, indent=2))
        return
    for line in told:
        echo_line(line)


def _store_lines(store: Store, found: StoreInspection) -> Iterator[str]:
    from bindings.archive.rocketmq.inspection import TopicKind

    yield f"{store.path}: the store of a RocketMQ broker"
    if store.has_abort:
        yield "state: it runs, or did not end cleanly: the file abort is there; what follows may be behind by seconds"
    for name in store.in_database:
        yield f"not read, as they are in RocksDB: {name}"
    log = store.log
    yield (
        f"commit log: {count_noun(len(log.files), 'file')}, bytes {log.begin:,} to {found.log_end:,}; "
        f"{count_noun(found.records, 'record')}, stored {_window(found.first_stored, found.last_stored)}"
    )
    behind = f"; {count_noun(found.behind_index, 'message')} behind it" if found.behind_index else ""
    yield f"index: {count_noun(len(store.index), 'file')}, {count_noun(found.keys, 'key')}{behind}"
    if store.checkpoint is not None:
        point = store.checkpoint
        times = (("log", point.log), ("queues", point.queues), ("index", point.keys))
        yield f"on the disk for sure: {', '.join([f'{what} to {_time(time)}' for what, time in times])}"
    users = [topic for topic in found.topics if topic.kind is TopicKind.USER]
    own = [topic for topic in found.topics if topic.kind is not TopicKind.USER]
    for title, topics in (("topics", users), ("topics of RocketMQ's own", own)):
        if topics:
            yield f"{title}:"
        for topic in sorted(topics, key=lambda topic: -topic.messages)[:LISTED]:
            yield from _topic_lines(topic)
        if len(topics) > LISTED:
            yield f"  and {len(topics) - LISTED} more"
    if found.levels or found.wheel.waiting:
        yield "delayed, as delivery was written down last:"
        for level in found.levels:
            yield f"  level {level.level}{_delay(level)}: {level.waiting:,} waiting{_due(level)}"
        if found.wheel.waiting:
            yield f"  by time: {found.wheel.waiting:,} waiting{_due(found.wheel)}"
    yield from _group_lines(found)
    yield from bad_lines(found.problems)


def _topic_lines(topic: TopicFacts) -> Iterator[str]:
    kind = "" if topic.kind.name == "USER" else f"  ({topic.kind.value})"
    sums = f"{count_noun(topic.messages, 'message')}, {topic.size:,} bytes in {count_noun(len(topic.queues), 'queue')}"
    yield f"  {clip_line(topic.name, WIDTH)}: {sums}{kind}"
    for queue in topic.queues:
        yield f"    queue {queue.queue}: {_queue_line(queue)}"
    tags = [
        f"{'none' if tag is None else clip_line(tag, WIDTH)} {count:,}{'' if tag is None else f' ({_code(tag)})'}"
        for tag, count in topic.tags.items()
    ]
    if list(topic.tags) != [None] and tags:
        more = f", and {len(tags) - LISTED} more" if len(tags) > LISTED else ""
        yield f"    tags (codes): {', '.join(tags[:LISTED])}{more}"


def _code(tag: str | None) -> int:
    """The code of a tag in the queues."""
    from bindings.archive.rocketmq.queue import encode_tag

    return encode_tag(tag)


def _queue_line(queue: QueueFacts) -> str:
    deleted = f"; {count_noun(queue.deleted, 'unit')} of messages that were deleted" if queue.deleted else ""
    batches = ", in batches" if queue.batches else ""
    stored = f", stored {_window(queue.first_stored, queue.last_stored)}" if queue.messages else ""
    return (
        f"offsets {queue.min_offset:,} to {queue.max_offset:,}, {count_noun(queue.messages, 'message')}{batches}, "
        f"{queue.size:,} bytes{stored}{deleted}"
    )


def _group_lines(found: StoreInspection) -> Iterator[str]:
    if not found.groups:
        return
    yield "consumer groups, as their offsets were written down last:"
    rows = [(where, list(each)) for where, each in groupby(found.groups, key=lambda row: (row.group, row.topic))]
    for (group, topic), queues in rows[:LISTED]:
        offsets = ", ".join([f"{each.queue}: {each.offset:,}" for each in queues[:LISTED]])
        lag = sum(each.lag for each in queues)
        yield f"  {clip_line(group, WIDTH)} of {clip_line(topic, WIDTH)}: {lag:,} behind (queue: offset; {offsets})"
    if len(rows) > LISTED:
        yield f"  and {len(rows) - LISTED} more"


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


def _moment(milliseconds: int | None) -> str | None:
    return format_time(milliseconds * 1000) if milliseconds else None


def _store_json(store: Store, found: StoreInspection) -> dict[str, Any]:
    return {
        "version": 1,
        "path": store.path,
        "format": "RocketMQ store",
        "abort": store.has_abort,
        "in_database": list(store.in_database),
        "log": {
            "files": len(store.log.files),
            "begin": store.log.begin,
            "end": found.log_end,
            "records": found.records,
            "first_stored": _moment(found.first_stored),
            "last_stored": _moment(found.last_stored),
        },
        "index": {"files": len(store.index), "keys": found.keys, "messages_behind": found.behind_index},
        "checkpoint": None
        if store.checkpoint is None
        else {
            "log": _moment(store.checkpoint.log),
            "queues": _moment(store.checkpoint.queues),
            "index": _moment(store.checkpoint.keys),
        },
        "topics": [
            {
                "topic": topic.name,
                "kind": topic.kind.name.lower(),
                "messages": topic.messages,
                "bytes": topic.size,
                "queues": [
                    {
                        "queue": queue.queue,
                        "min_offset": queue.min_offset,
                        "max_offset": queue.max_offset,
                        "messages": queue.messages,
                        "bytes": queue.size,
                        "first_stored": _moment(queue.first_stored),
                        "last_stored": _moment(queue.last_stored),
                        "in_batches": queue.batches,
                        "files": queue.files,
                        "deleted": queue.deleted,
                    }
                    for queue in topic.queues
                ],
                "tags": [
                    {"tag": tag, "code": _code(tag), "messages": count} for tag, count in topic.tags.items()
                ],
            }
            for topic in found.topics
        ],
        "groups": [row._asdict() for row in found.groups],
        "delayed": {
            "levels": [
                level._asdict() | {"first_due": _moment(level.first_due), "last_due": _moment(level.last_due)}
                for level in found.levels
            ],
            "by_time": {
                "waiting": found.wheel.waiting,
                "first_due": _moment(found.wheel.first_due),
                "last_due": _moment(found.wheel.last_due),
            },
        },
        "bad": bad_json(found.problems),
    }  # fmt: skip


def _matches_lines(matches: Matches) -> Iterator[str]:
    for number, message in enumerate(matches.messages[:LISTED]):
        if number:
            yield ""
        yield f"{escape_line(message.topic)}, queue {message.queue}, offset {message.offset:,}"
        yield f"  id: {message.message_id}; unique id: {escape_line(message.unique_id or 'none')}"
        yield f"  commit log: byte {message.place:,}, {message.size:,} bytes"
        yield f"  stored: {_time(message.stored)} at {message.stored_host}"
        yield f"  born: {_time(message.born)} at {message.born_host}"
        if message.reconsumed:
            yield f"  sent back by consumers: {message.reconsumed:,} times"
        for name, value in message.properties.items():
            if name != "UNIQ_KEY":
                yield f"  {escape_line(name)}: {clip_line(value, BODY)}"
        for size, text in _bodies(message):
            yield f"  body: {text}" if size is None else f"  body: {count_noun(size, 'byte')}: {text}"
    if len(matches.messages) > LISTED:
        yield f"and {len(matches.messages) - LISTED} more messages"
    if matches.deleted:
        yield f"deleted since: {count_noun(matches.deleted, 'message')} that the index names"
    if matches.others:
        yield f"passed over: {count_noun(matches.others, 'message')} with another key of the same hash"
    for bad in matches.problems:
        yield f"bad: {escape_line(bad.reason)}: {escape_line(bad.source)} at {bad.offset}"


def _bodies(message: Stored) -> Iterator[tuple[int | None, str]]:
    """Size and beginning of the body, of each in a batch; no size of one that cannot be read, but why."""
    try:
        parts = message.parts()
    except HashstarError as error:
        yield None, str(error)
        return
    for part in parts:
        try:
            text = clip_line(part.body.decode("utf-8"), BODY)
        except UnicodeDecodeError:
            text = f"0x{part.body[: BODY // 4].hex()}{'...' if len(part.body) > BODY // 4 else ''}"
        yield len(part.body), text


def _matches_json(matches: Matches) -> dict[str, Any]:
    return {
        "messages": [
            {
                "topic": message.topic,
                "queue": message.queue,
                "offset": message.offset,
                "message_id": message.message_id,
                "unique_id": message.unique_id,
                "place": message.place,
                "size": message.size,
                "stored": _moment(message.stored),
                "stored_at": message.stored_host,
                "born": _moment(message.born),
                "born_at": message.born_host,
                "reconsumed": message.reconsumed,
                "tag": message.tag,
                "keys": list(message.keys),
                "properties": message.properties,
                "bodies": [{"size": size, "begins": text} for size, text in _bodies(message)],
            }
            for message in matches.messages
        ],
        "deleted": matches.deleted,
        "others": matches.others,
        "bad": [{"reason": bad.reason, "source": bad.source, "offset": bad.offset} for bad in matches.problems],
    }
