"""The forms of a report on dead letters: text, JSON, and a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from bindings.archive.figures import format_minute, format_position
from exchange.text.display import count_noun, count_rest, describe_exchange, escape_line
from exchange.topology.unread import format_unread
from exchange.values.forms import Form, Forms, Screen

if TYPE_CHECKING:
    from bridge.dead.report import DeadGroup, DeadReport, Replay

FORMS: Final[Forms] = {
    "text": Form("bridge.dead.forms:to_text", (".txt",), has_screen=True),
    "json": Form("bridge.dead.report:DeadReport", (".json",), indent=2),
    "html": Form("bridge.dead.forms:to_html", (".html",)),
}
LISTED: Final = 20
"""Maximum number of groups in the text; the other forms have all."""
MOVED: Final = {"replay": "published again", "undo": "dead letters again"}
CLIPPED: Final = 120
"""Maximum number of characters of an error in the text."""
COLOURS: Final = "forms/page/colours.css"
STYLE: Final = """
body { margin: 0 auto; max-width: 1200px; padding: 28px; background: var(--paper); color: var(--ink);
  font: 14px/1.45 var(--sans); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 6px 10px; border-bottom: 1px solid var(--strong);
  overflow-wrap: anywhere; }
td:first-child { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


def to_text(report: DeadReport, screen: Screen) -> str:
    """Return a report for people, with the largest groups."""
    lines = [*describe(report)]
    for group in report.groups[: None if screen.whole else LISTED]:
        first, *others = describe_group(group)
        lines += [f"{group.count:>9,}  {first}", *(f"{'':11}{line}" for line in others)]
    if not screen.whole:
        lines += count_rest(len(report.groups), LISTED)
    return "".join([f"{escape_line(line)}\n" for line in lines])


def describe(report: DeadReport) -> Iterator[str]:
    """Yield what was read, in lines."""
    yield f"{report.source}: {count_noun(report.selected, 'dead letter')} in {count_noun(len(report.groups), 'group')}"
    if report.selected != report.looked_at:
        yield f"selected of {report.looked_at:,} that were looked at"
    if report.not_looked_at is None:
        yield "what is behind --limit was not looked at"
    elif report.not_looked_at:
        yield f"{report.not_looked_at:,} more were not looked at"
    if report.bad or report.skipped:
        yield f"not read: {count_noun(report.bad, 'bad record')}; skipped as no messages: {report.skipped:,}"
    if report.ungrouped:
        yield f"{report.ungrouped:,} are in no group, as there are too many groups"
    for note in report.notes:
        yield f"note: {note}"
    yield from format_unread(report.unread)
    if report.replay is not None:
        yield from describe_replay(report.replay)


def describe_replay(replay: Replay) -> Iterator[str]:
    """Yield what was done with dead letters, in lines."""
    if replay.action == "dry-run":
        count = sum([each.messages for each in replay.goes])
        yield f"would be published again: {count_noun(count, 'message')}; nothing was"
        for each in replay.goes:
            yield f"would go to {each.kind} '{each.name}': {each.messages:,}"
    else:
        yield f"{MOVED[replay.action]}: {count_noun(replay.moved, 'message')}"
    if replay.again:
        yield f"{replay.again:,} of them may have been published before, by a run that was killed"
    if replay.done_before:
        yield f"{replay.done_before:,} more had been published by an earlier run, and were not once more"
    verb = "would stay" if replay.action == "dry-run" else "left"
    for reason, count in replay.left:
        yield f"{verb} where they are: {count:,}: {reason}"
    if replay.not_looked_at:
        yield f"{count_noun(replay.not_looked_at, 'offset')} of the topic were not read; --limit N reads more"
    if replay.missing:
        yield f"{replay.missing:,} were not found: they were consumed, went with their queue, or stand behind --limit"
    if replay.is_stopped:
        yield "stopped by a signal: what is left was not looked at"


def describe_group(group: DeadGroup) -> Iterator[str]:
    """Yield what a group is, in lines."""
    death = group.death
    where = f" in '{death.queue}'" if death.queue else ""
    reason = death.reason or ("no reason" if death.by else "no header says why it died")
    yield f"{reason}{where}" + (f"  ({death.by})" if death.by else "")
    if death.first:
        yield f"first death: {death.first}"
    key = f", for example '{group.example_key}'" if group.example_key != death.key else ""
    if death.exchange is None:
        yield f"its headers do not say how it was published; the dead letter has the key '{death.key}'{key}"
    else:
        yield f"published to {describe_exchange(death.exchange)} with the key '{death.key}'{key}"
    if death.exception or death.error:
        yield ": ".join(filter(None, (death.exception, death.error)))[:CLIPPED]
    first, last = group.times
    if first is not None and last is not None:
        times = "" if group.tries < 2 else f"; up to {group.tries:,} times"
        yield f"{format_minute(first)} to {format_minute(last)}{times}"
    yield f"an example: {format_position(group.source, group.offset)}"
    if group.why:
        yield f"why: {group.why}"
    for ending in group.endings:
        yield f"now: {ending.messages:,}: {ending.verdict.then}"


def to_html(report: DeadReport) -> str:
    """Return a report as a page; names may be hostile, so each is escaped, and no script runs."""
    style = files("bindings.report").joinpath(*COLOURS.split("/")).read_text("utf-8") + STYLE
    title, *others = describe(report)
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="hashstar">',
        f"<title>{_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{_text(title)}</h1>",
    )
    rows = []
    for group in report.groups:
        first, *more = map(_text, describe_group(group))
        rows.append(f"<tr><td>{group.count:,}</td><td><b>{first}</b><br>{'<br>'.join(more)}</td></tr>")
    table = ("<table>\n<thead><tr><th>number</th><th>died</th></tr></thead>\n<tbody>", *rows, "</tbody>\n</table>")
    return "\n".join([*head, *(f"<p>{_text(line)}</p>" for line in others), *table, "</body>\n</html>\n"])


def _text(text: str) -> str:
    return escape(escape_line(text))
