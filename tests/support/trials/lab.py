"""A virtual host of a live broker in which trials declare, publish and consume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.differential import manage
from tests.support.servers import Server
from tests.support.unique import unique_name

NUMBERS = count()


@dataclass
class Lab:
    """A virtual host of a broker, and a channel to it; names are never used twice."""

    server: Server
    vhost: str
    connections: list[pika.BlockingConnection] = field(default_factory=list)

    def connect(self, **parameters: Any) -> pika.BlockingConnection:
        """Open a connection, which ends with the trial."""
        found = pika.URLParameters(f"{self.server.url.rpartition('/')[0]}/{quote(self.vhost, safe='')}")
        for name, value in parameters.items():
            setattr(found, name, value)
        connection = pika.BlockingConnection(found)
        self.connections.append(connection)
        return connection

    def channel(self) -> BlockingChannel:
        """Open a channel of a connection of its own, with confirms: a broker may close either on an error."""
        channel = self.connect().channel()
        channel.confirm_delivery()
        return channel

    def name(self) -> str:
        """Return a name for a queue or exchange."""
        return f"trial-{next(NUMBERS)}"

    def queue(self, channel: BlockingChannel, **arguments: Any) -> str:
        """Declare a durable queue; ``max_length=5`` is the argument x-max-length. Return its name."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        name = self.name()
        channel.queue_declare(name, durable=True, arguments=named)
        return name

    def exchange(self, channel: BlockingChannel, kind: str, **arguments: Any) -> str:
        """Declare a durable exchange and return its name."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        name = self.name()
        channel.exchange_declare(name, kind, durable=True, arguments=named)
        return name

    def manage(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; ``{vhost}`` in the path stands for the virtual host."""
        return manage(self.server, method, path.replace("{vhost}", quote(self.vhost, safe="")), body)

    def status(self, path: str) -> int:
        """Return the HTTP status with which the management API answers a GET of an address below ``/api/``."""
        try:
            self.manage("GET", path)
        except HTTPError as error:
            return error.code
        except ValueError:
            return 200  # an answer that is no JSON
        return 200

    def close(self) -> None:
        """Close the connections of a trial."""
        for connection in self.connections:
            if connection.is_open:
                connection.close()
        self.connections.clear()


@contextmanager
def lab_of(server: Server, **settings: str) -> Iterator[Lab]:
    """Yield a laboratory in a virtual host of its own, with these settings, which is deleted afterwards."""
    lab = Lab(server, unique_name("lab"))
    manage(server, "PUT", f"vhosts/{lab.vhost}", settings)
    user = urlsplit(server.url).username or "guest"
    manage(server, "PUT", f"permissions/{lab.vhost}/{user}", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        yield lab
    finally:
        lab.close()
        manage(server, "DELETE", f"vhosts/{lab.vhost}")


def publish(channel: BlockingChannel, queue: str, *bodies: str, **properties: Any) -> None:
    """Publish messages to a queue, and wait for their confirms."""
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def take(channel: BlockingChannel, queue: str, seconds: float = 1.0) -> Any:
    """Return the next message of a queue, ``(method, properties, body)``; None if none comes in time."""
    end = time.monotonic() + seconds
    while True:
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            return method, properties, (body or b"").decode()
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def headers(message: Any) -> dict[str, Any]:
    """Return the headers of a message of `take`."""
    return dict(message[1].headers or {})


def drain(channel: BlockingChannel, queue: str, number: int) -> list[str]:
    """Return the bodies of the next messages, fewer if no more come; all are acknowledged."""
    bodies: list[str] = []
    while len(bodies) < number:
        message = take(channel, queue)
        if message is None:
            break
        channel.basic_ack(message[0].delivery_tag)
        bodies.append(message[2])
    return bodies


def give_back(channel: BlockingChannel, queue: str, times: int, how: Callable[[int], Any]) -> int:
    """Take a message and give it back, so often or until it is gone; return how often it came."""
    for number in range(times):
        message = take(channel, queue, 0.5)
        if message is None:
            return number
        how(message[0].delivery_tag)
    return times


def code_of(act: Callable[[], Any]) -> int | None:
    """Return the code with which a broker closes the channel or connection on an action; None if it does not."""
    try:
        act()
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        return int(error.reply_code)
    return None
