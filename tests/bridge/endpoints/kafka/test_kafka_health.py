"""Problems of brokers, by librdkafka's statistics, and which lines of its log are written."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.client_errors import explain
from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster import checking
from bridge.endpoints.kafka.cluster.asking import make_admin
from bridge.endpoints.kafka.cluster.errors import CLOSED, LOG, MOVING, Reasons, describe_error
from bridge.endpoints.kafka.cluster.health import FORGOTTEN, NO_BROKER, PATIENCE, ClientHealth
from bridge.endpoints.kafka.config import KafkaSource
from bridge.endpoints.kafka.consumer.backlog import Backlog
from bridge.endpoints.kafka.consumer.member import GroupMember
from bridge.endpoints.kafka.producer.plain import Producing
from bridge.endpoints.kafka.producer.transaction import Transacting
from bridge.endpoints.kafka.producer.writer import RecordWriter
from tests.support.bridge.behaviour import Reports, on_a_loop
from tests.support.syntax import read_modules, walk
from tests.support.tiers import examples
from tests.support.waiting import find_limit

ROOT = Path(__file__).parents[4]
NAMELESS = explain("127.0.0.1:9092: no answer from name servers")
OURS = [("orders", 0)]


def broker(
    state: str = "UP",
    waiting: int = 0,
    answers: int = 7,
    node: int = 1,
    source: str = "learned",
    age: float = 0.0,
    throttle: int = 0,
) -> Any:
    """Return the statistics of a broker that has been in its state for ``age`` seconds."""
    return {
        "name": f"127.0.0.1:9092/{node}", "nodename": "127.0.0.1:9092", "nodeid": node, "source": source,
        "state": state, "stateage": int(age * 1e6), "waitresp_cnt": waiting, "rx": answers,
        "throttle": {"max": throttle},
    }  # fmt: skip


def statistics(*brokers: Any, leader: int = 1, group: str = "up") -> str:
    topics: Mapping[str, Any] = {"orders": {"partitions": {"0": {"leader": leader, "fetch_state": "active"}}}}
    named = {each["name"]: each for each in brokers}
    return json.dumps({"brokers": named, "topics": topics, "cgrp": {"state": group}})


@pytest.mark.parametrize(
    ("wrong", "trouble"),
    [
        (statistics(broker(waiting=1)), "broker 127.0.0.1:9092/1 does not answer"),
        (statistics(broker("DOWN")), "no broker is connected: why"),
        (statistics(broker("CONNECT", age=34.9)), "no broker is connected: why"),
        (statistics(broker("DOWN", node=2), broker("CONNECT", age=35.1)), f"no broker is connected: {NAMELESS}"),
        (statistics(broker("APIVERSION_QUERY"), broker(source="logical", node=-1)), "no broker is connected: why"),
        (statistics(broker("INIT"), group="query-coord"), "no broker is connected: why"),
        (statistics(broker("CONNECT"), broker(node=2)), "127.0.0.1:9092/1, which leads orders-0, is not connected"),
        (statistics(broker(), leader=-1), "orders-0 has no leader"),
        (statistics(broker(), group="wait-coord"), "the group has no coordinator that is connected"),
    ],
)
def test_a_problem_that_lasts_is_trouble_until_it_is_over(wrong: str, trouble: str) -> None:
    health = ClientHealth(lambda: "why")
    health.look(statistics(broker()), 90.0, OURS)
    health.look(wrong, 100.0, OURS)
    health.look(wrong, 100.0 + PATIENCE - 0.1, OURS)
    assert not health.trouble
    health.look(wrong, 100.0 + PATIENCE, OURS)
    assert health.trouble == trouble
    health.look(statistics(broker(answers=8)), 106.0, OURS)
    assert not health.trouble


@examples(300)
@given(st.lists(st.sampled_from(["INIT", "UP", "TRY_CONNECT", "DOWN"]), min_size=1, max_size=3), st.booleans())
@example(["INIT"], True)  # the broker was restarted, and the consumer has enough messages ahead
def test_a_consumer_is_in_trouble_only_for_what_it_needs(states: list[str], has_coordinator: bool) -> None:
    health = ClientHealth(lambda: "")
    shown = [broker(state, node=node) for node, state in enumerate(states)]
    for second in (0.0, PATIENCE):
        health.look(statistics(*shown, leader=0, group="up" if has_coordinator else "query-coord"), second, OURS)
    wants, has = {*states} - {"INIT"}, "UP" in states
    is_leader_away = states[0] not in {"INIT", "UP"}
    assert (health.trouble is not None) is (not has_coordinator or (bool(wants) and not has) or is_leader_away)


def test_a_broker_that_lets_a_client_wait_for_its_quota_is_not_said_to_be_silent_without_it() -> None:
    health = ClientHealth(lambda: "")
    health.look(statistics(broker(throttle=60_000)), 100.0, OURS)
    health.look(statistics(broker(waiting=1)), 101.0, OURS)
    health.look(statistics(broker(waiting=1)), 110.0, OURS)
    quota = "a quota of this client lets it wait for 50 s"
    assert health.trouble == f"broker 127.0.0.1:9092/1 does not answer: {quota}"
    assert health.find_quota(110.0) == quota  # as what is not confirmed, and looks that have no answer, say
    assert health.find_quota(110.0, "another") == health.find_quota(160.0 + PATIENCE) == ""
    assert health.find_quota(160.0) == "a quota of this client lets it wait"  # of many short ones, between two
    health.look(statistics(broker(waiting=1)), 161.0 + PATIENCE, OURS)
    assert health.trouble == "broker 127.0.0.1:9092/1 does not answer"


def test_a_broker_that_answers_each_of_many_requests_is_healthy() -> None:
    health = ClientHealth(lambda: "")
    for second in range(60):
        health.look(statistics(broker(waiting=1, answers=second)), float(second), OURS)
        assert health.trouble is None


COORDINATOR = broker("TRY_CONNECT", source="logical", node=-1)
"""All that a consumer has after an answer without brokers: the group's coordinator, without an address."""


