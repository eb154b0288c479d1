"""7xx: policies that are not in force, or may not be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bindings.check.rules.finding import Finding
from bindings.check.rules.view import TopologyView
from bindings.check.rules.words import list_names
from bindings.sources.definitions.import_warnings import PATTERN_SHOWN, RESERVED
from exchange.display import clip_line
from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.policy_definitions import wrong_settings
from exchange.patterns.pcre import expression

__all__ = ["find"]

QUEUES: Final[Mapping[str, str | None]] = {
    "all": None,
    "queues": None,
    "classic_queues": "classic",
    "quorum_queues": "quorum",
    "streams": "stream",
}
"""``apply-to`` of a policy -> the type of the queues that it applies to, None for any."""

EXCHANGES: Final = ("all", "exchanges")


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about policies, and HS313 about the dead letters of quorum queues."""
    policies = view.topology.policies
    matched: dict[str, list[Exchange | Queue]] = {}
    unsure: dict[str, list[Exchange | Queue]] = {}
    for name, policy in policies.items():
        matched[name], unsure[name] = _match(view, policy)
    by_part: dict[Exchange | Queue, list[Policy]] = {}
    for name, parts in matched.items():
        for part in parts:
            by_part.setdefault(part, []).append(policies[name])
    for policy in policies.values():
        pattern = f"'{clip_line(policy.pattern, PATTERN_SHOWN)}'"
        for wrong in wrong_settings(policy.definition, view.topology.profile):
            yield Finding("HS707", policy, f"RabbitMQ refuses policy '{policy.name}': {wrong}", detail=wrong)
        if policy.apply_to not in (*EXCHANGES, *QUEUES):
            yield Finding("HS705", policy, f"policy '{policy.name}' applies to '{policy.apply_to}', which is nothing")
        elif (error := expression(policy.pattern).error) != "":
            message = f"RabbitMQ refuses the pattern {pattern} of policy '{policy.name}': {error}"
            yield Finding("HS701", policy, message)
        elif unsure[policy.name]:
            reason = expression(policy.pattern).unknown or "the broker may give up before it has found it"
            names = dict.fromkeys(part.name for part in unsure[policy.name])
            own = [name for name in names if name not in RESERVED]
            what = list_names(own) if own else "exchanges"
            message = f"whether policy '{policy.name}' applies to {what} is not known here: {pattern}: {reason}"
            yield Finding("HS706", policy, message)
        elif not matched[policy.name]:
            yield Finding("HS702", policy, f"policy '{policy.name}' matches nothing: no name has {pattern}")
        else:
            yield from _priority(policy, matched[policy.name], by_part)
    yield from _dead_letters(view, by_part)


def _dead_letters(view: TopologyView, by_part: Mapping[Exchange | Queue, list[Policy]]) -> Iterator[Finding]:
    for queue in view.topology.queues.values():
        if queue.type == "quorum":
            policies = by_part.get(queue, ())
            definition = max(policies, key=lambda policy: policy.priority).definition if policies else {}
            strategy, overflow = (
                queue.arguments.get(f"x-{name}", definition.get(name)) for name in ("dead-letter-strategy", "overflow")
            )
            if strategy == "at-least-once" and overflow != "reject-publish":
                message = f"queue '{queue.name}' asks for dead letters at least once without overflow reject-publish"
                yield Finding("HS313", queue, message)


def _priority(
    policy: Policy, parts: list[Exchange | Queue], by_part: Mapping[Exchange | Queue, list[Policy]]
) -> Iterator[Finding]:
    """Yield HS703 if the policy is in force nowhere, else HS704 for each earlier policy that ties with it."""
    above = [[other for other in by_part[part] if other.priority > policy.priority] for part in parts]
    if all(above):
        others = list({other.name: other for others in above for other in others}.values())
        message = f"policy '{policy.name}' is in force nowhere: {list_names(others)} has a higher priority"
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
        message = f"policies '{other.name}' and '{policy.name}' have priority {policy.priority} and match '{name}'"
        yield Finding("HS704", policy, message, related=(other,))


def _match(view: TopologyView, policy: Policy) -> tuple[list[Exchange | Queue], list[Exchange | Queue]]:
    """Return the exchanges and queues to which the policy applies, and those for which that is unknown."""
    parts: list[Exchange | Queue] = []
    if policy.apply_to in EXCHANGES:
        parts += [exchange for exchange in view.topology.exchanges.values() if exchange.name]
    if policy.apply_to in QUEUES:
        kind = QUEUES[policy.apply_to]
        parts += [queue for queue in view.topology.queues.values() if kind in (None, queue.type)]
    applying = [(part, policy.is_found_in(part.name)) for part in parts]
    return [part for part, applies in applying if applies], [part for part, applies in applying if applies is None]
