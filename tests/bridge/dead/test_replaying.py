"""A replay loses nothing and keeps the order, however often it is killed or loses a connection, on a model of a broker.

What is modelled is what the two connections of a replay see: gets, acknowledgements, publishes and confirms. What real
brokers do is in `tests.bridge.dead.test_replay_live`.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead.choices import Order, Outcome
from bridge.dead.ledger import Ledger, Sent
from bridge.dead.replaying import WINDOW, User, plan, replay, undo
from bridge.dead.restoring import REPLAY, digest
from exchange import Message
from exchange.amqp import ContentHeader, get_content
from exchange.selector import Selector
from tests.bridge.dead.broker_model import DEAD, Box, run
from tests.support.tiers import examples


def bury(number: int, key: str, *, with_id: bool, tenant: str) -> Message:
    death = {"queue": key, "reason": "rejected", "exchange": "", "routing-keys": [key], "count": 1}
    headers = {"x-death": [death], "x-first-death-queue": key, "x-first-death-reason": "rejected", "tenant": tenant}
    return Message("", DEAD, headers, {"message_id": str(number)} if with_id else {}, b"%d" % number)


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "gone"]), st.booleans(), st.sampled_from(["x", "x", "y"])), max_size=60
)


@examples(60)
@given(
    MESSAGES, st.lists(st.floats(0.02, 0.6), max_size=3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 999),
    st.integers(5, 40), st.integers(1, 60),
)  # fmt: skip
def test_a_replay_loses_nothing_keeps_the_order_and_leaves_the_rest(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, bool, str]],
    kills: list[float],
    nacks: int,
    losses: int,
    seed: int,
    channels: int,
    page: int,
) -> None:
    box = Box(Random(seed), nacks, losses, {"a": deque(), "b": deque(), DEAD: deque()}, channels, page)
    buried = [bury(at, key, with_id=is_named, tenant=tenant) for at, (key, is_named, tenant) in enumerate(drawn)]
    for each in buried:
        box.put(DEAD, each)
    path = tmp_path_factory.mktemp("replay") / "ledger"
    order = Order("amqp://h", DEAD, 1_000, where=Selector.parse("tenant = 'x'"))
    interrupted = losses
    for kill in kills:
        interrupted += run(box, path, order, kill_at=kill) is None
    last = run(box, path, order)
    stays = [each.body for each, (key, _, tenant) in zip(buried, drawn, strict=True) if key == "gone" or tenant == "y"]
    assert box.bodies(DEAD) == stays
    copies = 0
    for queue in ("a", "b"):
        wanted = [
            each.body for each, (key, _, tenant) in zip(buried, drawn, strict=True) if (key, tenant) == (queue, "x")
        ]
        found = Counter(box.bodies(queue))
        in_order = [*found] if not nacks else sorted(found, key=int)  # what is refused is passed by what is under way
        assert in_order == wanted
        copies += found.total() - len(wanted)
        for arrived in box.queues[queue]:
            content = ContentHeader(arrived.properties)
            assert content.find("x-death") is None
            assert content.header("tenant") == "x"
    assert copies <= min(interrupted * WINDOW, len(drawn) * interrupted)
    returned = sum([key == "gone" and tenant == "x" for key, _, tenant in drawn])
    assert last.left.total() == returned
    assert run(box, path, order).moved == 0


@given(MESSAGES, st.integers(0, 999))
def test_what_was_taken_back_is_published_and_taken_back_again(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, bool, str]], seed: int
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), "gone": deque(), DEAD: deque()})
    for at, (key, is_named, tenant) in enumerate(drawn):
        box.put(DEAD, bury(at, key, with_id=is_named, tenant=tenant))
    path, order = tmp_path_factory.mktemp("replay") / "ledger", Order("amqp://h", DEAD, 1_000)
    before = sorted(box.bodies(DEAD))
    for _ in range(3):
        assert run(box, path, order).moved == len(drawn)
        assert not box.queues[DEAD]
        assert run(box, path, order, undo).moved == len(drawn)
        assert sorted(box.bodies(DEAD)) == before


@examples(30)
@given(MESSAGES, st.lists(st.floats(0.02, 0.6), max_size=2), st.integers(0, 3), st.integers(0, 999), st.data())
def test_undo_puts_back_what_was_not_consumed(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, bool, str]],
    kills: list[float],
    losses: int,
    seed: int,
    data: st.DataObject,
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), "gone": deque(), DEAD: deque()})
    buried = [bury(at, key, with_id=is_named, tenant=tenant) for at, (key, is_named, tenant) in enumerate(drawn)]
    for each in buried:
        box.put(DEAD, each)
    path = tmp_path_factory.mktemp("replay") / "ledger"
    order = Order("amqp://h", DEAD, 1_000)
    assert run(box, path, order).moved == len(drawn)
    consumed: list[bytes] = []
    for queue in ("a", "b", "gone"):
        count = data.draw(st.integers(0, len(box.queues[queue])))
        consumed += [box.queues[queue].popleft().body for _ in range(count)]
        box.put(queue, Message("", queue, {REPLAY: "of another"}, {}, b"other"))
    box.losses = losses
    interrupted = losses
    for kill in kills:
        interrupted += run(box, path, order, undo, kill) is None
    run(box, path, order, undo)
    assert {*box.bodies(DEAD), *consumed} == {each.body for each in buried}
    assert len(box.queues[DEAD]) + len(consumed) <= len(buried) * (1 + interrupted)
    assert all(box.bodies(queue) == [b"other"] for queue in ("a", "b", "gone"))
    with suppress(IndexError):
        assert ContentHeader(box.queues[DEAD][0].properties).find("x-death") is not None


def test_a_rehearsal_counts_what_would_be_published_and_changes_nothing(tmp_path: Path) -> None:
    box = Box(Random(0), 0, 0, {"a": deque(), "b": deque(), DEAD: deque()})
    for at, queue in enumerate("aabbb"):
        box.put(DEAD, bury(at, queue, with_id=True, tenant="xy"[at % 2]))
    box.put(DEAD, Message("", DEAD, {"tenant": "x"}, {}, b"no death"))
    order = Order("amqp://h", DEAD, 1_000, where=Selector.parse("tenant = 'x'"))
    before = box.bodies(DEAD)
    planned = run(box, tmp_path / "l", order, lambda order, ledger, _: plan(order, ledger))
    assert planned.goes == {("queue", "a"): 1, ("queue", "b"): 2}
    assert planned.left == {"no header says where it died": 1}
    assert (box.bodies(DEAD), box.queues["a"], box.queues["b"]) == (before, deque(), deque())
    assert run(box, tmp_path / "l", order).moved == 3


def test_undo_goes_on_where_a_queue_was_deleted(tmp_path: Path) -> None:
    box = Box(Random(0), 0, 0, {"a": deque(), "b": deque(), DEAD: deque()})
    for at, queue in enumerate("aabbb"):
        box.put(DEAD, bury(at, queue, with_id=True, tenant="x"))
    order = Order("amqp://h", DEAD, 1_000)
    assert run(box, tmp_path / "l", order).moved == 5
    del box.queues["a"]
    outcome = run(box, tmp_path / "l", order, undo)
    assert (outcome.moved, outcome.missing, len(box.queues[DEAD]), len(box.queues["b"])) == (3, 2, 3, 0)


EQUAL = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.booleans(), st.integers(0, 3)), max_size=40)
"""Queue, whether there is a message_id, and number of each dead letter: many are equal to the bit."""


@examples(60)
@given(st.lists(EQUAL, min_size=1, max_size=3), st.lists(st.floats(0.02, 0.6), max_size=3), st.integers(0, 3),
       st.integers(0, 999))  # fmt: skip
def test_equal_dead_letters_are_published_as_often_as_they_are_there(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[list[tuple[str, bool, int]]],
    kills: list[float],
    losses: int,
    seed: int,
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), DEAD: deque()})
    path, order = tmp_path_factory.mktemp("replay") / "ledger", Order("amqp://h", DEAD, 1_000)
    wanted = Counter[tuple[str, str]]()
    interrupted = losses
    for number, drawn in enumerate(rounds):
        for key, is_named, identity in drawn:
            box.put(DEAD, bury(identity, key, with_id=is_named, tenant="x"))
            wanted[key, f"{identity} {is_named}"] += 1
        box.losses = losses if number == 0 else 0
        for kill in kills:
            interrupted += run(box, path, order, kill_at=kill) is None
        run(box, path, order)
        assert not box.queues[DEAD]
        found = Counter(
            (queue, f"{arrived.body.decode()} {ContentHeader(arrived.properties).property('message_id') is not None}")
            for queue in ("a", "b") for arrived in box.queues[queue]
        )  # fmt: skip
        assert found >= wanted
        assert found == wanted or interrupted


@examples(40)
@given(EQUAL, st.integers(0, 999), st.data())
def test_undo_takes_back_each_of_equal_messages_once(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, bool, int]], seed: int, data: st.DataObject
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), DEAD: deque()})
    path, order = tmp_path_factory.mktemp("replay") / "ledger", Order("amqp://h", DEAD, 1_000)
    for key, is_named, identity in drawn:
        box.put(DEAD, bury(identity, key, with_id=is_named, tenant="x"))
    buried = Counter(box.bodies(DEAD))
    box.losses = losses = data.draw(st.integers(0, 2))
    run(box, path, order)
    published = Counter(box.bodies("a")) + Counter(box.bodies("b"))
    consumed = Counter[bytes]()
    if not losses:  # of two copies one may be consumed and the other taken back
        for queue in ("a", "b"):
            count = data.draw(st.integers(0, len(box.queues[queue])))
            consumed.update([box.queues[queue].popleft().body for _ in range(count)])
    undone = run(box, path, order, undo)
    assert not box.queues["a"]
    assert not box.queues["b"]
    assert Counter(box.bodies(DEAD)) + consumed >= buried
    if not losses:
        assert Counter(box.bodies(DEAD)) + consumed == buried == published
        assert undone.missing == consumed.total()


@pytest.mark.parametrize("with_id", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_was_confirmed_and_never_acknowledged_only_leaves_its_queue(
    tmp_path: Path, with_id: bool, count: int
) -> None:
    letter = bury(1, "a", with_id=with_id, tenant="x")
    box = Box(Random(0), 0, 0, {"a": deque(), DEAD: deque()})
    for _ in range(count):
        box.put(DEAD, letter)
    identifier = digest(letter)
    ledger = Ledger(tmp_path / "l", "queue")
    ledger.note_sent([Sent(identifier, "a", get_content(letter).raw)])
    ledger.note("done", [identifier])
    ledger.close()
    outcome = run(box, tmp_path / "l", Order("amqp://h", DEAD, 1_000))
    assert (outcome.done_before, outcome.moved) == (1, count - 1)
    assert not box.queues[DEAD]
    assert run(box, tmp_path / "l", Order("amqp://h", DEAD, 1_000)).moved == 0


def test_equal_dead_letters_of_one_run_are_not_said_to_be_doubtful(tmp_path: Path) -> None:
    box = Box(Random(0), 0, 0, {"a": deque(), DEAD: deque()})
    for _ in range(5):
        box.put(DEAD, bury(1, "a", with_id=True, tenant="x"))
    outcome = run(box, tmp_path / "l", Order("amqp://h", DEAD, 1_000))
    assert (outcome.moved, outcome.again, outcome.done_before) == (5, 0, 0)


def test_whoever_stops_a_replay_stops_it_also_where_no_pump_runs_yet(tmp_path: Path) -> None:
    box = Box(Random(1), 0, 0, {"a": deque(), DEAD: deque()}, 9, 9)
    box.put(DEAD, bury(0, "a", with_id=True, tenant="x"))

    async def stop_and_replay(order: Order, ledger: Ledger, user: User) -> Outcome:
        user.stop()
        return await replay(order, ledger, user)

    outcome = run(box, tmp_path / "ledger", Order("amqp://h", DEAD, 1_000), stop_and_replay)
    assert outcome.is_stopped
    assert outcome.moved == 0
    assert len(box.queues[DEAD]) == 1
