"""Random plans: a topology, steps, and what the model says happens at each step.

A plan is deterministic on a server, too. All timers have fired at the end of a step, and no queue gets messages from
two sources within one step, whose order would be a race; nothing goes round for ever. Steps that would break this are
left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from exchange import Binding, Exchange, Message, Policy, Queue, Topology
from exchange.entities.profile import Profile
from exchange.errors import BrokerError, InputError
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Consumer, Delivery
from exchange.lifecycle.content import Content
from exchange.lifecycle.dead_letters import DeadLettering
from exchange.lifecycle.queues import LiveQueue
from exchange.lifecycle.quorum import QuorumQueue
from exchange.routing.router import Router
from exchange.values.message import Message as RoutedMessage

SETTLE_SECONDS: Final = 0.4
"""Virtual time after each step: more than the longest chain of times to live, of pauses and of consumers' timeouts."""
ENDS: Final = (("ack", False), ("nack", True), ("nack", False), ("reject", True), ("reject", False))
"""How a delivery may end: the method, and whether it requeues."""
PAUSES: Final = (11, 23, 37)
"""Milliseconds that a message waits which comes back to a quorum queue."""
TIMEOUTS: Final = (13, 29, 47)
"""Milliseconds that a consumer may take: their sums with pauses differ by enough."""
TIMER_MILLISECONDS: Final = 10
"""Time by which two timers must differ, for a broker to ring them in their order."""
DEATHS: Final[tuple[Mapping[str, Any], ...]] = (
    {"x-first-death-reason": "expired"}, {"x-first-death-reason": "rejected"}, {"x-death": None},
)  # fmt: skip
"""What a headers binding asks of dead letters."""
MOST_DEATHS: Final = 40
"""Maximum number of dead letters of one step."""
MOST_TAKES: Final = 100
"""Maximum number of messages that are taken at the end: some go round for ever."""
MOST_HOLD: Final = 6
"""Maximum number of unacknowledged messages of basic.get."""


class Received(NamedTuple):
    """What a consumer sees of a message."""

    exchange: str
    routing_key: str
    redelivered: bool
    body: bytes
    headers: Any
    expiration: Any
    priority: Any


@dataclass
class Step:
    """Something to do, and what the model says about it.

    ``action`` is ``publish``, ``get``, ``settle``, ``consume``, ``cancel``, ``close`` or ``take``; ``given`` are its
    arguments.
    """

    action: str
    given: dict[str, Any]
    confirmed: bool | None = None
    """Of a publish: whether it is confirmed."""
    received: Received | None = None
    """Of a get, take or settle: the message, None from an empty queue."""
    counts: dict[str, int] = field(default_factory=dict)
    """Queue -> number of ready messages after the step."""
    delivered: dict[int, int] = field(default_factory=dict)
    """Consumer -> number of messages that it was delivered so far."""
    held: int = 0
    """Number of messages of basic.get that are not settled; a timeout ends others with their channel."""
    deaths: int = 0
    """Number of messages that were dead-lettered or dropped in the step."""
    waits: float = 0.0
    """Seconds until all has expired that expires in the step."""


@dataclass
class Plan:
    """A topology and the steps; the last ones take all messages from the queues."""

    topology: Topology
    steps: list[Step]
    messages: int
    deaths: int


class TooManyDeaths(Exception):
    """A step is left out: dead letters go round in it, perhaps without end, and many times as fast as on a server."""


class WatchedOffice(DeadLettering):
    """The model's dead letters, of which the broker is told before each."""

    def __init__(self, broker: WatchedBroker, router: Router) -> None:
        super().__init__(broker, router)
        self.watch: Final = broker.note_death

    def send(self, queue: LiveQueue, content: Content, failures: int | None, reason: str) -> None:
        """Dead-letter one message."""
        self.watch(queue.name, reason)
        super().send(queue, content, failures, reason)


