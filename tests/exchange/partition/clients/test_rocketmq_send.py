"""What a producer does after each outcome: as recorded from the real one; asynchronous sends as in its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.send import (
    EXCEPTIONS,
    RETRY_RESPONSE_CODES,
    STATUSES,
    FaultUpdate,
    Next,
    Outcome,
    Sending,
    SendSettings,
    SuccessfulTry,
    Thrown,
    begin,
    proceed,
    proceed_async,
)
from tests.recorders import golden
from tests.recorders.rocketmq_send import SENDS

RECORDED = golden.names("rocketmq-send-")
STORED = {0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT"}


def outcome_of(name: str, code: int, mode: str) -> Outcome:
    if name != "response":
        return Thrown(name)
    if mode == "oneway":
        return SuccessfulTry()
    return SuccessfulTry(STORED[code]) if code in STORED else Thrown("MQBrokerException", code)


def send(version: str, script: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `RocketmqSend.java` for a script, as our functions compute it."""
    given = script["settings"]
    settings = SendSettings(
        version,
        retry_times_when_send_failed=given["setRetryTimesWhenSendFailed"],
        send_msg_timeout=given["setSendMsgTimeout"],
        send_msg_max_timeout_per_request=given["setSendMsgMaxTimeoutPerRequest"],
        retry_another_broker_when_not_store_ok=given["setRetryAnotherBrokerWhenNotStoreOK"],
        start_detector_enable=script["detector"],
    )
    mode: Any = "oneway" if script["how"] == "oneway" else "sync"
    coming = begin(settings, Sending(mode, selected=script["how"] == "selector"))
    tries: list[int | None] = []
    faults: list[list[bool]] = []
    elapsed = 0
    for name, delay, code in script["outcomes"]:
        if coming.action != "try":
            break
        tries.append(None if name == "MQClientException" else coming.timeout)
        elapsed += delay
        coming = proceed(settings, coming.sending, outcome_of(name, code, mode), elapsed)
        if coming.fault is not None:
            faults.append([coming.fault.isolated, coming.fault.reachable])
    assert coming.action != "try"
    result: dict[str, Any] = {"tries": tries, "faults": faults}
    if isinstance(coming.outcome, SuccessfulTry):
        result["return"] = coming.outcome.status
    elif isinstance(coming.outcome, Thrown):
        result["throw"] = coming.outcome.exception
        result["code"] = coming.outcome.code
    return result


@pytest.mark.parametrize("name", RECORDED)
def test_a_send_goes_as_with_the_real_producer(name: str) -> None:
    recorded = golden.read(name)
    assert len(SENDS) >= 400
    for script, there in zip(SENDS, recorded["sends"], strict=True):
        result = send(recorded["version"], script | {"detector": script["detector"] and recorded["version"] == "5.5.0"})
        assert {"code": -1} | result == {"code": -1} | there


OUTCOMES = st.one_of(
    st.sampled_from(STATUSES).map(SuccessfulTry),
    st.sampled_from([name for name in EXCEPTIONS if name != "MQBrokerException"]).map(Thrown),
    st.sampled_from([1, 2, 13, 14, 1500]).map(lambda code: Thrown("MQBrokerException", code)),
)
VERSIONS = st.sampled_from(["4.0", "4.2.0", "4.7.1", "4.9.8", "5.1.4", "5.3.3"])
LAST_DIGITS = {1: "4.0", 2: "5.3.0", 14: "4.0", 16: "4.0", 17: "4.0", 204: "4.0", 205: "4.0", 1500: "5.3.1"}


@given(VERSIONS, st.integers(0, 4), st.booleans(), st.lists(OUTCOMES, min_size=5, max_size=5))
def test_a_send_ends_after_its_tries_and_what_was_stored_is_never_an_error(
    version: str, retries: int, not_stored: bool, outcomes: list[Outcome]
) -> None:
    settings = SendSettings(
        version, retry_times_when_send_failed=retries, retry_another_broker_when_not_store_ok=not_stored
    )
    coming, tried = begin(settings, Sending()), 0
    while coming.action == "try":
        coming = proceed(settings, coming.sending, outcomes[tried], 0)
        tried += 1
    stored = [outcome for outcome in outcomes[:tried] if isinstance(outcome, SuccessfulTry)]
    assert tried <= 1 + retries
    assert coming.outcome is not None
    if stored and outcomes[tried - 1] != Thrown("InterruptedException"):
        assert (coming.action, coming.outcome) == ("return", stored[-1])
    else:
        assert coming.action == "throw"


@given(st.sampled_from(["sync", "oneway"]), OUTCOMES)
def test_a_message_with_a_chosen_queue_is_sent_once_and_leaves_no_fault(mode: Any, outcome: Outcome) -> None:
    settings = SendSettings(retry_another_broker_when_not_store_ok=True)
    coming = proceed(settings, Sending(mode, selected=True), outcome, 0)
    assert coming.action == ("return" if isinstance(outcome, SuccessfulTry) else "throw")
    assert coming.fault is None


