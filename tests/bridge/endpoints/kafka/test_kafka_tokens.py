"""Access tokens for librdkafka: when it asks for the next one, and with which token it is answered."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.tokens import ASKED_AT, LEAST_WAIT, NO_TOKEN, TokenLogin
from bridge.tokens import BACKOFF, RENEWED_AT, UNKNOWN_LIFE, Tokens
from tests.support.tiers import examples

RELOGIN_AT = 0.9
"""Share of the life that a broker has seen after which librdkafka logs in again."""


@examples(200)
@given(life=st.floats(10, 4000) | st.none(), chance=st.floats(0, 1, exclude_max=True))
def test_librdkafka_has_a_newer_token_before_it_logs_in_again(life: float | None, chance: float) -> None:
    """It asks after `ASKED_AT` of the life that it is given, and up to a second later."""
    given, now = [0], 1000.0

    def fetch() -> tuple[str, float | None]:
        given[0] += 1
        return f"t{given[0]}", life

    login = TokenLogin(Tokens(fetch, clock=lambda: now, chance=lambda: chance))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        text, until = login("")
        assert text == "t1"
        now += (until - now) * ASKED_AT + 1.0
        assert login("")[0] == "t2"
    lives = UNKNOWN_LIFE if life is None else life
    assert RENEWED_AT[0] * lives <= now - 1000.0 - 1.0 + 1e-6
    assert now - 1000.0 < RELOGIN_AT * lives


def test_after_a_failure_librdkafka_asks_again_as_soon_as_the_server_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, fails = 1000.0, False

    def fetch() -> tuple[str, float | None]:
        if fails:
            raise Disconnected("no")
        return "t", 300.0

    login = TokenLogin(Tokens(fetch, clock=lambda: now, chance=lambda: 0.5))
    monkeypatch.setattr(time, "time", lambda: now)
    login("")
    now, fails = now + 250.0, True
    for _ in range(20):
        text, until = login("")
        assert text == "t"
        wait = (until - now) * ASKED_AT
        assert LEAST_WAIT <= wait + 1e-6 <= BACKOFF[1] + 1e-3
        now += wait


def test_without_any_token_librdkafka_gets_one_that_brokers_refuse_and_asks_again_soon() -> None:
    def fetch() -> tuple[str, float | None]:
        raise Disconnected("no")

    text, until = TokenLogin(Tokens(fetch))("")
    assert text == NO_TOKEN
    assert 0 < until - time.time() <= BACKOFF[1] / ASKED_AT
