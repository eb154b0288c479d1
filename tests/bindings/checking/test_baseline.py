"""Findings that a baseline records are not reported, wherever they are now; those that are gone are named."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.baseline import Baseline, BaselineRun
from bindings.checking.fingerprint import compute_fingerprint
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import RULES
from bridge.cli import hashstar
from exchange import Queue
from exchange.errors import InputError
from tests.support.program import invoke

ONE = 'exchange t: topic\nqueue q\nt -> q: "a.*", "a.b"\n'
TWO = 'exchange t: topic\nqueue q\nt -> q: "a.*", "a.b", "a.c"\n'


run = partial(invoke, "check")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a topology that has one finding."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.bindings").write_text(ONE)
    return tmp_path


def write(*arguments: object) -> Result:
    result = run(*arguments, "--baseline", "known.json", "--write-baseline")
    assert result.exit_code == 0, result.output
    return result


def check(*arguments: object) -> Result:
    return run(*arguments, "--baseline", "known.json", "--fail-on", "note")


def test_what_is_recorded_is_not_reported_and_what_is_new_is(folder: Path) -> None:
    """The exit code is that of the new findings; the number of the others is named."""
    result = write("t.bindings")
    assert result.stderr == "known.json: 1 finding recorded\n"
    result = check("t.bindings")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "t.bindings: nothing new, 1 in the baseline"
    (folder / "t.bindings").write_text(TWO)
    result = check("t.bindings")
    assert result.exit_code == 1
    assert "'a.c' is covered" in result.stdout
    assert "'a.b' is covered" not in result.stdout
    assert result.stdout.splitlines()[-1] == "t.bindings: 1 warning, 1 in the baseline"


def test_moved_lines_bring_no_finding_back(folder: Path) -> None:
    """Nor does another order of the statements, nor another pattern that covers the same binding."""
    write("t.bindings")
    for text in (
        f"# moved\n\n{ONE}",
        'queue q\nexchange t: topic\nt -> q: "a.b"\nt -> q: "a.*"\n',
        ONE.replace("a.*", "a.#"),
    ):
        (folder / "t.bindings").write_text(text)
        assert check("t.bindings").exit_code == 0, text


def test_a_warning_about_the_file_does_not_come_back_with_its_position(folder: Path) -> None:
    """Its text has a line in a .bindings file, and an index in definitions."""
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    (folder / "t.bindings").write_text("exchange f: fanout\nqueue q\nf -> q\nf -> q\n")
    (folder / "d.json").write_text(json.dumps({"queues": [queue, queue]}))
    assert run(".").stdout.count("HS901") == 1
    write(".")
    (folder / "t.bindings").write_text("# moved\nexchange f: fanout\nqueue q\nf -> q\nf -> q\n")
    (folder / "d.json").write_text(json.dumps({"queues": [{**queue, "name": "r"}, queue, queue]}))
    assert check(".", "--ignore", "HS204").exit_code == 0


def test_each_failed_expectation_is_a_finding_of_its_own(folder: Path) -> None:
    """Those of one exchange differ by what they expect: a new one is not hidden by one that is known."""
    (folder / "t.bindings").write_text(f'{ONE}expect t "x" -> q\n')
    write("t.bindings")
    (folder / "t.bindings").write_text(f'{ONE}expect t "y" -> q\n')
    result = check("t.bindings")
    assert result.exit_code == 1
    assert "expected: 't' <- 'y'" in result.stdout
    assert "1 finding gone" in result.stderr


def test_a_finding_is_known_as_often_as_it_is_recorded(folder: Path) -> None:
    (folder / "t.bindings").write_text(f'{ONE}expect t "x" -> q\nexpect t "x" -> q\n')
    write("t.bindings")
    assert check("t.bindings").exit_code == 0
    (folder / "t.bindings").write_text(f'{ONE}expect t "x" -> q\n' + 'expect t "x" -> q\n' * 2)
    result = check("t.bindings")
    assert "HS801 failed-expectation: 1 error" in result.stdout


def test_known_findings_are_those_of_their_file(folder: Path) -> None:
    """The same finding in another file is new; the way to name a file does not matter."""
    write("t.bindings")
    (folder / "other.bindings").write_text(ONE)
    assert check("other.bindings").exit_code == 1
    assert check(folder / "t.bindings").exit_code == 0
    assert check(".").stdout.count("is covered by") == 1


def test_the_baseline_may_be_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths are relative to its folder, not to the current one."""
    (folder / "below").mkdir()
    assert run("t.bindings", "--baseline", "below/known.json", "--write-baseline").exit_code == 0
    assert list(json.loads((folder / "below/known.json").read_text())["files"]) == ["../t.bindings"]
    monkeypatch.chdir(folder / "below")
    assert run("../t.bindings", "--baseline", "known.json", "--fail-on", "note").exit_code == 0


