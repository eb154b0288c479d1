"""``hashstar archive inspect`` of the store of a RocketMQ broker: the whole store, or some of its messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Final

import click

from bindings.report.inspection_types import MatchesJson, StoreJson
from bindings.report.store import matches_json, matches_lines, store_json, store_lines
from exchange.commands.console import echo_line
from exchange.errors import InputError

__all__ = ["inspect_a_store"]

NOT_FOUND: Final = 1
"""Exit code if no message has the key or id."""


def inspect_a_store(path: str, key: str | None, topic: str | None, message_id: str | None, as_json: bool) -> None:
    """Print a store, or the messages that were asked for; end with `NOT_FOUND` if there are none. Raises InputError."""
    from bindings.archive.rocketmq.find import find_by_id, find_by_key
    from bindings.archive.rocketmq.inspection import inspect_store
    from bindings.archive.rocketmq.store import open_store

    if key is not None and message_id is not None:
        raise InputError("--key and --message-id: give one of them")
    store = open_store(path)
    topics = None if topic is None else (topic,)
    if key is None and message_id is None:
        inspection = inspect_store(store)
        if topic is not None:
            inspection.topics = tuple([each for each in inspection.topics if each.name == topic])
            inspection.groups = tuple([each for each in inspection.groups if each.topic == topic])
            if not inspection.topics:
                raise InputError(f"{path}: there are no queues of a topic {topic!r}")
        _print(store_json(store, inspection) if as_json else store_lines(store, inspection))
        return
    matches = find_by_key(store, key, topics) if key is not None else find_by_id(store, message_id or "", topics)
    if as_json:
        _print(matches_json(matches, path, key, topic, message_id))
    else:
        _print(matches_lines(matches))
    if not matches.messages:
        wanted = f"key {key!r}" if key is not None else f"id {message_id!r}"
        index = "" if store.index else ", and the store has no index"
        echo_line(f"hashstar: {path}: no message with the {wanted}{index}", err=True)
        sys.exit(NOT_FOUND)


def _print(output: StoreJson | MatchesJson | Iterator[str]) -> None:
    if isinstance(output, dict):
        click.echo(json.dumps(output, indent=2))
        return
    for line in output:
        echo_line(line)
