"""The table of all strategies."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from exchange.errors import InputError
from exchange.partition.clients import go, kafka, kafka_classic, kafka_producer, librdkafka, rabbitmq
from exchange.partition.clients.rocketmq import selectors as rocketmq
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitioning.other_clients import describe_others
from exchange.partition.python_function import PREFIX, STRATEGY
from exchange.partition.strategy import Strategy
from exchange.text.display import suggest

__all__ = ["STRATEGIES", "build_partitioner", "find_strategy"]

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType({
    strategy.name: strategy
    for module in (kafka, kafka_classic, kafka_producer, librdkafka, go, rocketmq, rabbitmq)
    for strategy in module.STRATEGIES
})  # fmt: skip
"""Name -> strategy. A name has the client that it mirrors, and the version from which on if clients changed."""


def find_strategy(name: str) -> Strategy:
    """Return the strategy of a name, ``kafka.murmur2``. Raises InputError, which lists or suggests names."""
    if name.startswith(PREFIX):
        return STRATEGY
    strategy = STRATEGIES.get(name)
    if strategy is None:
        others = describe_others(name)
        if others:
            raise InputError(f"no partitioner {name!r}; {'; '.join(others)}")
        raise InputError(f"no partitioner {name!r}{suggest(name, STRATEGIES, or_list=True)}")
    return strategy


def build_partitioner(name: str, **parameters: str) -> Partitioner:
    """Build the partitioner of a strategy; parameters are texts. Raises InputError for one that it does not take."""
    strategy = find_strategy(name)
    values = {key: _parse_parameter(strategy, key, text) for key, text in parameters.items()}
    try:
        return strategy.make(**values)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _parse_parameter(strategy: Strategy, parameter: str, text: str) -> Any:
    read = strategy.parameters.get(parameter)
    if read is None:
        takes = f"takes {', '.join(strategy.parameters)}" if strategy.parameters else "takes none"
        raise InputError(f"{strategy.name} has no parameter {parameter!r}; it {takes}")
    try:
        return read(text)
    except ValueError as error:
        raise InputError(f"{strategy.name}({parameter}={text}): {error}") from None
