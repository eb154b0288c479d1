"""AsyncAPI: channels of exchanges, keys and queues, in versions 2 and 3; and what it cannot express."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bindings.sources.definitions import Definitions
from bindings.sources.formats import FORMATS, SourceFile
from bindings.sources.formats.format import WriteTarget
from bindings.sources.formats.imported import Imported
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.errors import InputError
from tests.support.program import run_program

ASYNCAPI = FORMATS["asyncapi"]


def read(document: object) -> Imported:
    return ASYNCAPI.read([SourceFile("f.json", json.dumps(document))], "f.json")


def exchange(name: str, kind: str = "topic", **more: Any) -> dict[str, Any]:
    return {"amqp": {"is": "routingKey", "exchange": {"name": name, "type": kind, **more}, "bindingVersion": "0.3.0"}}


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"amqp": {"is": "queue", "queue": {"name": name, **more}, "bindingVersion": "0.3.0"}}


def version_3(channels: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"asyncapi": "3.0.0", "info": {"title": "t", "version": "1"}, "channels": channels, **more}


def test_exchanges_and_queues_are_those_of_the_channels() -> None:
    """With their flags and virtual hosts; the default exchange and predeclared ones declare nothing."""
    imported = read(version_3({
        "a": {"address": "k", "bindings": exchange("e", "direct", durable=False, autoDelete=True)},
        "b": {"address": None, "bindings": exchange("e", "direct", durable=False, autoDelete=True)},
        "c": {"bindings": queue("q", durable=True, autoDelete=False)},
        "d": {"address": "q", "bindings": exchange("", "default")},
        "e": {"address": "x", "bindings": exchange("amq.topic")},
        "f": {"bindings": queue("r", vhost="/shop")},
        "g": {"address": "kafka", "bindings": {"kafka": {}}},
        "h": {"address": "none"},
    }))  # fmt: skip
    assert imported.definitions.topology("/") == Topology(
        [Exchange("e", "direct", durable=False, auto_delete=True)], [Queue("q")]
    )
    assert imported.definitions.topology("/shop") == Topology([], [Queue("r")], vhost="/shop")
    assert list(map(str, imported.warnings)) == [
        "not read, as it is no part of a topology: 2 channel without AMQP bindings"
    ]


def test_a_queue_is_bound_to_the_exchanges_whose_messages_it_has() -> None:
    """A message of the queue's channel is a reference to one of a channel with a key."""
    messages = {
        "m": {"$ref": "#/channels/shop~1orders/messages/created"},
        "own": {"payload": {}},
        "c": {"$ref": "#/components/messages/c"},
    }
    imported = read(version_3(
        {
            "shop/orders": {"address": "order.*.created", "messages": {"created": {}}, "bindings": exchange("orders")},
            "q": {"$ref": "#/components/channels/q"},
        },
        components={"channels": {"q": {"messages": messages, "bindings": {"$ref": "#/components/channelBindings/q"}}}, "channelBindings": {"q": queue("q")}},
    ))  # fmt: skip
    assert set(imported.definitions.topology().bindings) == {Binding.to_queue("orders", "q", "order.*.created")}
    assert imported.warnings == []


def test_a_key_under_cc_binds_a_queue_where_only_one_exchange_has_it() -> None:
    """Anything else would be a guess, and is a warning."""
    channels = {
        "a": {"address": "k", "bindings": exchange("one")},
        "b": {"address": "l", "bindings": exchange("one")},
        "c": {"address": "l", "bindings": exchange("two")},
        "q": {"bindings": queue("q")},
    }
    operation = {
        "action": "receive",
        "channel": {"$ref": "#/channels/q"},
        "bindings": {"amqp": {"cc": ["k", "l", "m"]}},
    }
    imported = read(version_3(channels, operations={"o": operation}))
    assert set(imported.definitions.topology().bindings) == {Binding.to_queue("one", "q", "k")}
    assert [str(warning).partition(": ")[2] for warning in imported.warnings] == [
        "queue 'q' is not bound by 'l': 2 exchanges have a channel with this key",
        "queue 'q' is not bound by 'm': no exchange has a channel with this key",
    ]