class WatchedBroker(Broker):
    """The model, and who sent to whom within a step."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, on_loss=lambda _: None)  # so that it notes each death
        self.dead_letters = WatchedOffice(self, self._router)  # type: ignore[misc]
        self.sources: defaultdict[str, set[str]] = defaultdict(set)
        self.deaths = 0
        self.deaths_before = 0
        self.expired: Final[dict[str, float]] = {}
        """Queue -> milliseconds since the epoch at which its latest message expired."""
        self.touched: Final[dict[str, float]] = {}
        """Queue -> milliseconds since the epoch at which it got its latest message, or a timer of consumers rang."""
        self.rung = 0.0
        """Milliseconds since the epoch at which the latest timer rang."""
        self.source = ""

    def publish(self, message: RoutedMessage) -> Any:
        """Publish, and note the targets."""
        self.source = "publisher"
        return super().publish(message)

    def _ring(self) -> None:
        time, _, queue = self._alarms[0]
        if isinstance(queue, QuorumQueue):
            self._note_timers(queue, time)
        super()._ring()
        self.rung = self.now

    def _note_timers(self, queue: QuorumQueue, time: float) -> None:
        """Note if what happens next in a queue depends on which of two timers rings first."""
        own = [*(each.deadline for each in queue.unacked.values()), *(ready for ready, _, _ in queue.waiting)]
        soon = {each for each in own if each - time < TIMER_MILLISECONDS}
        if soon:
            expiries = (each.expires for each in (*queue.kept(), *queue.unacked) if each.expires is not None)
            soon.update(each for each in expiries if abs(each - time) < TIMER_MILLISECONDS)
            self._touch(queue.name)
            if len(soon) > 1:
                self.sources[queue.name] |= {"one timer", "another timer"}

    def _touch(self, name: str) -> None:
        """Note that something happens in a queue that consumers' timers may come before or after."""
        if 0 < abs(self.now - self.touched.get(name, -inf)) < TIMER_MILLISECONDS:
            self.sources[name] |= {"one timer", "another timer"}
        self.touched[name] = self.now

    def note_death(self, queue: str, reason: str) -> None:
        """Note that a message died in a queue, which sends its dead letter now."""
        if reason == "expired":
            self.expired[queue] = self.now
        self.deaths += 1
        if self.deaths - self.deaths_before > MOST_DEATHS:
            raise TooManyDeaths
        self.source = queue

    def offer(self, name: str, content: Content, publisher: object | None) -> bool:
        """Publish to one queue, and note who sent."""
        if isinstance(self._queues[name], QuorumQueue):
            self._touch(name)
        is_second = self.source in self.sources[name]
        self.sources[name].add(self.source)
        if self._queues[name].limits.has_length and self._expires_now(name):
            self.sources[name].add("expiry")  # whether there is room depends on which of the two comes first
        if publisher is self._queues[name] and self.release.deaths_are_headers:
            # 3.10 never notes that a dead letter arrived which must arrive in the queue that it died in: it keeps both.
            self.sources[name].add("itself")
        taken = super().offer(name, content, publisher)
        if is_second and not taken and publisher is not None:
            # A queue asks its publishers to stop, and they may have sent the next message before they hear it.
            self.sources[name].add("late notice")
        return taken

    def _expires_now(self, queue: str) -> bool:
        """Return whether a message of a queue expires at about this time, or has expired."""
        times = [message.expires for message in self._queues[queue].order if message.expires is not None]
        return any(abs(time - self.now) < TIMER_MILLISECONDS for time in (*times, self.expired.get(queue, -inf)))

    @property
    def is_racy(self) -> bool:
        """Whether a queue got messages from two sources since the last step."""
        return any(len(sources) > 1 for sources in self.sources.values())


