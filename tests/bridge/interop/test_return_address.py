"""Tokens: a return address comes back from its token, and from no other text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.interop.return_address import ReturnAddress, ReturnToken, Sealer, open_token

TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
ADDRESSES = st.builds(
    ReturnAddress,
    TEXTS | TEXTS.map("amq.rabbitmq.reply-to.".__add__),
    st.none() | st.binary(max_size=60) | TEXTS.map(str.encode),
    TEXTS,
)
TIMES = st.integers(0, (1 << 48) - 1)
ORDERS = Sealer("orders", "kafka 127.0.0.1:9092")


def opened(token: str, *sealers: Sealer) -> ReturnToken | None:
    return open_token(token.encode(), {each.id: each for each in sealers})


@given(ADDRESSES, TIMES)
def test_a_token_holds_its_return_address(address: ReturnAddress, deadline: int) -> None:
    token = ORDERS.seal(address, deadline)
    assert token.isascii()
    assert token.isprintable()
    assert opened(token, Sealer("others", "x"), ORDERS) == ReturnToken("orders", address, deadline)


@given(ADDRESSES, TIMES, st.data())
def test_a_token_that_was_changed_or_cut_is_none(address: ReturnAddress, deadline: int, data: st.DataObject) -> None:
    token = ORDERS.seal(address, deadline)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda each: each != token[at]))
    assert opened(token[:at] + other + token[at + 1 :], ORDERS) is None
    assert opened(token[:at], ORDERS) is None


@given(st.binary(max_size=300))
def test_other_correlation_ids_are_no_tokens(correlation: bytes) -> None:
    assert open_token(correlation, {ORDERS.id: ORDERS}) is None


def test_a_reply_without_a_correlation_id_has_no_token() -> None:
    assert open_token(None, {ORDERS.id: ORDERS}) is None


@given(ADDRESSES)
def test_a_token_of_another_bridge_is_none(address: ReturnAddress) -> None:
    for other in (Sealer("orders", "kafka 127.0.0.1:9093"), Sealer("order", "skafka 127.0.0.1:9092")):
        token = other.seal(address, 1)
        assert opened(token, ORDERS) is None
        # Nor if it claims to be one of this bridge.
        assert opened(token.replace(other.id, ORDERS.id), ORDERS) is None


def test_two_bridges_in_a_row_fit_into_a_correlation_id_of_rabbitmq() -> None:
    """The address of direct reply-to as RabbitMQ 4.3 makes it, for a node with a long name."""
    direct = ReturnAddress("amq.rabbitmq.reply-to." + 100 * "x", b"3f2b1c9d-8a7e-4c6b-9d5f-1e2a3b4c5d6e")
    first = ORDERS.seal(direct, 1_795_000_000_000)
    second = Sealer("x", "y").seal(ReturnAddress("price-answers", first.encode(), "11"), 1_795_000_000_000)
    assert len(first) < len(second) <= 255
