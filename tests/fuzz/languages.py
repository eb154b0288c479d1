"""Targets: patterns, .bindings, selectors, partitionings, keys, field values in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.files import decode_text
from bindings.sources.formats import FORMATS
from bindings.sources.formats.format import SourceFile as OtherFile
from bindings.sources.formats.format import WriteTarget as OtherTarget
from bindings.sources.language.formatter import format_text
from exchange.entities.entities import PREDECLARED_NAMES
from exchange.errors import InputError, PatternError, TextError
from exchange.partition.hashing.keys import describe_key
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from exchange.partition.partitions import Partitions
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import DIALECTS, Pattern
from exchange.selector import Selector, Tags
from exchange.selector.meaning import SelectorFailure, evaluate
from exchange.selector.selector import RELEASES
from exchange.topology.topology import Topology
from exchange.values.field_json import (
    decode,
    decode_message,
    decode_message_line,
    encode,
    encode_fields,
    encode_message,
)
from exchange.values.field_values import resolve_type
from exchange.values.message import Message
from tests.fuzz.target import cut, is_same, text_of
from tests.support.algebra import covers, overlap
from tests.support.bindings.written_terraform import plan_of

MOST_PATTERNS: Final = 12


def patterns(dialect: str) -> Callable[[bytes], None]:
    """Return a target: lines that are patterns and keys in turn, matched by the matcher and by definition."""

    def run(data: bytes) -> None:
        matcher: Matcher[int] = Matcher(DIALECTS[dialect], cache=4)
        bound: dict[int, Pattern] = {}
        lines = text_of(data).split("\n")[: 2 * MOST_PATTERNS]
        for number, line in enumerate(lines[::2]):
            with suppress(PatternError):
                pattern = Pattern(line, dialect)
                assert Pattern(str(pattern), dialect) == pattern
                assert dialect != "amqp" or Pattern.of_binding_key(line) == pattern
                for other in DIALECTS:
                    with suppress(PatternError):
                        _same_meaning(pattern, pattern.to(other), lines[1::2])
                bound[number] = pattern
                matcher.bind(pattern, number)
        keys = [key for key in lines[1::2] if len(key) <= 255]
        _algebra(list(bound.values()), keys)
        for _ in range(2):
            for key in [*keys, *keys]:
                slow = {number for number, pattern in bound.items() if pattern.matches(key)}
                assert set(matcher.match(key)) == slow, (key, slow)
            for number in list(bound)[::2]:
                assert matcher.unbind(bound.pop(number), number)
            _algebra(list(bound.values()), keys)

    return run


def _same_meaning(pattern: Pattern, moved: Pattern, keys: list[str]) -> None:
    """Compare patterns of two dialects on keys that are keys of both: NATS has no empty tokens."""
    for key in keys:
        if pattern.dialect.separator == moved.dialect.separator and len(key) <= 255 and "" not in key.split("."):
            assert pattern.matches(key) == moved.matches(key), (pattern, moved, key)


def _algebra(bound: list[Pattern], keys: list[str]) -> None:
    for one, other in pairwise(bound):
        both = overlap(one, other, steps=2_000)
        if both.holds:
            assert both.witness is not None
            assert one.matches(both.witness)
            assert other.matches(both.witness)
        more = covers(one, other, steps=2_000)
        for key in keys:
            assert both.holds is not False or not (one.matches(key) and other.matches(key)), (one, other, key)
            assert not more.holds or one.matches(key) or not other.matches(key), (one, other, key)


def bindings_language(data: bytes) -> None:
    """Read a .bindings text; the text that is written from it, and its formatted text, mean the same."""
    text = data.decode("utf-8", "replace")
    document = Document.loads(text)
    _ = document.warnings
    assert Document.loads(document.dump()) == document
    tidy = format_text(text)
    assert format_text(tidy) == tidy
    assert Document.loads(tidy) == document


def definitions(data: bytes) -> None:
    """Read definitions; what is dumped reads the same, as JSON and in the language."""
    found = Definitions.loads(data)
    _ = found.warnings
    assert Definitions.loads(found.dump(), vhost=found.default_vhost) == found
    for vhost in found.vhosts:
        found.topology(vhost)
        found.expectations(vhost)
    document = Document.of_definitions(found)
    again = Document.loads(document.dump())
    for vhost in document.vhosts:
        assert again.topology(vhost) == document.topology(vhost)


def other_format(name: str) -> Callable[[bytes], None]:
    """Return a target: read a file of another system; what is written of it without a warning reads the same."""
    known, target = FORMATS[name], OTHER_TARGETS[name]

    def run(data: bytes) -> None:
        imported = known.read([OtherFile(target.name, decode_text(data, "some"))], "some")
        definitions = imported.definitions
        topologies = [definitions.topology(vhost) for vhost in definitions.vhosts]
        written = known.write(definitions, target)
        parts = any(len(each.exchanges) > len(PREDECLARED_NAMES) or each.queues or each.policies for each in topologies)
        if parts and not written.warnings:
            made = "".join(written.chunks)
            again = known.read(
                [OtherFile(target.name, plan_of(made) if name == "terraform" else made)], "some"
            ).definitions
            for topology in topologies:
                if topology.vhost in again.vhosts:
                    assert again.topology(topology.vhost) == topology
                else:
                    assert topology == Topology(vhost=topology.vhost)

    return run


OTHER_TARGETS: Final = {
    "operator": OtherTarget("some.yaml", "rabbit"),
    "terraform": OtherTarget("some.json"),
    "asyncapi": OtherTarget("some.yaml"),
}


def message_line(data: bytes) -> None:
    """Read a line of JSON as a message; written and read again it is the same."""
    message = decode_message_line(data)
    again = decode_message_line(encode_fields(encode_message(message)))
    for name in ("exchange", "routing_key", "body"):
        assert getattr(again, name) == getattr(message, name)
    for name in ("headers", "properties"):
        assert is_same(resolve_type(getattr(again, name)), resolve_type(getattr(message, name)))
    message.routing_keys()


def typed_value(data: bytes) -> None:
    """Decode a JSON value as a field value; encoded and decoded again it is the same."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    found = decode(value)
    assert is_same(resolve_type(decode(encode(found))), resolve_type(found))


