"""The accumulator and the sender of Kafka's Java producer: 0 differences to recorded runs, and to new ones where there is a Java."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter as Tally
from collections.abc import Iterable
from random import Random
from typing import Any, Final

import pytest

from exchange.partition import Broker, Inputs, Partition, Partitions
from exchange.partition.clients.kafka_accumulator import NO_QUEUES, Accumulator
from exchange.partition.clients.kafka_batches import BatchedRecord
from exchange.partition.clients.kafka_producer import MAX_UNDER_WAY, BatchingMemory, BatchingProducer
from exchange.partition.partitioner import PartitionRequest
from tests.exchange.partition.clients.test_kafka import Draws
from tests.recorders import golden
from tests.recorders.jvm import PROGRAMS, find_classpath
from tests.recorders.kafka_batching import VERSIONS, ask_batching, generate_runs, generate_sender_runs
from tests.support.servers import missing
from tests.support.tiers import scale

NEW_RECORDS: Final = int(os.environ.get("HASHSTAR_BATCHING_RECORDS", "0")) or scale(1500)
"""Records in runs that are played anew, for each version of the client."""


def cluster_of(text: str) -> dict[str, Partitions]:
    """Parse ``topic/partition:node@rack`` of each partition, - for no leader."""
    found: dict[str, list[Partition]] = {}
    for item in text.split(","):
        name, _, leader = item.partition(":")
        topic, _, id_ = name.partition("/")
        node, _, rack = leader.partition("@")
        broker = None if node == "-" else Broker(node, "host", rack or None)
        found.setdefault(topic, []).append(Partition(int(id_), broker))
    return {topic: Partitions(partitions) for topic, partitions in found.items()}


def record_of(key: str, value: str, headers: str, timestamp: str) -> BatchedRecord:
    """Build the record that `Batching.java` builds of the same words."""
    sizes = [None if int(size) < 0 else int(size) for size in (key, value)]
    # The name of a header is "hé", repeated: 3 bytes.
    named = tuple([(3 * (at + 1), None if at % 2 else at * 40) for at in range(int(headers))])
    return BatchedRecord(sizes[0], sizes[1], int(timestamp), named)


def replay(steps: Iterable[tuple[str, Any]]) -> Tally[str]:
    """Play runs with the recorded draws, and compare each answer; return how often each thing happened."""
    accumulator, queues, cluster, now = Accumulator(), NO_QUEUES, dict[str, Partitions](), 0
    muted: set[tuple[str, int]] = set()
    flushing = False
    done: Tally[str] = Tally()
    for at, (command, answer) in enumerate(steps):
        action, *words = command.split(" ")
        done[action] += 1
        if action == "new":
            size, linger, adaptive, timeout, *rack = words
            accumulator = Accumulator(int(size), int(linger), adaptive == "true", int(timeout), *rack)
            queues, muted, flushing = NO_QUEUES, set(), False
        elif action == "cluster":
            cluster = cluster_of(words[0])
        elif action == "clock":
            now = int(words[0])
        elif action == "append":
            topic, wanted, *sizes = words
            partition, draws, *grown = answer
            inputs = Inputs(Draws(draws), now)
            target = topic, None if wanted == "-1" else int(wanted)
            stored, queues = accumulator.append(queues, target, record_of(*sizes), cluster[topic], inputs)
            assert list(stored) == [partition, *grown], (at, command)
            assert not inputs.draw.numbers, (at, command)  # type: ignore[attr-defined]
            done["drawn"] += bool(draws)
            done["drawn by weight"] += bool(draws) and queues.topics[topic].sticky.weights is not None
        elif action == "ready":
            ready, queues = accumulator.find_ready(queues, cluster, now, muted, flushing)
            delay = -1 if ready.next_check is None else ready.next_check - now
            assert [sorted(map(int, ready.brokers)), delay] == answer, (at, command)
            done["ready brokers"] += len(ready.brokers)
        elif action == "drain":
            before = queues
            drained, queues = accumulator.drain(before, cluster, words[0], int(words[1]), muted)
            assert [[topic, id_, batch.size, batch.records] for topic, id_, batch in drained] == answer, (at, command)
            done["drained"] += len(drained)
            if len(answer) > 1:  # `size + first.estimatedSizeInBytes() > maxSize`: what just fits is taken, too
                size = sum([size for _, _, size, _ in answer])
                for limit, fits in ((size, len(answer)), (size - 1, len(answer) - 1)):
                    assert accumulator.drain(before, cluster, words[0], limit, muted)[0] == drained[:fits], (at, limit)
                done["just fits"] += 1
        elif action == "latency":
            queues = accumulator.note_latency(queues, words[0], now, words[1] == "true")
            # `partitionAvailabilityTimeoutMs <= 0`: without a timeout nothing is noted
            assert bool(queues.latencies) == (accumulator.availability_timeout_ms > 0), (at, command)
            done["without a timeout"] += accumulator.availability_timeout_ms == 0
        elif action in ("mute", "unmute"):
            topic, _, id_ = words[0].partition("/")
            muted ^= {(topic, int(id_))}
        else:
            assert action == "flush"
            flushing = True
    return done


def replay_with_sender(steps: Iterable[tuple[str, Any]]) -> Tally[str]:
    """Do the same with runs in which the producer's sender takes the batches, by its own clock."""
    accumulator, cluster, now = Accumulator(), dict[str, Partitions](), 0
    producer, state = BatchingProducer(accumulator), BatchingMemory()
    done: Tally[str] = Tally()
    for at, (command, answer) in enumerate(steps):
        action, *words = command.split(" ")
        done[action] += 1
        if action == "new":
            size, linger, adaptive, timeout, *rack = words
            accumulator = Accumulator(int(size), int(linger), adaptive == "true", int(timeout), *rack)
        elif action == "cluster":
            cluster = cluster_of(words[0])
        elif action == "clock":
            now = int(words[0])
        elif action == "sender":
            times = tuple([(node, int(time)) for node, time in (item.split(":") for item in words[0].split(","))])
            producer = BatchingProducer(accumulator, round_trips=times)
            state = producer.memory(Inputs(Draws([]), now))
        else:
            assert action == "append"
            topic, _, *sizes = words
            partition, draws, *_, requests = answer
            inputs = Inputs(Draws(draws), now)
            key, value = (None if int(size) < 0 else bytes(int(size)) for size in sizes[:2])
            chosen, state = producer.answer(PartitionRequest(topic, key, value, cluster[topic], inputs, state))
            under_way = [len(state.under_way.get(node, ())) for node, _ in sorted(producer.round_trips)]
            assert [chosen.partition, under_way] == [partition, requests], (at, command)
            assert not inputs.draw.numbers, (at, command)  # type: ignore[attr-defined]
            done["full brokers"] += MAX_UNDER_WAY in requests
            done["drawn by weight"] += bool(draws) and state.queues.topics[topic].sticky.weights is not None
    return done


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_runs_of_the_java_accumulator_are_replayed(version: str) -> None:
    done = replay(golden.read(f"kafka-batching-{version}")["accumulator"])
    assert min(done["append"], done["drawn"], done["ready brokers"], done["drained"]) > 100, done
    assert min(done["just fits"], done["without a timeout"]) > 10, done


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_runs_of_the_java_sender_are_replayed(version: str) -> None:
    done = replay_with_sender(golden.read(f"kafka-batching-{version}")["sender"])
    assert min(done["append"], done["full brokers"]) > 100, done
    assert done["drawn by weight"] > 10, done


@pytest.mark.live
@pytest.mark.parametrize("version", VERSIONS)
def test_new_runs_of_the_java_accumulator_are_replayed(version: str) -> None:
    """Other runs each day would be found by nobody: the seed is fixed, ``HASHSTAR_BATCHING_RECORDS`` makes them more."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"there is no {program} to run Kafka's own producer with")
    try:
        jars = find_classpath(f"org.apache.kafka:kafka-clients:{version}")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
        missing(f"Maven cannot fetch kafka-clients {version} ({reason})")
    for generate, compare in ((generate_runs, replay), (generate_sender_runs, replay_with_sender)):
        commands = list(generate(Random(f"new {version}"), NEW_RECORDS, version >= "4.4"))
        done = compare(zip(commands, ask_batching(jars, commands), strict=True))
        assert done["append"] >= NEW_RECORDS
