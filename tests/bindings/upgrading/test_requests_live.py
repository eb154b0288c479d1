"""What is foretold of recorded requests is what brokers answer: recorded by real clients, and drawn at random.

``HASHSTAR_UPGRADE_REQUESTS=20000`` makes it long.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import aio_pika
import kombu
import pika
import pika.exceptions
import pytest

from bindings.applying.address import Addresses
from bindings.sources.recording.model import Recording
from bindings.upgrading.live.comparing import ask_broker
from bindings.upgrading.live.fresh_host import PREFIX
from bindings.upgrading.releases import release_of
from bindings.upgrading.requests.replay import replay
from exchange import Topology
from tests.support.differential import manage
from tests.support.program import invoke
from tests.support.recorded import recorded
from tests.support.recordings import random_recording, random_topology, text_of
from tests.support.servers import addresses_of
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

if TYPE_CHECKING:
    from tests.support.servers import Server

REQUESTS = int(os.environ.get("HASHSTAR_UPGRADE_REQUESTS", "240"))
"""Number of random requests for each broker."""
ROUND = 40
NAME = unique_name("record")
ROOT = Path(__file__).parents[3]


def with_pika(url: str) -> None:
    """Do what pika's users do, refusals included."""
    lazy = {"x-queue-mode": "lazy"}
    queues: dict[str, dict[str, Any]] = {"durable": {"durable": True}, "lazy": {"durable": True, "arguments": lazy}}
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for name, options in queues.items():
        channel.queue_declare(f"{NAME}-{name}", **options)
    channel.queue_declare(f"{NAME}-old", durable=True, arguments={"x-queue-version": 1})
    channel.queue_declare(f"{NAME}-transient")
    reply = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare(f"{NAME}-events", "topic", durable=True)
    channel.queue_bind(reply, f"{NAME}-events", "#.a.#.b.#")
    channel.basic_qos(prefetch_count=3, global_qos=True)
    channel.basic_consume(f"{NAME}-durable", lambda *_: None)
    channel.basic_publish(f"{NAME}-events", "some.key", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare(f"{NAME}-durable", durable=False)
    connection.close()
    parameters = pika.URLParameters(url)
    parameters.frame_max = 4096
    pika.BlockingConnection(parameters).close()


def with_aio_pika(url: str) -> None:
    async def ignore(message: Any) -> None:
        """Take a message that does not come."""

    async def run() -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(
                f"{NAME}-quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 5}
            )
            exchange = await channel.declare_exchange(f"{NAME}-internal", "fanout", durable=True, internal=True)
            await exchange.bind(f"{NAME}-events", "k")
            await queue.bind(f"{NAME}-events", "order.*")
            await queue.consume(ignore, exclusive=True)

    asyncio.run(run())


def with_kombu(url: str) -> None:
    with kombu.Connection(url) as connection:
        tasks = kombu.Exchange(f"{NAME}-tasks", "direct")
        options: list[dict[str, Any]] = [
            {},
            {"max_priority": 5},
            {"expires": 60.0, "auto_delete": True, "durable": False},
        ]
        for number, each in enumerate(options):
            queue = kombu.Queue(f"{NAME}-kombu-{number}", tasks, f"k{number}", **each)
            with connection.Producer() as producer:
                producer.publish({}, exchange=tasks, routing_key=f"k{number}", declare=[queue])
            consumer = connection.Consumer(queue, callbacks=[lambda body, message: message.ack()])
            consumer.qos(prefetch_count=4, apply_global=True)
            with consumer:
                connection.drain_events(timeout=find_limit())


def clean(server: Server) -> None:
    for kind in ("queues", "exchanges"):
        for found in manage(server, "GET", f"{kind}/%2F"):
            if found["name"].startswith(NAME):
                manage(server, "DELETE", f"{kind}/%2F/{found['name']}")


run = partial(invoke, "upgrade")


def test_what_clients_ask_of_the_oldest_broker_is_answered_by_newer_ones_as_foretold(
    rabbitmq_servers: list[Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded through the proxy; then the command asks each newer broker, and no answer differs."""
    oldest, *newer = sorted(rabbitmq_servers, key=lambda server: server.version_info)
    addresses = {server.version: addresses_of(server) for server in rabbitmq_servers}
    if not newer:
        pytest.skip("needs brokers of two releases")
    with recorded(addresses[oldest.version][1], tmp_path / "asked.jsonl") as proxy:
        for work in (with_pika, with_aio_pika, with_kombu):
            work(proxy.url)
        assert proxy.stop() == 0
    clean(oldest)
    assert not proxy.recording.unread
    (tmp_path / "empty.bindings").write_text('vhost "/"\n')
    for server in newer:
        management, amqp = addresses[server.version]
        result = run(
            str(tmp_path / "empty.bindings"), "--from", ".".join(oldest.version.split(".")[:2]), "--format", "json",
            "--declares", str(proxy.path), "--live", management, "--other-address", amqp, "--fail-on", "never",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        shown = json.loads(result.stdout)
        live = shown["live"]
        assert (live["foretold_not_seen"], live["seen_not_foretold"]) == ([], [])
        assert live["accepted"] > 20
        asked = {(each["method"], each["arguments"].get("queue")): each for each in shown["applications"]["refused"]}
        changed = [each["fact"] for each in shown["applications"]["changed"]]
        if server.version_info >= (4, 3):
            assert asked["queue.declare", f"{NAME}-old"]["code"] == 406
            assert asked["connection.tune-ok", None]["fact"] == "HSU103"
            assert "HSU104" in changed
        assert not [each for each in manage(server, "GET", "vhosts") if each["name"].startswith(PREFIX)]
        with capsys.disabled():
            refused = len(live["foretold_and_seen"])
            print(f"\n{server.version}: {live['accepted']} calls accepted, {refused} refused, as foretold")


def test_random_requests_are_answered_as_foretold(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    for server in rabbitmq_servers:
        addresses = Addresses.parse(*addresses_of(server))
        release, asked, refused = release_of(server.version), 0, 0
        for number in range(-(-REQUESTS // ROUND)):
            rng = Random(f"requests/{number}")
            topology, made = random_topology(rng, release.profile), random_recording(rng, ROUND)
            shown = ask_broker(
                addresses, [topology], [made], [[]], release, seconds=120
            )  # fmt: skip
            where = (server.version, number, topology.queues, text_of(made))
            assert (shown.not_seen, shown.not_foretold, shown.not_asked) == ([], [], 0), where
            asked += shown.accepted + len(shown.seen)
            refused += len(shown.seen)
        with capsys.disabled():
            print(f"\n{server.version}: {asked:,} calls, {refused:,} refused, 0 differences")
        assert refused > asked // 10


def test_the_replay_of_a_recording_is_the_same_each_time() -> None:
    def calls(made: Recording) -> list[Any]:
        return [ask[:3] for ask in replay(Topology(), [made], release_of("4.3"))]

    made = random_recording(Random("replay"))
    assert calls(made) == calls(made)


SHOP = """
exchange h: headers
exchange orders: topic, alternate-exchange = "lost"
exchange lost: fanout
exchange ring: x-consistent-hash
queue jobs: classic, x-queue-version = 2, x-message-ttl = 1, x-max-length = 0
queue lost
queue left
queue right
h -> jobs: all { n = 1 }
h -> lost: any { at = !timestamp 5 }
orders -> jobs: "order.#"
lost -> lost
ring -> left: "1"
ring -> right: "1"
policy ttl: "^jobs", queues, max-length = 5
"""


@pytest.mark.smoke
def test_a_topology_and_its_messages_are_tried_on_the_broker(rabbitmq_servers: list[Server], tmp_path: Path) -> None:
    """The queues drop all at once, and yet the messages are found: they go to plain queues."""
    (tmp_path / "shop.bindings").write_text(SHOP)
    for server in rabbitmq_servers:
        if server.version_info < (3, 13):
            continue
        management, amqp = addresses_of(server)
        arguments = (str(tmp_path / "shop.bindings"), "--from", "3.12", "--live", management, "--other-address", amqp)
        result = run(*arguments, "--format", "json", "--fail-on", "never")
        assert result.exit_code == 0, result.output
        live = json.loads(result.stdout)["live"]
        assert (live["foretold_not_seen"], live["seen_not_foretold"], live["not_asked"]) == ([], [], 0)
        assert live["messages"] >= 2
        assert live["accepted"] >= 15
        assert run(*arguments, "--to", "3.13").exit_code == 2


def test_ctrl_c_deletes_the_virtual_hosts(rabbitmq: Server, tmp_path: Path) -> None:
    queues = "".join(f"queue q{number}\n" for number in range(5_000))
    (tmp_path / "many.bindings").write_text(queues)
    management, amqp = addresses_of(rabbitmq)
    if rabbitmq.version_info < (3, 13):
        pytest.skip("needs a release after 3.12")
    command = [sys.executable, "-m", "bridge.cli", "upgrade", str(tmp_path / "many.bindings"), "--from", "3.12"]
    command += ["--live", management, "--other-address", amqp]

    def hosts() -> list[str]:
        return [each["name"] for each in manage(rabbitmq, "GET", "vhosts") if each["name"].startswith(PREFIX)]

    def interrupt() -> int:
        """Start the command, send SIGINT once it has a virtual host, and return its exit code."""
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
        deadline = time.monotonic() + find_limit()
        while not hosts() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=find_limit())
        assert hosts() == []
        return code

    # Python drops a KeyboardInterrupt that comes while it runs a callback of a weak reference: the command then ends as
    # if nobody had interrupted it.
    codes = [interrupt()]
    while codes[-1] == 0 and len(codes) < 3:
        codes.append(interrupt())
    assert codes[-1] == 130
