"""RabbitMQ's definitions: nothing is lost, and topologies mean what RabbitMQ's import would make of the file."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.source import check_source
from bindings.sources.definitions import Definitions, load_topology
from bindings.sources.definitions.import_fields import FIELDS
from bindings.sources.document import Document
from bindings.sources.open import read_source
from exchange.entities.entities import PREDECLARED, Binding, Destination, Exchange, Policy, Queue
from exchange.entities.releases import PROFILES, find_profile
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.cases import with_each

BROKER: dict[str, Any] = {
    "rabbit_version": "4.1.2",
    "rabbitmq_version": "4.1.2",
    "product_name": "RabbitMQ",
    "product_version": "4.1.2",
    "rabbitmq_definition_format": "cluster",
    "explanation": "Definitions of cluster 'rabbit@one'",
    "users": [
        {"name": "guest", "password_hash": "eA==", "hashing_algorithm": "h", "tags": ["administrator"], "limits": {}}
    ],
    "vhosts": [
        {"name": "/", "description": "Default virtual host", "metadata": {"tags": []}, "tags": [], "limits": []},
        {"name": "shop", "metadata": {"default_queue_type": "quorum"}, "protected_from_deletion": True, "limits": []},
    ],
    "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [],
    "parameters": [
        {
            "value": {"pattern": "^", "definition": {"max-length": 9}, "priority": 1, "apply-to": "queues"},
            "vhost": "shop",
            "component": "operator_policy",
            "name": "limit",
        }
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@one"}],
    "policies": [
        {
            "vhost": "shop",
            "name": "lost",
            "pattern": "^orders$",
            "apply-to": "exchanges",
            "definition": {"alternate-exchange": "lost"},
            "priority": 2,
        }
    ],
    "queues": [
        {"name": "all", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}, "type": "classic"},
        {
            "name": "billing",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum", "x-max-length": 10},
            "type": "quorum",
        },
        {"name": "lost", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}, "type": "classic"},
    ],
    "exchanges": [
        {
            "name": "orders",
            "vhost": "shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
            "user_who_performed_action": "guest",
        },
        {"name": "lost", "vhost": "shop", "type": "fanout", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "bindings": [
        {
            "source": "amq.topic",
            "vhost": "/",
            "destination": "all",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        },
        {
            "source": "orders",
            "vhost": "shop",
            "destination": "billing",
            "destination_type": "queue",
            "routing_key": "order.*",
            "arguments": {},
        },
        {
            "source": "lost",
            "vhost": "shop",
            "destination": "lost",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {"comment": "all of it"},
            "properties_key": "~",
        },
    ],
}
"""A broker's export as RabbitMQ 4 writes them, shortened."""

