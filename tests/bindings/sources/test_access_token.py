"""Access tokens of the environment: where they are taken from, when they are read, and that none is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bindings.sources.access_token import VARIABLE, find_token
from bindings.sources.address import parse_address
from bindings.sources.management import PASSWORD, USER, Management, find_login
from exchange.errors import InputError
from tests.bindings.sources.test_sources import answering
from tests.support.bridge.oauth import make_unsigned

FILE = f"{VARIABLE}_FILE"
LOGIN = {USER: "ann", PASSWORD: "p"}


def test_a_token_stands_for_a_login_that_the_address_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t2\n")
    for environ, secret in (
        ({VARIABLE: "t1"}, "t1"),
        ({VARIABLE: "t1", **LOGIN}, "t1"),
        ({FILE: str(tmp_path / "token")}, "t2"),
        ({FILE: "", VARIABLE: "t1"}, "t1"),
    ):
        assert Management.at("http://h", environ=environ).read_login() == ("", secret)
        assert Management.at("http://u:p@h", environ=environ).read_login() == ("u", "p")
        assert find_login(parse_address("amqp://h", ("amqp",), ""), environ) == ("", secret)
        assert find_login(parse_address("amqp://u:p@h", ("amqp",), ""), environ) is None
    assert find_login(parse_address("amqp://h", ("amqp",), ""), LOGIN) == ("ann", "p")
    assert find_login(parse_address("amqp://h", ("amqp",), ""), {USER: "ann"}) is None
    with pytest.raises(InputError, match=f"{VARIABLE} and {FILE} are both set"):
        find_token({VARIABLE: "t", FILE: "t"})


def test_a_file_is_read_again_for_each_request_and_its_token_is_a_bearer(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    with answering(200, "{}") as (address, got):
        management = Management.at(f"http://{address}", environ={FILE: str(file)})
        management.request("GET", "/api/overview")
        file.write_text("second")
        management.request("GET", "/api/overview")
    assert [header for _, header in got] == ["Bearer first", "Bearer second"]


def test_what_is_wrong_with_a_token_is_said_with_its_variable_and_never_the_token(tmp_path: Path) -> None:
    expired = make_unsigned(-5)
    file = tmp_path / "token"
    file.write_text(expired)
    for environ, text in (
        ({FILE: str(file)}, rf"{FILE}: the access token expired at 20.*Z, and no newer one is there \({file}\)"),
        ({VARIABLE: expired}, rf"{VARIABLE}: the access token expired at 20"),
        ({VARIABLE: "two words"}, rf"{VARIABLE}: the token is empty, or has spaces"),
        ({FILE: str(tmp_path / "none")}, rf"{FILE}: the file {tmp_path}/none cannot be read: No such file"),
        ({FILE: str(tmp_path)}, rf"{FILE}: the file .* cannot be read"),
    ):
        token = find_token(environ)
        assert token is not None
        with pytest.raises(InputError, match=text) as caught:
            token.read()
        for shown in (str(caught.value), repr(token), repr(Management.at("http://h", environ=environ))):
            assert expired not in shown
            assert "two words" not in shown


def test_a_refused_token_is_told_from_a_refused_password() -> None:
    for reason, words in (
        ("Not_Authorized", f"the user of the access token in {VARIABLE} is refused (Not_Authorized): the broker's log"),
        ("Not administrator user", "(Not administrator user): the scope RESOURCE_SERVER.tag:administrator"),
    ):
        with answering(401, f'{{"reason": "{reason}"}}') as (address, _):
            management = Management.at(f"http://{address}", environ={VARIABLE: "s3cret-token"})
            with pytest.raises(InputError, match=re.escape(words)) as caught:
                management.version()
        assert "s3cret" not in str(caught.value)
