"""``hashstar diff`` shows which settings in force a change of policies and arguments alters, and what that means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bindings.commands.diff import diff_command
from bindings.diffing.settings.changes import Letters, compare_settings
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.entities.effects import OF_QUEUES
from exchange.entities.in_force import DeadLetters
from exchange.lifecycle.limits import NOT_MODELLED

SHOP = """\
exchange orders: topic
exchange dlx: topic
queue jobs
queue dead
orders -> jobs: "job.*"
dlx -> dead: "#"
"""
LETTERS = 'x-dead-letter-exchange = "dlx"'
PROVED = "  no message is routed differently: proved for all keys and headers"


def run(tmp_path: Path, before: str, after: str, *options: str) -> Result:
    for name, text in (("before", before), ("after", after)):
        (tmp_path / f"{name}.bindings").write_text(SHOP + text)
    return CliRunner().invoke(diff_command, [str(tmp_path / f"{n}.bindings") for n in ("before", "after")] + [*options])


def settings_of(result: Result) -> list[str]:
    lines: list[str] = result.output.splitlines()
    return lines[lines.index("settings in force:") + 1 :] if "settings in force:" in lines else []


def test_a_policy_that_loses_dead_letters_and_messages_is_not_called_unobservable(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        'policy p: "^jobs$", queues, dead-letter-exchange = "dlx", max-length = 1000000',
        'policy p: "^jobs$", queues, dead-letter-exchange = "other", max-length = 1, message-ttl = 1',
        "--fail-on", "lost",
    )  # fmt: skip
    assert result.exit_code == 1
    lost = "dead-lettered to exchange 'other', which does not exist"
    assert result.output.splitlines() == [
        "plan:",
        "  ~ set policy 'p'",
        '      dead-letter-exchange "dlx" -> "other"',
        "      max-length 1000000 -> 1",
        "      message-ttl none -> 1",
        "meaning:",
        PROVED,
        "settings in force:",
        "  ! queue 'jobs':",
        (
            "      dead-letter-exchange \"dlx\" (policy 'p') -> \"other\" (policy 'p'): "
            f"messages that are rejected, expire or exceed a limit are {lost}: they are lost"
        ),
        f"      max-length 1000000 (policy 'p') -> 1 (policy 'p'): above 1 message, the oldest messages are {lost}",
        f"      message-ttl none -> 1 (policy 'p'): messages that wait longer than 1 ms are {lost}",
        "      such as 'job.x' in queue 'jobs': dead-lettered to 'dead', then lost, as exchange 'other' does not exist",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "means", "loses"),
    [
        ("max-length = 1000", "expires = 5", "nothing bounds the queue now", True),
        ("max-length = 1000", "max-length-bytes = 9", "only max-length-bytes 9 bounds the queue now", True),
        ("max-length = 10", "max-length = 20", "the queue keeps up to 20 messages now", False),
        ("max-length = 20", "max-length = 0", "a message that no consumer takes at once is dropped", True),
        ('overflow = "reject-publish"', "max-length = 5", "above 5 messages, the oldest messages are dropped", True),
        ("expires = 1000", "expires = 2000", "deleted, with its messages, after 2 s without use", False),
        ("message-ttl = 0", "message-ttl = 60000", "messages wait for up to 1 min now", False),
        ("message-ttl = 60000", 'queue-mode = "lazy"', "messages no longer expire, unless", False),
        ('dead-letter-exchange = "gone"', 'dead-letter-exchange = "dlx"', "exceed a limit go to exchange 'dlx'", False),
        ('dead-letter-exchange = "dlx"', "expires = 9", "expire or exceed a limit are dropped", True),
        ('dead-letter-exchange = "dlx"', 'dead-letter-exchange = "orders"', "go to exchange 'orders'", True),
        ("delivery-limit = 5", "delivery-limit = 3", "", False),  # a policy that no classic queue takes
    ],
)  # fmt: skip
def test_each_change_says_what_it_means(tmp_path: Path, before: str, after: str, means: str, loses: bool) -> None:
    result = run(
        tmp_path, f'policy p: "^jobs$", queues, {before}', f'policy p: "^jobs$", queues, {after}', "--fail-on", "lost"
    )
    assert means in "\n".join(settings_of(result))
    assert result.exit_code == loses
    assert PROVED in result.output


@pytest.mark.parametrize(
    ("queue", "before", "after", "means", "loses"),
    [
        ("classic, x-max-length = 9", "", 'overflow = "drop-head"', "drop-head is the default", False),
        (f"quorum, {LETTERS}", "", 'dead-letter-strategy = "at-most-once"', "at-most-once is the default", False),
        ("stream", 'max-age = "1D"', 'max-age = "36h"', "segments older than 36h are deleted", False),
        ("stream", 'max-age = "2h"', 'max-age = "119m"', "segments older than 119m are deleted", True),
        ("stream", "", 'max-age = "1Y"', "segments older than 1Y are deleted", True),
    ],
)
def test_what_has_no_effect_or_keeps_messages_longer_loses_none(
    tmp_path: Path, queue: str, before: str, after: str, means: str, loses: bool
) -> None:
    policies = [f'policy p: "^fast$", queues, {setting}\n' if setting else "" for setting in (before, after)]
    result = run(tmp_path, *[f"queue fast: {queue}\n{policy}" for policy in policies], "--fail-on", "lost")
    assert means in "\n".join(settings_of(result))
    assert result.exit_code == loses


def test_quorum_queues_fall_back_to_a_delivery_limit_of_20_from_4_0_on(tmp_path: Path) -> None:
    queue, policy = "queue fast: quorum\n", 'policy p: "fast", queues, delivery-limit = 50'
    after = settings_of(run(tmp_path, queue + policy, queue))
    assert after[1].endswith("-> none: by default, a message that comes back more than 20 times is dropped")
    old = settings_of(run(tmp_path, queue + policy, queue, "--profile", "3.13"))
    assert old[1].endswith("-> none: a message may come back to consumers for ever")


def test_a_quorum_queue_in_place_of_a_classic_one_drops_what_comes_back_too_often(tmp_path: Path) -> None:
    takes_place = "a quorum queue takes the place of a classic one"
    [queue, line] = settings_of(run(tmp_path, "queue fast", "queue fast: quorum"))
    assert queue == "  ! queue 'fast':"
    assert line.endswith(f"{takes_place}: by default, a message that comes back more than 20 times is dropped")
    line = settings_of(run(tmp_path, "queue fast", "queue fast: quorum", "--profile", "3.13"))[1]
    assert line.endswith(takes_place)


def test_the_alternate_exchange_of_a_policy_is_a_setting_and_a_route(tmp_path: Path) -> None:
    policy = 'policy a: "^orders$", exchanges, alternate-exchange = "dlx", message-ttl = 5'
    result = run(tmp_path, "", policy)
    assert settings_of(result) == ["  ~ exchange 'orders':", "      alternate-exchange none -> \"dlx\" (policy 'a')"]
    assert "  + queue 'dead' gains from exchange 'orders':" in result.output


def test_queues_with_the_same_change_are_summed_up(tmp_path: Path) -> None:
    queues = "".join([f"queue q{number:02}\n" for number in range(30)])
    result = run(tmp_path, queues, f'{queues}policy p: "^q", queues, max-length = 5')
    assert settings_of(result) == [
        "  ! 30 queues, 'q00', 'q01', 'q02', 'q03', 'q04' and 25 more:",
        "      max-length none -> 5 (policy 'p'): above 5 messages, the oldest messages are dropped",
    ]
    [change] = json.loads(run(tmp_path, queues, f'{queues}policy p: "^q", max-length = 5', "--json").output)["settings"]
    assert (change["kind"], len(change["names"])) == ("queue", 30)
    assert change["changes"] == [
        {
            "name": "max-length",
            "before": [None],
            "after": [{"value": 5, "source": "policy", "policy": "p"}],
            "means": "above 5 messages, the oldest messages are dropped",
            "loses": True,
        }
    ]


def test_a_policy_that_takes_precedence_changes_what_is_in_force_without_changing_itself(tmp_path: Path) -> None:
    keep = 'policy keep: "^jobs", queues, priority 1, max-length = 5\n'
    result = run(tmp_path, keep, f'{keep}policy more: "^j", queues, priority 2, expires = 9')
    assert settings_of(result)[1:] == [
        "      expires none -> 9 (policy 'more'): the queue is deleted, with its messages, after 9 ms without use",
        "      max-length 5 (policy 'keep') -> none: nothing bounds the queue now",
    ]
    assert settings_of(run(tmp_path, keep, f'{keep}policy more: "^j", queues, priority 0, expires = 9')) == []


def test_an_operator_policy_counts_although_no_step_sets_it(tmp_path: Path) -> None:
    result = run(tmp_path, "", 'policy top: "", queues, operator, max-length = 7')
    assert "plan: nothing to do" in result.output
    assert "max-length none -> 7 (operator policy 'top')" in result.output
    assert result.exit_code == 1


def test_where_the_policy_in_force_is_not_known_nothing_is_claimed(tmp_path: Path) -> None:
    two = 'policy a: "^jobs", queues, max-length = 1\npolicy b: "^jobs", queues, max-length = 2\n'
    assert settings_of(run(tmp_path, "", two))[1:] == [
        "      max-length none -> 1 (policy 'a') or 2 (policy 'b'): which policy is in force is not known here"
    ]


def test_a_queue_that_is_declared_again_names_the_arguments_that_differ(tmp_path: Path) -> None:
    result = run(tmp_path, "queue more: x-max-length = 5", "queue more: x-max-length = 6, transient")
    assert (
        "  + declare queue 'more' (classic)\n      durable true -> false\n      x-max-length 5 -> 6\n" in result.output
    )
    [_, declared] = json.loads(run(tmp_path, "queue more", "queue more: stream", "--json").output)["plan"]["steps"]
    assert declared["changes"] == [{"name": "arguments.x-queue-type", "before": None, "after": "stream"}]


def test_markdown_has_the_settings_and_names_the_routes_as_proved(tmp_path: Path) -> None:
    result = run(tmp_path, "", 'policy p: "^jobs$", queues, max-length = 1', "--format", "markdown")
    assert result.output.startswith("### hashstar diff: **messages may be lost**\n")
    assert "- queue 'jobs': max-length none -> 1 (policy 'p'): above 1 message" in result.output
    assert "No message is routed differently: proved for all keys and headers." in result.output


def test_dead_letters_to_an_exchange_that_chooses_by_headers_have_no_example() -> None:
    queue = Queue("q")
    topology = Topology([Exchange("h", "headers"), Exchange("x")], [queue], [Binding.to_queue("x", "q", "k")])
    changed = topology.set_policy(Policy("p", "", {"dead-letter-exchange": "h"}, "queues"))
    [change] = compare_settings(topology, changed)
    assert change.example == ""
    assert not change.loses


definitions = st.dictionaries(
    st.sampled_from(["max-length", "message-ttl", "expires", "delivery-limit"]), st.integers(0, 3), min_size=1
)
policies = st.builds(
    Policy,
    st.sampled_from("abc"), st.sampled_from(["", "^q", "1$"]), definitions, st.sampled_from(["all", "queues"]),
    st.integers(0, 1), st.booleans(),
)  # fmt: skip
queues_ = st.builds(
    lambda name, arguments: Queue(name, arguments={f"x-{key}": value for key, value in arguments.items()}),
    st.sampled_from(["q1", "q2", "r1"]), definitions,
)  # fmt: skip
topologies = st.builds(
    lambda queues, policies: Topology(queues=queues, policies=policies),
    st.lists(queues_, max_size=3), st.lists(policies, max_size=3),
)  # fmt: skip


@given(topologies, topologies)
def test_what_is_reported_are_the_settings_that_differ_queue_by_queue(before: Topology, after: Topology) -> None:
    def values(topology: Topology, name: str) -> list[dict[str, Any]]:
        possible = topology.policies_in_force().possible_settings(topology.queues[name])
        return [{key: setting.value for key, setting in settings.values.items()} for settings in possible]

    found = {
        (name, each.name)
        for change in compare_settings(before, after)
        for name in change.names
        for each in change.changes
    }
    expected = set()
    for name in before.queues.keys() & after.queues.keys():
        old, new = values(before, name), values(after, name)
        for key in {key for one in (*old, *new) for key in one}:
            if {one.get(key) for one in old} != {one.get(key) for one in new}:
                expected.add((name, key))
    assert found == expected
    assert compare_settings(before, before) == ()


@pytest.mark.parametrize(
    ("given", "loses"),
    [
        ('x-dead-letter-exchange = "amq.direct"', False),  # nothing is bound to it
        ('x-dead-letter-exchange = "", x-dead-letter-routing-key = "gone"', False),
        ('x-dead-letter-exchange = "dlx"', True),
        ('x-dead-letter-exchange = "", x-dead-letter-routing-key = "dead"', True),
    ],
)
def test_dead_letters_that_were_always_lost_are_not_lost_by_a_change(tmp_path: Path, given: str, loses: bool) -> None:
    lines = settings_of(run(tmp_path, f"queue a: {given}", "queue a"))
    assert lines[0] == f"  {'!' if loses else '~'} queue 'a':"
    assert "messages that are rejected, expire or exceed a limit are dropped" in lines[1]
    assert any("such as" in line for line in lines) == loses


THROUGH = [Binding.to_exchange("e", "f"), Binding.to_queue("f", "q")]


@pytest.mark.parametrize("bound", [[], [Binding.to_queue("e", "q", "k")], THROUGH, THROUGH[:1]])
def test_dead_letters_may_arrive_where_one_of_some_key_does(bound: list[Binding]) -> None:
    topology = Topology([Exchange("e"), Exchange("f", "fanout")], [Queue("q")], bound)
    router, letters = Router(topology), Letters(topology, topology)
    for exchange in (None, "", "e", "gone"):
        for own in (None, "q", "other") if exchange == "" else (None,):
            keys = ["", "q", "k"] if own is None else [own]
            exists = exchange in topology.exchanges
            arrives = exists and any(router.route(Message(exchange or "", key)).queues for key in keys)
            assert [letters.may_arrive(side, DeadLetters(exchange, own)) for side in (0, 1)] == [arrives] * 2


RETRY = 'x-delayed-retry-type = "failed", x-delayed-retry-min = 100'


@pytest.mark.parametrize(
    ("before", "after", "meaning"),
    [
        ("", RETRY, "given back as failed: waits 100 ms, then delivered again"),
        (RETRY, f"{RETRY}, x-delayed-retry-max = 1000",
         "given back as failed: waits 100 ms, later up to 1 s, then delivered again"),
        (RETRY, RETRY.replace("100", "200"), "given back as failed: waits 200 ms, then delivered again"),
        (RETRY, "", "what comes back to the queue is delivered again at once"),
        ("", "x-consumer-timeout = 5000",
         "a consumer that does not settle a message for 5 s is cancelled: the queue takes the message back"),
        ("x-consumer-timeout = 5000", "", ("by default, a consumer that does not settle a message for 30 min is "
         "cancelled: the queue takes the message back")),
        ("", "x-single-active-consumer = true", "one consumer at a time gets the messages, in their order"),
    ],
)  # fmt: skip
def test_a_change_of_times_says_once_what_it_means(tmp_path: Path, before: str, after: str, meaning: str) -> None:
    queues = [f"queue w: quorum{', ' if each else ''}{each}" for each in (before, after)]
    lines = settings_of(run(tmp_path, *queues))
    assert [line.partition("): ")[2] or line.partition("none: ")[2] for line in lines].count(meaning) == 1
    assert sum(meaning in line for line in lines) == 1


def test_a_timeout_of_4_2_closes_the_channel_of_a_slow_consumer(tmp_path: Path) -> None:
    policy = 'policy p: "^jobs$", queues, consumer-timeout = 60000'
    [_, line] = settings_of(run(tmp_path, "", policy, "--profile", "4.2"))
    assert line.endswith("for 1 min loses its channel, within a minute, and what it holds comes back")


@pytest.mark.parametrize("kind", ["classic", "stream", "quorum"])
@pytest.mark.parametrize(("old", "new"), [("4.2", "4.3"), ("4.2", "4.4"), ("4.3", "4.4")])
def test_a_release_without_timeouts_of_a_type_is_not_said_to_have_them(
    tmp_path: Path, kind: str, old: str, new: str
) -> None:
    policy = 'policy p: "^w$", queues, consumer-timeout = 5000'
    text = f"queue w: {kind}\n"
    (tmp_path / "a.bindings").write_text(text)
    (tmp_path / "b.bindings").write_text(f"{text}{policy}\n")
    meanings = []
    for first, last in (("a", "b"), ("b", "a"), ("b", "b")):
        files = [str(tmp_path / f"{name}.bindings") for name in (first, last)]
        output = CliRunner().invoke(diff_command, [*files, "--from", old, "--to", new]).output
        meanings += [line for line in output.splitlines() if "consumer-timeout" in line and "->" in line]
    timed = [line for line in meanings if "does not settle" in line]
    assert len(timed) == (len(meanings) if kind == "quorum" else 0)
    gains = [line for line in meanings if "may keep messages for ever: no consumer of" in line]
    assert bool(gains) == (old == "4.2" and kind != "quorum")


def test_each_setting_that_lives_depend_on_has_a_meaning() -> None:
    """As arguments of quorum queues, and of classic ones what these alone have; where two values differ."""
    values: dict[str, tuple[Any, Any]] = {
        "overflow": ("drop-head", "reject-publish"), "single-active-consumer": (False, True),
        "dead-letter-exchange": ("a", "b"), "dead-letter-routing-key": ("a", "b"),
        "dead-letter-strategy": ("at-most-once", "at-least-once"), "delayed-retry-type": ("all", "failed"),
    }  # fmt: skip
    beside = {"max-length": 9, "overflow": "reject-publish", "dead-letter-exchange": "a",
              "delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 500}  # fmt: skip
    modelled = {name for name, reach in OF_QUEUES.items() if reach.argument} - NOT_MODELLED.keys() - {
        "queue-type", "message-deduplication", "internal-purpose",
    }  # fmt: skip
    for name in sorted(modelled | {"consumer-timeout"}):
        sides = []
        for value in values.get(name, (20, 40)):
            kind = "classic" if name == "max-priority" else "quorum"
            given = {**(beside if kind == "quorum" else {}), name: value, "queue-type": kind}
            arguments = {f"x-{key}": each for key, each in given.items()}
            sides.append(Topology([Exchange("a"), Exchange("b")], [Queue("q", arguments=arguments)]))
        [change] = compare_settings(*sides)
        assert [each.means for each in change.changes if each.name == name and each.means], name
