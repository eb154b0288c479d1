"""RabbitMQ's routing inside your process: where a message goes, and why.

Pure: no I/O, no clock, no threads. ``import exchange`` does not import lark, which only some functions need.
"""

from typing import TYPE_CHECKING, Any

from exchange.dispatch.clients.pika import PikaQueue
from exchange.dispatch.delivery import Delivery
from exchange.dispatch.dispatcher import Dispatcher
from exchange.dispatch.policy import NoHandler, Retry
from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from exchange.errors import (
    AccessRefused,
    BrokerError,
    CommandInvalid,
    HashstarError,
    InputError,
    NotFound,
    PatternError,
    PreconditionFailed,
    TextError,
)
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import Pattern
from exchange.routing.route import Hop, Route
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.field_values import FieldTable, Typed
from exchange.values.message import Message

if TYPE_CHECKING:
    from exchange.routing.explain import Explanation

__all__ = (
    # values
    "Binding", "Destination", "Exchange", "FieldTable", "Message", "Pattern", "Policy", "Queue", "Topology", "Typed",
    # routing
    "Delivery", "Dispatcher", "NoHandler", "PikaQueue", "Retry", "Explanation", "Hop", "Matcher", "Route", "Router",
    # which RabbitMQ
    "LATEST_PROFILE", "PROFILES", "Profile",
    # errors
    "AccessRefused", "BrokerError", "CommandInvalid", "HashstarError", "InputError", "NotFound", "PatternError",
    "PreconditionFailed", "TextError",
)  # fmt: skip

if not TYPE_CHECKING:  # a type checker would take any name for one of the package

    def __getattr__(name: str) -> Any:
        if name == "Explanation":  # not at the top: only `Router.explain` needs it, which imports it
            from exchange.routing.explain import Explanation

            return Explanation
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
