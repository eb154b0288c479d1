"""Break the cycles of a graph: choose the edges that lead against the direction of all others."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["find_back_edges"]


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
