"""What keeps messages of real brokers from moving is shown everywhere within seconds, until it is repaired."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.bridge.daemon.test_daemon import Running, running
from tests.bridge.daemon.test_metrics import parse_metrics
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import stretch, wait_until

WITHIN = 15.0
"""Maximum number of seconds from a cause until all places show it."""

TOPOLOGY = """
vhost "/"
exchange events: topic
queue good
queue full
queue gone
events -> good: "a.#"
events -> full: "b.#"
events -> gone: "c.#"
"""


@pytest.fixture
def name() -> str:
    return unique_name("health")


@pytest.fixture
def channel(rabbitmq: Server, name: str) -> Iterator[BlockingChannel]:
    """Return a channel, the queue to read, and those to write, one of which takes only two messages."""
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.exchange_declare(f"{name}-events", "fanout")
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, f"{name}-events")
    for each in ("good", "gone"):
        channel.queue_declare(f"{name}-{each}", durable=True)
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    channel.queue_declare(f"{name}-full", durable=True, arguments=full)
    yield channel
    channel.exchange_delete(f"{name}-events")
    for queue in (name, *[f"{name}-{each}" for each in ("good", "full", "gone")]):
        channel.queue_delete(queue)
    connection.close()


def write_config(folder: Path, server: Server, name: str, dead_letters: str = "") -> Path:
    (folder / "t.bindings").write_text(TOPOLOGY)
    url = urlsplit(server.url)
    address = f"amqp://{url.username or 'guest'}:{url.password or 'guest'}@{url.hostname}:{url.port or 5672}"
    queues = ", ".join(f'{each} = "{name}-{each}"' for each in ("good", "full", "gone"))
    path = folder / "bridge.toml"
    exchange = 'exchange = "events"\n' if dead_letters else ""
    path.write_text(
        f'topology = "t.bindings"\nhttp = "127.0.0.1:0"\nlog_format = "json"\n'
        f'[sources.in]\nurl = "{address}"\nqueue = "{name}"\n{exchange}'
        f'[targets.out]\nurl = "{address}"\nqueues = {{ {queues} }}\n{dead_letters}'
    )
    return path


def wait_until_shown(bridge: Running, endpoint: str, kind: str, since: float) -> str:
    """Wait until ``/ready``, the status, a metric and the log show a condition in time; return its reason."""

    def reason() -> str | None:
        rows = [each for each in bridge.status()["conditions"] if (each["endpoint"], each["kind"]) == (endpoint, kind)]
        return rows[0]["reason"] if rows else None

    def series() -> bool:
        _, family = parse_metrics(bridge.request("GET", "/metrics")[1])["hashstar_stalled"]
        labels = frozenset({("endpoint", endpoint), ("kind", kind)})
        return family["hashstar_stalled", labels] == 1

    found: str = wait_until(reason)
    code, body = bridge.request("GET", "/ready")
    assert code == 503
    assert f"({kind} since " in body
    wait_until(series)
    event = bridge.event("condition began", endpoint=endpoint, kind=kind)
    assert event["way_out"]
    assert time.monotonic() - since < stretch(WITHIN)
    return found


def test_a_message_that_no_queue_gets_is_shown_with_the_key_to_write(
    rabbitmq: Server, channel: BlockingChannel, name: str, tmp_path: Path
) -> None:
    with running(write_config(tmp_path, rabbitmq, name)) as bridge:
        wait_until(lambda: bridge.request("GET", "/ready")[0] == 200)
        began = time.monotonic()
        channel.basic_publish("", name, b"straight to the queue")
        reason = wait_until_shown(bridge, "in", "held", began)
        assert "no queue of the topology gets it" in reason
        [condition] = bridge.status()["conditions"]
        assert 'exchange = "..." in [sources.in]' in condition["way_out"]
        assert bridge.status()["sources"][0]["on_hold"] == 1
        assert bridge.status()["fates"] == [{"endpoint": "in", "fate": "hold", "messages": 1}]


def test_queues_that_take_nothing_are_shown_until_they_do(
    rabbitmq: Server, channel: BlockingChannel, name: str, tmp_path: Path
) -> None:
    dead_letters = f'[dead_letters]\nurl = "archive:{tmp_path}/dead"\n'
    with running(write_config(tmp_path, rabbitmq, name, dead_letters)) as bridge:
        wait_until(lambda: bridge.request("GET", "/ready")[0] == 200)
        began = time.monotonic()
        channel.queue_delete(f"{name}-gone")
        for n in range(10):
            for key in ("a", "b", "c"):
                channel.basic_publish(f"{name}-events", f"{key}.{n % 3}", b"%d" % n)
        reason = wait_until_shown(bridge, "out", "backpressure", began)
        wait_until(lambda: "queue full" in bridge.status()["conditions"][0]["reason"])
        assert "takes nothing" in reason
        assert "the oldest message" in wait_until_shown(bridge, "in", "stalled", began)
        target = next(each for each in bridge.status()["targets"] if each["name"] == "out")
        reasons = {each["queue"]: each["reason"] for each in target["waiting"]}
        assert reasons.keys() == {"full", "gone"}
        assert f"queue '{name}-full' is full" in reasons["full"]
        assert f"there is no queue '{name}-gone'" in reasons["gone"]
        assert target["queues"]["good"] == 10

        channel.queue_declare(f"{name}-gone", durable=True)

        def emptied() -> bool:
            channel.queue_purge(f"{name}-full")
            return bridge.request("GET", "/ready")[0] == 200 and not bridge.status()["unsettled"]

        wait_until(emptied)
        bridge.event("condition ended", endpoint="out", kind="backpressure")
        assert not bridge.status()["fates"]
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
