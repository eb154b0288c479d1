"""Keys as odd as publishers may write them, and each strategy of partitions ready to choose."""

from __future__ import annotations

from decimal import Decimal
from functools import cache, partial
from typing import Any

from hypothesis import strategies as st

from exchange import Typed
from exchange.partition import Partitions
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitioning.specification import parse_partitioner
from exchange.partition.partitioning.strategies import STRATEGIES
from exchange.values.field_values import RANGES

LONG = 10**20
"""An integer that JSON holds and Java's long does not."""


def nested(depth: int) -> list[Any]:
    """Return an array in an array in an array ..."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


integers = st.one_of(
    st.integers(),
    st.sampled_from([sign * (2**bits + n) for bits in (31, 63, 64) for sign in (1, -1) for n in (-1, 0, 1)]),
)
plain = st.one_of(
    st.none(), st.booleans(), integers, st.floats(), st.text(st.characters()), st.binary(max_size=40), st.decimals(),
    st.datetimes(),
)  # fmt: skip
typed = st.sampled_from(sorted(RANGES)).flatmap(
    cache(lambda kind: st.integers(*RANGES[kind]).map(partial(Typed, kind)))
)
keys = st.one_of(
    plain,
    typed,
    st.floats(width=32).map(lambda value: Typed("float", value)),
    integers.map(lambda value: Typed("double", value)),
    st.binary(max_size=20).map(lambda value: Typed("longstr", value)),
    st.lists(plain, max_size=3),
    st.dictionaries(st.text(max_size=3), plain, max_size=3),
    st.sampled_from([object(), nested(100_000), 10**400, 10**5_000, Decimal("NaN"), Decimal("1e40"), 1j]),
)


PARAMETERS = {"kafka.nearest": "(rack=eu)", "rocketmq.machine_room": "(consumeridcs=eu)"}
"""Strategies that choose nothing without these."""


def partitions_for(name: str) -> Partitions:
    return Partitions.queues({"eu@a": 4, "eu@b": 3}) if STRATEGIES[name].lists_queues else Partitions.from_count(3)


def partitioner_for(name: str) -> Partitioner:
    return parse_partitioner(name + PARAMETERS.get(name, ""))
