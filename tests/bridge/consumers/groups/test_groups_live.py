"""Consumer groups on a real RabbitMQ, by the command and by processes that are killed and stopped.

The scenario is small; ``HASHSTAR_GROUP_MESSAGES=1000000`` makes it whole, as `docs/groups.md` reports it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from bridge.consumers.groups import ConsumerGroup, PartitionedQueue, Publisher, create, describe, resize
from bridge.consumers.groups.barrier import GATE
from bridge.consumers.groups.connection import connect
from exchange.errors import InputError
from exchange.partition.slots import place_slots
from exchange.values.message import Message
from tests.support.bridge.groups.scenario import Findings, Members, find, start_module
from tests.support.program import Done, run_program
from tests.support.servers import Server
from tests.support.waiting import find_limit, until

ROOT = Path(__file__).parents[4]
MESSAGES = int(os.environ.get("HASHSTAR_GROUP_MESSAGES", "4000"))
RATE = float(os.environ.get("HASHSTAR_GROUP_RATE", "1500"))
NAMES = count()


@pytest.fixture
def name() -> str:
    """Return the name of a partitioned queue that no other test has."""
    return f"groups-test-{os.getpid()}-{next(NAMES)}"


def choose_servers(servers: list[Server], queue_type: str) -> list[Server]:
    """Return all servers for the whole scenario, else one for each type of queue."""
    return servers if MESSAGES > 100_000 else servers[-1:] if queue_type == "quorum" else servers[:1]


def run_command(server: Server, *arguments: str) -> Done:
    """Run ``hashstar group``."""
    return run_program("group", *arguments, "--url", server.url)


class Received:
    """What handlers got, of messages that have a key and a number in their headers."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}
        self.out_of_order = 0
        self.duplicates = 0

    async def handle(self, message: Message) -> None:
        """Take a message."""
        key, number = message.headers["key"], message.headers["number"]
        expected = self.next.get(key, 0)
        self.out_of_order += number > expected
        self.duplicates += number < expected
        self.next[key] = max(expected, number + 1)

    @property
    def count(self) -> int:
        """Number of different messages, if none is missing."""
        return sum(self.next.values())


def messages(keys: int, rounds: range) -> Iterator[Message]:
    """Yield messages: one of each key, then the next one of each."""
    return (
        Message(routing_key=f"order.k{key}", headers={"key": f"k{key}", "number": number})
        for number in rounds
        for key in range(keys)
    )


@asynccontextmanager
async def member(server: Server, name: str, received: Received) -> AsyncIterator[None]:
    """Run a member while the block runs."""
    group = ConsumerGroup(server.url, name, received.handle)
    running = asyncio.create_task(group.run())
    try:
        yield
    finally:
        group.stop()
        await running


async def publish(server: Server, name: str, published: Iterable[Message]) -> None:
    """Publish messages, and wait until the broker has them."""
    async with Publisher(server.url, name) as publisher:
        await publisher.publish_all(published)


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
def test_members_join_leave_and_partitions_grow_and_shrink_in_order(
    rabbitmq_servers: list[Server], name: str, queue_type: str
) -> None:
    async def run(server: Server) -> Received:
        queue = PartitionedQueue(name, 32, "quorum" if queue_type == "quorum" else "classic")
        assert await create(server.url, queue, 3)
        assert not await create(server.url, queue, 3)
        received = Received()
        groups = [ConsumerGroup(server.url, name, received.handle, concurrency=1 + at % 2) for at in range(3)]
        running = [asyncio.create_task(group.run()) for group in groups[:2]]
        async with Publisher(server.url, name, key='header "key"') as publisher:
            await publisher.publish_all(messages(50, range(10)))
            running.append(asyncio.create_task(groups[2].run()))
            publishing = asyncio.create_task(publisher.publish_all(messages(50, range(10, 50)), window=50))
            assert await resize(server.url, name, 7, grace=0.3)
            assert not await resize(server.url, name, 7)
            await publishing
            groups[0].stop()
            await running[0]
            publishing = asyncio.create_task(publisher.publish_all(messages(50, range(50, 80)), window=50))
            assert await resize(server.url, name, 2, grace=0.3)
            await publishing
        await until(lambda: received.count == 50 * 80)
        described = await describe(server.url, name)
        assert [len(partition.holders) for partition in described.partitions] == [1, 1]
        assert described.state.resize is None
        for group in groups:
            group.stop()
        await asyncio.gather(*running)
        return received

    for server in choose_servers(rabbitmq_servers, queue_type):
        received = asyncio.run(run(server))
        assert received.out_of_order == 0


