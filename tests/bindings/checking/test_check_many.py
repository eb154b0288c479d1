"""`hashstar check` of many files and folders: what is checked, what is skipped, and the exit code over all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import invoke

COVERED = 'exchange t: topic\nqueue q\nt -> q: "a.*", "a.b"\n'
"""Has one warning."""
SOUND = 'exchange t: topic\nqueue q\nt -> q: "a.*"\n'
FAILING = f'{SOUND}expect t "b" -> q\n'
"""Has one error."""
MISTAKE = "exchange t topic\n"
DEFINITIONS = '{"rabbitmq_version": "4.1.0", "queues": [{"name": "q", "vhost": "/", "durable": true}]}'
"""Has one note."""


run = partial(invoke, "check")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with topologies in it and below it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "covered.bindings").write_text(COVERED)
    (tmp_path / "below/sound.bindings").write_text(SOUND)
    (tmp_path / "below/definitions.json").write_text(DEFINITIONS)
    (tmp_path / "below/package.json").write_text("{}")
    return tmp_path


def test_a_folder_is_checked_with_all_below_it(folder: Path) -> None:
    """Each file is named, what a code means is printed once, and the last line has all counts."""
    (folder / "below/covered.bindings").write_text(COVERED)
    result = run(".")
    assert result.exit_code == 0
    assert result.stdout.count("HS104 covered-binding: 2 warnings\n") == 1
    assert "    covered.bindings:3: 't' -> queue 'q' with 'a.b'" in result.stdout
    assert "    below/covered.bindings:3: 't' -> queue 'q' with 'a.b'" in result.stdout
    *_, a, b, c, d, skipped, last = result.stdout.splitlines()
    assert [line.partition(" (by the rules of ")[0] for line in (a, b, d)] == [
        "covered.bindings: 1 warning",
        "below/covered.bindings: 1 warning",
        "below/sound.bindings: nothing found",
    ]
    assert c == "below/definitions.json: 1 note (by the rules of rabbitmq-4.0, as its rabbitmq_version is 4.1.0)"
    assert skipped == "below/package.json: skipped: no definitions of RabbitMQ"
    assert last == "4 files checked, 1 skipped: 2 warnings, 1 note"


def test_the_exit_code_is_that_of_the_worst_file(folder: Path) -> None:
    (folder / "failing.bindings").write_text(FAILING)
    assert run("below", "covered.bindings").exit_code == 0
    assert run("below", "covered.bindings", "--fail-on", "warning").exit_code == 1
    assert run("below", "failing.bindings").exit_code == 1
    assert run("below", "failing.bindings", "gone.bindings").exit_code == 2
    assert run("failing.bindings", "--ignore", "HS8", "below").exit_code == 0


def test_a_file_that_cannot_be_read_does_not_hide_the_others(folder: Path) -> None:
    """Named or below a folder: a mistake in a file is an error, and no reason to skip it."""
    (folder / "mistake.bindings").write_text(MISTAKE)
    (folder / "damaged.json").write_text(DEFINITIONS[:-1])
    for names in (["."], ["covered.bindings", "mistake.bindings", "damaged.json"], ["*.*"]):
        result = run(*names)
        assert result.exit_code == 2
        assert "covered.bindings:3: " in result.stdout
        assert "hashstar: mistake.bindings:1:12: " in result.stderr
        assert "hashstar: damaged.json:1:" in result.stderr
        assert ", 2 not checked" in result.stdout.splitlines()[-1]


def test_any_file_that_is_named_must_be_a_topology(folder: Path) -> None:
    """Also where a shell has made names of a pattern."""
    for names in (["below/package.json", "covered.bindings"], ["gone.json", "covered.bindings"]):
        result = run(*names)
        assert result.exit_code == 2
    (folder / "README.md").write_text("# About\n\nno topology\n")
    assert run("*").exit_code == 2
    assert run(".").exit_code == 0


def test_a_folder_without_any_topology_is_an_error(folder: Path) -> None:
    """A check in CI that checks nothing must not pass."""
    (folder / "empty").mkdir()
    (folder / "empty/package.json").write_text("{}")
    result = run("empty")
    assert result.exit_code == 2
    assert result.stderr == "hashstar: empty: no topology below this folder, such as a .bindings file or definitions\n"
    assert run("empty", "covered.bindings").exit_code == 2
    assert run("nothing*").exit_code == 2
    assert run().exit_code == 2


def test_a_virtual_host_is_checked_in_the_files_that_have_it(folder: Path) -> None:
    """A file below a folder without it is skipped; one that is named is an error."""
    (folder / "below/two.bindings").write_text(f'vhost "/a"\n{COVERED}vhost "/b"\n{SOUND}')
    result = run("below", "--vhost", "/a")
    assert result.exit_code == 0
    assert "below/sound.bindings: skipped: no virtual host '/a'" in result.stdout
    assert result.stdout.endswith("1 file checked, 3 skipped: 1 warning\n")
    assert run("below/two.bindings", "covered.bindings", "--vhost", "/a").exit_code == 2
    assert run("below", "--vhost", "/c").exit_code == 2
    assert "below/two.bindings:4: virtual host '/a': 't' -> queue" in run("below").stdout


def test_options_hold_for_each_file(folder: Path) -> None:
    """The profile, the codes; each file has its own profile without --profile."""
    (folder / "below/more.bindings").write_text('exchange t: topic\nqueue q\nt -> q: "#.a.#.b.#"\n')
    assert "HS404" in run(".").stdout
    assert "HS404" not in run(".", "--profile", "4.0").stdout
    assert "by the rules" not in run(".", "--profile", "4.0").stdout
    codes = {line[:5] for line in run(".", "--select", "HS1,HS4").stdout.splitlines() if line.startswith("HS")}
    assert codes == {"HS104", "HS404"}
    assert "HS205" in run(".", "--select", "HS,HS205").stdout


def test_json_of_several_files_has_the_object_of_each(folder: Path) -> None:
    """In the same form as of one file, with what was not checked and what was skipped."""
    (folder / "mistake.bindings").write_text(MISTAKE)
    result = run(".", "--format", "json")
    document: dict[str, Any] = json.loads(result.stdout)
    assert [file["source"] for file in document["files"]] == [
        "covered.bindings", "below/definitions.json", "below/sound.bindings",
    ]  # fmt: skip
    for file in document["files"]:
        assert file == json.loads(run(file["source"], "--format", "json").stdout)
    assert document["counts"] == {"error": 0, "warning": 1, "note": 1}
    assert document["skipped"] == [{"source": "below/package.json", "reason": "no definitions of RabbitMQ"}]
    (error,) = document["errors"]
    assert error["source"] == "mistake.bindings"
    assert error["message"].startswith("mistake.bindings:1:12: ")


def test_json_of_one_file_is_what_it_was(folder: Path) -> None:
    """A folder, or a pattern in quotes, has the form of several files, whatever number there is."""
    one = json.loads(run("covered.bindings", "--format", "json").stdout)
    assert list(one) == ["source", "profile", "vhosts", "counts"]
    for name in ("below", "cov*"):
        assert list(json.loads(run(name, "--format", "json").stdout)) == ["files", "errors", "skipped", "counts"]


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "gitlab", "junit"])
def test_one_file_that_cannot_be_read_is_an_error_and_nothing_else(form: str, folder: Path) -> None:
    """As before there were several."""
    result = run("gone.bindings", "--format", form)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "hashstar: gone.bindings: cannot be read: No such file or directory\n"


def test_many_skipped_files_are_counted(folder: Path) -> None:
    for number in range(20):
        (folder / f"{number:02}.json").write_text("{}")
    lines = run(".").stdout.splitlines()
    assert len([line for line in lines if ": skipped: " in line]) == 10
    assert lines[-2] == "and 11 more skipped"
    assert lines[-1] == "3 files checked, 21 skipped: 1 warning, 1 note"


def test_names_of_files_cannot_forge_lines(folder: Path) -> None:
    """They are escaped in all that is printed for people."""
    name = "a\n::error::b\x1b[2J.bindings"
    (folder / name).write_text(COVERED)
    (folder / "a\n::error::c.json").write_text("{}")
    (folder / "a\n::error::d.bindings").write_text(MISTAKE)
    for form in ("text", "github", "junit"):
        result = run(".", "--format", form)
        lines = (result.stdout + result.stderr).splitlines()
        assert [line for line in lines if line.startswith(("::error::", "[2J"))] == []
        assert "\x1b" not in result.output


def test_all_failed_expectations_are_listed(folder: Path) -> None:
    """However many there are at one exchange: each is a line that someone wrote."""
    expectations = "".join(f'expect t "b.{number}.c" -> q\n' for number in range(150))
    (folder / "many.bindings").write_text(SOUND + expectations)
    result = run("many.bindings")
    assert "HS801 failed-expectation: 150 errors" in result.stdout
    assert "more of this kind" not in result.stdout
