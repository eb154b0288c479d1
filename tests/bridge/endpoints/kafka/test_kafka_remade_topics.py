"""Topics that were made anew, or that a group has forgotten, with an asker that answers what the test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.kafka.consumer import remade_topics
from bridge.endpoints.kafka.consumer.assignment import PartitionAssignment
from bridge.endpoints.kafka.consumer.remade_topics import FORGOTTEN, LOOK_EVERY, RemadeTopics
from bridge.endpoints.kafka.consumer.topic_ids import Ids, _fetch_given, _topics_of
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

SOON = FORGOTTEN + 3 * LOOK_EVERY


class Cluster:
    """The brokers as an asker sees them."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {"orders": "first"}
        self.committed: dict[tuple[str, int], str] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        self.given: Collection[str] | None = ()
        self.asked_for_group = 0

    def connect(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def fetch_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def ask(
        self, topics: Collection[str], partitions: Collection[Any], paused: Collection[Any], *, with_given: bool
    ) -> Ids:
        self.asked_for_group += with_given
        given = self.given if with_given else None
        return Ids(self.fetch_ids(topics), self.committed, self.offsets, {}, given, self.epochs)


class Calls:
    """Calls that are made at once, on the loop."""

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(function())
        return future

    def end(self) -> None:
        """Do nothing."""


class Scene:
    """A member of a group that is to read the topic ``orders``, and has no partition at first."""

    def __init__(self, cluster: Cluster, **settings: str) -> None:
        self.cluster, self.seeks = cluster, list[TopicPartition]()
        self.known: dict[tuple[str, int], str] = {}
        self.assignment = PartitionAssignment("kafka", 100, transactional=False)
        consumer: Any = SimpleNamespace(seek=self.seeks.append)
        self.assignment.consumer = consumer
        self.remade = RemadeTopics(self.assignment, {"group.id": "g", **settings}, self.known)
        self.tasks: list[asyncio.Task[None]] = []

    def assign(self, topic: str = "orders", partitions: int = 1) -> None:
        self.assignment.add([TopicPartition(topic, n) for n in range(partitions)])
        self.remade.look_now()

    def begin(self) -> None:
        self.tasks.append(asyncio.ensure_future(self.remade.keep_looking()))


@pytest.fixture(autouse=True)
def _without_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remade_topics, "Calls", Calls)
    monkeypatch.setattr(remade_topics, "monotonic", lambda: asyncio.get_running_loop().time())


def run_scene(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[Scene], Coroutine[Any, Any, None]], **settings: str
) -> None:
    async def play() -> None:
        cluster = Cluster()
        monkeypatch.setattr(remade_topics, "Asker", lambda _: cluster)
        scene = Scene(cluster, **settings)
        await scene.remade.expect(["orders"])
        scene.begin()
        await act(scene)

    run_virtually(play())


