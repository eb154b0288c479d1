"""MQFaultStrategy: the scripts that real clients played, step by step, and what is true of any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.faults import (
    DETECT_INTERVAL,
    ERAS,
    FaultItem,
    Faults,
    FaultStrategy,
    ThreadMemory,
    list_probes_due,
    probe,
)
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.round_robin import RoundRobin, Turn
from exchange.partition.partitioner import Inputs
from exchange.partition.partitions import Broker, Partition, Partitions
from tests.recorders import golden
from tests.recorders.rocketmq_faults import LATENCIES, SCRIPTS

RECORDED = golden.names("rocketmq-faults-")
NONE: Faults = {}


class Chance:
    """The random numbers that the client drew, one after the other."""

    def __init__(self, drawn: list[int]) -> None:
        self.left = drawn[::-1]

    def draw(self, below: int) -> int:
        number = self.left.pop()
        assert 0 <= number < below
        return number


def no_draw(_: int) -> int:
    pytest.fail("nothing is left to chance")


def partitions_of(queues: list[list[Any]]) -> Partitions:
    return Partitions([Partition(at, Broker(name), f"{name}:{number}") for at, (name, number) in enumerate(queues)])


def written(route: list[list[Any]], version: str) -> dict[str, int]:
    """Return broker -> number of write queues, as that version finds them in the route."""
    return {name: count for name, count, perm in route if perm & 2 or version != "4.9.8"}


def play(version: str, script: Mapping[str, Any], drawn: list[int]) -> dict[str, Any]:
    """Return the result of `RocketmqFaults.java` for a script, as our strategy computes it."""
    strategy = FaultStrategy(version, enabled=script["enabled"], faithful=True)
    partitions = partitions_of(script["queues"])
    chance = Chance(drawn)
    turn = None if script["turn"] is None else Turn(script["turn"], partitions)
    memory, faults, now = ThreadMemory(turn, script["worst"]), NONE, script["now"]
    results: list[Any] = []
    for step in script["steps"]:
        match step:
            case ["pass", time]:
                now += time
            case ["update", broker, latency, isolated, reachable]:
                faults = strategy.update(faults, broker, latency, now, isolated=isolated, reachable=reachable)
            case ["select", last, reset]:
                selection = strategy.select(
                    last, partitions, faults, memory, Inputs(chance.draw, now), reset_index=reset,
                    write_queues=written(script["route"], version),
                )  # fmt: skip
                memory, faults = selection.memory, selection.faults
                results.append(selection.queue.name)
            case ["pick"]:
                picked, worst = strategy.pick_one_at_least(faults, memory.worst, Inputs(chance.draw, now))
                memory = memory._replace(worst=worst)
                results.append(picked)
            case ["detect", answers] if strategy.era.filters:
                probed = []
                for broker in list_probes_due(faults, now):
                    answered = answers[broker] == "answers" if broker in answers else None
                    probed += [broker] if broker in answers else []
                    faults = probe(faults, broker, now, answered=answered)
                results.append(probed)
    assert not chance.left
    rows = {broker: list(item if strategy.era.filters else item[:2]) for broker, item in faults.items()}
    names = [partition.name for partition in partitions]
    for at, queue in memory.renamed.items():
        names[at] = queue.name
    return {
        "results": results,
        "turn": memory.turn and memory.turn.at,
        "worst": memory.worst,
        "queues": names,
        "faults": rows,
    }


def comparable(end: dict[str, Any]) -> dict[str, Any]:
    """Normalise a result: brokers are probed in any order, a failed pick is None, and fastjson leaves null out."""
    results = [sorted(result) if isinstance(result, list) else result for result in end["results"]]
    none = [
        None if result in ("!IndexOutOfBoundsException", "!ArrayIndexOutOfBoundsException") else result
        for result in results
    ]
    return {"turn": None, "worst": None} | end | {"results": none}


@pytest.mark.parametrize("name", RECORDED)
def test_scripts_go_as_with_the_real_client(name: str) -> None:
    recorded = golden.read(name)
    assert len(recorded["scripts"]) == len(SCRIPTS)
    for script, there in zip(SCRIPTS, recorded["scripts"], strict=True):
        here = play(recorded["version"], script, there.pop("drawn"))
        assert comparable(here) == comparable(there)


@pytest.mark.parametrize("name", RECORDED)
def test_a_latency_keeps_a_broker_away_as_long_as_with_the_real_client(name: str) -> None:
    recorded = golden.read(name)
    durations = FaultStrategy(recorded["version"]).era.durations
    assert [durations.after(latency) for latency in LATENCIES] == recorded["durations"]


def test_there_are_recordings_of_every_era() -> None:
    """Each row of the table answers for one client at least."""
    eras = {FaultStrategy(golden.read(name)["version"], faithful=True).era for name in RECORDED}
    assert eras == set(ERAS.values())
    assert len(SCRIPTS) >= 250


LAYOUTS = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda counts: Partitions.queues({f"broker-{at}": count for at, count in enumerate(counts)})
)
VERSIONS = st.sampled_from(["4.0", "4.7.1", "4.8.0", "4.9.4", "4.9.8", "5.1.0", "5.1.3", "5.1.4", "5.5.0"])
TABLES = st.dictionaries(
    st.sampled_from([f"broker-{at}" for at in range(4)]),
    st.builds(FaultItem, st.integers(0, 9), st.integers(0, 3), st.booleans()),
)


@given(VERSIONS, LAYOUTS, TABLES, st.integers(0, 2**31 - 1), st.sampled_from([None, "broker-0"]), st.randoms())
def test_an_available_broker_is_selected_while_there_is_one(
    version: str, partitions: Partitions, faults: Faults, index: int, last: str | None, random: Any
) -> None:
    strategy = FaultStrategy(version)
    memory = ThreadMemory(Turn(index, partitions))
    selected = strategy.select(last, partitions, faults, memory, Inputs(random.randrange, 2)).queue
    names = {queue.leader.name for queue in partitions if queue.leader}
    good = {name for name in names if name not in faults or faults[name].is_available(2)}
    if strategy.era.takes("broker-0", "broker-0"):
        better = good
    else:
        good.discard(str(last))
        reachable = {name for name in names if name not in faults or faults[name].reachable} - {str(last)}
        better = good or (reachable if strategy.era.filters else good)
    near_the_end = not strategy.era.wraps and index + partitions.count >= 2**31 - 1
    assert selected.broker in better or not better or near_the_end
    assert selected.broker in names | set(faults)


@given(VERSIONS, LAYOUTS, st.integers(-(2**31), 2**31 - 1), st.sampled_from([None, "broker-0"]))
def test_a_strategy_that_is_not_enabled_takes_turns_and_keeps_no_table(
    version: str, partitions: Partitions, index: int, last: str | None
) -> None:
    strategy, turn = FaultStrategy(version, enabled=False), Turn(index, partitions)
    selection = strategy.select(last, partitions, NONE, ThreadMemory(turn), Inputs(no_draw))
    choice, after = RoundRobin(version).choose_again(last, partitions, turn, Inputs(no_draw))
    assert choice.partition is not None
    assert selection.queue.name == partitions[choice.partition].name
    assert selection.memory.turn == after
    assert strategy.update(NONE, "broker-0", 60_000, 0, isolated=True) is NONE


@given(VERSIONS, st.lists(st.tuples(st.integers(0, 20_000), st.booleans(), st.integers(0, 9999)), min_size=1))
def test_since_5_1_4_a_fault_is_only_extended_and_before_the_last_one_counts(
    version: str, sends: list[tuple[int, bool, int]]
) -> None:
    strategy, faults, now = FaultStrategy(version), NONE, 1_000_000
    ends = [0]
    for latency, isolated, passed in sends:
        now += passed
        duration = strategy.era.durations.after(latency, isolated=isolated)
        ends.append(now + duration if duration or not strategy.era.filters else 0)
        faults = strategy.update(faults, "b", latency, now, isolated=isolated)
    assert faults["b"].available_from == (max(ends) if strategy.era.filters else ends[-1])


def test_without_faithful_4_7_retries_another_broker_and_leaves_the_list_as_it_is() -> None:
    partitions = Partitions.queues({"a": 1, "b": 1})
    memory = ThreadMemory(Turn(0, partitions))
    first, faithful = (
        FaultStrategy("4.7.1", faithful=with_bugs).select("a", partitions, NONE, memory, Inputs(no_draw))
        for with_bugs in (False, True)
    )
    assert (first.queue.broker, faithful.queue.broker) == ("b", "a")
    broken: Faults = {name: FaultItem(5, 10) for name in "ab"}
    first, faithful = (
        FaultStrategy("4.7.1", faithful=with_bugs).select(None, partitions, broken, memory, Inputs(lambda _: 0))
        for with_bugs in (False, True)
    )
    assert first.queue == faithful.queue
    assert not first.memory.renamed
    assert list(faithful.memory.renamed.values()) == [first.queue]


def test_a_changed_list_is_forgotten_with_the_route() -> None:
    """As the client makes a new list, and a new index, when the route changes."""
    partitions, other = Partitions.queues({"a": 1, "b": 1}), Partitions.queues({"a": 2})
    memory = ThreadMemory(Turn(0, partitions), None, {0: MessageQueue("b", 0), 1: MessageQueue("b", 0)})
    strategy = FaultStrategy("4.8.0", faithful=True)
    assert strategy.select(None, partitions, NONE, memory, Inputs(no_draw)).queue.broker == "b"
    assert strategy.select(None, other, NONE, memory, Inputs(lambda _: 0)).queue.broker == "a"


def test_a_probe_turns_reachable_on_and_never_off() -> None:
    faults: Faults = {"a": FaultItem(0, 0, reachable=False), "b": FaultItem(0, 0, reachable=True), "c": FaultItem(0)}
    assert list_probes_due(faults, 5000) == ("a", "b", "c")
    faults = probe(faults, "a", 5000, answered=True)
    faults = probe(faults, "b", 5100, answered=False)
    faults = probe(faults, "c", 5200, answered=None)
    assert faults == {
        "a": FaultItem(0, 0, True, 5000 + DETECT_INTERVAL),
        "b": FaultItem(0, 0, True, 5100 + DETECT_INTERVAL),
    }
    assert list_probes_due(faults, 5000 + DETECT_INTERVAL) == ("a",)


def test_an_invalid_version_is_refused() -> None:
    with pytest.raises(InputError, match="not a version"):
        FaultStrategy("latest")
