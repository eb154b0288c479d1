"""RocketMQ's strategies: each choice as the client, in each of its eras, made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.grpc import GrpcJava, GrpcProxy
from exchange.partition.clients.rocketmq.round_robin import ERAS, RoundRobin, find_era
from exchange.partition.clients.rocketmq.selectors import (
    STRATEGIES,
    ByHash,
    ByHash40,
    ByMachineRoom,
    ByRandom,
    ByRandoom,
    Explicit,
    GoHash,
    MQClientException,
)
from exchange.partition.hashing.hashes import fnv1a
from exchange.partition.hashing.java import JavaRandom, hash_code
from exchange.partition.partitioner import Inputs, Partitioner, Producer
from exchange.partition.partitions import Partitions
from exchange.values.field_values import Typed
from tests.exchange.partition.hashing.test_java import typed_value
from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS, LEAST_HASH
from tests.recorders.rocketmq_select import SEEDS, TURNS, TYPED

ALL = [name for name in golden.names("rocketmq-select-") if "turns" in golden.read(name)]
WHOLE = [name for name in ALL if "queues" in golden.read(name)]

LEAST, GREATEST = -(2**31), 2**31 - 1


def draw_of(number: int) -> Callable[[int], int]:
    """Return a draw that always returns this integer of 32 bits."""

    def draw(count: int) -> int:
        assert count == 2**32
        return number % 2**32

    return draw


def no_draw(count: int) -> int:
    raise AssertionError("nothing is drawn here")


def position(partitioner: Partitioner, key: Any, partitions: Partitions) -> int | None:
    """Return the partition, None where the client fails."""
    try:
        return partitioner.choose(key, partitions).partition
    except MQClientException:
        return None


def by_hash(version: str) -> Partitioner:
    return ByHash40() if version < "4.8" else ByHash()


def test_clients_of_every_era_were_asked() -> None:
    versions = [golden.read(name)["version"].removesuffix("-incubating") for name in ALL]
    assert {find_era(version) for version in versions} == set(ERAS.values())
    assert len(WHOLE) == 3


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(("at", "count"), tuple(enumerate(COUNTS)))
def test_a_key_has_the_queue_the_client_chose(name: str, at: int, count: int) -> None:
    answers, partitions = golden.read(name), Partitions.from_count(count)
    partitioner = by_hash(answers["version"])
    assert [position(partitioner, key, partitions) for key in KEYS] == answers["queues"][at]
    typed = [position(partitioner, typed_value(*case), partitions) for case in TYPED]
    assert typed == answers["typed_queues"][at]


def test_the_least_hash_fails_before_4_8_unless_the_number_of_queues_divides_it() -> None:
    for key in LEAST_HASH:
        assert hash_code(key) == LEAST
        for count in COUNTS:
            old = position(ByHash40(), key, Partitions.from_count(count))
            assert old == (0 if count in (1, 2, 16) else None)
            assert position(ByHash(), key, Partitions.from_count(count)) == 2**31 % count
    with pytest.raises(MQClientException, match=r"select message queue throwed exception.*-8 of 12.*rocketmq\.hash"):
        ByHash40().choose("GydZG_", Partitions.from_count(12))


@given(st.integers(LEAST, GREATEST), st.integers(1, 50))
def test_both_eras_agree_on_every_other_hash(hashed: int, count: int) -> None:
    key, partitions = Typed("signedint", hashed), Partitions.from_count(count)
    new = ByHash().choose(key, partitions)
    assert new.partition == abs(hashed) % count
    assert position(ByHash40(), key, partitions) in ((new.partition,) if hashed != LEAST else (0, None))


def test_a_null_key_fails_as_in_the_client() -> None:
    with pytest.raises(MQClientException, match="select message queue threw exception"):
        ByHash().choose(None, Partitions.from_count(2))
    with pytest.raises(InputError, match="has no hashCode"):
        ByHash().choose(b"bytes", Partitions.from_count(2))


def test_a_choice_is_a_partitions_id_and_explains_itself() -> None:
    partitions = Partitions([partition._replace(id=partition.id + 10) for partition in Partitions.queues({"a": 3})])
    assert ByHash().choose("a", partitions) == (11, 97, "abs(hash % 3)")
    assert ByHash40().choose("a", partitions) == (11, 97, "abs(hash) % 3")


@pytest.mark.parametrize("name", ALL)
def test_a_random_selector_runs_as_the_clients_did(name: str) -> None:
    answers = golden.read(name)
    partitioner = ByRandoom() if answers["version"] < "4.2" else ByRandom()
    for seed, run in zip(SEEDS, answers["random"], strict=True):
        memory, chosen = partitioner.memory(Inputs(no_draw, int(seed))), []
        for count in chain.from_iterable([count] * 20 for count in COUNTS):
            choice, memory = partitioner.choose_next(None, Partitions.from_count(count), memory, Inputs(no_draw))
            chosen.append(choice.partition)
        assert chosen == run


def test_the_seed_is_the_time_and_serves_all_topics() -> None:
    one, other = (Producer(ByRandom(), no_draw, lambda: 1_700_000_000_000) for _ in range(2))
    topics = ["a", "b"] * 20
    chosen = [one.choose(topic, "key", Partitions.from_count(12)).partition for topic in topics]
    assert chosen == [other.choose(topic, None, Partitions.from_count(12)).partition for topic in reversed(topics)]
    assert ByRandom().choose("key", Partitions.from_count(12)).partition is None


def test_the_old_random_selector_fails_of_the_least_integer() -> None:
    # The state before the one whose upper 32 bits are Integer.MIN_VALUE.
    before = JavaRandom(((1 << 47) - 0xB) * pow(0x5DEECE66D, -1, 1 << 48) % (1 << 48))
    with pytest.raises(MQClientException, match="throwed"):
        ByRandoom().choose_next(None, Partitions.from_count(3), before, Inputs(no_draw))


@pytest.mark.parametrize("name", ALL)
def test_queues_take_turns_as_with_the_real_client(name: str) -> None:
    answers = golden.read(name)
    partitioner = RoundRobin(answers["version"].removesuffix("-incubating"))
    for turns, expected in zip(TURNS, answers["turns"], strict=True):
        partitions, memory, chosen = Partitions.queues(dict(turns["brokers"])), None, []
        for last in turns["last"]:
            inputs = Inputs(draw_of(turns["drawn"]))
            choice, memory = partitioner.choose_again(last, partitions, memory, inputs)
            chosen.append(choice.partition)
        assert [*chosen, memory.at if memory else None] == expected


def after_greatest(version: str, turns: int = 6) -> list[int | None]:
    producer = Producer(RoundRobin(version), draw_of(GREATEST - 1))
    return [producer.choose("t", None, Partitions.from_count(10)).partition for _ in range(turns)]


def test_each_era_passes_the_greatest_integer_in_its_own_way() -> None:
    assert after_greatest("4.7.1") == [7, 0, 1, 2, 3, 4]
    assert after_greatest("4.8.0") == [7, 0, 7, 0, 7, 0]  # two queues for ever
    assert after_greatest("4.9.3") == [7, 0, 7, 6, 5, 4]
    assert after_greatest("4.9.4") == after_greatest("5.5.0") == [7, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("version", ["4.0.0", "4.8.0", "4.9.0", "4.9.8", "5.0.0", "5.1.4"])
@given(
    drawn=st.integers(-(2**20), 2**20),
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=1),
    rounds=st.integers(1, 3),
)
def test_all_queues_get_the_same_number_of_messages(
    version: str, drawn: int, counts: dict[str, int], rounds: int
) -> None:
    partitions = Partitions.queues(counts)
    producer = Producer(RoundRobin(version), draw_of(drawn if drawn < -100 else abs(drawn)))
    chosen = Counter(producer.choose("t", "key", partitions).partition for _ in range(partitions.count * rounds))
    assert chosen == {partition.id: rounds for partition in partitions}


@pytest.mark.parametrize("version", ["4.0.0", "4.8.0", "4.9.0", "4.9.8", "5.0.0", "5.1.4"])
@given(
    drawn=st.integers(LEAST, GREATEST), counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=2)
)
def test_another_try_goes_to_another_broker(version: str, drawn: int, counts: dict[str, int]) -> None:
    partitions, inputs = Partitions.queues(counts), Inputs(draw_of(drawn))
    memory = None
    for last in sorted(counts):
        choice, memory = RoundRobin(version).choose_again(last, partitions, memory, inputs)
        assert choice.partition is not None
        # Where an index wraps around, in whatever way of its era, so many steps do not see all queues.
        if abs(drawn) <= GREATEST - 50:
            assert not partitions[choice.partition].name.startswith(f"{last}:")


def test_with_one_broker_another_try_goes_to_it_again() -> None:
    partitions, inputs = Partitions.queues({"a": 3}), Inputs(draw_of(0))
    assert RoundRobin("4.7.1").choose_again("a", partitions, None, inputs)[0].partition == 2
    assert RoundRobin("5.3.3").choose_again("a", partitions, None, inputs)[0].partition == 4 % 3


def test_a_new_route_begins_a_new_index() -> None:
    four, six = Partitions.from_count(4), Partitions.from_count(6)
    _, memory = RoundRobin().choose_next(None, four, None, Inputs(draw_of(0)))
    assert RoundRobin().choose_next(None, Partitions(four), memory, Inputs(no_draw))[0].partition == 2
    assert RoundRobin().choose_next(None, six, memory, Inputs(draw_of(4)))[0].partition == 5


@pytest.mark.parametrize(
    ("version", "since"),
    [
        ("4", (4, 0)),
        ("4.0.0", (4, 0)),
        ("4.7.9", (4, 0)),
        ("4.8", (4, 8)),
        ("4.9", (4, 9)),
        ("4.9.3", (4, 9)),
        ("4.9.4", (4, 9, 4)),
        ("4.10", (4, 9, 4)),
        ("5", (5, 0)),
        ("5.5.0", (5, 0)),
    ],
)
def test_a_version_belongs_to_the_last_era_before_it(version: str, since: tuple[int, ...]) -> None:
    assert find_era(version) is ERAS[since]


@pytest.mark.parametrize("version", ["", "five", "5.x", "3.6.2", "-1"])
def test_a_text_that_is_no_version_is_an_error(version: str) -> None:
    with pytest.raises(InputError, match="rocketmq-client"):
        RoundRobin(version)


ROOMS = Partitions.queues({"room1@a": 2, "room2@b": 2, "c": 2, "room1@d@e": 1, "@f": 1})


def test_only_queues_in_the_rooms_of_consumers_are_chosen() -> None:
    chosen = {position(ByMachineRoom(["room1"]), key, ROOMS) for key in KEYS[:100]}
    assert chosen == {0, 1}
    assert {position(ByMachineRoom(["room1", "room2"]), key, ROOMS) for key in KEYS[:100]} == {0, 1, 2, 3}


@given(st.sampled_from(KEYS))
def test_within_its_rooms_a_key_goes_by_its_hash(key: str) -> None:
    here = ByHash().choose(key, Partitions.from_count(4)).partition
    assert position(ByMachineRoom(["room1", "room2"]), key, ROOMS) == here


def test_no_queue_in_the_rooms_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(
        MQClientException, match=r"machine rooms room9; brokers named room@broker are in .*room1, room2"
    ):
        ByMachineRoom(["room9"]).choose("key", ROOMS)
    with pytest.raises(MQClientException, match="none given"):
        ByMachineRoom().choose("key", ROOMS)


@pytest.mark.parametrize("name", WHOLE)
def test_the_faithful_machine_room_selector_chooses_nothing(name: str) -> None:
    assert golden.read(name)["machine_room_is_null"] is True
    with pytest.raises(MQClientException, match="select message queue return null"):
        ByMachineRoom(["room1"], faithful=True).choose("key", ROOMS)


def test_a_queue_without_a_name_is_refused() -> None:
    assert Explicit().choose("room2@b:1", ROOMS).partition == 3
    with pytest.raises(InputError, match="no queue 'c:7'; there are room1@a:0, "):
        Explicit().choose("c:7", ROOMS)
    with pytest.raises(InputError, match="a queue's name is a string"):
        Explicit().choose(3, ROOMS)


@pytest.mark.parametrize(("at", "count"), tuple(enumerate(COUNTS)))
def test_the_queue_of_a_message_group_is_the_recorded_one_of_the_proxy(at: int, count: int) -> None:
    recorded, partitions = golden.read("rocketmq-select-proxy")["queues"][at], Partitions.from_count(count)
    sent = {key: expected for key, expected in zip(KEYS, recorded, strict=True) if key.strip()}
    assert len(sent) > 1000
    assert {key: GrpcProxy().choose(key, partitions).partition for key in sent} == sent


def test_a_blank_message_group_is_refused_and_an_empty_one_is_none() -> None:
    for blank in (" ", "\n \u3000"):
        with pytest.raises(InputError, match="ILLEGAL_MESSAGE_GROUP"):
            GrpcProxy().choose(blank, Partitions.from_count(3))
    assert GrpcProxy().choose("\xa0", Partitions.from_count(3)).partition is not None
    assert GrpcProxy().choose("", Partitions.from_count(3)).partition is None


@pytest.mark.parametrize(("at", "count"), tuple(enumerate(COUNTS)))
def test_the_choice_for_a_message_group_is_the_recorded_one_of_the_grpc_client(at: int, count: int) -> None:
    partitions = Partitions.from_count(count)
    assert [GrpcJava().choose(key, partitions).partition for key in KEYS] == golden.read("rocketmq-select-grpc")[
        "queues"
    ][at]


def test_the_proxy_sorts_the_queues_whatever_their_order() -> None:
    one, other = Partitions.queues({"a": 2, "b": 3}), Partitions.queues({"b": 3, "a": 2})
    for key in KEYS[11:100]:
        stored = [partitions[GrpcProxy().choose(key, partitions).partition or 0].name for partitions in (one, other)]
        assert stored[0] == stored[1]


def test_without_a_message_group_queues_take_turns() -> None:
    proxy = Producer(GrpcProxy(), draw_of(-2))
    assert [proxy.choose("t", key, Partitions.from_count(3)).partition for key in (None, "", None)] == [1, 2, 0]
    client = Producer(GrpcJava(), lambda count: count - 1)
    assert [client.choose("t", None, Partitions.from_count(10)).partition for _ in range(3)] == [6, 7, 2]


@pytest.mark.parametrize("partitioner", [GrpcProxy(), GrpcJava(), GoHash()])
def test_a_message_group_is_a_string(partitioner: Partitioner) -> None:
    said = partitioner.choose("ä", Partitions.from_count(12))
    assert said == partitioner.choose(Typed("longstr", "ä"), Partitions.from_count(12))
    assert said == partitioner.choose(Typed("longstr", "ä".encode()), Partitions.from_count(12))
    with pytest.raises(InputError, match="is a string"):
        partitioner.choose(5, Partitions.from_count(12))


def test_the_go_client_hashes_bytes_and_draws_without_a_key() -> None:
    for key in KEYS[1:200]:
        assert GoHash().choose(key, Partitions.from_count(7)).partition == fnv1a(key.encode()) % 7
    producer = Producer(GoHash(), lambda count: count - 1)
    assert [producer.choose("t", key, Partitions.from_count(7)).partition for key in ("", None)] == [6, 6]


PARAMETERS = {"consumeridcs": "room1, room2", "faithful": "true", "version": "4.7.1"}


def test_every_strategy_builds_equal_partitioners_from_texts() -> None:
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)
    for strategy in STRATEGIES:
        assert strategy.lists_queues
        given_texts = {name: read(PARAMETERS[name]) for name, read in strategy.parameters.items()}
        assert strategy.make(**given_texts) == strategy.make(**given_texts)
        assert hash(strategy.make()) == hash(strategy.make())
    (machine_room,) = [strategy for strategy in STRATEGIES if strategy.name == "rocketmq.machine_room"]
    assert machine_room.parameters["consumeridcs"](PARAMETERS["consumeridcs"]) == ["room1", "room2"]
    with pytest.raises(ValueError, match="true or false"):
        machine_room.parameters["faithful"]("yes")
