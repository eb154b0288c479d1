"""A plan and its meaning as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bindings.diffing.against import Comparison, FileDiff
from bindings.diffing.comparison.meaning import Effect, Meaning, UndecidedQuestion
from bindings.diffing.diff import Diff
from bindings.diffing.planning.plan import Plan
from bindings.diffing.settings.changes import SettingsChange
from bindings.diffing.words import (
    CHANGED,
    describe_access,
    describe_changes,
    describe_choice,
    describe_default,
    describe_effect,
    describe_left,
    describe_partitions,
    describe_settings,
    describe_undecided,
    describe_unroutable,
    name_parts,
    quote_message,
    sign_of,
    split_term,
)
from exchange.text.display import count_noun, count_rest
from exchange.topology.unread import format_unread

UNDECIDED: Final = 20
"""Number of undecided questions that the text lists; the others are in the JSON."""
TERMS: Final = 4
"""Number of terms of one effect that the text lists; the others are in the JSON."""


def to_text(result: Diff, releases: tuple[str, str] | None = None) -> Iterator[str]:
    """Yield the plan and its meaning, each below its title, and before them the two releases if there are two."""
    if releases is not None:
        yield f"releases: {releases[0]}, then {releases[1]}"
    plan = result.plan
    yield "plan:" if plan.steps or plan.refused or plan.left_alone else "plan: nothing to do"
    yield from plan_lines(plan)
    yield "meaning:"
    yield from format_meaning(result.meaning)
    yield from format_settings(result.settings)
    if releases is not None:
        yield "what the new release refuses or ignores: hashstar upgrade"


def comparison_to_text(comparison: Comparison) -> Iterator[str]:
    """Yield the differences of two topologies, or those of files, each below a title, and their numbers."""
    if comparison.against is not None:
        yield from _files_to_text(comparison.files)
        return
    yield from comparison.files[0].vhosts[0].caveats or ()
    [each] = comparison.files[0].vhosts
    yield from to_text(each.diff, each.releases)
    if comparison.messages is not None:
        yield from comparison.messages.lines()


def _files_to_text(files: Sequence[FileDiff]) -> Iterator[str]:
    notes = {"new": "is new since", "gone": "is gone since"}
    for file in files:
        for each in file.vhosts:
            where = f"{file.name}, virtual host {each.vhost!r}," if file.several else file.name
            if file.state == "renamed":
                yield f"{where} against {file.old_name!r} at {file.before}"
            else:
                yield f"{where} {notes.get(file.state, 'against')} {file.before}"
            yield from (f"  {line}" for line in [*(each.caveats or ()), *to_text(each.diff)])
            yield ""
    differing = sum(file.differs for file in files)
    failed = sum(file.error is not None for file in files)
    counts = f"{differing:,} with a difference" if differing else "no difference"
    unread = sum(bool(each.diff.meaning.unread) for file in files for each in file.vhosts)
    if unread:
        counts += f", {unread:,} not proved"
    yield f"{count_noun(len(files), 'file')}: {counts}{f', {failed:,} not compared' if failed else ''}"


def plan_lines(todo: Plan) -> Iterator[str]:
    """Yield the steps in their order, each with what it changes and its danger."""
    for step in todo.steps:
        yield f"  {sign_of(step)} {step}"
        yield from (f"      {line}" for line in describe_changes(step))
        if step.danger:
            yield f"      ! {step.danger}"
    for step, error in todo.refused:
        yield f"  ? {step}"
        yield f"      ! the broker would refuse: {error}"
    for part in todo.left_alone:
        yield f"  {describe_left(part)}"


def format_meaning(difference: Meaning, most: int | None = None, reasons: Mapping[str, str] = CHANGED) -> Iterator[str]:
    """Yield which messages go elsewhere, queue by queue; or that none does, where that is proved.

    ``most`` is the maximum number of differences of each kind that are listed; the others are counted. ``reasons`` has
    the words for why an exchange is on one side only.
    """
    for access in difference.access[:most]:
        yield f"  {describe_access(access, reasons)}"
    yield from _more(difference.access, most)
    for sentence, gained in describe_default(difference, most):
        yield f"  {'+' if gained else '-'} {sentence}"
    effects = sorted(
        (effect for effect in difference.effects if effect.exchange),
        key=lambda effect: (effect.queue, effect.exchange, effect.gained),
    )
    for effect in effects[:most]:
        yield from _effect_lines(effect)
    yield from _more(effects, most)
    lost = [each for each in difference.unroutable if each.exchange]  # the lines about queues have the default exchange
    yield from (f"  {'!' if each.now else ' '} {describe_unroutable(each)}" for each in lost[:most])
    yield from _more(lost, most)
    changes = [*map(describe_choice, difference.choices), *map(describe_partitions, difference.partitions)]
    for sentence, example in changes[:most]:
        yield f"  ~ {sentence}"
        if example:
            yield f"      {example}"
    yield from _more(changes, most)
    yield from _undecided_lines(difference.undecided)
    if difference.unread:
        yield from (f"  {line}" for line in format_unread(difference.unread))
    elif difference.verdict == "same":
        yield "  no message is routed differently: proved for all keys and headers"
    elif difference.verdict == "undecided":
        yield "  no message was found that is routed differently, and that there is none could not be proved"


def format_settings(changes: Sequence[SettingsChange]) -> Iterator[str]:
    """Yield which settings in force differ, below a title, part by part, and what that means; nothing if none does."""
    if changes:
        yield "settings in force:"
    for change in changes:
        yield f"  {'!' if change.loses else '~'} {name_parts(change)}:"
        yield from (f"      {line}" for line in describe_settings(change))


def _effect_lines(effect: Effect) -> Iterator[str]:
    yield f"  {'+' if effect.gained else '-'} {describe_effect(effect)}:"
    if effect.terms and not effect.exact:
        yield "      messages among those that match"
    for term in effect.terms[:TERMS]:
        text, unless = split_term(term, gained=effect.gained)
        yield f"      {text}{',' if unless else ''}"
        if unless:
            yield f"        {unless}"
    yield from count_rest(len(effect.terms), TERMS, indent="      ")
    yield f"      such as {quote_message(effect.witness)}"


def _more(differences: Sequence[object], most: int | None) -> Iterator[str]:
    if most is not None and len(differences) > most:
        yield f"    and {len(differences) - most:,} more; the JSON has all"


def _undecided_lines(undecided: Sequence[UndecidedQuestion]) -> Iterator[str]:
    for question in undecided[:UNDECIDED]:
        yield f"  ? {describe_undecided(question)}"
    rest = " undecided; --json lists all, --wait allows more time"
    yield from count_rest(len(undecided), UNDECIDED, rest, indent="  ? ")
