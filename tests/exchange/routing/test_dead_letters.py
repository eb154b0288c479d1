"""`explain` goes on behind the queues: where messages go that these reject, let expire or have no room for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.cli import hashstar
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.lifecycle.broker import Broker
from exchange.routing.dead_letters import follow_dead_letters
from exchange.routing.route import HOPS, DeadLetterHop
from tests.support.tiers import examples

SHOP = """\
exchange work: topic
exchange retry: topic, internal
queue jobs
queue wait: x-message-ttl = 60000, x-max-length = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "jobs"
queue lost: x-dead-letter-exchange = "gone", x-dead-letter-routing-key = "k"
queue nowhere: x-dead-letter-exchange = "", x-dead-letter-routing-key = "none"
queue kept: x-dead-letter-exchange = "work"
queue plain
queue log: stream
work -> jobs, lost, plain, nowhere, log: "job.#"
work -> kept: "kept"
retry -> wait: "#"
policy p: "^jobs$", queues, dead-letter-exchange = "retry", dead-letter-routing-key = "again"
"""


def explain(tmp_path: Path, *arguments: str) -> str:
    (tmp_path / "shop.bindings").write_text(SHOP)
    result = CliRunner().invoke(hashstar, ["explain", "-t", str(tmp_path / "shop.bindings"), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def queue(name: str, exchange: str | None = None, key: str | None = None, **arguments: Any) -> Queue:
    given_ = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key, **arguments}
    return Queue(name, arguments={name: value for name, value in given_.items() if value is not None})


def explain_hops(topology: Topology, message: Message) -> tuple[DeadLetterHop, ...]:
    router = Router(topology)
    return follow_dead_letters(topology, router, router.explain(message)).dead_letters


def hops_of(topology: Topology, message: Message) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(hop.queue, hop.outcome, hop.queues) for hop in explain_hops(topology, message)]


def test_the_text_follows_dead_letters_until_they_come_back(tmp_path: Path) -> None:
    text = explain(tmp_path, "work", "job.x")
    assert (
        text[text.index("if rejected") :]
        == """\
if rejected, expired or over the limit:
  queue 'jobs': to exchange 'retry' (policy 'p') with the key 'again': queued in 'wait'
  queue 'lost': lost, as exchange 'gone' (argument) does not exist
  queue 'nowhere': to the default exchange (argument) with the key 'none': lost, as no queue gets it
  queue 'wait' (expired after 1 min, at most 5 messages): to the default exchange (argument) with the key 'jobs': queued in 'jobs'
  queue 'plain': dropped