ONE_VHOST: dict[str, Any] = {
    "rabbitmq_version": "3.10.7",
    "parameters": [],
    "policies": [],
    "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [
        {"name": "e", "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    ],
    "bindings": [{"source": "e", "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {}}],
}
"""The export of one virtual host as RabbitMQ 3.10 writes it: nothing names the virtual host."""


def loads(value: Any, vhost: str | None = None) -> Definitions:
    """Read definitions from the JSON of a file."""
    return Definitions.loads(json.dumps(value), "test.json", vhost)


def dumped(definitions: Definitions) -> Any:
    """Return the JSON that the file would have."""
    return json.loads(definitions.dump())


def exactly(value: Any) -> str:
    """Return a JSON value as a text that is equal only if types and the order of keys are, too."""
    return json.dumps(value)


def queue_binding(source: str, queue: str, key: str = "", **fields: Any) -> dict[str, Any]:
    """Return a binding as in a file."""
    ends = {"source": source, "vhost": "/", "destination": queue, "destination_type": "queue"}
    return {**ends, "routing_key": key, "arguments": {}, **fields}


NAMES = st.sampled_from(["", "a", "b", "amq.topic", "amq.x", "é", "\ud800"])
VHOSTS = st.sampled_from(["/", "v", ""])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
    st.sampled_from(["x-match", "alternate-exchange", "x-queue-type", "!x"]),
    JSON | st.sampled_from([{"!timestamp": 5}, {"!long": 1}, {"!table": {"!x": None}}]),
    max_size=2,
)


def objects(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw objects of a section, keys in any order, with and without optional and unknown ones."""
    optional |= {"metadata": JSON} if "vhost" in required else {"metadata": JSON, "vhost": VHOSTS}
    shuffled = st.fixed_dictionaries(required, optional=optional).flatmap(
        lambda item: st.permutations(list(item.items())).map(dict)
    )
    return st.lists(shuffled | st.fixed_dictionaries(required), max_size=4)


FLAGS = {"durable": st.booleans(), "auto_delete": st.booleans()}
BINDING = {
    "source": NAMES,
    "destination": NAMES,
    "destination_type": st.sampled_from(["queue", "exchange"]),
    "routing_key": NAMES,
    "arguments": ARGUMENTS,
}
FILES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "bindings": objects(BINDING) | objects(BINDING | {"vhost": VHOSTS}),
        "users": JSON,
        "a binding of no section": st.fixed_dictionaries(BINDING | {"vhost": VHOSTS}),
        "exchanges": objects(
            {"name": NAMES, "type": st.sampled_from(["topic", "x-own"])},
            internal=st.booleans(), arguments=ARGUMENTS, **FLAGS,
        ),
        "queues": objects({"name": NAMES}, type=st.just("classic"), arguments=ARGUMENTS | st.just([]), **FLAGS),
        "policies": objects(
            {"name": NAMES, "pattern": st.sampled_from(["^a", "("]), "definition": st.dictionaries(NAMES, JSON)},
            priority=st.integers(0, 3) | st.just(0.5), **{"apply-to": st.sampled_from(["exchanges", "queues"])},
        ),
        "vhosts": st.lists(st.fixed_dictionaries({"name": VHOSTS}, optional={"limits": JSON}), max_size=2),
        "original_vhost_name": VHOSTS,
    },
)  # fmt: skip


@given(FILES)
def test_writing_undoes_reading(file: dict[str, Any]) -> None:
    """What was read is written again, unknown fields, duplicates and the order of everything included."""
    definitions = loads(file)
    assert exactly(dumped(definitions)) == exactly(file)
    assert Definitions.loads(definitions.dump()) == definitions


@given(FILES)
def test_putting_back_a_topology_changes_nothing(file: dict[str, Any]) -> None:
    """with_topology of a topology that was read is the identity."""
    definitions = loads(file)
    for vhost in definitions.vhosts:
        again = definitions.with_topology(definitions.topology(vhost))
        implicit = [item for item in file.get("bindings", []) if not item["source"]]
        if not implicit:  # those go with their queues
            assert exactly(dumped(again)) == exactly(file)
        assert again.topology(vhost) == definitions.topology(vhost)


@given(FILES, FILES)
def test_definitions_return_the_topology_that_was_put_in(file: dict[str, Any], other: dict[str, Any]) -> None:
    """Whatever was there before, the virtual host has the new topology, in the file as well, and the others theirs."""
    definitions, donor = loads(file), loads(other)
    vhost = donor.vhosts[0]
    edited = definitions.with_topology(donor.topology(vhost))
    read = loads(dumped(edited), edited.default_vhost)
    assert edited.topology(vhost) == read.topology(vhost) == donor.topology(vhost)
    for name in definitions.vhosts:
        if name != vhost and name in read.vhosts:
            assert read.topology(name) == definitions.topology(name)
        elif name != vhost:  # an empty file's only virtual host, until there is another
            assert definitions.topology(name) == Topology(vhost=name)


@given(FILES)
def test_every_warning_names_a_position_in_the_file(file: dict[str, Any]) -> None:
    """Every finding names a place in the file."""
    assert all(str(warning).partition(":")[0].partition("[")[0] in file for warning in loads(file).warnings)


def test_a_brokers_export_has_a_topology_for_each_virtual_host() -> None:
    """Exchanges, queues, bindings and policies are those of their virtual host."""
    definitions = loads(BROKER)
    assert definitions.vhosts == ("/", "shop")
    assert definitions.rabbitmq_version == "4.1.2"
    assert list(map(str, definitions.warnings)) == [
        "queues[2]: queue 'lost' names no type and becomes a quorum queue, as is the default of 'shop'"
    ]
    assert definitions.topology("/") == Topology(
        queues=[Queue("all")], bindings=[Binding.to_queue("amq.topic", "all", "#")], profile="4.1.2"
    )
    assert definitions.topology("shop") == Topology(
        [Exchange("orders", "topic"), Exchange("lost", "fanout")],
        [Queue("billing", arguments={"x-queue-type": "quorum", "x-max-length": 10}), Queue("lost")],
        [
            Binding.to_queue("orders", "billing", "order.*"),
            Binding.to_queue("lost", "lost", "", {"comment": "all of it"}),
        ],
        [
            Policy("lost", "^orders$", {"alternate-exchange": "lost"}, "exchanges", 2),
            Policy("limit", "^", {"max-length": 9}, "queues", 1, operator=True),
        ],
        vhost="shop",
        profile="4.1.2",
    )


def test_what_a_broker_was_not_told_of_an_exchange_is_read_as_it_takes_it() -> None:
    """Imported without `auto_delete`, an exchange is exported as undefined: RabbitMQ 3.10.8, 4.3.6, 2026-11-29."""
    item = {"name": "e", "vhost": "/", "type": "topic"}
    undefined, false = (
        loads({"exchanges": [item | {"auto_delete": value}]}).topology("/") for value in ("undefined", False)
    )
    assert undefined == false
    with pytest.raises(InputError, match=r'exchanges\[0\]\.auto_delete: "true" is not true or false'):
        loads({"exchanges": [item | {"auto_delete": "true"}]}).topology("/")


def test_operator_policies_go_to_the_language_and_back() -> None:
    """And stay in definitions that a topology without them is written into."""
    document = Document.of_definitions(loads(BROKER))
    assert 'policy limit: "^", queues, operator, priority 1, max-length = 9' in document.dump()
    again = Document.loads(document.dump()).definitions()
    assert again.operator_policies == loads(BROKER).operator_policies
    assert Document.loads('vhost "shop"\n').definitions(loads(BROKER)).operator_policies == again.operator_policies
    changed = document.dump().replace("max-length = 9", "max-length = 8")
    [(vhost, policy)] = Document.loads(changed).definitions(loads(BROKER)).operator_policies
    assert (vhost, policy.definition) == ("shop", {"max-length": 8})


def test_an_operator_policy_that_is_none_is_refused_with_its_position() -> None:
    with pytest.raises(InputError, match=r"parameters\[0\].value: an operator policy is an object"):
        loads({"parameters": [{"component": "operator_policy", "name": "p", "vhost": "/", "value": 5}]})


def test_the_policies_of_the_file_route() -> None:
    """An alternate exchange that a policy names takes what matches nothing."""
    router = Router(loads(BROKER).topology("shop"))
    assert router.route(Message("orders", "order.new")).queues == ("billing",)
    assert router.route(Message("orders", "refund")).queues == ("lost",)


def test_an_edit_rewrites_what_it_changes_and_nothing_else() -> None:
    """Unknown fields stay, other virtual hosts stay, and the type beside a queue's arguments follows them."""
    expected = copy.deepcopy(BROKER)
    definitions = loads(BROKER)
    shop = definitions.topology("shop")
    topology = shop.bind(Binding.to_queue("orders", "lost", "refund")).declare_queue(Queue("new"))
    topology = topology.set_policy(Policy("lost", "^orders$", {"alternate-exchange": "lost"}, "exchanges", 5))
    edited = definitions.with_topology(topology)

    expected["policies"][0]["priority"] = 5
    new_queue = {"vhost": "shop", "name": "new", "durable": True, "auto_delete": False, "arguments": {}}
    expected["queues"].append(new_queue)
    expected["bindings"].append(queue_binding("orders", "lost", "refund", vhost="shop"))
    assert dumped(edited) == expected

    quorum = Topology(topology.exchanges.values(), [Queue("billing")], vhost="shop")
    written = dumped(edited.with_topology(quorum))
    assert [queue for queue in written["queues"] if queue["vhost"] == "shop"] == [
        {**BROKER["queues"][1], "arguments": {}, "type": "classic"}
    ]
    assert written["policies"] == []
    assert written["bindings"] == BROKER["bindings"][:1]
    assert written["exchanges"] == BROKER["exchanges"]
    assert dumped(definitions) == BROKER


def test_of_two_entries_with_one_name_an_edit_rewrites_the_one_that_counts() -> None:
    """The other one stays as it is until both go."""
    first, last = ({"name": "p", "vhost": "/", "pattern": text, "definition": {"max-length": 1}} for text in "ab")
    definitions = loads({"policies": [first, last]})
    edited = definitions.with_topology(definitions.topology().set_policy(Policy("p", "c", {"max-length": 1})))
    assert dumped(edited) == {"policies": [first, {**last, "pattern": "c"}]}
    assert dumped(edited.with_topology(Topology()))["policies"] == []


def test_a_virtual_host_that_is_new_is_listed() -> None:
    """RabbitMQ's import needs the virtual host to be there."""
    written = dumped(loads(BROKER).with_topology(Topology(queues=[Queue("q")], vhost="new")))
    assert written["vhosts"][2:] == [{"name": "new"}]


def test_a_virtual_host_that_is_emptied_stays() -> None:
    """One that only its parts named is listed when they go."""
    file = {"queues": [{"name": "q", "vhost": "a"}, {"name": "q", "vhost": "b"}]}
    edited = loads(file).with_topology(Topology(vhost="a"))
    assert dumped(edited) == {"queues": file["queues"][1:], "vhosts": [{"name": "a"}]}
    assert edited.topology("a") == Topology(vhost="a")


def test_definitions_are_made_of_a_topology() -> None:
    """Of predeclared exchanges nothing is written, and the bindings the broker makes itself are not either."""
    topology = Topology([Exchange("e", "topic")], bindings=[Binding.to_exchange("e", "amq.topic", "#")])
    definitions = Definitions().with_topology(topology)
    assert dumped(definitions) == {
        "exchanges": [
            {
                "vhost": "/",
                "name": "e",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
        ],
        "bindings": [
            {
                "vhost": "/",
                "source": "e",
                "destination": "amq.topic",
                "destination_type": "exchange",
                "routing_key": "#",
                "arguments": {},
            }
        ],
    }
    assert definitions.topology() == topology


def test_an_export_of_one_virtual_host_need_not_name_it() -> None:
    """It is "/" unless the caller or a newer RabbitMQ's file names it, and that is not written back."""
    assert loads(ONE_VHOST).vhosts == ("/",)
    assert loads(ONE_VHOST, "prod").topology() == Topology(
        [Exchange("e")], [Queue("q")], [Binding.to_queue("e", "q", "k")], vhost="prod", profile="3.10.7"
    )
    assert loads({**ONE_VHOST, "original_vhost_name": "prod"}).vhosts == ("prod",)
    assert exactly(dumped(loads(ONE_VHOST, "prod"))) == exactly(ONE_VHOST)


def test_an_export_of_3_10_names_its_virtual_host_in_policies_only() -> None:
    """As a live 3.10.8 writes it: the policies are those of the queues beside them."""
    policy = {
        "vhost": "prod",
        "name": "p",
        "pattern": "",
        "apply-to": "all",
        "priority": 0,
        "definition": {"expires": 9},
    }
    definitions = loads({**ONE_VHOST, "policies": [policy]})
    assert definitions.vhosts == ("prod",)
    assert {*definitions.topology().queues} == {"q"}
    assert {*definitions.topology().policies} == {"p"}


def test_an_export_of_one_virtual_host_stays_one() -> None:
    """New entries name their virtual host no more than old ones, unless it is another one."""
    definitions = loads(ONE_VHOST, "prod")
    written = dumped(definitions.with_topology(definitions.topology().declare_queue(Queue("new"))))
    assert written["queues"][1] == {"name": "new", "durable": True, "auto_delete": False, "arguments": {}}
    assert "vhosts" not in written
    written = dumped(definitions.with_topology(Topology(queues=[Queue("new")], vhost="other")))
    assert written["queues"][1]["vhost"] == "other"


def test_implicit_bindings_are_kept_in_the_file_and_not_in_the_topology() -> None:
    """Every queue is bound to the default exchange; some tools write it down."""
    file = {"queues": [{"name": "q", "vhost": "/"}], "bindings": [queue_binding("", "q", "q")]}
    definitions = loads(file)
    assert list(definitions.topology().bindings) == []
    assert definitions.warnings == []
    assert dumped(definitions.with_topology(definitions.topology())) == file
    assert dumped(definitions.with_topology(Topology()))["bindings"] == []


def test_the_arguments_have_the_types_of_rabbitmqs_import() -> None:
    """Integers are longs, null is a void, and the types JSON lacks are written out."""
    arguments = {"n": 1, "f": 1.0, "v": None, "t": {"!timestamp": 5}, "l": {"!long": 2}}
    definitions = loads({"bindings": [queue_binding("amq.headers", "q", arguments=arguments)]})
    (binding,) = definitions.topology().bindings
    assert binding.arguments == {"n": 1, "f": 1.0, "v": None, "t": Typed("timestamp", 5), "l": 2}
    assert dumped(definitions)["bindings"][0]["arguments"] == arguments
    written = dumped(Definitions().with_topology(definitions.topology()))
    assert written["bindings"][0]["arguments"] == {**arguments, "l": 2}


@pytest.mark.parametrize(
    ("file", "warning"),
    [
        (
            {"exchanges": [{"name": "e", "type": "x-own"}]},
            "exchanges[0]: exchange 'e' is of type 'x-own', which is unknown here: routes through it stay undecided",
        ),
        (
            {"exchanges": [{"name": "e", "type": "x-delayed-message", "arguments": {"x-delayed-type": "tpic"}}]},
            (
                "exchanges[0]: exchange 'e' is of type 'x-delayed-message', whose x-delayed-type is missing or unknown "
                "here: routes through it stay undecided"
            ),
        ),
        (
            {"bindings": [queue_binding("e", "q", arguments={"a": [{"b": None}]})]},
            (
                "bindings[0].arguments.a[0].b is null, which RabbitMQ's import refuses (null_not_allowed); "
                "it is a void here"
            ),
        ),
        (
            {"queues": [{"name": "q", "arguments": {"a": [{"!byte": 1}]}}]},
            'queues[0].arguments.a[0] is {"!byte": 1}: a typed value here, a table for RabbitMQ\'s import',
        ),
        (
            {"policies": [{"name": "p", "pattern": "(", "definition": {}}]},
            ("policies[0].pattern: '(' is refused by RabbitMQ and applies to nothing: missing )"),
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {}, "apply-to": "exchange"}]},
            (
                "policies[0].apply-to: 'exchange' is unknown: RabbitMQ's import refuses it; there are 'all', "
                "'exchanges', 'queues', 'classic_queues', 'quorum_queues', 'streams'"
            ),
        ),
        (
            {"exchanges": [{"name": "amq.topic", "type": "fanout"}]},
            (
                "exchanges[0]: skipped by RabbitMQ's import and left out: exchange 'amq.topic' is predeclared with "
                "other attributes"
            ),
        ),
        (
            {"exchanges": [{"name": "amq.mine", "type": "fanout"}]},
            "exchanges[0]: skipped by RabbitMQ's import, as all names with amq. are; exchange 'amq.mine' counts here",
        ),
        (
            {"exchanges": [{"name": "e", "type": "topic"}, {"name": "e", "type": "fanout"}]},
            (
                "exchanges[1]: exchange 'e' is here again; which of them counts is left to chance, as RabbitMQ imports "
                "them at the same time"
            ),
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {"max-length": 5}}] * 2},
            "policies[1]: policy 'p' is here again; the last counts",
        ),
        (
            {"bindings": [queue_binding("e", "q", "k"), queue_binding("e", "q", "k")]},
            "bindings[1]: the binding from 'e' to queue 'q' with the key 'k' is here again; it counts once",
        ),
        (
            {"queues": [{"name": "q", "vhost": "/"}], "bindings": [queue_binding("", "q", "k")]},
            "bindings[0]: the binding from '' to queue 'q' with the key 'k' cannot exist in RabbitMQ and is left out",
        ),
    ],
)
def test_what_rabbitmq_would_not_take_as_it_is_loads_with_a_warning(file: dict[str, Any], warning: str) -> None:
    """Each oddity is one finding, and nothing of it is lost."""
    assert list(map(str, loads(file).warnings)) == [warning]
    assert dumped(loads(file)) == file


