"""What a consumer writes and reads: subscriptions, requests, files of offsets, answers; as Java's client wrote them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.locking import lock_body
from bridge.rocketmq.consumer.offsets import (
    BrokerOffsets,
    ConsumeFrom,
    LocalOffsets,
    format_table,
    parse_table,
    start_offset,
)
from bridge.rocketmq.consumer.pulling import (
    FLAG_COMMIT_OFFSET,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    BrokerQueues,
    PullStatus,
    find_server,
    parse_pull,
    pull_fields,
)
from bridge.rocketmq.consumer.retrying import restore_topic, retry_topic, send_retry
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, CommandError, RemotingError, RemotingTimeout
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import decode_properties
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import BrokerData, QueueData, TopicRoute
from tests.recorders import golden
from tests.recorders.rocketmq_consume import OFFSETS, SUBSCRIPTIONS, WRITTEN
from tests.support.cases import with_each

VERSIONS = golden.names("rocketmq-consume-")
TABLE = {TopicQueue(*row[:3]): row[3] for row in OFFSETS}
ANSWER = {"nextBeginOffset": "5", "minOffset": "1", "maxOffset": "9", "suggestWhichBrokerId": "0"}


def subscription(topic: str, expression: str | None, kind: str | None) -> Subscription:
    if kind == "SQL92":
        return Subscription.to_sql(topic, expression or "", 1234567890123)
    return Subscription.to_tags(topic, expression, 1234567890123)


def as_sets(told: dict[str, Any]) -> dict[str, Any]:
    """Return JSON with the lists sorted that Java keeps in hash sets."""
    return {name: sorted(value) if isinstance(value, list) else value for name, value in told.items()}


@with_each("version", VERSIONS)
@with_each("at", range(len(SUBSCRIPTIONS)))
def test_the_subscription_in_a_heartbeat_is_java_s(version: str, at: int) -> None:
    expected = golden.read(version)["subscriptions"][at]
    if isinstance(expected, list):
        with pytest.raises(InputError):
            subscription(*SUBSCRIPTIONS[at])
    else:
        assert as_sets(dict(subscription(*SUBSCRIPTIONS[at]).to_json())) == as_sets(json.loads(expected))


def test_the_client_drops_a_message_whose_tag_only_has_the_same_hash() -> None:
    wanted = Subscription.to_tags("orders", "Aa")
    assert wanted.codes == Subscription.to_tags("orders", "BB").codes
    assert wanted.accepts("Aa")
    assert not wanted.accepts("BB")
    assert not wanted.accepts(None)
    assert Subscription.to_tags("orders").accepts(None)
    assert Subscription.to_sql("orders", "a = 1").accepts("any")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_body_of_a_lock_request_is_java_s(version: str) -> None:
    ours = json.loads(lock_body("group", "127.0.0.1@1", TABLE))
    java = json.loads(golden.read(version)["lock"])
    by_name = lambda row: (row["topic"], row["brokerName"], row["queueId"])  # noqa: E731
    assert sorted(ours.pop("mqSet"), key=by_name) == sorted(java.pop("mqSet"), key=by_name)
    assert ours == {"onlyThisBroker": False, **java}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_flags_of_a_pull_are_those_of_java(version: str) -> None:
    flags = (FLAG_COMMIT_OFFSET, FLAG_SUSPEND, FLAG_SUBSCRIPTION)
    ours = [sum(flag for at, flag in enumerate(flags) if bits >> at & 1) for bits in range(8)]
    assert ours == golden.read(version)["flags"]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_that_java_wrote_are_read(version: str) -> None:
    assert parse_table(golden.read(version)["offsets"]) == TABLE


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_that_we_write_are_read_by_java(version: str) -> None:
    assert [sorted(map(tuple, rows)) for rows in golden.read(version)["read"]] == [sorted(rows) for rows in WRITTEN]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(st.builds(TopicQueue, TEXTS, TEXTS, st.integers(0, 1 << 20)), st.integers(0, 1 << 62)))
def test_offsets_are_read_as_they_were_written(offsets: dict[TopicQueue, int]) -> None:
    assert parse_table(format_table(offsets)) == offsets


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"offsetTable":{{"topic":"t"}:1}}', '{"offsetTable":{"a":1}}', "{}x{"]
)
def test_a_malformed_table_of_offsets_is_refused(text: str) -> None:
    if text == "{}x{":
        assert parse_table(text) == {}  # as Java, nothing behind it is looked at
    else:
        with pytest.raises(InputError, match="no table of offsets"):
            parse_table(text)


def persist(store: LocalOffsets, offsets: dict[TopicQueue, int]) -> None:
    assert asyncio.run(store.persist(offsets)) == {}


def test_a_file_of_offsets_keeps_what_others_wrote_and_the_file_before_it(tmp_path: Path) -> None:
    store = LocalOffsets.for_group("127.0.0.1@DEFAULT", "group", tmp_path)
    a, b = TopicQueue("orders", "broker-a", 0), TopicQueue("orders", "broker-a", 1)
    assert store.load() == {}
    persist(store, {a: 1})
    persist(store, {b: 2})
    assert store.path == tmp_path / "127.0.0.1@DEFAULT" / "group" / "offsets.json"
    assert store.load() == {a: 1, b: 2}
    assert parse_table(Path(f"{store.path}.bak").read_text()) == {a: 1}
    assert asyncio.run(store.read(b)) == 2
    assert asyncio.run(store.read(TopicQueue("other", "broker-a", 0))) is None


def test_a_torn_file_of_offsets_is_replaced_by_the_one_before_it(tmp_path: Path) -> None:
    store = LocalOffsets.for_group("client", "group", tmp_path)
    a = TopicQueue("orders", "broker-a", 0)
    persist(store, {a: 1})
    persist(store, {a: 2})
    store.path.write_text('{"offsetTable":{{"bro')
    assert store.load() == {a: 1}
    Path(f"{store.path}.bak").write_text("torn, too")
    with pytest.raises(InputError, match=r"offsets\.json\.bak: no table of offsets"):
        store.load()
    assert isinstance(asyncio.run(store.persist({a: 3}))[a], InputError)


def test_empty_files_of_offsets_are_files_that_are_not_there(tmp_path: Path) -> None:
    store = LocalOffsets.for_group("client", "group", tmp_path)
    store.path.parent.mkdir(parents=True)
    Path(f"{store.path}.bak").touch()
    assert store.load() == {}
    store.path.touch()
    assert store.load() == {}


class Forgetful(BrokerQueues):
    """Offsets as in brokers up to 5.5.0: two commits that find no table of the group each make one, and one is lost."""

    def __init__(self) -> None:
        self.table: dict[str, dict[TopicQueue, int]] = {}
        self.at_once = self.most = 0

    async def commit(self, queue: TopicQueue, offset: int) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        known = self.table.get(queue.topic)
        await asyncio.sleep(0)
        if known is None:
            self.table[queue.topic] = {queue: offset}
        else:
            known[queue] = offset
        self.at_once -= 1


def test_the_first_offset_of_a_topic_is_committed_alone_and_the_others_at_once() -> None:
    broker = Forgetful()
    offsets = BrokerOffsets(broker)
    queues = [TopicQueue(topic, "broker-a", number) for topic in ("orders", "other") for number in range(8)]
    assert not any(offsets.may_commit_with_pull(queue) for queue in queues)
    assert asyncio.run(offsets.persist(dict.fromkeys(queues, 7))) == {}
    assert broker.table == {topic: {q: 7 for q in queues if q.topic == topic} for topic in ("orders", "other")}
    assert broker.most > len(broker.table)
    assert all(offsets.may_commit_with_pull(queue) for queue in queues)
    assert not offsets.may_commit_with_pull(TopicQueue("orders", "broker-b", 0))


@pytest.mark.parametrize(
    ("error", "tries"), [(RemotingTimeout("broker-a"), 1), (BrokerError(1, "no such queue", "broker-a"), 3)]
)
def test_a_broker_that_does_not_answer_is_waited_for_once(error: RemotingError, tries: int) -> None:
    class Failing(Forgetful):
        tries = 0

        async def commit(self, queue: TopicQueue, offset: int) -> None:
            self.tries += 1
            if offset < 2:
                raise error
            await super().commit(queue, offset)

    broker = Failing()
    offsets = BrokerOffsets(broker)
    queues = [TopicQueue("orders", "broker-a", number) for number in range(3)]
    assert asyncio.run(offsets.persist(dict.fromkeys(queues, 1))) == dict.fromkeys(queues, error)
    assert broker.tries == tries
    assert not any(offsets.may_commit_with_pull(queue) for queue in queues)
    assert asyncio.run(offsets.persist(dict.fromkeys(queues, 2))) == {}
    assert broker.table == {"orders": dict.fromkeys(queues, 2)}


def test_concurrent_commits_still_begin_with_one_offset_alone() -> None:
    async def run() -> None:
        broker = Forgetful()
        offsets = BrokerOffsets(broker)
        queues = [TopicQueue("orders", "broker-a", number) for number in range(4)]
        await asyncio.gather(*[offsets.persist({queue: 5}) for queue in queues])
        assert broker.table == {"orders": dict.fromkeys(queues, 5)}

    asyncio.run(run())


def pull(code: int, fields: dict[str, str] | None = None) -> Command:
    return Command(code, ANSWER if fields is None else fields)


def test_the_code_of_an_answer_is_the_status_of_its_pull() -> None:
    ends = {code: parse_pull(pull(code)).status for code in (0, 19, 20, 21)}
    assert ends == {
        0: PullStatus.FOUND,
        19: PullStatus.NO_NEW_MSG,
        20: PullStatus.NO_MATCHED_MSG,
        21: PullStatus.OFFSET_ILLEGAL,
    }
    assert parse_pull(pull(0))[1:6] == (5, 1, 9, 0, 0)
    with pytest.raises(BrokerError, match="SUBSCRIPTION_NOT_EXIST"):
        parse_pull(pull(24, {}))
    with pytest.raises(CommandError, match="nextBeginOffset"):
        parse_pull(pull(0, {}), "127.0.0.1:1")


def test_a_pull_commits_an_offset_only_where_there_is_one() -> None:
    queue, all_of_it = TopicQueue("orders", "broker-a", 3), Subscription.to_tags("orders", version=77)
    fields = pull_fields("group", queue, all_of_it, 10, 32, 8)
    assert fields["sysFlag"] == "3"
    assert fields["commitOffset"] == "8"
    assert fields["subVersion"] == "77"
    for nothing in (None, 0):
        assert pull_fields("group", queue, all_of_it, 10, 32, nothing)["sysFlag"] == "2"


def test_a_pull_goes_to_the_suggested_replica_else_to_the_next_else_to_any_server() -> None:
    servers = {0: "master", 2: "second", 3: "third"}
    assert find_server(servers, 0) == ("master", False)
    assert find_server(servers, 2) == ("second", True)
    assert find_server(servers, 1) == ("second", True)
    assert find_server(servers, 9) == ("master", False)
    assert find_server(servers, 9, only=True) is None
    assert find_server({2: "second"}, 0) == ("second", True)
    assert find_server({}, 0) is None


def test_a_retry_has_the_topic_that_it_was_first_read_from() -> None:
    retry = StoredMessage("%RETRY%group", b"x", {"RETRY_TOPIC": "orders"}, 0, "broker-a", 0, 5, 0, 0, 0, b"", 0, b"", 1)
    assert restore_topic(retry, "group").topic == "orders"
    assert restore_topic(retry, "other") is retry
    plain = retry._replace(properties={})
    assert restore_topic(plain, "group") is plain


ROUTE = TopicRoute((QueueData("broker-a", 1, 1),), (BrokerData("broker-a", ((0, "a:1"),)),))


class Copying:
    """A client whose broker stores each copy that it is sent, at a place of its own, as a retry."""

    def __init__(self, message: StoredMessage) -> None:
        self.message = message

    async def route(self, _: str) -> TopicRoute:
        return ROUTE

    def address(self, _: str) -> str:
        return "a:1"

    async def ask(self, _: str, code: int, fields: Mapping[str, str], body: bytes) -> None:
        assert code == RequestCode.SEND_MESSAGE_V2
        self.message = self.message._replace(
            topic=fields["b"], body=body, properties=decode_properties(fields["i"].encode()), flag=int(fields["h"]),
            reconsume_times=int(fields["j"]), log_offset=self.message.log_offset + 100,
        )  # fmt: skip


@pytest.mark.parametrize(
    "properties", [{"KEYS": "k"}, {"UNIQ_KEY": "7F"}, {"TRAN_MSG": "true", "ORIGIN_MESSAGE_ID": "0"}]
)
def test_however_often_a_message_is_given_back_it_is_the_same_to_its_consumers(properties: dict[str, str]) -> None:
    """Its topic, body, flag and first id; only the number of its retries grows, and with it the delay."""
    first = StoredMessage("orders", b"x", properties, 7, "broker-a", 0, 5, 0, 0, 0, b"\0" * 8, 0, b"\0" * 8, 0)
    client: Any = Copying(first)
    origin = properties.get("ORIGIN_MESSAGE_ID", first.message_id)
    for times in range(1, 5):
        asyncio.run(send_retry(client, "group", restore_topic(client.message, "group"), 16))
        again = restore_topic(client.message, "group")
        assert (again.topic, again.body, again.flag) == ("orders", b"x", 7)
        own = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": origin, "DELAY": str(2 + times)}
        kept = {name: value for name, value in properties.items() if name != "TRAN_MSG"}
        assert (again.reconsume_times, again.properties) == (times, {**kept, **own})


class Counting(BrokerQueues):
    """Queues of 9 messages, of which the group has read some, or never any."""

    def __init__(self, known: int | None) -> None:
        self.known = known

    async def committed_offset(self, queue: TopicQueue) -> int | None:
        return self.known

    async def max_offset(self, queue: TopicQueue) -> int:
        return 9

    async def search_offset(self, queue: TopicQueue, time: int) -> int:
        return time


@pytest.mark.parametrize("where", ConsumeFrom)
@pytest.mark.parametrize("topic", ["orders", "%RETRY%group"])
def test_a_group_begins_where_it_was_else_where_it_is_set_to_and_skips_no_retry(where: ConsumeFrom, topic: str) -> None:
    """With times, a retry is no older than the group: Java begins its retries at the end then."""
    queue, begins = TopicQueue(topic, "broker-a", 0), {"LAST": 9, "FIRST": 0, "TIMESTAMP": 4}
    if topic != "orders":
        begins = {"LAST": 0, "FIRST": 0, "TIMESTAMP": 9}
    for known in (None, 0, 3):
        queues = Counting(known)
        start = asyncio.run(start_offset(queue, BrokerOffsets(queues), queues, where, 4))
        assert start == ((begins[where.name], False) if known is None else (known, True))


def test_a_group_has_a_topic_of_its_own_for_retries() -> None:
    assert retry_topic("g") == "%RETRY%g"


def test_in_order_the_number_of_retries_is_unlimited_by_default() -> None:
    assert ConsumerSettings().most_reconsumed == 16
    assert ConsumerSettings(orderly=True).most_reconsumed == 2**31 - 1
    assert ConsumerSettings(orderly=True, max_reconsume_times=3).most_reconsumed == 3
