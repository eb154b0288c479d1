"""examples/fastapi_service, run by uvicorn against a broker: it consumes, replies, is healthy, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pika

from tests.support.pages import ROOT
from tests.support.servers import Server
from tests.support.unique import free_port, unique_name
from tests.support.waiting import find_limit


@contextmanager
def service(url: str, queue: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples/fastapi_service"), "service:app"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "AMQP_URL": url, "ORDERS_QUEUE": queue},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            yield client, process
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + find_limit()
    while True:
        try:
            if result := condition():
                return result
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_the_service_consumes_replies_and_leaves_in_order(rabbitmq: Server) -> None:
    """A payment that overtakes its order is retried; SIGTERM ends the process with 0, and the queue is empty."""
    queue = unique_name("fastapi")
    replies: list[Any] = []
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()

    def publish(key: str, body: object, **properties: Any) -> None:
        channel.basic_publish("amq.topic", key, json.dumps(body).encode(), pika.BasicProperties(**properties))

    try:
        with service(rabbitmq.url, queue) as (client, process):
            until(lambda: client.get("/health").json()["consuming"])
            publish("order.eu.paid", {"id": "17"}, message_id="pay")
            until(lambda: "failed" in client.get("/metrics").text)
            publish("order.eu.created", {"id": "17", "total": 5}, message_id="new")
            publish("order.eu.created", {"id": "17", "total": 99}, message_id="new")
            expected = {"id": "17", "total": 5, "region": "eu", "state": "paid"}
            until(lambda: client.get("/orders/17").json() == expected)
            assert client.get("/orders/18").status_code == 404

            channel.basic_consume("amq.rabbitmq.reply-to", lambda *given: replies.append(given), auto_ack=True)
            publish("price.tea", None, reply_to="amq.rabbitmq.reply-to", correlation_id="1")
            while not replies:
                connection.process_data_events(0.1)
            assert json.loads(replies[0][3]) == {"product": "tea", "cents": 1299}
            metrics = client.get("/metrics").text
            assert f'hashstar_deliveries_total{{outcome="failed",queue="{queue}"}} 1.0' in metrics

            publish("order.us.created", {"id": "19"}, message_id="last")
            until(lambda: client.get("/orders/19").status_code == 200)
            process.send_signal(signal.SIGTERM)
            printed, _ = process.communicate(timeout=find_limit())
        assert process.returncode in (0, -signal.SIGTERM), printed  # uvicorn raises the signal again at its end
        assert "Application shutdown complete." in printed
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
        assert channel.queue_declare(f"{queue}.dead", passive=True).method.message_count == 0
    finally:
        for name in (queue, f"{queue}.dead", *(f"{queue}.retry.{delay}" for delay in (500, 5000, 60000))):
            channel.queue_delete(name)
        for name in (f"{queue}.retry", f"{queue}.retried"):
            channel.exchange_delete(name)
        connection.close()
