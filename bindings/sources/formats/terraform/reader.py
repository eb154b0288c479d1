"""Read topologies from Terraform's plans and states: ``terraform show -json``, and state files.

Terraform's language is not evaluated: what Terraform makes of a configuration only Terraform knows. A plan has all of
it, but for what is known after it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bindings.sources.formats.format import SourceFile
from bindings.sources.formats.imported import Collector, Imported
from bindings.sources.formats.nodes import DocumentNode, parse_json_node
from bindings.sources.formats.terraform.resources import MOVERS, NO_PARTS, PROVIDER, READERS, read_resource
from exchange.errors import InputError

REFUSAL: Final = (
    "Terraform's language is not evaluated; read a plan, terraform plan -out=tfplan && terraform show -json tfplan, "
    "or the state, terraform show -json, as - or saved to a file"
)


def read_terraform(files: Sequence[SourceFile], name: str) -> Imported:
    """Read a plan or a state. Raises InputError, which names the commands that print them, for a configuration."""
    collector = Collector(several=len(files) > 1)
    found = 0
    for file in files:
        root = parse_json_node(file.text, file.name) if file.is_json else None
        if root is None or not root.fields().keys() & {"terraform_version", "format_version"}:
            raise InputError(f"{file.name}: {REFUSAL}")
        found += _read_shown(collector, root)
    if not found:
        raise InputError(f"{name}: there is no resource of the provider cyrilgdn/rabbitmq, such as a rabbitmq_queue")
    return collector.finish()


def _items_of(node: DocumentNode | None) -> list[DocumentNode]:
    """Return the items of a list; none if it is absent."""
    return [] if node is None else node.items()


def _read_shown(collector: Collector, root: DocumentNode) -> int:
    """Read a plan or a state; return the number of resources of the provider."""
    if "resources" in root.fields() and "values" not in root.fields():
        return sum(_read_state_resource(collector, resource) for resource in _items_of(root.get("resources")))
    values = root.get("planned_values") or root.get("values")
    if values is None:
        raise root.error("neither a plan nor a state of terraform show -json: it has no planned_values and no values")
    errored = root.fields().get("errored")
    if errored is not None and errored.value:
        collector.miss(
            errored, "unevaluated", "terraform plan ended with an error, and what it had not planned is missing"
        )
    for deferred in _items_of(root.get("deferred_changes")):
        collector.miss(deferred, "unevaluated", "a change that terraform has deferred is missing")
    module = values.get("root_module")
    return 0 if module is None else _read_module(collector, module, _unknown_after(root))


def _unknown_after(root: DocumentNode) -> dict[str, list[str]]:
    """Return address -> the attributes of a planned resource that are known after it is applied only."""
    found: dict[str, list[str]] = {}
    for each in _items_of(root.get("resource_changes")):
        change = each.get("change")
        unknown = None if change is None else change.get("after_unknown")
        if unknown is not None and isinstance(unknown.value, dict):
            found[each.text("address", "")] = [
                name for name, value in unknown.fields().items() if name not in COMPUTED and _is_true(value.plain())
            ]
    return found


def _is_true(value: Any) -> bool:
    """Return whether a value, or one in it, is true."""
    if isinstance(value, dict | list):
        return any(map(_is_true, value.values() if isinstance(value, dict) else value))
    return value is True


def _read_module(collector: Collector, module: DocumentNode, unknown: Mapping[str, Sequence[str]]) -> int:
    found = 0
    for resource in _items_of(module.get("resources")):
        if resource.text("mode", "managed") == "managed":
            values = resource.get("values") or DocumentNode({}, resource.file)
            address = resource.text("address", "")
            found += _read_known(collector, resource.text("type"), address, values, unknown.get(address, ()))
    for child in _items_of(module.get("child_modules")):
        found += _read_module(collector, child, unknown)
    return found


def _read_state_resource(collector: Collector, resource: DocumentNode) -> int:
    """Read a resource of a state file, terraform.tfstate."""
    if resource.text("mode", "managed") != "managed":
        return 0
    kind = resource.text("type")
    address = f"{kind}.{resource.text('name', '')}"
    instances = (each.get("attributes") for each in _items_of(resource.get("instances")))
    return sum(_read_known(collector, kind, address, node) for node in instances if node is not None)


def _read_known(collector: Collector, kind: str, address: str, node: DocumentNode, unknown: Sequence[str] = ()) -> int:
    node = DocumentNode(node.value, node.file, None, (None, address))  # more precise than the path in the plan
    if kind not in READERS:
        if kind in MOVERS:
            collector.leave_out_mover(kind, address)
        elif not kind.startswith(PROVIDER) or kind in NO_PARTS:
            collector.leave_out(kind)
        else:
            collector.miss(node, "unknown", "left out: a resource of this type is not known here")
        return int(kind.startswith(PROVIDER))
    missing = ", ".join(sorted({*unknown, *(REQUIRED[kind] - node.fields().keys())}))
    if missing:
        collector.miss(node, "unevaluated", f"left out: its {missing} will be known after terraform apply")
    else:
        read_resource(collector, kind, address, node)
    return 1


COMPUTED: Final = frozenset({"id", "properties_key"})
"""Attributes that the provider computes; nothing of a topology depends on them."""
REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    "rabbitmq_vhost": frozenset({"name"}),
    "rabbitmq_exchange": frozenset({"name", "vhost", "settings"}),
    "rabbitmq_queue": frozenset({"name", "vhost", "settings"}),
    "rabbitmq_binding": frozenset({"source", "vhost", "destination", "destination_type"}),
    "rabbitmq_policy": frozenset({"name", "vhost", "policy"}),
    "rabbitmq_operator_policy": frozenset({"name", "vhost", "policy"}),
}
"""Type of a resource -> the attributes that its plan has, unless they are unknown."""
