"""What a RocketMQ source has not read, and what its broker removed unread: a queue, its readers, files as a model."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoints.rocketmq import backlog as module
from bridge.endpoints.rocketmq.backlog import Backlog
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import QueuePulls
from bridge.rocketmq.consumer.pulling import Pulled, PullStatus
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.errors import ClientError
from tests.support.archives.rocketmq_files import message as stored_message
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

QUEUE = TopicQueue("orders", "b", 0)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "remove late", "pull", "take", "ask"]), st.integers(1, 40)),
    max_size=30,
)


class Log:
    """A queue at its broker. Files of messages may go a little before the queue's own beginning follows."""

    def __init__(self) -> None:
        self.end, self.start, self.first_stored = 10, 0, 0

    def pull(self, offset: int, count: int) -> Pulled:
        """Answer as `PullMessageProcessor` does."""
        if offset < self.start or offset > self.end:
            return self._answer(PullStatus.OFFSET_ILLEGAL, self.start, b"")
        until = min(self.end, max(offset, self.first_stored) + count)
        found = [
            stored_message(n, "orders", {}, b"%d" % n, queue=0, offset=n)
            for n in range(max(offset, self.first_stored), until)
        ]
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MSG if until > offset else PullStatus.NO_NEW_MSG
        answer = self._answer(status, until, b"".join(found))
        self.start = max(self.start, self.first_stored)
        return answer

    def _answer(self, status: PullStatus, next_offset: int, body: bytes) -> Pulled:
        return Pulled(status, next_offset, self.start, self.end, 0, 0, body)


def take_answer(fetching: QueuePulls, assigned: AssignedQueue, answer: Pulled) -> None:
    if answer.status is PullStatus.OFFSET_ILLEGAL:
        asyncio.run(fetching._move(assigned, answer))
    else:
        fetching._take_answer(assigned, answer, Subscription.to_tags("orders"))


@examples(300)
@given(STEPS, st.sampled_from([-1, 0, 4]))
@example([("remove late", 1), ("pull", 1), ("remove", 2)], -1)
@example([("remove late", 5), ("pull", 1), ("remove", 7)], 0)
def test_removed_messages_are_counted_once_and_the_lag_is_what_is_left_unread(
    steps: list[tuple[str, int]], begun: int
) -> None:
    """The oracle keeps each offset's fate."""
    backlog, log = Backlog("r"), Log()
    queues: list[AssignedQueue] = []

    def assign(offset: int, known: int) -> None:
        assigned = AssignedQueue(QUEUE, offset)
        assigned.begun = known
        queues[:] = [assigned]

    def move(assigned: AssignedQueue, offset: int) -> None:
        backlog.forget(assigned)
        assign(offset, offset)

    fetching = QueuePulls(
        None, SimpleNamespace(name="g"), None, {}, news=lambda: None, reset=move, bytes_left=lambda: 1 << 20,  # type: ignore[arg-type]  # not asked
        answered=backlog.take_answer,
    )  # fmt: skip
    assign(max(begun, 0), begun)
    fates: dict[int, str] = dict.fromkeys(range(log.end), "there")
    first_read = begun if begun >= 0 else None

    def pull(count: int) -> None:
        nonlocal first_read
        [assigned] = queues
        take_answer(fetching, assigned, log.pull(assigned.next_offset, count))
        [assigned] = queues
        for offset in assigned.offsets()[1]:
            fates[offset] = "read"
            first_read = offset if first_read is None else first_read
        if first_read is None and assigned.next_offset:  # it has a position now
            first_read = assigned.next_offset

    def remove(count: int) -> None:
        log.first_stored = min(log.end, log.first_stored + count)
        for each in range(log.first_stored):
            if fates[each] == "there":
                fates[each] = "gone"

    for step, number in steps:
        if step == "write":
            fates.update(dict.fromkeys(range(log.end, log.end + number), "there"))
            log.end += number
        elif step.startswith("remove"):
            remove(number)
            if step == "remove":
                log.start = log.first_stored
        elif step == "pull":
            pull(number)
        elif step == "take":
            queues[0].take(number, 0.0)
        else:
            log.start = log.first_stored
            queues[0].max_offset = log.end
            at = queues[0].next_offset
            backlog.take_answer(queues[0], at, max(at, log.start), log.start)
            unread = len([n for n, fate in fates.items() if fate == "there" and n >= at])
            assert backlog.count(queues) == unread + queues[0].ready
    for _ in range(4):  # to the end; the beginning is known by then
        pull(1_000)
    lost = [n for n, fate in fates.items() if fate == "gone" and first_read is not None and n >= first_read]
    assert backlog.vanished == len(lost)
    assert backlog.count(queues) == queues[0].ready


def test_what_is_not_pulled_is_asked_for_and_a_broker_that_does_not_answer_is_asked_again(caplog: Any) -> None:
    assigned = AssignedQueue(QUEUE, 100)
    assigned.begun = 100

    class Consumer:
        unpulled = (assigned,)

    class Offsets:
        def __init__(self) -> None:
            self.ends: list[tuple[int, int] | None] = [(0, 150), None, (120, 400), (130, 400)]

        async def min_offset(self, _: TopicQueue) -> int:
            if self.ends[0] is None:
                self.ends.pop(0)
                raise ClientError("no answer")
            return self.ends[0][0]

        async def max_offset(self, _: TopicQueue) -> int:
            answer = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
            assert answer is not None
            return answer[1]

    async def play() -> None:
        backlog = Backlog("r")
        source = backlog.keep_asking(Consumer(), Offsets())

        asking = asyncio.create_task(source)
        for lag, vanished in ((0, 0), (50, 0), (50, 0), (280, 20), (270, 30), (270, 30)):
            assert (backlog.count([assigned]), backlog.vanished) == (lag, vanished)
            await pass_time(module.ASK_EVERY + 0.1)
        asking.cancel()

    run_virtually(play())
    assert "r: orders at b:0: its broker has removed 20 messages before they were read: it begins at offset 120" in (
        caplog.text
    )
