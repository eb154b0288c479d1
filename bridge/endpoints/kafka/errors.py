"""What librdkafka's errors mean to a bridge: whose fault they are, and whether trying again is of use."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoint import Disconnected, Failure
from exchange.errors import HashstarError, InputError

__all__ = [
    "CONNECTING", "LOG", "LOG_LEVEL", "PASSING", "PURGED", "RECONNECT_MOST", "REFUSALS", "RIGHTS", "Reasons",
    "failure_of", "told", "trouble_of",
]  # fmt: skip

LOG: Final = logging.getLogger("bridge.kafka")
"""Where librdkafka's own lines go, which it would write to standard error; it gives them away while it is polled."""

LOG_LEVEL: Final = 5
"""Syslog's notices and all that is graver; the settings of a table may ask for more."""

RECONNECT_MOST: Final = 2_000
"""Milliseconds between tries to connect, half as many more by chance. librdkafka's own 10 s would leave a broker that
was restarted alone for so long."""

CONNECTING: Final[Mapping[str, Any]] = {
    "reconnect.backoff.max.ms": RECONNECT_MOST,
    # A broker that was cut off is connected to anew: what was sent to it meanwhile TCP repeats ever more seldom.
    "socket.connection.setup.timeout.ms": 6_000,
    "socket.timeout.ms": 20_000,
}
"""Settings of clients that are to be back soon after their brokers are."""

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

RIGHTS: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip
"""Errors that are there until somebody with more rights does something."""

PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of messages that were given up because of another's, or because of a transaction that failed."""

TOLD_AGAIN: Final = 60.0
"""Seconds after which the same line of librdkafka's is logged again: it writes some at every try to connect."""

NODE: Final = re.compile(r"/(bootstrap|\d+)(?=: )")
"""What librdkafka has behind a broker's address: one that is connected to once more may be another to it."""

HANG_UP: Final = re.compile("disconnected|closed by peer|reset by peer|broken pipe", re.IGNORECASE)
"""A connection that a broker closed. Which of these texts librdkafka has depends on whether it was sending, receiving
or waiting at that moment."""

CONNECT: Final = "Connect to "
"""Of an address at which nobody accepted the connection in the first place."""

CLOSED: Final = (
    "; the brokers close the connection: check that they are not being restarted, and whether they expect TLS, "
    "a password or a client certificate at this port"
)

LINES: Final = 200
"""Maximum number of lines that are remembered."""

_written: Final[dict[tuple[str, str, str], tuple[float, int]]] = {}
"""Kind of a line, its client's kind and its text -> when it was logged last, and how often it was not since."""

CONFIGURATION: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._UNKNOWN_PROTOCOL})


def told(error: KafkaError) -> str:
    """An error in words."""
    text = error.str()
    if "receive.message.max.bytes" in text:
        text = f"{text.partition(': ')[0]}: what answers there is no Kafka broker; is this its port?"
    return f"{error.name()}: {text}"


def trouble_of(error: KafkaError) -> Disconnected:
    """An error that ends the connection."""
    return Disconnected(told(error))


def failure_of(error: KafkaError) -> Failure:
    """An error that is a message's own."""
    return Failure(told(error), final=REFUSALS.get(error.code(), False))


class Reasons:
    """What a client told of its connections: the last word says why a call timed out.

    It is the client's ``logger``, too: of some failures only the log says what happened.
    """

    def __init__(self) -> None:
        self._last: KafkaError | None = None
        self._line = ""
        self.all_down = False
        """Whether there was no broker to talk to, at least once."""
        self.trouble: Disconnected | None = None
        """It will not get better by itself. What is fatal is raised by polling instead."""

    def log(self, level: int, form: str, *parts: str) -> None:
        """A line of librdkafka's, as `logging.Logger.log` takes it: what it is of, the client, the text."""
        if parts[0] == "FAIL":
            self._line = parts[-1].rpartition("]: ")[2]
        if level <= logging.DEBUG:
            LOG.log(level, form, *parts)
            return
        kind = parts[0], parts[1].rpartition("-")[0], parts[-1].partition(" (")[0]
        now = monotonic()
        last, missed = _written.get(kind, (float("-inf"), 0))
        if now - last < TOLD_AGAIN:
            _written[kind] = last, missed + 1
            return
        if len(_written) >= LINES:
            _written.clear()
        _written[kind] = now, 0
        if missed:
            form, parts = f"{form} (%s such lines were left out)", (*parts, str(missed))
        LOG.log(level, form, *parts)

    @property
    def latest(self) -> str:
        """The last error of a connection, without what changes from one time to the next; "" if there was none."""
        if self._last is None:
            return ""
        text = self._line if self._last.code() == KafkaError._ALL_BROKERS_DOWN else told(self._last)
        return NODE.sub("", text.partition(" (")[0])

    def heard(self, error: KafkaError) -> None:
        """An ``error_cb``."""
        code = error.code()
        self.all_down = self.all_down or code == KafkaError._ALL_BROKERS_DOWN
        # That all brokers are down is told after why they are.
        if code != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error
        if self.trouble is None and (error.fatal() or code in {KafkaError._AUTHENTICATION, KafkaError._FATAL}):
            self.trouble = trouble_of(error)

    def why(self, error: KafkaException) -> HashstarError:
        """What to raise for a call that failed."""
        cause: KafkaError = error.args[0]
        if cause.code() in CONFIGURATION and "ssl." not in cause.str():  # files may be changed
            return InputError(f"librdkafka: {cause.str()}")
        passing = cause.code() in PASSING
        if passing and self._last is not None:
            cause = self._last
        text = told(cause)
        all_down = cause.code() == KafkaError._ALL_BROKERS_DOWN
        if self._line and (all_down or (passing and self._last is None)):
            text = f"{cause.name()}: {self._line}"  # librdkafka logs some closed connections, and reports no error
        if all_down or (cause.code() in PASSING and HANG_UP.search(text) and CONNECT not in text):
            text += CLOSED
        elif "certificate verify failed" in text:
            text += "; no authority in ca_file knows the brokers' certificate"
        return Disconnected(text)

    @property
    def certain(self) -> bool:
        """Whether waiting is of no use: whoever is refused now is refused in ten seconds."""
        return self.trouble is not None or "SSL" in self._line