def test_a_client_that_has_forgotten_all_brokers_is_abandoned() -> None:
    health = ClientHealth(lambda: "")
    health.look(statistics(broker("DOWN"), COORDINATOR, group="query-coord"), 100.0)
    health.look(statistics(COORDINATOR, group="query-coord"), 101.0)
    health.look(statistics(COORDINATOR, group="query-coord"), 100.0 + FORGOTTEN - 0.1)
    assert health.abandoned is None
    health.look(statistics(COORDINATOR, group="query-coord"), 100.0 + FORGOTTEN)
    assert health.abandoned == NO_BROKER


def test_a_client_whose_brokers_are_all_down_is_not_abandoned() -> None:
    health = ClientHealth(lambda: "")
    for second in range(60):
        for each in (broker("DOWN"), broker("TRY_CONNECT", source="configured", node=-1)):
            health.look(statistics(each, COORDINATOR, group="query-coord"), float(second))
            assert health.abandoned is None


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_is_made_anew_when_no_broker_is_connected_for_a_reason_of_tls(is_tls: bool) -> None:
    """It reads the files of certificates only once, and they may have been replaced since."""
    health = ClientHealth(lambda: "certificate verify failed", lambda _: is_tls)
    others = broker("DOWN"), broker("TRY_CONNECT", source="configured", node=-1)
    health.look(statistics(*others), 0.0)
    health.look(statistics(*others), PATIENCE - 0.1)
    assert health.abandoned is None
    health.look(statistics(*others), PATIENCE)
    assert health.abandoned == ("no broker is connected: certificate verify failed" if is_tls else None)
    health.look(statistics(*others, broker()), PATIENCE + 1)
    assert health.abandoned is None


