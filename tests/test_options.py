"""One vocabulary for the options of all commands: a name means one thing, and a thing has one name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from bridge import completions
from bridge.cli import hashstar
from exchange.commands.options import AddressType, Duration, HashstarCommand, Renamed, TopologyOption
from tests.support.cases import with_each
from tests.support.command_server import command_server
from tests.support.program import run_program
from tests.support.tiers import some
from tests.test_help import CONTEXTS

ROOT = Path(__file__).parent.parent
SHOP = str(ROOT / "examples" / "orders" / "orders.bindings")
LEAVES = [context for context in CONTEXTS if not isinstance(context.command, click.Group)]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
EVERY = with_each("context", LEAVES, lambda context: context.command_path)


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
    assert isinstance(context.command, HashstarCommand)
    names = {name for option in options_of(context) for name in option.opts}
    assert {"--quiet", "-v", "--verbose"} <= names
    assert context.command.context_settings["help_option_names"] == ["-h", "--help"]


NEEDS = [
    (context, name, other)
    for context in LEAVES
    if isinstance(context.command, HashstarCommand)
    for name, other in context.command.needs.items()
]


def test_an_option_that_does_nothing_without_another_one_is_refused_without_it_and_its_help_names_that_one() -> None:
    for context, name, other in NEEDS:
        option = next(each for each in options_of(context) if name in each.opts)
        assert other in (option.help or ""), name
        value = [] if option.is_flag else [SHOP if name == "--ca-file" else get_valid(option)]
        arguments = [each.name for each in context.command.params if isinstance(each, click.Argument)]
        line = [*context.command_path.split()[1:], *[SHOP, "http://h"][: len(arguments)], name, *value]
        with redirect_stderr(StringIO()) as printed, pytest.raises(SystemExit) as ended:
            hashstar([*line, "--queues", "4"] if context.command.name == "scale" else line)
        assert ended.value.code == 2
        assert f"Error: {name} needs {other}" in printed.getvalue()


@EVERY
def test_help_that_says_with_another_option_is_of_an_option_that_needs_it(context: click.Context) -> None:
    assert isinstance(context.command, HashstarCommand)
    said = {
        (each.opts[0], found[1])
        for each in options_of(context)
        if (found := re.match(r"With (--[a-z-]+)", each.help or "")) is not None
    }
    assert said <= {*context.command.needs.items()}


def get_valid(option: click.Option) -> str:
    """Return a value that the option takes."""
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[0])
    return "127.0.0.1:1" if isinstance(option.type, AddressType) else "1"


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
    addresses = [each.opts[0] for each in options_of(context) if isinstance(each.type, AddressType)]
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


@pytest.mark.parametrize(
    ("words", "begun", "names", "are_files"),
    [
        ([], "ex", ["explain"], False),
        (["audit"], "", ["follow", "merge", "run"], True),
        (["audit"], "m", ["merge"], True),
        (["bridge"], "c", ["check"], True),
        (["archive"], "", ["convert", "inspect"], True),
        (["audit", SHOP], "x", [], True),
        (["archive", "inspect"], "x", [], True),
        (["archive", "convert", "x"], "y", [], True),
        (["convert", SHOP], "x", [], True),
        (["check", "--baseline"], "x", [], True),
        (["explain", SHOP, "orders", "-o"], "x", [], True),
        (["explain", SHOP], "or", ["orders"], False),
        (["graph", "--around"], "x", [], False),
    ],
)
def test_shells_complete_commands_files_and_names(
    words: list[str], begun: str, names: list[str], are_files: bool
) -> None:
    found = ShellComplete(hashstar, {}, "hashstar", "_HASHSTAR_COMPLETE").get_completions(words, begun)
    assert [each.type for each in found] == ["file"] * are_files + ["plain"] * len(names)  # bash forgets what is before
    assert [each.value for each in found][are_files:] == names


@pytest.mark.scaled
@pytest.mark.parametrize("context", some(CONTEXTS[1:], 2), ids=lambda context: context.command_path)
def test_a_line_is_completed_by_the_table_as_by_the_command(
    context: click.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is not, ``python -m docs.scripts.completions`` writes the table anew."""
    path = context.command_path.split()[1:]
    values = [each for each in context.command.params if isinstance(each, click.Option) and not each.is_flag]
    whole: list[list[str]] = [[], [SHOP], [SHOP, "orders"], ["-t", SHOP]]
    lines = [(line, begun) for line in whole for begun in ("", "-", "--f", "o")]
    lines += [([SHOP, name], "o"[: at % 2]) for option in some(values, 4) for at, name in enumerate(option.opts)]

    def complete() -> list[list[tuple[str, str, str | None]]]:
        shell = ShellComplete(hashstar, {}, "hashstar", "_HASHSTAR_COMPLETE")
        answers = [shell.get_completions([*path, *line], begun) for line, begun in lines]
        return [[(each.value, each.type, each.help) for each in answer if each.value != "-h"] for answer in answers]

    by_table = complete()
    monkeypatch.setattr(completions, "build_sketch", lambda name, load: load(name))
    assert by_table == complete()


