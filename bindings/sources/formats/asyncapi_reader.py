"""Read the AMQP channels of an AsyncAPI document, version 2 or 3: exchanges, queues, and bindings where they follow.

AsyncAPI has no bindings of queues before version 0.4.0 of its AMQP bindings. Four things lead to one, and nothing else:

- a channel of an exchange refers to the channel of a queue (``channel``, with the key as ``name``: version 0.4.0);
- the message of a queue's channel is a reference to the message of a channel of an exchange, which has a routing key;
- a channel names an exchange and a queue, as AsyncAPI 2 allows;
- an operation of a queue's channel has a key under ``cc``, and exactly one exchange has a channel with this key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from bindings.sources.formats.format import SourceFile
from bindings.sources.formats.imported import Collector, Imported
from bindings.sources.formats.nodes import DocumentNode
from bindings.sources.formats.yaml_text import read_documents
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Exchange, Queue
from exchange.errors import InputError
from exchange.text.display import clip_line

HOPS: Final = 20
"""Maximum number of references from one to the next."""
MARKS: Final = frozenset("{}")
"""Characters of an address with parameters, which is no routing key."""


ROOT_FIELDS: Final = (
    "asyncapi", "id", "info", "servers", "defaultContentType", "channels", "operations", "components", "tags",
    "externalDocs",
)  # fmt: skip
CHANNEL_FIELDS: Final = (
    "address", "messages", "title", "summary", "description", "servers", "parameters", "tags", "externalDocs",
    "bindings", "subscribe", "publish", "$ref",
)  # fmt: skip
"""Fields of a channel, of version 2 and 3."""
AMQP_FIELDS: Final = ("is", "exchange", "queue", "bindingVersion", "name", "channel")
EXCHANGE_FIELDS: Final = ("name", "type", "durable", "autoDelete", "vhost")
QUEUE_FIELDS: Final = ("name", "durable", "exclusive", "autoDelete", "vhost")
"""Fields of a channel's AMQP bindings, to version 0.4.0."""


class _AmqpChannel(NamedTuple):
    """A channel with AMQP bindings."""

    id: str
    node: DocumentNode
    vhost: str
    exchange: str | None
    queue: str | None
    key: str | None
    """The routing key: None if the address is unknown, or is none."""
    target: str | None = None
    """The channel of the queue that it leads to, if it names one."""


def read_asyncapi(files: Sequence[SourceFile], name: str) -> Imported:
    """Read a document, which is one file. Raises InputError, which names file, line and field."""
    documents = [node for file in files for node in read_documents(file)]
    if len(documents) != 1:
        raise InputError(f"{name}: there are {len(documents)} documents in it; an AsyncAPI document is one")
    (node,) = documents
    version = node.text("asyncapi")
    if not version.startswith(("2.", "3.")):
        raise node.error(f"AsyncAPI {clip_line(version, 20)} is not read; versions 2 and 3 are")
    return _AsyncApiReader(node, Collector(), is_old=version.startswith("2.")).read()