def test_a_channel_of_an_exchange_may_refer_to_the_channel_of_its_queue() -> None:
    """With the key as its name: AMQP bindings 0.4.0. A key that is the queue's name is for the default exchange."""
    amqp = exchange("e")["amqp"] | {"name": "order.#", "channel": {"$ref": "#/channels/q"}, "bindingVersion": "0.4.0"}
    operation = {"action": "receive", "channel": {"$ref": "#/channels/r"}, "bindings": {"amqp": {"cc": ["r"]}}}
    channels = {"e": {"bindings": {"amqp": amqp}}, "q": {"bindings": queue("q")}, "r": {"bindings": queue("r")}}
    imported = read(version_3(channels, operations={"o": operation}))
    assert set(imported.definitions.topology().bindings) == {Binding.to_queue("e", "q", "order.#")}
    assert imported.warnings == []


def test_version_2_names_channels_by_their_keys() -> None:
    """And a channel may have an exchange and a queue."""
    both = {"is": "routingKey", "exchange": {"name": "e", "type": "direct"}, "queue": {"name": "q"}}
    text = json.dumps(
        {
            "asyncapi": "2.6.0",
            "info": {},
            "channels": {
                "user/signedup": {
                    "bindings": {"amqp": both},
                    "publish": {"bindings": {"amqp": {"cc": ["user/signedup"]}}},
                },
                "r": {"bindings": queue("r"), "subscribe": {"bindings": {"amqp": {"cc": ["user/signedup"]}}}},
            },
        }
    )
    result = run_program("convert", "-", given=text)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith(
        'exchange e: direct\n\nqueue q\nqueue r\n\ne -> q: "user/signedup"\ne -> r: "user/signedup"\n'
    )


def test_what_cannot_be_read_is_a_warning_with_its_place() -> None:
    """Nothing is invented in its place."""
    imported = read(version_3({
        "a": {"address": "user.{id}", "bindings": exchange("e")},
        "b": {"address": "x", "bindings": {"amqp": {"exchange": {"name": "untyped"}}}},
        "c": {"bindings": queue("")},
        "d": {"bindings": queue("q", exclusive=True)},
        "e": {"bindings": {"amqp": {"is": "queue"}}},
        "f": {"$ref": "https://example.com/channels.yaml#/x"},
        "g": {"$ref": "#/nowhere"},
        "h": {"$ref": "#/channels/h"},
        "i": {"bindings": exchange("e", "fanout")},
    }))  # fmt: skip
    assert [str(warning) for warning in imported.warnings] == [
        "channels.a: channel 'a': an address with parameters is no routing key",
        "channels.b.bindings.amqp.exchange: channel 'b': exchange 'untyped' has no type and is left out",
        "channels.c.bindings.amqp.queue: channel 'c': its queue has no name and is left out",
        "channels.d.bindings.amqp.queue: queue 'q' is exclusive to one connection; it is read as a lasting one",
        "channels.e.bindings.amqp: channel 'e' has no queue and is left out",
        'channels.f.$ref: "https://example.com/channels.yaml#/x" is outside of this file and not read; bundle the document',
        'channels.g.$ref: "#/nowhere" leads to nothing',
        "channels.h: references lead to one another without end",
        (
            "channels.i.bindings.amqp.exchange: exchange 'e' is here again, after channels.a.bindings.amqp.exchange; the first "
            "counts"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("asyncapi: 1.2.0", "f.yaml:1: AsyncAPI 1.2.0 is not read; versions 2 and 3 are"),
        ("asyncapi: 3.0", "f.yaml:1: asyncapi: 3.0 is not a text; put it in quotes"),
        ("asyncapi: 3.0.0\nchannels: [a]", "f.yaml:2: channels: [...] is not a mapping"),
        ("asyncapi: 3.0.0\nchannels:\n  a: {bindings: {amqp: {exchange: {name: 5}}}}", "f.yaml:3: channels.a.bindings.amqp.exchange.name"),
        ("asyncapi: 3.0.0\n---\nasyncapi: 3.0.0", "f.yaml: there are 2 documents in it; an AsyncAPI document is one"),
        ("asyncapi: 3.0.0\nchannels:\n  a: {bindings: {amqp: {exchange: {name: e, type: topic, durable: x}}}}", 'f.yaml:3: channels.a.bindings.amqp.exchange.durable: "x" is not true or false'),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_with_its_line(text: str, words: str) -> None:
    """In YAML; in JSON with its path."""
    with pytest.raises(InputError) as error:
        ASYNCAPI.read([SourceFile("f.yaml", text)], "f.yaml")
    assert str(error.value).startswith(words)


TOPOLOGY = Topology(
    [Exchange("orders", "topic"), Exchange("hash", "x-consistent-hash"), Exchange("headers", "headers", internal=True)],
    [Queue("billing", arguments={"x-queue-type": "quorum"}), Queue("plain", durable=False)],
    [
        Binding.to_queue("orders", "billing", "order.*.created"),
        Binding.to_queue("orders", "billing", "order.eu"),
        Binding.to_exchange("orders", "headers", "x"),
        Binding.to_queue("hash", "billing", "1"),
        Binding.to_queue("headers", "billing", "", {"x-match": "all"}),
        Binding.to_queue("orders", "nowhere", "y"),
        Binding.to_queue("orders", "plain", "{a}"),
    ],
    [Policy("keep", "x", {"message-ttl": 5})],
)


def test_the_document_has_the_form_of_asyncapi_3() -> None:
    """Channels, references and operations; each reference leads to what is there."""
    (text,) = (
        chunk for chunk in ASYNCAPI.write(Definitions().with_topology(TOPOLOGY), WriteTarget("x.json")).chunks[:1]
    )
    document = json.loads(text)
    assert (document["asyncapi"], set(document["info"])) == ("3.0.0", {"title", "version"})
    channels = document["channels"]
    assert channels["orders-order.eu"] == {
        "address": "order.eu",
        "messages": {"message": {}},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {"name": "orders", "type": "topic", "durable": True, "autoDelete": False, "vhost": "/"},
                "bindingVersion": "0.3.0",
            }
        },
    }
    assert channels["billing"]["bindings"]["amqp"] == {
        "is": "queue",
        "queue": {"name": "billing", "durable": True, "autoDelete": False, "vhost": "/"},
        "bindingVersion": "0.3.0",
    }
    assert document["operations"]["receive-billing"] == {
        "action": "receive",
        "channel": {"$ref": "#/channels/billing"},
        "bindings": {"amqp": {"cc": ["order.*.created", "order.eu"], "bindingVersion": "0.3.0"}},
    }
    for channel in channels.values():
        for message in channel["messages"].values():
            if "$ref" in message:
                _, _, name, _, inner = message["$ref"].split("/")
                assert inner in channels[name]["messages"]
    assert {operation["channel"]["$ref"] for operation in document["operations"].values()} == {
        "#/channels/billing",
        "#/channels/plain",
    }


