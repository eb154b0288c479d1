"""What a RocketMQ source commits, with a consumer of the test whose broker refuses and whose queues go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.rocketmq.remoting.message import StoredMessage
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually


class Consumer:
    """Two queues of two brokers, and the offsets that these have."""

    def __init__(self) -> None:
        self.queues = [TopicQueue("t", broker, 0) for broker in "ab"]
        self.assigned = [AssignedQueue(queue, 0) for queue in self.queues]
        self.offsets: dict[TopicQueue, int] = {}
        self.refuses: set[TopicQueue] = set()
        self.troubles: dict[str, Exception] = {}
        self.unpersisted: dict[Any, Exception] = {}
        self.broken = None

    def put(self, which: int, count: int) -> None:
        assigned = self.assigned[which]
        at = assigned.next_offset
        messages = [
            StoredMessage("t", b"x", {}, 0, assigned.queue.broker, 0, at + n, 0, 0, 0, b"", 0, b"", 0)
            for n in range(count)
        ]
        assigned.put(messages, at + count, at + count)

    async def receive_by_queue(self, limit: int) -> list[tuple[AssignedQueue, list[StoredMessage]]]:
        return [(assigned, found) for assigned in self.assigned if (found := assigned.take(limit, 0.0))]

    def done_before(self, assigned: AssignedQueue, offset: int) -> int:
        return assigned.done_before(offset)

    async def persist(self, queues: Iterable[TopicQueue]) -> dict[TopicQueue, int]:
        await pass_time(0.01)
        for each in self.assigned:
            if each.queue in queues and each.queue not in self.refuses and each.committable is not None:
                self.offsets[each.queue] = each.committable
        return {queue: self.offsets[queue] for queue in queues if queue not in self.refuses and queue in self.offsets}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "settle", "settle", "refuse", "take", "move", "wait"]), st.integers(0, 1)
    ),
    max_size=30,
)


@examples(200)
@given(STEPS)
@example([("read", 0), ("refuse", 0), ("settle", 0), ("wait", 0)])
@example([("read", 0), ("move", 0)])
def test_brokers_have_in_the_end_what_is_settled_and_the_window_has_room_for_it(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        source = RocketmqSource("s", ClientSettings("127.0.0.1:1"), "g", [Subscription.to_tags("t")])
        consumer: Any = Consumer()
        source._consumer = consumer
        committing = source._start(source._commit(consumer))
        given_: list[list[Delivery]] = [[], []]
        for step, which in steps:
            if step == "read":
                consumer.put(which, 3)
                given_[which] += await source.read(10)
            elif step == "settle" and given_[which]:
                source.settle(given_[which].pop(0))
            elif step == "refuse":
                consumer.refuses ^= {consumer.queues[which]}
            elif step == "move":  # the queue is taken away and comes back
                old = consumer.assigned[which]
                old.drop()
                source._drop_lane(old)
                consumer.assigned[which] = AssignedQueue(old.queue, consumer.offsets.get(old.queue, 0))
                given_[which] = []
            elif step == "wait":
                await pass_time(3)
        consumer.refuses.clear()
        await pass_time(60)
        for which, assigned in enumerate(consumer.assigned):
            if any(delivery.position > 0 for delivery in given_[which]) and assigned.committable:
                assert consumer.offsets[assigned.queue] == assigned.committable
        assert source._uncommitted == sum(len(left) for left in given_)
        committing.cancel()

    run_virtually(play())
