"""Policies and operator policies as a new release wants them: one function for each transformation.

What a policy gives queues and exchanges stays: a policy is in force in the same parts as before, as far as one policy
can be, and one that has nothing left still keeps those of lower priority out of force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final

from bindings.upgrading.transform.transformation import Draft, Left, Names, Place, TransformedPart, place_of
from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.in_force import find_unsupported_keys
from exchange.text.display import count_noun, list_some
from exchange.topology.topology import Topology

LEADERS: Final[Mapping[str, str]] = {"min-masters": "balanced", "random": "balanced", "client-local": "client-local"}
"""Value of queue-master-locator -> that of queue-leader-locator, which took its place."""

NO_LIMIT: Final = {"delivery-limit": -1}
KEEPING: Final = "keep-delivery-limit"
"""Name of the policy for quorum queues that no other policy is about."""

INERT: Final[tuple[Mapping[str, Any], ...]] = ({"queue-leader-locator": "client-local"}, {"queue-mode": "default"})
"""Definitions for a policy that must stay and move no message; the first that all its queues support is taken.

The first is the default for the node of a new queue; where the broker's configuration has another one, it overrides
that. Classic queues support it from 4.0 on, and the second in all releases.
"""

NARROW: Final = ("classic_queues", "quorum_queues", "streams", "queues", "exchanges", "all")
"""What a policy can apply to, each before what includes it."""

MAX_NAMED_PARTS: Final = 3


def strip_mirroring(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove the keys of mirroring."""
    for policy in draft.now.all_policies:
        rest = {name: value for name, value in policy.definition.items() if not name.startswith("ha-")}
        if len(rest) < len(policy.definition):
            yield TransformedPart(policy, replace(policy, definition=rest))


