"""`python -m examples.demo`: what it prints is what the slow router counts, and bad input gets an answer."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindings.definitions import topology_from
from examples.demo import generate, report
from examples.demo.shapes import Shapes
from examples.demo.tally import Tally
from exchange import PROFILES, Binding, Exchange, Message, Profile, Queue, Router, Topology
from exchange.parts import PREDECLARED
from exchange.typed_json import message_from_json
from tests import oracle, topologies

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples" / "demo" / "definitions.json"


def demo(*arguments: object, into: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo as a user does, with its archives in a directory of the test."""
    command = [sys.executable, "-m", "examples.demo", *map(str, arguments), "--into", str(into)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=False)


def messages_in(archive: Path) -> list[Message]:
    """The messages of a gzipped archive, read as simply as can be."""
    with gzip.open(archive, "rt", encoding="utf-8") as file:
        return [message_from_json(json.loads(line)) for line in file]


def counted(output: str, label: str) -> int:
    """The number in the line of the report that starts with this label."""
    found = re.search(rf"^ *{re.escape(label)} +[^\d\n]*?([\d,]+) ", output, re.MULTILINE)
    assert found, f"no {label!r} in\n{output}"
    return int(found[1].replace(",", ""))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Message]]:
    """What a run with 2,000 messages prints, and those messages."""
    into = tmp_path_factory.mktemp("demo")
    done = demo("--messages", 2_000, into=into)
    assert (done.returncode, done.stderr) == (0, "")
    (archive,) = into.iterdir()
    return done.stdout, messages_in(archive)


def test_report_has_the_counts_of_the_slow_router(small: tuple[str, list[Message]]) -> None:
    """Each queue, the copies, the unroutable: as when every binding is tried on every message."""
    output, messages = small
    topology = topology_from(SAMPLE)
    routes = [oracle.route(topology, message, lambda _: 0) for message in messages]
    queues = Counter(queue for route in routes for queue in route)
    assert len(messages) == 2_000
    assert queues
    for queue, count in sorted(queues.items(), key=lambda item: (-item[1], item[0]))[:15]:
        assert counted(output, f"{queue} ") == count
    assert counted(output, "unroutable") == routes.count(())
    assert counted(output, "routed to a queue") == 2_000 - routes.count(())
    assert f"{queues.total():,} copies made" in output
    idle = sorted(set(topology.queues) - set(queues))
    assert f"nothing came to {', '.join(idle)}\n" in output


