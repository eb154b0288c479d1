"""Partitioners of a user's own, ``python:module:function``: named everywhere, imported only where that is allowed."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError
from pathlib import Path
from random import Random
from typing import Any

import pytest

from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.errors import InputError, TextError
from exchange.partition import Broker, Inputs, Partition, PartitionRequest, Partitions, Producer, python_function
from exchange.partition.partitioning import Partitioning
from exchange.partition.python_function import PartitionerFailed, PythonFunction, find_changed_files, undo_imports
from exchange.topology.partitioners import import_partitioners
from exchange.values.field_values import Typed
from tests.support.program import invoke

MODULE = """
from pathlib import Path

Path(__file__).with_name("was-imported").touch()


def by_size(request, default="0"):
    return len(request.value_bytes) % request.partitions.count if request.value_bytes else int(default)


def by_key(request):
    return len(request.key_bytes or b"") % request.partitions.count


def chance(request):
    return request.draw(request.partitions.count)


def turns(request):
    turn = request.memory or 0
    return request.partitions.all[turn % request.partitions.count].id, turn + 1


def large(request):
    return 99


def text(request):
    return "1"


def flag(request):
    return True


async def later(request):
    return 1


def fails(request):
    raise ValueError("no such tenant")


def leaves(request):
    raise SystemExit(3)


class Own:
    @staticmethod
    def first(request):
        return request.partitions.all[0].id
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a module that is in the working folder, and on no path yet."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


def was_imported() -> bool:
    return Path("was-imported").exists()


def asked(function: Callable[..., Any], key: Any = None, value: Any = None, **given: Any) -> Any:
    partitioner = PythonFunction("own:function", function=function)
    return partitioner.answer(PartitionRequest("topic", key, value, Partitions.from_count(3), **given))


def test_a_function_is_given_all_that_kafkas_interface_has() -> None:
    """Topic, key, its bytes, value, its bytes, and partitions with leaders, racks and availability; it is frozen."""
    seen: list[PartitionRequest] = []

    def choose(request: PartitionRequest) -> int:
        seen.append(request)
        return 7

    racks = [Broker("1", "host-1", "rack-1"), Broker("2", "host-2", "rack-2"), None]
    partitions = Partitions([Partition(number, leader) for number, leader in zip((7, 8, 9), racks, strict=True)])
    partitioner = PythonFunction("own:choose", function=choose)
    request = PartitionRequest("orders", Typed("signedint", 5), b"body", partitions)
    assert partitioner.answer(request)[0] == (7, None, "python:own:choose")
    (got,) = seen
    assert (got.topic, got.key_bytes, got.value, got.value_bytes) == ("orders", b"\0\0\0\5", b"body", b"body")
    assert [each.leader and (each.leader.host, each.leader.rack) for each in got.partitions] == [
        ("host-1", "rack-1"), ("host-2", "rack-2"), None,
    ]  # fmt: skip
    assert [each.id for each in got.partitions.available] == [7, 8]
    with pytest.raises(FrozenInstanceError):
        got.topic = "other"  # type: ignore[misc]


def test_chance_time_and_memory_come_from_outside_so_a_run_replays() -> None:
    """The same seed and clock give the same choices, topic by topic."""

    def choose(request: PartitionRequest) -> tuple[int, int]:
        turn = request.memory or 0
        return (turn + request.draw(3) + request.now) % 3, turn + 1

    def invoke() -> list[int | None]:
        producer = Producer(
            PythonFunction("own:choose", function=choose), Random(5).randrange, iter(range(99)).__next__
        )
        return [producer.choose(topic, "k", Partitions.from_count(3), b"").partition for topic in "aabababbba"]

    assert invoke() == invoke()
    assert len({*invoke()}) == 3
    memory = None
    for turn in range(4):
        _, memory = asked(choose, inputs=Inputs(lambda n: 0, 0), kept=memory)
        assert memory == turn + 1


@pytest.mark.parametrize("what", ["draw", "now", "memory"])
def test_what_only_a_producer_knows_is_undecided_without_one(what: str) -> None:
    """A route does not depend on it; a partitioner that handles all its errors does not hide that."""

    def choose(request: PartitionRequest) -> int:
        try:
            return int(request.draw(3) if what == "draw" else getattr(request, what) or 0)
        except Exception:  # noqa: BLE001
            return 0

    choice, _ = asked(choose)
    assert choice == (None, None, "python:own:function, by more than is known here")


