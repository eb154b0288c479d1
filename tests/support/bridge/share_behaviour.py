"""The behaviour of a source that is a member of a share group, on live brokers and on a model of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest

from bridge.endpoint import EndOfStream, Source
from bridge.endpoints.kafka.consumer import share
from bridge.endpoints.kafka.consumer.share_group import LOCK_SECONDS
from exchange import Message
from tests.support.bridge.behaviour import (
    Place,
    SourceBehaviour,
    bodies,
    check_nothing_more,
    make_messages,
    on_a_loop,
    read_all_of,
)
from tests.support.waiting import until


class MakePlace(Protocol):
    """Makes a place whose group has these settings."""

    def __call__(self, lock_seconds: float = ..., limit: int = ...) -> Place: ...


def place_of_share_group(make_source: Callable[[], Source], put: Callable[[Sequence[Message]], None]) -> Place:
    """Return a place that is read by a share group, and not written to."""

    def refuse(*_: object) -> Any:
        raise AssertionError("no target is tested")

    return Place(make_source, refuse, put, refuse, longest=900_000, settles_to_read_on=True)


class ShareBehaviour(SourceBehaviour):
    """The tests of a member of a share group, with a fixture ``make_place`` of its own module."""

    @pytest.fixture
    def place(self, make_place: MakePlace) -> Place:
        return make_place()

    @on_a_loop
    async def test_members_share_one_partition_and_each_record_goes_to_one_of_them(self, make_place: MakePlace) -> None:
        place = make_place()
        members = [place.make_source() for _ in range(3)]
        for member in members:
            await member.open()
        counts: list[Counter[bytes]] = [Counter() for _ in members]

        async def work(member: Source, count: Counter[bytes]) -> None:
            while True:
                for delivery in await member.read(5):
                    count[delivery.message.body] += 1
                    member.settle(delivery)

        working = [asyncio.ensure_future(work(*each)) for each in zip(members, counts, strict=True)]
        written = 0
        while written < 600 or not all(counts):  # until the last of them is a member
            await asyncio.to_thread(place.put, make_messages(written, written + 20))
            written += 20
        await until(lambda: sum(map(Counter.total, counts)) >= written)
        for task, member in zip(working, members, strict=True):
            task.cancel()
            await member.close()
        assert sum(counts, Counter()) == Counter(b"%d" % n for n in range(written))

    @on_a_loop
    async def test_what_is_settled_stays_settled_and_the_rest_comes_again_at_once_with_its_count(
        self, make_place: MakePlace
    ) -> None:
        place = make_place()
        place.put(make_messages(0, 10))
        one, two = place.make_source(), place.make_source()
        await one.open()
        found = await read_all_of(one, 10)
        assert not any(delivery.redelivered for delivery in found)
        for delivery in found[::2]:
            one.settle(delivery)
        await one.close()
        await two.open()
        began = asyncio.get_running_loop().time()
        again = await read_all_of(two, 5)
        assert asyncio.get_running_loop().time() - began < LOCK_SECONDS / 3
        assert sorted(bodies(again)) == sorted(bodies(found[1::2]))
        assert all(delivery.redelivered for delivery in again)
        await two.close()

    @on_a_loop
    async def test_a_batch_that_is_late_is_finished_and_comes_twice(self, make_place: MakePlace) -> None:
        place = make_place(lock_seconds=1.5)
        place.put(make_messages(0, 5))
        source = place.make_source()
        await source.open()
        found = await read_all_of(source, 5)
        await until(lambda: source.trouble is not None)
        assert "5 records of a batch" in str(source.trouble)
        assert "not settled after" in str(source.trouble)
        await check_nothing_more(source)
        assert source.lost is None
        for delivery in found:
            source.settle(delivery)
        assert source.trouble is None
        again = await read_all_of(source, 5)
        assert sorted(bodies(again)) == sorted(bodies(found))
        assert all(delivery.redelivered for delivery in again)
        for delivery in again:
            source.settle(delivery)
        await check_nothing_more(source)
        await source.close()

    @on_a_loop
    async def test_what_was_fetched_before_a_long_pause_is_given_back_as_another_member_has_it(
        self, make_place: MakePlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(share, "FETCHING", 0.0)
        place = make_place(lock_seconds=1.0)
        paused, other = place.make_source(), place.make_source()
        await paused.open()
        await other.open()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(paused.read(10), 0.25)  # its first fetch, of 0.5 s, is still under way
        place.put(make_messages(0, 5))
        found = await read_all_of(other, 5)
        for delivery in found:
            other.settle(delivery)
        assert sorted(bodies(found)) == [b"%d" % n for n in range(5)]
        await check_nothing_more(paused)
        await paused.close()
        await other.close()

    @on_a_loop
    async def test_a_stop_gives_the_rest_of_the_batch_and_nothing_else(self, make_place: MakePlace) -> None:
        place = make_place()
        place.put(make_messages(0, 10))
        source = place.make_source()
        await source.open()
        first = await source.read(4)
        assert await source.stop_taking()
        place.put(make_messages(10, 20))
        rest = await read_all_of(source, 10 - len(first))
        for delivery in [*first, *rest]:
            source.settle(delivery)
        with pytest.raises(EndOfStream):
            await source.read(1)
        await source.close()
        await source.open()
        assert sorted(bodies(await read_all_of(source, 10))) == [b"%d" % n for n in range(10, 20)]
        await source.close()

    @on_a_loop
    async def test_the_last_delivery_of_a_record_is_shown(
        self, make_place: MakePlace, caplog: pytest.LogCaptureFixture
    ) -> None:
        place = make_place(limit=3)
        place.put(make_messages(0, 1))
        source = place.make_source()
        for count in range(3):
            await source.open()
            [delivery] = await read_all_of(source, 1)
            assert source.most_deliveries == count
            assert ("for the last time" in caplog.text) is (count == 2)
            if count < 2:
                await source.close()
        source.settle(delivery)
        await source.close()
