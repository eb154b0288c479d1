"""An upgrade as Markdown, for an issue or a change request: what it does, then the steps as a list to tick off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.upgrading.forms.sections import list_sections
from bindings.upgrading.forms.words import UpgradeRow, clip_lines
from bindings.upgrading.upgrade import Upgrade
from exchange.text.display import count_rest
from exchange.text.markdown import escape_text, quote_block, quote_code

EXPLANATION: Final = 3_000
"""Maximum number of characters of what a fact means because of others, such as policies and their queues."""
LINES: Final = 200
"""Maximum number of lines of a block, and of rows of a section; the JSON has all."""


def to_markdown(upgrade: Upgrade) -> str:
    """Return what an upgrade does, and its steps."""
    return "\n".join(_lines(upgrade)).rstrip("\n") + "\n"


def _lines(upgrade: Upgrade) -> Iterator[str]:
    yield f"### hashstar upgrade: from {upgrade.old} to {upgrade.new}"
    for caveat in upgrade.caveats or ():
        yield from ("", caveat)
    yield ""
    for section in list_sections(upgrade):
        title = f"{section.title[0].upper()}{section.title[1:]}"
        if section.vhost is None:
            yield from (f"**{title}{f': {section.detail}' if section.detail else ''}**", "")
        elif len(upgrade.vhosts) > 1:
            yield from (f"#### {title} {quote_code(section.vhost, in_cell=False)}", "")
        for row in section.rows[:LINES]:
            yield f"- {'[ ] ' if section.is_task else ''}{_format_row(row)}"
        yield from count_rest(len(section.rows), LINES, "; the JSON has all", indent="- ")
        if section.lines:
            yield from quote_block(clip_lines(section.lines, LINES))
        yield from (f"- {escape_text(remark)}" for remark in section.remarks)
        for step in section.steps:
            yield f"- [ ] {step.start} to {step.end}"
            yield from (f"  - [ ] before: {escape_text(first)}" for first in step.first)
        if section.vhost is None:
            yield ""


def _format_row(row: UpgradeRow) -> str:
    known = f"[{row.source}]({row.page})" if row.page else row.source
    what = (
        f"{f'{escape_text(row.where)}: ' if row.where else ''}{escape_text(row.what)}{f' ({known})' if known else ''}"
    )
    answer, note = ("" if each is None else f" {each[0][0].upper()}{each[0][1:]}: " for each in (row.answer, row.note))
    if row.answer is not None:
        answer += f"{quote_code(row.answer[1], in_cell=False)}."
    if row.note is not None:
        note += f"{escape_text(row.note[1], EXPLANATION)}."
    return f"{row.id} {what}.{answer}{note} Way out: {escape_text(row.way_out)}."
