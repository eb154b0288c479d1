"""Partitions that librdkafka has forgotten, by its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.kafka.consumer.fetching import LONG_WAIT_SECONDS, LONGEST_IDLE, STUCK, FetchQueues, Joining

OURS = [("orders", 0), ("orders", 1)]


def statistics(states: Mapping[str, Mapping[int, str]]) -> Mapping[str, Any]:
    topics = {
        topic: {
            "topic": topic,
            "partitions": {str(n): {"partition": n, "fetch_state": state} for n, state in of.items()},
        }
        for topic, of in states.items()
    }
    return {"name": "hashstar#consumer-1", "topics": topics}


def test_a_partition_that_is_idle_at_every_look_is_reported_after_a_while() -> None:
    fetching = FetchQueues()
    idle = statistics({"orders": {-1: "none", 0: "active", 1: "none"}})
    assert fetching.find_idle(idle, OURS, 100.0) is None
    assert fetching.find_idle(idle, OURS, 100.0 + LONGEST_IDLE - 0.1) is None
    assert fetching.find_idle(idle, OURS, 100.0 + LONGEST_IDLE) == ("orders", 1)


def test_a_partition_that_was_fetched_from_or_asked_about_meanwhile_is_not_reported() -> None:
    for state in ("active", "offset-query", "offset-wait", "validate-epoch-wait", "stopping"):
        fetching = FetchQueues()
        assert fetching.find_idle(statistics({"orders": {0: "active", 1: "stopped"}}), OURS, 0.0) is None
        assert fetching.find_idle(statistics({"orders": {0: "active", 1: state}}), OURS, LONGEST_IDLE / 2) is None
        assert fetching.find_idle(statistics({"orders": {0: "active", 1: "none"}}), OURS, LONGEST_IDLE) is None


def test_a_partition_that_was_taken_away_meanwhile_is_not_reported() -> None:
    fetching, idle = FetchQueues(), statistics({"orders": {0: "active", 1: "none"}})
    assert fetching.find_idle(idle, OURS, 0.0) is None
    assert fetching.find_idle(idle, OURS[:1], LONGEST_IDLE / 2) is None
    assert fetching.find_idle(idle, OURS, LONGEST_IDLE) is None
    assert fetching.find_idle(idle, [], 3 * LONGEST_IDLE) is None


def test_a_partition_that_librdkafka_does_not_mention_is_idle() -> None:
    for incomplete in (statistics({}), statistics({"orders": {0: "active"}})):
        fetching = FetchQueues()
        assert fetching.find_idle(incomplete, OURS, 0.0) is None
        assert fetching.find_idle(incomplete, OURS, LONGEST_IDLE) in OURS


def joining(state: str, coordinator: str = "up") -> Mapping[str, Any]:
    return {"cgrp": {"state": coordinator, "join_state": state}, "brokers": brokers_of("UP", "INIT")}


def brokers_of(*states: str) -> Mapping[str, Any]:
    return {f"b{n}": {"name": f"b{n}", "source": "learned", "state": state} for n, state in enumerate(states)}


def test_a_member_that_does_not_come_back_from_giving_up_partitions_is_stuck() -> None:
    member = Joining()
    member.look(joining("steady"), 0.0)
    member.look(joining("wait-incr-unassign-to-complete"), 5.0)
    member.look(joining("wait-incr-unassign-to-complete"), 5.0 + STUCK - 1)
    assert not member.is_stuck
    member.look(joining("wait-incr-unassign-to-complete"), 5.0 + STUCK)
    assert member.is_stuck


def test_a_member_without_a_coordinator_is_not_stuck() -> None:
    member = Joining()
    for now in (0.0, 100.0):
        member.look(joining("wait-incr-unassign-to-complete", "wait-broker"), now)
    assert not member.is_stuck
    assert member.trouble is None


def test_waiting_for_the_other_members_is_trouble_after_a_while_and_never_stuck() -> None:
    member = Joining()
    for now in (0.0, LONG_WAIT_SECONDS - 1):
        member.look(joining("wait-join"), now)
        assert member.trouble is None
    member.look(joining("wait-join"), LONG_WAIT_SECONDS)
    assert member.trouble == "it has waited for 15 s to be given partitions (wait-join)"
    assert not member.is_stuck
    member.look(joining("steady"), LONG_WAIT_SECONDS + 1)
    assert member.trouble is None


@given(st.lists(st.tuples(st.floats(0.1, 40.0), st.sampled_from(["steady", "wait-join", "wait-sync"])), max_size=12))
def test_it_waits_since_a_look_at_which_it_waited_however_long_there_was_none(looks: list[tuple[float, str]]) -> None:
    """A process that was stopped finds its member without partitions, and has not waited all that time."""
    member, now, seen = Joining(), 0.0, list[tuple[float, str]]()
    for pause, state in looks:
        now += pause
        seen.append((now, state))
        member.look(joining(state), now)
        waits = [at for at, _ in takewhile(lambda look: look[1] != "steady", reversed(seen))]
        assert (member.trouble is not None) == (bool(waits) and now - waits[-1] >= LONG_WAIT_SECONDS)


def test_waiting_is_trouble_sooner_while_a_broker_is_away_whatever_states_follow_on_one_another() -> None:
    member, away = Joining(), {"brokers": brokers_of("UP", "TRY_CONNECT")}
    member.look(joining("steady"), 0.0)
    told = "it has waited for 5 s to be given partitions (wait-sync; broker b1 is not connected)"
    for now, state, trouble in ((1.0, "wait-join", None), (5.9, "wait-metadata", None), (6.0, "wait-sync", told)):
        member.look({**joining(state), **away}, now)
        assert member.trouble == trouble
    for now, trouble in ((7.0, None), (16.0, "it has waited for 15 s to be given partitions (wait-sync)")):
        member.look(joining("wait-sync"), now)
        assert member.trouble == trouble
