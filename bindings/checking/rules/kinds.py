"""6xx: exchanges, queues and bindings that RabbitMQ refuses, and weights, arguments and settings that it ignores.

Of what has no effect here, HS709 is about policies, and HS326 about what is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bindings.checking.rules.finding import Finding, list_names, quote_binding, quote_exchange
from bindings.checking.rules.view import TopologyView
from exchange.entities.effects import AT_MOST_ONCE, NoEffect
from exchange.entities.entities import OWN_NAMES, PREDECLARED_NAMES, Binding, Destination, Exchange, Policy, Queue
from exchange.entities.in_force import Setting, SettingsInForce
from exchange.entities.indexes import Tables
from exchange.entities.odd_numbers import explain_odd_number
from exchange.entities.policy_definitions import COMMERCIAL_SETTINGS
from exchange.entities.queue_arguments import COMMERCIAL_TYPES, has_odd_timeout
from exchange.errors import BrokerError
from exchange.kinds import KINDS, KeyUse, find_kind
from exchange.lifecycle.limits import explain_not_modelled, find_crash
from exchange.text.display import suggest
from exchange.topology import rules


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about exchanges and bindings."""
    topology = view.topology
    host = rules.VirtualHost(topology.vhost, topology.profile)
    for name, exchange in topology.exchanges.items():
        if exchange.type not in KINDS:
            unknown = f"is of type '{exchange.type}', which is unknown here"
            message = f"{quote_exchange(name)} {unknown}{suggest(exchange.type, KINDS)}"
            yield Finding("HS601", exchange, message)
            continue
        refusal = _refuse(host, exchange)
        if refusal is not None:
            # An import does not look at the type of this argument.
            arguments = {key: value for key, value in exchange.arguments.items() if key != "alternate-exchange"}
            imported = _refuse(host, replace(exchange, arguments=arguments)) is None
            stored = "; an import of definitions stores it, and it has no alternate" if imported else ""
            yield Finding("HS602", exchange, f"RabbitMQ refuses to declare {quote_exchange(name)}: {refusal}{stored}")
        if find_kind(exchange).key_use is KeyUse.WEIGHT and not view.topology.profile.counts_each_binding:
            yield from _weights(view, exchange)
    for binding, error in view.refused.items():
        if find_kind(topology.exchanges[binding.source]).key_use is not KeyUse.PATTERN:  # that is HS404
            yield Finding("HS603", binding, f"RabbitMQ refuses {quote_binding(binding)}: {error}")


def _refuse(host: rules.VirtualHost, exchange: Exchange) -> BrokerError | None:
    """Return the answer to the declaration of an exchange that is refused."""
    if exchange.name not in OWN_NAMES:
        try:
            rules.declare_exchange(Tables(), host, exchange)
        except BrokerError as error:
            return error
    return None


def find_refused_queues(view: TopologyView) -> Iterator[Finding]:
    """Yield a finding for each queue that RabbitMQ would refuse to declare."""
    for name, error in view.refused_queues.items():
        queue = view.topology.queues[name]
        yield Finding("HS605", queue, f"RabbitMQ refuses to declare queue '{name}': {error}")


def find_unusable_queues(view: TopologyView) -> Iterator[Finding]:
    """Yield a finding for each queue that RabbitMQ declares, and that no client can read."""
    for name, queue in view.topology.queues.items():
        if queue.arguments and has_odd_timeout(queue) and name not in view.refused_queues:
            crashes = [find_crash(settings, queue, view.topology.profile) for settings in _possible(view, queue)]
            if any(crashes):
                yield Finding("HS609", queue, f"nobody can consume or get from queue '{name}': {max(crashes)}")


