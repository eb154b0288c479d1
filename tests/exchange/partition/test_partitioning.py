"""How a queue is partitioned: its text form, where keys come from, and what a route then names."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Binding, Exchange, HashstarError, InputError, Message, Queue, Router, TextError, Topology, Typed
from exchange.partition import Broker, Choice, Partition, Partitioner, Partitions
from exchange.partition.hashing.hashes import murmur2
from exchange.partition.partitioning.key_source import ROUTING_KEY, KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from exchange.routing.explain_json import to_json
from exchange.routing.route import Route
from exchange.values.message import BASIC_PROPERTIES
from tests.support.cases import with_each

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
plain = st.from_regex(r"[a-zA-Z][\w-]{0,7}", fullmatch=True)
counts = st.integers(1, 40)
sources = st.one_of(
    st.just(ROUTING_KEY),
    st.integers(-5, 5).filter(bool).map(lambda word: KeySource("word", word=word)),
    names.map(lambda name: KeySource("header", name)),
    st.sampled_from(sorted(BASIC_PROPERTIES)).map(lambda name: KeySource("property", name)),
    names.map(lambda name: KeySource("body", f"/{name}")),
)
by_count = counts.map(Partitions.from_count)
led = st.lists(st.tuples(plain, st.none() | plain, counts), min_size=1, max_size=4, unique_by=lambda row: row[0]).map(
    lambda rows: Partitions.led_by({Broker(name, name, rack): count for name, rack, count in rows})
)


@given(by_count | led, sources)
def test_text_and_value_are_equivalent(partitions: Partitions, source: KeySource) -> None:
    """parse(str(x)) is x, for numbered partitions and for those with leaders."""
    partitioning = Partitioning("kafka.murmur2", partitions, source)
    assert Partitioning.parse(str(partitioning)) == partitioning


@given(st.dictionaries(names, counts, min_size=1, max_size=4), sources)
def test_the_text_of_a_queue_list_is_parsed_to_the_same_value(brokers: dict[str, int], source: KeySource) -> None:
    """RocketMQ's brokers have any name, and their order is kept."""
    partitioning = Partitioning("rocketmq.hash", Partitions.queues(brokers), source)
    assert Partitioning.parse(str(partitioning)) == partitioning


@given(st.lists(names.filter(lambda name: not name.isdecimal()), min_size=1, unique=True), sources)
def test_the_text_of_streams_is_parsed_to_the_same_value(streams: list[str], source: KeySource) -> None:
    """The streams of a super stream."""
    partitioning = Partitioning("rabbitmq.super_stream", Partitions.named(streams), source)
    assert Partitioning.parse(str(partitioning)) == partitioning


@given(st.text(max_size=30) | st.text('kafkamurmur2over 12by(=),:"', max_size=40))
def test_any_text_is_a_partitioning_or_an_error_with_a_position(text: str) -> None:
    """What is read is read again of what it is written as; a mistake in a text has a place in that text."""
    mistake: HashstarError | None = None
    try:
        partitioning = Partitioning.parse(text)
    except (TextError, InputError) as error:
        mistake = error
    if mistake is None:
        assert Partitioning.parse(str(partitioning)) == partitioning
    elif isinstance(mistake, TextError):
        start, end = mistake.span
        assert mistake.source in text
        assert 0 <= start <= len(mistake.source)
        assert start <= end <= len(mistake.source) + 1
    assert mistake is None or str(mistake)


def test_a_mistake_is_shown_with_a_caret() -> None:
    with pytest.raises(TextError) as caught:
        Partitioning.parse("kafka.murmur2 under 12")
    assert caught.value.span == (14, 15)
    assert str(caught.value).splitlines()[1:] == ["    kafka.murmur2 under 12", "    " + " " * 14 + "^"]


@pytest.mark.parametrize(("text", "words"), [
    ("", "expected STRATEGY over PARTITIONS"),
    ("kafka.murmur2 over", "expected STRATEGY over PARTITIONS"),
    ("kafka.murmur over 12", "did you mean 'kafka.murmur2'"),
    ("kafka.murmur2(racks=1) over 12", "has no parameter 'racks'"),
    ("kafka.murmur2 over 0", "at least one partition"),
    ("kafka.murmur2 over a:x", "partitions"),
    ("kafka.murmur2 over a:1,b", "partitions are a number"),
    ("rabbitmq.super_stream over a,a", "same id or name"),
    ('kafka.murmur2 over 12 by haeder "x"', "a key"),
    ("kafka.murmur2 over 12 by word two", "a key"),
    ("kafka.murmur2 over 12 by word 0", "counted from 1"),
    ("kafka.murmur2 over 12 by property messageid", "no property 'messageid'"),
    ('kafka.murmur2 over 12 by body "customer"', "JSON Pointer"),
])  # fmt: skip
def test_errors_name_what_is_expected(text: str, words: str) -> None:
    """Each mistake has its words."""
    with pytest.raises((TextError, InputError), match=words.replace("(", r"\(")):
        Partitioning.parse(text)


