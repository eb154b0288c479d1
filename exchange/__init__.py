"""RabbitMQ's routing inside your process: where a message goes, and why.

Pure: no I/O, no clock, no threads. The public names are imported when they are first used: ``import exchange`` alone
loads no module of the engine, and who routes loads no dispatcher.
"""

from typing import TYPE_CHECKING, Final

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from exchange.dispatch.clients.pika import PikaQueue as PikaQueue
    from exchange.dispatch.delivery import Delivery as Delivery
    from exchange.dispatch.dispatcher import Dispatcher as Dispatcher
    from exchange.dispatch.policy import NoHandler as NoHandler
    from exchange.dispatch.policy import Retry as Retry
    from exchange.entities.entities import Binding as Binding
    from exchange.entities.entities import Destination as Destination
    from exchange.entities.entities import Exchange as Exchange
    from exchange.entities.entities import Policy as Policy
    from exchange.entities.entities import Queue as Queue
    from exchange.entities.profile import Profile as Profile
    from exchange.entities.releases import LATEST_PROFILE as LATEST_PROFILE
    from exchange.entities.releases import PROFILES as PROFILES
    from exchange.errors import AccessRefused as AccessRefused
    from exchange.errors import BrokerError as BrokerError
    from exchange.errors import CommandInvalid as CommandInvalid
    from exchange.errors import HashstarError as HashstarError
    from exchange.errors import InputError as InputError
    from exchange.errors import NotFound as NotFound
    from exchange.errors import PatternError as PatternError
    from exchange.errors import PreconditionFailed as PreconditionFailed
    from exchange.errors import TextError as TextError
    from exchange.patterns.matcher import Matcher as Matcher
    from exchange.patterns.pattern import Pattern as Pattern
    from exchange.routing.explain import Explanation as Explanation
    from exchange.routing.route import Hop as Hop
    from exchange.routing.route import Route as Route
    from exchange.routing.router import Router as Router
    from exchange.topology.topology import Topology as Topology
    from exchange.values.field_values import FieldTable as FieldTable
    from exchange.values.field_values import Typed as Typed
    from exchange.values.message import Message as Message

MODULES: Final = {
    # values
    "Binding": "entities.entities", "Destination": "entities.entities", "Exchange": "entities.entities",
    "FieldTable": "values.field_values", "Message": "values.message", "Pattern": "patterns.pattern",
    "Policy": "entities.entities", "Queue": "entities.entities", "Topology": "topology.topology",
    "Typed": "values.field_values",
    # routing
    "Delivery": "dispatch.delivery", "Dispatcher": "dispatch.dispatcher", "NoHandler": "dispatch.policy",
    "PikaQueue": "dispatch.clients.pika", "Retry": "dispatch.policy", "Explanation": "routing.explain",
    "Hop": "routing.route", "Matcher": "patterns.matcher", "Route": "routing.route", "Router": "routing.router",
    # which RabbitMQ
    "LATEST_PROFILE": "entities.releases", "PROFILES": "entities.releases", "Profile": "entities.profile",
    # errors
    "AccessRefused": "errors", "BrokerError": "errors", "CommandInvalid": "errors", "HashstarError": "errors",
    "InputError": "errors", "NotFound": "errors", "PatternError": "errors", "PreconditionFailed": "errors",
    "TextError": "errors",
}  # fmt: skip
"""Public name -> the module of this package that defines it."""

__all__ = tuple(MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    __getattr__, __dir__ = import_lazily(__name__, MODULES)
