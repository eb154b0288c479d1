"""Record what RabbitMQ refuses: ``python -m tests.recorders.rabbitmq_arguments AMQP-URL MANAGEMENT-URL ...``.

Writes tests/golden/rabbitmq-arguments-RELEASE.json and rabbitmq-policies-RELEASE.json for each pair of addresses: each
queue is declared over AMQP, each policy set by the management API, and the answer is kept, None where there is none.
"""

from __future__ import annotations

import sys
from typing import Any, Final
from urllib.error import HTTPError

import pika
import pika.exceptions

from exchange import Policy, Queue
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import manage
from tests.support.servers import Server, amqp_version

NAME: Final = "hashstar-refused"

TYPES: Final[tuple[dict[str, Any], ...]] = tuple(
    {} if kind is None else {"x-queue-type": kind} for kind in (None, "classic", "quorum", "stream")
)

VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "x-expires": (0, -1, 1, 315_360_000_001, "1", Typed("timestamp", 1)),
    "x-message-ttl": (-5, 0, 315_360_000_000, 315_360_000_001, 1.5, "abc", True, None, Typed("short", 5)),
    "x-dead-letter-exchange": ("", "d", 5, b"d"),
    "x-dead-letter-strategy": ("at-least-once", "at-most-once", "sometimes", 1),
    "x-max-length": (-1, 0, "5"),
    "x-max-length-bytes": (-1, 0, 2**40, "5"),
    "x-max-in-memory-length": (-1, 1),
    "x-max-in-memory-bytes": (-1, 1),
    "x-max-priority": (-1, 0, 255, 256, "abc"),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx", "drop-tail", 'say "no"', 1),
    "x-queue-mode": ("lazy", "eager", 1),
    "x-queue-version": (0, 1, 2, 3, "2"),
    "x-queue-master-locator": ("min-masters",),
    "x-single-active-consumer": (True, False, "true", 1),
    "x-delivery-limit": (-1, 0, 5, "5"),
    "x-quorum-initial-group-size": (0, 1, -1),
    "x-initial-cluster-size": (0, 1, -1),
    "x-queue-leader-locator": ("balanced", "client-local", "random", "nowhere", 1),
    "x-max-age": ("1D", "0D", "1w", "D", "", 5),
    "x-stream-max-segment-size-bytes": (-1, 3_000_000_000, 3_000_000_001, "5"),
    "x-stream-filter-size-bytes": (15, 16, 255, 256, "5"),
    "x-consumer-timeout": (-1, 0, "5"),
    "x-consumer-disconnected-timeout": (-1, 0),
    "x-delayed-retry-type": ("all",),
    "x-unknown-to-all": ("anything",),
}

QUEUES: Final[tuple[Queue, ...]] = (
    *(
        Queue(NAME, arguments={**kind, name: value})
        for name, values in VALUES.items()
        for value in values
        for kind in TYPES
    ),
    *(Queue(NAME, arguments={"x-queue-type": kind}) for kind in ("nonsense", "mirrored", "", 1, "Quorum", "é")),
    *(Queue(NAME, arguments={**kind, "x-dead-letter-routing-key": "k"}) for kind in TYPES),
    *(
        Queue(NAME, arguments={**kind, "x-dead-letter-exchange": "d", "x-dead-letter-routing-key": key})
        for kind in TYPES
        for key in ("k", 5)
    ),
    *(
        Queue(NAME, durable, auto_delete, kind)
        for kind in TYPES[2:]
        for durable, auto_delete in ((False, False), (True, True), (False, True))
    ),
    Queue(NAME, arguments={"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"}),
    Queue(NAME, arguments={"x-message-ttl": -1, "x-max-length": -1, "x-expires": 0}),
)

DEFINITIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    *({name: value} for name in ("message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "expires",
                                 "max-in-memory-bytes", "delivery-limit", "initial-cluster-size", "consumer-timeout",
                                 "stream-max-segment-size-bytes", "stream-filter-size-bytes", "target-group-size",
                                 "consumer-disconnected-timeout", "delayed-retry-min", "delayed-retry-max")
      for value in (-5, 0, 1, 16, 3_000_000_001, 1.0, "1", True)),
    *({name: value} for name in ("alternate-exchange", "dead-letter-exchange", "dead-letter-routing-key")
      for value in ("a", "", 5, None, True)),
    *({"dead-letter-strategy": value} for value in ("at-most-once", "at-least-once", "never", 1)),
    *({"overflow": value} for value in ("drop-head", "reject-publish", "reject-publish-dlx", "drop-tail", 1)),
    *({"queue-mode": value} for value in ("default", "lazy", "eager", 1)),
    *({"queue-version": value} for value in (0, 1, 2, 3, "2")),
    *({"max-age": value} for value in ("1D", "10s", "0D", "1w", "D")),
    *({"queue-leader-locator": value} for value in ("balanced", "client-local", "random", "least-leaders", "x", 1)),
    *({"queue-master-locator": value} for value in ("min-masters", "client-local", "balanced", "x")),
    {"ha-mode": "all"}, {"ha-mode": "none"}, {"ha-params": 2}, {"ha-mode": "exactly", "ha-params": 2},
    {"ha-mode": "exactly"}, {"ha-mode": "exactly", "ha-params": "2"}, {"ha-mode": "nodes", "ha-params": ["a@b"]},
    {"ha-mode": "nodes", "ha-params": []}, {"ha-mode": "all", "ha-sync-mode": "automatic"},
    {"ha-mode": "all", "ha-sync-mode": "later"}, {"ha-mode": "all", "ha-promote-on-shutdown": "always"},
    {"ha-mode": "all", "ha-promote-on-failure": "never"}, {"ha-mode": "all", "ha-sync-batch-size": 0},
    {"ha-sync-mode": "automatic"}, {"nonsense": 1}, {"x-message-ttl": 1}, {"max-priority": 5},
    {"single-active-consumer": True}, {"max-length": 5, "nonsense": 1}, {"message-ttl": 5, "max-length": 7},
    {"delayed-retry-type": "all"}, {"delayed-retry-type": "disabled"}, {"delayed-retry-type": "x"},
    {"delayed-retry-type": "all", "delayed-retry-min": 5}, {"delayed-retry-min": 5, "delayed-retry-max": 4},
)  # fmt: skip

POLICIES: Final[tuple[Policy, ...]] = (
    *(Policy(NAME, "^hashstar-nothing", definition) for definition in DEFINITIONS),
    *(
        Policy(NAME, "^hashstar-nothing", {"max-length": 5}, apply_to)
        for apply_to in ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams", "nonsense", "")
    ),
    *(
        Policy(NAME, pattern, {"max-length": 5})
        for pattern in ("(", "[a", "a**", "a{2,1}", "a{70000}", "*", "\\", "[[:nonsense:]]", "[z-a]", ")", "(?", "^a$")
    ),
)


class Declarer:
    """Declares queues on a live broker."""

    def __init__(self, url: str) -> None:
        self._parameters: Final = pika.URLParameters(url)
        self._connection = pika.BlockingConnection(self._parameters)

    def answer_to(self, queue: Queue) -> str | None:
        """Declare the queue and delete it again; return what the broker answers when it refuses."""
        channel = self._connection.channel()
        arguments, options = dict(queue.arguments), {"durable": queue.durable, "auto_delete": queue.auto_delete}
        try:
            with all_types_in_pika():
                channel.queue_declare(queue.name, arguments=arguments, **options)
        except pika.exceptions.ChannelClosedByBroker as error:
            return f"{error.reply_code} {error.reply_text}"
        except pika.exceptions.ConnectionClosedByBroker as error:
            self._connection = pika.BlockingConnection(self._parameters)
            return f"{error.reply_code} {error.reply_text}"
        channel.queue_delete(queue.name)
        channel.close()
        return None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def answer_to_policy(server: Server, policy: Policy) -> str | None:
    """Set the policy and clear it again; return what the broker answers when it refuses."""
    body = {"pattern": policy.pattern, "definition": _plain(policy.definition), "priority": policy.priority,
            "apply-to": policy.apply_to}  # fmt: skip
    try:
        manage(server, "PUT", f"policies/%2F/{policy.name}", body)
    except HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    manage(server, "DELETE", f"policies/%2F/{policy.name}")
    return None


def _plain(definition: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in definition.items()}


def record(url: str, management_url: str) -> None:
    """Ask one broker, and write its answers."""
    version = amqp_version(url)
    server = Server(url, "argument", version, management_url)
    declarer = Declarer(url)
    release = ".".join(version.split(".")[:2])
    golden.write(f"rabbitmq-arguments-{release}", "RabbitMQ", version,
                 {"answers": [declarer.answer_to(queue) for queue in QUEUES]})  # fmt: skip
    golden.write(f"rabbitmq-policies-{release}", "RabbitMQ", version,
                 {"answers": [answer_to_policy(server, policy) for policy in POLICIES]})  # fmt: skip
    declarer.close()


if __name__ == "__main__":
    for amqp, management in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        record(amqp, management)
