"""Of several servers the first that answers is taken, at the earliest moment, and nothing of the others is left."""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.head_start import HEAD_START_SECONDS, NoneSucceededError, take_first
from tests.support.tiers import examples
from tests.support.virtual_loop import on_a_virtual_loop, pass_time, run_virtually


class Server(NamedTuple):
    """A server that answers, or fails, after some seconds."""

    seconds: float
    answers: bool


SERVERS = st.lists(
    # In binary fractions, so that sums are exact.
    st.builds(Server, st.integers(0, 40).map(lambda n: n / 8) | st.just(1e6), st.booleans()),
    min_size=1,
    max_size=6,
)


def find_time(servers: list[Server]) -> float:
    """Return when the first answer is there: the slow and obvious way."""
    start, answered, failed = 0.0, inf, 0.0
    for server in servers:
        if server.answers:
            answered = min(answered, start + server.seconds)
        else:
            failed = max(failed, start + server.seconds)
        if answered <= start:
            break
        start = min(start + HEAD_START_SECONDS, max(failed, start) if answered == inf else inf)
    return failed if answered == inf else answered


@given(SERVERS)
@examples(60)
def test_the_first_answer_is_taken_at_once_and_nobody_else_is_waited_for(servers: list[Server]) -> None:
    running: set[int] = set()

    async def ask(number: int) -> int:
        running.add(number)
        try:
            await pass_time(servers[number].seconds)
            if not servers[number].answers:
                raise ConnectionError(number)
            return number
        finally:
            running.discard(number)

    async def take() -> None:
        taking = take_first([partial(ask, number) for number in range(len(servers))], ConnectionError)
        if any(server.answers for server in servers):
            assert servers[await taking].answers
        else:
            with pytest.raises(NoneSucceededError) as caught:
                await taking
            assert [error.args[0] for error in caught.value.args] == [*range(len(servers))]
        assert asyncio.get_running_loop().time() == find_time(servers)
        assert not running

    run_virtually(take())


@on_a_virtual_loop
async def test_the_answer_of_one_that_does_not_heed_its_end_is_discarded() -> None:
    async def heedless() -> str:
        try:
            await pass_time(60)
        except asyncio.CancelledError:
            return "late"
        return "in time"

    async def answer() -> str:
        return "first"

    discarded: list[str] = []
    assert await take_first([heedless, answer], ConnectionError, discarded.append) == "first"
    assert discarded == ["late"]


@on_a_virtual_loop
async def test_an_error_of_another_kind_is_no_reason_to_ask_the_next() -> None:
    async def fail() -> str:
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="of ours"):
        await take_first([fail, fail], ConnectionError)
