"""All facts about releases of RabbitMQ that matter to a topology, by their ids.

A row says since when a fact holds, where it is seen in a topology, what it means, and the way out. Its source is live
brokers, before and after, which the tests ask; brokers observed by hand; or the release notes. Ids are stable: a number
is never used for another fact. What releases refuse and how they route is not written down here again:
`bindings.upgrading.facts.refused` and `bindings.diff` ask the rules.
"""

from __future__ import annotations

from typing import Final

from bindings.upgrading.facts import applications, dead_letters, exchanges, nodes, queues, quorum, refused
from bindings.upgrading.facts.fact import Fact

__all__ = ["FACTS"]

THEMES: Final = (refused, queues, quorum, dead_letters, exchanges, applications, nodes)

FACTS: Final[tuple[Fact, ...]] = tuple(sorted((fact for theme in THEMES for fact in theme.FACTS), key=lambda f: f.id))
"""From HSU001 on about parts of a topology, from HSU101 on about what no topology shows."""
