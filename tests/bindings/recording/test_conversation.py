"""A connection is recorded by what passes, not by how it is cut; passwords and messages are in no recording."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.recording.conversation import Conversation
from bindings.recording.ledger import CLIENTS, Ledger
from bindings.sources.recording.file import format_recording, read_recording
from bindings.sources.recording.model import ACCEPTED, RecordedAnswer, RecordedClient, RecordedRequest, Recording
from tests.support.amqp_talk import Sent, close, frame, handshake, message, method

NOW = "2026-05-01T12:00:00Z"
names = st.sampled_from(["a", "b", "", "amq.gen-1"])
tables = st.dictionaries(
    st.sampled_from(["x-message-ttl", "x-queue-type", "n"]), st.sampled_from([1, "quorum", True, None, [1, {"a": 2}]])
)
KINDS = ("queue", "exchange", "bind", "publish", "refuse", "end", "shutdown", "beat", "qos", "damage")
EXCHANGE, QUEUE = ("exchange.declare-ok", "queue.declare-ok")


@st.composite
def talks(draw: st.DrawFn) -> list[Sent]:
    """Draw what two sides say: requests with their answers, refusals, messages, heartbeats, and damage at times."""
    talk = handshake(draw(st.sampled_from(["shop", "billing"])), draw(st.sampled_from(["/", "shop"])))
    if draw(st.integers(0, 9)) == 0:
        del talk[2:]  # hostile: it goes on without having named itself
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(KINDS))
        name = draw(names)
        if kind == "queue":
            talk.append(Sent("client", method("queue.declare", queue=name, durable=True, arguments=draw(tables))))
            talk.append(Sent("broker", method("queue.declare-ok", queue=name or "amq.gen-1")))
        elif kind == "exchange":
            talk.append(Sent("client", method("exchange.declare", exchange=name, type="topic", nowait=True)))
        elif kind == "bind":
            talk.append(Sent("client", method("queue.bind", queue=name, exchange="e", routing_key="k")))
            talk.append(Sent("broker", method("queue.bind-ok")))
        elif kind == "publish":
            talk.append(Sent("client", message("e", "secret-key", draw(st.binary(max_size=300)), mandatory=True)))
            talk.append(Sent("broker", method("basic.return", reply_code=312, exchange="e", routing_key="secret-key")))
        elif kind == "refuse":
            talk.append(Sent("client", method("queue.declare", queue=name, passive=True)))
            talk.append(Sent("broker", close(404, f"NOT_FOUND - no queue '{name}'", (50, 10))))
            talk.append(Sent("client", method("channel.close-ok") + method("channel.open")))
            talk.append(Sent("broker", method("channel.open-ok")))
        elif kind == "end":  # it blames no call that is recorded
            talk.append(Sent("broker", close(406, "PRECONDITION_FAILED - unknown delivery tag 7", (60, 80))))
            talk.append(Sent("client", method("channel.close-ok") + method("channel.open")))
        elif kind == "shutdown":
            talk.append(Sent("broker", close(320, "CONNECTION_FORCED - shutdown", (0, 0), 0)))
        elif kind == "qos":
            talk.append(Sent("client", method("basic.qos", prefetch_count=5, is_global=True)))
            talk.append(Sent("client", method("basic.consume", queue=name, consumer_tag="secret-tag")))
            talk.append(Sent("broker", method("basic.qos-ok") + method("basic.consume-ok", consumer_tag="secret-tag")))
        elif kind == "beat":
            talk.append(Sent(draw(st.sampled_from(["client", "broker"])), frame(8, 0, b"")))
        else:
            talk.append(Sent(draw(st.sampled_from(["client", "broker"])), draw(st.binary(max_size=30))))
    return talk


def carry(talk: list[Sent], ledger: Ledger) -> None:
    conversation = Conversation(ledger)
    for side, data in talk:
        (conversation.from_client if side == "client" else conversation.from_broker)(data)


def record(talk: list[Sent], ledger: Ledger | None = None) -> Recording:
    """Return the recording after one more connection."""
    ledger = Ledger("127.0.0.1:5672", lambda: NOW) if ledger is None else ledger
    carry(talk, ledger)
    return ledger.copy_recording()


def written(recording: Recording) -> str:
    return b"".join(format_recording(recording)).decode()


@given(talks(), st.data())
def test_any_cut_of_what_is_said_gives_the_same_recording(talk: list[Sent], data: st.DataObject) -> None:
    cut: list[Sent] = []
    for side, sent in talk:
        size = data.draw(st.integers(1, max(1, len(sent))))
        cut += [Sent(side, sent[at : at + size]) for at in range(0, len(sent), size)]
    assert written(record(cut)) == written(record(talk))


@given(talks())
def test_what_is_recorded_can_be_read_again(talk: list[Sent]) -> None:
    recording = record(talk)
    read = read_recording(written(recording), "asked.jsonl")
    assert (read.requests, read.publishing) == (recording.requests, recording.publishing)


@given(talks())
def test_passwords_keys_headers_and_bodies_are_in_no_recording(talk: list[Sent]) -> None:
    text = written(record(talk))
    assert "hunter2" not in text
    assert "secret-" not in text


@given(talks(), talks())
def test_equal_connections_are_counted_and_not_repeated(one: list[Sent], other: list[Sent]) -> None:
    ledger = Ledger("127.0.0.1:5672", lambda: NOW)
    record(one, ledger)
    lines = len(written(record(other, ledger)).splitlines())
    record(one, ledger)
    assert len(written(record(other, ledger)).splitlines()) == lines


def requests_of(recording: Recording, name: str) -> list[RecordedRequest]:
    return [each for each in recording.requests if each.method == name]


def test_the_handshake_is_recorded_without_the_password() -> None:
    recording = record(handshake())
    assert recording.connections == {RecordedClient("Client", "1.0", "Python", "shop"): 1}
    assert recording.brokers == ["RabbitMQ 3.10.8"]
    assert [(each.method, dict(each.arguments), each.was_accepted) for each in recording.requests] == [
        ("connection.start-ok", {"mechanism": "PLAIN"}, True),
        ("connection.tune-ok", {"channel_max": 2047, "frame_max": 4096, "heartbeat": 60}, True),
        ("connection.open", {}, True),
    ]


def test_secrets_in_names_of_connections_and_in_arguments_are_not_recorded() -> None:
    arguments = {
        "x-password": "hunter2", "x-Secret-Thing": ["hunter2"], "x-uri": "amqp://u:hunter2@h/v",
        "x-inner": {"api-token": "hunter2"}, "x-list": ["amqp://u:hunter2@h"], "x-dead-letter-routing-key": "a:b@c",
    }  # fmt: skip
    talk = [
        *handshake("amqp://shop:hunter2@h worker"),
        Sent("client", method("queue.declare", queue="a", arguments=arguments)),
    ]
    recording = record(talk)
    assert "hunter2" not in written(recording)
    assert [client.name for client in recording.connections] == ["amqp://***@h worker"]
    [declared] = requests_of(recording, "queue.declare")
    assert declared.arguments["arguments"]["x-dead-letter-routing-key"] == "a:b@c"
    assert declared.arguments["arguments"]["x-password"] == "***"


def test_calls_of_channels_that_were_closed_wait_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a connection that opens channels for years would not be read any more."""
    monkeypatch.setattr("bindings.recording.conversation.WAITING", 3)
    talk = handshake()
    for number in range(9):
        talk.append(Sent("client", method("queue.declare", queue=f"q{number}") * 2))
        talk.append(Sent("broker", close(404, "NOT_FOUND - no", (50, 10))))
        talk.append(Sent("client", method("channel.close-ok") + method("channel.open")))
        talk.append(Sent("broker", method("channel.open-ok")))
    assert len(requests_of(record(talk), "queue.declare")) == 9


