"""Arguments and settings of policies that have no effect in RabbitMQ, or one that is not modelled here."""

from __future__ import annotations

from collections.abc import Iterator

from bindings.checking.rules.finding import Finding
from bindings.checking.rules.view import TopologyView
from bindings.checking.rules.words import list_names
from exchange.entities.effects import AT_MOST_ONCE, NoEffect
from exchange.entities.entities import PREDECLARED_NAMES, Exchange, Policy, Queue
from exchange.entities.in_force import Setting, SettingsInForce
from exchange.lifecycle.limits import NOT_MODELLED

__all__ = ["find"]


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about arguments, HS606 and HS607, then about policies, HS709, and what is not modelled, HS326."""
    unmodelled: dict[tuple[str, Setting], dict[str, Queue | Exchange]] = {}
    idle: dict[tuple[Policy, str], dict[str, NoEffect]] = {}
    effective: set[tuple[Policy, str]] = set()
    has_timeouts = view.topology.profile.lives.consumer_timeout is not None
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
                if name in NOT_MODELLED and not (name == "consumer-timeout" and has_timeouts):
                    unmodelled.setdefault((name, setting._replace(value=None)), {})[part.name] = part
            for policy in filter(None, (settings.policy, settings.operator_policy)):
                for name in policy.definition:
                    key = policy, name
                    ineffective, why = settings.without_effect.get(name, (None, None))
                    if why is None or ineffective is None or ineffective.policy != policy.name:
                        effective.add(key)
                    elif why is not AT_MOST_ONCE:  # HS313 is about that
                        idle.setdefault(key, {})[part.name] = why
    for (policy, name), reasons in idle.items():
        ignored = {part: why for part, why in reasons.items() if why.is_by_value or (policy, name) not in effective}
        named = [part for part in ignored if part not in PREDECLARED_NAMES]
        if named:
            kind = f"{'operator ' if policy.operator else ''}policy '{policy.name}'"
            message = f"'{name}' of {kind} has no effect on {list_names(named)}: {ignored[named[0]]}"
            yield Finding("HS709", policy, message, detail=name)
    for (name, setting), found in unmodelled.items():
        owners = view.topology.operator_policies if setting.source == "operator policy" else view.topology.policies
        owner = None if setting.policy is None else owners[setting.policy]
        used = f"'{name}' of {setting.source} '{setting.policy}'" if owner else f"the argument 'x-{name}'"
        named = [part for part in found if part not in PREDECLARED_NAMES]
        if named:
            message = f"not modelled: {used} of {list_names(named)}, which is about {NOT_MODELLED[name]}"
            yield Finding("HS326", owner or found[named[0]], message, detail=name)


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