def test_report_tells_what_a_person_wants_to_know(small: tuple[str, list[Message]]) -> None:
    """Why keys went nowhere, what the alternates caught, which bindings are stale and which are not needed."""
    output, _ = small
    assert re.search(r"device\.\*\.battery to amq\.topic", output)
    assert "word 3 is 'battery'" in output
    assert re.search(r"deploy\.\*\.dev\.\S+ to deploys, caught by deploys\.unrouted", output)
    assert re.search(r"order\S* to orders, caught by orders\.unrouted", output, re.IGNORECASE)
    assert re.search(r"amq\.topic +device\.\*\.gps +-> fleet-map", output)
    assert re.search(r"order\.us\.created +-> fraud-check +\d+ times, always with order\.\*\.created", output)
    assert output.count("\n") <= 60
    assert max(map(len, output.splitlines())) <= 140


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())))
def test_tally_is_the_sum_of_single_explanations(seed: int, profile: Profile) -> None:
    """Counting by cases, and forgetting them at any time, gives what explaining every message gives."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    router = Router(topology, choose=lambda _: 0)
    tally = Tally(router)
    queues: Counter[str] = Counter()
    bindings: Counter[Binding] = Counter()
    alternates: Counter[tuple[str, str | None]] = Counter()
    unroutable = 0
    for _ in range(60):
        message = topologies.message(rng, topology)
        tally.add(message)
        if rng.random() < 0.05:
            tally.settle()
        queues.update(oracle.route(topology, message, lambda _: 0))
        explanation = router.explain(message)
        unroutable += explanation.route.unroutable is True
        for hop in explanation.hops:
            bindings.update(hop.matched if hop.exchange.name else ())
            if hop.alternate is not None and hop.alternate.taken:
                alternates[hop.exchange.name, hop.alternate.name] += 1
    tally.settle()
    assert tally.messages == 60
    assert tally.queues == queues
    assert tally.copies == queues.total()
    assert tally.unroutable == unroutable == sum(shape.count for shape in tally.lost.merged())
    assert tally.bindings == bindings
    assert tally.alternates == alternates


def test_nearest_queue_is_the_one_that_was_meant() -> None:
    """Of all queues within reach, by the key; with the word that fails."""
    topology = topology_from(SAMPLE)
    router = Router(topology)
    for exchange, key, queue, told in (
        ("orders", "Order.eu.paid", "billing", "word 1 is 'Order'"),
        ("orders", "order.us.cancelledd", "warehouse", "word 3 is 'cancelledd'"),
        ("jobs", "thumbnails", "jobs.render", "is 'thumbnails', it wants 'thumbnail'"),
        ("", "reply", "replies", "is 'reply', it wants 'replies'"),
    ):
        found = report.nearest(router, topology, Message(exchange, key))
        assert found is not None
        assert (key, found[0]) == (key, queue)
        assert told in found[1].reason
    assert report.nearest(router, topology, Message("amq.direct", "x")) is None


def test_needless_binding_is_one_that_never_matched_alone() -> None:
    """It stops being needless with the first message that only it brings to its destination."""
    general, special = Binding.to_queue("x", "q", "a.*"), Binding.to_queue("x", "q", "#.b")
    topology = Topology([Exchange("x", "topic")], [Queue("q")], [general, special])
    tally = Tally(Router(topology))
    tally.add(Message("x", "a.b"))
    tally.add(Message("x", "a.c"))
    tally.settle()
    assert tally.companions == {general: frozenset(), special: {general}}
    tally.add(Message("x", "c.b"))
    tally.settle()
    assert tally.companions[special] == frozenset()


def test_shapes_lose_no_message_however_many_keys_there_are() -> None:
    """Twenty thousand keys of changing length are few shapes, their counts are all messages."""
    topology = Topology([Exchange("x", "topic")])
    tally = Tally(Router(topology))
    for number in range(20_000):
        tally.add(Message("x", ".".join(["a", str(number), *("z" * (number % 20))])))
    tally.settle()
    shapes = tally.lost.merged()
    assert sum(shape.count for shape in shapes) == tally.unroutable == 20_000
    assert shapes[0].words[:2] == ("a", "*")
    assert len(shapes) == 20
    assert not Shapes().merged()


def test_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    """And another seed makes others; an archive that is there already is not written again."""
    for directory, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert demo("--messages", 500, "--seed", seed, into=tmp_path / directory).returncode == 0
    a, b, c = ([*(tmp_path / directory).iterdir()] for directory in "abc")
    assert a[0].name == b[0].name != c[0].name
    assert a[0].read_bytes() == b[0].read_bytes() != c[0].read_bytes()
    again = demo("--messages", 500, "--seed", 3, into=tmp_path / "a")
    assert "Generated" not in again.stdout
    assert [*(tmp_path / "a").iterdir()] == a


def test_archive_is_a_month_in_order(small: tuple[str, list[Message]], tmp_path: Path) -> None:
    """The timestamps rise and lie within thirty days."""
    path = tmp_path / "archive.gz"
    generate.write_archive(path, generate.company(), 1_000, 1, lambda _: None)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        times = [json.loads(line)["timestamp"] for line in file]
    assert len(times) == 1_000
    assert times == sorted(times)
    assert times[0] >= generate.START
    assert times[-1] < generate.START + 30 * 86_400


def test_anybodys_definitions_get_messages(tmp_path: Path) -> None:
    """Random topologies have messages made from their bindings, for exchanges that exist."""
    for seed in range(20):
        topology = topologies.topology(Random(seed), PROFILES["rabbitmq-4.3"])
        path = tmp_path / f"{seed}.gz"
        generate.write_archive(path, generate.pool_for(topology, seed), 50, seed, lambda _: None)
        tally = Tally(Router(topology))
        for message in messages_in(path):
            tally.add(message)
        tally.settle()
        assert tally.messages == 50
        assert not tally.refused


def test_bad_lines_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    """The good ones count all the same; empty lines are no lines; a message to nowhere is refused as a broker would."""
    archive = tmp_path / "mine.jsonl"
    good = '{"exchange": "jobs", "routing_key": "email"}\n'
    archive.write_bytes(
        f'{good}\n{{"exchange": 5}}\nno json\n'.encode() + b"\xff\n" + good.encode() + b'{"exchange":"?"}\n'
    )
    done = demo("--archive", archive, into=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert counted(done.stdout, "jobs.email") == 2
    assert f"Not a message: 3 lines, left out; the first is\n  {archive}:3: exchange: 5 is not a string" in done.stdout
    assert "404 NOT_FOUND - no exchange '?'" in done.stdout


@pytest.mark.parametrize(
    ("option", "content", "told"),
    [
        ("--archive", None, "cannot be read: No such file or directory"),
        ("--archive", b"", "there are no messages in the archive"),
        ("--archive", b"\x1f\x8bbroken", "cannot be read after line 0"),
        ("--definitions", None, "cannot be read"),
        ("--definitions", b"[]", "file:"),
        ("--definitions", b"{}", "neither bindings nor queues"),
    ],
)
def test_unusable_file_is_an_error_and_no_traceback(
    option: str, content: bytes | None, told: str, tmp_path: Path
) -> None:
    """Exit code 2, and one line that says what is wrong."""
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    done = demo(option, path, "--messages", 10, into=tmp_path / "build")
    assert done.returncode == 2
    assert done.stderr.startswith("demo: ")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_sample_names_what_is_there() -> None:
    """Every destination of the sample exists, and all of RabbitMQ's four kinds and three queue types are in it."""
    topology = topology_from(SAMPLE)
    assert {b.destination.name for b in topology.bindings} <= set(topology.queues) | set(topology.exchanges)
    own = {name: exchange for name, exchange in topology.exchanges.items() if exchange not in PREDECLARED}
    assert {exchange.type for exchange in own.values()} == {"direct", "fanout", "headers", "topic"}
    assert {queue.type for queue in topology.queues.values()} == {"classic", "quorum", "stream"}
