"""Where a message goes: RabbitMQ's routing, inside your process.

Pure: no I/O, no clock, no thread. ``import exchange`` needs lark installed and does not even import it.
"""

from exchange.dispatch import Dispatcher, NoHandler
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
from exchange.matcher import Matcher
from exchange.message import Message
from exchange.parts import Binding, Destination, Exchange, Policy, Queue
from exchange.pattern import Pattern
from exchange.profile import LATEST, PROFILES, Profile
from exchange.route import Explanation, Hop, Route
from exchange.router import Router
from exchange.topology import Topology
from exchange.values import FieldTable, Typed

__all__ = (
    # values
    "Binding", "Destination", "Exchange", "FieldTable", "Message", "Pattern", "Policy", "Queue", "Topology", "Typed",
    # routing
    "Dispatcher", "NoHandler", "Explanation", "Hop", "Matcher", "Route", "Router",
    # which RabbitMQ
    "LATEST", "PROFILES", "Profile",
    # errors
    "AccessRefused", "BrokerError", "CommandInvalid", "HashstarError", "InputError", "NotFound", "PatternError",
    "PreconditionFailed", "TextError",
)  # fmt: skip