def selector(data: bytes) -> None:
    """Evaluate an SQL92 filter on properties; compiled and by definition it has one answer."""
    source, given = cut(data, 2)
    text = text_of(source)
    properties = dict(line.partition("=")[::2] for line in text_of(given).split("\n"))
    with suppress(TextError):
        Tags.parse(text)(properties)
    for release in RELEASES:
        with suppress(TextError):
            found = Selector.parse(text, release, exact=True)
            _ = found.remarks
            exact = _answer(partial(found.evaluate, properties))
            slow = _answer(partial(_by_definition, found, properties))
            assert exact == slow
            assert found(properties) == (exact is True)


def _by_definition(found: Selector, properties: Mapping[str, str]) -> Any:
    return evaluate(found.expression, properties).value


def _answer(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except SelectorFailure:
        return "failure"


def partitioning(data: bytes) -> None:
    """Read a partitioning; its text reads the same, and any key has a partition or a reason."""
    source, body = cut(data, 2)
    found = Partitioning.parse(text_of(source))
    again = Partitioning.parse(str(found))
    assert (again.partitions, again.key, str(again)) == (found.partitions, found.key, str(found))
    message = Message("", text_of(body[:255]), {"h": text_of(body)}, {}, body)
    choice = found.choose(message)
    assert choice.partition is not None or choice.rule


SEVEN: Final = Partitions.from_count(7)
QUEUES: Final = Partitions.queues({"broker-a": 3, "broker-b": 4})


def body_keys(data: bytes) -> None:
    """Take a key from a JSON body by a pointer; each strategy gives a partition or a reason."""
    pointer, body = cut(data, 2)
    key = KeySource("body", text_of(pointer)).read(Message("", "k", {}, {}, body))
    describe_key(key)
    for name, strategy in STRATEGIES.items():
        partitions = QUEUES if strategy.lists_queues else SEVEN
        with suppress(InputError):
            choice = Partitioning(name, partitions, KeySource("body", text_of(pointer))).choose_for(key)
            assert choice.partition is not None or choice.rule


def message_from_value(data: bytes) -> None:
    """Make a message of any JSON value."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    decode_message(value)
