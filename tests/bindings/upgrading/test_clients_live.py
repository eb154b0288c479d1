"""Celery and kombu declare their queues on live brokers: each refuses what is foretold of it, and no more."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch
from urllib.parse import quote

import pytest

from bindings.upgrading.releases import release_of
from bindings.upgrading.upgrade import upgrade_topology
from exchange import Queue, Topology
from tests.support.servers import SERVERS, running
from tests.support.trials.lab import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server

amqp = pytest.importorskip("amqp")
celery = pytest.importorskip("celery")
kombu = pytest.importorskip("kombu")

REFUSED = {"HSU001", "HSU005"}
"""Facts about queues that a release refuses."""


@pytest.fixture(scope="module")
def strict_rabbitmq(rabbitmq_servers: list[Server]) -> Iterator[Server]:
    """Yield the newest broker as RabbitMQ ships it: Debian's package permits features that 4.3 denies."""
    newest = max(rabbitmq_servers, key=lambda server: server.version_info)
    if newest.version_info < (4, 3) or not newest.origin.partition(":")[2]:
        pytest.skip("needs an image of RabbitMQ 4.3")
    denied = "#{transient_nonexcl_queues=>false,global_qos=>false}"
    options = f"+S 1:1 -rabbit permit_deprecated_features {denied}"
    kind = replace(SERVERS["rabbitmq"], environment=lambda port: {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": options})
    with running(kind, {kind.image_variable: newest.origin}) as [server]:
        yield server


class Declared(NamedTuple):
    """A queue that a client declared."""

    queue: Queue
    exclusive: bool
    code: int | None
    """The code with which the broker refused it; None if it did not."""


def declare_tasks(app: Any, connection: Any) -> None:
    for queue in app.amqp.queues.values():
        queue.bind(connection.channel()).declare()


def declare_remote_control(app: Any, connection: Any) -> None:
    app.control.mailbox.get_queue("celery@worker").bind(connection.channel()).declare()


def declare_replies(app: Any, connection: Any) -> None:
    app.control.mailbox.get_reply_queue().bind(connection.channel()).declare()


def declare_events(app: Any, connection: Any) -> None:
    app.events.Receiver(connection).queue.bind(connection.channel()).declare()


def declare_results(app: Any, connection: Any) -> None:
    app.backend.binding.bind(connection.channel()).declare()


def declare_delays(app: Any, connection: Any) -> None:
    delays = pytest.importorskip("kombu.transport.native_delayed_delivery")
    delays.declare_native_delayed_delivery_exchanges_and_queues(connection, app.conf.task_default_queue_type)


def declare_buffer(app: Any, connection: Any) -> None:
    connection.SimpleBuffer("buffer").close()


def declare_simple_queue(app: Any, connection: Any) -> None:
    connection.SimpleQueue("simple").close()


def declare_priorities(app: Any, connection: Any) -> None:
    kombu.Queue("priorities", max_priority=10, expires=60, message_ttl=5, max_length=9).bind(
        connection.channel()
    ).declare()


def declare_old_arguments(app: Any, connection: Any) -> None:
    kombu.Queue("lazy", queue_arguments={"x-queue-mode": "lazy", "x-queue-version": 1}).bind(
        connection.channel()
    ).declare()


ACTIONS: list[Callable[[Any, Any], None]] = [
    declare_tasks, declare_remote_control, declare_replies, declare_events, declare_results, declare_delays,
    declare_buffer, declare_simple_queue, declare_priorities, declare_old_arguments,
]  # fmt: skip


@contextmanager
def declarations() -> Iterator[list[Declared]]:
    """Yield the list of the queues that are declared by py-amqp."""
    declared: list[Declared] = []
    real = amqp.Channel.queue_declare

    def declare(self: Any, queue: str = "", *rest: Any, **options: Any) -> Any:
        assert not rest
        code = None
        try:
            return real(self, queue, **options)
        except amqp.AMQPError as error:
            code = error.reply_code
            raise
        finally:
            if not options.get("passive"):
                made = Queue(
                    queue,
                    options.get("durable", False),
                    options.get("auto_delete", True),
                    options.get("arguments") or {},
                )
                declared.append(Declared(made, options.get("exclusive", False), code))

    with patch.object(amqp.Channel, "queue_declare", declare):
        yield declared


def is_refused(declared: Declared, version: str) -> bool:
    """Return whether the upgrade from 3.10 foretells that a release refuses a queue, which 3.10 accepts."""
    if declared.exclusive:
        return False
    vhost = upgrade_topology(Topology(queues=[declared.queue]), release_of("3.10"), release_of(version))
    return any(sighting.fact.id in REFUSED and sighting.parts for sighting in vhost.sightings)


def declare_all(lab: Lab, **settings: Any) -> list[Declared]:
    """Let Celery with these settings, and kombu, declare all their queues; each on a connection of its own."""
    url = f"{lab.server.url.rpartition('/')[0]}/{quote(lab.vhost, safe='')}"
    app = celery.Celery("trial", broker=url, backend="rpc://")
    app.conf.update(broker_connection_retry=False, broker_pool_limit=None, **settings)
    with declarations() as declared:
        for action in ACTIONS:
            with app.connection_for_write() as connection, suppress(amqp.AMQPError):  # it is noted
                action(app, connection)
    return declared


SETTINGS: list[dict[str, Any]] = [
    {"task_default_queue_type": "classic", "control_queue_exclusive": False, "event_queue_exclusive": False},
    {"task_default_queue_type": "quorum", "control_queue_exclusive": True,
     "event_queue_exclusive": False, "event_queue_durable": True},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=["transient", "quorum"])
def test_a_broker_refuses_what_is_foretold_of_the_queues_of_celery(
    rabbitmq_servers: list[Server], strict_rabbitmq: Server, settings: dict[str, Any]
) -> None:
    permissive = [server for server in rabbitmq_servers if server.version_info < (4, 3)]
    for server in (*permissive, strict_rabbitmq):
        with lab_of(server) as lab:
            declared = declare_all(lab, **settings)
        assert len(declared) > len(ACTIONS)
        for each in declared:
            assert (each.code is not None) is is_refused(each, server.version), (server.version, each)
        refused = {each.code for each in declared if each.code is not None}
        assert refused == ({406, 541} if settings is SETTINGS[0] and server is strict_rabbitmq else refused & {406})


def test_a_global_prefetch_is_answered_as_foretold(rabbitmq_servers: list[Server], strict_rabbitmq: Server) -> None:
    """540 by quorum queues before 4.3, by none since; and classic queues never: HSU042 and HSU104."""
    for server in (*rabbitmq_servers, strict_rabbitmq):
        with lab_of(server) as lab:
            url = f"{server.url.rpartition('/')[0]}/{quote(lab.vhost, safe='')}"
            for kind in ("classic", "quorum"):
                with kombu.Connection(url) as connection:
                    channel = connection.channel()
                    queue = kombu.Queue(kind, queue_arguments={"x-queue-type": kind}).bind(channel)
                    queue.declare()
                    channel.basic_qos(0, 5, True)
                    code = None
                    try:
                        queue.consume("tag", callback=print)
                    except amqp.AMQPError as error:
                        code = error.reply_code
                    assert code == (540 if kind == "quorum" and server.version_info < (4, 3) else None), server.version
