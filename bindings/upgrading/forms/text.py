"""An upgrade as lines of text: for each virtual host what it does, then the steps of the way there."""

from __future__ import annotations

from collections.abc import Iterator

from bindings.upgrading.forms.sections import list_sections
from bindings.upgrading.forms.words import UpgradeRow
from bindings.upgrading.upgrade import Upgrade


def to_text(upgrade: Upgrade) -> Iterator[str]:
    """Yield what an upgrade does, and its steps."""
    yield f"upgrade from {upgrade.old} to {upgrade.new}"
    yield from upgrade.caveats or ()
    for section in list_sections(upgrade):
        if section.vhost is None:
            yield f"{section.title}: {section.detail}".rstrip()
        elif len(upgrade.vhosts) > 1:
            yield f"{section.title} {section.vhost!r}:"
        for row in section.rows:
            first, *rest = _describe(row)
            yield from ["; ".join([first, *rest])] if section.is_brief else [first, *map("      {}".format, rest)]
        yield from section.lines
        yield from map("  {}".format, section.remarks)
        for number, step in enumerate(section.steps, 1):
            yield f"  {number}. {step.start} to {step.end}"
            yield from (f"      before: {first}" for first in step.first)


def _describe(row: UpgradeRow) -> Iterator[str]:
    source = f" ({row.source})" if row.source else ""
    yield f"  {row.id} {f'{row.where}: ' if row.where else ''}{row.what}{source}"
    for label, text in filter(None, (row.answer, row.note, ("way out", row.way_out))):
        yield f"{label}: {text}"