def test_options_are_completed_without_the_engine() -> None:
    code = (
        "import sys; from bridge.cli import hashstar; from click.shell_completion import ShellComplete\n"
        "shell = ShellComplete(hashstar, {}, 'hashstar', '_H')\n"
        "assert '--format' in [each.value for each in shell.get_completions(['check'], '--')]\n"
        f"assert 'orders' in [each.value for each in shell.get_completions(['explain', {SHOP!r}], 'or')]\n"
        "assert not {'bindings.commands', 'exchange.entities.entities', 'exchange.topology'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


@EVERY
def test_shells_complete_each_name_of_a_file(context: click.Context) -> None:
    for param in context.command.params:
        if re.fullmatch(r"\[?(FILE|PATH|DIR|IN|OUT|ARCHIVE|TOPOLOGY|BRIDGE\.TOML)(\.\.\.)?\]?", param.metavar or ""):
            (item,) = param.shell_complete(context, "x")
            assert item.type in {"file", "dir"}


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
    ("command", "also"),
    [
        (["explain", "IN", "orders", "k", "-o", "IN"], "TOPOLOGY"),
        (["check", "IN", "--json", "-o", "IN"], "TOPOLOGY..."),
        (["graph", "IN", "-o", "IN"], "TOPOLOGY"),
        (["diff", "-t", SHOP, "-t", "IN", "-o", "IN"], "A [B] | [FILE]..."),
        (["diff", SHOP, SHOP, "--messages", "IN", "-o", "IN"], "--messages"),
        (["route", SHOP, "IN", "-o", "IN"], "FILE"),
        (["upgrade", "IN", "--from", "3.12", "--html", "IN"], "TOPOLOGY"),
        (["upgrade", "IN", "--from", "3.12", "-o", "IN"], "TOPOLOGY"),
        (["audit", SHOP, "IN", "--json", "-o", "IN"], "ARCHIVE..."),
        (["audit", "IN", SHOP, "--html", "IN"], "TOPOLOGY"),
        (["audit", SHOP, SHOP, "--html", "new", "-o", "new"], "--html"),
        (["archive", "inspect", "IN", "-o", "IN"], "PATH"),
        (["bridge", "check", "--offline", "IN", "-o", "IN"], "BRIDGE.TOML"),
    ],
)
def test_a_report_replaces_no_file_with_another_use(command: list[str], also: str, tmp_path: Path) -> None:
    file, link = tmp_path / "in", tmp_path / "link"
    file.write_text(Path(SHOP).read_text())
    link.symlink_to(file)
    for output in (file, link):
        names = [str(file) if each == "IN" else each for each in command]
        answer = run_program(*names[:-1], str(output) if command[-1] == "IN" else names[-1])
        assert answer.returncode == 2, answer
        assert f" is {also}, too; give another file" in answer.stderr
        assert file.read_text() == Path(SHOP).read_text()


@pytest.mark.parametrize("command", [["diff", "-", SHOP], ["explain", "-", "orders", "k"], ["graph", "-"]])
def test_standard_input_and_standard_output_have_one_name_and_are_two_files(command: list[str]) -> None:
    answer = run_program(*command, "-o", "-", given=Path(SHOP).read_text())
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout


