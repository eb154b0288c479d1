"""Trials of facts about exchanges and bindings."""

from __future__ import annotations

from typing import Any

import pika
import pika.exceptions

from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.values.field_values import Typed
from tests.support.amqp_wire import all_types_in_pika
from tests.support.trials.lab import Lab, publish, take


def matches(lab: Lab, wanted: Any, sent: Any) -> bool:
    """Return whether a headers exchange routes a message with one header to a binding with one."""
    with all_types_in_pika():
        channel = lab.channel()
        queue, exchange = lab.queue(channel), lab.exchange(channel, "headers")
        channel.queue_bind(queue, exchange, "", {"h": wanted})
        try:
            channel.basic_publish(exchange, "", b"", pika.BasicProperties(headers={"h": sent}), mandatory=True)
        except pika.exceptions.UnroutableError:
            return False
        return True


def numbers_have_kinds(lab: Lab) -> bool:
    """HSU011."""
    found = {matches(lab, 1, 1.0), matches(lab, 1.0, 1)}
    assert len(found) == 1
    return not found.pop()


def timestamps_are_milliseconds(lab: Lab) -> bool:
    """HSU012."""
    return not matches(lab, Typed("timestamp", 5000), Typed("timestamp", 5000))


def deaths_are_not_seen(lab: Lab) -> bool:
    """HSU051: that of the first death is."""
    channel = lab.channel()
    exchange = lab.exchange(channel, "headers")
    by_death, by_first = lab.queue(channel), lab.queue(channel)
    channel.queue_bind(by_death, exchange, "", {"x-match": "any-with-x", "x-death": None})
    channel.queue_bind(by_first, exchange, "", {"x-match": "any-with-x", "x-first-death-reason": "expired"})
    publish(channel, lab.queue(channel, message_ttl=1, dead_letter_exchange=exchange), "m")
    take(channel, by_first)
    return channel.basic_get(by_death)[0] is None


def zeros_have_signs(lab: Lab) -> bool:
    """HSU047."""
    return not matches(lab, 0.0, -0.0)


def hashes_values_without_types(lab: Lab) -> bool:
    """HSU045: the queues that a message with each of some values gets to are those of the newest release."""
    channel = lab.channel()
    exchange = lab.exchange(channel, "x-consistent-hash", hash_header="h")
    queues = [lab.queue(channel) for _ in range(4)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "1")
    topology = Topology(
        [Exchange(exchange, "x-consistent-hash", arguments={"hash-header": "h"})],
        [Queue(queue) for queue in queues],
        [Binding.to_queue(exchange, queue, "1") for queue in queues],
    )
    values = [f"value {number}" for number in range(20)]
    expected = {}
    for profile in ("3.10", "4.3"):
        router = Router(topology.with_profile(f"rabbitmq-{profile}"))
        expected[profile] = [router.route(Message(exchange, "", {"h": value})).queues[0] for value in values]
    for value in values:
        channel.basic_publish(exchange, "", value.encode(), pika.BasicProperties(headers={"h": value}))
    where = {}
    for queue in queues:
        while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
            where[message[2].decode()] = queue
    actual = [where[value] for value in values]
    assert actual in expected.values()
    assert expected["3.10"] != expected["4.3"]
    return actual == expected["4.3"]


def counts_the_first_weight(lab: Lab) -> bool:
    """HSU061: of 80 messages, the destination with weights 1 and 9 gets about half, and not 10 of 11."""
    channel = lab.channel()
    exchange, first, other = lab.exchange(channel, "x-consistent-hash"), lab.queue(channel), lab.queue(channel)
    for queue, weight in ((first, "1"), (first, "9"), (other, "1")):
        channel.queue_bind(queue, exchange, weight)
    for number in range(80):
        channel.basic_publish(exchange, str(number), b"")
    return bool(channel.queue_declare(first, passive=True).method.message_count < 60)


def fails_on_empty_arrays(lab: Lab) -> bool:
    """HSU046."""
    return fails_on_headers(lab, {"h": []})


def fails_without_the_header(lab: Lab) -> bool:
    """HSU060."""
    return fails_on_headers(lab, {})


def fails_on_headers(lab: Lab, headers: dict[str, Any]) -> bool:
    """Return whether a message with these headers ends the channel, at an exchange that hashes the header h."""
    channel = lab.channel()
    exchange = lab.exchange(channel, "x-consistent-hash", hash_header="h")
    for _ in range(2):
        channel.queue_bind(lab.queue(channel), exchange, "1")
    try:
        channel.basic_publish(exchange, "", b"", pika.BasicProperties(headers=headers))
    except pika.exceptions.AMQPError:
        return True
    return False