def test_a_value_that_is_not_known_is_no_empty_value() -> None:
    """Where only keys are compared, a partitioner by values decides nothing; one by keys does."""
    by_value = PythonFunction("own:by_value", function=lambda request: len(request.value_bytes or b""))
    by_key = PythonFunction("own:by_key", function=lambda request: len(request.key_bytes or b""))
    assert by_value.choose("k", Partitions.from_count(3)).partition is None
    assert by_key.choose("k", Partitions.from_count(3)).partition == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("large", "returned 99; partitions are 0 to 2"),
        ("text", "returned str, not the number of a partition"),
        ("flag", "returned True; partitions are 0 to 2"),
        ("later", "returned coroutine, not the number of a partition"),
        ("fails", "raised ValueError: no such tenant"),
        ("leaves", "raised SystemExit: 3"),
    ],
)
def test_a_function_that_fails_is_named(module: str, name: str, problem: str) -> None:
    """By the library with an error, on the command line with exit code 2, in a route as the reason of no partition."""
    partitioning = Partitioning.parse(f"python:{module}:{name} over 3").imported(str(Path.cwd()))
    with pytest.raises(PartitionerFailed, match=name):
        partitioning.partitioner.choose("k", partitioning.partitions)
    assert partitioning.choose(Message("", "k")).rule == f"python:{module}:{name} {problem}"
    done = invoke("partition", "-p", f"python:{module}:{name}", "-n", "3", given='{"key": "k"}\n')
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"python:{module}:{name} {problem}" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python:{}:nothing", "AttributeError: module '{0}' has no attribute 'nothing'"),
        ("python:{}.inner:x", "ModuleNotFoundError"),
        ("python:{}:__name__", "is no function but str"),
        (
            "python:no_such_module:x",
            "ModuleNotFoundError: No module named 'no_such_module'; searched installed packages",
        ),
    ],
)
def test_what_cannot_be_imported_is_said_with_the_reason(module: str, text: str, problem: str) -> None:
    """With exit code 2, before a line is read."""
    done = invoke("partition", "-p", text.format(module), "-n", "3")
    assert done.exit_code == 2
    assert problem.format(module) in done.stderr


@pytest.mark.parametrize("text", ["python:a", "python::f", "python:a:", "python:a:b:c", "python:a b:c", "python:"])
def test_a_name_has_a_module_and_a_function(text: str) -> None:
    with pytest.raises((TextError, InputError)):
        Partitioning.parse(f"{text} over 3")


@pytest.mark.parametrize(
    "text",
    [
        "python:shop.partitions:by_region over 12 by routing_key",
        'python:shop:By.region(rack=eu-1,default="a b") over a@r:2,b:1 by header "tenant"',
        "python:shop:by_name over orders-eu,orders-us by word 2",
    ],
)
def test_text_and_value_are_equivalent(text: str) -> None:
    assert str(Partitioning.parse(text)) == text
    assert Partitioning.parse(text) == Partitioning.parse(text)
    assert pickle.loads(pickle.dumps(Partitioning.parse(text))) == Partitioning.parse(text)  # noqa: S301


def test_parameters_are_keyword_arguments(module: str) -> None:
    partitioning = Partitioning.parse(f"python:{module}:by_size(default=2) over 3").imported(str(Path.cwd()))
    assert partitioning.choose(Message("", "k")).partition == 2
    assert partitioning.choose(Message("", "k", body=b"four")).partition == 1
    copy = pickle.loads(pickle.dumps(partitioning))  # noqa: S301
    assert copy.choose(Message("", "k")).partition == 2


def test_lines_have_values_and_topics_for_functions(module: str) -> None:
    """Only for them: other strategies leave such fields as they are."""
    lines = '{"key": "a", "value": "four", "topic": "t"}\n{"key": "b"}\n'
    done = invoke("partition", "-p", f"python:{module}:by_size", "-n", "3", given=lines)
    assert [json.loads(line)["partition"] for line in done.stdout.splitlines()] == [1, 0]
    seeded = invoke("partition", "-p", f"python:{module}:turns", "-n", "3", "--seed", "1", given=lines * 2)
    assert [json.loads(line)["partition"] for line in seeded.stdout.splitlines()] == [0, 0, 1, 1]
    odd = invoke("partition", "-p", "kafka.murmur2", "-n", "3", given='{"key": "a", "value": {"a": {}}, "topic": 5}\n')
    assert odd.exit_code == 0
    moved = invoke("partition", "-p", "kafka.murmur2", "-n", "3", "--change", f"python:{module}:Own.first", given=lines)
    assert moved.exit_code == 0
    assert f"python:{module}:Own.first over 3" in moved.stdout


def topology_file(module: str, function: str) -> str:
    text = f'vhost "/"\nexchange t: topic\nqueue q: partitioned python:{module}:{function} over 3\nt -> q: "#"\n'
    Path("t.bindings").write_text(text, encoding="utf-8")
    return "t.bindings"


def test_no_command_runs_code_that_a_file_names_unasked(module: str) -> None:
    """Neither those that route nor those that only read the topology; definitions of a broker neither."""
    file = topology_file(module, "by_size")
    converted = invoke("convert", file, "--format", "definitions")
    assert converted.exit_code == 0
    Path("definitions.json").write_text(converted.stdout, encoding="utf-8")
    message = '{"exchange": "t", "routing_key": "k"}\n'
    for source in (file, "definitions.json"):
        routed = invoke("route", "-t", source, given=message)
        assert json.loads(routed.stdout)["partitions"] == {"q": None}
        explained = invoke("explain", "-t", source, "t", "k")
        assert "is code, which is imported only where its owner allows it" in explained.stdout
        for command in (("check", source), ("graph", source), ("diff", source, source), ("fmt", "--check", file)):
            assert invoke(*command).exit_code in (0, 1), command
    assert not was_imported()