@pytest.mark.parametrize("command", [
    ["explain", SHOP, "orders", "k"], ["graph", SHOP], ["check", SHOP, "--json"], ["convert", SHOP],
])  # fmt: skip
def test_an_output_that_is_open_or_a_link_is_written_to(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_program(*command, "-o", "-").stdout
    if Path("/dev/stdout").exists():
        reader, writer = os.pipe()  # the answers are smaller than what fits in one
        with open(reader, "rb") as piped, open(writer, "wb") as into:  # noqa: PTH123  descriptors
            for output in ((tmp_path / "into").open("ab+"), into):
                with output, Path(os.devnull).open("rb") as given:
                    descriptors = given.fileno(), output.fileno(), 2
                    assert command_server().run_with([*command, "-o", "/dev/stdout"], descriptors) == 0
            assert piped.read()
        assert (tmp_path / "into").read_bytes()
        (tmp_path / "into").unlink()
    assert not [*tmp_path.iterdir()]
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    file.chmod(0o604)
    link.symlink_to(file)
    assert run_program(*command, "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert file.stat().st_size > 0
    assert file.stat().st_mode & 0o777 == 0o604


def test_names_of_files_are_not_empty_and_one_topology_is_given_once() -> None:
    for command in (["explain", "", "orders", "k"], ["check", SHOP, "-o", ""], ["graph", "-t", ""]):
        assert ": the name is empty" in run_program(*command).stderr
    twice = run_program("explain", "-t", SHOP, "-t", SHOP, "orders")
    assert "--topology is given twice" in twice.stderr
    assert run_program("check", "-t", SHOP, "-t", SHOP).returncode == 0


def test_a_misspelt_old_option_is_answered_with_the_new_one() -> None:
    answer = run_program("diff", SHOP, SHOP, "--budgt", "3").stderr
    assert "--wait" in answer
    assert "--budget" not in answer


@pytest.mark.parametrize(
    ("begun", "meant"),
    [
        (["chek", "x"], "check"),
        (["archive", "inspct", "x"], "inspect"),
        (["rocketmq", "scal", "x"], "scale"),
        (["bridge", "chek", "x"], "check"),
        (["audit", "merg", "x", "y"], "merge"),
    ],
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
    from exchange.text.numbers import parse_duration

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


@pytest.mark.parametrize(
    ("asked", "environment", "coloured"),
    [
        ([], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "0"}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize("command", [["check", SHOP], ["diff", SHOP, SHOP]], ids=" ".join)
def test_colours_are_as_asked_and_else_for_terminals(
    command: list[str], asked: list[str], environment: dict[str, str], coloured: bool,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """What is printed without its colours is the same; JSON has none, and a file only if it is asked for."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    plain = run_program(*command).stdout
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    shown = run_program(*command, *asked).stdout
    assert ("\x1b[" in shown) == coloured
    assert re.sub(r"\x1b\[[0-9]+m", "", shown) == plain
    assert "\x1b[" not in run_program(*command, *asked, "--json").stdout
    run_program(*command, *asked, "--format", "text", "-o", str(tmp_path / "into"))
    assert ("\x1b[" in (tmp_path / "into").read_text()) == (coloured and bool(asked) and command[0] != "check")


@EVERY
def test_json_of_a_command_without_it_is_answered_with_the_forms_that_it_has(context: click.Context) -> None:
    options = {option.opts[0]: option for option in options_of(context)}
    form = options.get("--format")
    if form is not None and "--json" not in options:
        assert isinstance(form.type, click.Choice)
        answer = run_program(*context.command_path.split()[1:], "--json")
        assert f"No such option '--json'; --format is one of {', '.join(form.type.choices)}" in answer.stderr


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["audit", SHOP, SHOP, "--min-coverage", "90"], "; did you mean --fail-under or --fail-under-messages?"),
        (["check", SHOP, "--junit-xml", "x.xml"], "; did you mean --format junit?"),
        (["check", SHOP, "--severity", "error"], "; did you mean --fail-on or --select?"),
        (["check", SHOP, "--formt", "json"], "; did you mean --format?"),
        (["check", SHOP, "--xyzzyx"], "No such option '--xyzzyx'"),
        (["bridge", "run", "bridge.toml", "--listen", "9410"], 'keys of BRIDGE.TOML, such as http = "127.0.0.1:9410"'),
    ],
)
def test_an_option_of_other_programs_is_answered_with_ours(line: list[str], hint: str) -> None:
    """By its likeness, by a word in the help of another option, or by a value that another one takes."""
    answer = run_program(*line)
    assert answer.returncode == 2
    assert hint in answer.stderr


@EVERY
def test_an_option_that_is_misspelt_is_always_suggested(context: click.Context) -> None:
    """Whatever words of other options' help are in it."""
    options = [each.opts[0] for each in options_of(context) if len(each.opts[0]) > len("--format")]
    misspelt = {name: name[:4] + name[5:] for name in options}
    wrong = {}
    for name, other in misspelt.items():
        with pytest.raises(click.UsageError) as caught:
            context.command.make_context(str(context.info_name), [other, "x"], parent=context.parent)
        if name not in str(caught.value):
            wrong[name] = str(caught.value)
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["route", SHOP, "orders"], "for one message, hashstar explain TOPOLOGY EXCHANGE ROUTING_KEY"),
        (
            ["partition", "-p", "kafka.murmur2", "-n", "3", "key1"],
            'FILE has JSON lines; a line has a record, such as {"key"',
        ),
        (["partition", "-p", "kafka.murmur2", "-n", "3", str(ROOT / "LICENSE")], 'a line has a record, such as {"key"'),
        (["check", SHOP, "--baseline", "gone.json"], "gone.json: there is no such file; --write-baseline makes it"),
    ],
)
def test_a_file_that_is_none_is_answered_with_what_would_be(line: list[str], hint: str) -> None:
    answer = run_program(*line)
    assert answer.returncode == 2
    assert hint in answer.stderr


@pytest.mark.parametrize(("name", "state"), [("nodir/x.txt", "nodir does not exist"), ("file/x", "file is no folder")])
def test_a_folder_that_is_missing_is_named_before_the_work(
    name: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what every command writes: all options --output, and the arguments that they stand for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    arguments = {"hashstar convert": "target", "hashstar record": "file"}
    written = [
        (context, param)
        for context in LEAVES
        for param in context.command.params
        if "--output" in param.opts or param.name == arguments.get(context.command_path)
        if context.command_path != "hashstar archive convert"  # which makes folders
    ]
    assert {"hashstar check", "hashstar audit run", *arguments} <= {context.command_path for context, _ in written}
    for context, param in written:
        with pytest.raises(SystemExit) as ended, redirect_stderr(StringIO()) as stderr, context:
            param.process_value(context, name)
        assert ended.value.code == 2
        assert stderr.getvalue().startswith(f"hashstar: {name}: cannot be written: {state}"), context.command_path
