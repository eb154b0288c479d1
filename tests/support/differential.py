"""Compare the engine with a live RabbitMQ: the same topology is declared, the same messages are published to both.

A round is a topology and some hundred messages, all ``mandatory``. What each queue of the broker received and what the
broker returned must be what ``Router.route`` says, message by message; where a kind picks at random, one of the routes
that chance allows. ``python -m tests.support.differential`` runs rounds until a number of messages is reached.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pika

from exchange import Message, Router, Topology
from exchange.entities.releases import find_profile
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.servers import Server
from tests.support.waiting import find_limit

END = b"end"


@dataclass
class Outcome:
    """The result of one or several rounds."""

    messages: int = 0
    copies: int = 0
    returned: int = 0
    differences: list[str] = field(default_factory=list)


def compare(server: Server, messages: int, seed: int, per_round: int = 400) -> Outcome:
    """Run rounds until ``messages`` were published, or until the tenth difference."""
    outcome = Outcome()
    profile = find_profile(server.version)
    with all_types_in_pika():
        number = 0
        while outcome.messages < messages and len(outcome.differences) < 10:
            rng = Random(f"{seed}/{number}")
            prefix = f"hashstar-{seed}-{number}-"
            kinds = topologies.Kinds(policies=server.management_url is not None)
            topology = topologies.topology(rng, profile, kinds, prefix)
            sent = [
                topologies.message(rng, topology, prefix) for _ in range(min(per_round, messages - outcome.messages))
            ]
            compare_one(server, topology, sent, outcome, f"seed {seed}, round {number}")
            number += 1
    return outcome


def compare_one(server: Server, topology: Topology, sent: list[Message], outcome: Outcome, name: str) -> None:
    """Run one round, and add its result to the outcome, with differences under the name."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    ours = [exchange for exchange in topology.exchanges.values() if exchange.name.startswith("hashstar-")]
    try:
        for policy in topology.policies.values():
            body = {"pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority,
                    "definition": dict(policy.definition)}  # fmt: skip
            manage(server, "PUT", f"policies/%2F/{quote(policy.name, safe='')}", body)
        declare(channel, topology)
        arrived, returned = publish(channel, topology.queues, sent)
    finally:
        for exchange in ours:
            channel.exchange_delete(exchange.name)
        connection.close()  # its exclusive queues go with it
        for policy in topology.policies.values():
            manage(server, "DELETE", f"policies/%2F/{quote(policy.name, safe='')}")
    outcome.messages += len(sent)
    outcome.returned += len(returned)
    possible = Possible(topology)
    for number, message in enumerate(sent):
        queues = arrived.get(number, Counter())
        outcome.copies += queues.total()
        problem = _problem(topology, message, set(possible.routes(message)), queues, number in returned)
        if problem:
            outcome.differences.append(f"{name}, message {number}: {problem}")


def _problem(
    topology: Topology, message: Message, possible: set[tuple[str, ...]], queues: Counter[str], was_returned: bool
) -> str:
    got = tuple(sorted(queues))
    if got in possible and max(queues.values(), default=1) == 1 and was_returned == (not got):
        return ""
    bindings = "\n".join(map(repr, topology.bindings))
    return (
        f"{message}\n  broker: {dict(queues)}, returned: {was_returned}\n  hashstar: {possible}\n"
        f"{list(topology.exchanges.values())}\n{bindings}\n{dict(topology.policies)}"
    )


class Possible:
    """All routes through a topology that random choices allow."""

    def __init__(self, topology: Topology) -> None:
        self._choose: Callable[[int], int] = lambda n: 0
        self._router = Router(topology, choose=self._chosen)

    def _chosen(self, n: int) -> int:
        return self._choose(n)

    def routes(self, message: Message) -> Iterator[tuple[str, ...]]:
        """Yield the queues of each route; the combinations of choices are tried in order."""
        script: list[int] = []
        while True:
            limits: list[int] = []

            def choose(n: int, limits: list[int] = limits, script: list[int] = script) -> int:
                limits.append(n)
                return script[len(limits) - 1] if len(limits) <= len(script) else 0

            self._choose = choose
            yield self._router.route(message).queues
            script = script[: len(limits)] + [0] * (len(limits) - len(script))
            while script and script[-1] + 1 >= limits[len(script) - 1]:
                script.pop()
            if not script:
                return
            script[-1] += 1


def declare(channel: pika.adapters.blocking_connection.BlockingChannel, topology: Topology) -> None:
    for exchange in topology.exchanges.values():
        if exchange.name.startswith("hashstar-"):
            channel.exchange_declare(
                exchange.name,
                exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=dict(exchange.arguments),
            )
    for queue in topology.queues:
        channel.queue_declare(queue, exclusive=True)
    for binding in topology.bindings:
        source, (kind, name), key, arguments = binding
        if kind == "queue":
            channel.queue_bind(name, source, key, dict(arguments))
        else:
            channel.exchange_bind(name, source, key, dict(arguments))


def publish(
    channel: pika.adapters.blocking_connection.BlockingChannel, queues: Iterable[str], sent: list[Message]
) -> tuple[dict[int, Counter[str]], set[int]]:
    """Publish all messages, mandatory, to a broker with these queues; return where they arrived, and the returned ones.

    Messages go by their number in what was sent; it is their body.
    """
    arrived: dict[int, Counter[str]] = {}
    returned: set[int] = set()
    names = list(queues)
    waiting = set(names)

    def on_message(_channel: object, method: object, _properties: object, body: bytes) -> None:
        queue = method.consumer_tag  # type: ignore[attr-defined]
        if body == END:
            waiting.discard(queue)
        else:
            arrived.setdefault(int(body), Counter())[queue] += 1

    channel.add_on_return_callback(lambda _c, _m, _properties, body: returned.add(int(body)))
    for queue in names:
        channel.basic_consume(queue, on_message, auto_ack=True, consumer_tag=queue)
    for number, message in enumerate(sent):
        properties = pika.BasicProperties(headers=dict(message.headers), **message.properties)
        # The channel's own would turn to the socket for each, which takes most of the time.
        channel._impl.basic_publish(
            message.exchange, message.routing_key, str(number).encode(), properties, mandatory=True
        )
    # What is published last to a queue arrives last, and returns come before what is published after them.
    for queue in names:
        channel.basic_publish("", queue, END)
    deadline = time.monotonic() + find_limit()
    while waiting and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=1)
    if waiting:
        raise TimeoutError(f"the broker did not deliver to {waiting} in 60 s")
    return arrived, returned


def manage(server: Server, method: str, path: str, body: object = None) -> Any:
    """Call the server's management API; return its parsed answer, or None if it is empty."""
    assert server.management_url is not None
    parts = urlsplit(server.url)
    login = b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310  the URL of our own test server
        f"{server.management_url.rstrip('/')}/api/{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=find_limit()) as answer:  # noqa: S310  as above
        text = answer.read()
    return json.loads(text) if text else None


if __name__ == "__main__":
    url, version, management, count, seed = sys.argv[1:]
    began = time.monotonic()
    result = compare(Server(url, "argument", version, management or None), int(count), int(seed))
    took = time.monotonic() - began
    print(f"{result.messages} messages, {result.copies} copies, {result.returned} returned in {took:.0f} s")
    print(f"{len(result.differences)} differences")
    print("\n\n".join(result.differences[:3]))
