"""Views of received messages: they are read and routed as the messages themselves."""

from __future__ import annotations

import copy
import pickle
from random import Random
from types import SimpleNamespace

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import LATEST_PROFILE, Message, Router
from exchange.amqp import ContentHeader, MalformedHeader, MessageView, view
from exchange.errors import BrokerError
from exchange.routing.route import Route
from exchange.values.message import BASIC_PROPERTIES
from tests.support import topologies
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)


def short(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return bytes([len(data)]) + data


def methods(exchange: str, key: str) -> list[bytes]:
    """Return the payload of each method that carries a message."""
    deliver = b"\0\x3c\0\x3c" + short("ctag") + (7).to_bytes(8) + b"\1" + short(exchange) + short(key)
    get_ok = b"\0\x3c\0\x47" + (7).to_bytes(8) + b"\0" + short(exchange) + short(key) + (3).to_bytes(4)
    returned = b"\0\x3c\0\x32" + (312).to_bytes(2) + short("NO_ROUTE") + short(exchange) + short(key)
    publish = b"\0\x3c\0\x28" + b"\0\0" + short(exchange) + short(key) + b"\0"
    return [deliver, get_ok, returned, publish]


def route(router: Router, message: Message) -> Route | str:
    try:
        return router.route(message)
    except BrokerError as error:
        return str(error)


@examples(60)
@given(SEED)
def test_a_view_is_routed_and_explained_as_the_message(seed: int) -> None:
    """First and again, with CC, headers and refusals; by frames of all methods."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    router, other = (Router(topology, choose=Random(seed).randrange) for _ in range(2))
    for _ in range(12):
        message = topologies.message(rng, topology)
        try:
            header = ContentHeader.encode(message.headers, message.properties).payload(0)
        except ValueError:  # AMQP cannot hold it
            continue
        if max(len(short(message.exchange)), len(short(message.routing_key))) > 256:
            continue
        for method in methods(message.exchange, message.routing_key):
            made = MessageView.of_frames(method, header)
            assert (made.exchange, made.routing_key) == (message.exchange, message.routing_key)
            decoded = made.to_message()
            assert route(router, made) == route(other, decoded)
            assert made.has_one_key <= decoded.has_one_key


def test_a_view_reads_headers_and_properties_when_asked() -> None:
    header = ContentHeader.encode({"CC": ["b"], "h": 1}, {"message_id": "m", "priority": 3}).payload(2)
    made = MessageView("x", "a", header, b"{}")
    assert made.routing_keys() == ("a", "b")
    assert dict(made.headers) == {"CC": ["b"], "h": 1}
    assert dict(made.properties) == {"message_id": "m", "priority": 3}
    assert made.to_message() == Message("x", "a", {"CC": ["b"], "h": 1}, {"message_id": "m", "priority": 3}, b"{}")
    assert made.headers is made.headers
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made.to_message()  # noqa: S301  our own bytes
    assert repr(made) == "MessageView(exchange='x', routing_key='a', body=b'{}')"


def test_a_view_takes_what_clients_give() -> None:
    """The method and the properties of pika; a message of aio-pika is both."""
    properties = pika.BasicProperties(headers={"BCC": ["c"]}, message_id="m", delivery_mode=2)
    made = MessageView.of_delivery(pika.spec.Basic.Deliver("t", 1, False, "x", "a"), properties, b"body")
    assert (made.exchange, made.routing_key, made.body) == ("x", "a", b"body")
    assert made.routing_keys() == ("a", "c")
    assert made.properties == {"message_id": "m", "delivery_mode": 2}
    both = SimpleNamespace(exchange=None, routing_key="q", headers=None, **dict.fromkeys(BASIC_PROPERTIES))
    made = MessageView.of_delivery(both, both)
    assert made.to_message() == Message("", "q")
    assert made.has_one_key


@pytest.mark.parametrize("method", [b"", b"\0\x3c\0\x3c", b"\0\x3c\0\x50abc", b"\0\x3c\0\x3c\0" + bytes(9) + b"\3ab"])
def test_a_broken_method_is_refused(method: bytes) -> None:
    with pytest.raises(MalformedHeader, match="method"):
        MessageView.of_frames(method, b"")


def test_broken_headers_are_refused_when_they_are_read() -> None:
    made = MessageView("x", "a", b"\0\x3c")
    with pytest.raises(MalformedHeader, match="ends before"):
        _ = made.headers


def test_the_cache_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "ADDRESSES", 10)
    for number in range(100):
        assert MessageView.of_frames(methods("x", f"k{number}")[0], b"").routing_key == f"k{number}"
        assert len(view._addresses) <= 10
