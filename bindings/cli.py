"""The commands that know where topologies come from: those of the engine, given a way to read them, and our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from bindings.commands.apply import apply_command
from bindings.commands.archive import archive_command
from bindings.commands.audit import audit_command
from bindings.commands.check import check_command
from bindings.commands.convert import convert_command
from bindings.commands.diff import diff_command
from bindings.commands.drift import drift_command
from bindings.commands.fmt import fmt_command
from bindings.commands.graph import graph_command
from bindings.commands.mcp import mcp_command
from bindings.commands.record import record_command
from bindings.commands.serve import serve_command
from bindings.commands.upgrade import upgrade_command
from bindings.sources.open import open_source
from exchange.commands import route as cli
from exchange.commands.console import seconds_to_answer, show_warnings
from exchange.entities.policy_definitions import wrong_settings
from exchange.topology.topology import Topology

__all__ = ["COMMANDS"]


def load(where: str, vhost: str | None, profile: str | None) -> Topology:
    """Read a source; what RabbitMQ would read otherwise, or routing cannot follow, goes to standard error."""
    source = open_source(where, vhost, seconds=seconds_to_answer())
    topology = source.routable(vhost, profile)
    show_warnings(source.name, [*source.warnings, *_refused_settings(topology)])
    return topology


def _refused_settings(topology: Topology) -> Iterator[str]:
    """Yield the policies whose settings the release refuses; a broker may still have them from an older release."""
    for policies in (topology.policies, topology.operator_policies):
        for policy in policies.values():
            for wrong in wrong_settings(policy.definition, topology.profile, operator=policy.operator):
                kind = "operator policy" if policy.operator else "policy"
                name = f"{kind} '{policy.name}'"
                yield f"{name} is refused by {topology.profile.name}, but its settings count here: {wrong}"


COMMANDS: Final[list[click.Command]] = [
    *cli.build_commands(load),
    check_command,
    diff_command,
    upgrade_command,
    record_command,
    graph_command,
    serve_command,
    apply_command,
    drift_command,
    convert_command,
    fmt_command,
    mcp_command,
    archive_command,
    audit_command,
]
