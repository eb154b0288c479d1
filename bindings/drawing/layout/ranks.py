"""Break the cycles of a graph, and rank its nodes: each other edge leads to a greater rank, and edges are short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ROUNDS: Final = 50
"""Maximum number of rounds in which nodes move closer to their neighbours. A few suffice but for long chains."""


def find_back_edges(count: int, edges: Sequence[tuple[int, int]]) -> list[bool]:
    """Return whether each edge leads back into the path of a depth-first walk; loops do not count.

    Without these edges the graph has no cycle. Nodes that no edge enters are walked from first: from there a walk
    follows most edges forwards. The walk is a loop: a chain of exchanges can be longer than Python's stack is deep.
    """
    out: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for index, (source, target) in enumerate(edges):
        if source != target:
            out[source].append(index)
            entered[target] += 1
    back = [False] * len(edges)
    state = [0] * count  # 0 not seen, 1 on the path, 2 done
    for root in sorted(range(count), key=lambda node: (entered[node], node)):
        if state[root]:
            continue
        state[root] = 1
        walk = [(root, iter(out[root]))]
        while walk:
            node, rest = walk[-1]
            for index in rest:
                target = edges[index][1]
                if state[target] == 1:
                    back[index] = True
                elif not state[target]:
                    state[target] = 1
                    walk.append((target, iter(out[target])))
                    break
            else:
                state[node] = 2
                walk.pop()
    return back


def rank_nodes(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the rank of each node, from 0. ``edges`` have no cycles and no loops.

    The rank is the length of the longest path to the node. Then nodes are moved where that makes the sum of the lengths
    of all edges smaller: with more edges out than in to the right, else to the left. A node only ever moves in one of
    the two directions, so the rounds end. A source exchange is drawn next to what it leads to, not at the far left.
    """
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
    order = _sort_topologically(before, after)
    ranks = [0] * count
    for node in order:
        ranks[node] = max((ranks[other] + 1 for other in before[node]), default=0)
    for _ in range(ROUNDS):
        has_moved = False
        for node in reversed(order):
            if after[node] and len(after[node]) >= len(before[node]):
                last = min(ranks[other] for other in after[node]) - 1
                has_moved |= last > ranks[node]
                ranks[node] = last
        for node in order:
            if len(before[node]) > len(after[node]):
                first = max(ranks[other] for other in before[node]) + 1
                has_moved |= first < ranks[node]
                ranks[node] = first
        if not has_moved:
            break
    lowest = min(ranks, default=0)
    return [rank - lowest for rank in ranks]


def _sort_topologically(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return the nodes so that each stands after all nodes from which an edge leads to it."""
    waiting = list(map(len, before))
    order = [node for node, number in enumerate(waiting) if not number]
    for node in order:  # grows while it is walked
        for target in after[node]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order
