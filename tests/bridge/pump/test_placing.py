"""Partitions by functions of the owner: what they are given, and what becomes of a message when they fail."""

from __future__ import annotations

import asyncio
import io
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.daemon.config import read_config
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import RESTART, Pipelines
from bridge.daemon.run import run
from bridge.endpoint import Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.errors import HashstarError, InputError
from exchange.partition import Broker, PartitionRequest, Partitions
from exchange.partition.partitioning import Partitioning
from exchange.partition.python_function import PythonFunction
from tests.support.bridge.events import Events

QUICK = Policy(window=16, tries=3, backoff=Backoff(0.001, 0.002), reconnect=Backoff(0.001, 0.002), drain=5.0)
TOPOLOGY = Topology(
    [Exchange("in", "topic")],
    [Queue("all"), Queue("spread", partitioning=Partitioning.parse("python:own:choose over 3 by word 2"))],
    [Binding.to_queue("in", "all", "#"), Binding.to_queue("in", "spread", "#")],
)
MESSAGES = [Message("in", f"k.{n % 5}", {"n": n}, body=b"x" * n) for n in range(20)]


class Leading(MemoryTarget):
    """A target whose topic and leaders are known."""

    def view_for(self, message: Message, placement: Any) -> tuple[str, Any, Partitions]:
        return "topic", placement.key, Partitions.led_by({Broker("1", "near"): 2, Broker("2", "far"): 1})


def pump_by(
    function: Callable[[PartitionRequest], Any],
    spread: MemoryTarget,
    dead: MemoryTarget | None = None,
    policy: Policy = QUICK,
    messages: Sequence[Message] = tuple(MESSAGES),
) -> tuple[MemorySource, MemoryTarget, Events]:
    """Run all messages through a pump with this partitioner for the queue ``spread``."""
    events, everything = Events(), MemoryTarget("all")

    async def work() -> MemorySource:
        source = MemorySource(messages)
        source.end()
        pump = Pump(
            [Inlet(source)], Router(TOPOLOGY), {"all": everything, "spread": spread}, events, policy, dead,
            random=random.Random(7).random, partitioners={"spread": PythonFunction("own:choose", function=function)},
        )  # fmt: skip
        running = asyncio.ensure_future(pump.run())
        await asyncio.wait([running], timeout=2 if dead is None else 60)
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
        return source

    return asyncio.run(work()), everything, events


def partitions(target: MemoryTarget) -> Mapping[int, int | None]:
    return {o.message.headers["n"]: o.placement.partition for o in target.messages if o.placement is not None}


def test_a_function_is_asked_once_a_message_with_what_the_target_knows() -> None:
    """Topic, key of the partitioning, value, and the partitions with their leaders."""
    seen: list[PartitionRequest] = []

    def choose(request: PartitionRequest) -> int:
        seen.append(request)
        near = [each.id for each in request.partitions if each.leader and each.leader.host == "near"]
        return near[len(request.value_bytes or b"") % len(near)]

    spread = Leading("kafka")
    source, everything, _ = pump_by(choose, spread, MemoryTarget("dead"))
    assert not source.unsettled
    assert len(everything.messages) == len(seen) == 20
    assert {(request.topic, request.key) for request in seen} == {("topic", f"{n}") for n in range(5)}
    assert partitions(spread) == {n: (0, 2)[n % 2] for n in range(20)}
    placement = spread.messages[3].placement
    assert placement is not None
    assert (placement.name, placement.rule) == ("2", "python:own:choose")


def test_chance_and_memory_replay() -> None:
    """The same random numbers of the pump, the same partitions."""

    def choose(request: PartitionRequest) -> tuple[int, int]:
        turn = request.memory or 0
        assert request.now > 0
        return (request.draw(2) + turn) % 3, turn + 1

    runs = []
    for _ in range(2):
        spread = MemoryTarget("kafka")
        pump_by(choose, spread, MemoryTarget("dead"))
        runs.append(partitions(spread))
    assert runs[0] == runs[1]
    assert {*runs[0].values()} == {0, 1, 2}


@pytest.mark.parametrize("failing", [ValueError("no"), SystemExit(1), 99, "1"])
def test_a_failure_makes_a_dead_letter_of_that_copy_alone(failing: object) -> None:
    """With the name of the function; other copies of the message, and other messages, go on; so does the pump."""

    def choose(request: PartitionRequest) -> Any:
        if len(request.value_bytes or b"") % 4:
            return 1
        if isinstance(failing, BaseException):
            raise failing
        return failing

    spread, dead = MemoryTarget("kafka"), MemoryTarget("dead")
    source, everything, events = pump_by(choose, spread, dead)
    assert not source.unsettled
    assert len(everything.messages) == 20
    assert partitions(spread) == {n: 1 for n in range(20) if n % 4}
    assert sorted(o.message.headers["n"] for o in dead.messages) == [0, 4, 8, 12, 16]
    letter = dead.messages[0].message
    assert letter.headers["hashstar-queue"] == "spread"
    assert letter.headers["hashstar-target"] == "kafka"
    assert str(letter.headers["hashstar-reason"]).startswith("unmappable: python:own:choose r")
    assert len(events.calls_of("gave_up")) == 5


