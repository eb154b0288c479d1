"""Grouping by columns equals a count of one message after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.fields import encode_field
from bindings.archive.record import Record, build_batch
from bridge.dead import groups
from bridge.dead.conventions import Death, find_death
from bridge.dead.groups import Grouping
from exchange import Message, Typed
from exchange.selector import Selector, properties_of
from tests.support.tiers import examples

WORDS = ("order", "eu", "12", "1234", "a7b8c9", "", "é", 'q"\\', "x" * 130)
names = st.sampled_from(("billing", "jobs", "é", 'odd", "count": 7', ""))
reasons = st.sampled_from(("rejected", "expired", "maxlen", "delivery_limit", "odd"))
keys = st.lists(st.sampled_from(WORDS), max_size=4).map(".".join)
deaths = st.fixed_dictionaries(
    {"reason": reasons, "queue": names, "exchange": names, "routing-keys": st.lists(keys, max_size=2)},
    optional={"count": st.integers(0, 2**40),
              "time": st.integers(0, 2**33).map(lambda seconds: Typed("timestamp", seconds))},
)  # fmt: skip
texts = st.sampled_from(("id 17", "id 18", "no", "x" * 300, "0x1f and 0x2f", "é"))
tables = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"x-death": st.lists(deaths, max_size=3)},
        optional={f"x-first-death-{part}": values for part, values in
                  (("reason", reasons), ("queue", names), ("exchange", names))},
    ),
    st.fixed_dictionaries(
        {"hashstar-reason": texts}, optional={"hashstar-routing-key": keys, "hashstar-attempts": st.integers(0, 9)}
    ),
    st.fixed_dictionaries(
        {"x-exception-message": texts}, optional={"x-original-routingKey": keys, "x-death": st.just([])}
    ),
    st.fixed_dictionaries({"__connect.errors.topic": names}, optional={"__connect.errors.exception.message": texts}),
    st.just({"x-death": "no array"}), st.just({"x-death": None}), st.just({"x-first-death-reason": 5}),
)  # fmt: skip
messages = st.builds(Message, names, keys, tables)
archives = st.lists(st.lists(messages, max_size=12), max_size=3)


def count(read: Iterable[Message]) -> Counter[Death]:
    """Count messages by their deaths, one after the other."""
    found: Counter[Death] = Counter()
    for message in read:
        headers = {name: encode_field(value)[1] for name, value in message.headers.items()}
        found[find_death(headers, message.exchange, message.routing_key)[0]] += 1
    return found


def group(batches: Iterable[list[Message]], where: str | None = None) -> Grouping:
    grouping = Grouping(where=None if where is None else Selector.parse(where))
    for number, batch in enumerate(batches):
        grouping.add(build_batch(Record(each, source=f"file {number}", offset=at) for at, each in enumerate(batch)))
    return grouping


@examples(300)
@given(archives)
def test_grouping_equals_a_slow_count(batches: list[list[Message]]) -> None:
    grouping = group(batches)
    found = dict(grouping.finish())
    assert {death: each.count for death, each in found.items()} == count(each for batch in batches for each in batch)
    assert (grouping.ungrouped, grouping.looked_at) == (0, sum(map(len, batches)))
    for death, each in found.items():  # the example is a message of the group, with its own key
        assert each.offset is not None
        example = batches[int(each.source.removeprefix("file "))][each.offset]
        headers = {name: encode_field(value)[1] for name, value in example.headers.items()}
        assert find_death(headers, example.exchange, example.routing_key) == (death, each.key)


@examples(60)
@given(archives)
def test_a_selector_selects_what_it_matches_one_by_one(batches: list[list[Message]]) -> None:
    text = "exchange = 'jobs' OR x_first_death_reason = 'expired'"
    where = Selector.parse(text)
    chosen = [each for batch in batches for each in batch if where(properties_of(each, where.names))]
    assert {death: each.count for death, each in group(batches, text).finish()} == count(chosen)


def rejected(key: str, seconds: int = 5, tries: int = 1, **headers: Any) -> Message:
    death = {"count": tries, "reason": "rejected", "queue": "jobs", "time": Typed("timestamp", seconds),
             "exchange": "orders", "routing-keys": [key]}  # fmt: skip
    first = {f"x-first-death-{part}": death[part] for part in ("reason", "queue", "exchange")}
    return Message("dlx", key, {**first, "x-death": [death], **headers})


def test_a_group_has_the_times_and_tries_of_its_messages() -> None:
    [(death, found)] = group([[rejected("a", 7, 2), rejected("a", 5)], [rejected("a", 9, 3)]]).finish()
    assert (death.reason, death.queue, death.exchange, death.key) == ("rejected", "jobs", "orders", "a")
    assert (found.count, found.since, found.until, found.tries) == (3, 5_000_000, 9_000_000, 3)


def test_places_with_many_words_vary_and_others_do_not() -> None:
    names = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    found = group([[rejected(f"order.{name}.{name[0] in 'abc'}") for name in names]]).finish()
    assert [(death.key, each.count) for death, each in found] == [("order.*.False", 40), ("order.*.True", 24)]


def test_words_of_few_keys_are_kept() -> None:
    assert len(group([[rejected(f"order.{name}") for name in "abcdefghijklmnopqrst"]]).finish()) == 20


def test_groups_are_bounded_and_what_is_in_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS", 100)
    grouping = group([[Message(f"{a}{b}", "k") for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]])
    assert (len(grouping.finish()), grouping.ungrouped) == (100, 156)


def test_keys_that_vary_need_few_groups_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS", 100)
    names = [f"{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]
    grouping = group([[rejected(f"order.{name}") for name in names]])
    [(death, found)] = grouping.finish()
    assert (death.key, found.count, grouping.ungrouped) == ("order.*", 512, 0)
