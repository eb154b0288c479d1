"""One vocabulary for the options of all commands: a name means one thing, and a thing has one name."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import click
import pytest

from exchange.commands.options import Address, Command, Duration, Renamed, TopologyOption
from tests.support.program import run_program
from tests.test_help import CONTEXTS

ROOT = Path(__file__).parent.parent
SHOP = str(ROOT / "examples" / "orders" / "orders.bindings")
LEAVES = [context for context in CONTEXTS if not isinstance(context.command, click.Group)]
EVERY = pytest.mark.parametrize("context", LEAVES, ids=lambda context: context.command_path)


def options_of(context: click.Context) -> list[click.Option]:
    """Return the options that users see."""
    return [each for each in context.command.params if isinstance(each, click.Option) and not each.hidden]


def kind_of(option: click.Option) -> str:
    """Return what the value of an option is: a flag, or the name that stands for it in the help."""
    if option.is_flag or option.count or option.flag_value == "":
        return "flag"
    return option.metavar or option.type.name


@EVERY
def test_every_command_has_help_quiet_and_verbose(context: click.Context) -> None:
    assert isinstance(context.command, Command)
    names = {name for option in options_of(context) for name in option.opts}
    assert {"--quiet", "-v", "--verbose"} <= names
    assert context.command.context_settings["help_option_names"] == ["-h", "--help"]


def test_a_name_has_one_short_form_and_a_short_form_one_name() -> None:
    names, shorts = defaultdict(set), defaultdict(set)
    for context in LEAVES:
        for option in options_of(context):
            longs = [name for name in option.opts if name.startswith("--")]
            for short in (name for name in option.opts if not name.startswith("--")):
                names[longs[0]].add(short)
                shorts[short].add(longs[0])
    assert {name: found for name, found in names.items() if len(found) > 1} == {}
    assert {short: found for short, found in shorts.items() if len(found) > 1} == {}


def test_a_name_takes_one_kind_of_value() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for context in LEAVES:
        for option in options_of(context):
            kinds[option.opts[0]].add(kind_of(option))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@EVERY
def test_a_time_has_one_grammar(context: click.Context) -> None:
    """``--since`` and ``--until`` are moments, not durations."""
    times = [each for each in options_of(context) if kind_of(each) in ("TIME", "SECONDS")]
    wrong = [each.opts[0] for each in times if not isinstance(each.type, Duration)]
    assert set(wrong) <= {"--since", "--until"}
    assert not any(kind_of(each) == "SECONDS" for each in times)


@EVERY
def test_a_form_is_named_and_json_is_short_for_one(context: click.Context) -> None:
    options = {option.opts[0]: option for option in options_of(context)}
    form = options.get("--format")
    has_json = form is not None and isinstance(form.type, click.Choice) and "json" in form.type.choices
    assert ("--json" in options) == has_json
    if has_json:
        assert "--output" in options


@EVERY
def test_a_topology_is_the_first_argument_and_an_option(context: click.Context) -> None:
    arguments = [each for each in context.command.params if isinstance(each, click.Argument)]
    takes = [each for each in arguments if (each.metavar or "").startswith(("TOPOLOGY", "A [B]"))]
    has_option = any(isinstance(each, TopologyOption) for each in context.command.params)
    if takes:
        assert takes == arguments[:1]
    assert has_option == (bool(takes) or context.command.name == "fmt")


@EVERY
def test_an_address_to_listen_at_is_one_option(context: click.Context) -> None:
    addresses = [each.opts[0] for each in options_of(context) if isinstance(each.type, Address)]
    assert set(addresses) <= {"--listen"}


@EVERY
def test_old_names_are_hidden_and_lead_to_options_that_are_there(context: click.Context) -> None:
    new = {name for option in options_of(context) for name in option.opts}
    for old in (each for each in context.command.params if isinstance(each, Renamed)):
        assert old.hidden
        assert set(old.to) <= new
        assert not set(old.opts) & new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["explain", "-d", SHOP, "orders", "order.eu.created"], ["explain", SHOP, "orders", "order.eu.created"]),
        (["explain", "-t", SHOP, "orders", "k", "-q", "audit"], ["explain", SHOP, "orders", "k", "--queue", "audit"]),
        (["explain", "orders", "order.x", "-t", SHOP], ["explain", SHOP, "orders", "order.x"]),
        (["diff", SHOP, SHOP, "--budget", "60"], ["diff", SHOP, "-t", SHOP, "--wait", "1m"]),
        (["convert", "--to", "definitions", SHOP], ["convert", "--format", "definitions", "-t", SHOP]),
        (["check", "--diff", SHOP], ["check", "--fix", "--dry-run", SHOP]),
        (["check", SHOP, "--format", "json"], ["check", SHOP, "--json"]),
        (["partition", "-p", "kafka.murmur2", "-n", "3", "--to", "4"],
         ["partition", "-p", "kafka.murmur2", "-n", "3", "--change", "4"]),
    ],
)  # fmt: skip
def test_an_old_name_does_what_the_new_one_does_with_a_note(old: list[str], new: list[str]) -> None:
    before, after = run_program(*old), run_program(*new)
    assert (before.returncode, before.stdout) == (after.returncode, after.stdout)
    renamed = {"-d", "-q", "--budget", "--to", "--diff"} & set(old)
    assert ("now; the old name works until the next release" in before.stderr) == bool(renamed)
    assert "old name" not in run_program(*old, "--quiet").stderr


def without_time(report: str) -> dict[str, object]:
    fields: dict[str, object] = json.loads(report)
    del fields["made"]
    return fields


def test_json_of_audit_is_a_flag_and_still_takes_a_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    archive = tmp_path / "a.jsonl"
    archive.write_text('{"exchange": "orders", "routing_key": "order.eu.created"}\n')
    report = tmp_path / "report.json"
    audit = ["audit", SHOP, "--no-spark"]
    printed = run_program(*audit, "--json", str(archive))
    whole = without_time(printed.stdout)
    assert whole == without_time(run_program(*audit, str(archive), "--format", "json").stdout)
    for _ in range(2):  # the second time, the file is there
        old = run_program(*audit, "--json", str(report), str(archive))
        assert "--format json --output" in old.stderr
        assert without_time(report.read_text()) == whole
    into = tmp_path / "into.json"
    assert run_program(*audit, str(archive), "--json", "-o", str(into)).stdout == ""
    assert without_time(into.read_text()) == whole


def test_an_output_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("before")
    assert run_program("explain", SHOP, "no such exchange", "-o", str(file)).returncode == 2
    assert file.read_text() == "before"
    assert run_program("explain", SHOP, "orders", "k", "-o", str(file)).returncode == 0
    assert file.read_text() == run_program("explain", SHOP, "orders", "k").stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.txt"]
    assert run_program("explain", SHOP, "orders", "-o", str(tmp_path / "no" / "where")).returncode == 2


@pytest.mark.parametrize(
    ("begun", "meant"),
    [(["chek", "x"], "check"), (["archive", "inspct", "x"], "inspect"), (["rocketmq", "scal", "x"], "scale")],
)
def test_a_misspelt_command_is_answered_with_the_one_that_is_meant(begun: list[str], meant: str) -> None:
    answer = run_program(*begun)
    assert answer.returncode == 2
    assert f"did you mean '{meant}'" in answer.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("250ms", 0.25), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2 d", 172_800),
     ("1h 30m", 5400), ("", None), ("5 weeks", None), ("-1s", None), ("1s2", None), ("\u0663s", None), ("1e3s", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    from exchange.duration import parse_duration

    assert parse_duration(text) == seconds


def test_quiet_leaves_results_and_errors(tmp_path: Path) -> None:
    loud = run_program("explain", "-d", SHOP, "orders", "k")
    quiet = run_program("explain", "-d", SHOP, "orders", "k", "--quiet")
    assert loud.stderr
    assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")
    assert "cannot be read" in run_program("check", "-q", str(tmp_path / "none.bindings")).stderr


def test_the_guide_lists_old_and_new_names() -> None:
    """docs/commands.md has each old name with its command and what stands for it now."""
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    missing = [
        f"{context.command_path} {old.opts[0]}"
        for context in LEAVES
        for old in context.command.params
        if isinstance(old, Renamed) and not re.search(rf"`[^`|]*{re.escape(old.opts[0])}\b[^`|]*` *\|", text)
    ]
    assert missing == []
