"""Held messages: in the order in which they were routed, with one of each key under way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing
from bridge.pump.order import Held
from exchange import Message


def outgoing(number: int, key: str = "k") -> Outgoing:
    return Outgoing(Message("", key), Delivery(Message("", key)), "q", number=number)


def held(*messages: Outgoing) -> Held:
    made = Held(lambda each: each.message.routing_key)
    for each in messages:
        made.add(each)
    return made


def test_held_messages_keep_the_order_in_which_they_were_routed() -> None:
    """Not in that in which they failed."""
    four, two, three = outgoing(4), outgoing(2), outgoing(3)
    lines = held(four, two, three)
    assert lines.is_first(two)
    assert not lines.is_first(four)
    assert lines.remove(two) is three
    assert lines.remove(three) is four
    assert lines.remove(four) is None
    assert not lines


def test_only_removing_the_first_of_a_key_releases_another() -> None:
    one, two, three = outgoing(1), outgoing(2), outgoing(3)
    lines = held(one, two, three)
    assert lines.remove(two) is None
    assert lines.remove(two) is None  # which is gone
    assert lines.remove(one) is three
    assert lines.is_first(three)


def test_a_message_is_held_once() -> None:
    one = outgoing(1)
    lines = held(one, one, outgoing(2), one)
    assert len(lines) == 2
    lines.remove(one)
    assert len(lines) == 1


def test_keys_are_held_independently() -> None:
    a, b, more = outgoing(2, "a"), outgoing(1, "b"), outgoing(3, "a")
    lines = held(a, b, more)
    assert sorted(each.number for each in lines.firsts()) == [1, 2]
    assert lines.holds(outgoing(9, "a"))
    lines.remove(a)
    lines.remove(more)
    assert not lines.holds(outgoing(9, "a"))
    assert lines.holds(b)


def test_discarding_the_first_of_a_key_releases_the_next_one() -> None:
    one, two, three, other = outgoing(1), outgoing(2), outgoing(3), outgoing(4, "other")
    lines = held(one, two, three, other)
    assert lines.discard(lambda each: each is three) == []  # the first one stays
    assert lines.discard(lambda each: each in (one, other)) == [two]
    assert set(lines.all()) == {two}
    assert len(lines) == 1
    assert not lines.holds(other)
    lines.add(one)  # its source has given it again
    assert lines.is_first(one)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.sampled_from(["add", "remove", "forget"]))))
def test_after_any_history_the_first_of_a_key_has_its_lowest_number(history: list[tuple[int, str, str]]) -> None:
    known = {(number, key): outgoing(number, key) for number in range(31) for key in "ab"}
    lines = held()
    there: set[tuple[int, str]] = set()
    for number, key, what in history:
        one = known[number, key]
        least = min([n for n, k in there if k == key], default=None)
        left = sorted(n for n, k in there - {(number, key)} if k == key)
        if what == "add":
            lines.add(one)
            there.add((number, key))
        else:
            was_first = number == least
            there.discard((number, key))
            following = known[left[0], key] if was_first and left else None
            if what == "remove":
                assert lines.remove(one) is following
            else:
                assert lines.discard(lambda each, one=one: each is one) == [following] * (following is not None)  # type: ignore[misc]
        assert {(each.number, each.message.routing_key) for each in lines.all()} == there
        assert len(lines) == len(there)
        for each in "ab":
            firsts = [first.number for first in lines.firsts() if first.message.routing_key == each]
            assert firsts == sorted([n for n, k in there if k == each])[:1]
