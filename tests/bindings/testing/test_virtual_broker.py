"""The virtual broker routes as the router does, keeps what it routed, and its fixture finds the topology."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bindings.testing.virtual_broker import VirtualBroker
from exchange import (
    AccessRefused,
    Binding,
    BrokerError,
    Exchange,
    Message,
    NotFound,
    PreconditionFailed,
    Queue,
    Router,
    Topology,
)

ROOT = Path(__file__).parents[3]
ORDERS = Topology(
    exchanges=[Exchange("orders", "topic"), Exchange("odd", "x-from-a-plugin"), Exchange("inner", internal=True)],
    queues=[Queue("billing"), Queue("audit"), Queue("empty")],
    bindings=[Binding.to_queue("orders", "billing", "order.*.created"), Binding.to_queue("orders", "audit", "order.#")],
)


def test_a_published_message_is_in_the_queues_it_is_routed_to() -> None:
    """One copy each, oldest first, complete; the route names the queues."""
    broker = VirtualBroker(ORDERS)
    route = broker.publish("orders", "order.eu.created", b"1", {"n": 1}, {"message_id": "17"})
    assert route.queues == ("audit", "billing")
    broker.publish("orders", "order.eu", b"2")
    first = Message("orders", "order.eu.created", {"n": 1}, {"message_id": "17"}, b"1")
    assert broker.queues == {
        "billing": [first],
        "audit": [first, Message("orders", "order.eu", body=b"2")],
        "empty": [],
    }


def test_messages_keep_their_content() -> None:
    """A dict that the publisher changes later does not change the message."""
    broker, headers = VirtualBroker(ORDERS), {"n": 1}
    broker.publish("", "billing", headers=headers)
    headers["n"] = 2
    assert broker.queues["billing"][0].headers == {"n": 1}


def test_unroutable_messages_are_kept_and_mandatory_ones_returned() -> None:
    """A message that no queue gets is in ``unroutable``; in ``returned`` too if it was mandatory."""
    broker = VirtualBroker(ORDERS)
    assert broker.publish("orders", "invoice").unroutable
    broker.publish("orders", "invoice", b"2", mandatory=True)
    broker.publish("orders", "order", b"3", mandatory=True)
    assert [message.body for message in broker.unroutable] == [b"", b"2"]
    assert [message.body for message in broker.returned] == [b"2"]


def test_what_an_unknown_exchange_may_route_is_in_no_list() -> None:
    """Whether it is unroutable is not known, and the route shows that."""
    broker = VirtualBroker(ORDERS)
    route = broker.publish("odd", "a", mandatory=True)
    assert route.undecided == ("odd",)
    assert not broker.unroutable
    assert not broker.returned


@pytest.mark.parametrize(
    ("kind", "timeout", "text"),
    [
        ("classic", 5, "of queue type rabbit_classic_queue"),
        ("stream", 5, "of queue type rabbit_stream_queue"),
        ("quorum", -1, "{value_negative,-1}"),
        ("quorum", "3000", "expected integer, got longstr"),
        ("quorum", 1.5, "expected integer, got double"),
    ],
)
def test_a_timeout_that_the_broker_refuses_starts_no_consumer(kind: str, timeout: Any, text: str) -> None:
    broker = VirtualBroker(Topology(queues=[Queue("q", arguments={"x-queue-type": kind})]))
    with pytest.raises(PreconditionFailed, match=re.escape(text)):
        broker.consume("q", prefetch=1, timeout=timeout)
    old = VirtualBroker(broker.topology.with_profile("4.2"))
    assert old.consume("q", prefetch=1, timeout=timeout).timeouts == 0  # older releases look at no such argument


def test_a_bcc_header_routes_and_is_removed() -> None:
    """As RabbitMQ 3.10, 4.0 and 4.3 do, for returned messages too; CC stays."""
    broker = VirtualBroker(ORDERS)
    headers = {"BCC": ["order.b"], "CC": ["order.x.created"], "n": 1}
    assert broker.publish("orders", "none", headers=headers).queues == ("audit", "billing")
    assert broker.queues["audit"][0].headers == {"CC": ["order.x.created"], "n": 1}
    broker.publish("orders", "none", headers={"BCC": ["none"]}, mandatory=True)
    assert broker.returned[0].headers == {}


@pytest.mark.parametrize(
    ("exchange", "headers", "error"),
    [
        ("nowhere", {}, NotFound("no exchange 'nowhere' in vhost '/'")),
        ("inner", {}, AccessRefused("cannot publish to internal exchange 'inner' in vhost '/'")),
        ("orders", {"CC": "a"}, PreconditionFailed('invalid message: {unacceptable_type_in_header,"CC",longstr}')),
    ],
)
def test_the_brokers_errors_are_raised_and_nothing_is_published(
    exchange: str, headers: dict[str, object], error: BrokerError
) -> None:
    """With RabbitMQ's code and words."""
    broker = VirtualBroker(ORDERS)
    with pytest.raises(type(error)) as raised:
        broker.publish(exchange, "order", headers=headers)
    assert str(raised.value) == str(error)
    assert not any(broker.queues.values())


