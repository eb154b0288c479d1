"""Read objects of RabbitMQ's messaging topology operator for Kubernetes, ``rabbitmq.com/v1beta1``.

Fields and defaults are those of the operator's custom resource definitions and of its webhooks: exchanges are transient
and queues durable unless they state something else.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import DESTINATIONS
from bindings.sources.formats.format import SourceFile
from bindings.sources.formats.go_json import encode_as_go
from bindings.sources.formats.imported import Collector, Imported
from bindings.sources.formats.nodes import DocumentNode
from bindings.sources.formats.yaml_text import read_documents
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Destination, Exchange, Policy, Queue
from exchange.errors import InputError
from exchange.text.display import count_noun, list_some
from exchange.values.field_json import decode_table
from exchange.values.field_values import FieldTable

GROUP: Final = "rabbitmq.com"
VERSION: Final = f"{GROUP}/v1beta1"
CLUSTER: Final = "rabbitmqClusterReference"
MAX_LISTED_CLUSTERS: Final = 5
OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
DEFINITIONS: Final = re.compile(r'"(?:exchanges|queues|bindings|policies)"\s*:\s*\[')
"""Found in a text that is definitions."""
HELD: Final = frozenset({"users", "permissions", "topic_permissions", "global_parameters"})
"""Sections of definitions that are no part of a topology, nor of its settings."""


def read_operator(files: Sequence[SourceFile], name: str) -> Imported:
    """Read the files of one source, which errors call ``name``. Raises InputError with file, line and field.

    Of several files, documents that are no objects of Kubernetes are skipped.
    """
    several = len(files) > 1
    documents = [node for file in files for node in read_documents(file) if not several or _is_object(node)]
    return _read_objects(documents, name, several=several)


def _is_object(node: DocumentNode) -> bool:
    """Return whether a document looks like an object of Kubernetes."""
    return isinstance(node.value, dict) and {"apiVersion", "kind"} <= node.value.keys()


def _read_objects(documents: Iterable[DocumentNode], name: str, *, several: bool = False) -> Imported:
    """Read the documents of one source. Raises InputError, which names file, line and field, for the first mistake.

    Objects that are no part of a topology are counted. Those of the operator that stand for exchanges or queues and are
    not read, such as super streams, and those of unknown kinds are missing in the result, which says so.
    """
    collector = Collector(several=several)
    clusters: dict[str, DocumentNode] = {}
    found = 0
    for node in _objects(documents):
        kind, version = node.text("kind"), node.text("apiVersion")
        if version.partition("/")[0] != GROUP:
            texts = _definitions_in(node)
            if texts and _add_definitions(collector, node, texts):
                found += 1
            elif texts:
                text = f"{kind} {_object_name(node)!r} holds definitions that are not read here; save them to a file"
                collector.miss(node, "unsupported", text)
            else:
                collector.leave_out(kind)
            continue
        found += 1
        if kind in UNREAD:
            text = f"{kind} {_object_name(node)!r} is not read: {UNREAD[kind]} missing here"
            collector.miss(node, "unsupported", text)
        elif kind in MOVERS:
            collector.leave_out_mover(kind, _object_name(node))
        elif kind in NO_PARTS:
            collector.leave_out(kind)
        elif kind not in READERS:
            collector.miss(node, "unknown", f"{kind} {_object_name(node)!r} is of a kind that is not known here")
        elif version != VERSION:
            raise node.error(f"{kind} of {version} is unknown; only {VERSION} is")
        else:
            spec = node.get("spec")
            if spec is None:
                raise node.error(f"{kind} {_object_name(node)!r} has no spec")
            for stranger, reason in [*node.unknown(OBJECT_FIELDS), *spec.unknown(FIELDS[kind])]:
                text = f"{kind} {_object_name(node)!r}: {reason}; the operator ignores or refuses it"
                collector.miss(stranger, "unknown", text)
            READERS[kind](collector, spec)
            clusters.setdefault(_cluster(spec), spec)
    if not found:
        raise InputError(f"{name}: there is no object of {VERSION}, such as a Queue or an Exchange, and no definitions")
    if len(clusters) > 1:
        last = list(clusters.values())[-1]
        count = count_noun(len(clusters), "cluster")
        listed = list_some(list(map(repr, clusters)), MAX_LISTED_CLUSTERS)
        collector.warn(last, f"objects refer to {count} ({listed}) and are read as one topology; give them apart")
    return collector.finish()


def _objects(documents: Iterable[DocumentNode]) -> Iterable[DocumentNode]:
    """Yield the documents, and in their place the items of lists, as ``kubectl get -o yaml`` prints them."""
    for node in documents:
        if not _is_object(node):
            raise node.error("this is no object of Kubernetes: it has no apiVersion and kind")
        if node.text("kind").endswith("List") and "items" in node.fields():
            items = node.get("items")
            yield from _objects(items.items() if items is not None else ())
        else:
            yield node


def _definitions_in(node: DocumentNode) -> list[str]:
    """Return the texts of an object, such as a ConfigMap or a Secret, that are definitions of RabbitMQ."""
    texts = []
    for name in ("data", "stringData", "binaryData"):
        field = node.fields().get(name)
        if field is not None and isinstance(field.value, dict):
            texts += [value.value for value in field.value.values() if isinstance(value.value, str)]
    return [form for text in texts for form in (text, _decode(text)) if DEFINITIONS.search(form)]


def _add_definitions(collector: Collector, node: DocumentNode, texts: Sequence[str]) -> bool:
    """Add the parts of definitions; return False, and add none, if they have more than a collector holds."""
    movers: list[Mapping[str, Any]] = []
    try:
        read = [_without_movers(Definitions.loads(text), movers) for text in texts]
        topologies = [each.topology(vhost) for each in read for vhost in each.vhosts]
    except InputError:
        return False
    if any(each.warnings or each.default_queue_types or not HELD.issuperset(each.others) for each in read):
        return False
    for topology in topologies:
        own = [each for name, each in topology.exchanges.items() if name not in PREDECLARED_NAMES]
        parts: list[Exchange | Queue | Binding | Policy] = [*own, *topology.queues.values(), *topology.bindings]
        for part in [*parts, *topology.policies.values()]:
            collector.add(topology.vhost, part, node)
    for mover in movers:
        collector.leave_out_mover(mover["component"], str(mover.get("name", "")))
    return True


def _without_movers(definitions: Definitions, movers: list[Mapping[str, Any]]) -> Definitions:
    """Return definitions without the parameters that move messages, which are appended to ``movers``."""
    parameters = definitions.other_entries("parameters")
    movers += [each for each in parameters if each.get("component") in MOVING_COMPONENTS]
    rest = [each for each in parameters if each.get("component") not in MOVING_COMPONENTS]
    return definitions.with_other_entries("parameters", rest)


def _decode(text: str) -> str:
    """Return the text of a value in base64, as secrets have it; "" if it is none."""
    try:
        return b64decode(text, validate=True).decode()
    except ValueError:
        return ""


def _object_name(node: DocumentNode) -> str:
    metadata = node.get("metadata")
    return "" if metadata is None else metadata.text("name", "")


def _cluster(spec: DocumentNode) -> str:
    reference = spec.get(CLUSTER)
    if reference is None:
        return ""
    name, namespace = reference.text("name", ""), reference.text("namespace", "")
    secret = reference.get("connectionSecret")
    if not name and secret is not None:
        name = f"connectionSecret {secret.text('name', '')}"
    return f"{name}/{namespace}" if namespace else name


def _table(spec: DocumentNode, field: str) -> FieldTable:
    node = spec.get(field)
    if node is None:
        return FieldTable()
    node.fields()
    try:
        return FieldTable(decode_table(encode_as_go(node.plain()), field))
    except InputError as error:
        raise InputError(f"{node.where}: {error}") from None


def _vhost(spec: DocumentNode) -> str:
    return spec.text("vhost", "/") or "/"


def _read_vhost(collector: Collector, spec: DocumentNode) -> None:
    settings: dict[str, Any] = {}
    tags, queue_type, limits = spec.get("tags"), spec.text("defaultQueueType", ""), spec.get("limits")
    if spec.flag("tracing", default=False):
        settings["tracing"] = True
    if tags is not None:
        settings["tags"] = tags.plain()
    if queue_type:
        settings["default_queue_type"] = queue_type
    numbers = {} if limits is None else {
        name: limits.integer(field, 0) for field, name in LIMITS.items() if limits.get(field) is not None
    }  # fmt: skip
    collector.add_vhost(spec.text("name"), settings, numbers)


def _read_exchange(collector: Collector, spec: DocumentNode) -> None:
    exchange = Exchange(
        spec.text("name"),
        spec.text("type", "direct") or "direct",
        spec.flag("durable", default=False),
        spec.flag("autoDelete", default=False),
        arguments=_table(spec, "arguments"),
    )
    collector.add(_vhost(spec), exchange, spec)


def _read_queue(collector: Collector, spec: DocumentNode) -> None:
    arguments, queue_type = _table(spec, "arguments"), spec.text("type", "")
    if queue_type:  # it takes precedence over the argument
        arguments = FieldTable({**arguments, "x-queue-type": queue_type})
    durable, auto_delete = spec.flag("durable", default=True), spec.flag("autoDelete", default=False)
    collector.add(_vhost(spec), Queue(spec.text("name"), durable, auto_delete, arguments), spec)


def _read_binding(collector: Collector, spec: DocumentNode) -> None:
    kind = spec.text("destinationType")
    if kind not in DESTINATIONS:
        raise spec.fields()["destinationType"].error(f'{kind!r} is neither "queue" nor "exchange"')
    destination = Destination(DESTINATIONS[kind], spec.text("destination"))
    key, arguments = spec.text("routingKey", ""), _table(spec, "arguments")
    collector.add(_vhost(spec), Binding(spec.text("source", ""), destination, key, arguments), spec)


def _policy(spec: DocumentNode, apply_to: str) -> Policy:
    definition = spec.get("definition")
    if definition is None:
        raise spec.error("it has no definition")
    definition.fields()
    values = encode_as_go(definition.plain())
    priority = spec.integer("priority", 0)
    return Policy(spec.text("name"), spec.text("pattern"), values, spec.text("applyTo", apply_to), priority)


def _read_policy(collector: Collector, spec: DocumentNode) -> None:
    collector.add(_vhost(spec), _policy(spec, "all"), spec)


def _read_operator_policy(collector: Collector, spec: DocumentNode) -> None:
    collector.add_operator_policy(_vhost(spec), _policy(spec, "queues"))


READERS: Final[Mapping[str, Callable[[Collector, DocumentNode], None]]] = {
    "Vhost": _read_vhost, "Exchange": _read_exchange, "Queue": _read_queue, "Binding": _read_binding,
    "Policy": _read_policy, "OperatorPolicy": _read_operator_policy,
}  # fmt: skip
"""Kind -> the function that reads its ``spec``. All other kinds are counted."""

_POLICY: Final = ("name", "vhost", "pattern", "applyTo", "priority", "definition", CLUSTER)
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Vhost": ("name", "tracing", "tags", "defaultQueueType", "limits", "deletionPolicy", CLUSTER),
    "Exchange": ("name", "vhost", "type", "durable", "autoDelete", "arguments", CLUSTER),
    "Queue": (
        "name", "vhost", "type", "durable", "autoDelete", "deleteIfEmpty", "deleteIfUnused", "arguments",
        "deletionPolicy", CLUSTER,
    ),
    "Binding": ("vhost", "source", "destination", "destinationType", "routingKey", "arguments", CLUSTER),
    "Policy": _POLICY,
    "OperatorPolicy": _POLICY,
}  # fmt: skip
"""Kind -> the fields of its ``spec``."""
LIMITS: Final = {"connections": "max-connections", "queues": "max-queues"}
NO_PARTS: Final = frozenset({"Permission", "RabbitmqCluster", "TopicPermission", "User"})
"""Kinds that are no part of a topology."""
UNREAD: Final[Mapping[str, str]] = {
    "SuperStream": "its exchange, queues and bindings are",
    "SchemaReplication": "what another cluster has, and this one gets, is",
}
"""Kind that is not read and makes parts of a topology -> what is missing without it."""
MOVERS: Final = frozenset({"Federation", "Shovel"})
"""Kinds that move messages between queues or brokers, and change no route: in definitions they are parameters."""
MOVING_COMPONENTS: Final = ("federation-upstream", "federation-upstream-set", "shovel")
"""Components of these parameters."""
