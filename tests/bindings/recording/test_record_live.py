"""``hashstar record`` between a client and live brokers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from tests.support.recorded import recorded
from tests.support.servers import Server
from tests.support.unique import unique_name


@pytest.mark.smoke
def test_what_a_client_declares_at_a_live_broker_is_recorded(rabbitmq_servers: list[Server], tmp_path: Path) -> None:
    for server in rabbitmq_servers:
        name = unique_name("record")
        path = tmp_path / f"{server.version}.jsonl"
        with recorded(f"amqp://{urlsplit(server.url).netloc.rpartition('@')[2]}", path) as proxy:
            connection = pika.BlockingConnection(pika.URLParameters(proxy.url))
            channel = connection.channel()
            channel.queue_declare(name, durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", name, b"kept", mandatory=True)
            assert channel.basic_get(name, auto_ack=True)[2] == b"kept"
            channel.queue_delete(name)
            connection.close()
            assert proxy.stop() == 0, proxy.err
        text = path.read_text("utf-8")
        assert name in text
        assert server.version in text
        assert "kept" not in text