def test_a_queue_that_does_not_exist_is_not_found() -> None:
    """A misspelt name in a test is no empty queue."""
    broker = VirtualBroker(ORDERS)
    assert broker.queues["empty"] == []
    with pytest.raises(NotFound, match="404 NOT_FOUND - no queue 'bilings' in vhost '/'"):
        broker.queues["bilings"]


def test_parts_can_be_declared_and_deleted() -> None:
    """Code under test may declare its own topology; the queues follow."""
    broker = VirtualBroker()
    broker.declare_exchange(Exchange("events", "fanout"))
    broker.declare_queue(Queue("all"))
    binding = Binding.to_queue("events", "all")
    broker.bind(binding)
    assert broker.publish("events").queues == ("all",)
    broker.unbind(binding)
    assert broker.publish("events").unroutable
    broker.declare_queue(Queue("all"))
    assert len(broker.queues["all"]) == 1
    broker.delete_queue("all")
    assert "all" not in broker.queues
    broker.delete_exchange("events")
    with pytest.raises(NotFound):
        broker.publish("events")
    with pytest.raises(PreconditionFailed):
        broker.declare_exchange(Exchange("odd", "x-from-a-plugin"))
    assert broker.topology == Topology()


def test_expect_publishes_nothing_and_passes_when_the_queues_are_right() -> None:
    """In whatever order they are given."""
    broker = VirtualBroker(ORDERS)
    broker.expect("orders", "order.eu.created", queues=["billing", "audit"])
    broker.expect("orders", "invoice", queues=[])
    assert not any(broker.queues.values())


def test_expect_fails_with_the_queues_that_differ_and_the_route_explained() -> None:
    """The AssertionError is what one needs to see: missing, too many, and the way the message took."""
    broker = VirtualBroker(ORDERS)
    with pytest.raises(AssertionError) as raised:
        broker.expect("orders", "order.eu", queues=["billing", "empty"])
    text = str(raised.value)
    assert text.startswith("not routed to billing, empty; routed to audit\n\n")
    assert text.endswith(str(broker.explain("orders", "order.eu")))
    assert "'order.#' -> queue 'audit'" in text


def test_expect_explains_why_a_message_misses_a_queue() -> None:
    """When a queue is only missing, the explanation is about that queue."""
    broker = VirtualBroker(ORDERS)
    with pytest.raises(AssertionError) as raised:
        broker.expect("orders", "order.eu", queues=["audit", "billing"])
    assert str(raised.value).endswith(str(broker.explain("orders", "order.eu", queue="billing")))
    assert "queue 'billing' does not get it" in str(raised.value)


def test_expect_does_not_pass_what_is_undecided() -> None:
    """Behind an exchange of unknown type there may be more queues."""
    with pytest.raises(AssertionError, match="undecided at odd"):
        VirtualBroker(ORDERS).expect("odd", "a", queues=[])


def test_expect_refuses_one_name_for_a_collection() -> None:
    """Its letters would be taken for queues."""
    with pytest.raises(TypeError, match="queues is a collection"):
        VirtualBroker(ORDERS).expect("orders", "order", queues="audit")


# The plugin, in a pytest of its own.

PLAIN = {"durable": True, "auto_delete": False, "arguments": {}}
DEFINITIONS = {
    "vhosts": [{"name": "shop"}],
    "exchanges": [{"name": "orders", "vhost": "shop", "type": "topic", "internal": False, **PLAIN}],
    "queues": [{"name": "all", "vhost": "shop", **PLAIN}],
    "bindings": [
        {
            "source": "orders",
            "vhost": "shop",
            "destination": "all",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        }
    ],
}

