"""What is given by position in a wrong order, as a pattern, or of another kind is answered with the way out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from tests.support.program import run_program
from tests.test_help import CONTEXTS

SHOP = Path(__file__).parent.parent / "examples" / "orders" / "orders.bindings"
LINE = '{"exchange": "orders", "routing_key": "order.eu.created"}\n'
MARK = "seem swapped, as "
SEVERAL = {
    "apply": ["http://127.0.0.1:1", "--dry-run"],
    "archive convert": ["new.parquet"],
    "audit follow": ["--state", "state", "lines.jsonl"],
    "audit merge": ["saved.tally"],
    "audit run": ["--no-spark", "lines.jsonl"],
    "convert": ["new.json"],
    "drift": ["http://127.0.0.1:1"],
    "explain": ["orders", "order.eu.created"],
    "route": ["lines.jsonl"],
}
"""Command -> what it is given besides what comes first, which is a topology, or an archive."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.bindings").write_text(SHOP.read_text())
    (tmp_path / "lines.jsonl").write_text(LINE * 2)
    (tmp_path / "saved.tally").write_text("")


def test_every_command_with_values_of_two_kinds_is_tried() -> None:
    named = {
        each.command_path.removeprefix("hashstar ")
        for each in CONTEXTS
        if len([param for param in each.command.params if isinstance(param, click.Argument)]) > 1
    }
    assert named == {*SEVERAL}


@pytest.mark.parametrize("command", SEVERAL)
def test_values_that_are_swapped_are_answered_with_the_right_command(command: str) -> None:
    """The command that is printed is the one with the topology first, and is answered otherwise."""
    first = "lines.jsonl" if command == "archive convert" else "shop.bindings"
    for swapped in ([*SEVERAL[command], first], ["-t", SEVERAL[command][-1], *SEVERAL[command][:-1], first]):
        if "--dry-run" in swapped or (swapped[0] == "-t" and command in ("archive convert", "explain")):
            continue
        answer = run_program(*command.split(), *swapped)
        assert answer.returncode == 2
        *_, hint = [line for line in answer.stderr.splitlines() if MARK in line]
        right = shlex.split(hint.partition("; run: hashstar ")[2])
        assert sorted(right) == sorted([*command.split(), *swapped])
        others = [at for at, each in enumerate(right) if each in SEVERAL[command] and right[at - 1] != "--state"]
        assert right.index(first) < min(at for at in others if right[at][0] != "-")
        if command != "audit follow":  # which starts Spark
            assert MARK not in run_program(*right).stderr
        Path("new.json").unlink(missing_ok=True)


def test_a_login_in_a_swapped_address_is_hidden() -> None:
    answer = run_program("apply", "http://ann:s3cret@127.0.0.1:1", "shop.bindings", "--dry-run").stderr
    assert "run: hashstar apply shop.bindings http://***@127.0.0.1:1 --dry-run\n" in answer
    assert "s3cret" not in answer


@pytest.mark.parametrize(
    "line",
    [
        "explain shop.bindings ordesr order.eu.paid", "route shop.bindings none.jsonl", "audit shop.bindings none",
        "audit shop.bindings shop.bindings", "convert none none2", "explain none orders key", "diff none lines.jsonl",
        "drift none http://127.0.0.1:1", "explain --nonsense orders shop.bindings", "graph lines.jsonl",
    ],
)  # fmt: skip
def test_what_is_wrong_otherwise_is_not_called_swapped(line: str) -> None:
    answer = run_program(*line.split())
    assert answer.returncode == 2
    assert MARK not in answer.stderr


def test_an_exchange_after_its_key_is_found() -> None:
    answer = run_program("explain", "shop.bindings", "order.eu.paid", "orders").stderr
    assert answer.endswith("no exchange 'order.eu.paid' in vhost '/shop'; the exchange comes before the key\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bridge amqp://u:p@h", "amqp://***@h is an address, and a bridge is a TOML file: it stands in [sources.NAME]"),
        ("bridge check kafka://h", 'as url = "kafka://h"'),
        ("bridge run shop.bindings", 'as topology = "shop.bindings"'),
        ("archive shop.bindings", "shop.bindings: this is a topology, and no archive"),
        ("graph lines.jsonl", "lines.jsonl: these are JSON lines: messages or an archive, and no topology"),
        ("graph sh*.bindings", "sh*.bindings: a pattern, and one file is wanted; it matches shop.bindings"),
        ("graph none*", "none*: no file matches"),
        ("fmt none*", "none*: no file matches"),
        ("audit shop.bindings none*", "none*: no file matches"),
        ("audit merge shop.bindings none*", "none*: no file matches"),
        ("audit follow shop.bindings l* --state s", "l*: a pattern, and new files are looked for in one folder"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_named(line: str, words: str) -> None:
    answer = run_program(*line.split())
    assert answer.returncode == 2
    assert words in answer.stderr


def test_a_pattern_is_an_archive_of_all_files_that_it_matches(tmp_path: Path) -> None:
    """As if a shell had expanded it, in each command with an archive."""
    for name in ("a/day-1.jsonl", "a/day-2.jsonl", "b/other.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LINE)
    assert '"records": 2' in run_program("archive", "*/day-*.jsonl", "--json").stdout
    assert run_program("archive", "convert", "*/day-*.jsonl", "new.jsonl").stderr == "new.jsonl: 2 records\n"
    report = run_program("audit", "shop.bindings", "?", "--no-spark", "--json")
    assert report.returncode == 0
    assert '"read":3' in report.stdout
    assert run_program("fmt", "--check", "*.bindings").returncode == 0