@with_each(("source", "key"), [
    (ROUTING_KEY, "order.eu.created"),
    (KeySource("word", word=2), "eu"),
    (KeySource("word", word=-1), "created"),
    (KeySource("word", word=4), None),
    (KeySource("word", word=-4), None),
    (KeySource("header", "n"), Typed("signedint", 5)),
    (KeySource("header", "missing"), None),
    (KeySource("property", "message_id"), "m-1"),
    (KeySource("property", "reply_to"), None),
    (KeySource("body", "/customer/id"), 42),
    (KeySource("body", "/items/1"), "b"),
    (KeySource("body", "/items/01"), None),
    (KeySource("body", "/items/2"), None),
    (KeySource("body", "/a~1b/~0"), True),
    (KeySource("body", "/customer"), '{"id":42}'),
    (KeySource("body", "/nothing"), None),
    (KeySource("body", "/customer/id/x"), None),
])  # fmt: skip
def test_a_key_is_a_part_of_the_message(source: KeySource, key: object) -> None:
    """Where the part is not there, or is null, there is no key."""
    body = {"customer": {"id": 42}, "items": ["a", "b"], "a/b": {"~": True}, "nothing": None}
    headers, properties = {"n": Typed("signedint", 5)}, {"message_id": "m-1"}
    assert source.read(Message("x", "order.eu.created", headers, properties, json.dumps(body).encode())) == key


def test_a_body_that_is_no_json_has_no_key() -> None:
    """Binary, empty, nested too deeply: none is an error."""
    for body in (b"", b"\xff\x00", b"{", b"[" * 100_000):
        assert KeySource("body", "/x").read(Message(body=body)) is None
    assert KeySource("body", "").read(Message(body=b'"all of it"')) == "all of it"


def partitioned(text: str) -> Topology:
    """Build a topology: orders (topic) to billing, which has this partitioning, and to audit, which has none."""
    topology = Topology().declare_exchange(Exchange("orders", "topic"))
    topology = topology.declare_queue(Queue("billing", partitioning=Partitioning.parse(text)))
    topology = topology.declare_queue(Queue("audit")).bind(Binding.to_queue("orders", "billing", "order.#"))
    return topology.bind(Binding.to_queue("orders", "audit", "#"))


def test_a_route_names_the_partition() -> None:
    """Of the queues that are partitioned, with the hash; again from the cache."""
    router = Router(partitioned("kafka.murmur2 over 12 by word 2"))
    for _ in range(2):
        route = router.route(Message("orders", "order.eu.created"))
        assert route.queues == ("audit", "billing")
        (placement,) = route.placements
        assert (placement.queue, placement.key) == ("billing", "eu")
        assert placement.partition == (murmur2(b"eu") & 0x7FFFFFFF) % 12
        assert placement.name == str(placement.partition)
    assert router.route(Message("orders", "other")).placements == ()


@pytest.mark.parametrize("by", ['header "tenant"', "property message_id", 'body "/id"'])
def test_routes_that_more_than_the_key_decides_are_not_cached(by: str) -> None:
    """Two messages with one routing key and two partitions; through another exchange and the default one too."""
    topology = partitioned(f"kafka.murmur2 over 12 by {by}").declare_exchange(Exchange("all", "fanout"))
    router = Router(topology.bind(Binding.to_exchange("all", "orders")))
    for exchange, key in (("orders", "order.x"), ("all", "order.x"), ("", "billing")):
        for value in ("a", "b", "c", "a"):
            body = json.dumps({"id": value}).encode()
            route = router.route(Message(exchange, key, {"tenant": value}, {"message_id": value}, body))
            assert [p.partition for p in route.placements] == [(murmur2(value.encode()) & 0x7FFFFFFF) % 12]


