"""No message of the model appears or disappears: each copy is ready, held, acknowledged, or noted as lost."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from exchange import Binding, Exchange, Message, Queue, Topology
from exchange.errors import ResourceLocked
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Consumer, ConsumerTurns, Delivery, SingleActive
from exchange.lifecycle.outcomes import Loss
from exchange.lifecycle.queues import LiveQueue
from exchange.lifecycle.quorum import QuorumQueue
from tests.support.tiers import examples

NAMES = ("a", "b", "c")


@st.composite
def queues(draw: st.DrawFn) -> list[Queue]:
    """Draw queues whose dead letters go to at most one other queue each, so that no copies are made."""
    return [Queue(name, arguments=draw(arguments(name))) for name in NAMES]


@st.composite
def arguments(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw limits of a queue."""
    kind = draw(st.sampled_from(["classic", "quorum"]))
    given: dict[str, Any] = {
        "queue-type": kind,
        "max-length": draw(st.none() | st.integers(0, 3)),
        "max-length-bytes": draw(st.none() | st.integers(0, 9)),
        "message-ttl": draw(st.none() | st.integers(0, 2000)),
        "overflow": draw(st.sampled_from([None, "drop-head", "reject-publish"])),
        "single-active-consumer": draw(st.sampled_from([None, None, True])),
        "max-priority": draw(st.none() | st.integers(1, 4)) if kind == "classic" else None,
        "delivery-limit": draw(st.none() | st.integers(0, 2)) if kind == "quorum" else None,
    }
    if draw(st.booleans()):
        targets = [*NAMES[NAMES.index(name) + 1 :], "nowhere"]  # forwards only: what goes round may have no end
        given |= {"dead-letter-exchange": "", "dead-letter-routing-key": draw(st.sampled_from(targets))}
        if kind == "quorum" and given["overflow"] == "reject-publish" and draw(st.booleans()):
            given["dead-letter-strategy"] = "at-least-once"
    return {f"x-{key}": value for key, value in given.items() if value is not None}


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([
            "publish", "publish", "get", "ack", "nack", "reject", "take", "consume", "close", "advance", "delete",
            "purge",
        ]),
        st.sampled_from(NAMES),
        st.integers(0, 9),
    ),
    max_size=40,
)  # fmt: skip
RELEASES = st.sampled_from(["rabbitmq-3.10", "rabbitmq-3.13", "rabbitmq-4.0", "rabbitmq-4.3"])
FULL: list[tuple[str, str, int]] = [("publish", "a", 3)] * 4
SETTLED: list[tuple[str, str, int]] = [("take", "a", 0), ("ack", "a", 0)]
CONSUMED: list[tuple[str, str, int]] = [
    ("publish", "a", 3),
    ("consume", "a", 1),
    ("consume", "a", 4),
    ("publish", "a", 3),
]


def of_quorum(**others: Any) -> list[Queue]:
    """Return the queues, the first one a quorum queue with these arguments."""
    given = {f"x-{name.replace('_', '-')}": value for name, value in others.items()}
    return [Queue("a", arguments={"x-queue-type": "quorum", **given}), Queue("b"), Queue("c")]


def count_retained(queue: LiveQueue) -> int:
    """Return the number of dead letters that a queue keeps until they have arrived."""
    return len(queue._retained) if isinstance(queue, QuorumQueue) else 0


def can_take(consumer: Consumer) -> bool:
    """Return whether a consumer has room, and is not too slow."""
    return consumer.held < consumer.most and not consumer.late


def find_active(turns: ConsumerTurns) -> Consumer | None:
    """Return the single active consumer, if there is one."""
    return turns.active if isinstance(turns, SingleActive) else None


def find_takers(turns: ConsumerTurns) -> list[Consumer]:
    """Return the consumers that the next message may go to: of a single active consumer's queue, none that waits."""
    if not isinstance(turns, SingleActive):
        return turns.consumers
    active = turns.active
    prompt = [consumer for consumer in turns.consumers if not consumer.late]
    assert active in turns.consumers if prompt else active is None or active in turns.consumers
    if active is None or (turns._yields and active.held and any(each.priority > active.priority for each in prompt)):
        return []
    return [active]


