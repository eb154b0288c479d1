"""``hashstar drift``: what differs between a file and a broker, what is ignored, and what a watch prints and serves."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bindings.diffing.planning.plan import make_plan
from bindings.drift.drift import Drift, Ignoring, find_drift
from bindings.drift.watch import DriftWatch, WatchState, format_metrics
from bridge.cli import hashstar
from exchange import Binding, Exchange, InputError, Policy, Queue, Topology
from tests.bridge.daemon.test_metrics import parse_metrics
from tests.recorders.rabbitmq_management import FILE, VHOST
from tests.support.bindings import pairs
from tests.support.recorded_management import RECORDINGS, RecordedBroker, recorded_broker
from tests.support.schemas import closed
from tests.support.tiers import examples
from tests.support.waiting import find_limit


@pytest.fixture(scope="module", params=RECORDINGS)
def broker(request: pytest.FixtureRequest) -> Iterator[RecordedBroker]:
    with recorded_broker(request.param) as started:
        yield started


@pytest.fixture
def newest() -> Iterator[RecordedBroker]:
    with recorded_broker(RECORDINGS[-1]) as started:
        yield started


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.bindings"
    path.write_text(FILE, "utf-8")
    return path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(hashstar, ["drift", *map(str, arguments)])
    assert "s3cret" not in result.output
    return result


def check(value: Any) -> None:
    """Check JSON against its schema."""
    assert [f"{each.json_path}: {each.message}" for each in closed("drift").iter_errors(value)] == []


def test_a_broker_that_is_as_the_file_has_it(broker: RecordedBroker, file: Path) -> None:
    broker.state = "same"
    result = run(file, broker.address)
    assert (result.exit_code, result.stdout) == (0, f"same: virtual host '{VHOST}' is as the file has it\n")
    value = json.loads(run(file, broker.address, "--format", "json").stdout)
    assert (value["state"], value["objects"], value["ignored"], value["meaning"]) == ("same", [], {}, None)
    assert value["settings"] == []
    check(value)


def test_the_file_may_be_standard_input_once(broker: RecordedBroker) -> None:
    broker.state = "same"
    assert CliRunner().invoke(hashstar, ["drift", "-", broker.address], input=FILE).exit_code == 0
    result = CliRunner().invoke(hashstar, ["drift", "-", broker.address, "--every", "1m"], input=FILE)
    assert (result.exit_code, "standard input can be read only once" in result.stderr) == (2, True)


def test_a_signal_ends_a_watch_that_waits_for_an_answer(file: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://a:b@127.0.0.1:{silent.getsockname()[1]}"
        watching = Watching(tmp_path, file, address, "--every", "1s")
        connection, _ = silent.accept()
        with connection:
            watching.process.terminate()
            assert watching.process.wait(find_limit()) == 0
    assert (watching.out.read_text(), watching.err.read_text()) == ("", "")


def test_what_differs_is_listed_with_its_meaning(broker: RecordedBroker, file: Path) -> None:
    broker.state = "drift"
    result = run(file, broker.address)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:11] == [
        f"drift: 7 objects of virtual host '{VHOST}' differ from the file",
        "missing on the broker: 1 queue, 2 bindings",
        "only on the broker: 1 queue, 1 binding",
        "different on the broker: 1 queue, 1 policy",
        "  changed  queue 'audit': arguments.x-max-length is 10, in the file absent",
        "  extra    queue 'by-hand'",
        "  missing  queue 'lost'",
        "  missing  exchange 'orders' 'order.*.paid' -> queue 'billing'",
        "  extra    exchange 'orders' 'order.eu.#' -> queue 'by-hand'",
        "  missing  exchange 'unrouted' '' -> queue 'lost'",
        "  changed  policy 'limit': definition.max-length is 500, in the file 1000",
    ]
    assert lines[11].startswith("ignored: ")
    assert "2 auto-delete" in lines[11]
    assert "  - queue 'billing' loses from exchange 'orders':" in lines
    assert "      'order.*.paid'" in lines
    assert lines[-3:] == [
        "settings in force:",
        "  ! queue 'audit':",
        "      max-length 1000 (policy 'limit') -> 10 (argument): above 10 messages, the oldest messages are dropped",
    ]
    value = json.loads(run(file, broker.address, "--format", "json").stdout)
    assert [(item["change"], item["part"]["kind"]) for item in value["objects"]] == [
        ("changed", "queue"), ("extra", "queue"), ("missing", "queue"), ("missing", "binding"), ("extra", "binding"),
        ("missing", "binding"), ("changed", "policy"),
    ]  # fmt: skip
    assert value["objects"][0]["fields"] == [{"name": "arguments.x-max-length", "file": None, "broker": 10}]
    assert [(each["names"], each["changes"][0]["name"]) for each in value["settings"]] == [(["audit"], "max-length")]
    assert value["broker"] == broker.address.replace("guest:s3cret@", "")
    check(value)


@pytest.mark.parametrize(
    ("options", "kept", "ignored"),
    [
        (["--ignore-extra"], 5, {"extra": 2}),
        (["--exclude", "policy:*"], 6, {"by name": 1}),
        (["--exclude", "by-*"], 5, {"by name": 2}),
        (["--exclude", "queue:by-*", "--exclude", "lost"], 3, {"by name": 4}),
        (["--exclude", "exchange:lost"], 7, {}),
        (["--exclude", "*"], 0, {"by name": 7}),
        (["--auto-delete"], 9, {"auto-delete": 0}),
    ],
)
def test_options_ignore_what_the_file_does_not_manage(
    broker: RecordedBroker, file: Path, options: list[str], kept: int, ignored: dict[str, int]
) -> None:
    """What is ignored is counted."""
    broker.state = "drift"
    result = run(file, broker.address, "--format", "json", *options)
    value = json.loads(result.stdout)
    assert len(value["objects"]) == kept
    assert result.exit_code == (1 if kept else 0)
    assert {reason: value["ignored"].get(reason, 0) for reason in ignored} == ignored


def test_what_cannot_be_told_ends_with_2(broker: RecordedBroker, file: Path) -> None:
    for state in ("away", "broken"):
        broker.state = state
        result = run(file, broker.address)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"hashstar: {broker.address.replace('guest:s3cret@', '')}: ")
    broker.state = "same"
    assert run(file.with_name("none"), broker.address).exit_code == 2
    assert run(file, "amqp://127.0.0.1").stderr == (
        "hashstar: the address of a management API is wanted; write http://HOST:15672[/VHOST]\n"
    )
    assert "hashstar diff compares two brokers" in run(broker.address, broker.address).stderr
    file.write_text(FILE.replace(VHOST, "other"))
    assert "there is no virtual host 'other'" in run(file, broker.address).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "9419"], "--listen needs --every"), (["--every", "0"], "0 is shorter than 1 s"),
        (["--every", "5 weeks"], "write 30s, 5m or 1h30m"),
        (["--every", "1m", "--listen", "host"], "write 9419 or 0.0"),
        (["--every", "1m", "--listen", "99999"], "is no address to serve"),
        (["--allow-host", "a"], "needs --listen"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(file: Path, options: list[str], words: str) -> None:
    result = run(file, "http://a:b@127.0.0.1:1", *options)
    assert result.exit_code == 2
    assert words in result.stderr


# The comparison.


class Having:
    """A virtual host that has a topology, and no exclusive queues."""

    vhost = "/"

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def exclusive_queues(self) -> list[str]:
        return []

    def mark_unread(self, topology: Topology, _: list[str]) -> Topology:
        return topology

    def topology(self, wanted: Topology) -> Topology:
        return self._topology

    def as_declared(self, topology: Topology) -> Topology:
        return topology


def drift_of(live: Topology, wanted: Topology, ignoring: Ignoring = Ignoring(auto_delete=False)) -> Drift:  # noqa: B008
    return find_drift(Having(live), wanted, ignoring)  # type: ignore[arg-type]


@examples(50)
@given(st.integers(0, 2**32))
def test_there_is_drift_exactly_where_a_plan_has_steps(seed: int) -> None:
    """Without the drift, nothing would be left to do; and no object is listed twice."""
    live, wanted = pairs.pair(Random(seed))
    drift = drift_of(live, wanted)
    plan = make_plan(live, wanted)
    assert bool(drift.objects) == bool(plan.steps or plan.refused)
    assert not make_plan(drift.intended, wanted).steps
    assert len({(item.kind, repr(item.part)) for item in drift.objects}) == len(drift.objects)
    assert sum(drift.counts.values()) == len(drift.objects)
    assert all(item.fields for item in drift.objects if item.change == "changed")
    assert not drift_of(live, live).objects


@examples(50)
@given(st.integers(0, 2**32))
def test_what_is_ignored_is_counted_and_changes_nothing_else(seed: int) -> None:
    live, wanted = pairs.pair(Random(seed))
    everything = drift_of(live, wanted)
    some = drift_of(live, wanted, Ignoring(("*a*",), extra=True))
    assert {*map(repr, some.objects)} <= {*map(repr, everything.objects)}
    assert sum(some.ignored.values()) == sum(everything.ignored.values()) + len(everything.objects) - len(some.objects)


def test_differences_of_all_properties_are_named() -> None:
    live = Topology([Exchange("x", "topic", durable=False)], [Queue("q", arguments={"x-a": 1})]).bind(
        Binding.to_queue("x", "q", "k")
    )
    wanted = Topology([Exchange("x", internal=True)], [Queue("q", durable=False, arguments={"x-b": b"\xff"})]).bind(
        Binding.to_queue("x", "q", "k")
    )
    policies = [Policy("p", "^a", {"a": 1}, priority=1)], [Policy("p", "^b", {"b": 1}, apply_to="queues")]
    live, wanted = (
        Topology(each.exchanges.values(), each.queues.values(), each.bindings, policy)
        for each, policy in zip((live, wanted), policies, strict=True)
    )
    drift = drift_of(live, wanted)
    assert [(item.kind, [tuple(field) for field in item.fields]) for item in drift.objects] == [
        ("exchange", [("type", "direct", "topic"), ("durable", True, False), ("internal", True, False)]),
        ("queue", [("durable", False, True), ("arguments.x-a", None, 1), ("arguments.x-b", {"!bytes": "/w=="}, None)]),
        ("policy", [("pattern", "^b", "^a"), ("apply_to", "queues", "all"), ("priority", 0, 1),
                    ("definition.b", 1, None), ("definition.a", None, 1)]),
    ]  # fmt: skip


def test_an_auto_delete_queue_that_both_have_must_be_the_same() -> None:
    """Only where one side lacks it, it comes and goes."""
    live = Topology(queues=[Queue("q", auto_delete=True), Queue("other", auto_delete=True)])
    wanted = Topology(queues=[Queue("q", auto_delete=True, arguments={"x-a": 1}), Queue("gone", auto_delete=True)])
    drift = drift_of(live, wanted, Ignoring())
    assert [(item.change, item.part.name) for item in drift.objects if isinstance(item.part, Queue)] == [
        ("changed", "q")
    ]
    assert drift.ignored == {"auto-delete": 2}


def test_partitions_of_the_file_are_no_drift(tmp_path: Path) -> None:
    from bindings.sources.document import Document

    wanted = Document.loads("queue q: partitioned kafka.murmur2 over 4\n").topology()
    drift = drift_of(Topology(queues=[Queue("q")]), wanted)
    assert not drift.objects
    assert drift.meaning(1.0).verdict == "same"


# The watch.


def make_watch(results: list[Drift | str], every: float = 300.0) -> tuple[DriftWatch, list[Any]]:
    """Return a watch whose comparisons give these results, drifts or errors, and the outcomes."""
    left = list(results)

    def look() -> Drift:
        result = left.pop(0)
        if isinstance(result, str):
            raise InputError(result)
        return result

    watch = DriftWatch(look, every, lambda: 1_000.0, lambda: 0.0)
    return watch, [watch.compare() for _ in results]


SAME = drift_of(Topology(), Topology())
ONE = drift_of(Topology(), Topology(queues=[Queue("q")]))
OTHER = drift_of(Topology(), Topology(queues=[Queue("p")]))


def test_only_changes_are_news() -> None:
    _, outcomes = make_watch([SAME, SAME, ONE, ONE, OTHER, "away", "away", "refused", OTHER, OTHER, SAME])
    assert [outcome.is_news for outcome in outcomes] == [
        True, False, True, False, True, True, False, True, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("every", "waits"),
    [
        (300.0, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]),
        (2.0, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
    ],
)
def test_a_broker_that_is_away_is_tried_again_ever_more_rarely(every: float, waits: list[float]) -> None:
    _, outcomes = make_watch(["away"] * len(waits), every)
    assert [outcome.wait for outcome in outcomes] == waits
    _, outcomes = make_watch(["away", "away", ONE, "away"], every)
    assert [outcome.wait for outcome in outcomes] == [1.0, 2.0, every, 1.0]


def test_metrics_keep_what_was_found_last_while_the_broker_is_away() -> None:
    watch, _ = make_watch([ONE, "away"])
    samples = {
        name: family for name, (_, family) in parse_metrics("\n".join(format_metrics(watch.state)) + "\n").items()
    }
    objects = {tuple(value for _, value in sorted(labels)): count for (_, labels), count in samples[
        "hashstar_drift_objects"].items()}  # fmt: skip
    assert len(objects) == 12
    assert objects["missing", "queue"] == 1
    assert sum(objects.values()) == 1
    assert [*samples["hashstar_drift_up"].values()] == [0]
    assert [*samples["hashstar_drift_last_success_timestamp_seconds"].values()] == [1000]
    assert sorted(samples["hashstar_drift_comparisons_total"].values()) == [1, 1]


def test_before_the_first_success_there_are_no_objects() -> None:
    """Zeros would say that nothing differs."""
    text = "\n".join(format_metrics(WatchState(error="away", failures=1)))
    assert "hashstar_drift_up 0" in text
    assert "hashstar_drift_objects" not in text


class Watching:
    """The command with --every as a process, whose output is in files."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bridge.cli", "drift", *map(str, arguments)], stdout=out, stderr=err
            )

    def until(self, met: Callable[[], Any]) -> Any:
        """Wait until a condition is met, and return its value."""
        deadline = time.monotonic() + find_limit()
        while not (value := met()):
            assert time.monotonic() < deadline, (self.out.read_text(), self.err.read_text())
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.05)
        return value

    @property
    def metrics(self) -> str:
        address = re.search(r"metrics at (\S+)", self.err.read_text())
        if address is None:
            return ""
        with urlopen(address[1], timeout=find_limit()) as answer:  # noqa: S310  of our own server
            return str(answer.read().decode())


