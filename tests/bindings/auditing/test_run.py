"""The function `audit` returns the report of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bindings.auditing import run as run_module
from bindings.auditing.local.selection import Selection
from bindings.auditing.run import audit
from bindings.checking.check import check
from bindings.commands.audit import audit_command
from bindings.diffing.diff import diff
from bindings.report.forms.as_json import encode_json
from bindings.sources.open import load
from exchange import LATEST_PROFILE, Topology
from exchange.errors import InputError

TOPOLOGY = """
vhost "/"
exchange orders: topic
queue all
queue eu
orders -> all: "#"
orders -> eu: "eu.#"
expect orders "eu.new" -> all, eu
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """Write two topologies, and an archive of three messages, one of them in another virtual host."""
    topology, other, archive = tmp_path / "t.bindings", tmp_path / "o.bindings", tmp_path / "m.jsonl"
    topology.write_text(TOPOLOGY)
    other.write_text(TOPOLOGY.replace('"eu.#"', '"us.#"'))
    rows = [("/", "eu.new"), ("/", "us.new"), ("elsewhere", "eu.new")]
    archive.write_text(
        "".join(json.dumps({"exchange": "orders", "routing_key": key, "vhost": vhost}) + "\n" for vhost, key in rows)
    )
    return str(topology), str(other), str(archive)


def test_the_function_and_the_command_give_the_same_report(files: tuple[str, str, str]) -> None:
    """With all options that both have; only the time at which the report is made differs."""
    topology, other, archive = files
    report = audit(topology, archive, compare=other, verify=True)
    asked = ["-t", topology, "--no-spark", "--compare", other, "--verify", "--format", "json", archive]
    answer = CliRunner().invoke(audit_command, asked)
    assert answer.exit_code == 0, answer.output
    printed = json.loads(answer.stdout)
    ours = json.loads(encode_json(replace(report, made=0)))
    assert {**printed, "made": None} == {**ours, "made": None}
    assert report.audited.records.counted == 2


def test_a_selection_without_a_virtual_host_selects_all_as_the_option_with_an_asterisk(
    files: tuple[str, str, str],
) -> None:
    topology, _, archive = files
    for selection, options, counted in (
        (None, [], 2), (Selection(), ["--archive-vhost", "*"], 3), (Selection("/"), ["--archive-vhost", "/"], 2),
    ):  # fmt: skip
        report = audit(topology, archive, selection=selection)
        answer = CliRunner().invoke(audit_command, [topology, archive, "--no-spark", "--json", *options])
        printed = json.loads(answer.stdout)["audited"]["records"]["counted"]
        assert report.audited.records.counted == printed == counted


def test_a_topology_may_be_a_value_and_archives_may_be_paths(files: tuple[str, str, str]) -> None:
    topology, _, archive = files
    report = audit(load(topology), [Path(archive)])
    assert {row.use.queue: row.use.messages for row in report.queues} == {"all": 2, "eu": 1}


def test_topics_need_a_session_of_spark(files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "find_active_session", lambda: None)  # other tests of this process may have one
    with pytest.raises(InputError, match="a topic can be read by Spark only"):
        audit(files[0], "kafka://127.0.0.1:1/orders")


def test_arguments_that_are_something_else_are_named(tmp_path: Path) -> None:
    """An archive before the topology, and columns that are no mapping."""
    path = tmp_path / "month.parquet"
    pq.write_table(pa.table({"exchange": ["orders"], "routing_key": ["a"]}), path)
    with pytest.raises(InputError, match=r"month.parquet: this is Parquet: an archive, and no topology"):
        audit(path, "examples/orders/orders.bindings")
    with pytest.raises(TypeError, match=r"mapping must be a FieldMapping, not dict; such as FieldMapping"):
        audit("examples/orders/orders.bindings", path, mapping={"exchange": "exch"})  # type: ignore[arg-type]


@pytest.mark.parametrize("archives", [5, None, [5], b"m.jsonl", {"m.jsonl"}, iter(["m.jsonl"])])
def test_archives_that_are_no_paths_are_refused_by_their_type(files: tuple[str, str, str], archives: Any) -> None:
    with pytest.raises(TypeError, match=r"audit: archives must be a path or a sequence of paths, not "):
        audit(files[0], archives)


@pytest.mark.parametrize("ask", [load, check, lambda path: audit(path, "m.jsonl"), lambda path: diff(path, Topology())])
@pytest.mark.parametrize("path", [5, None, b"t.bindings"])
def test_a_topology_that_is_no_path_is_refused_by_its_type(ask: Callable[[Any], object], path: Any) -> None:
    with pytest.raises(TypeError, match=r"a path or an address is wanted, not (int|NoneType|bytes): "):
        ask(path)


def test_numbers_of_one_have_a_singular(files: tuple[str, str, str], tmp_path: Path) -> None:
    (tmp_path / "one.bindings").write_text("exchange orders: topic\nqueue all\norders -> all: '#'\n")
    (tmp_path / "one.jsonl").write_text('{"exchange": "orders", "routing_key": "k"}\nbad\n')
    report = audit(tmp_path / "one.bindings", tmp_path / "one.jsonl")
    assert repr(report).endswith("one.bindings': 1 message, 0 unroutable; 1 of 1 binding hit; 1 bad record>")
    release = LATEST_PROFILE.name
    assert repr(load(files[0])) == f"<Topology '/': 8 exchanges, 2 queues, 2 bindings, {release}>"
    assert repr(load(tmp_path / "one.bindings")) == f"<Topology '/': 8 exchanges, 1 queue, 1 binding, {release}>"


def test_an_audit_of_no_archives_is_an_error_that_says_so(files: tuple[str, str, str]) -> None:
    with pytest.raises(InputError, match="there are no archives in the sequence"):
        audit(files[0], [])
