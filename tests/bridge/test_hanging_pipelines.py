"""What hangs in one pipeline stops no other: no two endpoints wait for the same few threads."""

from __future__ import annotations

import ast
import asyncio
import os
import socket
import threading
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.aside import ASIDE
from bridge.daemon.config import Config, read_config
from bridge.daemon.run import run
from bridge.endpoint import Disconnected, Source
from bridge.endpoints.archive.reading import ArchiveSource
from bridge.endpoints.archive.replay import Settled
from bridge.endpoints.archive.writing import ArchiveTarget
from bridge.endpoints.kafka.config import KafkaSource
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import ClientSettings
from tests.support.bridge.behaviour import Reports
from tests.support.syntax import read_modules, walk
from tests.support.unique import free_port
from tests.support.waiting import find_limit, until

MANY = min(32, (os.cpu_count() or 1) + 4) + 2
"""Number of endpoints that hang: more than there are threads in a loop's executor."""
RECORD = '{"exchange": "events", "routing_key": "k", "body": "x"}\n'
PIPELINE = """
[pipelines.NAME]
topology = "t.bindings"
[pipelines.NAME.sources.in]
url = "archive:in.jsonl"
exchange = "events"
state = "NAME-state"
[pipelines.NAME.targets.out]
url = "archive:NAME-out"
queues = { all = "." }
"""


def read(folder: Path, *names: str) -> Config:
    (folder / "t.bindings").write_text("exchange events: fanout\nqueue all\nevents -> all\n")
    (folder / "in.jsonl").write_text(RECORD * 5)
    (folder / "bridge.toml").write_text("".join([PIPELINE.replace("NAME", each) for each in names]))
    return read_config(folder / "bridge.toml", {})


def test_pipelines_whose_files_hang_stop_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = [f"hangs-{number}" for number in range(MANY)]
    config = read(tmp_path, *hanging, "works")
    read_state, over, reached = Settled.read, threading.Event(), []

    def hang(path: Path | None, *others: Any) -> Settled:
        """Read a state, of which some are on a drive that does not answer."""
        if path is not None and path.name.startswith("hangs"):
            reached.append(path.name)
            over.wait()
        return read_state(path, *others)

    monkeypatch.setattr(Settled, "read", hang)

    async def check() -> None:
        running = asyncio.ensure_future(run(config))
        try:
            async with asyncio.timeout(find_limit()):
                await until((tmp_path / "works-state").exists)
            assert not running.done()
            assert len(reached) == MANY
        finally:
            over.set()
            running.cancel()
            await asyncio.wait([running], timeout=find_limit())

    asyncio.run(check())


def rabbit(host: str, port: int) -> Source:
    return RabbitmqSource("in", [parse_broker(f"amqp://{host}:{port}")], "q")


def rocket(host: str, port: int) -> Source:
    return RocketmqSource("in", ClientSettings(f"{host}:{port}"), "g", [Subscription.to_tags("t")])


@contextmanager
def hanging_names() -> Iterator[None]:
    """Have no name server answer about hosts of ``example``."""
    over, answer = threading.Event(), socket.getaddrinfo

    def hang(host: Any, *arguments: Any, **named: Any) -> Any:
        if str(host).endswith(".example"):
            over.wait()
            raise OSError("it is over")
        return answer(host, *arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", hang)
        try:
            yield
        finally:
            over.set()


async def reason_of(source: Source) -> str:
    with pytest.raises(Disconnected) as caught:
        await source.open()
    await source.close()
    return str(caught.value)


@pytest.mark.parametrize("make", [rabbit, rocket])
def test_name_servers_that_do_not_answer_about_one_host_stop_no_other_one(make: Callable[[str, int], Source]) -> None:
    async def check() -> None:
        with hanging_names():
            before = count_threads()
            opening = [asyncio.ensure_future(make("broker.example", 1).open()) for _ in range(MANY)]
            await asyncio.sleep(0)
            assert "refused" in await reason_of(make("localhost", free_port()))
            assert not any(each.done() for each in opening)
            assert count_threads() - before <= 2  # for one host, however many ask
            for each in opening:
                each.cancel()
        await asyncio.wait(opening, timeout=find_limit())

    asyncio.run(check())


def count_threads() -> int:
    return sum(each.name == ASIDE for each in threading.enumerate())


def kafka(host: str, port: int) -> Source:
    return KafkaSource("in", {"bootstrap.servers": f"{host}:{port}", "group.id": "g"}, ["t"])


def test_no_endpoint_makes_a_call_on_a_thread_of_the_loops_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has a few, for all pipelines; so it is of no use to look for the words, as libraries have it, too."""

    def refuse(*_: object) -> None:
        raise AssertionError("the executor of the loop")

    monkeypatch.setattr(BaseEventLoop, "run_in_executor", refuse)
    (tmp_path / "in.jsonl").write_text(RECORD)

    async def check() -> None:
        for make in (rabbit, rocket, kafka):
            await reason_of(make("localhost", free_port()))
        source = ArchiveSource("in", str(tmp_path / "in.jsonl"), tmp_path / "state")
        await source.check()
        await source.open()
        assert len(await source.read(10)) == 1
        await source.close()
        target = ArchiveTarget("out", tmp_path / "out", {"q": "."})
        await target.open(Reports())
        await target.close()

    asyncio.run(check())


def test_no_module_uses_threads_that_all_pipelines_share() -> None:
    shared = {"to_thread", "run_in_executor", "set_default_executor"}
    found = [
        f"{path}:{node.lineno}"
        for path, text in read_modules("bridge/").items()
        if any(name in text for name in shared)
        for node in walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in shared
    ]
    assert found == []
