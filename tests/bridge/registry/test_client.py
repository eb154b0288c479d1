"""What a registry is asked, and what its answers mean: a schema, none, one that cannot be read, or asking again."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.endpoint import Disconnected
from bridge.mistakes import ConfigWarning
from bridge.registry.client import RegistryClient, RegistryError, read_client
from bridge.registry.registry import Registry
from bridge.table import Table
from exchange.errors import InputError
from exchange.limits import SCHEMA_BYTES
from tests.support.bridge.registry import RegistryServer, registry_server
from tests.support.cases import with_each
from tests.support.unique import free_port
from tests.support.virtual_loop import run_virtually

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}
PASSWORD = "pa55:word+"  # noqa: S105  of the test's own server


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        yield running


def client_of(server: RegistryServer, folder: Path = Path(), **more: Any) -> RegistryClient:
    """Return the client of a table in a file."""
    values = {"url": server.url, **more}
    (folder / "bridge.toml").write_text(
        "\n".join(["[registry]", *[f"{key} = {json.dumps(each)}" for key, each in values.items()]])
    )
    return read_client(Table(values, str(folder / "bridge.toml"), "registry"))


def test_schemas_of_avro_and_json_find_fields_behind_the_frame(server: RegistryServer, tmp_path: Path) -> None:
    server.add("/schemas/ids/7", ORDER)
    server.add("/schemas/ids/8", {"type": "object"}, schemaType="JSON")
    server.add("/schemas/guids/0dfb4d3c-0001-4f6d-8000-000000000001", ORDER, schemaType="AVRO")
    client = client_of(server, tmp_path)
    bodies = {
        7: b"\0\0\0\0\x07\x04ab\x02",
        8: b'\0\0\0\0\x08{"id": "ab"}',
    }
    for schema_id, body in bodies.items():
        schema = client.fetch(schema_id)
        assert schema is not None
        assert schema.find is not None
        assert schema.find(5, body, ["id"]) == "ab"
    schema = client.fetch("0dfb4d3c-0001-4f6d-8000-000000000001")
    assert schema is not None
    assert schema.find is not None
    assert schema.find(0, b"\x04ab\x02", ["n"]) == 1


def test_what_a_schema_refers_to_is_asked_for_once(server: RegistryServer, tmp_path: Path) -> None:
    """Both ways lead to the same type: of Confluent's names of subjects, any character may be in one."""
    kind = {"type": "enum", "name": "shop.Kind", "symbols": ["A", "B"]}
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "kind", "type": "Kind"}]}
    to_kind = {"name": "shop.Kind", "subject": "kinds/1", "version": 1}
    order = {
        "type": "record", "name": "Order", "namespace": "shop",
        "fields": [{"name": "kind", "type": "Kind"}, {"name": "line", "type": "Line"}],
    }  # fmt: skip
    server.add("/subjects/kinds%2F1/versions/1?deleted=true", kind)
    server.add("/subjects/lines/versions/3?deleted=true", line, references=[to_kind])
    to_line = {"name": "shop.Line", "subject": "lines", "version": 3}
    server.add("/schemas/ids/1", order, references=[to_line, to_kind])
    schema = client_of(server, tmp_path).fetch(1)
    assert schema is not None
    assert schema.find is not None
    assert schema.find(5, b"\0\0\0\0\1\x02\x00", ["line", "kind"]) == "A"
    assert len(server.asked) == 3
    assert schema.size == sum(len(json.dumps(each)) for each in (kind, line, order))


UNREADABLE: dict[str, dict[str, Any]] = {
    "it is of the type 'PROTOBUF', and those of Avro and JSON are read": {"schema": "syntax", "schemaType": "PROTOBUF"},
    "no schema of Avro": {"schema": '"Other"'},
    "the registry gives no text of it": {"schema": 7},
    "it refers to something that has no subject and version": {"schema": '"int"', "references": [{"subject": "a"}]},
    "it refers to version 2 of 'a', which the registry does not have": {
        "schema": '"int"', "references": [{"subject": "a", "version": 2}],
    },
    "it refers to more than 100 schemas": {
        "schema": '"int"', "references": [{"subject": "b", "version": version} for version in range(101)],
    },
    "nested too deeply": {"schema": "[" * 200 + "]" * 200},
    "JSON": {"schema": "syntax error"},
}  # fmt: skip


@with_each("problem", UNREADABLE)
def test_a_schema_that_cannot_be_read_says_why(problem: str) -> None:
    with registry_server() as server:
        for version in range(101):
            server.add(f"/subjects/b/versions/{version}?deleted=true", "int")
        server.answers["/schemas/ids/1"] = 200, UNREADABLE[problem]
        schema = read_client(Table({"url": server.url}, "bridge.toml")).fetch(1)
        assert schema is not None
        assert schema.find is None
        assert problem in schema.problem or problem == "JSON"