def test_an_error_is_one_of_tls_until_another_one_comes() -> None:
    reasons, found = Reasons(), []
    found.append(reasons.may_be_tls(False))
    reasons.note_error(KafkaError(KafkaError._SSL))
    found.append(reasons.may_be_tls(False))
    refused = KafkaError(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed: Connection refused")
    for protocol in ("PLAINTEXT", "sasl_ssl"):
        reasons = Reasons({"security.protocol": protocol})
        for error in (refused, KafkaError(KafkaError._TRANSPORT, "Disconnected")):
            reasons.note_error(error)
            found.append(reasons.may_be_tls(False))
    assert found == [False, True, False, False, False, True]


@pytest.mark.parametrize(("sent", "is_anew"), [(7, False), (8, True)])
def test_a_broker_that_takes_a_request_and_hangs_up_may_refuse_a_certificate(sent: int, is_anew: bool) -> None:
    """Even if the last error that librdkafka gave is that of a broker which was not there, before its restart."""
    reasons = Reasons({"security.protocol": "ssl"})
    reasons.note_error(KafkaError(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed: Connection refused"))
    health = ClientHealth(lambda: reasons.latest, reasons.may_be_tls, connected=reasons.note_connected)
    for now, state, count in ((0.0, "UP", 7), (1.0, "TRY_CONNECT", 7), (1.0 + PATIENCE, "TRY_CONNECT", sent)):
        health.look(statistics({**broker(state), "tx": count}), now)
    assert health.abandoned == ("no broker is connected" if is_anew else None)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["error", "error of all", "statistics"]), st.integers(0, 2), st.sets(st.integers(0, 1))),
    max_size=12,
)


@examples(300)
@given(EVENTS, st.booleans())
@example([("error", 0, set()), ("statistics", 0, {1})], True)
@example([("error", 0, set()), ("statistics", 0, {0})], True)
@example([("error of all", 1, set()), ("statistics", 0, {1})], False)
def test_a_reason_is_no_error_that_a_broker_s_later_connection_has_ended(events: list[Any], with_tls: bool) -> None:
    """Broker 2 is one without an address of its own, as a group's coordinator is."""
    names = [f"{'ssl://' * with_tls}h:{port}" for port in (9092, 9093)]
    reasons = Reasons()
    health = ClientHealth(lambda: reasons.latest, connected=reasons.note_connected)
    expected: tuple[int, str] | None = None
    is_of_all = False
    for number, (event, which, up) in enumerate(events):
        if event == "statistics":
            shown = [
                {**broker("UP" if each in up else "DOWN", node=each), "name": f"{names[each]}/{each}"}
                for each in (0, 1)
            ]
            health.look(statistics(*shown), float(number))
            if up and expected is not None and expected[0] in up | {2}:
                expected = None
        else:
            text = f"{[*names, 'GroupCoordinator'][which]}{'/bootstrap' * (which < 2)}: failed {number}"
            if event == "error":
                reasons.note_error(KafkaError(KafkaError._TRANSPORT, text))
                expected, is_of_all = (which, f"failed {number}"), False
            else:  # which is reported after others, if there are others
                reasons.log(logging.DEBUG, "%s %s %s", "FAIL", "client", f"[thrd:x]: {text}")
                reasons.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down"))
                if expected is None or is_of_all:
                    expected, is_of_all = (which, f"failed {number}"), True
    assert reasons.latest.endswith(expected[1]) if expected is not None else reasons.latest == ""


@on_a_loop
async def test_abandoned_clients_end_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    for module in ("consumer.member", "producer.target", "producer.transaction"):
        monkeypatch.setattr(f"bridge.endpoints.kafka.{module}.monotonic", lambda: clock[0])
    own = {"group.id": "g", "statistics.interval.ms": 0}
    member = GroupMember(
        "kafka", own, Reasons(), window=10, transactional=False, backlog=Backlog("kafka", reads_committed=True)
    )
    member.connect()
    reports, writer = Reports(), RecordWriter({}, {})
    producing, transacting = Producing(reports, writer, Reasons()), Transacting(reports, writer, Reasons(), 10.0, 1_000)
    producing.producer = transacting.producer = Producer({})
    for clock[0] in (0.0, FORGOTTEN - 0.1, FORGOTTEN):
        assert (member.lost, producing.reasons.trouble, transacting.reasons.trouble) == (None, None, None)
        for report in (member._on_statistics, producing.on_statistics, transacting.on_statistics):
            report(statistics(COORDINATOR, group="query-coord"))
    assert str(member.lost) == str(producing.reasons.trouble) == str(transacting.reasons.trouble) == NO_BROKER
    producing.poll()
    assert [str(each) for each in reports.losses] == [NO_BROKER]
    with pytest.raises(Disconnected, match="knows no broker any more"):
        transacting.poll_errors()
    with pytest.raises(Disconnected, match="knows no broker any more"):
        transacting._retry(unanswered)
    member.consumer.close()


def unanswered(_: float) -> None:
    class Again(KafkaError):
        def retriable(self) -> bool:
            return True

    raise KafkaException(Again(KafkaError._TIMED_OUT))


