"""Rules of the life of messages that recordings do not show: long times, streams, policies, consumers, what has no end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exchange.lifecycle.dead_letters as model
from exchange import Binding, Exchange, Message, NotFound, Policy, PreconditionFailed, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError, InputError, NotImplementedByBroker
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Delivery
from exchange.lifecycle.dead_letters import RETRY_MILLISECONDS
from exchange.lifecycle.outcomes import Loss
from tests.support.cases import with_each
from tests.support.tiers import examples


def queue(name: str, /, **arguments: Any) -> Queue:
    """Return a queue; ``max_length=1`` is its argument x-max-length."""
    return Queue(name, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})


def send(broker: Broker, key: str, *bodies: bytes, **properties: Any) -> None:
    """Publish messages through the default exchange."""
    for body in bodies:
        broker.publish(Message("", key, {}, properties, body))


def bodies(broker: Broker, name: str) -> list[bytes]:
    """Return the bodies of the messages that are ready."""
    return [message.body for message in broker.messages(name)]


def test_a_dead_letter_that_a_full_queue_dead_letters_in_turn_is_not_lost() -> None:
    losses: list[Loss] = []
    rules = {"max_length": 1, "overflow": "reject-publish-dlx", "dead_letter_exchange": ""}
    first = queue("a", dead_letter_exchange="", dead_letter_routing_key="full")
    full = queue("full", **rules, dead_letter_routing_key="d")
    broker = Broker(Topology(queues=[first, full, Queue("d")]), on_loss=losses.append)
    send(broker, "full", b"1")
    send(broker, "a", b"2")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    assert bodies(broker, "d") == [b"2"]
    assert losses == []


@pytest.mark.parametrize(
    ("profile", "stays"), [("rabbitmq-3.10", False), ("rabbitmq-3.13", False), ("rabbitmq-4.0", True)]
)
def test_a_negative_delivery_limit_is_none_since_4_0_and_zero_before(profile: str, stays: bool) -> None:
    broker = Broker(Topology(queues=[queue("a", queue_type="quorum", delivery_limit=-1)], profile=profile))
    send(broker, "a", b"1")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery)
    assert bodies(broker, "a") == ([b"1"] if stays else [])


@pytest.mark.parametrize(("release", "held"), [("3.10.25", 2), ("3.11.0", 1), ("3.11.28", 1), ("3.12.0", 1)])
def test_who_has_exceeded_the_delivery_limit_may_hold_one_message_more_in_3_10(release: str, held: int) -> None:
    """rabbit_fifo.erl, increase_credit: bounded by the prefetch since machine version 3, which 3.11.0 has."""
    topology = Topology(queues=[queue("a", queue_type="quorum", delivery_limit=0)], profile=find_profile(release))
    broker = Broker(topology)
    send(broker, "a", b"1", b"2", b"3", b"4")
    consumer = broker.consume("a", prefetch=1)
    broker.reject(consumer.deliveries.popleft())
    assert consumer.held == held


@pytest.mark.parametrize(
    ("releases", "place", "what"),
    [
        (
            ("3.10.0", "3.11.28", "3.12.0", "3.12.14", "3.13.0", "3.13.7"),
            "'queue 's' in vhost '/''",
            "stream queues queue",
        ),
        (("4.0.0", "4.0.5", "4.3.6", "4.4"), "stream queue 's' in vhost '/'", "stream queue"),
    ],
)
def test_a_stream_refuses_consumers_in_the_words_of_the_release(
    releases: tuple[str, ...], place: str, what: str
) -> None:
    """rabbit_stream_queue.erl, consume/3."""
    for release in releases:
        broker = Broker(Topology(queues=[queue("s", queue_type="stream")], profile=find_profile(release)))
        with pytest.raises(PreconditionFailed) as prefetch:
            broker.consume("s")
        assert prefetch.value.text == f"consumer prefetch count is not set for {place}", release
        with pytest.raises(NotImplementedByBroker) as acks:
            broker.consume("s", prefetch=1, auto_ack=True)
        assert acks.value.text == f"automatic acknowledgement not supported by {what} 's' in vhost '/'", release


@pytest.mark.parametrize(("profile", "first"), [("rabbitmq-4.0", b"2"), ("rabbitmq-4.3", b"1")])
@pytest.mark.parametrize("method", ["nack", "reject"])
def test_what_is_given_back_without_a_limit_goes_last_until_4_2(profile: str, first: bytes, method: str) -> None:
    broker = Broker(Topology(queues=[queue("a", queue_type="quorum", delivery_limit=-1)], profile=profile))
    send(broker, "a", b"1", b"2")
    getattr(broker, method)(broker.get("a"))
    assert bodies(broker, "a")[0] == first


@pytest.mark.parametrize(("profile", "seen"), [("rabbitmq-3.12", 1), ("rabbitmq-3.13", 0), ("rabbitmq-4.3", 0)])
def test_a_headers_exchange_sees_the_first_death_and_until_3_12_all(profile: str, seen: int) -> None:
    """A header x-death that was published is one as others, in all releases."""
    bindings = [
        Binding.to_queue("h", "all", "", {"x-match": "any-with-x", "x-death": None}),
        Binding.to_queue("h", "first", "", {"x-match": "any-with-x", "x-first-death-queue": "a"}),
    ]
    queues = [queue("a", dead_letter_exchange="h"), Queue("all"), Queue("first")]
    broker = Broker(Topology([Exchange("h", "headers")], queues, bindings, profile=profile))
    published: list[dict[str, Any]] = [{}, {"x-death": []}]
    for headers in published:
        broker.publish(Message("", "a", headers))
        delivery = broker.get("a")
        assert delivery is not None
        broker.reject(delivery, requeue=False)
    assert (len(bodies(broker, "all")), len(bodies(broker, "first"))) == (
        1 + seen,
        1 + bool(profile != "rabbitmq-3.12"),
    )


def test_an_unused_queue_expires_with_its_messages() -> None:
    """A consumer, basic.get and a new declaration count as use; its messages are not dead-lettered."""
    expiring = queue("a", expires=60_000, dead_letter_exchange="", dead_letter_routing_key="b")
    broker = Broker(Topology(queues=[expiring, Queue("b")]))
    send(broker, "a", b"1")
    broker.advance(50)
    broker.declare_queue(expiring)
    broker.advance(50)
    consumer = broker.consume("a")
    broker.advance(500)
    broker.cancel(consumer)
    broker.advance(59)
    assert broker.get("a") is None  # the consumer holds the message
    broker.advance(59)
    assert "a" in broker.queues
    broker.advance(1)
    assert [*broker.queues] == ["b"]
    assert bodies(broker, "b") == []
    with pytest.raises(NotFound):
        broker.get("a")


def test_what_a_deleted_queue_delivered_can_be_settled_without_effect() -> None:
    """Its messages are gone with it; a queue of the same name knows nothing of them."""
    declared = queue("a", dead_letter_exchange="", dead_letter_routing_key="b")
    broker = Broker(Topology(queues=[declared, Queue("b")]))
    send(broker, "a", b"1")
    delivery = broker.get("a")
    assert delivery is not None
    broker.delete_queue("a")
    broker.declare_queue(declared)
    broker.reject(delivery, requeue=False)
    assert bodies(broker, "a") == bodies(broker, "b") == []
    with pytest.raises(PreconditionFailed, match="unknown delivery tag"):
        broker.ack(delivery)


def test_a_stream_is_read_again_and_again() -> None:
    """Consumers begin at an offset, and an acknowledgement removes nothing; basic.get is refused."""
    broker = Broker(Topology(queues=[queue("log", queue_type="stream", max_length_bytes=10)]))
    send(broker, "log", b"0", b"1", b"2", expiration="1")
    first, last, at = (broker.consume("log", prefetch=2, offset=offset) for offset in ("first", "last", 1))
    broker.advance(10)
    assert [delivery.message.body for delivery in first.deliveries] == [b"0", b"1"]
    assert [delivery.message.body for delivery in last.deliveries] == [b"2"]
    assert [delivery.message.headers["x-stream-offset"] for delivery in at.deliveries] == [1, 2]
    delivery = first.receive()
    assert delivery is not None
    broker.reject(delivery)
    assert [delivery.message.body for delivery in first.deliveries] == [b"1", b"2"]
    broker.close(last)
    assert bodies(broker, "log") == [b"0", b"1", b"2"]
    with pytest.raises(BrokerError, match="540 NOT_IMPLEMENTED"):
        broker.get("log")
    with pytest.raises(BrokerError, match=r"queue\.purge not supported by stream queues"):
        broker.purge("log")
    assert bodies(broker, "log") == [b"0", b"1", b"2"]
    with pytest.raises(PreconditionFailed, match="consumer prefetch count is not set"):
        broker.consume("log")


def test_policies_and_operator_policies_are_in_force_at_once() -> None:
    """The lower limit of both counts; what is over it is dropped when the policy comes."""
    broker = Broker(Topology(queues=[Queue("a")]))
    send(broker, "a", b"1", b"2", b"3", b"4")
    broker.set_policy(Policy("users", "^a$", {"max-length": 3}, "queues"))
    assert bodies(broker, "a") == [b"2", b"3", b"4"]
    limit = Topology(
        queues=[Queue("a")],
        policies=[Policy("users", "^a$", {"max-length": 3}, "queues"),
                  Policy("ops", "^a$", {"max-length": 1}, "queues", operator=True)],
    )  # fmt: skip
    broker = Broker(limit)
    send(broker, "a", b"1", b"2", b"3")
    assert bodies(broker, "a") == [b"3"]


def test_a_dead_letter_that_must_arrive_is_routed_again_after_three_minutes() -> None:
    """Its queue keeps the message, which counts for its limit, until the target takes it."""
    source = queue(
        "a", queue_type="quorum", overflow="reject-publish", dead_letter_strategy="at-least-once", max_length=1,
        dead_letter_exchange="", dead_letter_routing_key="b",
    )  # fmt: skip
    lost: list[Loss] = []
    broker = Broker(Topology(queues=[source]), on_loss=lost.append)
    send(broker, "a", b"1")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    send(broker, "a", b"2")
    assert broker.publish(Message("", "a", body=b"3")).refused == ("a",)
    broker.declare_queue(Queue("b"))
    broker.advance(RETRY_MILLISECONDS / 1000 - 1)
    assert bodies(broker, "b") == []
    broker.advance(1)
    assert bodies(broker, "b") == [b"1"]
    assert not lost


@pytest.mark.parametrize("deleted", [False, True])
def test_of_two_targets_a_dead_letter_goes_again_only_to_the_one_that_was_full(deleted: bool) -> None:
    """It is not lost with its queue: one of them has it."""
    source = queue(
        "a", queue_type="quorum", overflow="reject-publish", dead_letter_strategy="at-least-once",
        dead_letter_exchange="d",
    )  # fmt: skip
    full = queue("full", max_length=1, overflow="reject-publish")
    bindings = [Binding.to_queue("d", name) for name in ("b", "full")]
    lost: list[Loss] = []
    broker = Broker(Topology([Exchange("d", "fanout")], [source, Queue("b"), full], bindings), on_loss=lost.append)
    send(broker, "full", b"0")
    send(broker, "a", b"1")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    broker.advance(RETRY_MILLISECONDS / 1000)
    assert (bodies(broker, "b"), bodies(broker, "full")) == ([b"1"], [b"0"])
    broker.purge("full")
    if deleted:
        broker.delete_queue("a")
    broker.advance(RETRY_MILLISECONDS / 1000)
    assert (bodies(broker, "b"), bodies(broker, "full")) == ([b"1"], [] if deleted else [b"1"])
    assert not lost


@examples(100)
@given(
    st.sampled_from(["classic", "quorum"]), st.lists(st.integers(0, 5), max_size=8),
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
)  # fmt: skip
def test_after_each_change_of_policies_the_newest_messages_that_fit_are_kept(
    kind: str, sizes: list[int], limits: list[int]
) -> None:
    """The bytes of those that stay count once, however often the limit changes."""
    broker = Broker(Topology(queues=[queue("a", queue_type=kind)], profile="rabbitmq-4.2"))
    kept = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    send(broker, "a", *kept)
    for limit in limits:
        broker.set_policy(Policy("p", "^a$", {"max-length-bytes": limit}, "queues"))
        while sum(map(len, kept)) > limit:
            kept.pop(0)
        assert bodies(broker, "a") == kept


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("limit", [0, 5, 20, 50, 80])
def test_a_limit_of_bytes_keeps_the_same_messages_whether_it_came_before_them_or_after(kind: str, limit: int) -> None:
    """Since 4.3, quorum queues with such a limit count the properties, too."""
    brokers = [Broker(Topology(queues=[queue("a", queue_type=kind)])) for _ in range(2)]
    policy = Policy("p", "^a$", {"max-length-bytes": limit}, "queues")
    brokers[0].set_policy(policy)
    for broker in brokers:
        send(broker, "a", *(b"x" * size for size in (3, 7, 2, 9)), message_id="0123456789")
    brokers[1].set_policy(policy)
    assert bodies(brokers[0], "a") == bodies(brokers[1], "a")


@examples(100)
@given(
    st.sampled_from(["max_length", "max_length_bytes"]),
    st.integers(1, 12),
    st.lists(st.booleans(), min_size=14, max_size=14),
)
def test_a_quorum_queue_that_was_full_takes_messages_again_at_four_fifths(
    limit: str, most: int, acknowledged: list[bool]
) -> None:
    """What it rejected and must dead-letter counts as long as its target is missing."""
    source = queue(
        "a", queue_type="quorum", overflow="reject-publish", dead_letter_strategy="at-least-once",
        dead_letter_exchange="", dead_letter_routing_key="b", **{limit: most},
    )  # fmt: skip
    broker = Broker(Topology(queues=[source], profile="rabbitmq-4.2"))
    there = 0
    while broker.publish(Message("", "a", body=b"x")).is_confirmed:
        there += 1
    assert there == most + 1
    accepts = False
    for is_acknowledged in acknowledged:
        delivery = broker.get("a")
        if delivery is None:
            break
        counted = there - 1  # what was delivered does not count
        if is_acknowledged:
            there -= 1
            broker.ack(delivery)
        else:
            broker.reject(delivery, requeue=False)
        for number in (counted, there):  # it looks at each command
            accepts = number <= (most if accepts else int(most * 0.8))
        assert broker.publish(Message("", "a", body=b"x")).is_confirmed is accepts
        if accepts:
            break


def test_consumers_take_turns_by_priority_and_prefetch() -> None:
    """The highest priority first; when it is full, the others in turn."""
    broker = Broker(Topology(queues=[Queue("a")]))
    low, other, high = (broker.consume("a", prefetch=2, priority=priority) for priority in (0, 0, 1))
    send(broker, "a", *(b"%d" % number for number in range(6)))
    got = [[delivery.message.body for delivery in each.deliveries] for each in (low, other, high)]
    assert got == [[b"2", b"4"], [b"3", b"5"], [b"0", b"1"]]


def test_a_single_active_consumer_is_followed_by_the_next() -> None:
    """What the first one held goes to the second when the first one's channel is closed."""
    broker = Broker(Topology(queues=[queue("a", single_active_consumer=True)]))
    first, second = broker.consume("a", prefetch=1), broker.consume("a", prefetch=5)
    send(broker, "a", b"1", b"2")
    assert (len(first.deliveries), len(second.deliveries)) == (1, 0)
    broker.close(first)
    assert [(each.message.body, each.redelivered) for each in second.deliveries] == [(b"1", True), (b"2", False)]


