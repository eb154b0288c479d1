"""Carrying out a plan, without a broker: what is sent, where to, and what is reported when it stops."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import spec

from bindings.applying.address import Addresses
from bindings.applying.amqp import BrokerConnection, Lost, OperationRefused, to_pika
from bindings.applying.apply import Stopped, apply
from bindings.applying.broker import LiveBroker
from bindings.applying.live import Live, hash_arguments
from bindings.diffing.planning.step import Step
from bindings.sources.management import Management
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.errors import InputError
from exchange.text.site import build_install_command
from tests.support import topologies
from tests.support.amqp_wire import encode_field
from tests.support.cases import with_each
from tests.support.program import run_program
from tests.support.waiting import find_limit

ROOT = Path(__file__).parents[3]
QUEUE, EXCHANGE = Queue("q"), Exchange("x", "topic")


@with_each("value", topologies.VALUES)
def test_arguments_are_sent_with_their_types(value: Any) -> None:
    """As the tests that compare routes with live brokers write them, behind all that pika writes of a method."""
    plain = b"".join(spec.Queue.Declare(queue="q", durable=True).encode())
    field = b"\x01h" + encode_field(value)
    sent = b"".join(to_pika("queue.declare", {"queue": "q", "durable": True, "arguments": {"h": value}}).encode())
    assert sent == plain[:-4] + len(field).to_bytes(4, "big") + field


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"h": 1}, "cPe25g"), ({"h": 1.0}, "evtnig"),
    ],
)  # fmt: skip
def test_the_management_api_names_bindings_by_their_typed_arguments(arguments: dict[str, Any], name: str) -> None:
    """As RabbitMQ 4.3 and 3.10 name them; a live test compares all types."""
    assert hash_arguments(arguments) == name


@pytest.mark.parametrize(
    ("given_one", "other", "management", "amqp"),
    [
        ("http://u:p@host", None, "http://host", "amqp://host:5672/"),
        ("https://u:p@host:443/v", None, "https://host:443", "amqps://host:5671/"),
        ("amqp://u:p@host/v", None, "http://host:15672", "amqp://host/"),
        ("amqps://u:p@[::1]:9", None, "https://[::1]:15671", "amqps://[::1]:9/"),
        ("http://u:p@host:1", "amqp://other:2", "http://host:1", "amqp://other:2/"),
        ("http://host:1", "amqp://u:p@other:2", "http://host:1", "amqp://other:2/"),
        ("amqp://u:p@other:2", "http://host:1", "http://host:1", "amqp://other:2/"),
        ("amqp://other:2/?heartbeat=5", "http://u:p@host:1", "http://host:1", "amqp://other:2/?heartbeat=5"),
    ],
)
def test_one_address_gives_the_other(given_one: str, other: str | None, management: str, amqp: str) -> None:
    """At the usual port of the same host unless it is given; neither is ever shown with a password."""
    addresses = Addresses.parse(given_one, other)
    assert (addresses.management.address, addresses.amqp) == (management, amqp)
    assert (addresses.management.user, addresses.management.password) == ("u", "p")
    assert "p@" not in repr(addresses)
    assert "'p'" not in repr(addresses)


def test_the_virtual_host_is_in_either_address() -> None:
    """AMQP's or the management API's."""
    web, wire = "http://u:p@host:1", "amqp://host:2"
    assert Addresses.parse(f"{web}/v", wire).management.vhost == "v"
    assert Addresses.parse(web, f"{wire}/%2F").management.vhost == "/"
    assert Addresses.parse(f"{wire.replace('host', 'u:p@host')}/v%2Fw").management.vhost == "v/w"
    assert Addresses.parse(web, wire).management.vhost is None


@pytest.mark.parametrize("wrong", ["host", "ftp://host", "amqp://", "http://u:p@host:x", "amqp://u:secret@host:x"])
def test_a_wrong_address_is_reported_without_its_password(wrong: str) -> None:
    """As bad input."""
    with pytest.raises(InputError) as error:
        Addresses.parse(wrong)
    assert "secret" not in str(error.value)


class Script:
    """A connection that answers each call with the next of what it is given, and a management API of no broker."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []

    def call(self, what: str, operation: Any) -> Any:
        self.calls.append(what)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def send(self, what: str, method: Any, reply: type) -> Any:
        return self.call(what, method)


def broker(script: Script, *, force: bool = False) -> LiveBroker:
    """Return a broker that answers by the script."""
    connection: Any = script
    return LiveBroker(connection, Live(Management("http://127.0.0.1:1", "u", "p"), "/"), force=force)


@pytest.mark.parametrize(
    "error", [OperationRefused(406, "PRECONDITION_FAILED"), Lost("gone"), ValueError("too long")], ids=repr
)
def test_a_plan_stops_at_the_first_error_and_knows_how_far_it_came(error: Exception) -> None:
    """The steps done, and those left, of which the first failed."""
    steps = [Step(True, EXCHANGE), Step(True, QUEUE), Step(True, Binding.to_queue("x", "q", "a"))]
    script = Script(None, error)
    done: list[Step] = []
    with pytest.raises(Stopped, match=str(error)) as stopped:
        apply(steps, broker(script), progress=done.append)
    assert list(stopped.value.done) == done == steps[:1]
    assert list(stopped.value.left) == steps[1:]
    assert stopped.value.cause is error
    assert len(script.calls) == 2


