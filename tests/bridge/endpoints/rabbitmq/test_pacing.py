"""How many messages of a quorum queue are taken at once: by a model of the queue, and of processes that are killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon.config import read_config
from bridge.endpoints.rabbitmq.consumer.pacing import Pacing
from bridge.endpoints.rabbitmq.consumer.queue_facts import QueueFacts
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.frames import Arrived
from exchange.amqp import ContentHeader
from tests.support.cases import with_each

WINDOW = 30


def make_arrival(tag: int, count: int) -> Arrived:
    headers = {"x-delivery-count": count} if count else {}
    return Arrived(tag, count > 0, b"", b"k", ContentHeader.encode(headers, {}).payload(0)[12:], b"")


@dataclass
class Model:
    """A quorum queue: numbers of its messages in order, each with the number of its earlier deliveries.

    What comes back stands before all that never did, and behind all that came back before.
    """

    limit: int
    fresh: list[int]
    returned: list[tuple[int, int]] = field(default_factory=list)

    def take(self) -> tuple[int, int]:
        return self.returned.pop(0) if self.returned else (self.fresh.pop(0), 0)

    def run_process(self, guilty: frozenset[int], most: int) -> tuple[set[int], set[int]]:
        """Let a process read until it is killed: by a guilty message that it is given, or after ``most`` messages.

        Return the messages that were settled, and those that were dropped.
        """
        alone_from = QueueFacts("quorum", self.limit).alone_from
        assert alone_from is not None
        pacing = Pacing(alone_from, WINDOW)
        acked = 0
        unsettled: list[tuple[int, int]] = []
        arrived: list[Arrived] = []
        settled: set[int] = set()
        tag = last_given = 0
        killed = False
        while not killed:
            prefetch = 0 if pacing.is_stopped else pacing.prefetch
            while (self.returned or self.fresh) and len(unsettled) < prefetch:
                tag += 1
                unsettled.append(self.take())
                arrived.append(make_arrival(tag, unsettled[-1][1]))
            if pacing.may_start(arrived, last_given, last_given):
                assert not unsettled  # never are there messages of two consumers
                pacing.start(last_given)
                continue
            ready = pacing.count_ready(arrived, 1_000, last_given, last_given)  # each that was given is settled
            if not ready:
                return settled, set()
            for _ in range(ready):
                last_given = arrived.pop(0).tag
                killed = unsettled[0][0] in guilty or len(settled) >= most
                if killed:
                    break
                settled.add(unsettled.pop(0)[0])
            if not killed:
                if pacing.may_grow(last_given, tag - acked):
                    pacing.stop()
                acked = last_given
        back = [(number, count + 1) for number, count in unsettled]
        self.returned += [each for each in back if each[1] <= self.limit]
        return settled, {number for number, count in back if count > self.limit}


NUMBERS = st.integers(0, 79)
GUILTY = st.frozensets(NUMBERS, max_size=6)
LIMITS = st.integers(0, 21)
ENDS = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(GUILTY, LIMITS, ENDS)
def test_a_loop_of_crashes_costs_those_messages_only_that_it_is_due_to(
    guilty: frozenset[int], limit: int, ends: list[int]
) -> None:
    """Processes are killed by guilty messages, and besides after a number of messages, one at least."""
    model = Model(limit, list(range(80)))
    settled: set[int] = set()
    dropped: set[int] = set()
    for turn in range(1_000):
        done, lost = model.run_process(guilty, ends[turn % len(ends)] if limit else 1_000)
        settled |= done
        dropped |= lost
        if not model.returned and not model.fresh:
            break
    assert dropped == guilty
    assert settled == set(range(80)) - guilty


@given(GUILTY, LIMITS)
def test_a_process_that_settles_nothing_drops_one_message_at_most(guilty: frozenset[int], limit: int) -> None:
    """One that is killed as soon as it has read a message, however often."""
    model = Model(limit, list(range(80)))
    for most in (12, 15, *[0] * 50):
        _, dropped = model.run_process(guilty, most)
        assert len(dropped) <= 1


def test_the_prefetch_grows_whenever_as_many_messages_are_settled_at_a_moment_when_it_is_used_up() -> None:
    pacing = Pacing(5, 2_000)
    tag, grown = 0, []
    while pacing.prefetch < 2_000:
        prefetch = pacing.prefetch
        grown.append(prefetch)
        for number in range(1, prefetch + 1):
            assert pacing.count_ready([make_arrival(tag + number, 0)], 1_000, tag + number - 1, tag) == 1
        assert not pacing.may_grow(tag + prefetch - 1, prefetch)
        assert not pacing.may_grow(tag + prefetch, prefetch - 1)
        assert pacing.may_grow(tag + prefetch, prefetch)
        pacing.stop()
        tag += prefetch
        assert not pacing.may_grow(tag, pacing.prefetch)
        assert not pacing.may_start([make_arrival(tag + 1, 0)], tag, tag)
        assert not pacing.may_start([], tag, tag - 1)
        assert pacing.may_start([], tag, tag)
        pacing.start(tag)
        assert not pacing.may_start([], tag, tag)
    assert grown == [1, 4, 16, 64, 256, 1_024]
    assert not pacing.may_grow(tag + 5_000, 2_000)


def test_as_long_as_messages_come_that_came_back_the_prefetch_stays_small() -> None:
    pacing = Pacing(5, 2_000)
    assert pacing.count_ready([make_arrival(1, 4)], 1_000, 0, 0) == 1
    assert pacing.may_grow(1, 1)
    pacing.stop()
    pacing.start(1)
    assert pacing.count_ready([make_arrival(tag, 1) for tag in range(2, 6)], 1_000, 1, 1) == 4
    assert not pacing.may_grow(5, 4)
    assert pacing.count_ready([make_arrival(6, 1), *[make_arrival(tag, 0) for tag in range(7, 10)]], 1_000, 5, 5) == 4
    assert pacing.may_grow(9, 4)


def test_a_message_that_came_back_often_is_alone_under_way_and_no_reason_to_grow() -> None:
    pacing = Pacing(5, 100)
    arrived = [make_arrival(1, 0), make_arrival(2, 4), make_arrival(3, 5), make_arrival(4, 0)]
    assert pacing.count_ready(arrived, 1_000, 0, 0) == 2
    assert pacing.count_ready(arrived[2:], 1_000, 2, 1) == 0
    assert pacing.count_ready(arrived[2:], 1_000, 2, 2) == 1
    assert not pacing.may_grow(3, 1)
    assert pacing.count_ready(arrived[3:], 1_000, 3, 2) == 0
    assert pacing.count_ready(arrived[3:], 1_000, 3, 3) == 1
    assert pacing.may_grow(4, 1)


@with_each(
    ("known", "version", "limit", "alone_from"),
    [
        ({"type": "classic"}, "4.0.5", None, None),
        ({"type": "stream"}, "4.0.5", None, None),
        ({}, "4.0.5", None, None),
        ({"type": "quorum", "delivery_limit": 20, "effective_policy_definition": {}}, "4.0.5", 20, 5),
        ({"type": "quorum", "delivery_limit": 3, "effective_policy_definition": {}}, "4.3.6", 3, 1),
        ({"type": "quorum", "delivery_limit": 0, "effective_policy_definition": {}}, "4.3.6", 0, 0),
        ({"type": "quorum", "delivery_limit": 1, "effective_policy_definition": {}}, "4.3.6", 1, 0),
        ({"type": "quorum", "delivery_limit": 2, "effective_policy_definition": {}}, "4.3.6", 2, 0),
        ({"type": "quorum", "delivery_limit": "unlimited", "effective_policy_definition": {}}, "4.3.6", None, None),
        ({"type": "quorum", "delivery_limit": -1, "effective_policy_definition": {}}, "4.3.6", None, None),
        ({"type": "quorum", "effective_policy_definition": {}}, "3.13.7", None, None),
        ({"type": "quorum", "effective_policy_definition": {"delivery-limit": 12}}, "3.13.7", 12, 3),
        ({"type": "quorum", "effective_policy_definition": {}, "arguments": {"x-delivery-limit": 7}}, "3.13.7", 7, 1),
        ({"type": "quorum", "arguments": {"x-delivery-limit": 7}}, "4.0.5", 7, 1),
        ({"type": "quorum", "arguments": {"x-delivery-limit": 0}}, "4.0.5", 0, 0),
        ({"type": "quorum"}, "4.0.5", 20, 1),
        ({"type": "quorum"}, "3.10.8", None, 1),
        ({"type": "quorum", "arguments": {"x-single-active-consumer": True}}, "4.0.5", 20, None),
        ({"type": "quorum", "arguments": {"x-expires": 60_000}}, "4.0.5", 20, None),
    ],
)
def test_the_lower_the_limit_of_a_queue_the_sooner_a_message_is_taken_alone(
    known: dict[str, Any], version: str, limit: int | None, alone_from: int | None
) -> None:
    """As long as a queue's policy is not known, which may set a lower limit, from its first return on."""
    facts = QueueFacts.from_answer(known, version)
    assert (facts.delivery_limit, facts.alone_from) == (limit, alone_from)


@pytest.mark.parametrize(
    ("rate", "own", "prefetch"),
    [(None, "", 2_000), (0.01, "", 1), (5.0, "", 50), (1.7e308, "", 2_000), (5.0, "prefetch = 9", 9)],
)
def test_a_source_with_a_rate_prefetches_no_more_than_it_reads_soon(
    tmp_path: Path, rate: float | None, own: str, prefetch: int
) -> None:
    """The rest goes back at each reload, which counts toward a delivery limit."""
    (tmp_path / "t.bindings").write_text("exchange orders: topic\n")
    policy = "" if rate is None else f"[policy]\nrate = {rate}\n"
    text = f'{policy}[sources.s]\nurl = "amqp://h"\nqueue = "q"\n{own}\n'
    (tmp_path / "b.toml").write_text(f'topology = "t.bindings"\n{text}')
    source = read_config(tmp_path / "b.toml").inlets[0].source
    assert isinstance(source, RabbitmqSource)
    assert source._prefetch == prefetch