USERS_TESTS = """
import pytest
from exchange import CommandInvalid, Exchange, Queue, Topology

SMALL = Topology(queues=[Queue("q")])

@pytest.mark.topology("definitions.json", vhost="shop")
def test_a_file_beside_the_test(virtual_broker):
    virtual_broker.expect("orders", "a", queues=["all"])
    virtual_broker.publish("orders", "a")

@pytest.mark.topology("definitions.json", vhost="shop")
def test_each_test_has_its_own_broker(virtual_broker):
    assert virtual_broker.queues["all"] == []

@pytest.mark.topology(SMALL, profile="rabbitmq-3.12")
def test_a_topology(virtual_broker):
    virtual_broker.expect("", "q", queues=["q"])
    with pytest.raises(CommandInvalid):
        virtual_broker.declare_exchange(Exchange("x", "unknown"))

def test_the_ini_option(virtual_broker):
    virtual_broker.expect("orders", "a", queues=["all"])

@pytest.mark.topology(profile="rabbitmq-3.12")
def test_the_ini_option_under_another_profile(virtual_broker):
    assert virtual_broker.topology.profile.name == "rabbitmq-3.12"
    virtual_broker.expect("orders", "a", queues=["all"])

@pytest.mark.topology(SMALL)
def test_a_server_of_the_same_topology(amqp_server):
    assert amqp_server.topology == SMALL
    assert amqp_server.messages("q") == []

@pytest.mark.topology(SMALL, vhost="other")
def test_error_vhost_of_a_topology(virtual_broker): ...

@pytest.mark.topology("missing.json")
def test_error_missing_file(virtual_broker): ...

@pytest.mark.topology(SMALL)
def test_failure_is_explained(virtual_broker):
    virtual_broker.expect("", "p", queues=["q"])
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    """Return what pytest prints in the folder, with our plugin and the one that pyproject.toml configures."""
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    plugins = ["-p", "bindings.pytest_plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_fixture_takes_its_topology_from_the_marker_or_the_ini_option(tmp_path: Path) -> None:
    """A file beside the test, a Topology, or the ini option's file; mistakes and failures say what is wrong."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_users.py").write_text(USERS_TESTS)
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "definitions.json").write_text(json.dumps(DEFINITIONS))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers\nhashstar_definitions = definitions.json\n"
    )
    output = run_pytest(tmp_path, "-rA", "sub")
    assert "6 passed, 1 failed, 2 errors" in output.replace("1 failed, 6 passed", "6 passed, 1 failed"), output
    assert "ERROR sub/test_users.py::test_error_vhost_of_a_topology" in output
    assert "a Topology has its vhost, '/'" in output
    assert "missing.json" in output
    assert "E       AssertionError: not routed to q" in output
    assert "in expect" not in output


def test_the_marker_and_the_ini_option_are_documented_to_pytest(tmp_path: Path) -> None:
    """``pytest --markers`` and ``pytest --help`` name them."""
    code = "import pytest; [pytest.main(['-p', 'bindings.pytest_plugin', each]) for each in ('--markers', '--help')]"
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert "@pytest.mark.topology(definitions=None, *, vhost=None, profile=None)" in printed
    assert "hashstar_definitions" in printed


def test_the_plugin_imports_nothing_of_the_engine_but_the_table_of_its_names() -> None:
    """Every pytest run on a machine with the project pays for its import."""
    code = "import sys, bindings.pytest_plugin; print(*[m for m in sys.modules if m[:8] in ('exchange', 'lark')])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*answer.stdout.split()} <= {"exchange", "exchange.public_names"}


def test_the_example_of_a_consumer_passes() -> None:
    """What examples/consumer shows to users works."""
    output = run_pytest(ROOT, "examples/consumer", "-q")
    assert "3 passed" in output, output


@pytest.mark.parametrize("given", ["topology.json", Router(Topology())])
def test_what_is_no_topology_is_refused_with_what_reads_one(given: Any) -> None:
    with pytest.raises(TypeError, match=r"a Topology is wanted, not .*: bindings\.load reads one"):
        VirtualBroker(given)


@pytest.mark.parametrize(
    ("ask", "noun", "meant"),
    [
        (lambda broker: broker.publish("order", "k"), "exchange 'order'", "orders"),
        (lambda broker: broker.get("biling"), "queue 'biling'", "billing"),
        (lambda broker: broker.consume("biling"), "queue 'biling'", "billing"),
        (lambda broker: broker.purge("biling"), "queue 'biling'", "billing"),
        (lambda broker: broker.queues["biling"], "queue 'biling'", "billing"),
    ],
)
def test_a_misspelt_name_is_refused_in_rabbitmqs_words_with_a_note_of_the_right_one(
    ask: Callable[[VirtualBroker], object], noun: str, meant: str
) -> None:
    with pytest.raises(NotFound) as caught:
        ask(VirtualBroker(ORDERS))
    assert str(caught.value) == f"404 NOT_FOUND - no {noun} in vhost '/'"
    assert caught.value.__notes__ == [f"did you mean '{meant}'?"]


def test_a_name_like_no_other_is_refused_without_a_note() -> None:
    with pytest.raises(NotFound) as caught:
        VirtualBroker(ORDERS).publish("zzz", "k")
    assert not hasattr(caught.value, "__notes__")


def test_a_test_without_its_marker_hears_that_the_topology_is_empty(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(virtual_broker):\n    virtual_broker.publish('orders', 'k')\n")
    output = run_pytest(tmp_path)
    assert "no exchange 'orders' in vhost '/'" in output
    assert "the topology is empty" in output
    assert "@pytest.mark.topology(PATH)" in output