def test_an_interrupted_plan_has_reported_each_step_that_is_done() -> None:
    steps = [Step(True, EXCHANGE), Step(True, QUEUE)]
    done: list[Step] = []
    with pytest.raises(KeyboardInterrupt):
        apply(steps, broker(Script(None, KeyboardInterrupt())), progress=done.append)
    assert done == steps[:1]


class Found:
    """The answer to a passive declaration."""

    def __init__(self, messages: int = 0, consumers: int = 0) -> None:
        self.method = self
        self.message_count, self.consumer_count = messages, consumers


@pytest.mark.parametrize(
    ("answers", "force", "calls", "why"),
    [
        ((Found(), None), False, 2, None),
        ((Found(messages=3),), False, 1, "queue 'q' has 3 messages; --force deletes it all the same"),
        ((Found(consumers=1),), False, 1, "queue 'q' has 1 consumers; --force deletes it all the same"),
        ((None,), True, 1, None),
        ((OperationRefused(404, "NOT_FOUND"),), False, 1, None),
        ((OperationRefused(405, "RESOURCE_LOCKED"),), False, 1, "405 RESOURCE_LOCKED"),
    ],
)
def test_a_queue_in_use_is_deleted_by_force_only(
    answers: tuple[Any, ...], force: bool, calls: int, why: str | None
) -> None:
    """One that is gone already is deleted."""
    script = Script(*answers)
    with nullcontext() if why is None else pytest.raises(Stopped, match=f"^{re.escape(why)}$"):
        apply([Step(False, QUEUE)], broker(script, force=force))
    assert len(script.calls) == calls


def test_a_connection_that_is_refused_is_reported() -> None:
    """In words, at once, with the address, which may not be the one that was meant."""
    with pytest.raises(
        Lost,
        match=r"^127\.0\.0\.1:1: .*Connection refused; if its AMQP is elsewhere, give --other-address amqp://HOST:PORT$",
    ):
        BrokerConnection("amqp://127.0.0.1:1/", "u", "p", "/")


NAME = st.text(max_size=5)


@given(NAME)
def test_names_are_those_that_a_broker_stores(name: str) -> None:
    """Line ends go; and a queue of a virtual host with a default type has that type."""

    class Answers(Live):
        def _get(self, path: str, names: tuple[str, ...]) -> Any:
            return {"default_queue_type": "quorum"}

    live = Answers(Management("http://127.0.0.1:1", "u", "p"), "/")
    typed, bare = Queue("t", arguments={"x-queue-type": "stream"}), Queue(f"q{name}")
    topology = Topology(
        [Exchange(f"x{name}", "topic")], [bare, typed], [Binding.to_queue(f"x{name}", f"q{name}", name)]
    )
    declared = live.as_declared(topology)
    plain = name.replace("\r", "").replace("\n", "")
    assert {queue.name: queue.type for queue in declared.queues.values()} == {f"q{plain}": "quorum", "t": "stream"}
    assert set(declared.bindings) == {Binding.to_queue(f"x{plain}", f"q{plain}", name)}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["FILE"], "Missing argument 'URL'"),
        (["FILE", "nonsense"], "an address is wanted"),
        (["FILE", "http://u:secret@127.0.0.1:1"], "nothing listens there"),
        (["/nowhere.bindings", "http://u:secret@127.0.0.1:1"], "/nowhere.bindings: cannot be read"),
    ],
)
def test_bad_usage_ends_with_2_and_without_a_password(tmp_path: Path, arguments: list[str], reason: str) -> None:
    """And without a traceback."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "q"}]}))
    result = run_program("apply", *[str(file) if argument == "FILE" else argument for argument in arguments])
    assert result.returncode == 2
    assert reason in result.stderr
    assert "secret" not in result.stderr + result.stdout
    assert "Traceback" not in result.stderr


def test_pika_is_not_imported_before_it_is_needed() -> None:
    """Those who never apply anything can do without."""
    code = "import sys, bindings.commands.apply; sys.exit('pika' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, timeout=find_limit()).returncode == 0


def test_the_text_of_a_step_describes_it() -> None:
    """In the words of the broker's own tools."""
    policy = Policy("p", ".*")
    binding = Binding.to_exchange("x", "y", "a", {"h": 1})
    assert [str(Step(added, part)) for part in (EXCHANGE, QUEUE, binding, policy) for added in (True, False)] == [
        "declare exchange 'x' (topic)", "delete exchange 'x'", "declare queue 'q' (classic)", "delete queue 'q'",
        "bind exchange 'x' 'a' with { h = 1 } -> exchange 'y'",
        "unbind exchange 'x' 'a' with { h = 1 } -> exchange 'y'",
        "set policy 'p'", "clear policy 'p'",
    ]  # fmt: skip


def test_without_pika_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, before a broker is asked."""
    topology = tmp_path / "t.bindings"
    topology.write_text("queue q\n")
    monkeypatch.setitem(sys.modules, "pika", None)
    ended = run_program("apply", str(topology), "http://a:b@127.0.0.1:1")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"hashstar: changing a broker needs pika: {build_install_command('rabbitmq')}\n"
