"""``hashstar upgrade --declares``: what recorded applications are refused by a new release, and by what is there."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bindings.sources.recording.model import (
    ACCEPTED,
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
)
from bindings.upgrading.forms.applications import explain_fact
from bindings.upgrading.releases import release_of
from bindings.upgrading.requests.answering import AnsweringHost
from bindings.upgrading.requests.applications import REFUSALS, find_refused
from exchange import Binding, Exchange, Queue, Topology
from tests.support.cases import with_each
from tests.support.program import invoke
from tests.support.recordings import SHOP, publishing, recording, request, text_of

QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}
ACTIVE = {"x-single-active-consumer": True}
THERE = Topology(
    [Exchange("orders", "topic"), Exchange("inner", "fanout", internal=True)],
    [
        Queue("jobs"),
        Queue("replicated", arguments=QUORUM),
        Queue("log", arguments=STREAM),
        Queue("one", arguments=ACTIVE),
    ],
    [Binding.to_queue("orders", "jobs", "#")],
)
OTHER = RecordedClient("amqplib", "0.10.3", "node", "prices")


def refused(
    *rows: RecordedRequest | RecordedPublishing,
    topology: Topology = THERE,
    new: str = "4.3",
    permitted: Sequence[str] = (),
) -> list[tuple[str, int | None, str]]:
    """Return fact, code and text of what a release refuses or takes for something else."""
    release = release_of(new)
    found = find_refused([topology.with_profile(release.profile)], [recording(*rows)], release, frozenset(permitted))
    return [(each.fact, each.answer.code, each.answer.text) for each in (*found.refused, *found.changed)]


@with_each(
    ("row", "fact", "code", "text"),
    [
        (request("queue.declare", queue="jobs", durable=True, arguments={"x-max-length": 5}), "HSU301", 406,
         ("PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'jobs' in vhost '/': received the value '5' "
         "of type 'long' but current is none")),
        (request("queue.declare", queue="jobs"), "HSU301", 406,
         ("PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'jobs' in vhost '/': received 'false' but "
         "current is 'true'")),
        (request("queue.declare", queue="replicated", durable=True), "HSU301", 406,
         "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'replicated' in vhost '/': received"),
        (request("exchange.declare", exchange="orders", type="direct", durable=True), "HSU301", 406,
         ("PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'orders' in vhost '/': received 'direct' but "
         "current is 'topic'")),
        (request("exchange.declare", exchange="", type="direct", durable=True), "HSU304", 403,
         "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (request("queue.declare", queue="new"), "HSU005", 541,
         "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated"),
        (request("queue.declare", queue="new", durable=True, arguments={"x-queue-version": 1}), "HSU001", 406,
         "PRECONDITION_FAILED - invalid arg 'x-queue-version' for queue 'new' in vhost '/': "),
        (request("queue.bind", queue="jobs", exchange="orders", routing_key="#.a.#.b.#"), "HSU003", 406,
         "PRECONDITION_FAILED"),
        (request("queue.declare", queue="gone", passive=True), "HSU302", 404,
         "NOT_FOUND - no queue 'gone' in vhost '/'"),
        (request("basic.consume", queue="gone"), "HSU302", 404, "NOT_FOUND - no queue 'gone' in vhost '/'"),
        (publishing("gone"), "HSU302", 404, "NOT_FOUND - no exchange 'gone' in vhost '/'"),
        (publishing("inner"), "HSU304", 403,
         "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"),
        (publishing("orders", size=(16 << 20) + 1), "HSU102", 406,
         "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"),
        (request("basic.consume", queue="log"), "HSU303", 406,
         "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue 'log' in vhost '/'"),
        (request("basic.consume", queue="log", prefetch_count=5, no_ack=True), "HSU303", 540,
         "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queue 'log' in vhost '/'"),
        (request("basic.consume", queue="jobs", arguments={"x-consumer-timeout": 50}), "HSU303", 406,
         ("PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'jobs' in vhost '/' of queue type "
         "rabbit_classic_queue")),
        (request("basic.consume", queue="replicated", arguments={"x-consumer-timeout": "3000"}), "HSU303", 406,
         ("PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'replicated' in vhost '/': \"expected "
         'integer, got longstr"')),
        (request("basic.consume", queue="one", exclusive=True), "HSU304", 403,
         "ACCESS_REFUSED - queue 'one' in vhost '/' in exclusive use"),
        (request("basic.get", queue="log"), "HSU303", 540,
         "NOT_IMPLEMENTED - basic.get not supported by stream queues queue 'log' in vhost '/'"),
        (request("queue.delete", queue="replicated", if_unused=True), "HSU303", 540,
         ("NOT_IMPLEMENTED - cannot delete queue 'replicated' in vhost '/'. queue.delete operations with if-unused "
         "flag set are not supported by quorum queues")),
        (request("connection.tune-ok", vhost="", frame_max=4096), "HSU103", 0, ("the connection is closed without an "
         "answer; its log: negotiated frame_max = 4096 is lower than the minimum allowed value (8192)")),
        (request("basic.qos", prefetch_count=5, is_global=True), "HSU104", None, ""),
    ],
)  # fmt: skip
def test_a_request_is_refused_with_the_words_of_the_broker(
    row: RecordedRequest | RecordedPublishing, fact: str, code: int | None, text: str
) -> None:
    [found] = refused(row)
    assert found[:2] == (fact, code)
    assert found[2].startswith(text)


@with_each(
    "row",
    [
        request("queue.declare", queue="jobs", durable=True),
        request("queue.declare", queue="jobs", passive=True),
        request("queue.declare", queue="new", exclusive=True),
        request("queue.declare", queue=""  , exclusive=True),
        request("queue.bind", queue="", exchange="orders", routing_key="k"),
        request("basic.consume", queue="jobs"),
        request("basic.consume", queue="jobs", exclusive=True),
        request("basic.consume", queue="replicated", exclusive=True),  # as before
        request("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True),
        request("basic.qos", prefetch_count=5),
        request("basic.qos", prefetch_count=0, is_global=True),
        request("connection.tune-ok", vhost="", frame_max=0),
        request("connection.tune-ok", vhost="", frame_max=8192),
        request("exchange.declare", exchange="mine", type="x-of-a-plugin", durable=True),
        publishing("orders"),
        publishing(""),
    ],
)  # fmt: skip
def test_what_the_new_release_accepts_is_no_finding(row: RecordedRequest | RecordedPublishing) -> None:
    assert refused(row) == []


def test_what_was_refused_when_it_was_recorded_is_counted_apart() -> None:
    answer = RecordedAnswer(404, "NOT_FOUND - no queue 'gone' in vhost '/'")
    found = find_refused([THERE], [recording(request("basic.consume", queue="gone", answer=answer))], release_of("4.3"))
    assert (found.refused, len(found.already), found.severity) == ((), 1, None)


def test_an_exchange_type_that_the_recorded_broker_lacked_is_refused_again() -> None:
    """One that it had, or that nothing is known of, is taken for a plugin that the new broker has, too."""
    unknown = RecordedAnswer(503, "COMMAND_INVALID - unknown exchange type 'x-nope'")
    lacked = request("exchange.declare", exchange="e", type="x-nope", answer=unknown)
    release = release_of("4.3")
    [topology] = [Topology(profile=release.profile)]
    found = find_refused([topology], [recording(lacked)], release)
    assert (found.refused, [each.answer for each in found.already]) == (
        (), [RecordedAnswer(406, "PRECONDITION_FAILED - unknown exchange type 'x-nope'")],
    )  # fmt: skip
    had = request("exchange.declare", exchange="other", type="x-nope")
    for rows in ([had], [had, lacked], [lacked, had]):
        found = find_refused([topology], [recording(*rows)], release)
        assert (found.refused, found.already) == ((), ())


def test_a_global_prefetch_on_a_quorum_queue_is_refused_where_it_is_shared() -> None:
    consume = request("basic.consume", queue="replicated", prefetch_count=5, prefetch_global=True)
    text = "NOT_IMPLEMENTED - queue 'replicated' in vhost '/' does not support global qos"
    assert refused(consume, new="4.2") == [("HSU303", 540, text)]
    assert refused(consume, permitted=["global_qos"]) == [("HSU303", 540, text)]
    assert refused(consume) == []


@pytest.mark.parametrize(
    ("arguments", "is_shared"), [({}, False), (QUORUM, True), (STREAM, True), ({**QUORUM, **ACTIVE}, False)]
)
def test_an_exclusive_consumer_keeps_no_others_away_from_what_is_no_classic_queue_any_more(
    arguments: dict[str, Any], is_shared: bool
) -> None:
    consume = request("basic.consume", queue="q", exclusive=True, prefetch_count=5)
    release, before = release_of("4.3"), Topology(queues=[Queue("q")])
    after = Topology(queues=[Queue("q", arguments=arguments)], profile=release.profile)
    found = find_refused([after], [recording(consume)], release, before=[before])
    assert ([each.fact for each in found.changed], found.refused) == (["HSU305"] * is_shared, ())
    assert found.severity == ("warning" if is_shared else None)


def test_what_clients_have_declared_makes_room_and_what_the_topology_has_does_not() -> None:
    one = request("queue.declare", queue="new", durable=True)
    other = request("queue.declare", queue="new", durable=True, arguments={"x-max-length": 5})
    assert refused(one, other) == []
    assert len(refused(one, other, topology=Topology(queues=[Queue("new")]))) == 1
    deletion = request("queue.delete", queue="new")
    assert refused(one, other, deletion, topology=Topology(queues=[Queue("new")])) == []


def test_an_exclusive_queue_makes_room_for_one_that_is_not() -> None:
    """For clients that came one after the other; on one connection the second declaration is refused."""
    rows = [request("queue.declare", queue="mine", durable=True, exclusive=each) for each in (True, False, True)]
    assert refused(*rows) == []
    host = AnsweringHost(THERE, release_of("4.3"))
    answers = [host.answer("queue.declare", row.arguments).answer.code for row in rows]
    assert answers == [None, 405, 405]


def test_a_deleted_exclusive_queue_locks_no_other_one_of_its_name() -> None:
    host = AnsweringHost(THERE, release_of("4.3"))
    shared, exclusive = (request("queue.declare", queue="mine", durable=True, exclusive=each) for each in (False, True))
    rows = [exclusive, request("queue.delete", queue="mine"), shared, shared]
    assert [host.answer(row.method, row.arguments).answer.code for row in rows] == [None] * 4


def test_the_order_of_clients_does_not_matter() -> None:
    """A consumer may have been recorded before the client that declares its queue."""
    rows = [
        request("basic.consume", queue="new"), request("queue.bind", queue="new", exchange="mine", routing_key="k"),
        request("queue.declare", queue="new", durable=True), request("exchange.declare", exchange="mine", type="topic"),
    ]  # fmt: skip
    assert refused(*rows) == refused(*reversed(rows)) == []


def test_equal_requests_of_several_clients_are_one_with_all_of_them() -> None:
    rows = [
        request("basic.consume", queue="gone", client=client, count=count) for client, count in ((SHOP, 2), (OTHER, 7))
    ]
    [found] = find_refused([THERE], [recording(rows[0]), recording(rows[1])], release_of("4.3")).refused
    assert found.clients == ((SHOP, 2), (OTHER, 7))


@pytest.mark.parametrize("declares", [True, False])
def test_a_part_that_the_new_release_refuses_stays_and_its_declaration_is_refused(declares: bool) -> None:
    """As after an upgrade in place: it has no 404 for what is there, and a queue that nobody can read answers so."""
    rows = [request("basic.consume", queue="old"), request("queue.declare", queue="old", passive=True)]
    if declares:
        rows.append(request("queue.declare", queue="old", durable=True, arguments={"x-queue-version": 1}))
    topology = Topology([], [Queue("old", arguments={"x-queue-version": 1})])
    assert [fact for fact, *_ in refused(*rows, topology=topology)] == ["HSU001"] * declares
    assert refused(*rows, topology=topology, new="4.2") == []
    odd = Topology([], [Queue("old", arguments={**QUORUM, "x-consumer-timeout": 1.8e6})])
    assert [fact for fact, *_ in refused(rows[0], topology=odd)] == ["HSU057"]


def test_all_kinds_of_refusals_are_explained() -> None:
    assert all(map(all, map(explain_fact, (*REFUSALS, "HSU001", "HSU005", "HSU102", "HSU103", "HSU104"))))


def test_a_host_answers_to_methods_that_are_never_refused() -> None:
    assert AnsweringHost(THERE, release_of("4.3")).answer("confirm.select", {}).answer == ACCEPTED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.bindings").write_text("queue jobs: x-queue-version = 2\n")
    made = recording(
        request("queue.declare", queue="jobs", durable=True, arguments={"x-max-priority": 5}, client=OTHER, count=12),
        request("basic.qos", prefetch_count=5, is_global=True),
        request("queue.declare", queue="q\x1b[31m", vhost="shop"),
    )
    made.left_out = 3
    (tmp_path / "asked.jsonl").write_text(text_of(made))
    return tmp_path


run = partial(invoke, "upgrade")


def test_the_command_names_code_text_clients_and_counts(folder: Path) -> None:
    result = run("shop.bindings", "--from", "3.13", "--declares", "asked.jsonl")
    assert result.exit_code == 1
    assert "HSU301 queue.declare 'jobs': an application declares with other arguments" in result.stdout
    assert "the broker: 406 PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'jobs'" in result.stdout
    assert "asked by: prices (amqplib 0.10.3), 12 times" in result.stdout
    assert "HSU104 basic.qos with prefetch_count = 5, global" in result.stdout
    assert "virtual hosts that the topology lacks: 'shop'" in result.stdout
    assert "not recorded, as there was no room: 3 calls" in result.stdout
    assert "\x1b" not in result.stdout


def test_all_forms_have_the_applications(folder: Path) -> None:
    arguments = ("shop.bindings", "--from", "3.13", "--declares", "asked.jsonl", "--html", "page.html")
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)["applications"]
    assert [each["code"] for each in found["refused"]] == [406, 541]
    assert found["refused"][0]["clients"] == [
        {"product": "amqplib", "version": "0.10.3", "platform": "node", "name": "prices", "count": 12}
    ]
    assert [each["fact"] for each in found["changed"]] == ["HSU104"]
    assert (found["unknown_vhosts"], found["left_out"]) == (["shop"], 3)
    markdown = run(*arguments, "--format", "markdown").stdout
    assert "- [ ] HSU301 queue.declare 'jobs'" in markdown
    page = (folder / "page.html").read_text()
    assert "prices (amqplib 0.10.3), 12 times" in page
    assert "\x1b" not in page + markdown


def test_permitted_features_and_thresholds_decide_the_exit_code(folder: Path) -> None:
    (folder / "asked.jsonl").write_text(text_of(recording(request("queue.declare", queue="fleeting"))))
    arguments = ("shop.bindings", "--from", "3.13", "--declares", "asked.jsonl")
    assert run(*arguments).exit_code == 1
    assert run(*arguments, "--permit", "transient_nonexcl_queues").exit_code == 0
    assert run(*arguments, "--fail-on", "never").exit_code == 0
    assert run(*arguments, "--permit", "everything").exit_code == 2
    assert run(*arguments, "--other-address", "amqp://127.0.0.1").exit_code == 2


def test_a_recording_is_compared_with_what_it_declares_itself(folder: Path) -> None:
    result = run("asked.jsonl", "--to", "4.3", "--format", "json")
    assert json.loads(result.stdout)["from"].startswith("3.10")
    assert [each["code"] for each in json.loads(result.stdout)["applications"]["refused"]] == [541]


def test_a_tracing_log_shows_exchanges_that_will_be_missing(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = [{"exchange": "gone", "routing_key": "k"}] * 3 + [{"exchange": "amq.topic", "routing_key": "k"}]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("shop.bindings", "--from", "3.13", "--declares", "log.jsonl", "--format", "json")
    [found] = json.loads(result.stdout)["applications"]["refused"]
    assert (found["code"], found["arguments"], found["clients"][0]["count"]) == (404, {"exchange": "gone"}, 3)


def test_what_is_neither_recording_nor_archive_is_bad_input(folder: Path) -> None:
    (folder / "asked.jsonl").write_text("something else")
    result = run("shop.bindings", "--from", "3.13", "--declares", "asked.jsonl")
    assert result.exit_code == 2
    assert "asked.jsonl: " in result.output
    assert "and it is no recording of hashstar record: that begins with its kind" in result.output


def test_the_line_that_a_recording_ends_in_is_named(folder: Path) -> None:
    head = (folder / "asked.jsonl").read_text().splitlines()[0]
    (folder / "asked.jsonl").write_text(f'{head}\n{{"kind": "cli')
    result = run("shop.bindings", "--from", "3.13", "--declares", "asked.jsonl")
    assert result.exit_code == 2
    assert "asked.jsonl: line 2: not JSON: Unterminated string starting at column 10\n" in result.output


@pytest.mark.parametrize("packed", [False, True])
def test_a_recording_may_come_from_a_pipe_of_the_shell(folder: Path, packed: bool) -> None:
    data = (folder / "asked.jsonl").read_bytes()
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(data) if packed else data)  # a pipe holds that much
    os.close(writing)
    result = run("shop.bindings", "--from", "3.13", "--format", "json", "--declares", f"/dev/fd/{reading}")
    os.close(reading)
    assert json.loads(result.stdout)["applications"]["refused"]


def test_a_named_pipe_without_a_writer_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    result = run("shop.bindings", "--from", "3.13", "--declares", "pipe")
    assert result.exit_code == 2
    assert "pipe: cannot be read: it is a pipe or a device" in result.output


def test_applications_are_compared_with_the_transformed_topology(folder: Path) -> None:
    """A queue that is to become a quorum queue is still declared without a type, and shares a prefetch."""
    (folder / "shop.bindings").write_text('queue jobs\npolicy ha: "^jobs", queues, ha-mode = "all"\n')
    rows = [
        request("queue.declare", queue="jobs", durable=True),
        request("basic.consume", queue="jobs", prefetch_count=5, prefetch_global=True),
    ]
    (folder / "asked.jsonl").write_text(text_of(recording(*rows)))
    arguments = ("shop.bindings", "--from", "3.13", "--to", "4.2", "--declares", "asked.jsonl", "--format", "json")
    plain, transformed = (
        json.loads(run(*arguments, *more).stdout)["applications"]["refused"]
        for more in ((), ("--transform", "default"))
    )
    assert plain == []
    assert [(each["fact"], each["code"]) for each in transformed] == [("HSU301", 406), ("HSU303", 540)]
    assert transformed[1]["text"] == "NOT_IMPLEMENTED - queue 'jobs' in vhost '/' does not support global qos"


@pytest.mark.parametrize("method", ["basic.consume", "basic.get"])
@pytest.mark.parametrize(("release", "code"), [("4.2", None), ("4.3.1", 541), ("4.3.6", 541)])
def test_a_queue_whose_timeout_is_no_integer_answers_no_reader_since_4_3(
    method: str, release: str, code: int | None
) -> None:
    topology = Topology(queues=[Queue("q", arguments={"x-queue-type": "quorum", "x-consumer-timeout": 1.8e6})])
    foretold = AnsweringHost(topology, release_of(release)).answer(method, request(method, queue="q").arguments)
    assert (foretold.answer.code, foretold.fact) == (code, "HSU057" if code else "")
