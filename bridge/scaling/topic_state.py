"""What the brokers of a topic have: numbers of queues, offsets, consumer groups; and why it must not be scaled."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.remoting.admin import TopicConfig, fetch_topic_config
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import load_json
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.statistics import (
    Members,
    consume_stats,
    fetch_committed_offsets,
    fetch_groups,
    fetch_members,
    fetch_topic_stats,
)
from bridge.scaling.deferred import DeferredMessages, ScalingRefused
from exchange.errors import InputError
from exchange.limits import PARTITIONS
from exchange.partition.clients.rocketmq.queues import MASTER, READ, MessageQueue, TopicRoute
from exchange.partition.clients.rocketmq.scaling import SETTLED, QueueCounts, QueueOffsets, Situation
from exchange.text.display import count_noun, list_some

SYSTEM_TOPICS: Final = frozenset({
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
})  # fmt: skip
"""Topics of the brokers' own (`TopicValidator.SYSTEM_TOPIC_SET`)."""

OWN: Final = {
    "%RETRY%": "the retries of a consumer group; its retryQueueNums are set by mqadmin updateSubGroup",
    "%DLQ%": "the dead letters of a consumer group, which has one queue",
    "%LMQ%": "a light queue, which has one queue",
    "rmq_sys_": "a topic of the brokers' own",
}
"""Beginning of names of topics that brokers create themselves -> what they are."""

NAMES_SHOWN: Final = 5
"""Maximum number of names or queues listed in an error."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be scaled, and what the user knows about it."""

    topic: str
    queues: int
    """Number of queues on each broker."""
    brokers: tuple[str, ...] = ()
    """Names of the brokers to change; empty for all that have the topic."""
    groups: tuple[str, ...] = ()
    """Consumer groups that must have read a queue before it is hidden; empty for all."""
    keep_order: bool = False
    """Whether messages with one key must stay in order."""
    producers_stopped: bool = False
    """Whether producers send nothing until they have the new route."""
    settle: float = SETTLED / 1000
    """Seconds after which no producer has the old route."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of a topic at one time, as its brokers have it."""

    situation: Situation
    target: Mapping[str, int]
    """Broker -> number of queues that it is to have."""
    configs: Mapping[str, TopicConfig]
    addresses: Mapping[str, str]
    """Broker -> address of its master."""
    groups: Mapping[str, Members]
    """Group that subscribes to the topic, or has an offset in it -> its members."""

    @property
    def is_resumed(self) -> bool:
        """Whether a broker is in the middle of a change."""
        return any(counts.write != counts.read for counts in self.situation.counts.values())


def check_topic(topic: str) -> None:
    """Raise ScalingRefused for a topic that brokers make themselves."""
    if topic in SYSTEM_TOPICS:
        raise ScalingRefused(f"{topic} is a topic of the brokers' own; topics of applications can be scaled")
    for begin, meaning in OWN.items():
        if topic.lower().startswith(begin.lower()):
            raise ScalingRefused(f"{topic} is {meaning}; topics of applications can be scaled")


