"""Record which topic patterns match which keys: ``python -m tests.recorders.rabbitmq_topics AMQP-URL ...``.

Writes tests/golden/rabbitmq-topics-RELEASE.json for each address. Each pattern is bound to a queue of its own, each key
is published once; the answer for a key is the list of the numbers of the patterns that match it.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Final

import pika

from exchange import Message
from tests.recorders import golden
from tests.support.differential import publish
from tests.support.servers import amqp_version

EXCHANGE: Final = "hashstar-topics"

PATTERNS: Final = (
    *(".".join(words) for length in range(1, 5) for words in product(("order", "eu", "*", "#"), repeat=length)
      if words.count("#") <= 2),
    "", "order..eu", ".order", "order.", "*.", ".*", "#.", ".#", "order-eu.#", "order+.eu", "(order", "[order]", "or*",
    "order#", "*eu", "ORDER.#", "commande.\N{LATIN SMALL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE}",
)  # fmt: skip
"""At most two # each: newer releases refuse more."""

KEYS: Final = (
    *(".".join(words) for length in range(1, 5) for words in product(("order", "eu", "paid"), repeat=length)),
    *(".".join(words) for words in product(("order", "eu"), repeat=5)),
    "", ".", "..", "order.", ".order", "order..eu", "order.eu.", ".eu", "order-eu", "order-eu.paid", "order+.eu",
    "(order", "[order]", "or*", "order#", "*eu", "ORDER", "order.eu\n", "order.e\nu", "\n", "*", "#", "order.#",
    "commande.\N{LATIN SMALL LETTER E WITH ACUTE}t\N{LATIN SMALL LETTER E WITH ACUTE}",
)  # fmt: skip


def answers(url: str) -> list[list[int]]:
    """Return for each key the numbers of the patterns that match it, as the broker at an address has it."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "topic")
    try:
        queues = [str(number) for number in range(len(PATTERNS))]
        for queue, pattern in zip(queues, PATTERNS, strict=True):
            channel.queue_declare(queue, exclusive=True)
            channel.queue_bind(queue, EXCHANGE, pattern)
        arrived, _ = publish(channel, queues, [Message(EXCHANGE, key) for key in KEYS])
    finally:
        channel.exchange_delete(EXCHANGE)
        connection.close()
    return [sorted(map(int, arrived.get(number, ()))) for number in range(len(KEYS))]


def record(url: str) -> None:
    """Ask one broker, and write its answers."""
    version = amqp_version(url)
    release = ".".join(version.split(".")[:2])
    golden.write(f"rabbitmq-topics-{release}", "RabbitMQ", version, {"answers": answers(url)})


if __name__ == "__main__":
    for address in sys.argv[1:]:
        record(address)