def test_predeclared_exchanges_in_a_file_do_not_change_them() -> None:
    """RabbitMQ's import skips them, whatever their attributes; some brokers export them."""
    same = {"name": "amq.topic", "type": "topic"}
    assert loads({"exchanges": [same]}).warnings == []
    topology = loads({"exchanges": [{**same, "type": "fanout"}, {"name": "", "type": "topic"}]}).topology()
    assert sorted(topology.exchanges) == sorted(exchange.name for exchange in PREDECLARED)
    assert topology.exchanges["amq.topic"].type == "topic"


def test_of_two_entries_with_one_name_the_same_counts_as_in_rabbitmqs_import() -> None:
    """An exchange that exists is not declared again, a policy is set again."""
    file = {
        "exchanges": [{"name": "e", "type": "topic"}, {"name": "e", "type": "fanout"}],
        "policies": [{"name": "p", "pattern": text, "definition": {"max-length": 1}} for text in "ab"],
    }
    topology = loads(file).topology()
    assert (topology.exchanges["e"].type, topology.policies["p"].pattern) == ("topic", "b")


@with_each(
    ("text", "words"),
    [
        ("", "test.json:1:1: not JSON"),
        ('{"a": [1,\n ]}', "test.json:2:2: not JSON: a comma with nothing behind it\n     ]}\n     ^"),
        ('{"NaN": "a NaN",\n"b": -Infinity}', "test.json:2:6: not JSON: a number that it does not have: -Infinity\n"),
        ('{"queues": [\n  {"name": }]}', "test.json:2:12: not JSON: Expecting value"),
        ("[]", "test.json: not definitions"),
        (json.dumps(queue_binding("e", "q")), "test.json: not definitions"),
        ('{"a": NaN}', "test.json:1:7: not JSON: a number that it does not have: NaN\n"),
        ('{"a": 1e999}', "test.json:1:7: not JSON: a number that it does not have: 1e999\n"),
        ("[" * 100_000, "test.json:1:101: nested too deeply, beyond 100 arrays and objects\n"),
        (
            '{"queues": [\n {"name": "q", "x": {"name": 1}, "n\\u0061me": "r"}]}',
            'test.json:2:34: a name that is twice in one object: "n\\u0061me"\n',
        ),
        (
            '{"queues": [], "n": ' + "9" * 5_000 + "}",
            "test.json:1:21: a number of more than 4300 digits; put it in quotes",
        ),
        (b"\xff", "test.json: not UTF-8 at byte 0"),
        ('{"queues": {}}', "test.json: queues: {} is not an array"),
        ('{"queues": null}', "test.json: queues: null is not an array"),
        ('{"queues": [5]}', "queues[0]: 5 is not an object"),
        ('{"queues": [{}]}', 'queues[0]: it has no "name"'),
        ('{"queues": [{"name": 5}]}', "queues[0].name: 5 is not a string"),
        ('{"queues": [{"name": "q", "vhost": null}]}', "queues[0].vhost: null is not a string"),
        ('{"queues": [{"name": "q", "durable": "yes"}]}', 'queues[0].durable: "yes" is not true or false'),
        ('{"queues": [{"name": "q", "arguments": [1]}]}', "queues[0].arguments: [1] is not an object"),
        ('{"exchanges": [{"name": "e"}]}', 'exchanges[0]: it has no "type"'),
        ('{"policies": [{"name": "p", "pattern": ""}]}', "policies[0].definition: null is not an object"),
        (
            '{"policies": [{"name": "p", "pattern": "", "definition": {}, "priority": "1"}]}',
            'policies[0].priority: "1" is not a number',
        ),
        (
            json.dumps({"bindings": [queue_binding("e", "q"), queue_binding("e", "q", destination_type="que")]}),
            'test.json: bindings[1].destination_type: "que" is neither "queue" nor "exchange"',
        ),
        (
            json.dumps({"bindings": [queue_binding("e", "q", arguments={"n": 2**64})]}),
            "bindings[0].arguments.n: 18446744073709551616 does not fit",
        ),
        (
            json.dumps({"bindings": [queue_binding("e", "q", arguments={"t": {"!tiem": 1}})]}),
            'bindings[0].arguments.t: "!tiem" is not an AMQP type',
        ),
        ('{"vhosts": {}}', "vhosts: {} is not an array"),
        ('{"vhosts": [{"name": null}]}', "vhosts[0].name: null is not a string"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_position(text: str | bytes, words: str) -> None:
    """Errors name the file and what is wrong where."""
    with pytest.raises(InputError) as caught:
        Definitions.loads(text, "test.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("test.json:")


@pytest.mark.parametrize("name", ["definitions.json", "definitions.json.gz"])
def test_files_are_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    """What was saved loads again, and a file is gzipped when its content is, whatever its name."""
    path, renamed = tmp_path / name, tmp_path / "renamed"
    loads(BROKER).save(path)
    assert [found.name for found in tmp_path.iterdir()] == [name]
    content = path.read_bytes()
    assert content.startswith(b"\x1f\x8b") == name.endswith(".gz")
    path.rename(renamed)
    loads(BROKER).save(path)
    assert path.read_bytes() == renamed.read_bytes()
    assert Definitions.load(renamed) == loads(BROKER)


def test_a_byte_order_mark_is_no_obstacle() -> None:
    """Some editors write one."""
    assert Definitions.loads(b"\xef\xbb\xbf{}") == Definitions()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing files and broken archives are errors about input."""
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"{}" * 100)[:-9])
    for path in (tmp_path / "missing.json", broken, tmp_path):
        with pytest.raises(InputError, match="cannot be read") as caught:
            Definitions.load(path)
        assert str(caught.value).startswith(str(path))


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """A save that fails keeps what was there."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        Definitions().save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_dump_has_a_line_for_every_part() -> None:
    """Two versions of a file are compared line by line."""
    assert loads({"rabbit_version": "3", "users": [], "vhosts": [{"name": "/"}, {"name": "v"}]}).dump() == (
        '{\n "rabbit_version": "3",\n "users": [],\n "vhosts": [\n  {"name": "/"},\n  {"name": "v"}\n ]\n}\n'
    )
    assert Definitions().dump() == "{}\n"


def test_definitions_are_equal_when_their_json_is() -> None:
    """The order of keys does not count; that of lists, types of numbers and the default virtual host do."""
    assert loads({"a": 1, "b": 2}) == loads({"b": 2, "a": 1})
    assert loads({"a": 1}) != loads({"a": True})
    assert loads({"a": [1]}) != loads({"a": [1, None]})
    assert loads({"vhosts": [{"name": "a"}, {"name": "b"}]}) != loads({"vhosts": [{"name": "b"}, {"name": "a"}]})
    assert loads({}, "a") != loads({}, "b")
    assert loads({}) != {}
    reversed_keys = [dict(reversed(item.items())) for item in BROKER["bindings"]]
    assert loads({**BROKER, "bindings": reversed_keys}) == loads(BROKER)


def test_definitions_survive_pickling() -> None:
    """They can be sent to another process."""
    assert pickle.loads(pickle.dumps(loads(BROKER))) == loads(BROKER)  # noqa: S301  our own bytes


def test_equal_destinations_are_one_object() -> None:
    """A million bindings to ten queues need ten destinations."""
    items = [queue_binding("amq.topic", "q", str(number)) for number in range(3)]
    bindings = loads({"bindings": items}).topology().bindings
    assert len({id(binding.destination) for binding in bindings}) == 1
    assert {binding.destination for binding in bindings} == {Destination("queue", "q")}


def test_the_topology_of_a_file_is_that_of_the_virtual_host_in_use(tmp_path: Path) -> None:
    """The only one with anything in it, else "/", else the choice is the caller's."""
    path = tmp_path / "definitions.json"

    def chosen(queues: list[str], vhosts: list[str]) -> str:
        file = {
            "vhosts": [{"name": name} for name in vhosts],
            "queues": [{"name": "q", "vhost": name} for name in queues],
        }
        loads(file).save(path)
        return load_topology(path).vhost

    assert chosen(["shop"], ["/", "shop"]) == "shop"
    assert chosen(["shop", "/"], []) == chosen([], []) == chosen(["a", "b"], ["/"]) == "/"
    assert chosen([], ["only"]) == "only"
    with pytest.raises(InputError, match=r"definitions\.json: which virtual host\? There are 'a', 'b'"):
        chosen(["a", "b"], [])
    with pytest.raises(InputError, match=r"definitions\.json: there is no virtual host '/'; there are 'a', 'b'"):
        load_topology(path, "/")
    assert load_topology(path, "b").queues == {"q": Queue("q")}


def test_the_profile_is_that_of_the_exporting_release_unless_one_is_given(tmp_path: Path) -> None:
    """Of a file that names no release, it is the newest."""
    path = tmp_path / "definitions.json"
    loads(ONE_VHOST).save(path)
    assert load_topology(path).profile == find_profile("3.10.7")
    assert load_topology(path, profile="rabbitmq-4.0").profile == PROFILES["rabbitmq-4.0"]
    assert loads({**ONE_VHOST, "rabbitmq_version": "unknown"}).topology().profile == Topology().profile
    assert load_topology(path, "prod").vhost == "prod"
    assert Definitions.load(path).rabbitmq_version == "3.10.7"
    assert repr(Definitions.load(path)) == "<Definitions of '/': 1 exchanges, 1 queues, 0 policies, 1 bindings>"


def test_a_virtual_host_that_is_not_declared_gives_one_warning() -> None:
    """RabbitMQ refuses such a file: "Please create virtual host "nowhere" prior to importing definitions."."""
    queues = [{"name": name, "vhost": "nowhere"} for name in ("q", "r")]
    (warning,) = map(str, loads({"vhosts": [{"name": "/"}], "queues": queues}).warnings)
    assert warning.startswith("queues[0].vhost: 'nowhere' is not under vhosts: RabbitMQ refuses to import the file")
    assert loads({"vhosts": [{"name": "nowhere"}], "queues": queues}).warnings == []
    assert loads({"queues": [{"name": "q", "vhost": "/"}, {"name": "r"}]}).warnings == []


USER = {"name": "u", "password_hash": "", "tags": []}
RIGHTS = {"user": "u", "vhost": "v", "configure": "", "write": "", "read": ""}
LIMITS = {"component": "vhost-limits", "vhost": "v", "name": "limits"}
TOPIC = {"user": "u", "vhost": "v", "exchange": "e", "write": "", "read": ""}
EXCHANGE = {"name": "e", "vhost": "v", "type": "topic"}
QUEUE = {"name": "q", "vhost": "v", "arguments": {"x-max-priority": 3}, "durable": True, "auto_delete": False}


POLICY = {"name": "p", "vhost": "v", "pattern": "^q", "definition": {"max-length": 5}}


def operator_policy(definition: dict[str, Any], **more: str) -> dict[str, Any]:
    value = {"pattern": "^q", "definition": definition, "priority": 0, **more}
    return {"vhost": "v", "component": "operator_policy", "name": "o", "value": value}


def of_two_queues(most: int) -> dict[str, Any]:
    queues = [QUEUE, {**QUEUE, "name": "r"}]
    return {"queues": queues, "parameters": [{**LIMITS, "value": {"max-queues": most}}]}


def default_type(kind: Any) -> dict[str, Any]:
    return {"vhosts": [{"name": "v", "metadata": {"default_queue_type": kind}}]}


@with_each(
    ("section", "refusals"),
    [
        ({"permissions": [RIGHTS]}, {}),
        ({"permissions": [{**RIGHTS, "user": "x"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "no_such_user,<<")),
        ({"permissions": [{**RIGHTS, "vhost": "x"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "no_such_vhost,<<")),
        ({"permissions": [{**RIGHTS, "read": "a("}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "invalid_regexp")),
        ({"topic_permissions": [{**TOPIC, "write": 1}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "badarg")),
        ({"topic_permissions": [TOPIC]}, {"4.3": "no_such_exchange"}),
        ({"topic_permissions": [TOPIC], "exchanges": [{**EXCHANGE, "durable": True}]}, {}),
        ({"exchanges": [EXCHANGE]}, {"3.10": "function_clause", "4.0": "function_clause"}),
        ({"queues": [{**QUEUE, "arguments": {}}]}, {}),
        ({"queues": [{"name": "q", "vhost": "v"}]}, {"3.10": "function_clause"}),
        ({"queues": [{**QUEUE, "arguments": None}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "function_clause")),
        (
            {"vhosts": [{"name": "v", "metadata": {"default_queue_type": "quorum"}}], "queues": [QUEUE]},
            {"4.0": "of queue type rabbit_quorum_queue", "4.3": "of queue type rabbit_quorum_queue"},
        ),
        (
            {"bindings": [{**queue_binding("", "q", "q"), "vhost": "v"}]},
            dict.fromkeys(("4.0", "4.3"), "resources_missing"),
        ),
        ({"users": [USER, USER]}, dict.fromkeys(("3.10", "4.0", "4.3"), "user_already_exists")),
        ({"users": [{**USER, "password": "x"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "both_password_and")),
        ({"users": [{"name": "u"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "tags_not_present")),
        ({"parameters": [{**LIMITS, "value": {"max-queues": -1}}]}, {}),
        (
            {"parameters": [{**LIMITS, "value": {"max": 1}}]},
            dict.fromkeys(("3.10", "4.0", "4.3"), "Unrecognised terms"),
        ),
        ({"parameters": [{**LIMITS, "component": "x"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "not found")),
        ({"vhosts": [{"name": "v", "tracing": None}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "case_clause")),
        *(({"vhosts": [{"name": "v", **tags}]}, {}) for tags in (
            {"tags": [5, "a", True, None]}, {"tags": None}, {"metadata": {"tags": [5, None]}},
            {"tags": "a", "metadata": {"tags": 5}})),
        *(({"vhosts": [{"name": "v", **tags}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "clause")) for tags in (
            {"metadata": {"tags": 5}}, {"metadata": {"tags": [1.5]}}, {"tags": [[1]]}, {"tags": True})),
        ({"vhosts": [{"name": "v", "metadata": 5}]}, {"3.10": "function_clause", "4.0": "function_clause"}),
        (default_type("undefined"), {"3.10": "invalid_queue_type"}),
        (default_type(""), {"3.10": "invalid_queue_type", "4.0": "invalid_queue_type"}),
        (default_type(None), {"3.10": "invalid_queue_type", "4.0": "invalid_queue_type"}),
        (default_type("nope"), dict.fromkeys(("3.10", "4.0", "4.3"), "invalid_queue_type")),
        ({"users": [{"name": "u", "password": "x", "tags": "", "hashing_algorithm": 5}]}, {}),
        ({"users": [{**USER, "hashing_algorithm": 5}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "function_clause")),
        ({"permissions": [{**RIGHTS, "read": "a" * 1024}]}, {}),
        ({"permissions": [{**RIGHTS, "read": "é" * 513}]}, {"4.3": "pattern_too_long"}),
        ({"policies": [{**POLICY, "definition": {"nope": 1}}, POLICY]},
         dict.fromkeys(("3.10", "4.0", "4.3"), "not recognised policy settings")),
        ({"parameters": [operator_policy({"dead-letter-exchange": "x"}), operator_policy({"max-length": 5})]},
         dict.fromkeys(("3.10", "4.0", "4.3"), "not recognised policy settings")),
    ],
)  # fmt: skip
def test_what_an_import_refuses_is_named_for_each_release(section: Any, refusals: dict[str, str]) -> None:
    """As brokers of 3.10.8, 4.0.5 and 4.3 answered ``rabbit_definitions:import_raw`` on 2026-11-28."""
    definitions = loads({"vhosts": [{"name": "v"}], "users": [USER], **section})
    for release in ("3.10", "4.0", "4.3"):
        found = [
            str(warning)
            for warning in definitions.warnings_under(PROFILES[f"rabbitmq-{release}"])
            if warning.code == "HS903"
        ]
        assert bool(found) == (release in refusals), (release, found)
        assert refusals.get(release, "") in "".join(found)


QUORUM_BY_DEFAULT = {**default_type("quorum"), "queues": [QUEUE]}


UNDEFINED = {**QUEUE, "arguments": {"x-queue-type": "undefined", "x-max-priority": 5}}


@with_each(
    ("source", "section", "words", "releases"),
    [
        ("rabbit_vhost:do_add", default_type("nope"), "invalid_queue_type", "-3.10.7 +3.10.8 +4.4"),
        ("rabbit_vhost:do_add", default_type(5), "invalid_queue_type", "-3.10.7 +3.10.8 +4.4"),
        ("rabbit_vhost:put_vhost", default_type("undefined"), "invalid_queue_type",
         "-3.10.7 +3.10.8 +3.12.13 -3.12.14 +3.13.0 +3.13.1 -3.13.2 -4.0.0 -4.4"),
        ("vhost:new_metadata", default_type(None), "invalid_queue_type",
         "-3.10.7 +3.10.8 +4.1.7 -4.1.8 +4.2.0 +4.2.7 -4.2.8 -4.3.0 -4.4"),
        ("vhost:new_metadata", default_type(""), "invalid_queue_type",
         "-3.10.7 +3.10.8 +4.2.7 -4.2.8 -4.2.9 +4.3.0 +4.3.1 -4.3.2 -4.4"),
        ("rabbit_vhost:pick_known_metadata", {"vhosts": [{"name": "v", "metadata": 5}]}, "function_clause",
         "+3.10.0 +4.2.5 -4.2.6 -4.4"),
        ("rabbit_definitions:add_queue_int", QUORUM_BY_DEFAULT, "of queue type rabbit_quorum_queue",
         "-3.10.25 +3.11.0 +3.12.0 +3.13.7 +4.4"),
        ("rabbit_definitions:add_queue_int", {"queues": [{"name": "q", "vhost": "v"}]}, "function_clause",
         "+3.10.25 -3.11.0 -4.4"),
        ("rabbit_amqqueue:get_queue_type", {**QUORUM_BY_DEFAULT, "queues": [UNDEFINED]},
         "of queue type rabbit_quorum_queue", "-3.13.3 +3.13.4 +4.4"),
        ("rabbit_definitions:add_exchange_int", {"exchanges": [EXCHANGE]}, "function_clause",
         "+3.10.0 +4.2.1 -4.2.2 -4.4"),
        ("rabbit_definitions:add_binding_int", {"bindings": [{**queue_binding("", "q", "q"), "vhost": "v"}]},
         "resources_missing", "-3.13.5 +3.13.6 +4.4"),
        ("rabbit_auth_backend_internal:validate_tag_count", {"users": [{**USER, "tags": ["a"] * 33}]},
         "33 tags, and a user may have 32 ({too_many_tags,32})", "-4.1.8 -4.2.6 +4.2.7 +4.2.9 -4.3.0 +4.3.1 +4.4"),
        ("rabbit_auth_backend_internal:tag_list_from", {"users": [{**USER, "tags": "a," * 33}]},
         "too_many_tags", "-4.2.6 +4.2.7 -4.3.0 +4.3.1"),
        ("string:tokens", {"users": [{**USER, "tags": ",,a" * 32}]}, "too_many_tags", "-4.2.7 -4.3.1 -4.4"),
        ("vhost:new_metadata", {"vhosts": [{"name": "v", "tags": ["a"] * 33}]}, "too_many_tags", "-4.2.7 -4.4"),
        ("rabbit_auth_backend_internal:set_topic_permissions", {"topic_permissions": [TOPIC]}, "no_such_exchange",
         "-3.10.0 -4.3.1 +4.3.2 +4.4"),
        ("rabbit_definitions:apply_defs", {"topic_permissions": [TOPIC], "exchanges": [EXCHANGE]},
         "khepri_db", "-3.13.7 +4.0.0 +4.0.9 +4.1.3 -4.1.4 -4.1.8 -4.2.0 -4.4"),
        ("rabbit_queue_type:check_queue_limits", of_two_queues(1), "leaves out those over", "-3.13.2 +3.13.3 +4.4"),
    ],
)  # fmt: skip
def test_an_import_is_judged_by_the_patch_release(source: str, section: Any, words: str, releases: str) -> None:
    """As the source is at the tags: ``+3.10.8`` for one that refuses it or makes it otherwise, ``-`` for others."""
    definitions = loads({"vhosts": [{"name": "v"}], "users": [USER], **section})
    for each in releases.split():
        found = "".join(map(str, definitions.warnings_under(find_profile(each[1:]))))
        assert (words in found) == (each[0] == "+"), (source, each, found)


@pytest.mark.parametrize(
    ("section", "otherwise"),
    [
        ({"permissions": [RIGHTS, RIGHTS]}, {}),
        ({"permissions": [RIGHTS, {**RIGHTS, "read": "a"}]}, dict.fromkeys(("3.10", "4.0", "4.3"), "left to chance")),
        ({"vhosts": [{"name": "v"}, {"name": "v", "tags": "a"}]},
         dict.fromkeys(("3.10", "4.0", "4.3"), "left to chance")),
        ({"parameters": [operator_policy({"max-length": 5})]},
         dict.fromkeys(("3.10", "4.0", "4.3"), "applies to nothing")),
        ({"parameters": [operator_policy({"max-length": 5}, **{"apply-to": "queues"})]}, {}),
        ({"queues": [{**QUEUE, "arguments": {"x-queue-type": "MQTT-QoS-0"}}]},
         dict.fromkeys(("4.0", "4.3"), "without the plugin of queues of type 'MQTT-QoS-0' refuses it")),
        (  # if the first one is there before it, the import leaves the second one out
            {**default_type("stream"), "queues": [{**QUEUE, "arguments": {"x-queue-type": "classic"}}, QUEUE]},
            {**dict.fromkeys(("4.0", "4.3"), "a queue here is a stream queue by default"), "3.10": "left to chance"},
        ),
        *((of_two_queues(most), {}) for most in (2, -1)),
        *((of_two_queues(most), dict.fromkeys(("4.0", "4.3"), "leaves out those over")) for most in (0, 1)),
    ],
)  # fmt: skip
def test_what_an_import_makes_otherwise_is_named_for_each_release(section: Any, otherwise: dict[str, str]) -> None:
    """As brokers of 3.10.8, 4.0.5 and 4.3.6 imported it on 2026-11-28."""
    definitions = loads({"vhosts": [{"name": "v"}], "users": [USER], **section})
    for release in ("3.10", "4.0", "4.3"):
        warnings = definitions.warnings_under(PROFILES[f"rabbitmq-{release}"])
        found = [str(warning) for warning in warnings if warning.code in ("HS903", "HS904")]
        assert bool(found) == (release in otherwise), (release, found)
        assert all(warning.code == "HS904" for warning in warnings if "by default" in str(warning)), found
        assert otherwise.get(release, "") in "".join(found)


def test_an_operator_policy_that_applies_to_nothing_is_in_no_topology() -> None:
    definitions = loads({"queues": [QUEUE], "parameters": [operator_policy({"max-length": 5})]})
    assert definitions.topology("v").operator_policies == {}
    assert dumped(definitions)["parameters"] == [operator_policy({"max-length": 5})]


@pytest.mark.parametrize(
    ("section", "warning"),
    [
        ({"parameters": [None]}, "parameters[0]: null is not an object: RabbitMQ's import leaves it out"),
        ({"parameters": {"a": 1}}, 'parameters: #{<<"a">> => 1} is no array: RabbitMQ\'s import fails (badarg)'),
        ({"users": {"a": 1}}, 'users: #{<<"a">> => 1} is no array: RabbitMQ\'s import fails (badarg)'),
        ({"permissions": "x"}, 'permissions: <<"x">> is no array: RabbitMQ\'s import fails (badarg)'),
        ({"topic_permissions": [7]}, "topic_permissions[0]: 7 is not an object: RabbitMQ's import leaves it out"),
        (
            {"queues": [{"name": "q" * 256}]},
            "queues[0].name: queue 'qqqqqqqqqqqqqqqqqqqqqqqq...qqqqqqqqqqqqq' has a name of 256 bytes, AMQP allows 255",
        ),
    ],
)
def test_what_is_no_entry_and_a_name_that_amqp_cannot_carry_are_warnings(section: Any, warning: str) -> None:
    """The 4.3 broker answers 500 to an import of a section that is no array, and imports the rest around a null."""
    definitions = loads(section)
    assert list(map(str, definitions.warnings)) == [warning]
    assert json.loads(definitions.dump()) == section


@pytest.mark.parametrize("section", FIELDS)
def test_a_misspelt_field_of_any_section_is_named_and_a_right_one_is_not(section: str) -> None:
    """Two letters in the wrong order, camel case, or a letter less: as people write them."""
    entry = whole_entry(section)
    assert not [each for each in loads({section: [entry]}).warnings if "leaves this field out" in str(each)]
    for name in FIELDS[section]:
        first, *others = name.replace("-", "_").split("_")
        wrong = {name[:-2] + name[-1] + name[-2], first + "".join(each.title() for each in others), name + "s"}
        for spelling in wrong - {*FIELDS[section]}:
            warnings = loads({section: [entry, {**entry, spelling: entry.get(name)}]}).warnings
            texts = [str(each) for each in warnings if each.code == "HS904" and spelling in str(each)]
            expected = f"{section}[1].{spelling}: RabbitMQ's import leaves this field out; did you mean '{name}'?"
            assert expected in texts, warnings


def whole_entry(section: str) -> dict[str, Any]:
    """Return an entry of a section with each of its fields."""
    values: dict[str, Any] = {
        "durable": True, "auto_delete": False, "internal": False, "exclusive": False, "arguments": {}, "definition": {},
        "priority": 0, "destination_type": "queue", "metadata": {}, "limits": {}, "tracing": False,
        "type": "topic" if section == "exchanges" else "classic", "apply-to": "all",
    }  # fmt: skip
    return {name: values.get(name, "a") for name in FIELDS[section]}


def test_fields_of_other_programs_are_one_note_and_comments_none() -> None:
    queue = {**QUEUE, "node": "rabbit@a", "messages": 5, "_comment": "ours", "$schema": "x"}
    [warning] = loads({"vhosts": [{"name": "v"}], "queues": [queue, {**queue, "name": "r"}]}).warnings
    assert (warning.code, str(warning)) == (
        "HS901", """queues: RabbitMQ's import leaves these fields out: "node", "messages\""""
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"type": "quorum"}, "queues[0].type: RabbitMQ's import leaves the type 'quorum' out; write x-queue-type"),
        ({"type": "classic", "arguments": {"x-queue-type": "stream"}}, "queues[0].type: RabbitMQ's import leaves"),
        ({"exclusive": True}, "queues[0].exclusive: RabbitMQ's import leaves it out, and makes a queue that is not"),
        ({"type": "quorum", "arguments": {"x-queue-type": "quorum"}}, ""),
        ({"type": "classic", "exclusive": False}, ""),
        ({"name": "amq.q"}, "queues[0]: skipped by RabbitMQ's import, as all names with amq. are; queue 'amq.q'"),
        ({"type": "rabbit_mqtt_qos0_queue"}, ""),
    ],
)
def test_a_queue_that_an_import_makes_otherwise_than_its_entry_reads_is_named(more: Any, words: str) -> None:
    """As `add_queue_int` of RabbitMQ's source reads an entry: neither its type nor whether it is exclusive."""
    definitions = loads({"queues": [{**QUEUE, **more}], "vhosts": [{"name": "v"}]})
    found = [str(each) for each in definitions.warnings_under(PROFILES["rabbitmq-4.3"]) if each.code == "HS904"]
    assert len(found) == bool(words)
    assert "".join(found).startswith(words)


def test_an_empty_document_becomes_definitions_that_are_a_topology() -> None:
    """As brokers export it: what `hashstar convert` writes can be read again."""
    written = Document.loads("").definitions()
    assert written.is_topology
    assert {"exchanges": [], "queues": [], "bindings": [], "policies": []}.items() <= dumped(written).items()


@pytest.mark.parametrize("is_bound", [False, True])
def test_the_exchange_of_a_nodes_log_is_no_fault_and_no_part_unless_it_is_bound(is_bound: bool) -> None:
    """Each broker of 4.3.6 exports it; a client cannot declare it, and an import skips it."""
    log = {**ONE_VHOST["exchanges"][0], "name": "amq.rabbitmq.log", "type": "topic"}
    value = {**ONE_VHOST, "exchanges": [*ONE_VHOST["exchanges"], log]}
    if is_bound:
        value["bindings"] = [*ONE_VHOST["bindings"], {**ONE_VHOST["bindings"][0], "source": log["name"]}]
    definitions = loads(value)
    (report,) = check_source(read_source(json.dumps(value).encode(), "definitions.json")).vhosts
    assert not {"HS602", "HS901", "HS904"} & {finding.code for finding in report.findings if "amq." in finding.message}
    topology = definitions.topology()
    assert (log["name"] in topology.exchanges) == is_bound
    assert dumped(definitions.with_topology(topology)) == value
