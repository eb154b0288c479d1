"""The routes in the report of `hashstar upgrade`: what is proved, what is not, and how much is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bindings.commands.diff import diff_command
from bindings.commands.upgrade import upgrade_command
from bindings.diffing.diff import diff
from bindings.sources.open import load

PAST = """\
exchange ring: x-consistent-hash
exchange counted: x-modulus-hash
queue b
queue a
ring -> b: "1"
ring -> a: "1"
counted -> b: "1"
counted -> a: "1"
"""
"""Bindings whose order on the broker its past decides."""


def run(tmp_path: Path, text: str, *options: str, name: str = "t.bindings") -> Result:
    path = tmp_path / name
    path.write_text(text)
    return CliRunner().invoke(upgrade_command, [str(path), *options])


def routes(text: str) -> list[str]:
    lines = text.splitlines()
    return lines[lines.index("routes:") + 1 : lines.index("steps of a running cluster, node by node:")]


def test_nothing_is_proved_of_hashes_whose_order_the_past_of_the_broker_decides(tmp_path: Path) -> None:
    result = run(tmp_path, PAST, "--from", "4.2")
    assert routes(result.output) == [
        "  ~ exchange 'counted' may choose otherwise, by a hash, for messages to exchange 'counted'",
        "      such as '', which gets to b now",
        "  ~ exchange 'ring' may choose otherwise, by a hash, for messages to exchange 'ring'",
        "      such as '', which gets to b now",
        "  no message was found that is routed differently, and that there is none could not be proved",
    ]
    assert result.exit_code == 0  # such a move loses no message
    assert all(fact in result.output for fact in ("HSU013", "HSU024"))


COUNTED = """\
exchange counted: x-modulus-hash
queue a
queue b
counted -> a: "1"
counted -> b: "2"
"""


@pytest.mark.parametrize(("old", "new"), [("3.13", "4.0"), ("3.12", "4.2"), ("4.0", "4.1"), ("4.2.5", "4.2.6")])
def test_nothing_is_proved_of_the_order_of_x_modulus_hash_where_khepri_may_keep_it(
    tmp_path: Path, old: str, new: str
) -> None:
    """Each node that starts may order it anew: also an upgrade between two releases with the same rules."""
    result = run(tmp_path, COUNTED, "--from", old, "--to", new, "--format", "json")
    [vhost] = json.loads(result.stdout)["vhosts"]
    assert [(each["at"], each["certain"]) for each in vhost["meaning"]["choices"]] == [("counted", False)]
    assert (vhost["meaning"]["verdict"], vhost["severity"]) == ("undecided", "warning")
    [fact] = [each for each in vhost["sightings"] if each["id"] == "HSU050"]
    assert [each["name"] for each in fact["parts"]] == ["counted"]
    assert "khepri_db" in fact["what"]
    assert "consumers finish before" in fact["way_out"]
    assert result.exit_code == 0


def test_with_mnesia_alone_the_order_of_x_modulus_hash_is_known(tmp_path: Path) -> None:
    result = run(tmp_path, COUNTED, "--from", "3.10", "--to", "3.13")
    assert routes(result.output) == ["  no message is routed differently: proved for all keys and headers"]
    assert "HSU050" not in result.output


def test_a_single_destination_of_x_modulus_hash_gets_all_in_any_order(tmp_path: Path) -> None:
    result = run(tmp_path, COUNTED.replace("-> b", "-> a"), "--from", "4.0", "--to", "4.2")
    assert routes(result.output) == ["  no message is routed differently: proved for all keys and headers"]
    assert "HSU050" not in result.output


def test_diff_claims_no_more_of_two_releases_than_upgrade_and_proves_one_broker_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text(COUNTED)
    releases = CliRunner().invoke(diff_command, [str(path), "--from", "4.0", "--to", "4.1"])
    assert "exchange 'counted' may choose otherwise" in releases.output
    assert releases.exit_code == 1
    topology = load(str(path))
    meaning = diff(topology.with_profile("3.13"), topology.with_profile("4.0")).meaning
    assert [choice.at for choice in meaning.choices] == ["counted"]
    same = CliRunner().invoke(diff_command, [str(path), str(path), "--profile", "4.0"])
    assert "proved for all keys and headers" in same.output
    assert same.exit_code == 0


def test_the_order_of_bindings_to_one_queue_alone_moves_nothing(tmp_path: Path) -> None:
    one = PAST.replace("-> b", "-> a").replace('-> a: "1"', '-> a: "2"', 1)
    result = run(tmp_path, one, "--from", "4.2")
    assert routes(result.output) == ["  no message is routed differently: proved for all keys and headers"]
    assert not any(fact in result.output for fact in ("HSU013", "HSU024"))


def test_nothing_is_proved_of_exchanges_of_unknown_type(tmp_path: Path) -> None:
    text = 'exchange plug: x-rtopic\nqueue q\nplug -> q: "a"\n'
    result = run(tmp_path, text, "--from", "3.13")
    assert routes(result.output) == [
        "  ~ exchange 'plug' may choose otherwise, in a way unknown here, for messages to exchange 'plug'",
        "      such as '', whose queues are not known here",
        "  no message was found that is routed differently, and that there is none could not be proved",
    ]
    assert (
        "exchange 'plug' may choose otherwise" in run(tmp_path, text, "--from", "3.13", "--format", "markdown").output
    )
    values: Any = json.loads(run(tmp_path, text, "--from", "3.13", "--format", "json").stdout)
    meaning = values["vhosts"][0]["meaning"]
    assert (meaning["verdict"], meaning["choices"][0]["at"]) == ("undecided", "plug")


def test_the_exceptions_of_what_a_queue_loses_have_a_line_of_their_own(tmp_path: Path) -> None:
    text = "exchange h: headers\nqueue a\nh -> a: any { n = 1, ok = true }\nh -> a: any { m = 2, t = false }\n"
    lines = routes(run(tmp_path, text, "--from", "3.12").output)
    assert lines[1:3] == [
        "      (headers n = 1 or ok = true), by the rules of the old release but not of the new one,",
        "        unless (headers m = 2 or t = false)",
    ]


def test_the_report_lists_some_queues_and_counts_the_others(tmp_path: Path) -> None:
    queues = [f"queue q{number}\nh -> q{number}: all {{ n = {number} }}\n" for number in range(30)]
    text = "exchange h: headers\n" + "".join(queues)
    lines = routes(run(tmp_path, text, "--from", "3.12").output)
    assert len([line for line in lines if " loses from " in line]) == 20
    assert "    and 10 more; the JSON has all" in lines
    markdown = run(tmp_path, text, "--from", "3.12", "--format", "markdown").output
    assert markdown.count(" loses from ") == 20
    values: Any = json.loads(run(tmp_path, text, "--from", "3.12", "--format", "json").stdout)
    assert len(values["vhosts"][0]["meaning"]["effects"]) == 30
