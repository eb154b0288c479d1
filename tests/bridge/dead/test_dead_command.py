"""``hashstar dead`` at archives: its forms, its options, its errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bridge.cli import hashstar
from bridge.dead import columns, conventions
from bridge.dead.forms import to_html
from bridge.dead.groups import Grouping
from bridge.dead.reading import Read
from bridge.dead.report import build_report
from exchange import Message
from exchange.values.field_json import encode_message
from tests.bridge.dead.test_grouping import group, rejected
from tests.support.schemas import closed

SHOP = """\
exchange orders: topic
exchange dlx: fanout
queue jobs: x-dead-letter-exchange = "dlx"
queue held
orders -> jobs: "order.#"
dlx -> held
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    read = [
        rejected(f"order.{number}.{'eu' if number % 3 else 'us'}", number, tenant=f"t{number % 2}")
        for number in range(30)
    ]
    lines = [json.dumps(encode_message(each)) for each in (*read, Message("audit", "lost.and.found"))]
    path = tmp_path / "dead.jsonl"
    path.write_text("\n".join([*lines, "no JSON", ""]))
    (tmp_path / "shop.bindings").write_text(SHOP)
    return path


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(hashstar, ["dead", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_the_text_has_each_group_with_its_reason_and_what_would_become_of_it(archive: Path) -> None:
    text = run(archive, "-t", archive.parent / "shop.bindings").stdout
    assert text.startswith(
        f"{archive}: 31 dead letters in 3 groups\nnot read: 1 bad record; skipped as no messages: 0\n"
    )
    assert "       20  rejected in 'jobs'  (RabbitMQ)\n" in text
    assert "published to exchange 'orders' with the key 'order.*.eu'" in text
    assert "why: a consumer rejected it" in text
    assert "now: 20: rejected again in 'jobs': to held" in text
    assert "no header says why it died\n" in text
    assert "now: 1: not routed: its headers name no exchange of a topology" in text


def test_nothing_is_claimed_of_a_dead_letter_whose_headers_do_not_say_how_it_was_published(archive: Path) -> None:
    deaths = rejected("order.eu").headers["x-death"]
    unknown: tuple[dict[str, Any], ...] = (
        {"x-death": "text"}, {"x-death": []}, {"x-exception-message": "no"}, {"CC": ["jobs"], "x-death": []},
    )  # fmt: skip
    given = [*unknown, {"x-exception-message": "no", "x-death": deaths}]
    lines = [json.dumps(encode_message(Message("dlx", "k", headers))) for headers in given]
    archive.write_text("\n".join([*lines, ""]))
    shop = archive.parent / "shop.bindings"
    text = run(archive, "-t", shop).stdout
    assert "default exchange" not in text
    assert "lost" not in text
    assert "its headers do not say how it was published; the dead letter has the key 'k'" in text
    assert "published to exchange 'orders' with the key 'order.eu'" in text
    report = json.loads(run(archive, "-t", shop, "--json").stdout)
    closed("dead").validate(report)
    goes = [(each["count"], each["exchange"], end["goes"], end["dies_again"])
            for each in report["groups"] for end in each["endings"]]  # fmt: skip
    assert sorted(goes, key=str) == [(1, "orders", ["jobs"], None), (1, None, None, None), (3, None, None, None)]


def test_the_json_is_that_of_the_schema(archive: Path) -> None:
    for arguments in ((), ("-t", str(archive.parent / "shop.bindings"))):
        report = json.loads(run(archive, "--json", *arguments).stdout)
        closed("dead").validate(report)
        assert (report["looked_at"], report["selected"], report["bad"], report["not_looked_at"]) == (31, 31, 1, 0)
        first = report["groups"][0]
        assert (first["count"], first["key"], first["reason"]) == (20, "order.*.eu", "rejected")
        assert re.fullmatch(r"order\.[0-9]+\.eu", first["example"]["routing_key"])


def test_a_selector_and_a_limit_bound_what_is_grouped(archive: Path) -> None:
    some: dict[str, Any] = json.loads(run(archive, "--where", "tenant = 't1'", "--json").stdout)
    assert (some["looked_at"], some["selected"]) == (31, 15)
    few: dict[str, Any] = json.loads(run(archive, "--limit", "4", "--json").stdout)
    assert (few["looked_at"], few["not_looked_at"], sum(each["count"] for each in few["groups"])) == (4, None, 4)
    assert "what is behind --limit was not looked at" in run(archive, "--limit", "4").stdout


def test_a_page_shows_hostile_names_as_text(archive: Path) -> None:
    out = archive.parent / "dead.html"
    run(archive, "-o", out)
    assert out.read_text().startswith("<!doctype html>")
    hostile = group([[rejected("<script>alert(1)</script>\x1b[31m")]])
    page = to_html(build_report("<b>", hostile, None, Read()))
    assert "<script>" not in page
    assert "<b>:" not in page
    assert "\x1b" not in page


def test_wrong_sources_and_options_are_errors_with_a_way_out(archive: Path) -> None:
    login = archive.parent / "login.toml"
    login.write_text('user = "ann"\ntopic = "t"\n')
    named = archive.parent / "named.toml"
    named.write_text('user = "ann"\n')
    for arguments, words in (
        (("amqp://h",), "--queue is for amqp://, and needed there"),
        ((archive, "--queue", "q"), "--queue is for amqp://"),
        (("kafka://h:9092",), "write kafka://HOST:PORT/TOPIC"),
        (("rocketmq://h/t?x=1",), "write rocketmq://HOST:PORT/TOPIC"),
        ((archive, "--where", "a ="), "a ="),
        ((archive.parent / "gone",), "no such file"),
        ((archive, "--replay", "queue"), "--ledger FILE is for --replay and --undo, and needed there"),
        ((archive, "--ledger", "l"), "--ledger FILE is for --replay and --undo"),
        ((archive, "--rate", "5"), "--rate and --edit are for --replay"),
        ((archive, "--undo", "--replay", "queue", "--ledger", "l"), "give one of them"),
        ((archive, "--undo", "--ledger", "l"), "--replay is for queues of RabbitMQ and topics"),
        ((archive, "--dry-run"), "--dry-run and --target are for --replay"),
        (("kafka://h/t", "--undo", "--ledger", "l"), "--undo is for queues of RabbitMQ"),
        (("kafka://h/t", "--replay", "queue", "--ledger", "l"), "--replay queue of a topic needs --target amqp://"),
        (
            ("kafka://h/t", "--replay", "topic", "--ledger", "l", "--target", "rocketmq://h"),
            "writes to the system of SOURCE",
        ),
        (
            ("amqp://h", "--queue", "q", "--replay", "topic", "--ledger", "l"),
            "--replay topic and --target are for topics",
        ),
        ((archive, "-t", archive.parent / "gone.bindings"), "gone.bindings"),
        (("kafka://h/t", "--login", archive.parent / "gone.toml"), "gone.toml: cannot be read"),
        (("kafka://h/t", "--login", login), "login.toml:2: topic: is not known here"),
        (("rocketmq://h/t", "--login", login), "login.toml:1: user: is not known here; known: access_key"),
        (("kafka://ann:x@h/t", "--login", named), "user: is given twice, here and in url"),
    ):
        assert words in run(*arguments, code=2).stderr, arguments


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    result = run("amqp://user:secret@127.0.0.1:1", "--queue", "q", code=2)
    assert "secret" not in result.output


def test_where_there_is_nothing_no_dead_letter_is_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.jsonl").touch()
    for name in ("folder", "file.jsonl"):
        report = json.loads(run(tmp_path / name, "--json").stdout)
        assert (report["looked_at"], report["groups"]) == (0, [])
        assert report["notes"] == ["there is nothing in it, or nothing but empty files"]


def test_a_report_of_nothing_is_a_report() -> None:
    report = build_report("q", Grouping(), None, Read(left=5, notes=["n"]))
    assert (report.selected, report.groups, report.not_looked_at) == (0, (), 5)


def test_all_headers_that_decide_are_read() -> None:
    assert {*columns.TRIES, *columns.ERRORS, *columns.KEYS} <= {*conventions.HEADERS}