@pytest.mark.smoke
def test_handing_over_calls_the_application_in_order(rabbitmq: Server, name: str) -> None:
    """Revoked comes after the last message of the old owner, and before assigned at the new one."""
    calls: list[tuple[str, str, int]] = []

    def group_of(who: str) -> ConsumerGroup:
        async def handle(message: Message) -> None:
            calls.append((who, "began", 0))
            await asyncio.sleep(0.01)
            calls.append((who, "ended", 0))

        return ConsumerGroup(
            rabbitmq.url, name, handle, name=who, prefetch=5,
            on_assigned=lambda number: calls.append((who, "assigned", number)),
            on_revoked=lambda number: calls.append((who, "revoked", number)),
        )  # fmt: skip

    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8, "classic"), 1)
        first, second = group_of("first"), group_of("second")
        tasks = [asyncio.create_task(first.run())]
        async with Publisher(rabbitmq.url, name) as publisher:
            await publisher.publish_all(Message(routing_key="a") for _ in range(300))
        await until(lambda: ("first", "ended", 0) in calls)
        tasks.append(asyncio.create_task(second.run()))
        await until(lambda: second.plan is not None and len(second.plan.assignment) == 2)
        first.stop()
        await tasks[0]
        await until(lambda: ("second", "ended", 0) in calls)
        second.stop()
        await tasks[1]

    asyncio.run(run())
    handover = calls.index(("first", "revoked", 0))
    assert calls[handover - 1] == ("first", "ended", 0)
    assert all(who == "second" for who, _, _ in calls[handover + 1 :])
    assert calls[handover + 1] == ("second", "assigned", 0)
    assert calls[0] == ("first", "assigned", 0)


def test_a_handler_that_raises_ends_the_member_and_loses_nothing(rabbitmq: Server, name: str) -> None:
    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8), 2)
        async with Publisher(rabbitmq.url, name) as publisher:
            await publisher.publish_all(Message(routing_key=f"k{number}") for number in range(20))

        def fail(message: Message) -> None:
            raise ZeroDivisionError(message.routing_key)

        with pytest.raises(ZeroDivisionError):
            await ConsumerGroup(rabbitmq.url, name, fail).run()
        got: set[str] = set()
        group = ConsumerGroup(rabbitmq.url, name, lambda message: got.add(message.routing_key))
        task = asyncio.create_task(group.run())
        await until(lambda: len(got) == 20)
        group.stop()
        await task

    asyncio.run(run())


def test_rejected_messages_leave_and_the_rest_goes_on(rabbitmq: Server, name: str) -> None:
    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8), 1)
        got: list[str] = []

        def handle(message: Message) -> None:
            if message.routing_key == "bad":
                raise ValueError(message.routing_key)
            got.append(message.routing_key)

        group = ConsumerGroup(rabbitmq.url, name, handle, on_error="dead-letter")
        task = asyncio.create_task(group.run())
        async with Publisher(rabbitmq.url, name) as publisher:
            await publisher.publish_all(Message(routing_key=key) for key in ("a", "bad", "b"))
        await until(lambda: sorted(got) == ["a", "b"])
        group.stop()
        await task
        assert (await describe(rabbitmq.url, name, listen=0.1)).lag == 0

    asyncio.run(run())


