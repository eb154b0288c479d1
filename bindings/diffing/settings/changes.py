"""Compare the settings in force of the queues and exchanges that two topologies have in common.

A policy that changes changes them, and so does one that only now comes first; what a policy has that is not in force
changes nothing. Parts with the same changes are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from bindings.diffing.settings.consequences import Consequence, QueueSide, find_consequence
from bindings.diffing.settings.letters import DEAD_LETTERS, Letters
from exchange.entities.effects import POLICIES_OF_EXCHANGES
from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.in_force import Policies, Setting, SettingsInForce
from exchange.entities.precedence import Possible, possible_values
from exchange.topology.topology import Topology
from exchange.values.documents import document

__all__ = ["SettingChange", "SettingsChange", "compare_settings"]

UNKNOWN: Final = Consequence("which policy is in force is not known here", loses=True)

Kind: TypeAlias = Literal["exchange", "queue"]


@document("SettingChangeJson", "name, before, after, means, loses")
class SettingChange(NamedTuple):
    """A setting whose value in force differs."""

    name: str
    """As policies name it, without ``x-``."""
    before: Possible
    """The value before, None for none. More than one where it is not known which of several policies was in force."""
    after: Possible
    consequence: Consequence | None
    """What that means to messages; None where it loses none, or where the comparison of routes has it."""

    @property
    def means(self) -> str | None:
        """What that means to messages; None where it loses none, or where the comparison of routes has it."""
        return None if self.consequence is None else self.consequence.text

    @property
    def loses(self) -> bool:
        """Whether a message may be lost that was not, or leave the queue that kept it."""
        return self.consequence is not None and self.consequence.loses


@document("SettingsChangeJson", "kind, names, changes, example or null")
class SettingsChange(NamedTuple):
    """Queues or exchanges whose settings in force differ in the same way."""

    kind: Kind
    names: tuple[str, ...]
    """Sorted."""
    changes: tuple[SettingChange, ...]
    """Sorted by name."""
    example: str = ""
    """A message of one of the queues, with where it went and goes when it is dead-lettered; "" where there is none."""

    @property
    def loses(self) -> bool:
        """Whether messages may be lost that were not, or leave the queues that kept them."""
        return any(change.loses for change in self.changes)


def compare_settings(before: Topology, after: Topology) -> tuple[SettingsChange, ...]:
    """Return which settings in force differ, of the queues and exchanges that both topologies have; sorted.

    Settings are in force by the rules of each topology's profile. A queue that has to be declared again is the same
    queue.
    """
    policies = before.policies_in_force(), after.policies_in_force()
    letters = Letters(before, after)
    all_may = before.profile.settings != after.profile.settings
    changed = [*_differing(before.policies, after.policies)]
    changed += _differing(before.operator_policies, after.operator_policies)
    groups: dict[tuple[Kind, tuple[SettingChange, ...]], list[str]] = {}
    for kind, name, old, new in _parts_in_both(before, after):
        # What no changed policy is about keeps its settings: a cheap question, where there are many policies.
        touched = all_may or old.arguments != new.arguments
        if touched or any(policy.is_found_in(name) is not False for policy in changed):
            changes = tuple(_changes((old, new), (before, after), policies, letters))
            if changes:
                groups.setdefault((kind, changes), []).append(name)
    found = []
    for (kind, changes), names in groups.items():
        about_letters = kind == "queue" and any(change.name in DEAD_LETTERS for change in changes)
        names.sort()
        found.append(SettingsChange(kind, tuple(names), changes, letters.find_example(names) if about_letters else ""))
    return tuple(sorted(found, key=lambda change: (change.kind, change.names)))


def _differing(before: Mapping[str, Policy], after: Mapping[str, Policy]) -> Iterator[Policy]:
    """Yield the policies that only one side has, both versions of those that differ."""
    for these, others in ((before, after), (after, before)):
        yield from (policy for name, policy in these.items() if others.get(name) != policy)


def _parts_in_both(before: Topology, after: Topology) -> Iterator[tuple[Kind, str, Exchange | Queue, Exchange | Queue]]:
    kinds: tuple[tuple[Kind, Mapping[str, Exchange | Queue], Mapping[str, Exchange | Queue]], ...] = (
        ("exchange", before.exchanges, after.exchanges),
        ("queue", before.queues, after.queues),
    )
    for kind, olds, news in kinds:
        for name, old in olds.items():
            new = news.get(name)
            if new is not None and (name or kind == "queue"):
                yield kind, name, old, new


def _changes(
    parts: tuple[Exchange | Queue, Exchange | Queue],
    topologies: tuple[Topology, Topology],
    policies: tuple[Policies, Policies],
    letters: Letters,
) -> Iterator[SettingChange]:
    old, new = (each.possible_settings(part) for part, each in zip(parts, policies, strict=True))
    defaults = _differing_defaults(parts, topologies)
    for name in sorted({*defaults, *(name for settings in (*old, *new) for name in settings.values)}):
        before, after = (
            tuple(default if value is None else value for value in possible_values(settings, name))
            for settings, default in zip((old, new), defaults.get(name, (None, None)), strict=True)
        )
        if _comparable(before) != _comparable(after) and _concerns(parts[0], name, (*before, *after)):
            yield SettingChange(name, before, after, _consequence(name, parts, old, new, topologies, letters))


def _differing_defaults(
    parts: tuple[Exchange | Queue, Exchange | Queue], topologies: tuple[Topology, Topology]
) -> dict[str, tuple[Setting | None, Setting | None]]:
    """Return setting -> its default before and after, of those that two releases have by different defaults."""
    if any(part.type != "quorum" for part in parts if isinstance(part, Queue)) or isinstance(parts[0], Exchange):
        return {}
    limits = [topology.profile.lives.delivery_limit for topology in topologies]
    before, after = (None if limit is None else Setting(limit, "default") for limit in limits)
    return {} if before == after else {"delivery-limit": (before, after)}


def _consequence(
    name: str,
    parts: tuple[Exchange | Queue, Exchange | Queue],
    old: tuple[SettingsInForce, ...],
    new: tuple[SettingsInForce, ...],
    topologies: tuple[Topology, Topology],
    letters: Letters,
) -> Consequence | None:
    if len(old) > 1 or len(new) > 1:
        return UNKNOWN
    if isinstance(parts[0], Exchange):
        return None
    before, after = (
        QueueSide(settings[0], part.type, topology.exchanges, topology.profile, partial(letters.may_arrive, side))
        for side, (settings, part, topology) in enumerate(zip((old, new), parts, topologies, strict=True))
    )
    return find_consequence(name, before, after)


def _comparable(values: Iterable[Setting | None]) -> frozenset[object]:
    """Return the values without their sources, so that 1, 1.0 and true differ."""
    return frozenset(None if value is None else (type(value.value), value.value) for value in values)


def _concerns(part: Exchange | Queue, name: str, values: Iterable[Setting | None]) -> bool:
    """Return whether a setting means something to a part, and is not written in two ways."""
    if isinstance(part, Exchange):
        return name in POLICIES_OF_EXCHANGES  # other arguments decide about routes, which are compared by themselves
    if name == "queue-type":
        return {"classic" if value is None else value.value for value in values} != {"classic"}
    return True
