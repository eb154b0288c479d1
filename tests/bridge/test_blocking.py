"""No call blocks the event loop: each that could is in a table with the thread it is made on, and hangs are tried."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridge.aside import call_aside
from bridge.daemon.config import read_config
from bridge.endpoint import Disconnected, Source, Target
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from tests.support.bridge.behaviour import Reports
from tests.support.hanging_resolver import IS_AVAILABLE, HangingResolver
from tests.support.syntax import name_module, read_modules, walk
from tests.support.waiting import find_limit, stretch, wait_until
from tests.support.watchdog import LONGEST, watched

ROOT = Path(__file__).parents[2]

BLOCKING = frozenset({
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "fsync", "access", "stat", "exists", "is_dir",
    "is_file", "iterdir", "glob", "rglob", "mkdir", "unlink", "rename", "touch", "replace_file",
    "getaddrinfo", "gethostbyname", "urlopen", "create_default_context", "load_cert_chain", "load_verify_locations",
    "Popen", "check_output", "call", "list_topics", "committed", "init_transactions", "commit_transaction",
    "abort_transaction", "send_offsets_to_transaction", "execute", "fetchall", "flush", "result",
})  # fmt: skip
"""Names of functions that may wait: for a disk, a resolver, a process, a broker, another thread."""

OF_TASKS = frozenset({"result"})
"""Of these, those that return at once where they are asked of a task that is done; their own rule is below."""

START = "before the loop runs, or in a command that has none"
THREAD = "on a thread of its own, or of the loop's executor"
ASIDE = "by call_aside, or Calls"
NEVER_LONG = "on the loop: "

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

PLACES: Mapping[str, str] = {
    "aside": THREAD, "cli": START, "completions": START, "schema": START, "table": f"{START}; secrets again {ASIDE}",
    "tls": f"{START}; again {ASIDE}", "oauth": ASIDE,
    "daemon.config": f"{START}; again {ASIDE}", "daemon.commands": START, "scaling.commands": START,
    "dead.commands": START, "dead.forms": "after the loop has ended",
    "dead.ledger": f"{START}; then lines are appended, each before its broker hears of it",
    "daemon.telemetry.gauges": f"{THREAD}: that of the HTTP server; /proc",
    "daemon.web": f"{THREAD}: that of the HTTP server",
    "daemon.journal": f"{THREAD}: the log's; `Journal.flush` is bounded",
    "daemon.pipelines": ASIDE, "daemon.run": "at the end: the log, bounded", "daemon.signals": THREAD,
    "daemon.coverage": f"{NEVER_LONG}a counter in memory",
    "endpoints.archive.checking": THREAD, "endpoints.archive.files": THREAD, "endpoints.archive.replay": THREAD,
    "endpoints.archive.rotation": THREAD, "endpoints.archive.spool": THREAD,
    "endpoints.kafka.cluster.addresses": START, "endpoints.kafka.cluster.asking": ASIDE,
    "endpoints.kafka.cluster.checking": ASIDE, "endpoints.kafka.cluster.topics": ASIDE,
    "endpoints.kafka.consumer.source": ASIDE, "endpoints.kafka.consumer.share": ASIDE,
    "endpoints.kafka.consumer.share_group": ASIDE, "endpoints.kafka.consumer.topic_source": ASIDE,
    "endpoints.kafka.consumer.topic_ids": ASIDE,
    "endpoints.kafka.consumer.member": ASIDE, "endpoints.kafka.consumer.remade_topics": ASIDE,
    "endpoints.kafka.producer.plain": ASIDE, "endpoints.kafka.producer.target": ASIDE,
    "endpoints.kafka.producer.transaction": ASIDE, "endpoints.kafka.producer.transactional": ASIDE,
    "endpoints.kafka.producer.watching": ASIDE,
    "endpoints.rabbitmq.management": THREAD, "endpoints.rabbitmq.consumer.offsets": ASIDE,
    "rocketmq.consumer.offsets": ASIDE, "rocketmq.producer.decisions": THREAD,
}  # fmt: skip
"""Module of the bridge with such calls -> where they are made."""


def blocking_calls(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield each call of such a function, with its line, and whether a coroutine makes it."""
    above = {child: node for node in walk(tree) for child in ast.iter_child_nodes(node)}
    for node in walk(tree):
        if not isinstance(node, ast.Call) or isinstance(above.get(node), ast.Await):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in BLOCKING:
            around = above.get(node)
            while around is not None and not isinstance(around, FUNCTIONS):
                around = above.get(around)
            yield node.lineno, name, isinstance(around, ast.AsyncFunctionDef)


@cache
def calls_of_modules() -> list[tuple[str, list[tuple[int, str, bool]]]]:
    """Return each module of the bridge with its blocking calls, parsed once for all tests."""
    modules = read_modules("bridge/").items()
    return [(name_module(path)[len("bridge.") :], [*blocking_calls(ast.parse(text))]) for path, text in modules]


