"""What a Kafka source has not read, by librdkafka's statistics: a log, its readers and its deletions as a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.deletions import LOOKS, Deletions
from bridge.endpoints.kafka.consumer.backlog import OPEN_FOR, Backlog
from tests.support.tiers import examples

UNKNOWN = -1001


def statistics(**partition: int) -> Mapping[str, Any]:
    known = {"app_offset": UNKNOWN, "committed_offset": UNKNOWN, "next_offset": UNKNOWN, "lo_offset": 0, **partition}
    known.setdefault("ls_offset", known["hi_offset"])
    return {"topics": {"orders": {"partitions": {"0": known}}}}


@dataclass
class Lane:
    """The part of a lane that is looked at."""

    next: int = 0
    checked: bool = True
    begins_anew: bool = False
    end: int = -1
    deletions: Deletions = field(default_factory=Deletions)


def look(backlog: Backlog, now: float = 0.0, lane: Lane | None = None, unread: int = 0, **partition: int) -> None:
    backlog.look(statistics(**partition), {("orders", 0): lane or Lane()}, now, unread=unread)


def test_the_lag_reaches_from_what_was_read_to_the_high_watermark() -> None:
    cases: list[tuple[dict[str, int], int | None]] = [
        ({"app_offset": 7, "committed_offset": 2, "hi_offset": 10}, 3),  # read and not committed is no lag
        ({"app_offset": UNKNOWN, "committed_offset": 2, "hi_offset": 10}, 8),
        ({"app_offset": UNKNOWN, "next_offset": 10, "hi_offset": 10}, 0),  # begun at the end
        ({"app_offset": 7, "hi_offset": 10, "ls_offset": 7}, 3),  # an open transaction is no end
        ({"committed_offset": 2, "lo_offset": 6, "hi_offset": 10}, 4),  # what was deleted does not wait
        ({"app_offset": 12, "hi_offset": 10}, 0),
        ({"hi_offset": 10}, None),
        ({"app_offset": 7, "hi_offset": UNKNOWN}, None),
    ]
    for partition, lag in cases:
        backlog = Backlog("kafka", reads_committed=True)
        backlog.look(statistics(**partition), {("orders", 0): Lane()}, 0.0)
        assert backlog.lag == lag, partition
    look(backlog, lane=Lane(end=20), unread=2, app_offset=7, hi_offset=10)
    assert backlog.lag == 15, "the end was asked for while it was paused"
    backlog.look(statistics(app_offset=7, hi_offset=10), {("orders", 0): Lane(), ("others", 0): Lane()}, 0.0)
    assert backlog.lag == 3
    backlog.forget()
    assert backlog.lag is None


def test_a_transaction_that_does_not_end_is_named_after_a_while_and_what_it_withholds_is_counted() -> None:
    backlog = Backlog("kafka", reads_committed=True)
    look(backlog, 100.0, app_offset=7, ls_offset=7, hi_offset=12)
    assert (backlog.withheld, backlog.trouble) == (5, None)
    look(backlog, 100.0 + OPEN_FOR, app_offset=7, ls_offset=7, hi_offset=1_507)
    assert backlog.withheld == 1_500
    assert "orders-0: 1,500 records from offset 7 on" in str(backlog.trouble)
    look(backlog, 101.0 + OPEN_FOR, app_offset=8, ls_offset=9, hi_offset=1_507)  # it ended, and another one is ahead
    assert (backlog.withheld, str(backlog.trouble)) == (0, "None")
    look(backlog, 102.0 + OPEN_FOR, app_offset=9, ls_offset=9, hi_offset=1_507)
    assert (backlog.withheld, str(backlog.trouble)) == (1_498, "None")


def test_a_consumer_that_reads_open_transactions_is_not_withheld_anything() -> None:
    backlog = Backlog("kafka", reads_committed=False)
    look(backlog, 0.0, app_offset=7, ls_offset=7, hi_offset=12)
    look(backlog, OPEN_FOR, app_offset=7, ls_offset=7, hi_offset=12)
    assert (backlog.lag, backlog.withheld, backlog.trouble) == (5, 0, None)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.just("delete"), st.integers(1, 60)),
        st.tuples(st.just("read"), st.integers(1, 30)),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=30,
)


@examples(300)
@given(EVENTS, st.integers(-1, 5))
def test_deleted_records_are_counted_once_and_only_those_that_were_not_read(
    events: list[tuple[str, int]], begun: int
) -> None:
    """The oracle keeps each offset's fate."""
    deletions = Deletions()
    deletions.begun = begun
    end, low = 10, 0
    at = max(begun, 0)
    """The offset at which the reader goes on; without an offset of the group, at the first there is."""
    position = 0
    fates: dict[int, str] = dict.fromkeys(range(end), "there")
    counted = 0
    for event, number in events:
        if event == "write":
            fates.update(dict.fromkeys(range(end, end + number), "there"))
            end += number
        elif event == "delete":
            low = min(end, low + number)
            if begun >= 0 or position:
                for each in range(max(position, begun, 0), low):
                    if fates[each] == "there":
                        fates[each] = "lost"
        elif event == "read":
            left = range(max(at, low), end)[:number]
            for each in left:
                if each != position:
                    deletions.pass_over(position, each)
                fates[each] = "read"
                at = position = each + 1
            is_drained = len(left) < number
            for _ in range(2):  # the log's start is known soon; the next gap may be larger
                counted += deletions.count(position, low, is_drained=is_drained)
        else:
            counted += deletions.count(position, low, is_drained=False)
    for _ in range(2):
        counted += deletions.count(position, low, is_drained=True)
    assert counted == sum([fate == "lost" for fate in fates.values()])


def test_a_gap_is_forgotten_when_the_log_still_begins_before_it() -> None:
    deletions = Deletions()
    deletions.pass_over(10, 90)
    for _ in range(LOOKS + 1):
        assert deletions.count(100, 5, is_drained=False) == 0
    assert deletions.count(100, 95, is_drained=False) == 0, "it was compacted, and deleted after it was read"
    deletions.pass_over(110, 190)
    assert deletions.count(200, 150, is_drained=False) == 40
    assert deletions.count(200, 190, is_drained=False) == 40
    assert deletions.count(200, 190, is_drained=False) == 0


def test_deletions_are_counted_over_connections_and_logged(caplog: Any) -> None:
    backlog = Backlog("kafka", reads_committed=True)
    for vanished in (20, 40):
        lane = Lane(next=31)
        lane.deletions.begun = 10
        lane.deletions.pass_over(0, 30)
        look(backlog, lane=lane, app_offset=31, lo_offset=30, hi_offset=40)
        look(
            backlog,
            lane=Lane(next=31, checked=False, deletions=lane.deletions),
            app_offset=31,
            lo_offset=35,
            hi_offset=40,
        )
        assert backlog.vanished == vanished
        backlog.forget()
    assert "kafka: orders-0: Kafka has deleted 20 records before they were read" in caplog.text
