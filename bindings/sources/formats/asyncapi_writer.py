"""Write a topology as an AsyncAPI 3 document: a channel for each queue, and for each exchange with each routing key.

A queue gets the messages of the exchanges that are bound to it: the messages of its channel are references to the
messages of theirs. Everything that AsyncAPI has no field for is a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.formats.format import Omissions, WriteTarget, Written, has_lone_surrogate
from bindings.sources.formats.yaml_text import find_excesses, write_documents
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Queue
from exchange.text.display import count_noun, list_some
from exchange.topology.topology import Topology

Object = dict[str, Any]

VERSION: Final = "3.0.0"
BINDING_VERSION: Final = "0.3.0"
TYPES: Final = frozenset({"topic", "direct", "fanout", "headers"})
"""The types of exchanges that the AMQP bindings of AsyncAPI know."""
MAX_LISTED_NAMES: Final = 5
"""Maximum number of names that a warning lists."""
OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def write_asyncapi(definitions: Definitions, target: WriteTarget) -> Written:
    """Return the document: JSON if the name of the file ends with .json, else YAML."""
    writer = _AsyncApiWriter()
    topologies = [definitions.topology(vhost) for vhost in definitions.vhosts]
    for topology in topologies:
        writer.write(topology)
    writer.omissions.rest(definitions)
    title = (
        f"Topology of {', '.join(topology.vhost for topology in topologies if not has_lone_surrogate(topology.vhost))}"
    )
    document: Object = {
        "asyncapi": VERSION,
        "info": {"title": title, "version": "1.0.0"},
        "channels": writer.channels,
        "operations": writer.operations,
    }
    document = {key: value for key, value in document.items() if value}
    if target.name.endswith(".json"):
        return Written([json.dumps(document, ensure_ascii=False, indent=2), "\n"], writer.omissions.warnings)
    (text,) = write_documents([document])
    excesses = [f"{each}; as JSON, to a file FILE.json, it is read" for each in find_excesses([text])]
    return Written([text.removeprefix("---\n")], [*writer.omissions.warnings, *excesses])


class _AsyncApiWriter:
    def __init__(self) -> None:
        self.omissions = Omissions("AsyncAPI")
        self.channels: dict[str, Object] = {}
        self.operations: dict[str, Object] = {}

    def write(self, topology: Topology) -> None:
        """Add the channels and operations of one virtual host."""
        vhost = topology.vhost
        exchanges = {name: part for name, part in topology.exchanges.items() if self._has_exchange(topology, part)}
        queues = {name: part for name, part in topology.queues.items() if self._has_queue(vhost, part)}
        keys: dict[str, dict[str, list[Binding]]] = {name: {} for name in exchanges}
        for binding in topology.bindings:
            if not binding.source:
                continue  # the broker makes the bindings of the default exchange
            if binding.source not in exchanges:
                self.omissions.part(vhost, binding, f"there is no channel of exchange {binding.source!r}")
            elif has_lone_surrogate(binding.routing_key):
                self.omissions.part(vhost, binding, "half of a surrogate pair in its key is no text in UTF-8")
            elif {"{", "}"} & set(binding.routing_key):
                self.omissions.part(vhost, binding, "an address with braces has parameters")
            else:
                keys[binding.source].setdefault(binding.routing_key, []).append(binding)
        messages: dict[str, Object] = {name: {} for name in queues}
        bound: dict[str, list[str]] = {name: [] for name in queues}
        for name, by_key in keys.items():
            for key, bindings in by_key.items():
                channel = self._exchange_channel(vhost, exchanges[name], key)
                for binding in self._expressible(vhost, bindings, queues):
                    queue = binding.destination.name
                    messages[queue][channel] = {"$ref": f"#/channels/{channel}/messages/message"}
                    bound[queue].append(key)
            if not by_key and name not in PREDECLARED_NAMES:
                self._exchange_channel(vhost, exchanges[name], None)
        for name, part in queues.items():
            self._queue_channel(vhost, part, messages[name], bound[name])
        for policy in topology.policies.values():
            self.omissions.part(vhost, policy, "AsyncAPI has no policies")

    def _has_exchange(self, topology: Topology, part: Exchange) -> bool:
        vhost = topology.vhost
        if not part.name or part.type not in TYPES:
            if part.name:
                count = len(topology.bindings_from(part.name))
                reason = f"AsyncAPI has no exchange of type {part.type!r}"
                self.omissions.part(vhost, part, f"{reason} ({count_noun(count, 'binding')})" if count else reason)
            return False
        if part.name in PREDECLARED_NAMES:
            return bool(vhost) and not has_lone_surrogate(vhost)
        if self.omissions.refuses(vhost, part, None):
            return False
        self._warn_of_details(vhost, part, ["internal"] if part.internal else [])
        return True

    def _has_queue(self, vhost: str, part: Queue) -> bool:
        if self.omissions.refuses(vhost, part, None):
            return False
        self._warn_of_details(vhost, part, [])
        return True

    def _warn_of_details(self, vhost: str, part: Exchange | Queue, more: list[str]) -> None:
        lost = [*more, *part.arguments]
        if lost:
            self.omissions.detail(vhost, part, f"is written without {list_some(lost, MAX_LISTED_NAMES)}")

    def _expressible(self, vhost: str, bindings: Iterable[Binding], queues: Iterable[str]) -> Iterator[Binding]:
        for binding in bindings:
            kind, name = binding.destination
            if binding.arguments:
                self.omissions.part(
                    vhost, binding, f"it has arguments: {list_some(list(binding.arguments), MAX_LISTED_NAMES)}"
                )
            elif kind == "exchange":
                self.omissions.part(vhost, binding, "AsyncAPI has no bindings between exchanges")
            elif name not in queues:
                self.omissions.part(vhost, binding, f"there is no channel of queue {name!r}")
            else:
                yield binding

    def _exchange_channel(self, vhost: str, part: Exchange, key: str | None) -> str:
        settings = {"name": part.name, "type": part.type, **_flags(part), "vhost": vhost}
        words = part.name if key is None else f"{part.name}-{key}" if key else f"{part.name}-"
        name = self._channel_name(words, ["exchange", vhost, part.name, key])
        self.channels[name] = {
            "address": key,
            "messages": {"message": {}},
            "bindings": {"amqp": {"is": "routingKey", "exchange": settings, "bindingVersion": BINDING_VERSION}},
        }
        return name

    def _queue_channel(self, vhost: str, part: Queue, messages: Object, keys: list[str]) -> None:
        settings = {"name": part.name, **_flags(part), "vhost": vhost}
        name = self._channel_name(part.name, ["queue", vhost, part.name])
        self.channels[name] = {
            "address": None if {"{", "}"} & set(part.name) else part.name,
            "messages": messages or {"message": {}},
            "bindings": {"amqp": {"is": "queue", "queue": settings, "bindingVersion": BINDING_VERSION}},
        }
        operation: Object = {"action": "receive", "channel": {"$ref": f"#/channels/{name}"}}
        if keys:
            cc = sorted(set(keys))
            operation["bindings"] = {"amqp": {"cc": cc, "bindingVersion": BINDING_VERSION}}
        self.operations[f"receive-{name}"] = operation

    def _channel_name(self, words: str, identity: list[str | None]) -> str:
        """Return a name without characters that a reference would escape; a hash keeps apart what would be equal."""
        if words and not OTHERS.search(words) and words not in self.channels:
            return words
        digest = sha256(json.dumps(identity).encode()).hexdigest()
        slug = OTHERS.sub("-", words).strip("-")
        return next(
            name for most in (8, 16, 64) if (name := f"{slug}-{digest[:most]}".lstrip("-")) not in self.channels
        )


def _flags(part: Exchange | Queue) -> Object:
    return {"durable": part.durable, "autoDelete": part.auto_delete}
