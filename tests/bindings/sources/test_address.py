"""Addresses: parsed in one place, and no error has a piece of one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.address import parse_address
from exchange.errors import InputError
from tests.support.cases import with_each

SCHEMES = ("amqp", "amqps", "http")
EXAMPLE = "amqp://HOST"


def test_an_address_has_its_parts_with_escapes_undone() -> None:
    address = parse_address("AMQP://a%40b:p%23%2F%3F@h.example:5/v%2Fw?heartbeat=5", SCHEMES, EXAMPLE)
    assert (address.scheme, address.user, address.password) == ("amqp", "a@b", "p#/?")
    assert (address.host, address.port, address.path, address.query) == ("h.example", 5, "/v%2Fw", "heartbeat=5")
    assert "p#" not in repr(address)
    assert "p%23" not in repr(address)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("amqp://h", "h", None),
        ("amqp://[::1]:9", "[::1]", 9),
        ("amqp://[::1]", "[::1]", None),
        ("amqp://a:1,b:2", "a", 1),
        ("amqp://a,b:2,[::1]", "a", None),
        ("amqp://[::1],b", "[::1]", None),
        ("amqp://[fe80::1%25eth0]:1", "[fe80::1%25eth0]", 1),
    ],
)
def test_the_first_host_and_its_port(text: str, host: str, port: int | None) -> None:
    address = parse_address(text, SCHEMES, EXAMPLE)
    assert (address.host, address.port) == (host, port)


@with_each(
    "text",
    [
        "", "amqp", "amqp:", "amqp://", "amqp://:5672", "amqp://u:hunter2@", "ftp://u:hunter2@h", "//u:hunter2@h",
        "http://admin:hunter2#x@broker:15672/", "http://admin:hunter2?x@broker/", "http://admin:hunter2/x@broker/",
        "http://admin:12/hunter2@broker/", "http://a:b@hunter2/x@broker/", "http://a:b@hunter2#x@broker",
        "http://admin:hunter2@broker:port", "http://hunter2:99999", "http://[hunter2", "http://[hunter2:]", "http://h/hunter2\u2100@x",
        f"http://{'hunter2' * 10}/", "http://hunter2..b/", "http://hunter2 x/", "http://hunter2\n/", "http://hunter2\ud800/",
        "http://\u2100hunter2/", "http://::1/hunter2", "http://h:-1/hunter2", "http://h:٣/hunter2",
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_with_an_example_and_without_its_text(text: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"write {EXAMPLE}")) as caught:
        parse_address(text, SCHEMES, EXAMPLE)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.text(), st.text())
def test_any_text_is_an_address_or_is_refused_without_being_shown(before: str, after: str) -> None:
    shown = ""
    try:
        address = parse_address(f"http://{before}hunter2{after}@h:1", SCHEMES, EXAMPLE)
        assert address.hosts == "h:1"
        shown = repr(address)
    except InputError as error:
        shown = str(error)
    assert "hunter2" not in shown
