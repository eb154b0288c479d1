"""A refused policy: which others come into force, and where, when what is refused is removed from it by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.commands.upgrade import upgrade_command
from bindings.upgrading.facts.crossing import Crossing
from bindings.upgrading.facts.refused import find_refused_policies
from exchange import Exchange, Policy, Queue, Topology
from exchange.entities.in_force import find_possible_policies
from exchange.entities.policy_definitions import find_wrong_settings
from exchange.entities.profile import Profile
from exchange.entities.releases import find_profile_by_name
from tests.support.tiers import examples

MIRRORED = {"ha-mode": "all"}


def profile(name: str) -> Profile:
    found = find_profile_by_name(name)
    assert found is not None
    return found


def explain(topology: Topology, policy: Policy, old: str = "3.13", new: str = "4.3") -> str:
    return Crossing(topology.with_profile(profile(old)), profile(new)).policy_shifts.explain(policy)


def of(*policies: Policy, queues: tuple[Queue, ...] = (Queue("jobs"),), exchanges: tuple[str, ...] = ()) -> Topology:
    return Topology([Exchange(name) for name in exchanges], queues, [], policies)


def test_a_policy_that_comes_into_force_is_named_with_its_priority_its_pattern_and_its_queues() -> None:
    top = Policy("top", "^jobs", MIRRORED, "queues", 5)
    low = Policy("low", "^j", {"max-length": 9}, "queues", 1)
    queues = (Queue("jobs"), Queue("jobs.eu"), Queue("just"), Queue("other"))
    assert explain(of(top, low, queues=queues), top) == (
        "it sets nothing else: when it is removed, policy 'low' (priority 1, pattern '^j') comes into force in "
        "2 queues ('jobs', 'jobs.eu'); to prevent that, keep it with queue-leader-locator = client-local alone, which "
        "moves no message"
    )


def test_several_policies_below_a_refused_one_are_each_named_and_refused_ones_are_passed_over() -> None:
    """The one in between is refused, too, and is removed as well."""
    top = Policy("top", "^jobs", MIRRORED, "all", 5)
    between = Policy("between", "^jobs", MIRRORED, "all", 4)
    low = Policy("low", "", {"max-length": 9}, "queues", 1)
    lower = Policy("lower", "", {"alternate-exchange": "x"}, "exchanges", 1)
    text = explain(of(top, between, low, lower, exchanges=("jobs",)), top)
    assert "policy 'low' (priority 1, pattern '') comes into force in queue 'jobs'" in text
    assert "policy 'lower' (priority 1, pattern '') comes into force in exchange 'jobs';" in text
    assert "force in queue 'jobs' and policy 'lower'" in text
    assert "between" not in text


def test_what_keeps_other_settings_stays_in_force_and_no_other_policy_comes() -> None:
    top = Policy("top", "^jobs", {**MIRRORED, "max-length": 5}, "queues", 5)
    low = Policy("low", "", {"max-length": 9}, "queues", 1)
    assert explain(of(top, low), top) == "what else it sets stays in force where it is"


def test_a_policy_that_was_kept_off_quorum_queues_by_the_setting_comes_into_force_there() -> None:
    """And takes the place of the one that is in force there now."""
    top = Policy("top", "^jobs", {**MIRRORED, "max-length": 5}, "queues", 5)
    low = Policy("low", "", {"max-length": 9}, "queues", 1)
    quorum = Queue("jobs.q", arguments={"x-queue-type": "quorum"})
    text = explain(of(top, low, queues=(Queue("jobs"), quorum)), top)
    assert text.startswith(
        "without the setting it also comes into force in queue 'jobs.q', in place of policy 'low' (priority 1, "
        "pattern ''): change its pattern or apply-to"
    )
    assert "in queue 'jobs.q', where none was:" in explain(of(top, queues=(quorum,)), top)


def test_a_policy_above_no_other_can_be_removed() -> None:
    top = Policy("top", "^jobs", MIRRORED, "queues", 5)
    other = Policy("other", "^other", {"max-length": 9}, "queues", 1)
    assert (
        explain(of(top, other), top) == "it sets nothing else, and no other policy comes into force when it is removed"
    )


def test_an_operator_policy_is_compared_with_operator_policies_and_cannot_be_kept_empty() -> None:
    top = Policy("top", "^jobs", {"ha-mode": "all"}, "queues", 5, operator=True)
    low = Policy("low", "", {"max-length": 9}, "queues", 1, operator=True)
    users = Policy("users", "", {"max-length": 7}, "queues", 2)
    text = explain(of(top, low, users), top)
    assert "operator policy 'low' (priority 1, pattern '') comes into force in queue 'jobs'" in text
    assert "users" not in text
    assert text.endswith("; change the patterns of those that should not")


def test_a_policy_that_is_refused_for_its_pattern_has_nothing_to_explain(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    policy = {"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 5}, "apply-to": "queues"}
    path.write_text(json.dumps({"queues": [{"name": "q", "vhost": "/"}], "policies": [policy]}))
    for options in ([], ["--transform", "default"]):
        result = CliRunner().invoke(upgrade_command, [str(path), "--from", "3.13", "--to", "4.3", *options])
        assert (result.exit_code, "here:" in result.output) == (1, False), result.output
        assert "HSU055 policy 'p': the old release refuses it, too" in result.output


def test_many_queues_are_counted_and_long_names_clipped() -> None:
    top = Policy("top", "", MIRRORED, "queues", 5)
    low = Policy("low" * 80, "x*" * 500, {"max-length": 9}, "queues", 1)
    text = explain(of(top, low, queues=tuple(Queue(f"{n}" * 90) for n in range(10, 50))), top)
    assert " in 40 queues (" in text
    assert " and 30 more); " in text
    assert len(text) < 2_500


NAMES = ("a", "b", "ab", "x")
DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    MIRRORED, {**MIRRORED, "max-length": 3}, {"max-length": 4}, {"queue-master-locator": "random"}, {"expires": 9},
)  # fmt: skip


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    queues = [Queue(name, arguments={"x-queue-type": draw(st.sampled_from(["classic", "quorum"]))}) for name in NAMES]
    policies = [
        Policy(
            f"p{number}",
            draw(st.sampled_from(["", "a", "^b", "x"])),
            draw(st.sampled_from(DEFINITIONS)),
            draw(st.sampled_from(["all", "queues", "exchanges"])),
            draw(st.integers(0, 3)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    return Topology([Exchange("a"), Exchange("x")], queues, [], policies, profile=profile("3.13"))


@examples(60)
@given(topologies(), st.sampled_from(["4.0", "4.3"]))
def test_each_policy_that_is_named_comes_into_force_and_each_that_comes_is_named(topology: Topology, new: str) -> None:
    """The oracle mends each refused policy, asks each part before and after, and knows nothing else."""
    release = profile(new)
    crossing = Crossing(topology, release)
    refused = {policy.name for policy, _ in find_refused_policies(crossing) if isinstance(policy, Policy)}
    after = {}
    for name, policy in topology.policies.items():
        kept = {
            key: value for key, value in policy.definition.items() if not find_wrong_settings({key: value}, release)
        }
        if name not in refused or kept:
            changed = kept if name in refused else policy.definition
            after[name] = Policy(name, policy.pattern, changed, policy.apply_to, policy.priority)
    gone = refused - after.keys()
    parts: list[Queue | Exchange] = [*topology.queues.values(), *topology.exchanges.values()]
    for name in gone:
        comes: set[str] = set()
        for part in parts:
            was = {
                each.name
                for each in find_possible_policies(part, topology.policies, topology.profile)
                if each is not None
            }
            now = {each.name for each in find_possible_policies(part, after, release) if each is not None}
            if name in was:
                comes |= now - was
        text = crossing.policy_shifts.explain(topology.policies[name])
        assert {other for other in topology.policies if f"policy '{other}' (" in text} == comes
        assert ("no other policy comes into force" in text) == (not comes)


SHOP = """\
queue jobs
queue 'a <b>'
policy top: "", queues, priority 5, ha-mode = "all"
policy low: "^j", queues, priority 1, max-length = 9
"""


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_all_forms_name_the_policy_that_comes_into_force(tmp_path: Path, form: str) -> None:
    path = tmp_path / "shop.bindings"
    path.write_text(SHOP)
    options = ["--html", "-"] if form == "html" else ["--format", form]
    result = CliRunner().invoke(upgrade_command, [str(path), "--from", "3.13", "--to", "4.3", *options])
    text = result.stdout
    if form == "json":
        sightings = json.loads(text)["vhosts"][0]["sightings"]
        [text] = [each["explanation"] for each in sightings if each["id"] == "HSU004"]
        assert all(each["explanation"] is None for each in sightings if each["id"] != "HSU004")
    plain = text.replace("&#x27;", "'").replace("\\", "")
    assert "policy 'low' (priority 1, pattern '^j') comes into force in queue 'jobs'" in plain
    assert result.exit_code == 1


def test_the_way_out_does_what_it_promises(tmp_path: Path) -> None:
    """--transform default keeps the other policy out of force."""
    path = tmp_path / "shop.bindings"
    path.write_text(SHOP)
    out = tmp_path / "new.json"
    CliRunner().invoke(upgrade_command, [str(path), "--from", "3.13", "-o", str(out), "--transform", "default"])
    policies = {each["name"]: each["definition"] for each in json.loads(out.read_text())["policies"]}
    assert policies["top"] == {"queue-leader-locator": "client-local"}