def find_odd_values(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about values that RabbitMQ accepts, does not mean, and makes something else of."""
    found: dict[tuple[str, str, Setting], list[Queue]] = {}
    for name, queue in view.topology.queues.items():
        if name in view.refused_queues or not (queue.arguments or view.topology.policies):
            continue
        for settings in _possible(view, queue):
            for setting_name, setting in settings.values.items():
                odd = explain_odd_number(setting_name, setting.value, queue.type, view.topology.profile)
                if odd is not None:
                    found.setdefault((setting_name, odd.text, setting), []).append(queue)
            for written, (setting, why) in settings.only_hides.items():
                text = f"{why}; but it keeps the value out of force that would count without it"
                found.setdefault((written.removeprefix("x-"), text, setting), []).append(queue)
    for (name, text, setting), queues in found.items():
        owners = view.topology.operator_policies if setting.source == "operator policy" else view.topology.policies
        owner = None if setting.policy is None else owners[setting.policy]
        used = f"'{name}' of {setting}" if owner else f"the argument 'x-{name}'"
        names = list_names(list(dict.fromkeys(queue.name for queue in queues)))
        yield Finding("HS610", owner or queues[0], f"{used} of {names}: {text}", detail=name)


def _weights(view: TopologyView, exchange: Exchange) -> Iterator[Finding]:
    first: dict[Destination, Binding] = {}
    for binding in view.topology.bindings_from(exchange.name):
        other = first.setdefault(binding.destination, binding)
        if other is not binding:
            message = f"the weight of {quote_binding(binding)} is ignored, since that of {quote_binding(other)} counts"
            yield Finding("HS604", binding, message, related=(other,))


def find_without_effect(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about arguments, HS606 and HS607, then about policies, HS709, and what is not modelled, HS326."""
    unmodelled: dict[tuple[str, str, Setting], dict[str, Queue | Exchange]] = {}
    idle: dict[tuple[Policy, str], dict[str, NoEffect]] = {}
    effective: set[tuple[Policy, str]] = set()
    has_policies = bool(view.topology.policies or view.topology.operator_policies)
    parts: list[Queue | Exchange] = [*view.topology.queues.values(), *view.topology.exchanges.values()]
    for part in parts:
        if not (part.arguments or has_policies):
            continue
        possible = _possible(view, part)
        if part.arguments and not (isinstance(part, Queue) and part.name in view.refused_queues):
            yield from _arguments(part, possible)
        for settings in possible:
            for name, setting in settings.values.items():
                what = explain_not_modelled(name, part.type, view.topology.profile)
                if what is not None:
                    unmodelled.setdefault((name, what, setting._replace(value=None)), {})[part.name] = part
            for policy in filter(None, (settings.policy, settings.operator_policy)):
                for name in policy.definition:
                    key = policy, name
                    ineffective, why = settings.without_effect.get(name, (None, None))
                    if why is None or ineffective is None or ineffective.policy != policy.name:
                        effective.add(key)
                    elif why is not AT_MOST_ONCE:  # HS313 is about that
                        idle.setdefault(key, {})[part.name] = why
    for (policy, name), reasons in idle.items():
        by_reason: dict[NoEffect, list[str]] = {}
        for part_name, why in reasons.items():
            if part_name not in PREDECLARED_NAMES and (why.is_by_value or (policy, name) not in effective):
                by_reason.setdefault(why, []).append(part_name)
        if by_reason:
            kind = f"{'operator ' if policy.operator else ''}policy '{policy.name}'"
            where = "; nor on ".join(f"{list_names(names)}: {why}" for why, names in by_reason.items())
            yield Finding("HS709", policy, f"'{name}' of {kind} has no effect on {where}", detail=name)
    for (name, what, setting), found in unmodelled.items():
        owners = view.topology.operator_policies if setting.source == "operator policy" else view.topology.policies
        owner = None if setting.policy is None else owners[setting.policy]
        used = f"'{name}' of {setting.source} '{setting.policy}'" if owner else f"the argument 'x-{name}'"
        named = [part for part in found if part not in PREDECLARED_NAMES]
        if named:
            message = f"not modelled: {used} of {list_names(named)}, which is about {what}"
            yield Finding("HS326", owner or found[named[0]], message, detail=name)


def find_commercial(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about types of queues and settings of policies that only the commercial edition has."""
    for name, queue in view.topology.queues.items():
        if queue.type in COMMERCIAL_TYPES and name not in view.refused_queues:
            yield Finding("HS608", queue, f"queue '{name}' is of the type '{queue.type}' of Tanzu RabbitMQ")
    for policy in view.topology.all_policies:
        for setting in sorted(COMMERCIAL_SETTINGS & policy.definition.keys()):
            kind = f"{'operator ' if policy.operator else ''}policy '{policy.name}'"
            yield Finding("HS608", policy, f"'{setting}' of {kind} is a setting of Tanzu RabbitMQ", detail=setting)


def _possible(view: TopologyView, part: Queue | Exchange) -> tuple[SettingsInForce, ...]:
    if isinstance(part, Queue):
        return view.graph.possible_settings(part.name)
    return view.graph.policies.possible_settings(part)


def _arguments(part: Queue | Exchange, possible: tuple[SettingsInForce, ...]) -> Iterator[Finding]:
    kind = "queue" if isinstance(part, Queue) else "exchange"
    first, *others = possible
    for name, (setting, why) in first.without_effect.items():
        if (
            setting.source == "argument"
            and why is not AT_MOST_ONCE
            and all(name in settings.without_effect for settings in others)
        ):
            code = "HS606" if why.is_known else "HS607"
            yield Finding(
                code, part, f"the argument '{name}' of {kind} '{part.name}' has no effect: {why}", detail=name
            )
