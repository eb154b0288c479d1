"""``python -m tests.dist.compose``: start examples/compose, and send orders through it.

The image of the bridge is the one that `tests.dist.container` builds; the others are the first ones that
``HASHSTAR_RABBITMQ_IMAGE`` and ``HASHSTAR_KAFKA_IMAGE`` name. ``HASHSTAR_COMPOSE`` is the command of Docker Compose, of
version 2 (default: ``docker compose``).
"""

from __future__ import annotations

import json
import os
import shlex
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import click
import pika

from bindings import load
from exchange import Message, Router
from tests.dist.__main__ import ROOT, output, step
from tests.dist.container import IMAGE
from tests.support.kafka.topics import topics_at
from tests.support.servers import SERVERS
from tests.support.unique import free_port, unique_name

FOLDER: Final = ROOT / "examples/compose"
ORDERS: Final = 3_000
KEYS: Final = ("order.eu.created", "order.us.paid", "order.us.shipped", "invoice.printed")
TOPICS: Final = {"billing": "shop-billing", "audit": "shop-audit", "lost-and-found": "shop-lost-and-found"}

Arrival = tuple[str, int | None, bytes]
"""Topic, partition where the key decides it, body."""


@click.command()
def main() -> None:
    """Start the example, and send orders through it."""
    ports = {name: free_port() for name in ("RABBITMQ_PORT", "RABBITMQ_MANAGEMENT_PORT", "KAFKA_PORT", "BRIDGE_PORT")}
    images = {f"{name.upper()}_IMAGE": SERVERS[name].images()[0] for name in ("rabbitmq", "kafka")}
    os.environ.update({name: str(port) for name, port in ports.items()}, **images, BRIDGE_IMAGE=IMAGE)
    # Without it, those of two checkouts would have the name of the folder in common.
    os.environ["COMPOSE_PROJECT_NAME"] = unique_name("compose")
    with compose():
        with step(f"send {ORDERS:,} orders through it"):
            messages = [
                Message("orders", KEYS[n % len(KEYS)], headers={"tenant": f"t{n % 97}"}, body=b"%d" % n)
                for n in range(ORDERS)
            ]
            publish(messages, ports["RABBITMQ_PORT"])
            wanted = Counter(arrival for message in messages for arrival in predict(message))
            counts = Counter([topic for topic, _, _ in wanted.elements()])
            arrived = Counter(read_topics(ports["KAFKA_PORT"], counts))
            if arrived != wanted:
                raise click.ClickException(
                    f"other orders arrived than predicted: {arrived - wanted}, {wanted - arrived}"
                )
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['BRIDGE_PORT']}/status", timeout=5) as answer:
            json.load(answer)
        with step("stop the bridge"):
            run("stop", "bridge")
            (state,) = json.loads("[" + ",".join(run("ps", "--all", "--format", "json", "bridge").splitlines()) + "]")
            if state["ExitCode"] != 0:
                raise click.ClickException(f"the bridge ended with {state['ExitCode']}:\n{run('logs', 'bridge')}")


@contextmanager
def compose() -> Iterator[None]:
    """Start all services, and remove them in the end."""
    try:
        with step("start RabbitMQ, Kafka and the bridge"):
            run("up", "--detach", "--wait", "--wait-timeout", "180")
        yield
    except Exception:
        click.echo(run("logs"), err=True)
        raise
    finally:
        run("down", "--volumes", "--timeout", "10")


def run(*arguments: str) -> str:
    """Run Docker Compose in the folder of the example, and return what it prints."""
    command = shlex.split(os.environ.get("HASHSTAR_COMPOSE", "docker compose"))
    return output([*command, "--progress", "quiet", *arguments], cwd=FOLDER)


def publish(messages: list[Message], port: int) -> None:
    """Publish the messages, and wait until RabbitMQ has them."""
    with closing(pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port}/%2F"))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for message in messages:
            properties = pika.BasicProperties(delivery_mode=2, headers=dict(message.headers))
            channel.basic_publish(message.exchange, message.routing_key, message.body, properties)


ROUTER: Final = Router(load(FOLDER / "etc/shop.bindings"))


def predict(message: Message) -> Iterator[Arrival]:
    """Yield where the message will be."""
    route = ROUTER.route(message)
    partitions = {placement.queue: placement.partition for placement in route.placements}
    for queue in route.queues:
        yield TOPICS[queue], partitions.get(queue), message.body


def read_topics(port: int, counts: Mapping[str, int]) -> Iterator[Arrival]:
    """Yield all records of all topics when they have these numbers, or the time is over."""
    with topics_at(f"127.0.0.1:{port}") as topics:
        for name in TOPICS.values():
            for record in topics.read(name, counts.get(name, 0)):
                yield name, record.partition() if name == TOPICS["audit"] else None, record.value()


if __name__ == "__main__":
    main()
