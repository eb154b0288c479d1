"""An assigned queue against a slow one that is obviously right, and how much of it may be pulled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import AssignedQueue, PullLimits, TopicQueue
from bridge.rocketmq.remoting.message import StoredMessage

QUEUE = TopicQueue("orders", "broker-a", 3)


def message(offset: int, body: bytes = b"body") -> StoredMessage:
    return StoredMessage("orders", body, {}, 0, "broker-a", 3, offset, 0, 0, 0, b"", 0, b"", 0)


class Slow:
    """A model of a queue: a list of rows, all of which are read each time."""

    def __init__(self, offset: int) -> None:
        self.next = offset
        self.rows: list[list[Any]] = []
        """Message, whether it was handed out, whether it is acknowledged."""
        self.end = offset
        """Highest offset that is known to be no message yet."""
        self.pulled = False
        self.position = offset

    def put(self, messages: list[StoredMessage], next_offset: int, end: int) -> None:
        self.end, self.pulled = end, True
        for each in messages:
            if each.queue_offset >= self.next:
                self.rows.append([each, False, False])
                self.next = each.queue_offset + 1
        self.next = max(self.next, next_offset)

    def take(self, limit: int) -> list[StoredMessage]:
        rows = [row for row in self.rows if not row[1]][:limit]
        for row in rows:
            row[1] = True
            self.position = row[0].queue_offset + 1
        return [row[0] for row in rows]

    def seek(self, offset: int) -> None:
        self.rows = []
        self.next = self.position = offset
        self.end = max(self.end, offset)
        self.pulled = False

    def done(self, message: StoredMessage) -> bool:
        for row in self.rows:
            if row[0] is message and row[1] and not row[2]:
                row[2] = True
                return True
        return False

    def done_before(self, offset: int) -> int:
        rows = [row for row in self.rows if row[1] and not row[2] and row[0].queue_offset < offset]
        for row in rows:
            row[2] = True
        return len(rows)

    def again(self, message: StoredMessage, changed: StoredMessage) -> bool:
        for at, row in enumerate(self.rows):
            if row[0] is message and row[1] and not row[2]:
                row[0] = changed
                for later in self.rows[at:]:
                    later[1] = later[2]
                return True
        return False

    @property
    def committable(self) -> int:
        return min([row[0].queue_offset for row in self.rows if not row[2]], default=self.next)

    @property
    def held(self) -> list[StoredMessage]:
        return [row[0] for row in self.rows if not row[2]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.integers(0, 3), max_size=4), st.integers(0, 3)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("done"), st.integers(0, 30)),
        st.tuples(st.just("done_before"), st.integers(0, 60)),
        st.tuples(st.just("again"), st.integers(0, 30)),
        st.tuples(st.just("seek"), st.integers(0, 30)),
    ),
    max_size=40,
)


@given(st.integers(0, 5), STEPS)
def test_a_queue_hands_out_and_commits_as_a_simple_model_of_it_does(offset: int, steps: list[tuple[Any, ...]]) -> None:
    queue, slow = AssignedQueue(QUEUE, offset), Slow(offset)
    known: list[StoredMessage] = []
    for name, *given_ in steps:
        if name == "put":
            # Gaps are messages that were filtered; an offset of before is the rest of a batch stored in one piece.
            at, messages = max(queue.next_offset - 1, 0), []
            for gap in given_[0]:
                messages.append(message(at + gap, b"x" * gap))
                at += gap + 1
            queue.put(messages, at + given_[1], at + 9)
            slow.put(messages, at + given_[1], at + 9)
        elif name == "take":
            taken = queue.take(given_[0], 0.0)
            assert taken == slow.take(given_[0])
            known += taken
        elif name == "seek":
            queue.seek(given_[0])
            slow.seek(given_[0])
        elif name == "done_before":
            assert queue.done_before(given_[0]) == slow.done_before(given_[0])
        elif known:
            each = known[given_[0] % len(known)]
            if name == "done":
                assert queue.done(each) == slow.done(each)
            else:
                changed = each._replace(reconsume_times=each.reconsume_times + 1)
                assert queue.hand_out_again(each, changed, 0.0) == slow.again(each, changed)
        assert queue.next_offset == slow.next
        assert len(queue) == len(slow.held)
        assert queue.size == sum(len(each.body) for each in slow.held)
        assert queue.committable == (slow.committable if slow.pulled else None)
        assert queue.at_end == (slow.pulled and slow.next >= slow.end)
        assert (queue.position, queue.max_offset) == (slow.position, slow.end)
        assert queue.out == sum(row[1] and not row[2] for row in slow.rows)
        assert queue.span == (slow.rows[-1][0].queue_offset - slow.held[0].queue_offset if slow.held else 0)


def test_nothing_is_committed_before_the_first_answer() -> None:
    before, after = AssignedQueue(QUEUE, 7), AssignedQueue(QUEUE, 7)
    after.put([], 7, 7)
    assert (before.committable, before.at_end) == (None, False)
    assert (after.committable, after.at_end) == (7, True)


def test_filtered_messages_are_committed_once_all_before_them_are_acknowledged() -> None:
    queue = AssignedQueue(QUEUE, 0)
    queue.put([message(2)], 10, 20)
    (only,) = queue.take(9, 0.0)
    assert queue.committable == 2
    assert queue.done(only)
    assert queue.committable == 10


def test_a_message_of_an_earlier_assignment_cannot_be_acknowledged_in_a_later_one() -> None:
    earlier, later = AssignedQueue(QUEUE, 0), AssignedQueue(QUEUE, 0)
    earlier.put([message(0)], 1, 1)
    later.put([message(0)], 1, 1)
    (old,), (new,) = earlier.take(1, 0.0), later.take(1, 0.0)
    assert old == new
    assert not later.done(old)
    assert later.done(new)


def test_a_message_that_was_not_handed_out_cannot_be_acknowledged() -> None:
    queue = AssignedQueue(QUEUE, 0)
    kept = message(0)
    queue.put([kept, message(1)], 2, 2)
    assert not queue.done(kept)
    assert queue.done_before(9) == 0
    assert queue.committable == 0


def test_in_order_nothing_is_handed_out_without_a_lock_or_after_it() -> None:
    queue = AssignedQueue(QUEUE, 0, ordered=True)
    queue.put([message(n) for n in range(3)], 3, 3)
    assert queue.take(1, 100.0) == []
    queue.locked_until = 130.0
    assert len(queue.take(1, 129.9)) == 1
    assert queue.take(1, 130.0) == []


@pytest.mark.parametrize("how", ["leaving", "dropped"])
def test_a_queue_that_is_given_up_hands_out_no_messages(how: str) -> None:
    queue = AssignedQueue(QUEUE, 0)
    queue.put([message(0), message(1)], 2, 2)
    (out,) = queue.take(1, 0.0)
    if how == "leaving":
        queue.leaving = True
    else:
        queue.drop()
    assert queue.take(1, 0.0) == []
    assert queue.committable == (0 if how == "leaving" else None)
    assert queue.done(out) == (how == "leaving")


def test_a_queue_in_order_hands_out_a_failed_message_and_all_after_it_again_later() -> None:
    queue = AssignedQueue(QUEUE, 0)
    queue.put([message(n) for n in range(4)], 4, 4)
    first, second, third = queue.take(3, 0.0)
    assert queue.done(first)
    assert queue.hand_out_again(second, second._replace(reconsume_times=1), 5.0)
    assert queue.take(9, 4.9) == []
    assert [(each.queue_offset, each.reconsume_times) for each in queue.take(9, 5.0)] == [(1, 1), (2, 0), (3, 0)]
    assert queue.done(third)
    assert not queue.done(second)


def test_a_window_bounds_the_messages_that_are_handed_out() -> None:
    queue = AssignedQueue(QUEUE, 0)
    queue.put([message(n) for n in range(4)], 4, 4)
    (first, _) = queue.take(9, 0.0, 2)
    assert queue.take(9, 0.0, 2) == []
    queue.done(first)
    assert [each.queue_offset for each in queue.take(9, 0.0, 2)] == [2]


def test_no_more_messages_are_pulled_than_may_be_kept() -> None:
    limits = PullLimits(
        pull_threshold_for_queue=40, pull_threshold_size_for_queue=1000, consume_concurrently_max_span=100
    )
    queue = AssignedQueue(QUEUE, 0)
    assert queue.room(limits, 1) == 32
    queue.put([message(n) for n in range(30)], 30, 99)
    assert queue.room(limits, 1) == 10
    queue.put([message(30, b"x" * 880)], 31, 99)
    assert queue.room(limits, 1) == 0


def test_pulling_stops_when_the_first_message_is_not_acknowledged_for_long_unless_in_order() -> None:
    for ordered in (False, True):
        queue = AssignedQueue(QUEUE, 0, ordered=ordered)
        queue.put([message(0), message(2001)], 2002, 9999)
        assert queue.room(PullLimits(), 1) == (32 if ordered else 0)


def test_a_bound_for_all_queues_is_shared_equally() -> None:
    limits = PullLimits(pull_threshold_for_topic=100, pull_threshold_size_for_topic=1000)
    assert limits.of_queue(8) == (12, 125)
    assert limits.of_queue(1000) == (1, 1)
    assert limits.of_queue(0) == (100, 1000)
    assert PullLimits().of_queue(8) == (1000, 100 << 20)


def test_a_queue_that_is_reset_commits_its_new_offset_only() -> None:
    queue = AssignedQueue(QUEUE, 100)
    queue.put([message(100)], 101, 101)
    (out,) = queue.take(1, 0.0)
    queue.move(7)
    assert not queue.done(out)
    assert queue.committable == 7
    assert queue.dropped


def test_where_the_caller_decides_only_its_mark_is_committed() -> None:
    queue = AssignedQueue(QUEUE, 5)
    queue.marked = -1
    queue.put([message(offset) for offset in range(5, 9)], 9, 20)
    taken = queue.take(3, 0)
    assert queue.position == 8
    assert queue.done_before(8) == len(taken)
    assert queue.committable is None
    queue.marked = queue.position
    assert queue.committable == 8


def test_a_queue_continues_where_its_caller_seeks_and_gives_nothing_while_it_is_paused() -> None:
    queue = AssignedQueue(QUEUE, 5)
    queue.put([message(offset) for offset in range(5, 9)], 9, 20)
    queue.take(2, 0)
    queue.seek(2)
    assert (queue.position, queue.next_offset, len(queue), queue.size, queue.at_end) == (2, 2, 0, 0, False)
    queue.put([message(offset) for offset in range(2, 4)], 4, 20)
    queue.paused = True
    assert queue.take(5, 0) == []
    queue.paused = False
    assert [each.queue_offset for each in queue.take(5, 0)] == [2, 3]
