"""Real brokers agree with the engine, and disagree with a topology that is not theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.record import Record, build_batch
from bindings.counts.columnar.verifying import Verifier
from exchange import Message, Router, Topology
from exchange.entities.releases import find_profile
from exchange.values.field_json import encode_fields, encode_message
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.archives.reads import read
from tests.support.archives.traced import open_traced
from tests.support.differential import declare
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import wait_until

SURE = topologies.Kinds(types=("direct", "fanout", "topic", "topic", "x-modulus-hash"), policies=False)
"""Types of headers that a client keeps when it reads the firehose; there are more."""

PREFIX = "hashstar-"


@pytest.mark.smoke
@pytest.mark.parametrize("chance", [False, True])
def test_a_broker_that_was_traced_agrees_with_its_topology(
    rabbitmq_servers: list[Server], tmp_path: Path, chance: bool
) -> None:
    for number, server in enumerate(rabbitmq_servers):
        rng = Random(2026 + number)
        kinds = replace(SURE, types=(*SURE.types, "x-random", "x-random")) if chance else SURE
        topology = topologies.topology(rng, find_profile(server.version), kinds, PREFIX)
        messages = [topologies.message(rng, topology, PREFIX) for _ in range(200)]
        records = told(server, topology, messages, tmp_path / f"{number}.jsonl")
        verifier = Verifier(topology)
        verifier.add(build_batch(records))
        found = verifier.result()
        assert (found.differences, found.compared) == ({}, len(messages))
        # The default exchange names queues that are not there.
        assert chance or found.agreed + found.undecided == len(messages)
        assert found.undecided <= sum(not message.exchange for message in messages)
        if not chance:
            disagrees(rng, topology, records)


def disagrees(rng: Random, topology: Topology, records: list[Record]) -> None:
    """Return a topology without some of its bindings."""
    kept = [binding for binding in topology.bindings if rng.random() < 0.5]
    other = Topology(topology.exchanges.values(), topology.queues.values(), kept, profile=topology.profile)
    router = Router(other)
    wrong = [
        record
        for record in records
        if set(router.route(record.message).queues) != topology.queues.keys() & set(record.routed_queues or ())
    ]
    assert wrong
    verifier = Verifier(other)
    verifier.add(build_batch(records))
    found = verifier.result()
    assert found.different == len(wrong)
    for difference, evidence in found.differences.items():
        for witness in evidence.witnesses:
            said = set(router.route(witness.message).queues)
            did = topology.queues.keys() & set(witness.routed_queues or ())
            assert (tuple(sorted(said - did)), tuple(sorted(did - said))) == (difference.missing, difference.extra)


def told(server: Server, topology: Topology, messages: list[Message], path: Path) -> list[Record]:
    """Return what the firehose of a broker with this topology traces of these messages."""
    import pika

    with open_traced(server, unique_name("verify")) as connection, all_types_in_pika():
        channel = connection.channel()
        declare(channel, topology)
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.trace", "publish.#")
        for message in messages:
            properties = pika.BasicProperties(headers=dict(message.headers) or None, **message.properties)
            channel.basic_publish(message.exchange, message.routing_key, b"", properties)
        path.write_bytes(b"".join([_told(channel, queue) for _ in messages]))
    result = read(JsonLines(), path)
    assert not result.bad
    return list(result.records)


def _told(channel: Any, queue: str) -> bytes:
    def get() -> Any:
        found = channel.basic_get(queue, auto_ack=True)
        return found if found[0] is not None else None

    method, properties, body = wait_until(get, lambda: "the firehose tells of fewer messages than were published")
    message = Message(method.exchange, method.routing_key, properties.headers, {}, body)
    return encode_fields(encode_message(message))
