"""What operators do meanwhile: a queue remade during a pause, a node drained, a file that became a folder.

Each was thought of by someone who had read the guide only. What an operator takes away comes back; nothing may be lost,
become a dead letter or stand still for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.rights import PASSWORD, USER, prepare_flow, start_flow
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

COUNT: Final = 1_000
WITHOUT: Final = 20.0
"""Duration in seconds; in CI it lasts until it is visible."""


def _seconds(trial: Trial) -> float:
    return 0.0 if trial.short else WITHOUT


def _remade_in_a_pause(trial: Trial) -> Sequence[Writable]:
    """Remake the queue as a stream during a pause of the bridge, and as a quorum queue during a second one."""
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, COUNT)
    trial.wait_until(lambda: trial.count_written() == COUNT and daemon.count_unsettled() == 0, "all is written")
    for number, kind in enumerate(("stream", "quorum"), 2):
        daemon.pause()
        trial.wait_for_reason("pause")
        source.delete_queue()
        source.make(kind)
        trial.put(source, COUNT)
        trial.let_pass(3.0)
        daemon.unpause()
        trial.wait_for_written(number * COUNT)
    trial.drain(source)
    trial.wait_until_ready()
    trial.bound = 0
    return [target]


def _secret_as_a_folder(trial: Trial) -> Sequence[Writable]:
    """Make a folder of the password's file, close the connections, and make it a file again later."""
    login, source, target = prepare_flow(trial)
    secret = trial.folder / "secret"
    secret.write_text(PASSWORD)
    source.more = target.more = f'password = {{ file = "{secret}" }}\n'
    source.login = target.login = USER
    start_flow(trial, source, target)

    def spoil() -> None:
        secret.unlink()
        secret.mkdir()
        login.close_connections()

    def repair() -> None:
        secret.rmdir()
        secret.write_text(PASSWORD)

    trial.suffer(spoil, repair, seconds=_seconds(trial), meanwhile=partial(trial.wait_for_reason, str(secret)))
    trial.drain(source)
    return [target]


def _drained_node(trial: Trial) -> Sequence[Writable]:
    """Drain RabbitMQ: it closes connections, and takes no more of them until it is revived."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    broker = trial.brokers.rabbitmq()
    trial.put(source, 2 * COUNT)
    trial.bridge(source, target, policy="rate = 200")
    trial.wait_until_flowing(source)
    trial.suffer(
        lambda: broker.run("rabbitmq-upgrade", "--quiet", "drain"),
        lambda: broker.run("rabbitmq-upgrade", "--quiet", "revive"),
        seconds=_seconds(trial),
    )
    trial.drain(source)
    return [target]


def _deleted_group(trial: Trial) -> Sequence[Writable]:
    """Delete the group's offsets while there is no bridge: all is read again, and nothing skipped."""
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, COUNT)
    trial.wait_for_written(COUNT)
    trial.drain(source)
    trial.stop()
    trial.put(source, COUNT)
    source.topics.admin.delete_consumer_groups([source.name])[source.name].result(find_limit())
    trial.start(daemon)
    trial.drain(source)
    trial.bound = COUNT
    return [target]


SCENARIOS: Final = [
    Scenario("remake-queue", "as a stream, and as a quorum queue, in a pause", ["rabbitmq"], _remade_in_a_pause),
    Scenario("rotate-secret", "its file is a folder", ["rabbitmq"], _secret_as_a_folder),
    Scenario("maintenance", "RabbitMQ drained and revived", ["rabbitmq"], _drained_node),
    Scenario("delete-group", "without a bridge", ["kafka", "rabbitmq"], _deleted_group),
]
