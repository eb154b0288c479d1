"""Messages that come back to a quorum queue of 4.3: what waits for its retry, and what slow consumers lose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Message, Policy, PreconditionFailed, Queue, Topology
from exchange.errors import InputError
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Delivery
from exchange.lifecycle.limits import RETRIES, RetryDelay
from exchange.lifecycle.outcomes import Loss
from tests.support.tiers import examples

RETRY: dict[str, Any] = {"delayed_retry_type": "all", "delayed_retry_min": 1000}
LIMIT = 1_800


def make(profile: str = "rabbitmq-4.3", **arguments: Any) -> Broker:
    """Return a broker with the quorum queue q and one message in it."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    queue = Queue("q", arguments={"x-queue-type": "quorum", **named})
    broker = Broker(Topology(queues=[queue, Queue("dead")], profile=profile))
    broker.publish(Message("", "q", body=b"1"))
    return broker


def take(broker: Broker) -> Delivery:
    delivery = broker.get("q")
    assert delivery is not None
    return delivery


def ready(broker: Broker) -> int:
    return len(broker.messages("q"))


@pytest.mark.parametrize("kind", [*RETRIES, "disabled", "unknown"])
@pytest.mark.parametrize("method", ["nack", "reject"])
def test_what_comes_back_waits_if_its_kind_does(kind: str, method: str) -> None:
    broker = make(delayed_retry_type=kind, delayed_retry_min=1000)
    getattr(broker, method)(take(broker))
    waits = kind in {"all", "returned" if method == "nack" else "failed"}
    assert ready(broker) == (not waits)
    broker.advance(0.999)
    assert ready(broker) == (not waits)
    broker.advance(0.001)
    assert ready(broker) == 1


def test_the_pause_grows_with_failures_up_to_its_maximum() -> None:
    broker = make(**RETRY, delayed_retry_max=2500, delivery_limit=9)
    for wait in (1.0, 2.0, 2.5, 2.5):
        broker.reject(take(broker))
        broker.advance(wait - 0.001)
        assert not ready(broker)
        broker.advance(0.001)
    broker.nack(take(broker))  # is no failure, and waits as long as before
    broker.advance(2.5)
    assert ready(broker)


@examples(200)
@given(kind=st.sampled_from(RETRIES), least=st.integers(1, 99), most=st.integers(1, 999), failures=st.integers(0, 30))
def test_a_pause_is_the_least_one_for_each_failure_in_its_bounds(
    kind: Any, least: int, most: int, failures: int
) -> None:
    delay = RetryDelay(kind, least, most)
    assert delay.milliseconds(failures) == min(sum([least] * failures) or least, most)
    assert [delay.applies_to(failed=failed) for failed in (False, True)] == [kind != "failed", kind != "returned"]


def test_messages_that_wait_are_ready_by_their_times_the_first_that_came_then_by_their_places() -> None:
    """RabbitMQ remembers the soonest one, and looks for the next in a tree."""
    broker = make(**RETRY)
    for body in (b"2", b"3"):
        broker.publish(Message("", "q", body=body))
    first, second, third = (take(broker) for _ in range(3))
    broker.reject(third)
    broker.reject(second)
    broker.advance(0.5)
    broker.reject(first)
    broker.publish(Message("", "q", body=b"4"))
    broker.advance(0.5)
    assert [message.body for message in broker.messages("q")] == [b"3", b"2", b"4"]
    broker.advance(0.5)
    third, second, first = (take(broker) for _ in range(3))
    for delivery in (third, first, second):
        broker.nack(delivery)
    broker.advance(1)
    assert [message.body for message in broker.messages("q")] == [b"3", b"1", b"2", b"4"]


def test_what_waits_counts_for_limits_and_is_purged() -> None:
    broker = make(**RETRY, max_length=1, overflow="reject-publish")
    broker.reject(take(broker))
    assert [broker.publish(Message("", "q")).is_confirmed for _ in range(2)] == [True, False]
    assert (ready(broker), broker.purge("q"), ready(broker)) == (1, 2, 0)
    broker.advance(1)
    assert ready(broker) == 0


