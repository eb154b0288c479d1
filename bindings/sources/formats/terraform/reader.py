"""Read topologies from Terraform's plans and states: ``terraform show -json``, and state files.

Terraform's language is not evaluated: what Terraform makes of a configuration only Terraform knows. A plan has all of
it, but for what is known after it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bindings.sources.formats.format import File
from bindings.sources.formats.imported import Collector, Imported
from bindings.sources.formats.nodes import Node, json_node
from bindings.sources.formats.terraform.resources import PROVIDER, READERS, read_resource
from exchange.errors import InputError

__all__ = ["read_terraform"]

REFUSAL: Final = (
    "Terraform's language is not evaluated; read a plan, terraform plan -out=tfplan && terraform show -json tfplan, "
    "or the state, terraform show -json, as - or saved to a file"
)


def read_terraform(files: Sequence[File], name: str) -> Imported:
    """Read a plan or a state. Raises InputError, which names the commands that print them, for a configuration."""
    collector = Collector(several=len(files) > 1)
    found = 0
    for file in files:
        root = json_node(file.text, file.name) if file.is_json else None
        if root is None or not root.fields().keys() & {"terraform_version", "format_version"}:
            raise InputError(f"{file.name}: {REFUSAL}")
        found += _read_shown(collector, root)
    if not found:
        raise InputError(f"{name}: there is no resource of the provider cyrilgdn/rabbitmq, such as a rabbitmq_queue")
    return collector.finish()


def _items_of(node: Node | None) -> list[Node]:
    """Return the items of a list; none if it is absent."""
    return [] if node is None else node.items()


def _read_shown(collector: Collector, root: Node) -> int:
    """Read a plan or a state; return the number of resources of the provider."""
    if "resources" in root.fields() and "values" not in root.fields():
        return sum(_read_state_resource(collector, resource) for resource in _items_of(root.get("resources")))
    values = root.get("planned_values") or root.get("values")
    if values is None:
        raise root.error("neither a plan nor a state of terraform show -json: it has no planned_values and no values")
    module = values.get("root_module")
    return 0 if module is None else _read_module(collector, module)


def _read_module(collector: Collector, module: Node) -> int:
    found = 0
    for resource in _items_of(module.get("resources")):
        if resource.text("mode", "managed") == "managed":
            values = resource.get("values") or Node({}, resource.file)
            address = resource.text("address", "")
            found += _read_known(collector, resource.text("type"), address, values)
    for child in _items_of(module.get("child_modules")):
        found += _read_module(collector, child)
    return found


def _read_state_resource(collector: Collector, resource: Node) -> int:
    """Read a resource of a state file, terraform.tfstate."""
    if resource.text("mode", "managed") != "managed":
        return 0
    kind = resource.text("type")
    address = f"{kind}.{resource.text('name', '')}"
    instances = (each.get("attributes") for each in _items_of(resource.get("instances")))
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
