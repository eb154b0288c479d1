"""A release that is newer than all that are known is judged by the newest, and each command says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bindings.counts.tally import compute_fingerprint
from bridge.cli import hashstar
from exchange.entities.releases import PROFILES
from exchange.topology.topology import Topology

SAID = "RabbitMQ 5.0.1 is newer than all that are known here: the rules of rabbitmq-"
EXPORT = {
    "rabbitmq_version": "5.0.1",
    "vhosts": [{"name": "/"}],
    "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [], "bindings": [], "policies": [],
}  # fmt: skip
SOURCES = {"export.json": json.dumps(EXPORT), "file.bindings": "profile rabbitmq-5.0.1\nqueue q\n"}
COMMANDS = (
    ("check", "FILE"), ("check", "FILE", "--format", "json"), ("route", "FILE", "-"),
    ("explain", "FILE", "", "q"), ("diff", "FILE", "FILE"), ("graph", "FILE"), ("convert", "FILE", "out.json"),
    ("audit", "FILE", "archive.jsonl", "--no-spark"),
    ("upgrade", "FILE", "--from", "4.2", "--to", "4.3"),
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_says_it_first(command: tuple[str, ...], source: str, tmp_path: Path) -> None:
    file = tmp_path / source
    file.write_text(SOURCES[source])
    (tmp_path / "archive.jsonl").write_text('{"exchange": "", "routing_key": "q"}\n')
    names = {"FILE": str(file), "archive.jsonl": str(tmp_path / "archive.jsonl"), "out.json": str(tmp_path / "o.json")}
    run = CliRunner().invoke(hashstar, [names.get(word, word) for word in command], input="")
    assert run.exit_code != 2, run.output
    assert SAID in run.stderr.splitlines()[0], run.output


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
    assert len({compute_fingerprint(Topology(profile=name)) for name in PROFILES}) == len(PROFILES) - 1
