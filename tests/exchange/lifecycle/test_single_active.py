"""The single active consumer of a quorum queue: who is it, and when nobody is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Message, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import ResourceLocked
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Consumer, Delivery
from tests.support.tiers import examples

RELEASES = ["3.13", "4.0", "4.1.1", "4.1.2", "4.3"]


def make(release: str) -> Broker:
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    return Broker(Topology(queues=[Queue("q", arguments=arguments)], profile=find_profile(release)))


class SlowQueue:
    """Who is active, as rabbit_fifo keeps it: one consumer apart from a list of those that wait, which it sorts."""

    def __init__(self, release: str) -> None:
        self.numbers = tuple(map(int, find_profile(release).written.removeprefix("rabbitmq-").split(".")))
        self.active: Consumer | None = None
        self.quiesces = False
        self.waiting: list[Consumer] = []

    def wait(self, consumer: Consumer) -> None:
        self.waiting.append(consumer)
        if self.numbers >= (4, 0):
            self.waiting.sort(key=lambda each: (-each.priority, -each.prefetch, each.number))

    def activate(self) -> None:
        first = next(iter(self.waiting), None)
        if first is None:
            return
        if self.active is None:
            self.active = self.waiting.pop(0)
        elif self.numbers >= (4, 0) and first.priority > self.active.priority:
            if self.active.held:
                self.quiesces = True
            else:
                last, self.active = self.active, self.waiting.pop(0)
                self.wait(last)

    def remove(self, consumer: Consumer) -> None:
        if consumer is self.active:
            self.active, self.quiesces = None, False
        else:
            self.waiting.remove(consumer)
        self.activate()

    def settle(self, consumer: Consumer, *, returned: bool) -> None:
        """Note that a consumer has settled a delivery, and holds one less."""
        if consumer is self.active and self.quiesces and not consumer.held:
            self.active, self.quiesces = None, False
            self.wait(consumer)
        if not returned or not (4, 0) <= self.numbers < (4, 1, 2):
            self.activate()


@pytest.mark.parametrize("release", RELEASES)
@examples(60)
@given(seed=st.integers(0, 2**32))
def test_the_active_consumer_alone_gets_messages_until_it_quiesces(release: str, seed: int) -> None:
    """After each step: who is active, and that it has all it can take, or nothing new if it leaves its turn."""
    rng, broker, slow = Random(seed), make(release), SlowQueue(release)
    held: list[tuple[Consumer, Delivery]] = []
    for _ in range(40):
        alive, step = [*([slow.active] if slow.active else []), *slow.waiting], rng.random()
        if step < 0.3:
            broker.publish(Message("", "q"))
        elif step < 0.5 and len(alive) < 5:
            consumer = broker.consume("q", prefetch=rng.choice((1, 1, 2, 3)), priority=rng.choice((0, 0, 3, 5)))
            slow.wait(consumer)
            slow.activate()
        elif step < 0.6 and alive:
            consumer = rng.choice(alive)
            broker.cancel(consumer)
            slow.remove(consumer)
        elif held:
            consumer, delivery = held.pop(rng.randrange(len(held)))
            settle, returned = rng.choice(((broker.ack, False), (broker.nack, True), (broker.reject, True)))
            queue = broker.queue("q")
            ready, before = len(queue.order), consumer.held
            consumer.held -= 1  # as it is when the queue chooses
            slow.settle(consumer, returned=returned)
            consumer.held = before
            settle(delivery)
            assert len(queue.order) <= ready + returned
        for consumer in (*alive, *([slow.active] if slow.active else []), *slow.waiting):
            while (got := consumer.receive()) is not None:
                assert (consumer, slow.quiesces) == (slow.active, False)
                held.append((consumer, got))
        if slow.active is not None and not slow.quiesces:
            assert not len(broker.queue("q").order) or slow.active.held == slow.active.prefetch


@pytest.mark.parametrize(("release", "kind"), [("3.10.8", "quorum"), ("4.1.8", "quorum"), ("4.3.6", '<<"quorum">>')])
def test_basic_get_is_refused_in_the_words_of_the_broker(release: str, kind: str) -> None:
    with pytest.raises(ResourceLocked) as caught:
        make(release).get("q")
    assert str(caught.value) == (
        "405 RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. "
        f"basic.get operations are not supported by {kind} queues with single active consumer"
    )
