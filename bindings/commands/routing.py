"""The commands of the engine that read topologies: route and explain."""

from __future__ import annotations

from collections.abc import Iterator

from bindings.sources.open import open_source
from exchange.commands.console import show_warnings
from exchange.commands.options import read_timeout
from exchange.commands.route import build_commands
from exchange.entities.policy_definitions import find_wrong_settings
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_not_proved

__all__ = ["explain_command", "load", "route_command"]


def load(where: str, vhost: str | None, profile: str | None) -> Topology:
    """Read a source; what RabbitMQ would read otherwise, or routing cannot follow, goes to standard error."""
    source = open_source(where, vhost, seconds=read_timeout())
    topology = source.routable(vhost, profile)
    unread = find_unread(topology)
    notes = [f"{format_not_proved(unread)}: a message that goes nowhere here may get to a queue"] if unread else []
    show_warnings(source.name, [*source.warnings, *notes, *_refused_settings(topology)])
    return topology


def _refused_settings(topology: Topology) -> Iterator[str]:
    """Yield the policies whose settings the release refuses; a broker may still have them from an older release."""
    for policy in topology.all_policies:
        for wrong in find_wrong_settings(policy.definition, topology.profile, operator=policy.operator):
            name = f"{'operator policy' if policy.operator else 'policy'} '{policy.name}'"
            yield f"{name} is refused by {topology.profile.name}, but its settings count here: {wrong}"


route_command, explain_command = build_commands(load)
