"""`hashstar explain --life`: every life that it shows can be lived in the model, and what it calls endless is endless."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli import hashstar
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.forms import format_life
from exchange.lifecycle.outcomes import Loss
from exchange.lifecycle.possible import Way, find_lives, goes_alone
from tests.support.tiers import examples

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
    return result.stdout


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


@examples(100)
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
    assert [*format_life(lives)][-1] == (
        "  what else goes round or is lost is not known: there are too many ways to follow all of them"
    )


def test_an_unknown_policy_gives_both_lives_and_neither_is_mixed_with_the_other(tmp_path: Path) -> None:
    """Each way names what must be in force for it; a life in which a queue has both policies is not shown."""
    policy = 'policy odd: "(?<=w)ork(?R)?", queues, dead-letter-exchange = "", dead-letter-routing-key = '
    output = explain(tmp_path, f'queue work\nqueue dlq\n{policy}"dlq"\n', "", "work")
    odd, none = "if policy 'odd' is in force", "if no policy is in force"
    assert f"rejected: to 'dlq', {odd}; or lost, as there is no dead letter exchange, {none}\n" in output
    assert f"is lost: rejected in 'work' ({none}); there is no dead letter exchange\n" in output
    lives = json.loads(explain(tmp_path, f'queue work\n{policy}"work"\n', "", "work", "--json"))["lives"]
    assert [[way["condition"] for way in ways] for ways in lives["rounds"]] == [[odd]]
    assert [[way["condition"] for way in ways] for ways in lives["losses"]] == [[none]]


FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.mark.parametrize(
    ("given_", "target", "is_lost"),
    [
        ({}, FULL, True),
        ({}, {**FULL, "x-queue-type": "quorum"}, False),
        ({}, {**FULL, "x-overflow": "drop-head"}, False),
        ({}, {"x-overflow": "reject-publish"}, False),
        (
            {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
            FULL,
            False,
        ),
    ],
)
def test_a_full_queue_that_rejects_publishes_loses_dead_letters_as_in_the_model(
    given_: dict[str, Any], target: dict[str, Any], is_lost: bool
) -> None:
    """A classic queue does; a quorum queue takes them, and a queue whose dead letters must arrive keeps them."""
    way = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full", **given_}
    topology = Topology(queues=[Queue("a", arguments=way), Queue("full", arguments=target)])
    lives = find_lives(topology, Router(topology), Message("", "a"))
    losses = [loss for loss in lives.losses if loss[-1].cause == "full queue"]
    assert [[way.queue for way in loss] for loss in losses] == ([["a"]] if is_lost else [])
    assert ("    rejected: to 'full'; or lost, as 'full' is full" in format_life(lives)) is is_lost
    lost: list[Loss] = []
    broker = Broker(topology, on_loss=lost.append)
    broker.publish(Message("", "full"))
    broker.publish(Message("", "a"))
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    assert [loss.cause for loss in lost if loss.queue == "a"] == (["full queue"] if is_lost else [])


def test_a_dead_letter_that_must_arrive_is_kept_and_not_lost() -> None:
    """A quorum queue keeps the message and tries again, as the model does."""
    sure = {
        "x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "gone",
    }  # fmt: skip
    topology = Topology(queues=[Queue("q", arguments=sure)])
    lives = find_lives(topology, Router(topology), Message("", "q"))
    assert lives.losses == ()
    assert "    rejected: kept, and sent again later, as the dead letter exchange does not exist" in format_life(lives)
    assert live(topology, Message("", "q"), lives.ways[:1]) == []


def test_queues_that_are_deleted_with_their_messages_are_named(tmp_path: Path) -> None:
    """After a time without a consumer, or with the last one; nothing is dead-lettered then."""
    output = explain(tmp_path, "queue q: auto-delete, x-expires = 60000", "", "q")
    assert "    unused for 1 min: lost, as the queue is deleted with its messages\n" in output
    assert "    its last consumer is gone: lost, as the queue is deleted with its messages\n" in output
    lives = json.loads(explain(tmp_path, "queue q: auto-delete, x-expires = 60000", "", "q", "--json"))["lives"]
    assert lives["deletions"] == [{"queue": "q", "after_ms": 60_000}, {"queue": "q", "after_ms": None}]


def test_the_rounds_and_the_end_of_a_long_chain_of_retries_are_found_first(tmp_path: Path) -> None:
    """Of 24 queues there are more orders of deaths than are followed: always rejected, and expired, come first."""
    chain = "".join(
        f'queue q{at}: x-dead-letter-exchange = "", x-dead-letter-routing-key = "w{at}"\n'
        f"queue w{at}: x-message-ttl = 1000, "
        f'x-dead-letter-exchange = "", x-dead-letter-routing-key = "q{(at + 1) % 12}"\n'
        for at in range(12)
    )
    output = explain(tmp_path, chain, "", "q0")
    rounds = [line for line in output.splitlines() if "goes round" in line]
    assert any("'q0', expired in 'w0'" in line and line.endswith("'w11', back in 'q0'") for line in rounds)
    assert output.endswith(
        "what else goes round or is lost is not known: there are too many ways to follow all of them\n"
    )
    opened = chain.replace('"q0"', '"nowhere"')
    assert "rejected in 'w11'; no queue gets the dead letter\n" in explain(tmp_path, opened, "", "q0")


def test_a_round_names_what_must_happen_before_it() -> None:
    """And the whole of it can be lived, turn after turn: without the rejection the message would be dropped."""
    arguments = {"x-message-ttl": 1000, "x-dead-letter-exchange": "dlx"}
    topology = Topology(
        [Exchange("dlx", "fanout"), Exchange("inp", "fanout")],
        [Queue(name, arguments=arguments) for name in "ab"],
        [Binding.to_queue("dlx", "a"), Binding.to_queue("dlx", "b"), Binding.to_queue("inp", "a")],
        profile="rabbitmq-3.12",
    )
    lives = find_lives(topology, Router(topology), Message("inp"))
    assert (
        "  goes round for ever, without a consumer: rejected in 'a', then over and over: "
        "expired in 'a', expired in 'b', back in 'a'"
    ) in format_life(lives)
    broker = Broker(topology)
    broker.publish(Message("inp"))
    for way in lives.leads[0]:
        delivery = broker.get(way.queue)
        assert delivery is not None
        broker.reject(delivery, requeue=False)
    for _ in range(10):
        for way in lives.rounds[0]:
            assert way.target is not None
            broker.advance(1)
            assert broker.messages(way.target)


def test_a_queue_that_the_release_refuses_is_said_to_be_so() -> None:
    """An older release may have made it, so its life is followed all the same."""
    queue = Queue("q", arguments={"x-queue-type": "classic", "x-consumer-timeout": 5, "x-message-ttl": 9})
    for profile, answer in (
        ("4.2", None),
        ("4.3", "406 PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/' of queue type"),
    ):
        topology = Topology(queues=[queue], profile=profile)
        lives = find_lives(topology, Router(topology), Message("", "q"))
        assert (lives.refused is None) is (answer is None)
        text = "\n".join(format_life(lives))
        assert ("is there only if an older release has made it; the broker: " in text) is (answer is not None)
        assert answer is None or answer in text
        assert "expired after 9 ms" in text
