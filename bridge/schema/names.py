"""All schemas, by name: files that hashstar reads, messages that it takes, and every JSON output of a command.

SARIF is left out, as its schema is not ours, and so are logs, whose events have fields of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from exchange.values.json_schema import build_schema


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that can be built."""

    about: str
    """What it describes."""
    build: Callable[[str], dict[str, Any]]
    """Builds it, given its name. What it is made of is imported only then."""


def _of_types(about: str, *types: str) -> NamedSchema:
    """Describe an output of one of several types, each as ``module:name``."""

    def build(name: str) -> dict[str, Any]:
        kinds = [getattr(import_module(module), kind) for module, _, kind in (each.partition(":") for each in types)]
        return build_schema(kinds, name, about)

    return NamedSchema(about, build)


def _build_bridge(_: str) -> dict[str, Any]:
    from bridge.schema.configuration import build_bridge_schema

    return build_bridge_schema()


def _build_settings(_: str) -> dict[str, Any]:
    from bindings.report.settings import build_settings_schema

    return build_settings_schema()


SELECTOR: Final = "exchange.selector.forms"

SCHEMAS: Final[Mapping[str, NamedSchema]] = MappingProxyType({
    "bridge": NamedSchema("The configuration of a bridge, bridge.toml", _build_bridge),
    "hashstar": NamedSchema("The settings of audits, hashstar.toml", _build_settings),
    "message": _of_types(
        "A message: a line that route, explain, partition --by and diff --messages read",
        "exchange.values.json_types:MessageInput",
    ),
    "route": _of_types(
        "A line of hashstar route", "exchange.routing.explain_json:RouteLine", "exchange.routing.explain_json:ErrorLine"
    ),
    "explain": _of_types("hashstar explain --json", "exchange.lifecycle.forms:ProfiledExplanation"),
    "partition": _of_types("A line of hashstar partition", "exchange.partition.picture:PartitionLine"),
    "partition-moves": _of_types("hashstar partition --change ... --json", "exchange.partition.picture:DescribedMoves"),
    "selector-check": _of_types(
        "hashstar selector check --json", f"{SELECTOR}:SelectorCheckJson", f"{SELECTOR}:TagsCheckJson"
    ),
    "selector-match": _of_types(
        "hashstar selector match --json", f"{SELECTOR}:SelectorMatchJson", f"{SELECTOR}:TagsMatchJson"
    ),
    "check": _of_types(
        "hashstar check --format json, of one file or of several",
        "bindings.checking.forms.as_json:CheckedFile",
        "bindings.checking.forms.as_json:CheckResult",
    ),
    "diff": _of_types(
        "hashstar diff --json, of two topologies or with --against",
        "bindings.diffing.forms.as_json:DiffDocument",
        "bindings.diffing.forms.as_json:AgainstJson",
    ),
    "upgrade": _of_types("hashstar upgrade --format json", "bindings.upgrading.forms.as_json:Upgrade"),
    "recording": _of_types(
        "A line of a recording of hashstar record",
        *(f"bindings.sources.recording.file:{kind}Json" for kind in ("Recording", "Client", "Request", "Publishing")),
    ),
    "drift": _of_types(
        "hashstar drift --format json", "bindings.drift.forms:DriftReport", "bindings.drift.forms:UnknownJson"
    ),
    "archive-inspect": _of_types(
        "hashstar archive inspect --json, of an archive or of the store of a RocketMQ broker",
        "bindings.report.inspection_json:Inspected",
        "bindings.report.store_json:InspectedStore",
        "bindings.report.store_json:MatchedMessages",
    ),
    "archive-line": _of_types(
        "A line of hashstar archive convert IN OUT.jsonl", "bindings.archive.formats.record_line:RecordLine"
    ),
    "audit": _of_types(
        "hashstar audit --format json, and /coverage of a bridge", "bindings.report.forms.as_json:Report"
    ),
    "audit-estimate": _of_types("hashstar audit --estimate --format json", "bindings.auditing.estimate:Estimate"),
    "bridge-check": _of_types("hashstar bridge check --json", "bridge.daemon.probe:CheckReport"),
    "group-describe": _of_types(
        "hashstar group describe --format json", "bridge.consumers.groups.description:Description"
    ),
    "dead": _of_types("hashstar dead --format json", "bridge.dead.report:DeadReport"),
    "rocketmq-scale": _of_types("hashstar rocketmq scale --format json", "bridge.scaling.forms:ScaleJson"),
    "bridge-workers": _of_types("hashstar bridge status --json", "bridge.daemon.asking.forms:WorkersJson"),
    "bridge-status": _of_types("/status of a bridge", "bridge.daemon.views:StatusJson"),
})  # fmt: skip
"""Name -> schema, files first."""
