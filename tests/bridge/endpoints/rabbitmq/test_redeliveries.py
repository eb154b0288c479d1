"""Sources that wait longer because their messages are near the delivery limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.rabbitmq.consumer.redeliveries import (
    CAREFUL_PREFETCH,
    FORGET,
    LIMIT,
    Redeliveries,
    count_deliveries,
)
from exchange.amqp import ContentHeader
from exchange.values.field_values import Typed

NEAR = 10


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({}, 0),
        ({"x-delivery-count": 7}, 7),
        ({"x-delivery-count": Typed("long", 9)}, 9),
        ({"x-acquired-count": 9}, 0),
        ({"x-delivery-count": 2, "x-acquired-count": 9}, 2),
        ({"x-delivery-count": "many"}, 0),
        ({"x-delivery-count": True}, 0),
    ],
)
def test_the_count_of_deliveries_is_the_queue_s_own(headers: dict[str, object], count: int) -> None:
    assert count_deliveries(ContentHeader.encode(headers, {})) == count


def test_an_unreadable_header_counts_as_no_earlier_delivery() -> None:
    assert count_deliveries(ContentHeader(b"\x20\x00\x00\x00\x00\x20\x10x-delivery-countI")) == 0


def test_few_deliveries_or_more_than_the_default_limit_are_no_danger() -> None:
    seen = Redeliveries("q")
    assert not seen.see(NEAR - 1, 0.0)
    assert not seen.see(LIMIT + 1, 0.0)
    assert seen.wait(0.0) == 0.0
    assert seen.limit_prefetch(500, 0.0) == 500


def test_near_the_limit_each_further_delivery_doubles_the_wait_up_to_hours() -> None:
    seen = Redeliveries("q")
    waits = []
    for count in range(NEAR, LIMIT + 1):
        assert seen.see(count, 0.0)
        assert not seen.see(count, 0.0)
        waits.append(seen.wait(0.0))
    assert waits[:3] == [60.0, 120.0, 240.0]
    assert waits[-1] == 6 * 3_600.0
    assert seen.limit_prefetch(500, 0.0) == CAREFUL_PREFETCH
    assert f"{LIMIT} times" in seen.warning


@pytest.mark.parametrize(("limit", "near"), [(0, 1), (1, 1), (2, 1), (3, 2), (20, 10), (1_000, 500)])
def test_danger_is_relative_to_the_limit_of_the_queue(limit: int, near: int) -> None:
    seen = Redeliveries("q")
    seen.learn(limit)
    assert seen.near == near
    assert not seen.see(near - 1, 0.0)
    assert seen.see(near, 0.0) is (near <= limit)
    assert seen.wait(0.0) == (60.0 if near <= limit else 0.0)
    assert not seen.see(limit + 1, 0.0)


def test_a_queue_that_has_another_limit_now_or_none_is_no_longer_in_danger() -> None:
    for limit in (None, 100):
        seen = Redeliveries("q")
        seen.see(NEAR, 0.0)
        assert seen.wait(0.0) == 60.0
        seen.learn(limit)
        assert seen.wait(0.0) == 0.0
        assert seen.most == 0
    seen.learn(None)
    assert not seen.see(LIMIT, 0.0)


def test_messages_that_were_not_seen_for_long_are_no_danger() -> None:
    seen = Redeliveries("q")
    seen.see(NEAR, 0.0)
    assert seen.in_danger(FORGET)
    assert not seen.in_danger(FORGET + 1.0)
    assert seen.limit_prefetch(500, FORGET + 2.0) == 500


@given(st.lists(st.integers(0, LIMIT + 2), max_size=12))
def test_the_danger_is_that_of_the_message_that_was_delivered_most(counts: list[int]) -> None:
    seen = Redeliveries("q")
    for at, count in enumerate(counts):
        before = seen.most
        assert seen.see(count, float(at)) == (before < count <= LIMIT and count >= NEAR)
        assert seen.most == max([each for each in counts[: at + 1] if NEAR <= each <= LIMIT], default=0)
        assert seen.in_danger(float(at)) == (seen.most > 0)
