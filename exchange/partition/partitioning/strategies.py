"""Every strategy there is, by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from exchange.errors import InputError
from exchange.partition.clients import go, kafka, librdkafka, rabbitmq
from exchange.partition.clients.rocketmq import selectors as rocketmq
from exchange.partition.partitioner import Partitioner
from exchange.partition.strategy import Strategy

__all__ = ["STRATEGIES", "partitioner_named", "find_strategy"]

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType({
    strategy.name: strategy for module in (kafka, librdkafka, go, rocketmq, rabbitmq) for strategy in module.STRATEGIES
})  # fmt: skip
"""Name -> strategy; the names say whom they mirror and, where clients changed, from which version."""


def find_strategy(name: str) -> Strategy:
    """The strategy of this name, ``kafka.murmur2``. Raises InputError, with what there is, for others."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        near = get_close_matches(name, STRATEGIES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(STRATEGIES)}"
        raise InputError(f"no partitioner {name!r}; {hint}")
    return strategy


def partitioner_named(name: str, **parameters: str) -> Partitioner:
    """Its partitioner, with parameters as texts. Raises InputError for a parameter it does not take."""
    strategy = find_strategy(name)
    values = {key: _read(strategy, key, text) for key, text in parameters.items()}
    try:
        return strategy.make(**values)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _read(strategy: Strategy, parameter: str, text: str) -> Any:
    read = strategy.parameters.get(parameter)
    if read is None:
        takes = f"takes {', '.join(strategy.parameters)}" if strategy.parameters else "takes none"
        raise InputError(f"{strategy.name} has no parameter {parameter!r}; it {takes}")
    try:
        return read(text)
    except ValueError as error:
        raise InputError(f"{strategy.name}({parameter}={text}): {error}") from None
