"""The default exchange: each routing key is the name of a queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from exchange.entities.entities import Binding
from exchange.kinds.direct import DirectExchange
from exchange.values.message import Message

__all__ = ["Default"]


class Default(DirectExchange):
    """The first clause of `rabbit_exchange.erl route/3`: queues imply the bindings, so none are stored."""

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        return [Binding.to_queue("", key, key) for key in dict.fromkeys(keys)]
