"""Which other policies come into force when what a release refuses is removed from policies, and where.

A broker refuses a policy without settings, so one that sets nothing else has to be removed as a whole: then a policy of
lower priority takes its place. One that sets more stays, and is in force in more queues if it was the removed setting
that a type of queues does not support.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.in_force import possible_policies
from exchange.entities.policy_definitions import wrong_settings
from exchange.entities.profile import Profile
from exchange.text.display import clip_line, count_noun, list_some
from exchange.topology.topology import Topology

__all__ = ["PolicyShifts"]

LISTED: Final = 10
"""Maximum number of queues, exchanges or policies that are listed."""
NAME: Final = 100
"""Maximum number of characters of a name or pattern; it is clipped in the middle."""

Key = tuple[bool, str]
"""Whether it is an operator policy, and the name."""
Parts = dict[str | None, list[Queue | Exchange]]
"""Name of another policy, None for none -> where it takes the place of a policy, or gives way to it."""


class PolicyShifts:
    """What becomes of the policies of a topology when those that only the new release refuses lose what it refuses."""

    def __init__(self, before: Topology, new: Profile) -> None:
        self._new: Final = new
        self._all: Final = {_key(each): each for each in before.all_policies}
        self._mended: Final = {
            key: _without_refused(policy, new)
            for key, policy in self._all.items()
            if _is_refused(policy, new) and (before.profile == new or not _is_refused(policy, before.profile))
        }
        """The refused policies, without the settings that are refused."""
        self._below: Final[dict[Key, Parts]] = {}
        """Refused policy -> the others that come into force where it is in force now."""
        self._gained: Final[dict[Key, Parts]] = {}
        """Refused policy -> the others that are in force now where it comes into force."""
        for policies in (before.policies, before.operator_policies):
            if any(_key(policy) in self._mended for policy in policies.values()):
                self._compare(before, policies)

    def explain(self, policy: Policy) -> str:
        """Return what the removal of the refused settings of a policy means to others: a sentence without its end.

        "" if it is not its settings that are refused.
        """
        key = _key(policy)
        if key not in self._mended:
            return ""
        below, gained = self._below.get(key, {}), self._gained.get(key, {})
        if self._mended[key].definition:
            if not gained:
                return "what else it sets stays in force where it is"
            shifts = [f"{_list(parts)}{self._in_place_of(name, policy)}" for name, parts in _by_name(gained)]
            return (
                f"without the setting it also comes into force in {list_some(shifts, LISTED)}: change its pattern or "
                "apply-to if it should not"
            )
        if not below:
            return "it sets nothing else, and no other policy comes into force when it is removed"
        shifts = [
            f"{self._describe(name, policy)} comes into force in {_list(parts)}" for name, parts in _by_name(below)
        ]
        keep = (
            "change the patterns of those that should not"
            if policy.operator
            else "to prevent that, keep it with queue-leader-locator = client-local alone, which moves no message"
        )
        return f"it sets nothing else: when it is removed, {list_some(shifts, LISTED, 'and')}; {keep}"

    def _compare(self, before: Topology, policies: Mapping[str, Policy]) -> None:
        """Compare the policies in force in each part by the rules of the old release, and by those of the new one."""
        operator = next(iter(policies.values())).operator
        refused = {name for is_operator, name in self._mended if is_operator == operator}
        mended = {name: self._mended.get((operator, name), policy) for name, policy in policies.items()}
        mended = {name: policy for name, policy in mended.items() if policy.definition or name not in refused}
        parts: list[Queue | Exchange] = [*before.queues.values(), *before.exchanges.values()]
        for part in parts:
            was, now = _names(part, policies, before.profile), _names(part, mended, self._new)
            for name in refused & (was - now):
                for other in now - was - {None}:
                    self._below.setdefault((operator, name), {}).setdefault(other, []).append(part)
            for name in refused & (now - was):
                for other in was - now:
                    self._gained.setdefault((operator, name), {}).setdefault(other, []).append(part)

    def _in_place_of(self, name: str | None, policy: Policy) -> str:
        return ", where none was" if name is None else f", in place of {self._describe(name, policy)}"

    def _describe(self, name: str | None, like: Policy) -> str:
        """Return a policy with what decides where it is in force: ``policy 'low' (priority 1, pattern '^jobs')``."""
        assert name is not None  # none never takes the place of another  # noqa: S101
        policy = self._all[like.operator, name]
        kind = "operator policy" if policy.operator else "policy"
        pattern = clip_line(repr(policy.pattern), NAME)
        return f"{kind} {clip_line(repr(name), NAME)} (priority {policy.priority}, pattern {pattern})"


def _key(policy: Policy) -> Key:
    return policy.operator, policy.name


def _names(part: Queue | Exchange, policies: Mapping[str, Policy], profile: Profile) -> set[str | None]:
    """Return the names of the policies that may be in force in a part, None for none."""
    return {None if policy is None else policy.name for policy in possible_policies(part, policies, profile)}


def _is_refused(policy: Policy, profile: Profile) -> bool:
    return bool(wrong_settings(policy.definition, profile, operator=policy.operator))


def _without_refused(policy: Policy, profile: Profile) -> Policy:
    """Return a policy without the settings that a release refuses."""
    definition = {
        name: value
        for name, value in policy.definition.items()
        if not wrong_settings({name: value}, profile, operator=policy.operator)
    }
    return replace(policy, definition=definition)


def _by_name(parts: Parts) -> Iterator[tuple[str | None, list[Queue | Exchange]]]:
    """Yield the policies by name, none first."""
    yield from sorted(parts.items(), key=lambda pair: (pair[0] is not None, pair[0] or ""))


def _list(parts: Sequence[Queue | Exchange]) -> str:
    """Return the names of parts, queues first: ``queue 'jobs'`` or ``2 queues ('jobs', 'tasks') and exchange 'x'``."""
    lists = []
    for noun, kind in (("queue", Queue), ("exchange", Exchange)):
        names = [clip_line(repr(part.name), NAME) for part in parts if isinstance(part, kind)]
        if len(names) == 1:
            lists.append(f"{noun} {names[0]}")
        elif names:
            lists.append(f"{count_noun(len(names), noun)} ({list_some(names, LISTED)})")
    return " and ".join(lists)
