"""Play a life on the model, event by event, with one message; search the lives of a topology by playing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from bindings.checking.rules.life import Life, LifeEvent
from exchange import Message, Topology
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Consumer, Delivery
from exchange.lifecycle.outcomes import Loss

BODY: Final = b"m"
FILLER: Final = b"f"
LAPS: Final = 3
WITH_CONSUMERS: Final = ("rejected", "requeued", "nacked")
REASONS: Final = {"unused": "queue_deleted", "abandoned": "queue_deleted"}
INSTANT: Final = 0.0005
"""Seconds: less than any time to live but zero."""
MOST: Final = 300
"""Maximum number of messages that fill a queue, or of tries."""


class Player:
    """The model with one message that is followed; its copies in other queues are removed after each event."""

    def __init__(self, topology: Topology, events: Iterable[LifeEvent]) -> None:
        events = list(events)
        self.topology: Final = topology
        self.lost: Final[list[Loss]] = []
        self.broker: Final = Broker(topology, choose=lambda _: 0, on_loss=self.lost.append)
        self.here = ""
        self._filled: Final[set[str]] = set()
        self._held: Delivery | None = None
        whats: dict[str, set[str]] = {}
        for event in events:
            whats.setdefault(event.queue, set()).add(event.what)
        self._consumers: Final[dict[str, Consumer]] = {
            queue: self.broker.consume(queue, prefetch=1)
            for queue, what in whats.items()
            if what <= set(WITH_CONSUMERS)
        }

    def publish(self, exchange: str, key: str, queue: str) -> None:
        """Publish the message, and follow the copy in a queue."""
        assert queue in self.broker.publish(Message(exchange, key, body=BODY)).route.queues
        self.follow(queue)

    def follow(self, queue: str) -> None:
        """Follow the copy in a queue, and remove all others."""
        self.here = queue
        for name in self.broker.queues:
            if name != queue and name not in self._filled and self.broker.queue(name).limits.type != "stream":
                consumer = self._consumers.get(name)
                while consumer is not None and (delivery := consumer.receive()) is not None:
                    self.broker.ack(delivery)
                self.broker.purge(name)

    def message_in(self, queue: str) -> Message | None:
        """Return the message that is ready in a queue, or that its consumer got; None if there is none."""
        consumer = self._consumers.get(queue)
        held = [] if consumer is None else [delivery.message for delivery in consumer.deliveries]
        found = [message for message in (*held, *self.broker.messages(queue)) if message.body == BODY]
        assert len(found) <= 1
        return found[0] if found else None

    def targets(self) -> list[str]:
        """Return the queues that have the message."""
        return [name for name in self.broker.queues if self.message_in(name) is not None]

    def happen(self, event: LifeEvent) -> None:
        """Let an event happen to the message."""
        broker = self.broker
        if event.what != "unused":
            for name in [*broker.queues]:
                broker.declare_queue(self.topology.queues[name])  # a use, so that none is deleted
        if event.what == "filled":
            self._fill(event.queue)
            return
        assert event.queue == self.here
        for _ in range(event.times):
            if event.what == "rejected":
                broker.reject(self._take(), requeue=False)
            elif event.what in ("requeued", "nacked"):
                (broker.nack if event.what == "nacked" else broker.reject)(self._take())
                if event.after is not None:
                    assert self.message_in(event.queue) is None
                    broker.advance(1)
            elif event.what == "unused":
                broker.advance(INSTANT)
            elif event.what == "expired":
                assert event.after is not None
                broker.advance(event.after / 1000)  # nothing happens if it is gone at once, after no time
            elif event.what == "abandoned":
                broker.cancel(broker.consume(event.queue))
            elif event.what == "maxlen":
                self._push_out(event.queue)
            elif event.what == "delivery_limit":
                for _ in range(MOST):
                    broker.reject(self._take())
                    if not self.targets():
                        broker.advance(1)  # it waits for a retry, or is gone
                    if self.message_in(event.queue) is None or event.target == event.queue:
                        break

    def _take(self) -> Delivery:
        consumer = self._consumers.get(self.here)
        delivery = self._held or (self.broker.get(self.here) if consumer is None else consumer.receive())
        self._held = None
        assert delivery is not None
        assert delivery.message.body == BODY
        return delivery

    def _fill(self, queue: str) -> None:
        """Publish messages to a queue until it refuses one."""
        self._filled.add(queue)
        if queue == self.here:  # its message is with a consumer meanwhile
            self._held = self.broker.get(queue)
        for _ in range(MOST):
            if not self.broker.publish(Message("", queue, body=FILLER)).is_confirmed:
                return
        raise AssertionError(f"{queue} takes {MOST} messages")

    def _push_out(self, queue: str) -> None:
        """Publish messages to a queue until it drops the one that is followed."""
        deaths = self.deaths_of(self.message_in(queue))
        for _ in range(MOST if deaths is not None else 0):  # a queue without room has dropped it at once
            self.broker.publish(Message("", queue, body=FILLER))
            if self.deaths_of(self.message_in(queue)) != deaths:
                return
        assert deaths is None, f"{queue} keeps {MOST} messages"

    @staticmethod
    def deaths_of(message: Message | None) -> tuple[Any, ...] | None:
        """Return where and of what a message died, the latest death first."""
        if message is None:
            return None
        return tuple([(death["queue"], death["reason"]) for death in message.headers.get("x-death", ())])


def play(topology: Topology, life: Life) -> None:
    """Play a life, its round some times; raises AssertionError if something else happens than its events."""
    events = [*life.events, *life.round * LAPS]
    player = Player(topology, events)
    if events[0].what == "unused":
        player.broker.advance(
            (events[0].after or 0) / 1000 - INSTANT
        )  # a message that comes late does not expire before
    player.publish(life.exchange, life.routing_key, next(event.queue for event in events if event.what != "filled"))
    for number, event in enumerate(events):
        player.happen(event)
        if event.what == "filled":
            continue
        if event.what in ("requeued", "nacked"):
            message = player.message_in(event.queue)
            assert message is not None
            assert player._take().redelivered
        elif event.target is None:
            assert number == len(events) - 1
            assert not player.targets()
            lost = [loss for loss in player.lost if loss.message.body == BODY]
            assert any((loss.queue, loss.reason) == (event.queue, REASONS.get(event.what, event.what)) for loss in lost)
        else:
            message = player.message_in(event.target)
            assert message is not None, f"{number}: {event}"
            [queue, reason] = (player.deaths_of(message) or [("", "")])[0]
            if len(topology.queues) and not topology.profile.name.startswith(("rabbitmq-3.10", "rabbitmq-3.12")):
                assert (queue, reason) == (event.queue, event.what)
            player.follow(event.target)


State = tuple[Any, ...]
"""The queue that a message is in, its address there, and where and of what it died."""


def find_states(
    topology: Topology, messages: Iterable[tuple[str, str]], most: int = 400
) -> tuple[dict[State, list[State]], list[LifeEvent]] | None:
    """Return each state that a message may come to by rejections and expiry -> the states that may follow.

    And the events that end it. Each life is played anew on the model. None if there are more states than ``most``.
    """
    following: dict[State, list[State]] = {}
    ends: dict[LifeEvent, None] = {}
    pending: list[tuple[State, tuple[str, str], list[LifeEvent]]] = []

    def state_of(player: Player, queue: str) -> State:
        message = player.message_in(queue)
        assert message is not None
        return queue, message.exchange, message.routing_key, player.deaths_of(message)

    def start(publish: tuple[str, str], events: Sequence[LifeEvent], queue: str) -> Player:
        player = Player(topology, ())
        player.publish(*publish, events[0].queue if events else queue)
        for event in events:
            player.happen(event)
            assert event.target is not None
            player.follow(event.target)
        return player

    for publish in messages:
        player = Player(topology, ())
        player.broker.publish(Message(*publish, body=BODY))
        pending += [(state_of(player, queue), publish, []) for queue in player.targets()]
    while pending:
        state, publish, events = pending.pop()
        if state in following:
            continue
        if len(following) == most:
            return None
        following[state] = []
        ttl = Player(topology, ()).broker.queue(state[0]).limits.ttl
        for event in (LifeEvent(state[0], "rejected"), *([LifeEvent(state[0], "expired", after=ttl)] if ttl else [])):
            player = start(publish, events, state[0])
            player.happen(event)
            targets = player.targets()
            if not targets:
                ends[event] = None
            for target in targets:
                after = state_of(player, target)
                following[state].append(after)
                pending.append((after, publish, [*events, event._replace(target=target)]))
    return following, [*ends]
