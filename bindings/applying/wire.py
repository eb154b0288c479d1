"""AMQP methods for pika that `exchange.amqp` encodes.

pika chooses the widths of integers and floats by itself and rewrites decimals. But the types must stay: they decide
what a headers binding matches, and which binding an unbind removes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exchange.amqp.methods import METHODS, encode_method

__all__ = ["reply_to", "to_pika"]


def to_pika(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return a method as an object of pika. Raises ValueError for a name or value that AMQP cannot carry."""
    from pika import amqp_object  # only needed to talk to a broker

    payload = encode_method(name, **arguments)

    class Encoded(amqp_object.Method):  # type: ignore[misc]  # pika has no types
        INDEX = _number(name)
        NAME = name
        synchronous = True

        def encode(self) -> list[bytes]:
            return [payload[4:]]  # pika writes the number itself

    return Encoded()


def reply_to(name: str) -> Any:
    """Return pika's class of the answer to a method."""
    from pika import spec

    return spec.methods[_number(f"{name}-ok")]


def _number(name: str) -> int:
    return METHODS[name].class_id << 16 | METHODS[name].method_id