"""
    )


def test_what_headers_of_dead_letters_decide_is_not_stated(tmp_path: Path) -> None:
    """A headers exchange may ask for them, behind others, too; without x- it cannot."""
    file = tmp_path / "h.bindings"
    for binding, end in (
        ('all-with-x { x-first-death-queue = "a" }', "where that goes is not known here"),
        ("any-with-x { x-death = null }", "where that goes is not known here"),
        ('all { x-first-death-queue = "b", n = 1 }', "lost, as no queue gets it"),
        ('all-with-x { x-tenant = "b" }', "lost, as no queue gets it"),
    ):
        file.write_text(
            'exchange f: fanout\nexchange h: headers\nqueue a: x-dead-letter-exchange = "f"\nqueue b\n'
            f"f -> exchange h\nh -> b: {binding}\n"
        )
        text = CliRunner().invoke(hashstar, ["explain", "-t", str(file), "", "a"]).stdout
        assert f"  queue 'a': to exchange 'f' (argument) with the key 'a': {end}\n" in text


def test_a_dead_letter_keeps_its_key_unless_the_queue_sets_one(tmp_path: Path) -> None:
    assert "with the key 'kept': queued in 'kept'" in explain(tmp_path, "work", "kept")
    assert "with the key 'kept': queued in 'kept'" in explain(tmp_path, "", "kept")


def test_without_a_dead_letter_exchange_nothing_is_added(tmp_path: Path) -> None:
    assert "rejected" not in explain(tmp_path, "", "plain")
    assert "rejected" not in explain(tmp_path, "", "log")
    assert json.loads(explain(tmp_path, "", "plain", "--json"))["dead_letters"] == []


def test_the_json_has_each_queue_with_its_outcome(tmp_path: Path) -> None:
    hops = json.loads(explain(tmp_path, "work", "job.x", "--json"))["dead_letters"]
    assert [(hop["queue"], hop["outcome"]) for hop in hops] == [
        ("jobs", "routed"), ("lost", "missing"), ("nowhere", "unroutable"), ("plain", "dropped"), ("wait", "routed"),
    ]  # fmt: skip
    assert hops[0] == {
        "queue": "jobs", "routing_key": "job.x", "exchange": "retry", "with_key": "again", "outcome": "routed",
        "queues": ["wait"], "source": "policy 'p'",
    }  # fmt: skip


@examples(200)
@given(
    st.sampled_from([None, "a", "b"]), st.dictionaries(st.sampled_from(["CC", "BCC"]), st.lists(st.sampled_from("abc"))),
    st.sampled_from(["classic", "quorum"]),
)  # fmt: skip
def test_a_dead_letter_goes_where_it_goes_in_the_model(key: str | None, headers: dict[str, Any], kind: str) -> None:
    """With further keys in CC and BCC, with a key that the queue sets, and without."""
    source = queue("q", "d", key, **{"x-queue-type": kind})
    bindings = [Binding.to_queue("d", name, name) for name in "abc"]
    topology = Topology(
        [Exchange("f", "fanout"), Exchange("d")], [source, *map(Queue, "abc")], [Binding.to_queue("f", "q"), *bindings]
    )
    message = Message("f", "a", headers)
    broker = Broker(topology)
    broker.publish(message)
    delivery = broker.get("q")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    [(_, _, queues), *_] = hops_of(topology, message)
    assert set(queues) == {name for name in "abc" if broker.messages(name)}


def test_what_is_not_known_is_not_guessed() -> None:
    two = [Policy(name, "^q", {"dead-letter-exchange": name}) for name in ("one", "two")]
    assert hops_of(Topology(queues=[queue("q")], policies=two), Message("", "q")) == [("q", "unknown", ())]
    odd = Topology([Exchange("odd", "x-of-a-plugin")], [queue("q", "odd")])
    assert hops_of(odd, Message("", "q")) == [("q", "undecided", ())]


@given(
    st.lists(st.sampled_from(["drop", "keep", *"abc"]), min_size=4, max_size=4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=8), st.sampled_from("abc"),
)  # fmt: skip
@example(["a", "b", "keep", "drop"], [("c", 0), ("c", 1), ("a", 2), ("b", 2), ("b", 3)], "c")
def test_each_queue_is_followed_once_for_each_key_with_which_its_dead_letters_go_another_way(
    ways: list[str], bound: list[tuple[str, int]], start: str
) -> None:
    """Each queue drops its dead letters, or hands them on with a key of its own or with theirs; the oracle walks."""
    routes = {key: sorted({f"q{n}" for other, n in bound if other == key}) for key in "abc"}
    queues = [
        queue(f"q{n}", None if way == "drop" else "d", way if way in "abc" else None) for n, way in enumerate(ways)
    ]
    expected: dict[tuple[str, str | None], list[str]] = {}
    pending = [(name, start) for name in routes[start]]
    for name, key in pending:  # which grows meanwhile
        way = ways[int(name[1])]
        kept = key if way == "keep" else way if way in routes else None
        if (name, kept) not in expected:
            expected[name, kept] = routes[kept] if kept else []
            pending += [(after, kept) for after in expected[name, kept] if kept]
    topology = Topology([Exchange("d")], queues, {Binding.to_queue("d", f"q{n}", key): None for key, n in bound})
    hops = explain_hops(topology, Message("d", start))
    if any(kept for _, kept in expected):
        assert {(hop.queue, hop.with_key): [*hop.queues] for hop in hops} == expected
        assert len(hops) == len(expected)
    else:
        assert not hops


def test_a_long_chain_of_queues_ends_at_the_maximum() -> None:
    chain = [queue(f"q{n}", "", f"q{n + 1}") for n in range(HOPS + 50)]
    assert len(hops_of(Topology(queues=chain), Message("", "q0"))) == HOPS


def test_a_dead_letter_exchange_may_be_internal() -> None:
    topology = Topology(
        [Exchange("dlx", "fanout", internal=True)],
        [queue("q", "dlx"), queue("dead")],
        [Binding.to_queue("dlx", "dead")],
    )
    assert hops_of(topology, Message("", "q"))[0] == ("q", "routed", ("dead",))


def test_dead_letters_of_either_policy_are_unknown() -> None:
    """Of two policies with one priority, only one sets a dead letter exchange; each may be the one in force."""
    policies = [Policy("a", "q", {"max-length": 5}), Policy("b", "q", {"dead-letter-exchange": "amq.fanout"})]
    for given_ in (policies, policies[::-1]):
        topology = Topology(queues=[Queue("q"), Queue("p")], policies=given_)
        assert hops_of(topology, Message("", "q")) == [("q", "unknown", ())]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("x-max-length = 1", "at most 1 message"),
        ('x-max-length = 1, x-overflow = "reject-publish"', "at most 1 message, more are refused, not dead-lettered"),
        (
            'x-max-length-bytes = 5, x-overflow = "reject-publish-dlx"',
            "at most 5 bytes, more are refused and dead-lettered",
        ),
        ('quorum, x-max-length = 1, x-overflow = "reject-publish-dlx"', "at most 1 message"),
    ],
)
def test_what_a_full_queue_does_is_right_for_its_overflow(tmp_path: Path, arguments: str, expected: str) -> None:
    file = tmp_path / "full.bindings"
    file.write_text(f'queue r: {arguments}, x-dead-letter-exchange = "amq.fanout"')
    output = CliRunner().invoke(hashstar, ["explain", "-t", str(file), "", "r"]).output
    assert f"\n  queue 'r' ({expected}): to exchange 'amq.fanout'" in output


@pytest.mark.parametrize(
    ("policy", "profile", "warning"),
    [
        (
            'op: "q", queues, operator, message-ttl = 60000, dead-letter-exchange = "amq.fanout"',
            "4.3",
            "operator policy 'op' is refused by rabbitmq-4.3, but its settings count here: ",
        ),
        ('ha: "q", queues, ha-mode = "all"', "4.3", "policy 'ha' is refused by rabbitmq-4.3"),
        ('ha: "q", queues, ha-mode = "all"', "3.13", ""),
        ('op: "q", queues, operator, message-ttl = 60000', "4.3", ""),
    ],
)
def test_policies_that_the_release_refuses_are_warnings(
    tmp_path: Path, policy: str, profile: str, warning: str
) -> None:
    file = tmp_path / "refused.bindings"
    file.write_text(f"queue q\npolicy {policy}\n")
    result = CliRunner().invoke(hashstar, ["explain", "-t", str(file), "--profile", profile, "", "q"])
    assert result.exit_code == 0
    assert warning in result.stderr
    assert bool(result.stderr) is bool(warning)