def test_answers_belong_to_the_calls_that_wait_for_them() -> None:
    """Two calls are sent before the first is answered; what waits behind a refusal gets no answer."""
    talk = [
        *handshake(),
        Sent("client", method("queue.declare", queue="a") + method("queue.declare", queue="b")),
        Sent("client", method("queue.declare", queue="c")),
        Sent("broker", method("queue.declare-ok", queue="a") + close(406, "PRECONDITION_FAILED - no", (50, 10))),
    ]
    answers = {each.arguments["queue"]: dict(each.answers) for each in requests_of(record(talk), "queue.declare")}
    assert answers == {"a": {ACCEPTED: 1}, "b": {RecordedAnswer(406, "PRECONDITION_FAILED - no"): 1}, "c": {}}


def test_a_refusal_that_closes_the_connection_belongs_to_its_call_on_any_channel() -> None:
    talk = [
        *handshake(),
        Sent("client", method("channel.open", 7) + method("basic.qos", 7, prefetch_count=1, is_global=True)),
        Sent("broker", method("channel.open-ok", 7) + close(540, "NOT_IMPLEMENTED - no", (60, 10), 0)),
    ]
    [qos] = requests_of(record(talk), "basic.qos")
    assert qos.answers == {RecordedAnswer(540, "NOT_IMPLEMENTED - no"): 1}