def test_losses_name_their_cause() -> None:
    """No dead letter exchange, a missing one, no route, a cycle, a full queue."""
    lost: list[Loss] = []
    queues = [
        Queue("none"),
        queue("missing", dead_letter_exchange="nowhere"),
        queue("unroutable", dead_letter_exchange="amq.topic"),
        queue("cycle", message_ttl=1, dead_letter_exchange=""),
        queue("full", dead_letter_exchange="", dead_letter_routing_key="closed"),
        queue("closed", max_length=0, overflow="reject-publish"),
    ]
    broker = Broker(Topology(queues=queues), on_loss=lost.append)
    for name in ("none", "missing", "unroutable", "full"):
        send(broker, name, b"1")
        delivery = broker.get(name)
        assert delivery is not None
        broker.nack(delivery, requeue=False)
    send(broker, "cycle", b"1")
    broker.advance(1)
    assert {loss.queue: loss.cause for loss in lost} == {
        "none": "no dead letter exchange",
        "missing": "missing exchange",
        "unroutable": "unroutable",
        "full": "full queue",
        "cycle": "cycle",
    }
    assert [loss.reason for loss in lost] == ["rejected"] * 4 + ["expired"]


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("delete", "deleted queue"),
        ("expire", "expired queue"),
        ("cancel", "auto-delete queue"),
        ("close", "auto-delete queue"),
    ],
)
def test_the_messages_of_a_queue_are_lost_with_it(end: str, cause: str) -> None:
    """Those that are ready and those that were delivered, without dead letters; a late ack has no effect."""
    declared = Queue(
        "a",
        auto_delete=True,
        arguments={"x-expires": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"},
    )
    lost: list[Loss] = []
    broker = Broker(Topology(queues=[declared, Queue("b")]), on_loss=lost.append)
    send(broker, "a", b"0", b"1", b"2")
    held = broker.get("a")
    assert held is not None
    if end == "expire":
        broker.advance(1)
    elif end == "delete":
        broker.delete_queue("a")
    else:
        consumer = broker.consume("a", prefetch=1)
        getattr(broker, end)(consumer)
        getattr(broker, end)(consumer)  # once more has no effect
    assert [*broker.queues] == ["b"]
    assert bodies(broker, "b") == []
    assert sorted((loss.message.body, loss.queue, loss.reason, loss.cause) for loss in lost) == [
        (body, "a", "queue_deleted", cause) for body in (b"0", b"1", b"2")
    ]
    broker.ack(held)
    broker.advance(10)
    assert len(lost) == 3


def test_an_auto_delete_queue_lives_until_its_last_consumer_leaves() -> None:
    """Not before it had one, and basic.get is none; auto-delete exchanges go with it."""
    declared = Queue("a", auto_delete=True)
    source = Exchange("source", auto_delete=True)
    broker = Broker(Topology([source], [declared], [Binding.to_queue("source", "a")]))
    send(broker, "a", b"0", b"1")
    assert broker.get("a", auto_ack=True) is not None
    first, second = broker.consume("a", prefetch=1), broker.consume("a", prefetch=1)
    broker.cancel(first)
    broker.close(first)
    assert "a" in broker.queues
    assert [delivery.message.body for delivery in second.deliveries] == [b"1"]
    broker.close(second)
    assert [*broker.queues] == []
    assert not second.is_active
    assert "source" not in broker.topology.exchanges
    broker.declare_queue(declared)
    broker.cancel(second)  # of the queue that is gone
    assert "a" in broker.queues


def test_a_dead_letter_that_waits_for_its_target_is_lost_with_its_queue() -> None:
    """The queue kept it, as it must arrive at least once."""
    source = queue(
        "a", queue_type="quorum", overflow="reject-publish", dead_letter_strategy="at-least-once",
        dead_letter_exchange="", dead_letter_routing_key="b",
    )  # fmt: skip
    lost: list[Loss] = []
    broker = Broker(Topology(queues=[source]), on_loss=lost.append)
    send(broker, "a", b"1")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    broker.delete_queue("a")
    broker.advance(RETRY_MILLISECONDS / 1000)
    assert [(loss.message.body, loss.reason, loss.cause) for loss in lost] == [(b"1", "rejected", "deleted queue")]


def test_a_stream_is_deleted_without_losses() -> None:
    """It does not know which of its messages were read."""
    lost: list[Loss] = []
    broker = Broker(Topology(queues=[queue("log", queue_type="stream")]), on_loss=lost.append)
    send(broker, "log", b"0")
    broker.delete_queue("log")
    assert not lost


@pytest.mark.parametrize("method", ["ack", "nack", "reject"])
def test_nothing_is_no_delivery_that_can_be_settled(method: str) -> None:
    """The error says that the queue was empty."""
    broker = Broker(Topology(queues=[Queue("a")]))
    with pytest.raises(TypeError, match="a Delivery is wanted, not None: of an empty queue there is none to settle"):
        getattr(broker, method)(broker.get("a"))


@pytest.mark.parametrize("prefetch", [-1, 65_536, "5", None])
def test_a_prefetch_count_that_cannot_be_sent_is_refused(prefetch: Any) -> None:
    """It has 16 bits."""
    broker = Broker(Topology(queues=[Queue("a")]))
    with pytest.raises(InputError, match="the prefetch count is a number from 0 to 65535, not"):
        broker.consume("a", prefetch=prefetch)
    assert broker.consume("a", prefetch=65_535).prefetch == 65_535


def test_a_negative_offset_of_a_stream_is_its_first_message() -> None:
    """RabbitMQ 3.10.8 and 4.3 accept it; one beyond the end is the next message."""
    broker = Broker(Topology(queues=[queue("log", queue_type="stream")]))
    send(broker, "log", b"0", b"1")
    first, beyond = (broker.consume("log", prefetch=9, offset=offset) for offset in (-1, 99))
    assert [delivery.message.body for delivery in first.deliveries] == [b"0", b"1"]
    assert not beyond.deliveries


def test_dead_letters_that_go_round_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A death by rejection in the history turns the broker's cycle detection off, and queues that drop at once loop."""
    monkeypatch.setattr(model, "DEAD_LETTERS", 1000)
    round_about = [
        queue("start", dead_letter_exchange="", dead_letter_routing_key="a"),
        queue("a", max_length=0, dead_letter_exchange="amq.fanout"),
        queue("b", max_length=0, dead_letter_exchange="amq.fanout"),
    ]
    topology = Topology(queues=round_about, profile="rabbitmq-3.10")
    for name in ("a", "b"):
        topology = topology.bind(Binding.to_queue("amq.fanout", name))
    broker = Broker(topology)
    broker.publish(Message("", "start"))
    delivery = broker.get("start")
    assert delivery is not None
    with pytest.raises(InputError, match="dead letters go round without end: 1,000 at once, from"):
        broker.reject(delivery, requeue=False)


def test_as_many_dead_letters_as_allowed_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the number of dead letters of one event, itself included."""
    monkeypatch.setattr(model, "DEAD_LETTERS", 3)
    short = queue("a", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="b")
    broker = Broker(Topology(queues=[short, Queue("b")]))
    send(broker, "a", b"0", b"1", b"2")
    broker.advance(1)
    assert bodies(broker, "b") == [b"0", b"1", b"2"]
    send(broker, "a", b"0", b"1", b"2", b"3")
    with pytest.raises(InputError, match="3 at once, from a"):
        broker.advance(1)


def test_a_priority_that_a_broker_refuses_counts_as_none() -> None:
    """A topology from a file may have it: its queue is one without priorities."""
    broker = Broker(Topology(queues=[queue("a", max_priority=-1)]))
    send(broker, "a", b"0", priority=3)
    assert bodies(broker, "a") == [b"0"]


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_time_does_not_go_back(seconds: float) -> None:
    """Nor does it come to an end."""
    with pytest.raises(ValueError, match="time passes by 0 or more seconds"):
        Broker(Topology()).advance(seconds)


@with_each("release", ["3.10", "3.13", "4.3"])
@with_each(
    "deaths",
    [
        "no list", [1, None], [{}], [{"queue": {"a": 1}, "reason": []}],
        [{"queue": "a", "reason": "expired", "count": "many"}, {"queue": "z", "reason": "expired"}],
        [{"queue": "a", "reason": "expired", "count": None, "time": 1, "exchange": 5, "routing-keys": "k"}] * 3,
    ],
)  # fmt: skip
def test_a_history_of_any_shape_can_be_published(deaths: Any, release: str) -> None:
    """A publisher may set the header x-death to anything; the message lives on."""
    queues = [
        queue(name, message_ttl=10, dead_letter_exchange="", dead_letter_routing_key=target)
        for name, target in (("a", "b"), ("b", "c"))
    ]
    broker = Broker(Topology(queues=[*queues, Queue("c")], profile=f"rabbitmq-{release}"))
    broker.publish(Message("", "a", {"x-death": deaths}))
    broker.advance(1)
    [message] = broker.messages("c")
    died_in = [death.get("queue") for death in message.headers["x-death"]]
    assert [name in died_in for name in ("a", "b")] == [True, True]


@pytest.mark.parametrize("priority", [-1, 256, "5", None])
def test_a_priority_that_cannot_be_sent_is_refused(priority: Any) -> None:
    """It is one byte."""
    with pytest.raises(InputError, match="the property priority is a number from 0 to 255, not"):
        Broker(Topology(queues=[Queue("a")])).publish(Message("", "a", {}, {"priority": priority}))


@pytest.mark.parametrize(("release", "ready"), [("rabbitmq-4.0", 1), ("rabbitmq-4.3", 2)])
def test_since_4_3_a_queue_takes_its_own_dead_letter_although_it_is_full(release: str, ready: int) -> None:
    """As live brokers do, from the second dead letter on: what sends them is told of the limit too late."""
    full = {"max_length": 1, "overflow": "reject-publish", "dead_letter_strategy": "at-least-once"}
    again = queue("again", queue_type="quorum", dead_letter_exchange="", **full)
    for is_first in (True, False):
        broker = Broker(Topology(queues=[again], profile=release))
        if not is_first:
            send(broker, "again", b"0")
            broker.reject(taken(broker, "again"), requeue=False)
            broker.ack(taken(broker, "again"))
        send(broker, "again", b"1")
        delivery = taken(broker, "again")
        send(broker, "again", b"2")
        broker.reject(delivery, requeue=False)
        assert len(broker.messages("again")) == (1 if is_first else ready)


def taken(broker: Broker, name: str) -> Delivery:
    """Return the next message of a queue, which has one."""
    delivery = broker.get(name)
    assert delivery is not None
    return delivery
