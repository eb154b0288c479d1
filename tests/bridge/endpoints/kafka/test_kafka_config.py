"""Kafka's endpoints in configurations, without a broker: what fits together, and the errors of what does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from bridge.endpoint import Delivery, Disconnected, Outgoing, Place
from bridge.endpoints.kafka.cluster.topics import KafkaTopic, check_topics
from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget, TransactionalTarget, source
from bridge.endpoints.kafka.consumer.share import ShareSource
from bridge.endpoints.kafka.consumer.topic_source import TopicSource
from bridge.endpoints.topics import TopicDestination
from bridge.pump.policy import Policy
from bridge.table import Table
from exchange import InputError, Message
from exchange.partition.partitioning.specification import Partitioning, parse_key_source
from exchange.routing.route import Placement
from tests.bridge.daemon.test_config import read
from tests.bridge.daemon.test_daemon import running, write_config
from tests.support.bridge.certificates import authority_in

PAIR = """
topology = "t.bindings"
[sources.orders]
url = "kafka://h"
topics = ["orders"]
transactional = true
[targets.copies]
url = "kafka://h"
queues = ["all", "some"]
transactional = true
"""


def edit_pair(*pairs: tuple[str, str]) -> str:
    text = PAIR
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_a_transactional_pair_is_accepted(tmp_path: Path) -> None:
    config = read(tmp_path, "workers = 2\n" + PAIR)
    reading, writing = config.endpoints
    assert isinstance(reading, KafkaSource)
    assert isinstance(writing, TransactionalTarget)
    assert reading.settings["enable.auto.commit"] is False
    assert reading.settings["isolation.level"] == "read_committed"


ARCHIVE = '[sources.replay]\nurl = "archive:in"\n[targets'
TWO = 'queues = ["all"]\ntransactional = true\n[targets.more]\nurl = "kafka://h"\nqueues = ["some"]'
HALF = "transactional = true\n[targets"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (edit_pair((HALF, "[targets")), r"\[targets.copies\] transactional: what orders gives cannot be in a transac"),
        (edit_pair(("[targets", ARCHIVE)), r"\[targets.copies\] transactional: what replay gives cannot be in a trans"),
        (
            edit_pair(('some"]\ntransactional = true', 'some"]')),
            r"\[sources.orders\] transactional: no target is transac",
        ),
        (
            edit_pair(('queues = ["all", "some"]', TWO)),
            r"\[sources.orders\] transactional: copies and more are transactional targets, and no transac",
        ),
        (
            "workers = 2\n" + PAIR + 'transactional_id = "bridge"',
            r"\[targets.copies\] transactional_id: 2 workers with one id would put out each other; take it away, or",
        ),
        (
            edit_pair(('queues = ["all", "some"]', 'queues.all = { topic = "t", key = 3 }')),
            r"\[targets.copies\] queues.all: must be .* is a table: each of them must be a text",
        ),
        (
            edit_pair(('queues = ["all", "some"]', 'queues.all = { topic = "t", key = "word x" }')),
            r"\[targets.copies\] queues.all: must be .*: expected a key: routing_key, word 2",
        ),
        (
            edit_pair((HALF, 'group_type = "share"\n[targets')),
            r"\[targets.copies\] transactional: what orders gives cannot be in a transac",
        ),
        (
            edit_pair((HALF, 'transactional = true\ngroup_type = "share"\n[targets')),
            r"\[sources.orders\] transactional: a share group has no offsets; take it away, or write group_type =",
        ),
        (
            edit_pair((HALF, 'until_end = true\ngroup_type = "share"\n[targets')),
            r"\[sources.orders\] until_end: a share group has no offsets; take it away",
        ),
        (
            edit_pair((HALF, 'group_type = "share"\n[targets'), ('["orders"]', '["^orders"]')),
            r"\[sources.orders\] topics: '\^orders' is a pattern, and a share group reads topics by name only",
        ),
        (
            edit_pair((HALF, 'group_type = "share"\nlibrdkafka = { "auto.offset.reset" = "latest" }\n[targets')),
            r"\[sources.orders\] librdkafka: `auto.offset.reset` is not applicable for share consumer",
        ),
        (edit_pair((HALF, 'group_type = "shared"\n[targets')), r"group_type: must be one of consumer, share, and is"),
        (PAIR + 'ca_file = "ca.pem"', r"\[targets.copies\] ca_file: is for TLS, which is off; write tls = true"),
        (
            PAIR + 'tls = true\nca_file = "ca.pem"',
            r"\[targets.copies\] ca_file: the file ca.pem cannot be read: No such",
        ),
        (
            PAIR + 'librdkafka = { "client.id" = \'a"b\' }',
            r"\[targets.copies\] librdkafka.client.id: has a quote or backslash",
        ),
        (
            PAIR + 'librdkafka = { "linger.mss" = 5 }',
            r'\[targets.copies\] librdkafka.linger.mss: No such configuration property: "linger.mss"',
        ),
        (
            edit_pair(("[targets", 'librdkafka = { "session.timeout.ms" = -1 }\n[targets')),
            r"\[sources.orders\] librdkafka.session.timeout.ms: .*value -1 is outside allowed range",
        ),
        (
            edit_pair(
                ("[targets", 'librdkafka = { "group.protocol" = "consumer", "session.timeout.ms" = 9000 }\n[targets')
            ),
            r"\[sources.orders\] librdkafka: .*`session.timeout.ms` is not supported for `group.protocol=consumer`",
        ),
        (
            PAIR + 'librdkafka = { "debug" = "nothing" }',
            r'\[targets.copies\] librdkafka.debug: Invalid value "nothing"',
        ),
        (PAIR + 'librdkafka = { "acks" = 1 }', r"\[targets.copies\] librdkafka: .*`acks` must be set to `all`"),
        (PAIR + 'user = "u"', r"\[targets.copies\] password: is missing, as there is a user"),
        (PAIR + 'mechanism = "SCRAM-SHA-1"', r"\[targets.copies\] mechanism: must be one of PLAIN, SCRAM-SHA-256"),
    ],
)
def test_a_mistake_is_reported_with_its_key_and_a_way_out(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_a_setting_of_librdkafka_takes_effect_or_is_refused_with_its_key(tmp_path: Path) -> None:
    """What the bridge sets after it was ignored: a source with another group than was written, as one."""
    source, target = "orders", "copies"
    plain = edit_pair((HALF, "[targets"), ('some"]\ntransactional = true', 'some"]'))
    share = edit_pair((HALF, 'group_type = "share"\n[targets'), ('some"]\ntransactional = true', 'some"]'))
    for text, name, written, refused in (
        (plain, source, '"group.id" = "x"', "write group = ... instead"),
        (share, source, '"group.id" = "x"', "write group = ... instead"),
        (plain, source, '"bootstrap.servers" = "other:9092"', "write url = ... instead"),
        (plain, source, '"metadata.broker.list" = "other:9092"', "write url = ... instead"),
        (plain, source, '"enable.auto.commit" = true', "take it away"),
        (plain, source, '"enable.auto.commit" = "false"', ""),
        (plain, source, '"enable.auto.offset.store" = true', "take it away"),
        (plain, source, '"enable.partition.eof" = true', "write until_end = ... instead"),
        (plain, source, '"isolation.level" = "read_uncommitted"', ""),
        (PAIR, source, '"isolation.level" = "read_uncommitted"', "write transactional = ... instead"),
        (plain, source, '"fetch.max.bytes" = 2000000', ""),
        (plain, target, '"bootstrap.servers" = "other:9092"', "write url = ... instead"),
        (plain, target, '"enable.idempotence" = false', "take it away"),
        (plain, target, '"enable.idempotence" = true', ""),
        (plain, target, '"enable.gapless.guarantee" = false', "take it away"),
        (PAIR, target, '"transactional.id" = "x"', "write transactional_id = ... instead"),
        (PAIR, target, '"message.timeout.ms" = 1000', "take it away"),
        (PAIR, target, '"transaction.timeout.ms" = 60000', ""),
        (plain, target, '"linger.ms" = 50', ""),
    ):
        table = f"[{'sources' if name == source else 'targets'}.{name}]"
        edited = text.replace(table, f"{table}\nlibrdkafka = {{ {written} }}")
        setting = re.escape(written.split('"')[1])
        if not refused:
            read(tmp_path, edited)
            continue
        with pytest.raises(InputError, match=rf"{re.escape(table)} librdkafka.{setting}: is set by .*{refused}"):
            read(tmp_path, edited)


def test_a_setting_for_the_other_kind_of_client_is_refused_by_the_name_that_was_written(tmp_path: Path) -> None:
    """The client ignores it, and warns in its log; a source that also replies has clients of both kinds."""
    plain = edit_pair((HALF, "[targets"), ('some"]\ntransactional = true', 'some"]'))
    share = edit_pair((HALF, 'group_type = "share"\n[targets'), ('some"]\ntransactional = true', 'some"]'))
    sides = {
        "producer": ("linger.ms", "queue.buffering.max.ms", "batch.size"),
        "consumer": ("fetch.min.bytes", "fetch.wait.max.ms"),
        "": ("socket.timeout.ms", "message.max.bytes"),
    }
    for text, (table, own), kind in product(
        (plain, share, PAIR), (("[sources.orders]", "consumer"), ("[targets.copies]", "producer")), sides
    ):
        for name in sides[kind]:
            edited = text.replace(table, f'{table}\nlibrdkafka = {{ "{name}" = 4000 }}')
            if kind in ("", own):
                read(tmp_path, edited)
                continue
            refusal = f"{re.escape(table)} librdkafka.{re.escape(name)}: is for {kind}s, and would be ignored here"
            with pytest.raises(InputError, match=refusal):
                read(tmp_path, edited)
            if own == "consumer":
                read(tmp_path, edited.replace(table, f'{table}\nreply_topics = ["replies"]'))


def test_a_topic_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[sources.orders\] topics: names 'orders' twice"):
        read(tmp_path, edit_pair(('["orders"]', '["orders", "other", "orders"]')))


def test_a_login_is_written_once_under_a_key_or_for_librdkafka(tmp_path: Path) -> None:
    given = '[targets.copies]\nuser = "u"\npassword = "p"'
    for setting in ("sasl.username", "sasl.password"):
        text = edit_pair(("[targets.copies]", f'{given}\nlibrdkafka = {{ "{setting}" = "hush" }}'))
        with pytest.raises(InputError, match=rf"librdkafka.{setting}: is given twice, here and in") as caught:
            read(tmp_path, text)
        assert "hush" not in str(caught.value)
    read(tmp_path, edit_pair(("[targets.copies]", f'{given}\nlibrdkafka = {{ "sasl.mechanism" = "SCRAM-SHA-512" }}')))


def test_a_topic_that_no_kafka_has_is_refused_wherever_it_is_written(tmp_path: Path) -> None:
    orders = edit_pair(("transactional = true\n[targets", "[targets"), ('"some"]\ntransactional = true', '"some"]'))
    places: dict[str, Callable[[str], str]] = {
        "topics": lambda name: orders.replace('topics = ["orders"]', f'topics = ["good", "{name}"]'),
        "topic": lambda name: orders.replace('topics = ["orders"]', f'topic = "{name}"'),
        "queues.all": lambda name: orders.replace('["all", "some"]', f'{{ all = "{name}", some = {{ topic = "t" }} }}'),
        "dead_letters] topic": lambda name: orders + f'[dead_letters]\nurl = "kafka://h"\ntopic = "{name}"\n',
    }
    for key, write in places.items():
        for name in ("a b", "a/b", "é", ".", "..", "a" * 250, "a^b"):
            with pytest.raises(InputError, match=rf"{re.escape(key)}: .*no topic can have the name"):
                read(tmp_path, write(name))
        for name in ("a.b", "A_b-1", "...", "a" * 249):
            read(tmp_path, write(name))
    for pattern in ("^[a", "^(a", "^*a"):
        with pytest.raises(InputError, match=r"topics: .* is no regular expression that librdkafka takes"):
            read(tmp_path, places["topics"](pattern))
    for pattern in ("^x.*", "^eu-[0-9]+$", "^(x|y)"):
        read(tmp_path, places["topics"](pattern))
    with pytest.raises(InputError) as caught:
        read(tmp_path, places["topics"]("a b").replace('"good"', '"^[a", "c d"'))
    assert len(str(caught.value).splitlines()) >= 3
    assert {"'a b'", "'c d'", "'^[a'"} <= {*re.findall(r"'[^']+'", str(caught.value))}


def test_a_member_by_the_new_protocol_is_given_no_setting_that_brokers_have_then(tmp_path: Path) -> None:
    """KIP-848; it was refused, as the bridge sets the time of sessions."""
    text = edit_pair(("[targets", 'librdkafka = { "group.protocol" = "consumer" }\n[targets'))
    source = read(tmp_path, text).inlets[0].source
    assert isinstance(source, KafkaSource)
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & {*source.settings}
    classic = read(tmp_path, PAIR).inlets[0].source
    assert isinstance(classic, KafkaSource)
    assert classic.settings["session.timeout.ms"] == 10_000


SHARED = edit_pair((HALF, 'group_type = "share"\n[targets'), ('"some"]\ntransactional = true', '"some"]'))


def test_a_share_group_asks_for_no_more_than_the_window_and_the_rate_allow(tmp_path: Path) -> None:
    asked = []
    for policy in ("", "[policy]\nwindow = 20\n", "[policy]\nrate = 3\n", "[policy]\nrate = 0.01\n"):
        source = read(tmp_path, SHARED + policy).inlets[0].source
        assert isinstance(source, ShareSource)
        assert source.settings["share.acknowledgement.mode"] == "explicit"
        asked.append(source.settings["max.poll.records"])
    assert asked == [500, 20, 15, 1]


def test_holding_what_is_unroutable_is_warned_of_in_a_share_group(tmp_path: Path) -> None:
    config = read(tmp_path, SHARED + '[policy]\nunroutable = "hold"\n')
    assert [each for each in config.warnings if each.key == "group_type" and "ends the reading" in each.text]


def test_a_client_that_has_no_share_groups_is_named_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(confluent_kafka, "ShareConsumer")
    with pytest.raises(InputError, match=r"group_type: share needs confluent-kafka 2.15 or later, and this is .*: pip"):
        read(tmp_path, SHARED)


def test_paths_of_tls_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    authority_in(tmp_path)
    found = read(tmp_path, edit_pair(("[targets", 'tls = true\nca_file = "ca.pem"\n[targets'))).inlets[0].source
    assert isinstance(found, KafkaSource)
    assert found.settings["ssl.ca.location"] == str(tmp_path / "ca.pem")


def test_a_topic_with_other_partitions_than_its_queue_is_reported() -> None:
    topics = {"orders": KafkaTopic(3, None)}
    check_topics(topics, {"all": ("orders", 3)})
    with pytest.raises(
        Disconnected, match="topic 'orders' has 3 partitions, and the topology spreads queue 'all' over 4"
    ):
        check_topics(topics, {"all": ("orders", 4)})


def test_a_transactional_pair_in_two_clusters_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fetch_cluster_id(settings: Any, _: object) -> str:
        return str(settings["bootstrap.servers"])

    monkeypatch.setattr("bridge.endpoints.kafka.producer.transactional.fetch_cluster_id", fetch_cluster_id)
    monkeypatch.setattr("bridge.endpoints.kafka.producer.target.fetch_topics", lambda *_, **__: {})
    target = read(tmp_path, edit_pair(("kafka://h", "kafka://elsewhere"))).targets["all"]

    async def open_and_close() -> None:
        try:
            await target.open(None)  # type: ignore[arg-type]  # it does not come to that
        finally:
            await target.close()

    with pytest.raises(InputError, match="transactional: orders reads from another cluster, and no transaction spans"):
        asyncio.run(open_and_close())


# What is kept in order.


def make_outgoing(key: str, queue: str = "all", **headers: Any) -> Outgoing:
    message = Message("", key, headers)
    return Outgoing(message, Delivery(message), queue)


@pytest.mark.parametrize("kind", [KafkaTarget, TransactionalTarget])
def test_messages_are_kept_in_order_by_the_key_that_decides_their_partition(kind: Any) -> None:
    target = kind(
        "to", {}, {"all": TopicDestination("t", parse_key_source('header "tenant"')), "some": TopicDestination("t")}
    )
    one = target.key_of(make_outgoing("a", tenant="x"))
    assert target.key_of(make_outgoing("b", tenant="x")) == one
    assert target.key_of(make_outgoing("a", tenant="y")) != one
    assert target.key_of(make_outgoing("a", "some", tenant="x")) == target.key_of(
        make_outgoing("a", "some", tenant="y")
    )
    assert target.key_of(make_outgoing("a", "some")) != target.key_of(make_outgoing("b", "some"))
    assert target.key_of(make_outgoing("a", tenant=["no", "scalar"])) == target.key_of(
        make_outgoing("b", tenant=["no", "scalar"])
    )


def test_messages_of_a_partitioned_queue_are_kept_in_order_by_the_topologys_key() -> None:
    target = KafkaTarget("to", {}, {"all": TopicDestination("t", parse_key_source('header "tenant"'))})
    partitioning = Partitioning.parse("kafka.murmur2 over 3 by word 1")

    def place(key: str, tenant: str) -> Outgoing:
        found = make_outgoing(key, tenant=tenant)
        partition, hashed, rule = partitioning.choose(found.message)
        found.placement = Placement("all", partition, None, key.split(".", maxsplit=1)[0], hashed, rule, partitioning)
        return found

    assert target.key_of(place("a.1", "x")) == target.key_of(place("a.2", "y"))
    assert target.key_of(place("a.1", "x")) != target.key_of(place("b.1", "x"))


def test_lines_of_librdkafka_are_lines_of_the_bridges_log(tmp_path: Path) -> None:
    text = PAIR.replace('topology = "t.bindings"', 'topology = "t.bindings"\nhttp = "off"\nlog_format = "json"')
    with running(write_config(tmp_path, text.replace("kafka://h", "kafka://127.0.0.1:1"))) as bridge:
        line = bridge.event("log", by="bridge.kafka", level="error")
        bridge.event("disconnected")
        bridge.process.terminate()
        bridge.wait_for_exit()
    assert "FAIL" in line["text"]
    assert "127.0.0.1:1" in line["text"]
    assert all(event["level"] for event in bridge.events())  # each line is an object


def test_a_table_without_a_user_has_no_login() -> None:
    table = Table({"topics": ["t"], "librdkafka": {"fetch.min.bytes": 7}}, "bridge.toml", "sources.s")
    made = source("s", "kafka://h:1,i:2", table, Policy(window=7))
    assert made.settings["bootstrap.servers"] == "h:1,i:2"
    assert made.settings["security.protocol"] == "PLAINTEXT"
    assert made.settings["group.id"] == "hashstar-s"
    assert made.settings["fetch.min.bytes"] == 7


def test_less_than_the_window_is_fetched_ahead_unless_the_table_sets_it() -> None:
    def make_source(**own: int) -> TopicSource:
        table = Table({"topics": ["t"], "librdkafka": own}, "bridge.toml", "sources.s")
        return source("s", "kafka://h:1", table, Policy(window_bytes=16 << 20))

    assert make_source().settings["queued.max.messages.kbytes"] == 8 << 10
    assert make_source().settings["fetch.max.bytes"] == 4 << 20
    assert make_source(**{"fetch.max.bytes": 2_000_000}).settings["fetch.max.bytes"] == 2_000_000


def test_the_password_is_read_anew_each_time() -> None:
    current = {"sasl.password": "old"}
    made = KafkaSource("s", lambda: {"bootstrap.servers": "h:1", "group.id": "g", **current}, ["t"])
    assert made.settings["sasl.password"] == "old"
    current["sasl.password"] = "new"
    assert made.settings["sasl.password"] == "new"


def test_endpoints_name_the_topics_they_read_and_write() -> None:
    reading = KafkaSource("s", {"bootstrap.servers": "h:1,i:2", "group.id": "g"}, ["a", "^b"])
    assert reading.places == {Place("kafka", "h:1", "topic a"), Place("kafka", "h:1", "topic ^b")}
    writing = KafkaTarget("t", {"bootstrap.servers": "h:1"}, {"q": TopicDestination("a")})
    assert writing.places == {Place("kafka", "h:1", "topic a")}
