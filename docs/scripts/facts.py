"""Write the tables of ``docs/upgrade.md``: facts about releases, as the code has them, and how each is known.

::

    $ python -m docs.scripts.facts
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bindings.upgrading.facts import applications, dead_letters, exchanges, nodes, queues, quorum, refused
from bindings.upgrading.facts.fact import ALWAYS, Fact, Numbers
from bindings.upgrading.forms.words import describe_source
from bindings.upgrading.releases import release_of
from exchange.entities.releases import LIVE, SERIES

PAGE: Final = Path(__file__).parents[1] / "upgrade.md"

TABLES: Final[Mapping[str, tuple[Fact, ...]]] = {
    "What releases refuse": refused.FACTS,
    "Queues": queues.FACTS,
    "Quorum queues": quorum.FACTS,
    "Dead letters": dead_letters.FACTS,
    "Exchanges and bindings": exchanges.FACTS,
    "Applications": applications.FACTS,
    "Nodes, tools and monitoring": nodes.FACTS,
}
"""Heading of the page -> the facts in the table below it."""

HEAD: Final = "| fact | severity | what | source |\n|---|---|---|---|\n"


GOLDEN: Final = Path(__file__).parents[2] / "tests" / "golden"
KNOWN: Final = "How each release is known"
KNOWN_HEAD: Final = (
    "| release | routes, and what becomes of messages | arguments and policies | facts that begin there |\n"
    "|---|---|---|---|\n"
)


def _describe_releases() -> Iterator[str]:
    """Yield a row for each series: what of it was seen on a live broker, in the source, or is a neighbour's."""
    live = [json.loads(path.read_text("utf-8"))["version"] for path in GOLDEN.glob("rabbitmq-lives-*.json")]
    tables = json.loads((GOLDEN / "rabbitmq-tables.json").read_text("utf-8"))
    facts = [fact for each in TABLES.values() for fact in each]
    before = None
    for series, row in SERIES.items():
        seen = [version for version in live if version.startswith(f"{series}.")]
        read = [_describe_source(*item) for item in tables.items() if item[0].startswith(f"{series}.")]
        is_neighbour = before is not None and row.profile.lives is before.profile.lives and not seen
        neighbour = f"as {before.series}" if before is not None and is_neighbour else ""
        routes = f"live brokers of {seen[0]}" if seen else neighbour or "the release notes and the source"
        rules = f"the source of {', '.join(read)}" if read else neighbour
        sources = Counter(fact.source_of(_find_brokers(fact)) for fact in facts if fact.since[:2] == row.since[:2])
        begun = ", ".join(f"{count} {source}" for source, count in sources.most_common()) or "none"
        yield f"| {series} | {routes} | {f'live brokers, {rules}' if seen else rules} | {begun} |\n"
        before = row


def _find_brokers(fact: Fact) -> tuple[Numbers, ...]:
    """Return the releases whose live brokers have shown a fact, whatever the upgrade."""
    newest = release_of("4.3")
    return fact.find_brokers(newest, newest)


def _describe_known(fact: Fact) -> str:
    if fact.since != ALWAYS:
        return describe_source(fact, _find_brokers(fact))
    live, other = describe_source(fact, LIVE), describe_source(fact, ())
    return live if live == other else f"{live}, for other releases {other}"


def _describe_source(release: str, recorded: Mapping[str, str]) -> str:
    """Name the source that was recorded for a release: that of its tag, else of a branch at a day."""
    if recorded["revision"] == f"v{release}":
        return release
    return f"{recorded['revision']} of {recorded['commit'].split()[1]}, before {release}"


def with_facts(page: str) -> str:
    """Return the page with all tables. Raises ValueError for a heading that it lacks."""
    tables = {
        title: HEAD
        + "".join(f"| {fact.id} | {fact.severity} | {fact.what} | {_describe_known(fact)} |\n" for fact in facts)
        for title, facts in TABLES.items()
    }
    for title, table in {**tables, KNOWN: KNOWN_HEAD + "".join(_describe_releases())}.items():
        before, *after = re.split(rf"\n### {title}\n\n(?:\|.*\n)+", page)
        if len(after) != 1:
            raise ValueError(f"the page has {len(after)} tables under {title!r}")
        page = f"{before}\n### {title}\n\n{table}{after[0]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_facts(PAGE.read_text("utf-8")), "utf-8")