class Player:
    """The model with the deliveries and consumers of the steps so far."""

    def __init__(self, topology: Topology) -> None:
        self.broker = WatchedBroker(topology)
        self.held: list[Delivery] = []
        self.consumers: list[Consumer] = []
        self.delivered: list[list[Delivery]] = []

    def can_play(self, step: Step) -> bool:
        """Take a step; return whether a server would do the same for certain."""
        if step.action == "cancel" and self._strands_messages(self.consumers[step.given["consumer"]]):
            return False
        try:
            self.play(step)
            deaths = self.broker.deaths
            self.broker.advance(SETTLE_SECONDS)
        except (TooManyDeaths, InputError):  # it never ends
            return False
        counts = {name: len(self.broker.queue(name).order) for name in self.broker.queues}
        return self.broker.deaths == deaths and counts == step.counts and not self.broker.is_racy

    def _strands_messages(self, consumer: Consumer) -> bool:
        """Return whether it is the single active consumer of a classic queue with ready messages, before 4.0.

        The next consumer does not get them then, and the queue's process crashes at the next publish, as it finds both
        a consumer and messages (3.10.8).
        """
        live = self.broker.queue(consumer.queue)
        return not self.broker.release.cancel_delivers and live.limits.single_active_consumer and len(live.order) > 0

    def play(self, step: Step) -> None:
        """Take a step, and note in it what happens."""
        broker, given = self.broker, step.given
        broker.sources.clear()
        broker.deaths_before = broker.deaths
        if step.action == "publish":
            step.confirmed = broker.publish(given["message"]).is_confirmed
        elif step.action == "get":
            delivery = broker.get(given["queue"])
            if delivery is not None:
                step.received = see(delivery)
                self.held.append(delivery)
        elif step.action == "settle":
            pool = self.held if given["consumer"] is None else self.delivered[given["consumer"]]
            delivery = pool.pop(given["index"])
            given["queue"] = delivery.queue
            step.received = see(delivery)
            if given["how"] == "ack":
                broker.ack(delivery)
            else:
                settle = broker.nack if given["how"] == "nack" else broker.reject
                settle(delivery, requeue=given["requeue"])
        elif step.action == "consume":
            arguments = {name: given[name] for name in ("prefetch", "priority", "timeout")}
            consumer = broker.consume(given["queue"], **arguments)
            self.consumers.append(consumer)
            self.delivered.append([])
        elif step.action == "cancel":
            broker.cancel(self.consumers[given["consumer"]])
        elif step.action == "close":
            self._collect()
            self.delivered[given["consumer"]].clear()
            broker.close(self.consumers[given["consumer"]])
        elif step.action == "take":
            delivery = broker.get(given["queue"], auto_ack=True)
            step.received = None if delivery is None else see(delivery)
        # What is held by a consumer has no alarm, and is dead all the same when it comes back.
        held = [message.expires for name in broker.queues for message in broker.queue(name).unacked]
        start = broker.rung = broker.now
        broker.advance(SETTLE_SECONDS)
        step.waits = (max(broker.rung, *(each for each in held if each is not None), start) - start) / 1000
        step.deaths = broker.deaths - broker.deaths_before
        self._collect()
        step.counts = {name: len(broker.queue(name).order) for name in broker.queues}
        step.held = len(self.held)
        step.delivered = {number: len(pool) for number, pool in enumerate(self.delivered)}

    def _collect(self) -> None:
        for consumer, pool in zip(self.consumers, self.delivered, strict=True):
            while (delivery := consumer.receive()) is not None:
                pool.append(delivery)
        for pool in (self.held, *self.delivered):  # but for those whose channel is closed
            pool[:] = [delivery for delivery in pool if not delivery.is_settled]


def see(delivery: Delivery) -> Received:
    """Return what a consumer sees of a delivery."""
    message = delivery.message
    return Received(
        message.exchange, message.routing_key, delivery.redelivered, message.body, plain(dict(message.headers)),
        message.properties.get("expiration"), message.properties.get("priority"),
    )  # fmt: skip


