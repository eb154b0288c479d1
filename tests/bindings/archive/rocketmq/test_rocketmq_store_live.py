"""The files of running RocketMQ brokers: what was sent is in them, equal to what the broker itself answers.

Of a broker that writes, and of one that was killed, all that it has confirmed is there, and nothing else is wrong than
that its queues are behind. Read as archives, commit logs have each message that was sent once. All of it is in one
module, as brokers, which take long to start, live as long as one.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.rocketmq.commit import CommitRecord
from bindings.archive.rocketmq.find import find_by_id, find_by_key
from bindings.archive.rocketmq.inspection import NOT_YET, StoreInspection, inspect_store
from bindings.archive.rocketmq.store import Store, open_store
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings, SendResult
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.stored import parse_stored_messages
from tests.recorders.jvm import QUICK, ask, find_classpath
from tests.recorders.rocketmq_log import OPEN, SOURCE, sends
from tests.support.archives import containers
from tests.support.archives.containers import find_container
from tests.support.archives.reads import read
from tests.support.servers import SERVERS, Server, missing
from tests.support.waiting import find_limit, until

DATA: Final = "/var/lib/rocketmq"
COUNT: Final = 150
TAGS: Final = ("red", "blue", "größe", "AaBB", "BBAa", None)
CLIENTS: Final = {4: "4.9.8", 5: "5.5.0"}
"""The first number of a broker's version -> the version of the Java producer."""
PLAIN: Final = ("send", "ordered", "transaction", "batch")
LATEST: Final = str((1 << 63) - 1)
Result = TypeVar("Result")
Sent = list[tuple[RocketMessage, SendResult]]


def copy_store(name: str, folder: Path) -> Store:
    """Copy the store of a broker's container, its log last, so that messages in its queues are in the log."""
    folder.mkdir()
    for each in ("checkpoint", "abort", "config", "index", "consumequeue", "commitlog"):
        command = ["docker", "cp", "-q", f"{name}:{DATA}/{each}", str(folder)]
        subprocess.run(command, check=True, timeout=find_limit(), capture_output=True)
    return open_store(str(folder))


def message(topic: str, n: int) -> RocketMessage:
    """One of many, with everything that the files tell of one."""
    return RocketMessage.build(
        topic, f"body {n} ".encode() * (n % 7 + 1), {"n": str(n), "größe": "ü" * (n % 5 + 1)},
        tags=TAGS[n % len(TAGS)], keys=(f"key{n % 50}", f"Aa{n}"), flag=n,
    )  # fmt: skip


async def with_producer(server: Server, work: Callable[[Client, Producer], Awaitable[Result]]) -> Result:
    async with Client(ClientSettings(server.url)) as client, Producer(client, ProducerSettings("files")) as producer:
        return await work(client, producer)


async def send(producer: Producer, topic: str, count: int, sent: Sent) -> None:
    for n in range(count):
        each = message(topic, n)
        sent.append((each, await producer.send(each, timeout_ms=20_000)))


async def wait_for_confirmed(sent: Sent, more: int = 100) -> Sent:
    """Return a copy of the confirmed messages, as soon as there are ``more`` of them than now."""

    async def look(wanted: int) -> None:
        await until(lambda: len(sent) >= wanted)

    await asyncio.wait_for(look(len(sent) + more), find_limit())
    return list(sent)


def facts_of(found: CommitRecord | StoredMessage) -> tuple[Any, ...]:
    """Return all fields of a message, from the file or from the broker."""
    if isinstance(found, CommitRecord):
        (part,) = found.parts()
        return (
            found.topic, found.queue, found.offset, found.place, part.body, found.properties, found.flag, found.born,
            found.stored, found.born_host, found.stored_host, found.message_id, found.reconsumed,
        )  # fmt: skip
    return (
        found.topic, found.queue_id, found.queue_offset, found.log_offset, found.body, dict(found.properties),
        found.flag, found.born_time, found.store_time, found.born_host, found.store_host, found.offset_id,
        found.reconsume_times,
    )  # fmt: skip


def all_are_there(store: Store, sent: Sent) -> list[CommitRecord]:
    """Each message that was confirmed, found by the id that the broker gave it, with all that was sent."""
    found = []
    for each, result in sent:
        (stored,) = find_by_id(store, result.offset_message_id).messages
        assert (stored.topic, stored.queue, stored.offset) == (
            each.topic, result.queue.queue_id, result.queue_offset,
        )  # fmt: skip
        assert stored.unique_id == result.message_id
        assert [part.body for part in stored.parts()] == [each.body]
        assert (stored.tag, stored.keys, stored.flag) == (each.tags, tuple(each.keys), each.flag)
        wanted = {name: value for name, value in each.properties.items() if name != "WAIT"}  # 4.9 does not store it
        assert wanted.items() <= stored.properties.items()
        found.append(stored)
    return found


def messages_of(found: StoreInspection, topic: str) -> int:
    return next(each.messages for each in found.topics if each.name == topic)


