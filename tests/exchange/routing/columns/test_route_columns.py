"""Whole columns are routed as their messages are one by one: any topology, any array, any headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchange import PROFILES, BrokerError, Message, Profile, Router
from exchange.arrays import grouping
from exchange.field_json import encode_table
from exchange.patterns.columns import pattern_sets
from exchange.routing.columns import key_classes
from exchange.routing.columns.route_columns import RouteColumns
from exchange.routing.route import Route
from tests.support import topologies

PROFILE = st.sampled_from(list(PROFILES.values()))
SEED = st.integers(0, 2**32)


def seeded(seed: int) -> Callable[[int], int]:
    return Random(seed).randrange


def answers(router: Router, messages: Sequence[Message]) -> list[Route | str]:
    found: list[Route | str] = []
    for message in messages:
        try:
            found.append(router.route(message))
        except BrokerError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def answers_in(columns: RouteColumns) -> list[Route | str]:
    found: list[Route | str] = []
    for row in range(len(columns)):
        try:
            found.append(columns[row])
        except BrokerError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def encodable(message: Message) -> bool:
    """Return whether the column types take the message: text only, no properties, and headers that JSON can hold."""
    try:
        json.dumps(encode_table(message.headers), ensure_ascii=False).encode()
    except (ValueError, TypeError):
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(SEED, PROFILE, st.sampled_from([0, 20, 4096]), st.sampled_from([0, 1, 1024]), st.integers(1, 60))
def test_a_column_has_the_routes_of_its_messages(
    seed: int, profile: Profile, conjunctions: int, literals: int, chunk: int
) -> None:
    """With headers, CC, alternates, cycles, hashes, refusals, and the same random draws in the order of rows."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    made = [topologies.message(rng, topology) for _ in range(30)]
    made += [Message(rng.choice(["nowhere", "amq.rabbitmq.trace", "x0", ""]), "a.b") for _ in range(3)]
    messages = [
        Message(m.exchange, m.routing_key, m.headers) for m in [*made, *rng.choices(made, k=30)] if encodable(m)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_sets, "MOST_CONJUNCTIONS", conjunctions)
        patch.setattr(key_classes, "FEW_LITERALS", literals)
        patch.setattr(grouping, "CHUNK", 7)
        router = Router(topology, choose=seeded(seed))
        for part in (messages[:chunk], messages[chunk:], messages):
            exchanges = [m.exchange.encode("utf-8", "surrogateescape") for m in part]
            keys = [m.routing_key.encode("utf-8", "surrogateescape") for m in part]
            headers = [json.dumps(encode_table(m.headers), ensure_ascii=False) for m in part]
            state = seeded(seed)
            router = Router(topology, choose=state)
            found = router.route_columns(pa.array(exchanges, pa.binary()), pa.array(keys, pa.binary()), headers)
            assert answers_in(found) == answers(Router(topology, choose=seeded(seed)), part)
            assert len(set(found.routes) - {Route(())}) == len([r for r in found.routes if r != Route(())])
            assert len(found.routes) == len(set(found.index.tolist()))
