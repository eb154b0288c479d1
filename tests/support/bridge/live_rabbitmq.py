"""A live RabbitMQ, with what a test declares there."""

from __future__ import annotations

import subprocess
from typing import Any
from urllib.parse import urlsplit

import pika

from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqSource, RabbitmqTarget
from tests.support.differential import manage
from tests.support.servers import Server, missing
from tests.support.unique import unique_name
from tests.support.waiting import wait_until


class Broker:
    """A live broker, with the queues and exchanges that a test declares."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.host, self.port = urlsplit(server.url).hostname or "", urlsplit(server.url).port or 5672
        self.address = parse_broker(server.url)
        self.connection = pika.BlockingConnection(pika.URLParameters(f"{server.url}?heartbeat=0"))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self._putting = self.connection.channel()
        self._putting.tx_select()
        self._queues: list[str] = []
        self._exchanges: list[str] = []

    def queue(self, **arguments: Any) -> str:
        name = unique_name("rabbitmq")
        self._queues.append(name)
        self.channel.queue_declare(name, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        return name

    def exchange(self, kind: str) -> str:
        name = unique_name("rabbitmq")
        self._exchanges.append(name)
        self.channel.exchange_declare(name, kind)
        return name

    def put(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Publish messages, and wait until the queue has them: in a transaction, as each confirm would be waited for.

        A stream has them in one chunk.
        """
        for body in bodies:
            self._putting.basic_publish("", queue, body, pika.BasicProperties(**properties))
        self._putting.tx_commit()

    def get(self, queue: str) -> tuple[Any, pika.BasicProperties, bytes]:
        """Get one message of a queue."""
        wait_until(lambda: self.ready(queue) > 0)
        method, properties, body = self.channel.basic_get(queue, auto_ack=True)
        assert method is not None
        assert properties is not None
        assert body is not None
        return method, properties, body

    def bodies(self, queue: str) -> list[bytes]:
        """Get the bodies of all messages of a queue."""
        found = []
        while (got := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2] or b"")
        return found

    def ready(self, queue: str) -> int:
        """Return the number of messages that wait in a queue."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def consumers(self, queue: str) -> int:
        """Return the number of consumers of a queue."""
        return int(self.channel.queue_declare(queue, passive=True).method.consumer_count)

    def source(self, queue: str, **options: Any) -> RabbitmqSource:
        return RabbitmqSource("from", [self.address], queue, **options)

    def target(self, exchange: str, routing_key: str | None = None, patience: float = 0.5) -> RabbitmqTarget:
        return RabbitmqTarget(
            "to", [self.address], {"queue": PublishAddress(exchange, routing_key)}, unrouted_after=patience
        )

    def manage(self, method: str, path: str, body: object = None) -> None:
        """Call the management API: each rabbitmqctl starts an Erlang of its own, which takes a second."""
        if self.server.management_url is None:
            missing(f"the RabbitMQ of {self.server.origin} has no management API")
        manage(self.server, method, path, body)

    def set_user(self, name: str, tags: str = "") -> None:
        """Add a user with the password `pw`, or give it other tags."""
        self.manage("PUT", f"users/{name}", {"password": "pw", "tags": tags})

    def permit(self, user: str, configure: str, write: str, read: str) -> None:
        """Set what a user may do, by patterns."""
        self.manage("PUT", f"permissions/%2F/{user}", {"configure": configure, "write": write, "read": read})

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl in the broker's container, and return its output."""
        found = subprocess.run(
            ["docker", "ps", "-q", "--filter", f"publish={self.port}"], capture_output=True, text=True, check=False
        ).stdout.split()
        if len(found) != 1:
            missing("the broker is in no container of this machine, where rabbitmqctl could be run")
        run = subprocess.run(
            ["docker", "exec", found[0], "rabbitmqctl", *arguments], capture_output=True, text=True, check=True
        )
        return run.stdout

    def close(self) -> None:
        channel = self.connection.channel()
        for queue in self._queues:
            channel.queue_delete(queue)
        for exchange in self._exchanges:
            channel.exchange_delete(exchange)
        self.connection.close()