def test_a_refused_handshake_belongs_to_its_step() -> None:
    talk = [*handshake()[:3], Sent("broker", close(403, "ACCESS_REFUSED - login", (0, 0), 0))]
    [start] = requests_of(record(talk), "connection.start-ok")
    assert start.answers == {RecordedAnswer(403, "ACCESS_REFUSED - login"): 1}


def test_queues_that_the_broker_names_have_no_name() -> None:
    talk = [
        *handshake(),
        Sent("client", method("queue.declare", exclusive=True)),
        Sent("broker", method("queue.declare-ok", queue="amq.gen-JzTY20BRgKO-HjmUJj0wLg")),
        Sent("client", method("queue.bind", queue="amq.gen-JzTY20BRgKO-HjmUJj0wLg", exchange="e", routing_key="k")),
    ]
    assert "JzTY20" not in written(record(talk))
    [bind] = requests_of(record(talk), "queue.bind")
    assert bind.arguments["queue"] == ""


def test_a_consumer_is_recorded_with_the_prefetch_of_its_channel() -> None:
    qos = method("basic.qos", prefetch_count=9, is_global=True)
    recording = record([*handshake(), Sent("client", qos + method("basic.consume", queue="q"))])
    [consume] = requests_of(recording, "basic.consume")
    assert (consume.arguments["prefetch_count"], consume.arguments["prefetch_global"]) == (9, True)


def test_messages_are_counted_by_exchange() -> None:
    talk = [
        *handshake(),
        Sent("client", message("e", "k", b"x" * 250) + message("e", "other", b"x" * 50)),
        Sent("client", message("f", "k", b"", mandatory=True)),
        Sent("broker", method("basic.return", reply_code=312, exchange="f")),
        Sent("broker", close(404, "NOT_FOUND - no exchange 'e' in vhost '/'", (60, 40))),
    ]
    rows = {each.exchange: each for each in record(talk).publishing}
    assert (rows["e"].messages, rows["e"].max_bytes, rows["e"].mandatory) == (2, 250, False)
    assert rows["e"].answers == {RecordedAnswer(404, "NOT_FOUND - no exchange 'e' in vhost '/'"): 1}
    assert (rows["f"].messages, rows["f"].returned, rows["f"].mandatory) == (1, 1, True)


@pytest.mark.parametrize(
    ("sent", "side", "reason"),
    [
        (b"nonsense", "client", "no frame of AMQP 0-9-1"),
        (frame(1, 1, b"\x00\x32\x00\x0a\x00"), "client", "a method that cannot be decoded"),
        (frame(1, 1, b"\x00\x3c\x00\x28\x00\x00\xff"), "client", "a method that cannot be decoded"),
        (frame(1, 1, b"\x00\x32\x00\x0b\xff"), "broker", "a method that cannot be decoded"),
    ],
)
def test_what_cannot_be_read_ends_the_reading_and_is_counted(sent: bytes, side: Any, reason: str) -> None:
    declare = Sent("client", method("queue.declare", queue="later"))
    recording = record([*handshake(), Sent(side, sent), declare])
    assert [(each.side, each.reason, count) for each, count in recording.unread.items()] == [(side, reason, 1)]
    assert not requests_of(recording, "queue.declare")


def test_methods_that_are_not_known_pass() -> None:
    """Such as connection.blocked, which only the broker sends."""
    talk = [*handshake(), Sent("broker", frame(1, 0, b"\x00\x0a\x00\x3c\x03low")), *handshake()[-2:]]
    assert not record(talk).unread


def test_a_full_recording_counts_what_it_has_and_what_it_leaves_out() -> None:
    ledger = Ledger("127.0.0.1:5672", lambda: NOW, most=5_000)
    first = method("queue.declare", queue="first")
    many = b"".join(method("queue.declare", queue=f"q{number}") for number in range(100))
    recording = record([*handshake(), Sent("client", first + many + first)], ledger)
    kept = requests_of(recording, "queue.declare")
    assert kept[0].count == 2
    assert len(kept) + recording.left_out == 101
    assert recording.left_out > 90
    assert len(written(recording)) < 8_000


def test_too_many_clients_lose_their_names_and_not_their_requests() -> None:
    ledger = Ledger("127.0.0.1:5672", lambda: NOW)
    for number in range(CLIENTS + 50):
        carry([*handshake(f"shop-{number}"), Sent("client", method("queue.declare", queue="q"))], ledger)
    recording = ledger.copy_recording()
    assert len(recording.connections) <= CLIENTS + 1
    assert sum(each.count for each in requests_of(recording, "queue.declare")) == CLIENTS + 50


def test_each_line_is_an_object_with_its_kind() -> None:
    text = written(record([*handshake(), Sent("client", message("e", "k", b""))]))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["kind"] for line in lines] == ["recording", "client", "request", "request", "request", "publishing"]
