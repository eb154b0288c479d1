"""A comparison as a comment on a pull request: what it means first, then the plan, folded.

Invariant: the text has at most `LONGEST` bytes, which code hosts accept, and what is left out is counted. So every list
is written against the room that is left, and the files that lose messages come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bindings.diffing.against import Comparison, FileDiff, VhostDiff
from bindings.diffing.comparison.meaning import Effect, Meaning
from bindings.diffing.diff import Diff
from bindings.diffing.forms.text import TERMS
from bindings.diffing.planning.plan import Plan
from bindings.diffing.settings.changes import SettingsChange
from bindings.diffing.words import (
    describe_access,
    describe_changes,
    describe_choice,
    describe_default,
    describe_left,
    describe_partitions,
    describe_settings,
    describe_term,
    describe_timing,
    describe_undecided,
    describe_unroutable,
    happens_at_times,
    name_parts,
    quote_message,
)
from exchange.entities.entities import Queue
from exchange.text.display import clip_line, count_noun
from exchange.text.markdown import escape_text, fold, quote_block, quote_code, write_rows
from exchange.topology.unread import format_not_proved

LONGEST: Final = 60_000
"""Maximum size of a text in bytes: a comment on GitHub has 65,536 characters at most, and who posts it adds to it."""
MORE: Final = 40
"""Room in bytes for the number of rows that are left out."""
FRAME: Final = 500
"""Room in bytes for what stands around the lists: the proof, the title of the plan, fences."""
SHARES: Final = (4, 1, 1, 2)
"""Eighths of the room for effects, other changes, undecided questions and the plan, if not all fits."""
SMALLEST: Final = 3_000
"""Minimum room in bytes for a virtual host to be written about; those that have less are counted."""
MAX_LISTED_EFFECTS: Final = 50
"""Maximum number of effects, of other changes, and of undecided questions that are listed of one virtual host."""
QUEUES: Final = 10
"""Maximum number of queues that a sentence lists."""
MAX_PLAN_LINES: Final = 300
"""Maximum number of lines of one plan."""
NAME: Final = 120
"""Maximum number of characters of a name or a key."""
STEP: Final = 600
"""Maximum number of characters of a line of a plan."""


def comparison_to_markdown(comparison: Comparison) -> str:
    """Return the comparison of two topologies, or of files, as `to_markdown` writes it."""
    return to_markdown(comparison.files)


def to_markdown(files: Sequence[FileDiff], *, most: int = LONGEST) -> str:
    """Return the comparison of files, in at most ``most`` bytes if that is 4,000 or more."""
    parts = sorted(
        ((file, each) for file in files for each in file.vhosts if _has_news(each)),
        key=lambda part: _severity(part[1].diff),
    )
    page = _MarkdownPage(most)
    page.add(f"### hashstar diff: {_title(files, [each.diff for _, each in parts])}", "")
    for caveat in dict.fromkeys(text for file in files for each in file.vhosts for text in each.caveats or ()):
        page.add(escape_text(caveat), "")
    failed = [file for file in files if file.error is not None]
    unread = [f"- {_code(file.name)} was not compared: {escape_text(_reason(file))}" for file in failed]
    page.add_list(unread, most // 4)
    for at, (file, each) in enumerate(parts):
        if page.left < SMALLEST:
            page.add(f"And {count_noun(len(parts) - at, 'more topology', 'more topologies')} with differences.")
            break
        _write_part(page, file, each, max(SMALLEST, page.left // (len(parts) - at)), alone=len(parts) == 1)
    quiet = sum(file.error is None and not any(_has_news(each) for each in file.vhosts) for file in files)
    if quiet and len(files) > 1:
        page.add(f"{count_noun(quiet, 'file')} without a difference.")
    return page.text


def _has_news(each: VhostDiff) -> bool:
    """Return whether there is something to write: a difference, a step that a broker would refuse, two releases."""
    return each.diff.differs or bool(each.diff.plan.refused) or each.releases is not None


class _MarkdownPage:
    """Lines of a text that does not get longer than a number of bytes."""

    def __init__(self, most: int) -> None:
        # Two sentences about what is left out are added without asking.
        self.left = most - 500
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines).rstrip("\n") + "\n"

    def add(self, *lines: str) -> None:
        """Add lines."""
        self._lines += lines
        self.left -= _size(lines)

    def add_list(self, rows: Sequence[str], most: int, head: Sequence[str] = ()) -> None:
        """Add rows below a head, and a blank line; as many as fit into ``most`` bytes, and the number of the others."""
        if rows:
            self.add(*head, *_fit(rows, MAX_LISTED_EFFECTS, most), "")


def _fit(rows: Sequence[str], count: int, most: int) -> list[str]:
    """Return the first rows that fit, and if not all do, a last one with the number of the others."""
    kept = list(rows[:count])
    room = most - _size(kept) - MORE
    while kept and (room < 0 or len(kept) > count):
        room += _size([kept.pop()])
    if len(kept) == len(rows):
        return kept
    return [*kept, "", f"and {len(rows) - len(kept):,} more"]


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines)


def _title(files: Sequence[FileDiff], diffs: Sequence[Diff]) -> str:
    failed = sum(file.error is not None for file in files)
    if failed:
        return f"**{count_noun(failed, 'file')} not compared**" + (f", {_verdict(diffs)}" if diffs else "")
    return _verdict(diffs)


def _reason(file: FileDiff) -> str:
    return str(file.error).removeprefix(f"{file.name}: ")


def _verdict(diffs: Sequence[Diff]) -> str:
    """Return the worst that the differences mean; nothing is claimed of topologies of which parts were not read."""
    unread = tuple(dict.fromkeys(each for result in diffs for each in result.meaning.unread))
    if unread:
        return f"**{format_not_proved(unread)}**"
    if any(_loses_for_sure(result) for result in diffs):
        return "**messages are lost**"
    if any(result.loses for result in diffs):
        return "**messages may be lost**"
    if any(result.gains for result in diffs):
        return "queues get more messages"
    if any(result.meaning.verdict != "same" or result.settings for result in diffs):
        return "no message is lost"
    return "no message goes elsewhere" if diffs else "no difference"


def _loses_for_sure(result: Diff) -> bool:
    meaning = result.meaning
    return not meaning.unread and (
        any(effect.certain and not effect.gained for effect in meaning.effects)
        or any(lost.now for lost in meaning.unroutable)
        or any(not access.opened for access in meaning.access)
        or any(isinstance(part, Queue) for part in result.plan.replaced)
    )


def _severity(result: Diff) -> tuple[bool, bool, bool]:
    return not _loses_for_sure(result), not result.loses, not result.gains


def _write_part(page: _MarkdownPage, file: FileDiff, each: VhostDiff, room: int, *, alone: bool) -> None:
    """Write about one virtual host."""
    result = each.diff
    where = f"{_code(file.name)}{f', virtual host {_code(each.vhost)}' if file.several else ''}"
    notes = {
        "new": f", a new file since {_code(file.before)}",
        "gone": f", which is gone since {_code(file.before)}",
        "renamed": f" against {_code(file.old_name or '')} at {_code(file.before)}",
    }
    where += notes.get(file.state, f" against {_code(file.before)}")
    if each.releases is not None:
        where += f", from {escape_text(each.releases[0])} to {escape_text(each.releases[1])}"
    page.add(f"{where}: {_verdict([result])}." if alone else f"#### {where}: {_verdict([result])}", "")
    meaning = result.meaning
    # A sentence lists the queues of the default exchange.
    effects = [effect for effect in meaning.effects if effect.exchange]
    effects.sort(key=lambda effect: (effect.gained, not effect.certain))
    table = list(write_rows(("queue", "", "published to", "messages", "such as"), map(_effect_cells, effects)))
    changes = [f"- {escape_text(text)}" for text in (*_settings(result.settings), *_other_changes(meaning))]
    questions = [f"- not read: {escape_text(f'{each.where}: {each.text}')}" for each in meaning.unread]
    questions += [f"- {escape_text(describe_undecided(question))}" for question in meaning.undecided]
    steps = [clip_line(line, STEP) for line in _plan_lines(result.plan)]
    rooms = _divide(
        room - FRAME,
        [
            table[: MAX_LISTED_EFFECTS + 2],
            changes[:MAX_LISTED_EFFECTS],
            questions[:MAX_LISTED_EFFECTS],
            steps[:MAX_PLAN_LINES],
        ],
    )
    page.add_list(table[2:], rooms[0] - _size(table[:2]), table[:2])
    page.add_list(changes, rooms[1])
    page.add_list(questions, rooms[2])
    page.add(_proof(meaning), "")
    if each.releases is not None:
        page.add("What the new release refuses or ignores: `hashstar upgrade`.", "")
    if steps:
        lines = _fit(steps, MAX_PLAN_LINES, rooms[3])
        page.add(*fold(_plan_title(result.plan), quote_block([line for line in lines if line], "diff")))


def _divide(room: int, lists: Sequence[Sequence[str]]) -> list[int]:
    """Return the room of each list: what it needs if all fit; else at most its share, and what the others leave."""
    needs = [_size(rows) + MORE for rows in lists]
    given = [min(need, room * share // 8) for need, share in zip(needs, SHARES, strict=True)]
    left = room - sum(given)
    for at, need in enumerate(needs):
        more = min(left, need - given[at])
        given[at] += more
        left -= more
    return given


def _proof(meaning: Meaning) -> str:
    """Return whether what is listed is all that changes."""
    if meaning.unread:
        return f"**{format_not_proved(meaning.unread).capitalize()}**: messages may be lost or gained."
    if meaning.verdict == "same":
        return "No message is routed differently: proved for all keys and headers."
    if meaning.undecided:
        return f"{count_noun(len(meaning.undecided), 'question')} could not be decided: messages may be lost or gained."
    return "All other messages go where they went: proved for all keys and headers."


def _effect_cells(effect: Effect) -> tuple[str, ...]:
    verb = "gains" if effect.gained else "loses"
    if not effect.certain:
        verb = "may gain" if effect.gained else "may lose"
    verb = f"{verb}{' at times' if happens_at_times(effect) else ''}{describe_timing(effect)}"
    terms = [_cell(describe_term(term, gained=effect.gained)) for term in effect.terms[:TERMS]]
    if len(effect.terms) > TERMS:
        terms.append(f"and {len(effect.terms) - TERMS:,} more")
    return (
        _cell(effect.queue),
        verb if effect.gained else f"**{verb}**",
        _cell(effect.exchange),
        ("" if effect.exact or not terms else "among ") + "<br>".join(terms),
        _cell(quote_message(effect.witness)),
    )


def _other_changes(meaning: Meaning) -> Iterator[str]:
    """Yield what changes beside the messages that queues gain and lose."""
    yield from map(describe_access, meaning.access)
    yield from (sentence for sentence, _ in describe_default(meaning, QUEUES))
    yield from (describe_unroutable(lost) for lost in meaning.unroutable if lost.exchange)
    for sentence, example in [*map(describe_choice, meaning.choices), *map(describe_partitions, meaning.partitions)]:
        yield f"{sentence}; {example}" if example else sentence


def _settings(changes: Sequence[SettingsChange]) -> Iterator[str]:
    """Yield which settings in force differ, and what that means, those first that lose messages."""
    for change in sorted(changes, key=lambda change: not change.loses):
        parts = name_parts(change)
        yield from (f"{parts}: {line}" for line in describe_settings(change))


def _plan_title(plan: Plan) -> str:
    dangerous = sum(step.danger is not None for step in plan.steps)
    text = f"Plan: {count_noun(len(plan.steps), 'step')}"
    if dangerous:
        text += f", <strong>{dangerous:,} dangerous</strong>"
    if plan.refused:
        text += f", <strong>{len(plan.refused):,} that a broker would refuse</strong>"
    return text


def _plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps as lines that code hosts colour: + and - at the beginning, ! before what is dangerous."""
    for step in plan.steps:
        changes = "; ".join(describe_changes(step))
        yield f"{'-+'[step.added]} {step}{f': {changes}' if changes else ''}"
        if step.danger:
            yield f"!   {step.danger}"
    for step, error in plan.refused:
        yield f"! refused: {step}"
        yield f"!   {error}"
    for part in plan.left_alone:
        yield f"  {describe_left(part)}"


def _code(text: str) -> str:
    return quote_code(text, NAME, in_cell=False)


def _cell(text: str) -> str:
    return quote_code(text, NAME)