def test_each_module_with_a_call_that_may_block_is_in_the_table() -> None:
    """A new one is a question: on which thread is it made?"""
    found = {
        module
        for module, calls in calls_of_modules()
        if any(name not in OF_TASKS | {"flush", "call", "open"} for _, name, _ in calls)
    }
    unknown = [each for each in found if not any(each == known or each.startswith(f"{known}.") for known in PLACES)]
    assert sorted(unknown) == []


def test_no_coroutine_calls_what_may_block() -> None:
    """It is given to a thread, as a function: what a coroutine calls itself, it calls on the loop."""
    waits = BLOCKING - OF_TASKS - {"open", "call", "flush"}
    found = [
        f"{module}:{line} {name}"
        for module, calls in calls_of_modules()
        for line, name, coroutine in calls
        if coroutine and name in waits
    ]
    assert found == []


def test_the_rules_find_what_they_are_for() -> None:
    tree = ast.parse(
        "async def a():\n    path.read_text()\n    await call_aside(lambda: path.read_text())\n    await x.exists()\n"
        "def b():\n    socket.getaddrinfo(host, 1)\n"
    )
    assert sorted(blocking_calls(tree)) == [(2, "read_text", True), (3, "read_text", False), (6, "getaddrinfo", False)]


# Hangs: a file on a drive that does not answer is a pipe that nobody writes to.

ENDPOINTS = {
    "amqp": ('url = "amqp://127.0.0.1:1"\nuser = "u"\npassword = {{ file = "{0}" }}\n', "queue"),
    "kafka": ('url = "kafka://127.0.0.1:1"\nuser = "u"\npassword = {{ file = "{0}" }}\n', "topic"),
    "rocketmq": ('url = "rocketmq://127.0.0.1:1"\naccess_key = "u"\nsecret_key = {{ file = "{0}" }}\n', "topic"),
}


def read(tmp_path: Path, scheme: str) -> tuple[Source, Target]:
    """Read a bridge whose endpoints take their password from ``secret``, which hangs from then on."""
    (tmp_path / "t.bindings").write_text("queue q\n")
    (tmp_path / "secret").write_text("s")
    table, place = ENDPOINTS[scheme]
    own = table.format(tmp_path / "secret")
    (tmp_path / "bridge.toml").write_text(
        f'topology = "t.bindings"\n[policy]\ndrain = "1 s"\n[sources.from]\n{own}{place} = "x"\n'
        f'[targets.to]\n{own}queues = {{ q = "y" }}\n'
    )
    config = read_config(tmp_path / "bridge.toml")
    hang(tmp_path / "secret")
    return config.inlets[0].source, config.targets["q"]


