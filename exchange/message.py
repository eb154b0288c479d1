"""A message as the router sees it: where it is published to, with which key, and what it carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exchange.errors import PreconditionFailed
from exchange.values import type_and_value

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """What a publisher sends with basic.publish.

    ``exchange`` is a name, ``""`` the default exchange. ``headers`` map names to field values (see `exchange.values`);
    ``properties`` are the other basic properties under their AMQP names (``message_id``, ``timestamp`` ...).
    """

    exchange: str = ""
    routing_key: str = ""
    headers: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def routing_keys(self) -> tuple[str, ...]:
        """The routing key, then those of the CC and the BCC header (RabbitMQ's sender-selected distribution).

        Elements that are not strings are ignored. Raises PreconditionFailed when a header is no array.
        """
        if not self.headers or ("CC" not in self.headers and "BCC" not in self.headers):
            return (self.routing_key,)
        return (self.routing_key, *self._keys_in("CC"), *self._keys_in("BCC"))

    def _keys_in(self, header: str) -> list[str]:
        if header not in self.headers:
            return []
        kind, items = type_and_value(self.headers[header])
        if kind != "array":
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}')
        return [value.decode("utf-8", "surrogateescape") for kind, value in items if kind == "longstr"]
