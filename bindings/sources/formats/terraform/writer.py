"""Write a topology as a Terraform configuration for the provider cyrilgdn/rabbitmq, as ``terraform fmt`` formats it.

Resources refer to one another (``rabbitmq_exchange.orders.name``), so that Terraform makes them in the right order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

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
from bindings.sources.formats.terraform.resources import INTEGER, LIMITS
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.errors import InputError
from exchange.text.numbers import is_digits
from exchange.values.field_json import encode_table
from exchange.values.field_values import thaw

HEAD: Final = """\
terraform {
  required_providers {
    rabbitmq = {
      source = "cyrilgdn/rabbitmq"
    }
  }
}
"""
PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""Names that are labels as they are."""
OTHERS: Final = re.compile(r"[^a-z0-9]+")
SPECIAL: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
MARKED: Final = re.compile(r"[$%](?=\{)")
LONGEST: Final = 60
"""Maximum number of characters of a resource's name before its hash."""
SETTINGS: Final = ("description", "default_queue_type", "tracing")
"""Settings of a virtual host that the provider has attributes for."""


class RawExpression(NamedTuple):
    """An expression that is written as it is, such as a reference."""

    text: str


class Fields(dict[str, Any]):
    """The body of a block: attributes, and `Fields` for the blocks in it."""


def write_terraform(definitions: Definitions, target: WriteTarget) -> Written:
    """Return the configuration. Raises InputError if the file's name asks for JSON."""
    if target.name.endswith(".json"):
        raise InputError(f"{target.name}: configurations are written in Terraform's own language only; name it .tf")
    writer = _TerraformWriter()
    chunks = [HEAD, *(f"\n{text}" for text in writer.resources(definitions))]
    writer.omissions.rest(definitions, kept=find_kept_sections(definitions, SETTINGS))
    return Written(chunks, writer.omissions.warnings)


