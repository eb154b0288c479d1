"""A small model of a name server and a broker of RocketMQ, below the real client: it is asked by commands.

A broker works on several requests at once, and answers in any order. It has the queues of topics, a group's offsets,
which it writes every five seconds, the members that sent a heartbeat, and their locks, which live for a minute.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from bridge.rocketmq.consumer.pulling import FLAG_COMMIT_OFFSET
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import ONEWAY, Command
from bridge.rocketmq.remoting.message import RocketMessage, decode_batch
from bridge.rocketmq.remoting.properties import decode_properties
from tests.support.archives.rocketmq_files import message as encode_record

__all__ = ["BROKER", "GROUP", "Link", "ModelBroker"]

BROKER: Final = "b"
GROUP: Final = "g"
RETRIES: Final = f"%RETRY%{GROUP}"
OTHER: Final = "other"
"""Client id of the other member of the group."""
LOCK_SECONDS: Final = 60.0
"""Seconds until a lock is free that nobody asked for again (``rebalanceLockMaxLiveTime`` of a broker)."""
MOST_QUEUES: Final = 4
FLUSH_SECONDS: Final = 5.0
"""Seconds between the writes of offsets (``flushConsumerOffsetInterval``)."""
PULLED: Final = 32
"""Maximum number of messages in an answer."""


class Link(Protocol):
    """A connection, as the broker sees it."""

    host_name: str
    """The name by which its client knows the machine of the broker."""

    def answer(self, command: Command) -> None:
        """Send a command back."""


class Waiting(NamedTuple):
    """A pull that waits for a message."""

    link: Link
    request: Command
    timer: asyncio.TimerHandle


class ModelBroker:
    """A broker, and the name server that has its routes. ``judge`` returns the answer to what is to be stored, if it is
    not SEND_OK; a message is stored all the same where that answer is of one that was.
    """

    def __init__(self, topic: str, queues: int) -> None:
        self.topic: Final = topic
        self.queues: list[list[RocketMessage]] = [[] for _ in range(queues)]
        self.exists = True
        self.keeps_first = True
        """Whether it has the first messages of queues in its memory, and takes their topic for new therefore."""
        self.unsent: list[RocketMessage] = []
        """Messages that their producers hold until the topic exists again, and its reader has seen that."""
        self.unseen: set[int] = set()
        """Queues of a topic that was made anew of which no member has seen that it was. A topic has no identity: what
        is written there before would be taken for a part of the topic before."""
        self.moved: set[int] = set()
        """Queues whose reader was told that they have no such offset, and does not read them from their beginning yet.
        If it dies before, an operator resets the group: nobody else would know."""
        self.is_heard: Callable[[], bool] = lambda: True
        """Returns whether its answers arrive."""
        self.seen: Callable[[], None] = lambda: None
        """Called when there may be fewer of them."""
        self.is_listed = True
        """Whether the name server knows the broker."""
        self.port = 2
        self.offsets: dict[int, int] = {}
        self._written: dict[int, int] = {}
        """Offsets as they are on the disk."""
        self._written_at = 0.0
        self.members: dict[Link, tuple[str, Mapping[str, int]]] = {}
        """Connection -> client id, and topic -> version of its subscription."""
        self.has_other = False
        """Whether another member is in the group."""
        self.other_first = False
        """Whether that has the first queues."""
        self.locks: dict[int, tuple[str, float]] = {}
        """Queue -> client id that has locked it, and until when."""
        self._waiting: defaultdict[int, list[Waiting]] = defaultdict(list)
        self.judge: Callable[[Sequence[RocketMessage]], tuple[int, str]] = lambda _: (0, "")
        self.stored: Callable[[Sequence[RocketMessage], bool], None] = lambda *_: None
        """Called with messages that it stores, and whether they outlive its crash."""
        self.commit_fault: Callable[[], str] = str
        """What happens to commits, "" if nothing."""
        self.begun: Callable[[], None] = lambda: None
        """Called when a member asks where to begin."""
        self._handlers: Final[dict[RequestCode, Callable[[Command], Command | None]]] = {
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list_members,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._commit,
            RequestCode.GET_MAX_OFFSET: self._find_end,
            RequestCode.GET_MIN_OFFSET: lambda asked: _reply(asked, offset=0),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda asked: _reply(asked, offset=0),
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
            RequestCode.SEND_MESSAGE_V2: self._store,
            RequestCode.SEND_BATCH_MESSAGE: self._store,
            RequestCode.GET_TOPIC_CONFIG: lambda asked: asked.response(body=b"{}"),
        }

    @property
    def now(self) -> float:
        """Virtual time, in seconds."""
        return asyncio.get_running_loop().time()

    def left(self) -> list[RocketMessage]:
        """Return the messages that the group has not committed."""
        offsets = {queue: offset for queue, offset in self.offsets.items() if queue not in self.moved}
        return [each for queue, records in enumerate(self.queues) for each in records[offsets.get(queue, 0) :]]

    # What happens to it.

    def append(self, queue: int, messages: Sequence[RocketMessage]) -> None:
        """Store messages, and answer the pulls that wait for them."""
        self.queues[queue] += messages
        self._wake(queue)

    def _wake(self, queue: int) -> None:
        for waiting in [*self._waiting[queue]]:
            if int(waiting.request.fields["queueOffset"]) < len(self.queues[queue]):
                self._waiting[queue].remove(waiting)
                waiting.timer.cancel()
                self._answer_pull(waiting.link, waiting.request, is_new=False)

    def crash(self) -> int:
        """Lose the offsets that are not on the disk, and return how many messages they fall back by."""
        lost = sum(self.offsets.values()) - sum(self._written.values())
        self.offsets = dict(self._written)
        return lost

    def restart(self) -> None:
        """Forget members, locks and pulls."""
        self.members.clear()
        self.locks.clear()
        for waiting in self._waiting.values():
            for each in waiting:
                each.timer.cancel()
        self._waiting.clear()

    def delete(self) -> None:
        """Delete the topic, and the group's offsets with it, as 5.x does; waiting pulls are answered in their time."""
        if self.exists:
            self.unsent += self.left()
        self.exists = False
        self.unseen = {*range(MOST_QUEUES)}
        self.moved.clear()
        self.offsets.clear()
        self._written.clear()

    def remake(self, queues: int) -> None:
        """Make it anew."""
        self.queues = [[] for _ in range(queues)]
        self.exists = True
        self.seen()

    def _see(self, queues: Collection[int]) -> None:
        if self.unseen and self.is_heard():
            self.unseen -= {*queues}
            self.seen()

    def reset_moved(self) -> None:
        """Reset the group where its reader has ended before it could."""
        for queue in self.moved:
            self.offsets.pop(queue, None)
        self.moved.clear()

    def leave(self, link: Link) -> None:
        """Take note that a connection has ended."""
        if self.members.pop(link, None) is not None:
            self._notify()

    def set_other(self, *, is_there: bool, first: bool = False) -> None:
        """Have another member come or go; a queue that it had locked is free then."""
        self.has_other, self.other_first = is_there, first
        self.locks = {queue: lock for queue, lock in self.locks.items() if lock[0] != self._other}
        self._notify()

    @property
    def _other(self) -> str:
        return f"{'0' if self.other_first else 'z'}@{OTHER}"

    def _notify(self) -> None:
        changed = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": GROUP}, flag=ONEWAY)
        for link, (_, versions) in [*self.members.items()]:
            if versions:
                link.answer(changed)

    # Requests.

    def take(self, link: Link, request: Command) -> None:
        """Execute a request, and answer it."""
        code = RequestCode(request.code)
        if code == RequestCode.PULL_MESSAGE:
            self._answer_pull(link, request, is_new=True)
            return
        if code == RequestCode.HEART_BEAT:
            self._join(link, json.loads(request.body))
            answer: Command | None = request.response()
        elif code == RequestCode.UNREGISTER_CLIENT:
            self.leave(link)
            self.reset_moved()
            answer = request.response()
        elif code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            answer = self._route(request, link.host_name)
        else:
            answer = self._handlers[code](request)
        if answer is not None:
            link.answer(answer)

    def _route(self, request: Command, host: str) -> Command:
        topic = request.fields["topic"]
        count = len(self.queues) if topic == self.topic and self.exists else topic == RETRIES
        if not count or not self.is_listed:
            return request.response(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info for {topic}")
        queue = {"brokerName": BROKER, "readQueueNums": int(count), "writeQueueNums": int(count), "perm": 6}
        broker = {"brokerName": BROKER, "brokerAddrs": {"0": f"{host}:{self.port}"}}
        return request.response(body=json.dumps({"queueDatas": [queue], "brokerDatas": [broker]}).encode())

    def _join(self, link: Link, body: Any) -> None:
        before = self.members.get(link)
        versions = {
            row["topic"]: row["subVersion"] for group in body["consumerDataSet"] for row in group["subscriptionDataSet"]
        }
        self.members[link] = body["clientID"], versions
        if versions and (before is None or not before[1]):
            self._notify()

    def _list_members(self, request: Command) -> Command:
        names = [name for name, versions in self.members.values() if versions]
        if not names:
            return request.response(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        return request.response(
            body=json.dumps({"consumerIdList": [*names, self._other] if self.has_other else names}).encode()
        )

    def _is_missing(self, request: Command) -> bool:
        return request.fields["topic"] == self.topic and not self.exists

    def _refuse_missing(self, request: Command) -> Command:
        self._see({*self.unseen})
        return request.response(ResponseCode.TOPIC_NOT_EXIST, "it is gone")

    def _records(self, request: Command) -> list[RocketMessage]:
        queue = int(request.fields["queueId"])
        return self.queues[queue] if request.fields["topic"] == self.topic and queue < len(self.queues) else []

    def _find_end(self, request: Command) -> Command:
        if self._is_missing(request):
            return request.response(ResponseCode.TOPIC_NOT_EXIST, "it is gone")
        return _reply(request, offset=len(self._records(request)))

    def _query_offset(self, request: Command) -> Command:
        if request.fields["topic"] != self.topic:
            return _reply(request, offset=0)
        self.begun()
        offset = self.offsets.get(int(request.fields["queueId"]))
        if offset is None and not (self.keeps_first and self.exists and self._records(request)):
            return request.response(ResponseCode.QUERY_NOT_FOUND, "Not found")
        return _reply(request, offset=offset or 0)

    def _commit(self, request: Command) -> Command | None:
        fault = self.commit_fault()
        if fault == "lose request":
            return None
        if fault in ("refuse", "forbid"):
            code = ResponseCode.SYSTEM_ERROR if fault == "refuse" else ResponseCode.NO_PERMISSION
            return request.response(code, f"the commit is to {fault}")
        if self._is_missing(request):
            return self._refuse_missing(request)
        self._keep(request, int(request.fields["commitOffset"]))
        return None if fault == "lose answer" else request.response()

    def _keep(self, request: Command, offset: int) -> None:
        if self.now - self._written_at >= FLUSH_SECONDS:
            self._written, self._written_at = dict(self.offsets), self.now
        if request.fields["topic"] == self.topic:
            self.offsets[int(request.fields["queueId"])] = offset

    def _lock(self, request: Command) -> Command:
        asked, locked = json.loads(request.body), []
        for row in asked["mqSet"]:
            holder, until = self.locks.get(row["queueId"], ("", 0.0))
            if row["topic"] != self.topic:
                locked.append(row)
            elif holder in ("", asked["clientId"]) or until < self.now:
                self.locks[row["queueId"]] = asked["clientId"], self.now + LOCK_SECONDS
                locked.append(row)
        return request.response(body=json.dumps({"lockOKMQSet": locked}).encode())

    def _unlock(self, request: Command) -> Command:
        asked = json.loads(request.body)
        for row in asked["mqSet"]:
            holder, _ = self.locks.get(row["queueId"], ("", 0.0))
            if row["topic"] == self.topic and holder == asked["clientId"]:
                del self.locks[row["queueId"]]
                if self.has_other:
                    self.locks[row["queueId"]] = self._other, self.now + LOCK_SECONDS
        return request.response()

    # Pulls.

    def _answer_pull(self, link: Link, request: Command, *, is_new: bool) -> None:
        """Answer a pull, or have it wait. One that has waited commits nothing, and does not wait again."""
        answer = self._pull(link, request, commits=is_new)
        if answer.code != ResponseCode.PULL_NOT_FOUND or not is_new:
            link.answer(answer)
            return
        queue = int(request.fields["queueId"]) if request.fields["topic"] == self.topic else -1
        seconds = int(request.fields["suspendTimeoutMillis"]) / 1_000

        def give_up() -> None:
            self._waiting[queue].remove(waiting)
            self._answer_pull(link, request, is_new=False)

        waiting = Waiting(link, request, asyncio.get_running_loop().call_later(seconds, give_up))
        self._waiting[queue].append(waiting)

    def _pull(self, link: Link, request: Command, *, commits: bool) -> Command:
        fields = request.fields
        if self._is_missing(request):
            return self._refuse_missing(request)
        _, versions = self.members.get(link, ("", {}))
        if (version := versions.get(fields["topic"])) is None:
            return request.response(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the group is not known")
        if version < int(fields["subVersion"]):
            return request.response(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the subscription is old")
        if commits and int(fields["sysFlag"]) & FLAG_COMMIT_OFFSET and self.commit_fault() != "forbid":
            self._keep(request, int(fields["commitOffset"]))
        if fields["topic"] == self.topic and int(fields["queueId"]) >= len(self.queues):
            return request.response(ResponseCode.SYSTEM_ERROR, "the queue is illegal")
        records, at = self._records(request), int(fields["queueOffset"])
        end = len(records)
        if fields["topic"] == self.topic:
            self._see({int(fields["queueId"])})
            if at == 0:
                self.moved.discard(int(fields["queueId"]))
        until = min(end, at + min(PULLED, int(fields["maxMsgNums"])))
        if at > end:  # the queue begins at 0: else it would be its end
            self.moved.add(int(fields["queueId"]))
            return _pulled(request, ResponseCode.PULL_OFFSET_MOVED, 0, end)
        if at == end:
            return _pulled(request, ResponseCode.PULL_NOT_FOUND, end, end)
        body = b"".join([
            encode_record(offset, each.topic, each.properties, each.body, queue=int(fields["queueId"]), offset=offset)
            for offset, each in enumerate(records[at:until], at)
        ])  # fmt: skip
        return _pulled(request, ResponseCode.SUCCESS, until, end, body)

    # What is sent to it.

    def _store(self, request: Command) -> Command | None:
        fields, topic = request.fields, request.fields["b"]
        if topic != self.topic or not self.exists:
            return request.response(ResponseCode.TOPIC_NOT_EXIST, "it is gone")
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            messages = decode_batch(topic, request.body)
        else:
            messages = [RocketMessage(topic, request.body, decode_properties(fields["i"].encode()))]
        code, remark = self.judge(messages)
        if code in STORED:
            queue = int(fields["e"])
            self.append(queue, messages)
            self.stored(messages, code == ResponseCode.SUCCESS)
        return _reply(request, code, remark, queueId=fields["e"], queueOffset=0)


STORED: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT})
"""Answers to what is stored."""


def _reply(request: Command, code: int = 0, remark: str | None = None, body: bytes = b"", **fields: object) -> Command:
    return request.response(code, remark, body)._replace(fields={name: str(value) for name, value in fields.items()})


def _pulled(request: Command, code: int, next_offset: int, end: int, body: bytes = b"") -> Command:
    fields = {"nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": end, "suggestWhichBrokerId": 0}
    return _reply(request, code, None, body, **fields)
