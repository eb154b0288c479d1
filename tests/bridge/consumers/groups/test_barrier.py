"""Messages of a key stay in order while partitions come and go: tried with queues, publishers and owners in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.consumers.groups.barrier import PartitionGate, Resize, read_news, read_resize, write_news
from exchange.errors import InputError
from exchange.partition.slots import find_moved_slots, place_slots
from tests.support.tiers import examples

ID = "0" * 32


class Partitions:
    """Queues in memory, each with one owner that handles what is at its head, or holds it behind a gate."""

    def __init__(self, slots: int, before: int, after: int) -> None:
        self.resize = Resize(ID, before, after, slots)
        self.bindings = [{partition} for partition in place_slots(slots, before)]
        self.queues: list[list[object]] = [[] for _ in range(max(before, after))]
        self.gates: dict[int, PartitionGate[tuple[int, int]]] = {}
        self.handled: list[tuple[int, int]] = []
        self.passed: list[int] = []
        self.published = [0] * slots

    def publish(self, slot: int) -> None:
        for partition in self.bindings[slot]:
            self.queues[partition].append((slot, self.published[slot]))
        self.published[slot] += 1

    def step(self, partition: int) -> None:
        """Take what is at the head of a queue."""
        if not self.queues[partition]:
            return
        head = self.queues[partition].pop(0)
        if head == "gate":
            self.gates[partition] = PartitionGate(self.resize, partition)
            for passed in self.passed:  # announcements wait for those that open their gate later
                assert not list(self.gates[partition].let_through(passed))
        elif head == "marker":
            self.passed.append(partition)
            for gate in self.gates.values():
                self.handled.extend(gate.let_through(partition))
        else:
            assert isinstance(head, tuple)
            gate_here = self.gates.get(partition)
            if gate_here is None or not gate_here.hold(head, head[0]):
                self.handled.append(head)


@given(st.integers(1, 10), st.data())
@examples(40)
def test_each_slot_is_handled_in_order_and_whole(slots: int, data: st.DataObject) -> None:
    before, after = data.draw(st.integers(1, slots)), data.draw(st.integers(1, slots))
    world = Partitions(slots, before, after)
    moved = list(find_moved_slots(slots, before, after).items())

    def live() -> None:
        """Let publishers and owners do anything."""
        for kind, number in data.draw(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=25)):
            if kind:
                world.publish(number % slots)
            else:
                world.step(number % len(world.queues))

    live()
    for target in world.resize.targets:
        world.queues[target].append("gate")
    live()
    for slot, (old, new) in moved:
        world.bindings[slot].add(new)
        live()
        world.bindings[slot].discard(old)
    live()
    for source in world.resize.sources:
        world.queues[source].append("marker")
    live()
    while any(world.queues):
        for partition in range(len(world.queues)):
            world.step(partition)
    assert all(gate.is_open for gate in world.gates.values())
    seen = [-1] * slots
    for slot, number in world.handled:
        # Messages that were published while both partitions were bound come twice, but never before an earlier one.
        assert number <= seen[slot] + 1
        seen[slot] = max(seen[slot], number)
    assert [number + 1 for number in seen] == world.published


@given(st.integers(1, 200).flatmap(lambda slots: st.tuples(st.just(slots), *[st.integers(1, slots)] * 2)))
def test_no_partition_gives_and_gets_so_no_gate_waits_for_itself(sizes: tuple[int, int, int]) -> None:
    slots, before, after = sizes
    resize = Resize(ID, before, after, slots)
    assert not resize.sources & resize.targets
    assert bool(resize.sources) == bool(resize.targets) == (before != after)


def test_messages_of_other_slots_pass_a_gate() -> None:
    gate: PartitionGate[str] = PartitionGate(Resize(ID, 2, 1, 4), 0)
    moved = next(iter(find_moved_slots(4, 2, 1)))
    stays = next(slot for slot, partition in enumerate(place_slots(4, 2)) if partition == 0)
    assert gate.hold("moved", moved)
    assert not gate.hold("stays", stays)
    assert not gate.hold("published to the queue", None)
    assert list(gate.let_through(1)) == ["moved"]
    assert gate.is_open


def test_a_change_is_read_as_it_was_written() -> None:
    resize = Resize(ID, 3, 7, 64)
    assert read_resize(resize.to_bytes()) == resize
    assert read_news(write_news(passed=3)) == (3, None)
    assert read_news(write_news(opened=5)) == (None, 5)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"id":"../x","before":1,"after":2,"slots":8}',
     b'{"id":"00000000000000000000000000000000","before":1,"after":9,"slots":8}',
     b'{"id":"00000000000000000000000000000000","before":1,"after":2,"slots":99999999}'],
)  # fmt: skip
def test_what_is_no_change_is_refused(body: bytes) -> None:
    with pytest.raises(InputError):
        read_resize(body)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"passed":"x","opened":null}', b"[" * 100_000])
def test_what_is_no_announcement_announces_nothing(body: bytes) -> None:
    assert read_news(body) == (None, None)
