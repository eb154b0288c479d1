"""`bindings.diff` of two releases: what it claims, against the slow router of each release."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bindings.commands.diff import diff_command
from bindings.diffing.comparison.compare import compare
from bindings.diffing.diff import diff
from exchange import Binding, Exchange, Message, Policy, Queue, Topology, Typed
from exchange.entities.entities import Destination
from exchange.entities.releases import PROFILES, find_profile, find_profile_by_name
from exchange.errors import BrokerError
from tests.support import oracle
from tests.support.tiers import examples

PAIRS = [(old, new) for old in PROFILES for new in PROFILES if old != new]
ARGUMENTS: tuple[Any, ...] = (
    0, 1, 5, 5000, 0.0, -0.0, 1.0, 1.5, 5e3, "1", True, None, Typed("timestamp", 5), Typed("timestamp", 5000),
    Typed("short", 5), Typed("float", 0.5), [0.0], [0.0, -0.0], [1], [], {"t": -0.0}, 2**53 + 1, float(2**53),
)  # fmt: skip
SENT: tuple[Any, ...] = (
    *ARGUMENTS, Typed("timestamp", 0), Typed("timestamp", 1), -1, [-0.0], [-0.0, 0.0], [-0.0, -0.0], {"t": 0.0}, 5.0,
    "text", False, datetime(1970, 1, 1, tzinfo=UTC), 5000000, Typed("double", 5),
)  # fmt: skip
MODES = ("all", "any", "all-with-x", None)


def drawn(rng: Random) -> Topology:
    """Return headers exchanges in a row, with alternates, and queues behind them."""
    names, types = ["x0", "x1", "x2"], ("headers", "headers", "fanout")
    alternates = [{"alternate-exchange": rng.choice(names)} if rng.random() < 0.3 else {} for _ in names]
    exchanges = [
        Exchange(name, rng.choice(types), arguments=other) for name, other in zip(names, alternates, strict=True)
    ]
    bindings = []
    for _ in range(rng.randint(1, 6)):
        asked = {name: rng.choice(ARGUMENTS) for name in rng.sample(("h", "x-k"), rng.choice((1, 1, 2)))}
        mode = rng.choice(MODES)
        arguments = asked if mode is None else {**asked, "x-match": mode}
        destination = Destination("queue", rng.choice("ab"))
        if rng.random() < 0.3:
            destination = Destination("exchange", rng.choice(names))
        bindings.append(Binding.to_queue(rng.choice(names), "", "", arguments)._replace(destination=destination))
    return Topology(exchanges, [Queue("a"), Queue("b")], bindings)


def queues_of(topology: Topology, message: Message) -> frozenset[str]:
    try:
        return frozenset(oracle.route(topology, message, lambda size: 0))
    except BrokerError:
        return frozenset()


@examples(80)
@given(st.integers(0, 2**32), st.sampled_from(PAIRS))
def test_two_releases_differ_for_exactly_the_messages_that_are_claimed(seed: int, pair: tuple[str, str]) -> None:
    """Each witness goes elsewhere by the slow routers, and each message that goes elsewhere is claimed."""
    rng = Random(seed)
    topology = drawn(rng)
    before, after = (topology.with_profile(name) for name in pair)
    meaning = compare(before, after)
    assert not meaning.undecided
    claimed = {(effect.exchange, effect.queue, effect.gained) for effect in meaning.effects}
    for effect in meaning.effects:
        was, is_ = (effect.queue in queues_of(side, effect.witness) for side in (before, after))
        assert (was, is_) == (not effect.gained, effect.gained), effect
    for lost in meaning.unroutable:
        was, is_ = (bool(queues_of(side, lost.witness)) for side in (before, after))
        assert (was, is_) == (lost.now, not lost.now), lost
    some: list[dict[str, Any]] = [{}] + [{"h": value} for value in SENT] + [{"x-k": value} for value in SENT]
    some += [{"h": rng.choice(SENT), "x-k": rng.choice(SENT)} for _ in range(60)]
    for entry in ("x0", "x1", "x2"):
        for headers in some:
            message = Message(entry, "", headers)
            old, new = queues_of(before, message), queues_of(after, message)
            for queue in old ^ new:
                assert (entry, queue, queue in new) in claimed, (message, old, new)


@examples(40)
@given(st.integers(0, 2**32), st.sampled_from(PAIRS))
def test_a_hash_is_called_the_same_only_if_it_chooses_the_same(seed: int, pair: tuple[str, str]) -> None:
    """For hashes of keys, headers and properties, and for the order of x-modulus-hash.

    Where no message shows a difference, one is possible: the broker's past decides the order before 4.3, and from 4.0
    to 4.2 its metadata store decides that of x-modulus-hash.
    """
    rng = Random(seed)
    arguments = rng.choice(({}, {"hash-header": "h"}, {"hash-property": "message_id"}))
    exchange = rng.choice((Exchange("x", "x-consistent-hash", arguments=arguments), Exchange("x", "x-modulus-hash")))
    bindings = [Binding.to_queue("x", rng.choice("abc"), str(rng.randint(1, 3))) for _ in range(rng.randint(1, 4))]
    topology = Topology([exchange], [Queue(name) for name in "abc"], bindings)
    before, after = (topology.with_profile(name) for name in pair)
    meaning = compare(before, after)
    messages = [
        Message("x", f"k{number}", {"h": value}, {"message_id": f"k{number}"})
        for number in range(40)
        for value in (f"k{number}", number, Typed("timestamp", number), [number], [])
    ]
    moved = [message for message in messages if queues_of(before, message) != queues_of(after, message)]
    assert bool(moved) <= bool(meaning.choices), moved[:1]
    by_key = sorted(bindings, key=lambda binding: (binding.routing_key, binding.destination))
    restarted = Topology([exchange], [Queue(name) for name in "abc"], by_key, profile=before.profile)
    moved_by_restart = any(queues_of(before, message) != queues_of(restarted, message) for message in messages)
    is_counted = exchange.type == "x-modulus-hash" and len({each.destination for each in bindings}) > 1
    rings = before.profile.hash_rings_are_kept, after.profile.hash_rings_are_kept
    stores = before.profile.modulus_hash_depends_on_store, after.profile.modulus_hash_depends_on_store
    past_decides = (len({*rings}) == 2 and (moved_by_restart or is_counted)) or (any(stores) and is_counted)
    assert past_decides <= bool(meaning.choices)
    for choice in meaning.choices:
        was, is_ = (queues_of(side, choice.witness) for side in (before, after))
        assert (was != is_) if choice.certain else past_decides


def test_no_release_is_claimed_to_treat_keys_or_texts_otherwise() -> None:
    topology = Topology(
        [Exchange("t", "topic"), Exchange("h", "headers"), Exchange("c", "x-consistent-hash")],
        [Queue("a"), Queue("b")],
        [
            Binding.to_queue("t", "a", "#.x.#"), Binding.to_queue("h", "a", "", {"kind": "order", "urgent": True}),
            Binding.to_queue("c", "a", "1"), Binding.to_queue("c", "b", "2"),
        ],
    )  # fmt: skip
    for old, new in PAIRS:
        assert compare(topology.with_profile(old), topology.with_profile(new)).verdict == "same", (old, new)


def test_the_settings_in_force_are_those_of_each_release() -> None:
    """A key that the new release does not support for this type takes its whole policy out of force."""
    policy = Policy("p", "^q", {"max-length": 5, "max-in-memory-length": 2}, "queues")
    topology = Topology([], [Queue("q")], [], [policy])
    (change,) = diff(topology.with_profile("rabbitmq-3.10"), topology.with_profile("rabbitmq-3.12")).settings
    assert [(each.name, each.after) for each in change.changes] == [("max-length", (None,))]


def test_a_release_of_two_numbers_is_its_newest_patch_release() -> None:
    assert find_profile_by_name("4.3") == find_profile_by_name("rabbitmq-4.3") == PROFILES["rabbitmq-4.3"]
    assert find_profile_by_name("4.3.0") != PROFILES["rabbitmq-4.3"]
    newest = find_profile_by_name("4.2")
    assert newest is not None
    assert newest == find_profile_by_name("4.2.x") == replace(find_profile("4.2.9"), name="rabbitmq-4.2")


NUMBERS = """\
exchange h: headers
queue a
h -> a: all { n = 1 }
"""


def run(path: Path, text: str, *options: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(diff_command, [str(path), *options])


def test_the_command_compares_one_file_under_two_releases(tmp_path: Path) -> None:
    result = run(tmp_path / "t.bindings", NUMBERS, "--from", "3.12", "--to", "4.3")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "releases: rabbitmq-3.12, then rabbitmq-4.3",
        "plan: nothing to do",
        "meaning:",
        "  - queue 'a' loses from exchange 'h':",
        "      headers n = 1, by the rules of the old release but not of the new one",
        "      such as '' with { n = 1.0 }",
        "  ! published to exchange 'h', '' with { n = 1.0 } goes nowhere now",
        "what the new release refuses or ignores: hashstar upgrade",
    ]
    same = run(tmp_path / "t.bindings", NUMBERS, "--from", "3.13", "--to", "4.3")
    assert (same.exit_code, "proved for all keys and headers" in same.output) == (0, True)


def test_a_release_that_the_user_chose_is_not_said_to_be_named_by_the_topology(tmp_path: Path) -> None:
    result = run(tmp_path / "t.bindings", NUMBERS, "--from", "4.3", "--to", "3.12")
    assert result.output.startswith("releases: rabbitmq-4.3, then rabbitmq-3.12\n")
    assert "which the topologies name" not in result.output


def test_json_and_markdown_name_both_releases(tmp_path: Path) -> None:
    values = json.loads(run(tmp_path / "t.bindings", NUMBERS, "--from", "3.12", "--to", "4.3", "--json").output)
    assert (values["old_profile"], values["profile"]) == ("rabbitmq-3.12", "rabbitmq-4.3")
    text = run(tmp_path / "t.bindings", NUMBERS, "--from", "3.12", "--to", "4.3", "--format", "markdown").output
    assert "from rabbitmq-3.12 to rabbitmq-4.3" in text


QUORUM = """\
queue work: quorum
queue kept: quorum, x-dead-letter-exchange = "", x-dead-letter-routing-key = "work"
queue limited: quorum
policy p: "^limited$", queues, delivery-limit = 5
"""


def test_a_default_that_differs_between_the_releases_is_a_changed_setting(tmp_path: Path) -> None:
    result = run(tmp_path / "t.bindings", QUORUM, "--from", "3.13", "--to", "4.0", "--fail-on", "lost")
    often = "by default, a message that comes back more than 20 times is"
    assert result.output.splitlines()[4:] == [
        "settings in force:",
        "  ! queue 'kept':",
        f"      delivery-limit none -> 20 (default): {often} dead-lettered to the default exchange",
        "  ! queue 'work':",
        f"      delivery-limit none -> 20 (default): {often} dropped",
        "what the new release refuses or ignores: hashstar upgrade",
    ]
    assert result.exit_code == 1
    back = run(tmp_path / "t.bindings", QUORUM, "--from", "4.0", "--to", "3.13", "--fail-on", "lost")
    assert "delivery-limit 20 (default) -> none: a message may come back to consumers for ever" in back.output
    assert back.exit_code == 0
    values = json.loads(run(tmp_path / "t.bindings", QUORUM, "--from", "3.13", "--to", "4.0", "--json").output)
    [change] = values["settings"][1]["changes"]
    assert (change["before"], change["after"]) == ([None], [{"value": 20, "source": "default", "policy": None}])


def test_a_default_counts_where_a_limit_is_removed_between_the_releases(tmp_path: Path) -> None:
    new = tmp_path / "new.bindings"
    new.write_text("queue r: quorum")
    old = "queue r: quorum, x-delivery-limit = 7"
    result = run(tmp_path / "old.bindings", old, str(new), "--from", "3.13", "--to", "4.0")
    assert "delivery-limit 7 (argument) -> 20 (default): by default, a message that comes back" in result.output


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("4.1", "4.3", "rabbitmq-4.1, then rabbitmq-4.3"),
        ("4.1.x", "4.2", "4.1.x (by the rules of rabbitmq-4.1), then rabbitmq-4.2"),
        (
            "4.2.5-1",
            "4.3.0-rc.1",
            "4.2.5-1 (by the rules of rabbitmq-4.2.5), then 4.3.0-rc.1 (by the rules of rabbitmq-4.3.0)",
        ),
        ("v4.1.1", "4.1.8", "4.1.1 (by the rules of rabbitmq-4.0), then rabbitmq-4.1.8"),
        ("rabbitmq-3.13", "4.2.6", "rabbitmq-3.13, then rabbitmq-4.2.6"),
    ],
)
def test_the_releases_are_named_as_they_were_given(tmp_path: Path, old: str, new: str, named: str) -> None:
    result = run(tmp_path / "t.bindings", NUMBERS, "--from", old, "--to", new)
    assert result.output.splitlines()[0] == f"releases: {named}"
    assert "the topologies name" not in result.output


def test_the_release_of_an_export_is_named_as_the_export_names_it(tmp_path: Path) -> None:
    export = json.dumps({
        "rabbitmq_version": "4.1.0", "vhosts": [{"name": "/"}], "exchanges": [], "bindings": [],
        "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    })  # fmt: skip
    result = run(tmp_path / "t.json", export, "--to", "4.3")
    assert result.output.splitlines()[0] == "releases: 4.1.0 (by the rules of rabbitmq-4.0), then rabbitmq-4.3"
    last = run(tmp_path / "t.json", export, str(tmp_path / "t.json")).output.splitlines()[-1]
    assert last == "by the rules of rabbitmq-4.0, for the release that the topologies name"


def test_markdown_never_says_that_two_releases_are_the_same(tmp_path: Path) -> None:
    text = run(tmp_path / "t.bindings", "queue q", "--from", "4.1.0", "--to", "4.3", "--format", "markdown").output
    assert text.startswith("### hashstar diff: no message goes elsewhere\n")
    assert "from 4.1.0 (by the rules of rabbitmq-4.0) to rabbitmq-4.3" in text
    assert "refuses or ignores: `hashstar upgrade`" in text


@pytest.mark.parametrize(
    "options", [("--from", "3.12", "--profile", "4.0"), ("--from", "3.12", "--against", "HEAD"), ("--from", "2.8"), ()]
)
def test_bad_usage_ends_with_2(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert run(tmp_path / "t.bindings", NUMBERS, *options).exit_code == 2