class _AsyncApiReader:
    def __init__(self, root: DocumentNode, collector: Collector, *, is_old: bool) -> None:
        self._root = root
        self._collector = collector
        self._is_old = is_old
        self._declared: dict[tuple[str, str, str], Exchange | Queue] = {}
        self._channels: dict[str, _AmqpChannel] = {}

    def read(self) -> Imported:
        self._look_for_unknown(self._root, ROOT_FIELDS, "the document")
        channels = self._root.get("channels")
        for name, reference in ({} if channels is None else channels.fields()).items():
            node = self._resolve(reference)
            if node is not None:
                self._read_channel(name, node)
        bindings = dict(self._bindings())
        linked = {(vhost, binding.destination.name) for vhost, binding in bindings}
        bindings |= {each: node for each, node in self._bindings_of_operations(linked) if each not in bindings}
        for (vhost, binding), node in bindings.items():
            self._collector.add(vhost, binding, node)
        return self._collector.finish()

    def _look_for_unknown(self, node: DocumentNode, known: Sequence[str], what: str) -> None:
        """Record fields that AsyncAPI does not have; those that begin with x- are for other programs."""
        for stranger, reason in node.unknown([*known, *(name for name in node.fields() if name.startswith("x-"))]):
            self._collector.miss(stranger, "unknown", f"{what}: {reason}")

    def _resolve(self, node: DocumentNode) -> DocumentNode | None:
        """Follow references within the document. Warns, and returns None, where one leads out of it or to nothing."""
        for _ in range(HOPS):
            reference = node.value.get("$ref") if isinstance(node.value, dict) else None
            if reference is None:
                return node
            if not isinstance(reference.value, str) or not reference.value.startswith("#/"):
                where = reference.shown()
                text = f"{where} is outside of this file and not read; bundle the document"
                self._collector.miss(reference, "unsupported", text)
                return None
            target: DocumentNode | None = self._root
            for step in _pointer(reference.value):
                target = target.value.get(step) if target is not None and isinstance(target.value, dict) else None
            if target is None:
                self._collector.miss(reference, "unknown", f"{reference.shown()} leads to nothing")
                return None
            node = target
        self._collector.miss(node, "unknown", "references lead to one another without end")
        return None

    def _field(self, node: DocumentNode, name: str) -> DocumentNode | None:
        value = node.get(name)
        return None if value is None else self._resolve(value)

    def _read_channel(self, name: str, node: DocumentNode) -> None:
        self._look_for_unknown(node, CHANNEL_FIELDS, f"channel {name!r}")
        bindings = self._field(node, "bindings")
        amqp = None if bindings is None else self._field(bindings, "amqp")
        if amqp is None:
            self._collector.leave_out("channel without AMQP bindings")
            return
        is_queue = amqp.text("is", "routingKey") == "queue"
        exchange, queue = amqp.get("exchange"), amqp.get("queue")
        if (queue if is_queue else exchange) is None:
            text = f"channel {name!r} has no {'queue' if is_queue else 'exchange'} and is left out"
            self._collector.miss(amqp, "unknown", text)
            return
        for each, known in ((amqp, AMQP_FIELDS), (exchange, EXCHANGE_FIELDS), (queue, QUEUE_FIELDS)):
            for stranger, reason in () if each is None else each.unknown(known):
                self._collector.miss(stranger, "unknown", f"channel {name!r}: {reason}")
        if is_queue and exchange is not None:  # its address is the queue's, no key of the exchange
            text = f"channel {name!r} is a queue, and its exchange is not read: nothing binds it to the queue"
            self._collector.miss(exchange, "unsupported", text)
            exchange = None
        vhost = next((each.text("vhost", "/") for each in (exchange, queue) if each is not None), "/")
        exchange_name = None if exchange is None else self._read_exchange(name, exchange)
        queue_name = None if queue is None else self._read_queue(name, queue)
        if exchange is not None and exchange_name is None:
            return
        key = None if is_queue else amqp.text("name") if amqp.get("name") is not None else self._key(name, node)
        target = None if is_queue or amqp.get("channel") is None else _channel_of(amqp.fields()["channel"])
        self._channels[name] = _AmqpChannel(name, node, vhost, exchange_name, queue_name, key, target)

    def _key(self, name: str, node: DocumentNode) -> str | None:
        address = name if self._is_old else None if node.get("address") is None else node.text("address")
        if address is not None and MARKS & set(address):
            self._collector.miss(node, "unevaluated", f"channel {name!r}: an address with parameters is no routing key")
            return None
        return address

    def _read_exchange(self, channel: str, node: DocumentNode) -> str | None:
        name, kind = node.text("name", ""), node.text("type", "")
        if kind == "default" or not name:
            return ""
        if name in PREDECLARED_NAMES:
            return name
        if not kind:
            text = f"channel {channel!r}: exchange {name!r} has no type and is left out"
            self._collector.miss(node, "unknown", text)
            return None
        part = Exchange(name, kind, node.flag("durable", default=True), node.flag("autoDelete", default=False))
        self._declare(node, "exchange", part)
        return name

    def _read_queue(self, channel: str, node: DocumentNode) -> str | None:
        name = node.text("name", "")
        if not name:
            text = f"channel {channel!r}: its queue has no name and is left out"
            self._collector.miss(node, "unevaluated", text)
            return None
        if node.flag("exclusive", default=False):
            self._collector.warn(node, f"queue {name!r} is exclusive to one connection; it is read as a lasting one")
        part = Queue(name, node.flag("durable", default=True), node.flag("autoDelete", default=False))
        self._declare(node, "queue", part)
        return name

    def _declare(self, node: DocumentNode, kind: str, part: Exchange | Queue) -> None:
        """Add a part; other channels may declare it again in the same way."""
        vhost = node.text("vhost", "/")
        first = self._declared.setdefault((vhost, kind, part.name), part)
        if first is part or first != part:
            self._collector.add(vhost, part, node)

    def _bindings(self) -> Iterator[tuple[tuple[str, Binding], DocumentNode]]:
        for channel in self._channels.values():
            target = None if channel.target is None else self._channels.get(channel.target)
            if target is not None and target.queue and channel.exchange and channel.key is not None:
                yield (channel.vhost, Binding.to_queue(channel.exchange, target.queue, channel.key)), channel.node
            if channel.queue is None:
                continue
            if channel.exchange and channel.key is not None:
                yield (channel.vhost, Binding.to_queue(channel.exchange, channel.queue, channel.key)), channel.node
            messages = channel.node.get("messages")
            for message in ({} if messages is None else messages.fields()).values():
                origin = self._origin_of(message)
                if origin is not None and origin.vhost == channel.vhost and origin.exchange and origin.key is not None:
                    yield (channel.vhost, Binding.to_queue(origin.exchange, channel.queue, origin.key)), message

    def _origin_of(self, message: DocumentNode) -> _AmqpChannel | None:
        """Return the channel whose message is referred to."""
        reference = message.value.get("$ref") if isinstance(message.value, dict) else None
        if reference is None or not isinstance(reference.value, str):
            return None
        steps = _pointer(reference.value) if reference.value.startswith("#/") else []
        return self._channels.get(steps[1]) if len(steps) == 4 and steps[0] == "channels" else None

    def _bindings_of_operations(
        self, linked: set[tuple[str, str]]
    ) -> Iterator[tuple[tuple[str, Binding], DocumentNode]]:
        """Yield bindings by ``cc`` of queues that have no other ones."""
        for channel, operation in self._operations():
            bindings = self._field(operation, "bindings")
            amqp = None if bindings is None else self._field(bindings, "amqp")
            keys = None if amqp is None else amqp.get("cc")
            if keys is None or channel.queue is None or (channel.vhost, channel.queue) in linked:
                continue
            for item in keys.items():
                if not isinstance(item.value, str):
                    raise item.error(f"{item.shown()} is not a text")
                if item.value == channel.queue:
                    continue  # by the default exchange
                exchanges = {
                    each.exchange
                    for each in self._channels.values()
                    if each.vhost == channel.vhost and each.exchange and each.key == item.value
                }
                if len(exchanges) == 1:
                    yield (channel.vhost, Binding.to_queue(exchanges.pop(), channel.queue, item.value)), item
                else:
                    which = "no exchange has" if not exchanges else f"{len(exchanges)} exchanges have"
                    text = f"queue {channel.queue!r} is not bound by {item.value!r}: {which} a channel with this key"
                    self._collector.miss(item, "unknown", text)

    def _operations(self) -> Iterator[tuple[_AmqpChannel, DocumentNode]]:
        if self._is_old:
            for channel in self._channels.values():
                for name in ("subscribe", "publish"):
                    operation = self._field(channel.node, name)
                    if operation is not None:
                        yield channel, operation
            return
        operations = self._root.get("operations")
        for each in ({} if operations is None else operations.fields()).values():
            operation = self._resolve(each)
            reference = None if operation is None else operation.get("channel")
            if operation is None or reference is None:
                continue
            name = _channel_of(reference)
            if name in self._channels:
                yield self._channels[name], operation


def _channel_of(reference: DocumentNode) -> str:
    """Return the name of the channel that is referred to; "" if it is none."""
    steps = _pointer(reference.text("$ref", ""))
    return steps[1] if len(steps) == 2 and steps[0] == "channels" else ""


def _pointer(reference: str) -> list[str]:
    """Return the steps of a JSON pointer in a reference."""
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in reference.removeprefix("#/").split("/")]