class _TerraformWriter:
    def __init__(self) -> None:
        self.omissions = Omissions("Terraform's provider")
        self._labels = GivenNames()
        self._given: dict[tuple[str, str, str], str] = {}

    def resources(self, definitions: Definitions) -> Iterator[str]:
        """Yield the text of each resource."""
        yield from self._vhosts(definitions)
        write: dict[type, Callable[[str, Any], Iterator[str]]] = {
            Exchange: self._exchange, Queue: self._queue, Binding: self._binding, Policy: self._policy,
        }  # fmt: skip
        for vhost, part in list_parts(definitions):
            yield from write[type(part)](vhost, part)

    def _vhosts(self, definitions: Definitions) -> Iterator[str]:
        settings, limits = list_settings(definitions), list_limits(definitions)
        for vhost in definitions.vhosts:
            given, numbers = settings.get(vhost, {}), limits.get(vhost, {})
            fields = {"name": vhost} | {name: given[name] for name in SETTINGS if name in given}
            fields |= {name: str(numbers[limit]) for name, limit in LIMITS.items() if limit in numbers}
            # Every broker has the virtual host "/", and terraform destroy would delete it with all that is in it.
            if vhost not in ("", "/") and not has_lone_surrogate(vhost):
                yield self._resource("rabbitmq_vhost", vhost, "/", Fields(fields))

    def _exchange(self, vhost: str, part: Exchange) -> Iterator[str]:
        if self.omissions.refuses(vhost, part, part.type):
            return
        if part.internal:
            self.omissions.detail(
                vhost, part, "is internal, which the provider cannot declare: clients may publish to it"
            )
        settings = Fields(type=part.type, durable=part.durable, auto_delete=part.auto_delete)
        arguments = encode_table(part.arguments)
        for name, value in arguments.items():
            if not isinstance(value, str) or has_lone_surrogate([name, value]):
                text = f"is written without {name}: the provider sends arguments of exchanges as texts"
                self.omissions.detail(vhost, part, text)
        texts = {k: v for k, v in arguments.items() if isinstance(v, str) and not has_lone_surrogate([k, v])}
        settings |= {"arguments": texts} if texts else {}
        fields = Fields(name=part.name, vhost=self._vhost(vhost), settings=settings)
        yield self._resource("rabbitmq_exchange", part.name, vhost, fields)

    def _queue(self, vhost: str, part: Queue) -> Iterator[str]:
        arguments = encode_table(part.arguments)
        if self.omissions.refuses(vhost, part, arguments, arguments):
            return
        settings = Fields(durable=part.durable, auto_delete=part.auto_delete)
        settings |= self._arguments(vhost, part, arguments)
        fields = Fields(name=part.name, vhost=self._vhost(vhost), settings=settings)
        yield self._resource("rabbitmq_queue", part.name, vhost, fields)

    def _binding(self, vhost: str, part: Binding) -> Iterator[str]:
        kind, destination = part.destination
        arguments = encode_table(part.arguments)
        identity = (vhost, part.source, kind, destination, part.routing_key, arguments)
        if self.omissions.refuses(vhost, part, list(identity), arguments):
            return
        fields = Fields(
            source=self._reference("rabbitmq_exchange", vhost, part.source),
            vhost=self._vhost(vhost),
            destination=self._reference(f"rabbitmq_{kind}", vhost, destination),
            destination_type=kind,
        )
        fields |= {"routing_key": part.routing_key} if part.routing_key else {}
        fields |= self._arguments(vhost, part, arguments)
        label = self._label("rabbitmq_binding", None, f"{part.source}_{destination}", identity)
        yield _block("rabbitmq_binding", label, fields)

    def _policy(self, vhost: str, part: Policy) -> Iterator[str]:
        definition = thaw(part.definition)
        if self.omissions.refuses(vhost, part, [part.pattern, part.apply_to, definition]):
            return
        if type(part.priority) is not int:
            self.omissions.part(vhost, part, f"its priority {part.priority!r} is no integer")
            return
        kept: dict[str, Any] = {}
        for name, value in definition.items():
            wrong = _wrong_in_definition(name, value, definition)
            if wrong:
                self.omissions.detail(vhost, part, f"is written without {name}: {wrong}")
            else:
                kept[name] = ",".join(value) if isinstance(value, list) else value
        policy = Fields(pattern=part.pattern, priority=part.priority, apply_to=part.apply_to, definition=kept)
        fields = Fields(name=part.name, vhost=self._vhost(vhost), policy=policy)
        yield self._resource(f"rabbitmq_{'operator_' if part.operator else ''}policy", part.name, vhost, fields)

    def _arguments(self, vhost: str, part: Queue | Binding, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return ``arguments`` if all of them are texts, else ``arguments_json``."""
        for text in find_alterations(arguments, "arguments"):
            self.omissions.detail(vhost, part, f"changes on the way: {text}")
        for text in find_argument_texts(part):
            self.omissions.detail(vhost, part, f"may not arrive: {text.removeprefix('.')}")
        if not arguments:
            return {}
        if all(isinstance(value, str) for value in arguments.values()):
            return {"arguments": arguments}
        return {"arguments_json": RawExpression(f"jsonencode({_value(arguments, 1 + isinstance(part, Queue))})")}

    def _vhost(self, vhost: str) -> str | RawExpression:
        label = self._given.get(("rabbitmq_vhost", "/", vhost))
        return vhost if label is None else RawExpression(f"rabbitmq_vhost.{label}.name")

    def _reference(self, kind: str, vhost: str, name: str) -> str | RawExpression:
        label = self._given.get((kind, vhost, name))
        return name if label is None else RawExpression(f"{kind}.{label}.name")

    def _resource(self, kind: str, name: str, vhost: str, fields: Fields) -> str:
        """Return a resource of a named part, to which others may refer."""
        is_plain = vhost == "/" and PLAIN.fullmatch(name) is not None
        words = name if vhost == "/" else f"{vhost}_{name}"
        label = self._given[kind, vhost, name] = self._label(kind, name if is_plain else None, words, (vhost, name))
        return _block(kind, label, fields)

    def _label(self, kind: str, plain: str | None, words: str, identity: tuple[Any, ...]) -> str:
        """Return the label of a resource: ``plain``, or words for people and a hash."""
        slug = OTHERS.sub("_", words.lower())[:LONGEST].strip("_")
        slug = f"_{slug}" if not slug or is_digits(slug[0]) else slug
        return self._labels.give(kind, plain, f"{slug}_", identity)


def _block(kind: str, label: str, fields: Fields) -> str:
    body = "\n".join(_body(fields, 1))
    return f'resource "{kind}" "{label}" {{\n{body}\n}}\n'


def _wrong_in_definition(name: str, value: Any, definition: Mapping[str, Any]) -> str:
    """Return why the provider cannot send a setting of a policy; "" if it can."""
    if type(value) is int:
        return "" if -(2**63) <= value < 2**63 else "the provider sends integers of 64 bits"
    if isinstance(value, str):
        return "the provider sends a text that looks like an integer as one" if INTEGER.fullmatch(value) else ""
    if name == "ha-params" and definition.get("ha-mode") == "nodes" and isinstance(value, list):
        plain = all(isinstance(node, str) and "," not in node for node in value) and value
        return "" if plain else "the provider joins the nodes with commas"
    return "the provider sends texts and integers only"


# Text


def _body(fields: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the lines of a body: attributes with their "=" below each other, then a blank line and each block."""
    attributes = [(name, _value(value, depth)) for name, value in fields.items() if not isinstance(value, Fields)]
    yield from _aligned(attributes, depth)
    for name, value in fields.items():
        if isinstance(value, Fields):
            indent = "  " * depth
            yield ""
            yield f"{indent}{name} {{"
            yield from _body(value, depth + 1)
            yield f"{indent}}}"


def _aligned(pairs: Iterable[tuple[str, str]], depth: int) -> Iterator[str]:
    """Yield the lines of attributes. Neighbours are aligned; one with several lines stands for itself."""
    indent = "  " * depth
    run: list[tuple[str, str]] = []

    def aligned_run() -> Iterator[str]:
        width = max((len(name) for name, _ in run), default=0)
        yield from (f"{indent}{name.ljust(width)} = {value}" for name, value in run)
        run.clear()

    for name, value in pairs:
        if "\n" in value:
            yield from aligned_run()
            yield f"{indent}{name} = {value}"
        else:
            run.append((name, value))
    yield from aligned_run()


def _value(value: Any, depth: int) -> str:
    """Return an expression; its first line stands at ``depth``."""
    if isinstance(value, RawExpression):
        return value.text
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, dict):
        if not value:
            return "{}"
        lines = _aligned([(_quote(key), _value(item, depth + 1)) for key, item in value.items()], depth + 1)
        return "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}"
    if isinstance(value, list):
        if not value:
            return "[]"
        inner = "  " * (depth + 1)
        lines = (f"{inner}{_value(item, depth + 1)},\n" for item in value)
        return "[\n" + "".join(lines) + "  " * depth + "]"
    if isinstance(value, float) and "e" in repr(value):
        return repr(value).replace("e+", "e")
    return json.dumps(value)


def _quote(text: str) -> str:
    """Return a text in quotes, with Terraform's escapes."""
    marked = MARKED.sub(lambda mark: mark[0] * 2, text)
    return '"' + "".join(map(_escape, marked)) + '"'


def _escape(character: str) -> str:
    if character in SPECIAL:
        return SPECIAL[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
