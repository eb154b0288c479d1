"""What librdkafka's errors mean to a bridge: what has caused them, and whether a further try can succeed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from bridge.aside import is_look_up_hanging
from bridge.client_errors import explain, explain_client_error
from bridge.endpoint import Disconnected, Failure
from bridge.endpoints.kafka.cluster.tokens import TOKENS, TokenLogin
from exchange.errors import HashstarError, InputError

LOG: Final = logging.getLogger("bridge.kafka")
"""Takes librdkafka's own lines, which would go to standard error; librdkafka gives them away while it is polled."""

LOG_LEVEL: Final = 5
"""Level of syslog's notices: these, and all that is more severe, are logged; a table's settings may ask for more."""

RECONNECT_MOST: Final = 2_000
"""Maximum number of milliseconds between tries to connect; librdkafka adds up to half of it by chance. Its default of
10 s would leave a broker that was restarted alone for that long."""

SETUP: Final = "socket.connection.setup.timeout.ms"
CONNECTING: Final[Mapping[str, Any]] = {
    "reconnect.backoff.max.ms": RECONNECT_MOST,
    # A broker that was cut off gets a new connection soon: on the old one, TCP's retransmissions get ever rarer.
    SETUP: 6_000,
    "socket.timeout.ms": 20_000,
}
"""Settings with which clients are connected soon after their brokers are back."""

PASSING: Final = frozenset({
    KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD, KafkaError._WAIT_CACHE,
})  # fmt: skip
"""Errors after which librdkafka goes on trying by itself."""

MOVING: Final = frozenset({
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip
"""Errors of a group whose coordinator is moving to another broker, or is reading its state, as after a restart."""

REFUSALS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: True, KafkaError.INVALID_MSG: True, KafkaError.INVALID_RECORD: True,
    KafkaError._INVALID_ARG: True, KafkaError.INVALID_TIMESTAMP: True, KafkaError.RECORD_LIST_TOO_LARGE: True,
    KafkaError._INVALID_DIFFERENT_RECORD: False,
}  # fmt: skip
"""Errors of a message, or of the batch that it was in -> whether sending it again, if it was alone, is of no use. All
others are the connection's, the topic's or the account's: a message must not become a dead letter because a permission
is missing."""

PERMISSIONS: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip
"""Errors that last until an administrator grants a permission."""

WITHHELD: Final = PERMISSIONS | {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
"""Errors of requests that a broker will refuse the next time, too. All others pass."""

PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of messages that were given up because of another message, or because their transaction failed."""

LOGGED_AGAIN: Final = 60.0
"""Seconds until the same line of librdkafka's is logged again: it writes some at every try to connect."""

NODE: Final = re.compile(r"/(bootstrap|[0-9]+)(?=: )")
"""A broker's number behind its address: the same broker may get another one when it is connected to again."""

HANG_UP: Final = re.compile("disconnected|closed by peer|reset by peer|broken pipe", re.IGNORECASE)
"""Errors of a connection that a broker closed. Which of these texts librdkafka uses depends on whether it was sending,
receiving or waiting at that moment."""

CONNECT: Final = "Connect to "
"""Part of errors of addresses at which no connection was accepted in the first place."""

CLOSED: Final = (
    "; the brokers close the connection: check that they are not being restarted, and whether they expect TLS, "
    "a password or a client certificate at this port"
)

GAPLESS: Final = "Gap-less ordering"
"""Part of the line that a producer logs when it stops, as one of its batches was refused."""

GAPLESS_SETTING: Final = "enable.gapless.guarantee"
"""The setting by which a producer stops so; librdkafka warns at each start that it is experimental."""

LOOKED_UP: Final = 3
"""Maximum number of a client's addresses that are looked up to find what hangs."""

LINES: Final = 200
"""Maximum number of lines that are remembered, so that they are not logged again at once."""

_logged: Final[dict[tuple[str, str, str], tuple[float, int]]] = {}
"""Kind of a line, its client's kind and its text -> when it was logged last, and how often it was left out since."""

WITHOUT_ID: Final = re.compile(r"Failed to acquire \w+ PID from broker [^ ]+: (.*?)(?:: retrying)?$")
"""Line of librdkafka's log about a producer without an id; no callback gets it."""
ASKED_AGAIN: Final = 5.0
"""Seconds after which a producer without an id would have asked again, several times."""

CONFIGURATION: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._UNKNOWN_PROTOCOL})
"""Errors of settings that contradict each other."""


def describe_error(error: KafkaError) -> str:
    """Return an error in words, with what it means."""
    text = error.str()
    if "receive.message.max.bytes" in text:
        text = f"{text.partition(': ')[0]}: what answers there is no Kafka broker; is this its port?"
    return explain(f"{error.name()}: {text}")


def to_disconnected(error: KafkaError) -> Disconnected:
    """Return the end of the connection that an error means."""
    return Disconnected(describe_error(error))


def to_failure(error: KafkaError) -> Failure:
    """Return the refusal that an error of a single message means."""
    return Failure(describe_error(error), final=REFUSALS.get(error.code(), False))


