"""What RocketMQ's Java producer does after each try to send: return, try another broker, or throw.

A `Sending` is the state of one message. `begin` and `proceed` return the next action, as the loop in
`DefaultMQProducerImpl.sendDefaultImpl` does; `proceed_async` returns what `MQClientAPIImpl` does after an asynchronous
try. Times are arguments, in milliseconds. `exchange.partition.clients.rocketmq.faults` chooses the queue of a try.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.round_robin import find_era

Mode = Literal["sync", "async", "oneway"]

STATUSES: Final = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
"""`SendStatus`: with each of them the broker has the message; with the last three, not as safely as configured."""

RETRY_RESPONSE_CODES: Final[Mapping[int, tuple[str, tuple[int, ...]]]] = MappingProxyType({
    1: ("SYSTEM_ERROR", (4, 0)),
    2: ("SYSTEM_BUSY", (5, 3, 0)),
    14: ("SERVICE_NOT_AVAILABLE", (4, 0)),
    16: ("NO_PERMISSION", (4, 0)),
    17: ("TOPIC_NOT_EXIST", (4, 0)),
    204: ("NO_BUYER_ID", (4, 0)),
    205: ("NOT_IN_CURRENT_UNIT", (4, 0)),
    1500: ("GO_AWAY", (5, 3, 1)),
})  # fmt: skip
"""Answers of a broker after which another broker is tried: code -> name, and the first version that does so."""

EXCEPTIONS: Final[Mapping[str, int]] = MappingProxyType({
    "MQBrokerException": 0,
    "MQClientException": 10003,
    "InterruptedException": -1,
    "RemotingConnectException": 10001,
    "RemotingTimeoutException": 10002,
    "RemotingSendRequestException": -1,
    "RemotingTooMuchRequestException": -1,
    "RemotingException": -1,
})  # fmt: skip
"""Exception of the last try -> response code of the MQClientException thrown by ``send``; 0: the broker's own code."""

UNSET: Final = -1


class SuccessfulTry(NamedTuple):
    """A try by which the broker has the message."""

    status: str = "SEND_OK"


class Thrown(NamedTuple):
    """A try that failed with one of ``EXCEPTIONS``; MQClientException where no address of the broker is known."""

    exception: str
    code: int = UNSET
    """Response code of an MQBrokerException or MQClientException."""


Outcome = SuccessfulTry | Thrown


class FaultUpdate(NamedTuple):
    """Arguments of `FaultStrategy.update` for a broker."""

    isolated: bool
    reachable: bool = True
    latency: int | None = None
    """Latency in milliseconds; None: that of the try."""


@dataclass(frozen=True, slots=True)
class SendSettings:
    """Configuration of a producer, with the names of `DefaultMQProducer`; times are in milliseconds."""

    version: str = "5.3.3"
    retry_times_when_send_failed: int = 2
    retry_times_when_send_async_failed: int = 2
    send_msg_timeout: int = 3000
    """Timeout of all tries together since 4.3.0; of each try before."""
    send_msg_max_timeout_per_request: int = -1
    """Maximum timeout of each try but the last, since 5.3.3; -1: no maximum."""
    retry_another_broker_when_not_store_ok: bool = False
    more_retry_response_codes: frozenset[int] = frozenset()
    """``addRetryResponseCode``, since 4.9.2."""
    start_detector_enable: bool = False
    """Whether brokers with faults are probed, since 5.1.4."""

    def __post_init__(self) -> None:
        find_era(self.version)

    def is_since(self, *version: int) -> bool:
        """Return whether the client has at least this version."""
        return (*map(int, self.version.split(".")), 0, 0) >= version

    def retries(self, code: int) -> bool:
        """Return whether another broker is tried after this response code."""
        _, since = RETRY_RESPONSE_CODES.get(code, ("", (1 << 16,)))
        return self.is_since(*since) or (self.is_since(4, 9, 2) and code in self.more_retry_response_codes)


class Sending(NamedTuple):
    """The state of a message that is being sent."""

    mode: Mode = "sync"
    selected: bool = False
    """Whether a selector or the caller chose the queue; then it is tried once, and no fault is recorded."""
    tries: int = 0
    """Number of tries that have ended."""
    stored: SuccessfulTry | None = None
    """Last answer of a broker that has the message."""
    thrown: Thrown | None = None
    """Last failure."""


class Next(NamedTuple):
    """The next action after a try."""

    action: Literal["try", "return", "throw"]
    sending: Sending
    outcome: Outcome | None = None
    """Outcome to return (None where ``send`` returns before there is an answer) or to throw."""
    timeout: int = 0
    """Timeout of the try."""
    fault: FaultUpdate | None = None
    """Fault to record for the broker of the try that has ended; None: none."""
    another_broker: bool = True
    """Whether to select a queue for the try, given the last broker; else broker and queue stay the same."""
    reset_index: bool = False
    """Argument of the selection: whether the thread's index begins anew (since 5.1.4)."""


def begin(settings: SendSettings, sending: Sending, elapsed: int = 0) -> Next:
    """Return the first try, ``elapsed`` milliseconds after ``send`` was called."""
    return _try_or_end(settings, sending, elapsed, None)


