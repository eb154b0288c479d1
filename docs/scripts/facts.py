"""Write the tables of facts about releases in ``docs/upgrade.md``, as the code has them.

::

    $ python -m docs.scripts.facts
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bindings.upgrading.facts import applications, dead_letters, exchanges, nodes, queues, quorum, refused
from bindings.upgrading.facts.fact import Fact
from bindings.upgrading.forms.words import describe_source

__all__ = ["PAGE", "with_facts"]

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


def with_facts(page: str) -> str:
    """Return the page with the tables of all facts. Raises ValueError for a heading that it lacks."""
    for title, facts in TABLES.items():
        rows = "".join(f"| {fact.id} | {fact.severity} | {fact.what} | {describe_source(fact)} |\n" for fact in facts)
        table = f"\n### {title}\n\n{HEAD}{rows}"
        before, *after = re.split(rf"\n### {title}\n\n(?:\|.*\n)+", page)
        if len(after) != 1:
            raise ValueError(f"the page has {len(after)} tables under {title!r}")
        page = before + table + after[0]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_facts(PAGE.read_text("utf-8")), "utf-8")
