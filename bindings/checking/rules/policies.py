"""7xx: policies that are not in force, or may not be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bindings.checking.rules.finding import MAX_LISTED_NAMES, Finding, list_names
from bindings.checking.rules.view import TopologyView
from bindings.sources.definitions.import_warnings import PATTERN_SHOWN
from exchange.entities.effects import NAMES, find_meant
from exchange.entities.entities import PREDECLARED_NAMES, Exchange, Policy, Queue, Ranked
from exchange.entities.in_force import applies_to, find_unsupported_keys, is_for_type
from exchange.entities.policy_definitions import find_wrong_pattern, find_wrong_settings
from exchange.entities.profile import Profile
from exchange.patterns.pcre import parse_expression
from exchange.text.display import clip_line, list_some, suggest


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about policies, then about operator policies."""
    for policies in (view.topology.policies, view.topology.operator_policies):
        yield from _find(view, policies)


def _find(view: TopologyView, policies: Mapping[str, Policy]) -> Iterator[Finding]:
    matched: dict[str, list[Exchange | Queue]] = {name: [] for name in policies}
    unsure: dict[str, list[Exchange | Queue]] = {name: [] for name in policies}
    unsupported: dict[str, list[Queue]] = {name: [] for name in policies}
    elsewhere: dict[str, list[Exchange | Queue]] = {name: [] for name in policies}  # of another kind or type
    ranked = Ranked(policies.values())
    parts: list[Exchange | Queue] = [*view.topology.exchanges.values(), *view.topology.queues.values()]
    for part in parts:
        for policy in ranked.near(part.name) if part.name or isinstance(part, Queue) else ():
            applies = applies_to(policy, part, view.topology.profile)
            if applies:
                matched[policy.name].append(part)
            elif applies is None:
                unsure[policy.name].append(part)
            elif not policy.is_found_in(part.name):
                continue
            elif isinstance(part, Queue) and is_for_type(policy, part.type):
                unsupported[policy.name].append(part)  # but for keys that its type does not support
            else:
                elsewhere[policy.name].append(part)
    for name, policy in policies.items():
        yield from _unsupported(view, policy, unsupported[name])
    by_part: dict[Exchange | Queue, list[Policy]] = {}
    for name, several in matched.items():
        for part in several:
            by_part.setdefault(part, []).append(policies[name])
    # Parts to which the same policies apply differ in nothing here: the first of each kind is looked at.
    firsts = {tuple(map(id, each)): part for part, each in reversed(by_part.items())}
    looked_at = {part: by_part[part] for part in reversed(firsts.values())}
    for policy in policies.values():
        pattern = f"'{clip_line(policy.pattern, PATTERN_SHOWN)}'"
        for wrong in find_wrong_settings(policy.definition, view.topology.profile, operator=policy.operator):
            message = f"RabbitMQ refuses {_name(policy)}: {wrong}{_hint(policy, view.topology.profile)}"
            yield Finding("HS707", policy, message, detail=wrong)
        known = view.topology.profile.settings.apply_to
        if policy.apply_to not in known:
            message = f"RabbitMQ refuses {_name(policy)}: apply-to '{policy.apply_to}' unrecognised"
            yield Finding("HS705", policy, f"{message}{suggest(policy.apply_to, known)}")
        elif (error := find_wrong_pattern(policy.pattern, view.topology.profile)) != "":
            message = f"RabbitMQ refuses the pattern {pattern} of {_name(policy)}: {error}"
            yield Finding("HS701", policy, message)
        elif unsure[policy.name] or parse_expression(policy.pattern).unknown:
            reason = parse_expression(policy.pattern).unknown or "the broker may give up before it has found it"
            own = [
                name
                for name in dict.fromkeys(part.name for part in unsure[policy.name])
                if name not in PREDECLARED_NAMES
            ]
            what = list_names(own) if own else "exchanges" if unsure[policy.name] else "anything"
            message = f"whether {_name(policy)} applies to {what} is not known here: {pattern}: {reason}"
            yield Finding("HS706", policy, message)
        elif not matched[policy.name]:
            why = f"matches nothing: no name has {pattern}"
            if unsupported[policy.name]:
                names = [queue.name for queue in unsupported[policy.name]]
                do = "does" if len(names) == 1 else "do"
                why = f"applies to nothing: it matches only {list_names(names)}, which {do} not support its settings"
            elif elsewhere[policy.name]:
                shown = list_some([_kind_of(part) for part in elsewhere[policy.name]], MAX_LISTED_NAMES, "and")
                why = f"applies to nothing: {pattern} matches only {shown}, and it is for {_targets(policy)}"
            yield Finding("HS702", policy, f"{_name(policy)} {why}")
        else:
            yield from _priority(policy, [part for part in matched[policy.name] if part in looked_at], looked_at)