@examples(150)
@given(queues(), ACTIONS, RELEASES)
@example(of_quorum(single_active_consumer=True), CONSUMED, "rabbitmq-4.3")
@example(of_quorum(single_active_consumer=True), [*CONSUMED, *SETTLED], "rabbitmq-4.3")
@example(of_quorum(), [("consume", "a", 0), *FULL, *SETTLED, *SETTLED], "rabbitmq-4.0")
@example([Queue("a"), *of_quorum()[1:]], [("consume", "a", 0), *FULL, *SETTLED, *SETTLED], "rabbitmq-4.0")
@example(
    [Queue("a", arguments={"x-max-length-bytes": 6}), *of_quorum()[1:]], [*FULL, ("purge", "a", 0)], "rabbitmq-4.0"
)
@example(
    of_quorum(
        max_length=0, overflow="reject-publish", dead_letter_exchange="", dead_letter_routing_key="b",
        dead_letter_strategy="at-least-once",
    ),
    [("publish", "a", 3), ("get", "a", 0), ("nack", "a", 1), ("publish", "a", 3)], "rabbitmq-4.3",
)  # fmt: skip
def test_copies_are_neither_made_nor_lost_without_a_note(  # noqa: PLR0915  a branch an action
    drawn: list[Queue], actions: list[tuple[str, str, int]], release: str
) -> None:
    """Taken by queues = ready + held + kept as dead letters + acknowledged + lost.

    No queue has more ready than its limit, and each knows their bytes. A quorum queue refuses nothing while it has no
    more than four fifths. No consumer gets a message while one of higher priority could take it, and none waits while
    the queue has one that is ready. A single active consumer makes room for another only when it holds nothing.
    """
    lost: list[Loss] = []
    broker = Broker(Topology(queues=drawn, profile=release), on_loss=lost.append)
    held: list[Delivery] = []
    consumers: list[Consumer] = []
    taken = acknowledged = 0
    for action, name, number in actions:
        before = {consumer: consumer.held for consumer in consumers}
        active_before = {name: find_active(broker.queue(name).turns) for name in NAMES}
        if action == "publish":
            queue = broker.queue(name)
            has_room = isinstance(queue, QuorumQueue) and queue.is_below_soft_limit
            properties = {"expiration": str(number * 100), "priority": number} if number % 2 else {}
            is_confirmed = broker.publish(Message("", name, {}, properties, b"x" * (number % 4))).is_confirmed
            assert is_confirmed or not has_room
            taken += is_confirmed
        elif action == "get":
            with suppress(ResourceLocked):  # by a quorum queue with a single active consumer
                held += [delivery] if (delivery := broker.get(name)) else []
        elif action == "take":
            held += [delivery for consumer in consumers if (delivery := consumer.receive())]
        elif action == "consume":
            consumers.append(broker.consume(name, prefetch=number % 3 + 1, priority=number // 3))
        elif action == "close" and consumers:
            closed = consumers.pop(number % len(consumers))
            broker.close(closed)
            held = [delivery for delivery in held if delivery.consumer is not closed]
        elif action == "advance":
            broker.advance(number / 4 if number < 9 else 200)
        elif action == "purge":
            acknowledged += broker.purge(name)
        elif action == "delete" and number < 3:
            broker.delete_queue(name)
            held = [delivery for delivery in held if delivery.queue != name]
            consumers = [consumer for consumer in consumers if consumer.queue != name]
            broker.declare_queue(drawn[NAMES.index(name)])
        elif held:
            delivery = held.pop(number % len(held))
            acknowledged += action == "ack"
            if action == "ack":
                broker.ack(delivery)
            else:
                settle = broker.nack if action == "nack" else broker.reject
                settle(delivery, requeue=number % 2 == 0)
        live = [broker.queue(each) for each in NAMES]
        ready, unsettled = sum(len(each.order) for each in live), sum(len(each.unacked) for each in live)
        assert taken == ready + unsettled + sum(map(count_retained, live)) + acknowledged + len(lost)
        for each in live:
            limit = each.limits.max_length
            assert limit is None or each.limits.overflow != "drop-head" or len(each.order) <= limit
            assert len(list(each.order)) == len(each.order)
            assert each._bytes == sum(message.size for message in each.order)
            turns = each.turns
            holders = Counter(delivery.consumer for delivery in each.unacked.values())
            assert all(consumer.held == holders[consumer] for consumer in turns.consumers)
            assert not len(each.order) or not any(map(can_take, find_takers(turns)))
            active, former = find_active(turns), active_before[each.name]
            if active and former and active is not former and former in turns.consumers and not former.late:
                assert active.priority > former.priority
                assert not former.held
            is_alone = isinstance(turns, SingleActive)
            if isinstance(turns, SingleActive) and not turns._yields:
                continue
            for consumer in turns.consumers:
                if consumer.held > before.get(consumer, 0):
                    higher = [other for other in turns.consumers if other.priority > consumer.priority]
                    assert not higher if is_alone else all(other.held >= other.most for other in higher)


@given(st.lists(st.booleans(), min_size=1, max_size=3), st.booleans())
@example([True, False], False)
def test_a_message_is_dropped_if_no_queue_got_it_at_once_or_after_any_of_its_delays(
    leads: list[bool], now: bool
) -> None:
    topology = Topology().declare_exchange(Exchange("in", "fanout")).declare_queue(Queue("q"))
    if now:
        topology = topology.bind(Binding.to_queue("in", "q"))
    for number, is_bound in enumerate(leads):
        delayed = Exchange(f"d{number}", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        topology = topology.declare_exchange(delayed).bind(Binding.to_exchange("in", delayed.name))
        if is_bound:
            topology = topology.bind(Binding.to_queue(delayed.name, "q"))
    dropped: list[Message] = []
    broker = Broker(topology, on_dropped=dropped.append)
    broker.publish(Message("in", "", {"x-delay": 1_000}))
    assert not dropped
    broker.advance(2)
    assert len(dropped) == (not now and not any(leads))
    assert len(broker.queue("q").order) == now + sum(leads)
