"""The forms of outputs: how one is chosen, encoded and printed, and that each row of each table has a function."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exchange.commands.console import exit_on_error
from exchange.commands.options import command
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import InputError
from exchange.values.forms import Form, Forms
from tests.support.cases import with_each
from tests.support.syntax import name_module, read_modules

NAME = "a\u202e\ud800\nb"
HERE = __name__


def as_text(value: str) -> list[str]:
    return [f"is {value}", "end"]


def as_json(value: str) -> dict[str, str]:
    return {"is": value}


def as_bytes(value: str) -> bytes:
    return b"\xff"


FORMS: Forms = {
    "text": Form(f"{HERE}:as_text", (".txt",)),
    "json": Form(f"{HERE}:as_json", (".json",)),
    "indented": Form(f"{HERE}:as_json", indent=2),
    "bytes": Form(f"{HERE}:as_bytes", (".bin", ""), is_printed=False),
}


def make(*, any_suffix: bool = True) -> Any:
    @command("try", example="try")
    @form_options(FORMS, any_suffix=any_suffix)
    @output_option
    def run(form: str) -> None:
        print_form(FORMS[form], "x")

    return run


def test_lines_are_escaped_and_json_can_be_printed() -> None:
    assert FORMS["text"].encode(NAME).decode() == "is a\\u202e\\ud800\\nb\nend\n"
    for name in ("json", "indented"):
        text = FORMS[name].encode(NAME).decode()
        assert text.replace("\n", "").isprintable()
        assert text.endswith("}\n")
        assert json.loads(text) == {"is": NAME}
    assert FORMS["bytes"].encode(NAME) == b"\xff"


@pytest.mark.parametrize(
    ("options", "form"),
    [([], "text"), (["--json"], "json"), (["--format", "json"], "json"), (["--json", "--format", "json"], "json")],
)
@pytest.mark.parametrize("file", ["a", "a.txt", "a.JSON", "a.json.gz", "a.log", "-"])
def test_an_option_chooses_the_form_else_the_suffix_else_the_first(
    options: list[str], form: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if not options and "json" in file.lower():
        form = "json"
    if not options and file == "a":
        form = "bytes"
    result = CliRunner().invoke(make(), [*options, "-o", file])
    assert result.exit_code == 0, result.output
    written = result.stdout_bytes if file == "-" else (tmp_path / file).read_bytes()
    assert written.rstrip(b"\n") == FORMS[form].encode("x").rstrip(b"\n")


def test_a_suffix_of_no_form_is_refused_where_no_other_program_opens_the_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(make(any_suffix=False), ["-o", str(tmp_path / "a.png")])
    assert result.exit_code == 2
    assert "no form has the suffix .png: there are .txt, .json, .bin; --format text|json|indented" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_new_or_stays_as_it_was_and_no_planted_link_is_followed(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "file.txt"
    for code, kept in ((0, True), (1, True), (2, False)):
        victim.write_text("kept")
        (tmp_path / f".file.txt.{os.getpid()}.part").symlink_to(victim)

        @command("try", example="try")
        @form_options(FORMS)
        @output_option
        def run(form: str, code: int = code) -> None:
            print_form(FORMS[form], str(code))
            sys.exit(code)

        before = file.read_text() if file.exists() else None
        assert CliRunner().invoke(run, ["-o", str(file)]).exit_code == code
        assert file.read_text() == (FORMS["text"].encode(str(code)).decode() if kept else before)
        assert {victim.read_text(), *(each.name for each in tmp_path.iterdir())} == {"kept", "victim", "file.txt"}
    refused = CliRunner().invoke(make(), ["-o", str(tmp_path)])
    assert (refused.exit_code, "cannot be written: Is a directory" in refused.stderr) == (2, True)


class Refused(InputError):
    """An error with the exit code of findings, as more bad records than --max-bad have."""

    exit_code = 1


@pytest.mark.parametrize("before", [None, "of yesterday"])
@pytest.mark.parametrize("error", [InputError, Refused])
def test_an_error_leaves_the_output_as_it_was_whatever_its_exit_code(
    error: type[InputError], before: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "file.txt"
    if before is not None:
        file.write_text(before)

    @command("try", example="try")
    @form_options(FORMS)
    @output_option
    def run(form: str) -> None:
        print_form(FORMS[form], "half")
        with exit_on_error():
            raise error("refused")

    assert CliRunner().invoke(run, ["-o", str(file)]).exit_code == error.exit_code
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == (
        {} if before is None else {file.name: before}
    )


def test_a_misspelt_form_is_answered_with_the_one_that_it_may_mean() -> None:
    result = CliRunner().invoke(make(), ["--format", "jsn"])
    assert result.exit_code == 2
    assert "'jsn' is not one of 'text', 'json', 'indented'; did you mean 'json'?" in result.stderr
    result = CliRunner().invoke(make(), ["--format", "bytes"])
    assert result.exit_code == 2
    result = CliRunner().invoke(make(), ["--json", "--format", "text"])
    assert "--json is --format json, and not --format text" in result.stderr


TABLES = (
    "bindings.commands.audit:ESTIMATE_FORMS", "bindings.checking.forms:FORMS", "bindings.diffing.forms:FORMS",
    "bindings.drawing.forms:FORMS", "bindings.drift.forms:FORMS", "bindings.report.forms:FORMS", "bindings.report.inspection:ARCHIVE_FORMS",
    "bindings.report.inspection:MATCH_FORMS", "bindings.report.inspection:STORE_FORMS",
    "bindings.upgrading.forms:FORMS", "bridge.consumers.groups.commands:FORMS", "bridge.daemon.commands:FORMS",
    "bridge.daemon.commands:STATUS_FORMS", "bridge.dead.forms:FORMS",
    "bridge.scaling.commands:FORMS", "exchange.lifecycle.forms:FORMS", "exchange.partition.picture:FORMS",
    "exchange.selector.forms:CHECK_FORMS", "exchange.selector.forms:MATCH_FORMS",
)  # fmt: skip


@with_each("table", TABLES)
def test_each_row_names_a_function(table: str) -> None:
    module, _, name = table.partition(":")
    forms = getattr(import_module(module), name)
    assert [form for form in forms.values() if not callable(form.load())] == []


def test_each_table_is_known() -> None:
    found = [
        f"{name_module(path)}:{line.split(':')[0]}"
        for path, text in read_modules().items()
        for line in text.splitlines()
        if ": Final[Forms] = " in line
    ]
    assert sorted(found) == sorted(TABLES)