def test_the_response_codes_that_are_retried_are_those_of_the_version() -> None:
    assert {code: since for code, (_, since) in RETRY_RESPONSE_CODES.items()} == {
        code: tuple(map(int, version.split("."))) for code, version in LAST_DIGITS.items()
    }
    assert not SendSettings("5.2.0").retries(2)
    assert SendSettings("5.3.0").retries(2)
    assert SendSettings("4.9.2", more_retry_response_codes=frozenset({215})).retries(215)
    assert not SendSettings("4.9.1", more_retry_response_codes=frozenset({215})).retries(215)


def test_before_4_3_each_try_has_the_whole_timeout() -> None:
    failed = Thrown("RemotingTimeoutException")
    coming = proceed(SendSettings("4.2.0"), Sending(), failed, 9000)
    assert (coming.action, coming.timeout) == ("try", 3000)
    coming = proceed(SendSettings("4.3.0"), Sending(), failed, 1000)
    assert (coming.action, coming.timeout) == ("try", 2000)
    coming = proceed(SendSettings("4.3.0"), Sending(), failed, 3001)
    assert coming.outcome == Thrown("RemotingTooMuchRequestException")


def test_since_5_1_4_the_index_begins_anew_for_a_second_try() -> None:
    for version, anew in (("5.1.3", False), ("5.1.4", True)):
        settings = SendSettings(version)
        assert not begin(settings, Sending()).reset_index
        assert proceed(settings, Sending(), Thrown("RemotingConnectException"), 0).reset_index is anew


SELECTED, FREE = Sending("async", selected=True), Sending("async")
NO_ANSWER, TOO_MUCH, REFUSED = (
    Thrown("RemotingTimeoutException"), Thrown("RemotingTooMuchRequestException"), Thrown("RemotingConnectException"),
)  # fmt: skip


def async_next(
    version: str, sending: Sending, outcome: Outcome, remaining: int = 900, *, at_once: bool = False
) -> Next:
    return proceed_async(SendSettings(version), sending, outcome, remaining, at_once=at_once)


@pytest.mark.parametrize(
    ("version", "outcome", "at_once", "action", "fault"),
    [
        # MQClientAPIImpl.sendMessageAsync, operationComplete; what the broker stored is a success, however safely.
        ("4.7.1", SuccessfulTry("FLUSH_DISK_TIMEOUT"), False, "return", FaultUpdate(False)),
        ("5.5.0", SuccessfulTry("SLAVE_NOT_AVAILABLE"), False, "return", FaultUpdate(False)),
        # A broker's error is never retried.
        ("4.7.1", Thrown("MQBrokerException", 14), False, "throw", FaultUpdate(True)),
        ("5.5.0", Thrown("MQBrokerException", 14), False, "throw", FaultUpdate(True)),
        ("4.7.1", NO_ANSWER, False, "try", FaultUpdate(True)),
        ("5.5.0", NO_ANSWER, False, "try", FaultUpdate(True)),
        # 5.3.0: operationFail spares RemotingTooMuchRequestException.
        ("5.2.0", TOO_MUCH, False, "try", FaultUpdate(True)),
        ("5.3.0", TOO_MUCH, False, "throw", FaultUpdate(True)),
        # invokeAsync itself throws: 4.0-4.9.2 catch it in onExceptionImpl, later ones in sendMessageAsync.
        ("4.9.2", REFUSED, True, "try", FaultUpdate(True, latency=3000)),
        ("4.9.2", TOO_MUCH, True, "throw", None),
        ("4.9.2", Thrown("InterruptedException"), True, "throw", None),
        ("4.9.3", TOO_MUCH, True, "try", FaultUpdate(True)),
        ("5.1.4", REFUSED, True, "try", FaultUpdate(True, reachable=False)),
    ],
)
def test_an_asynchronous_send_goes_as_in_the_sources(
    version: str, outcome: Outcome, at_once: bool, action: str, fault: FaultUpdate | None
) -> None:
    coming = async_next(version, FREE, outcome, at_once=at_once)
    assert (coming.action, coming.fault) == (action, fault)


def test_an_asynchronous_retry_of_a_chosen_queue_goes_to_the_same_broker() -> None:
    assert async_next("5.5.0", FREE, NO_ANSWER).another_broker
    assert not async_next("5.5.0", SELECTED, NO_ANSWER).another_broker


def test_asynchronous_retries_end_with_their_number_and_since_5_3_2_with_the_time() -> None:
    assert async_next("5.5.0", FREE._replace(tries=1), NO_ANSWER).action == "try"
    assert async_next("5.5.0", FREE._replace(tries=2), NO_ANSWER).outcome == Thrown("MQClientException")
    assert async_next("5.3.1", FREE, NO_ANSWER, 0).action == "try"
    assert async_next("5.3.2", FREE, NO_ANSWER, 0).action == "throw"


def test_up_to_4_6_an_asynchronous_retry_has_no_time() -> None:
    assert [async_next(version, FREE, NO_ANSWER, 900).timeout for version in ("4.6.1", "4.7.0")] == [0, 900]


def test_an_invalid_outcome_is_refused() -> None:
    for outcome in (SuccessfulTry("OK"), Thrown("IOException")):
        with pytest.raises(InputError, match="is no outcome of a send"):
            proceed(SendSettings(), Sending(), outcome, 0)
