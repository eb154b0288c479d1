"""A member of a consumer group: its subscriptions, its heartbeats, and its share of the queues.

There is no coordinator: each member asks a broker for the members of the group, and computes the same division of the
queues. So for a moment, while members know different lists, a queue may be read by two of them or by none.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from bridge.rocketmq.consumer.assigned import PullLimits, TopicQueue
from bridge.rocketmq.consumer.offsets import RETRY_PREFIX, ConsumeFrom
from bridge.rocketmq.consumer.pop.handle import pop_retry_topic
from bridge.rocketmq.consumer.pop.requests import BrokerAssignment, query_assignment
from bridge.rocketmq.consumer.retrying import MAX_RECONSUME_TIMES, retry_topic
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import now_ms, read_json
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from bridge.rocketmq.remoting.properties import check_group, check_topic
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.allocation import AllocateAveragely, Allocation
from exchange.partition.clients.rocketmq.queues import MASTER, TopicRoute, subscribe_queues
from exchange.partition.hashing.java import encode_code_units

LOG: Final = logging.getLogger(__name__)


class MessageModel(Enum):
    """How messages are distributed: the members share them, or each gets all (`MessageModel`)."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Configuration of a consumer, with the names of `DefaultMQPushConsumer` where it has them; times in seconds."""

    message_model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    """Whether each queue is read by one member at a time, under the broker's lock (`MessageListenerOrderly`)."""
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp: int = 0
    """Time for TIMESTAMP, in milliseconds since 1970."""
    allocation: Allocation = field(default_factory=AllocateAveragely)
    """Strategy of the division; all members must have the same."""
    limits: PullLimits = field(default_factory=PullLimits)
    window: int = 0
    """Maximum number of messages of a queue that are handed out and not acknowledged; 0: bounded by ``limits`` alone.

    A Java listener that reads in order has 1 (``consumeMessageBatchMaxSize``).
    """
    max_reconsume_times: int = -1
    """Maximum number of times that a message is given back; -1: 16, or without limit when reading in order."""
    suspend_current_queue_time: float = 1.0
    """Seconds that a queue read in order waits before it hands out a failed message again."""
    pull_time_delay_when_exception: float = 3.0
    persist_consumer_offset_interval: float = 5.0
    rebalance_interval: float = 20.0
    unlock_delay_time: float = 20.0
    """Maximum number of seconds that a queue read in order waits for acknowledgements before it is given up."""
    client_rebalance: bool = True
    """``clientRebalance``: whether members divide the queues themselves. Else the broker does, and decides whether they
    pull or pop (`set_request_mode`); with brokers before 5.0 members do all the same."""
    pop_invisible_time: float = 60.0
    """Seconds in which a popped message must be acknowledged, or it is handed out again."""
    pop_batch_nums: int = 32
    """Maximum number of messages to pop at once, 32 at most."""
    pop_threshold_for_queue: int = 96
    """Maximum number of popped messages of a queue, or of a broker, that are not acknowledged."""
    is_active: bool = False
    """Whether the caller polls and decides what is committed (`DefaultLitePullConsumer`); then there are no retries."""
    offset_folder: Path | None = None
    """Folder for offsets when broadcasting; None: ``~/.rocketmq_offsets`` (``rocketmq.client.localOffsetStoreDir``)."""

    def __post_init__(self) -> None:
        """Raise InputError for settings of POP that no broker takes."""
        if not 1 <= self.pop_batch_nums <= 32:
            raise InputError(f"pop_batch_nums is {self.pop_batch_nums}; brokers hand out 1 to 32 messages at once")
        if not 0 < self.pop_invisible_time <= MAX_INVISIBLE_TIME:
            raise InputError(
                f"pop_invisible_time is {self.pop_invisible_time} s; 0 to {MAX_INVISIBLE_TIME} are allowed"
            )
        if self.pop_threshold_for_queue < 1:
            raise InputError("pop_threshold_for_queue must be 1 at least")

    @property
    def most_reconsumed(self) -> int:
        """Maximum number of times that a message is given back (`getMaxReconsumeTimes`)."""
        if self.max_reconsume_times != -1:
            return self.max_reconsume_times
        return (1 << 31) - 1 if self.orderly else MAX_RECONSUME_TIMES

    @property
    def locks(self) -> bool:
        """Whether the broker locks queues for members."""
        return self.orderly and self.message_model is MessageModel.CLUSTERING


