"""`hashstar explain --life`: every life that it shows can be lived in the model, and what it calls endless is endless."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.cli import hashstar
from exchange import Binding, Message, Queue, Router, Topology
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.outcomes import Loss
from exchange.lifecycle.possible import Way, find_lives, goes_alone, life_lines

RETRY = """\
exchange orders: topic
queue jobs: x-dead-letter-exchange = "", x-dead-letter-routing-key = "wait"
queue wait: x-message-ttl = 30000, x-dead-letter-exchange = "", x-dead-letter-routing-key = "jobs"
queue audit: quorum, x-max-length = 1000, x-delivery-limit = 5
orders -> jobs: "order.#"
orders -> audit: "#"
"""

NAMES = ("a", "b", "c")


def explain(tmp_path: Path, topology: str, *arguments: str) -> str:
    """Return what the command prints."""
    file = tmp_path / "topology.bindings"
    file.write_text(topology)
    result = CliRunner().invoke(hashstar, ["explain", "--topology", str(file), "--life", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_lives_of_a_message_are_shown_queue_by_queue(tmp_path: Path) -> None:
    """What each queue may do with it, what goes round, and what is lost, with the events that lead there."""
    output = explain(tmp_path, RETRY, "orders", "order.eu")
    assert (
        output[output.index("possible lives") :]
        == """\
possible lives:
  queue 'audit'
    rejected: lost, as there is no dead letter exchange
    over the limit: lost, as there is no dead letter exchange
    given back too often: lost, as there is no dead letter exchange
  queue 'jobs'
    rejected: to 'wait'
  queue 'wait'
    rejected: to 'jobs'
    expired after 30 s: to 'jobs'
  goes round as long as consumers reject it: rejected in 'jobs', rejected in 'wait', back in 'jobs'
  goes round as long as consumers reject it: rejected in 'jobs', expired in 'wait', back in 'jobs'
  is lost: rejected in 'audit'; there is no dead letter exchange
  is lost: over the limit in 'audit'; there is no dead letter exchange
  is lost: given back too often in 'audit'; there is no dead letter exchange
"""
    )


def test_the_same_in_json(tmp_path: Path) -> None:
    """In the field ``lives``, which is absent without the option."""
    lives = json.loads(explain(tmp_path, RETRY, "", "wait", "--json"))["lives"]
    assert lives["ways"][1] == {"queue": "wait", "reason": "expired", "target": "jobs", "after_ms": 30_000}
    assert [[way["reason"] for way in ways] for ways in lives["rounds"]] == [["rejected"] * 2, ["expired", "rejected"]]
    assert lives["losses"] == []
    assert lives["whole"] is True


def test_names_are_escaped(tmp_path: Path) -> None:
    """A name cannot write to the terminal."""
    output = explain(tmp_path, 'queue "\\u001b[31m\\n::error::"', "", "\x1b[31m\n::error::")
    assert "\x1b" not in output
    assert "\n::error" not in output


@pytest.mark.parametrize(("release", "is_endless"), [("3.10", True), ("3.12", True), ("3.13", False), ("4.3", False)])
def test_a_rejected_message_goes_round_for_ever_in_old_releases(release: str, is_endless: bool) -> None:
    """Before 3.13 the order of x-death turns over with each death, so that the rejection hides the cycle.

    Tried on live brokers: 3.10.8 has each message 71 times in each queue after 5 s; 4.0.5 and 4.3.6 drop it.
    """
    arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": "amq.fanout"}
    start = Queue("start", arguments={"x-dead-letter-exchange": "amq.fanout"})
    bindings = [Binding.to_queue("amq.fanout", name) for name in "ab"]
    topology = Topology(
        queues=[start, *(Queue(name, arguments=arguments) for name in "ab")],
        bindings=bindings,
        profile=f"rabbitmq-{release}",
    )
    lives = find_lives(topology, Router(topology), Message("", "start"))
    assert any(map(goes_alone, lives.rounds)) is is_endless
    broker = Broker(topology)
    broker.publish(Message("", "start"))
    delivery = broker.get("start")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    broker.advance(100)
    assert bool(broker.messages("a") or broker.messages("b")) is is_endless


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw queues whose dead letters go to one queue each, this one, another one or none."""
    queues = []
    for name in NAMES:
        given: dict[str, Any] = {}
        if draw(st.booleans()):
            given["x-message-ttl"] = draw(st.sampled_from([10, 20, 30]))
        if draw(st.integers(0, 3)):
            given["x-dead-letter-exchange"] = draw(st.sampled_from(["", "", "", "nowhere"]))
            given["x-dead-letter-routing-key"] = draw(st.sampled_from([*NAMES, "no queue"]))
        queues.append(Queue(name, arguments=given))
    return Topology(queues=queues, profile=draw(st.sampled_from(["rabbitmq-3.10", "rabbitmq-3.13", "rabbitmq-4.3"])))


def live(topology: Topology, message: Message, ways: tuple[Way, ...]) -> list[Loss]:
    """Live a life in the model, and return what it lost."""
    lost: list[Loss] = []
    broker = Broker(topology, on_loss=lost.append)
    broker.publish(message)
    for way in ways:
        if way.reason == "rejected":
            delivery = broker.get(way.queue)
            assert delivery is not None
            broker.reject(delivery, requeue=False)
        else:
            assert way.after is not None
            broker.advance(way.after / 1000)
        if way.target is not None:
            assert len(broker.messages(way.target)) == 1
    return lost


@settings(max_examples=100, deadline=None)
@given(topologies(), st.sampled_from(NAMES), st.sampled_from([{}, {"expiration": "15"}]))
def test_each_loss_can_be_lived(topology: Topology, key: str, properties: dict[str, Any]) -> None:
    """Its events, one after the other, end in the queue and by the cause that it names."""
    message = Message("", key, {}, properties)
    lives = find_lives(topology, Router(topology), message)
    for ways in lives.losses:
        lost = live(topology, message, ways)
        assert [(loss.queue, loss.reason, loss.cause) for loss in lost] == [
            (ways[-1].queue, ways[-1].reason, ways[-1].cause)
        ]
    assert lives.is_whole


@pytest.mark.parametrize("limit", ["STATES", "WAYS"])
def test_what_has_too_many_states_or_ways_is_cut_off(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is not whole then, and its lines end with that."""
    monkeypatch.setattr(f"exchange.lifecycle.possible.{limit}", 2)
    chain = [
        Queue(f"q{at}", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{at + 1}"})
        for at in range(4)
    ]
    topology = Topology(queues=chain)
    lives = find_lives(topology, Router(topology), Message("", "q0"))
    assert not lives.is_whole
    assert [way.target for way in lives.ways] == ["q1", "q2"]
    assert [*life_lines(lives)][-1] == "  there may be more: the message can go too many ways to follow all of them"