def test_a_watch_prints_changes_serves_metrics_and_ends_cleanly(
    newest: RecordedBroker, file: Path, tmp_path: Path
) -> None:
    broker = newest
    broker.state = "away"
    watching = Watching(tmp_path, file, broker.address, "--every", "1s", "--listen", "0")
    try:
        watching.until(lambda: "it is tried again" in watching.err.read_text())
        assert "hashstar_drift_up 0" in watching.until(lambda: watching.metrics)
        broker.state = "same"
        watching.until(lambda: "same: virtual host" in watching.out.read_text())
        assert "hashstar_drift_up 1" in watching.metrics
        assert 'hashstar_drift_objects{kind="queue",change="missing"} 0' in watching.metrics
        broker.state = "drift"
        watching.until(lambda: "drift: 7 objects" in watching.out.read_text())
        assert 'hashstar_drift_objects{kind="queue",change="missing"} 1' in watching.metrics
        broker.state = "away"
        watching.until(lambda: "hashstar_drift_up 0" in watching.metrics)
        assert 'hashstar_drift_objects{kind="queue",change="missing"} 1' in watching.metrics
        address = re.search(r"metrics at (\S+)/metrics", watching.err.read_text())
        assert address is not None
        with pytest.raises(HTTPError, match="421"):
            urlopen(Request(f"{address[1]}/metrics", headers={"Host": "attacker.example"}), timeout=find_limit())  # noqa: S310
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address[1]}/", timeout=find_limit())  # noqa: S310
    finally:
        watching.process.terminate()
        code = watching.process.wait(find_limit())
    assert code == 0
    heads = [line for line in watching.out.read_text().splitlines() if re.match(r"\d{4}-", line)]
    assert [head.split()[1] for head in heads] == ["same:", "drift:"]
    assert "Traceback" not in watching.err.read_text()


def test_a_watch_prints_lines_of_json_and_reads_the_file_again(
    newest: RecordedBroker, file: Path, tmp_path: Path
) -> None:
    watching = Watching(tmp_path, file, newest.address, "--every", "1", "--format", "json")
    try:
        watching.until(lambda: '"same"' in watching.out.read_text())
        file.write_text("queue", "utf-8")
        watching.until(lambda: '"unknown"' in watching.out.read_text())
        file.write_text(FILE + "queue another\n", "utf-8")
        watching.until(lambda: '"drift"' in watching.out.read_text())
    finally:
        watching.process.send_signal(signal.SIGINT)
        assert watching.process.wait(find_limit()) == 0
    values = [json.loads(line) for line in watching.out.read_text().splitlines()]
    assert [value["state"] for value in values] == ["same", "unknown", "drift"]
    for value in values:
        check(value)


def test_a_mistake_in_the_file_ends_a_watch_that_begins(broker: RecordedBroker, tmp_path: Path) -> None:
    (tmp_path / "bad.bindings").write_text("queue")
    result = run(tmp_path / "bad.bindings", broker.address, "--every", "1s")
    assert result.exit_code == 2
