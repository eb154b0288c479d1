"""An upgrade as one page of HTML that needs nothing else: no server, no network, no script.

Names and keys may be hostile: every text is escaped, and the page's content security policy lets no script run and
nothing be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from typing import Final

from bindings.checking.rules.table import Severity
from bindings.upgrading.forms.sections import UpgradeSection, list_sections
from bindings.upgrading.forms.words import TITLES, UpgradeRow, clip_lines
from bindings.upgrading.upgrade import Upgrade, VhostUpgrade
from exchange.text.display import escape_line
from exchange.topology.unread import format_not_proved

COLOURS: Final = ("bindings.report", "forms/page/colours.css")
LINES: Final = 2_000
"""Maximum number of lines of a block, and of rows of a section; the JSON has all."""


def to_html(upgrade: Upgrade, source: str) -> str:
    """Return the page of an upgrade; ``source`` is the name of its topology."""
    title = f"RabbitMQ {upgrade.old} to {upgrade.new}: {source}"
    head = (
        '<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="generator" content="hashstar">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{_style()}</style>",
    )
    page = ("<!doctype html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", "<main>")
    return "\n".join([*page, *_body(upgrade, source), "</main>", "</body>", "</html>", ""])


def _style() -> str:
    package, path = COLOURS
    ours = files("bindings.upgrading").joinpath("forms", "page.css").read_text("utf-8")
    return files(package).joinpath(*path.split("/")).read_text("utf-8") + ours


def _body(upgrade: Upgrade, source: str) -> Iterator[str]:
    yield f"<h1>Upgrade of RabbitMQ from {_text(str(upgrade.old))} to {_text(str(upgrade.new))}</h1>"
    for caveat in upgrade.caveats or ():
        yield f"<p>{_text(caveat)}</p>"
    verdicts = [_verdict(vhost) for vhost in upgrade.vhosts]
    yield "<dl>"
    yield f"<dt>Topology</dt><dd><code>{_text(source)}</code></dd>"
    for vhost, verdict in zip(upgrade.vhosts, verdicts, strict=True):
        yield f"<dt>Virtual host <code>{_text(vhost.vhost)}</code></dt><dd>{_text(verdict)}</dd>"
    yield "</dl>"
    for section in list_sections(upgrade):
        yield from _section(section)


def _verdict(vhost: VhostUpgrade) -> str:
    after = "" if vhost.transformed is None else ", after the transformations"
    if vhost.difference.meaning.unread:
        return format_not_proved(vhost.difference.meaning.unread)
    return f"nothing found{after}" if vhost.severity is None else f"{TITLES[vhost.severity]}{after}"


def _section(section: UpgradeSection) -> Iterator[str]:
    title = f"{section.title[0].upper()}{section.title[1:]}{f': {section.detail}' if section.detail else ''}"
    name = "" if section.vhost is None else f" <code>{_text(section.vhost)}</code>"
    level = "h3" if section.is_inner else "h2"
    yield f"<{level}>{_text(title)}{name}</{level}>"
    for row in section.rows[:LINES]:
        yield from _row(row)
    if len(section.rows) > LINES:
        yield f"<p>and {len(section.rows) - LINES:,} more, which the JSON has</p>"
    if section.lines:
        yield f"<pre>{chr(10).join(map(_text, clip_lines(section.lines, LINES)))}</pre>"
    yield from _list(section.remarks)
    if section.steps:
        yield "<ol>"
        for step in section.steps:
            yield f'<li><label><input type="checkbox"> {_text(step.start)} to {_text(step.end)}</label>'
            yield from _list(f"before: {first}" for first in step.first)
            yield "</li>"
        yield "</ol>"


SIGNS: Final[dict[Severity, str]] = {"error": "!", "warning": "~", "note": "·"}
"""A severity has a sign beside its colour."""


def _row(row: UpgradeRow) -> Iterator[str]:
    source = f'<a href="{_text(row.page)}" rel="noreferrer">{_text(row.source)}</a>' if row.page else _text(row.source)
    where = f"<code>{_text(row.where)}</code>: " if row.where else ""
    what = f"{where}{_text(row.what)}{f' ({source})' if source else ''}"
    yield f'<div class="fact {row.severity}">'
    yield f'<p><span class="sign">{SIGNS[row.severity]} {row.id}</span> {what}</p>'
    yield "<dl>"
    if row.answer is not None:
        yield f"<dt>{row.answer[0].capitalize()}</dt><dd><code>{_text(row.answer[1])}</code></dd>"
    for label, text in filter(None, (row.note, ("way out", row.way_out))):
        yield f"<dt>{label.capitalize()}</dt><dd>{_text(text)}</dd>"
    yield "</dl>"
    yield "</div>"


def _list(texts: Iterable[str]) -> Iterator[str]:
    items = [f"<li>{_text(text)}</li>" for text in texts]
    if items:
        yield from ("<ul>", *items, "</ul>")


def _text(text: str) -> str:
    """Return a text as one line of HTML that UTF-8 can encode."""
    return escape(escape_line(text).encode("utf-8", "backslashreplace").decode())