def test_findings_that_are_gone_are_named_so_that_the_file_can_shrink(folder: Path) -> None:
    """Also those of a file that is gone; not those of a file, a code or a virtual host that was not checked."""
    (folder / "other.bindings").write_text('vhost "/a"\nqueue lone\n\nvhost "/b"\nqueue lone\n')
    (folder / "removed.bindings").write_text("queue lone\n")
    write(".")
    (folder / "t.bindings").write_text('exchange t: topic\nqueue q\nt -> q: "a.*"\n')
    result = check("t.bindings")
    assert result.exit_code == 0
    assert result.stderr == (
        "known.json: 1 finding gone; --write-baseline removes:\n"
        "  t.bindings: HS104 't' -> queue 'q' with 'a.b' is covered by 'a.*'\n"
    )
    assert check("t.bindings", "--ignore", "HS1").stderr == ""
    (folder / "other.bindings").write_text('vhost "/a"\nqueue lone\n\nvhost "/b"\n')
    assert check("other.bindings", "--vhost", "/a").stderr == ""
    assert "other.bindings: HS204 no binding leads" in check("other.bindings").stderr
    (folder / "removed.bindings").unlink()
    assert "removed.bindings: HS204" in check("t.bindings").stderr
    document = json.loads(run("t.bindings", "--baseline", "known.json", "--format", "json").stdout)
    assert document["baseline"]["file"] == "known.json"
    assert document["baseline"]["known"] == 0
    assert [(gone["source"], gone["code"]) for gone in document["baseline"]["gone"]] == [
        ("removed.bindings", "HS204"), ("t.bindings", "HS104"),
    ]  # fmt: skip
    write(".")
    assert check(".").stderr == ""
    assert list(json.loads((folder / "known.json").read_text())["files"]) == ["other.bindings"]


def test_writing_keeps_what_was_not_checked(folder: Path) -> None:
    """Other files, codes and virtual hosts: a hook that checks one file does not empty the baseline."""
    (folder / "other.bindings").write_text('vhost "/a"\nqueue lone\n\nvhost "/b"\nqueue lone\n')
    write(".")
    before = (folder / "known.json").read_text()
    for arguments in (["t.bindings"], ["other.bindings"], [".", "--select", "HS2"], [".", "--vhost", "/a"]):
        write(*arguments)
        assert (folder / "known.json").read_text() == before, arguments
    assert before.count('"HS204"') == 2


def test_the_file_has_one_finding_a_line_in_an_order_of_its_own(folder: Path) -> None:
    """Neither the order of files nor that of statements changes a byte; one more finding is one more line."""
    (folder / "other.bindings").write_text(TWO)
    write("t.bindings", "other.bindings")
    before = (folder / "known.json").read_text()
    (folder / "other.bindings").write_text(
        f'# moved\n{TWO.replace(chr(34) + "a.b" + chr(34) + ", ", "")}t -> q: "a.b"\n'
    )
    write("other.bindings", "t.bindings")
    assert (folder / "known.json").read_text() == before
    (folder / "t.bindings").write_text(TWO)
    write(".")
    after = (folder / "known.json").read_text()
    added = Counter(line.rstrip(",") for line in after.splitlines()) - Counter(
        line.rstrip(",") for line in before.splitlines()
    )
    (line,) = added
    assert '"a.c"' in line
    assert after.endswith("}\n")


def test_a_baseline_is_not_written_where_a_file_cannot_be_checked(folder: Path) -> None:
    """Its findings would be lost; the old one stays as it is."""
    write("t.bindings")
    before = (folder / "known.json").read_bytes()
    (folder / "t.bindings").write_text(TWO)
    (folder / "mistake.bindings").write_text("exchange\n")
    result = run(".", "--baseline", "known.json", "--write-baseline")
    assert result.exit_code == 2
    assert "known.json: not written, because of the errors" in result.stderr
    assert (folder / "known.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a baseline"),
        ("{", "not a baseline"),
        ("[]", "not a baseline of hashstar check"),
        ("{}", "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 1}', "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 1, "files": []}', "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 1, "files": {"a": 1}}', "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 1, "files": {"a": [{}]}}', "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 1, "files": {"a": [{"code": 1, "vhost": "", "part": 1, "message": "", "fingerprint": ""}]}}',  # noqa: E501
         "not a baseline of hashstar check"),
        ('{"hashstar_baseline": 2, "files": {}}', "its version is 2"),
        ("[" * 100_000, "not a baseline"),
        ('{"hashstar_baseline": 1, "hashstar_baseline": 1, "files": {}}', "not a baseline"),
    ],
)  # fmt: skip
def test_another_file_is_no_baseline(text: str, message: str, folder: Path) -> None:
    """Neither to read nor to write over."""
    (folder / "known.json").write_text(text)
    for options in ([], ["--write-baseline"]):
        result = run("t.bindings", "--baseline", "known.json", *options)
        assert result.exit_code == 2
        assert result.stderr.startswith("hashstar: known.json: ")
        assert message in result.stderr
        assert (folder / "known.json").read_text() == text


