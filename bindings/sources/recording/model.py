"""A recording: the clients of a broker, what they declare and ask, how often, and what the broker answered.

Equal requests of equal clients are one `RecordedRequest` with a count. Of messages there are only counts, for each
exchange: no routing key, no header, no body. Credentials and addresses of clients are in no recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class RecordedClient(NamedTuple):
    """A client as it names itself; "" for what it does not name."""

    product: str = ""
    """Name of the client library."""
    version: str = ""
    platform: str = ""
    name: str = ""
    """The connection's name, which applications choose."""

    def __str__(self) -> str:
        library = f"{self.product or 'a client without a name'} {self.version}".rstrip()
        return f"{self.name} ({library})" if self.name else library


class RecordedAnswer(NamedTuple):
    """What a broker answered."""

    code: int | None
    """Reply code of a refusal, 0 for `CLOSED`; None if the broker did what it was asked."""
    text: str
    """The broker's text of a refusal, else ""."""

    def __str__(self) -> str:
        return f"{self.code} {self.text}" if self.code else self.text


ACCEPTED: Final = RecordedAnswer(None, "")
NO_CODE: Final = 0
"""Reply code of a broker that has closed a connection without giving one."""
CLOSED: Final = "the connection is closed without an answer"

RECORDED: Final[Mapping[str, tuple[str, ...]]] = {
    "connection.start-ok": ("mechanism",),
    "connection.tune-ok": ("channel_max", "frame_max", "heartbeat"),
    "connection.open": (),
    "exchange.declare": ("exchange", "type", "passive", "durable", "auto_delete", "internal", "arguments"),
    "exchange.delete": ("exchange", "if_unused"),
    "exchange.bind": ("destination", "source", "routing_key", "arguments"),
    "exchange.unbind": ("destination", "source", "routing_key", "arguments"),
    "queue.declare": ("queue", "passive", "durable", "exclusive", "auto_delete", "arguments"),
    "queue.delete": ("queue", "if_unused", "if_empty"),
    "queue.bind": ("queue", "exchange", "routing_key", "arguments"),
    "queue.unbind": ("queue", "exchange", "routing_key", "arguments"),
    "queue.purge": ("queue",),
    "basic.qos": ("prefetch_size", "prefetch_count", "global"),
    "basic.consume": ("queue", "no_local", "no_ack", "exclusive", "arguments", "prefetch_count", "prefetch_global"),
    "basic.get": ("queue", "no_ack"),
    "confirm.select": (),
    "tx.select": (),
}
"""Method of a client that is recorded -> its arguments that are.

The last two of ``basic.consume`` are those of the last ``basic.qos`` on its channel.
"""

CLOSINGS: Final[Mapping[str, tuple[str, ...]]] = {"connection.close": (), "channel.close": ()}
"""Method of a broker -> its arguments; recorded if no call caused it that is recorded, as for a delivery tag."""


@dataclass(slots=True)
class RecordedRequest:
    """A method that clients have called with the same arguments, or one of `CLOSINGS`: ``answers`` has its reason."""

    client: RecordedClient
    vhost: str
    method: str
    """Such as ``queue.declare``."""
    arguments: Mapping[str, Any]
    """The arguments as AMQP names them; ``arguments`` is a field table.

    Those of `RECORDED`. A queue that the broker has named is "".
    """
    first: str
    """Time of the first call, ``2026-05-01T12:00:00Z``."""
    last: str
    count: int = 0
    answers: Counter[RecordedAnswer] = field(default_factory=Counter)
    """How often each answer came; calls without an answer are not counted."""

    @property
    def was_accepted(self) -> bool:
        """Whether the broker has accepted it at least once."""
        return self.answers[ACCEPTED] > 0


@dataclass(slots=True)
class RecordedPublishing:
    """Messages that clients have published to an exchange."""

    client: RecordedClient
    vhost: str
    exchange: str
    mandatory: bool
    immediate: bool
    first: str
    last: str
    messages: int = 0
    max_bytes: int = 0
    """Size in bytes of the largest body."""
    returned: int = 0
    """Number of messages that came back because no queue got them."""
    answers: Counter[RecordedAnswer] = field(default_factory=Counter)
    """The refusals that closed a channel or a connection."""


class UnreadConnections(NamedTuple):
    """Why a connection was passed on without being read to its end."""

    side: str
    """Who sent the bytes that are not AMQP 0-9-1: ``client`` or ``broker``."""
    reason: str


@dataclass(slots=True)
class Recording:
    """What passed a proxy between clients and a broker."""

    upstream: str
    """``HOST:PORT`` of the broker."""
    started: str
    ended: str
    brokers: list[str] = field(default_factory=list)
    """Product and version of each broker behind the address, such as ``RabbitMQ 3.10.8``."""
    connections: Counter[RecordedClient] = field(default_factory=Counter)
    """Number of connections of each client that has named itself."""
    requests: list[RecordedRequest] = field(default_factory=list)
    """In the order of their first calls."""
    publishing: list[RecordedPublishing] = field(default_factory=list)
    opened: int = 0
    """Number of all connections."""
    unread: Counter[UnreadConnections] = field(default_factory=Counter)
    """Number of connections that were not read to their end."""
    left_out: int = 0
    """Number of calls that are not recorded because there were too many different ones."""
