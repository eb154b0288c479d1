"""Read topologies from Terraform: configurations (.tf, .tf.json), plans and states (``terraform show -json``).

A folder is a module, as for Terraform: all of its .tf and .tf.json files together, with the values of terraform.tfvars
and *.auto.tfvars. A resource whose attributes only Terraform can evaluate is left out; a warning names the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bindings.sources.formats.format import File
from bindings.sources.formats.imported import Collector, Imported
from bindings.sources.formats.nodes import Node, json_node
from bindings.sources.formats.terraform.evaluation import Configuration, Declaration, Unresolved
from bindings.sources.formats.terraform.parser import parse_hcl, parse_template
from bindings.sources.formats.terraform.resources import PROVIDER, READERS, read_resource
from bindings.sources.formats.terraform.syntax import Body, Expression, Items, Literal, Object
from exchange.display import clip_line
from exchange.errors import InputError

__all__ = ["read_terraform"]

WAY_OUT: Final = "terraform show -json has the value"


def read_terraform(files: Sequence[File], name: str) -> Imported:
    """Read the files of one source. Raises InputError, which names file and line, for the first mistake."""
    collector = Collector(several=len(files) > 1)
    configuration = Configuration()
    found = 0
    for file in sorted(files, key=_is_values):
        if file.is_json:
            root = json_node(file.text, file.name)
            if "terraform_version" in root.fields() or "format_version" in root.fields():
                found += _read_shown(collector, root)
            else:
                _add_json(configuration, collector, root)
        else:
            body = parse_hcl(file.text, file.name)
            if _is_values(file):
                for variable, (value, _) in body.attributes.items():
                    configuration.add_variable(variable, value, file.name)
            else:
                _add_body(configuration, collector, body, file.name)
    for (kind, label), declaration in configuration.resources.items():
        found += kind.startswith(PROVIDER)
        _read_declared(collector, configuration, kind, label, declaration)
    if not found:
        raise InputError(f"{name}: there is no resource of the provider cyrilgdn/rabbitmq, such as a rabbitmq_queue")
    return collector.finish()


def _is_values(file: File) -> bool:
    return file.name.endswith((".tfvars", ".tfvars.json"))


def _read_declared(
    collector: Collector, configuration: Configuration, kind: str, label: str, declaration: Declaration
) -> None:
    if kind not in READERS:
        collector.leave_out(kind)
        return
    address = f"{kind}.{label}"
    try:
        for instance in configuration.instances(kind, label).values():
            key = instance.key
            each = address if key is None else f"{address}[{key}]" if isinstance(key, int) else f'{address}["{key}"]'
            try:
                read_resource(collector, kind, each, configuration.attributes(declaration, instance))
            except Unresolved as error:
                collector.warn(error.node, f"{clip_line(each, 80)} is left out: {error.reason}; {WAY_OUT}")
    except Unresolved as error:
        collector.warn(error.node, f"{address} is left out: {error.reason}; {WAY_OUT}")


# Configurations


def _add_body(configuration: Configuration, collector: Collector, body: Body, file: str) -> None:
    for block in body.blocks:
        if block.type == "resource" and len(block.labels) == 2:
            declaration = Declaration(block.body, file, block.line)
            _add_resource(configuration, block.labels[0], block.labels[1], declaration)
        elif block.type == "variable" and block.labels:
            default = block.body.attributes.get("default")
            configuration.add_variable(block.labels[0], None if default is None else default[0], file)
        elif block.type == "locals":
            for name, (value, _) in block.body.attributes.items():
                configuration.add_local(name, value, file)
        elif block.type == "module":
            _warn_of_module(collector, " ".join(block.labels), Node(None, file, block.line))


def _add_resource(configuration: Configuration, kind: str, name: str, declaration: Declaration) -> None:
    first = configuration.resources.setdefault((kind, name), declaration)
    if first is not declaration:
        raise declaration.node.error(f"{kind}.{name} is declared already, at {first.node.where}")


def _warn_of_module(collector: Collector, name: str, node: Node) -> None:
    text = f"module {name!r} is not read; terraform show -json has what it makes"
    collector.warn(node, text)


def _add_json(configuration: Configuration, collector: Collector, root: Node) -> None:
    """Add a configuration in JSON, in which each text is a template, and an object may stand for a block."""
    for kind, name, node in _labelled(root, "resource", 2):
        fields = {field: (_expression(value), 0) for field, value in node.fields().items() if field != "//"}
        declaration = Declaration(Body(fields, ()), node.file, None, node.path)
        _add_resource(configuration, kind, name, declaration)
    for _, name, node in _labelled(root, "variable", 1):
        default = node.fields().get("default")
        configuration.add_variable(name, None if default is None else _expression(default), node.file, node.path)
    for group in _each(root.get("locals")):
        for name, value in group.fields().items():
            configuration.add_local(name, _expression(value), value.file, value.path)
    for _, name, node in _labelled(root, "module", 1):
        _warn_of_module(collector, name, node)


def _labelled(root: Node, block: str, labels: int) -> Iterator[tuple[str, str, Node]]:
    """Yield the labels and body of each block of a type."""
    for group in _each(root.get(block)):
        for first, node in group.fields().items():
            if first == "//":
                continue
            inner = {first: node} if labels == 1 else {}
            if labels == 2:
                for each in _each(node):
                    inner.update(each.fields())
            for name, bodies in inner.items():
                for body in _each(bodies):
                    yield first, name, body


def _each(node: Node | None) -> list[Node]:
    """Return the items of a list, or the value itself."""
    if node is None:
        return []
    return node.items() if isinstance(node.value, list) else [node]


def _expression(node: Node) -> Expression:
    """Return the expression that a JSON value of a configuration stands for."""
    if isinstance(node.value, str):
        try:
            return parse_template(node.value)
        except InputError as error:
            raise node.error(str(error)) from None
    if isinstance(node.value, dict):
        pairs = tuple((Literal(name, 0), _expression(value)) for name, value in node.value.items())
        return Object(pairs, 0)
    if isinstance(node.value, list):
        return Items(tuple(map(_expression, node.value)), 0)
    return Literal(node.value, 0)


# Plans and states


def _read_shown(collector: Collector, root: Node) -> int:
    """Read a plan or a state; return the number of resources of the provider."""
    if "resources" in root.fields() and "values" not in root.fields():
        return sum(_read_state_resource(collector, resource) for resource in _each(root.get("resources")))
    values = root.get("planned_values") or root.get("values")
    if values is None:
        raise root.error("neither a plan nor a state of terraform show -json: it has no planned_values and no values")
    module = values.get("root_module")
    return 0 if module is None else _read_module(collector, module)


def _read_module(collector: Collector, module: Node) -> int:
    found = 0
    for resource in _each(module.get("resources")):
        if resource.text("mode", "managed") == "managed":
            values = resource.get("values") or Node({}, resource.file)
            address = resource.text("address", "")
            found += _read_known(collector, resource.text("type"), address, values)
    for child in _each(module.get("child_modules")):
        found += _read_module(collector, child)
    return found


def _read_state_resource(collector: Collector, resource: Node) -> int:
    """Read a resource of a state file, terraform.tfstate."""
    if resource.text("mode", "managed") != "managed":
        return 0
    kind = resource.text("type")
    address = f"{kind}.{resource.text('name', '')}"
    instances = (each.get("attributes") for each in _each(resource.get("instances")))
    return sum(_read_known(collector, kind, address, node) for node in instances if node is not None)


def _read_known(collector: Collector, kind: str, address: str, node: Node) -> int:
    if kind not in READERS:
        collector.leave_out(kind)
        return int(kind.startswith(PROVIDER))
    node = Node(node.value, node.file, None, (None, address))  # more precise than the path in the plan
    missing = ", ".join(sorted(REQUIRED[kind] - node.fields().keys()))
    if missing:
        collector.warn(node, f"left out: its {missing} will be known after terraform apply")
    else:
        read_resource(collector, kind, address, node)
    return 1


REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    "rabbitmq_vhost": frozenset({"name"}),
    "rabbitmq_exchange": frozenset({"name", "vhost", "settings"}),
    "rabbitmq_queue": frozenset({"name", "vhost", "settings"}),
    "rabbitmq_binding": frozenset({"source", "vhost", "destination", "destination_type"}),
    "rabbitmq_policy": frozenset({"name", "vhost", "policy"}),
    "rabbitmq_operator_policy": frozenset({"name", "vhost", "policy"}),
}
"""Type of a resource -> the attributes that its plan has, unless they are unknown."""
