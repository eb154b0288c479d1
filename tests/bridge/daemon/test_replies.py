"""The tables of replies in a configuration: what they add to the bridge, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.daemon.config import Config, read_config
from bridge.endpoints.kafka.config import KafkaTarget
from bridge.endpoints.rabbitmq.config import RabbitmqSource, RabbitmqTarget
from bridge.pump.policy import Unroutable
from exchange.errors import InputError

TOPOLOGY = (
    'vhost "/"\nexchange calls: fanout\nqueue rpc\nqueue log\ncalls -> rpc\nexchange other: fanout\nother -> log\n'
)

FILE = """
topology = "t.bindings"
http = "off"
[sources.rabbit]
url = "amqp://{broker}"
queue = "asked"
exchange = "calls"
[sources.kafka]
url = "kafka://k"
topic = "asked"
exchange = "calls"
reply_topics = ["home"]
[sources.log]
url = "amqp://l"
queue = "lines"
exchange = "other"
[sources.old]
url = "archive:in"
[targets.servers]
url = "{target}"
queues = {{ rpc = "served" }}
[targets.lines]
url = "amqp://r"
queues = {{ log = "lines-log" }}
[dead_letters]
url = "archive:dead"
{replies}
"""


def read(folder: Path, replies: str, target: str = "kafka://s", broker: str = "r", text: str = FILE) -> Config:
    (folder / "t.bindings").write_text(TOPOLOGY)
    (folder / "bridge.toml").write_text(text.format(broker=broker, target=target, replies=replies))
    return read_config(folder / "bridge.toml", {})


def test_replies_are_read_at_the_target_and_written_at_each_source_that_can_ask(tmp_path: Path) -> None:
    config = read(tmp_path, '[replies.servers]\ntopic = "answers"\ntimeout = "9 s"\n')
    assert [inlet.source.name for inlet in config.inlets] == ["rabbit", "kafka", "log", "old", "replies.servers"]
    reading = config.inlets[-1]
    assert {place.name for place in reading.source.places} == {"topic answers"}
    assert {place.cluster for place in reading.source.places} == {"s"}
    servers = reading.replies_of
    assert servers is config.replies.servers[config.targets["rpc"]]
    assert servers is not None
    assert (servers.timeout, servers.expired) == (9.0, Unroutable.DROP)
    # [sources.log] leads elsewhere, and archives have no callers.
    assert list(config.replies.callers) == ["rabbit", "kafka"]
    rabbit, kafka = config.replies.callers.values()
    assert isinstance(rabbit.target, RabbitmqTarget)
    assert isinstance(kafka.target, KafkaTarget)
    assert kafka.topics == frozenset({"home"})
    assert {place.name for place in kafka.target.places} == {"topic home"}
    assert [each.name for each in config.endpoints][-3:] == ["callers.rabbit", "callers.kafka", "dead_letters"]


def test_servers_of_rabbitmq_reply_to_a_queue(tmp_path: Path) -> None:
    config = read(tmp_path, '[replies.servers]\nqueue = "answers"\nexpired = "dead-letter"\n', "amqp://u:pw@s")
    source = config.inlets[-1].source
    assert isinstance(source, RabbitmqSource)
    assert {place.name for place in source.places} == {"queue answers"}
    [servers] = config.replies.servers.values()
    assert servers.expired is Unroutable.DEAD_LETTER


def test_servers_of_rocketmq_reply_to_the_topic_of_their_cluster(tmp_path: Path) -> None:
    config = read(tmp_path, "[replies.servers]\n", "rocketmq://s:9876")
    assert {place.name for place in config.inlets[-1].source.places} == {"topic DefaultCluster_REPLY_TOPIC"}
    config = read(tmp_path, '[replies.servers]\ntopic = "c_REPLY_TOPIC"\n', "rocketmq://s:9876")
    assert {place.name for place in config.inlets[-1].source.places} == {"topic c_REPLY_TOPIC"}


def test_bridges_with_equal_names_between_other_brokers_share_neither_tokens_nor_group(tmp_path: Path) -> None:
    table = '[replies.servers]\ntopic = "answers"\n'
    found = []
    for broker in ("one", "one", "two"):
        config = read(tmp_path, table, broker=broker)
        [servers] = config.replies.servers.values()
        group = config.inlets[-1].source.settings["group.id"]  # type: ignore[attr-defined]
        found.append((servers.sealers["rabbit"].id, servers.sealers["kafka"].id, group))
    first, same, other = found
    assert first == same
    assert first[1] == other[1]
    assert first[0] != other[0]
    assert first[2] != other[2]


MISTAKES = [
    (
        '[replies.serves]\ntopic = "a"\n',
        "kafka://s",
        "replies.serves: there is no target 'serves'; name one of servers",
    ),
    (
        "[replies.servers]\n",
        "kafka://s",
        "topic: is missing; name the topic where the servers of [targets.servers] reply",
    ),
    ("[replies.servers]\n", "amqp://s", "queue: is missing; name the queue"),
    ('[replies.servers]\ntopik = "a"\n', "kafka://s", "topik: is not known here; did you mean 'topic'?"),
    (
        '[replies.servers]\nqueue = "a"\ngroup = "g"\n',
        "amqp://s",
        "group: is not for a queue, which has no groups of readers",
    ),
    ('[replies.servers]\ntopic = "a"\nqueue = "b"\n', "kafka://s", "queue: is not known here"),
    ('[replies.servers]\ntopic = "served"\n', "kafka://s", "topic: topic served is what [targets.servers] writes"),
    ('[replies.servers]\nqueue = "asked"\n', "amqp://r", "queue: queue asked is what [sources.rabbit] reads"),
    ('[replies.servers]\ntopic = "a"\ntimeout = "soon"\n', "kafka://s", "timeout: must be a number of seconds"),
    ('[replies.servers]\ntopic = "a"\nexpired = "hold"\n', "kafka://s", "expired: must be one of drop, dead-letter"),
    ('[replies.servers]\ntopic = "a"\n', "archive:out", "replies.servers: [targets.servers] is no broker"),
]


@pytest.mark.parametrize(("replies", "target", "error"), MISTAKES)
def test_a_mistake_names_its_key_and_a_way_out(tmp_path: Path, replies: str, target: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, replies, target)
    assert error in str(caught.value)


def test_an_expired_request_needs_dead_letters_to_become_one(tmp_path: Path) -> None:
    text = FILE.replace('[dead_letters]\nurl = "archive:dead"\n', "")
    replies = '[replies.servers]\ntopic = "a"\nexpired = "dead-letter"\n'
    with pytest.raises(InputError, match=r"\[replies.servers\] expired: there is no \[dead_letters\]"):
        read(tmp_path, replies, text=text)


def test_a_source_of_kafka_without_topics_for_replies_has_no_requests(tmp_path: Path) -> None:
    text = FILE.replace('reply_topics = ["home"]\n', "")
    config = read(tmp_path, '[replies.servers]\ntopic = "a"\n', text=text)
    assert list(config.replies.callers) == ["rabbit"]


def test_the_command_checks_the_tables_of_replies(tmp_path: Path) -> None:
    read(tmp_path, '[replies.servers]\ntopic = "answers"\n')
    result = CliRunner().invoke(hashstar, ["bridge", "check", "--offline", str(tmp_path / "bridge.toml")])
    assert result.exit_code == 0, result.output
    headings = [line for line in result.output.splitlines() if line.startswith("[")]
    assert "[replies.servers]" in headings
    assert headings.count("[sources.rabbit]") == 2  # its requests, and the replies to them