def test_a_function_of_the_application_that_raises_ends_the_member(rabbitmq: Server, name: str) -> None:
    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8), 1)

        def fail(partition: int) -> None:
            raise OSError(f"no state of {partition}")

        with pytest.raises(OSError, match="no state of 0"):
            await ConsumerGroup(rabbitmq.url, name, print, on_assigned=fail).run()

    asyncio.run(asyncio.wait_for(run(), find_limit()))


def test_messages_that_look_like_gates_are_dropped_and_stop_nothing(rabbitmq: Server, name: str) -> None:
    async def run() -> None:
        from pamqp.commands import Basic

        await create(rabbitmq.url, PartitionedQueue(name, 8), 1)
        connection = await connect(rabbitmq.url, "test", 10)
        channel = await connection.channel()
        hostile = (b"", b"{}", b"[" * 10_000)
        for body in hostile:
            await channel.basic_publish(body, routing_key=f"{name}-0", properties=Basic.Properties(message_type=GATE))
        got: list[str] = []
        group = ConsumerGroup(rabbitmq.url, name, lambda message: got.append(message.routing_key))
        task = asyncio.create_task(group.run())
        await until(lambda: group.plan is not None)
        for body in hostile:
            await channel.basic_publish(body, exchange=f"{name}.members")
        await connection.close()
        async with Publisher(rabbitmq.url, name) as publisher:
            await publisher.publish(Message(routing_key="a"))
        await until(lambda: got == ["a"])
        group.stop()
        await task

    asyncio.run(run())


def test_a_resize_that_was_interrupted_is_completed_by_the_next_one(rabbitmq: Server, name: str) -> None:
    async def run() -> Received:
        await create(rabbitmq.url, PartitionedQueue(name, 16), 2)
        received = Received()
        async with Publisher(rabbitmq.url, name, key='header "key"') as publisher:
            await publisher.publish_all(messages(30, range(5)))
            for steps in range(1, 6):  # each attempt is ended at another step; nobody consumes yet
                began: list[str] = []
                attempt = asyncio.create_task(resize(rabbitmq.url, name, 5, grace=0.1, report=began.append))
                await until(lambda began=began, steps=steps: len(began) >= steps)  # type: ignore[misc]
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
                await publisher.publish_all(messages(30, range(5 * steps, 5 * steps + 5)))
            with pytest.raises(InputError, match="a change to 5 partitions is not complete"):
                await resize(rabbitmq.url, name, 6)
            group = ConsumerGroup(rabbitmq.url, name, received.handle)
            task = asyncio.create_task(group.run())
            assert await resize(rabbitmq.url, name, 5, grace=0.1)
            await publisher.publish_all(messages(30, range(30, 35)))
        await until(lambda: received.count == 30 * 35)
        assert (await describe(rabbitmq.url, name, listen=1.0)).unowned == ()
        group.stop()
        await task
        return received

    received = asyncio.run(asyncio.wait_for(run(), find_limit()))
    assert received.out_of_order == 0


def test_the_state_outlives_any_number_of_readers(rabbitmq_servers: list[Server], name: str) -> None:
    """By default a quorum queue of RabbitMQ 4 drops what was put back twenty times."""

    async def run(url: str) -> None:
        await create(url, PartitionedQueue(name, 8), 1)
        for _ in range(30):
            async with Publisher(url, name):
                pass

    for server in rabbitmq_servers:
        asyncio.run(run(server.url))


