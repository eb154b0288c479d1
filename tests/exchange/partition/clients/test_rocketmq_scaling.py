"""Scaling a topic on a simulated cluster: nothing may be left unread, and each wrong order shows a loss."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.scaling import (
    SETTLED,
    Action,
    QueueCounts,
    QueueOffsets,
    ScalingStep,
    Situation,
    UnreadMessages,
    count_moved_keys,
    explain_refusal,
    find_next_steps,
    publish_list,
)
from exchange.partition.clients.rocketmq.selectors import ByHash
from exchange.partition.moves import KeyCounts
from tests.support.tiers import examples

GROUPS = ("g", "h")
POLL, TIMEOUT = 30_000, 3_000


def accepts_send(counts: QueueCounts, queue_id: int) -> bool:
    """Return whether the broker stores a message for this queue (`AbstractSendMessageProcessor.msgCheck`).

    It also stores it in a queue that is only read, as producers with an old route send there.
    """
    return queue_id < max(counts.write, counts.read)


def accepts_pull(counts: QueueCounts, queue_id: int) -> bool:
    """Return whether the broker delivers messages of this queue (`PullMessageProcessor.processRequest`)."""
    return 0 <= queue_id < counts.read


class Cluster:
    """Brokers as the sources of RocketMQ have them, producers that know the route of some time ago, two groups."""

    def __init__(self, counts: dict[str, QueueCounts], producers: int = 2) -> None:
        self.now = 0
        self.counts = dict(counts)
        self.lowered: dict[str, int] = {}
        self.end: Counter[MessageQueue] = Counter()
        self.consumed: dict[str, Counter[MessageQueue]] = {group: Counter() for group in GROUPS}
        self.route = [dict(counts) for _ in range(producers)]
        self.polled = [-at * POLL // producers for at in range(producers)]
        self.under_way: list[tuple[int, MessageQueue]] = []

    def take(self, step: ScalingStep) -> None:
        old = self.counts[step.broker]
        if step.action == Action.SET_WRITE:
            if step.number < old.write:
                self.lowered[step.broker] = self.now
            self.counts[step.broker] = old._replace(write=step.number)
        else:
            self.counts[step.broker] = old._replace(read=step.number)

    def send(self, producer: int, number: int) -> None:
        """Hand a message to the network, for a queue of the route that this producer knows."""
        queues = publish_list(self.route[producer])
        self.under_way.append((self.now, MessageQueue.from_partition(queues.all[number % queues.count])))

    def arrive(self) -> None:
        _, queue = self.under_way.pop()
        if accepts_send(self.counts[queue.broker], queue.queue_id):
            self.end[queue] += 1

    def consume(self, group: str, number: int, messages: int) -> None:
        queues = sorted(self.end)
        if queues:
            queue = queues[number % len(queues)]
            if accepts_pull(self.counts[queue.broker], queue.queue_id):
                read = self.consumed[group]
                read[queue] = min(self.end[queue], read[queue] + messages)

    def wait(self, time: int) -> None:
        self.now += time
        for at, polled in enumerate(self.polled):
            if self.now - polled >= POLL:
                self.route[at], self.polled[at] = dict(self.counts), self.now
        # What the producer has given up is not on its way any more.
        self.under_way = [(sent, queue) for sent, queue in self.under_way if self.now - sent < TIMEOUT]

    def unread(self) -> set[MessageQueue]:
        return {queue for queue, end in self.end.items() if any(self.consumed[group][queue] < end for group in GROUPS)}

    def stranded(self) -> set[MessageQueue]:
        """Return the queues with unread messages that no consumer gets."""
        return {queue for queue in self.unread() if not accepts_pull(self.counts[queue.broker], queue.queue_id)}

    def situation(self, **how: Any) -> Situation:
        queues = {
            MessageQueue(broker, at) for broker, counts in self.counts.items() for at in range(max(counts))
        } | set(self.end)  # fmt: skip
        return Situation(
            dict(self.counts),
            {
                queue: QueueOffsets(self.end[queue], {group: self.consumed[group][queue] for group in GROUPS})
                for queue in queues
            },
            {broker: self.now - at for broker, at in self.lowered.items()},
            **how,
        )


NUMBERS = st.integers(1, 6)
BROKERS = ("a", "b")


class Scaling(RuleBasedStateMachine):
    """Steps are taken some time after the situation was looked at, while messages come and go."""

    @initialize(start=st.tuples(NUMBERS, NUMBERS), goal=st.tuples(NUMBERS, NUMBERS))
    def begin(self, start: tuple[int, int], goal: tuple[int, int]) -> None:
        self.cluster = Cluster(
            {broker: QueueCounts(number, number) for broker, number in zip(BROKERS, start, strict=True)}
        )
        self.goal = dict(zip(BROKERS, goal, strict=True))
        self.seen = self.cluster.situation()

    @rule(producer=st.integers(0, 1), number=st.integers(0, 11), arrives=st.booleans())
    def send(self, producer: int, number: int, arrives: bool) -> None:
        self.cluster.send(producer, number)
        if arrives:
            self.cluster.arrive()

    @precondition(lambda self: self.cluster.under_way)
    @rule()
    def arrive(self) -> None:
        self.cluster.arrive()

    @rule(group=st.sampled_from(GROUPS), number=st.integers(0, 11), messages=st.integers(1, 5))
    def consume(self, group: str, number: int, messages: int) -> None:
        self.cluster.consume(group, number, messages)

    @rule(time=st.sampled_from([500, 2_999, 15_000, 30_000, SETTLED]))
    def wait(self, time: int) -> None:
        self.cluster.wait(time)

    @rule()
    def look(self) -> None:
        self.seen = self.cluster.situation()

    @rule(at=st.integers(0, 1), meanwhile=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 11)), max_size=4))
    def follow(self, at: int, meanwhile: list[tuple[int, int]]) -> None:
        """Take one of the steps for what was seen, maybe long ago; messages come between the look and the step."""
        steps = [step for step in find_next_steps(self.seen, self.goal) if step.action.is_change]
        for producer, number in meanwhile:
            self.send(producer, number, arrives=True)
        if steps:
            self.cluster.take(steps[at % len(steps)])
            self.seen = self.cluster.situation()

    @rule(action=st.sampled_from(["set read", "set write"]), broker=st.sampled_from(BROKERS), number=NUMBERS)
    def try_anything(self, action: Any, broker: str, number: int) -> None:
        """Take a step out of the order when the state seen allows it; one that is refused for the present state shows a loss."""
        step = ScalingStep(action, broker, number)
        if not explain_refusal(self.seen, step):
            self.cluster.take(step)
            self.seen = self.cluster.situation()
        elif (why := explain_refusal(self.cluster.situation(), step)) and "old route" not in why:
            assert loss_after(deepcopy(self.cluster), step), why

    @rule(goal=st.tuples(NUMBERS, NUMBERS))
    def change_the_goal(self, goal: tuple[int, int]) -> None:
        self.goal = dict(zip(BROKERS, goal, strict=True))

    @invariant()
    def nothing_is_stranded(self) -> None:
        assert not self.cluster.stranded()
        for counts in self.cluster.counts.values():
            assert counts.write <= counts.read

    def teardown(self) -> None:
        """From wherever it was left, the procedure ends at its target, and all is read."""
        cluster = self.cluster
        for _ in range(20):
            steps = find_next_steps(cluster.situation(), self.goal)
            for step in steps:
                if step.action.is_change:
                    cluster.take(step)
                elif step.action == Action.SETTLE:
                    cluster.wait(step.number)
                else:
                    for unread in step.unread:
                        cluster.consume(unread.group, sorted(cluster.end).index(unread.queue), unread.messages)
            if not steps:
                break
        assert cluster.counts == {broker: QueueCounts(number, number) for broker, number in self.goal.items()}
        for group in GROUPS:
            for at in range(len(cluster.end)):
                cluster.consume(group, at, 1 << 30)
        assert not cluster.unread()


TestScaling = Scaling.TestCase
TestScaling.settings = examples(100, stateful_step_count=30)


def loss_after(cluster: Cluster, step: ScalingStep) -> set[MessageQueue]:
    """Return the queues whose messages are never read if the step is taken, whatever happens in the next minute."""
    cluster.take(step)
    for producer in range(len(cluster.route)):
        for number in range(12):
            cluster.send(producer, number)
            cluster.arrive()
    cluster.wait(POLL)
    for number in range(12):
        cluster.send(0, number)
        cluster.arrive()
    for group in GROUPS:
        for at in range(len(cluster.end)):
            cluster.consume(group, at, 1 << 30)
    return cluster.stranded()


def test_lowering_read_first_loses_messages_and_is_refused() -> None:
    cluster = Cluster({"a": QueueCounts(4, 4)})
    step = ScalingStep(Action.SET_READ, "a", 2)
    assert explain_refusal(cluster.situation(), step) == "a: queues 2 to 3 are written; set write to 2 first"
    assert loss_after(cluster, step) == {MessageQueue("a", 2), MessageQueue("a", 3)}


def test_raising_write_first_loses_messages_and_is_refused() -> None:
    cluster = Cluster({"a": QueueCounts(2, 2)})
    step = ScalingStep(Action.SET_WRITE, "a", 3)
    assert (
        explain_refusal(cluster.situation(), step)
        == "a: queues 2 to 2 would be written and not read; set read to 3 first"
    )
    assert loss_after(cluster, step) == {MessageQueue("a", 2)}


def test_lowering_read_before_all_groups_have_drained_is_refused() -> None:
    cluster = Cluster({"a": QueueCounts(2, 2)})
    cluster.send(0, 1)
    cluster.arrive()
    cluster.consume("g", 0, 1)
    cluster.take(ScalingStep(Action.SET_WRITE, "a", 1))
    cluster.wait(SETTLED)
    step = ScalingStep(Action.SET_READ, "a", 1)
    assert explain_refusal(cluster.situation(), step) == "not drained: a:1 has 1 for h"
    (advised,) = find_next_steps(cluster.situation(), {"a": 1})
    assert advised == ScalingStep(Action.DRAIN, "a", 1, unread=(UnreadMessages(MessageQueue("a", 1), "h", 1),))
    assert loss_after(cluster, step) == {MessageQueue("a", 1)}


def test_lowering_read_while_producers_have_the_old_route_is_refused() -> None:
    """All is drained when one looks, and a message comes between the look and the step."""
    cluster = Cluster({"a": QueueCounts(2, 2)})
    cluster.take(ScalingStep(Action.SET_WRITE, "a", 1))
    cluster.wait(1_000)
    seen, step = cluster.situation(), ScalingStep(Action.SET_READ, "a", 1)
    assert explain_refusal(seen, step) == "a: producers with the old route may still write to the queues; wait 32000 ms"
    assert find_next_steps(seen, {"a": 1}) == (ScalingStep(Action.SETTLE, "a", 32_000),)
    cluster.send(0, 1)
    cluster.arrive()
    cluster.take(step)
    assert cluster.stranded() == {MessageQueue("a", 1)}


def test_an_unknown_queue_is_not_taken_for_empty() -> None:
    situation = Situation({"a": QueueCounts(1, 3)}, {MessageQueue("a", 1): QueueOffsets(0)})
    assert explain_refusal(situation, ScalingStep(Action.SET_READ, "a", 1)) == "the offsets of a:2 are not known"
    with pytest.raises(InputError, match="the offsets of a:2 are not known"):
        find_next_steps(situation, {"a": 1})


def test_queues_that_are_written_or_unread_but_not_read_are_mended_first() -> None:
    offsets = {MessageQueue("b", 6): QueueOffsets(5, {"g": 2})}
    situation = Situation({"a": QueueCounts(4, 2), "b": QueueCounts(1, 1)}, offsets)
    assert find_next_steps(situation, {}) == (
        ScalingStep(Action.SET_READ, "a", 4),
        ScalingStep(Action.SET_READ, "b", 7),
    )


def test_messages_that_were_deleted_are_not_waited_for() -> None:
    assert QueueOffsets(10, {"g": -1, "h": 10}, start=7).unread() == {"g": 3}
    assert QueueOffsets(10, {"g": 3}, start=10).unread() == {}


def test_where_the_order_of_keys_counts_all_is_drained_before_queues_change() -> None:
    cluster = Cluster({"a": QueueCounts(2, 4)})
    cluster.send(0, 0)
    cluster.arrive()
    step = ScalingStep(Action.SET_WRITE, "a", 4)
    assert find_next_steps(cluster.situation(keyed=True), {"a": 4}) == (ScalingStep(Action.STOP_PRODUCERS),)
    assert "stop the producers" in explain_refusal(cluster.situation(keyed=True), step)
    stopped = cluster.situation(keyed=True, producers_stopped=True)
    unread = tuple(UnreadMessages(MessageQueue("a", 0), group, 1) for group in GROUPS)
    assert find_next_steps(stopped, {"a": 4}) == (ScalingStep(Action.DRAIN, unread=unread),)
    assert "would overtake" in explain_refusal(stopped, step)
    for group in GROUPS:
        cluster.consume(group, 0, 1)
    drained = cluster.situation(keyed=True, producers_stopped=True)
    assert find_next_steps(drained, {"a": 4}) == (step,)
    assert explain_refusal(drained, step) == ""


def test_a_plan_shows_what_moves_before_anything_is_done() -> None:
    keys = KeyCounts()
    for number in range(1000):
        keys.add(f"order-{number}", 2)
    counts = {"b": QueueCounts(2, 2), "a": QueueCounts(2, 2)}
    assert [queue.name for queue in publish_list(counts)] == ["a:0", "a:1", "b:0", "b:1"]
    moved = count_moved_keys(keys, ByHash(), counts, {"a": 4})
    assert moved.keys_at_risk == moved.keys_moved > 500
    assert count_moved_keys(keys, ByHash(), counts, {}).keys_moved == 0


@pytest.mark.parametrize(
    ("target", "words"), [({"x": 2}, "no broker 'x' has the topic; there are a"), ({"a": 0}, "0 queues")]
)
def test_an_invalid_target_is_refused(target: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_next_steps(Situation({"a": QueueCounts(1, 1)}), target)