def hang(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes in folders")
@pytest.mark.parametrize("scheme", ENDPOINTS)
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_file_of_a_secret_that_hangs_blocks_its_endpoint_alone(tmp_path: Path, scheme: str, which: str) -> None:
    source, target = read(tmp_path, scheme)

    held = Held(tmp_path / "secret")

    async def check() -> None:
        async with watched():
            opening = asyncio.ensure_future(source.open() if which == "source" else target.open(Reports()))
            await asyncio.to_thread(held.wait)
            opening.cancel()
            await asyncio.wait([opening], timeout=find_limit())
            assert opening.cancelled()
            await (source if which == "source" else target).close()
        held.release()

    asyncio.run(check())


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_client_of_kafka_that_takes_its_time_to_be_made_blocks_no_loop(
    tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of certificates are read by librdkafka when a client is made."""
    made = []

    def make_slowly(*_: object, **__: object) -> None:
        made.append(threading.current_thread())
        time.sleep(2 * LONGEST)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    (tmp_path / "t.bindings").write_text("queue q\n")
    (tmp_path / "bridge.toml").write_text(
        'topology = "t.bindings"\n[sources.from]\nurl = "kafka://127.0.0.1:1"\ntopic = "x"\n'
        '[targets.to]\nurl = "kafka://127.0.0.1:1"\nqueues = { q = "y" }\n'
    )
    config = read_config(tmp_path / "bridge.toml")
    for module in ("consumer.member.Consumer", "producer.target.Producer"):
        monkeypatch.setattr(f"bridge.endpoints.kafka.{module}", make_slowly)
    monkeypatch.setattr(
        "bridge.endpoints.kafka.producer.target.fetch_topics", lambda *_, **__: {"y": KafkaTopic(1, None)}
    )
    source, target = config.inlets[0].source, config.targets["q"]

    async def check() -> None:
        async with watched():
            with pytest.raises(Disconnected):
                await (source.open() if which == "source" else target.open(Reports()))
            await (source if which == "source" else target).close()

    asyncio.run(check())
    assert made
    assert threading.main_thread() not in made


class Held:
    """A pipe that somebody reads, and that says nothing for twice the time for which a loop may be blocked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reached, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._hold, daemon=True).start()

    def wait(self) -> None:
        """Wait until it is read."""
        assert self._reached.wait(find_limit())

    def release(self) -> None:
        """Let the reader come to the end."""
        self._over.set()

    def _hold(self) -> None:
        end = None
        while end is None:
            with suppress(OSError):  # nobody reads it yet
                end = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            self._over.wait(0.01)
        self._reached.set()
        self._over.wait(2 * LONGEST)
        os.close(end)


def test_a_file_of_offsets_is_written_aside(tmp_path: Path) -> None:
    """Each settled offset of a stream: fsync takes as long as the disk."""
    threads: list[str] = []
    offsets = StreamOffsets(tmp_path / "offsets")
    offsets.settle(7, lambda: "f")

    def note(descriptor: int) -> None:
        threads.append(threading.current_thread().name)

    with mock.patch("os.fsync", note):
        asyncio.run(offsets.write())
    assert threads
    assert set(threads) == {"hashstar-aside"}
    assert (tmp_path / "offsets").read_text() == "7 f\n"
    assert not offsets.is_unwritten


def test_what_a_call_aside_raises_and_returns_comes_back() -> None:
    async def check() -> None:
        assert await call_aside(lambda: 3) == 3
        with pytest.raises(Disconnected, match="gone"):
            await call_aside(fail)

    def fail() -> None:
        raise Disconnected("gone")

    asyncio.run(check())


@pytest.mark.process
@pytest.mark.parametrize("scheme", ENDPOINTS)
def test_a_bridge_whose_endpoints_hang_ends_in_time(tmp_path: Path, scheme: str) -> None:
    """SIGTERM ends it within the time to drain and five seconds."""
    read(tmp_path, scheme)
    secret, log = tmp_path / "secret", tmp_path / "log"
    secret.unlink()
    secret.write_text("s")
    program = "import sys; from bridge.cli import main; main(['bridge', 'run', sys.argv[1]])"
    command = [sys.executable, "-c", program, str(tmp_path / "bridge.toml")]
    with log.open("wb") as into, subprocess.Popen(command, cwd=ROOT, stderr=into) as process:
        try:
            wait_until(lambda: b"disconnected" in log.read_bytes())
            hang(secret)
            held = Held(secret)
            held.wait()
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            process.wait(find_limit())
            held.release()
            assert time.monotonic() - began < stretch(1 + 5)
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.smoke
def test_a_signal_ends_a_process_in_time_whose_loop_does_not_turn() -> None:
    program = """if True:
        import asyncio, signal, threading
        from unittest.mock import Mock
        from bridge.daemon.signals import Handlers, Stopping

        async def main():
            pipelines, running = Mock(), asyncio.get_running_loop().create_future()
            pipelines.drain = 0.0
            stopping = Stopping(pipelines, running, Mock(), owns_process=True)
            with Handlers({signal.SIGTERM: stopping.request}, {signal.SIGTERM: stopping.note}, keep=True):
                print("up", flush=True)
                threading.Event().wait()

        asyncio.run(main())
    """
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(find_limit()) == 1
        finally:
            process.kill()


@pytest.mark.skipif(not IS_AVAILABLE, reason="needs a C compiler of Linux")
@pytest.mark.process
@pytest.mark.smoke
def test_a_producer_that_waits_for_a_name_server_stops_nothing_else_when_it_is_ended(tmp_path: Path) -> None:
    """Not even the thread that ends a process in time."""
    program = """if True:
        import os, threading, time
        from confluent_kafka import Producer
        from bridge.endpoints.kafka.producer.plain import end_producer
        threading.Timer(1 + 5, os._exit, (3,)).start()
        producer = Producer({"bootstrap.servers": "broker:9092"})
        producer.produce("t", b"x")
        time.sleep(1)
        end_producer(producer)
        assert not len(producer)
        del producer  # which may hang, as long as others go on
    """
    resolver = HangingResolver(tmp_path)
    resolver.hang()
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=resolver.environment) as process:
        try:
            assert process.wait(find_limit()) == 3
        finally:
            process.kill()


@pytest.mark.skipif(not IS_AVAILABLE, reason="needs a C compiler of Linux")
@pytest.mark.process
def test_kafka_names_name_servers_that_do_not_answer_where_librdkafka_says_nothing(tmp_path: Path) -> None:
    program = """if True:
        import asyncio, os
        from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget
        from bridge.endpoints.kafka.producer.writer import TopicDestination
        from tests.support.bridge.behaviour import Reports
        there = {"bootstrap.servers": "broker.example:9092"}
        source = KafkaSource("s", {**there, "group.id": "g"}, ["t"])
        target = KafkaTarget("t", there, {"q": TopicDestination("t")})

        async def play():
            openings = source.open(), target.open(Reports())
            for each in await asyncio.gather(*openings, return_exceptions=True):
                print(type(each).__name__, each, flush=True)

        asyncio.run(play())
        os._exit(0)
    """
    resolver = HangingResolver(tmp_path)
    resolver.hang()
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, cwd=ROOT, env=resolver.environment, capture_output=True, text=True, timeout=find_limit(), check=False
    )
    words = "broker.example:9092: no answer from name servers; can this machine reach the name servers that it asks"
    assert ended.stdout.count(f"Disconnected {words}") == 2, (ended.stdout, ended.stderr)
