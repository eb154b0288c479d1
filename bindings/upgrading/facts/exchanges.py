"""Facts about exchanges and their bindings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from bindings.upgrading.facts.crossing import Crossing, Seen
from bindings.upgrading.facts.fact import Fact, link_notes
from exchange.entities.entities import Binding, Destination, Exchange
from exchange.kinds import SHIPPED, Decider, KeyUse, find_kind
from exchange.kinds.consistent_hash import ConsistentHashExchange, build_ring, build_ring_after_restart
from exchange.kinds.headers import list_conditions
from exchange.kinds.modulus_hash import ModulusHashExchange
from exchange.kinds.topic import TopicExchange
from exchange.values.field_values import INTEGER_TYPES, resolve_type

NUMBERS: Final = INTEGER_TYPES | {"float", "double"}


def find_bindings_with_numbers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that want an integer or a whole number as a float."""
    for binding, wanted in _headers_bindings(crossing):
        if any(kind in NUMBERS and value == value // 1 for kind, value in wanted):
            yield binding, ""


def find_bindings_with_timestamps(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that want a timestamp."""
    for binding, wanted in _headers_bindings(crossing):
        if any(kind == "timestamp" for kind, _ in wanted):
            yield binding, ""


def _headers_bindings(crossing: Crossing) -> Iterator[tuple[Binding, list[tuple[str, Any]]]]:
    """Yield the bindings of headers exchanges, each with the AMQP types and values of the headers that it wants."""
    for source, exchange in crossing.before.exchanges.items():
        if find_kind(exchange).decider is Decider.HEADERS:
            for binding in crossing.before.bindings_from(source):
                names = [name for name, _ in list_conditions(binding, crossing.new)]
                yield binding, [resolve_type(binding.arguments[name]) for name in names]


def find_bindings_that_ask_for_deaths(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that ask for x-death."""
    for name, exchange in crossing.before.exchanges.items():
        if find_kind(exchange).decider is Decider.HEADERS:
            for binding in crossing.before.bindings_from(name):
                if "x-death" in dict(list_conditions(binding, crossing.new)):
                    yield binding, ""


def find_rings_in_another_order(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges with a hash ring whose bindings are not in the order in which a restart makes them."""
    for name, exchange in crossing.before.exchanges.items():
        if find_kind(exchange).key_use is not KeyUse.WEIGHT:
            continue
        bindings = [*crossing.before.bindings_from(name)]
        ring = build_ring(bindings, crossing.new)
        if len(ring) > 1 and ring != build_ring_after_restart(bindings, crossing.new):
            yield exchange, ""


def find_transient_exchanges(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges that are not durable."""
    yield from ((exchange, "") for exchange in crossing.before.exchanges.values() if not exchange.durable)


def find_exchanges_of_other_plugins(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges of a type that RabbitMQ does not come with."""
    for exchange in crossing.before.exchanges.values():
        if exchange.type not in SHIPPED:
            yield exchange, ""


def find_modulus_hashes(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges that choose one of several destinations by the number of a hash."""
    for name, exchange in crossing.before.exchanges.items():
        destinations = {binding.destination for binding in crossing.before.bindings_from(name)}
        if find_kind(exchange) is ModulusHashExchange and len(destinations) > 1:
            yield exchange, ""


def find_hashes_of_headers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges that choose one of several bindings by the hash of a header."""
    for name, exchange in crossing.before.exchanges.items():
        if hashes_header(exchange) and len([*islice(crossing.before.bindings_from(name), 2)]) > 1:
            yield exchange, ""


def find_bound_hashes_of_headers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the exchanges that hash a header and have a binding."""
    for name, exchange in crossing.before.exchanges.items():
        if hashes_header(exchange) and any(crossing.before.bindings_from(name)):
            yield exchange, ""


def hashes_header(exchange: Exchange) -> bool:
    """Return whether an exchange chooses by the hash of a header."""
    return find_kind(exchange) is ConsistentHashExchange and "hash-header" in exchange.arguments


def find_destinations_with_several_weights(crossing: Crossing) -> Iterator[Seen]:
    """Yield the bindings to a destination that an exchange with a hash ring has a binding to before."""
    for name, exchange in crossing.before.exchanges.items():
        if find_kind(exchange).key_use is KeyUse.WEIGHT:
            seen = set[Destination]()
            for binding in crossing.before.bindings_from(name):
                if binding.destination in seen:
                    yield binding, ""
                seen.add(binding.destination)


def find_bindings_with_zeros(crossing: Crossing) -> Iterator[Seen]:
    """Yield the headers bindings that want a zero that is no integer."""
    for binding, wanted in _headers_bindings(crossing):
        if any(kind in ("float", "double") and value == 0 for kind, value in wanted):
            yield binding, ""


def find_empty_topics(crossing: Crossing) -> Iterator[Seen]:
    """Yield the bindings of topic exchanges with an empty key."""
    for name, exchange in crossing.before.exchanges.items():
        if find_kind(exchange) is TopicExchange:
            yield from ((binding, "") for binding in crossing.before.bindings_from(name) if not binding.routing_key)


def find_federation_policies(crossing: Crossing) -> Iterator[Seen]:
    """Yield the policies that federate exchanges or queues."""
    for policy in crossing.before.policies.values():
        if any(name.startswith("federation-upstream") for name in policy.definition):
            yield policy, ""


FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU011", (3, 13, 0), "warning",
         "a number that a headers binding wants equals only a number of the same kind: the integer 1 no longer 1.0",
         "publish the header in the type in which the binding has it", "trial",
         find_bindings_with_numbers, link_notes("3.13.0")),
    Fact("HSU012", (3, 13, 0), "warning",
         "a message's timestamp in a header is compared in milliseconds, a binding's as it is: equal ones do not match",
         "bind an integer of milliseconds in place of the timestamp", "trial",
         find_bindings_with_timestamps, link_notes("3.13.0")),
    Fact("HSU051", (3, 13, 0), "warning",
         "a headers exchange does not see the x-death of dead letters any more: a binding that asks for it gets none",
         "ask for x-first-death-queue or x-first-death-reason, which all releases show to headers exchanges",
         "trial", find_bindings_that_ask_for_deaths),
    Fact("HSU013", (4, 3, 0), "note",
         "the hash ring is kept over restarts; before 4.3, unless Khepri is enabled, a restart builds it anew, ordered "
         "by weight and queue, so an upgrade may move keys if the bindings were made in another order",
         "let consumers finish before the upgrade if the order of messages counts", "observed",
         find_rings_in_another_order, link_notes("4.3.0")),
    Fact("HSU021", (4, 3, 0), "note",
         "an exchange that is not durable outlives a restart of the broker: Khepri, which older releases may have, "
         "keeps all exchanges",
         "delete it, or declare it with auto-delete, if it should go", "observed",
         find_transient_exchanges, link_notes("4.0.1")),
    Fact("HSU022", (4, 3, 0), "warning",
         "the plugin of the exchange's type does not come with RabbitMQ: one that keeps data in Mnesia does not work "
         "with 4.3 (rabbitmq_delayed_message_exchange 4.2.0 was observed not to start), and loses what it keeps, such "
         "as delayed messages, when khepri_db is enabled",
         "find a release of the plugin that is made for 4.3, or do without it; let delayed messages arrive and disable "
         "the plugin before khepri_db is enabled", "release notes",
         find_exchanges_of_other_plugins, link_notes("4.3.0")),
    Fact("HSU023", (3, 13, 0), "note",
         "links of federation over TLS verify the certificate of the other broker, as Erlang 26 does by default",
         "give the URI cacertfile, or verify=verify_none", "release notes", find_federation_policies,
         link_notes("3.13.0")),
    Fact("HSU024", (4, 3, 0), "warning",
         "the bindings of x-modulus-hash are counted in the order of their destinations, and stay so over restarts: "
         "keys may move to other queues once",
         "let consumers finish before the upgrade if the order of messages counts", "release notes",
         find_modulus_hashes, link_notes("4.3.0")),
    Fact("HSU045", (3, 13, 0), "warning",
         "the hash of a header no longer has the type of its value in it: messages move to other queues",
         "let consumers finish before the upgrade if the order of messages counts", "trial",
         find_hashes_of_headers),
    Fact("HSU046", (3, 13, 0), "note",
         "a message with an empty array as the header that is hashed ends the channel with an error, up to 4.3.4",
         "do not publish empty arrays in this header", "trial", find_hashes_of_headers, until=(4, 3, 5)),
    Fact("HSU060", (3, 13, 0), "error",
         "a message without the header that is hashed ends the channel with an error, up to 3.13.6",
         "upgrade to 3.13.7 or later, or publish no message without this header", "trial",
         find_bound_hashes_of_headers, link_notes("3.13.7"), until=(3, 13, 7)),
    Fact("HSU061", (3, 10, 6), "warning",
         "of several bindings of one destination the first counts, no longer the sum of their weights: messages move "
         "to other queues",
         "keep one binding, with the sum of the weights", "trial", find_destinations_with_several_weights,
         link_notes("3.10.6")),
    Fact("HSU047", (4, 0, 0), "note",
         "on Erlang 27, which 4.2.9 and 4.3.3 require, 0.0 in a header does not equal -0.0",
         "publish the zero that the binding has", "trial", find_bindings_with_zeros),
    Fact("HSU050", (4, 0, 0), "warning",
         "with Khepri (the feature flag khepri_db, which a cluster that begins with 4.2 has), the bindings of "
         "x-modulus-hash are counted in an order that no topology shows and that each start of a node may change: keys "
         "may move to other queues",
         "let consumers finish before the upgrade, and before khepri_db is enabled, if the order of messages counts; "
         "4.3 has an order that stays", "trial", find_modulus_hashes, link_notes("4.3.0"),
         until=(4, 3, 0), recurs=True),
    Fact("HSU048", (4, 3, 0), "warning",
         "messages with an empty key get here from all topic exchanges, before 4.3.1 and until its feature flag is "
         "enabled",
         "upgrade to 4.3.1 or later, and enable the feature flag topic_binding_projection_v5", "release notes",
         find_empty_topics, link_notes("4.3.1")),
)  # fmt: skip
"""What is seen in exchanges and bindings."""