@pytest.mark.smoke
def test_the_command_creates_describes_and_resizes(rabbitmq: Server, name: str) -> None:
    created = run_command(rabbitmq, "create", name, "--partitions", "3", "--slots", "16")
    assert (created.returncode, created.stdout) == (0, f"{name}: 3 partitions\n")
    again = run_command(rabbitmq, "create", name, "--partitions", "3", "--slots", "16")
    assert (again.returncode, again.stdout) == (0, f"{name}: 3 partitions, unchanged\n")
    other = run_command(rabbitmq, "create", name, "--partitions", "4", "--slots", "16")
    assert other.returncode == 2
    assert "exists with 3 partitions" in other.stderr
    described = run_command(rabbitmq, "describe", name, "--for", "0.2")
    assert described.returncode == 1  # nobody consumes
    assert "3 partitions (quorum), 16 slots, 0 members" in described.stdout
    as_json = run_command(rabbitmq, "describe", name, "--for", "0.2", "--format", "json")
    assert json.loads(as_json.stdout)["unowned"] == [0, 1, 2]
    metrics = run_command(rabbitmq, "describe", name, "--for", "0.2", "--format", "prometheus").stdout
    assert f'hashstar_group_unowned{{queue="{name}"}} 3\n' in metrics
    missing = run_command(rabbitmq, "describe", f"{name}-not")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert f"there is no partitioned queue '{name}-not'" in missing.stderr
    too_many = run_command(rabbitmq, "resize", name, "--partitions", "17")
    assert too_many.returncode == 2
    assert "17 partitions for 16 slots" in too_many.stderr


def test_a_dry_run_changes_nothing_and_says_what_would_be_done(rabbitmq: Server, name: str) -> None:
    options = ("--slots", "16", "--dry-run")
    planned = run_command(rabbitmq, "create", name, "--partitions", "3", *options)
    assert (planned.returncode, planned.stdout) == (0, f"{name}: 3 partitions would be declared; nothing was changed\n")
    assert run_command(rabbitmq, "describe", name).returncode == 2  # it is not there
    assert run_command(rabbitmq, "create", name, "--partitions", "3", "--slots", "16").returncode == 0
    assert run_command(rabbitmq, "create", name, "--partitions", "3", *options).stdout.endswith(", unchanged\n")
    planned = run_command(rabbitmq, "resize", name, "--partitions", "4", "--dry-run")
    assert planned.stdout == f"{name}: 4 partitions would be the new number; nothing was changed\n"
    assert "3 partitions become 4: " in planned.stderr
    assert "3 partitions (quorum)" in run_command(rabbitmq, "describe", name, "--for", "0.2").stdout


def test_a_resize_without_members_names_what_is_missing_and_ends_in_time(rabbitmq: Server, name: str) -> None:
    """Also of a partition that looks empty for its one message is no marker."""
    assert run_command(rabbitmq, "create", name, "--partitions", "2", "--slots", "16").returncode == 0
    asyncio.run(publish(rabbitmq, name, messages(16, range(1))))
    stuck = run_command(rabbitmq, "resize", name, "--partitions", "3", "--grace", "0", "--wait", "200ms")
    assert stuck.returncode != 0
    assert "no member consumes 0, 1: start one" in stuck.stderr
    assert "not done within 0.2 s" in stuck.stderr

    async def consume() -> int:
        received = Received()
        async with member(rabbitmq, name, received):
            await resize(rabbitmq.url, name, 3, grace=0)
            await until(lambda: received.count == 16)
        return received.out_of_order

    assert asyncio.run(consume()) == 0  # what was stuck is completed, and each message was handled


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
def test_empty_partitions_without_members_are_resized_at_once(rabbitmq: Server, name: str, queue_type: str) -> None:
    create_it = ("create", name, "--partitions", "2", "--slots", "16", "--queue-type", queue_type)
    assert run_command(rabbitmq, *create_it).returncode == 0
    for partitions in ("5", "3"):
        done = run_command(rabbitmq, "resize", name, "--partitions", partitions, "--grace", "0")
        assert done.returncode == 0, done.stderr
        assert "has nothing to wait for, and no member" in done.stderr
        described = run_command(rabbitmq, "describe", name, "--for", "0.2").stdout
        assert f"{partitions} partitions ({queue_type})" in described

    async def consume() -> Received:
        received = Received()
        await publish(rabbitmq, name, messages(32, range(3)))
        async with member(rabbitmq, name, received):
            await until(lambda: received.count == 96)
        return received

    received = asyncio.run(consume())
    assert (received.count, received.out_of_order) == (96, 0)