MAX_INVISIBLE_TIME: Final = 3 * 24 * 3600.0
"""Maximum seconds for which a message is hidden: brokers delay their own messages for three days at most."""


class Group:
    """The membership of a client in a group."""

    def __init__(
        self, client: Client, name: str, subscriptions: Iterable[Subscription], settings: ConsumerSettings
    ) -> None:
        """Check names and subscriptions. Raises IllegalMessage for an illegal name, InputError for a topic that is
        subscribed to twice, and where there is no subscription.
        """
        self.client = client
        self.name = check_group(name)
        self.settings = settings
        self.retry_topic = retry_topic(name)
        self.subscriptions: dict[str, Subscription] = {}
        """Topic -> subscription."""
        for each in subscriptions:
            if self.subscriptions.setdefault(check_topic(each.topic), each) is not each:
                raise InputError(f"topic {each.topic} is subscribed to twice: join the tags with ||")
        if not self.subscriptions and not settings.is_active:
            raise InputError(f"group {name}: subscribe to a topic at least")
        self.fixed: frozenset[TopicQueue] | None = None
        """Queues that this member reads whatever the others read; None: members share the queues."""
        self._pop_retries: dict[str, list[str]] = {}
        """Topic -> the topics of its popped retries that are pulled."""
        self._divided_here: set[str] = set()
        """Topics whose brokers do not divide queues, although that is wanted."""
        if settings.message_model is MessageModel.CLUSTERING and not settings.is_active:
            self.subscriptions[self.retry_topic] = Subscription.to_tags(self.retry_topic)
        now = now_ms()
        self.subscriptions = {topic: each.at(now) for topic, each in self.subscriptions.items()}

    def heartbeat(self) -> Mapping[str, Any]:
        """Return the group's part of a heartbeat (`ConsumerData`)."""
        return {
            "groupName": self.name,
            "consumeType": "CONSUME_ACTIVELY" if self.settings.is_active else "CONSUME_PASSIVELY",
            "messageModel": self.settings.message_model.value,
            "consumeFromWhere": self.settings.consume_from.value,
            "subscriptionDataSet": [each.to_json() for each in self.subscriptions.values()],
            "unitMode": False,
        }

    async def check(self) -> None:
        """Have a broker check the conditions in SQL92 (`MQClientInstance.checkClientInBroker`).

        Conditions for topics that do not exist yet are not checked. Raises BrokerError for a condition that the broker
        refuses, RemotingError when the request fails.
        """
        for each in self.subscriptions.values():
            if each.type != "TAG":
                try:
                    address = next(_addresses(await self.client.route(each.topic)))
                except ClientError as error:
                    if error.code != ResponseCode.TOPIC_NOT_EXIST:
                        raise
                    continue
                body = {"clientId": self.client.client_id, "group": self.name, "subscriptionData": each.to_json()}
                await self.client.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())

    async def renew_subscriptions(self, topics: Iterable[str]) -> None:
        """Send brokers a new version of these subscriptions, after this member's queues of the topics have changed
        (`RebalancePushImpl.messageQueueChanged`).
        """
        for topic in topics:
            before = self.subscriptions[topic]
            self.subscriptions[topic] = before.at(max(now_ms(), before.version + 1))
        await self.client.heartbeat()

    async def share(self, topic: str) -> BrokerAssignment:
        """Return the queues of a topic that this member must read now (`RebalanceImpl.doRebalance`).

        Raises RemotingError if a server does not answer, or if the broker does not know this member, as after a restart
        of the broker. Raises InputError where the allocation fails. In all these cases the member keeps its queues.
        """
        if self.fixed is not None:
            return BrokerAssignment(frozenset([queue for queue in self.fixed if queue.topic == topic]))
        route = await self.client.route(topic)
        is_shared = self.settings.message_model is MessageModel.CLUSTERING
        if is_shared and not self.settings.client_rebalance and topic not in self._divided_here:
            assignment = await self._ask_broker(topic, route)
            if assignment is not None:
                return assignment
            LOG.warning("group %s: brokers of %s divide no queues: members do, and pull", self.name, topic)
            self._divided_here.add(topic)
        queues = subscribe_queues(route).all
        if not is_shared:
            return BrokerAssignment(frozenset([TopicQueue.from_partition(topic, queue) for queue in queues]))
        members = await self._members(route)
        if self.client.client_id not in members:
            await self.client.heartbeat()
            members = await self._members(route)
            if self.client.client_id not in members:
                raise ClientError(f"group {self.name}: the broker does not know {self.client.client_id} yet")
        # After a reconnect, a broker lists a member twice until it has noticed the end of the old connection. If the
        # member were counted twice, half of its queues would be read by no member.
        every = sorted(set(members), key=encode_code_units)
        ours = self.settings.allocation.allocate(topic, self.client.client_id, queues, every)
        return BrokerAssignment(frozenset([TopicQueue.from_partition(topic, queue) for queue in ours]))

    async def _ask_broker(self, topic: str, route: TopicRoute) -> BrokerAssignment | None:
        """Return the share that a broker of the topic assigns; None if it assigns none ever. Raises RemotingError."""
        problem: RemotingError = ClientError(f"group {self.name}: no broker to ask for its queues of {topic}")
        strategy, model = self.settings.allocation.name, self.settings.message_model.value
        for address in _addresses(route):
            try:
                return await query_assignment(self.client, address, topic, self.name, strategy, model)
            except RemotingError as error:
                problem = error
        await self.client.heartbeat()  # a broker that was restarted does not know this member
        raise problem

    async def follow_pop_retries(self, topic: str, *, popped: bool) -> None:
        """Subscribe to the popped retries of a topic, if it has any and the group now pulls the topic: else no member
        would read them (`RebalanceImpl.updateMessageQueueAssignment`).
        """
        if topic.startswith(RETRY_PREFIX):
            return
        for mark in ("1", "2"):
            name = pop_retry_topic(topic, self.name, mark)
            if popped:
                self.subscriptions.pop(name, None)
            elif name not in self.subscriptions:
                with suppress(RemotingError):
                    await self.client.route(name)
                    self.subscriptions[name] = Subscription.to_tags(name, version=now_ms())
                    self._pop_retries.setdefault(topic, []).append(name)

    def stored_topics(self, topic: str) -> tuple[str, ...]:
        """Return the topics in which a message of ``topic`` may be stored, as it was received: of retries, others."""
        return topic, self.retry_topic, *self._pop_retries.get(topic, ())

    async def _members(self, route: TopicRoute) -> list[str]:
        """Ask a broker of the topic for the client ids in the group (`findConsumerIdList`)."""
        problem: RemotingError = ClientError(f"group {self.name}: no broker to ask for its members")
        for address in _addresses(route):
            fields = {"consumerGroup": self.name}
            try:
                answer = await self.client.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
                return read_json(answer.body, lambda body: list(map(str, body["consumerIdList"])))
            except RemotingError as error:
                problem = error
        raise problem


def _addresses(route: TopicRoute) -> Iterator[str]:
    """Yield a server of each broker, in random order: its master if there is one."""
    for data in random.sample(route.brokers, len(route.brokers)):
        servers = dict(data.addresses)
        if servers:
            yield servers.get(MASTER) or random.choice(list(servers.values()))