def test_route_and_explain_run_it_where_they_may(module: str) -> None:
    file = topology_file(module, "by_size")
    lines = "".join(f'{{"exchange": "t", "routing_key": "k", "body": "{body}"}}\n' for body in ("a", "ab", "abc"))
    routed = invoke("route", "-t", file, "--allow-python", given=lines)
    assert [json.loads(line)["partitions"]["q"] for line in routed.stdout.splitlines()] == ["1", "2", "0"]
    explained = invoke("explain", "-t", file, "--allow-python", "--body", "ab", "t", "k")
    assert "q -> partition 2" in explained.stdout
    assert was_imported()
    missing = invoke("explain", "-t", topology_file(module, "nothing"), "--allow-python", "t", "k")
    assert missing.exit_code == 2
    assert f"queue 'q': python:{module}:nothing cannot be imported" in missing.stderr


def test_routes_by_the_body_are_not_remembered_by_their_key(module: str) -> None:
    queue = Queue("q", partitioning=Partitioning.parse(f"python:{module}:by_size over 3"))
    topology = Topology([Exchange("t", "topic")], [queue], [Binding.to_queue("t", "q", "#")])
    router = Router(import_partitioners(topology, str(Path.cwd())))
    chosen = [router.route(Message("t", "k", body=b"x" * size)).placements[0].partition for size in (1, 2, 3, 1)]
    assert chosen == [1, 2, 0, 1]
    assert router.topology == topology


def test_code_of_a_reading_that_is_refused_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = "own_code_that_is_refused"
    function, file, beside = PythonFunction(f"{module}:choose"), tmp_path / f"{module}.py", tmp_path / "beside_it.py"
    beside.write_text("SHARE = 0  # of a user")

    def refuse() -> None:
        with undo_imports():
            function.imported(str(tmp_path))
            raise InputError("it is wrong elsewhere")

    for text, reason in (
        ("import beside_it; first = 1", "no attribute"),
        ("from beside_it import PART", "cannot import name 'PART'"),
        ("import beside_it; choose = lambda request: 1", "elsewhere"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=reason):
            refuse()
        assert "beside_it" not in sys.modules
    beside.write_text("PART = 2  # mended, too")
    file.write_text("from beside_it import PART\ndef choose(request): return PART  # mended")
    with undo_imports():
        chosen = function.imported(str(tmp_path))
    file.write_text("def choose(request): return 3  # and changed")
    with pytest.raises(InputError, match="elsewhere"):
        refuse()  # what was imported before stays
    assert chosen.choose("k", Partitions.from_count(4)).partition == 2
    assert function.imported(str(tmp_path)).choose("k", Partitions.from_count(4)).partition == 2


@pytest.mark.parametrize("way", ["beside", "beside_package", "beside_package.part", "beside_namespace.part"])
@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_file_is_known_to_be_changed_if_it_is_the_function_s_or_one_beside_it_however_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, is_lazy: bool
) -> None:
    """Until it is as it was imported; when it is imported as the function is called, from the next import on."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.startswith(("beside", "own_code_with"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(python_function, "_IMPORTED", {})
    file = tmp_path / "own_code_with_others.py"
    package = way.partition(".")[0]
    beside = tmp_path / {way: f"{way.replace('.', '/')}.py", "beside_package": "beside_package/__init__.py"}[way]
    beside.parent.mkdir(exist_ok=True)
    if way == "beside_package.part":
        (tmp_path / package / "__init__.py").write_text("")
    beside.write_text("")
    imports, head = f"import {way}", "def choose(request):"
    file.write_text(f"{head}\n    {imports}\n    return 0" if is_lazy else f"{imports}\n{head} return 0")
    function = PythonFunction("own_code_with_others:choose")
    function.imported(str(tmp_path)).choose("k", Partitions.from_count(1))
    function.imported(str(tmp_path))  # as at a reload

    def find() -> list[Path]:
        return find_changed_files([function], str(tmp_path))

    assert find() == []
    for path in (file, beside):
        time = path.stat().st_mtime_ns
        os.utime(path, ns=(time, time + 1_000_000))
        with suppress(InputError), undo_imports():
            function.imported(str(tmp_path))
            assert find() == [path]
            raise InputError("refused, which does not make it another module")
        assert find() == [path]
        os.utime(path, ns=(time, time))
        assert find() == []
    beside.unlink()
    assert find() == [beside]
    for name in [name for name in sys.modules if name.startswith(("beside", "own_code_with"))]:
        del sys.modules[name]