def test_the_example_bills_each_order_once_in_order(rabbitmq: Server, name: str, tmp_path: Path) -> None:
    assert run_command(rabbitmq, "create", name, "--partitions", "4").returncode == 0
    example = ROOT / "examples" / "consumer_group"
    options = ["--url", rabbitmq.url, "--queue", name]
    outputs = [tmp_path / f"{number}.txt" for number in range(2)]
    members = []
    for output in outputs:
        with output.open("w") as out:
            members.append(subprocess.Popen([sys.executable, example / "consume.py", *options], stdout=out, cwd=ROOT))
    try:
        published = subprocess.run(
            [sys.executable, example / "publish.py", *options, "--count", "400"],
            capture_output=True, text=True, timeout=find_limit(), check=True, cwd=ROOT,
        )  # fmt: skip
        assert published.stdout == "published 400 orders\n"
        billed: list[str] = []
        ends = time.monotonic() + find_limit()
        while len(billed) < 400 and time.monotonic() < ends:
            time.sleep(0.05)
            billed = re.findall(r"^billed order .*", "".join(output.read_text() for output in outputs), re.MULTILINE)
        for member in members:
            member.send_signal(signal.SIGTERM)
        assert [member.wait(find_limit()) for member in members] == [0, 0]
    finally:
        for member in members:
            member.kill()
    for output in outputs:
        numbers: dict[str, list[int]] = {}
        for number, customer in re.findall(r"^billed order (\d+) of (c\d+) ", output.read_text(), re.MULTILINE):
            numbers.setdefault(customer, []).append(int(number))
        assert all(of_one == sorted(of_one) for of_one in numbers.values())
    assert len(set(billed)) == 400


@pytest.mark.parametrize("queue_type", ["quorum", "classic"] if MESSAGES > 100_000 else ["quorum"])
@pytest.mark.timeout(3600 if MESSAGES > 100_000 else 600)
def test_kills_and_pauses_lose_nothing_and_keep_the_order(
    rabbitmq_servers: list[Server], name: str, queue_type: str, tmp_path: Path
) -> None:
    """Three members become ten, then two; some are killed, some are stopped for ten seconds.

    The small scenario has queues of the default type alone.
    """
    whole = MESSAGES > 100_000
    for at, server in enumerate(choose_servers(rabbitmq_servers, queue_type)):
        folder = tmp_path / str(at)
        folder.mkdir()
        findings = run_scenario(server, name, queue_type, folder, whole=whole)
        print(f"{server.version}, {queue_type}: {findings}")
        assert findings.lost == 0
        assert findings.out_of_order == 0
        assert findings.worst_moves == []
        if whole:  # how long it takes says how busy the machine is
            assert findings.longest_gap < 5


def run_scenario(server: Server, name: str, queue_type: str, folder: Path, *, whole: bool) -> Findings:
    """Run the scenario: whole, or with fewer members and shorter pauses."""
    keys = 10_000 if whole else 500
    each = MESSAGES // keys
    partitions = 20 if whole else 8
    queue = PartitionedQueue(name, 256, "quorum" if queue_type == "quorum" else "classic")
    asyncio.run(create(server.url, queue, partitions))
    partition_of = asyncio.run(find_partitions(server, name, keys, partitions))
    members = Members(server.url, name, folder)
    more, pause = (7, 10.0) if whole else (2, 3.5)

    def wait_for(share: float) -> None:
        ends = time.monotonic() + (3000 if whole else find_limit())
        while members.handled() < share * keys * each:
            assert time.monotonic() < ends, f"{members.handled()} of {keys * each} messages are handled"
            time.sleep(0.05)

    steps: list[tuple[float, Callable[[], None]]] = [
        (0.10, lambda: members.start(more)),
        (0.25, members.kill),
        (0.30, lambda: members.pause(pause)),
        (0.50, lambda: members.stop(1)),
        (0.60, lambda: members.pause(pause, 1)),
        (0.70, members.kill),
        (0.80, lambda: members.stop(len(members.processes) - 2)),
    ]
    members.start(3)
    publishing = start_module("publish", server.url, name, str(keys), str(each), str(RATE), log=folder / "publish.log")
    try:
        for share, step in steps:
            wait_for(share)
            step()
        assert publishing.wait(3000) == 0
        wait_for(1.0)
        time.sleep(0.5)  # what comes again is counted, too
        members.stop(len(members.processes))
    finally:
        publishing.kill()
        publishing.wait()
        members.end()
    return find(folder, keys, each, partition_of.__getitem__)


