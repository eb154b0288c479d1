"""``hashstar selector``: what is taken, what is remarked, what matches and why."""

from __future__ import annotations

import json
from functools import partial

from tests.support.program import invoke

run = partial(invoke, "selector")


def test_a_fine_selector_names_what_it_asks_for() -> None:
    """Exit code 0."""
    result = run("check", "region = 'eu' AND price > 10")
    assert (result.exit_code, result.output) == (0, "properties: price, region\n")


def test_remarks_are_findings() -> None:
    """Exit code 1, with carets."""
    result = run("check", "NOT a = 5")
    assert result.exit_code == 1
    assert "write NOT (...)\n    NOT a = 5\n    ^^^^^^^^^\n" in result.output


def test_a_refused_selector_is_bad_input() -> None:
    """Exit code 2, and no traceback."""
    result = run("check", "a LIKE 'x'")
    assert result.exit_code == 2
    assert "    a LIKE 'x'\n      ^^^^\n" in result.output
    assert run("match", "a = 5", "-P", "a").exit_code == 2


def test_exact_takes_what_the_broker_takes() -> None:
    """It prints the text that is ignored."""
    result = run("check", "--exact", "a IS NULL LIKE 'x'")
    assert result.exit_code == 1
    assert "the broker ignores: LIKE 'x'" in result.output
    assert json.loads(run("check", "--exact", "--json", "a IS NULL LIKE 'x'").output)["ignored"] == [10, 18]
    assert run("match", "--exact", "--release", "4.1", "a IS NULL CONTAINS 'x'").exit_code == 0


def test_the_command_match_explains_each_part() -> None:
    """Each comparison with the property that decided it."""
    result = run("match", "region = 'eu' AND (price > 10 OR NOT (vip IS NULL))", "-P", "region=eu", "-P", "price=9.5")
    assert result.exit_code == 1
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["does", "not", "match"]
    assert result.output.splitlines()[1:] == [
        "region = 'eu' AND (price > 10 OR NOT (vip IS NULL))  fails",
        "  region = 'eu'                                      true     region is 'eu'",
        "  price > 10 OR NOT (vip IS NULL)                    fails",
        "    price > 10                                       fails    '9.5' is not an Integer",
        "    NOT (vip IS NULL)                                false    there is no vip",
    ]


def test_the_command_match_prints_json() -> None:
    """Stable, for scripts."""
    result = run("match", "--json", "a BETWEEN 1 AND 5", "-P", "a=3")
    assert result.exit_code == 0
    assert json.loads(result.output) == {
        "matches": True,
        "parts": [{"text": "a BETWEEN 1 AND 5", "depth": 0, "outcome": "true", "why": "a is '3'"}],
    }


def test_tags_and_what_collides() -> None:
    """The broker sends by hash."""
    assert run("check", "--tags", "paid || Aa").output == "tags: Aa, paid\ncodes: 2112, 3433164\n"
    result = run("match", "--tags", "Aa", "-P", "TAGS=BB")
    assert result.exit_code == 1
    assert "the client drops it" in result.output
    assert json.loads(run("match", "--tags", "--json", "Aa", "-P", "TAGS=BB").output) == {
        "matches": False, "sent": True,
    }  # fmt: skip
    assert run("match", "--tags", "Aa", "-P", "TAGS=Aa").exit_code == 0
    assert run("check", "--tags", "a || *").exit_code == 2
