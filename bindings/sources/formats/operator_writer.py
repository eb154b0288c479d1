"""Write a topology as objects of RabbitMQ's messaging topology operator for Kubernetes.

What Kubernetes does not allow in the name of an object is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import find_argument_texts
from bindings.sources.formats.format import (
    GivenNames,
    Omissions,
    WriteTarget,
    Written,
    find_kept_sections,
    has_lone_surrogate,
    list_limits,
    list_parts,
    list_settings,
)
from bindings.sources.formats.go_json import find_alterations
from bindings.sources.formats.operator_reader import CLUSTER, LIMITS, VERSION
from bindings.sources.formats.yaml_text import find_excesses, write_documents
from exchange.entities.effects import QUEUE_TYPES
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.errors import InputError
from exchange.values.field_json import encode_table
from exchange.values.field_values import thaw

Object = dict[str, Any]

APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")
OPERATOR_APPLY_TO: Final = APPLY_TO[:4]
SETTINGS: Final = {"tracing": "tracing", "tags": "tags", "default_queue_type": "defaultQueueType"}
"""Setting of a virtual host in definitions -> field of a Vhost."""
KEEP: Final[Mapping[str, Object]] = {"/": {"deletionPolicy": "retain"}}
"""Virtual host -> fields of its object, so that the broker's own virtual host stays when the object goes."""
ALLOWED: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain of RFC 1123, as Kubernetes defines it."""
OTHERS: Final = re.compile(r"[^a-z0-9]+")
NAME_LENGTH: Final = 253
"""Maximum number of characters of a name."""
STEM_LENGTH: Final = NAME_LENGTH - 13
"""Maximum number of characters before the hash."""


def write_operator(definitions: Definitions, target: WriteTarget) -> Written:
    """Return the objects, one YAML document each. Raises InputError without a cluster that Kubernetes can name."""
    cluster = target.cluster
    if cluster is None:
        raise InputError("which RabbitmqCluster are the objects for? Give it with --cluster NAME[/NAMESPACE]")
    name, slash, namespace = cluster.partition("/")
    if not ALLOWED.fullmatch(name) or (slash and not ALLOWED.fullmatch(namespace)):
        raise InputError(f"--cluster {cluster!r} is no NAME[/NAMESPACE] of Kubernetes: lower-case letters, digits, -")
    writer = _ManifestWriter({"name": name, **({"namespace": namespace} if slash else {})})
    objects = list(writer.objects(definitions))
    writer.omissions.rest(definitions, kept=find_kept_sections(definitions, SETTINGS))
    texts = list(write_documents(objects))
    excesses = [f"{each}; write each virtual host by itself, with --vhost" for each in find_excesses(texts)]
    return Written(texts, [*writer.omissions.warnings, *excesses])


class _ManifestWriter:
    def __init__(self, reference: Object) -> None:
        self.omissions = Omissions("the operator")
        self._reference = reference
        self._names = Names()

    def objects(self, definitions: Definitions) -> Iterator[Object]:
        """Yield all objects, in an order in which a broker takes them."""
        yield from self._vhosts(definitions)
        write: dict[type, Callable[[str, Any], Iterator[Object]]] = {
            Exchange: self._exchange, Queue: self._queue, Binding: self._binding, Policy: self._policy,
        }  # fmt: skip
        for vhost, part in list_parts(definitions):
            yield from write[type(part)](vhost, part)

    def _vhosts(self, definitions: Definitions) -> Iterator[Object]:
        settings, limits = list_settings(definitions), list_limits(definitions)
        for vhost in definitions.vhosts:
            given = settings.get(vhost, {})
            spec: Object = {field: given[name] for name, field in SETTINGS.items() if name in given}
            if vhost in limits:
                numbers = limits[vhost]
                spec["limits"] = {field: numbers[name] for field, name in LIMITS.items() if name in numbers}
            # Every broker has the virtual host "/": an object for it would delete it with all queues when it goes.
            if vhost and not has_lone_surrogate(vhost) and (vhost != "/" or spec):
                name = self._names.choose("Vhost", "/", vhost)
                yield self._object("Vhost", name, {"name": vhost, **spec, **KEEP.get(vhost, {})})

    def _exchange(self, vhost: str, part: Exchange) -> Iterator[Object]:
        arguments = encode_table(part.arguments)
        if self.omissions.refuses(vhost, part, [part.type, arguments], arguments):
            return
        if part.internal:
            self.omissions.detail(
                vhost, part, "is internal, which the operator cannot declare: clients may publish to it"
            )
        spec = {"name": part.name, **_of_vhost(vhost), "type": part.type, "durable": part.durable}
        spec |= {"autoDelete": True} if part.auto_delete else {}
        name = self._names.choose("Exchange", vhost, part.name)
        yield self._object("Exchange", name, spec | self._arguments(vhost, part, arguments))

    def _queue(self, vhost: str, part: Queue) -> Iterator[Object]:
        arguments = encode_table(part.arguments)
        if self.omissions.refuses(vhost, part, arguments, arguments):
            return
        spec = {"name": part.name, **_of_vhost(vhost)}
        if arguments.get("x-queue-type") in QUEUE_TYPES:
            spec["type"] = arguments.pop("x-queue-type")
        spec["durable"] = part.durable
        spec |= {"autoDelete": True} if part.auto_delete else {}
        name = self._names.choose("Queue", vhost, part.name)
        yield self._object("Queue", name, spec | self._arguments(vhost, part, arguments))

    def _binding(self, vhost: str, part: Binding) -> Iterator[Object]:
        kind, destination = part.destination
        arguments = encode_table(part.arguments)
        identity = (part.source, kind, destination, part.routing_key, arguments)
        if self.omissions.refuses(vhost, part, list(identity), arguments):
            return
        spec = {**_of_vhost(vhost), "source": part.source, "destination": destination, "destinationType": kind}
        spec |= {"routingKey": part.routing_key} if part.routing_key else {}
        name = self._names.choose_by_identity("Binding", vhost, f"{part.source}-{destination}", *identity)
        yield self._object("Binding", name, spec | self._arguments(vhost, part, arguments))

    def _policy(self, vhost: str, part: Policy) -> Iterator[Object]:
        kind, apply_to = ("OperatorPolicy", OPERATOR_APPLY_TO) if part.operator else ("Policy", APPLY_TO)
        definition = thaw(part.definition)
        if self.omissions.refuses(vhost, part, [part.pattern, definition]):
            return
        if part.apply_to not in apply_to:
            self.omissions.part(vhost, part, f"{kind} of the operator has no applyTo {part.apply_to!r}")
            return
        if type(part.priority) is not int:
            self.omissions.part(vhost, part, f"its priority {part.priority!r} is no integer")
            return
        spec = {"name": part.name, **_of_vhost(vhost), "pattern": part.pattern, "applyTo": part.apply_to}
        spec |= {"priority": part.priority} if part.priority else {}
        self._warn_of_changes(vhost, part, definition, "definition")
        name = self._names.choose(kind, vhost, part.name)
        yield self._object(kind, name, {**spec, "definition": definition})

    def _arguments(self, vhost: str, part: Exchange | Queue | Binding, arguments: Object) -> Object:
        self._warn_of_changes(vhost, part, arguments, "arguments")
        for text in find_argument_texts(part):
            self.omissions.detail(vhost, part, f"may not arrive: {text.removeprefix('.')}")
        return {"arguments": arguments} if arguments else {}

    def _warn_of_changes(self, vhost: str, part: Part, values: Object, place: str) -> None:
        for text in find_alterations(values, place):
            self.omissions.detail(vhost, part, f"changes on the way: {text}")

    def _object(self, kind: str, name: str, spec: Object) -> Object:
        return {
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {**spec, CLUSTER: self._reference},
        }


def _of_vhost(vhost: str) -> Object:
    return {} if vhost == "/" else {"vhost": vhost}


class Names:
    """The names given so far, by kind of object."""

    def __init__(self) -> None:
        self._given = GivenNames(NAME_LENGTH)

    def choose(self, kind: str, vhost: str, name: str) -> str:
        """Return the name of an object: the part's own name if it is in the virtual host / and Kubernetes allows it."""
        is_plain = vhost == "/" and len(name) <= STEM_LENGTH and ALLOWED.fullmatch(name)
        return self._give(kind, name if is_plain else None, name if vhost == "/" else f"{vhost}-{name}", (vhost, name))

    def choose_by_identity(self, kind: str, vhost: str, words: str, *identity: Any) -> str:
        """Return the name of an object that has no name of its own: of words for people, and the hash of all of it."""
        return self._give(kind, None, words if vhost == "/" else f"{vhost}-{words}", (vhost, *identity))

    def _give(self, kind: str, plain: str | None, words: str, identity: tuple[Any, ...]) -> str:
        slug = OTHERS.sub("-", words.lower())[:STEM_LENGTH].strip("-")
        return self._given.give(kind, plain, f"{slug}-" if slug else "", identity)