async def find_partitions(server: Server, name: str, keys: int, partitions: int) -> list[int]:
    """Return the partition of each key."""
    placed = place_slots(256, partitions)
    async with Publisher(server.url, name) as publisher:
        return [placed[publisher.slot_of(Message(routing_key=f"key.{key}"))] for key in range(keys)]


def test_handlers_are_awaited(rabbitmq: Server, name: str) -> None:
    """A handler that returns any awaitable is awaited before its message is acknowledged."""

    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8), 1)
        ended: list[str] = []

        async def later(message: Message) -> None:
            await asyncio.sleep(0.05)
            ended.append(message.routing_key)

        def handle(message: Message) -> Awaitable[None]:
            return later(message)

        group = ConsumerGroup(rabbitmq.url, name, handle)
        task = asyncio.create_task(group.run())
        async with Publisher(rabbitmq.url, name) as publisher:
            await publisher.publish(Message(routing_key="a"))
        await until(lambda: bool(group.partitions) and group.partitions[0].handled == 1)
        assert ended == ["a"]
        group.stop()
        await task

    asyncio.run(run())


def test_a_member_whose_connections_are_closed_joins_again(rabbitmq: Server, name: str) -> None:
    """As after a restart of the broker: what it had is lost, and comes again."""
    calls: list[tuple[str, int]] = []
    received = Received()

    async def run() -> None:
        await create(rabbitmq.url, PartitionedQueue(name, 8), 2)
        group = ConsumerGroup(
            rabbitmq.url, name, received.handle, name=name,
            on_assigned=lambda number: calls.append(("assigned", number)),
            on_lost=lambda number: calls.append(("lost", number)),
        )  # fmt: skip
        task = asyncio.create_task(group.run())
        await until(lambda: len(calls) == 2)
        first = group.member
        assert await asyncio.to_thread(close_connections, rabbitmq, name) == 2
        async with Publisher(rabbitmq.url, name, key='header "key"') as publisher:
            await publisher.publish_all(messages(10, range(10)))
        await until(lambda: received.count == 100)
        assert group.member not in (None, first)
        group.stop()
        await task

    asyncio.run(run())
    assert sorted(calls[:4]) == [("assigned", 0), ("assigned", 1), ("lost", 0), ("lost", 1)]
    assert received.out_of_order == 0


def close_connections(server: Server, name: str) -> int:
    """Close the connections of a member by the management API, which knows them after a while; return their number."""
    if server.management_url is None:
        pytest.skip("the broker has no management API")
    token = base64.b64encode(b"guest:guest").decode()
    ends = time.monotonic() + find_limit()

    def ask(method: str, path: str) -> bytes:
        address = f"{server.management_url}/api/connections{path}"
        request = urllib.request.Request(address, method=method, headers={"Authorization": f"Basic {token}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=find_limit()) as answer:  # noqa: S310
            return bytes(answer.read())

    while True:
        found = [
            each["name"]
            for each in json.loads(ask("GET", ""))
            if each.get("client_properties", {}).get("connection_name", "").startswith(f"{name}-")
        ]
        if len(found) == 2 or time.monotonic() > ends:
            break
        time.sleep(0.2)
    for each in found:
        ask("DELETE", f"/{urllib.parse.quote(each, safe='')}")
    return len(found)
