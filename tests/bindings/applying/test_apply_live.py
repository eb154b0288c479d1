"""``hashstar apply`` on a live RabbitMQ: the broker has what was planned, and a failure in the middle is reported.

Each test has a virtual host of its own.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from click.testing import CliRunner

from bindings.applying.amqp import BrokerConnection
from bindings.applying.apply import apply
from bindings.applying.broker import LiveBroker
from bindings.applying.live import Live, hash_arguments
from bindings.commands import apply as command
from bindings.diffing.planning.plan import make_plan
from bindings.sources.definitions import Definitions
from bindings.sources.management import Management
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.commands import console
from exchange.entities.releases import find_profile
from exchange.errors import InputError
from tests.support import topologies
from tests.support.bindings import pairs
from tests.support.differential import manage
from tests.support.servers import Server, missing
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

PAIRS = int(os.environ.get("HASHSTAR_LIVE_PAIRS", "12"))
PASSWORD = "not-to-be-seen"  # noqa: S105  of a user that lives as long as a test


@dataclass
class Place:
    """A virtual host of a live broker and a user of its own; ``run`` applies a topology to it."""

    server: Server
    vhost: str
    folder: Path
    amqp: str

    @property
    def management(self) -> str:
        """The address of the management API, with the password of the user."""
        assert self.server.management_url is not None
        return self.server.management_url.replace("//", f"//{self.vhost}:{PASSWORD}@")

    def run(self, wanted: Topology, *options: str, amqp: str | None = None, answer: str | None = None) -> Any:
        """Apply the topology; the result of the command, which never has the password in it."""
        file = self.folder / "wanted.json"
        Definitions(self.vhost).with_topology(
            Topology(
                wanted.exchanges.values(), wanted.queues.values(), wanted.bindings, wanted.policies.values(),
                vhost=self.vhost,
            )
        ).as_topology().save(file)  # fmt: skip
        arguments = [str(file), self.management, "--other-address", amqp or self.amqp, "--vhost", self.vhost, *options]
        result = CliRunner().invoke(command.apply_command, arguments, input=answer)
        assert PASSWORD not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    def topology(self, wanted: Topology) -> Topology:
        """Return what the broker has, under the profile of the wanted topology."""
        live = Live(Management.at(self.management), self.vhost).topology(wanted)
        return Topology(
            live.exchanges.values(), live.queues.values(), live.bindings, live.policies.values(), profile=wanted.profile
        )

    def allow(self, configure: str) -> None:
        """Let the user configure what matches."""
        permissions = {"configure": configure, "write": ".*", "read": ".*"}
        manage(self.server, "PUT", f"permissions/{self.vhost}/{self.vhost}", permissions)

    def connection(self) -> BrokerConnection:
        """Return the connection of another client."""
        return BrokerConnection(self.amqp, self.vhost, PASSWORD, self.vhost)


@pytest.fixture(params=["first", "last"])
def place(request: pytest.FixtureRequest, rabbitmq_servers: list[Server], tmp_path: Path) -> Iterator[Place]:
    """Return a virtual host on the first server and, if there are several, one on the last."""
    if request.param == "last" and len(rabbitmq_servers) == 1:
        pytest.skip("there is one RabbitMQ only")
    server = rabbitmq_servers[0 if request.param == "first" else -1]
    if server.management_url is None:
        missing("the RabbitMQ has no management API")
    name = unique_name("apply")
    manage(server, "PUT", f"vhosts/{name}")
    manage(server, "PUT", f"users/{name}", {"password": PASSWORD, "tags": "administrator"})
    parts = urlsplit(server.url)
    found = Place(server, name, tmp_path, f"amqp://{parts.hostname}:{parts.port}")
    found.allow(".*")
    try:
        yield found
    finally:
        manage(server, "DELETE", f"vhosts/{name}")
        manage(server, "DELETE", f"users/{name}")


@pytest.mark.smoke
@pytest.mark.timeout(0)  # a full run takes long, and longer on a busy machine
def test_the_broker_has_what_was_wanted(place: Place) -> None:
    """Random pairs: the first applied to an empty virtual host, then the second; then there is nothing to do."""
    everything = ("--yes", "--prune", "--replace")
    profile = find_profile(place.server.version)
    steps = 0
    for seed in range(PAIRS):
        for topology in pairs.pair(Random(seed)):
            wanted = topology.with_profile(profile)
            result = place.run(wanted, *everything)
            assert result.exit_code == 0, f"seed {seed}: {result.output}"
            there = place.topology(wanted)
            assert not make_plan(there, wanted).steps, f"seed {seed}: {result.output}"
            assert set(there.bindings) == set(wanted.bindings)
            assert there.policies == wanted.policies
            steps += len(re.findall(r"^  [-+~] ", result.output, re.MULTILINE))
            result = place.run(wanted, *everything)
            assert (result.exit_code, result.stdout.strip()) == (0, "nothing to do"), f"seed {seed}: {result.output}"
    assert steps >= PAIRS


def test_arguments_of_all_types_are_what_they_were(place: Place) -> None:
    """Bound with their types, recognised by them, and unbound with them."""
    bare = Topology([Exchange("x", "headers")], [Queue("q")], profile=find_profile(place.server.version))
    wanted = bare
    for number, value in enumerate(topologies.VALUES):
        wanted = wanted.bind(Binding.to_queue("x", "q", str(number), {"h": value, "x-match": "any", "é": "ü"}))
    assert place.run(wanted, "--yes").exit_code == 0
    assert set(place.topology(wanted).bindings) == set(wanted.bindings)
    named = {
        (binding["routing_key"], binding["properties_key"].rpartition("~")[2])
        for binding in manage(place.server, "GET", f"bindings/{place.vhost}")
        if binding["source"]
    }
    assert named == {(binding.routing_key, hash_arguments(binding.arguments)) for binding in wanted.bindings}
    assert place.run(wanted, "--yes").output.endswith("nothing to do\n")
    result = place.run(bare, "--yes", "--prune")
    assert result.exit_code == 0, result.output
    assert not place.topology(bare).bindings


@pytest.mark.parametrize("prune", [[], ["--prune"]])
def test_settings_that_change_are_shown_and_operator_policies_stay(place: Place, prune: list[str]) -> None:
    limit = {"pattern": "^q", "definition": {"max-length": 5}, "apply-to": "queues"}
    manage(place.server, "PUT", f"operator-policies/{place.vhost}/limit", limit)
    minute, second = (
        Topology(queues=[Queue("q")], policies=[Policy("p", "^q", {"message-ttl": milliseconds}, "queues")])
        for milliseconds in (60_000, 1_000)
    )
    assert place.run(minute, "--yes").exit_code == 0
    result = place.run(second, "--yes", *prune)
    assert result.exit_code == 0, result.output
    assert "  ~ set policy 'p'\n      message-ttl 60000 -> 1000\n" in result.output
    assert (
        "settings in force:\n  ! queue 'q':\n"
        "      message-ttl 60000 (policy 'p') -> 1000 (policy 'p'): messages that wait longer than 1 s are dropped\n"
    ) in result.output
    assert "max-length" not in result.output
    kept = manage(place.server, "GET", f"operator-policies/{place.vhost}")
    assert [policy["name"] for policy in kept] == ["limit"]


def some(number: int = 6) -> Topology:
    """Return a topology that takes a while to declare."""
    topology = Topology(
        [Exchange("x", "topic")], policies=[Policy("p", "^x$", {"alternate-exchange": "amq.fanout"}, "exchanges")]
    )
    for index in range(number):
        topology = topology.declare_queue(Queue(f"q{index}")).bind(Binding.to_queue("x", f"q{index}", f"k.{index}"))
    return topology


def in_between(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Let something happen between the last look at the broker and the first step."""

    def apply_later(*arguments: Any, **named: Any) -> None:
        what()
        apply(*arguments, **named)

    monkeypatch.setattr(command, "apply", apply_later)


