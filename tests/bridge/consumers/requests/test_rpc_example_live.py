"""The example of request and reply, and the snippet of the guide, against a broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.support.pages import ROOT, blocks
from tests.support.servers import Server
from tests.support.waiting import find_limit

EXAMPLE = ROOT / "examples/rpc"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def example_server(url: str) -> Iterator[subprocess.Popen[str]]:
    """Run the example's server, and remove what it has declared."""
    command = [sys.executable, "-u", str(EXAMPLE / "server.py"), url]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.queue_delete("prices")
            channel.exchange_delete("shop")


def test_client_and_server_print_what_the_example_shows(rabbitmq: Server) -> None:
    [shown] = re.findall(r"```text\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    with example_server(rabbitmq.url) as server:
        command = [sys.executable, str(EXAMPLE / "client.py"), rabbitmq.url]
        limit = find_limit()
        client = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=limit, check=True)
        assert client.stdout == shown
        server.terminate()
        errors = server.communicate(timeout=find_limit())[1]
        assert server.returncode == 0
        assert "failed: rejected" in errors


def test_the_snippet_of_the_guide_runs(rabbitmq: Server, capsys: pytest.CaptureFixture[str]) -> None:
    [block] = [each for each in blocks(Path(ROOT / "docs/requests.md")) if "Requester(" in each.text]
    assert "amqp://guest:guest@localhost/" in block.text
    source = block.text.replace("amqp://guest:guest@localhost/", rabbitmq.url)
    with example_server(rabbitmq.url):
        exec(compile(source, str(block), "exec"), {"__name__": "snippet"})  # noqa: S102
    assert capsys.readouterr().out == block.output
