"""No claim over what was not read: every reader carries what it left out, and every command looks."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.forms import FORMS
from bindings.checking.rules.table import ABSENCES
from bindings.checking.source import check_source
from bindings.diffing.against import FileDiff, VhostDiff
from bindings.diffing.diff import diff
from bindings.diffing.forms.markdown import to_markdown
from bindings.diffing.forms.text import to_text
from bindings.drawing.forms import FORMS as GRAPH_FORMS
from bindings.mcp.tools import Tools
from bindings.serve.explorer import Explorer
from bindings.serve.watching import WatchedSource
from bindings.sources.open import Source, open_source, read_source
from bindings.upgrading.run import upgrade
from bridge.cli import hashstar
from bridge.daemon.config import read_config
from bridge.dead.forms import FORMS as DEAD_FORMS
from exchange import Binding, Exchange, InputError, Message, Policy, Queue, Router, Topology
from exchange.commands.completion import SOURCE
from exchange.lifecycle.forms import FORMS as EXPLAIN_FORMS
from exchange.topology.unread import find_unread
from tests.recorders.rabbitmq_management import FILE, VHOST
from tests.support.program import run_program
from tests.support.recorded_management import RECORDINGS, recorded_broker
from tests.support.tiers import examples, some

NAMES = ("a", "b", "c")
KEYS = ("x", "x.y", "z")
RABBIT = "rabbitmq.com/v1beta1"


def topologies() -> st.SearchStrategy[Topology]:
    """Draw what every format can hold: durable exchanges, queues, and bindings of queues."""
    subsets = st.sets(st.sampled_from(NAMES), min_size=1)
    keys = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(KEYS)), max_size=4)
    return st.builds(
        lambda exchanges, queues, bindings: Topology(
            [Exchange(name, "topic") for name in sorted(exchanges)],
            [Queue(name) for name in sorted(queues)],
            [Binding.to_queue(e, q, key) for e, q, key in bindings if e in exchanges and q in queues],
        ),
        subsets,
        subsets,
        keys,
    )


def own(topology: Topology) -> list[Exchange]:
    return [each for name, each in topology.exchanges.items() if name in NAMES]


def operator(topology: Topology) -> Any:
    items = [
        *({"kind": "Exchange", "spec": {"name": each.name, "type": "topic", "durable": True}}
          for each in own(topology)),
        *({"kind": "Queue", "spec": {"name": name, "durable": True}} for name in topology.queues),
        *(
            {
                "kind": "Binding",
                "spec": {
                    "source": each.source,
                    "destination": each.destination.name,
                    "destinationType": "queue",
                    "routingKey": each.routing_key,
                },
            }
            for each in topology.bindings
        ),
    ]  # fmt: skip
    return {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": RABBIT, **each} for each in items]}


def terraform(topology: Topology) -> Any:
    values = [
        *(("rabbitmq_exchange", {"name": each.name, "vhost": "/", "settings": [{"type": each.type, "durable": True}]})
          for each in own(topology)),
        *(("rabbitmq_queue", {"name": name, "vhost": "/", "settings": [{"durable": True}]})
          for name in topology.queues),
        *(("rabbitmq_binding", {"source": each.source, "vhost": "/", "destination": each.destination.name,
                                "destination_type": "queue", "routing_key": each.routing_key})
          for each in topology.bindings),
    ]  # fmt: skip
    resources = [
        {"mode": "managed", "type": kind, "address": f"{kind}.r{at}", "values": each}
        for at, (kind, each) in enumerate(values)
    ]
    root = {"root_module": {"resources": resources}}
    return {"format_version": "1.2", "terraform_version": "1.11.4", "planned_values": root, "resource_changes": []}


def asyncapi(topology: Topology) -> Any:
    channels: dict[str, Any] = {
        f"queue-{name}": {"address": name, "bindings": {"amqp": {"is": "queue", "queue": {"name": name}}}}
        for name in topology.queues
    }
    for each in own(topology):
        exchange = {"name": each.name, "type": each.type}
        channels[f"exchange-{each.name}"] = {"bindings": {"amqp": {"is": "routingKey", "exchange": exchange}}}
    for at, binding in enumerate(topology.bindings):
        exchange = {"name": binding.source, "type": "topic"}
        amqp = {"is": "routingKey", "exchange": exchange, "queue": {"name": binding.destination.name}}
        channels[f"binding-{at}"] = {"address": binding.routing_key, "bindings": {"amqp": amqp}}
    return {"asyncapi": "3.0.0", "channels": channels}


def definitions(topology: Topology) -> Any:
    return {
        "rabbitmq_version": "4.2.1",
        "vhosts": [{"name": "/"}],
        "exchanges": [{"name": each.name, "vhost": "/", "type": each.type, "durable": True} for each in own(topology)],
        "queues": [{"name": name, "vhost": "/"} for name in topology.queues],
        "bindings": [
            {"source": each.source, "vhost": "/", "destination": each.destination.name, "destination_type": "queue",
             "routing_key": each.routing_key, "arguments": {}}
            for each in topology.bindings
        ],
    }  # fmt: skip


Insert = Callable[[Any, int], None]


def resources(plan: Any) -> list[Any]:
    found: list[Any] = plan["planned_values"]["root_module"]["resources"]
    return found


def drawn(items: list[Any], at: int) -> Any:
    return items[at % len(items)]


def add_unknown_after(plan: Any, at: int) -> None:
    """Make an argument of a resource one that only the broker or another resource will give."""
    change = {"after_unknown": {"id": True, "settings": [{"arguments": True}]}}
    plan["resource_changes"].append({"address": drawn(resources(plan), at)["address"], "change": change})


def channel_fields(document: Any, at: int) -> Any:
    amqp = drawn(list(document["channels"].values()), at)["bindings"]["amqp"]
    return amqp["queue"] if "queue" in amqp else amqp["exchange"]


def add_channel(document: Any, channel: Any) -> None:
    document["channels"]["inserted"] = channel


INSERTIONS: dict[str, tuple[Callable[[Topology], Any], Insert]] = {
    "operator, a super stream": (operator, lambda d, at: d["items"].insert(
        at % len(d["items"]), {"apiVersion": RABBIT, "kind": "SuperStream", "spec": {"name": "s", "partitions": 3}})),
    "operator, an unknown kind": (operator, lambda d, at: d["items"].insert(
        at % len(d["items"]), {"apiVersion": RABBIT, "kind": "Ring", "spec": {}})),
    "operator, an unknown field": (operator, lambda d, at: drawn(d["items"], at)["spec"].update(shape="round")),
    "operator, a field beside its spec": (operator, lambda d, at: drawn(d["items"], at).update(sepc={"name": "q"})),
    "operator, definitions in a ConfigMap": (operator, lambda d, at: d["items"].append(
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"definitions.json": json.dumps({
            "queues": [{"name": "q"}], "operator_policies": [{"vhost": "/", "name": "o", "pattern": "q", "priority": 0,
            "apply-to": "queues", "definition": {"max-length": 1}}]})}})),
    "operator, definitions in a Secret": (operator, lambda d, at: d["items"].append(
        {"apiVersion": "v1", "kind": "Secret", "data": {"definitions.json": b64encode(
            b'{"bindings": [], "parameters": [{"component": "mqtt", "name": "s", "vhost": "/", "value": {}}]}'
        ).decode()}})),
    "terraform, an unknown resource": (terraform, lambda d, at: resources(d).insert(
        at % len(resources(d)), {"type": "rabbitmq_ring", "address": "rabbitmq_ring.r", "values": {}})),
    "terraform, an unknown attribute": (terraform, lambda d, at: drawn(resources(d), at)["values"].update(shape="x")),
    "terraform, a name that is not known yet": (
        terraform, lambda d, at: drawn(resources(d), at)["values"].pop("vhost")),
    "terraform, arguments that are not known yet": (terraform, add_unknown_after),
    "terraform, a plan that failed": (terraform, lambda d, at: d.update(errored=True)),
    "asyncapi, an unknown section": (asyncapi, lambda d, at: d.update(chanels={})),
    "asyncapi, an unknown field of a channel": (asyncapi, lambda d, at: drawn(
        list(d["channels"].values()), at).update(binding={})),
    "asyncapi, an unknown field": (asyncapi, lambda d, at: channel_fields(d, at).update(arguments={"x": 1})),
    "asyncapi, an address with parameters": (asyncapi, lambda d, at: add_channel(
        d, {"address": "a.{id}", "bindings": {"amqp": {"exchange": {"name": "e", "type": "topic"}}}})),
    "asyncapi, a queue with an exchange": (asyncapi, lambda d, at: add_channel(
        d, {"bindings": {"amqp": {"is": "queue", "queue": {"name": "a"}, "exchange": {"name": "e"}}}})),
    "asyncapi, a reference out of it": (asyncapi, lambda d, at: add_channel(d, {"$ref": "other.yaml#/x"})),
    "definitions, an unknown section": (definitions, lambda d, at: d.update(queus=[{"name": "q"}])),
    "definitions, the plugin rabbitmq_sharding": (definitions, lambda d, at: d["exchanges"].append(
        {"name": "s", "vhost": "/", "type": "x-modulus-hash", "durable": True}) or d.update(policies=[
            {"name": "p", "vhost": "/", "pattern": "^s$", "definition": {"shards-per-node": 2}}])),
}  # fmt: skip
"""Each reader, and what it does not know in its documents."""


def read(document: Any) -> Source:
    return read_source(json.dumps(document).encode(), "some.json")


def claims(before: Source, after: Source) -> tuple[str, str, int]:
    """Return the verdict, all text for people, and how many errors an upgrade has."""
    found = diff(before.topology("/"), after.topology("/"))
    file = FileDiff("b", "a", "changed", (VhostDiff("/", "rabbitmq-4.3", found),))
    old, new = before.topology("/").with_profile("4.2"), "4.3"
    planned = upgrade(old, new)
    text = "\n".join([*to_text(found), to_markdown([file])])
    assert (found.meaning.verdict != "same") <= found.differs
    return found.meaning.verdict, text, int(planned.reaches("error"))


@pytest.mark.parametrize("name", INSERTIONS)
@examples(30)
@given(topology=topologies(), at=st.integers(0, 9), side=st.sampled_from(["before", "after", "both"]))
def test_nothing_is_proved_of_a_document_with_something_unknown_and_without_it_it_is(
    name: str, topology: Topology, at: int, side: str
) -> None:
    """Wherever it stands, on either side; and with the user's permission it is proved of the rest."""
    write, insert = INSERTIONS[name]
    whole = read(write(topology))
    changed = write(topology)
    insert(changed, at)
    part = read(changed)
    assert find_unread(whole.topology("/")) == ()
    assert len(find_unread(part.topology("/"))) == 1
    verdict, text, errors = claims(whole, whole)
    assert (verdict, "proved for all keys" in text, errors) == ("same", True, 0)
    before, after = (part if side in (each, "both") else whole for each in ("before", "after"))
    verdict, text, _ = claims(before, after)
    assert (verdict, "proved for all keys" in text) == ("undecided", False)
    assert "not proved: " in text
    assert claims(part, part)[2] == 1
    allowed = part.allowing_unread()
    verdict, text, errors = claims(allowed, allowed)
    assert (verdict, "not proved" in text, errors) == ("same", False, 0)
    findings = [finding for _, finding in check_source(part).findings()]
    assert "HS902" in [finding.code for finding in findings]
    assert all("not proved" in finding.message for finding in findings if finding.code in ABSENCES)
    assert all("not proved" not in finding.message for _, finding in check_source(allowed).findings())
    assert all(finding.code != "HS902" for _, finding in check_source(whole).findings())