@pytest.mark.parametrize("unroutable", [Unroutable.HOLD, Unroutable.DROP])
def test_without_dead_letters_a_delivery_is_held_and_asked_about_again(unroutable: Unroutable) -> None:
    """Nothing is dropped for a mistake in a partitioner, whatever becomes of messages without a queue."""
    tries: list[int] = []

    def choose(request: PartitionRequest) -> int:
        size = len(request.value_bytes or b"")
        tries.append(size)
        if size == 3 and tries.count(3) < 3:
            raise ValueError
        return 0

    spread = MemoryTarget("kafka")
    policy = Policy(16, backoff=Backoff(0.001, 0.002), unroutable=unroutable)
    source, everything, events = pump_by(choose, spread, None, policy, MESSAGES[:6])
    assert not source.unsettled
    assert sorted(partitions(spread)) == list(range(6)) == sorted(o.message.headers["n"] for o in everything.messages)
    assert tries.count(3) == 3
    assert [call[-2:] for call in events.calls_of("unroutable")] == [
        ("hold", "unmappable: python:own:choose raised ValueError: ")
    ]


CONFIG = """\
topology = "t.bindings"
{setting}
http = "off"
[sources.a]
url = "archive://{folder}/in.jsonl"
[targets.b]
url = "archive://{folder}/out"
queues = {{ q = "q" }}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "def by_size(request):\n    return len(request.value_bytes) % request.partitions.count\n", encoding="utf-8"
    )
    (tmp_path / "t.bindings").write_text(
        f'vhost "/"\nexchange t: topic\nqueue q: partitioned python:{name}:by_size over 3\nt -> q: "#"\n',
        encoding="utf-8",
    )
    return tmp_path


def config(folder: Path, setting: str) -> Path:
    path = folder / "bridge.toml"
    path.write_text(CONFIG.format(folder=folder, setting=setting), encoding="utf-8")
    (folder / "in.jsonl").write_text(
        "".join(f'{{"exchange": "t", "routing_key": "k", "body": "{"x" * n}"}}\n' for n in range(7)), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("setting", ["", "allow_python = false"])
def test_a_bridge_imports_code_only_where_its_file_allows_it(folder: Path, setting: str) -> None:
    """Else the file is wrong: exit code 2, with the way out."""
    path = config(folder, setting)
    done = CliRunner().invoke(hashstar, ["bridge", "check", "--offline", str(path)])
    assert done.exit_code == 2, done.output
    assert "is code; if you trust it, write allow_python = true" in done.output
    with pytest.raises(InputError, match="allow_python"):
        read_config(path)


def test_a_reload_refuses_a_module_that_has_changed_since_a_function_imported_it(folder: Path) -> None:
    """Also after a reload that was accepted, and whichever it is of those beside the file."""
    [file] = folder.glob("own_*.py")
    beside = folder / f"beside_{file.name}"
    beside.write_text("", encoding="utf-8")
    file.write_text(f"import {beside.stem}\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    path = config(folder, "allow_python = true")

    async def live() -> str:
        pipelines = Pipelines(read_config(path), Journal(out=io.StringIO()), lambda: read_config(path))
        try:
            await pipelines._read(None)
        except HashstarError as error:
            return str(error)
        return ""

    assert asyncio.run(live()) == ""
    for changed in (file, beside):
        time = changed.stat().st_mtime_ns
        os.utime(changed, ns=(time, time + 1_000_000))
        refusal = f"{changed} has changed, and the code of partitioners is imported once: {RESTART}"
        assert asyncio.run(live()) == refusal
        os.utime(changed, ns=(time, time))
    assert asyncio.run(live()) == ""


def test_a_bridge_writes_where_the_function_says(folder: Path) -> None:
    """From an archive into the folders of partitions; a function that is missing is a mistake of the file."""
    made = read_config(config(folder, "allow_python = true"))
    assert [*made.partitioners] == ["q"]
    assert asyncio.run(run(made))
    found = {path.name for path in (folder / "out").rglob("partition=*")}
    assert found == {"partition=0", "partition=1", "partition=2"}
    text = (folder / "t.bindings").read_text(encoding="utf-8").replace("by_size", "by_weight")
    (folder / "t.bindings").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"queue 'q': python:own_.*:by_weight cannot be imported"):
        read_config(config(folder, "allow_python = true"))


def test_an_outgoing_message_has_the_key_that_keeps_its_order() -> None:
    """The key of the partitioning, not of the partition alone."""
    target = MemoryTarget("kafka")
    pump_by(lambda _: 2, target, MemoryTarget("dead"))
    keys = {target.key_of(outgoing) for outgoing in target.messages if isinstance(outgoing, Outgoing)}
    assert keys == {("spread", 2, f"{n}") for n in range(5)}
