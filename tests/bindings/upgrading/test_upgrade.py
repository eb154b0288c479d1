"""``hashstar upgrade``: what it finds in topologies, where it finds nothing, and the releases on the way."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bindings.cli import find_command
from bindings.sources.document import Document
from bindings.upgrading.facts.fact import ALWAYS, Fact
from bindings.upgrading.facts.table import FACTS
from bindings.upgrading.forms.text import to_text
from bindings.upgrading.forms.words import describe_source
from bindings.upgrading.releases import KNOWN, find_steps, release_of
from bindings.upgrading.run import NEWEST
from bindings.upgrading.transform.transform import choose
from bindings.upgrading.upgrade import plan_upgrade, upgrade_topology
from docs.scripts.facts import GOLDEN, PAGE, with_facts
from exchange import Binding, Exchange, Policy, Queue, Topology, Typed
from exchange.entities.releases import LIVE, SERIES
from exchange.errors import BrokerError, InputError
from tests.support.cases import with_each
from tests.support.releases import NEXT_SERIES, newest_of
from tests.support.trials.table import ELSEWHERE, TRIALS

RELEASES = tuple(SERIES)
NAMED = (*RELEASES, "3.10.8", "4.0.5", "4.2.5", "4.2.6", "4.3.0", "4.3.6", "4.3.99", "4.4.0", "5.0")
PAIRS = [(old, new) for at, old in enumerate(RELEASES) for new in RELEASES[at + 1 :]]


def ids(topology: Topology, old: str, new: str) -> set[str]:
    """Return the facts that are seen in parts of a topology."""
    sightings = upgrade_topology(topology, release_of(old), release_of(new)).sightings
    return {sighting.fact.id for sighting in sightings if sighting.parts}


def of_queue(policy: dict[str, object] | None = None, *, durable: bool = True, **arguments: object) -> Topology:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    policies = [] if policy is None else [Policy("p", "^q", policy, "queues")]
    return Topology([], [Queue("q", durable, arguments=named)], [], policies)


def of_headers(wanted: object, **more: object) -> Topology:
    bindings = [Binding.to_queue("h", "q", "", {"n": wanted, **more})]
    return Topology([Exchange("h", "headers")], [Queue("q")], bindings)


def ring(*bindings: tuple[str, str]) -> Topology:
    queues = sorted({queue for queue, _ in bindings})
    bound = [Binding.to_queue("c", queue, weight) for queue, weight in bindings]
    return Topology([Exchange("c", "x-consistent-hash")], [Queue(queue) for queue in queues], bound)


NEW: dict[str, Any] = {"queue_version": 2}
"""Arguments of a queue that HSU010 is not about."""
EVERY = {"HSU010", "HSU030", "HSU031", "HSU032", "HSU036", "HSU037", "HSU042", "HSU054"}
"""Facts about every classic queue, and about every quorum queue."""


@with_each(
    ("topology", "old", "new", "facts"),
    [
        (of_queue(queue_mode="lazy"), "4.2", "4.3", set()),  # as a live broker: it accepts it
        (of_queue(queue_version=1), "4.2", "4.3", {"HSU001"}),
        (of_queue(queue_master_locator="min-masters"), "4.2", "4.3", {"HSU001"}),
        (of_queue(queue_version=1), "4.0", "4.2", set()),
        (of_queue({"queue-master-locator": "random"}), "4.2", "4.3", {"HSU004"}),
        (of_queue({"ha-mode": "all"}, **NEW), "3.12", "3.13", {"HSU018"}),
        (of_queue({"ha-mode": "all"}, **NEW), "3.13", "4.0", {"HSU004", "HSU006"}),
        (of_queue({"ha-mode": "all"}, queue_type="quorum", delivery_limit=5), "3.13", "4.0", {"HSU004"}),
        (of_queue(durable=False), "4.2", "4.3", {"HSU005"}),
        (of_queue(durable=False), "3.13", "4.2", set()),
        (of_queue(queue_type="quorum"), "3.13", "4.0", {"HSU007"}),
        (of_queue(queue_type="quorum", delivery_limit=50), "3.13", "4.0", set()),
        (of_queue({"delivery-limit": 50}, queue_type="quorum"), "3.13", "4.0", set()),
        (of_queue({"dead-letter-exchange": "x"}, queue_type="quorum"), "3.13", "4.0", {"HSU008", "HSU014", "HSU029"}),
        (of_queue(queue_type="quorum"), "4.0", "4.3", {"HSU016", "HSU041"}),
        (of_queue(queue_type="quorum", delivery_limit=-1), "4.0", "4.3", {"HSU041", "HSU052"}),
        (of_queue(queue_type="quorum"), "3.13", "4.3", {"HSU007", "HSU041"}),
        (of_queue(queue_type="quorum", delivery_limit=5), "3.13", "4.3", {"HSU016", "HSU041"}),
        (of_queue({"queue-mode": "lazy"}), "3.10", "3.12", {"HSU009"}),
        (of_queue(), "3.13", "4.0", {"HSU010"}),
        (of_queue({"queue-version": 2}), "3.12", "4.0", set()),
        (of_queue({"consumer-timeout": 5, "queue-version": 2}), "4.2", "4.3", {"HSU015"}),
        (of_headers(1), "3.12", "3.13", {"HSU011"}),
        (of_headers(1.5), "3.12", "3.13", set()),
        (of_headers(1.5, other=1), "3.12", "3.13", {"HSU011"}),
        (of_headers("1"), "3.12", "3.13", set()),
        (of_headers(Typed("timestamp", 5)), "3.12", "3.13", {"HSU012"}),
        (ring(("b", "1"), ("a", "1")), "4.2", "4.3", {"HSU013"}),
        (ring(("a", "1"), ("b", "1")), "4.2", "4.3", set()),
        (ring(("a", "1"), ("b", "20000")), "4.0", "4.3", {"HSU003"}),
        (ring(("a", "1"), ("b", "20000")), "4.0", "4.2.5", set()),
        (ring(("a", "1"), ("b", "20000")), "4.0", "4.2.6", {"HSU003"}),
        (
            Topology([Exchange("t", "topic")], [Queue("q", arguments={"x-queue-version": 2})],
                     [Binding.to_queue("t", "q", "#.a.#.b.#")]),
            "3.13", "4.3", {"HSU003"},
        ),
    ],
)  # fmt: skip
def test_a_fact_is_seen_where_it_matters_and_nowhere_else(
    topology: Topology, old: str, new: str, facts: set[str]
) -> None:
    """Some are about every queue of a type: they count only where the case is about them."""
    assert ids(topology, old, new) - (EVERY - facts) == facts


@with_each(("old", "new"), PAIRS)
def test_what_no_release_treats_otherwise_is_no_finding(old: str, new: str) -> None:
    """Durable queues, texts in headers, hashes of keys, limits: nothing is said of them."""
    queues = [
        Queue("a", arguments={"x-queue-version": 2, "x-max-length": 5, "x-overflow": "reject-publish"}),
        Queue("b", arguments={"x-queue-type": "stream", "x-max-age": "1D"}),
        Queue("c", arguments={"x-queue-version": 2, "x-expires": 5000, "x-max-priority": 5}),
    ]
    exchanges = [Exchange("t", "topic"), Exchange("h", "headers"), Exchange("c", "x-consistent-hash")]
    bindings = [
        Binding.to_queue("t", "a", "#.x.#"),
        Binding.to_queue("h", "a", "", {"kind": "order", "urgent": True, "there": None}),
        Binding.to_queue("c", "a", "1"),
        Binding.to_queue("c", "c", "2"),
    ]
    policies = [Policy("p", "^a$", {"message-ttl": 5000}, "queues")]
    upgrade = upgrade_topology(Topology(exchanges, queues, bindings, policies), release_of(old), release_of(new))
    assert upgrade.severity is None, upgrade


@given(st.sampled_from(PAIRS), st.sampled_from(("lazy", "default")), st.integers(0, 3), st.integers(-1, 400))
def test_a_queue_is_refused_exactly_if_only_the_new_release_refuses_its_declaration(
    pair: tuple[str, str], mode: str, version: int, priority: int
) -> None:
    queue = Queue("q", arguments={"x-queue-mode": mode, "x-queue-version": version, "x-max-priority": priority})
    refused = []
    for name in pair:
        try:
            Topology(profile=release_of(name).profile).declare_queue(queue)
            refused.append(False)
        except BrokerError:
            refused.append(True)
    found = ids(Topology(queues=[queue]), *pair)
    assert ("HSU001" in found) is (refused == [False, True])
    assert ("HSU055" in found) is (refused == [True, True])


def test_what_neither_release_accepts_is_an_error_that_no_transformation_mends() -> None:
    """A binding without its exchange or queue, an argument that both refuse; also between releases of one profile."""
    lost = Binding.to_queue("nowhere", "q", "a")
    priority = Queue("q", arguments={"x-queue-type": "quorum", "x-max-priority": "high"})
    for topology in (
        Topology([], [Queue("q")], [lost]),
        Topology([Exchange("e")], [], [Binding.to_queue("e", "q", "a")]),
        Topology([], [priority]),
        Topology([Exchange("e", "direct", arguments={"alternate-exchange": 5})]),
        Topology(policies=[Policy("p", "^q", {"message-ttl": "long"}, "queues")]),
    ):
        for old, new in (("3.13", "4.3"), ("4.3.5", "4.3.6")):
            upgrade = upgrade_topology(
                topology, release_of(old), release_of(new), choose(["default"], release_of(old), release_of(new))
            )
            for sightings in (upgrade.sightings, upgrade.transformed.left if upgrade.transformed else ()):
                assert [each.fact.severity for each in sightings if each.fact.id == "HSU055"] == ["error"], topology
            assert upgrade.severity == "error"
    dangling = Topology([Exchange("e")], [], [Binding.to_queue("e", "amq.gen-x", "a")])
    for old, new, fact in (
        ("3.10", "3.12", None), ("3.12", "4.3", "HSU056"), ("4.0", "4.3", "HSU055"), ("4.3", "4.4.0", "HSU055"),
        ("4.4.0", "4.4.1", None), ("4.3", "4.4", None), ("3.10", "4.4", None),
    ):  # fmt: skip
        found = {"HSU055", "HSU056"} & {*ids(dangling, old, new)}
        assert found == ({fact} if fact else set()), (old, new)
    assert "HSU055" not in ids(
        Topology([Exchange("e")], [Queue("q")], [Binding.to_queue("e", "q", "a")]), "3.13", "4.3"
    )


def test_messages_that_are_routed_differently_have_a_witness_and_count_as_lost() -> None:
    upgrade = upgrade_topology(of_headers(1), release_of("3.12"), release_of("4.3"))
    [effect] = upgrade.difference.meaning.effects
    assert (effect.queue, effect.gained, effect.witness.headers) == ("q", False, {"n": 1.0})
    assert upgrade.severity == "error"


@pytest.mark.parametrize(
    ("old", "new", "series"),
    [
        ("3.12", "4.3", ["3.13", "4.2", "4.3"]),
        ("3.10", "3.13.7", ["3.11", "3.12", "3.13"]),
        ("3.13", "4.1", ["4.1"]),
        ("4.1", "4.3", ["4.2", "4.3"]),
        ("4.3.0", "4.3.6", []),
        ("4.2", "4.4", ["4.3", "4.4"]),
        ("4.4.0", "4.4.1", []),
        ("4.3", "5.0", [*[name for name in SERIES if SERIES[name].since > (4, 3, 99)], "5.0"]),
        (NEXT_SERIES, "5.0", ["5.0"]),
    ],
)
def test_the_steps_are_those_that_rabbitmq_supports(old: str, new: str, series: list[str]) -> None:
    assert [step.end for step in find_steps(release_of(old), release_of(new))] == series


def test_a_step_that_skips_a_series_asks_for_what_that_series_asks_for() -> None:
    [step] = find_steps(release_of("3.13"), release_of("4.1"))
    assert [first.split()[0] for first in step.first] == ["see", "be", "remove", "a", "raise"]


def test_no_release_is_upgraded_to_an_older_one() -> None:
    for old, new in (("4.3", "4.0"), ("4.3", "4.3"), ("4.2.6", "4.2.5")):
        with pytest.raises(InputError, match="is no upgrade"):
            plan_upgrade([Topology()], release_of(old), release_of(new))


@pytest.mark.parametrize(("old", "new"), [("3.13", "4.2"), ("3.13", "4.3"), ("4.1", "4.2.5")])
def test_a_step_to_4_2_asks_for_erlang_27_which_its_newest_patch_releases_require(old: str, new: str) -> None:
    """A node of 3.13 cannot be on it before the step."""
    [step] = [each for each in find_steps(release_of(old), release_of(new)) if each.end == "4.2"]
    assert any("Erlang 27 for each node that gets 4.2.9 or later" in first for first in step.first)


def test_a_step_asks_for_a_patch_release_only_of_those_on_an_older_one() -> None:
    def first(old: str, new: str) -> tuple[str, ...]:
        return find_steps(release_of(old), release_of(new))[0].first

    assert any("3.11.18" in each for each in first("3.11.17", "3.12"))
    assert not any("3.11.18" in each for name in ("3.11.18", "3.11.28", "3.11") for each in first(name, "3.12"))
    assert "be on the latest patch release of 4.2" in first("4.2.0", "4.3")
    assert find_steps(release_of("3.13"), release_of("4.3"))[1].first[0] == "be on the latest patch release of 4.2"
    assert not any("latest" in each for each in first("4.2", "4.3"))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("4.3.99", "4.3", f"{newest_of('4.3')} is the newest patch release of 4.3 that is known here"),
        (newest_of("4.3"), "4.3", f"{newest_of('4.3')} is the newest patch release of 4.3 that is known here"),
        ("4.3", "4.3.1", "4.3 without a patch number is its newest patch release"),
        ("3.13", "3.13.7", "3.13 without a patch number is its newest patch release"),
        ("5.0.1", KNOWN[-1], f"{KNOWN[-1]} is the newest release that is known here; give --to RELEASE"),
        ("5.0", KNOWN[-1], f"{KNOWN[-1]} is the newest release that is known here; give --to RELEASE"),
    ],
)
def test_an_upgrade_that_is_none_names_the_reason(old: str, new: str, why: str) -> None:
    with pytest.raises(InputError, match=f"from {old} to {new} is no upgrade: {why}"):
        find_steps(release_of(old), release_of(new))


def test_a_fact_is_tried_on_live_brokers_exactly_if_these_are_its_source() -> None:
    shown = {fact.id for fact in FACTS if fact.evidence == "trial"}
    assert shown == TRIALS.keys() | ELSEWHERE
    assert len(FACTS) >= 60


def test_live_brokers_are_those_whose_answers_are_recorded() -> None:
    recorded = [json.loads(path.read_text("utf-8"))["version"] for path in GOLDEN.glob("rabbitmq-lives-*.json")]
    assert sorted(release_of(version).numbers for version in recorded) == [*LIVE]


OF_PATCHES = {"HSU060", "HSU061", "HSU116"}
"""Facts of patch releases that all live brokers are on one side of."""


@given(st.sampled_from(FACTS), st.lists(st.sampled_from(NAMED), min_size=2, max_size=2, unique=True))
def test_live_brokers_have_shown_only_what_brokers_of_such_releases_can_show(fact: Fact, names: list[str]) -> None:
    """A fact with a date is shown on both sides of it, if brokers are; what a release refuses, by one of its rules."""
    old, new = sorted(map(release_of, names), key=lambda each: each.numbers)
    brokers = fact.find_brokers(old, new)
    assert set(brokers) <= set(LIVE)
    assert (fact.source_of(brokers) == "live brokers") == bool(brokers)
    if fact.evidence != "trial":
        assert brokers == ()
    elif fact.since != ALWAYS:
        assert [fact.holds_for(live) for live in LIVE] == [live in brokers for live in LIVE]
        assert (0 < len(brokers) < len(LIVE)) != (fact.id in OF_PATCHES)
    else:
        asked = (old, new) if fact.recurs else (new,)
        had = {"3.10", "3.10.8", "4.0", "4.0.5", "4.3", "4.3.6"}
        assert bool(brokers) == (set(map(str, asked)) <= had)


@pytest.mark.parametrize(
    ("old", "new", "text", "source"),
    [
        ("4.3", "4.4", 'queue m: classic, x-member-placement-tag = "a"', "source"),
        ("4.2.5", "4.2.6", 'exchange h: x-consistent-hash\nqueue q\nh -> q: "10001"', "source"),
        ("4.2.5", "4.3", 'exchange h: x-consistent-hash\nqueue q\nh -> q: "10001"', "live brokers"),
        ("4.2", "4.3.99", 'exchange h: x-consistent-hash\nqueue q\nh -> q: "10001"', "source"),
    ],
)
def test_what_no_live_broker_of_a_release_was_asked_is_from_its_source(
    old: str, new: str, text: str, source: str
) -> None:
    result = plan_upgrade([Document.loads(text).topology()], release_of(old), release_of(new))
    seen = [each for each in result.vhosts[0].sightings if each.fact.id in ("HSU001", "HSU003", "HSU055")]
    assert all(each.source == source for each in seen)
    assert ("shown by live" in "\n".join(to_text(result)).partition("routes:")[0]) == (source == "live brokers")
    assert seen or old == "4.2"


@given(st.sampled_from(FACTS), st.lists(st.sampled_from(RELEASES), min_size=2, unique=True))
def test_a_fact_that_comes_with_an_upgrade_comes_with_one_of_its_steps(fact: Fact, names: list[str]) -> None:
    """And what comes with a step comes with the whole, unless it has ended on the way."""
    way = [release_of(name).numbers for name in sorted(names, key=RELEASES.index)]
    steps = [fact.comes_between(old, new) for old, new in pairwise(way)]
    whole = fact.comes_between(way[0], way[-1])
    assert whole <= any(steps)
    assert any(steps) <= (whole or fact.until is not None)


def test_a_fact_that_came_with_patch_releases_of_several_series_holds_from_each_on() -> None:
    [fact] = [each for each in FACTS if each.id == "HSU220"]
    holds = {
        name: fact.holds_for(release_of(name).numbers) for name in ("4.2.8", "4.2.9", "4.3.2", "4.3.3", "4.2", "4.3")
    }
    assert holds == {"4.2.8": False, "4.2.9": True, "4.3.2": False, "4.3.3": True, "4.2": True, "4.3": True}
    assert describe_source(fact, ()) == "since 4.2.9 and 4.3.3, from the release notes"
    [body] = [each for each in FACTS if each.id == "HSU213"]
    assert [body.holds_for((3, minor, 6)) for minor in (11, 12, 13)] == [False, False, True]


def test_only_facts_that_live_brokers_show_name_their_releases() -> None:
    for fact in FACTS:
        text = describe_source(fact, ((4, 0, 5), (4, 3, 6)))
        assert text.endswith("of 4.0.5 and 4.3.6") == (fact.source_of(((4, 0, 5),)) == "live brokers"), text


@pytest.mark.parametrize("fact", [fact for fact in FACTS if fact.later], ids=lambda fact: fact.id)
def test_the_series_of_a_fact_are_named_in_order_and_each_once(fact: Fact) -> None:
    series = [numbers[:2] for numbers in (fact.since, *fact.later)]
    assert series == sorted(set(series))


def test_facts_from_the_release_notes_name_them() -> None:
    assert all(fact.page for fact in FACTS if fact.evidence == "release notes")


def test_the_documentation_has_every_fact_with_its_source() -> None:
    page = PAGE.read_text("utf-8")
    assert page == with_facts(page), "run python -m docs.scripts.facts"
    assert all(f"| {fact.id} |" in page for fact in FACTS)
    assert len({fact.id for fact in FACTS}) == len(FACTS)


OLD = """\
exchange h: headers
queue jobs: classic, x-queue-version = 1
queue replies: classic, transient
h -> jobs: all { n = 1 }
"""


def run(tmp_path: Path, text: str, *options: str) -> Result:
    path = tmp_path / "shop.bindings"
    path.write_text(text)
    command = find_command("upgrade")
    return CliRunner().invoke(command, [str(path), *options])


def test_the_text_has_what_is_refused_first_with_the_broker_s_answer_and_the_way_out(tmp_path: Path) -> None:
    result = run(tmp_path, OLD, "--from", "3.12")
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert lines[:2] == [f"upgrade from 3.12 to {NEWEST}", "refused or lost:"]
    assert lines[2].startswith("  HSU001 queue 'jobs': the new release refuses the queue.")
    assert "x-queue-version" in lines[3]
    assert "      such as '' with { n = 1.0 }" in lines
    assert lines.index("  3. 4.2 to 4.3") < lines.index("for applications, whatever the topology:")


def test_markdown_and_json_have_the_same(tmp_path: Path) -> None:
    text = run(tmp_path, OLD, "--from", "3.12", "--format", "markdown").output
    assert "- [ ] 4.2 to 4.3" in text
    values = json.loads(run(tmp_path, OLD, "--from", "3.12", "--format", "json").output)
    [vhost] = values["vhosts"]
    assert (values["from"], values["to"], vhost["severity"]) == ("3.12", NEWEST, "error")
    seen = [(each["id"], [part.get("name") for part in each["parts"]]) for each in vhost["sightings"]]
    assert ("HSU001", ["jobs"]) in seen
    assert ("HSU005", ["replies"]) in seen


def test_what_the_new_broker_is_configured_to_permit_is_not_refused(tmp_path: Path) -> None:
    """Neither to the topology nor, in the list of what applications ask, to any."""
    topology, options = "queue replies: transient\n", ("--from", "4.2", "--fail-on", "error")
    assert run(tmp_path, topology, *options).exit_code == 1
    result = run(tmp_path, topology, *options, "--permit", "transient_nonexcl_queues", "--permit", "global_qos")
    assert result.exit_code == 0
    assert "HSU005" not in result.output
    assert "HSU104" not in result.output
    assert "HSU104" in run(tmp_path, topology, *options, "--permit", "transient_nonexcl_queues").output


def test_an_export_names_the_release_and_each_virtual_host_is_looked_at(tmp_path: Path) -> None:
    queue = {"name": "q", "durable": False, "auto_delete": False, "arguments": {}}
    export = {
        "rabbitmq_version": "4.2.1",
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "queues": [{**queue, "vhost": "shop"}],
        "exchanges": [], "bindings": [], "policies": [],
    }  # fmt: skip
    result = run(tmp_path, json.dumps(export))
    lines = result.output.splitlines()
    assert lines[0] == f"upgrade from 4.2.1 to {NEWEST}"
    assert [line for line in lines if line.startswith("virtual host")] == ["virtual host '/':", "virtual host 'shop':"]
    assert result.exit_code == 1
    assert run(tmp_path, json.dumps(export), "--vhost", "/").exit_code == 0


@pytest.mark.parametrize(("lowest", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_the_user_chooses_what_fails(tmp_path: Path, lowest: str, code: int) -> None:
    ring_text = 'exchange c: x-modulus-hash\nqueue a\nqueue b\nc -> a: "2"\nc -> b: "1"\n'
    assert run(tmp_path, ring_text, "--from", "4.2", "--fail-on", lowest).exit_code == code


@pytest.mark.parametrize(
    "options",
    [(), ("--from", "4.3", "--to", "4.0"), ("--from", "3.12", "--to", "3.99"), ("--from", "2.8"), ("--vhost", "none")],
)
def test_bad_usage_ends_with_2(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert run(tmp_path, OLD, *options).exit_code == 2


def test_no_name_is_markup_or_a_second_line(tmp_path: Path) -> None:
    hostile = 'queue "a\\nb|<img src=x>@all`": classic, x-queue-version = 1\n'
    text = run(tmp_path, hostile, "--from", "4.2", "--format", "markdown").output
    assert "<img" not in re.sub(r"(?<!\\)(`+).+?\1", "", text)
    assert all(line.startswith(("#", "-", "*", " ", "`", "no ", "Before")) or not line for line in text.splitlines())
