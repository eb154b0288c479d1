"""`python -m examples.demo`: what it reports is what the slow router counts, and bad input gets an answer."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bindings.sources.definitions import load_topology
from bindings.sources.open import load
from examples.demo import generate
from examples.demo.__main__ import main
from exchange import PROFILES, Message, Router
from exchange.entities.entities import PREDECLARED
from exchange.partition.hashing.hashes import murmur2
from exchange.values.field_json import decode_message
from tests.support import oracle, topologies
from tests.support.bindings.report_pages import report_in
from tests.support.waiting import find_limit

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples" / "demo" / "definitions.json"


def demo(*arguments: object, into: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo as a user does, with its archives in a directory of the test; in one process, which is quicker."""
    command = [sys.executable, "-m", "examples.demo", *options(*arguments, into=into)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=find_limit(), check=False)


def in_here(*arguments: object, into: Path) -> Result:
    """Run the demo in the process of the tests, which saves its start."""
    return CliRunner().invoke(main, options(*arguments, into=into), catch_exceptions=False)


def options(*arguments: object, into: Path) -> list[str]:
    """Return the arguments of such a run."""
    return [*map(str, arguments), "--no-spark", "--into", str(into)]


def lines_in(archive: Path) -> list[Any]:
    """Return the lines of a folder of gzipped files."""
    found = []
    for path in sorted(archive.iterdir()):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found += [json.loads(line) for line in file]
    return found


def messages_in(archive: Path) -> list[Message]:
    """Return the messages of an archive."""
    return [decode_message(line) for line in lines_in(archive)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], list[Message]]:
    """Return what a run with 2,000 messages prints, the report in its page, and those messages."""
    into = tmp_path_factory.mktemp("demo")
    done = demo("--messages", 2_000, into=into)
    assert (done.returncode, done.stderr) == (0, "")
    archive, moved, page = sorted(into.iterdir(), key=lambda path: (path.suffix, path.name))
    assert f"  {page.resolve().as_uri()}\n" in done.stdout
    assert moved.name == f"{archive.name}-partitioned"
    return done.stdout, report_in(page.read_text("utf-8")), messages_in(archive)


@pytest.mark.process
def test_report_has_the_counts_of_the_slow_router(small: tuple[str, dict[str, Any], list[Message]]) -> None:
    """Each queue, the copies, the unroutable: as when every binding is tried on every message."""
    _, report, messages = small
    topology = load_topology(SAMPLE)
    routes = [oracle.route(topology, message, lambda _: 0) for message in messages]
    queues = Counter(queue for route in routes for queue in route)
    assert len(messages) == 2_000
    assert {row["queue"]: row["messages"] for row in report["queues"]} == {
        name: queues[name] for name in topology.queues
    }
    totals = report["totals"]
    assert totals["messages"]["all"] == 2_000
    assert totals["messages"]["routed"] == 2_000 - routes.count(())
    assert totals["messages"]["unroutable"] + totals["messages"]["refused"] == routes.count(())
    assert totals["copies"] == queues.total()


@pytest.mark.process
def test_report_shows_nearest_and_dead_bindings_in_lines_that_fit(
    small: tuple[str, dict[str, Any], list[Message]],
) -> None:
    """Why keys went nowhere, which bindings are dead, and no line too long for a terminal."""
    output, _, _ = small
    text = " ".join(output.split())
    assert "device.*.* e.g. device." in text
    assert "nearest: 'device.*.temperature' -> climate: word 4 'celsius' is one too many" in text
    assert "'device.*.gps'" in output
    assert max(map(len, output.splitlines()[:-2])) <= 140


