"""Messages that pika publishes through `hashstar record`, beside the same messages published to the broker directly.

An operation is one message, in microseconds on the clock, from the first that is published to the broker's answer to a
method behind the last one. The proxy is a process of its own, as in use. ``HASHSTAR_BENCH_RABBITMQ`` names the broker's
image, the first one counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pika

from benchmarks.broker import VARIABLE, images, run_broker
from benchmarks.measure import Contestant, run_rounds, show

SIZES: Final = (100, 4_096)
"""Sizes of bodies in bytes."""


def recording(quick: bool) -> None:
    """Measure it."""
    if not images():
        print(f"\nrecording: not measured: {VARIABLE} is not set")
        return
    count, rounds = (20_000, 3) if quick else (100_000, 7)
    with run_broker(images()[0]) as url, tempfile.TemporaryDirectory() as folder:
        broker = urlsplit(url)
        command = [
            sys.executable, "-m", "bridge.cli", "record", "--listen", "0",
            "--upstream", f"amqp://{broker.hostname}:{broker.port}", str(Path(folder, "asked.jsonl")),
        ]  # fmt: skip
        with subprocess.Popen(  # noqa: S603  our own program
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as proxy:
            assert proxy.stdout is not None
            port = proxy.stdout.readline().strip().rpartition(":")[2]
            through = broker._replace(netloc=f"guest:guest@127.0.0.1:{port}").geturl()
            try:
                for size in SIZES:
                    rows = [
                        Contestant("direct", partial(_publish, url, size, count), "floor"),
                        Contestant("through hashstar record", partial(_publish, through, size, count)),
                    ]
                    show(
                        f"recording, bodies of {size:,} bytes",
                        "a message that pika publishes",
                        run_rounds(rows, rounds),
                    )
            finally:
                proxy.terminate()


def _publish(url: str, size: int, count: int) -> float:
    body = b"x" * size
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("bench", durable=True, arguments={"x-max-length": 1})
        begun = time.perf_counter()
        for _ in range(count):
            channel.basic_publish("", "bench", body)
        channel.queue_declare("bench", passive=True)
        return (time.perf_counter() - begun) * 1e6 / count
