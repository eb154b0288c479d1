"""What librdkafka's errors mean to a bridge: whose fault they are, and whether trying again is of use."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoint import Disconnected, Failure
from exchange.errors import HashstarError, InputError

__all__ = ["PASSING", "REFUSALS", "Reasons", "failure_of", "told", "trouble_of"]

PASSING: Final = frozenset({
    KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD, KafkaError._WAIT_CACHE,
})  # fmt: skip
"""What librdkafka goes on trying by itself."""

REFUSALS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: True,
    KafkaError.INVALID_MSG: True,
    KafkaError.INVALID_RECORD: True,
    KafkaError._INVALID_ARG: True,
    # Of a batch all are refused for one of them: tried again, the others pass.
    KafkaError._INVALID_DIFFERENT_RECORD: False,
    KafkaError.INVALID_TIMESTAMP: False,
}
"""Errors that are a message's own, and whether trying it again is of no use. All others are the connection's, the
topic's or the account's: a message must not become a dead letter for a right that is missing."""

CONFIGURATION: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._UNKNOWN_PROTOCOL})


def told(error: KafkaError) -> str:
    """An error in words."""
    return f"{error.name()}: {error.str()}"


def trouble_of(error: KafkaError) -> Disconnected:
    """An error that ends the connection."""
    return Disconnected(told(error))


def failure_of(error: KafkaError) -> Failure:
    """An error that is a message's own."""
    return Failure(told(error), final=REFUSALS.get(error.code(), False))


class Reasons:
    """What a client told of its connections: the last word says why a call timed out."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self.trouble: Disconnected | None = None
        """It will not get better by itself."""

    def heard(self, error: KafkaError) -> None:
        """An ``error_cb``."""
        code = error.code()
        # That all brokers are down is told after why they are.
        if code != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error
        if error.fatal() or code in {KafkaError._AUTHENTICATION, KafkaError._FATAL}:
            self.trouble = trouble_of(error)

    def why(self, error: KafkaException) -> HashstarError:
        """What to raise for a call that failed."""
        cause: KafkaError = error.args[0]
        if cause.code() in CONFIGURATION:
            return InputError(f"librdkafka: {cause.str()}")
        if cause.code() in PASSING and self._last is not None:
            return trouble_of(self._last)
        return trouble_of(cause)
