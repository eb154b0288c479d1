"""A right that is missing is called so, by sources, targets and checks: a topic that may not be seen is not missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Source, Target
from bridge.endpoints.kafka.config import Destination, KafkaSource, KafkaTarget
from exchange import Message
from tests.support.bridge.behaviour import Reports, on_a_loop, send_to
from tests.support.kafka.broker import brokers
from tests.support.kafka.topics import Topics, topics_at

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with brokers() as broker, topics_at(broker.url) as made:
        yield made


def endpoints_of(topics: Topics, topic: str) -> tuple[Source, Target]:
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic])
    return source, KafkaTarget("written", topics.settings, {"queue": Destination(topic)})


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
    missing = KafkaTarget("written", topics.settings, {"queue": Destination("hashstar-none")})
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
