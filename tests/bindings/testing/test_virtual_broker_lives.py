"""Messages live in the queues of the virtual broker: they expire, overflow, come back, and are dead-lettered."""

from __future__ import annotations

from bindings.testing.virtual_broker import VirtualBroker
from exchange import Queue, Topology

RETRY = {"x-message-ttl": 30_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs"}
PARKED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parked"}


def test_a_retry_loop_can_be_tested_without_waiting() -> None:
    """A rejected job waits in a queue and comes back with its history; time passes at a word."""
    jobs = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    broker = VirtualBroker(Topology(queues=[Queue("jobs", arguments=jobs), Queue("wait", arguments=RETRY)]), now=1000.0)
    broker.publish("", "jobs", b"{}")
    for attempt in range(1, 4):
        delivery = broker.get("jobs")
        assert delivery is not None
        broker.reject(delivery, requeue=False)
        broker.advance(29.999)
        assert broker.queues["jobs"] == []
        broker.advance(0.001)
        [message] = broker.queues["jobs"]
        deaths = {(death["queue"], death["reason"]): death["count"] for death in message.headers["x-death"]}
        assert deaths == {("jobs", "rejected"): attempt, ("wait", "expired"): attempt}
    assert broker.time == 1090.0


def test_a_poison_message_ends_in_the_parking_lot() -> None:
    """A quorum queue gives up after its delivery limit."""
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2, **PARKED}
    broker = VirtualBroker(Topology(queues=[Queue("jobs", arguments=arguments), Queue("parked")]))
    consumer = broker.consume("jobs", prefetch=1)
    broker.publish("", "jobs")
    tries = 0
    while (delivery := consumer.receive()) is not None:
        tries += 1
        broker.reject(delivery)
    assert tries == 3
    assert broker.queues["parked"][0].headers["x-first-death-reason"] == "delivery_limit"


def test_refused_and_lost_messages_are_listed() -> None:
    """``refused`` those that a publisher gets a nack for, ``lost`` those that end nowhere."""
    full = Queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    broker = VirtualBroker(Topology(queues=[full, Queue("short", arguments={"x-max-length": 1})]))
    for queue in ("full", "short"):
        broker.publish("", queue, b"1")
        broker.publish("", queue, b"2")
    assert [message.body for message in broker.refused] == [b"2"]
    assert [(loss.queue, loss.message.body, loss.reason, loss.cause) for loss in broker.lost] == [
        ("short", b"1", "maxlen", "no dead letter exchange")
    ]
    assert [message.body for message in broker.queues["short"]] == [b"2"]


def test_messages_that_end_with_their_queue_are_lost_and_unroutable_ones_are_elsewhere() -> None:
    """As docs/life.md tells: ``lost`` has what was in a queue, ``unroutable`` what came into none."""
    queues = [Queue("temporary", auto_delete=True), Queue("expiring", arguments={"x-expires": 1000}), Queue("deleted")]
    broker = VirtualBroker(Topology(queues=queues))
    consumer = broker.consume("temporary")
    for name in ("temporary", "expiring", "deleted", "nowhere"):
        broker.publish("", name)
    broker.cancel(consumer)
    broker.delete_queue("deleted")
    broker.advance(2)
    assert list(broker.queues) == []
    assert {loss.queue: loss.cause for loss in broker.lost} == {
        "temporary": "auto-delete queue",
        "deleted": "deleted queue",
        "expiring": "expired queue",
    }
    assert [message.routing_key for message in broker.unroutable] == ["nowhere"]


def test_messages_that_tests_remove_are_gone_without_a_trace() -> None:
    """``pop``, ``remove``, ``clear`` and ``del`` are as a purge: no dead letters."""
    broker = VirtualBroker(Topology(queues=[Queue("jobs", arguments=PARKED), Queue("parked")]))
    for body in (b"1", b"2", b"3", b"4"):
        broker.publish("", "jobs", body)
    contents = broker.queues["jobs"]
    assert contents.pop(0).body == b"1"
    contents.remove(contents[1])
    del contents[0]
    assert [message.body for message in contents] == [b"4"]
    contents.clear()
    assert contents == []
    broker.publish("", "jobs")
    assert broker.purge("jobs") == 1
    assert broker.queues["parked"] == []
    assert not broker.lost
