"""What counts: this process, unless Spark is asked for or the archive is large; a line says which, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import Archive, detect
from bindings.auditing import engine, run
from bindings.auditing.engine import choose_engine
from bindings.commands.audit import audit_command
from exchange.errors import InputError
from exchange.topology.topology import Topology

LINE = '{"exchange": "amq.topic", "routing_key": "a"}\n'


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(engine, "find_active_session", lambda: None)
    (tmp_path / "m.jsonl").write_text(LINE * 100)
    return detect(str(tmp_path / "m.jsonl"))


def test_this_process_counts_what_is_not_large(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose_engine(archive)
    assert str(chosen) == "counted in this process: 5 KiB; Spark from 32 GiB on, or with --master"
    monkeypatch.setattr(engine, "LARGE_ARCHIVE_BYTES", 4_600)
    assert choose_engine(archive).spark
    monkeypatch.setattr(engine, "LARGE_ARCHIVE_BYTES", 4_601)
    assert not choose_engine(archive).spark


def test_a_large_archive_is_counted_here_without_spark(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LARGE_ARCHIVE_BYTES", 1)
    monkeypatch.setattr(engine, "find_spec", lambda _: None)
    assert choose_engine(archive) == (False, "5 KiB, and Spark is not installed, which would use more machines", 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"asked": "--master"}, "--master"),
        ({"archive": None}, "only Spark reads topics of Kafka"),
        ({"session": object()}, "there is a session"),
        ({"variable": "SPARK_REMOTE"}, "SPARK_REMOTE is set"),
        ({"variable": "PYSPARK_GATEWAY_PORT"}, "PYSPARK_GATEWAY_PORT is set"),
    ],
)
def test_spark_counts_where_it_is_asked_for(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(engine, "find_active_session", lambda: change.get("session"))
    if "variable" in change:
        monkeypatch.setenv(change["variable"], "1")
    found = choose_engine(change.get("archive", archive), asked=change.get("asked", ""))
    assert (found.spark, found.reason) == (True, reason)
    assert choose_engine(archive, refused="--no-spark") == (False, "--no-spark", 1)


def test_sizes_of_files_are_looked_at_only_where_they_decide(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive may have many files, on a slow file system."""
    monkeypatch.setattr(engine, "read_file_size", lambda path: pytest.fail(f"size of {path}"))
    assert choose_engine(archive, asked="--master").spark
    monkeypatch.setattr(engine, "find_active_session", object)
    assert choose_engine(archive).spark
    taken: list[Any] = []

    def count(*_: Any, spark: Any, **__: Any) -> None:
        taken.append(spark)
        raise InputError("counted")

    monkeypatch.setattr(run, "count", count)
    session: Any = object()
    with pytest.raises(InputError, match="counted"):
        run.audit(Topology(), archive.path, spark=session)
    assert taken == [session]


@pytest.mark.parametrize(
    ("jobs", "line"),
    [
        (1, "counted in this process: --jobs"),
        (4, "counted in this process: --jobs, but the archive (5 KiB) is under 256 MiB"),
    ],
)
def test_several_processes_that_were_asked_for_and_do_not_count_are_explained(
    archive: Archive, jobs: int, line: str
) -> None:
    assert str(choose_engine(archive, refused="--jobs", jobs=jobs)) == line


def test_the_command_says_what_counts(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text('queue q\namq.topic -> q: "a"\n')
    arguments = [str(tmp_path / "t.bindings"), archive.path]
    found = CliRunner().invoke(audit_command, arguments)
    assert found.exit_code == 0
    assert found.stderr.startswith("counted in this process: 5 KiB; ")
    assert not CliRunner().invoke(audit_command, [*arguments, "--no-spark"]).stderr
    refused = CliRunner().invoke(audit_command, [*arguments, "--no-spark", "--master", "local"])
    assert (refused.exit_code, "--master is for Spark" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (["--no-spark"], "a topic can be read by Spark only; omit --no-spark"),
        (["--jobs", "2"], "a topic can be read by Spark only; omit --jobs"),
        (["--keep-bad", "bad"], "bad records of a topic cannot be kept; omit --keep-bad"),
    ],
)
def test_what_a_topic_refuses_is_named(tmp_path: Path, options: list[str], way_out: str) -> None:
    (tmp_path / "t.bindings").write_text("queue q\n")
    topic = "kafka://127.0.0.1:1/orders"
    found = CliRunner().invoke(audit_command, [str(tmp_path / "t.bindings"), topic, *options])
    assert (found.exit_code, found.stderr) == (2, f"hashstar: {topic}: {way_out}\n")
