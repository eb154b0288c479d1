"""Dead letters of live brokers are published again, byte for byte as they were, and taken back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner, Result

from bridge.cli import hashstar
from bridge.dead.replaying import WINDOW
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.waiting import wait_until

PROPERTIES: dict[str, Any] = {"headers": {"tenant": "a", "price": 5}, "content_type": "text/plain", "priority": 3}


def bury(broker: Broker, kind: str, *bodies: bytes, **properties: Any) -> tuple[str, str]:
    """Let messages be rejected in one queue, and return its name and that of the one with their dead letters."""
    dead = broker.queue(**{"x-queue-type": kind})
    jobs = broker.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    broker.put(jobs, *bodies, **{**PROPERTIES, **properties})
    reject(broker, jobs, dead, len(bodies))
    return jobs, dead


def reject(broker: Broker, jobs: str, dead: str, count: int) -> None:
    """Reject all messages of a queue, and wait until there is this number of dead letters."""

    def reject_next() -> bool:
        method, _, _ = broker.channel.basic_get(jobs)
        if method is not None:
            broker.channel.basic_reject(method.delivery_tag, requeue=False)
        return method is None and broker.ready(dead) == count

    wait_until(reject_next, lambda: broker.ready(dead))


def arguments(broker: Broker, dead: str, ledger: Path, *more: str) -> list[str]:
    first = ["dead", broker.server.url, "--queue", dead, "--ledger", str(ledger), "--allow-counted", "--wait", "2m"]
    return [*first, "--yes", *more]


def run(broker: Broker, dead: str, ledger: Path, *more: str, code: int = 0) -> Any:
    """Run the command, and return what it says that it has done."""
    result: Result = CliRunner().invoke(hashstar, [*arguments(broker, dead, ledger, *more), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)["replay"]


def take(broker: Broker, queue: str) -> list[tuple[bytes, Any]]:
    """Take all messages of a queue: body and headers of each."""
    found = []
    while (got := broker.channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[2] or b"", dict((got[1] and got[1].headers) or {})))
    return found


@pytest.mark.smoke
def test_dead_letters_go_back_to_their_queue_in_order_and_as_they_were(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        for kind in ("classic", "quorum"):
            ledger = tmp_path / f"{broker.server.version}-{kind}"
            jobs, dead = bury(broker, kind, *[b"%d" % number for number in range(30)])
            done = run(broker, dead, ledger, "--replay", "queue")
            assert (done["moved"], done["left"], done["again"]) == (30, [], 0), broker.server.version
            wait_until(lambda: broker.ready(dead) == 0 and broker.ready(jobs) == 30)  # noqa: B023
            method, properties, _ = broker.channel.basic_get(jobs)
            assert method is not None
            assert properties is not None
            assert (properties.content_type, properties.priority) == ("text/plain", 3)
            broker.channel.basic_nack(method.delivery_tag)
            found = take(broker, jobs)
            assert sorted(body for body, _ in found) == sorted(b"%d" % number for number in range(30))
            assert {frozenset(headers) for _, headers in found} == {frozenset({"tenant", "price", "x-hashstar-replay"})}
            assert run(broker, dead, ledger, "--replay", "queue")["moved"] == 0


def test_what_is_not_selected_stays_in_order(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "classic", b"0", b"1")
        broker.put(jobs, b"2", b"3", headers={"tenant": "b"})
        reject(broker, jobs, dead, 4)
        done = run(broker, dead, tmp_path / broker.server.version, "--replay", "queue", "--where", "tenant = 'b'")
        assert done["moved"] == 2
        wait_until(lambda: broker.ready(dead) == 2)  # noqa: B023
        assert [body for body, _ in take(broker, dead)] == [b"0", b"1"]
        assert [body for body, _ in take(broker, jobs)] == [b"2", b"3"]


def test_an_exchange_gets_the_key_and_the_copies_that_the_message_had(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        exchange, dead = broker.exchange("direct"), broker.queue()
        jobs, copies = broker.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead), broker.queue()
        for queue, key in ((jobs, "paid"), (copies, "copy")):
            broker.channel.queue_bind(queue, exchange, key)
        broker.channel.basic_publish(exchange, "paid", b"x", pika.BasicProperties(headers={"CC": ["copy"]}))
        assert len(take(broker, copies)) == 1
        reject(broker, jobs, dead, 1)
        assert run(broker, dead, tmp_path / broker.server.version, "--replay", "exchange")["moved"] == 1
        for queue in (jobs, copies):
            wait_until(lambda: broker.ready(queue) == 1)  # noqa: B023
            [(body, headers)] = take(broker, queue)
            assert body == b"x"
            assert headers["CC"] == ["copy"]


def test_what_cannot_be_routed_stays_and_is_counted(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "classic", b"0", b"1")
        other, _ = bury(broker, "classic", b"2")
        broker.put(dead, b"alien")
        broker.channel.queue_delete(jobs)
        done = run(broker, dead, tmp_path / broker.server.version, "--replay", "queue", code=1)
        assert done["moved"] == 0
        reasons = {each["reason"]: each["count"] for each in done["left"]}
        assert reasons.pop("no header says where it died") == 1
        [(reason, count)] = reasons.items()
        assert (count, "NO_ROUTE" in reason) == (2, True)
        wait_until(lambda: broker.ready(dead) == 3)  # noqa: B023
        assert other


def test_headers_of_other_types_stay_and_do_not_hold_up_an_undo(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "classic", b"0")
        broker.put(dead, b"1", headers={"x-death": {"queue": jobs}, "x-hashstar-replay": [jobs]})
        broker.put(dead, b"2", headers={"hashstar-reason": "nack", "hashstar-origin": [5]})
        ledger = tmp_path / broker.server.version
        done = run(broker, dead, ledger, "--replay", "queue", code=1)
        assert (done["moved"], sorted(each["reason"] for each in done["left"])) == (
            1, ["the header hashstar-origin is no text", "x-death has no entry of the first death"]
        )  # fmt: skip
        for header in ({"a": "b"}, ["c"], 5, None):
            broker.put(jobs, b"other", headers={"x-hashstar-replay": header})
        wait_until(lambda: broker.ready(jobs) == 5)  # noqa: B023
        assert run(broker, dead, ledger, "--undo")["moved"] == 1
        wait_until(lambda: broker.ready(jobs) == 4)  # noqa: B023


def test_a_stream_is_not_replayed(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        stream = broker.queue(**{"x-queue-type": "stream"})
        broker.put(stream, b"x")
        result = CliRunner().invoke(
            hashstar, arguments(broker, stream, tmp_path / broker.server.version, "--replay", "queue")
        )
        assert result.exit_code == 2, result.output
        assert "540" in result.stderr


def edit_price(message: Any) -> Any:
    if message.body == b"1":
        return None
    if message.body == b"2":
        raise ValueError("two")
    return replace(message, headers={**message.headers, "price": 6}, body=b"new " + message.body)


def test_a_function_edits_messages_or_leaves_them(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "classic", b"0", b"1", b"2")
        ledger = tmp_path / broker.server.version
        edit = f"{__name__}:edit_price"
        done = run(broker, dead, ledger, "--replay", "queue", "--edit", edit, code=1)
        reasons = {each["reason"]: each["count"] for each in done["left"]}
        assert reasons == {"--edit returned None": 1, "--edit raised ValueError: two": 1}
        wait_until(lambda: broker.ready(jobs) == 1)  # noqa: B023
        assert run(broker, dead, ledger, "--undo")["moved"] == 1
        wait_until(lambda: broker.ready(dead) == 3)  # noqa: B023
        assert {body for body, _ in take(broker, dead)} == {b"0", b"1", b"2"}


def test_undo_takes_back_what_nobody_has_consumed(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "quorum", *[b"%d" % number for number in range(10)])
        ledger = tmp_path / broker.server.version
        assert run(broker, dead, ledger, "--replay", "queue")["moved"] == 10
        wait_until(lambda: broker.ready(jobs) == 10)  # noqa: B023
        consumed = [broker.get(jobs)[2] for _ in range(3)]
        broker.put(jobs, b"another")
        undone = run(broker, dead, ledger, "--undo")
        assert (undone["moved"], undone["missing"]) == (7, 3)
        wait_until(lambda: broker.ready(dead) == 7)  # noqa: B023
        back = take(broker, dead)
        assert sorted([*consumed, *(body for body, _ in back)]) == sorted(b"%d" % number for number in range(10))
        assert all(headers["x-death"][0]["queue"] == jobs for _, headers in back)
        assert [body for body, _ in take(broker, jobs)] == [b"another"]
        assert run(broker, dead, ledger, "--undo")["moved"] == 0


@pytest.mark.parametrize("identity", [{}, {"message_id": "m"}])
def test_equal_dead_letters_are_published_as_often_as_they_are_there(
    brokers: list[Broker], tmp_path: Path, identity: dict[str, str]
) -> None:
    for broker in brokers:
        jobs, dead = broker.queue(), broker.queue()
        death = {"queue": jobs, "reason": "rejected", "exchange": "", "routing-keys": [jobs], "count": 1}
        headers = {"x-death": [death], "x-first-death-queue": jobs, "x-first-death-reason": "rejected"}
        broker.put(dead, *[b"x"] * 3, headers=headers, **identity)
        ledger = tmp_path / broker.server.version
        done = run(broker, dead, ledger, "--replay", "queue")
        assert (done["moved"], done["again"], done["done_before"]) == (3, 0, 0)
        wait_until(lambda: broker.ready(jobs) == 3)  # noqa: B023
        broker.put(dead, b"x", headers=headers, **identity)
        assert run(broker, dead, ledger, "--replay", "queue")["moved"] == 1
        wait_until(lambda: broker.ready(jobs) == 4)  # noqa: B023
        assert run(broker, dead, ledger, "--undo")["moved"] == 4
        wait_until(lambda: broker.ready(dead) == 4)  # noqa: B023
        assert [body for body, _ in take(broker, dead)] == [b"x"] * 4


def test_what_dies_once_more_is_another_dead_letter(brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        jobs, dead = bury(broker, "classic", b"0", message_id="m")
        ledger = tmp_path / broker.server.version
        for _ in range(3):
            assert run(broker, dead, ledger, "--replay", "queue")["moved"] == 1
            wait_until(lambda: broker.ready(jobs) == 1)  # noqa: B023
            reject(broker, jobs, dead, 1)


def test_runs_that_are_killed_lose_nothing_and_double_at_most_the_window(brokers: list[Broker], tmp_path: Path) -> None:
    """At one broker: what a killed run leaves is the same with all releases, and each run is a process."""
    count, kills = 1_500, 2
    for broker in brokers[:1]:
        jobs, dead = broker.queue(), broker.queue()
        work = broker.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_message_ttl=0)
        channel = broker.connection.channel()
        for number in range(count):
            identity = {"message_id": str(number)} if number % 2 else {}
            channel.basic_publish("", work, b"%d" % number, pika.BasicProperties(**identity))
        wait_until(lambda: broker.ready(dead) == count)  # noqa: B023
        options = arguments(broker, dead, tmp_path / broker.server.version, "--replay", "queue")
        command = [sys.executable, "-m", "bridge.cli", *options, "--edit", f"{__name__}:send_to"]
        environment = {**os.environ, "JOBS": jobs}
        for kill in range(kills):
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
            enough = kill * count // (kills + 1)
            wait_until(lambda: broker.ready(jobs) > enough or process.poll() is not None)  # noqa: B023
            process.send_signal(signal.SIGKILL)
            process.wait()
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        wait_until(lambda: broker.ready(dead) == 0)  # noqa: B023
        found = Counter(broker.bodies(jobs))
        assert len(found) == count, broker.server.version
        assert found.total() <= count + kills * WINDOW, broker.server.version


def send_to(message: Any) -> Any:
    """Send a message to a queue that keeps it."""
    return replace(message, exchange="", routing_key=os.environ["JOBS"])
