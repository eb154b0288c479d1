"""``python -m tests.dist.container``: build the image of examples/container from ``dist/`` and run a bridge in it.

The image must run without root, with a read-only file system and without capabilities; become healthy while it moves
messages between two queues of a live RabbitMQ; and after SIGTERM settle what it read and end with 0. No message may be
lost. ``HASHSTAR_CONTAINER_BASE`` names a Debian 13 (default: debian:trixie-slim).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import pika

from tests.dist.__main__ import DIST, ROOT, output, step, write_requirements
from tests.support.servers import SERVERS, Server, server_set
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

IMAGE: Final = f"hashstar/bridge:dist-{sha256(str(ROOT).encode()).hexdigest()[:8]}"
"""The same in each run of a checkout, and another one for each checkout."""
EXTRAS: Final = "rabbitmq,kafka"
PYTHON: Final = "3.13"
"""The Python of Debian 13, for which wheels are fetched."""
MESSAGES: Final = 40_000

CONFIG: Final = """\
topology = "shop.bindings"

[sources.in]
url = "{url}"
queue = "{source}"

[targets.out]
url = "{url}"
queues = {{ all = "{target}" }}
"""
EXCHANGE: Final = unique_name("container")
SHOP: Final = f'vhost "/"\nexchange {EXCHANGE}: fanout\nqueue all\n{EXCHANGE} -> all\n'


@click.command()
def main() -> None:
    """Build the image and try it."""
    with TemporaryDirectory() as folder:
        with step("build the image"):
            build_image(Path(folder) / "context")
        with server_set(SERVERS["rabbitmq"]) as servers, step(f"run it beside RabbitMQ {servers.first().version}"):
            moved = try_image(Path(folder) / "etc", servers.first())
    size = int(output(["docker", "image", "inspect", "-f", "{{.Size}}", IMAGE]))
    click.echo(f"{IMAGE}: {size / 1e6:.0f} MB; {moved:,} of {MESSAGES:,} messages were moved before SIGTERM, none lost")


def build_image(context: Path) -> None:
    """Build the image from the wheel in ``dist/`` and wheels of its dependencies, without network in pip."""
    shutil.copytree(ROOT / "examples/container", context)
    wheels = context / "wheels"
    wheels.mkdir(exist_ok=True)
    wheel = next(DIST.glob("*.whl"))
    shutil.copy(wheel, wheels)
    options = ["--quiet", "--python-version", PYTHON, "--only-binary=:all:", "--dest", str(wheels)]
    requirements = write_requirements(context, *EXTRAS.split(","))
    output([sys.executable, "-m", "pip", "download", *options, "--requirement", requirements])
    base = os.environ.get("HASHSTAR_CONTAINER_BASE", "debian:trixie-slim")
    arguments = {"BASE": base, "EXTRAS": EXTRAS, "PIP_NO_INDEX": "1"}
    given = [text for name, value in arguments.items() for text in ("--build-arg", f"{name}={value}")]
    output(["docker", "build", "--quiet", "--network", "host", *given, "--tag", IMAGE, str(context)])


def try_image(etc: Path, server: Server) -> int:
    """Move messages by a bridge in the container until it is ended by SIGTERM, and return how many it moved."""
    url = f"amqp://guest:guest@{server.inside}/%2F"
    names = {side: unique_name(f"container-{side}") for side in ("source", "target")}
    etc.mkdir()
    (etc / "bridge.toml").write_text(CONFIG.format(url=url, **names))
    (etc / "shop.bindings").write_text(SHOP)
    etc.chmod(0o755)
    with queues(server, *names.values()) as channel:
        channel.exchange_declare(EXCHANGE, "fanout", auto_delete=True)
        channel.queue_bind(names["source"], EXCHANGE)
        publish(channel, range(MESSAGES // 2))
        limits = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", "256m"]
        given = ["--volume", f"{etc}:/etc/hashstar:ro", "--stop-timeout", "60"]
        container = output(["docker", "run", "--detach", *limits, *given, IMAGE]).strip()
        try:
            wait_until_healthy(container)
            publish(channel, range(MESSAGES // 2, MESSAGES))  # at which it is, when SIGTERM comes
            output(["docker", "stop", container])
            state = inspect(container)
            if state["ExitCode"] != 0 or state["OOMKilled"]:
                raise click.ClickException(f"SIGTERM: {state}\n{logs(container)}")
            if output(["docker", "inspect", "-f", "{{.Config.User}}", container]).strip() != "10001":
                raise click.ClickException("the container runs as root")
        finally:
            output(["docker", "rm", "--force", container])
        left, moved = (bodies(channel, name) for name in names.values())
        if sorted([*left, *moved]) != sorted(b"%d" % number for number in range(MESSAGES)):
            raise click.ClickException(
                f"{len(left)} messages left and {len(moved)} moved are not the {MESSAGES} published"
            )
        return len(moved)


@contextmanager
def queues(server: Server, *names: str) -> Iterator[Any]:
    """Yield a channel of the server with queues of these names, which are deleted in the end."""
    with closing(pika.BlockingConnection(pika.URLParameters(server.url))) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True)
        try:
            yield channel
        finally:
            for name in names:
                channel.queue_delete(name)


def publish(channel: Any, numbers: range) -> None:
    """Publish a persistent message of each number."""
    for number in numbers:
        channel.basic_publish(EXCHANGE, "", b"%d" % number, pika.BasicProperties(delivery_mode=2))


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Take all messages of a queue."""
    taken = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append(got[2])
    return taken


def wait_until_healthy(container: str) -> None:
    """Wait for the health check of the container to succeed."""
    deadline = time.monotonic() + find_limit()
    while (state := inspect(container))["Health"]["Status"] != "healthy":
        if time.monotonic() > deadline or not state["Running"]:
            raise click.ClickException(f"not healthy: {state}\n{logs(container)}")
        time.sleep(0.5)


def logs(container: str) -> str:
    """Return what the container has printed."""
    return output(["sh", "-c", 'docker logs "$0" 2>&1', container])


def inspect(container: str) -> dict[str, Any]:
    """Return the state of a container as Docker has it."""
    state: dict[str, Any] = json.loads(output(["docker", "inspect", "-f", "{{json .State}}", container]))
    return state


if __name__ == "__main__":
    main()
