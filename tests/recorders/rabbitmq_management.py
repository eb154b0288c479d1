"""Record what RabbitMQ's management API tells of a virtual host that is as a file has it, and of one that is not.

::

    $ python -m tests.recorders.rabbitmq_management amqp://guest:guest@127.0.0.1:5672 http://127.0.0.1:15672

Writes tests/golden/rabbitmq-management-RELEASE.json.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final
from urllib.parse import quote

import pika

from bindings.sources.management import QUEUE
from tests.recorders import golden
from tests.support.differential import manage
from tests.support.servers import Server, amqp_version

VHOST: Final = "hashstar-drift"

FILE: Final = f"""
vhost "{VHOST}"
exchange orders: topic, alternate unrouted
exchange unrouted: fanout
queue billing: quorum, x-delivery-limit = 5
queue audit
queue lost
policy limit: "^audit", queues, max-length = 1000
orders -> billing: "order.*.created"
orders -> billing: "order.*.paid"
orders -> audit: "#"
unrouted -> lost
"""

STATES: Final[dict[str, list[tuple[str, str, Any]]]] = {
    "same": [
        ("PUT", "exchanges/{}/unrouted", {"type": "fanout", "durable": True}),
        (
            "PUT",
            "exchanges/{}/orders",
            {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "unrouted"}},
        ),
        ("PUT", "queues/{}/billing", {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5}}),
        ("PUT", "queues/{}/audit", {"durable": True}),
        ("PUT", "queues/{}/lost", {"durable": True}),
        ("PUT", "policies/{}/limit", {"pattern": "^audit", "apply-to": "queues", "definition": {"max-length": 1000}}),
        ("POST", "bindings/{}/e/orders/q/billing", {"routing_key": "order.*.created"}),
        ("POST", "bindings/{}/e/orders/q/billing", {"routing_key": "order.*.paid"}),
        ("POST", "bindings/{}/e/orders/q/audit", {"routing_key": "#"}),
        ("POST", "bindings/{}/e/unrouted/q/lost", {"routing_key": ""}),
    ],
    "drift": [
        ("DELETE", "bindings/{}/e/orders/q/billing/order.*.paid", None),
        ("DELETE", "queues/{}/lost", None),
        ("DELETE", "queues/{}/audit", None),
        ("PUT", "queues/{}/audit", {"durable": True, "arguments": {"x-max-length": 10}}),
        ("POST", "bindings/{}/e/orders/q/audit", {"routing_key": "#"}),
        ("PUT", "queues/{}/by-hand", {"durable": True}),
        ("POST", "bindings/{}/e/orders/q/by-hand", {"routing_key": "order.eu.#"}),
        ("PUT", "queues/{}/reply", {"durable": True, "auto_delete": True}),
        ("POST", "bindings/{}/e/orders/q/reply", {"routing_key": "reply"}),
        ("PUT", "policies/{}/limit", {"pattern": "^audit", "apply-to": "queues", "definition": {"max-length": 500}}),
    ],
}
"""State -> the requests that lead to it from the one before."""

PATHS: Final = ("definitions/{}", "exchanges/{}", f"queues/{{}}?{QUEUE}", "vhosts/{}", "bindings/{}", "overview")


def record(url: str, management_url: str) -> None:
    """Make the virtual host on a broker, and write what its API tells in each state."""
    version = amqp_version(url)
    server = Server(url, "argument", version, management_url)
    place = quote(VHOST, safe="")
    manage(server, "PUT", f"vhosts/{place}")
    manage(server, "PUT", f"permissions/{place}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        answers: dict[str, Any] = {}
        for state, requests in STATES.items():
            for method, path, body in requests:
                manage(server, method, path.format(place), body)
            if state == "drift":  # as a consumer that waits for replies leaves them
                parameters = pika.URLParameters(url)
                parameters.virtual_host = VHOST
                channel = pika.BlockingConnection(parameters).channel()
                for name, exclusive in (("", True), ("only-mine", True)):
                    queue = channel.queue_declare(name, exclusive=exclusive).method.queue
                    channel.queue_bind(queue, "orders", "reply.to.me")
                time.sleep(1)
            answers[state] = {path: manage(server, "GET", path.format(place)) for path in PATHS}
            answers[state]["overview"] = {"rabbitmq_version": version}  # all else is of the machine
        golden.write(f"rabbitmq-management-{'.'.join(version.split('.')[:2])}", "RabbitMQ", version, answers)
    finally:
        manage(server, "DELETE", f"vhosts/{place}")


if __name__ == "__main__":
    record(*sys.argv[1:])