def test_a_broker_that_is_not_needed_may_be_down() -> None:
    health = ClientHealth(lambda: "")
    for second in range(60):
        health.look(statistics(broker(), broker("DOWN", node=2)), float(second), OURS)
        assert health.trouble is None


def test_a_line_of_librdkafka_is_logged_once_a_minute_with_the_number_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr("bridge.endpoints.kafka.cluster.errors._logged", {})
    monkeypatch.setattr("bridge.endpoints.kafka.cluster.errors.monotonic", lambda: now)
    caplog.set_level(logging.DEBUG, LOG.name)
    for second in range(100):
        now = float(second)
        client = f"hashstar#producer-{second}"  # one that was lost is made anew
        text = f"[thrd:h:9092/1]: h:9092/1: Connect failed: refused (after 0ms, {second} identical error(s) suppressed)"
        Reasons().log(logging.ERROR, "%s [%s] %s", "FAIL", client, text)
    assert [record.getMessage().rpartition("suppressed)")[2] for record in caplog.records] == [
        "", " (59 such lines were left out)"
    ]  # fmt: skip
    Reasons().log(logging.ERROR, "%s [%s] %s", "FAIL", "hashstar#producer-1", "[thrd:h]: h:9092/1: Disconnected")
    assert caplog.records[-1].getMessage().endswith("Disconnected")


def test_a_producer_that_is_given_no_id_says_so_as_long_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("bridge.endpoints.kafka.cluster.errors.monotonic", lambda: now)
    reasons = Reasons()
    assert reasons.find_why_not_begun() == ""
    text = "Failed to acquire idempotence PID from broker h:9092/1: Broker: Coordinator load in progress: retrying"
    reasons.log(logging.ERROR, "%s [%s] %s", "GETPID", "hashstar#producer-1", f"[thrd:main]: {text}")
    reason = "the cluster has no producer id to give yet: Broker: Coordinator load in progress"
    assert reasons.find_why_not_begun() == reason
    now += 5.0
    assert reasons.find_why_not_begun() == ""


def test_every_client_of_kafka_is_given_where_it_logs() -> None:
    """One without a logger would write librdkafka's lines to standard error, whatever command has made it."""
    calls = [
        (path, node)
        for path, text in read_modules().items()
        if "confluent_kafka" in text  # few modules, of hundreds
        for node in walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"Consumer", "Producer", "AdminClient"}
    ]
    assert len(calls) > 5
    silent = [(name, node.lineno) for name, node in calls if "logger" not in {each.arg for each in node.keywords}]
    assert silent == []


