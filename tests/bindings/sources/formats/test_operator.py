"""Objects of the messaging topology operator: fields, defaults, names, folders, and what is not read."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import find_unread
from bindings.sources.formats import FORMATS, SourceFile
from bindings.sources.formats.format import WriteTarget
from bindings.sources.formats.imported import Imported
from bindings.sources.formats.operator_writer import Names
from bindings.sources.open import open_source
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.errors import InputError
from tests.support.program import run_program

OPERATOR = FORMATS["operator"]


def one(kind: str, spec: str, cluster: str = "rabbit") -> str:
    lines = "".join(f"  {line}\n" for line in spec.split("\n"))
    head = f"---\napiVersion: rabbitmq.com/v1beta1\nkind: {kind}\nmetadata: {{name: an-object}}\nspec:\n"
    return f"{head}{lines}  rabbitmqClusterReference: {{name: {cluster}}}\n"


def read(text: str) -> Imported:
    return OPERATOR.read([SourceFile("f.yaml", text)], "f.yaml")


FULL = (
    one("Vhost", "name: /shop\ntags: [a]\ndefaultQueueType: quorum\nlimits: {connections: 5, queues: 6}")
    + one("Exchange", "name: orders\nvhost: /shop\ntype: topic\ndurable: true\narguments: {alternate-exchange: rest}")
    + one(
        "Queue", "name: Billing\nvhost: /shop\ntype: quorum\narguments:\n  x-delivery-limit: 5\n  nested: [{a: 0.5}, x]"
    )
    + one(
        "Binding", 'vhost: /shop\nsource: orders\ndestination: Billing\ndestinationType: queue\nroutingKey: "order.#"'
    )
    + one(
        "Binding", "vhost: /shop\nsource: orders\ndestination: orders\ndestinationType: exchange\narguments: {a: yes}"
    )
    + one("Policy", "name: keep\nvhost: /shop\npattern: ^o\napplyTo: queues\npriority: 7\ndefinition: {message-ttl: 5}")
    + one("OperatorPolicy", "name: most\npattern: .*\ndefinition: {max-length: 10}")
)


def test_all_kinds_make_the_parts_that_the_operator_makes() -> None:
    """With all their fields; operator policies, settings and limits are kept in definitions."""
    imported = read(FULL)
    assert imported.definitions.topology("/shop") == Topology(
        [Exchange("orders", "topic", arguments={"alternate-exchange": "rest"})],
        [Queue("Billing", arguments={"x-queue-type": "quorum", "x-delivery-limit": 5, "nested": [{"a": 0.5}, "x"]})],
        [Binding.to_queue("orders", "Billing", "order.#"), Binding.to_exchange("orders", "orders", "", {"a": True})],
        [Policy("keep", "^o", {"message-ttl": 5}, "queues", 7)],
        vhost="/shop",
    )
    document = json.loads(imported.definitions.dump())
    assert document["vhosts"] == [{"name": "/shop", "tags": ["a"], "default_queue_type": "quorum"}]
    assert document["parameters"] == [
        {
            "component": "vhost-limits",
            "vhost": "/shop",
            "name": "limits",
            "value": {"max-connections": 5, "max-queues": 6},
        }
    ]
    assert [(policy["name"], policy["apply-to"]) for policy in document["operator_policies"]] == [("most", "queues")]
    assert imported.warnings == []


def test_everything_is_written_again() -> None:
    """Also what stands beside the topology."""
    definitions = read(FULL).definitions
    written = OPERATOR.write(definitions, WriteTarget("", "rabbit"))
    assert written.warnings == []
    assert read("".join(written.chunks)).definitions == definitions


def test_defaults_are_those_of_the_operator() -> None:
    """An exchange is transient and direct, a queue durable; the virtual host is /."""
    topology = read(one("Exchange", "name: e") + one("Queue", "name: q")).definitions.topology()
    assert topology == Topology([Exchange("e", "direct", durable=False)], [Queue("q")])


def test_numbers_are_those_that_arrive() -> None:
    """The operator holds all of them as 64-bit floats."""
    text = one("Queue", "name: q\narguments: {a: 2.0, b: 9007199254740993, c: 0.5, d: {z: 1, y: 2}}")
    arguments = read(text).definitions.topology().queues["q"].arguments
    assert [type(arguments["a"]), arguments["a"], arguments["b"], list(arguments["d"])] == [int, 2, 2**53, ["y", "z"]]
    queue = Queue("q", arguments={"a": 2.0, "b": 2**53 + 1, "d": {"z": 1, "y": 2}})
    warnings = OPERATOR.write(Definitions().with_topology(Topology([], [queue])), WriteTarget("", "c")).warnings
    assert warnings == [
        "queue 'q' changes on the way: arguments.a is 2.0 and arrives as 2",
        "queue 'q' changes on the way: arguments.b is 9007199254740993 and arrives as 9007199254740992",
        "queue 'q' changes on the way: the names in arguments.d arrive sorted",
    ]


def test_lists_are_read_and_other_kinds_are_counted() -> None:
    """As kubectl get -o yaml and -o json print them."""
    items = [
        {"apiVersion": "rabbitmq.com/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"name": "q"}},
        {"apiVersion": "rabbitmq.com/v1beta1", "kind": "User", "spec": {}},
        {"apiVersion": "v1", "kind": "Secret", "data": {}},
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    imported = read(text)
    assert list(imported.definitions.topology().queues) == ["q"]
    result = run_program("convert", "-", given=text)
    assert (result.returncode, result.stdout) == (0, 'vhost "/"\n\nqueue q\n')
    assert result.stderr == "standard input: warning: not read, as it is no part of a topology: 1 Secret, 1 User\n"
    checked = run_program("check", "--fail-on", "note", "-", given=text)
    assert checked.returncode == 1
    assert "HS901" in checked.stdout


@pytest.mark.parametrize("kind", ["SchemaReplication", "SuperStream"])
def test_what_makes_parts_and_is_not_read_leaves_all_claims_open(kind: str) -> None:
    text = one("Queue", "name: q") + one(kind, "name: other")
    [unread] = find_unread(read(text).warnings)
    assert (unread.kind, " is not read: " in unread.text) == ("unsupported", True)
    result = run_program("check", "-", given=text)
    assert "not proved: 1 part was not read" in result.stdout


SHOVEL: Final = {"vhost": "/", "component": "shovel", "name": "s1", "value": {"src-queue": "q"}}


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        (
            one("Queue", "name: q") + one("Federation", "name: f") + one("Shovel", "name: s") * 7,
            "1 Federation ('an-object'), 7 Shovel (" + "'an-object', " * 4 + "'an-object' and 2 more)",
        ),
        (
            json.dumps({
                "apiVersion": "v1", "kind": "ConfigMap",
                "data": {"d.json": json.dumps({"queues": [{"name": "q", "vhost": "/"}], "parameters": [SHOVEL]})},
            }),
            "1 shovel ('s1')",
        ),
    ],
)  # fmt: skip
def test_what_moves_messages_is_named_and_all_is_proved(text: str, listed: str) -> None:
    """As in definitions: a shovel or a federation changes no route."""
    warnings = read(text).warnings
    assert find_unread(warnings) == ()
    note = f"not read, as it moves messages and changes no route, so that it is no part of a topology: {listed}"
    assert [str(warning) for warning in warnings] == [note]
    result = run_program("check", "-", given=text)
    assert ("not proved" in result.stdout, note in result.stdout) == (False, True)


def test_what_is_missing_or_doubtful_is_a_warning_with_its_line() -> None:
    """A super stream, an unknown field, a second object of one name, a second cluster."""
    text = (
        one("Queue", "name: q\nrouting_key: x")
        + one("Queue", "name: q\ndurable: false")
        + "---\napiVersion: rabbitmq.com/v1alpha1\nkind: SuperStream\nmetadata: {name: s}\nspec: {name: s}\n"
        + one("Queue", "name: r", cluster="other")
    )
    assert [str(warning) for warning in read(text).warnings] == [
        (
            "line 7: Queue 'an-object': there is no field \"routing_key\"; known: name, vhost, type, durable, autoDelete, "
            "deleteIfEmpty, deleteIfUnused, arguments, deletionPolicy, rabbitmqClusterReference; the operator ignores or "
            "refuses it"
        ),
        "line 14: queue 'q' is here again, after line 6; the first counts",
        "line 18: SuperStream 's' is not read: its exchange, queues and bindings are missing here",
        "line 27: objects refer to 2 clusters ('rabbit', 'other') and are read as one topology; give them apart",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (one("Queue", "durable: true"), "f.yaml:6: spec: it has no name"),
        (one("Queue", "name: 5"), "f.yaml:6: spec.name: 5 is not a text; put it in quotes"),
        (one("Queue", "name: q\ndurable: maybe"), 'f.yaml:7: spec.durable: "maybe" is not true or false'),
        (one("Queue", "name: q\narguments: 5"), "f.yaml:7: spec.arguments: 5 is not a mapping"),
        (one("Queue", "name: q\narguments: {a: 1e20}"), "f.yaml:7: arguments.a: 100000000000000000000 does not fit"),
        (one("Binding", "source: e\ndestination: q"), "f.yaml:6: spec: it has no destinationType"),
        (
            one("Binding", "source: e\ndestination: q\ndestinationType: Queue"),
            "f.yaml:8: spec.destinationType: 'Queue' is",
        ),
        (one("Policy", "name: p\npattern: x"), "f.yaml:6: spec: it has no definition"),
        (one("Policy", "name: p\npattern: x\npriority: high\ndefinition: {}"), "f.yaml:8: spec.priority: "),
        ("apiVersion: rabbitmq.com/v2\nkind: Queue\nspec: {}", "f.yaml:1: Queue of rabbitmq.com/v2 is unknown"),
        ("apiVersion: rabbitmq.com/v1beta1\nkind: Queue", "f.yaml:1: Queue '' has no spec"),
        ("apiVersion: v1\nkind: Secret", "f.yaml: there is no object of rabbitmq.com/v1beta1"),
        ("a: b", "f.yaml:1: this is no object of Kubernetes: it has no apiVersion and kind"),
    ],
)
def test_a_mistake_is_an_error_with_file_line_and_field(text: str, words: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InputError) as error:
        read(text)
    assert str(error.value).startswith(words)


def test_names_are_made_of_the_part_alone() -> None:
    """A name of Kubernetes stays; another one gets a hash, so that no two parts share one, in any order of parts."""
    names, others = Names(), Names()
    given = [
        ("/", "orders"),
        ("/", "a.b-c"),
        ("/", "Orders"),
        ("/", "orders_"),
        ("/shop", "orders"),
        ("/", "é" * 400),
        ("/", "-"),
    ]
    found = [names.choose("Queue", *each) for each in given]
    assert found[:2] == ["orders", "a.b-c"]
    assert [name.rpartition("-")[0] for name in found[2:5]] == ["orders", "orders", "shop-orders"]
    assert len(set(found)) == len(found)
    assert all(len(name) <= 253 and name.isascii() and name[0].isalnum() and name == name.lower() for name in found)
    assert [others.choose("Queue", *each) for each in reversed(given)] == found[::-1]
    assert names.choose("Exchange", "/", "orders") == "orders"


def test_a_folder_is_read_without_what_is_no_object(tmp_path: Path) -> None:
    """As kubectl apply -f reads it; warnings name the file."""
    (tmp_path / "a.yaml").write_text(one("Exchange", "name: e\ndurable: true"))
    (tmp_path / "b.yml").write_text(
        one("Queue", "name: q\nnmae: q") + one("Binding", "source: e\ndestination: q\ndestinationType: queue")
    )
    (tmp_path / "values.yaml").write_text("replicas: {{ .Values.x }}")
    (tmp_path / ".hidden.yaml").write_text("{{")
    source = open_source(str(tmp_path))
    assert source.content.topology() == Topology([Exchange("e")], [Queue("q")], [Binding.to_queue("e", "q")])
    assert [each.kind for each in source.topology().unread] == ["unknown"]
    assert [str(warning).partition(";")[0] for warning in source.warnings] == [
        f"{tmp_path}/b.yml:7: Queue 'an-object': there is no field \"nmae\""
    ]
    assert "\nrouted to 1 queue: q\nnot proved: 1 part" in run_program("explain", "-t", str(tmp_path), "e", "").stdout
    (tmp_path / "b.yml").write_text("apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nspec: {name: 5}")
    result = run_program("check", str(tmp_path))
    assert (result.returncode, result.stdout) == (2, "0 files checked, 1 not checked: nothing found\n")
    assert result.stderr == f"hashstar: {tmp_path}/b.yml:3: spec.name: 5 is not a text; put it in quotes\n"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "a folder without objects of Kubernetes" in run_program("graph", str(empty)).stderr


def test_check_names_the_lines_of_objects(tmp_path: Path) -> None:
    """In text and in SARIF."""
    path = tmp_path / "q.yaml"
    path.write_text(one("Queue", "name: amq.x") + one("Exchange", "name: e\ntype: banana"))
    result = run_program("check", str(path))
    assert f"{path}:13: " in result.stdout
    assert f"{path}:6: " in result.stdout
    assert "'banana'" in result.stdout


def test_the_command_writes_objects_for_a_cluster(tmp_path: Path) -> None:
    """Which the user names."""
    text = "exchange orders: topic\nqueue billing: quorum\norders -> billing: 'order.#'\n"
    out = tmp_path / "out.yaml"
    result = run_program("convert", "--format", "operator", "--cluster", "rabbit/messaging", "-", str(out), given=text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    written = out.read_text()
    assert "---\napiVersion: rabbitmq.com/v1beta1\nkind: Queue\nmetadata:\n  name: billing\n" in written
    assert written.count("  rabbitmqClusterReference:\n    name: rabbit\n    namespace: messaging\n") == 3
    assert "deletionPolicy" not in written
    assert "kind: Vhost" not in written
    assert (
        run_program("convert", str(out)).stdout
        == run_program("convert", "--format", "bindings", "-", given=text).stdout
    )
    assert run_program("diff", str(out), "-", given=text).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--format", "operator", "-"],
            "which RabbitmqCluster are the objects for? Give it with --cluster NAME[/NAMESPACE]",
        ),
        (["--format", "operator", "--cluster", "A/b", "-"], "--cluster 'A/b' is no NAME[/NAMESPACE] of Kubernetes"),
        (["--format", "terraform", "--cluster", "a", "-"], "--cluster is for --format operator only"),
        (["-", "out.yaml"], "out.yaml: which YAML is it to be? Choose with --format operator or --format asyncapi"),
        (
            ["--into", "x.json", "--format", "operator", "-"],
            "--into is for definitions only; the operator for Kubernetes has no",
        ),
    ],
)
def test_options_that_do_not_fit_are_errors(arguments: list[str], words: str) -> None:
    """Exit code 2 and the way out."""
    result = run_program("convert", *arguments, given="queue q")
    assert result.returncode == 2
    assert words in result.stderr


def test_what_the_operator_cannot_declare_is_named(tmp_path: Path) -> None:
    """Each part; in one virtual host or in all."""
    text = (
        "profile rabbitmq-4.0\nexchange e: topic, internal\nqueue q\nqueue r: partitioned kafka.murmur2 over 3\n"
        "e -> q: all { n = !short 1 }\nexpect e 'a' unroutable\nvhost /shop\nqueue s\n"
    )
    arguments = ["convert", "--format", "operator", "--cluster", "c"]
    result = run_program(*arguments, "-", given=text)
    assert (result.returncode, result.stdout.count("kind: ")) == (0, 6)
    assert result.stderr == (
        "standard output: warning: exchange 'e' is internal, which the operator cannot declare: clients may publish to it\n"
        "standard output: warning: the binding from 'e' to queue 'q' with the key '' may not arrive: arguments.n is "
        '{"!short": 1}: a typed value here, a table for RabbitMQ\'s import\n'
        "standard output: warning: left out, as the operator has no place for them: 1 expectation, 1 partitioning, the "
        "profile\n"
    )
    only = run_program(*arguments, "--vhost", "/shop", "-", given=text)
    assert (only.returncode, only.stdout.count("kind: ")) == (0, 2)


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_definitions_in_a_config_map_or_secret_are_read(tmp_path: Path, kind: str) -> None:
    parts = [
        {
            "name": "e",
            "vhost": "/shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
    ]
    queues = [{"name": "q", "vhost": "/shop", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}]
    bindings = [
        {
            "source": "e",
            "vhost": "/shop",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        }
    ]
    text = json.dumps({"vhosts": [{"name": "/shop"}], "exchanges": parts, "queues": queues, "bindings": bindings})
    data = text if kind == "ConfigMap" else b64encode(text.encode()).decode()
    path = tmp_path / "objects.yaml"
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "d"}, "data": {"definitions.json": data}}
    path.write_text(json.dumps(document))
    source = open_source(path)
    assert source.unread == ()
    assert source.topology("/shop") == Definitions.loads(text).topology("/shop")