def remove_lazy_mode(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove the key of lazy mode."""
    for policy in draft.now.all_policies:
        if "queue-mode" in policy.definition and policy.definition not in INERT:
            yield TransformedPart(policy, _with_definition(policy, {}, "queue-mode"))


def remove_old_versions(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove version 1 of classic queues, which is accepted and has no effect."""
    for policy in draft.now.all_policies:
        if policy.definition.get("queue-version") == 1:
            yield TransformedPart(policy, _with_definition(policy, {}, "queue-version"))


def translate_locators(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Write queue-master-locator as queue-leader-locator."""
    for policy in draft.now.all_policies:
        locator = policy.definition.get("queue-master-locator")
        if locator is not None:
            leader = LEADERS.get(locator) if isinstance(locator, str) and not policy.operator else None
            has_one = leader is None or "queue-leader-locator" in policy.definition
            given = {} if has_one else {"queue-leader-locator": leader}
            yield TransformedPart(policy, _with_definition(policy, given, "queue-master-locator"))


def translate_overflow(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Let queues that are quorum queues now refuse what is above their limit: they cannot dead-letter it as well."""
    for policy in draft.now.all_policies:
        if policy.definition.get("overflow") != "reject-publish-dlx":
            continue
        queues = [part for part in _parts_with(policy, draft) if isinstance(part, Queue)]
        new = [queue for queue in queues if queue.type == "quorum" and _old(queue, draft).type == "classic"]
        if new and len(new) == len(queues):
            yield TransformedPart(policy, _with_definition(policy, {"overflow": "reject-publish"}))
        elif new:
            yield Left(
                policy,
                f"{count_noun(len(new), 'queue')} in which it is in force cannot dead-letter what is above the limit "
                "as quorum queues, and drop the oldest messages: give them a policy of their own with reject-publish",
            )


def keep_in_force(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Let policies apply to the types of queues with which they are in force where they were, and nowhere else.

    Only policies that were changed, or that are about queues whose type was changed.
    """
    old = draft.before
    unchanged = set(old.all_policies)
    for policy in draft.now.all_policies:
        found = {place_of(part): part for part in _parts(draft.now) if policy.is_found_in(part.name) is not False}
        if policy in unchanged and all(_old(part, draft).type == part.type for part in found.values()):
            continue
        before, after = draft.names_before[policy.operator], draft.names_now[policy.operator]
        was, now = ({place for place in found if policy.name in names[place]} for names in (before, after))
        if was == now:
            continue
        known = draft.now.profile.settings.apply_to
        choices = (policy.apply_to, *[choice for choice in NARROW if choice in known])
        names = {choice: _names_if_for(choice, policy, found, draft) for choice in choices}
        in_force = {choice: {place for place in found if policy.name in each[place]} for choice, each in names.items()}
        best = min(in_force, key=lambda choice: len(in_force[choice] ^ was))  # as it is, if nothing is better
        if best != policy.apply_to:
            gained = [part for place, part in found.items() if place in now - was]
            kept = [part for place, part in found.items() if place in was]
            why = f"it is in force in {_list(kept)}"
            if gained:
                because = _because(policy, gained, draft)
                why = f"it was not in force in {_list(gained)}{because}: apply it to {policy.apply_to} if it should be"
            yield TransformedPart(policy, replace(policy, apply_to=best), why)
        # One that sets nothing counts only where it takes the place of another, or another takes its place.
        gained = [
            found[place]
            for place in found
            if place in in_force[best] - was and (policy.definition or before[place] - {policy.name, None})
        ]
        lost = [
            found[place]
            for place in found
            if place in was - in_force[best] and (policy.definition or names[best][place] != {None})
        ]
        if gained:
            because = f"where it was not{_because(policy, gained, draft)}"
            yield Left(
                policy, f"it comes into force in {_list(gained)}, {because}: change its pattern if it should not"
            )
        if lost:
            yield Left(policy, f"it is no longer in force in {_list(lost)}")


def _names_if_for(
    apply_to: str, policy: Policy, found: Mapping[Place, Queue | Exchange], draft: Draft
) -> dict[Place, Names]:
    """Return the names of the policies that may be in force in some parts if this policy applies to others."""
    changed = draft.with_changes([TransformedPart(policy, replace(policy, apply_to=apply_to))]).policies
    return {place: changed.find_names(part, operator=policy.operator) for place, part in found.items()}


def _because(policy: Policy, parts: list[Queue | Exchange], draft: Draft) -> str:
    """Return the keys because of which a policy was not in force in queues: ``" because of ha-mode"``."""
    old = (draft.before.operator_policies if policy.operator else draft.before.policies)[policy.name]
    types = {_old(part, draft).type for part in parts if isinstance(part, Queue)}
    keys = sorted({key for each in types for key in find_unsupported_keys(old, each, draft.before.profile)})
    return f" because of {', '.join(keys)}" if keys else ""


def _list(parts: list[Queue | Exchange]) -> str:
    """Return some parts with their types: ``stream 's', quorum queue 'q', and 9 more``."""
    kinds = [
        "exchange" if isinstance(part, Exchange) else "stream" if part.type == "stream" else f"{part.type} queue"
        for part in parts
    ]
    return list_some([f"{kind} {part.name!r}" for kind, part in zip(kinds, parts, strict=True)], MAX_NAMED_PARTS)


def drop_empty(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove policies that set nothing; one that keeps another out of force gets a setting that moves no message."""
    for policy in draft.now.all_policies:
        if policy.definition:
            continue
        without = draft.with_changes([TransformedPart(policy, None)]).policies
        others = {
            name for part in _parts_with(policy, draft) for name in without.find_names(part, operator=policy.operator)
        } - {None}
        if not others:
            yield TransformedPart(policy, None)
        elif not policy.operator:
            types = {part.type for part in _parts_with(policy, draft) if isinstance(part, Queue)}
            kept = [replace(policy, definition=each) for each in INERT]
            supported = [
                each for each in kept if not any(find_unsupported_keys(each, kind, draft.now.profile) for kind in types)
            ]
            yield TransformedPart(policy, supported[0]) if supported else Left(policy, f"without it, {_quote(others)}")
        else:
            yield Left(policy, f"without it, {_quote(others)}")


def _quote(others: Names) -> str:
    return f"{list_some(sorted(map(repr, others)), MAX_NAMED_PARTS)} would come into force"


def keep_delivery_limit(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Let messages come back to consumers of quorum queues as often as before.

    By policy: an application that declares the queue without an argument that it has is refused.
    """
    others: list[Queue] = []
    changed: set[str] = set()
    elsewhere = {  # the policies in force in parts that are no quorum queues
        name
        for part in _parts(draft.now)
        if isinstance(part, Exchange) or part.type != "quorum"
        for name in draft.names_now[False][place_of(part)]
    }
    for queue in draft.now.queues.values():
        possible = draft.policies.possible_settings(queue)
        if queue.type != "quorum" or any(settings.integer("delivery-limit") is not None for settings in possible):
            continue
        names = draft.names_now[False][place_of(queue)]
        if names == {None}:
            others.append(queue)
        elif None in names or names & elsewhere:
            yield Left(queue, "its policy is, or may be, one for other queues or exchanges, too: set the limit by hand")
        else:
            changed.update(name for name in names if name is not None)
    for name in sorted(changed):
        policy = draft.now.policies[name]
        yield TransformedPart(policy, _with_definition(policy, NO_LIMIT))
    if others:
        lowest = min((policy.priority for policy in draft.now.policies.values()), default=0)
        yield TransformedPart(None, Policy(_new_name(draft), "", NO_LIMIT, "quorum_queues", min(0, lowest - 1)))


def _new_name(draft: Draft) -> str:
    """Return a name that no policy has."""
    return next(name for n in count() if (name := f"{KEEPING}{n or ''}") not in draft.now.policies)


def drop_all(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove all policies, but for operator policies."""
    yield from (TransformedPart(policy, None) for policy in draft.now.policies.values())


def _parts(topology: Topology) -> Iterator[Queue | Exchange]:
    yield from topology.queues.values()
    yield from topology.exchanges.values()


def _parts_with(policy: Policy, draft: Draft) -> Iterator[Queue | Exchange]:
    """Yield the parts in which a policy may be in force now."""
    names = draft.names_now[policy.operator]
    yield from (part for part in _parts(draft.now) if policy.name in names[place_of(part)])


def _old(part: Queue | Exchange, draft: Draft) -> Queue | Exchange:
    return draft.before.queues[part.name] if isinstance(part, Queue) else part


def _with_definition(policy: Policy, more: Mapping[str, Any], without: str = "") -> Policy:
    rest = {name: value for name, value in policy.definition.items() if name != without}
    return replace(policy, definition={**rest, **more})
