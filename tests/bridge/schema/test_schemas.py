"""Every JSON output has its schema: real commands on real input, checked against schemas that allow no other field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.report.forms.as_json import to_json
from bindings.sources.definitions import Definitions
from bridge.cli import hashstar
from bridge.daemon.probe import encode_report
from bridge.endpoints import SCHEMES, list_keys
from bridge.schema.command import schema_command
from bridge.schema.names import SCHEMAS
from docs.scripts.schemas import FOLDER, TABLES, schema_files
from exchange import PROFILES, InputError
from exchange.values.field_json import READERS, decode_message, encode_message
from exchange.values.json_schema import DIALECT, DRAFT_07, build_schema, describe_fields
from exchange.values.json_types import TYPED
from tests.bindings.archive.rocketmq.test_rocketmq_store_golden import RECORDINGS
from tests.bindings.report.test_forms import compared, odd
from tests.bridge.daemon.test_check import Looking, report
from tests.bridge.daemon.test_web import request, serve
from tests.support import topologies
from tests.support.archives.rocketmq_files import recorded_store
from tests.support.bindings.reports import hand_made
from tests.support.bridge.behaviour import on_a_loop
from tests.support.documented import words_of
from tests.support.git import make_repository
from tests.support.pages import ROOT
from tests.support.program import invoke
from tests.support.schemas import build, closed, validator, validator_class
from tests.support.tiers import examples

ORDERS = str(ROOT / "examples/orders/orders.bindings")
TRAFFIC = str(ROOT / "examples/orders/traffic.jsonl")


def check(name: str, value: Any) -> None:
    """Check an output against its schema, without any field that the schema lacks."""
    errors = [f"{each.json_path}: {each.message[:200]}" for each in closed(name).iter_errors(value)]
    assert errors == []
    assert validator(name).is_valid(value)


# The schemas themselves.


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_valid_and_has_its_version(name: str) -> None:
    schema = build(name)
    validator_class(schema["$schema"]).check_schema(schema)
    assert schema["$schema"] in (DIALECT, DRAFT_07)
    assert schema["$id"] == f"urn:hashstar:schema:{name}:1"
    assert schema["title"] == SCHEMAS[name].about


def test_the_files_of_the_documentation_are_up_to_date() -> None:
    files = dict(schema_files())
    stale = [path.name for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    assert stale == [], "run python -m docs.scripts.schemas"
    assert {*FOLDER.iterdir()} == files.keys()


def test_the_keys_of_each_system_are_in_a_page() -> None:
    """A new system has a row in `TABLES`: else no page would be written from its keys, and none would be missed."""
    shared = {*TABLES["bridge-configuration.md"]["A source: every kind"].names}
    written = [{*keys.names} for tables in TABLES.values() for keys in tables.values()]
    for folder in dict.fromkeys(SCHEMES.values()):
        assert {*list_keys(folder, "SOURCE").names} in [shared | names for names in written], folder
        assert {*list_keys(folder, "TARGET").names} in written, folder


def test_the_command_lists_schemas_and_prints_one() -> None:
    listed = invoke("schema")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == list(SCHEMAS)
    printed = invoke("schema", "audit")
    assert printed.exit_code == 0
    assert printed.stdout == (FOLDER / "audit.json").read_text("utf-8")


def test_names_of_schemas_are_completed() -> None:
    command = schema_command.make_context("schema", [])
    [name] = [each for each in schema_command.params if each.name == "name"]
    assert [item.value for item in name.shell_complete(command, "archive-")] == ["archive-inspect", "archive-line"]


def test_an_unknown_schema_is_refused_with_a_way_out() -> None:
    done = invoke("schema", "brdge")
    assert (done.exit_code, done.stderr) == (2, "hashstar: there is no schema 'brdge'; did you mean 'bridge'?\n")
    assert "; known: bridge, hashstar, message" in invoke("schema", "\x1b[31m").stderr


def commands_with_json(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the commands that have an option for JSON."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands_with_json(below, (*path, name))
    elif any(
        "--json" in option.opts or (isinstance(option.type, click.Choice) and "json" in option.type.choices)
        for option in command.params
    ):
        yield " ".join(path)


def test_every_command_that_writes_json_has_a_schema() -> None:
    """`audit` stands for its commands, which write the same."""
    named = [schema.about for schema in SCHEMAS.values()]
    for command in commands_with_json(hashstar, ("hashstar",)):
        wanted = "hashstar audit" if command.startswith("hashstar audit ") else command
        assert any(wanted in about for about in named), command


def test_outputs_may_get_fields_and_lose_none() -> None:
    """A document of a later release, with more fields, is valid; one that lacks a field is not."""
    value = to_json(hand_made())
    assert validator("audit").is_valid({**value, "later": 1})
    for field in value:
        assert not validator("audit").is_valid({name: each for name, each in value.items() if name != field})


def test_every_field_of_the_json_of_audits_and_archives_is_documented() -> None:
    for page, name in (("audit-json.md", "audit"), ("inspect-json.md", "archive-inspect")):
        schema = build(name)
        types = [schema, *[each for kind, each in schema["$defs"].items() if kind not in ELSEWHERE]]
        fields = {field for each in types for field in each.get("properties", ())}
        assert fields - words_of(page) == set()


ELSEWHERE = ("MessageJson", "Field", "Body")
"""Types that are described in docs/explain.md."""


def test_types_with_no_json_have_no_schema() -> None:
    with pytest.raises(TypeError, match="has no JSON Schema"):
        build_schema([bytes], "x", "x")


def test_fields_of_an_output_are_described_by_their_docstrings() -> None:
    from exchange.routing.explain_json import MatchJson

    about = describe_fields(MatchJson)
    assert about["outcome"] == "What happens at its destination."
    assert about["destination_type"] == "`queue` or `exchange`."  # of its base, in another module


# Words that are in two places, because mypy reads types and the program reads values.


def test_names_of_enumerations_are_those_of_the_code() -> None:
    assert TYPED.keys() == READERS.keys()


# Messages.


@given(st.integers(0, 2**32))
def test_messages_that_are_written_and_read_are_valid(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, rng.choice([*PROFILES.values()]))
    written = encode_message(topologies.message(rng, topology))
    assert [each.message for each in validator("message").iter_errors(written)] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.sampled_from(["", "a", "1.5", "aGk="]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", *READERS, "!x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@examples(300)
@given(st.dictionaries(st.sampled_from(["exchange", "routing_key", "headers", "properties", "body", "more"]), JSON))
def test_what_is_read_as_a_message_is_valid(value: dict[str, Any]) -> None:
    """The reverse does not hold: lengths in bytes, integers beyond 64 bits and base64 are left to the reader."""
    try:
        decode_message(value)
    except InputError:
        return
    assert [each.message for each in validator("message").iter_errors(value)] == []


@pytest.mark.parametrize(
    "value",
    [
        {"exchange": 1}, {"routing_key": None}, {"headers": []}, {"headers": {"a": {"!shrt": 1}}}, {"body": 1},
        {"headers": {"a": {"!short": 40_000}}}, {"headers": {"a": {"!bool": 1}}}, {"body": {"!long": 1}},
        {"headers": {"a": [{"!decimal": "x"}]}}, {"properties": 3}, {"exchange": "x" * 256}, [], "a",
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(value: Any) -> None:
    assert not validator("message").is_valid(value)
    with pytest.raises(InputError):
        decode_message(value)


# Outputs of commands, on random topologies.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schemas")


def lines(output: str) -> Iterator[Any]:
    for line in output.splitlines():
        yield json.loads(line)


@examples(15)
@given(st.integers(0, 2**32))
def test_routing_a_random_topology(folder: Path, seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, PROFILES["rabbitmq-4.3"])
    other = topologies.topology(Random(seed + 1), PROFILES["rabbitmq-4.3"])
    before, after = folder / "before.json", folder / "after.json"
    for path, each in ((before, topology), (after, other)):
        path.write_text(Definitions().with_vhosts(["/"]).with_topology(each).dump(), "utf-8")
    messages = [topologies.message(rng, topology) for _ in range(5)]
    text = "".join([json.dumps(encode_message(message)) + "\n" for message in messages])
    for line in lines(invoke("route", "--skip-bad", "-t", before, given=text).stdout):
        check("route", line)
    for message in messages:
        queue = rng.choice([*topology.queues, "none"])
        answer = invoke(
            "explain", "-t", before, "--json", "--queue", queue, "--", message.exchange, message.routing_key
        )
        if answer.exit_code == 0:
            check("explain", json.loads(answer.stdout))
    found = invoke("check", "--format", "json", "--select", "HS,HS205", before)
    check("check", json.loads(found.stdout))
    found = invoke("check", "--format", "json", "--statistics", before, after, folder / "none.json")
    check("check", json.loads(found.stdout))
    changed = invoke("diff", "--json", "--wait", "0.3", before, after)
    check("diff", json.loads(changed.stdout))


def test_routes_with_everything_that_a_line_can_have(tmp_path: Path) -> None:
    topology = tmp_path / "t.bindings"
    topology.write_text(
        'exchange a: topic\nexchange b: x-unknown\nqueue q: partitioned kafka.murmur2 over 4 by header "t"\n'
        'a -> q: "#"\na -> exchange b: "u"\nb -> q: "x"\n'
    )
    text = '{"exchange": "a", "routing_key": "u"}\n{"exchange": "none", "routing_key": "u"}\n{\n'
    answers = list(lines(invoke("route", "--skip-bad", "-t", topology, given=text).stdout))
    assert [{*answer} for answer in answers] == [
        {"exchange", "routing_key", "queues", "unroutable", "undecided", "partitions"}, {"error"}, {"error"},
    ]  # fmt: skip
    for answer in answers:
        check("route", answer)
    explained = json.loads(invoke("explain", "-t", topology, "--json", "-H", 'CC=["x"]', "a", "u").stdout)
    assert explained["placements"]
    assert explained["copied_to"]
    check("explain", explained)


def test_partitions_and_what_moves() -> None:
    keys = "".join([json.dumps({"key": key}) + "\n" for key in ("a", "b", "a", None)])
    for line in lines(invoke("partition", "-p", "kafka.murmur2", "-n", 4, given=keys).stdout):
        assert validator("partition").is_valid(line)  # other fields of the line are kept
        check("partition", {name: value for name, value in line.items() if name != "key"})
    moved = invoke("partition", "-p", "kafka.murmur2", "-n", 4, "--change", 5, "--json", given=keys)
    check("partition-moves", json.loads(moved.stdout))
    nothing = invoke("partition", "-p", "kafka.murmur2", "-n", 4, "--change", 5, "--json", given="")
    check("partition-moves", json.loads(nothing.stdout))


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "price > 10 AND region = 'eu'"), ("check", "a = 1 b", "--exact"), ("check", "a = 1 AND a = 2"),
        ("check", "--tags", "a || b"), ("check", "--tags", "*"),
    ],
)  # fmt: skip
def test_selectors_that_are_checked(arguments: tuple[str, ...]) -> None:
    check("selector-check", json.loads(invoke("selector", *arguments, "--json").stdout))


@pytest.mark.parametrize(
    "arguments",
    [
        ("price > 10 AND NOT (a = 1 OR b IS NULL)", "-P", "price=9.99"), ("a = 1", "-P", "a=1"),
        ("--tags", "a || b", "-P", "TAGS=a"), ("--tags", "a"),
    ],
)  # fmt: skip
def test_selectors_that_are_evaluated(arguments: tuple[str, ...]) -> None:
    check("selector-match", json.loads(invoke("selector", "match", *arguments, "--json").stdout))


def test_a_difference_with_messages(tmp_path: Path) -> None:
    other = tmp_path / "other.bindings"
    other.write_text(Path(ORDERS).read_text("utf-8").replace("order.*.created", "order.*.made"), "utf-8")
    value = json.loads(invoke("diff", "--json", "--messages", TRAFFIC, ORDERS, other).stdout)
    assert value["messages"]["moves"]
    check("diff", value)


def test_files_compared_with_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(ORDERS).read_text("utf-8")
    make_repository(tmp_path, {"a.bindings": text, "b.bindings": text, "c.bindings": text})
    (tmp_path / "a.bindings").write_text(text.replace("order.*.created", "order.*.made"), "utf-8")
    (tmp_path / "b.bindings").write_text("queue", "utf-8")
    (tmp_path / "c.bindings").unlink()
    (tmp_path / "d.bindings").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    value = json.loads(invoke("diff", "--json", "--against", "main").stdout)
    assert {file["state"] for file in value["files"]} >= {"changed", "gone", "new"}
    assert any(file["error"] for file in value["files"])
    check("diff", value)


def test_findings_compared_with_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text('exchange e: topic\nqueue q\ne -> q: "a"\ne -> q: "#"\n')
    baseline = tmp_path / "baseline.json"
    assert invoke("check", "--baseline", baseline, "--write-baseline", tmp_path / "t.bindings").exit_code == 0
    (tmp_path / "t.bindings").write_text("exchange e: topic\nqueue q\n")
    value = json.loads(invoke("check", "--format", "json", "--baseline", baseline, tmp_path / "t.bindings").stdout)
    assert value["baseline"]["gone"]
    check("check", value)


# Archives and audits.


def test_an_archive_and_its_lines(tmp_path: Path) -> None:
    check("archive-inspect", json.loads(invoke("archive", "inspect", "--json", TRAFFIC).stdout))
    (tmp_path / "bad.jsonl").write_text(Path(TRAFFIC).read_text("utf-8") + "{\n", "utf-8")
    inspected = json.loads(invoke("archive", "inspect", "--json", tmp_path / "bad.jsonl").stdout)
    assert inspected["bad"]
    check("archive-inspect", inspected)
    assert invoke("archive", "convert", TRAFFIC, tmp_path / "out.jsonl").exit_code == 0
    for line in lines((tmp_path / "out.jsonl").read_text("utf-8")):
        check("archive-line", line)
        assert validator("message").is_valid(line)


@pytest.mark.parametrize("name", RECORDINGS)
def test_stores_of_rocketmq(tmp_path: Path, name: str) -> None:
    store = recorded_store(name, tmp_path)
    inspected = json.loads(invoke("archive", "inspect", "--json", store).stdout)
    check("archive-inspect", inspected)
    topic = max(inspected["topics"], key=lambda each: each["messages"])["topic"]
    check("archive-inspect", json.loads(invoke("archive", "inspect", "--json", "--topic", topic, store).stdout))
    for option in ("--key", "--message-id"):
        asked = invoke("archive", "inspect", "--json", option, "7F000001000078BF0000000000000000", store)
        if asked.exit_code in (0, 1) and asked.stdout:
            check("archive-inspect", json.loads(asked.stdout))


def test_an_audit_with_everything(tmp_path: Path) -> None:
    other = tmp_path / "other.bindings"
    other.write_text(Path(ORDERS).read_text("utf-8").replace("order.*.created", "order.*.made"), "utf-8")
    settings_file = tmp_path / "hashstar.toml"
    settings_file.write_text(
        '[audit]\nfail_under = 99\nmax_bad = 0\n[audit.exchanges."*"]\nfail_under = 50\n'
        '[[audit.ignore]]\nsource = "*"\npattern = "order.*.refunded"\nreason = "r"\nuntil = 2099-01-01\n'
    )
    done = invoke(
        "audit", "-t", ORDERS, "--no-spark", "--format", "json", "--verify", "--compare", other, "--settings",
        settings_file, TRAFFIC,
    )  # fmt: skip
    value = json.loads(done.stdout)
    assert value["comparison"]
    assert value["gates"]
    assert value["ignored"]
    check("audit", value)


def test_reports_of_every_kind() -> None:
    for made in (hand_made(), odd(), *[compared(Random(seed)) for seed in range(5)]):
        check("audit", json.loads(json.dumps(to_json(made))))


# The bridge.


def test_the_check_of_a_bridge(tmp_path: Path) -> None:
    check("bridge-check", encode_report(report(tmp_path, Looking("a", []), Looking("b", OSError("x")))))
    (tmp_path / "t.bindings").write_text('exchange e: topic\nqueue q\ne -> q: "#"\n')
    (tmp_path / "bridge.toml").write_text(
        'topology = "t.bindings"\n[sources.in]\nurl = "archive:in"\n[targets.out]\nurl = "archive:out"\n'
        'queues = ["q"]\n'
    )
    for options in ((), ("--offline",)):
        done = invoke("bridge", "check", "--json", *options, tmp_path / "bridge.toml")
        check("bridge-check", json.loads(done.stdout))


@on_a_loop
async def test_the_status_of_a_bridge() -> None:
    web, *_, address = serve()
    try:
        check("bridge-status", json.loads((await request(address, "/status"))[2]))
        done = await asyncio.to_thread(invoke, "bridge", "status", "--json", address)
        check("bridge-workers", json.loads(done.stdout))
    finally:
        web.stop()
