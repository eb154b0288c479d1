"""Public incidents, as small topologies of our own: the commands foretell each in the right words."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from bindings import VirtualBroker
from bindings.cli import find_command
from exchange import Queue, Topology

FOLDER = Path(__file__).with_name("incidents")


class Incident(NamedTuple):
    """What a command tells of a topology like that of an incident."""

    file: str
    """Name of the file in `FOLDER`, after the project and the number of the thread."""
    command: str
    words: tuple[str, ...]
    absent: tuple[str, ...] = ()
    """What would be a false alarm."""


INCIDENTS = (
    Incident(
        "celery-10287", "upgrade FILE --from 4.2",
        ("HSU005 2 queues, 'celery@worker.celery.pidbox', 'celeryev.7d3a': a queue that is neither durable nor",
         "exclusive is refused with 541", "way out: declare it durable, with x-expires if it should go by itself"),
    ),
    Incident(
        "celery-10287", "upgrade FILE --from 3.12 --to 4.2",
        ("is deprecated, with a warning in the log: 4.3 refuses it",), ("refused or lost",),
    ),
    Incident(
        "celery-10290", "upgrade FILE --from 4.2",
        ("HSU005 2 queues, '91c0.reply.celery.pidbox', '52bd-result': a queue that is neither durable nor exclusive",),
    ),
    Incident(
        "celery-9867", "upgrade FILE --from 3.13 --to 4.1",
        ("HSU014 2 queues, 'celery_delayed_1', 'celery_delayed_0': x-death of a message that a client publishes is",),
    ),
    # 4.0 did not remove the global prefetch of classic queues, and what 540 is about stays as it was.
    Incident("kombu-2469", "upgrade FILE --from 3.13 --to 4.2", (), ("540", "global")),
    Incident(
        "kombu-2469", "upgrade FILE --from 4.2",
        ("HSU042 queue 'quorum-tasks': a consumer on a channel with a global prefetch is accepted",
         "before 4.3 it is refused with 540"),
        ("queue 'classic-tasks'",),
    ),
    Incident(
        "kombu-2665", "upgrade FILE --from 4.2",
        ("HSU104 basic.qos with global = true sets the prefetch of each consumer, no longer that of the channel",),
        ("540",),
    ),
    Incident(
        "spring-amqp-3435", "upgrade FILE --from 4.2",
        ("HSU016 queue 'orders': basic.nack with requeue is no failed delivery", "is given back again and again stays",
         "way out: call basic.reject", "x-delivery-count has the failed deliveries only"),
    ),
    Incident("spring-amqp-3435", "upgrade FILE --from 3.13 --to 4.2", (), ("HSU016",)),
    Incident(
        "nservicebus-1688", "upgrade FILE --from 3.13 --to 4.1",
        ("HSU039 queue 'sales': a delivery-limit that a policy sets or changes takes no effect in a queue that",),
    ),
    Incident(
        "masstransit-4867", "check FILE",
        ("no queue can be reached from 'order-events-listener_error'", "returned if it is mandatory"),
    ),
    Incident(
        "rabbitmq-11937", "upgrade FILE --from 3.13 --to 4.0",
        ("HSU007 queue 'payments': a quorum queue without a delivery limit has one of 20",
         "a message that comes back more often is dropped, as the queue has no dead letter exchange"),
    ),
    Incident(
        "rabbitmq-11159", "upgrade FILE --from 3.12 --to 3.13.2",
        ("HSU027 2 queues, 'work', 'wait': a message that comes back to a queue as a dead letter may be dropped",
         "even if it was rejected on the way", "way out: upgrade to 3.13.3 or later"),
    ),
    Incident("rabbitmq-11159", "upgrade FILE --from 3.12 --to 3.13.3", (), ("refused or lost", "HSU027")),
    Incident(
        "rabbitmq-11159", "explain --topology FILE --profile 3.13.7 --life ,work",
        ("goes round as long as consumers reject it: rejected in 'work', expired in 'wait', back in 'work'",),
        ("cycle",),
    ),
    Incident(
        "rabbitmq-12933", "upgrade FILE --from 3.13 --to 4.0.4",
        ("HSU069 queue 'q1': a message that a client published with the header x-death", "up to 4.0.4",
         "way out: upgrade to 4.0.5 or later", "refused or lost"),
    ),
    *(
        Incident("rabbitmq-12933", f"upgrade FILE --from {old} --to {new}", (), ("HSU069", "refused or lost"))
        for old, new in (("3.13", "4.0.5"), ("3.13.2", "4.0.4"), ("4.0.0", "4.0.4"), ("3.12", "3.13"))
    ),
    Incident(
        "rabbitmq-12625", "explain --topology FILE --life ,input-pending-retry",
        ("expired after 1 s: kept, and sent again later, as no queue gets the dead letter",), ("lost",),
    ),
    Incident(
        "rabbitmq-12625", "check FILE",
        ("no queue can be reached from 'dead', and queue 'input-pending-retry' leads there",),
    ),
    Incident(
        "rabbitmq-1061", "explain --topology FILE --life main,",
        ("goes round as long as consumers reject it: rejected in 'main', expired in 'standby', back in 'main'",),
    ),
    Incident(
        "openstack-648-mirrored", "upgrade FILE --from 3.10 --to 4.2",
        ("HSU006 queue 'conductor': the queue is mirrored by policy; mirroring was removed", "HSU004 policy 'ha-all'",
         "way out: declare a quorum queue in its place, and move the messages"),
    ),
    Incident(
        "spring-amqp-3419", "upgrade FILE --from 4.2 --to 4.3",
        ("HSU001 queue 'input.anonymous.7d3a': the new release refuses the queue",
         "541 INTERNAL_ERROR - Feature `queue_master_locator` is deprecated"),
    ),
    Incident("spring-amqp-3419", "upgrade FILE --from 4.1 --to 4.2", (), ("HSU001",)),
    *(
        Incident(
            file, "upgrade FILE --from 4.2 --to 4.3",
            (f"HSU005 queue '{queue}': a queue that is neither durable nor exclusive is refused with 541",),
        )
        for file, queue in (
            ("brighter-4355", "greeting.event"), ("ballerina-8828", "MyQueue"),
            ("graphql-platform-10384", "response-3f2a"),
        )
    ),
    *(
        Incident(
            file, "upgrade FILE --from 4.2 --to 4.3",
            (f"HSU022 exchange '{exchange}': the plugin of the exchange's type does not come with RabbitMQ",
             "one that keeps data in Mnesia does not work with 4.3"),
        )
        for file, exchange in (("deduplication-127", "once"), ("foundatio-490", "later"))
    ),
    Incident(
        "rabbitmq-17317", "upgrade FILE --from 4.2 --to 4.3",
        ("HSU041 queue 'orders': a consumer that exceeds consumer-timeout",
         "gives it no more until it has settled these"),
    ),
    Incident("rabbitmq-17317", "upgrade FILE --from 4.0 --to 4.2", (), ("HSU041",)),
    Incident(
        "plane-304", "upgrade FILE --from 3.13 --to 4.3",
        ("enable the feature flag khepri_db, which enable_feature_flag all may leave out: 4.3 has no Mnesia",),
    ),
    Incident("openstack-648-quorum", "upgrade FILE --from 3.10 --to 4.2", (), ("refused or lost", "means something")),
)  # fmt: skip


def run(incident: Incident) -> str:
    name, *words = incident.command.split()
    arguments = []
    for word in words:
        # "exchange,key" stands for two arguments, of which one may be empty.
        arguments += (
            word.split(",") if "," in word else [word.replace("FILE", str(FOLDER / f"{incident.file}.bindings"))]
        )
    command = find_command(name)
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code in (0, 1), result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: f"{incident.file}-{incident.command.split()[0]}")
def test_an_incident_is_foretold_in_the_right_words(incident: Incident) -> None:
    output = run(incident)
    for words in incident.words:
        assert words in output
    for words in incident.absent:
        assert words not in output


def test_each_file_of_an_incident_is_used() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {incident.file for incident in INCIDENTS}


@pytest.mark.parametrize(("profile", "arrives"), [("rabbitmq-3.13", False), ("rabbitmq-4.0", True)])
def test_a_task_that_is_delayed_again_with_its_x_death_is_lost_before_4_0(profile: str, arrives: bool) -> None:
    """Celery #9867: the client publishes the headers that it got; before 4.0 they are deaths, and this is a cycle."""
    late = {"x-message-ttl": 2000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "soon"}
    soon = {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "tasks"}
    queues = [Queue("late", arguments=late), Queue("soon", arguments=soon), Queue("tasks")]
    broker = VirtualBroker(Topology(queues=queues, profile=profile))
    broker.publish("", "late", b"task")
    broker.advance(5)
    delivery = broker.get("tasks")
    assert delivery is not None
    broker.ack(delivery)
    broker.publish("", "late", b"task", delivery.message.headers)
    broker.advance(5)
    assert bool(broker.queues["tasks"]) is arrives
    assert [lost.cause for lost in broker.lost] == ([] if arrives else ["cycle"])


def test_consumers_of_one_queue_that_were_all_slow_get_nothing_more_since_4_3() -> None:
    """rabbitmq-server#17317: a single active consumer comes after the other, and none acknowledges what it lost."""
    queue = Queue("q", arguments={"x-queue-type": "quorum", "x-single-active-consumer": True})
    broker = VirtualBroker(Topology(queues=[queue], profile="rabbitmq-4.3"))
    consumers = [broker.consume("q", prefetch=1, timeout=1000) for _ in range(3)]
    broker.publish("", "q")
    broker.advance(3600)
    late = [consumer.receive() for consumer in consumers]
    assert (None not in late, len(broker.queues["q"])) == (True, 1)
    second = late[1]
    assert second is not None
    broker.ack(second)
    assert (consumers[1].receive() is not None, len(broker.queues["q"])) == (True, 0)
