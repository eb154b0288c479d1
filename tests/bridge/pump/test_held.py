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
            assert [n for n in range(31) if lines.is_first(known[n, each])] == firsts
            assert lines.holds(outgoing(99, each)) == bool(firsts)