def proceed(settings: SendSettings, sending: Sending, outcome: Outcome, elapsed: int) -> Next:
    """Return what to do after the outcome of a try, ``elapsed`` milliseconds after ``send`` was called.

    In modes async and oneway the outcome is that of writing the message to the connection: Sent once it is written.
    Raises InputError for an unknown outcome.
    """
    _check(outcome)
    fault = None if sending.selected else _fault(settings, outcome)
    sending = sending._replace(tries=sending.tries + 1)
    if isinstance(outcome, SuccessfulTry):
        sending = sending._replace(stored=outcome)
        if sending.mode != "sync":
            return Next("return", sending, None, fault=fault)
        if sending.selected or outcome.status == "SEND_OK" or not settings.retry_another_broker_when_not_store_ok:
            return Next("return", sending, outcome, fault=fault)
    else:
        sending = sending._replace(thrown=outcome)
        if sending.selected or outcome.exception == "InterruptedException":
            return Next("throw", sending, outcome, fault=fault)
        if outcome.exception == "MQBrokerException" and not settings.retries(outcome.code):
            return Next("return" if sending.stored else "throw", sending, sending.stored or outcome, fault=fault)
    return _try_or_end(settings, sending, elapsed, fault)


def proceed_async(
    settings: SendSettings, sending: Sending, outcome: Outcome, remaining: int, *, at_once: bool = False
) -> Next:
    """Return what to do after the outcome of an asynchronous try; "return" and "throw" are onSuccess and onException.

    ``remaining`` is the rest of the try's timeout. ``at_once`` is true if the message could not be written; before
    4.9.3, call `proceed` if that happens at the first try. A retry of a message whose queue was selected goes to the
    same broker; all retries keep the queueId, whatever broker they go to.
    """
    _check(outcome)
    sending = sending._replace(tries=sending.tries + 1)
    if isinstance(outcome, SuccessfulTry):
        return Next("return", sending._replace(stored=outcome), outcome, fault=FaultUpdate(isolated=False))
    is_refused = outcome.exception == "MQBrokerException"
    too_much = outcome.exception == "RemotingTooMuchRequestException"
    fault: FaultUpdate | None = FaultUpdate(isolated=True, reachable=not at_once or not settings.is_since(5, 1, 4))
    if is_refused:
        retry = False
    elif not at_once:
        retry = not (too_much and settings.is_since(5, 3, 0))
        outcome = Thrown("MQClientException")
    elif settings.is_since(4, 9, 3):
        retry = True
    else:
        retry = not too_much and outcome.exception != "InterruptedException"
        # These releases of the client note it for the broker tried before, and not for the one that failed.
        fault = FaultUpdate(isolated=True, latency=3000) if retry else None
    sending = sending._replace(thrown=outcome)
    if not retry or sending.tries > settings.retry_times_when_send_async_failed:
        return Next("throw", sending, outcome, fault=fault)
    if settings.is_since(5, 3, 2) and remaining <= 0:
        return Next("throw", sending, outcome, fault=fault)
    # Up to 4.6.1 a retry has a timeout of 0, and fails unless its answer is there at once.
    timeout = remaining if settings.is_since(4, 7, 0) else 0
    return Next("try", sending, timeout=timeout, fault=fault, another_broker=not sending.selected)


def _try_or_end(settings: SendSettings, sending: Sending, elapsed: int, fault: FaultUpdate | None) -> Next:
    """Return another try while tries and time are left; else the last answer of a broker, or what ``send`` throws."""
    retries = settings.retry_times_when_send_failed if sending.mode == "sync" and not sending.selected else 0
    late = settings.is_since(4, 3, 0) and settings.send_msg_timeout < elapsed
    if sending.tries > retries or late:
        if sending.stored is not None:
            return Next("return", sending, sending.stored, fault=fault)
        if sending.tries > retries and sending.thrown is not None:
            code = sending.thrown.code if sending.thrown.exception == "MQBrokerException" else UNSET
            code = EXCEPTIONS[sending.thrown.exception] or code
            return Next("throw", sending, Thrown("MQClientException", code), fault=fault)
        return Next("throw", sending, Thrown("RemotingTooMuchRequestException"), fault=fault)
    timeout = settings.send_msg_timeout - (elapsed if settings.is_since(4, 3, 0) else 0)
    limit = settings.send_msg_max_timeout_per_request
    if settings.is_since(5, 3, 3) and limit > -1 and sending.tries < retries:
        timeout = min(timeout, limit)
    again = sending.tries > 0 and settings.is_since(5, 1, 4)
    return Next("try", sending, timeout=timeout, fault=fault, another_broker=not sending.selected, reset_index=again)


def _fault(settings: SendSettings, outcome: Outcome) -> FaultUpdate:
    if isinstance(outcome, SuccessfulTry) or outcome.exception == "InterruptedException":
        return FaultUpdate(isolated=False)
    if not settings.is_since(5, 1, 4):
        return FaultUpdate(isolated=True)
    if outcome.exception == "MQClientException":
        return FaultUpdate(isolated=False)
    if outcome.exception == "MQBrokerException":
        return FaultUpdate(isolated=True, reachable=False)
    # Only the detector could make the broker reachable again.
    return FaultUpdate(isolated=True, reachable=not settings.start_detector_enable)


def _check(outcome: Outcome) -> None:
    name, known = (
        (outcome.status, STATUSES) if isinstance(outcome, SuccessfulTry) else (outcome.exception, tuple(EXCEPTIONS))
    )
    if name not in known:
        raise InputError(f"{name!r} is no outcome of a send; there are {', '.join(known)}")