def test_files_agree_with_the_answers_of_the_broker(rocketmq_servers: list[Server], tmp_path: Path) -> None:
    for server in rocketmq_servers:
        store_path = tmp_path / server.version

        async def work(client: Client, producer: Producer, at: Path = store_path, of: Server = server) -> None:
            sent: Sent = []
            await send(producer, "files", COUNT, sent)
            await asyncio.sleep(1)  # so that queues and index have them all
            store = await asyncio.to_thread(copy_store, find_container(of), at)
            stored = all_are_there(store, sent)
            found = inspect_store(store)
            assert not found.problems.bad
            assert store.has_abort
            assert messages_of(found, "files") == COUNT
            assert found.behind_index == 0
            (topic,) = [each for each in found.topics if each.name == "files"]
            assert topic.tags == {tag: COUNT // len(TAGS) for tag in TAGS}
            address = client.address(sent[0][1].queue.broker)

            async def ask(code: RequestCode, **fields: str) -> Any:
                return await client.ask(address, code, fields, timeout=find_limit())

            for queue in topic.queues:
                where = {"topic": "files", "queueId": str(queue.queue)}
                least = (await ask(RequestCode.GET_MIN_OFFSET, **where)).fields["offset"]
                most = (await ask(RequestCode.GET_MAX_OFFSET, **where)).fields["offset"]
                assert (str(queue.min_offset), str(queue.max_offset)) == (least, most)
            for each in stored[::5]:
                answer = await ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=str(each.place))
                assert [facts_of(one) for one in parse_stored_messages(answer.body, "broker")] == [facts_of(each)]
            times = {"beginTimestamp": "0", "endTimestamp": LATEST}
            for key in ("key7", "Aa9"):
                answer = await ask(RequestCode.QUERY_MESSAGE, topic="files", key=key, maxNum="64", **times)
                answered = sorted(map(facts_of, parse_stored_messages(answer.body, "broker")), key=str)
                matches = find_by_key(store, key, ("files",))
                assert sorted(map(facts_of, matches.messages), key=str) == answered
                assert len(answered) == (3 if key == "key7" else 1)

        asyncio.run(with_producer(server, work))


def test_a_broker_that_writes_has_all_that_it_has_confirmed(rocketmq_servers: list[Server], tmp_path: Path) -> None:
    for server in rocketmq_servers:

        async def work(client: Client, producer: Producer, of: Server = server) -> None:
            sent: Sent = []
            sending = asyncio.create_task(send(producer, "busy", 100_000, sent))
            try:
                for n in range(2):
                    there = await wait_for_confirmed(sent)
                    store = await asyncio.to_thread(copy_store, find_container(of), tmp_path / f"{of.version}-{n}")
                    assert len(all_are_there(store, there)) == len(there)
                    found = await asyncio.to_thread(inspect_store, store)
                    assert found.problems.bad.keys() <= {NOT_YET}
                    assert messages_of(found, "busy") + found.problems.bad.total() >= len(there)
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending

        asyncio.run(with_producer(server, work))


def send_by_java(server: Server) -> list[dict[str, Any]]:
    """Return what the Java producer reports of messages that it sent in every simple way."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            missing(f"there is no {program} to run RocketMQ's own producer with")
    client = CLIENTS[server.version_info[0]]
    try:
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{client}")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
        missing(f"Maven cannot fetch rocketmq-client {client} ({reason})")
    plain = [send for send in sends("4.9") if send["how"] in PLAIN]
    sent: list[dict[str, Any]] = ask(SOURCE, jars, {"namesrv": server.url, "sends": plain, "wait": 4000}, *QUICK, *OPEN)
    return sent


@pytest.mark.smoke
def test_each_message_that_was_sent_is_read_once(rocketmq_servers: list[Server], tmp_path: Path) -> None:
    for server in rocketmq_servers:
        sent = Counter(name for answer in send_by_java(server) for name in answer["id"].split(","))
        log = containers.copy_out(server, f"{DATA}/commitlog", tmp_path)
        archive = detect(str(log.rename(tmp_path / server.version)), FieldMapping("topic", "=k"))
        assert (archive.formats, archive.others) == (("RocketMQ commit log",), ())
        results = [read(form, path, 1 << 20) for path, form in archive.files]
        assert not [bad for result in results for bad in result.bad]
        records = [record for result in results for record in result.records]
        found = Counter(str(record.message.properties["message_id"]) for record in records)
        unpublished = [name for name in sent if name not in found]
        assert {name: found[name] for name in sent if name in found} == {
            name: count for name, count in sent.items() if name not in unpublished
        }
        assert len(unpublished) == 5  # two rolled back, two that never end, one that is delayed by hours


def test_a_broker_that_was_killed_has_all_that_it_had_confirmed(rocketmq_servers: list[Server], tmp_path: Path) -> None:
    """The last test of this module, whose brokers these are."""
    for server in rocketmq_servers:
        if server.origin == SERVERS["rocketmq"].url_variable:
            pytest.skip("a broker that was started elsewhere is not killed")
        name = find_container(server)
        sent: Sent = []

        async def work(client: Client, producer: Producer, of_name: str = name, into: Sent = sent) -> None:
            sending = asyncio.create_task(send(producer, "killed", 100_000, into))
            await wait_for_confirmed(into)
            killing = ["docker", "kill", "--signal", "KILL", of_name]
            subprocess.run(killing, check=True, timeout=find_limit(), capture_output=True)  # noqa: ASYNC221  amid sending
            with suppress(RemotingError, asyncio.TimeoutError):
                await asyncio.wait_for(sending, 5)

        asyncio.run(with_producer(server, work))
        assert sent
        store = copy_store(name, tmp_path / server.version)
        assert store.has_abort
        assert len(all_are_there(store, sent)) == len(sent)
        found = inspect_store(store)
        assert found.problems.bad.keys() <= {NOT_YET}
        assert messages_of(found, "killed") + found.problems.bad[NOT_YET] >= len(sent)
