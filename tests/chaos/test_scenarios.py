"""Scenarios can be told apart, each row of the table is among them, and a result that is no proof says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.chaos.__main__ import main
from tests.chaos.daemon import Daemon
from tests.chaos.kinds import KINDS, Brokers, rounds_of
from tests.chaos.places import Place
from tests.chaos.run import GaveUp
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.table import trial_lines
from tests.chaos.trial import Trial, TrialResult
from tests.chaos.watching import Sample, Visibility, Watch
from tests.support.starting import Unavailable

ROWS = {
    "pause", "stop", "alarm", "full-disk", "delete", "password", "user", "revoke", "reject-publish", "remake-topic",
    "add-partition", "too-large", "user-id", "nested", "odd-timestamp", "cc-loop", "sigstop", "takeover",
    "exactly-once", "consumer-timeout", "check-loop", "crash-loop", "rotate-secret", "long-key", "zombie",
    "window-bytes", "dead-letter-limit", "remake-queue", "oom-loop", "refused-batch", "open-transaction", "unrouted",
    "stuck-log", "copied-id",  "rotate-certificates", "cluster", "wiped-kafka",
    "unplug", "unclean-election", "removing-source", "delete-group", "maintenance", "hanging-names",
    "connections", "foreign-reader", "delete-records", "moved-archive",
    "standby", "retention", "raised-limit",
}  # fmt: skip


def test_every_row_has_its_scenario_and_no_two_share_a_folder() -> None:
    assert {scenario.name for scenario in SCENARIOS} == ROWS
    assert len({scenario.key for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all({*scenario.kinds, *scenario.spoils} <= {*KINDS} for scenario in SCENARIOS)


def test_several_images_of_a_kind_run_one_after_the_other() -> None:
    images = ["own/rabbitmq:4.0", "own/rabbitmq:4.3", "kafka:3.9"]
    assert list(rounds_of(images)) == [
        {"rabbitmq": "own/rabbitmq:4.0", "kafka": "kafka:3.9"},
        {"rabbitmq": "own/rabbitmq:4.3", "kafka": "kafka:3.9"},
    ]
    assert list(rounds_of([])) == [{}]
    with pytest.raises(Unavailable, match="postgres"):
        list(rounds_of(["postgres:17"]))


def test_a_fault_is_a_problem_for_each_place_that_did_not_show_it_in_time(tmp_path: Path) -> None:
    result = TrialResult("pause", "-")
    with Trial(Brokers(), tmp_path, result) as trial:  # which starts none
        trial._note_visibility(Visibility(0.5, 15.5, None), ["to: silent"])
    assert len(result.problems) == 2
    assert "metric: only after 15.5 s" in result.problems[0]
    assert "ready: never" in result.problems[1]


def test_a_missing_message_is_lost_and_an_unexpected_dead_letter_is_a_problem(tmp_path: Path) -> None:
    result = TrialResult("pause", "-")
    with Trial(Brokers(), tmp_path, result) as trial:  # which starts none
        trial.arrived += trial.numbers(100)[1:]
        trial.expected_dead = lambda dead: dead == [b"0"]
        trial.finish([])
    assert (result.lost, result.out_of_order, result.duplicates, result.dead_letters) == (1, 0, 0, 0)
    assert [problem.partition(":")[0] for problem in result.problems] == ["lost", "other dead letters than expected"]


def test_an_act_that_ends_no_connection_is_no_fault(tmp_path: Path) -> None:
    with Trial(Brokers(), tmp_path, TrialResult("connections", "-")) as trial, pytest.raises(GaveUp, match="gone"):
        trial.disconnect(lambda: None, seconds=0.0)


def test_what_a_bridge_wrote_before_it_was_frozen_does_not_show_that_messages_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer meanwhile, which counts as nothing written."""
    daemon = Daemon(tmp_path, "", "", 1)
    with Trial(Brokers(), tmp_path, TrialResult("sigstop", "-")) as trial:
        trial.running.append(daemon)
        trial._watches[id(daemon)] = Watch(daemon, [Sample(0.0, True, False, "ok")])
        monkeypatch.setattr(trial, "count_written", lambda: 0 if daemon.is_frozen else 100)
        with pytest.raises(GaveUp, match="move again"):
            trial.suffer(
                lambda: setattr(daemon, "is_frozen", True), lambda: setattr(daemon, "is_frozen", False), shows=False,
                within=0.0, ready=False,
            )  # fmt: skip


def test_a_bridge_that_does_not_answer_in_time_has_not_counted_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(tmp_path, "", "", 1)
    assert daemon.metrics() == ""  # it was never started
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        daemon._process, daemon._has_answered = process, True
        answers = iter([None, None, (200, "hashstar_up 1")])
        monkeypatch.setattr(daemon, "get", lambda _: next(answers))
        assert daemon.metrics() == "hashstar_up 1"
        monkeypatch.setattr(daemon, "get", lambda _: process.kill())  # and None
        assert daemon.metrics() == ""


class Nowhere(Place):
    """A place without a broker."""

    def table(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("reads", "writes"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_a_bridge_moves_in_transactions_may_not_come_twice(tmp_path: Path, reads: bool, writes: bool) -> None:
    with Trial(Brokers(), tmp_path, TrialResult("remake-topic", "-")) as trial:
        source, target = Nowhere(trial.brokers, "source", tmp_path), Nowhere(trial.brokers, "target", tmp_path)
        source.is_transactional, target.is_transactional = reads, writes
        trial.bridge(source, target, start=False)
        assert trial.bound == (0 if reads and writes else None)


def test_a_metric_that_is_looked_at_is_one_of_the_bridge() -> None:
    """Another name would count 0 for ever."""
    page = (Path(__file__).parents[2] / "docs" / "bridge-operations.md").read_text()
    scenarios = [path.read_text() for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith("test_")]
    names = {name for text in scenarios for name in re.findall(r'"(hashstar_\w+)"', text)}
    assert len(names) > 5
    assert names <= {*re.findall(r"`(hashstar_\w+)", page)}


def test_no_scenario_played_is_no_success() -> None:
    result = CliRunner().invoke(main, ["--scenario", "pause", "--variant", "of nobody"])
    assert result.exit_code == 2
    assert "'of nobody'" in result.output


def test_the_table_marks_what_was_not_measured() -> None:
    results = [
        TrialResult("pause", "rabbitmq 4.0.5", 6_000, 0, 0, 1_200, 0, 1.25, Visibility(0.1, 2.0, None)),
        TrialResult("nested", "-", problems=["broken"]),
    ]
    lines = list(trial_lines(results))
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        "pause", "rabbitmq 4.0.5", "6,000", "0", "0", "1,200", "0", "1.2 s", "0.1 s", "2.0 s", "-",
    ]  # fmt: skip
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["nested", "-", *"?????", *"----"]
    assert lines[4] == "nested: broken"
