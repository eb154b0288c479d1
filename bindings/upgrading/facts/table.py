"""All facts about releases of RabbitMQ that matter to a topology, by their ids.

A row says since when a fact holds, where it is seen in a topology, what it means, and the way out. It is known by a
trial of the tests, from brokers observed by hand, the release notes, or the source. Which brokers have shown it follows
from the releases that the trials could ask, `exchange.entities.releases.LIVE`. Ids are stable: a number
is never used for another fact. What releases refuse and how they route is not written down here again:
`bindings.upgrading.facts.refused` and `bindings.diff` ask the rules.
"""

from __future__ import annotations

from typing import Final

from bindings.upgrading.facts import applications, dead_letters, exchanges, nodes, queues, quorum, refused
from bindings.upgrading.facts.fact import Fact

THEMES: Final = (refused, queues, quorum, dead_letters, exchanges, applications, nodes)

FACTS: Final[tuple[Fact, ...]] = tuple(sorted((fact for theme in THEMES for fact in theme.FACTS), key=lambda f: f.id))
"""From HSU001 on about parts of a topology, from HSU101 on about what no topology shows."""
