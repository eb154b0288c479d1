"""What Kafka withholds or deletes is said: rights that are missing, and records that go while the bridge waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Source, Target
from bridge.endpoints.kafka.cluster.topics import look_up_removals
from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget
from bridge.endpoints.topics import TopicDestination
from exchange import Message
from tests.support.bridge.behaviour import Reports, on_a_loop, send_to
from tests.support.kafka.broker import brokers
from tests.support.kafka.topics import Topics, topics_at


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with brokers() as broker, topics_at(broker.url) as made:
        yield made


def endpoints_of(topics: Topics, topic: str) -> tuple[Source, Target]:
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic])
    return source, KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)})


@on_a_loop
async def test_a_topic_that_may_not_be_seen_is_not_called_missing(topics: Topics) -> None:
    topic = topics.make()
    source, target = endpoints_of(topics, topic)
    with topics.not_allowed(topic, AclOperation.DESCRIBE):
        for opening in (target.open(Reports()), source.open()):
            with pytest.raises(Disconnected, match=r"TOPIC_AUTHORIZATION_FAILED.*allow WRITE to a target") as caught:
                await opening
            assert "create it" not in str(caught.value)
        for endpoint in (source, target):
            found = [finding.text for finding in await endpoint.check() if finding.level == "error"]
            assert any("allow WRITE" in text for text in found), found
            assert not any("create it" in text for text in found)
            await endpoint.close()
    missing = KafkaTarget("written", topics.settings, {"queue": TopicDestination("hashstar-none")})
    with pytest.raises(Disconnected, match="there is no topic 'hashstar-none'; create it"):
        await missing.open(Reports())
    await missing.close()


@on_a_loop
async def test_a_topic_that_may_be_seen_and_not_written_names_the_right(topics: Topics) -> None:
    topic, reports = topics.make(), Reports()
    _, target = endpoints_of(topics, topic)
    with topics.not_allowed(topic, AclOperation.WRITE):
        await target.open(reports)
        send_to(target, reports, [Message("", "k")], "queue")
        await reports.loss()
        assert "allow WRITE to a target" in str(reports.losses[0])
        assert any("allow WRITE" in finding.text for finding in await target.check())
    await target.close()


@on_a_loop
async def test_a_check_warns_of_topics_that_delete_records_within_an_outage(topics: Topics) -> None:
    """What the bridge does not read while it waits for its targets is deleted all the same."""
    configs = {
        "kept": {}, "short": {"retention.ms": "60000"}, "small": {"retention.bytes": "1000000"},
        "compacted": {"cleanup.policy": "compact", "retention.ms": "60000"},
        "both": {"cleanup.policy": "compact,delete", "retention.ms": "1000", "retention.bytes": "5"},
        "for ever": {"retention.ms": "-1"},
    }  # fmt: skip
    warned: dict[str, int] = {}
    for name, config in configs.items():
        topic = topics.make(config=config)
        for read in ([topic], [f"^{topic}$"]):
            source = KafkaSource("read", {**topics.settings, "group.id": topic}, read)
            found = [each.text for each in await source.check() if each.level == "warning"]
            assert warned.setdefault(name, len(found)) == len(found)
            assert all("read or not" in text for text in found)
            await source.close()
        target = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)})
        assert len([each for each in await target.check() if each.level == "warning"]) == warned[name]
        await target.close()
    assert warned == {"kept": 0, "short": 1, "small": 1, "compacted": 0, "both": 2, "for ever": 0}


@on_a_loop
async def test_a_source_that_runs_knows_how_long_its_topics_keep_records(topics: Topics) -> None:
    topic = topics.make(config={"retention.ms": "60000", "retention.bytes": "1000000"})
    for read in ([topic], [f"^{topic}$"]):
        source = KafkaSource("read", {**topics.settings, "group.id": topic}, read)
        waiting = await source.find_removals()  # as before its targets are open
        await source.open()
        assert waiting == await source.find_removals() is not None
        assert [each.seconds for each in waiting or ()] == [60.0, None]
        await source.close()
    with topics.not_allowed(topic, AclOperation.DESCRIBE_CONFIGS):
        source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic])
        await source.open()
        assert await asyncio.to_thread(look_up_removals, source.settings, [topic]) is None
        assert (await source.find_removals(), source.lost) == (None, None)
        await source.close()


@on_a_loop
async def test_a_topic_whose_limit_may_not_be_seen_takes_batches_that_are_halved_until_they_fit(topics: Topics) -> None:
    topic, count = topics.make(1, config={"max.message.bytes": "20000"}), 3_000
    with topics.not_allowed(topic, AclOperation.DESCRIBE_CONFIGS):
        target, reports = KafkaTarget("written", topics.settings, {"q": TopicDestination(topic)}), Reports()
        await target.open(reports)
        send_to(target, reports, [Message("", "k", body=(b"%d" % n).ljust(300)) for n in range(count)], "q")
        await reports.answers(count)
        await target.close()
    assert reports.failures == []
    assert [int(record.value()) for record in topics.read(topic, count)] == [*range(count)]
