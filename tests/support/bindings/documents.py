"""Random documents: names, keys, arguments and policies of every sort, in several virtual hosts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from bindings.sources.document import Document
from bindings.sources.language.expectations import Expectation
from bindings.sources.section import Section
from exchange import Binding, Destination, Exchange, Policy, Queue, Topology, Typed
from exchange.entities.releases import PROFILES
from exchange.partition.partitioning.specification import Partitioning
from exchange.values.field_values import EMPTY, FieldTable
from tests.support.topologies import VALUES

ODD = (
    "", "a", "b", "orders", "order.*.#", "#", "*", "a b", "a,b", "a:b", 'say "x"', "it's", "back\\slash", "\\", "{x}",
    "{a}-{b}", "{", "}", "{1}", "a{2}", "->", "a->b", "a-", "-", "--", "5", "1.5", "0..7", "-1", "1e9", "true", "null",
    "queue", "exchange", "in", "for", "let", "all", "any", "with", "internal", "durable", "topic", "quorum", "stream",
    "priority", "alternate", "partitioned", "partitioned x", "unroutable", "includes", "x-match", "!short", "!table",
    "é", "日本", "\u2028", "\x00", "\x07", "\n", "\r\n", "\t", "\x7f", "\ud800", "\U0001f407", "\U000e0001", " ",
    "# no comment", "'", "''", "\"'", "'\\", "{x}'", "_", "x=1", "a=b", "\ufeff", "\x85",
)  # fmt: skip
"""Texts of which some look like the language and some cannot stand in a line."""

TEXTS = st.sampled_from(ODD) | st.text(max_size=6)
PLAIN = st.sampled_from(("a", "b", "orders", "x-match", "!x", "internal", "queue", "é"))
ENDS = st.sampled_from(("orders", "b", "queue", "{x}", "a b", "it's", "5"))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
FIELDS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(VALUES)
    | st.sampled_from(
        (float("inf"), float("nan"), Decimal("1E+3"), Decimal("-0.00"), b"\xff", Typed("longstr", b"\xff"), 1e300, 1e-7)
    )
    | NUMBERS
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(
    TEXTS | st.sampled_from(("x-match", "x-queue-type", "alternate-exchange", "x-max-length")),
    FIELDS | st.sampled_from(("all", "any-with-x", "quorum", "classic", "odd", "orders")),
    max_size=3,
).map(FieldTable)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.just(2**70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
PARTITIONINGS = st.sampled_from((
    'kafka.murmur2 over 12 by header "tenant"',
    'kafka.murmur2 over 3 by header "# {x} \\" \\u0007 it\'s"',
    'rabbitmq.super_stream over "a,b","c#d","{x}" by word -1',
    'kafka.nearest(rack="eu, 1") over a@eu:2,b:2 by body "/customer/id"',
)).map(Partitioning.parse)  # fmt: skip


def exchanges() -> st.SearchStrategy[Exchange]:
    """Draw an exchange that is not one of the predeclared."""
    names = TEXTS.filter(lambda name: name != "")
    flags = (st.booleans(), st.booleans(), st.booleans())
    return st.builds(Exchange, names, TEXTS | st.sampled_from(("topic", "fanout")), *flags, ARGUMENTS)


QUEUES = st.builds(Queue, TEXTS, st.booleans(), st.booleans(), ARGUMENTS, st.none() | PARTITIONINGS)
POLICIES = st.builds(
    Policy,
    TEXTS,
    TEXTS | st.sampled_from((r"^orders\.", r"\d{2}'", "^(a|b)$")),
    st.dictionaries(TEXTS | PLAIN, JSON, max_size=3),
    st.sampled_from(("all", "exchanges", "queues", "quorum_queues", "no such", "")),
    st.integers(-3, 3) | st.just(0.5),
)
BINDINGS = st.builds(
    Binding,
    ENDS | TEXTS.filter(bool),
    st.builds(Destination, st.sampled_from(("queue", "exchange")), ENDS | TEXTS),
    TEXTS,
    st.just(EMPTY) | ARGUMENTS,
)
EXPECTATIONS = st.builds(
    Expectation, TEXTS, TEXTS, st.lists(TEXTS, max_size=2).map(tuple), st.just("exactly"), st.just(EMPTY) | ARGUMENTS
) | st.builds(
    Expectation, TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=2).map(tuple),
    st.sampled_from(("includes", "excludes")),
)  # fmt: skip


# Strategies of whole parts, made once: not for each document.
CHOSEN_PROFILES = st.none() | st.sampled_from(list(PROFILES.values()))
VHOST_LISTS = st.lists(TEXTS, min_size=1, max_size=3, unique=True)
EXCHANGE_LISTS = st.lists(exchanges(), max_size=3)
QUEUE_LISTS = st.lists(QUEUES, max_size=3)
BINDING_LISTS = st.lists(BINDINGS, max_size=4)
POLICY_LISTS = st.lists(POLICIES, max_size=2)
EXPECTATION_LISTS = st.lists(EXPECTATIONS, max_size=2)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Draw a document of one to three virtual hosts."""
    profile = draw(CHOSEN_PROFILES)
    sections = {}
    for vhost in draw(VHOST_LISTS):
        topology = Topology(
            draw(EXCHANGE_LISTS), draw(QUEUE_LISTS), draw(BINDING_LISTS), draw(POLICY_LISTS), vhost=vhost
        )
        expectations = tuple(draw(EXPECTATION_LISTS))
        sections[vhost] = Section(topology if profile is None else topology.with_profile(profile), expectations)
    return Document(sections, profile)