def test_what_asyncapi_cannot_express_is_named() -> None:
    """Arguments, other types of exchanges, bindings with arguments or between exchanges, policies."""
    written = ASYNCAPI.write(Definitions().with_topology(TOPOLOGY), WriteTarget("x.yaml"))
    assert written.warnings == [
        "exchange 'hash' is left out: AsyncAPI has no exchange of type 'x-consistent-hash' (1 binding)",
        "exchange 'headers' is written without internal",
        "queue 'billing' is written without x-queue-type",
        "the binding from 'orders' to queue 'plain' with the key '{a}' is left out: an address with braces has parameters",
        "the binding from 'hash' to queue 'billing' with the key '1' is left out: there is no channel of exchange 'hash'",
        (
            "the binding from 'orders' to exchange 'headers' with the key 'x' is left out: AsyncAPI has no bindings between "
            "exchanges"
        ),
        "the binding from 'orders' to queue 'nowhere' with the key 'y' is left out: there is no channel of queue 'nowhere'",
        "the binding from 'headers' to queue 'billing' with the key '' is left out: it has arguments: x-match",
        "policy 'keep' is left out: AsyncAPI has no policies",
    ]


def test_the_command_writes_yaml_or_json(tmp_path: Path) -> None:
    """By the ending of the file's name, which also chooses the format if it is asyncapi.yaml or asyncapi.json."""
    text = "exchange orders: topic\nqueue billing\norders -> billing: 'order.#'\n"
    for name in ("asyncapi.yaml", "shop.asyncapi.json"):
        out = tmp_path / name
        result = run_program("convert", "-", str(out), given=text)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert run_program("diff", "-", str(out), given=text).returncode == 0
    assert (tmp_path / "asyncapi.yaml").read_text().startswith('asyncapi: "3.0.0"\ninfo:\n')
    assert (
        run_program("convert", "--format", "asyncapi", "-", given=text).stdout
        == (tmp_path / "asyncapi.yaml").read_text()
    )


def test_a_document_beyond_what_is_read_is_written_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions = Definitions().with_topology(Topology([], [Queue("a")], []))
    monkeypatch.setattr("bindings.sources.formats.yaml_text.DOCUMENT_ITEMS", 5)
    for name, warned in (("a.yaml", True), ("a.json", False)):
        warnings = FORMATS["asyncapi"].write(definitions, WriteTarget(name)).warnings
        assert any("as JSON, to a file FILE.json, it is read" in each for each in warnings) == warned
