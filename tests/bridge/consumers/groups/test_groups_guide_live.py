"""The snippets of docs/groups.md run against a broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from bridge.consumers.groups import PartitionedQueue, create
from tests.support.pages import ROOT, blocks
from tests.support.servers import Server
from tests.support.waiting import find_limit

ADDRESS = "amqp://guest:guest@127.0.0.1"


def test_what_the_guide_publishes_the_guide_bills(rabbitmq: Server) -> None:
    publisher, consumer = (
        block.text.replace(ADDRESS, rabbitmq.url).replace('"orders"', f'"guide-{os.getpid()}"')
        for block in blocks(ROOT / "docs" / "groups.md")
        if block.language == "python"
    )
    asyncio.run(create(rabbitmq.url, PartitionedQueue(f"guide-{os.getpid()}"), 3))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    options = {"env": environment, "cwd": ROOT, "text": True}
    subprocess.run([sys.executable, "-W", "error", "-c", publisher], check=True, timeout=find_limit(), **options)  # type: ignore[call-overload]
    command = [sys.executable, "-u", "-W", "error", "-c", consumer]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == "bill order.eu.created\n"
    finally:
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=find_limit())
    assert printed == ""
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
