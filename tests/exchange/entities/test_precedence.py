"""`explain --queue` accounts for what is in force in a queue, what that overrides, and which policies are left out."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from exchange import Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.precedence import InForceAccount, build_account, format_account
from exchange.values.documents import encode_as
from tests.support.program import invoke

JOBS = Queue("jobs", arguments={"x-max-length": 50, "x-overflow": "reject-publish", "x-queue-type": "classic"})


def lines(queue: Queue, *policies: Policy) -> list[str]:
    users = {policy.name: policy for policy in policies if not policy.operator}
    operators = {policy.name: policy for policy in policies if policy.operator}
    return list(format_account(build_account(queue, Policies(users, operators))))


def test_each_setting_names_its_source_and_what_it_overrides() -> None:
    limits = Policy("limits", "^jobs", {"max-length": 10, "overflow": "drop-head", "dead-letter-exchange": "dlx"})
    assert lines(JOBS, limits, Policy("limits", "", {"max-length": 7}, "queues", operator=True)) == [
        "in force in queue 'jobs' (classic):",
        "  dead-letter-exchange: \"dlx\" (policy 'limits')",
        "  max-length: 7 (operator policy 'limits'), overrides 50 (argument), overrides 10 (policy 'limits')",
        '  overflow: "reject-publish" (argument), overrides "drop-head" (policy \'limits\')',
    ]


def test_policies_that_match_the_name_and_are_not_in_force_say_why() -> None:
    shown = lines(
        Queue("jobs", arguments={"x-queue-type": "quorum"}),
        Policy("mirrored", "", {"ha-mode": "all"}, priority=9),
        Policy("streams", "", {"max-age": "1D"}, "streams", priority=9),
        Policy("chosen", "", {"expires": 5}, priority=2),
        Policy("lower", "", {"expires": 6}),
        Policy("elsewhere", "^x", {"expires": 7}, priority=9),
    )
    assert shown == [
        "in force in queue 'jobs' (quorum):",
        "  expires: 5 (policy 'chosen')",
        "  not in force: policy 'mirrored': quorum queues do not support ha-mode, so it does not apply to them at all",
        "  not in force: policy 'streams': it applies to streams only",
        "  not in force: policy 'lower': 'chosen' has a higher priority",
    ]


def test_all_values_are_listed_where_it_is_not_known_which_policy_is_in_force() -> None:
    one, two = (Policy(f"p{number}", "", {"max-length": number, "expires": 9}) for number in (4, 5))
    assert lines(Queue("q"), one, two)[1:] == [
        "  expires: 9 (policy 'p4') or 9 (policy 'p5'); which policy is in force is not known here",
        "  max-length: 4 (policy 'p4') or 5 (policy 'p5'); which policy is in force is not known here",
    ]


def test_a_queue_without_settings_needs_no_line() -> None:
    assert lines(Queue("q"), Policy("p", "^x", {"expires": 7})) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.dictionaries(
    st.sampled_from(["max-length", "overflow", "message-ttl"]), st.integers(0, 3), min_size=1)), max_size=4))  # fmt: skip
def test_what_is_in_force_and_what_is_overridden_is_all_that_is_given(given_: list[tuple[bool, int, dict]]) -> None:  # type: ignore[type-arg]
    policies = [
        Policy(f"p{at}", "", definition, priority=priority, operator=operator)
        for at, (operator, priority, definition) in enumerate(given_)
    ]
    users = {policy.name: policy for policy in policies if not policy.operator}
    operators = {policy.name: policy for policy in policies if policy.operator}
    every = Policies(users, operators)
    settings = every.settings_of(JOBS)
    account = build_account(JOBS, every)
    if settings is not None:
        applied = [one.definition for one in (settings.policy, settings.operator_policy) if one]
        for setting in account.settings:
            expected = [one[setting.name] for one in applied if setting.name in one]
            expected += [JOBS.arguments[f"x-{setting.name}"]] if f"x-{setting.name}" in JOBS.arguments else []
            [value] = setting.values
            assert value is not None
            assert sorted(map(str, [value.value, *(other.value for other in setting.overridden)])) == sorted(
                map(str, expected)
            )
    json.dumps(encode_as(InForceAccount, account))


def test_explain_prints_what_is_in_force_in_the_queue_asked_about(tmp_path: Path) -> None:
    topology = tmp_path / "shop.bindings"
    topology.write_text(
        "queue jobs: x-max-length = 50\nqueue plain\n"
        'policy limits: "^jobs$", queues, max-length = 10, dead-letter-exchange = "\\u001b[1m"\n'
    )
    result = invoke("explain", "-t", topology, "", "jobs", "--queue", "jobs")
    assert result.stdout.splitlines()[-3:] == [
        "in force in queue 'jobs' (classic):",
        "  dead-letter-exchange: \"\\u001b[1m\" (policy 'limits')",
        "  max-length: 10 (policy 'limits'), overrides 50 (argument)",
    ]
    assert "in force" not in invoke("explain", "-t", topology, "", "jobs", "--queue", "plain").stdout
    [answer] = [json.loads(invoke("explain", "-t", topology, "", "x", "-q", "jobs", "--json").stdout)]
    assert answer["asked"]["in_force"]["settings"][1] == {
        "name": "max-length",
        "values": [{"value": 10, "source": "policy", "policy": "limits"}],
        "overridden": [{"value": 50, "source": "argument", "policy": None}],
    }
    missing = json.loads(invoke("explain", "-t", topology, "", "x", "-q", "gone", "--json").stdout)
    assert missing["asked"]["in_force"] is None


def test_integers_of_policies_have_any_size_and_no_value_is_too_odd_to_print() -> None:
    huge = Policy("p", "", {"message-ttl": 10**30, "odd": [10**25, {"!long": 10**25}], "none": None})
    assert lines(Queue("q"), huge)[1:] == [
        f"  message-ttl: {10**30} (policy 'p')",
        "  none: null (policy 'p')",
        f"  odd: [{10**25}, {{ \"!long\" = {10**25} }}] (policy 'p')",
    ]
    odd = Queue("q", arguments={"x-a": b"\xff", "x-b": [1, {"c": 2.5}], "x-c": None})
    assert len(lines(odd)) == 4
    json.dumps(encode_as(InForceAccount, build_account(odd, Policies({"p": huge}))))


def test_the_profile_is_printed_where_the_topology_chose_an_older_one(tmp_path: Path) -> None:
    topology = tmp_path / "shop.bindings"
    for profile, options, printed in (
        ("rabbitmq-4.0", [], True), ("rabbitmq-4.3", [], False), ("rabbitmq-4.0", ["--profile", "4.0"], False),
    ):  # fmt: skip
        topology.write_text(f"profile {profile}\nqueue q\n")
        by = "by the rules of rabbitmq-4.0"
        assert (by in invoke("explain", "-t", topology, "", "q", *options).stdout) is printed
        assert (by in invoke("diff", topology, topology, *options).stdout) is printed