class Reasons:
    """The errors that a client has reported about its connections; the last one explains why a call timed out.

    It is the client's ``logger``, too: some failures are explained in librdkafka's log alone. ``settings`` are those
    that the client was made with.
    """

    def __init__(self, settings: Mapping[str, Any] = CONNECTING) -> None:
        self._last: KafkaError | None = None
        self._line = ""
        self._login: TokenLogin | None = settings.get(TOKENS)
        self._without_id = "", 0.0
        """Why the cluster had no producer id to give when it was asked last, and when that was, monotonic."""
        self._servers: Final = [each.strip() for each in str(settings.get("bootstrap.servers", "")).split(",")]
        self._uses_tls: Final = "SSL" in str(settings.get("security.protocol", "")).upper()
        self.connects_within: Final = float({**CONNECTING, **settings}[SETUP]) / 1_000
        """Seconds after which librdkafka ends the making of a connection, unless it hangs in the look-up of a name."""
        self.all_down = False
        """Whether all brokers were down at least once."""
        self.trouble: Disconnected | None = None
        """An error that does not pass by itself, as a wrong password; polling a producer raises what is fatal."""

    def log(self, level: int, form: str, *parts: str) -> None:
        """Log a line of librdkafka's, as `logging.Logger.log` does; its parts are its kind, the client and the text."""
        if parts[0] == "FATAL" and GAPLESS in parts[-1]:
            level = logging.DEBUG  # the producer is meant to stop at a batch that was refused
        if parts[0] == "CONFWARN" and GAPLESS_SETTING in parts[-1]:
            level = logging.DEBUG  # the setting is ours, and nobody can change it
        if parts[0] == "FAIL":
            self._line = parts[-1].rpartition("]: ")[2]
        if no_id := WITHOUT_ID.search(parts[-1]):
            self._without_id = f"the cluster has no producer id to give yet: {no_id[1]}", monotonic()
        if level <= logging.DEBUG:
            LOG.log(level, form, *parts)
            return
        kind = parts[0], parts[1].rpartition("-")[0], parts[-1].partition(" (")[0]
        now = monotonic()
        last, missed = _logged.get(kind, (float("-inf"), 0))
        if now - last < LOGGED_AGAIN:
            _logged[kind] = last, missed + 1
            return
        if len(_logged) >= LINES:
            _logged.clear()
        _logged[kind] = now, 0
        if missed:
            form, parts = f"{form} (%s such lines were left out)", (*parts, str(missed))
        LOG.log(level, form, *parts)

    def may_be_tls(self, hung_up: bool) -> bool:
        """Return whether the last error of a connection is one of TLS, or may be, as with brokers that took requests
        since and ``hung_up``. A broker that refuses the client's certificate closes the connection after the handshake
        (TLS 1.3). librdkafka may give no error for that, so the last one may be of the broker's restart before.
        """
        latest = self.latest
        other = not hung_up and (not latest or CONNECT in latest or "timed out" in latest)
        return "SSL" in latest or (self._uses_tls and not other)

    @property
    def latest(self) -> str:
        """Last error of a connection, without the parts that differ each time; "" if there is none that lasts."""
        if self._last is None:
            return ""
        text = self._line if self._last.code() == KafkaError._ALL_BROKERS_DOWN else describe_error(self._last)
        return NODE.sub("", text.partition(" (")[0])

    def find_why_not_begun(self) -> str:
        """Return why a producer cannot begin to write, as it asks for its id again and again; "" if that is not so."""
        reason, at = self._without_id
        return reason if monotonic() - at < ASKED_AGAIN else ""

    def note_connected(self, connected: Iterable[str], away: Iterable[str]) -> None:
        """Forget the last error, as these brokers are connected since; one of a broker that is ``away`` may last."""
        if self._last is not None:
            text = self._line if self._last.code() == KafkaError._ALL_BROKERS_DOWN else self._last.str()
            lasting = {NODE.sub("", f"{name}: ") for name in away} - {NODE.sub("", f"{name}: ") for name in connected}
            if not NODE.sub("", text).startswith(tuple(lasting)):
                self._last, self._line = None, ""

    def note_error(self, error: KafkaError) -> None:
        """Remember an error of a connection, as an ``error_cb``."""
        code = error.code()
        self.all_down = self.all_down or code == KafkaError._ALL_BROKERS_DOWN
        # That all brokers are down is reported after the errors by which they went down.
        if code != KafkaError._ALL_BROKERS_DOWN or self._last is None:
            self._last = error
        if self.trouble is None and (error.fatal() or code in {KafkaError._AUTHENTICATION, KafkaError._FATAL}):
            self.trouble = self._find_token_trouble() or to_disconnected(error)
            if self._login is not None and code == KafkaError._AUTHENTICATION:
                self._login.forget()

    def explain(self, error: KafkaException) -> HashstarError:
        """Return what to raise for a call that failed. To be called aside, as it may look names up."""
        cause: KafkaError = error.args[0]
        if (trouble := self._find_token_trouble()) is not None:
            return trouble
        if cause.code() in CONFIGURATION and "ssl." not in cause.str():  # files may be changed
            return InputError(f"librdkafka: {cause.str()}")
        passing = cause.code() in PASSING
        if passing and self._last is not None:
            cause = self._last
        elif passing and not self._line:  # librdkafka says nothing while it looks a name up
            for server in self._servers[:LOOKED_UP]:
                if is_look_up_hanging((server.rpartition(":")[0] or server).strip("[]")):
                    return Disconnected(f"{server}: no answer from name servers")
        text = describe_error(cause)
        all_down = cause.code() == KafkaError._ALL_BROKERS_DOWN
        if self._line and (all_down or (passing and self._last is None)):
            text = f"{cause.name()}: {self._line}"  # librdkafka logs some closed connections, and reports no error
        if explain_client_error(text) is None and (
            all_down or (cause.code() in PASSING and HANG_UP.search(text) and CONNECT not in text)
        ):
            text += CLOSED
        return Disconnected(text)

    def _find_token_trouble(self) -> Disconnected | None:
        """Return why there is no newer access token, which explains what brokers refuse."""
        text = None if self._login is None else self._login.tokens.trouble
        return None if text is None else Disconnected(text)

    @property
    def is_certain(self) -> bool:
        """Whether waiting is of no use: the client was refused, and would be in ten seconds, too."""
        return self.trouble is not None or "SSL" in self._line
