"""Live a plan on a real broker, many plans side by side, and compare each step with what the model says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, DeliveryError
from pamqp.commands import Basic

from exchange.entities.releases import find_profile
from tests.support.differential import manage
from tests.support.lives.plans import Plan, Received, Step, make_plan, plain
from tests.support.servers import Server

WAIT_SECONDS: Final = 5.0
"""Maximum time until a broker is where the model is."""
LATE_SECONDS: Final = 0.03
"""Time by which a timer may ring late."""
HOP_SECONDS: Final = 0.01
"""Time that a dead letter may take to its next queue without a change of the numbers of messages."""
PAUSE_SECONDS: Final = 0.25
"""Pause after each step of a plan that is repeated."""
LOOK_EVERY: Final = 8
"""Number of steps after which all queues are looked at, not only those that get or lose messages in the model."""
MOST_HOPS: Final = 3
"""Maximum number of looks at all queues before they must be as the model says, one for each dead letter."""
DECLARED_AT_ONCE: Final = 4
"""Maximum number of plans whose queues are being declared: with more, a busy server fails to form quorum queues."""
TRIES: Final = 5
"""Maximum number of times that a plan is begun: a server that is too busy to form a queue closes the connection."""
STEPS: Final = 60


@dataclass
class Outcome:
    """The result of many plans."""

    messages: int = 0
    deaths: int = 0
    steps: int = 0
    plans: int = 0
    begun_again: int = 0
    """Plans whose queues the server was too busy to form."""
    repeated: list[str] = field(default_factory=list)
    """Differences of plans that agreed when they were repeated, with a long pause after each step."""
    differences: list[str] = field(default_factory=list)


class KeptConsumers(dict[str, Any]):
    """The consumers of a channel: one that the broker cancels for its timeout goes on once it has settled all."""

    def pop(self, *_: Any) -> Any:
        """Keep a consumer."""


class Different(Exception):
    """The broker does something else than the model."""


def compare(server: Server, messages: int, seed: int, *, side_by_side: int = 24, steps: int = STEPS) -> Outcome:
    """Live random plans until this number of messages was published, or until the tenth difference."""
    return asyncio.run(_compare(server, messages, seed, side_by_side, steps))


async def _compare(server: Server, messages: int, seed: int, side_by_side: int, steps: int) -> Outcome:
    outcome, number, planned = Outcome(), 0, 0
    profile = find_profile(server.version)
    declaring = asyncio.Semaphore(DECLARED_AT_ONCE)

    async def live(plan: Plan, pause: float = 0.0) -> None:
        """Live a plan on a connection of its own, so that one that the server closes ends no other."""
        for tries in range(TRIES):
            connection = await aiormq.connect(server.url)
            try:
                await Life(server, connection, plan, declaring, pause=pause).live()
            except (AMQPError, ChannelInvalidStateError) as error:
                if "cluster_not_formed" not in str(error) or tries == TRIES - 1:
                    raise Different(f"the broker: {error}") from error
                outcome.begun_again += 1
            else:
                return
            finally:
                await connection.close()

    async def work() -> None:
        nonlocal number, planned
        while planned < messages and len(outcome.differences) < 10:
            number += 1
            name = f"{seed}/{number}"
            policies = server.management_url is not None and number % 5 == 0
            plan = make_plan(name, f"hashstar-{seed}-{number}-", profile, steps, policies=policies)
            planned += plan.messages
            try:
                try:
                    await live(plan)
                except Different as difference:
                    outcome.repeated.append(f"seed {name}: {difference}")
                    await live(plan, PAUSE_SECONDS)
            except Different as difference:
                text = f"RabbitMQ {server.version}, seed {name}: {difference}\n{describe(plan)}"
                outcome.differences.append(text)
            outcome.messages += plan.messages
            outcome.deaths += plan.deaths
            outcome.steps += len(plan.steps)
            outcome.plans += 1

    await asyncio.gather(*(work() for _ in range(side_by_side)))
    return outcome


def describe(plan: Plan) -> str:
    """Return what a plan consists of."""
    parts = [*plan.topology.queues.values(), *plan.topology.bindings, *plan.topology.policies.values(), *plan.steps]
    return "\n".join(map(str, parts))


class Life:
    """One plan on a broker."""

    def __init__(
        self,
        server: Server,
        connection: aiormq.Connection,
        plan: Plan,
        declaring: asyncio.Semaphore,
        *,
        pause: float = 0.0,
    ) -> None:
        self._pause: Final = pause
        self._declaring: Final = declaring
        self._server: Final = server
        self._connection: Final = connection
        self._plan: Final = plan
        self._held: Final[list[tuple[AbstractChannel, DeliveredMessage]]] = []
        """Messages of basic.get, each with a channel of its own, which a consumer's timeout closes."""
        self._consumers: Final[list[tuple[AbstractChannel, str]]] = []
        self._delivered: Final[list[list[DeliveredMessage]]] = []
        self._closing: Final[list[Any]] = []
        self._channel: AbstractChannel

    async def live(self) -> None:
        """Declare the topology, take the steps, and compare what is in the queues at the end."""
        topology = self._plan.topology
        self._channel = await self._connection.channel(publisher_confirms=True)
        for policy in topology.policies.values():
            body = {"pattern": policy.pattern, "apply-to": policy.apply_to, "definition": dict(policy.definition)}
            await asyncio.to_thread(manage, self._server, "PUT", f"policies/%2F/{quote(policy.name)}", body)
        try:
            async with self._declaring:
                await self._declare()
            counts: dict[str, int] = {}
            for number, step in enumerate(self._plan.steps):
                moved = {name for name, count in step.counts.items() if count != counts.get(name)}
                counts = step.counts
                try:
                    await self._take(step)
                    await self._settle_down(step, moved if number % LOOK_EVERY else counts.keys())
                except Different as difference:
                    raise Different(f"step {number}: {step.action} {step.given}: {difference}") from None
        finally:
            for channel in {*(own for own, _ in self._consumers), *(own for own, _ in self._held)}:
                if not channel.is_closed:
                    await channel.close()
            if not self._channel.is_closed:
                await self._delete()
                await self._channel.close()
            for policy in topology.policies.values():
                path = f"policies/%2F/{quote(policy.name)}"
                await asyncio.to_thread(manage, self._server, "DELETE", path)

    async def _delete(self) -> None:
        """Delete what the plan declares; nothing happens where it is not there."""
        for queue in self._plan.topology.queues:
            await self._channel.queue_delete(queue)
        for exchange in self._plan.topology.exchanges.values():
            if exchange.name.startswith("hashstar-"):
                await self._channel.exchange_delete(exchange.name)

    async def _declare(self) -> None:
        topology, channel = self._plan.topology, self._channel
        await self._delete()  # what an earlier try left
        for exchange in topology.exchanges.values():
            if exchange.name.startswith("hashstar-"):
                await channel.exchange_declare(
                    exchange.name, exchange_type=exchange.type, durable=True, internal=exchange.internal
                )
        for queue in topology.queues.values():
            await channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
        for binding in topology.bindings:
            source, (_, name), key, arguments = binding
            await channel.queue_bind(name, source, key, arguments=dict(arguments))

    async def _take(self, step: Step) -> None:
        given, channel = step.given, self._channel
        if step.action == "publish":
            message = given["message"]
            properties = Basic.Properties(headers=dict(message.headers), **message.properties)
            try:
                await channel.basic_publish(
                    message.body, exchange=message.exchange, routing_key=message.routing_key, properties=properties
                )
                confirmed = True
            except DeliveryError:
                confirmed = False
            self._check(confirmed, step.confirmed, "confirmed")
        elif step.action in ("get", "take"):
            if step.action == "get":
                channel = await self._connection.channel(publisher_confirms=False)
            got = await channel.basic_get(given["queue"], no_ack=step.action == "take")
            is_message = isinstance(got.delivery, Basic.GetOk)
            self._check(see(got) if is_message else None, step.received, "message")
            if is_message and step.action == "get":
                self._held.append((channel, got))
            elif step.action == "get":
                await channel.close()
        elif step.action == "settle":
            await self._settle(step)
        elif step.action == "consume":
            own = await self._connection.channel(publisher_confirms=False)
            await own.basic_qos(prefetch_count=given["prefetch"])
            own.consumers = KeptConsumers()  # type: ignore[attr-defined]
            pool: list[DeliveredMessage] = []
            self._delivered.append(pool)

            async def on_message(message: DeliveredMessage) -> None:
                pool.append(message)

            arguments = {"x-priority": given["priority"]}
            if given["timeout"] is not None:
                arguments["x-consumer-timeout"] = given["timeout"]
            started = await own.basic_consume(given["queue"], on_message, arguments=arguments)
            self._consumers.append((own, str(started.consumer_tag)))
        else:
            own, tag = self._consumers[given["consumer"]]
            if step.action == "cancel":
                await own.basic_cancel(tag)
            else:
                await own.close()
                self._delivered[given["consumer"]].clear()

    async def _settle(self, step: Step) -> None:
        given = step.given
        if given["consumer"] is None:
            channel, message = self._held.pop(given["index"])
        else:
            channel = self._consumers[given["consumer"]][0]
            message = self._delivered[given["consumer"]].pop(given["index"])
        self._check(see(message), step.received, "delivered message")
        tag = message.delivery_tag
        assert tag is not None
        if given["how"] == "ack":
            await channel.basic_ack(tag)
        elif given["how"] == "nack":
            await channel.basic_nack(tag, requeue=given["requeue"])
        else:
            await channel.basic_reject(tag, requeue=given["requeue"])
        # Later steps are on another channel, and could come to the queue first.
        await channel.queue_declare(given["queue"], passive=True)
        if given["consumer"] is None:
            await channel.close()

    async def _settle_down(self, step: Step, queues: Collection[str]) -> None:
        """Wait until these queues have as many messages as the model's, and the consumers got as many."""
        pause = step.waits + LATE_SECONDS if step.waits else 0.0
        pause = max(self._pause, pause + step.deaths * HOP_SECONDS)
        if pause:
            await asyncio.sleep(pause)
        if step.deaths:
            queues = step.counts.keys()
            for _ in range(min(step.deaths, MOST_HOPS)):  # each answer comes after what the queue had to do before
                await self._count(queues)
        expected = {queue: step.counts[queue] for queue in queues}
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        pause = 0.002
        while True:
            counts = await self._count(queues)
            self._held[:] = [each for each in self._held if not each[0].is_closed]
            for (own, _), pool in zip(self._consumers, self._delivered, strict=True):
                if own.is_closed:
                    pool.clear()
            delivered = {number: len(pool) for number, pool in enumerate(self._delivered)}
            if counts == expected and delivered == step.delivered and len(self._held) == step.held:
                return
            if asyncio.get_running_loop().time() > deadline:
                self._check(counts, expected, "ready messages")
                self._check(delivered, step.delivered, "deliveries")
                self._check(len(self._held), step.held, "messages of basic.get")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    async def _count(self, queues: Iterable[str]) -> dict[str, int | None]:
        """Return the number of ready messages of queues."""
        declared = await asyncio.gather(*(self._channel.queue_declare(queue, passive=True) for queue in queues))
        return {str(each.queue): each.message_count for each in declared}

    @staticmethod
    def _check(broker: object, model: object, what: str) -> None:
        if broker != model:
            raise Different(f"{what}:\n  broker: {broker}\n  model:  {model}")


def see(message: DeliveredMessage) -> Received:
    """Return what the broker sent."""
    delivery, properties = message.delivery, message.header.properties
    read: Callable[[str], Any] = lambda name: getattr(delivery, name)  # noqa: E731  GetOk and Deliver have them both
    headers = plain(properties.headers or {})
    return Received(
        read("exchange"), read("routing_key"), bool(read("redelivered")), bytes(message.body), headers,
        properties.expiration, properties.priority,
    )  # fmt: skip
