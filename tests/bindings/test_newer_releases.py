"""A release that is newer than all that are known is judged by the newest, and each command says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import bindings
from bindings.checking.forms import FORMS as CHECK
from bindings.counts.tally import compute_fingerprint
from bindings.diffing.forms import FORMS as DIFF
from bindings.mcp.tools import Tools
from bindings.report.forms import FORMS as REPORT
from bridge.cli import hashstar
from exchange.entities.releases import LATEST_PROFILE, PROFILES, find_profile_by_name
from exchange.errors import UnknownReleaseWarning
from exchange.lifecycle.forms import FORMS as EXPLANATION
from exchange.topology.topology import Topology
from exchange.values.forms import Forms
from tests.support.releases import NEWEST_KNOWN, NEWEST_SERIES, NEXT_PATCH, NEXT_SERIES

SAID = "RabbitMQ 5.0.1 is newer than all that are known here: the rules of rabbitmq-"
EXPORT = {
    "rabbitmq_version": "5.0.1",
    "vhosts": [{"name": "/"}],
    "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [], "bindings": [], "policies": [],
}  # fmt: skip
SOURCES = {
    "export.json": json.dumps(EXPORT),
    "file.bindings": "profile rabbitmq-5.0.1\nqueue q\n",
    "patch.bindings": f"profile rabbitmq-{NEXT_PATCH}\nqueue q\n",
}
PATCHED = (
    f"RabbitMQ {NEXT_PATCH} is newer than {NEWEST_KNOWN}, the newest of {NEWEST_SERIES} that is known here: "
    f"the rules of {LATEST_PROFILE.name}"
)
FORMS_OF: dict[tuple[str, ...], Forms] = {
    ("check", "FILE"): CHECK,
    ("diff", "FILE", "other.bindings"): DIFF,
    ("explain", "FILE", "", "q"): EXPLANATION,
    ("audit", "FILE", "archive.jsonl", "--no-spark"): REPORT,
}
"""Command -> its forms."""
NO_TEXT = {"tables", "total"}
"""Forms of an audit that are tables of numbers, or a sum to be continued."""
COMMANDS = (
    *((*words, "--format", form) for words, forms in FORMS_OF.items() for form, each in forms.items()
      if each.is_printed and form not in NO_TEXT),
    ("check", "FILE", "--statistics"), ("check", "FILE", "FILE"), ("route", "FILE", "archive.jsonl"),
    ("audit", "FILE", "archive.jsonl", "--no-spark", "--html", "out"),
)  # fmt: skip
OTHERS = (("graph", "FILE"), ("convert", "FILE", "out.json"))
"""Commands whose output has no room for it: standard error says it."""


def export_of(version: str) -> dict[str, object]:
    return {**EXPORT, "rabbitmq_version": version}


def run(command: tuple[str, ...], text: str, folder: Path, name: str) -> tuple[str, str]:
    """Return what a command writes to standard error, and its output."""
    (folder / name).write_text(text)
    (folder / "other.bindings").write_text("queue q\nqueue r: x-max-length = 5\n")
    (folder / "archive.jsonl").write_text('{"exchange": "", "routing_key": "q"}\n')
    names = {"FILE": name, "out": "out.html", "out.json": "o.json"}
    names |= {each: each for each in ("other.bindings", "archive.jsonl")}
    words = [str(folder / names[word]) if word in names else word for word in command]
    result = CliRunner().invoke(hashstar, words)
    assert result.exit_code != 2, result.output
    made = folder / "out.html"
    return result.stderr, made.read_text() if made.exists() else result.stdout


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("command", [*COMMANDS, *OTHERS], ids=" ".join)
def test_each_command_says_it_first_and_each_form_has_it(command: tuple[str, ...], source: str, tmp_path: Path) -> None:
    """Standard error for those who run it, and the output for those who are sent it."""
    errors, output = run(command, SOURCES[source], tmp_path, source)
    said = PATCHED if source.startswith("patch") else SAID
    assert said in errors.splitlines()[0]
    assert command in OTHERS or said in " ".join(output.split())
    assert "HS901" not in output or "junit" in command  # which lists all rules


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_form_has_it_for_an_option_and_nothing_for_a_known_release(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    profile = ("--profile", "5.0.1")
    output = run((*command, *profile), "queue q\n", tmp_path, "a.bindings")[1]
    assert SAID in " ".join(output.split())  # in lines of a terminal
    assert "newer than" not in "".join(run((*command, "--profile", NEWEST_KNOWN), "queue q\n", tmp_path, "a.bindings"))


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_an_upgrade_says_it_of_both_releases(form: str, tmp_path: Path) -> None:
    command = ("upgrade", "FILE", "--from", NEXT_PATCH, "--to", "5.0.1", "--format", form)
    errors, output = run(command, "queue q\n", tmp_path, "a.bindings")
    assert [said in errors for said in (PATCHED, SAID)] == [True, True]
    assert [said in output for said in (PATCHED, SAID)] == [True, True]


NEWER = (NEXT_SERIES, "5.0.1", NEXT_PATCH, "4.2.99", "4.3.99")
"""Releases that are not known, of a known series and of none."""


@given(st.sampled_from(["", "rabbitmq-", "v"]), st.tuples(st.integers(3, 6), st.integers(0, 15), st.integers(0, 999)))
def test_the_name_that_a_profile_is_written_by_keeps_the_release(start: str, numbers: tuple[int, ...]) -> None:
    """What names a release in a file, or hands one on, says of it what was said before."""
    profile = find_profile_by_name(f"{start}{'.'.join(map(str, numbers))}")
    if profile is not None:
        again = find_profile_by_name(profile.written)
        assert again is not None
        assert again == profile
        assert (again.applied_to, again.written) == (profile.applied_to, profile.written)
        assert not profile.applied_to or again.caveat == profile.caveat


@pytest.mark.parametrize("name", NEWER)
@pytest.mark.parametrize("form", ["export", "file", "converted"])
def test_an_upgrade_is_from_the_release_that_a_source_names(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{'json' if form == 'export' else 'bindings'}"
    path.write_text(f"profile rabbitmq-{name}\nqueue q\n" if form == "file" else json.dumps(export_of(name)))
    if form == "converted":
        source = path.replace(tmp_path / "export.json")
        assert CliRunner().invoke(hashstar, ["convert", str(source), str(path)]).exit_code == 0
    run = CliRunner().invoke(hashstar, ["upgrade", str(path), "--to", "6.0"])
    assert f"RabbitMQ {name} is newer than" in run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == f"upgrade from {name} to 6.0"
    assert lines[1].startswith(f"RabbitMQ {name} is newer than")
    assert CliRunner().invoke(hashstar, ["upgrade", str(path), "--to", "4.1"]).exit_code == 2


@pytest.mark.parametrize(("old", "new"), list(permutations((NEWEST_KNOWN, *NEWER), 2)))
def test_a_comparison_says_it_of_both_sources_and_by_which_rules(old: str, new: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in (old, new)]
    for path, name in zip(paths, (old, new), strict=True):
        path.write_text(json.dumps(export_of(name)))
    unknown = [name for name in (old, new) if name in NEWER]
    for form in ("text", "json", "markdown"):
        run = CliRunner().invoke(hashstar, ["diff", *map(str, paths), "--format", form])
        assert run.exit_code == 0
        assert [name for name in (old, new) if f"RabbitMQ {name} is newer than" in run.stdout] == unknown
        assert [name for name in (old, new) if f"RabbitMQ {name} is newer than" in run.stderr] == unknown
        rules = set(re.findall(r"the rules of (rabbitmq-[0-9.]*[0-9])", run.stdout))
        assert len(rules) == 1
    tools = Tools([str(path) for path in paths], [])
    said = tools.compare_topologies(*map(str, paths)).get("caveats", [])
    assert [any(f"RabbitMQ {name} is newer" in each for each in said) for name in unknown] == [True] * len(unknown)


@pytest.mark.parametrize("option", [["check", "FILE", "--profile"], ["upgrade", "FILE", "--from", "4.2", "--to"]])
def test_four_numbers_are_no_release(option: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.bindings"
    path.write_text("queue q\n")
    words = [str(path) if word == "FILE" else word for word in option]
    run = CliRunner().invoke(hashstar, [*words, "4.4.4.4"])
    assert run.exit_code == 2
    assert "'4.4.4.4' is no release of RabbitMQ that is known here" in run.output


def test_callers_of_the_library_are_warned(tmp_path: Path) -> None:
    newer = tmp_path / "newer.bindings"
    newer.write_text(SOURCES["file.bindings"])
    makers: tuple[Callable[[], object], ...] = (
        lambda: Topology(profile="5.0.1"),
        lambda: Topology().with_profile("5.0.1"),
        lambda: bindings.load(newer),
        lambda: bindings.load("examples/orders/orders.bindings", profile="5.0.1"),
        lambda: bindings.check(newer),
        lambda: bindings.upgrade("examples/orders/orders.bindings", "5.0.1", old="4.2"),
    )
    for make in makers:
        with pytest.warns(UnknownReleaseWarning, match="^RabbitMQ 5.0.1 is newer than") as warned:
            make()
        assert [each.filename for each in warned] == [__file__]


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_an_option_that_names_one_is_told_so_and_the_last_step_is_open(form: str, tmp_path: Path) -> None:
    file = tmp_path / "a.bindings"
    file.write_text("queue q\n")
    run = CliRunner().invoke(hashstar, ["upgrade", str(file), "--from", "4.2", "--to", "5.0.1", "--format", form])
    assert run.exit_code == 0
    assert SAID in run.stderr.splitlines()[0]
    assert "read its release notes: what it can be upgraded from, and what it asks for, is not known here" in run.stdout
    assert form == "json" or SAID in run.stdout.partition("\n\n" if form == "markdown" else "\n")[2][:200]


def test_a_document_keeps_the_release_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "a.bindings").write_text(SOURCES["file.bindings"])
    CliRunner().invoke(hashstar, ["convert", str(tmp_path / "a.bindings"), str(tmp_path / "b.json")])
    assert json.loads((tmp_path / "b.json").read_text())["hashstar"]["profile"] == "rabbitmq-5.0.1"


def test_counts_kept_under_a_release_that_routes_alike_add() -> None:
    old, new = (compute_fingerprint(Topology(profile=name)) for name in ("rabbitmq-4.3", "rabbitmq-4.4"))
    assert old == new
    assert len({compute_fingerprint(Topology(profile=name)) for name in PROFILES}) == len(
        {each.routes_as or each.name for each in PROFILES.values()}
    )