INSERTED_IN = '{"exchanges": [{"name": "a", "type": "topic"}], "queues": [{"name": "a"}]}'
WHOLE = Topology(
    [Exchange("a", "topic")], [Queue("a", arguments={"x-queue-type": "quorum"})], [Binding.to_queue("a", "a", "x")]
)


TRIED = some([*INSERTIONS], 3)
"""Those that each command is tried with."""


@pytest.fixture(params=TRIED)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return the names of a file that is read whole, and of one of which a part is not."""
    write, insert = INSERTIONS[request.param]
    names = str(tmp_path / "whole.json"), str(tmp_path / "part.json")
    for at, name in enumerate(names):
        document = write(WHOLE)
        if at:
            insert(document, 0)
        Path(name).write_text(json.dumps(document))
    return names


@pytest.fixture
def turn(request: pytest.FixtureRequest) -> int:
    """Return the number of the insertion: each takes one of the forms, and each form has several insertions."""
    return TRIED.index(request.node.callspec.params["files"])


def take(choices: Collection[Any], turn: int) -> Any:
    return [*choices][turn % len(choices)]


FORMS_OF: dict[str, tuple[tuple[str, ...], ...]] = {
    "check": (("PART", "--fail-on", "never", "--format"), *((form,) for form in FORMS)),
    "diff": (("PART", "PART", "--format"), ("text",), ("markdown",), ("json",)),
    "upgrade": (("PART", "--from", "4.2", "--format"), ("text",), ("markdown",), ("json",)),
    "audit run": (("PART", "LETTERS", "--no-spark", "--format"), ("text",), ("markdown",), ("json",)),
    "explain": (("PART", "a", "gone", "--format"), *((form,) for form in EXPLAIN_FORMS)),
    "route": (("PART", "LETTERS"), ()),
    "graph": (("PART", "--format"), *((form,) for form in GRAPH_FORMS)),
    "dead": (("LETTERS", "--topology", "PART", "--format"), *((form,) for form in DEAD_FORMS)),
}
"""Command that prints a verdict over a topology -> its arguments, and the forms of its output."""
ELSEWHERE = {
    "apply": "`test_drift_and_apply_look`", "drift": "`test_drift_and_apply_look`",
    "audit follow": "its report is that of audit run", "audit merge": "its report is that of audit run",
    "mcp": "`test_tools_and_pages_say_so`", "serve": "`test_tools_and_pages_say_so`",
    "convert": "writes, and claims nothing", "fmt": "writes, and claims nothing",
    "archive convert": "reads no topology", "archive inspect": "reads no topology",
}  # fmt: skip
"""Commands that take a topology, and why they are not in the table."""


def test_each_command_that_takes_a_topology_is_in_the_table() -> None:
    found = set()
    walk: list[tuple[str, click.Command]] = [("", hashstar)]
    while walk:
        name, command = walk.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                below = command.get_command(context, each)
                assert below is not None
                walk.append((f"{name} {each}".strip(), below))
        elif any(isinstance(each.type, type(SOURCE)) for each in command.params) or name == "diff":
            found.add(name)
    assert found == {*FORMS_OF, *ELSEWHERE}


def test_each_output_about_a_topology_with_an_unread_part_says_so(tmp_path: Path) -> None:
    part, letters = tmp_path / "part.json", tmp_path / "letters.jsonl"
    document = json.loads(INSERTED_IN)
    part.write_text(json.dumps(document | {"queus": [{"name": "q"}]}))
    death = {"queue": "a", "reason": "rejected", "exchange": "a", "routing-keys": ["gone"]}
    letters.write_text(json.dumps({"exchange": "a", "routing_key": "gone", "headers": {"x-death": [death]}}) + "\n")
    silent = []
    for command, (arguments, *forms) in FORMS_OF.items():
        given = [{"PART": str(part), "LETTERS": str(letters)}.get(each, each) for each in arguments]
        for form in forms:
            stdout = CliRunner().invoke(hashstar, [*command.split(), *given, *form]).stdout
            words = " ".join(stdout.lower().replace("%3a", ":").split())
            listed = ('"unread": [{',) if form == ("json",) or command == "route" else ()
            packed = words.replace("[ {", "[{")
            if not any(each in packed for each in ("not proved: 1 part was not read", *listed)):
                silent.append((command, form, stdout))
    assert not silent


def test_tools_and_pages_say_so(tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    part.write_text(json.dumps(json.loads(INSERTED_IN) | {"queus": [{"name": "q"}]}))
    answer = Tools([str(part)], []).explain_message("a", "gone")
    explorer = Explorer(WatchedSource(lambda: open_source(str(part)), str(part), None, None))
    message = {"exchange": "a", "routing_key": "gone"}
    page = explorer.answer("explain", json.dumps({"message": message, "queue": None}).encode())
    for said in (answer, page):
        assert [each["kind"] for each in said["unread"]] == ["unknown"]


@pytest.mark.scaled
def test_diff_says_so_in_every_form(files: tuple[str, str], turn: int) -> None:
    whole, part = files
    form = take(("text", "markdown", "json"), turn)
    assert run_program("diff", "--format", form, whole, whole).returncode == 0
    for pair in ((whole, part), (part, whole), (part, part)):
        result = run_program("diff", "--format", form, *pair)
        assert result.returncode == 1
        if form == "json":
            meaning = json.loads(result.stdout)["meaning"]
            assert (meaning["verdict"], len(meaning["unread"])) == ("undecided", len({*pair} & {part}))
        else:
            assert "not proved: 1 part was not read" in result.stdout
            assert "proved for all" not in result.stdout
    for fails in ("lost", "gained"):
        assert run_program("diff", "--format", form, "--fail-on", fails, whole, part).returncode == 1
    allowed = run_program("diff", "--format", form, "--allow-unread", part, part)
    assert (allowed.returncode, "not proved" in allowed.stdout) == (0, False)


@pytest.mark.scaled
def test_check_says_so_in_every_form(files: tuple[str, str], turn: int) -> None:
    whole, part = files
    form = take(FORMS, turn)
    assert "not proved" not in run_program("check", "--format", form, whole).stdout
    result = run_program("check", "--format", form, "--fail-on", "warning", part)
    assert (result.returncode, "HS902" in result.stdout) == (1, True)
    assert "not proved: 1 part was not read" in result.stdout.replace("%3A", ":")
    result = run_program("check", "--format", form, "--fail-on", "warning", "--allow-unread", "--ignore", "HS1", part)
    assert (result.returncode, "not proved" in result.stdout) == (0, False)


@pytest.mark.scaled
def test_upgrade_says_so_in_every_form(files: tuple[str, str], turn: int, tmp_path: Path) -> None:
    whole, part = files
    page = tmp_path / "page.html"
    form = take(("text", "markdown", "json"), turn)
    command = ["upgrade", "--from", "4.2", "--format", form, "--transform", "default", "--html", str(page)]
    assert run_program(*command, whole).returncode == 0
    result = run_program(*command, part)
    assert result.returncode == 1
    assert ('"unread"' if form == "json" else "not proved: 1 part was not read") in result.stdout
    assert '"verdict": "same"' not in result.stdout
    assert "not proved: 1 part was not read" in page.read_text()
    assert "proved for all" not in result.stdout + page.read_text()
    assert run_program(*command, "--allow-unread", part).returncode == 0


@pytest.mark.scaled
def test_routes_come_with_a_warning(files: tuple[str, str]) -> None:
    """Their exit code is no claim; that a message goes nowhere is one."""
    for command in (["explain", "-t"], ["route", "-t"]):
        for path in files:
            rest = ["a", "gone"] if command[0] == "explain" else []
            result = run_program(*command, path, *rest, given='{"exchange": "a", "routing_key": "gone"}\n')
            assert ("not proved: 1 part was not read" in result.stderr) == (path == files[1])


@pytest.mark.scaled
def test_audit_says_so_in_every_form(files: tuple[str, str], turn: int, tmp_path: Path) -> None:
    whole, part = files
    page, suites = tmp_path / "page.html", tmp_path / "junit.xml"
    archive = tmp_path / "traffic.jsonl"
    archive.write_text('{"exchange": "a", "routing_key": "x"}\n{"exchange": "a", "routing_key": "gone"}\n')
    command = ["audit", "run", "--no-spark", "--html", str(page), "--junit", str(suites), "-t"]
    assert run_program(*command, whole, "--fail-under", "100", str(archive)).returncode == 0
    threshold = ["--fail-under", "100"]
    # Without a threshold, no proof is asked for.
    form, gates, code = take(
        (("text", threshold, 1), ("text", [], 0), ("json", threshold, 1), ("markdown", [], 0)), turn
    )
    result = run_program(*command, part, "--format", form, *gates, str(archive))
    assert result.returncode == code
    assert "not proved: 1 part was not read" in " ".join(result.stdout.split()).lower()
    assert '"evidence": "proved"' not in result.stdout
    assert "not proved: 1 part was not read" in page.read_text().lower()
    assert "not proved: 1 part was not read" in suites.read_text()
    allowed = run_program(*command, part, "--allow-unread", "--fail-under", "1", str(archive))
    assert (allowed.returncode, "not proved" in allowed.stdout.lower()) == (0, False)


def test_drift_and_apply_look(tmp_path: Path) -> None:
    """A file of which a part was not read is neither the same as a broker, nor what the broker is to lose parts by."""
    path = tmp_path / "shop.json"
    source = tmp_path / "shop.bindings"
    source.write_text(FILE, "utf-8")
    document = json.loads(run_program("convert", str(source), "--format", "definitions").stdout)
    with recorded_broker(RECORDINGS[-1]) as broker:
        broker.state = "same"
        for sections, codes in (({}, (0, 0, 0, 0)), ({"queus": [{"name": "q"}]}, (1, 1, 2, 1))):
            path.write_text(json.dumps(document | sections))
            result = run_program("drift", str(path), broker.address)
            assert (result.returncode, "not proved" in result.stdout) == (codes[0], bool(sections))
            value = json.loads(run_program("drift", "--format", "json", str(path), broker.address).stdout)
            assert (value["state"], len(value["unread"])) == (("undecided", 1) if sections else ("same", 0))
            assert run_program("drift", "--allow-unread", str(path), broker.address).returncode == 0
            for options, code in (([], codes[1]), (["--prune"], codes[2]), (["--prune", "--prune"], 0)):
                result = run_program("apply", "--dry-run", *options, str(path), broker.address)
                assert result.returncode == code, result
                assert ("not proved: 1 part was not read" in result.stdout + result.stderr) >= bool(code)
            assert run_program("apply", "--dry-run", "--allow-unread", str(path), broker.address).returncode == 0


@pytest.mark.parametrize("text", ["", "# nothing\n", "policy p: 'x', queues, expires = 1"])
def test_nothing_is_deleted_by_an_empty_file_unless_the_user_says_so_twice(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.bindings"
    path.write_text(f"vhost {VHOST}\n{text}")
    with recorded_broker(RECORDINGS[-1]) as broker:
        broker.state = "same"
        result = run_program("apply", "--dry-run", "--prune", str(path), broker.address)
        assert (result.returncode, "there is nothing in it" in result.stderr) == (
            (0, False) if "policy" in text else (2, True)
        )
        assert "delete queue" not in result.stdout or "policy" in text
        result = run_program("apply", "--dry-run", "--prune", "--prune", str(path), broker.address)
        assert (result.returncode, "delete queue" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"error": "not_authorized", "reason": "no user"}', "that an API has answered: not_authorized (no user)"),
        ('{"queus": []}', "none of exchanges, queues, bindings and policies, but 'queus'; did you mean 'queues'?"),
        ('{"a": 1}', "none of exchanges, queues, bindings and policies"),
        ("{}", "none of exchanges, queues, bindings and policies"),
        ('{"users": [], "vhosts": [{"name": "/"}]}', "none of exchanges, queues, bindings and policies"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(text)
    for command in (
        ["check", "--fail-on", "note"],
        ["diff", str(path)],
        ["convert"],
        ["graph"],
        ["upgrade", "--from", "4.2"],
    ):
        result = run_program(*command, str(path))
        assert (result.returncode, words in result.stderr) == (2, True)
    with recorded_broker(RECORDINGS[-1]) as broker:
        result = run_program("apply", "--prune", "--prune", "--dry-run", str(path), broker.address)
        assert (result.returncode, result.stdout, words in result.stderr) == (2, "", True)


def test_users_alone_are_a_base_to_convert_into(tmp_path: Path) -> None:
    """They are no topology, but definitions."""
    (tmp_path / "users.json").write_text('{"users": [{"name": "ann"}]}')
    (tmp_path / "q.bindings").write_text("queue q")
    result = run_program(
        "convert", "--format", "definitions", "--into", str(tmp_path / "users.json"), str(tmp_path / "q.bindings")
    )
    assert (result.returncode, next(iter(json.loads(result.stdout)))) == (0, "users")


def test_what_a_plugin_makes_is_undecided_until_it_is_there() -> None:
    """Without the queues of the plugin rabbitmq_sharding a message is not lost; with them, all is known."""
    topology = Topology(
        [Exchange("s", "x-modulus-hash")], [], [], [Policy("p", "^s$", {"shards-per-node": 2}, "exchanges")]
    )
    assert Router(topology).route(Message("s", "k")).undecided == ("s",)
    queue = Queue("sharding: s - rabbit@a - 0")
    made = topology.declare_queue(queue).bind(Binding.to_queue("s", queue.name, ""))
    assert (Router(made).route(Message("s", "k")).queues, find_unread(made)) == ((queue.name,), ())
    plain = topology.clear_policy("p")
    assert (Router(plain).route(Message("s", "k")).undecided, find_unread(plain)) == ((), ())
    router = Router(topology)
    router.clear_policy("p")
    assert router.route(Message("s", "k")).undecided == ()


def test_edits_and_routers_keep_what_was_not_read() -> None:
    """So no path through the library leads around it."""
    part = read_source(b'{"queues": [{"name": "q"}], "queus": [{}]}', "some.json").topology()
    edited = part.declare_queue(Queue("r")).with_profile("4.0").declare_exchange(Exchange("e", "fanout"))
    for topology in (edited, Router(edited).topology, edited.bind(Binding.to_queue("e", "r", ""))):
        assert topology.unread == part.unread
        assert len(topology.unread) == 1
    assert part != Topology([], [Queue("q")])
    assert part.with_unread(()) == Topology([], [Queue("q")])


@pytest.mark.scaled
def test_a_bridge_is_not_led_by_a_part_of_a_topology(files: tuple[str, str], tmp_path: Path) -> None:
    """It would put messages where they do not belong; what a plugin makes it finds undecided, message by message."""
    for path, is_refused in zip(files, (False, True), strict=True):
        is_made = "x-modulus-hash" in Path(path).read_text()
        config = tmp_path / "bridge.toml"
        ends = '[sources.a]\nurl = "archive:in"\n[targets.b]\nurl = "archive:out"\nqueues = { a = "." }\n'
        config.write_text(f'topology = "{path}"\n{ends}')
        if is_refused and not is_made:
            with pytest.raises(InputError, match="not proved: 1 part was not read"):
                read_config(config, {})
        else:
            assert read_config(config, {}).topology.unread == ()
