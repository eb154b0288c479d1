"""An upgrade as one page of HTML that needs nothing else: no server, no network, no script.

Names and keys may be hostile: every text is escaped, and the page's content security policy lets no script run and
nothing be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.upgrading.facts.fact import Severity
from bindings.upgrading.forms.applications import format_applications
from bindings.upgrading.forms.live import format_live
from bindings.upgrading.forms.words import (
    MAX_LISTED_CHANGES,
    TITLES,
    clip_lines,
    describe_parts,
    describe_source,
    format_traffic,
    format_transformed,
    group_by_severity,
    introduce_answer,
    list_unseen,
)
from bindings.upgrading.releases import FLAGS, SeriesUpgrade
from bindings.upgrading.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.text.display import count_noun, escape_line
from exchange.topology.unread import format_not_proved

__all__ = ["to_html"]

COLOURS: Final = ("bindings.report", "forms/page/colours.css")
LINES: Final = 2_000
"""Maximum number of lines of a block, and of facts of one severity; the JSON has all."""


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
    for vhost in upgrade.vhosts:
        yield from _vhost(vhost, upgrade)
    if upgrade.definitions is not None and upgrade.definitions[1]:
        yield "<h2>The rest of the definitions</h2>"
        counts = [(each, count_noun(each.entries, "entry", "entries")) for each in upgrade.definitions[1]]
        yield from _list(f"{each.name}: {each.what} ({count})" for each, count in counts)
    if upgrade.applications is not None:
        title, *lines = format_applications(upgrade.applications)
        yield f"<h2>{_text(title.capitalize())}</h2>"
        yield from _block(lines)
    if upgrade.live is not None:
        title, *lines = format_live(upgrade.live)
        yield f"<h2>{_text(title.capitalize())}</h2>"
        yield from _block(lines)
    if upgrade.steps:
        yield from _steps(upgrade.steps)
    for audience, unseen in list_unseen(upgrade):
        yield f"<h2>For {audience}</h2>"
        yield from (line for sighting in unseen for line in _fact(sighting))


def _verdict(vhost: VhostUpgrade) -> str:
    after = "" if vhost.transformed is None else ", after the transformations"
    if vhost.difference.meaning.unread:
        return format_not_proved(vhost.difference.meaning.unread)
    return f"nothing found{after}" if vhost.severity is None else f"{TITLES[vhost.severity]}{after}"


def _vhost(vhost: VhostUpgrade, upgrade: Upgrade) -> Iterator[str]:
    yield f"<h2>Virtual host <code>{_text(vhost.vhost)}</code></h2>"
    yield from _severities(vhost.sightings)
    yield "<h3>Routes</h3>"
    yield from _block(
        [*format_meaning(vhost.difference.meaning, MAX_LISTED_CHANGES), *format_settings(vhost.difference.settings)]
    )
    if vhost.transformed is not None:
        yield f"<h3>Transformed for {_text(str(upgrade.new))}</h3>"
        yield from _block([*format_transformed(vhost.transformed, upgrade.new)])
        if vhost.transformed.meaning.verdict == "same":
            yield '<p class="proved">✓ The transformations move no message: proved.</p>'
        yield from _severities(vhost.transformed.left, "What is left: ")
    if vhost.traffic is not None:
        yield "<h3>Traffic</h3>"
        yield from _block([*format_traffic(vhost.traffic)])


def _severities(sightings: Sequence[Sighting], begin: str = "") -> Iterator[str]:
    for title, seen in group_by_severity(sightings):
        yield f"<h3>{begin}{title if begin else title.capitalize()}</h3>"
        yield from (line for sighting in seen[:LINES] for line in _fact(sighting))
        if len(seen) > LINES:
            yield f"<p>and {len(seen) - LINES:,} more, which the JSON has</p>"


SIGNS: Final[dict[Severity, str]] = {"error": "!", "warning": "~", "note": "·"}
"""A severity has a sign beside its colour."""


def _fact(sighting: Sighting) -> Iterator[str]:
    fact = sighting.fact
    source = _text(describe_source(fact, sighting.brokers))
    if fact.page:
        source = f'<a href="{_text(fact.page)}" rel="noreferrer">{source}</a>'
    where = f"<code>{_text(describe_parts(sighting.parts))}</code>: " if sighting.parts else ""
    yield f'<div class="fact {fact.severity}">'
    yield f'<p><span class="sign">{SIGNS[fact.severity]} {fact.id}</span> {where}{_text(fact.what)} ({source})</p>'
    yield "<dl>"
    if sighting.detail:
        yield f"<dt>{introduce_answer(sighting).capitalize()}</dt><dd><code>{_text(sighting.detail)}</code></dd>"
    if sighting.explanation:
        yield f"<dt>Here</dt><dd>{_text(sighting.explanation)}</dd>"
    yield f"<dt>Way out</dt><dd>{_text(fact.way_out)}</dd>"
    yield "</dl>"
    yield "</div>"


def _steps(steps: Iterable[SeriesUpgrade]) -> Iterator[str]:
    yield "<h2>Steps of a running cluster, node by node</h2>"
    yield f"<p>Before each, {_text(FLAGS)}</p>"
    yield "<ol>"
    for step in steps:
        yield f'<li><label><input type="checkbox"> {_text(step.start)} to {_text(step.end)}</label>'
        yield from _list(f"before: {first}" for first in step.first)
        yield "</li>"
    yield "</ol>"


def _list(texts: Iterable[str]) -> Iterator[str]:
    items = [f"<li>{_text(text)}</li>" for text in texts]
    if items:
        yield from ("<ul>", *items, "</ul>")


def _block(lines: Sequence[str]) -> Iterator[str]:
    yield f"<pre>{chr(10).join(map(_text, clip_lines(lines, LINES)))}</pre>"


def _text(text: str) -> str:
    """Return a text as one line of HTML that UTF-8 can encode."""
    return escape(escape_line(text).encode("utf-8", "backslashreplace").decode())
