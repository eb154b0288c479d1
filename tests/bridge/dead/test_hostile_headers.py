"""Headers that somebody else has set, of any type and in any form: nothing raises, nothing is published by a guess, and
what stays is counted.
"""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.dead.choices import Order
from bridge.dead.conventions import HEADERS
from bridge.dead.groups import Grouping
from bridge.dead.ledger import Ledger, Sent
from bridge.dead.reading import Read, RowWriter
from bridge.dead.replaying import undo
from bridge.dead.restoring import REPLAY
from bridge.dead.verdicts import Judge
from exchange import Message, Queue, Topology
from exchange.selector import Selector
from exchange.values.field_values import Typed
from tests.bridge.dead.broker_model import DEAD, Box, run
from tests.support.tiers import examples

BYTES: Final = Typed("longstr", b"\xff")
"""Text that is not UTF-8."""
VALUES: Final[tuple[Any, ...]] = (
    "text", "a", "queue a", "x" * 300, "", None, True, 5, -1, 1.5, b"\xff", [], ["a"], [[]], {}, {"a": {}},
    [{"queue": {}}], Decimal("1.5"), Typed("timestamp", 2**40), Typed("byte", -1), BYTES,
)  # fmt: skip
"""Values of all types."""
DEATH: Final = {"queue": "a", "reason": "rejected", "exchange": "", "routing-keys": ["a"], "count": 1}
OF_BROKER: Final = {"x-death": [DEATH], "x-first-death-queue": "a", "x-first-death-reason": "rejected"}
OF_BRIDGE: Final = {
    "hashstar-reason": "nack", "hashstar-origin": "queue a", "hashstar-exchange": "", "hashstar-routing-key": "a"
}  # fmt: skip
READ: Final = tuple(dict.fromkeys([
    *HEADERS, *OF_BRIDGE, "hashstar-packed", "hashstar-content-header", "hashstar-user_id", "hashstar-expiration",
    "hashstar-CC", "hashstar-BCC", "x-stream-offset", "x-original-exchange", "x-original-routingKey", "CC", "BCC",
    "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange", "x-delivery-count", REPLAY,
]))  # fmt: skip
"""All headers that decide about a dead letter, or are put back."""
VALUE: Final = st.sampled_from(VALUES)
DEATHS: Final = st.builds(
    lambda name, value: {"x-death": [{**DEATH, name: value}]}, st.sampled_from([*DEATH, "time"]), VALUE
)
HOSTILE: Final = st.lists(
    st.builds(
        lambda given, other, deaths: {**given, **deaths, **other},
        st.sampled_from([{}, OF_BROKER, OF_BRIDGE]), st.dictionaries(st.sampled_from(READ), VALUE, max_size=2),
        st.just({}) | DEATHS,
    ), max_size=8,
)  # fmt: skip
EACH: Final = [{**given, name: value} for given in (OF_BROKER, OF_BRIDGE) for name in READ for value in VALUES]
"""Each header with each value."""


def names_a_queue(headers: dict[str, Any]) -> bool:
    """Return whether texts say that it died in queue a: of a bridge if it has its mark, else of the broker."""
    if "hashstar-reason" in headers:
        read = [headers.get(name) for name in ("hashstar-exchange", "hashstar-routing-key")]
        return headers.get("hashstar-origin") == "queue a" and all(
            each in (None, BYTES) or isinstance(each, str) for each in read
        )
    deaths = headers.get("x-death")
    if "x-original-exchange" in headers or not isinstance(deaths, list):
        return False
    named = [headers.get("x-first-death-queue"), *[each.get("queue") for each in deaths if isinstance(each, dict)]]
    return "a" in named


def bury(box: Box, queue: str, letters: list[dict[str, Any]]) -> None:
    for number, headers in enumerate(letters):
        box.put(queue, Message("", queue, headers, {}, b"%d" % number))


@examples(60)
@given(HOSTILE, st.sampled_from([None, "text = 'a' or x_death = 'a' or hashstar_reason is not null"]))
@example(EACH, None)
def test_a_replay_publishes_what_texts_name_and_counts_the_rest(
    tmp_path_factory: pytest.TempPathFactory, letters: list[dict[str, Any]], where: str | None
) -> None:
    box = Box(Random(0), 0, 0, {"a": deque(), DEAD: deque()})
    bury(box, DEAD, letters)
    before = box.bodies(DEAD)
    order = Order("amqp://h", DEAD, 10_000, where=None if where is None else Selector.parse(where))
    outcome = run(box, tmp_path_factory.mktemp("replay") / "ledger", order)
    gone = box.bodies("a")
    assert all(names_a_queue(letters[int(body)]) for body in gone)
    assert box.bodies(DEAD) == [body for body in before if body not in gone]
    assert outcome.moved == len(gone)
    if where is None:
        assert outcome.left.total() == len(letters) - len(gone)
    assert all(outcome.left)


@examples(60)
@given(HOSTILE)
@example(EACH)
def test_an_undo_takes_only_what_the_ledger_names(
    tmp_path_factory: pytest.TempPathFactory, letters: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("replay") / "ledger"
    ledger = Ledger(path, "queue")
    ledger.note_sent([Sent("text", "a", b"\0\0")])
    ledger.note("done", ["text"])
    ledger.note("gone", ["text"])
    ledger.close()
    box = Box(Random(0), 0, 0, {"a": deque(), DEAD: deque()})
    bury(box, "a", letters)
    before = box.bodies("a")
    outcome = run(box, path, Order("amqp://h", DEAD, 10_000), undo)
    ours = [body for body in before if letters[int(body)].get(REPLAY) == "text"]
    assert box.bodies("a") == [body for body in before if body not in ours]
    assert box.bodies(DEAD) == ours[:1]
    assert (outcome.moved, outcome.done_before) == (len(ours[:1]), len(ours[1:]))
    assert not outcome.left


@examples(60)
@given(HOSTILE)
@example(EACH)
def test_a_look_groups_what_has_any_headers(letters: list[dict[str, Any]]) -> None:
    judge = Judge(Topology(queues=[Queue("a"), Queue("text")]))
    grouping = Grouping(judge, Selector.parse("x_death is null or x_death is not null"))
    read = Read()

    def take(batch: pa.RecordBatch) -> None:
        grouping.add(batch)

    rows = RowWriter("queue a", take, read)
    for number, headers in enumerate(letters):
        rows.add(Message("", DEAD, headers, {}, b""), None, number)
    rows.flush()
    groups = grouping.finish()
    assert read.bad + grouping.ungrouped + sum(group.count for _, group in groups) == len(letters)
