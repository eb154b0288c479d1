"""No message of the model appears or disappears: each copy is ready, held, acknowledged, or noted as lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exchange import Message, Queue, Topology
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Delivery
from exchange.lifecycle.outcomes import Loss
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
        "max-priority": draw(st.none() | st.integers(1, 4)) if kind == "classic" else None,
        "delivery-limit": draw(st.none() | st.integers(0, 2)) if kind == "quorum" else None,
    }
    if draw(st.booleans()):
        targets = [*NAMES[NAMES.index(name) + 1 :], "nowhere"]  # forwards only: what goes round may have no end
        given |= {"dead-letter-exchange": "", "dead-letter-routing-key": draw(st.sampled_from(targets))}
    return {f"x-{key}": value for key, value in given.items() if value is not None}


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["publish", "publish", "get", "ack", "nack", "reject", "consume", "close", "advance", "delete"]
        ),
        st.sampled_from(NAMES),
        st.integers(0, 9),
    ),
    max_size=40,
)


@examples(150)
@given(queues(), ACTIONS, st.sampled_from(["rabbitmq-3.10", "rabbitmq-3.13", "rabbitmq-4.0", "rabbitmq-4.3"]))
def test_copies_are_neither_made_nor_lost_without_a_note(
    drawn: list[Queue], actions: list[tuple[str, str, int]], release: str
) -> None:
    """Taken by queues = ready + held + acknowledged + lost; and no queue has more ready than its limit."""
    lost: list[Loss] = []
    broker = Broker(Topology(queues=drawn, profile=release), on_loss=lost.append)
    held: list[Delivery] = []
    consumers, taken, acknowledged = [], 0, 0
    for action, name, number in actions:
        if action == "publish":
            properties = {"expiration": str(number * 100), "priority": number} if number % 2 else {}
            taken += broker.publish(Message("", name, {}, properties, b"x" * (number % 4))).is_confirmed
        elif action == "get":
            held += [delivery] if (delivery := broker.get(name)) else []
        elif action == "consume":
            consumers.append(broker.consume(name, prefetch=number % 3 + 1))
        elif action == "close" and consumers:
            broker.close(consumers.pop(number % len(consumers)))
        elif action == "advance":
            broker.advance(number / 4)
        elif action == "delete" and number < 3:
            broker.delete_queue(name)
            held = [delivery for delivery in held if delivery.queue != name]
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
        assert taken == ready + unsettled + acknowledged + len(lost)
        for each in live:
            limit = each.limits.max_length
            assert limit is None or each.limits.overflow != "drop-head" or len(each.order) <= limit
            assert len(list(each.order)) == len(each.order)