def test_edits_reach_the_partitions() -> None:
    """A queue that becomes partitioned, is partitioned otherwise, is deleted and declared again."""
    router = Router(Topology().declare_queue(Queue("q")))
    message = Message("", "q", {"h": "k"})
    assert router.route(message).placements == ()
    router.declare_queue(Queue("q", partitioning=Partitioning.parse('kafka.murmur2 over 3 by header "h"')))
    assert router.route(message).placements[0].key == "k"
    router.declare_queue(Queue("q"))  # a declaration without partitions keeps them
    router.declare_queue(Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 3")))
    assert router.route(message).placements[0].key == "q"
    router.delete_queue("q")
    router.declare_queue(Queue("q"))
    assert router.route(message) == Route(("q",))


def test_a_choice_that_the_key_does_not_decide_has_its_rule() -> None:
    """No key, or one the client cannot take: no partition, and the reason."""
    router = Router(partitioned('kafka.murmur2 over 12 by header "tenant"'))
    (placement,) = router.route(Message("orders", "order.x")).placements
    assert (placement.partition, placement.name, placement.hash) == (None, None, None)
    assert placement.rule
    (placement,) = router.route(Message("orders", "order.x", {"tenant": {"a": 1}})).placements
    assert placement.partition is None
    assert "table" in placement.rule or "dict" in placement.rule


def test_the_explanation_has_the_whole_path() -> None:
    """Exchange, queue, partition, with the key, its hash and the arithmetic; in JSON too."""
    explanation = Router(partitioned('kafka.murmur2 over 12 by header "tenant"')).explain(
        Message("orders", "order.x", {"tenant": "eu"})
    )
    text = str(explanation)
    assert "'order.#' -> queue 'billing': queued" in text
    assert 'billing -> partition 10 (kafka.murmur2 over 12 by header "tenant")' in text
    assert 'key "eu", hash ' in text
    placement = to_json(explanation)["placements"][0]
    assert json.loads(json.dumps(placement)) == placement
    assert (placement["queue"], placement["partition"], placement["key"]) == ("billing", 10, "eu")


class Shortest(Partitioner):
    """A partitioner of one's own."""

    def choose(self, key: object, partitions: Partitions) -> Choice:
        return Choice(len(str(key)) % partitions.count, None, "length")


def test_users_can_give_a_partitioner_of_their_own() -> None:
    """Under a name of one's own; it survives pickling, as the topology does."""
    own = Partitioning("shortest", Partitions.from_count(5), partitioner=Shortest())
    router = Router(pickle.loads(pickle.dumps(Topology(queues=[Queue("abc", partitioning=own)]))))  # noqa: S301
    assert router.route(Message("", "abc")).placements[0].partition == 3


def test_partitions_are_values() -> None:
    """Equal by content, hashable, and closed to change; ids and names are unique."""
    odd = Partitions([Partition(2), Partition(0, None), Partition(1)])
    assert [p.id for p in odd] == [2, 0, 1]
    assert [p.id for p in odd.available] == [2, 1]
    assert copy.deepcopy(odd) == odd == pickle.loads(pickle.dumps(odd))  # noqa: S301
    assert hash(odd) == hash(copy.copy(odd))
    with pytest.raises(AttributeError):
        odd.count = 5  # type: ignore[misc]
    for wrong in ([], [Partition(1), Partition(1)], [Partition(0, name="a"), Partition(1, name="a")]):
        with pytest.raises(ValueError, match="partition"):
            Partitions(wrong)


def test_leaders_go_round_and_a_lost_broker_takes_its_own() -> None:
    """Kafka's partitions stay without a leader; RocketMQ's queues leave the list, and the rest move up."""
    a, b = Broker("a"), Broker("b")
    led = Partitions.led_by({a: 2, b: 3})
    assert [p.leader for p in led] == [a, b, a, b, b]
    assert [p.id for p in led.without_leader("b").available] == [0, 2]
    assert led.without_leader("b").count == 5
    queues = Partitions.queues({"a": 2, "b": 3})
    assert [(p.id, p.name) for p in queues.without_queues("a")] == [(0, "b:0"), (1, "b:1"), (2, "b:2")]


@with_each("name", sorted(STRATEGIES))
def test_every_strategy_has_a_description(name: str) -> None:
    """Its row is complete, it needs no parameters or names those it needs, and its values can be compared."""
    strategy = STRATEGIES[name]
    assert strategy.name == name
    assert all(text.strip() for text in (strategy.mirrors, strategy.promise, strategy.cost))