@pytest.mark.process
def test_bridge_brings_a_day_to_the_partitions_of_the_slow_router(
    small: tuple[str, dict[str, Any], list[Message]],
) -> None:
    """Each partition gets the messages that the partitioner chooses it for; messages without a queue are apart."""
    output, _, messages = small
    topology = load(str(ROOT / "examples" / "demo" / "partitioned.bindings"))
    day = messages[: len(messages) // generate.DAYS]
    expected: Counter[str] = Counter()
    for message in day:
        queues = oracle.route(topology, message, lambda _: 0) if message.exchange in topology.exchanges else ()
        for queue in queues or ["dead-letters"]:
            name = queue
            if queues and topology.queues[queue].partitioning is not None:
                count = {"orders.by-region": 4, "readings.by-device": 6}[queue]
                key = message.routing_key.split(".")[1].encode()
                name = f"{queue}, partition {(murmur2(key) & 0x7FFFFFFF) % count}"
            expected[name] += 1
    shown = re.findall(r"^  (\S.*?) +█* +([\d,]+)$", output[output.index("\nReplayed ") :], re.MULTILINE)
    assert {name: int(count.replace(",", "")) for name, count in shown} == expected
    assert len(expected) > 6


@pytest.mark.process
def test_same_seed_makes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another seed makes others; an archive that is there already is not written again.

    In another process, where sets may have another order. The bridge, which comes after, is left out in this one.
    """
    monkeypatch.setattr("examples.demo.__main__.replay", lambda *_: None)
    assert demo("--messages", 500, "--seed", 3, into=tmp_path / "a").returncode == 0
    for directory, seed in (("b", 3), ("c", 4)):
        assert in_here("--messages", 500, "--seed", seed, into=tmp_path / directory).exit_code == 0
    a, b, c = (min(each for each in (tmp_path / directory).iterdir() if each.is_dir()) for directory in "abc")
    assert a.name == b.name != c.name
    contents = [{file.name: file.read_bytes() for file in archive.iterdir()} for archive in (a, b, c)]
    assert contents[0] == contents[1] != contents[2]
    again = in_here("--messages", 500, "--seed", 3, into=tmp_path / "a")
    assert again.exit_code == 0
    assert "Generated" not in again.stdout


def test_archive_is_a_month_in_order(tmp_path: Path) -> None:
    """The timestamps rise and lie within thirty days."""
    path = tmp_path / "archive"
    generate.write_archive(path, generate.company(), 1_000, 1, lambda done, total: None)
    times = [line["timestamp"] for line in lines_in(path)]
    assert len([*path.iterdir()]) == 30
    assert len(times) == 1_000
    assert times == sorted(times)
    assert times[0] >= generate.START
    assert times[-1] < generate.START + 30 * 86_400


def test_any_definitions_get_messages(tmp_path: Path) -> None:
    """Random topologies have messages made from their bindings, for exchanges that exist."""
    for seed in range(20):
        topology = topologies.topology(Random(seed), PROFILES["rabbitmq-4.3"])
        path = tmp_path / str(seed)
        generate.write_archive(path, generate.build_pool(topology, seed), 50, seed, lambda done, total: None)
        router = Router(topology, choose=lambda _: 0)
        messages = messages_in(path)
        assert len(messages) == 50
        for message in messages:
            router.route(message)  # or it raises what the broker would answer


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot be read"), (b"[]", "file:"), (b"{}", "no topology"),
        (b'{"queues": []}', "neither bindings nor queues"),
    ],
)  # fmt: skip
def test_unusable_definitions_are_an_error_and_no_traceback(content: bytes | None, text: str, tmp_path: Path) -> None:
    """Exit code 2, and one line with the reason."""
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    done = in_here("--definitions", path, "--messages", 10, into=tmp_path / "build")
    assert done.exit_code == 2
    assert done.stderr.startswith("demo: ")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_without_java_it_prints_why_and_counts_in_one_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo", "--messages", "100", "--into", str(tmp_path)]
    environment = {"PATH": "/nonexistent", "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=find_limit(), check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert re.search("needs Java 17 .*counting in this process", done.stdout)
    assert "100 read: 100 counted" in done.stdout


def test_bindings_of_the_sample_lead_to_what_exists() -> None:
    """Every destination of the sample exists, and all of RabbitMQ's four kinds and three queue types are in it."""
    topology = load_topology(SAMPLE)
    assert {b.destination.name for b in topology.bindings} <= set(topology.queues) | set(topology.exchanges)
    own = {name: exchange for name, exchange in topology.exchanges.items() if exchange not in PREDECLARED}
    assert {exchange.type for exchange in own.values()} == {"direct", "fanout", "headers", "topic"}
    assert {queue.type for queue in topology.queues.values()} == {"classic", "quorum", "stream"}