def test_it_stops_where_another_client_declared_another_queue(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints the broker's error, what is done and what is not; the next run names the way out."""
    wanted = some()

    def rival() -> None:
        with closing(place.connection()) as connection:
            connection.call("q3", lambda channel, done: channel.queue_declare("q3", auto_delete=True, callback=done))

    with monkeypatch.context() as patch:
        in_between(patch, rival)
        result = place.run(wanted, "--yes")
    assert result.exit_code == 1
    assert "done:\n  + declare exchange 'x' (topic)\n  + declare queue 'q0' (classic)\n" in result.output
    assert (
        "failed:\n  + declare queue 'q3' (classic)\n      ! 406 PRECONDITION_FAILED - inequivalent arg" in result.output
    )
    assert "not done:\n  + declare queue 'q4' (classic)\n" in result.output
    assert "stopped after 4 of 14 steps; run it again to go on" in result.output
    assert set(place.topology(wanted).queues) == {"q0", "q1", "q2", "q3"}
    result = place.run(wanted, "--yes")
    assert result.exit_code == 1
    assert "cannot be changed in place: queue 'q3'; --replace" in result.output
    assert place.run(wanted, "--yes", "--replace").exit_code == 0
    assert not make_plan(place.topology(wanted), wanted).steps


def test_a_step_that_another_client_has_done_is_done(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same queue, declared by two; the deletion of what is gone."""
    wanted = some()

    def rival() -> None:
        with closing(place.connection()) as connection:
            connection.call("q0", lambda channel, done: channel.queue_declare("q0", durable=True, callback=done))
            connection.call("q3", lambda channel, done: channel.queue_declare("q3", durable=True, callback=done))

    in_between(monkeypatch, rival)
    assert place.run(wanted, "--yes").exit_code == 0

    def again() -> None:
        with closing(place.connection()) as connection:
            connection.call("q0", lambda channel, done: channel.queue_delete("q0", callback=done))
            connection.call("q3", lambda channel, done: channel.queue_delete("q3", callback=done))
        manage(place.server, "DELETE", f"policies/{place.vhost}/p")

    in_between(monkeypatch, again)
    assert place.run(Topology(), "--yes", "--prune", "--prune").exit_code == 0
    assert not place.topology(Topology()).queues


def test_it_stops_where_it_has_no_permission(place: Place) -> None:
    """And goes on once it has."""
    wanted = some()
    place.allow("^(x|q[0-2])$")
    result = place.run(wanted, "--yes")
    assert result.exit_code == 1
    assert "failed:\n  + declare queue 'q3' (classic)\n      ! 403 ACCESS_REFUSED - " in result.output
    assert "stopped after 4 of 14 steps" in result.output
    place.allow(".*")
    result = place.run(wanted, "--yes")
    assert result.exit_code == 0, result.output
    assert "applied: 10 steps" in result.output


@contextmanager
def proxy(server: str, most: int, *, silent: bool) -> Iterator[str]:
    """Yield an address that leads to the server until it has sent a number of bytes, then closes or goes silent."""
    parts = urlsplit(server)
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def pass_on(source: socket.socket, target: socket.socket, left: int | None) -> None:
        try:
            while data := source.recv(65536):
                if left is not None:
                    left -= len(data)
                    if left < 0:
                        if silent:
                            stop.wait(find_limit())
                        break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end_it(end)

    def end_it(end: socket.socket) -> None:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    def serve(listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, socket.create_connection((parts.hostname, parts.port), timeout=find_limit()) as broker:
            back = threading.Thread(target=pass_on, args=(broker, client, most))
            back.start()
            pass_on(client, broker, None)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        threads.append(thread)
        thread.start()
        try:
            yield f"amqp://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            end_it(listener)
    for thread in threads:
        thread.join(find_limit())


@pytest.mark.parametrize("silent", [False, True])
def test_it_stops_when_the_connection_is_gone_and_the_next_run_finishes(
    place: Place, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """Cut, or silent: the step may be done or not, and that is reported."""
    wanted = some(40)
    with monkeypatch.context() as patch, proxy(place.amqp, 1500, silent=silent) as address:
        patch.setattr(LiveBroker, "connect", partial(LiveBroker.connect, seconds=5))
        result = place.run(wanted, "--yes", amqp=address)
    assert result.exit_code == 1
    why = "no answer to declare queue 'q" if silent else "the connection is gone"
    assert re.search(rf"failed, perhaps done:\n  \+ declare queue 'q\d+' \(classic\)\n      ! {why}", result.output)
    done = int(re.search(r"stopped after (\d+) of 82 steps", result.output)[1])  # type: ignore[index]
    assert 3 < done < 80
    there = len(place.topology(wanted).queues)
    assert there + 1 - done in (0, 1)
    result = place.run(wanted, "--yes")
    assert result.exit_code == 0, result.output
    assert not make_plan(place.topology(wanted), wanted).steps


def test_it_does_not_start_where_the_broker_changed_after_the_plan(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes while somebody reads the plan makes it void."""

    def asked(*_: object) -> None:
        manage(place.server, "PUT", f"exchanges/{place.vhost}/new", {"type": "topic", "durable": True})

    monkeypatch.setattr(command, "_ask", asked)
    result = place.run(some(), "--yes")
    assert result.exit_code == 1
    assert "the broker has changed since the plan was made. Nothing was done" in result.output
    assert not place.topology(Topology()).queues


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_with_messages_is_not_deleted_unless_by_force(place: Place, kind: str) -> None:
    """Nor is anything at all without --prune."""
    name = "jobs"
    wanted = Topology([], [Queue(name, arguments={"x-queue-type": kind})])
    assert place.run(wanted, "--yes").exit_code == 0
    path = f"exchanges/{place.vhost}/{quote('amq.default', safe='')}/publish"
    body = {"properties": {}, "routing_key": name, "payload": "1", "payload_encoding": "string"}
    assert manage(place.server, "POST", path, body)["routed"]
    result = place.run(Topology(), "--yes")
    assert result.exit_code == 0, result.output
    assert "kept, although the file does not have it: 1 queue (" in result.output
    result = place.run(Topology(), "--yes", "--prune", "--prune")
    assert result.exit_code == 1
    assert "queue 'jobs' has 1 messages; --force deletes it all the same" in result.output
    assert place.run(Topology(), "--yes", "--prune", "--prune", "--force").exit_code == 0
    assert not place.topology(Topology()).queues


def test_names_that_a_broker_changes_are_no_trouble(place: Place) -> None:
    """Line ends go from names; a client that waits for an answer with the name it sent would wait for ever."""
    wanted = Topology([Exchange("x\n", "topic")], [Queue("a\r\nb")], [Binding.to_queue("x\n", "a\r\nb", "k")])
    assert place.run(wanted, "--yes", "--prune").exit_code == 0
    assert set(place.topology(Topology()).queues) == {"ab"}
    assert place.run(wanted, "--yes", "--prune").output.endswith("nothing to do\n")


def test_a_dry_run_changes_nothing_and_without_a_terminal_there_is_no_question(place: Place) -> None:
    """That is bad usage, exit code 2."""
    assert place.run(some(), "--dry-run").exit_code == 0
    result = place.run(some())
    assert result.exit_code == 2
    assert "cannot ask for confirmation without a terminal" in result.output
    assert not place.topology(Topology()).queues


def test_exclusive_queues_are_left_alone(place: Place) -> None:
    """Though from 4.0 on the broker exports their bindings."""
    wanted = some(1)
    assert place.run(wanted, "--yes").exit_code == 0
    with closing(place.connection()) as connection:
        connection.call("mine", lambda channel, done: channel.queue_declare("mine", exclusive=True, callback=done))
        connection.call("bind", lambda channel, done: channel.queue_bind("mine", "x", "a", callback=done))
        result = place.run(wanted, "--yes", "--prune")
        assert result.exit_code == 0, result.output
        assert result.output.endswith("nothing to do\n")
        bindings = manage(place.server, "GET", f"bindings/{place.vhost}/e/x/q/mine")
        assert [binding["routing_key"] for binding in bindings] == ["a"]


def test_at_a_terminal_it_asks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does nothing unless the answer is yes."""
    monkeypatch.setattr(console, "at_terminal", lambda: True)
    for answer, code, text in (("n", 1, "nothing was changed"), ("y", 0, "applied: 4 steps")):
        result = place.run(some(1), answer=answer)
        assert result.exit_code == code
        assert "carry out 4 steps?" in result.output
        assert text in result.output


def test_two_addresses_of_two_brokers_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done on either."""
    monkeypatch.setattr(BrokerConnection, "cluster", property(lambda _: "another"))
    result = place.run(some(1), "--yes")
    assert result.exit_code == 1
    assert "two brokers: 'another' by AMQP" in result.output
    assert not place.topology(Topology()).queues


def test_a_broker_refuses_parts_of_a_virtual_host_that_it_lacks(rabbitmq_servers: list[Server]) -> None:
    """The import ends there; `check` warns of the same files, and of no others."""
    declared, part = {"vhosts": [{"name": "hashstar-there"}]}, {"vhost": "hashstar-nowhere", "durable": True}
    queue: dict[str, Any] = {**part, "name": "q", "auto_delete": False, "arguments": {}}
    policy = {**part, "name": "p", "pattern": "^a", "apply-to": "queues", "definition": {"max-length": 5}}
    files: list[dict[str, Any]] = [
        {"queues": [queue]}, {**declared, "queues": [queue]}, {"policies": [policy]},
        {"queues": [{**queue, "vhost": "hashstar-there"}], **declared}, {"queues": [{**queue, "vhost": "/"}]},
    ]  # fmt: skip
    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        login = urlsplit(server.url)
        broker = Management.at(server.management_url.replace("//", f"//{login.username}:{login.password}@"))
        for file in files:
            try:
                broker.request("POST", "/api/definitions", file)
                refused = ""
            except InputError as error:
                refused = str(error)
            warned = any("is not under vhosts" in str(line) for line in Definitions.loads(json.dumps(file)).warnings)
            assert warned == bool(refused), (server.version, file, refused)
        broker.request("DELETE", "/api/vhosts/hashstar-there")
        broker.request("DELETE", "/api/queues/%2F/q")
