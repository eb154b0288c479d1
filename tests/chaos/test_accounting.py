"""The accounting finds lost messages, swapped pairs, duplicates, and messages that were never sent."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.accounting import Account, key_of

MESSAGES = 30
KEYS = 3


def account_of(numbers: Sequence[int]) -> Account:
    account = Account(MESSAGES, KEYS)
    account.take((key_of(n, KEYS), b"%d" % n) for n in numbers)
    return account


def test_messages_that_arrive_once_and_in_order_are_no_problem() -> None:
    account = account_of(range(MESSAGES))
    assert not account.lost
    assert not account.out_of_order
    assert not account.duplicates
    assert not [*account.problems(0)]


@given(st.integers(0, MESSAGES - 1))
def test_a_lost_message_is_found(missing: int) -> None:
    account = account_of([n for n in range(MESSAGES) if n != missing])
    assert account.lost == [missing]
    [problem] = account.problems(0)
    assert problem.startswith(f"lost: key.{missing % KEYS} number {missing}; ")
    assert f"{missing} never" in problem


@given(st.integers(0, MESSAGES - KEYS - 1))
def test_a_swapped_pair_is_found(first: int) -> None:
    numbers = [*range(MESSAGES)]
    numbers[first], numbers[first + KEYS] = numbers[first + KEYS], numbers[first]
    account = account_of(numbers)
    assert account.out_of_order == [first]
    assert not account.lost
    [problem] = account.problems(0)
    assert problem.startswith(f"out of order: key.{first % KEYS} number {first}; ")
    assert f"{first} as arrival {first + KEYS + 1}, {first + KEYS} as arrival {first + 1}" in problem


@given(st.permutations(range(KEYS)))
def test_keys_may_overtake_each_other(keys: Sequence[int]) -> None:
    account = account_of([n for key in keys for n in range(key, MESSAGES, KEYS)])
    assert not [*account.problems(0)]


@given(st.integers(0, MESSAGES - 1), st.integers(0, MESSAGES))
def test_a_duplicate_is_counted_wherever_it_comes_after_the_first(twice: int, behind: int) -> None:
    numbers = [*range(MESSAGES)]
    numbers.insert(max(twice + 1, behind), twice)
    account = account_of(numbers)
    assert account.duplicates == 1
    assert not account.out_of_order
    assert not [*account.problems(1)]
    assert [*account.problems(0)] == ["duplicates: 1, and at most 0 were promised"]


def test_a_duplicate_does_not_excuse_that_its_first_arrival_was_late() -> None:
    account = account_of([3, 0, 3, 0, 1, 2, *range(4, MESSAGES)])
    assert account.out_of_order == [0]
    assert account.duplicates == 2


@given(st.data())
def test_what_a_broker_lost_and_was_written_again_is_excused_if_it_had_confirmed_it(data: st.DataObject) -> None:
    first, again, end, overtaking = sorted(data.draw(st.lists(st.integers(0, MESSAGES), min_size=4, max_size=4)))
    account = account_of([*range(first), *range(end, overtaking), *range(again, MESSAGES)])
    late = account.out_of_order
    confirmed = overtaking + MESSAGES - again  # of which the broker has lost first to end
    if account.lost and late:
        assert account.excuse(account.arrivals + max(late) - first) == []
        assert account.out_of_order == late
    assert account.excuse(confirmed) == (late if account.lost else [])
    assert account.out_of_order == ([] if account.lost else late)


def test_an_unknown_message_is_reported_as_strange() -> None:
    account = account_of(range(MESSAGES))
    account.take([("key.0", b"1"), ("key.0", b"30"), ("key.0", b"-3"), ("key.0", b""), ("other", b"0")])
    assert len(account.strange) == 5
    assert not account.duplicates
    assert next(account.problems(0)) == "strange: b'1' was never sent with the key 'key.0'"


def test_of_many_problems_some_are_listed_with_the_number_of_the_others() -> None:
    problems = [*account_of([]).problems(0, most=4)]
    assert len(problems) == 5
    assert problems[-1] == "lost: and 26 more"


def test_after_a_run_that_was_given_up_no_message_counts_as_lost() -> None:
    account = account_of([3, 0])
    assert [each.partition(":")[0] for each in account.problems(0, finished=False)] == ["out of order"]