def test_what_waits_and_expires_meanwhile_dies_when_it_would_be_ready() -> None:
    broker = make(**RETRY, message_ttl=300, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.reject(take(broker))
    broker.advance(0.999)
    assert broker.messages("dead") == []
    broker.advance(0.001)
    [dead] = broker.messages("dead")
    assert dead.headers["x-first-death-reason"] == "expired"


def test_a_queue_that_drops_its_head_stops_for_ever_if_too_many_wait() -> None:
    """RabbitMQ 4.3.6 does: its process of the queue looks for a message to drop, and there is none."""
    broker = make(**RETRY, max_length=1)
    first = take(broker)
    broker.publish(Message("", "q"))
    second = take(broker)
    broker.reject(first)
    with pytest.raises(InputError, match=r"'q' drops from its head, .* stops for ever in RabbitMQ"):
        broker.reject(second)


def test_what_waits_is_lost_with_its_queue() -> None:
    lost: list[Loss] = []
    arguments = {"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 1000}
    broker = Broker(Topology(queues=[Queue("q", arguments=arguments)]), on_loss=lost.append)
    broker.publish(Message("", "q"))
    broker.reject(take(broker))
    broker.delete_queue("q")
    assert [loss.cause for loss in lost] == ["deleted queue"]


def test_a_slow_consumer_loses_its_messages_and_gets_no_more_until_it_has_settled_them() -> None:
    broker = make(consumer_timeout=5000)
    consumer = broker.consume("q", prefetch=2)
    first = consumer.receive()
    assert first is not None
    broker.advance(2)
    broker.publish(Message("", "q", body=b"2"))
    broker.advance(3)
    assert (ready(broker), consumer.timeouts, consumer.held) == (1, 1, 1)
    [message] = broker.messages("q")
    assert (message.body, message.headers) == (b"1", {"x-acquired-count": 1})
    broker.advance(2)
    assert (ready(broker), consumer.timeouts, consumer.held) == (2, 2, 0)
    broker.ack(first)
    second = consumer.receive()
    assert second is not None
    assert (ready(broker), consumer.receive()) == (2, None)
    broker.reject(second, requeue=False)  # of what is not its own any more: nothing dies
    again = [consumer.receive(), consumer.receive()]
    assert [each is not None and (each.message.body, each.redelivered) for each in again] == [
        (b"1", True),
        (b"2", True),
    ]
    with pytest.raises(PreconditionFailed, match="taken back by its queue"):
        broker.ack(first)


@pytest.mark.parametrize(("kind", "waits"), [("failed", False), ("returned", True), ("all", True)])
def test_what_a_slow_consumer_loses_is_no_failed_delivery(kind: str, waits: bool) -> None:
    broker = make(consumer_timeout=5000, delayed_retry_type=kind, delayed_retry_min=1000)
    take(broker)
    broker.advance(5)
    assert ready(broker) == (not waits)


def test_what_is_given_back_too_late_does_not_let_the_consumer_go_on() -> None:
    """RabbitMQ gives it no turn, until it settles another message."""
    broker = make(consumer_timeout=5000)
    consumer = broker.consume("q", prefetch=1)
    late = consumer.receive()
    assert late is not None
    broker.advance(5)
    broker.nack(late)
    assert (ready(broker), consumer.receive()) == (1, None)
    broker.publish(Message("", "q"))
    assert (ready(broker), consumer.receive()) == (2, None)


def test_another_consumer_gets_what_the_slow_one_lost() -> None:
    broker = make(consumer_timeout=5000)
    slow, other = broker.consume("q", prefetch=1, priority=1), broker.consume("q", prefetch=1, timeout=60_000)
    assert slow.receive() is not None
    broker.advance(5)
    assert other.receive() is not None
    broker.advance(59)
    assert (other.held, ready(broker)) == (1, 0)


@pytest.mark.parametrize("is_single", [False, True])
def test_a_single_active_consumer_that_is_slow_makes_room_for_the_next(is_single: bool) -> None:
    broker = make(consumer_timeout=5000, single_active_consumer=is_single)
    first, second = broker.consume("q", prefetch=1), broker.consume("q", prefetch=1)
    late = first.receive()
    assert late is not None
    broker.advance(5)
    assert second.receive() is not None
    broker.ack(late)
    broker.publish(Message("", "q"))
    assert (first.receive() is None) is is_single


def test_basic_get_and_cancelled_consumers_lose_their_channel() -> None:
    broker = make(consumer_timeout=5000)
    delivery = take(broker)
    broker.advance(5)
    assert (delivery.is_settled, ready(broker)) == (True, 1)
    consumer = broker.consume("q", prefetch=2)
    broker.advance(1)
    broker.publish(Message("", "q", body=b"2"))
    broker.cancel(consumer)
    broker.advance(4)
    first, second = broker.messages("q")  # the second was not late, but fails with its channel
    assert (first.body, first.headers) == (b"1", {"x-acquired-count": 2})
    assert (second.body, second.headers) == (b"2", {"x-acquired-count": 1, "x-delivery-count": 1})


@pytest.mark.parametrize(("profile", "kind", "taken_back"), [
    ("rabbitmq-4.3", "quorum", True), ("rabbitmq-4.4", "quorum", True), ("rabbitmq-4.0", "quorum", False),
    ("rabbitmq-4.3", "classic", False),
])  # fmt: skip
def test_half_an_hour_is_the_limit_without_a_setting(profile: str, kind: str, taken_back: bool) -> None:
    broker = make(profile, queue_type=kind)
    take(broker)
    broker.advance(LIMIT - 1)
    assert ready(broker) == 0
    broker.advance(1)
    assert ready(broker) == taken_back


def test_a_policy_counts_for_consumers_that_start_later() -> None:
    broker = make()
    early = broker.consume("q", prefetch=1)
    assert early.receive() is not None
    broker.set_policy(Policy("p", "", {"consumer-timeout": 1000}))
    broker.publish(Message("", "q"))
    late = broker.consume("q", prefetch=1)
    broker.advance(1)
    assert (early.held, late.held, ready(broker)) == (1, 0, 1)