def test_commands_let_no_line_of_a_clients_log_through() -> None:
    code = (
        "import logging\nfrom bridge.cli import OURS, Program\n"
        "for name in OURS: Program.load(name)\n"
        "for name in ('bridge.kafka', 'bridge.rocketmq.remoting.client', 'aiormq.connection', 'aio_pika', 'pika.x'):\n"
        "    logging.getLogger(name).error('raw')\n"
        "from bridge.endpoints.kafka.cluster.addresses import QUIET\nQUIET.error('raw')\n"
        "logging.getLogger('other').error('shown')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stderr == "shown\n"


def test_a_warning_about_a_setting_of_our_own_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """At each start librdkafka warns that it is experimental, and no user can change it."""
    caplog.set_level(logging.INFO, LOG.name)
    warning = "Configuration property enable.gapless.guarantee is experimental: When set to `true`, any error"
    Reasons().log(logging.WARNING, "%s [%s] %s", "CONFWARN", "hashstar#producer-1", f"[thrd:app]: {warning}")
    Reasons().log(logging.WARNING, "%s [%s] %s", "CONFWARN", "hashstar#producer-1", "[thrd:app]: ssl.x is deprecated")
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["ssl.x is deprecated"]


def test_an_admin_client_does_not_warn_of_the_settings_of_a_consumer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has them all, and takes no part in the group; the consumer itself warns of what is wrong with them."""
    monkeypatch.setattr("bridge.endpoints.kafka.cluster.errors._logged", {})
    caplog.set_level(logging.INFO, LOG.name)
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "earliest", "log_level": 4}
    client = make_admin(settings, Reasons())
    while "Connection refused" not in caplog.text:  # which comes behind what is wrong with the settings
        client.poll(0.1)
    assert "CONFWARN" not in caplog.text


def test_the_error_at_a_port_of_another_system_asks_whether_it_is_kafkas() -> None:
    text = (
        "127.0.0.1:5672/bootstrap: Receive failed: Invalid response size 1095586128 (0..100000000): increase "
        "receive.message.max.bytes"
    )
    assert "no Kafka broker; is this its port?" in describe_error(KafkaError(KafkaError._TRANSPORT, text))


BY_PEER = "h:9092/bootstrap: Disconnected: connection closed by peer: receive 0 after POLLIN (after 3ms in state UP)"
QUERY = "h:9092/bootstrap: Disconnected: connection reset by peer: requesting ApiVersion (after 1ms)"
BROKEN = "h:9092/bootstrap: Send failed: Broken pipe (after 2ms in state UP)"
RESET = "h:9092/bootstrap: Receive failed: Connection reset by peer (after 2ms in state AUTH_REQ)"
ALL = "1/1 brokers are down"


def reasons_of(*events: str) -> Reasons:
    """Return what a client knows after these lines of its log; some of them are errors, too."""
    reasons = Reasons()
    for event in events:
        if event != ALL:
            reasons.log(logging.ERROR, "%s [%s] %s", "FAIL", "hashstar#consumer-1", f"[thrd:{event[:6]}]: {event}")
        if event not in (BY_PEER, QUERY):
            code = KafkaError._ALL_BROKERS_DOWN if event == ALL else KafkaError._TRANSPORT
            reasons.note_error(KafkaError(code, event))
    return reasons


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([BY_PEER, ALL], BY_PEER),
        ([BY_PEER, BROKEN], BROKEN),
        ([BROKEN, BY_PEER], BROKEN),
        ([BY_PEER, BROKEN, ALL], BROKEN),
        ([ALL, BY_PEER, BROKEN], BROKEN),
        ([BY_PEER, ALL, RESET], RESET),
        ([BY_PEER], BY_PEER),
        ([QUERY, ALL], QUERY),
        ([QUERY], QUERY),
        ([RESET], RESET),
        ([ALL], ALL),
    ],
)
def test_a_connection_closed_by_brokers_is_explained_in_any_order_of_reports(events: list[str], last: str) -> None:
    for code in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
        text = str(reasons_of(*events).explain(KafkaException(KafkaError(code, "Failed to get metadata"))))
        assert f": {last}; " in text
        assert text.endswith(" whether they expect TLS, a password or a client certificate at this port")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._TRANSPORT, "h:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"),
        (KafkaError._TRANSPORT, "h:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection reset by peer"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed"),
    ],
)
def test_other_errors_are_not_explained_as_closed_connections(code: int, text: str) -> None:
    reasons = reasons_of(BY_PEER)
    if code == KafkaError._TRANSPORT:
        reasons.note_error(KafkaError(code, text))
    assert CLOSED not in (found := str(reasons.explain(KafkaException(KafkaError(code, text)))))
    assert f": {text}" in found


@on_a_loop
async def test_a_check_of_brokers_that_are_down_ends_soon() -> None:
    for address in ("127.0.0.1:1", "192.0.2.1:9092"):  # refused, and never answered
        source = KafkaSource("read", {"bootstrap.servers": address, "group.id": "g", "log_level": 0}, ["t"])
        async with asyncio.timeout(find_limit()):
            [found] = await source.check()
        assert found.level == "error"


def test_a_check_asks_no_admin_client_about_a_group_without_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AdminClient would use freed memory when the coordinator is not found in time."""

    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no coordinator"))

    monkeypatch.setattr(checking, "fetch_committed", fail)
    admin: Any = None
    [found] = checking._check_group(admin, {"group.id": "g"})
    assert (found.level, found.key, found.text) == ("error", "group", "group 'g': _TIMED_OUT: no coordinator")


@pytest.mark.parametrize("code", sorted(MOVING))
def test_a_group_whose_coordinator_is_moving_is_not_checked(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers answer so for some seconds after a restart, and a bridge waits."""

    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(code))

    monkeypatch.setattr(checking, "fetch_committed", fail)
    admin: Any = None
    [found] = checking._check_group(admin, {"group.id": "g"})
    assert (found.level, found.key) == ("not checked", "group")
    assert "check again in a minute" in found.text
