"""What a delivery no longer shows of a dead letter that was published again to the one queue where it died.

It comes by the default exchange with the name of the queue as its routing key. So `hashstar dead --replay queue` keeps
in headers where the message was published, and its CC and BCC, by which a broker would copy it. A bridge that reads the
queue takes the message as it was published then, and routes it as it did the first time; other consumers see headers.
"""

from __future__ import annotations

from typing import Final

from exchange.amqp import ContentHeader, MalformedHeader
from exchange.values.field_values import make_longstr, resolve_type

REPLAYED: Final = b"x-hashstar-replay-"
"""How the names of these headers begin."""
EXCHANGE: Final = f"{REPLAYED.decode()}exchange"
ROUTING_KEY: Final = f"{REPLAYED.decode()}routing-key"
COPIED: Final = {name: f"{REPLAYED.decode()}{name.lower()}" for name in ("CC", "BCC")}
"""Headers by which brokers copy messages -> their names in a message that is published again."""


def keep_published(content: ContentHeader, exchange: str, routing_key: str, queue: str) -> ContentHeader:
    """Return the header of a message that was published to an exchange and goes to a queue by the default exchange."""
    moved = [(name, kept) for name, kept in COPIED.items() if content.find(name) is not None]
    for name, kept in moved:
        content = content.with_header(kept, content.header(name)).without_header(name)
    if not moved and (exchange, routing_key) == ("", queue):
        return content
    for name, text in ((EXCHANGE, exchange), (ROUTING_KEY, routing_key)):
        content = content.with_header(name, make_longstr(text))
    return content


def find_published(exchange: bytes, key: bytes, content: ContentHeader) -> tuple[bytes, bytes, ContentHeader]:
    """Return exchange, routing key and header of a message as it was published first, from those of its delivery.

    They are those of the delivery if the headers are not those that `keep_published` writes.
    """
    try:
        texts = [resolve_type(content.header(name)) for name in (EXCHANGE, ROUTING_KEY)]
        if any(kind != "longstr" for kind, _ in texts):
            return exchange, key, content
        for name, kept in COPIED.items():
            if content.find(kept) is not None:
                content = content.with_header(name, content.header(kept)).without_header(kept)
        content = content.without_header(EXCHANGE).without_header(ROUTING_KEY)
    except MalformedHeader:
        return exchange, key, content
    return texts[0][1], texts[1][1], content