def test_a_topic_that_no_member_of_a_settled_group_has_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bridge would stand still otherwise, ready and without a line."""

    async def act(scene: Scene) -> None:
        await pass_time(FORGOTTEN - 1)
        assert scene.assignment.trouble is None
        assert scene.cluster.asked_for_group == 0
        await pass_time(SOON)
        assert "'orders' is there, and no member of group 'g' was given" in str(scene.assignment.trouble)

    run_scene(monkeypatch, act)


def test_one_of_several_topics_that_is_forgotten_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(scene: Scene) -> None:
        await scene.remade.expect(["items", "orders"])
        scene.cluster.ids["items"] = "other"
        scene.cluster.given = {"items"}
        scene.assign("items")
        await pass_time(SOON)
        assert "topic 'orders'" in str(scene.assignment.trouble)

    run_scene(monkeypatch, act)


def _others_have_it(scene: Scene) -> None:
    scene.cluster.given = {"orders"}


def _group_is_not_settled(scene: Scene) -> None:
    scene.cluster.given = None


def _there_is_no_topic(scene: Scene) -> None:
    scene.cluster.ids.clear()


def _it_is_ours(scene: Scene) -> None:
    scene.assign()


@pytest.mark.parametrize("prepare", [_others_have_it, _group_is_not_settled, _there_is_no_topic, _it_is_ours])
def test_a_topic_that_is_not_forgotten_ends_no_connection(
    prepare: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(scene: Scene) -> None:
        prepare(scene)
        await pass_time(3_600)
        assert scene.assignment.trouble is None
        if prepare is _others_have_it:  # which is asked no more often than needed: all brokers are
            assert 3_600 / (FORGOTTEN + LOOK_EVERY) - 2 < scene.cluster.asked_for_group <= 3_600 / FORGOTTEN
        elif prepare is not _group_is_not_settled:
            assert scene.cluster.asked_for_group == 0

    run_scene(monkeypatch, act)


def test_a_topic_counts_as_forgotten_only_from_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(scene: Scene) -> None:
        scene.cluster.ids.clear()
        await pass_time(600)
        scene.cluster.ids["orders"] = "second"
        await pass_time(FORGOTTEN - 1)
        assert scene.assignment.trouble is None
        scene.assign()  # librdkafka has noticed it
        await pass_time(600)
        assert scene.assignment.trouble is None

    run_scene(monkeypatch, act)


@pytest.mark.parametrize("ours", [False, True])
def test_a_client_that_knew_the_topic_before_is_replaced(ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would ask for ever for what it knows of the old topic, the epochs of leaders."""

    async def act(scene: Scene) -> None:
        if ours:
            scene.assign()
        await pass_time(10)
        for gone in (True, False):
            assert not scene.remade.is_outdated
            scene.cluster.ids = {} if gone else {"orders": "second"}
            await pass_time(10)
        assert scene.remade.is_outdated
        assert scene.assignment.trouble is None  # which would drop what was read of the old topic
        assert not scene.seeks

    run_scene(monkeypatch, act)


