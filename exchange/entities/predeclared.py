"""The exchanges that every virtual host has, as ``rabbit_vhost.erl`` declares them: names and types alone.

Shells complete the names without loading anything else of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREDECLARED_TYPES: Final[Mapping[str, str]] = {
    "": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
    "amq.match": "headers", "amq.rabbitmq.trace": "topic",
}  # fmt: skip
"""Name -> type; the last one is internal."""
LOG_EXCHANGE: Final = "amq.rabbitmq.log"
"""The exchange that a node writes its log to, in one virtual host; each of 4.3.6 declares it. Imports skip it."""
