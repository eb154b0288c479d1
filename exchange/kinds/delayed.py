"""x-delayed-message: keeps a message for the time of its header ``x-delay``, and routes it then as another type.

A message is routed twice. At once no binding matches one that is kept, so it goes to the alternate exchange, and is
returned if it is mandatory and no queue gets it. After the delay it is routed from this exchange on, with the negated
delay in its header, by the bindings that the exchange has then: as the type in ``x-delayed-type`` does, alternate
included. A message without delay is routed so at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite, trunc
from typing import Any, Final

from exchange.entities.entities import Exchange
from exchange.entities.profile import Profile
from exchange.errors import BrokerError
from exchange.values.field_values import INTEGER_TYPES, resolve_type

DELAY: Final = "x-delay"
"""The header with the delay in milliseconds."""

MAX_DELAY: Final = 2**32 - 1
"""The longest delay in milliseconds; a message with a longer one is not kept."""

INTEGER: Final = re.compile(rb"[+-]?[0-9]+")
"""What Erlang's binary_to_integer takes."""


def can_delay(exchange: Exchange) -> bool:
    """Return whether the exchange keeps messages that have a delay."""
    return exchange.type == DELAYS and bool(exchange.name)


DELAYS: Final = "x-delayed-message"
"""The exchange type that keeps messages."""


def read_delay(headers: Mapping[str, Any], profile: Profile) -> int | None:
    """Return how many milliseconds a delaying exchange keeps a message with these headers; None if it does not.

    Raises BrokerError for a value of x-delay on which the broker's channel crashes.
    """
    if DELAY not in headers:
        return None
    kind, value = resolve_type(headers[DELAY])
    delay = None
    if kind in INTEGER_TYPES:
        delay = value if kind != "byte" or not profile.delay_is_annotation else None
    elif kind in ("float", "double"):
        delay = trunc(value) if isfinite(value) else None
    elif kind == "longstr" or (kind == "binary" and profile.delay_is_annotation):
        if not INTEGER.fullmatch(value):
            raise BrokerError(f"the channel crashes on an {DELAY} that is text, but no integer")
        delay = int(value)
    elif kind == "decimal" or (kind == "void" and profile.delay_is_annotation):
        raise BrokerError(f"the channel crashes on an {DELAY} of the type {kind}")
    return delay if delay is not None and 0 < delay <= MAX_DELAY else None


def compute_routing_headers(headers: Mapping[str, Any], delay: int) -> dict[str, Any]:
    """Return the headers by which a message is routed after its delay: that is negated, so no exchange keeps it."""
    return {**headers, DELAY: -delay}


def compute_delivered_headers(
    headers: Mapping[str, Any], delay: int, profile: Profile, *, rewritten: bool = False
) -> Mapping[str, Any]:
    """Return the headers with which a message is delivered after its delay.

    Up to 3.12 they stay as they were published, unless the broker had ``rewritten`` them before: BCC was removed, or
    the message had been dead-lettered.
    """
    return compute_routing_headers(headers, delay) if profile.delay_is_annotation or rewritten else headers
