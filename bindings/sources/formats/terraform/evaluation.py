"""Evaluate what a Terraform configuration determines by itself: literals, defaults of variables, locals, references.

Everything else (other functions, operators, data sources, modules) is `Unresolved`: only Terraform knows its value, and
``terraform show -json`` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from bindings.sources.formats.nodes import Node, Path
from bindings.sources.formats.terraform.syntax import (
    Body,
    Call,
    Expression,
    Items,
    Literal,
    Object,
    Opaque,
    Reference,
    Template,
)
from exchange.display import clip_line
from exchange.limits import DOCUMENT_ITEMS, TERRAFORM_INSTANCES

__all__ = ["Configuration", "Declaration", "Instance", "Unresolved"]

Key: TypeAlias = "str | int | None"

CHAIN: Final = 60
"""Maximum number of references from one to the next."""
CHARACTERS: Final = 64
"""Number of characters of a text that count as one item."""
META: Final = frozenset({"count", "for_each", "provider", "depends_on", "lifecycle", "provisioner", "connection"})
"""Arguments of every resource, which are not the provider's."""
DEFAULT_VHOST: Final[Mapping[str, str]] = {"rabbitmq_exchange": "/", "rabbitmq_queue": "/"}


class Unresolved(Exception):
    """A value that only Terraform knows; ``node`` is the place of what cannot be evaluated."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Declaration:
    """A resource, variable or local as it is written."""

    body: Body
    file: str
    line: int | None
    path: Path = None

    @property
    def node(self) -> Node:
        """Its place."""
        return Node(None, self.file, self.line, self.path)


class Instance(NamedTuple):
    """One instance of a resource: its key, and what ``each`` and ``count`` stand for in it."""

    key: Key
    scope: Mapping[str, Mapping[str, Node]]


class _Value(NamedTuple):
    expression: Expression
    file: str
    path: Path


class Configuration:
    """The declarations of a module, and what they evaluate to."""

    def __init__(self) -> None:
        self.resources: dict[tuple[str, str], Declaration] = {}
        """Type and name -> the resource."""
        self._variables: dict[str, _Value | None] = {}
        self._locals: dict[str, _Value] = {}
        self._known: dict[tuple[str, str], tuple[Node, int]] = {}
        self._instances: dict[tuple[str, str], Mapping[Key, Instance]] = {}
        self._items = 0
        self._made = 0
        self._chain: list[object] = []

    def add_variable(self, name: str, default: Expression | None, file: str, path: Path = None) -> None:
        """Add a variable; a later value replaces a default."""
        self._variables[name] = None if default is None else _Value(default, file, path)

    def add_local(self, name: str, value: Expression, file: str, path: Path = None) -> None:
        """Add a local value."""
        self._locals[name] = _Value(value, file, path)

    def instances(self, kind: str, name: str) -> Mapping[Key, Instance]:
        """Return the instances of a resource by key. Raises Unresolved, and InputError if there are too many."""
        known = self._instances.get((kind, name))
        if known is None:
            known = self._instances[kind, name] = self._expand(self.resources[kind, name])
        return known

    def attributes(self, declaration: Declaration, instance: Instance) -> Node:
        """Return the attributes and blocks of a resource: a mapping, with a list for each type of block."""
        return self._body(declaration.body, declaration, instance.scope, declaration.path)

    # Resources

    def _expand(self, declaration: Declaration) -> Mapping[Key, Instance]:
        attributes = declaration.body.attributes
        if "count" in attributes:
            node = self._attribute(declaration, "count", {})
            number = node.value
            if isinstance(number, str) and number.isdecimal() and len(number) < 10:
                number = int(number)
            if type(number) is not int or number < 0:
                raise node.error(f"count is {node.shown()}, not a number of resources")
            self._check_number(node, number)
            keys: list[tuple[Key, dict[str, dict[str, Node]]]] = [
                (index, {"count": {"index": _at(node, index)}}) for index in range(number)
            ]
        elif "for_each" in attributes:
            node = self._attribute(declaration, "for_each", {})
            if isinstance(node.value, dict):
                pairs = list(node.value.items())
            elif isinstance(node.value, list) and all(isinstance(item.value, str) for item in node.value):
                pairs = [(item.value, item) for item in node.value]
            else:
                raise node.error("for_each is neither a map nor a set of texts")
            self._check_number(node, len(pairs))
            keys = [(key, {"each": {"key": _at(node, key), "value": value}}) for key, value in pairs]
        else:
            keys = [(None, {})]
        return {key: Instance(key, scope) for key, scope in keys}

    def _check_number(self, node: Node, number: int) -> None:
        self._made += number
        if self._made > TERRAFORM_INSTANCES:
            raise node.error(f"more than {TERRAFORM_INSTANCES:,} resources")

    def _attribute(self, declaration: Declaration, name: str, scope: Mapping[str, Mapping[str, Node]]) -> Node:
        expression, line = declaration.body.attributes[name]
        path = None if declaration.path is None else (declaration.path, name)
        node = self._evaluate(expression, declaration.file, path, scope)
        return Node(node.value, declaration.file, line or None, path)

    def _body(self, body: Body, declaration: Declaration, scope: Mapping[str, Mapping[str, Node]], path: Path) -> Node:
        fields: dict[str, Node] = {}
        for name, (expression, line) in body.attributes.items():
            if name == "dynamic":
                raise Unresolved(declaration.node, "a dynamic block is carried out by Terraform only")
            if name not in META:
                inner = None if path is None else (path, name)
                node = self._evaluate(expression, declaration.file, inner, scope)
                fields[name] = Node(node.value, declaration.file, line or None, inner)
        lists: dict[str, list[Node]] = {}
        for block in body.blocks:
            if block.type == "dynamic":
                place = Node(None, declaration.file, block.line, path)
                raise Unresolved(place, "a dynamic block is carried out by Terraform only")
            if block.type not in META:
                node = self._body(block.body, declaration, scope, path)
                lists.setdefault(block.type, []).append(Node(node.value, declaration.file, block.line, path))
        blocks = {name: Node(nodes, declaration.file, nodes[0].line, path) for name, nodes in lists.items()}
        return Node({**fields, **blocks}, declaration.file, declaration.line, path)

    # Expressions

    def _evaluate(self, expression: Expression, file: str, path: Path, scope: Mapping[str, Mapping[str, Node]]) -> Node:
        """Return the value of an expression. Raises Unresolved, and InputError for a mistake."""
        place = Node(None, file, expression.line or None, path)
        self._charge(1, place)

        def inner(part: Expression) -> Node:
            return self._evaluate(part, file, path, scope)

        match expression:
            case Literal(value):
                self._charge(len(value) // CHARACTERS if isinstance(value, str) else 0, place)
                return _at(place, value)
            case Template(parts):
                text = "".join(part if isinstance(part, str) else self._text(inner(part)) for part in parts)
                self._charge(len(text) // CHARACTERS, place)
                return _at(place, text)
            case Items(items):
                return _at(place, [inner(item) for item in items])
            case Object(pairs):
                return _at(place, {self._text(inner(key)): inner(value) for key, value in pairs})
            case Call(name, arguments, _, text):
                if name not in FUNCTIONS or len(arguments) != 1:
                    raise Unresolved(place, f"{clip_line(text, 60)} is a call that Terraform carries out")
                return FUNCTIONS[name](inner(arguments[0]))
            case Reference():
                return self._refer(expression, place, scope, inner)
            case Opaque(text):
                raise Unresolved(place, f"{clip_line(text, 60)} is an expression that Terraform evaluates")

    def _refer(
        self,
        reference: Reference,
        place: Node,
        scope: Mapping[str, Mapping[str, Node]],
        inner: Callable[[Expression], Node],
    ) -> Node:
        root, steps = reference.root, list(reference.steps)
        first = steps[0] if steps and isinstance(steps[0], str) else ""
        if root == "local" and first in self._locals:
            node = self._value_of((root, first), self._locals[first], place)
        elif root == "var" and first in self._variables:
            default = self._variables[first]
            if default is None:
                raise Unresolved(place, f"variable {first!r} has no default")
            node = self._value_of((root, first), default, place)
        elif root in scope and first in scope[root]:
            node = scope[root][first]
            self._charge(_size(node), place)
        elif (root, first) in self.resources:
            node, steps = self._of_resource(root, first, steps[1:], place, inner)
            return self._walk(node, steps, place, inner)
        elif root in ("local", "var") or root.startswith("rabbitmq_"):
            raise Unresolved(place, f"there is no {clip_line(f'{root}.{first}', 60)}")
        else:
            raise Unresolved(place, f"{clip_line(reference.text, 60)} is known to Terraform only")
        return self._walk(node, steps[1:], place, inner)

    def _value_of(self, identity: tuple[str, str], value: _Value, place: Node) -> Node:
        known = self._known.get(identity)
        if known is None:
            before = self._items
            with _Link(self._chain, identity, place):
                node = self._evaluate(value.expression, value.file, value.path, {})
            self._known[identity] = node, self._items - before
            return node
        self._charge(known[1], place)
        return known[0]

    def _of_resource(
        self,
        kind: str,
        name: str,
        steps: list[str | Expression],
        place: Node,
        inner: Callable[[Expression], Node],
    ) -> tuple[Node, list[str | Expression]]:
        """Return an attribute of a resource, and the steps that are left."""
        declaration = self.resources[kind, name]
        key: Key = None
        if steps and not isinstance(steps[0], str):
            value = inner(steps.pop(0)).value  # type: ignore[arg-type]  # no text: just checked
            key = value if isinstance(value, (str, int)) else None
        instance = self.instances(kind, name).get(key)
        if instance is None or not steps or not isinstance(steps[0], str):
            raise Unresolved(place, f"{kind}.{name} has no such instance or attribute")
        attribute = steps.pop(0)
        with _Link(self._chain, (kind, name, key, attribute), place):
            return self._attribute_of(kind, declaration, instance, str(attribute), place), steps

    def _attribute_of(
        self, kind: str, declaration: Declaration, instance: Instance, attribute: str, place: Node
    ) -> Node:
        if attribute in declaration.body.attributes:
            return self._attribute(declaration, attribute, instance.scope)
        blocks = [block for block in declaration.body.blocks if block.type == attribute]
        if blocks:
            return _at(place, [self._body(b.body, declaration, instance.scope, declaration.path) for b in blocks])
        if attribute == "vhost" and kind in DEFAULT_VHOST:
            return _at(place, DEFAULT_VHOST[kind])
        if attribute == "id" and "name" in declaration.body.attributes:
            name = self._text(self._attribute(declaration, "name", instance.scope))
            if kind == "rabbitmq_vhost":
                return _at(place, name)
            return _at(place, f"{name}@{self._text(self._attribute_of(kind, declaration, instance, 'vhost', place))}")
        raise Unresolved(place, f"{kind} has no {clip_line(attribute, 40)} here")

    @staticmethod
    def _walk(node: Node, steps: Sequence[str | Expression], place: Node, inner: Callable[[Expression], Node]) -> Node:
        for step in steps:
            key = step if isinstance(step, str) else inner(step).value
            found: Node | None = None
            if isinstance(node.value, dict):
                found = node.value.get(key if isinstance(key, str) else str(key))
            elif isinstance(node.value, list) and type(key) is int and 0 <= key < len(node.value):
                found = node.value[key]
            if found is None:
                raise Unresolved(place, f"{node.shown()} has no {clip_line(str(key), 40)!r}")
            node = found
        return node

    def _text(self, node: Node) -> str:
        """Return a value as a text, as Terraform converts it. Raises InputError for lists, objects and null."""
        if isinstance(node.value, bool):
            return "true" if node.value else "false"
        if isinstance(node.value, (int, float)):
            return str(node.value)
        if not isinstance(node.value, str):
            raise node.error(f"{node.shown()} is not a text")
        return node.value

    def _charge(self, items: int, place: Node) -> None:
        self._items += items
        if self._items > DOCUMENT_ITEMS:
            raise place.error(f"the configuration evaluates to more than {DOCUMENT_ITEMS:,} values")


class _Link:
    """A value that is being evaluated: it must not lead to itself, nor through too many others."""

    def __init__(self, chain: list[object], identity: object, place: Node) -> None:
        self._chain, self._identity, self._place = chain, identity, place

    def __enter__(self) -> None:
        if self._identity in self._chain:
            raise Unresolved(self._place, "a value that leads back to itself")
        if len(self._chain) >= CHAIN:
            raise Unresolved(self._place, f"a chain of more than {CHAIN} references")
        self._chain.append(self._identity)

    def __exit__(self, *_: object) -> None:
        self._chain.pop()


def _at(place: Node, value: object) -> Node:
    return Node(value, place.file, place.line, place.path)


def _size(node: Node) -> int:
    """Return the number of values in a value, up to the limit."""
    count, left = 0, [node]
    while left and count <= DOCUMENT_ITEMS:
        value = left.pop().value
        count += 1
        left.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return count


def _json_encode(node: Node) -> Node:
    text = json.dumps(node.plain(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return _at(node, text)


def _to_set(node: Node) -> Node:
    items = {json.dumps(item.plain(), sort_keys=True): item for item in node.items()}
    return _at(node, [items[key] for key in sorted(items)])


FUNCTIONS: Final[Mapping[str, Callable[[Node], Node]]] = {
    "jsonencode": _json_encode,
    "toset": _to_set,
    "tolist": lambda node: node,
    "tomap": lambda node: node,
}
"""The functions of Terraform that are carried out here."""