def test_only_the_registry_itself_says_that_there_is_no_schema(server: RegistryServer, tmp_path: Path) -> None:
    """At a wrong address nothing is found either: messages wait then."""
    client = client_of(server, tmp_path)
    assert client.fetch(1) is None
    others: list[tuple[int, Any]] = [
        (404, b""), (404, {"status": 404}), (404, {"error_code": 40499}), (200, []), (200, b"<html>"), (301, b""),
    ]  # fmt: skip
    for answer in others:
        server.otherwise = answer
        with pytest.raises(RegistryError, match=r"answers \d{3} .*: is this the address of Confluent's API\?"):
            client.fetch(1)
    server.otherwise = 500, {"error_code": 50001}
    with pytest.raises(RegistryError, match=r"answers 500 Internal Server Error$"):
        client.fetch(1)
    server.otherwise = 200, b" " * (SCHEMA_BYTES + 1)
    with pytest.raises(RegistryError, match="answers with more than 4,194,304 bytes"):
        client.fetch(1)


def test_a_login_is_sent_and_never_shown(server: RegistryServer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(PASSWORD)
    server.otherwise = 401, {"error_code": 401}
    ways: list[dict[str, Any]] = [
        {"user": "bridge", "password": {"file": str(file)}},
        {"url": server.url.replace("//", "//bridge:pa55%3Aword%2B@")},
    ]
    for way in ways:
        client = read_client(Table({"url": server.url, **way}, "bridge.toml", "registry"))
        with pytest.raises(RegistryError) as caught:
            client.fetch(1)
        assert "does not answer user 'bridge' (401)" in str(caught.value)
        for text in (str(caught.value), repr(caught.value), repr(client)):
            assert "pa55" not in text
        scheme, login = server.headers[-1]["Authorization"].split()
        assert (scheme, b64decode(login).decode()) == ("Basic", f"bridge:{PASSWORD}")


def test_a_token_stands_for_user_and_password(server: RegistryServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a.b.c")
    client = read_client(Table({"url": server.url, "oauth": {"token": {"file": str(file)}}}, "bridge.toml", "registry"))
    client.fetch(1)
    assert server.headers[-1]["Authorization"] == "Bearer a.b.c"
    file.write_text("d.e.f")
    server.otherwise = 401, {}
    with pytest.raises(RegistryError, match=r"does not answer this access token \(401\)"):
        client.fetch(1)
    with pytest.raises(RegistryError):  # one that was refused is not sent again
        client.fetch(1)
    assert server.headers[-1]["Authorization"] == "Bearer d.e.f"


def test_a_finding_names_its_key(server: RegistryServer, tmp_path: Path) -> None:
    client = client_of(server, tmp_path, user="bridge", password=PASSWORD)
    [found] = run_virtually(_check(client))
    assert found == ("ok", "the registry answers, and has schemas of AVRO, JSON", "")
    server.answers["/schemas/types"] = 403, {}
    [found] = run_virtually(_check(client))
    assert (found.level, found.key) == ("error", "password")
    server.answers["/schemas/types"] = 404, b""
    [found] = run_virtually(_check(client))
    assert (found.level, found.key) == ("error", "url")
    assert found.text == f"{server.url} answers 404 Not Found: is this the address of Confluent's API?"
    gone = f"http://127.0.0.1:{free_port()}"
    [found] = run_virtually(_check(read_client(Table({"url": gone}, "bridge.toml", "registry"))))
    assert (found.level, found.key) == ("error", "url")


async def _check(client: RegistryClient) -> Any:
    return await Registry(client).check()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "url: is missing"),
        ({"url": "kafka://a"}, "url: must be https://HOST:PORT/PATH"),
        ({"url": "https://a,b"}, "url: must be https://HOST:PORT/PATH"),
        ({"url": "https://a?x=1"}, "url: must be https://HOST:PORT/PATH"),
        ({"url": "https://a", "password": "x"}, "user: is missing, and there is a password"),
        ({"url": "https://u:p@a", "password": "x"}, "password: is given twice"),
        ({"url": "https://u:p@a", "oauth": {"token": "x"}}, "url: oauth stands for user and password"),
        ({"url": "http://a", "ca_file": "bridge.toml"}, "url: files for TLS are given"),
        ({"url": "https://a", "ca_file": "bridge.toml"}, "ca_file: "),
        ({"url": "https://a", "user_name": "x"}, "user_name: is not known here"),
    ],
)
def test_a_mistake_in_the_table_is_refused(tmp_path: Path, values: dict[str, Any], problem: str) -> None:
    (tmp_path / "bridge.toml").write_text("[registry]")
    with pytest.raises(InputError) as caught:
        read_client(Table(values, str(tmp_path / "bridge.toml"), "registry"))
    assert problem in str(caught.value)


def test_a_login_without_encryption_is_a_warning() -> None:
    table = Table({"url": "http://registry.example", "user": "a", "password": "b"}, "bridge.toml", "registry")
    read_client(table)
    assert table.warnings == [ConfigWarning("registry", "url", "sends the login without encryption; write https:")]
    own = Table({"url": "http://127.0.0.1", "user": "a", "password": "b"}, "bridge.toml", "registry")
    read_client(own)
    assert own.warnings == []


def test_a_secret_that_is_gone_is_waited_for(server: RegistryServer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(PASSWORD)
    client = client_of(server, tmp_path, user="bridge", password=PASSWORD)
    client = read_client(Table({"url": server.url, "user": "b", "password": {"file": str(file)}}, "bridge.toml"))
    file.unlink()
    with pytest.raises(Disconnected, match="cannot be read"):
        client.fetch(1)
