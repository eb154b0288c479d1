"""Access tokens: what servers answer, what is kept and for how long, and that nothing secret is ever shown."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.access_token import read_life
from bindings.sources.address import Address, parse_address
from bridge import oauth
from bridge.endpoint import Disconnected, Endpoint, Finding
from bridge.endpoints import build_caller_target, build_dead_letter_target, build_source, build_target
from bridge.mistakes import ConfigWarning
from bridge.oauth import TokenError, read_tokens
from bridge.pump.policy import Policy
from bridge.table import Table
from bridge.tokens import BACKOFF, READ_EVERY, RENEWED_AT, UNKNOWN_LIFE, AccessToken, Tokens
from exchange.errors import InputError
from exchange.limits import TOKEN_BYTES
from tests.support.bridge.oauth import CLIENT, SECRET, Answer, Asked, authorization_server, grant, make_unsigned
from tests.support.cases import with_each
from tests.support.tiers import examples
from tests.support.unique import free_port
from tests.support.waiting import wait_until

GIVEN = "a-token.that-must-not.be-seen"
ADDRESS = parse_address("amqp://127.0.0.1", ("amqp",), "")
LOGIN = ("user", "password")


def read(folder: Path, url: str, *lines: str, secret: str = SECRET) -> Tokens:
    """Read the table of a file with such a server."""
    own = [f'token_url = "{url}"', f'client_id = "{CLIENT}"', 'client_secret = { env = "SECRET" }', *lines]
    (folder / "bridge.toml").write_text("\n".join(["[sources.a.oauth]", *own]))
    values = {"token_url": url, "client_id": CLIENT, "client_secret": {"env": "SECRET"}}
    for line in lines:
        key, _, value = line.partition(" = ")
        values[key] = value.strip('"')
    table = Table({"oauth": values}, str(folder / "bridge.toml"), "sources.a", {"SECRET": secret})
    tokens = read_tokens(table, ADDRESS, LOGIN)
    assert tokens is not None
    return tokens


def find(folder: Path, url: str, *lines: str) -> Finding:
    """Return the finding about such a server, whose answer has no token."""
    with pytest.raises(TokenError) as caught:
        read(folder, url, *lines).current()
    found = Finding.from_error(caught.value, "url")
    assert str(caught.value) == f"{found.key}: {found.text}"
    for text in (str(caught.value), repr(caught.value), repr(found)):
        for secret in (SECRET, GIVEN, "s3cret"):
            assert secret not in text
    return found


def answer(status: int, body: Any) -> Callable[[Asked], Answer]:
    return lambda _: (status, body if isinstance(body, bytes) else json.dumps(body))


# What is asked.


def test_a_server_is_asked_with_client_and_secret_in_a_header_or_in_the_body(tmp_path: Path) -> None:
    with authorization_server(grant(lambda: GIVEN, 60)) as server:
        assert read(tmp_path, server.url, 'scope = "a b"', 'audience = "rabbit"').current().text == GIVEN
        assert read(tmp_path, server.url, 'client_auth = "post"').current().text == GIVEN
    basic, post = server.asked
    assert basic.form == {"grant_type": "client_credentials", "scope": "a b", "audience": "rabbit"}
    assert basic.login == (CLIENT, SECRET)
    assert post.form == {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
    assert post.login is None


def test_a_secret_is_read_again_for_each_token(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old")
    with authorization_server(grant(lambda: GIVEN, 60)) as server:
        values = {"token_url": server.url, "client_id": CLIENT, "client_secret": {"file": str(file)}}
        tokens = read_tokens(Table({"oauth": values}, "bridge.toml"), ADDRESS, LOGIN)
        assert tokens is not None
        with pytest.raises(TokenError, match="refuses client"):
            tokens.current()
        file.write_text(SECRET)
        wait_until(lambda: _has(tokens))
        file.unlink()
        tokens.forget(GIVEN)
        with pytest.raises(Disconnected, match=r"client_secret: the file .*secret cannot be read"):
            tokens.current()


def _has(tokens: Tokens) -> bool:
    try:
        return tokens.current().text == GIVEN
    except TokenError:
        return False


# What is answered.

TOKEN = {"access_token": GIVEN, "token_type": "Bearer", "expires_in": 60}


def repeat(asked: Asked) -> Answer:
    """Refuse the client, and repeat its secret, as it is and as it was sent."""
    text = f"not {asked.client[1]} as {quote_plus(asked.client[1])}"
    return 401, json.dumps({"error": "invalid_client", "error_description": text})


WRONG: tuple[tuple[Callable[[Asked], Answer], str, str], ...] = (
    (repeat, "client_secret", "refuses client 'bridge' with this secret (401: invalid_client: not *** as ***)"),
    (answer(400, {"error": "unauthorized_client"}), "client_secret", "(400: unauthorized_client)"),
    (answer(400, {"error": "invalid_scope"}), "scope", "does not give client 'bridge' this scope (400: invalid_scope)"),
    (answer(400, {"error": "invalid_request", "error_description": "\x1b[2J"}), "token_url", "(400: invalid_request)"),
    (answer(401, "<html>"), "client_secret", "with this secret (401)"),
    (answer(404, b"no such page"), "token_url", "gives no token (404): is this its token endpoint?"),
    (answer(302, b""), "token_url", "sends elsewhere (302): write the address of its token endpoint"),
    (answer(503, {"error": [1]}), "token_url", "gives no token (503): is this its token endpoint?"),
    (answer(200, b"<html>hello</html>"), "token_url", "answers with something else than an object of JSON"),
    (answer(200, b"[" * 50_000), "token_url", "answers with something else than an object of JSON"),
    (answer(200, [GIVEN]), "token_url", "answers with something else than an object of JSON"),
    (answer(200, b"\xff\xfe{"), "token_url", "answers with something else than an object of JSON"),
    (answer(200, {"id_token": GIVEN}), "token_url", "answers without an access_token"),
    (answer(200, TOKEN | {"access_token": f"{GIVEN}\r\nX: 1"}), "token_url", "answers without an access_token"),
    (answer(200, TOKEN | {"access_token": f"{GIVEN}\u00e4"}), "token_url", "answers without an access_token"),
    (answer(200, TOKEN | {"token_type": "mac"}), "token_url", "gives tokens of a type that is not Bearer"),
    (answer(200, TOKEN | {"expires_in": 0}), "token_url", "has expired already"),
    (answer(200, b" " * (TOKEN_BYTES + 1)), "token_url", "answers with more than 65,536 bytes"),
)


@with_each("given, key, text", WRONG)
def test_what_is_wrong_with_an_answer_is_said_at_its_key_without_secrets(
    given: Callable[[Asked], Answer], key: str, text: str, tmp_path: Path
) -> None:
    with authorization_server(given) as server:
        found = find(tmp_path, server.url, 'scope = "all"')
    assert found.level == "error"
    assert found.key == f"oauth.{key}"
    assert text in found.text
    assert found.text.startswith("the authorization server at http://127.0.0.1:")


def test_a_server_that_cannot_be_asked_is_told_by_what_is_wrong(tmp_path: Path) -> None:
    assert "nothing listens there" in find(tmp_path, f"http://127.0.0.1:{free_port()}/token").text
    with authorization_server(grant(lambda: GIVEN, 60)) as server:
        assert "answers TLS with plain text" in find(tmp_path, server.url.replace("http", "https")).text


def test_certificates_of_a_server_are_verified_by_the_authorities_of_ca_file(
    tmp_path: Path, certificates: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with authorization_server(grant(lambda: GIVEN, 60), context) as server:
        assert read(tmp_path, server.url, f'ca_file = "{certificates / "ca.pem"}"').current().text == GIVEN
        other = find(tmp_path, server.url, f'ca_file = "{certificates / "other.pem"}"')
        assert other.key == "oauth.ca_file"
        assert "has a certificate that is not trusted" in other.text
        assert find(tmp_path, server.url).key == "oauth.token_url"


def test_a_server_that_hangs_is_given_up_in_time_and_stops_no_one_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "TOKEN_SECONDS", 2.0)
    with authorization_server(grant(lambda: GIVEN, 60)) as server:
        tokens = read(tmp_path, server.url)
        first = tokens.current()
        server.hanging = threading.Event()
        with mock.patch.object(tokens, "_clock", return_value=first.renew_at):
            asking = threading.Thread(target=tokens.current)
            asking.start()
            wait_until(lambda: len(server.asked) == 2)
            assert tokens.current() is first
            assert asking.is_alive()
            asking.join()
        assert "gives no whole answer in 2 s" in str(tokens.trouble)


# What is kept.


@examples(200)
@given(
    st.lists(st.tuples(st.floats(0, 40), st.sampled_from([None, 3.0, 10.0, 100.0, "fails"])), max_size=30), st.data()
)
def test_a_token_is_renewed_before_it_expires_and_a_failure_costs_nothing_while_it_lives(
    steps: list[tuple[float, float | str | None]], data: st.DataObject
) -> None:
    """The oracle keeps all tokens that were ever given, and all times at which it was asked."""
    now, asked, outcome, made = 0.0, list[tuple[float, bool]](), None, dict[str, tuple[float, float]]()

    def fetch() -> tuple[str, float | None]:
        asked.append((now, outcome != "fails"))
        if outcome == "fails":
            raise Disconnected("no")
        text = f"t{len(asked)}"
        life = outcome if isinstance(outcome, float) else None
        made[text] = now, float("inf") if life is None else life
        return text, life

    chance = st.floats(0, 1, exclude_max=True)
    tokens = Tokens(fetch, clock=lambda: now, chance=lambda: data.draw(chance))
    for step in steps:
        wait, outcome = step
        now += wait
        newest = made[[*made][-1]] if made else None
        before = len(asked)
        try:
            token = tokens.current()
        except Disconnected:
            assert newest is None or now >= sum(newest)  # nothing was left to use
            assert len(asked) > before or (now - asked[-1][0] < BACKOFF[1] and not asked[-1][1])
            continue
        at, life = made[token.text]
        assert now < at + life
        assert token.text == [*made][-1]
        if len(asked) > before and newest is not None:  # it was asked: not before it is time
            known = UNKNOWN_LIFE if newest[1] == float("inf") else newest[1]
            assert now >= newest[0] + RENEWED_AT[0] * known
        if newest is not None and now >= newest[0] + RENEWED_AT[1] * min(newest[1], UNKNOWN_LIFE):
            assert len(asked) > before or not asked[-1][1]  # it is time, and only a failure excuses
    failures = [(at, then) for (at, right), (then, _) in pairwise(asked) if not right]
    assert all(then - at >= BACKOFF[0] / 2 for at, then in failures)


def test_a_token_of_others_is_read_again_every_few_seconds(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    tokens = read_tokens(Table({"oauth": {"token": {"file": str(file)}}}, "bridge.toml"), ADDRESS, LOGIN)
    assert tokens is not None
    with mock.patch.object(tokens, "_clock", return_value=100.0) as clock:
        assert tokens.current().text == "first"
        file.write_text("second")
        assert tokens.current().text == "first"
        clock.return_value += READ_EVERY
        assert tokens.current().text == "second"
        file.write_text("two words")
        clock.return_value += READ_EVERY
        assert tokens.current().text == "second"
        assert "has spaces" in str(tokens.trouble)


def test_a_token_of_a_file_that_has_expired_is_an_error_with_the_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(expired := make_unsigned(-5))
    tokens = read_tokens(Table({"oauth": {"token": {"file": str(file)}}}, "bridge.toml"), ADDRESS, LOGIN)
    assert tokens is not None
    with pytest.raises(TokenError, match=r"^oauth\.token: the access token expired at 20.*Z, and no newer") as caught:
        tokens.current()
    assert expired not in str(caught.value)
    file.write_text(newer := make_unsigned(60))
    with mock.patch.object(tokens, "_clock", return_value=float("1e9")):
        assert tokens.current().text == newer


def test_a_refused_token_is_forgotten_and_another_is_not(tmp_path: Path) -> None:
    given = iter("abc")
    tokens = Tokens(lambda: (next(given), 60.0))
    assert tokens.current().text == "a"
    tokens.forget("b")
    assert tokens.current().text == "a"
    tokens.forget("a")
    assert tokens.current().text == "b"


def test_nothing_that_is_logged_or_shown_has_a_token_or_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with authorization_server(grant(lambda: GIVEN, 60)) as server:
        tokens = read(tmp_path, server.url)
        token = tokens.current()
        assert deepcopy(tokens) is tokens
        with pytest.raises(TokenError):
            read(tmp_path, server.url, secret="another").current()  # noqa: S106
        shown = [repr(token), str(token), repr(tokens), f"{vars(tokens)}", f"{tokens._fetch!r}", caplog.text]
    assert caplog.text
    for text in shown:
        for secret in (GIVEN, SECRET, "another"):
            assert secret not in text


def test_the_life_of_a_token_is_in_it_where_its_server_does_not_say(tmp_path: Path) -> None:
    assert read_life("e30.e30.x") is None
    assert read_life("e30.bm9uc2Vuc2U.x") is None
    assert read_life("a.b") is None
    for expires in (10, "10", "60.5", True, [60], 1e300, -1):
        with authorization_server(answer(200, TOKEN | {"expires_in": expires})) as server:
            if expires == -1:
                assert "has expired already" in find(tmp_path, server.url).text
            else:
                token = read(tmp_path, server.url).current()
                assert (token.expires_at < float("inf")) == (expires in (10, "10") and expires is not True)


# The table.

MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"token_url": "https://h/t"}, "client_id: is missing"),
    ({"client_id": "c", "client_secret": "s"}, "token_url: is missing"),
    ({}, 'token_url: is missing; write oauth = { token_url = "https://HOST/PATH", client_id'),
    ({"token_url": "https://h/t", "client_id": "c"}, "client_secret: is missing"),
    ({"token_url": "https://u:p@h/t", "client_id": "c", "client_secret": "s"}, "token_url: must be https://HOST/PATH"),
    ({"token_url": "ftp://h/t", "client_id": "c", "client_secret": "s"}, "token_url: must be https://HOST/PATH"),
    ({"token": "t", "client_id": "c"}, "client_id: is for a server, and there is a token"),
    ({"token": "t", "scopes": "c"}, "scopes: is not known here"),
    ({"token_url": "https://h/t", "client_id": "c", "client_secret": "s", "client_auth": "x"}, "must be one of basic"),
)


@with_each("values, text", MISTAKES)
def test_mistakes_in_the_table_are_said_at_their_keys(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_tokens(Table({"oauth": values}, "bridge.toml", "sources.a"), ADDRESS, LOGIN)
    assert text in str(caught.value)
    assert "[sources.a.oauth]" in str(caught.value)


def test_a_second_login_is_refused() -> None:
    both = {"oauth": {"token": "t"}, "user": "u"}
    with pytest.raises(InputError, match="user: oauth stands for user and password"):
        read_tokens(Table(both, "bridge.toml"), ADDRESS, LOGIN)
    with pytest.raises(InputError, match="url: oauth stands for user and password"):
        read_tokens(Table({"oauth": {"token": "t"}}, "bridge.toml"), Address("amqp", "h", login="u@"), LOGIN)
    assert read_tokens(Table({"user": "u"}, "bridge.toml"), ADDRESS, LOGIN) is None


@pytest.mark.parametrize("url", ["amqp://127.0.0.1", "kafka://127.0.0.1:9092"])
def test_every_endpoint_that_logs_in_with_tokens_has_them_for_the_conditions(url: str) -> None:
    def make(**own: Any) -> Table:
        return Table({"url": url, "oauth": {"token": "t"}, **own}, "bridge.toml")

    is_kafka = url.startswith("kafka")
    where: dict[str, Any] = {"topic": "t", "reply_topics": ["t"]} if is_kafka else {"queue": "t"}
    callers = build_caller_target("a", make(**where))
    assert callers is not None
    endpoints: list[Endpoint] = [
        build_source("a", make(**where), Policy()),
        build_target("a", make(queues={"q": "t"}))[0],
        build_dead_letter_target(make(**{"topic" if is_kafka else "queue": "t"})),
        callers[0],
    ]
    assert [type(each.tokens) for each in endpoints] == [Tokens] * 4
    bare = build_target("a", Table({"url": url, "queues": {"q": "t"}}, "bridge.toml"))[0]
    assert bare.tokens is None


def test_a_secret_that_travels_without_encryption_is_warned_of() -> None:
    for host, warned in (("auth.example", True), ("127.0.0.1:8080", False), ("localhost", False)):
        values = {"token_url": f"http://{host}/t", "client_id": "c", "client_secret": "s"}
        table = Table({"oauth": values}, "bridge.toml")
        assert read_tokens(table, ADDRESS, LOGIN) is not None
        text = "sends the secret, and gets the tokens, without encryption; write https:"
        assert table.warnings == ([ConfigWarning("oauth", "token_url", text)] if warned else [])


def test_tokens_know_when_to_be_asked_again() -> None:
    tokens = Tokens(lambda: ("t", 100.0), clock=lambda: 5.0, chance=lambda: 0.0)
    token = tokens.current()
    assert token == AccessToken("t", 65.0, 105.0)
    assert tokens.find_wait(token) == 60.0
