"""The file of a recording: what is written comes back, what is none is refused with its line, and it is a topology."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings import load
from bindings.cli import find_command
from bindings.sources.recording.file import read_recording
from bindings.sources.recording.model import (
    RecordedAnswer,
    RecordedPublishing,
    RecordedRequest,
    Recording,
    UnreadConnections,
)
from exchange import Binding, InputError, Queue
from tests.support.recordings import random_recording, recording, request, text_of

REFUSED = RecordedAnswer(404, "NOT_FOUND - no queue 'gone' in vhost '/'")


def values(made: Recording) -> tuple[object, ...]:
    rows: list[RecordedRequest | RecordedPublishing] = [*made.requests, *made.publishing]
    return made.upstream, made.brokers, made.opened, made.left_out, made.connections, made.unread, rows


@given(st.integers(0, 10_000))
def test_what_is_written_comes_back(seed: int) -> None:
    made = random_recording(Random(seed))
    made.unread[UnreadConnections("client", "TLS")] = made.left_out = seed
    made.requests.append(request("queue.declare", queue="\udcff\u202e\n", answer=REFUSED))
    assert values(read_recording(text_of(made), "asked.jsonl")) == values(made)


GOOD = text_of(recording(request("queue.declare", queue="q"))).splitlines()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "no recording of hashstar record"),
        (GOOD[1:], "line 1: the first line of a recording"),
        ([*GOOD, GOOD[0]], "line 4: the first line of a recording, and no other"),
        ([GOOD[0].replace('"format": 1', '"format": 2'), *GOOD[1:]], "line 1: a newer hashstar has written it"),
        ([*GOOD, "{"], "line 4: "),
        ([*GOOD, "[1]"], "line 4: not an object"),
        ([*GOOD, '{"kind": "other"}'], "line 4: its kind is none of"),
        ([GOOD[0], GOOD[2]], "line 2: no line before it is about its client"),
        ([*GOOD[:2], GOOD[2].replace('"count": 1', '"count": -1')], "line 3: count is missing or of another type"),
        ([*GOOD[:2], GOOD[2].replace("queue.declare", "queue.steal")], "line 3: no recording has the method"),
        ([*GOOD[:2], GOOD[2].replace('"durable": false', '"durable": 7')], "durable of queue.declare is no bit"),
        ([*GOOD[:2], GOOD[2].replace('"durable": false, ', "")], "line 3: queue.declare has the arguments queue"),
        ([*GOOD[:2], GOOD[2].replace('"queue": "q"', '"queue": [1]')], "queue of queue.declare is no shortstr"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(lines: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=r"asked\.jsonl: ") as error:
        read_recording("\n".join(lines), "asked.jsonl")
    assert reason in str(error.value)


@given(st.data())
def test_a_damaged_file_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    text = text_of(random_recording(Random(data.draw(st.integers(0, 50))), 5))
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "x", '"', "{", "\udc80", "0", "null"])) + text[at + 1 :]
    with suppress(InputError):
        read_recording(damaged, "asked.jsonl")


def test_a_recording_is_the_topology_that_its_clients_have_declared(tmp_path: Path) -> None:
    made = recording(
        request("exchange.declare", exchange="orders", type="topic", durable=True),
        request("queue.declare", queue="billing", durable=True, arguments={"x-queue-type": "quorum"}),
        request("queue.bind", queue="billing", exchange="orders", routing_key="order.#"),
        request("queue.bind", queue="billing", exchange="not declared", routing_key="k"),
        request("queue.declare", queue="mine", exclusive=True),
        request("queue.declare", queue=""),
        request("queue.declare", queue="there", passive=True),
        request("queue.declare", queue="refused", answer=REFUSED),
        request("queue.bind", queue="billing", exchange="amq.topic", routing_key="a"),
        request("queue.declare", queue="other", vhost="shop"),
    )
    path = tmp_path / "asked.jsonl"
    path.write_text(text_of(made), encoding="utf-8")
    topology = load(path, "/")
    assert [*topology.queues.values()] == [Queue("billing", arguments={"x-queue-type": "quorum"})]
    assert {*topology.bindings} == {
        Binding.to_queue("orders", "billing", "order.#"), Binding.to_queue("amq.topic", "billing", "a"),
    }  # fmt: skip
    assert (topology.profile.name, [*load(path, "shop").queues]) == ("rabbitmq-3.10", ["other"])
    convert = find_command("convert")
    result = CliRunner().invoke(convert, [str(path), "--format", "definitions"])
    assert result.exit_code == 0
    assert [queue["name"] for queue in json.loads(result.stdout)["queues"]] == ["billing", "other"]


def test_the_release_of_the_recorded_broker_chooses_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text(text_of(recording(request("queue.declare", queue="q"))), encoding="utf-8")
    shown = CliRunner().invoke(find_command("check"), [str(path)]).output
    assert f"{path}: by the rules of rabbitmq-3.10, as its rabbitmq_version is 3.10.8" in shown


def test_what_was_deleted_after_its_last_declaration_is_gone(tmp_path: Path) -> None:
    kept, gone, back = (request("queue.declare", queue=name) for name in ("kept", "gone", "back"))
    deletions = [request("queue.delete", queue=name) for name in ("gone", "back")]
    for deletion in deletions:
        deletion.last = "2026-05-01T13:00:00Z"
    back.last = "2026-05-01T14:00:00Z"
    path = tmp_path / "asked.jsonl"
    path.write_text(text_of(recording(kept, gone, back, *deletions)))
    assert [*load(path).queues] == ["kept", "back"]
