"""Record the lives of `tests.support.lives.scenarios`: ``python -m tests.recorders.rabbitmq_lives AMQP-URL ...``.

Writes tests/golden/rabbitmq-lives-RELEASE.json for each address: what each step returned, with the headers of deaths.
"""

from __future__ import annotations

import sys
from typing import Any

import pika
from pika.exceptions import NackError

from exchange import Message
from tests.recorders import golden
from tests.support.lives.scenarios import PAUSE_SECONDS, SCENARIOS, Scenario, Taken, play
from tests.support.servers import amqp_version


class LiveDriver:
    """A live broker."""

    def __init__(self, connection: pika.BlockingConnection, scenario: Scenario) -> None:
        self._connection = connection
        self._channel = connection.channel()
        self._channel.confirm_delivery()
        for queue in scenario.topology.queues.values():
            self._channel.queue_delete(queue.name)
            self._channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))

    def publish(self, message: Message) -> bool:
        """Publish with confirms."""
        properties = pika.BasicProperties(headers=dict(message.headers), **message.properties)
        try:
            self._channel.basic_publish(message.exchange, message.routing_key, message.body, properties)
        except NackError:
            return False
        return True

    def get(self, queue: str) -> Taken | None:
        """Take a message by basic.get."""
        method, properties, body = self._channel.basic_get(queue)
        if method is None:
            return None
        given: dict[str, Any] = {"expiration": properties.expiration, "priority": properties.priority}
        kept = {name: value for name, value in given.items() if value is not None}
        message = Message(method.exchange, method.routing_key, properties.headers or {}, kept, body)
        return Taken(message, method.redelivered, method.delivery_tag)

    def settle(self, taken: Taken, method: str, requeue: bool) -> None:
        """Settle by the method of this name."""
        if method == "ack":
            self._channel.basic_ack(taken.handle)
        elif method == "nack":
            self._channel.basic_nack(taken.handle, requeue=requeue)
        else:
            self._channel.basic_reject(taken.handle, requeue=requeue)

    def pause(self) -> None:
        """Wait."""
        self._connection.sleep(PAUSE_SECONDS)

    def close(self, scenario: Scenario) -> None:
        """Delete the queues."""
        for queue in scenario.topology.queues:
            self._channel.queue_delete(queue)
        self._channel.close()


def record(url: str) -> None:
    """Live all scenarios on one broker, and write what it did."""
    version, connection = amqp_version(url), pika.BlockingConnection(pika.URLParameters(url))
    answers: dict[str, Any] = {}
    for name, scenario in SCENARIOS.items():
        if not scenario.is_for(version):
            continue
        driver = LiveDriver(connection, scenario)
        answers[name] = play(scenario, driver)
        driver.close(scenario)
    connection.close()
    release = ".".join(version.split(".")[:2])
    golden.write(f"rabbitmq-lives-{release}", "RabbitMQ", version, answers)


if __name__ == "__main__":
    for address in sys.argv[1:]:
        record(address)