def _unsupported(view: TopologyView, policy: Policy, queues: list[Queue]) -> Iterator[Finding]:
    """Yield one finding for each type of queues that the policy would set something for, were it not for other keys."""
    by_type: dict[str, list[str]] = {}
    for queue in queues:
        by_type.setdefault(queue.type, []).append(queue.name)
    for kind, names in by_type.items():
        foreign = find_unsupported_keys(policy, kind, view.topology.profile)
        known = view.topology.profile.settings.arguments(kind)
        lost = sorted(name for name in policy.definition if name not in foreign and f"x-{name}" in known)
        if lost:
            message = (
                f"{_name(policy)} does not apply to {list_names(names)}, with all of its settings ({', '.join(lost)}): "
                f"{kind} queues do not support {list_names(foreign)}"
            )
            yield Finding("HS708", policy, message, detail=kind)


def _hint(policy: Policy, profile: Profile) -> str:
    """Return ``; did you mean ...?`` for the first key that the release does not know, if there is one like it."""
    known = profile.settings.operator_settings if policy.operator else profile.settings.policy_settings
    unknown = [name for name in sorted(policy.definition) if name not in NAMES["policy"]]
    meant = [near for name in unknown if (near := find_meant(name, known)) is not None]
    return f"; did you mean '{meant[0]}'?" if meant else ""


def _name(policy: Policy) -> str:
    return f"{'operator ' if policy.operator else ''}policy '{policy.name}'"


def _priority(
    policy: Policy, parts: list[Exchange | Queue], by_part: Mapping[Exchange | Queue, list[Policy]]
) -> Iterator[Finding]:
    """Yield HS703 if the policy is in force nowhere, else HS704 for each earlier policy that ties with it."""
    above = [[other for other in by_part[part] if other.priority > policy.priority] for part in parts]
    if all(above):
        others = list({other.name: other for others in above for other in others}.values())
        message = f"{_name(policy)} is in force nowhere: {list_names(others)} has a higher priority"
        if len(others) > 1:
            message = message.replace(" has a higher", " have a higher")
        yield Finding("HS703", policy, message, related=tuple(others))
        return
    # Reported for the last policy of a pair, so that each pair is reported once.
    equal: dict[str, tuple[Policy, str]] = {}
    for part, higher in zip(parts, above, strict=True):
        if not higher:
            for other in by_part[part]:
                if other is policy:
                    break
                if other.priority == policy.priority:
                    equal.setdefault(other.name, (other, part.name))
    for other, name in equal.values():
        kind = "operator policies" if policy.operator else "policies"
        message = f"{kind} '{other.name}' and '{policy.name}' have priority {policy.priority} and match '{name}'"
        yield Finding("HS704", policy, message, related=(other,))


def _kind_of(part: Exchange | Queue) -> str:
    return f"exchange '{part.name}'" if isinstance(part, Exchange) else f"{part.type} queue '{part.name}'"


def _targets(policy: Policy) -> str:
    return policy.apply_to.replace("_", " ")