def test_a_baseline_that_is_missing_is_an_error_and_a_new_one_is_asked_for(folder: Path) -> None:
    assert run("t.bindings", "--baseline", "gone.json").exit_code == 2
    assert "needs --baseline" in run("t.bindings", "--write-baseline").stderr
    assert run("t.bindings", "--baseline", "no/where.json", "--write-baseline").exit_code == 2


def test_a_baseline_holds_all_findings_of_a_kind(folder: Path) -> None:
    """Not only the first hundred, which are listed: the next one would seem to be new."""
    keys = [f'"a.{number}"' for number in range(150)]
    (folder / "t.bindings").write_text(f'exchange t: topic\nqueue q\nt -> q: "a.*", {", ".join(keys)}\n')
    write("t.bindings")
    (folder / "t.bindings").write_text(f'exchange t: topic\nqueue q\nt -> q: "a.*", "a.new", {", ".join(keys)}\n')
    result = check("t.bindings")
    assert [line for line in result.stdout.splitlines() if "covered by" in line and "a.new" not in line] == []
    assert result.stdout.endswith("t.bindings: 1 warning, 150 in the baseline\n")


def test_the_baseline_is_not_among_the_files_of_its_folder(folder: Path) -> None:
    """It would be counted as JSON that is no topology, and be in the way of a pattern."""
    for names in ([folder], ["*"], ["."]):
        write(*names)
        assert check(*names).stdout.endswith("1 file checked: nothing new, 1 in the baseline\n")


def test_a_baseline_works_for_standard_input(folder: Path) -> None:
    for options, code in ((["--write-baseline"], 0), ([], 0)):
        result = CliRunner().invoke(
            hashstar, ["check", "-", "--baseline", "known.json", "--fail-on", "note", *options], input=ONE
        )
        assert result.exit_code == code, result.output
    assert list(json.loads((folder / "known.json").read_text())["files"]) == ["-"]


findings = st.lists(st.tuples(st.sampled_from(list(RULES)[:3]), st.sampled_from("pqr"), st.sampled_from(["", "x"])))


def make(identities: list[tuple[str, str, str]]) -> list[Finding]:
    return [
        Finding(code, Queue(name), f"{number}", line=number + 1, detail=detail)
        for number, (code, name, detail) in enumerate(identities)
    ]


@given(findings, findings)
def test_what_is_reported_is_the_difference_of_two_multisets(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    """And what is gone is the other difference, whatever the order, the lines and the messages are."""
    codes = tuple(RULES)
    recorder = BaselineRun(Baseline("/b/known.json"), codes, None, record=True)
    assert recorder.subtract("/b/f", "/", make(before)) == []
    baseline = recorder.recorded()
    assert Baseline(baseline.name, dict(baseline.files)) == baseline
    reader = BaselineRun(baseline, codes, None, record=False)
    new = reader.subtract("/b/f", "/", make(after))

    def prints(identities: list[tuple[str, str, str]]) -> Counter[str]:
        return Counter(compute_fingerprint("/", finding) for finding in make(identities))

    assert Counter(compute_fingerprint("/", finding) for finding in new) == prints(after) - prints(before)
    assert Counter(finding.fingerprint for _, finding in reader.find_gone()) == prints(before) - prints(after)
    again = BaselineRun(baseline, codes, None, record=True)
    again.subtract("/b/f", "/", make(after))
    final = BaselineRun(again.recorded(), codes, None, record=False)
    assert final.subtract("/b/f", "/", make(after)) == []
    assert final.find_gone() == []


@given(st.lists(st.text(), max_size=5), st.text(min_size=1).filter(lambda name: "/" not in name and "\0" not in name))
def test_a_baseline_is_read_as_it_was_written(names: list[str], file: str) -> None:
    """Whatever is in names: lone surrogates cannot be in a topology."""
    import tempfile

    found: list[Any] = [Finding("HS204", Queue(name), f"about {name}\nand more") for name in names]
    with tempfile.TemporaryDirectory() as place:
        run = BaselineRun(Baseline(f"{place}/known.json"), tuple(RULES), None, record=True)
        run.subtract(f"{place}/{file}", "/", found)
        saved = run.recorded()
        saved.save()
        loaded = Baseline.load(saved.name)
    assert {name: set(map(str, known)) for name, known in loaded.files.items()} == {
        name: set(map(str, known)) for name, known in saved.files.items() if known
    }
    with pytest.raises(InputError):
        Baseline.load(f"{place}/known.json")