@pytest.mark.parametrize(("before", "is_outdated"), [("old", True), ("first", False), ("", False), (None, False)])
def test_a_client_is_replaced_whose_topic_was_made_anew_before_the_first_look(
    before: str | None, is_outdated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that could not be seen, or was not known yet, says nothing."""

    async def act(scene: Scene) -> None:
        scene.cluster.ids = {} if before is None else {"orders": before}
        await scene.remade.expect(["orders"])
        scene.cluster.ids = {"orders": "first"}
        await pass_time(10)
        assert scene.remade.is_outdated is is_outdated

    run_scene(monkeypatch, act)


@pytest.mark.parametrize(
    ("known", "mark", "offset", "anew"),
    [("first", "", -1, False), ("old", "", -1, True), ("old", "", 7, False), ("old", "first", 7, False),
     ("", "old", 7, True), ("first", "old", 7, True), ("", "", -1, False)],
)  # fmt: skip
def test_a_partition_is_read_from_its_beginning_if_its_topic_is_not_the_one_that_was_read(
    known: str, mark: str, offset: int, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ``auto.offset.reset`` is. The offsets of a group are gone with their topic, or with the whole cluster:
    then only the source itself knows what it has read. An offset that there is was committed for this topic.
    """

    async def act(scene: Scene) -> None:
        keys = [("orders", 0), ("orders", 1)]
        for key in keys:
            scene.known.update({key: known} if known else {})
            scene.cluster.committed.update({key: mark} if mark else {})
            scene.cluster.offsets.update({key: offset} if offset >= 0 else {})
        scene.assign(partitions=2)
        await pass_time(10)
        for key in keys:
            lane = scene.assignment.lanes[key]
            assert lane.checked
            assert scene.known[key] == lane.topic_id == "first"
        seeks = [(each.partition, each.offset) for each in scene.seeks]
        assert seeks == ([(0, OFFSET_BEGINNING), (1, OFFSET_BEGINNING)] if anew else [])

    run_scene(monkeypatch, act, **{"auto.offset.reset": "latest"})


@pytest.mark.parametrize(
    ("mark", "epoch", "first", "asks"),
    [("first", 3, (7, 3), False), ("first", 3, (9, 3), False), ("first", 3, (7, 4), True), ("first", 3, (0, 3), True),
     ("first", 3, None, True), ("first", None, (7, 4), False), ("", 3, (7, 4), False)],
)  # fmt: skip
def test_it_is_asked_where_a_log_differs_unless_its_first_record_is_of_the_epoch_that_was_committed(
    mark: str, epoch: int | None, first: tuple[int, int] | None, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another leader has at an offset was never read. Only of this very topic: others have epochs of their own."""

    async def act(scene: Scene) -> None:
        key = ("orders", 0)
        scene.cluster.offsets[key] = 7
        scene.cluster.committed.update({key: mark} if mark else {})
        scene.cluster.epochs.update({} if epoch is None else {key: epoch})
        scene.assign()
        if first is not None:
            scene.assignment.lanes[key].begin_epoch(*first)
        await pass_time(10)
        lane = scene.assignment.lanes[key]
        assert lane.checked
        assert lane.deletions.begun == 7
        assert [(each.offset, each.leader_epoch) for each in scene.seeks] == ([(7, 3)] if asks else [])
        assert (lane.next, len(lane.epochs)) == ((7, 0) if asks else (0, 1))  # less shows that records are gone

    run_scene(monkeypatch, act)


def test_an_answer_counts_for_lanes_that_were_there_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member may have committed more before the partition came back: it is not read from before that."""

    async def act(scene: Scene) -> None:
        key, ask = ("orders", 0), scene.cluster.ask
        scene.cluster.offsets, scene.cluster.committed, scene.cluster.epochs = {key: 7}, {key: "first"}, {key: 3}

        def ask_late(*args: Any, **settings: Any) -> Ids:
            ids = ask(*args, **settings)
            if scene.cluster.offsets[key] == 7:
                scene.assignment.remove([TopicPartition(*key)])
                scene.assignment.add([TopicPartition(*key)])
                scene.cluster.offsets = {key: 9}
            return ids

        monkeypatch.setattr(scene.cluster, "ask", ask_late)
        scene.assign()
        await pass_time(10)
        assert [each.offset for each in scene.seeks] == [9]
        assert scene.assignment.lanes[key].checked

    run_scene(monkeypatch, act)


def write_assignment(topics: Mapping[str, Sequence[int]]) -> bytes:
    """Encode as Java's clients do (`ConsumerProtocol.serializeAssignment`), with empty data of the user."""
    parts = [struct.pack(">hi", 1, len(topics))]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += [
            struct.pack(">h", len(name)),
            name,
            struct.pack(f">i{len(partitions)}i", len(partitions), *partitions),
        ]
    return b"".join([*parts, struct.pack(">i", -1)])


ASSIGNMENTS = st.dictionaries(st.text(max_size=9), st.lists(st.integers(0, 9), max_size=3), max_size=3)


@examples(200)
@given(st.lists(st.one_of(ASSIGNMENTS, st.none()), max_size=3), st.binary(max_size=9))
def test_the_topics_of_a_group_are_those_of_all_its_members(
    members: list[dict[str, list[int]] | None], other: bytes
) -> None:
    """A member may have no assignment at all; what is no consumer's is not known."""
    written = [b"" if each is None else write_assignment(each) for each in members]
    expected = {topic for each in members if each is not None for topic, partitions in each.items() if partitions}
    assert {topic for each in written for topic in _topics_of(each)} == expected
    assert fetch("Stable", written) == expected
    assert fetch("PreparingRebalance", written) is None
    assert fetch("Stable", written, group="another") is None
    assert {*(fetch("Stable", [other]) or ())} <= {*_topics_or_none(other)}


def _topics_or_none(data: bytes) -> Collection[str]:
    try:
        return [*_topics_of(data)]
    except (struct.error, UnicodeDecodeError):
        return ()


def fetch(state: str, assignments: Sequence[bytes], group: str = "g") -> Collection[str] | None:
    members = [SimpleNamespace(assignment=each) for each in assignments]
    listed = [SimpleNamespace(id="g", error=None, state=state, members=members)]
    admin: Any = SimpleNamespace(list_groups=lambda *_: listed)
    return _fetch_given(admin, group)


def test_a_group_that_may_not_be_seen_is_not_known() -> None:
    def refuse(*_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    admin: Any = SimpleNamespace(list_groups=refuse)
    assert _fetch_given(admin, "g") is None
