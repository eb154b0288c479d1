"""The night: what its parts are, and when it has proved everything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import night
from tests.recorders import golden
from tests.support.git import commit, git, make_repository
from tests.support.measured import PAGE, CompleteRun, add_complete_run, read_complete_runs

TOP = Path(__file__).parents[1]
HEAD = "# Measured\n\n| date | commit | machine | figures |\n|---|---|---|---|\n"
TESTS = {"tests": "echo 1 failed, 12 passed in 3 s; echo 1234 passed in 3 s"}
SOAK = {"soak": 'test "$HASHSTAR_REQUIRE_LIVE" = 1'}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_repository(tmp_path, {"docs/measured.md": f"{HEAD}\n## Other\n", ".gitignore": "build/\n"})
    monkeypatch.setattr(night, "TOP", tmp_path)
    monkeypatch.setattr(night, "KEPT", tmp_path / "build" / "night")
    monkeypatch.setattr(night, "WAITING", SOAK)
    monkeypatch.setattr(night, "COMPUTING", TESTS)
    return tmp_path


def test_a_night_names_what_was_recorded_more_than_a_year_ago(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(golden, "GOLDEN", here)
    golden.write("old-1.2", "old client", "1.2", {"answers": [1]})
    golden.write("new-1.3", "new client", "1.3", {})
    text = (golden.GOLDEN / "old-1.2.json").read_text("utf-8")
    (golden.GOLDEN / "old-1.2.json").write_text(re.sub(r"\d{4}-", "2024-", text, count=1), "utf-8")
    night.main([])
    assert re.findall("more than a year ago: (.*), 2024", capsys.readouterr().out) == ["old: old client 1.2"]


def test_the_page_has_the_recordings_of_today() -> None:
    page = golden.PAGE.read_text("utf-8")
    assert golden.with_recordings(page) == page, "run python -m tests.recorders.golden"
    with pytest.raises(ValueError, match="0 tables of recordings"):
        golden.with_recordings("# nothing")


def test_a_night_in_which_all_passes_adds_its_row(here: Path) -> None:
    for _ in range(2):
        assert night.main([]) == 0
        commit(here)
    first, second = read_complete_runs(here)
    assert first.commit == git(here, "rev-parse", "HEAD~2")[:12]
    assert second.commit == git(here, "rev-parse", "HEAD~1")[:12]
    assert second.figures == "soak 0 min; tests 1,234 passed in 0 min"
    assert (here / PAGE).read_text().endswith("|\n\n## Other\n")


def test_a_part_that_fails_is_shown_and_no_row_is_added(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(night, "WAITING", {"chaos": "echo lost 3; exit 3", **SOAK})
    assert night.main([]) == 1
    assert re.search(r"chaos FAILED after 0 min \(exit 3\).*\nlost 3\n", out := capsys.readouterr().out)
    assert "soak 0 min" in out
    assert read_complete_runs(here) == []


def test_a_part_alone_and_changed_files_prove_nothing(here: Path) -> None:
    assert night.main(["--part", "soak"]) == 0
    (here / "new.py").touch()
    assert night.main([]) == 0
    assert read_complete_runs(here) == []


def test_a_night_that_was_broken_off_goes_on_for_the_same_files_only(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = {name: f"echo >>build/{name}" for name in ("one", "two")}
    monkeypatch.setattr(night, "WAITING", {"one": counted["one"]})
    monkeypatch.setattr(night, "COMPUTING", {"two": f"{counted['two']}; test -e build/works"})

    def count() -> list[int]:
        return [len((here / "build" / name).read_text()) for name in counted]

    assert night.main([]) == 1
    (here / "build" / "works").touch()
    assert night.main([]) == 0
    assert count() == [1, 2]
    assert "night: passed before, for these files: one 0 min" in capsys.readouterr().out
    assert len(read_complete_runs(here)) == 1
    commit(here)
    assert night.main(["--part", "one"]) == 0
    assert night.main(["--part", "two"]) == 0
    assert (count(), len(read_complete_runs(here))) == ([2, 3], 2)
    git(here, "checkout", "--", ".")
    assert night.main(["--again"]) == 0
    assert count() == [3, 4]
    (here / "build" / "works").unlink()
    git(here, "checkout", "--", ".")
    assert night.main(["--again"]) == 1
    assert night.main([]) == 1  # what passed earlier and failed since has to pass again
    assert count() == [4, 6]


@pytest.mark.process
def test_a_run_of_tests_goes_on_after_those_that_have_passed(tmp_path: Path) -> None:
    listed = tmp_path / "listed.txt"
    for name, text in {
        "pytest.ini": "[pytest]\n",
        "conftest.py": "from tests.support import passed\ndef pytest_configure(config): passed.register(config)\n",
        "test_it.py": "import pathlib\ndef test_a(): pass\ndef test_b(): assert pathlib.Path('works').exists()\n",
    }.items():
        (tmp_path / name).write_text(text)

    def run() -> tuple[int, list[str], str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n2"], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(TOP), "HASHSTAR_PASSED": str(listed)},
        )  # fmt: skip
        return done.returncode, listed.read_text("utf-8").splitlines(), done.stdout

    assert run()[:2] == (1, ["test_it.py::test_a"])
    (tmp_path / "works").touch()
    code, names, output = run()
    assert (code, names) == (0, ["test_it.py::test_a", "test_it.py::test_b"])
    assert re.findall(r"(\d+) passed", output) == ["1", "2"]  # the last one counts those of earlier runs, too
    assert run()[:2] == (0, names)


def test_the_rows_of_the_page_are_read() -> None:
    section = (TOP / PAGE).read_text().split("\n## ")[1]
    assert section.startswith("Complete runs\n")
    rows = re.findall(r"^\| 20\d\d-.*\|.*\|.*\|$", section, re.MULTILINE)
    assert len(read_complete_runs(TOP)) == len(rows) > 0


def test_a_row_that_would_not_be_read_is_not_written(here: Path) -> None:
    with pytest.raises(AssertionError):
        add_complete_run(here, CompleteRun("today", "0123456789", "m", "f"))


def test_targets_of_make_and_scripts_of_parts_are_there() -> None:
    makefile = (TOP / "Makefile").read_text()
    words = {name: command.split() for name, command in {**night.WAITING, **night.COMPUTING}.items()}
    targets = [word[-1] for word in words.values() if word[0] == "make" and len(word) == 2]
    assert {"damage", "fuzz", "mutants", "soak"} == set(targets)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert all((TOP / word[0]).exists() for word in words.values() if word[0].startswith(".ci/"))
    assert all((TOP / folder).exists() for folder in night.LOWEST.split())