class TopicReader:
    """Reads the state of a topic, again and again; remembers since when each broker has its write number."""

    def __init__(self, client: Client, scope: Scope) -> None:
        self._client: Final = client
        self._scope: Final = scope
        self._seen: dict[tuple[str, int], float] = {}
        """Broker and write number, where fewer queues are written than read -> time at which it was first seen."""
        self._deferred: Final[dict[str, DeferredMessages]] = {}
        self.deleted: Final[set[str]] = set()
        """Groups that were deleted, and whose offsets are still there."""

    async def read(self) -> TopicState:
        """Return the present state.

        Raises ScalingRefused where the topic must not be scaled, InputError for brokers and groups that are not there,
        and RemotingError.
        """
        scope, client = self._scope, self._client
        check_topic(scope.topic)
        route = await self._route()
        addresses = _masters(route)
        if scope.topic in addresses:
            raise ScalingRefused(f"{scope.topic} is the topic that the broker of this name made for itself")
        configs = await self._configs(addresses)
        counts = {name: QueueCounts(config.write_queues, config.read_queues) for name, config in configs.items()}
        target = self._target(counts)
        since = self._since_write(counts)
        groups = await self._groups(addresses)
        counted = self._counted(groups)
        offsets: dict[MessageQueue, QueueOffsets] = {}
        for broker, address in addresses.items():
            # First the messages on their way, then the ends of queues, then what is read: so none is overlooked.
            coming: Counter[int] = Counter()
            if target.get(broker, counts[broker].read) < counts[broker].read:
                deferred = self._deferred.setdefault(broker, DeferredMessages(client, broker, address, scope.topic))
                coming = await deferred.count()
            offsets |= await self._offsets(broker, address, counts[broker], target.get(broker, 0), counted, coming)
        situation = Situation(
            counts, offsets, since, keyed=scope.keep_order, producers_stopped=scope.producers_stopped,
            settled=round(scope.settle * 1000),
            from_first=frozenset([group for group, members in groups.items() if members.from_first]),
        )  # fmt: skip
        state = TopicState(situation, target, configs, addresses, groups)
        self._check(state, counted)
        return state

    async def disagreement(self, broker: str, config: TopicConfig) -> str:
        """Return where the broker or a name server has other numbers of queues than these; "" if all have them."""
        address = self._client.address(broker)
        found = await fetch_topic_config(self._client, address, self._scope.topic)
        if found is None or (found.write_queues, found.read_queues) != (config.write_queues, config.read_queues):
            return f"broker {broker!r} has {_numbers(found)}"
        for name_server in self._client.settings.name_servers:
            for data in (await self._route_of(name_server)).queues:
                if data.broker == broker and (data.write_queues, data.read_queues) != (
                    config.write_queues, config.read_queues,
                ):  # fmt: skip
                    known = f"write {data.write_queues} and read {data.read_queues}"
                    return f"name server {name_server} has {known} for broker {broker!r}, which has {_numbers(config)}"
        return ""

    async def ends(self, broker: str, queues: Collection[int]) -> dict[int, int]:
        """Return the end offsets of queues, whether they are read or not."""
        asked = BrokerQueues(self._client, "")
        topic = self._scope.topic
        ends = await asyncio.gather(*[asked.max_offset(TopicQueue(topic, broker, queue)) for queue in queues])
        return dict(zip(queues, ends, strict=True))

    async def _route(self) -> TopicRoute:
        topic = self._scope.topic
        try:
            route = await self._client.update_route(topic)
        except ClientError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise InputError(f"there is no topic {topic!r} at {self._client.settings.namesrv_addr}") from None
            raise
        if route.order_topic_conf:
            raise ScalingRefused(
                f"topic {topic!r} has an order configuration, {route.order_topic_conf}: its producers choose among "
                "these queues, whatever the brokers' numbers are. Delete it first: mqadmin updateOrderConf -m delete "
                f"-t {topic}"
            )
        if route.mappings:
            raise ScalingRefused(f"{topic!r} is a static topic; its queues are moved by mqadmin updateStaticTopic")
        if sum([max(data.write_queues, data.read_queues) for data in route.queues]) > PARTITIONS:
            raise InputError(f"topic {topic!r} has more than {PARTITIONS:,} queues")
        return route

    async def _route_of(self, name_server: str) -> TopicRoute:
        fields = {"topic": self._scope.topic, "acceptStandardJsonOnly": "true"}
        answer = await self._client.ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        return TopicRoute.from_json(load_json(answer.body))

    async def _configs(self, addresses: Mapping[str, str]) -> dict[str, TopicConfig]:
        configs: dict[str, TopicConfig] = {}
        for broker, address in addresses.items():
            config = await fetch_topic_config(self._client, address, self._scope.topic)
            if config is None:
                raise ScalingRefused(
                    f"the name server lists topic {self._scope.topic!r} at broker {broker!r}, which does not have it; "
                    "brokers register every 30 s: run it again then"
                )
            configs[broker] = config
        return configs

    def _target(self, counts: Mapping[str, QueueCounts]) -> dict[str, int]:
        unknown = [name for name in self._scope.brokers if name not in counts]
        if unknown:
            raise InputError(
                f"no broker {list_some(unknown, NAMES_SHOWN)} has topic {self._scope.topic!r}; there are "
                f"{list_some(sorted(counts), NAMES_SHOWN)}"
            )
        return dict.fromkeys(self._scope.brokers or sorted(counts), self._scope.queues)

    def _since_write(self, counts: Mapping[str, QueueCounts]) -> dict[str, int]:
        """Return for how many milliseconds each broker has fewer queues written than read, as far as this run knows."""
        now = time.monotonic()
        keys = [(broker, each.write) for broker, each in counts.items() if each.write < each.read]
        self._seen = {key: self._seen.get(key, now) for key in keys}
        return {broker: round((now - since) * 1000) for (broker, _), since in self._seen.items()}

    async def _groups(self, addresses: Mapping[str, str]) -> dict[str, Members]:
        groups: dict[str, Members] = {}
        for address in addresses.values():
            for group in sorted(await fetch_groups(self._client, address, self._scope.topic)):
                there, known = await fetch_members(self._client, address, group), groups.get(group, Members())
                groups[group] = Members(
                    known.client_ids | there.client_ids,
                    known.is_broadcasting or there.is_broadcasting,
                    known.from_first or there.from_first,
                )
        return groups

    def _counted(self, groups: Mapping[str, Members]) -> list[str]:
        """Return the groups that must have read what is hidden."""
        unknown = [group for group in self._scope.groups if group not in groups]
        if unknown:
            known = list_some(sorted(groups), NAMES_SHOWN) or "none"
            raise InputError(
                f"no broker of topic {self._scope.topic!r} knows group {list_some(unknown, NAMES_SHOWN)}; "
                f"known: {known}"
            )
        return sorted(self._scope.groups or groups)

    async def _offsets(
        self,
        broker: str,
        address: str,
        counts: QueueCounts,
        target: int,
        groups: Collection[str],
        coming: Mapping[int, int],
    ) -> dict[MessageQueue, QueueOffsets]:
        client, topic = self._client, self._scope.topic
        queues = range(max(counts))
        asked = BrokerQueues(client, "")
        spans = await fetch_topic_stats(client, address, topic)
        for queue in queues:
            if queue not in spans:  # brokers before 5.0 answer for queues that are written
                each = TopicQueue(topic, broker, queue)
                spans[queue] = (max(await asked.min_offset(each), 0), await asked.max_offset(each))
        consumed: dict[int, dict[str, int]] = {queue: {} for queue in queues}
        for group in groups:
            known = await consume_stats(client, address, topic, group)
            asked = BrokerQueues(client, group)
            for queue in queues:
                if queue not in known:  # it is not read, or the group subscribes to other topics now
                    known[queue] = await asked.committed_offset(TopicQueue(topic, broker, queue)) or 0
                consumed[queue][group] = known[queue]
        if target > counts.write:
            # A group that reads the topic here, and has no offset in a queue that will be written.
            for group, committed in (await fetch_committed_offsets(client, address, topic)).items():
                for queue in range(counts.write, max(counts)):
                    if group in groups and group not in self.deleted and queue not in committed:
                        consumed[queue][group] = -1
        offsets = {}
        for queue in queues:
            start, end = spans[queue]
            offsets[MessageQueue(broker, queue)] = QueueOffsets(end, consumed[queue], start, coming.get(queue, 0))
        return offsets

    def _check(self, state: TopicState, counted: Collection[str]) -> None:
        """Raise ScalingRefused where nothing can be known about messages that would be hidden, or about their order."""
        topic, situation = self._scope.topic, state.situation
        for broker, number in state.target.items():
            counts, config = situation.counts[broker], state.configs[broker]
            if (config.order or dict(config.attributes or {}).get("message.type") == "FIFO") and not situation.keyed:
                raise ScalingRefused(
                    f"topic {topic!r} is ordered at broker {broker!r}, and keys would move to other queues; "
                    "--keep-order changes the number of queues only while producers are stopped and all is read"
                )
            if number >= counts.read:
                continue
            if not config.perm & READ:
                raise ScalingRefused(
                    f"topic {topic!r} cannot be read at broker {broker!r} (perm {config.perm}); give it perm 6"
                )
            broadcasting = [group for group in counted if state.groups[group].is_broadcasting]
            if broadcasting:
                raise ScalingRefused(
                    f"group {list_some(broadcasting, NAMES_SHOWN)} is broadcasting: its members keep their offsets "
                    f"themselves. Make sure that they have read queues {number} to {counts.read - 1}, and name the "
                    "other groups with --group"
                )
            left = [
                queue for queue, offsets in situation.offsets.items()
                if queue.broker == broker and queue.queue_id >= number and offsets.end > offsets.start
            ]  # fmt: skip
            if left and not counted:
                raise ScalingRefused(
                    f"no consumer group has read topic {topic!r}, and {count_noun(len(left), 'queue')} to hide "
                    f"({list_some([queue.name for queue in left], NAMES_SHOWN)}) have messages; start "
                    "its consumers first"
                )


def _masters(route: TopicRoute) -> dict[str, str]:
    """Return the address of the master of each broker that has the topic. Raises ScalingRefused where one has none."""
    servers = {data.broker: dict(data.addresses) for data in route.brokers}
    names = sorted({data.broker for data in route.queues})
    missing = [name for name in names if MASTER not in servers.get(name, {})]
    if missing:
        raise ScalingRefused(
            f"broker {list_some(missing, NAMES_SHOWN)} has no master now; numbers of queues are changed at masters. "
            "Run it again when it has one"
        )
    return {name: servers[name][MASTER] for name in names}


def _numbers(config: TopicConfig | None) -> str:
    return "no such topic" if config is None else f"write {config.write_queues} and read {config.read_queues}"
