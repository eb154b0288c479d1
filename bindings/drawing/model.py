"""The nodes and edges of a drawing as values, without positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from bindings.checking.rules.table import Severity
from exchange.kinds import Decider, KeyUse
from exchange.partition.partitioning.specification import Partitioning

OWN_NAME: Final = "<its own name>"
"""The key on an edge to a bundle whose queues are each bound by its own name."""

NodeKind = Literal["exchange", "queue", "missing", "bundle", "partitions", "cut", "reference"]
EdgeKind = Literal["queue", "exchange", "alternate", "dead-letter", "partitions", "cut"]
"""A binding to a queue, a binding to an exchange, the way to an alternate exchange, the way of dead letters, the way to
partitions, or a way to what is not drawn."""


class NodeId(NamedTuple):
    """What a node stands for; unique in a drawing."""

    part: Literal["exchange", "queue", "bundle", "partitions", "source", "destination", "reference"]
    """``source`` and ``destination``: what stands for others before and behind the node of this name."""
    name: str
    qualifier: str = ""
    """What makes it unique: the part of the named node, for a reference also the node that leads to it."""


class Routing(NamedTuple):
    """How an exchange chooses among its bindings."""

    decider: Decider
    key_use: KeyUse


@dataclass(frozen=True, slots=True)
class Node:
    """An exchange, a queue, or what stands for others.

    - ``missing`` is an exchange or a queue that a binding or an exchange names, and that does not exist.
    - ``bundle`` stands for several queues with the same bindings, see `bindings.drawing.forms`.
    - ``partitions`` are those of a queue, see `bindings.drawing.forms`.
    - ``cut`` stands for nodes that are not drawn, see `bindings.drawing.surroundings`.
    - ``reference`` stands for a node that is drawn elsewhere, see `bindings.drawing.forms`.
    """

    id: NodeId
    kind: NodeKind
    detail: str = ""
    """The type of the exchange or the queue, with what else there is to know; the number of nodes that are cut off."""
    type: str = ""
    routing: Routing | None = None
    """How an exchange routes; None for all others."""
    partitioning: Partitioning | None = None
    """How the messages of a queue, or of each queue of a bundle, are distributed to partitions."""
    refers_to: NodeId | None = None
    """The node that a reference stands for, or that those it stands for lead to."""
    members: tuple[str, ...] = ()
    """The names of the queues of a bundle, sorted."""
    severity: Severity | None = None
    """The highest severity of the findings about it."""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """The bindings from one node to another, or another way between them."""

    source: NodeId
    target: NodeId
    labels: tuple[str, ...] = ()
    """Routing keys, with arguments where there are some, sorted. For an alternate exchange ``alternate``, or
    ``alternate?`` where it is not known whether it is in force. For dead letters the key that they get, nothing if they
    keep theirs. For partitions, the strategy and the key."""
    kind: EdgeKind = "queue"
    severity: Severity | None = None
    findings: tuple[str, ...] = ()
    unsure: bool = False
    """Whether it is not known which policy is in force, and so whether dead letters take this way."""

    @property
    def is_unsure(self) -> bool:
        """Whether it leads to an alternate exchange, or is of dead letters, and may not be in force."""
        return self.unsure or self.labels == ("alternate?",)


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that is drawn, in a stable order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int = 0
    """Number of exchanges and queues of the topology that are not drawn, see `bindings.drawing.surroundings`."""
    centres: frozenset[NodeId] = frozenset()
    """The nodes whose surroundings are drawn, which stay as they are; empty for a whole topology."""