def plain(value: Any) -> Any:
    """Return headers without the times of deaths."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name != "time"}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def make_plan(seed: str, prefix: str, profile: Profile, length: int, *, policies: bool) -> Plan:
    """Make a random plan of this length, and a few steps that empty all queues."""
    rng = Random(seed)
    topology = make_topology(rng, prefix, profile, policies=policies)
    player, steps, published = Player(topology), list[Step](), 0
    for _ in range(length):
        step = make_step(rng, player, prefix, published, topology)
        if not player.can_play(step):
            player = Player(topology)
            for done in steps:
                player.play(done)
            continue
        published += step.action == "publish"
        steps.append(step)
    last = [Step("cancel", {"consumer": number}) for number, each in enumerate(player.consumers) if each.is_active]
    for step in chain(last, islice(takes(player.broker), MOST_TAKES)):
        if not player.can_play(step):
            break
        steps.append(step)
    return Plan(topology, steps, published, player.broker.deaths)


def takes(broker: Broker) -> Iterator[Step]:
    """Yield steps that take all messages from all queues, as long as each is played before the next."""
    for name in broker.queues:
        if not can_get(broker.queue(name)):
            continue
        while len(broker.queue(name).order):
            yield Step("take", {"queue": name})
        yield Step("take", {"queue": name})


def can_get(queue: LiveQueue) -> bool:
    """Return whether basic.get is allowed: not for a quorum queue with a single active consumer."""
    return not (isinstance(queue, QuorumQueue) and queue.limits.single_active_consumer)


def make_topology(rng: Random, prefix: str, profile: Profile, *, policies: bool) -> Topology:
    """Make queues with limits and dead letter exchanges."""
    exchanges = [
        Exchange(f"{prefix}topic", "topic"),
        Exchange(f"{prefix}fanout", "fanout", internal=rng.random() < 0.5),
        Exchange(f"{prefix}headers", "headers"),
    ]
    names = [f"{prefix}q{number}" for number in range(rng.randint(3, 5))]
    targets = ["", "", "", *(exchange.name for exchange in exchanges), f"{prefix}nowhere"]
    topology = Topology(exchanges, profile=profile)
    if policies:
        definition: dict[str, Any] = {
            "dead-letter-exchange": rng.choice(targets),
            "dead-letter-routing-key": rng.choice(names),
        }
        if rng.random() < 0.5:
            definition = {"max-length": rng.randint(1, 3), "overflow": rng.choice(("drop-head", "reject-publish"))}
        if profile.lives.consumer_timeout is not None and rng.random() < 0.5:
            definition |= make_return_settings(rng, "")
        topology = topology.set_policy(Policy(f"{prefix}policy", f"^{prefix}q[0-2]$", definition, "queues"))
    for name in names:
        topology = topology.declare_queue(make_queue(rng, name, names, targets, profile))
    for name in names:
        for exchange, key, arguments in (
            ("topic", rng.choice(("a.*", "#.b", "*.*", "#")), {}),
            ("fanout", "", {}),
            ("headers", "", {"x-match": "any-with-x", **rng.choice(DEATHS)}),
        ):
            if rng.random() < 0.3:
                topology = topology.bind(Binding.to_queue(f"{prefix}{exchange}", name, key, arguments))
    return topology


def make_queue(rng: Random, name: str, names: list[str], targets: list[str], profile: Profile) -> Queue:
    """Make a queue that the broker accepts."""
    has_timeouts = profile.lives.consumer_timeout is not None
    is_quorum = rng.random() < (0.6 if has_timeouts else 0.4)
    arguments: dict[str, Any] = {"x-queue-type": "quorum"} if is_quorum else {}
    if rng.random() < 0.8:
        arguments["x-dead-letter-exchange"] = exchange = rng.choice(targets)
        if rng.random() < (0.9 if not exchange else 0.4):
            arguments["x-dead-letter-routing-key"] = rng.choice((*names, "a.b"))
    if rng.random() < 0.3:
        arguments["x-message-ttl"] = rng.choice((0, 10, 20, 50))
    if rng.random() < 0.5:
        arguments["x-max-length"] = rng.randint(0, 4)
    if rng.random() < 0.15 and not (is_quorum and profile.lives.properties_have_size):
        arguments["x-max-length-bytes"] = rng.randint(5, 30)
    if rng.random() < 0.5:
        kinds = ("drop-head", "reject-publish") if is_quorum else ("drop-head", "reject-publish", "reject-publish-dlx")
        arguments["x-overflow"] = rng.choice(kinds)
    if is_quorum:
        if has_timeouts and rng.random() < 0.6:
            arguments |= make_return_settings(rng, "x-")
        if rng.random() < 0.5:
            arguments["x-delivery-limit"] = rng.randint(-1, 3)
        if arguments.get("x-overflow") == "reject-publish" and rng.random() < 0.3:
            arguments["x-dead-letter-strategy"] = "at-least-once"
    elif rng.random() < 0.25:
        arguments["x-max-priority"] = rng.choice((1, 3, 5))
    if rng.random() < 0.15:
        arguments["x-single-active-consumer"] = True
    return Queue(name, arguments=arguments)


def make_return_settings(rng: Random, prefix: str) -> dict[str, Any]:
    """Make settings of how messages come back to a quorum queue of 4.3."""
    settings: dict[str, Any] = {}
    if rng.random() < 0.6:
        settings = {
            "delayed-retry-type": rng.choice(("all", "failed", "returned")),
            "delayed-retry-min": rng.choice(PAUSES),
        }
        if rng.random() < 0.5:
            settings["delayed-retry-max"] = rng.choice((37, 61, 83))
    if not settings or rng.random() < 0.4:
        settings["consumer-timeout"] = rng.choice(TIMEOUTS)
    return {f"{prefix}{name}": value for name, value in settings.items()}


def make_step(rng: Random, player: Player, prefix: str, number: int, topology: Topology) -> Step:
    """Make the next step."""
    queues = [*topology.queues]
    choice = rng.random()
    active = [number for number, consumer in enumerate(player.consumers) if consumer.is_active]
    pools = [(None, player.held), *((number, pool) for number, pool in enumerate(player.delivered))]
    pools = [(consumer, pool) for consumer, pool in pools if pool]
    if choice < 0.3 and pools:
        consumer, pool = rng.choice(pools)
        how, requeue = rng.choice(ENDS)
        given = {"consumer": consumer, "index": rng.randrange(len(pool)), "how": how, "requeue": requeue}
        return Step("settle", given)
    open_queues = [name for name in queues if can_get(player.broker.queue(name))]
    if choice < 0.5 and len(player.held) < MOST_HOLD and open_queues:
        return Step("get", {"queue": rng.choice(open_queues)})
    if choice < 0.55 and len(active) < 3:
        prefetch, priority = rng.choice(((1, 0), (1, 0), (2, 0), (3, 1)))
        queue, timeout = rng.choice(queues), None
        if topology.profile.lives.consumer_timeout is not None and rng.random() < 0.2:
            timeout = rng.choice(TIMEOUTS) if topology.queues[queue].type == "quorum" else None
        return Step("consume", {"queue": queue, "prefetch": prefetch, "priority": priority, "timeout": timeout})
    if choice < 0.58 and active:
        return Step(rng.choice(("cancel", "close")), {"consumer": rng.choice(active)})
    return Step("publish", {"message": make_message(rng, prefix, number, queues)})


def make_message(rng: Random, prefix: str, number: int, queues: list[str]) -> Message:
    """Make a message with a number for its body."""
    exchange, key = rng.choice((("", rng.choice(queues)), ("", rng.choice(queues)), (f"{prefix}topic", "a.b")))
    headers: dict[str, Any] = {}
    if rng.random() < 0.1:
        headers["CC"] = [rng.choice(queues)]
    if rng.random() < 0.1:
        headers["BCC"] = [rng.choice(queues)]
    if rng.random() < 0.1:
        headers["n"] = number
    if rng.random() < 0.05:
        headers["x-death"] = [
            {"count": 2, "reason": rng.choice(("expired", "rejected")), "queue": rng.choice(queues), "exchange": "",
             "routing-keys": ["k"]}
        ]  # fmt: skip
    properties: dict[str, Any] = {}
    if rng.random() < 0.15:
        properties["expiration"] = rng.choice(("0", "10", "30", "50"))
    if rng.random() < 0.3:
        properties["priority"] = rng.choice((0, 1, 4, 5, 9, 40))
    return Message(exchange, key, headers, properties, str(number).encode() + b"." * rng.choice((0, 0, 5)))


__all__ = ["BrokerError", "Plan", "Received", "Step", "make_plan", "plain"]
