"""Math.abs(key.hashCode()) % n and random over all partitions: as Java answered, and what Java cannot do."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from exchange import Message
from exchange.commands.partition import partition_command
from exchange.errors import InputError
from exchange.partition import Broker, Partition, Partitions, Producer
from exchange.partition.clients.kafka_classic import TYPES, HashCode, RandomOfAll
from exchange.partition.partitioning import Partitioning
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.recorders.kafka_hash_codes import CASES, NAME
from tests.support.cases import with_each

ANSWERS = golden.read(NAME)


def key_of(kind: str, text: str) -> Any:
    return bytes.fromhex(text) if kind in ("bytes", "byte_buffer") else text


def test_every_type_was_asked() -> None:
    assert {kind for kind, _, _ in CASES} == {*TYPES}
    assert len(CASES) == len(ANSWERS["hashes"]) == len(ANSWERS["partitions"])
    assert min(ANSWERS["partitions"]) < 0  # of a hash whose Math.abs is negative


@pytest.mark.parametrize("kind", TYPES)
def test_keys_of_each_type_go_where_java_sent_them(kind: str) -> None:
    """By the hash of the type; where Java's partition is negative, the producer throws."""
    for (asked, text, count), value, partition in zip(CASES, ANSWERS["hashes"], ANSWERS["partitions"], strict=True):
        if asked != kind:
            continue
        chooser = HashCode(kind)
        if partition < 0:
            with pytest.raises(InputError, match="IllegalArgumentException"):
                chooser.choose(key_of(kind, text), Partitions.from_count(count))
            continue
        choice = chooser.choose(key_of(kind, text), Partitions.from_count(count))
        assert (choice.hash, choice.partition) == (value, partition), (text, count)


def test_without_a_type_the_keys_own_counts() -> None:
    """As everywhere: text is a String, an int a Long."""
    chooser, partitions = HashCode(), Partitions.from_count(1000)
    assert chooser.choose("42", partitions).hash == 1662
    assert chooser.choose(42, partitions).hash == HashCode("long").choose("42", partitions).hash == 42
    assert chooser.choose(Typed("signedint", -7), partitions) == (7, -7, "Math.abs(hash) % 1000")
    assert HashCode("integer").choose(Typed("longstr", "42"), partitions).hash == 42
    assert HashCode("double").choose(42, partitions).hash == chooser.choose(42.0, partitions).hash


@with_each(
    ("kind", "key", "reason"),
    [
        ("", None, "NullPointerException"),
        ("uuid", None, "NullPointerException"),
        ("", b"a", "no hashCode of its content"),
        ("integer", "4.2", "NumberFormatException"),
        ("integer", "2147483648", "NumberFormatException"),
        ("integer", "9" * 5000, "NumberFormatException"),
        ("integer", 4.5, "no text that Java could read"),
        ("byte", 128, "does not fit 8 bits"),
        ("double", "one", "NumberFormatException"),
        ("double", "1" * 5000, ""),
        ("character", "ab", "no single char"),
        ("character", "\U0001f600", "no single char"),
        ("uuid", "no-uuid", "IllegalArgumentException"),
        ("string", 5, "no text"),
        ("boolean", 5, "no text"),
        ("bytes", 1 << 70, "does not fit"),
        ("integer", Typed("longstr", b"\xff"), "not UTF-8"),
    ],
)
def test_what_java_cannot_hash_is_an_error(kind: str, key: Any, reason: str) -> None:
    """Never another exception, as publishers choose the keys."""
    try:
        choice = HashCode(kind).choose(key, Partitions.from_count(3))
    except InputError as error:
        assert reason in str(error)  # noqa: PT017
    else:
        assert not reason, choice


def test_random_of_all_takes_partitions_without_a_leader_too() -> None:
    """kafka.random takes those with a leader only."""
    partitions = Partitions([Partition(0, Broker("1")), Partition(1, None), Partition(2, None)])
    producer = Producer(RandomOfAll(), Random(1).randrange)
    drawn = Counter(producer.choose("t", "key", partitions).partition for _ in range(3000))
    assert drawn.keys() == {0, 1, 2}
    assert min(drawn.values()) > 900
    assert RandomOfAll().choose("key", partitions).partition is None


def test_both_have_names() -> None:
    """On the command line and in configuration."""
    lines = '{"key": "42"}\n{"key": "polygenelubricants"}\n'
    done = CliRunner().invoke(partition_command, ["-p", "kafka.hash_code", "-n", "16"], input=lines)
    assert [json.loads(line)["partition"] for line in done.stdout.splitlines()] == [14, 0]
    typed = CliRunner().invoke(partition_command, ["-p", "kafka.hash_code(type=integer)", "-n", "16"], input=lines)
    assert typed.exit_code == 2
    assert json.loads(typed.stdout)["partition"] == 10
    wrong = CliRunner().invoke(partition_command, ["-p", "kafka.hash_code(type=int)", "-n", "16"], input=lines)
    assert "a type is one of string, integer, long" in wrong.output
    seeded = CliRunner().invoke(partition_command, ["-p", "kafka.random_all", "-n", "4", "--seed", "3"], input=lines)
    assert seeded.exit_code == 0
    assert Partitioning.parse("kafka.hash_code(type=uuid) over 12").choose(Message("", "k")).partition is None
