"""Find what could be removed from a topology without changing a route: the findings that lead to a fix.

Every claim of a comparison is about messages with one routing key (no CC or BCC header). So a rule is in `FIXABLE` only
if what it finds makes no difference to messages with several keys either; each row has its reason.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from bindings.checking.rules.finding import Finding
from bindings.sources.language.expectations import Expectation
from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.part import Part
from exchange.topology.topology import Topology

FIXABLE: Final = MappingProxyType({
    "HS103": "whatever key matches it also matches the other binding of the same exchange",
    "HS104": "as HS103",
    "HS105": "as HS103: each key that matches it also matches one of the others",
    "HS106": "each key that matches it also takes the other path, which other keys do not close",
    "HS203": "no message gets to the exchange, whatever its keys",
    "HS207": "an exchange routes a message once; without an alternate exchange, a match leading nowhere has no effect",
    "HS501": "no message matches it",
})  # fmt: skip
"""Code of a rule whose findings are fixed -> why no message with several keys goes elsewhere."""


UNDECIDED: Final = "HS190"
"""Code of findings about bindings that may be covered."""


class Fix(NamedTuple):
    """What a finding leads to: parts of one virtual host that are removed together."""

    vhost: str
    finding: Finding
    parts: frozenset[Part]
    obstacle: str | None = None
    """Why this must not be done; None if nothing is known against it."""

    @property
    def removals(self) -> frozenset[Removal]:
        """The parts, with their virtual host."""
        return frozenset((self.vhost, part) for part in self.parts)


Removal: TypeAlias = tuple[str, Part]
"""A virtual host and a part in it that is to be removed."""


def find_fixes(
    topology: Topology, findings: Iterable[Finding], expectations: Iterable[Expectation], codes: Container[str]
) -> Iterator[Fix]:
    """Yield the fixes of the findings about a topology with one of these codes, in their order."""
    named = _named_exchanges(topology, expectations)
    for finding in findings:
        part = finding.part
        if finding.code not in codes or part is None:
            continue
        if finding.code == UNDECIDED:
            yield Fix(topology.vhost, finding, frozenset(), "it may be needed")
        elif finding.code in FIXABLE and isinstance(part, Binding):
            yield Fix(topology.vhost, finding, frozenset([part]), _find_obstacle(topology, finding.code, part))
        elif finding.code in FIXABLE and isinstance(part, Exchange):
            ends = topology.bindings_to(Destination("exchange", part.name))
            obstacle = f"an argument, a policy or an expectation names '{part.name}'" if part.name in named else None
            parts: frozenset[Part] = frozenset([part, *topology.bindings_from(part.name), *ends])
            yield Fix(topology.vhost, finding, parts, obstacle)


def _find_obstacle(topology: Topology, code: str, binding: Binding) -> str | None:
    """Return why a binding must not be removed; None if nothing is known against it."""
    exchange = topology.exchanges.get(binding.source)
    ends = topology.queues if binding.destination.kind == "queue" else topology.exchanges
    if exchange is None or binding.destination.name not in ends:
        return "the topology does not have what it binds"
    if code == "HS207" and ("alternate-exchange" in exchange.arguments or topology.policies):
        return "it keeps what matches it from an alternate exchange, which a policy can give as well"
    if exchange.auto_delete and len(topology.bindings_from(exchange.name)) == 1:
        return f"exchange '{exchange.name}' is deleted with its last binding"
    return None


def _named_exchanges(topology: Topology, expectations: Iterable[Expectation]) -> frozenset[str]:
    """Return the names that arguments, policies and expectations have: a part with such a name is not removed."""
    tables: list[Mapping[str, Any]] = [
        *(exchange.arguments for exchange in topology.exchanges.values()),
        *(queue.arguments for queue in topology.queues.values()),
        *(policy.definition for policy in topology.policies.values()),
    ]
    names = {value for table in tables for value in table.values() if isinstance(value, str)}
    return frozenset(names | {expectation.exchange for expectation in expectations})
